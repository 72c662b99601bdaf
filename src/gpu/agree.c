/* SPDX-License-Identifier: MIT */
#include "gpu/agree.h"

#include <stdio.h>

/* Calls that may be compared: the rest of the ring may be written meanwhile. */
#define WINDOW (OH__DEVICE_CALLS - 16)

static const struct oh__device_call *call_at(const struct oh__control *control,
					     uint64_t number)
{
	return &control->device_call[number % OH__DEVICE_CALLS];
}

/* A multiplication by the odd constant of Fibonacci hashing for each part. */
static uint32_t mix(uint32_t chain, uint64_t count, uint32_t what)
{
	const uint64_t odd = 0x9e3779b97f4a7c15ull;
	uint64_t mixed = (chain ^ count) * odd;

	mixed = (mixed ^ mixed >> 32 ^ what) * odd;
	return (uint32_t)(mixed >> 32);
}

void oh__gpu_note_call(struct oh__gpu *gpu, const struct oh__gpu_call *call)
{
	struct oh__control *own = gpu->mailbox->own;
	uint64_t number = ++gpu->calls;
	struct oh__device_call *note =
		&own->device_call[number % OH__DEVICE_CALLS];
	uint32_t what = (uint32_t)call->dtype << 1 | call->average;

	gpu->chain = mix(gpu->chain, call->bytes, what);
	atomic_store_explicit(&note->bytes, call->bytes, memory_order_relaxed);
	atomic_store_explicit(&note->what, what, memory_order_relaxed);
	atomic_store_explicit(&note->chain, gpu->chain, memory_order_relaxed);
	/* pairs with the load in find_difference */
	atomic_store_explicit(&own->device_calls.word, number,
			      memory_order_release);
}

static uint64_t calls_of(const struct oh__control *control)
{
	return atomic_load_explicit(&control->device_calls.word,
				    memory_order_acquire);
}

/* Before the counts are looked at again. */
static bool differ(const struct oh__control *own,
		   const struct oh__control *peer, uint64_t number)
{
	return atomic_load_explicit(&call_at(own, number)->chain,
				    memory_order_acquire) !=
	       atomic_load_explicit(&call_at(peer, number)->chain,
				    memory_order_acquire);
}

/* Has the ring gone on so far that the call's place may be another's? */
static bool is_gone(const struct oh__control *control, uint64_t number)
{
	return calls_of(control) - number >= WINDOW;
}

/* The first call known to differ, 0 if none. */
static uint64_t find_difference(const struct oh__control *own,
				const struct oh__control *peer)
{
	uint64_t mine = calls_of(own), theirs = calls_of(peer);
	uint64_t last = mine < theirs ? mine : theirs, first = last;

	if (!last || is_gone(own, last) || is_gone(peer, last) ||
	    !differ(own, peer, last))
		return 0;
	while (first > 1 && !is_gone(own, first - 1) &&
	       !is_gone(peer, first - 1) && differ(own, peer, first - 1))
		first--;
	/* what was compared was there all the time */
	return is_gone(own, first) || is_gone(peer, first) ? 0 : first;
}

static void say_call(const struct oh__device_call *call, char *text,
		     size_t room)
{
	uint64_t bytes =
		atomic_load_explicit(&call->bytes, memory_order_relaxed);
	uint32_t what = atomic_load_explicit(&call->what, memory_order_relaxed);

	snprintf(text, room, "%llu bytes of %s %s", (unsigned long long)bytes,
		 oh_dtype_name((enum oh_dtype)(what >> 1)),
		 oh_op_name(what & 1 ? OH_AVG : OH_SUM));
}

int oh__gpu_find_mismatch(const struct oh__gpu *gpu, char *text, size_t room)
{
	const struct oh__mailbox *m = gpu->mailbox;

	for (int i = 0; i < gpu->ranks; i++) {
		uint64_t number = i == gpu->rank
					  ? 0
					  : find_difference(m->own, m->peer[i]);
		char mine[64], theirs[64];

		if (!number)
			continue;
		say_call(call_at(m->own, number), mine, sizeof(mine));
		say_call(call_at(m->peer[i], number), theirs, sizeof(theirs));
		snprintf(text, room,
			 "call %llu on GPU memory is an all_reduce of %s here, "
			 "of %s on rank %d",
			 (unsigned long long)number, mine, theirs, i);
		return i;
	}
	return -1;
}

bool oh__gpu_is_behind(const struct oh__gpu *gpu, int rank)
{
	const struct oh__mailbox *m = gpu->mailbox;

	return calls_of(m->peer[rank]) < calls_of(m->own);
}
