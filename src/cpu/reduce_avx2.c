/* SPDX-License-Identifier: MIT */
/*
 * Reduction with AVX2 and F16C: the pieces that the template
 * (reduce_template.h) leaves to an instruction set. Tails are done in narrower
 * vectors (reduce_part.h).
 *
 * F16C keeps the subnormals of f16, and those of f32 while MXCSR is in its
 * default state.
 */
#include <immintrin.h>
#include <stdint.h>

#define VEC_BYTES 32
#define VEC_REDUCER oh__cpu_reducer_avx2
#define VEC_NAME "avx2"
#define VEC_USABLE oh__cpu_reduce_avx2_usable
#define VEC_UNROLL 4
#define VEC_WIDE_UNROLL 2
#define VEC_INLINE static inline __attribute__((always_inline))

#include "cpu/reduce_part.h"

typedef __m256i vec;

struct wide {
	__m256 a, b;
};

VEC_INLINE vec vec_load(const char *from)
{
	return _mm256_loadu_si256((const __m256i_u *)from);
}

VEC_INLINE void vec_store(char *to, vec x)
{
	_mm256_storeu_si256((__m256i_u *)to, x);
}

VEC_INLINE void vec_stream(char *to, vec x)
{
	_mm256_stream_si256((__m256i *)to, x);
}

VEC_INLINE vec vec_load_part(const char *from, size_t bytes)
{
	const char *last = from + bytes - 16;
	struct part part;

	if (bytes >= 16) {
		return _mm256_inserti128_si256(
			_mm256_castsi128_si256(
				_mm_loadu_si128((const __m128i_u *)from)),
			_mm_loadu_si128((const __m128i_u *)last), 1);
	}
	part = part_load(from, bytes);
	return _mm256_set_epi64x(0, 0, (int64_t)part.upper,
				 (int64_t)part.lower);
}

VEC_INLINE void vec_store_part(char *to, vec x, size_t bytes)
{
	__m128i first = _mm256_castsi256_si128(x);

	if (bytes >= 16) {
		_mm_storeu_si128((__m128i_u *)to, first);
		_mm_storeu_si128((__m128i_u *)(to + bytes - 16),
				 _mm256_extracti128_si256(x, 1));
		return;
	}
	part_store(to,
		   (struct part){(uint64_t)_mm_cvtsi128_si64(first),
				 (uint64_t)_mm_extract_epi64(first, 1)},
		   bytes);
}

VEC_INLINE vec vec_min_s8(vec x, vec y)
{
	return _mm256_min_epi8(x, y);
}

VEC_INLINE vec vec_min_s16(vec x, vec y)
{
	return _mm256_min_epi16(x, y);
}

VEC_INLINE vec vec_min_s32(vec x, vec y)
{
	return _mm256_min_epi32(x, y);
}

VEC_INLINE vec vec_min_s64(vec x, vec y)
{
	return _mm256_blendv_epi8(x, y, _mm256_cmpgt_epi64(x, y));
}

VEC_INLINE __m256 where_nan(__m256 x, int by)
{
	__m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(by));

	return _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

VEC_INLINE vec vec_canonical_f32(vec x)
{
	return _mm256_castps_si256(
		where_nan(_mm256_castsi256_ps(x), 0x7fffffff));
}

VEC_INLINE vec vec_canonical_f64(vec x)
{
	__m256d value = _mm256_castsi256_pd(x);
	__m256d nan =
		_mm256_castsi256_pd(_mm256_set1_epi64x(0x7fffffffffffffff));

	return _mm256_castpd_si256(_mm256_blendv_pd(
		value, nan, _mm256_cmp_pd(value, value, _CMP_UNORD_Q)));
}

/* NaN is rare enough for a branch; then both halves are looked at. */
VEC_INLINE struct wide replace_nan(struct wide x, int by)
{
	__m256 nan = _mm256_cmp_ps(x.a, x.b, _CMP_UNORD_Q);

	if (__builtin_expect(!_mm256_testz_ps(nan, nan), 0)) {
		x.a = where_nan(x.a, by);
		x.b = where_nan(x.b, by);
	}
	return x;
}

/* As in reduce_avx512.c; x > 0x8000 is bit 15 of the difference to 1. */
VEC_INLINE vec bf16_narrow(struct wide x)
{
	__m256i a, b, upper, lower, up;
	const __m256i one = _mm256_set1_epi16(1);

	x = replace_nan(x, 0x7fff0000);
	a = _mm256_castps_si256(x.a);
	b = _mm256_castps_si256(x.b);
	upper = _mm256_blend_epi16(_mm256_srli_epi32(a, 16), b, 0xaa);
	lower = _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xaa);
	lower = _mm256_or_si256(lower, _mm256_and_si256(upper, one));
	up = _mm256_srli_epi16(_mm256_subs_epu16(lower, one), 15);
	return _mm256_add_epi16(upper, up);
}

VEC_INLINE struct wide f16_widen(vec x)
{
	return (struct wide){
		_mm256_cvtph_ps(_mm256_castsi256_si128(x)),
		_mm256_cvtph_ps(_mm256_extracti128_si256(x, 1)),
	};
}

/* From memory both halves are loads; a compiler does not find that out. */
VEC_INLINE struct wide f16_load(const char *from)
{
	return (struct wide){
		_mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)from)),
		_mm256_cvtph_ps(
			_mm_loadu_si128((const __m128i_u *)(from + 16))),
	};
}

/* 0x7fffffff becomes 0x7fff. */
VEC_INLINE vec f16_narrow(struct wide x)
{
	x = replace_nan(x, 0x7fffffff);
	return _mm256_inserti128_si256(
		_mm256_castsi128_si256(
			_mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT)),
		_mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT), 1);
}

#include "cpu/reduce_template.h"
