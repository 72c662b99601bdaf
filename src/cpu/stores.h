/* SPDX-License-Identifier: MIT */
/*
 * How a mailbox is written. Which way is fastest depends on how far the
 * readers' cores are (docs/measurements), so it is measured and agreed when a
 * communicator is made. The lines of a mailbox were last read by the others:
 * an ordinary store has to fetch each line before it changes it, one after the
 * other when the cores are far apart.
 */
#ifndef OH_CPU_STORES_H
#define OH_CPU_STORES_H

#include "cpu/reduce.h"

enum oh__stores {
	OH__STORES_VECTOR, /* ordinary vector stores */
	OH__STORES_STRING, /* rep movsb: whole lines are taken unread */
	OH__STORES_NON_TEMPORAL, /* past the cache, then a fence */
	OH__STORES_COUNT,
};

const char *oh__stores_name(enum oh__stores stores);

/* Does this build know a way of its own by that name? */
bool oh__stores_usable(enum oh__stores stores);

/* memcpy by that way; OH__STORES_NON_TEMPORAL wants oh__stores_fence. */
void oh__stores_copy(const struct oh__cpu_reducer *reducer,
		     enum oh__stores stores, void *to, const void *from,
		     size_t bytes);

/* Orders non-temporal stores before whatever is stored next. */
static inline void oh__stores_fence(enum oh__stores stores)
{
#if defined(__x86_64__)
	if (stores == OH__STORES_NON_TEMPORAL)
		__builtin_ia32_sfence();
#endif
}

#endif
