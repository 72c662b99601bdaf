/* SPDX-License-Identifier: MIT */
/*
 * What the files of the reduction code share: the reducers, one a file, and
 * the questions to the processor. The questions are answered in reduce_pick.c,
 * which is compiled for every processor, so that no instruction of a set runs
 * before the set is known to be there.
 */
#ifndef OH_CPU_REDUCE_LIST_H
#define OH_CPU_REDUCE_LIST_H

#include "cpu/reduce.h"

extern const struct oh__cpu_reducer oh__cpu_reducer_plain;
extern const struct oh__cpu_reducer oh__cpu_reducer_avx2;
extern const struct oh__cpu_reducer oh__cpu_reducer_avx512;
extern const struct oh__cpu_reducer oh__cpu_reducer_avx512bf16;
extern const struct oh__cpu_reducer oh__cpu_reducer_neon;

bool oh__cpu_reduce_always_usable(void);
bool oh__cpu_reduce_avx2_usable(void);
bool oh__cpu_reduce_avx512_usable(void);
bool oh__cpu_reduce_avx512bf16_usable(void);

#endif
