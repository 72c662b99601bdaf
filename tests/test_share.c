/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that ranks hand round after they have met: each gets the others'
 * and the right ones, as often as they like; or all get the same failure,
 * wherever it was, and no descriptor stays open.
 */
#include "share.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/error.h"

/* Far beyond what a busy machine needs. */
#define LONG_MS 40000u
/* The least that a rank waits in a share (OH__AGREE_MS). */
#define SHORT_MS 5000u
#define ROUNDS 6

enum {
	FAILED
};

/* Each send of the library goes through here: what the k-th of a thread does
 * instead, counted from 1; 0: none. */
static _Thread_local int odd_send;
static _Thread_local bool odd_send_kills;

ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
	if (odd_send && !--odd_send) {
		if (odd_send_kills)
			raise(SIGKILL);
		errno = ENOBUFS;
		return -1;
	}
	return (ssize_t)syscall(SYS_sendmsg, socket, message, flags);
}

/* All at first, then nothing, then the last rank alone, then any. */
static unsigned mask_of(const struct ranks_self *self, int rank, int round)
{
	if (round == 0)
		return SHARE_ALL;
	if (round == 1)
		return 0;
	if (round == 2)
		return rank == self->ranks - 1 ? 2 : 0;
	return ranks_mix(self->seed + (uint64_t)(round * OH_MAX_RANKS + rank)) &
	       SHARE_ALL;
}

static void share_once(struct ranks_self *self,
		       struct oh__rendezvous *rendezvous, int round)
{
	int fds[OH__SHARE_FDS], taken[OH_MAX_RANKS][OH__SHARE_FDS];

	ranks_at(self, "round %d", round);
	share_open(self->rank, round, mask_of(self, self->rank, round), fds);
	memset(taken, 0, sizeof(taken));
	ranks_fine(self, oh__rendezvous_share(rendezvous, OH_OK, fds, taken),
		   "oh__rendezvous_share");
	ranks_check(self,
		    share_right(self->rank, round,
				mask_of(self, self->rank, round), fds),
		    "round %d: this rank's own are no longer its", round);
	for (int i = 0; i < OH_MAX_RANKS; i++) {
		unsigned mask = i < self->ranks && i != self->rank
					? mask_of(self, i, round)
					: 0;

		ranks_check(self, share_right(i, round, mask, taken[i]),
			    "round %d: not what rank %d handed out", round, i);
		share_close(taken[i]);
	}
	share_close(fds);
}

static void rounds(struct ranks_self *self, struct oh__rendezvous *rendezvous)
{
	for (int round = 0; round < ROUNDS; round++) {
		share_once(self, rendezvous, round);
		if (round & 1)
			ranks_fine(self, oh__rendezvous_agree(rendezvous, 0),
				   "oh__rendezvous_agree");
	}
	oh__rendezvous_close(rendezvous);
}

/* As threads the program counts what is left, as processes the rank does. */
static void share_in_threads(struct ranks_self *self)
{
	struct oh__rendezvous rendezvous;

	if (share_meet(self, LONG_MS, &rendezvous))
		rounds(self, &rendezvous);
}

static void share_in_processes(struct ranks_self *self)
{
	struct leftovers before = leftovers_now();
	struct oh__rendezvous rendezvous;

	if (!share_meet(self, LONG_MS, &rendezvous))
		return;
	rounds(self, &rendezvous);
	share_leave(self, &rendezvous, &before);
}

/* A share of all descriptors that must fail. */
static void fails(struct ranks_self *self, struct oh__rendezvous *rendezvous,
		  enum oh_status own, enum oh_status expected, const char *part)
{
	int fds[OH__SHARE_FDS], taken[OH_MAX_RANKS][OH__SHARE_FDS];
	enum oh_status status;

	share_open(self->rank, 9, SHARE_ALL, fds);
	memset(taken, 0, sizeof(taken));
	status = oh__rendezvous_share(rendezvous, own, fds, taken);
	share_fails(self, status, expected, part, taken);
	ranks_check(self, share_right(self->rank, 9, SHARE_ALL, fds),
		    "this rank's own are no longer its");
	share_close(fds);
}

