/* SPDX-License-Identifier: MIT */
/*
 * A call on GPU memory drawn at random: what all ranks draw alike, and what is
 * each rank's own choice; and the data, drawn anew for every call, rank and
 * place. One element taken for another is noticed but for once in 2^24 in f32,
 * 2^11 in f16 and 2^8 in bf16, so many values it may have; a pack, once in 2^64
 * or less often. Sizes lie on both sides of every class's border, most of them
 * small.
 */
#ifndef OH_TESTS_GPU_PLAY_H
#define OH_TESTS_GPU_PLAY_H

#include <string.h>

#include "cpu/reduce.h"
#include "ranks.h"

#define PLAY_COMMS 2
#define PLAY_GUARD 64 /* bytes on both sides of a buffer */
#define PLAY_ALIGN 256

struct play {
	uint64_t number; /* among all of the run */
	int comm;
	size_t count;
	enum oh_dtype dtype;
	enum oh_op op;
	bool wild; /* bits of any kind, not numbers of one size */
	/* this rank's own choice */
	bool in_place;
	int stream;
	size_t send_at, recv_at; /* into the regions */
	size_t region; /* in both buffers */
};

static inline size_t play_bytes(const struct play *play)
{
	return play->count * oh_dtype_bytes(play->dtype);
}

static inline size_t play_region(const struct play *play)
{
	return (play_bytes(play) + 2 * PLAY_GUARD + PLAY_ALIGN) / PLAY_ALIGN *
	       PLAY_ALIGN;
}

static inline size_t play_draw_bytes(struct ranks_random *r, size_t largest)
{
	uint64_t choice = ranks_below(r, 16);
	size_t bytes;

	if (choice < 4) {
		bytes = ranks_below(r, 257);
	} else if (choice < 8) {
		/* beside a class's border: 512 bytes to 1 MiB */
		bytes = ((size_t)512 << ranks_below(r, 12)) - 18;
		bytes += ranks_below(r, 37);
	} else {
		size_t top = choice < 15 ? (size_t)64 << 10 : largest;

		while (top > 64 && ranks_below(r, 8))
			top /= 2;
		bytes = ranks_below(r, top + 1);
	}
	return bytes <= largest ? bytes : bytes % largest;
}

static inline struct play play_draw(struct ranks_random *common,
				    struct ranks_random *own, int streams,
				    size_t largest)
{
	static const enum oh_dtype dtypes[] = {OH_F32, OH_F16, OH_BF16};
	static const size_t places[] = {0, 0, 0, 16, 4, 2, 7, 33};
	struct play play = {.region = 0};

	play.comm = (int)ranks_below(common, PLAY_COMMS);
	play.dtype = dtypes[ranks_below(common, 3)];
	play.op = ranks_below(common, 4) ? OH_SUM : OH_AVG;
	play.wild = !ranks_below(common, 8);
	play.count =
		play_draw_bytes(common, largest) / oh_dtype_bytes(play.dtype);
	play.in_place = !ranks_below(own, 4);
	play.stream = (int)ranks_below(own, (uint64_t)streams);
	play.send_at = PLAY_GUARD + places[ranks_below(own, 8)];
	play.recv_at = PLAY_GUARD + places[ranks_below(own, 8)];
	return play;
}

/* Bits that are kept and bits that are set: numbers from 1 to 2, of both
 * signs, whose every bit counts in a sum. */
static const struct {
	uint64_t keep, set;
} play_numbers[] = {
	[OH_F32] = {0x807fffff807fffffu, 0x3f8000003f800000u},
	[OH_F16] = {0x83ff83ff83ff83ffu, 0x3c003c003c003c00u},
	[OH_BF16] = {0x807f807f807f807fu, 0x3f803f803f803f80u},
};

/* What that rank sends. */
static inline void play_fill(const struct play *play, uint64_t seed, int rank,
			     unsigned char *data)
{
	struct ranks_random random = {
		ranks_mix(seed + play->number * OH_MAX_RANKS + (uint64_t)rank)};
	size_t bytes = play_bytes(play);

	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t x = ranks_random(&random);
		size_t left = bytes - i;

		if (!play->wild)
			x = (x & play_numbers[play->dtype].keep) |
			    play_numbers[play->dtype].set;
		else if (x % 13 == 0)
			x = UINT64_MAX; /* what stands for nothing */
		memcpy(data + i, &x, left < 8 ? left : 8);
	}
}

/* What is due; all: room for every rank's data. */
static inline void play_expect(const struct play *play, uint64_t seed,
			       int ranks, unsigned char *all, void *due)
{
	size_t step = play_region(play);
	struct oh__cpu_reduce_job job = {
		.srcs = ranks,
		.dsts = 1,
		.nt_from = 1,
		.count = play->count,
		.dst = {due},
	};

	for (int i = 0; i < ranks; i++) {
		job.src[i] = all + (size_t)i * step;
		play_fill(play, seed, i, all + (size_t)i * step);
	}
	oh__cpu_reducer_best()->reduce[play->dtype][play->op](&job);
}

#endif
