/* SPDX-License-Identifier: MIT */
/*
 * One rank calls something else than the others: in the count, the type, the
 * operation, the root or the collective. Every rank gets OH_ERR_MISMATCH and a
 * message with both sides, at sizes of every algorithm and of several rounds.
 * Only where a rank waits for nobody (the root of a broadcast) may it learn of
 * it in its next call, or the one after that.
 */
#include "leftovers.h"
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

/* Small, so that the largest size takes several rounds. */
#define SLOT_BYTES "65536"
/* Elements of 4 bytes: within a line, a few lines, a two-shot, 7 rounds. */
static const size_t counts[] = {3, 300, 9000, 110000};

struct call {
	enum oh_collective collective;
	size_t count;
	enum oh_dtype dtype;
	enum oh_op op;
	int root;
};

struct difference {
	const char *name;
	struct call usual, odd; /* counts are added to the case's */
};

static const struct difference differences[] = {
	{"count",
	 {OH_ALL_REDUCE, 0, OH_F32, OH_SUM, 0},
	 {OH_ALL_REDUCE, 1, OH_F32, OH_SUM, 0}},
	{"dtype",
	 {OH_ALL_REDUCE, 0, OH_F32, OH_MAX, 0},
	 {OH_ALL_REDUCE, 0, OH_I32, OH_MAX, 0}},
	{"op",
	 {OH_REDUCE_SCATTER, 0, OH_U32, OH_SUM, 0},
	 {OH_REDUCE_SCATTER, 0, OH_U32, OH_PROD, 0}},
	{"collective",
	 {OH_ALL_REDUCE, 0, OH_I32, OH_SUM, 0},
	 {OH_ALL_GATHER, 0, OH_I32, OH_SUM, 0}},
	{"count of all_gather",
	 {OH_ALL_GATHER, 0, OH_I32, OH_SUM, 0},
	 {OH_ALL_GATHER, 7, OH_I32, OH_SUM, 0}},
	{"root",
	 {OH_BROADCAST, 0, OH_F32, OH_SUM, 0},
	 {OH_BROADCAST, 0, OH_F32, OH_SUM, 1}},
	{"count of broadcast",
	 {OH_BROADCAST, 0, OH_F32, OH_SUM, 0},
	 {OH_BROADCAST, 2, OH_F32, OH_SUM, 0}},
};

#define DIFFERENCES ((int)(sizeof(differences) / sizeof(differences[0])))
_Static_assert(sizeof(differences) / sizeof(differences[0]) <= RANKS_IDS,
	       "an id for each");

static enum oh_status make(struct oh_comm *comm, const struct call *call,
			   size_t count, uint32_t *send, uint32_t *recv)
{
	count += call->count;
	switch (call->collective) {
	case OH_ALL_REDUCE:
		return oh_all_reduce(comm, send, recv, count, call->dtype,
				     call->op, NULL);
	case OH_REDUCE_SCATTER:
		return oh_reduce_scatter(comm, send, recv, count, call->dtype,
					 call->op, NULL);
	case OH_ALL_GATHER:
		return oh_all_gather(comm, send, recv, count, call->dtype,
				     NULL);
	case OH_BROADCAST:
		break;
	}
	return oh_broadcast(comm, send, recv, count, call->dtype, call->root,
			    NULL);
}

static void check_side(struct ranks_self *self, const char *name,
		       const struct call *call, size_t count)
{
	char text[96];

	bool reduces = call->collective == OH_ALL_REDUCE ||
		       call->collective == OH_REDUCE_SCATTER;
	int used = snprintf(text, sizeof(text), "calls %s of %zu %s",
			    oh_collective_name(call->collective),
			    count + call->count, oh_dtype_name(call->dtype));

	/* the operation and the root only where they mean something */
	if (reduces)
		snprintf(text + used, sizeof(text) - (size_t)used, " %s",
			 oh_op_name(call->op));
	if (call->collective == OH_BROADCAST)
		snprintf(text + used, sizeof(text) - (size_t)used,
			 " from root %d", call->root);
	ranks_check(self, strstr(oh_last_error()->message, text),
		    "%s: '%s' is not in: %s", name, text,
		    oh_last_error()->message);
}

static void check_stays(struct ranks_self *self, struct oh_comm *comm,
			const char *name, uint32_t *data)
{
	struct oh_health health = {.size = sizeof(health)};
	enum oh_status status =
		oh_all_reduce(comm, data, data, 1, OH_U32, OH_SUM, NULL);

	ranks_check(self, status == OH_ERR_MISMATCH,
		    "%s: the call after it returned %s", name,
		    oh_status_name(status));
	oh_comm_health(comm, &health);
	ranks_check(self, health.status == OH_ERR_MISMATCH,
		    "%s: health says %s", name, oh_status_name(health.status));
}