/* A rank's own failure: the local ones of a share are OH_ERR_SYSTEM too. */
static enum oh_status failure_of(int rank)
{
	return rank % 2 ? OH_ERR_SYSTEM : OH_ERR_UNSUPPORTED;
}

/* "MASK ROUND": those ranks fail in that round, the first of them counts. */
static void ranks_fail(struct ranks_self *self)
{
	struct leftovers before = leftovers_now();
	struct oh__rendezvous rendezvous;
	enum oh_status own = OH_OK;
	int first, round;
	unsigned mask;
	char text[64];

	if (sscanf(self->argument, "%x %d", &mask, &round) != 2)
		abort();
	first = __builtin_ctz(mask);
	if (!share_meet(self, LONG_MS, &rendezvous))
		return;
	for (int i = 0; i < round; i++)
		share_once(self, &rendezvous, i);
	ranks_at(self, "the failing round");
	if (mask >> self->rank & 1)
		own = OH__FAIL(failure_of(self->rank), "device %d is amiss",
			       self->rank);
	/* a rank's own words, and who said them on the others */
	snprintf(text, sizeof(text),
		 self->rank == first ? "device %d" : "rank %1$d: device %1$d",
		 first);
	fails(self, &rendezvous, own, failure_of(first), text);
	if (self->rank == first)
		ranks_check(self, !strstr(oh_last_error()->message, "rank"),
			    "not its own words: %s", oh_last_error()->message);
	share_leave(self, &rendezvous, &before);
}

/* A communicator of one rank: its own status, whatever that is. */
static void alone(struct ranks_self *self)
{
	struct leftovers before = leftovers_now();
	struct oh__rendezvous rendezvous;

	if (!share_meet(self, LONG_MS, &rendezvous))
		return;
	fails(self, &rendezvous,
	      OH__FAIL(OH_ERR_UNSUPPORTED, "device 0 is amiss"),
	      OH_ERR_UNSUPPORTED, "device 0");
	share_leave(self, &rendezvous, &before);
}

/* "ODD SEND": that rank is killed before that send, or cannot send it. */
static void odd_sends(struct ranks_self *self, bool kills)
{
	struct leftovers before = leftovers_now();
	struct oh__rendezvous rendezvous;
	char text[64];
	int odd, send;

	if (sscanf(self->argument, "%d %d", &odd, &send) != 2)
		abort();
	snprintf(text, sizeof(text),
		 kills ? "rank %d ended" : "rank %d: cannot", odd);
	if (!share_meet(self, LONG_MS, &rendezvous))
		return;
	if (self->rank == odd) {
		odd_send = send;
		odd_send_kills = kills;
		snprintf(text, sizeof(text), "cannot send");
	}
	fails(self, &rendezvous, OH_OK,
	      kills ? OH_ERR_PEER_LOST : OH_ERR_SYSTEM, text);
	share_leave(self, &rendezvous, &before);
}

static void killed(struct ranks_self *self)
{
	odd_sends(self, true);
}

static void cannot_send(struct ranks_self *self)
{
	odd_sends(self, false);
}

/* Rank 1 has failed, and cannot be told that all know of it. */
static void cannot_tell(struct ranks_self *self)
{
	struct leftovers before = leftovers_now();
	struct oh__rendezvous rendezvous;
	enum oh_status own = OH_OK;

	if (!share_meet(self, LONG_MS, &rendezvous))
		return;
	if (self->rank == 1)
		own = OH__FAIL(OH_ERR_UNSUPPORTED, "device 1 is amiss");
	odd_send = self->rank == 0;
	if (self->rank == 1)
		fails(self, &rendezvous, own, OH_ERR_PEER_LOST, "rank 0 ended");
	else
		fails(self, &rendezvous, own, OH_ERR_UNSUPPORTED,
		      "rank 1: device 1");
	share_leave(self, &rendezvous, &before);
}

