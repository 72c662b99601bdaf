/* SPDX-License-Identifier: MIT */
/*
 * BENCH_CLONES before a function: it is compiled for several instruction sets,
 * and the loader picks. The loader runs before a sanitizer is up, so not with
 * those; clang knows the attribute only lately.
 */
#ifndef OH_BENCH_CLONES_H
#define OH_BENCH_CLONES_H

#include <features.h>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) &&          \
	!defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&               \
	!defined(__SANITIZE_THREAD__)
#define BENCH_CLONES                                                           \
	__attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define BENCH_CLONES
#endif

#endif
