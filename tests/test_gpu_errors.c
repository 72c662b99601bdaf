/* SPDX-License-Identifier: MIT */
/*
 * On the fake driver alone: one call of the driver after the other fails, from
 * the first that a communicator's making needs to the last of its end; or all
 * from that one on, as a GPU's that is lost. Never a crash or a hang;
 * oh_comm_create says the same on all ranks; a call that fails says why, and
 * one that does not is right; nothing is left behind but what the driver itself
 * did not take back.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu_ranks.h"

#include "fakecuda.h"

#define ROOM ((size_t)1 << 16)
/* More calls of the driver than there are. */
#define MOST 5000

/* Words: what the ranks got, 1 + the status, an id, and the function that
 * failed, as text. */
enum {
	MADE,
	CALLED = MADE + OH_MAX_RANKS,
	ID = CALLED + OH_MAX_RANKS,
	FAILED = ID + RANKS_ID_WORDS,
	FAILED_WORDS = 8
};
_Static_assert(FAILED + FAILED_WORDS <= RANKS_WORDS, "words");

/* A driver that does not do this leaves something behind. */
static bool is_taking_back(const char *function)
{
	static const char *const parts[] = {"Free",	  "Release", "Unmap",
					    "Destroy",	  "Unload",  "CtxPush",
					    "Unregister", "CtxPop",  "Close"};

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (strstr(function, parts[i]))
			return true;
	return false;
}

static struct gpu_case case_of(struct ranks_self *self, unsigned k)
{
	return (struct gpu_case){
		.count = 1000, .dtype = OH_F32, .seed = self->seed + k};
}

/* Where all went well though cuCtxPushCurrent failed, it was that of the thread
 * that watches: without it nobody would notice a rank that is lost. */
