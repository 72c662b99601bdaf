/* SPDX-License-Identifier: MIT */
/*
 * Memory that the ranks of one subject share with the parent, apart from what
 * the subject itself uses: a barrier that agrees on the moment a call starts,
 * the times of calls, the ways between GPUs, and a mailbox for the floors.
 *
 * The barrier is a counter and a generation. A rank reads the generation, then
 * adds itself to the counter (acquire-release: what it did before is seen by
 * whoever leaves). The last one resets the counter, writes the start and
 * raises the generation (release); the others wait for that (acquire), so they
 * see start and counter. Times and ways are plain stores, read by the parent
 * after the rank's reply has come through its socket.
 */
#ifndef OH_BENCH_ARENA_H
#define OH_BENCH_ARENA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "onehop/onehop.h"

/* The most timed calls in one command. */
#define BENCH_ROUND_MAX 32768

/* Two lines: processors fetch them in pairs. */
#define BENCH_LINE 128

struct bench_arena_head {
	_Alignas(BENCH_LINE) atomic_uint arrived;
	/* one line, so that the start comes with the generation */
	_Alignas(BENCH_LINE) atomic_uint generation;
	uint64_t start;
	_Alignas(BENCH_LINE) atomic_uint aborted;
	struct {
		_Alignas(BENCH_LINE) atomic_uint value;
	} flag[OH_MAX_RANKS];
	_Alignas(BENCH_LINE) uint64_t ticks[OH_MAX_RANKS][BENCH_ROUND_MAX];
	/* of a device: from the rank that writes the row */
	struct oh_route_peer ways[OH_MAX_RANKS][OH_MAX_RANKS];
	/* what oh_comm_create took in each rank of a device; 0: unknown */
	uint64_t create_ns[OH_MAX_RANKS];
};

struct bench_arena {
	struct bench_arena_head *head;
	char *mailbox; /* for the floors */
	size_t mailbox_bytes;
	int fd; /* -1 in a rank, which maps and closes */
};

/* How a rank waits in the barrier. */
struct bench_waiter {
	int ranks;
	bool tsc;
	bool crowded; /* more ranks than processors: give way at once */
	uint64_t lead_ticks; /* from the barrier to the start */
	/* lets the subject get on while it waits long; may be NULL */
	void (*poke)(void *state);
	void *state;
};

/* false with errno set. */
bool bench_arena_create(size_t mailbox_bytes, struct bench_arena *arena);
bool bench_arena_map(int fd, size_t mailbox_bytes, struct bench_arena *arena);
void bench_arena_close(struct bench_arena *arena);

/* Waits for all ranks; *start is the moment they agreed on. false: aborted. */
bool bench_arena_meet(struct bench_arena *arena,
		      const struct bench_waiter *waiter, uint64_t *start);

/* Ends the waiting of all ranks, now and from now on. */
void bench_arena_abort(struct bench_arena *arena);

#endif
