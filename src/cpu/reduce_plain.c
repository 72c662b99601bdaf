/* SPDX-License-Identifier: MIT */
/*
 * Reduction in plain C, for every processor, and the rule by which the vector
 * files are judged. It works in blocks, so that the inner loops are over
 * elements and a compiler may vectorise them.
 *
 * Narrow floats are converted by integer arithmetic. Minimum and maximum work
 * on the bits: see below.
 */
#include <stdint.h>
#include <string.h>

#include "cpu/reduce_list.h"

/* Elements a block: its accumulators fit into the first-level cache. */
#define BLOCK 64

typedef float f32;
typedef double f64;
typedef uint16_t f16;
typedef uint16_t bf16;

static uint32_t bits_of(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static float from_bits(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* What an element is in an accumulator, and back with the one rounding. */
static f64 widen_f64(f64 x)
{
	return x;
}

static f64 narrow_f64(f64 x)
{
	const uint64_t nan = 0x7fffffffffffffff;

	if (x != x)
		memcpy(&x, &nan, sizeof(x));
	return x;
}

static f32 widen_f32(f32 x)
{
	return x;
}

static f32 narrow_f32(f32 x)
{
	return x != x ? from_bits(0x7fffffff) : x;
}

static f32 widen_bf16(bf16 x)
{
	return from_bits((uint32_t)x << 16);
}

static bf16 narrow_bf16(f32 x)
{
	uint32_t bits = bits_of(x);

	if (x != x)
		return 0x7fff;
	/* a carry out of the significand is a step of the exponent */
	return (bf16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/*
 * Binary16 has 5 bits of exponent (bias 15) and 10 of significand, binary32
 * has 8 (bias 127) and 23.
 */
static f32 widen_f16(f16 x)
{
	uint32_t sign = (uint32_t)(x & 0x8000) << 16;
	uint32_t rest = x & 0x7fff;

	if (rest >= 0x7c00)
		return from_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
	if (rest >= 0x400)
		return from_bits(sign | ((rest << 13) + ((127 - 15) << 23)));
	/* a multiple of 2^-24, exact in f32 */
	return from_bits(sign | bits_of((f32)rest * 0x1p-24f));
}

static f16 narrow_f16(f32 x)
{
	uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000;
	uint32_t rest = bits & 0x7fffffff;

	if (rest > 0x7f800000)
		return 0x7fff;
	if (rest >= (127 + 16) << 23)
		return (f16)(sign | 0x7c00);
	if (rest >= (127 - 14) << 23) {
		/* the carry may make it infinite, which is right */
		rest -= (127 - 15) << 23;
		return (f16)(sign | (rest + 0xfff + (rest >> 13 & 1)) >> 13);
	}
	/*
	 * Below 2^-14 the step is 2^-24, which is that of f32 from 0.5 to 1:
	 * adding 0.5 rounds, and leaves the multiple in the lowest bits.
	 */
	return (f16)(sign | (bits_of(from_bits(rest) + 0.5f) - 0x3f000000));
}

/* Integers need neither. */
#define WRAPPING(type)                                                         \
	static type widen_##type(type x)                                       \
	{                                                                      \
		return x;                                                      \
	}                                                                      \
                                                                               \
	static type narrow_##type(type x)                                      \
	{                                                                      \
		return x;                                                      \
	}

WRAPPING(int64_t)
WRAPPING(uint64_t)
WRAPPING(int32_t)
WRAPPING(uint32_t)
WRAPPING(int8_t)
WRAPPING(uint8_t)

/* A NaN loses; of two zeros the negative one is the smaller. */
#define FLOAT_ORDER(type)                                                      \
	static type lower_##type(type x, type y)                               \
	{                                                                      \
		if (x != x || y != y)                                          \
			return x != x ? y : x;                                 \
		if (x == y)                                                    \
			return __builtin_signbit(x) ? x : y;                   \
		return x < y ? x : y;                                          \
	}                                                                      \
                                                                               \
	static type higher_##type(type x, type y)                              \
	{                                                                      \
		if (x != x || y != y)                                          \
			return x != x ? y : x;                                 \
		if (x == y)                                                    \
			return __builtin_signbit(x) ? y : x;                   \
		return x < y ? y : x;                                          \
	}

FLOAT_ORDER(f32)
FLOAT_ORDER(f64)

#define ADD(x, y) ((x) + (y))
#define MULTIPLY(x, y) ((x) * (y))
#define LOWER(x, y) ((y) < (x) ? (y) : (x))
#define HIGHER(x, y) ((y) > (x) ? (y) : (x))
#define KEEP(type, x, srcs) (x)
/* To a signed type: gcc and clang define the conversion, it wraps. */
#define DIVIDE(type, x, srcs) ((type)(x) / (type)(srcs))

/*
 * One kernel: element is the type in memory and names widen and narrow, sum
 * that of the arithmetic, quotient that of the division. All sources are
 * loaded before the first store, so a destination may be a source.
 */
#define KERNEL(name, element, sum, COMBINE, FINISH, quotient)                  \
	static void name##_block(const struct oh__cpu_reduce_job *job,         \
				 size_t from, size_t count)                    \
	{                                                                      \
		const size_t at = from * sizeof(element);                      \
		const size_t bytes = count * sizeof(element);                  \
		element raw[BLOCK];                                            \
		sum acc[BLOCK];                                                \
                                                                               \
		memcpy(raw, (const char *)job->src[0] + at, bytes);            \
		for (size_t i = 0; i < count; i++)                             \
			acc[i] = (sum)widen_##element(raw[i]);                 \
		for (int src = 1; src < job->srcs; src++) {                    \
			memcpy(raw, (const char *)job->src[src] + at, bytes);  \
			for (size_t i = 0; i < count; i++) {                   \
				sum y = (sum)widen_##element(raw[i]);          \
                                                                               \
				acc[i] = (sum)COMBINE(acc[i], y);              \
			}                                                      \
		}                                                              \
		for (size_t i = 0; i < count; i++)                             \
			raw[i] = narrow_##element(                             \
				FINISH(quotient, acc[i], job->srcs));          \
		for (int dst = 0; dst < job->dsts; dst++)                      \
			memcpy((char *)job->dst[dst] + at, raw, bytes);        \
	}                                                                      \
                                                                               \
	static void name(const struct oh__cpu_reduce_job *job)                 \
	{                                                                      \
		size_t count;                                                  \
                                                                               \
		for (size_t at = 0; at < job->count; at += count) {            \
			count = job->count - at;                               \
			if (count > BLOCK)                                     \
				count = BLOCK;                                 \
			name##_block(job, at, count);                          \
		}                                                              \
	}

#define FLOATS(type, sum)                                                      \
	KERNEL(type##_sum, type, sum, ADD, KEEP, sum)                          \
	KERNEL(type##_prod, type, sum, MULTIPLY, KEEP, sum)                    \
	KERNEL(type##_min, type, sum, lower_##sum, KEEP, sum)                  \
	KERNEL(type##_max, type, sum, higher_##sum, KEEP, sum)                 \
	KERNEL(type##_avg, type, sum, ADD, DIVIDE, sum)

/* The arithmetic is unsigned, comparison and division are not. */
#define INTEGERS(type, wrapping)                                               \
	KERNEL(type##_sum, type, wrapping, ADD, KEEP, wrapping)                \
	KERNEL(type##_prod, type, wrapping, MULTIPLY, KEEP, wrapping)          \
	KERNEL(type##_min, type, type, LOWER, KEEP, type)                      \
	KERNEL(type##_max, type, type, HIGHER, KEEP, type)                     \
	KERNEL(type##_avg, type, wrapping, ADD, DIVIDE, type)

FLOATS(f64, f64)
FLOATS(f32, f32)
FLOATS(f16, f32)
FLOATS(bf16, f32)
INTEGERS(int64_t, uint64_t)
INTEGERS(uint64_t, uint64_t)
INTEGERS(int32_t, uint32_t)
INTEGERS(uint32_t, uint32_t)
INTEGERS(int8_t, uint8_t)
INTEGERS(uint8_t, uint8_t)

static void copy(void *dst, const void *src, size_t bytes)
{
	if (bytes)
		memcpy(dst, src, bytes);
}

static void copy_nt(void *dst, const void *src, size_t bytes)
{
	if (bytes)
		memcpy(dst, src, bytes);
}

#define ROW(dtype, type)                                                       \
	[dtype] = {                                                            \
		[OH_SUM] = type##_sum, [OH_PROD] = type##_prod,                \
		[OH_MIN] = type##_min, [OH_MAX] = type##_max,                  \
		[OH_AVG] = type##_avg,                                         \
	}

const struct oh__cpu_reducer oh__cpu_reducer_plain = {
	.name = "plain",
	.usable = oh__cpu_reduce_always_usable,
	.reduce =
		{
			ROW(OH_F64, f64),
			ROW(OH_F32, f32),
			ROW(OH_F16, f16),
			ROW(OH_BF16, bf16),
			ROW(OH_I64, int64_t),
			ROW(OH_U64, uint64_t),
			ROW(OH_I32, int32_t),
			ROW(OH_U32, uint32_t),
			ROW(OH_I8, int8_t),
			ROW(OH_U8, uint8_t),
		},
	.copy = copy,
	.copy_nt = copy_nt,
};
