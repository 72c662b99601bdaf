/* SPDX-License-Identifier: MIT */
/*
 * A collective drawn at random, the same on all ranks that draw from the same
 * state, with data that tells whether the result is right. Sizes are spread
 * over the powers of two, so that every algorithm is met.
 */
#ifndef OH_TESTS_RANDOM_CALL_H
#define OH_TESTS_RANDOM_CALL_H

#include <stdlib.h>
#include <string.h>

#include "ranks.h"

#define RANDOM_CALL_MAX (1 << 18) /* elements in all, of 4 bytes */

struct random_call {
	enum oh_collective collective;
	size_t count;
	int root;
	uint32_t salt; /* makes each call's data its own */
};

struct random_buffers {
	int32_t *send, *recv; /* RANDOM_CALL_MAX elements each */
};

static inline struct random_buffers random_buffers_make(void)
{
	struct random_buffers buffers = {
		malloc(RANDOM_CALL_MAX * sizeof(int32_t)),
		malloc(RANDOM_CALL_MAX * sizeof(int32_t))};

	if (!buffers.send || !buffers.recv)
		abort();
	return buffers;
}

static inline void random_buffers_free(struct random_buffers *buffers)
{
	free(buffers->send);
	free(buffers->recv);
}

static inline struct random_call random_call_draw(struct ranks_random *random,
						  int ranks)
{
	/* 2^0 to 2^17 elements, below RANDOM_CALL_MAX / ranks */
	uint64_t top = 1ull << ranks_below(random, 18);
	uint64_t limit = (uint64_t)(RANDOM_CALL_MAX / ranks);
	uint64_t count = 1 + ranks_below(random, top);

	return (struct random_call){
		.collective = (enum oh_collective)ranks_below(
			random, OH_COLLECTIVE_COUNT),
		.count = count < limit ? count : limit,
		.root = (int)ranks_below(random, (uint64_t)ranks),
		.salt = (uint32_t)ranks_random(random),
	};
}

/* Element i of rank's input. */
static inline int32_t random_call_input(const struct random_call *call,
					int rank, size_t i)
{
	return (int32_t)((call->salt ^ (uint32_t)i * 2654435761u) *
			 (uint32_t)(rank + 1));
}

static inline int32_t random_call_sum(const struct random_call *call, int ranks,
				      size_t i)
{
	uint32_t sum = 0;

	for (int rank = 0; rank < ranks; rank++)
		sum += (uint32_t)random_call_input(call, rank, i);
	return (int32_t)sum;
}

static inline int32_t random_call_expect(const struct random_call *call,
					 int rank, int ranks, size_t i)
{
	switch (call->collective) {
	case OH_ALL_REDUCE:
		return random_call_sum(call, ranks, i);
	case OH_REDUCE_SCATTER:
		return random_call_sum(call, ranks,
				       (size_t)rank * call->count + i);
	case OH_ALL_GATHER:
		return random_call_input(call, (int)(i / call->count),
					 i % call->count);
	case OH_BROADCAST:
		break;
	}
	return random_call_input(call, call->root, i);
}

static inline enum oh_status random_call_start(struct oh_comm *comm,
					       const struct random_call *call,
					       struct random_buffers *buffers)
{
	switch (call->collective) {
	case OH_ALL_REDUCE:
		return oh_all_reduce(comm, buffers->send, buffers->recv,
				     call->count, OH_I32, OH_SUM, NULL);
	case OH_REDUCE_SCATTER:
		return oh_reduce_scatter(comm, buffers->send, buffers->recv,
					 call->count, OH_I32, OH_SUM, NULL);
	case OH_ALL_GATHER:
		return oh_all_gather(comm, buffers->send, buffers->recv,
				     call->count, OH_I32, NULL);
	case OH_BROADCAST:
		break;
	}
	return oh_broadcast(comm, buffers->send, buffers->recv, call->count,
			    OH_I32, call->root, NULL);
}

/* Makes the call; *right tells whether its result, if it has one, is right. */
static inline enum oh_status random_call_make(struct oh_comm *comm,
					      const struct random_call *call,
					      struct random_buffers *buffers,
					      bool *right)
{
	int rank = oh_comm_rank(comm), ranks = oh_comm_ranks(comm);
	bool scatters = call->collective == OH_REDUCE_SCATTER;
	bool gathers = call->collective == OH_ALL_GATHER;
	size_t in = call->count * (size_t)(scatters ? ranks : 1);
	size_t out = call->count * (size_t)(gathers ? ranks : 1);
	enum oh_status status;

	for (size_t i = 0; i < in; i++)
		buffers->send[i] = random_call_input(call, rank, i);
	memset(buffers->recv, 0xee, out * sizeof(int32_t));
	status = random_call_start(comm, call, buffers);
	*right = true;
	for (size_t i = 0; i < out && !status && *right; i++)
		*right = buffers->recv[i] ==
			 random_call_expect(call, rank, ranks, i);
	return status;
}

#endif
