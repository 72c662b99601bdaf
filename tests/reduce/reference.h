/* SPDX-License-Identifier: MIT */
/*
 * What tests/test_reduce.c compares with: the arithmetic of enum oh_op for one
 * element, as directly as can be said and with nothing of src/cpu. f16, bf16
 * and f32 are computed in f64 and rounded to f32 after each step, which gives
 * what f32 arithmetic gives: for one +, * or / of f32 numbers the 53 bits of
 * f64 are at least the 2 * 24 + 2 that make the second rounding harmless
 * (Figueroa, "When is double rounding innocuous?", 1995). Narrow floats are
 * taken apart and put together by ldexp and nearbyint. Integers are computed
 * in 128 bits.
 */
#ifndef OH_TESTS_REDUCE_REFERENCE_H
#define OH_TESTS_REDUCE_REFERENCE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "onehop/onehop.h"

struct ref_type {
	const char *name;
	unsigned int bytes;
	bool is_float, is_signed;
	int significand_bits; /* stored */
	int exponent_min; /* of the smallest normal number */
	uint64_t nan;
};

static const struct ref_type ref_types[OH_DTYPE_COUNT] = {
	[OH_F64] = {"f64", 8, true, true, 52, -1022, 0x7fffffffffffffff},
	[OH_F32] = {"f32", 4, true, true, 23, -126, 0x7fffffff},
	[OH_F16] = {"f16", 2, true, true, 10, -14, 0x7fff},
	[OH_BF16] = {"bf16", 2, true, true, 7, -126, 0x7fff},
	[OH_I64] = {"i64", 8, false, true, 0, 0, 0},
	[OH_U64] = {"u64", 8, false, false, 0, 0, 0},
	[OH_I32] = {"i32", 4, false, true, 0, 0, 0},
	[OH_U32] = {"u32", 4, false, false, 0, 0, 0},
	[OH_I8] = {"i8", 1, false, true, 0, 0, 0},
	[OH_U8] = {"u8", 1, false, false, 0, 0, 0},
};

static const char *const ref_ops[OH_OP_COUNT] = {"sum", "prod", "min", "max",
						 "avg"};

static inline uint64_t ref_infinity(const struct ref_type *type)
{
	uint64_t all = ((uint64_t)2 << (8 * type->bytes - 2)) - 1;

	return all - (((uint64_t)1 << type->significand_bits) - 1);
}

/* The number that the bits stand for; NaN for any NaN. */
static inline double ref_decode(const struct ref_type *type, uint64_t bits)
{
	int m = type->significand_bits;
	uint64_t one = (uint64_t)1 << m;
	uint64_t sign = bits >> (8 * type->bytes - 1) & 1;
	uint64_t rest = bits & ~((uint64_t)1 << (8 * type->bytes - 1));
	uint64_t exponent = rest >> m, fraction = rest & (one - 1);
	double x;

	if (rest > ref_infinity(type))
		return NAN;
	if (rest == ref_infinity(type))
		x = INFINITY;
	else if (exponent == 0)
		x = ldexp((double)fraction, type->exponent_min - m);
	else
		x = ldexp((double)(one + fraction),
			  type->exponent_min - m + (int)exponent - 1);
	return sign ? -x : x;
}

/* Rounded to nearest, ties to even. */
static inline uint64_t ref_encode(const struct ref_type *type, double x)
{
	int m = type->significand_bits, exponent;
	uint64_t one = (uint64_t)1 << m, bits;
	double steps;

	if (isnan(x))
		return type->nan;
	bits = ref_infinity(type);
	if (isfinite(x)) {
		exponent = x == 0 ? type->exponent_min : ilogb(x);
		if (exponent < type->exponent_min)
			exponent = type->exponent_min;
		steps = nearbyint(ldexp(fabs(x), m - exponent));
		/* 0 to one: subnormal, and a carry needs no care */
		bits = (uint64_t)steps +
		       (uint64_t)(exponent - type->exponent_min) * one;
		if (bits > ref_infinity(type))
			bits = ref_infinity(type);
	}
	return bits | (uint64_t) !!signbit(x) << (8 * type->bytes - 1);
}

/* The rounding after each step: f64 none, the others to f32. */
static inline double ref_step(enum oh_dtype dtype, double x)
{
	volatile float narrow = (float)x;

	return dtype == OH_F64 ? x : (double)narrow;
}

static inline double ref_order(double x, double y, bool lower)
{
	if (isnan(x))
		return y;
	if (isnan(y))
		return x;
	if (x == 0 && y == 0)
		return !!signbit(x) == lower ? x : y;
	return (x < y) == lower ? x : y;
}

static inline uint64_t ref_float(enum oh_dtype dtype, enum oh_op op,
				 const uint64_t *bits, int srcs)
{
	const struct ref_type *type = &ref_types[dtype];
	double x = ref_decode(type, bits[0]), y;

	for (int i = 1; i < srcs; i++) {
		y = ref_decode(type, bits[i]);
		if (op == OH_PROD)
			x = ref_step(dtype, x * y);
		else if (op == OH_SUM || op == OH_AVG)
			x = ref_step(dtype, x + y);
		else
			x = ref_order(x, y, op == OH_MIN);
	}
	if (op == OH_AVG)
		x = ref_step(dtype, x / srcs);
	return ref_encode(type, x);
}

/* The integer that the lowest bits stand for. */
static inline __int128 ref_wrap(const struct ref_type *type, __int128 x)
{
	const __int128 range = (__int128)1 << (8 * type->bytes);

	x &= range - 1;
	return type->is_signed && x >= range / 2 ? x - range : x;
}

static inline uint64_t ref_integer(enum oh_dtype dtype, enum oh_op op,
				   const uint64_t *bits, int srcs)
{
	const struct ref_type *type = &ref_types[dtype];
	__int128 x = ref_wrap(type, bits[0]), y;

	for (int i = 1; i < srcs; i++) {
		y = ref_wrap(type, bits[i]);
		if (op == OH_PROD)
			/* unsigned: two numbers of 64 bits fit */
			x = ref_wrap(type, (__int128)((unsigned __int128)x *
						      (unsigned __int128)y));
		else if (op == OH_SUM || op == OH_AVG)
			x = ref_wrap(type, x + y);
		else
			x = (x < y) == (op == OH_MIN) ? x : y;
	}
	if (op == OH_AVG)
		x /= srcs;
	return (uint64_t)(x & (((__int128)1 << (8 * type->bytes)) - 1));
}

/* Element i of every source, combined, to element i of out. */
static inline void ref_element(enum oh_dtype dtype, enum oh_op op,
			       unsigned char *const *src, int srcs, size_t i,
			       unsigned char *out)
{
	unsigned int bytes = ref_types[dtype].bytes;
	uint64_t bits[OH_MAX_RANKS] = {0}, result;

	/* little endian: the low bytes of a number come first */
	for (int s = 0; s < srcs; s++)
		memcpy(&bits[s], src[s] + i * bytes, bytes);
	result = ref_types[dtype].is_float ? ref_float(dtype, op, bits, srcs)
					   : ref_integer(dtype, op, bits, srcs);
	memcpy(out + i * bytes, &result, bytes);
}

#endif
