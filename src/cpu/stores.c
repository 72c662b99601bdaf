/* SPDX-License-Identifier: MIT */
#include "cpu/stores.h"

const char *oh__stores_name(enum oh__stores stores)
{
	static const char *const names[OH__STORES_COUNT] = {
		[OH__STORES_VECTOR] = "vector",
		[OH__STORES_STRING] = "string",
		[OH__STORES_NON_TEMPORAL] = "non-temporal",
	};

	return (unsigned)stores < OH__STORES_COUNT ? names[stores] : "unknown";
}

#if defined(__x86_64__)

bool oh__stores_usable(enum oh__stores stores)
{
	return (unsigned)stores < OH__STORES_COUNT;
}

static void copy_string(void *to, const void *from, size_t bytes)
{
	__asm__ volatile("rep movsb"
			 : "+D"(to), "+S"(from), "+c"(bytes)
			 :
			 : "memory");
}

#else

bool oh__stores_usable(enum oh__stores stores)
{
	return stores == OH__STORES_VECTOR;
}

static void copy_string(void *to, const void *from, size_t bytes)
{
	__builtin_memcpy(to, from, bytes);
}

#endif

void oh__stores_copy(const struct oh__cpu_reducer *reducer,
		     enum oh__stores stores, void *to, const void *from,
		     size_t bytes)
{
	if (stores == OH__STORES_NON_TEMPORAL)
		reducer->copy_nt(to, from, bytes);
	else if (stores == OH__STORES_STRING)
		copy_string(to, from, bytes);
	else
		reducer->copy(to, from, bytes);
}
