/* SPDX-License-Identifier: MIT */
/* The benchmark's times: which rank's, which of them, and what bandwidth. */
#include "bench/stats.h"

#include "tap.h"

static bool near(double value, double due)
{
	return value > due * 0.999999 && value < due * 1.000001;
}

static void try_ranks(void)
{
	const uint64_t ticks[] = {30, 10, 50, 20};

	tap_ok(bench_ticks_of(ticks, 4, false) == 50 &&
		       bench_ticks_of(ticks, 2, false) == 30 &&
		       bench_ticks_of(ticks, 1, false) == 30,
	       "the slowest rank's, from a common start");
	tap_ok(bench_ticks_of(ticks, 4, true) == 10 &&
		       bench_ticks_of(ticks, 1, true) == 30,
	       "the fewest, from each rank's own");
}

static void try_times(void)
{
	double us[200], one = 7, none = 0;
	struct bench_times times;

	for (int i = 0; i < 200; i++)
		us[i] = (i * 77 + 13) % 200 + 1;
	times = bench_times_of(us, 200);
	tap_ok(near(times.min, 1) && near(times.p50, 100) &&
		       near(times.p99, 198),
	       "of 1 to 200 in any order: %g, %g, %g", times.min, times.p50,
	       times.p99);
	times = bench_times_of(&one, 1);
	tap_ok(near(times.min, 7) && near(times.p50, 7) && near(times.p99, 7),
	       "of one");
	times = bench_times_of(&none, 0);
	tap_ok(times.min <= 0 && times.p50 <= 0 && times.p99 <= 0, "of none");
}

static void try_bandwidths(void)
{
	tap_ok(near(bench_algbw(4000000, 20), 200) && bench_algbw(1, 0) <= 0,
	       "decimal GB/s");
	tap_ok(near(bench_busbw(OH_ALL_REDUCE, 4, 4000000, 20), 300) &&
		       near(bench_busbw(OH_REDUCE_SCATTER, 4, 4000000, 20),
			    150) &&
		       near(bench_busbw(OH_ALL_GATHER, 4, 4000000, 20), 150) &&
		       near(bench_busbw(OH_BROADCAST, 4, 4000000, 20), 200),
	       "what a link carries for it");
}

int main(void)
{
	try_ranks();
	try_times();
	try_bandwidths();
	return tap_done();
}
