/* SPDX-License-Identifier: MIT */
/*
 * The data of a benchmark call and what must come out of it.
 *
 * Element i of rank r in call c is a hash of (i, r, c), narrowed to values
 * whose combination over all ranks is exact in the type: so any order of
 * summation gives the same bits, and data that is stale, shifted or from
 * another rank shows. The expectation is computed here, in double and in
 * 64-bit integers, without the library's code.
 *
 * f64, f32  30 and 16 bits, signed     f16, bf16  as wide as the sum allows
 * integers  all bits; they wrap        product    +-2^k, one rank's odd
 * average   multiples of the ranks (floating point)
 *
 * MPI promises nothing for sums and products of integers that overflow (Open
 * MPI 4.1's vector code saturates 8-bit sums): with fits they stay in range.
 */
#ifndef OH_BENCH_PATTERN_H
#define OH_BENCH_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "onehop/onehop.h"

struct bench_pattern {
	enum oh_dtype dtype;
	enum oh_op op; /* OH_SUM where nothing is reduced */
	int ranks;
	bool fits;
	uint64_t call;
};

/* The source of an expectation that is combined over all ranks. */
#define BENCH_ALL_RANKS (-1)

/* Elements 0 to count-1 of a rank. out is aligned for the type. */
void bench_pattern_fill(const struct bench_pattern *pattern, int rank,
			size_t count, void *out);

/*
 * Compares got with elements first to first+count-1 of source (a rank, or
 * BENCH_ALL_RANKS); returns how many differ and in *bad the first of them,
 * counted from first (if there is one).
 */
size_t bench_pattern_check(const struct bench_pattern *pattern, int source,
			   size_t first, const void *got, size_t count,
			   size_t *bad);

/* One expected element, oh_dtype_bytes(dtype) wide. */
void bench_pattern_expect(const struct bench_pattern *pattern, int source,
			  size_t index, void *element);

/* An element for people: "-3", "0.5". */
void bench_pattern_text(enum oh_dtype dtype, const void *element, char *text,
			size_t room);

#endif