static void check_watched(struct gpu_rank *g)
{
	struct oh_health health = {.size = sizeof(health)};
	const char *failed = fakecuda_failed();

	if (!failed || strcmp(failed, "cuCtxPushCurrent_v2"))
		return;
	for (int ms = 0; ms < 2000 && !health.status; ms++) {
		oh_comm_health(g->comm, &health);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	ranks_check(g->self, health.status, "nobody watches, and says so");
}

/* After a call that failed the communicator says so. */
static void check_broken(struct gpu_rank *g, enum oh_status status)
{
	struct oh_health health = {.size = sizeof(health)};

	if (!status || status == OH_ERR_INVALID || status == OH_ERR_UNSUPPORTED)
		return;
	oh_comm_health(g->comm, &health);
	ranks_check(g->self, health.status,
		    "%s of a call, and the communicator is whole",
		    oh_status_name(status));
}

/* All that may fail. */
static void make_and_call(struct gpu_rank *g, unsigned k)
{
	struct ranks_self *self = g->self;
	struct oh_unique_id id = ranks_get_id(&self->words[ID]);
	struct oh_comm_options options = {
		.size = sizeof(options),
		.id = &id,
		.rank = self->rank,
		.ranks = self->ranks,
		.rendezvous_timeout_ms = 5000,
		.call_timeout_ms = 200,
	};
	struct gpu_case test = case_of(self, k);
	enum oh_status status;

	status = oh_comm_create(&options, &g->comm);
	atomic_store(&self->words[MADE + self->rank], 1 + (uint64_t)status);
	ranks_check(self, !status == !!g->comm, "%s, but a communicator",
		    oh_status_name(status));
	if (g->comm) {
		status = gpu_rank_call(g, &test, g->stream[0]);
		ranks_check(self, !status || *oh_last_error()->message,
			    "%s without a word", oh_status_name(status));
		if (!status && self->rank == 0)
			check_watched(g);
		check_broken(g, status);
	}
	atomic_store(&self->words[CALLED + self->rank], 1 + (uint64_t)status);
	ranks_barrier(self);
	oh_comm_destroy(g->comm);
	g->comm = NULL;
	ranks_barrier(self);
}

/* The library has left this thread's contexts as they were. */
static void check_contexts(struct gpu_rank *g, const char *failed)
{
	CUcontext context = NULL;
	int depth = 0;

	while (!g->cuda->cuCtxGetCurrent(&context) && context && depth < 8) {
		g->cuda->cuCtxPopCurrent_v2(NULL);
		depth++;
	}
	ranks_check(g->self, depth == 1 || is_taking_back(failed),
		    "%s failed: %d contexts are current", failed, depth);
	g->cuda->cuCtxSetCurrent(g->context);
}

static void check_statuses(struct gpu_rank *g, unsigned k, const char *failed)
{
	struct ranks_self *self = g->self;
	struct gpu_case test = case_of(self, k);
	bool fine = true;

	for (int i = 0; i < self->ranks; i++) {
		uint64_t made = self->words[MADE + i];

		ranks_check(self, made == self->words[MADE],
			    "%s, call %u of the driver: rank %d got %d, rank 0 "
			    "%d",
			    failed, k, i, (int)made - 1,
			    (int)self->words[MADE] - 1);
		fine &= self->words[CALLED + i] == 1;
	}
	/* of the calls that succeeded everywhere */
	if (fine)
		gpu_rank_right(g, &test, g->stream[0]);
}

/* Of the process, by one rank while the others do nothing. */
static void check_left(struct ranks_self *self, const struct gpu_holds *before,
		       const struct gpu_holds *after, const char *failed)
{
	char text[256];

	ranks_check(self, after->host.threads == before->host.threads,
		    "%s failed: %s", failed,
		    leftovers_text(&before->host, &after->host, text));
	if (is_taking_back(failed))
		return;
	ranks_check(self,
		    after->objects <= before->objects &&
			    leftovers_none(&before->host, &after->host),
		    "%s failed: %u objects of the driver to %u, %s", failed,
		    before->objects, after->objects, text);
}

/* Rank 0 tells the driver, and what it said before. */
static void arm(struct ranks_self *self, unsigned k, bool for_good)
{
	static const CUresult codes[] = {CUDA_ERROR_OUT_OF_MEMORY,
					 CUDA_ERROR_ILLEGAL_ADDRESS,
					 CUDA_ERROR_UNKNOWN};
	struct oh_unique_id id;

	/* nobody's own calls of the driver are to fail */
	ranks_barrier(self);
	if (self->rank == 0) {
		oh_unique_id_create(&id);
		ranks_put_id(&self->words[ID], &id);
		fakecuda_fail(k, codes[k % 3], for_good);
	}
	ranks_barrier(self);
}

/* Rank 0 says which function failed, "" for none; where ranks are processes,
 * only its driver is told to. */
static void tell_failed(struct ranks_self *self)
{
	uint64_t words[FAILED_WORDS] = {0};
	const char *failed = fakecuda_failed();

	if (failed)
		snprintf((char *)words, sizeof(words), "%s", failed);
	for (int i = 0; i < FAILED_WORDS; i++)
		atomic_store(&self->words[FAILED + i], words[i]);
}

static void hear_failed(struct ranks_self *self, char failed[64])
{
	for (int i = 0; i < FAILED_WORDS; i++) {
		uint64_t word = atomic_load(&self->words[FAILED + i]);

		memcpy(failed + i * 8, &word, sizeof(word));
	}
}

/* "FIRST STEP FOR_GOOD": which calls of the driver, and all behind them? */
static void fail_each(struct ranks_self *self)
{
	struct gpu_holds before = {0}, after;
	char failed[FAILED_WORDS * 8] = "nothing";
	unsigned k, step;
	int for_good;
	struct gpu_case test;
	struct gpu_rank g;
	bool fine = gpu_rank_open(&g, self, self->place, ROOM);

	if (sscanf(self->argument, "%u %u %d", &k, &step, &for_good) != 3)
		abort();
	for (; fine && k < MOST; k += step) {
		ranks_at(self, "call %u of the driver, after %s", k, failed);
		ranks_barrier(self);
		if (self->rank == 0)
			before = gpu_rank_holds(&g);
		test = case_of(self, k);
		fine = gpu_rank_put(&g, &test, g.stream[0]);
		arm(self, k, for_good);
		make_and_call(&g, k);
		if (self->rank == 0) {
			tell_failed(self);
			fakecuda_fail(0, CUDA_SUCCESS, false);
		}
		ranks_barrier(self);
		hear_failed(self, failed);
		if (!*failed)
			break;
		if (self->rank == 0) {
			after = gpu_rank_holds(&g);
			check_left(self, &before, &after,
				   for_good ? "CtxPush" : failed);
		}
		ranks_barrier(self);
		check_contexts(&g, for_good ? "CtxPop" : failed);
		check_statuses(&g, k, failed);
	}
	ranks_check(self, k > 100 && k < MOST, "ended at call %u", k);
	ranks_barrier(self);
	gpu_rank_end(&g);
}

static const struct ranks_case cases[] = {{"fail_each", fail_each},
					  {NULL, NULL}};

static void run(int ranks, bool processes, const char *forbidden,
		const char *calls)
{
	const char *share = getenv("ONEHOP_DEVICE_SHARE");
	char text[128];
	struct ranks_options options = {
		.ranks = ranks, .argument = calls, .text = text};

	setenv("ONEHOP_FORBID_PEER", forbidden, 1);
	snprintf(text, sizeof(text),
		 "calls of the driver fail (first, step, for good: %s), %d "
		 "%s, forbidden '%s', shared by %s",
		 calls, ranks, processes ? "processes" : "threads", forbidden,
		 share ? share : "descriptor");
	if (processes)
		ranks_processes(&cases[0], &options);
	else
		ranks_threads(&cases[0], &options);
}

int main(int argc, char **argv)
{
	bool quick = ranks_quick();

	gpu_ranks_start(argv);
	ranks_main(argc, argv, cases);
	setenv("ONEHOP_LOG", "off", 1);
	setenv("ONEHOP_TUNE", "off", 1);
	setenv("ONEHOP_DEVICE_BYTES", "1M", 1);
	setenv("ONEHOP_HEAP_BYTES", "1M", 1);
	run(2, false, "", quick ? "1 7 0" : "1 1 0");
	run(2, false, "all", quick ? "2 7 0" : "1 1 0");
	run(3, false, "0-1", "3 7 0");
	run(2, false, "0-1", "2 5 1");
	run(2, true, "", "4 7 0");
	setenv("ONEHOP_DEVICE_SHARE", "ipc", 1);
	run(2, true, "", quick ? "3 7 0" : "1 1 0");
	run(3, true, "0-1", "5 7 0");
	run(2, true, "", "3 5 1");
	run(2, false, "", "2 7 0");
	return gpu_ranks_end(tap_done());
}
