/* SPDX-License-Identifier: MIT */
/*
 * Communicators made and ended many times, several at once, and made in vain:
 * without descriptors, address space or file size, with wrong settings. Each
 * failure says what is missing, and nothing grows.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/settings.h"
#include "leftovers.h"
#include "ranks.h"

/* A sanitizer has a heap and mappings of its own, and takes more at any time:
 * of ours nothing can be told, and a limit would be its end. */
#define SANITIZED (!LEFTOVERS_HEAP)

/* Words: the rest is an id. */
enum {
	MADE,
	CHECKED,
	ID = 16
};

/* Of what the C library keeps for itself. */
#define MAPS_SLACK 8
#define HEAP_SLACK (64 << 10)
#define RESIDENT_SLACK (4l << 20)

static atomic_int wrong_unmaps;

#if !SANITIZED
/*
 * In the place of the C library's: what is unmapped must have been mapped. A
 * second unmap does no harm here, but would to a thread that has mapped
 * something at that address in between.
 */
int munmap(void *address, size_t bytes)
{
	unsigned char resident;

	if (mincore(address, 1, &resident) < 0 && errno == ENOMEM)
		wrong_unmaps++;
	return (int)syscall(SYS_munmap, address, bytes);
}
#endif

static enum oh_status create(const struct oh_unique_id *id, int rank, int ranks,
			     unsigned ms, struct oh_comm **comm)
{
	struct oh_comm_options options = {
		.size = sizeof(options),
		.id = id,
		.rank = rank,
		.ranks = ranks,
		.rendezvous_timeout_ms = ms,
		.call_timeout_ms = 40000,
	};

	*comm = NULL;
	return oh_comm_create(&options, comm);
}

static void check_leftovers(struct ranks_self *self,
			    const struct leftovers *before)
{
	struct leftovers after = leftovers_now();
	char text[256];

	ranks_check(self, leftovers_none(before, &after), "left behind: %s",
		    leftovers_text(before, &after, text));
}

/* Rank 0 makes an id for all. */
static struct oh_unique_id next_id(struct ranks_self *self)
{
	struct oh_unique_id id;

	if (self->rank == 0) {
		if (oh_unique_id_create(&id))
			abort();
		ranks_put_id(&self->words[ID], &id);
	}
	ranks_barrier(self);
	id = ranks_get_id(&self->words[ID]);
	/* all have read it */
	ranks_barrier(self);
	return id;
}

static void use(struct ranks_self *self, struct oh_comm *comm)
{
	int32_t in = 1, out = 0;
	void *memory;

	ranks_fine(self,
		   oh_all_reduce(comm, &in, &out, 1, OH_I32, OH_SUM, NULL),
		   "oh_all_reduce");
	ranks_check(self, out == self->ranks, "the sum is %d", out);
	ranks_fine(self, oh_comm_alloc(comm, 10000, &memory), "oh_comm_alloc");
}

#define AT_ONCE 4

/* One communicator, or some at once. */
static bool make_some(struct ranks_self *self, int count)
{
	struct oh_comm *comms[AT_ONCE];
	int made;

	for (made = 0; made < count; made++) {
		struct oh_unique_id id = next_id(self);

		if (!ranks_fine(self,
				create(&id, self->rank, self->ranks, 40000,
				       &comms[made]),
				"oh_comm_create"))
			break;
	}
	for (int i = 0; i < made; i++)
		use(self, comms[i]);
	for (int i = 0; i < made; i++)
		oh_comm_destroy(comms[i]);
	return made == count;
}

/* What this process has, while nobody in it is at work. */
static struct leftovers count_quietly(struct ranks_self *self, long *resident)
{
	struct leftovers now = {0};

	ranks_barrier(self);
	/* the ranks may be threads of one process */
	for (int rank = 0; rank < self->ranks; rank++) {
		if (rank == self->rank) {
			now = leftovers_now();
			*resident = leftovers_resident_bytes();
		}
		ranks_barrier(self);
	}
	return now;
}

