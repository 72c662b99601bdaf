/* SPDX-License-Identifier: MIT */
/*
 * How ranks meet, and above all how they do not: each failure is the same on
 * all ranks, says who and what, comes by the deadline, and leaves nothing.
 */
#include "forge.h"
#include "leftovers.h"
#include "mailbox/segment.h"
#include "ranks.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS 1000000u
/* Of ranks that miss one; what runs slowly needs it to come at all. */
#define SHORT_MS (ranks_quick() ? 1500u : 300u)
/* How long a rank waits before it dies. */
#define LIFE_MS (ranks_quick() ? 1500u : 200u)
/* Of all others: far beyond what a busy machine needs. */
#define LONG_MS 40000u
/* How long rank 0 stays for latecomers (OH__GRACE_MS of meeting.h), and
 * what a busy machine takes. */
#define BEYOND_MS (2000u + 5000u)

/* An instruction set that this build does not have. */
#ifdef __aarch64__
#define FOREIGN_ISA "avx2"
#else
#define FOREIGN_ISA "neon"
#endif

enum {
	MET,
	FAILED
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static enum oh_status meet_at(const struct oh_unique_id *id, int rank,
			      int ranks, unsigned ms, struct oh_comm **comm)
{
	struct oh_comm_options options = {
		.size = sizeof(options),
		.id = id,
		.rank = rank,
		.ranks = ranks,
		.rendezvous_timeout_ms = ms,
		.call_timeout_ms = LONG_MS,
	};

	return oh_comm_create(&options, comm);
}

static void check_call(struct ranks_self *self, struct oh_comm *comm)
{
	int32_t in = 1, out = 0;

	ranks_fine(self,
		   oh_all_reduce(comm, &in, &out, 1, OH_I32, OH_SUM, NULL),
		   "oh_all_reduce");
	ranks_check(self, out == oh_comm_ranks(comm), "the sum is %d", out);
}

/* This rank's attempt, which must fail so, and leave nothing. */
static void fails(struct ranks_self *self, int rank, int ranks, unsigned ms,
		  enum oh_status expected, const char *part)
{
	struct leftovers before = leftovers_now(), after;
	struct oh_comm *comm = NULL;
	enum oh_status status;
	char text[256];

