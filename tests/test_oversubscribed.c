/* SPDX-License-Identifier: MIT */
/*
 * More ranks than processors: the results are right, and what a call takes is
 * printed. It is never a condition, but a mean over a few ms would be a
 * scheduler's tick a call: somebody spins where it should give its processor
 * away.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ranks.h"

#define ELEMENTS 2048 /* 8 KB */
#define TICK_NS 3000000u

enum {
	P50_NS,
	MEAN_NS
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Element i of rank's input in one call. */
static uint32_t input(int rank, int call, uint32_t i)
{
	return (i + (uint32_t)call) * 2654435761u * (uint32_t)(rank + 1);
}

static bool is_right(const uint32_t *data, int ranks, int call)
{
	/* the sum of rank + 1 over the ranks */
	uint32_t factor = (uint32_t)(ranks * (ranks + 1) / 2);

	for (uint32_t i = 0; i < ELEMENTS; i++)
		if (data[i] != input(0, call, i) * factor)
			return false;
	return true;
}

/* "CALLS": times each; rank 0 reports. */
static void sum(struct ranks_self *self)
{
	int calls = atoi(self->argument);
	uint64_t *ns = calloc((size_t)calls, sizeof(*ns)), all = 0;
	struct oh_comm *comm = ranks_comm(self, 0);
	static _Thread_local uint32_t data[ELEMENTS];

	if (!comm || !ns)
		return;
	for (int c = 0; c < calls; c++) {
		enum oh_status status;

		for (uint32_t i = 0; i < ELEMENTS; i++)
			data[i] = input(self->rank, c, i);
		ns[c] = now_ns();
		status = oh_all_reduce(comm, data, data, ELEMENTS, OH_U32,
				       OH_SUM, NULL);
		ns[c] = now_ns() - ns[c];
		all += ns[c];
		if (!ranks_fine(self, status, "oh_all_reduce") ||
		    !ranks_check(self, is_right(data, self->ranks, c),
				 "call %d: wrong result", c))
			break;
	}
	qsort(ns, (size_t)calls, sizeof(*ns), by_size);
	if (self->rank == 0) {
		atomic_store(&self->words[P50_NS], ns[calls / 2]);
		atomic_store(&self->words[MEAN_NS], all / (uint64_t)calls);
	}
	free(ns);
	oh_comm_destroy(comm);
}

static const struct ranks_case cases[] = {{"sum", sum}, {0}};

static void try(int ranks, bool threads)
{
	char argument[16];
	struct ranks_options options = {.ranks = ranks, .argument = argument};
	struct ranks_group *group;
	uint64_t p50, mean;

	snprintf(argument, sizeof(argument), "%d", ranks_quick() ? 100 : 2000);
	group = threads ? ranks_run_threads(&cases[0], &options)
			: ranks_start(&cases[0], &options);
	tap_ok(!ranks_wait(group), "%d %s sum 8 KB", ranks,
	       threads ? "threads" : "processes");
	ranks_notes(group);
	p50 = atomic_load(&ranks_words(group)[P50_NS]);
	mean = atomic_load(&ranks_words(group)[MEAN_NS]);
	tap_note("a call takes %.1f us in the middle, %.1f us in the mean%s",
		 (double)p50 / 1000, (double)mean / 1000,
		 mean > TICK_NS ? ": a tick of the scheduler each?" : "");
	ranks_free(group);
}

int main(int argc, char **argv)
{
	static const int sizes[] = {4, 8, 16};
	cpu_set_t set;

	ranks_main(argc, argv, cases);
	setenv("ONEHOP_HEAP_BYTES", "1M", 1);
	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		tap_note("%d processors", CPU_COUNT(&set));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		try(sizes[i], false);
		try(sizes[i], true);
	}
	return tap_done();
}