static void differ(struct ranks_self *self, int k, size_t count, int odd,
		   uint32_t *send, uint32_t *recv)
{
	const struct difference *d = &differences[k];
	const struct call *call = self->rank == odd ? &d->odd : &d->usual;
	struct oh_comm *comm = ranks_comm(self, k);
	enum oh_status status;

	if (!comm)
		return;
	ranks_at(self, "%s of %zu", d->name, count);
	ranks_fine(self,
		   oh_all_reduce(comm, send, recv, count, OH_U32, OH_SUM, NULL),
		   "the call before");
	status = make(comm, call, count, send, recv);
	if (!status && d->usual.collective == OH_BROADCAST)
		status = oh_all_reduce(comm, send, recv, 1, OH_U32, OH_SUM,
				       NULL);
	ranks_check(self, status == OH_ERR_MISMATCH, "%s: %s: %s", d->name,
		    oh_status_name(status), oh_last_error()->message);
	check_side(self, d->name, &d->usual, count);
	check_side(self, d->name, &d->odd, count);
	check_stays(self, comm, d->name, recv);
	oh_comm_destroy(comm);
}

static void mismatch(struct ranks_self *self)
{
	/* the odd rank's largest: all ranks' parts of the largest, and more */
	size_t bytes = (size_t)self->ranks * 120000 * sizeof(uint32_t);
	uint32_t *send = calloc(1, bytes), *recv = calloc(1, bytes);
	struct leftovers before = leftovers_now(), after;
	char text[256];
	size_t count;
	int odd;

	if (!send || !recv ||
	    sscanf(self->argument, "%zu %d", &count, &odd) != 2)
		abort();
	for (int k = 0; k < DIFFERENCES; k++)
		differ(self, k, count, odd, send, recv);
	/* threads of one process share what is counted */
	after = leftovers_now();
	ranks_check(self,
		    strstr(self->argument, "thread") ||
			    leftovers_none(&before, &after),
		    "left behind: %s", leftovers_text(&before, &after, text));
	free(send);
	free(recv);
}

/*
 * A rank that leaves a call out is found when its next one is of another kind;
 * if it is of the same kind, when it has no more calls (see test_fail_stop).
 */
static void left_out(struct ranks_self *self)
{
	struct oh_comm *comm = ranks_comm(self, 0);
	uint32_t in[4] = {1, 2, 3, 4}, out[4];
	enum oh_status status = OH_OK;

	if (!comm)
		return;
	if (self->rank)
		status = oh_all_reduce(comm, in, out, 4, OH_U32, OH_SUM, NULL);
	if (!status)
		status = oh_all_reduce(comm, in, out, 3, OH_U32, OH_SUM, NULL);
	ranks_check(self, status == OH_ERR_MISMATCH, "%s: %s",
		    oh_status_name(status), oh_last_error()->message);
	oh_comm_destroy(comm);
}

/* Each is the root of its own broadcasts, and waits for nobody. */
static void all_roots(struct ranks_self *self)
{
	struct oh_comm *comm = ranks_comm(self, 0);
	size_t count = (size_t)atoi(self->argument);
	uint32_t *data = calloc(count, sizeof(*data));
	enum oh_status status = OH_OK;

	if (!data)
		abort();
	for (int n = 0; n < 4 && comm && !status; n++)
		status = oh_broadcast(comm, data, data, count, OH_U32,
				      self->rank, NULL);
	ranks_check(self,
		    status == OH_ERR_MISMATCH &&
			    strstr(oh_last_error()->message, "from root 0") &&
			    strstr(oh_last_error()->message, "from root 1"),
		    "%s: %s", oh_status_name(status), oh_last_error()->message);
	oh_comm_destroy(comm);
	free(data);
}

static const struct ranks_case cases[] = {{"mismatch", mismatch},
					  {"left-out", left_out},
					  {"all-roots", all_roots},
					  {0}};

static void try_sizes(int ranks, int odd, bool threads)
{
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		char argument[64], text[96];
		struct ranks_options options = {
			.ranks = ranks, .argument = argument, .text = text};

		snprintf(argument, sizeof(argument), "%zu %d%s", counts[i], odd,
			 threads ? " thread" : "");
		snprintf(text, sizeof(text),
			 "rank %d of %d %s differs, %zu elements", odd, ranks,
			 threads ? "threads" : "processes", counts[i]);
		if (threads)
			ranks_threads(&cases[0], &options);
		else
			ranks_processes(&cases[0], &options);
	}
}

int main(int argc, char **argv)
{
	setenv("ONEHOP_LOG", "off", 1);
	setenv("ONEHOP_HEAP_BYTES", "1M", 1);
	setenv("ONEHOP_SLOT_BYTES", SLOT_BYTES, 1);
	ranks_main(argc, argv, cases);
	try_sizes(2, 0, false);
	try_sizes(2, 1, true);
	try_sizes(3, 2, false);
	try_sizes(4, 0, true);
	if (!ranks_quick())
		try_sizes(8, 5, true);
	ranks_threads(&cases[1], &(struct ranks_options){.ranks = 3});
	for (int i = 0; i < 6; i++)
		ranks_processes(&cases[2],
				&(struct ranks_options){
					.ranks = 2,
					.argument = i % 2 ? "110000" : "16",
					.text = "all are roots"});
	return tap_done();
}
