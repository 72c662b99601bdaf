/* SPDX-License-Identifier: MIT */
/*
 * Communicators on GPU memory made, used and ended many times, one at a time
 * and some at once: each works, and nothing grows in the process, on the GPU or
 * in the driver.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu_ranks.h"

#define ROOM ((size_t)1 << 20)
#define AT_ONCE 3
/* Times after which the caches of drivers are full. */
#define WARM 4

enum {
	ID /* words of an id */
};

/* Rank 0 makes an id for all. */
static struct oh_unique_id next_id(struct ranks_self *self)
{
	struct oh_unique_id id;

	if (self->rank == 0) {
		ranks_fine(self, oh_unique_id_create(&id),
			   "oh_unique_id_create");
		ranks_put_id(&self->words[ID], &id);
	}
	ranks_barrier(self);
	id = ranks_get_id(&self->words[ID]);
	/* all have read it */
	ranks_barrier(self);
	return id;
}

static struct oh_comm *make(struct ranks_self *self)
{
	struct oh_unique_id id = next_id(self);
	struct oh_comm_options options = {
		.size = sizeof(options),
		.id = &id,
		.rank = self->rank,
		.ranks = self->ranks,
	};
	struct oh_comm *comm = NULL;

	ranks_fine(self, oh_comm_create(&options, &comm), "oh_comm_create");
	return comm;
}

/* A call of each kind of kernel. */
static bool use(struct gpu_rank *g, uint64_t seed)
{
	static const size_t counts[] = {100, 5000, 100000};

	for (uint64_t n = 0; n < 3; n++) {
		struct gpu_case test = {.count = counts[n],
					.dtype = OH_F32,
					.seed = seed * 3 + n};

		if (!gpu_rank_try(g, &test, g->stream[n % 2]))
			return false;
	}
	return true;
}

static bool make_some(struct gpu_rank *g, int count, uint64_t seed)
{
	struct oh_comm *comms[AT_ONCE] = {NULL};
	bool fine = true;

	for (int i = 0; i < count; i++) {
		comms[i] = make(g->self);
		fine &= comms[i] != NULL;
	}
	for (int i = 0; i < count && fine; i++) {
		g->comm = comms[i];
		fine = use(g, seed + (uint64_t)i * 1000);
	}
	g->comm = NULL;
	/* no rank leaves while another one still calls */
	ranks_barrier(g->self);
	for (int i = 0; i < count; i++)
		oh_comm_destroy(comms[i]);
	return fine;
}

/* What this process has, while nobody in it is at work. */
static struct gpu_holds measure(struct gpu_rank *g)
{
	struct gpu_holds now = {0};

	ranks_barrier(g->self);
	/* the ranks may be threads of one process */
	for (int rank = 0; rank < g->self->ranks; rank++) {
		if (rank == g->self->rank)
			now = gpu_rank_holds(g);
		ranks_barrier(g->self);
	}
	return now;
}

/* "TIMES" */
static void churn(struct ranks_self *self)
{
	struct gpu_holds before = {0}, after;
	int times = atoi(self->argument);
	struct gpu_rank g;
	bool fine = gpu_rank_open(&g, self, self->place, ROOM);

	for (int i = 0; i < times + WARM && fine; i++) {
		ranks_at(self, "communicator %d", i);
		if (i == WARM)
			before = measure(&g);
		fine = make_some(&g, i % 3 ? 1 : AT_ONCE,
				 self->seed + (uint64_t)i);
	}
	if (fine) {
		after = measure(&g);
		gpu_rank_check_growth(&g, &before, &after);
	}
	/* nobody measures while another one ends */
	ranks_barrier(self);
	gpu_rank_end(&g);
}

static const struct ranks_case cases[] = {{"churn", churn}, {NULL, NULL}};

static void run(int ranks, bool processes, const char *forbidden)
{
	char text[96];
	struct ranks_options options = {
		.ranks = ranks,
		.argument = ranks_quick() ? "6" : "30",
		.text = text,
		.deadline_s = 180,
	};

	setenv("ONEHOP_FORBID_PEER", forbidden, 1);
	snprintf(text, sizeof(text), "%s times, %d %s, forbidden '%s'",
		 options.argument, ranks, processes ? "processes" : "threads",
		 forbidden);
	if (processes)
		ranks_processes(&cases[0], &options);
	else
		ranks_threads(&cases[0], &options);
}

int main(int argc, char **argv)
{
	gpu_ranks_main(argc, argv, cases);
	setenv("ONEHOP_TUNE", "off", 1);
	setenv("ONEHOP_DEVICE_BYTES", "4M", 1);
	run(2, true, "");
	run(2, false, "");
	run(3, false, "0-1");
	run(2, true, "all");
	return gpu_ranks_end(tap_done());
}
