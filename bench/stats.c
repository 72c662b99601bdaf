/* SPDX-License-Identifier: MIT */
/* Order statistics by sorting: a row has at most some thousand times. */
#include "bench/stats.h"

#include <stdlib.h>

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

/* ceil(count * percent / 100), counted from 1. */
static double percentile(const double *sorted, size_t count, size_t percent)
{
	return sorted[(count * percent + 99) / 100 - 1];
}

uint64_t bench_ticks_of(const uint64_t *ticks, int ranks, bool fewest)
{
	uint64_t chosen = ticks[0];

	for (int rank = 1; rank < ranks; rank++)
		if (fewest ? ticks[rank] < chosen : ticks[rank] > chosen)
			chosen = ticks[rank];
	return chosen;
}

struct bench_times bench_times_of(double *us, size_t count)
{
	struct bench_times times = {0};

	if (!count)
		return times;
	qsort(us, count, sizeof(*us), compare);
	times.min = us[0];
	times.p50 = percentile(us, count, 50);
	times.p99 = percentile(us, count, 99);
	return times;
}

double bench_algbw(uint64_t bytes, double us)
{
	return us > 0 ? (double)bytes / us / 1000 : 0;
}

double bench_busbw(enum oh_collective collective, int ranks, uint64_t bytes,
		   double us)
{
	double share = (double)(ranks - 1) / ranks;
	double algbw = bench_algbw(bytes, us);

	switch (collective) {
	case OH_ALL_REDUCE:
		return algbw * 2 * share;
	case OH_REDUCE_SCATTER:
	case OH_ALL_GATHER:
		return algbw * share;
	case OH_BROADCAST:
		break;
	}
	return algbw;
}