/* "ODD AMISS": that rank comes when the others have given up, perhaps with a
 * failure of its own. Rank 0 has decided, or finds that they went. */
static void comes_late(struct ranks_self *self)
{
	struct leftovers before = leftovers_now();
	struct oh__rendezvous rendezvous;
	enum oh_status own = OH_OK;
	int odd, amiss;
	char text[64];

	if (sscanf(self->argument, "%d %d", &odd, &amiss) != 2)
		abort();
	if (!share_meet(self, SHORT_MS, &rendezvous))
		return;
	snprintf(text, sizeof(text), "rank %d did not finish", odd);
	if (self->rank == odd) {
		ranks_await(&self->words[FAILED], (uint64_t)self->ranks - 1);
		if (amiss)
			own = OH__FAIL(OH_ERR_UNSUPPORTED, "device is amiss");
	}
	if (self->rank == odd && odd == 0)
		fails(self, &rendezvous, own, OH_ERR_PEER_LOST, "rank 1 ended");
	else
		fails(self, &rendezvous, own, OH_ERR_TIMEOUT, text);
	share_leave(self, &rendezvous, &before);
	atomic_fetch_add(&self->words[FAILED], 1);
}

/* "ODD": that rank takes its time, but the deadline was a long one. */
static void takes_time(struct ranks_self *self)
{
	struct leftovers before = leftovers_now();
	struct oh__rendezvous rendezvous;

	if (!share_meet(self, LONG_MS, &rendezvous))
		return;
	if (self->rank == atoi(self->argument))
		usleep((SHORT_MS + 1000) * 1000);
	share_once(self, &rendezvous, 0);
	share_leave(self, &rendezvous, &before);
}

/* "ODD": that rank agrees where the others share. */
static void other_order(struct ranks_self *self)
{
	int taken[OH_MAX_RANKS][OH__SHARE_FDS];
	struct leftovers before = leftovers_now();
	struct oh__rendezvous rendezvous;
	int odd = atoi(self->argument);
	char text[96];

	if (!share_meet(self, LONG_MS, &rendezvous))
		return;
	snprintf(text, sizeof(text),
		 odd ? "rank %d sent a message of type 3 where its descriptors"
		     : "rank 1 sent a message of type 5 where its verdict",
		 odd);
	memset(taken, -1, sizeof(taken));
	if (self->rank == odd)
		share_fails(self, oh__rendezvous_agree(&rendezvous, OH_OK),
			    OH_ERR_PROTOCOL, text, taken);
	else
		fails(self, &rendezvous, OH_OK, OH_ERR_PROTOCOL, text);
	share_leave(self, &rendezvous, &before);
}

/* Descriptors that take all room but some. */
#define LIMIT 64

struct filler {
	struct rlimit before;
	int fds[LIMIT], count;
};

static void fill(struct filler *filler, int spare)
{
	struct rlimit few;

	getrlimit(RLIMIT_NOFILE, &filler->before);
	few = (struct rlimit){LIMIT, filler->before.rlim_max};
	setrlimit(RLIMIT_NOFILE, &few);
	while (filler->count < LIMIT &&
	       (filler->fds[filler->count] = dup(STDOUT_FILENO)) >= 0)
		filler->count++;
	while (spare-- > 0 && filler->count > 0)
		close(filler->fds[--filler->count]);
}

static void empty(struct filler *filler)
{
	while (filler->count > 0)
		close(filler->fds[--filler->count]);
	setrlimit(RLIMIT_NOFILE, &filler->before);
}

/* "ODD SPARE LOW": that rank has room for so many; if LOW, descriptor 0 is one
 * of them, which nothing of the library may become. */
