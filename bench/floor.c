/* SPDX-License-Identifier: MIT */
/*
 * Rounds are separated by the arena's barrier, so a flag or the mailbox may be
 * rewritten in the next one. Flags only grow from round to round; both floors
 * use the same ones.
 */
#include "bench/floor.h"

#include <sched.h>
#include <string.h>

#include "bench/clones.h"

static void set_flag(struct bench_floor *floor)
{
	/* release: pairs with await_flag; the mailbox comes before it */
	atomic_store_explicit(&floor->arena->head->flag[floor->rank].value,
			      floor->round, memory_order_release);
}

static void await_flag(struct bench_floor *floor, int rank)
{
	atomic_uint *flag = &floor->arena->head->flag[rank].value;

	/* acquire: pairs with set_flag */
	while (atomic_load_explicit(flag, memory_order_acquire) !=
	       floor->round) {
		if (floor->crowded)
			sched_yield();
	}
}

int bench_floor_flag(const struct bench_call *call)
{
	struct bench_floor *floor = call->state;

	floor->round++;
	set_flag(floor);
	for (int rank = 0; rank < floor->ranks; rank++)
		await_flag(floor, rank);
	return 0;
}

/* Reads every byte and keeps none. */
BENCH_CLONES static void read_all(const char *from, size_t bytes)
{
	uint64_t sum[8] = {0}, word[8], last = 0;
	size_t at = 0;

	for (; at + sizeof(word) <= bytes; at += sizeof(word)) {
		memcpy(word, from + at, sizeof(word));
		for (int i = 0; i < 8; i++)
			sum[i] ^= word[i];
	}
	for (; at < bytes; at++)
		last ^= (unsigned char)from[at];
	for (int i = 0; i < 8; i++)
		last ^= sum[i];
	__asm__ volatile("" : : "r"(last));
}

int bench_floor_copy(const struct bench_call *call)
{
	struct bench_floor *floor = call->state;

	floor->round++;
	if (!floor->rank) {
		memcpy(floor->arena->mailbox, call->send, floor->bytes);
		set_flag(floor);
		return 0;
	}
	await_flag(floor, 0);
	read_all(floor->arena->mailbox, floor->bytes);
	return 0;
}
