/* SPDX-License-Identifier: MIT */
/* Sizes in bytes: their text, their ranges, how often each is measured. */
#ifndef OH_BENCH_SIZES_H
#define OH_BENCH_SIZES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* More is taken for a mistake. The pattern of the data repeats from 2^32. */
#define BENCH_SIZE_MAX (1ull << 32)
#define BENCH_SIZES_MAX 4096

struct bench_sizes {
	uint64_t bytes[BENCH_SIZES_MAX];
	size_t count;
};

/* Decimal digits, nothing else, within low and high. */
bool bench_parse_number(const char *text, uint64_t low, uint64_t high,
			uint64_t *value);

/* As above with an optional K, M or G (binary), 1 to BENCH_SIZE_MAX. */
bool bench_parse_size(const char *text, uint64_t *bytes);

/* "8K,64K": at least one; false leaves *sizes undefined. */
bool bench_parse_sizes(const char *text, struct bench_sizes *sizes);

/*
 * first, then times factor or plus step, up to last. step 0 means factor,
 * which is 2 or more. false if there are more than BENCH_SIZES_MAX.
 */
bool bench_sizes_range(uint64_t first, uint64_t last, uint64_t factor,
		       uint64_t step, struct bench_sizes *sizes);

/* Timed calls for a size, and untimed ones before each round of them. */
int bench_default_iterations(uint64_t bytes, bool crowded);
int bench_default_warmups(uint64_t bytes);

/* On GPU memory: calls of a replay, and timed replays. shared: there are more
 * ranks than GPUs. */
int bench_default_calls(uint64_t bytes, bool shared);
int bench_default_replays(uint64_t bytes, bool shared);

#endif
