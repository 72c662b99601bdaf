/* SPDX-License-Identifier: MIT */
/*
 * Reduction with the vector instructions that every 64-bit Arm processor has:
 * the pieces that the template (reduce_template.h) leaves to an instruction
 * set. Tails are done in narrower vectors (reduce_part.h).
 *
 * Conversions keep subnormals while FPCR is in its default state. There are no
 * non-temporal vector stores in C; a destination that asks for them gets
 * ordinary ones.
 */
#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>

#define VEC_BYTES 16
#define VEC_REDUCER oh__cpu_reducer_neon
#define VEC_NAME "neon"
#define VEC_USABLE oh__cpu_reduce_always_usable
#define VEC_UNROLL 4
#define VEC_WIDE_UNROLL 4
#define VEC_INLINE static inline __attribute__((always_inline))

#include "cpu/reduce_part.h"

typedef uint8x16_t vec;

struct wide {
	float32x4_t a, b;
};

VEC_INLINE vec vec_load(const char *from)
{
	return vld1q_u8((const uint8_t *)from);
}

VEC_INLINE void vec_store(char *to, vec x)
{
	vst1q_u8((uint8_t *)to, x);
}

VEC_INLINE void vec_stream(char *to, vec x)
{
	vec_store(to, x);
}

VEC_INLINE vec vec_load_part(const char *from, size_t bytes)
{
	struct part part = part_load(from, bytes);

	return vreinterpretq_u8_u64(
		vcombine_u64(vcreate_u64(part.lower), vcreate_u64(part.upper)));
}

VEC_INLINE void vec_store_part(char *to, vec x, size_t bytes)
{
	uint64x2_t halves = vreinterpretq_u64_u8(x);

	part_store(to,
		   (struct part){vgetq_lane_u64(halves, 0),
				 vgetq_lane_u64(halves, 1)},
		   bytes);
}

VEC_INLINE vec vec_min_s8(vec x, vec y)
{
	return (vec)vminq_s8((int8x16_t)x, (int8x16_t)y);
}

VEC_INLINE vec vec_min_s16(vec x, vec y)
{
	return (vec)vminq_s16((int16x8_t)x, (int16x8_t)y);
}

VEC_INLINE vec vec_min_s32(vec x, vec y)
{
	return (vec)vminq_s32((int32x4_t)x, (int32x4_t)y);
}

VEC_INLINE vec vec_min_s64(vec x, vec y)
{
	return vbslq_u8((vec)vcgtq_s64((int64x2_t)x, (int64x2_t)y), y, x);
}

VEC_INLINE vec vec_canonical_f32(vec x)
{
	vec number = (vec)vceqq_f32((float32x4_t)x, (float32x4_t)x);

	return vbslq_u8(number, x, (vec)vdupq_n_u32(0x7fffffff));
}

VEC_INLINE vec vec_canonical_f64(vec x)
{
	vec number = (vec)vceqq_f64((float64x2_t)x, (float64x2_t)x);

	return vbslq_u8(number, x, (vec)vdupq_n_u64(0x7fffffffffffffff));
}

/* a holds the even elements, b the odd ones; see reduce_avx512.c. */
VEC_INLINE vec bf16_narrow(struct wide x)
{
	uint16x8_t a = (uint16x8_t)x.a, b = (uint16x8_t)x.b;
	uint16x8_t upper = vtrn2q_u16(a, b), lower = vtrn1q_u16(a, b);
	uint16x8_t number = vtrn1q_u16((uint16x8_t)vceqq_f32(x.a, x.a),
				       (uint16x8_t)vceqq_f32(x.b, x.b));
	uint16x8_t up;

	lower = vorrq_u16(lower, vandq_u16(upper, vdupq_n_u16(1)));
	up = vcgtq_u16(lower, vdupq_n_u16(0x8000));
	return (vec)vbslq_u16(number, vsubq_u16(upper, up),
			      vdupq_n_u16(0x7fff));
}

VEC_INLINE struct wide f16_widen(vec x)
{
	float16x8_t halves = (float16x8_t)x;

	return (struct wide){
		vcvt_f32_f16(vget_low_f16(halves)),
		vcvt_high_f32_f16(halves),
	};
}

VEC_INLINE struct wide f16_load(const char *from)
{
	return f16_widen(vec_load(from));
}

/* 0x7fffffff becomes 0x7fff. */
VEC_INLINE vec f16_narrow(struct wide x)
{
	float32x4_t a = (float32x4_t)vec_canonical_f32((vec)x.a);
	float32x4_t b = (float32x4_t)vec_canonical_f32((vec)x.b);

	return (vec)vcvt_high_f16_f32(vcvt_f16_f32(a), b);
}

#include "cpu/reduce_template.h"
