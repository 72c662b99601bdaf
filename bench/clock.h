/* SPDX-License-Identifier: MIT */
/*
 * The clock of timed calls. The time stamp counter where it runs at one speed
 * on all processors (about 20 cycles a reading), else CLOCK_MONOTONIC in ns.
 * Both are common to all processes of the host, so that ranks can agree on a
 * moment. The parent chooses and tells the ranks.
 */
#ifndef OH_BENCH_CLOCK_H
#define OH_BENCH_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

struct bench_clock {
	bool tsc;
	double ticks_per_us;
};

/* Chooses the clock and measures its speed; takes 20 ms with the counter. */
void bench_clock_open(struct bench_clock *clock);

static inline uint64_t bench_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* Now, for loops that wait for a moment. */
static inline uint64_t bench_ticks(bool tsc)
{
#if defined(__x86_64__)
	if (tsc)
		return __rdtsc();
#endif
	return bench_now_ns();
}

/* rdtscp waits for what came before it: the call that is timed is over. */
static inline uint64_t bench_ticks_after(bool tsc)
{
#if defined(__x86_64__)
	unsigned processor;

	if (tsc)
		return __rdtscp(&processor);
#endif
	return bench_now_ns();
}

/* Tells the processor that this is a waiting loop. */
static inline void bench_relax(void)
{
#if defined(__x86_64__)
	_mm_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" : : : "memory");
#endif
}

#endif
