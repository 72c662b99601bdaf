/* SPDX-License-Identifier: MIT */
/*
 * Reduction with AVX-512, bf16 rounded by the instructions of AVX512_BF16.
 * They round to nearest even as ours do, but take subnormals for zero and keep
 * a NaN's payload (Intel SDM, VCVTNE2PS2BF16). A vector that holds either goes
 * the integer way; it is rare enough for a branch.
 */
#include "cpu/reduce_avx512.h"

#define VEC_REDUCER oh__cpu_reducer_avx512bf16
#define VEC_NAME "avx512bf16"
#define VEC_USABLE oh__cpu_reduce_avx512bf16_usable

/* VFPCLASSPS: quiet NaN, denormal, signalling NaN */
#define NAN_OR_SUBNORMAL (0x01 | 0x20 | 0x80)

/* Even and odd elements, side by side, in turn again. */
static const short interleave[32] = {
	0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
	8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31,
};

VEC_INLINE vec bf16_narrow(struct wide x)
{
	__mmask16 odd = _mm512_fpclass_ps_mask(x.a, NAN_OR_SUBNORMAL) |
			_mm512_fpclass_ps_mask(x.b, NAN_OR_SUBNORMAL);

	if (__builtin_expect(odd, 0))
		return bf16_round(x);
	return _mm512_permutexvar_epi16(_mm512_loadu_si512(interleave),
					(__m512i)_mm512_cvtne2ps_pbh(x.b, x.a));
}

#include "cpu/reduce_template.h"