static void check_growth(struct ranks_self *self,
			 const struct leftovers *before,
			 const struct leftovers *after, long resident)
{
	char text[256];

	leftovers_text(before, after, text);
	ranks_check(self, leftovers_none(before, after), "growth: %s", text);
	/* a checker's own memory grows */
	if (SANITIZED || ranks_quick())
		return;
	ranks_check(self, after->maps <= before->maps + MAPS_SLACK,
		    "growth: %s", text);
	ranks_check(self, after->heap_bytes <= before->heap_bytes + HEAP_SLACK,
		    "heap: %zu bytes to %zu", before->heap_bytes,
		    after->heap_bytes);
	ranks_check(self, resident <= RESIDENT_SLACK, "resident: %ld more",
		    resident);
}

/* "TIMES", after some that do not count. */
static void churn(struct ranks_self *self)
{
	int times = atoi(self->argument), first = times / 20 + 5;
	long resident_before = 0, resident_after = 0;
	struct leftovers before = {0}, after;

	for (int i = 0; i < times + first; i++) {
		ranks_at(self, "communicator %d", i);
		if (i == first)
			before = count_quietly(self, &resident_before);
		if (!make_some(self, i % 10 ? 1 : AT_ONCE))
			return;
	}
	after = count_quietly(self, &resident_after);
	check_growth(self, &before, &after, resident_after - resident_before);
}

/* Limits. */

/* So many descriptors may be opened from now on. */
static struct rlimit limit_fds(int more)
{
	struct rlimit old, limit;
	int fds[64], lowest = 0;

	getrlimit(RLIMIT_NOFILE, &old);
	limit = old;
	/* the numbers of those that are free */
	for (int i = 0; i < more && i < 64; i++)
		fds[i] = lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
	for (int i = 0; i < more && i < 64; i++)
		close(fds[i]);
	if (!more) {
		lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
		close(lowest--);
	}
	limit.rlim_cur = (rlim_t)lowest + 1;
	setrlimit(RLIMIT_NOFILE, &limit);
	return old;
}

/* The address space may grow by so much. */
static struct rlimit limit_space(size_t more)
{
	FILE *file = fopen("/proc/self/statm", "re");
	struct rlimit old, limit;
	long pages = 0;

	if (!file || fscanf(file, "%ld", &pages) != 1)
		abort();
	fclose(file);
	getrlimit(RLIMIT_AS, &old);
	limit = old;
	limit.rlim_cur = (rlim_t)(pages * sysconf(_SC_PAGESIZE)) + more;
	setrlimit(RLIMIT_AS, &limit);
	return old;
}

struct outcome {
	enum oh_status status;
	char message[512];
};

/* Makes one under a limit that is lifted again. */
static struct outcome attempt(const struct oh_unique_id *id, int rank,
			      int ranks, unsigned ms, int resource,
			      const struct rlimit *old)
{
	struct oh_comm *comm;
	struct outcome outcome = {.status = create(id, rank, ranks, ms, &comm)};

	setrlimit((__rlimit_resource_t)resource, old);
	snprintf(outcome.message, sizeof(outcome.message), "%s",
		 outcome.status ? oh_last_error()->message : "");
	if (comm) {
		int32_t data = 1;

		/* it works, or the others have had to give up */
		oh_all_reduce(comm, &data, &data, 1, OH_I32, OH_SUM, NULL);
		oh_comm_destroy(comm);
	}
	return outcome;
}

/* The outcomes of all: success everywhere or nowhere. */
static void compare(struct ranks_self *self, const struct outcome *outcome)
{
	atomic_fetch_add(&self->words[MADE], !outcome->status);
	ranks_barrier(self);
	ranks_check(self,
		    atomic_load(&self->words[MADE]) ==
			    (outcome->status ? 0 : (uint64_t)self->ranks),
		    "%s here, success on %llu of %d ranks: %s",
		    oh_status_name(outcome->status),
		    (unsigned long long)atomic_load(&self->words[MADE]),
		    self->ranks, outcome->message);
}

