/* SPDX-License-Identifier: MIT */
#ifndef OH_TESTS_FAKEKERNELS_PRIVATE_H
#define OH_TESTS_FAKEKERNELS_PRIVATE_H

#include <stdint.h>

#include "fakekernels.h"
#include "kernels/arguments.h"

#define PACK_WORDS (OH__PACK_BYTES / 4)

void fakekernels_all_reduce(const struct fakecuda_launch *launch);

/* Other threads and processes run kernels, too. */
static inline uint32_t see(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static inline void put(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
}

#endif
