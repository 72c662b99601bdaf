/* SPDX-License-Identifier: MIT */
/*
 * Which reducers are built in, and which of them this processor can run. Best
 * first. This file is compiled without instruction set options, the reducers
 * are not: only what usable() has said yes to may be called.
 */
#include <string.h>

#include "cpu/reduce_list.h"

bool oh__cpu_reduce_always_usable(void)
{
	return true;
}

#if defined(__x86_64__)
#include <cpuid.h>

/* clang's __builtin_cpu_supports does not know f16c. */
static bool has_f16c(void)
{
	unsigned int eax, ebx, ecx, edx;

	return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

/* They look at CPUID and at XGETBV: the kernel must save the registers too. */
bool oh__cpu_reduce_avx2_usable(void)
{
	__builtin_cpu_init();
	return __builtin_cpu_supports("avx2") && has_f16c();
}

bool oh__cpu_reduce_avx512_usable(void)
{
	__builtin_cpu_init();
	return __builtin_cpu_supports("avx512f") &&
	       __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("avx512dq");
}

bool oh__cpu_reduce_avx512bf16_usable(void)
{
	return oh__cpu_reduce_avx512_usable() &&
	       __builtin_cpu_supports("avx512bf16");
}

#endif

static const struct oh__cpu_reducer *const reducers[] = {
#if defined(__x86_64__)
	&oh__cpu_reducer_avx512bf16, &oh__cpu_reducer_avx512,
	&oh__cpu_reducer_avx2,
#elif defined(__aarch64__)
	&oh__cpu_reducer_neon,
#endif
	&oh__cpu_reducer_plain,	     NULL,
};

const struct oh__cpu_reducer *oh__cpu_reducer_best(void)
{
	const struct oh__cpu_reducer *const *at = reducers;

	/* the last one, plain, is usable everywhere */
	while (!(*at)->usable())
		at++;
	return *at;
}

const struct oh__cpu_reducer *oh__cpu_reducer_named(const char *name)
{
	for (const struct oh__cpu_reducer *const *at = reducers; *at; at++) {
		if (!strcmp((*at)->name, name))
			return *at;
	}
	return NULL;
}

const struct oh__cpu_reducer *const *oh__cpu_reducers(void)
{
	return reducers;
}