/* "RANK MORE": that rank has so many descriptors left. */
static void few_fds(struct ranks_self *self)
{
	struct leftovers before = leftovers_now();
	struct outcome outcome;
	struct rlimit old;
	int rank, more;

	if (sscanf(self->argument, "%d %d", &rank, &more) != 2)
		abort();
	ranks_barrier(self);
	getrlimit(RLIMIT_NOFILE, &old);
	if (self->rank == rank)
		old = limit_fds(more);
	outcome = attempt(&self->ids[0], self->rank, self->ranks, 1500,
			  RLIMIT_NOFILE, &old);
	if (outcome.status && self->rank == rank)
		ranks_check(self,
			    outcome.status == OH_ERR_SYSTEM &&
				    strstr(outcome.message, "EMFILE"),
			    "%s: %s", oh_status_name(outcome.status),
			    outcome.message);
	/* without a descriptor for a socket it cannot tell the others */
	if (outcome.status && self->rank != rank)
		ranks_check(self,
			    (outcome.status == OH_ERR_SYSTEM &&
			     strstr(outcome.message, "EMFILE")) ||
				    outcome.status == OH_ERR_TIMEOUT ||
				    outcome.status == OH_ERR_PEER_LOST,
			    "%s: %s", oh_status_name(outcome.status),
			    outcome.message);
	if (more > 40)
		ranks_check(self, !outcome.status, "%s", outcome.message);
	compare(self, &outcome);
	check_leftovers(self, &before);
}

/* Rank 1 has room for its own heap, not for those of the others. */
static void little_space(struct ranks_self *self)
{
	struct leftovers before = leftovers_now();
	struct outcome outcome;
	struct rlimit old;

	ranks_barrier(self);
	getrlimit(RLIMIT_AS, &old);
	if (self->rank == 1)
		old = limit_space(64 << 20);
	outcome = attempt(&self->ids[0], self->rank, self->ranks, 40000,
			  RLIMIT_AS, &old);
	ranks_check(self,
		    outcome.status == OH_ERR_NO_MEMORY &&
			    strstr(outcome.message, "ulimit -v"),
		    "%s: %s", oh_status_name(outcome.status), outcome.message);
	compare(self, &outcome);
	check_leftovers(self, &before);
}

enum {
	CHURN,
	FEW_FDS,
	LITTLE_SPACE
};

static const struct ranks_case cases[] = {
	[CHURN] = {"churn", churn},
	[FEW_FDS] = {"few-fds", few_fds},
	[LITTLE_SPACE] = {"little-space", little_space},
	{0}};

/* Failures of one rank alone, in this process. */

static bool alone(const struct leftovers *before, const struct outcome *outcome,
		  enum oh_status status, const char *part)
{
	struct leftovers after = leftovers_now();
	char text[256];
	bool none = leftovers_none(before, &after);
	bool fine = outcome->status == status && strstr(outcome->message, part);

	if (!fine)
		tap_note("%s: %s", oh_status_name(outcome->status),
			 outcome->message);
	if (!none)
		tap_note("left behind: %s",
			 leftovers_text(before, &after, text));
	return fine && none;
}

static void test_fds_alone(const struct oh_unique_id *id)
{
	int failures = 0, succeeded_from = -1;

	for (int more = 0; more <= 12; more++) {
		struct leftovers before = leftovers_now();
		struct rlimit old = limit_fds(more);
		struct outcome outcome =
			attempt(id, 0, 1, 1000, RLIMIT_NOFILE, &old);
		bool success = !outcome.status;

		if (success && succeeded_from < 0)
			succeeded_from = more;
		failures += !alone(&before, &outcome,
				   success ? OH_OK : OH_ERR_SYSTEM,
				   success ? "" : "EMFILE");
	}
	tap_ok(!failures && succeeded_from > 0,
	       "one rank with 0 to 12 descriptors left: %d are enough",
	       succeeded_from);
}

static void test_space_alone(const struct oh_unique_id *id)
{
	static const size_t spaces[] = {0, 64 << 10, 1 << 20, 64 << 20};
	int failures = 0;

	if (SANITIZED) {
		tap_skip("address space of one rank",
			 "the sanitizers reserve their own");
		return;
	}
	setenv("ONEHOP_HEAP_BYTES", "1G", 1);
	for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
		struct leftovers before = leftovers_now();
		struct rlimit old = limit_space(spaces[i]);
		struct outcome outcome =
			attempt(id, 0, 1, 1000, RLIMIT_AS, &old);

		failures += !alone(&before, &outcome, OH_ERR_NO_MEMORY,
				   "ulimit -v");
	}
	tap_ok(!failures, "one rank with too little address space");
	setenv("ONEHOP_HEAP_BYTES", "1M", 1);
}