static void no_room(struct ranks_self *self)
{
	struct leftovers before;
	struct filler filler = {0};
	struct oh__rendezvous rendezvous;
	int odd, spare, low, input;
	char text[96];

	if (sscanf(self->argument, "%d %d %d", &odd, &spare, &low) != 3)
		abort();
	before = leftovers_now();
	if (!share_meet(self, LONG_MS, &rendezvous))
		return;
	snprintf(text, sizeof(text),
		 "rank %d: no room for the descriptors that"
		 " rank",
		 odd);
	if (self->rank != odd) {
		fails(self, &rendezvous, OH_OK, OH_ERR_SYSTEM, text);
	} else {
		int fds[OH__SHARE_FDS], taken[OH_MAX_RANKS][OH__SHARE_FDS];
		enum oh_status status;

		share_open(odd, 9, SHARE_ALL, fds);
		fill(&filler, spare);
		input = low ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : -1;
		if (low)
			close(STDIN_FILENO);
		status = oh__rendezvous_share(&rendezvous, OH_OK, fds, taken);
		if (low)
			dup2(input, STDIN_FILENO);
		close(input);
		empty(&filler);
		share_fails(self, status, OH_ERR_SYSTEM, "no room", taken);
		share_close(fds);
	}
	share_leave(self, &rendezvous, &before);
}

/* As many as it takes, and not one more. */
static void just_room(struct ranks_self *self)
{
	int fds[OH__SHARE_FDS], taken[OH_MAX_RANKS][OH__SHARE_FDS];
	struct leftovers before = leftovers_now();
	struct filler filler = {0};
	struct oh__rendezvous rendezvous;

	if (!share_meet(self, LONG_MS, &rendezvous))
		return;
	share_open(self->rank, 0, SHARE_ALL, fds);
	fill(&filler, (self->ranks - 1) * OH__SHARE_FDS);
	ranks_fine(self, oh__rendezvous_share(&rendezvous, OH_OK, fds, taken),
		   "oh__rendezvous_share");
	empty(&filler);
	for (int i = 0; i < self->ranks; i++)
		share_close(taken[i]);
	share_close(fds);
	share_leave(self, &rendezvous, &before);
}

/* "ODD": one of that rank's is not open. */
static void not_open(struct ranks_self *self)
{
	int taken[OH_MAX_RANKS][OH__SHARE_FDS];
	const int fds[OH__SHARE_FDS] = {-1, STDOUT_FILENO, 19999, -1};
	struct leftovers before = leftovers_now();
	struct oh__rendezvous rendezvous;
	int odd = atoi(self->argument);
	char text[64];

	if (!share_meet(self, LONG_MS, &rendezvous))
		return;
	snprintf(text, sizeof(text), "rank %d: cannot send", odd);
	if (self->rank == odd)
		share_fails(
			self,
			oh__rendezvous_share(&rendezvous, OH_OK, fds, taken),
			OH_ERR_SYSTEM, "cannot send", taken);
	else
		fails(self, &rendezvous, OH_OK, OH_ERR_SYSTEM, text);
	share_leave(self, &rendezvous, &before);
}

enum {
	THREADS,
	PROCESSES,
	FAIL,
	ALONE,
	KILLED,
	CANNOT_SEND,
	CANNOT_TELL,
	LATE,
	TAKES_TIME,
	ORDER,
	NO_ROOM,
	JUST_ROOM,
	NOT_OPEN
};

static const struct ranks_case cases[] = {
	[THREADS] = {"share", share_in_threads},
	[PROCESSES] = {"share-fresh", share_in_processes},
	[FAIL] = {"ranks-fail", ranks_fail},
	[ALONE] = {"fails-alone", alone},
	[KILLED] = {"killed-at-send", killed},
	[CANNOT_SEND] = {"cannot-send", cannot_send},
	[CANNOT_TELL] = {"cannot-tell", cannot_tell},
	[LATE] = {"comes-late", comes_late},
	[TAKES_TIME] = {"takes-time", takes_time},
	[ORDER] = {"other-order", other_order},
	[NO_ROOM] = {"no-room", no_room},
	[JUST_ROOM] = {"just-room", just_room},
	[NOT_OPEN] = {"not-open", not_open},
	{0}};

__attribute__((format(printf, 4, 5))) static void
try(int which, int ranks, uint32_t dies, const char *format, ...)
{
	char argument[32];
	struct ranks_options options = {.ranks = ranks, .dies = dies};
	va_list args;

	va_start(args, format);
	vsnprintf(argument, sizeof(argument), format, args);
	va_end(args);
	if (*argument)
		options.argument = argument;
	ranks_report_later(ranks_start(&cases[which], &options));
}

