/* SPDX-License-Identifier: MIT */
/*
 * The arithmetic of the CPU engine: n source arrays are combined element by
 * element, in the order given, and stored to m destinations.
 *
 * One file an instruction set (reduce_plain.c, reduce_avx2.c, ...) fills one
 * struct oh__cpu_reducer; all give the same bits, which tests/test_reduce.c
 * holds against plain C. The arithmetic is that of enum oh_op in onehop.h:
 * f16, bf16 and f32 in f32, f64 in f64, one rounding at the end, canonical
 * NaN, integers wrap. Non-temporal stores are used for the destinations from
 * nt_from on where their alignment allows; the caller fences.
 *
 * A destination may be one of the sources or disjoint from all; nothing else.
 * Whatever is loaded at an index is loaded from all sources before any
 * destination is stored there. Pointers may have any alignment. The caller has
 * put the floating-point environment into its default state (fpenv.h).
 */
#ifndef OH_CPU_REDUCE_H
#define OH_CPU_REDUCE_H

#include <stdbool.h>
#include <stddef.h>

#include "onehop/onehop.h"

struct oh__cpu_reduce_job {
	const void *src[OH_MAX_RANKS];
	/* every rank's buffer, this rank's mailbox, and its recv buffer */
	void *dst[OH_MAX_RANKS + 2];
	int srcs; /* 1 to OH_MAX_RANKS; OH_AVG divides by this */
	int dsts; /* 1 to OH_MAX_RANKS + 2 */
	int nt_from; /* dst[nt_from...] non-temporal; == dsts for none */
	size_t count; /* elements, may be 0 */
};

typedef void oh__cpu_reduce_fn(const struct oh__cpu_reduce_job *job);

struct oh__cpu_reducer {
	const char *name; /* "plain", "avx2", "avx512", ... */
	bool (*usable)(void); /* can this processor run it? */
	oh__cpu_reduce_fn *reduce[OH_DTYPE_COUNT][OH_OP_COUNT];
	/* memcpy with vector stores; no overlap. */
	void (*copy)(void *dst, const void *src, size_t bytes);
	/* memcpy with non-temporal stores; any alignment, no overlap. The
	 * caller fences. */
	void (*copy_nt)(void *dst, const void *src, size_t bytes);
};

/* The best usable reducer, never NULL. */
const struct oh__cpu_reducer *oh__cpu_reducer_best(void);

/* The reducer of this name, NULL if it is not built in; usable or not. */
const struct oh__cpu_reducer *oh__cpu_reducer_named(const char *name);

/* All that are built in, best first, NULL at the end. */
const struct oh__cpu_reducer *const *oh__cpu_reducers(void);

#endif
