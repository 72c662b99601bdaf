/* SPDX-License-Identifier: MIT */
/* The monotonic clock in ns, and deadlines on it. */
#ifndef OH_BASE_CLOCK_H
#define OH_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define OH__NS_PER_MS 1000000ull

static inline uint64_t oh__now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* Whole ms until the deadline, rounded up, 0 if it has passed. */
static inline int oh__ms_until(uint64_t deadline_ns)
{
	uint64_t now = oh__now_ns();
	uint64_t ms;

	if (now >= deadline_ns)
		return 0;
	ms = (deadline_ns - now + OH__NS_PER_MS - 1) / OH__NS_PER_MS;
	return ms > 86400000 ? 86400000 : (int)ms;
}

#endif
