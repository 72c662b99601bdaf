/* SPDX-License-Identifier: MIT */
/* Order statistics of times, and the bandwidths that nccl-tests defines. */
#ifndef OH_BENCH_STATS_H
#define OH_BENCH_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "onehop/onehop.h"

struct bench_times {
	double min, p50, p99;
};

/*
 * A call's ticks from those of its ranks: the slowest rank's; fewest: those of
 * the rank that started last, for times that begin at a rank's own start.
 */
uint64_t bench_ticks_of(const uint64_t *ticks, int ranks, bool fewest);

/*
 * Sorts us. Percentile p is the smallest value that at least p percent do not
 * exceed (nearest rank), so each is a time that was seen. count 0: all zero.
 */
struct bench_times bench_times_of(double *us, size_t count);

/*
 * bytes is the larger side of the call. GB/s, decimal. 0 for us 0.
 * busbw = algbw times what a link would carry for each byte: all-reduce
 * 2(n-1)/n, reduce-scatter and all-gather (n-1)/n, broadcast 1.
 */
double bench_algbw(uint64_t bytes, double us);
double bench_busbw(enum oh_collective collective, int ranks, uint64_t bytes,
		   double us);

#endif
