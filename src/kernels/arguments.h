/* SPDX-License-Identifier: MIT */
/*
 * What host and device share: the arguments of the kernels and the words by
 * which they tell each other of a failure. Plain C, no vendor types.
 */
#ifndef OH_KERNELS_ARGUMENTS_H
#define OH_KERNELS_ARGUMENTS_H

#include <stdint.h>

#define OH__KERNEL_RANKS 16
#define OH__PACK_BYTES 16

/* In a warp's epoch word: the communicator has failed. A kernel that starts
 * then takes what is there and waits for nothing. */
#define OH__EPOCH_DEAD 0x80000000u

/* In every word of a mailbox: nothing has come. A NaN in f32, two in f16 and
 * bf16; a sender that holds it sends OH__WORD_NAN instead. */
#define OH__WORD_EMPTY 0xffffffffu
#define OH__WORD_NAN 0x7fff7fffu

/* Where data travels with flags, a flag is the epoch with this bit, so it is
 * never 0. OH__FLAG_RELEASED, which has not the bit, ends a wait. */
#define OH__FLAG_BIT 0x80000000u
#define OH__FLAG_RELEASED 1u

/* In host memory that the device has mapped. */
struct oh__kernel_watch {
	/* a kernel has waited for that rank's data until the deadline; or for
	 * its results in a two-shot, which it may owe to another's being late
	 */
	uint32_t late[OH__KERNEL_RANKS], late_result[OH__KERNEL_RANKS];
};

/* What the kernels' clock counts in, about a millisecond, and how far. */
#define OH__TICK_NS (1u << 20)
#define OH__TICKS 0x3fffffffu

/* An all-reduce. */
struct oh__kernel_arguments {
	const void *send;
	void *recv;
	uint64_t bytes; /* of this round's vector */
	uint32_t packs; /* of 16 bytes, the last one may be cut */
	uint32_t part; /* packs of each rank's part in a two-shot */
	uint32_t half; /* packs from one half of a slot to the next */
	/* staged: packs from the slot's start to its flags, and from one half
	 * of them to the next */
	uint32_t flags, flags_half;
	uint32_t rank, ranks;
	uint32_t average;
	/* a thread that has waited for so many ticks leaves; OH__TICKS / 4 at
	 * most, as more than half is taken for less than nothing */
	uint32_t timeout;
	/* cycles from sending to the first look: a look through PCIe that comes
	 * too early costs a whole round trip */
	uint32_t pause;
	/* one word a warp of the grid, in device memory */
	uint32_t *epoch;
	struct oh__kernel_watch *watch;
	/* rank k's slot in this rank's mailbox, and this rank's in rank k's */
	void *in[OH__KERNEL_RANKS];
	void *out[OH__KERNEL_RANKS];
};

/* What ends the waits of a communicator that has failed: every epoch gets the
 * dead bit; words of a slot in which nothing has come, OH__WORD_NAN; in a slot
 * with flags, each flag OH__FLAG_RELEASED. */
struct oh__release_arguments {
	uint32_t *epoch;
	uint32_t epochs;
	uint32_t *slot;
	uint64_t words;
	uint32_t flagged;
};

/* The smallest block: it finds place where any other would. */
#define OH__RELEASE_THREADS 32

/* The check of a pair's memory; an area holds a pattern of every rank. */
#define OH__CHECK_WORDS 1024
#define OH__CHECK_THREADS 256
#define OH__CHECK_AREA_BYTES (OH__KERNEL_RANKS * OH__CHECK_WORDS * 4)

struct oh__check_result {
	uint32_t wrong_stored; /* words that rank k should have stored here */
	uint32_t nonce; /* of the check that wrote this */
};

struct oh__check_arguments {
	uint32_t rank, nonce;
	void *own; /* this rank's area */
	/* rank k's as seen here; NULL: this rank cannot store there */
	void *peer[OH__KERNEL_RANKS];
	struct oh__check_result *result; /* one a rank, in host memory */
};

/* A measurement of `onehop probe`, of whichever of its kernels. Patterns are
 * index * OH__PROBE_STEP + seed. */
#define OH__PROBE_THREADS 512
#define OH__PROBE_BLOCKS 1024 /* at most */
#define OH__PROBE_STEP 0x9e3779b1u
#define OH__PROBE_CHAIN 32 /* loads of a round */
/* An answer is a word of each block; or rounds done, ns of all, cycles of all
 * in two words, then cycles of each round. */
#define OH__PROBE_HEAD 4
#define OH__PROBE_ROUNDS 1020
#define OH__PROBE_ANSWER_BYTES 4096

struct oh__probe_arguments {
	void *to;
	const void *from;
	uint64_t packs; /* of OH__PACK_BYTES */
	uint32_t seed;
	uint32_t rounds;
	uint32_t looks; /* of each wait for a flag */
	uint32_t leads; /* this side throws the flag first */
	uint32_t zero; /* is 0 */
	uint32_t *answer; /* in host memory */
};

/* An exchange of flags, which measurements call. */
#define OH__FLOOR_THREADS 32

struct oh__floor_arguments {
	uint32_t rank, ranks;
	uint32_t looks;
	/* in device memory: the epoch of the last call; not 0: a flag did not
	 * come */
	volatile uint32_t *state;
	uint32_t *late; /* in host memory: 1 + the rank whose flag it was */
	/* rank k's, as seen here; in them a word of each rank */
	uint32_t *flags[OH__KERNEL_RANKS];
};

#endif
