/* SPDX-License-Identifier: MIT */
/*
 * Floors: what the machine itself takes, with nothing of a library in it.
 * Flag: every rank stores its own flag and waits for all others'. Copy: rank 0
 * copies its buffer into shared memory and sets a flag, the others wait for it
 * and read all of it.
 */
#ifndef OH_BENCH_FLOOR_H
#define OH_BENCH_FLOOR_H

#include "bench/arena.h"
#include "bench/subject.h"

struct bench_floor {
	struct bench_arena *arena;
	int rank, ranks;
	bool crowded;
	unsigned round; /* the flags' value, advances with each call */
	size_t bytes;
};

/* Calls whose state is a struct bench_floor. */
bench_call_fn bench_floor_flag;
bench_call_fn bench_floor_copy;

#endif
