/* SPDX-License-Identifier: MIT */
/* Reduction with AVX-512, bf16 rounded with integer arithmetic. */
#include "cpu/reduce_avx512.h"

#define VEC_REDUCER oh__cpu_reducer_avx512
#define VEC_NAME "avx512"
#define VEC_USABLE oh__cpu_reduce_avx512_usable

VEC_INLINE vec bf16_narrow(struct wide x)
{
	return bf16_round(x);
}

#include "cpu/reduce_template.h"