	ranks_at(self, "oh_comm_create as rank %d of %d", rank, ranks);
	status = meet_at(&self->ids[0], rank, ranks, ms, &comm);
	ranks_check(self, status == expected, "%s, expected %s: %s",
		    oh_status_name(status), oh_status_name(expected),
		    oh_last_error()->message);
	ranks_check(self, strstr(oh_last_error()->message, part),
		    "'%s' is not in: %s", part, oh_last_error()->message);
	ranks_check(self, !comm, "*comm was set");
	oh_comm_destroy(comm);
	after = leftovers_now();
	ranks_check(self, leftovers_none(&before, &after), "left behind: %s",
		    leftovers_text(&before, &after, text));
}

/* Rank "ODD" says that there is one more. */
static void sizes_differ(struct ranks_self *self)
{
	int ranks = self->ranks + (self->rank == atoi(self->argument));

	fails(self, self->rank, ranks, LONG_MS, OH_ERR_MISMATCH,
	      "disagree on their number");
}

/* Rank "ODD" says it is another one, "CLAIMED". */
static void rank_twice(struct ranks_self *self)
{
	int odd, claimed;
	char text[64];

	if (sscanf(self->argument, "%d %d", &odd, &claimed) != 2)
		abort();
	snprintf(text, sizeof(text), "two processes say they are rank %d",
		 claimed);
	fails(self, self->rank == odd ? claimed : self->rank, self->ranks,
	      LONG_MS, OH_ERR_MISMATCH, text);
}

/* "NAME=VALUE" on rank 1, the default on the others. */
static void settings_differ(struct ranks_self *self)
{
	char name[64];
	const char *value = strchr(self->argument, '=');

	snprintf(name, sizeof(name), "%.*s", (int)(value - self->argument),
		 self->argument);
	if (self->rank == 1)
		setenv(name, value + 1, 1);
	fails(self, self->rank, self->ranks, LONG_MS, OH_ERR_MISMATCH, name);
}

/* "ODD STATUS NAME=VALUE": one rank fails before it can meet the others, the
 * slow one, the first or the last. */
static void declines(struct ranks_self *self)
{
	char name[64], value[64], status[64], text[128];
	enum oh_status expected = OH_ERR_SETTING;
	int odd;

	if (sscanf(self->argument, "%d %63s %63[^=]=%63s", &odd, status, name,
		   value) != 4)
		abort();
	if (!strcmp(status, "unsupported"))
		expected = OH_ERR_UNSUPPORTED;
	/* a rank's own words, and who said them on the others */
	snprintf(text, sizeof(text), "rank %d cannot join: %s", odd, name);
	if (self->rank == odd) {
		setenv(name, value, 1);
		snprintf(text, sizeof(text), "%s", name);
	}
	fails(self, self->rank, self->ranks, LONG_MS, expected, text);
	if (self->rank == odd)
		ranks_check(self, !strstr(oh_last_error()->message, "join"),
			    "not its own words: %s", oh_last_error()->message);
}

/* All have the same fault; each says its own or the first's. */
static void all_decline(struct ranks_self *self)
{
	setenv("ONEHOP_SPIN", "sometimes", 1);
	fails(self, self->rank, self->ranks, LONG_MS, OH_ERR_SETTING,
	      "ONEHOP_SPIN");
}

/* Nobody else comes: the rank's own failure, and soon. */
static void declines_alone(struct ranks_self *self)
{
	uint64_t start = now_ns(), ms;

	if (self->rank != atoi(self->argument))
		return;
	setenv("ONEHOP_SPIN", "sometimes", 1);
	fails(self, self->rank, self->ranks, LONG_MS, OH_ERR_SETTING,
	      "ONEHOP_SPIN");
	ms = (now_ns() - start) / NS_PER_MS;
	ranks_check(self, ms < BEYOND_MS, "it took %llu ms",
		    (unsigned long long)ms);
}

/* Rank "ODD" never comes. */
static void never_comes(struct ranks_self *self)
{
	int odd = atoi(self->argument);
	uint64_t start, ms;
	char text[64];

	ranks_barrier(self);
	start = now_ns();
	if (self->rank == odd)
		return;
	snprintf(text, sizeof(text), odd ? "missing rank %d" : "rank %d of 3",
		 odd);
	fails(self, self->rank, self->ranks, SHORT_MS, OH_ERR_TIMEOUT, text);
	ms = (now_ns() - start) / NS_PER_MS;
	/* rank 0's deadline counts, and it may have come a little earlier */
	ranks_check(self, ms >= SHORT_MS / 2 && ms < SHORT_MS + BEYOND_MS,
		    "it took %llu ms, the deadline was %u",
		    (unsigned long long)ms, SHORT_MS);
}

/* Rank 0 may wait far longer than rank 1; the last never comes, and all say
 * so when rank 1 has had enough of it. */
static void deadlines_differ(struct ranks_self *self)
{
	if (self->rank == self->ranks - 1)
		return;
	fails(self, self->rank, self->ranks,
	      self->rank == 1 ? SHORT_MS : LONG_MS, OH_ERR_TIMEOUT,
	      "3 of 4 ranks came before rank 1's deadline, missing rank 3");
}

static void nap_ms(unsigned ms)
{
	struct timespec nap = {ms / 1000, ms % 1000 * (long)NS_PER_MS};

	nanosleep(&nap, NULL);
}

/* This process is ended by its alarm. */
static void die_in_ms(unsigned ms)
{
	struct itimerval timer = {.it_value = {ms / 1000, ms % 1000 * 1000}};

	setitimer(ITIMER_REAL, &timer, NULL);
}

/* Rank 1 dies while it waits for rank 2, who comes later. */
static void member_dies(struct ranks_self *self)
{
	ranks_barrier(self);
	if (self->rank == 1)
		die_in_ms(LIFE_MS);
	if (self->rank == 2)
		nap_ms(LIFE_MS + 400);
	fails(self, self->rank, self->ranks, LONG_MS, OH_ERR_PEER_LOST,
	      "rank 1 ended");
}

/* Rank 0 is ended while it and ranks 1 and 2 wait for the last. */
static void root_dies(struct ranks_self *self)
{
	ranks_barrier(self);
	if (self->rank == 3)
		return;
	if (self->rank == 0)
		die_in_ms(LIFE_MS);
	fails(self, self->rank, self->ranks, LONG_MS, OH_ERR_PEER_LOST,
	      "rank 0 closed");
}

/* The last rank comes when the others have failed; "MS" later. */
static void latecomer(struct ranks_self *self)
{
	unsigned late_ms = (unsigned)atoi(self->argument);
	bool told = late_ms < 2000;

	if (self->rank == 2) {
		nap_ms(late_ms);
		fails(self, 2, 3, told ? LONG_MS : SHORT_MS,
		      told ? OH_ERR_MISMATCH : OH_ERR_TIMEOUT,
		      told ? "disagree" : "did not open");
		return;
	}
	fails(self, self->rank, 3 + self->rank, LONG_MS, OH_ERR_MISMATCH,
	      "disagree");
}

static void wrong_id(struct ranks_self *self)
{
	if (self->rank)
		self->ids[0] = self->ids[1];
	ranks_barrier(self);
	fails(self, self->rank, 2, SHORT_MS, OH_ERR_TIMEOUT,
	      self->rank ? "rank 0 of 2" : "missing rank 1");
}

/* A third process says it is rank 1 of two that have met. */
static void one_too_many(struct ranks_self *self)
{
	struct oh_comm *comm;

	if (self->rank == 2) {
		ranks_await(&self->words[MET], 2);
		fails(self, 1, 2, SHORT_MS, OH_ERR_TIMEOUT, "did not open");
		atomic_fetch_add(&self->words[FAILED], 1);
		return;
	}
	if (!ranks_fine(self,
			meet_at(&self->ids[0], self->rank, 2, LONG_MS, &comm),
			"oh_comm_create"))
		return;
	atomic_fetch_add(&self->words[MET], 1);
	ranks_await(&self->words[FAILED], 1);
	check_call(self, comm);
	oh_comm_destroy(comm);
}

/* Into a user namespace, there as uid 65534, the overflow uid. */
static bool become_unknown(void)
{
	char map[64];
	int bytes = snprintf(map, sizeof(map), "65534 %d 1", (int)geteuid());
	int fd;
	bool done;

	if (unshare(CLONE_NEWUSER))
		return false;
	fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
	done = fd >= 0 && write(fd, map, (size_t)bytes) == bytes;
	close(fd);
	return done && geteuid() == 65534;
}

/* Every user who is not mapped has this uid. */
static void unknown_user(struct ranks_self *self)
{
	if (ranks_check(self, become_unknown(), "no user namespace"))
		fails(self, self->rank, self->ranks, LONG_MS,
		      OH_ERR_UNSUPPORTED, "user namespace");
}

/* All meet, with one id after the other and with two at once. */
static void all_meet(struct ranks_self *self)
{
	struct oh_comm *first = ranks_comm(self, 0);
	struct oh_comm *second = ranks_comm(self, 1);

	if (first && second) {
		ranks_check(self, oh_comm_rank(first) == self->rank,
			    "rank is %d", oh_comm_rank(first));
		check_call(self, second);
		check_call(self, first);
	}
	oh_comm_destroy(first);
	/* the id's place is free again */
	first = ranks_comm(self, 0);
	if (first)
		check_call(self, first);
	oh_comm_destroy(second);
	oh_comm_destroy(first);
}

/* Forged hellos: rank 1 is none of this library's. */

enum forgery {
	OTHER_PROTOCOL,
	OTHER_COUNT,
	OTHER_MAILBOX
};

static void forge(struct oh__message *message, enum forgery kind)
{
	struct oh__hello *hello = &message->body.hello;
	struct oh__facts facts;

	if (kind == OTHER_PROTOCOL)
		message->header.protocol++;
	if (kind == OTHER_COUNT)
		hello->agree_count++;
	memcpy(&facts, hello->facts, sizeof(facts));
	facts.protocol += kind == OTHER_MAILBOX;
	memcpy(hello->facts, &facts, sizeof(facts));
	forge_check(message);
}

static void forged(struct ranks_self *self)
{
	static const char *const texts[] = {"speaks rendezvous protocol",
					    "common settings",
					    "mailbox protocol"};
	int kind = atoi(self->argument);
	struct oh__meeting_place place = forge_place(&self->ids[0]);
	struct oh__incoming hello;
	struct oh__verdict verdict;
	bool answered = false;
	int fd;

	if (self->rank != 1) {
		fails(self, self->rank, self->ranks, LONG_MS, OH_ERR_MISMATCH,
		      texts[kind]);
		return;
	}
	forge_hello(&place, 1, self->ranks, &hello);
	forge(&hello.message, (enum forgery)kind);
	fd = forge_connect(&place);
	forge_send_message(fd, &hello.message, hello.fds, hello.fd_count);
	oh__incoming_close(&hello);
	/* a welcome may come before it */
	for (int i = 0; i < 2 && !answered; i++)
		answered = forge_answer(fd, &verdict);
	ranks_check(self, answered && verdict.status == OH_ERR_MISMATCH,
		    "the answer was %u", answered ? verdict.status : 0);
	close(fd);
}

enum {
	SIZES,
	TWICE,
	SETTINGS,
	DECLINES,
	ALL_DECLINE,
	DECLINES_ALONE,
	NEVER,
	DEADLINES,
	MEMBER_DIES,
	ROOT_DIES,
	LATE,
	WRONG_ID,
	TOO_MANY,
	UNKNOWN,
	MEET,
	FORGED
};

static const struct ranks_case cases[] = {
	[SIZES] = {"sizes-differ", sizes_differ},
	[TWICE] = {"rank-twice", rank_twice},
	[SETTINGS] = {"settings-differ", settings_differ},
	[DECLINES] = {"declines", declines},
	[ALL_DECLINE] = {"all-decline", all_decline},
	[DECLINES_ALONE] = {"declines-alone", declines_alone},
	[NEVER] = {"never-comes", never_comes},
	[DEADLINES] = {"deadlines-differ", deadlines_differ},
	[MEMBER_DIES] = {"a-rank-dies", member_dies},
	[ROOT_DIES] = {"rank-0-dies", root_dies},
	[LATE] = {"latecomer", latecomer},
	[WRONG_ID] = {"wrong-id", wrong_id},
	[TOO_MANY] = {"one-too-many", one_too_many},
	[UNKNOWN] = {"unknown-user", unknown_user},
	[MEET] = {"meet", all_meet},
	[FORGED] = {"forged", forged},
	{0}};

static void try(int which, int ranks, const char *argument, uint32_t dies)
{
	struct ranks_options options = {
		.ranks = ranks, .argument = argument, .dies = dies};

	ranks_report_later(ranks_start(&cases[which], &options));
}

static void test_ids(void)
{
	struct oh_unique_id a, b, zero = {{0}};
	struct oh_comm *comm = NULL;
	int accepted = 0;

	tap_ok(oh_unique_id_create(NULL) == OH_ERR_INVALID, "id NULL");
	tap_ok(!oh_unique_id_create(&a) && !oh_unique_id_create(&b) &&
		       memcmp(&a, &b, sizeof(a)),
	       "two ids differ");
	tap_ok(meet_at(&zero, 0, 1, 100, &comm) == OH_ERR_INVALID && !comm,
	       "an id of zeros is refused");
	/* magic, name, secret, checksum; the rest is not used */
	for (size_t i = 0; i < 4 + 16 + OH__SECRET_BYTES + 4; i++) {
		b = a;
		b.bytes[i] ^= 0x10;
		accepted += meet_at(&b, 0, 1, 100, &comm) != OH_ERR_INVALID;
	}
	tap_ok(!accepted, "an id that is damaged in any byte is refused");
}

static void test_options(void)
{
	static const int wrong[][2] = {{-1, 2}, {2, 2},	 {0, 0},
				       {0, -1}, {0, 17}, {16, 16}};
	struct oh_comm_options options = {.size = 8};
	struct oh_comm *comm = NULL;
	struct oh_unique_id id;
	int accepted = 0;

	oh_unique_id_create(&id);
	options.id = &id;
	options.ranks = 1;
	tap_ok(oh_comm_create(&options, &comm) == OH_ERR_INVALID,
	       "options->size too small");
	options.size = sizeof(options);
	tap_ok(oh_comm_create(&options, NULL) == OH_ERR_INVALID, "comm NULL");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		accepted += meet_at(&id, wrong[i][0], wrong[i][1], 100,
				    &comm) != OH_ERR_INVALID;
	tap_ok(!accepted && !comm, "rank and ranks out of range");
	options.size += 64; /* of a later version */
	tap_ok(!oh_comm_create(&options, &comm), "options of a later version");
	oh_comm_destroy(comm);
}

static void test_unknown_user(void)
{
	pid_t child = fork();
	int status = 1;

	if (!child)
		_exit(!become_unknown());
	if (child < 0 || waitpid(child, &status, 0) < 0 || status)
		tap_skip("unknown-user", "no user namespace here");
	else
		try(UNKNOWN, 2, NULL, 0);
}

static void test_failures(void)
{
	static const char *const settings[] = {
		"ONEHOP_SLOT_BYTES=8192",     "ONEHOP_HEAP_BYTES=2M",
		"ONEHOP_FIRST_CALL=5",	      "ONEHOP_ALGORITHM=two-shot",
		"ONEHOP_STORES=non-temporal", "ONEHOP_TUNE=off"};

	try(SIZES, 3, "0", 0);
	try(SIZES, 3, "1", 0);
	try(TWICE, 3, "2 1", 0);
	try(TWICE, 3, "1 0", 0);
	try(TWICE, 2, "1 0", 0);
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		try(SETTINGS, 3, settings[i], 0);
	try(DECLINES, 3, "0 setting ONEHOP_SPIN=sometimes", 0);
	try(DECLINES, 3, "1 setting ONEHOP_SPIN=sometimes", 0);
	try(DECLINES, 16, "15 setting ONEHOP_SPIN=sometimes", 0);
	try(DECLINES, 2, "0 unsupported ONEHOP_ISA=" FOREIGN_ISA, 0);
	try(DECLINES, 3, "2 unsupported ONEHOP_ISA=" FOREIGN_ISA, 0);
	try(ALL_DECLINE, 3, NULL, 0);
	try(DECLINES_ALONE, 3, "0", 0);
	try(DECLINES_ALONE, 3, "2", 0);
	try(NEVER, 3, "0", 0);
	try(NEVER, 3, "1", 0);
	try(NEVER, 3, "2", 0);
	try(DEADLINES, 4, NULL, 0);
	try(MEMBER_DIES, 3, NULL, 1u << 1);
	try(ROOT_DIES, 4, NULL, 1u << 0);
	try(LATE, 3, "700", 0);
	if (!ranks_quick())
		try(LATE, 3, "3500", 0);
	try(WRONG_ID, 2, NULL, 0);
	test_unknown_user();
	try(TOO_MANY, 3, NULL, 0);
	try(FORGED, 3, "0", 0);
	try(FORGED, 3, "1", 0);
	try(FORGED, 3, "2", 0);
}

int main(int argc, char **argv)
{
	static const int sizes[] = {1, 2, 5, 16};

	setenv("ONEHOP_LOG", "off", 1);
	setenv("ONEHOP_HEAP_BYTES", "1M", 1);
	ranks_main(argc, argv, cases);
	test_ids();
	test_options();
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		ranks_threads(&cases[MEET],
			      &(struct ranks_options){.ranks = sizes[i]});
		ranks_processes(&cases[MEET],
				&(struct ranks_options){.ranks = sizes[i]});
	}
	test_failures();
	ranks_report_all();
	return tap_done();
}