static void test_file_size_alone(const struct oh_unique_id *id)
{
	struct leftovers before = leftovers_now();
	struct outcome outcome;
	struct rlimit old, limit;

	getrlimit(RLIMIT_FSIZE, &old);
	limit = old;
	limit.rlim_cur = 512 << 10;
	setrlimit(RLIMIT_FSIZE, &limit);
	outcome = attempt(id, 0, 1, 1000, RLIMIT_FSIZE, &old);
	tap_ok(alone(&before, &outcome, OH_ERR_NO_MEMORY, "ulimit -f"),
	       "one rank with a limit of the size of files");
}

static void test_settings_alone(const struct oh_unique_id *id)
{
	struct rlimit old;
	int failures = 0;

	getrlimit(RLIMIT_NOFILE, &old);
	for (int i = 0; i < OH__SETTING_COUNT; i++) {
		const struct oh__setting_row *row =
			oh__setting_row((enum oh__setting)i);
		const char *value = getenv(row->name);
		char kept[64];
		struct leftovers before = leftovers_now();
		struct outcome outcome;

		if (row->kind == OH__SETTING_KIND_TEXT)
			continue;
		snprintf(kept, sizeof(kept), "%s", value ? value : "");
		setenv(row->name, "-1x", 1);
		outcome = attempt(id, 0, 1, 1000, RLIMIT_NOFILE, &old);
		failures +=
			!alone(&before, &outcome, OH_ERR_SETTING, row->name);
		if (value)
			setenv(row->name, kept, 1);
		else
			unsetenv(row->name);
	}
	tap_ok(!failures, "each setting with a malformed value");
}

static void try_fds(int step)
{
	struct ranks_group *groups[8];
	int count = 0;

	/* some 20 are needed: 3 of its own and as many for each other rank,
	 * sockets, and what is on its way */
	for (int rank = 0; rank < 3; rank += 2)
		for (int more = 0; more <= 48; more += more < 24 ? step : 24) {
			char argument[32];
			struct ranks_options options = {.ranks = 3,
							.argument = argument};

			snprintf(argument, sizeof(argument), "%d %d", rank,
				 more);
			groups[count++] =
				ranks_start(&cases[FEW_FDS], &options);
			if (count < 8)
				continue;
			while (count)
				ranks_report(groups[--count]);
		}
	while (count)
		ranks_report(groups[--count]);
}

static void try_churn(int ranks, int times, bool threads, const char *text)
{
	char argument[16];
	struct ranks_options options = {.ranks = ranks,
					.argument = argument,
					.text = text,
					.deadline_s = 180};

	snprintf(argument, sizeof(argument), "%d", times);
	if (threads)
		ranks_threads(&cases[CHURN], &options);
	else
		ranks_processes(&cases[CHURN], &options);
}

int main(int argc, char **argv)
{
	bool quick = ranks_quick();
	struct oh_unique_id id;

	/* processes get their settings from this one */
	ranks_main(argc, argv, cases);
	setenv("ONEHOP_LOG", "off", 1);
	setenv("ONEHOP_HEAP_BYTES", "1M", 1);
	setenv("ONEHOP_SLOT_BYTES", "65536", 1);
	oh_unique_id_create(&id);
	test_fds_alone(&id);
	test_space_alone(&id);
	test_file_size_alone(&id);
	test_settings_alone(&id);
	try_churn(2, quick ? 10 : 50, false, "made with measurements");
	setenv("ONEHOP_TUNE", "off", 1);
	try_churn(3, quick ? 100 : 2000, true, "made by threads");
	try_churn(2, quick ? 100 : 2000, false, "made by processes");
	try_fds(quick ? 4 : 1);
	if (!SANITIZED) {
		setenv("ONEHOP_HEAP_BYTES", "48M", 1);
		ranks_processes(&cases[LITTLE_SPACE],
				&(struct ranks_options){.ranks = 3});
		tap_ok(!wrong_unmaps, "nothing is unmapped twice");
	}
	return tap_done();
}
