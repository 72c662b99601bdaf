/* SPDX-License-Identifier: MIT */
/*
 * The pieces that the template (reduce_template.h) leaves to an instruction
 * set, with AVX-512 F, BW, VL and DQ. Tails are done under byte masks. The
 * files that include this one differ in how they round to bf16.
 *
 * The instructions that convert f16 keep subnormals while MXCSR is in its
 * default state.
 */
#ifndef OH_CPU_REDUCE_AVX512_H
#define OH_CPU_REDUCE_AVX512_H

#include <immintrin.h>
#include <stddef.h>

#define VEC_BYTES 64
#define VEC_UNROLL 4
#define VEC_WIDE_UNROLL 4
#define VEC_INLINE static inline __attribute__((always_inline))

typedef __m512i vec;

struct wide {
	__m512 a, b;
};

VEC_INLINE vec vec_load(const char *from)
{
	return _mm512_loadu_si512(from);
}

VEC_INLINE void vec_store(char *to, vec x)
{
	_mm512_storeu_si512(to, x);
}

VEC_INLINE void vec_stream(char *to, vec x)
{
	_mm512_stream_si512((void *)to, x);
}

VEC_INLINE __mmask64 first_bytes(size_t bytes)
{
	return ~0ull >> (64 - bytes);
}

VEC_INLINE vec vec_load_part(const char *from, size_t bytes)
{
	return _mm512_maskz_loadu_epi8(first_bytes(bytes), from);
}

VEC_INLINE void vec_store_part(char *to, vec x, size_t bytes)
{
	_mm512_mask_storeu_epi8(to, first_bytes(bytes), x);
}

VEC_INLINE vec vec_min_s8(vec x, vec y)
{
	return _mm512_min_epi8(x, y);
}

VEC_INLINE vec vec_min_s16(vec x, vec y)
{
	return _mm512_min_epi16(x, y);
}

VEC_INLINE vec vec_min_s32(vec x, vec y)
{
	return _mm512_min_epi32(x, y);
}

VEC_INLINE vec vec_min_s64(vec x, vec y)
{
	return _mm512_min_epi64(x, y);
}

VEC_INLINE vec vec_canonical_f32(vec x)
{
	__m512 value = _mm512_castsi512_ps(x);
	__mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);

	return _mm512_mask_mov_epi32(x, nan, _mm512_set1_epi32(0x7fffffff));
}

VEC_INLINE vec vec_canonical_f64(vec x)
{
	__m512d value = _mm512_castsi512_pd(x);
	__mmask8 nan = _mm512_cmp_pd_mask(value, value, _CMP_UNORD_Q);

	return _mm512_mask_mov_epi64(x, nan,
				     _mm512_set1_epi64(0x7fffffffffffffff));
}

/* NaN in either half is rare enough for a branch; both are then replaced. */
VEC_INLINE struct wide replace_nan(struct wide x, int by)
{
	__m512i nan = _mm512_set1_epi32(by);

	if (__builtin_expect(_mm512_cmp_ps_mask(x.a, x.b, _CMP_UNORD_Q), 0)) {
		__mmask16 a = _mm512_cmp_ps_mask(x.a, x.a, _CMP_UNORD_Q);
		__mmask16 b = _mm512_cmp_ps_mask(x.b, x.b, _CMP_UNORD_Q);

		x.a = _mm512_mask_mov_ps(x.a, a, _mm512_castsi512_ps(nan));
		x.b = _mm512_mask_mov_ps(x.b, b, _mm512_castsi512_ps(nan));
	}
	return x;
}

VEC_INLINE struct wide f16_widen(vec x)
{
	return (struct wide){
		_mm512_cvtph_ps(_mm512_castsi512_si256(x)),
		_mm512_cvtph_ps(_mm512_extracti64x4_epi64(x, 1)),
	};
}

/* From memory both halves are loads; a compiler does not find that out. */
VEC_INLINE struct wide f16_load(const char *from)
{
	return (struct wide){
		_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i_u *)from)),
		_mm512_cvtph_ps(
			_mm256_loadu_si256((const __m256i_u *)(from + 32))),
	};
}

/* 0x7fffffff becomes 0x7fff. */
VEC_INLINE vec f16_narrow(struct wide x)
{
	x = replace_nan(x, 0x7fffffff);
	return _mm512_inserti64x4(
		_mm512_castsi256_si512(
			_mm512_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT)),
		_mm512_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT), 1);
}

/*
 * a holds the even elements, b the odd ones. The upper and the lower halves of
 * both are collected first, so that they are rounded in one step: up if the
 * lower half is above 0x8000, or just there and the upper one is odd. The
 * lowest bit of an odd upper half, put into the lower half, tells the two
 * alike: 0x8000 becomes 0x8001, and nothing else comes to pass 0x8000.
 *
 * Ternary logic: 0xf8 is x | (y & z), 0xf4 is x | (y & ~z).
 */
VEC_INLINE vec bf16_round(struct wide x)
{
	const __m512i high = _mm512_set1_epi32((int)0xffff0000);
	const __m512i one = _mm512_set1_epi16(1);
	const __m512i tie = _mm512_set1_epi16(-0x8000);
	__m512i a, b, upper, lower;
	__mmask32 up;

	x = replace_nan(x, 0x7fff0000);
	a = _mm512_castps_si512(x.a);
	b = _mm512_castps_si512(x.b);
	upper = _mm512_srli_epi32(a, 16);
	upper = _mm512_ternarylogic_epi32(upper, b, high, 0xf8);
	lower = _mm512_slli_epi32(b, 16);
	lower = _mm512_ternarylogic_epi32(lower, a, high, 0xf4);
	lower = _mm512_ternarylogic_epi32(lower, upper, one, 0xf8);
	up = _mm512_cmpgt_epu16_mask(lower, tie);
	return _mm512_mask_sub_epi16(upper, up, upper, _mm512_set1_epi16(-1));
}

#endif