/* 16 ranks as threads hold more than 1024 descriptors at once. */
static bool room_for(int ranks)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	/* ranks^2 of a rendezvous and a share, and a socket each way */
	return limit.rlim_max >
	       (rlim_t)(ranks * ranks * (OH__RANK_FDS + OH__SHARE_FDS + 2) +
			64);
}

static void test_threads(int ranks)
{
	struct ranks_options options = {.ranks = ranks};
	struct leftovers before = leftovers_now(), after;

	if (!room_for(ranks)) {
		tap_skip("16 ranks as threads", "the limit of open files");
		return;
	}
	ranks_threads(&cases[THREADS], &options);
	after = leftovers_now();
	/* a sanitizer may have started threads of its own */
	tap_ok(after.fds == before.fds, "%d descriptors before, %d after",
	       before.fds, after.fds);
}

static void test_failing_ranks(void)
{
	for (int odd = 0; odd < 3; odd++) {
		try(FAIL, 3, 0, "%x 0", 1u << odd);
		try(FAIL, 3, 0, "%x 4", 1u << odd);
	}
	for (int odd = 0; odd < 2; odd++)
		try(FAIL, 2, 0, "%x 1", 1u << odd);
	for (int odd = 0; odd < OH_MAX_RANKS; odd += ranks_quick() ? 5 : 1)
		try(FAIL, 16, 0, "%x 1", 1u << odd);
	try(FAIL, 3, 0, "6 0");
	try(FAIL, 3, 0, "5 1");
	try(FAIL, 16, 0, "ffff 0");
	try(ALONE, 1, 0, "%s", "");
}

static void test_odd_sends(void)
{
	/* a member sends its descriptors and a verdict, rank 0 both to each:
	 * who has been told that all is well may go on without the rest */
	for (int odd = 0; odd < 3; odd++)
		for (int send = 1; send <= (odd ? 2 : 3); send++)
			try(KILLED, 3, 1u << odd, "%d %d", odd, send);
	try(KILLED, 16, 1u << 0, "0 8");
	try(KILLED, 16, 1u << 15, "15 2");
	/* what cannot be told is not known: verdicts are left out */
	for (int odd = 0; odd < 3; odd++)
		for (int send = 1; send <= (odd ? 1 : 2); send++)
			try(CANNOT_SEND, 3, 0, "%d %d", odd, send);
	try(CANNOT_SEND, 16, 0, "0 8");
	try(CANNOT_TELL, 3, 0, "%s", "");
	for (int odd = 0; odd < 3; odd++)
		try(NOT_OPEN, 3, 0, "%d", odd);
	for (int odd = 0; odd < 3; odd++)
		try(ORDER, 3, 0, "%d", odd);
}

static void test_rooms(void)
{
	/* each rank takes 8 */
	for (int odd = 0; odd < 3; odd++)
		for (int spare = 0; spare < 8; spare += odd ? 7 : 1)
			try(NO_ROOM, 3, 0, "%d %d 0", odd, spare);
	for (int odd = 0; odd < 3; odd++)
		try(NO_ROOM, 3, 0, "%d 8 1", odd);
	try(JUST_ROOM, 3, 0, "%s", "");
}

int main(int argc, char **argv)
{
	static const int sizes[] = {1, 2, 3, 16};

	setenv("ONEHOP_LOG", "off", 1);
	ranks_main(argc, argv, cases);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		test_threads(sizes[i]);
		try(PROCESSES, sizes[i], 0, "%s", "");
	}
	ranks_report_all();
	for (int odd = 0; odd < 3; odd++)
		try(LATE, 3, 0, "%d 0", odd);
	try(LATE, 3, 0, "2 1");
	try(TAKES_TIME, 3, 0, "1");
	test_failing_ranks();
	test_odd_sends();
	test_rooms();
	ranks_report_all();
	return tap_done();
}
