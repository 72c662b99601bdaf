/* SPDX-License-Identifier: MIT */
/*
 * Elements are made and combined in blocks of a wide type (double, or uint64_t
 * that holds the type's value sign- or zero-extended), then narrowed. Every
 * floating-point value that occurs is exact and normal or +0 in the narrow
 * type, so narrowing never rounds.
 */
#include "bench/pattern.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BLOCK 256

union wide {
	double real[BLOCK];
	uint64_t whole[BLOCK];
};

static bool is_real(enum oh_dtype dtype)
{
	return dtype == OH_F64 || dtype == OH_F32 || dtype == OH_F16 ||
	       dtype == OH_BF16;
}

/* splitmix64's finaliser: spreads call and rank over the seed's bits. */
static uint32_t seed_of(const struct bench_pattern *pattern, int rank)
{
	uint64_t x = pattern->call * OH_MAX_RANKS + (uint64_t)rank;

	x = (x + 1) * 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return (uint32_t)(x >> 32);
}

/* A 32-bit hash of multiply and shift, which compilers turn into vectors. */
static inline uint32_t mix(uint32_t x)
{
	x = (x ^ (x >> 16)) * 0x21f0aaadu;
	x = (x ^ (x >> 15)) * 0x735a2d97u;
	return x ^ (x >> 15);
}

/* How many bits a sum over the ranks has more than a value. */
static unsigned growth_of(const struct bench_pattern *pattern)
{
	unsigned growth = 0;

	while (1 << growth < pattern->ranks)
		growth++;
	return growth;
}

/* Bits of one rank's floating-point value, the sign included. */
static unsigned bits_of(const struct bench_pattern *pattern)
{
	unsigned growth = growth_of(pattern);

	switch (pattern->dtype) {
	case OH_F64:
		return 30;
	case OH_F16: /* integers are exact up to 2^11 */
		return 12 - growth;
	case OH_BF16: /* up to 2^8 */
		return 9 - growth;
	default: /* f32: 15 ranks * 15 * 2^15 < 2^24, the average's worst */
		return 16;
	}
}

static void real_values(const struct bench_pattern *pattern, int rank,
			size_t first, size_t count, double *out)
{
	unsigned bits = bits_of(pattern);
	int32_t half = 1 << (bits - 1);
	int32_t scale = pattern->op == OH_AVG ? pattern->ranks : 1;
	uint32_t seed = seed_of(pattern, rank), at = (uint32_t)first;

	for (size_t i = 0; i < count; i++) {
		uint32_t x = mix(at + (uint32_t)i + seed);

		out[i] = (double)((int32_t)(x >> (32 - bits)) - half) * scale;
	}
}

/*
 * Factors of a product: +-1 or +-2 from even ranks, +-1 or +-1/2 from odd
 * ones, so that 16 ranks stay within 2^8 and 2^-8; at each index one rank has
 * an odd number below 128 in place of that. bf16 has 8 bits for it, and f16
 * holds 127 * 2^8.
 */
static void real_factors(const struct bench_pattern *pattern, int rank,
			 size_t first, size_t count, double *out)
{
	uint32_t seed = seed_of(pattern, rank), at = (uint32_t)first;
	double other = rank % 2 ? 0.5 : 2;

	for (size_t i = 0; i < count; i++) {
		uint32_t x = mix(at + (uint32_t)i + seed);
		double value = x >> 31 ? other : 1;

		if ((first + i) % (size_t)pattern->ranks == (size_t)rank)
			value = (x >> 24 & 127) | 1;
		out[i] = x >> 23 & 1 ? -value : value;
	}
}

/* The value of the type's low bits, extended to 64. */
static inline uint64_t extend(enum oh_dtype dtype, uint64_t x)
{
	switch (dtype) {
	case OH_I32:
		return (uint64_t)(int64_t)(int32_t)x;
	case OH_U32:
		return (uint32_t)x;
	case OH_I8:
		return (uint64_t)(int64_t)(int8_t)x;
	case OH_U8:
		return (uint8_t)x;
	default:
		return x;
	}
}

static bool is_signed(enum oh_dtype dtype)
{
	return dtype == OH_I64 || dtype == OH_I32 || dtype == OH_I8;
}

/* As real_factors with 1 for 2 and 1/2. */
static void whole_factors(const struct bench_pattern *pattern, int rank,
			  size_t first, size_t count, uint64_t *out)
{
	uint32_t seed = seed_of(pattern, rank), at = (uint32_t)first;
	uint32_t sign = is_signed(pattern->dtype);

	for (size_t i = 0; i < count; i++) {
		uint32_t x = mix(at + (uint32_t)i + seed);
		uint64_t value = 1;

		if ((first + i) % (size_t)pattern->ranks == (size_t)rank)
			value = (x >> 24 & 127) | 1;
		out[i] =
			extend(pattern->dtype, x >> 23 & sign ? -value : value);
	}
}

/* The upper bits of a hash, so few that their sum fits. */
static void whole_addends(const struct bench_pattern *pattern, int rank,
			  size_t first, size_t count, uint64_t *out)
{
	uint32_t seed = seed_of(pattern, rank), at = (uint32_t)first;
	unsigned width = 8 * (unsigned)oh_dtype_bytes(pattern->dtype);
	unsigned bits = width - growth_of(pattern);
	uint64_t half = is_signed(pattern->dtype) ? 1ull << (bits - 1) : 0;

	for (size_t i = 0; i < count; i++) {
		uint32_t low = mix(at + (uint32_t)i + seed);
		uint64_t x = (uint64_t)mix(low ^ seed) << 32 | low;

		out[i] = (x >> (64 - bits)) - half;
	}
}

static void whole_values(const struct bench_pattern *pattern, int rank,
			 size_t first, size_t count, uint64_t *out)
{
	uint32_t seed = seed_of(pattern, rank), at = (uint32_t)first;

	for (size_t i = 0; i < count; i++) {
		uint32_t low = mix(at + (uint32_t)i + seed);
		uint32_t high = mix(low ^ seed);

		out[i] = extend(pattern->dtype, (uint64_t)high << 32 | low);
	}
}

static void values(const struct bench_pattern *pattern, int rank, size_t first,
		   size_t count, union wide *out)
{
	bool real = is_real(pattern->dtype);
	bool fits =
		pattern->fits && pattern->op != OH_MIN && pattern->op != OH_MAX;

	if (real && pattern->op == OH_PROD)
		real_factors(pattern, rank, first, count, out->real);
	else if (real)
		real_values(pattern, rank, first, count, out->real);
	else if (fits && pattern->op == OH_PROD)
		whole_factors(pattern, rank, first, count, out->whole);
	else if (fits)
		whole_addends(pattern, rank, first, count, out->whole);
	else
		whole_values(pattern, rank, first, count, out->whole);
}

static double combine_real(enum oh_op op, double a, double b)
{
	switch (op) {
	case OH_PROD:
		return a * b;
	case OH_MIN:
		return a < b ? a : b;
	case OH_MAX:
		return a > b ? a : b;
	default:
		return a + b;
	}
}

static uint64_t combine_whole(const struct bench_pattern *pattern, uint64_t a,
			      uint64_t b)
{
	bool less = is_signed(pattern->dtype) ? (int64_t)a < (int64_t)b : a < b;

	switch (pattern->op) {
	case OH_PROD:
		return extend(pattern->dtype, a * b);
	case OH_MIN:
		return less ? a : b;
	case OH_MAX:
		return less ? b : a;
	default:
		return extend(pattern->dtype, a + b);
	}
}

static uint64_t divide_whole(enum oh_dtype dtype, uint64_t sum, int ranks)
{
	if (is_signed(dtype))
		return (uint64_t)((int64_t)sum / ranks);
	return sum / (uint64_t)ranks;
}

static void combined(const struct bench_pattern *pattern, size_t first,
		     size_t count, union wide *out)
{
	bool real = is_real(pattern->dtype);
	union wide next;

	values(pattern, 0, first, count, out);
	for (int rank = 1; rank < pattern->ranks; rank++) {
		values(pattern, rank, first, count, &next);
		for (size_t i = 0; real && i < count; i++)
			out->real[i] = combine_real(pattern->op, out->real[i],
						    next.real[i]);
		for (size_t i = 0; !real && i < count; i++)
			out->whole[i] = combine_whole(pattern, out->whole[i],
						      next.whole[i]);
	}
	for (size_t i = 0; pattern->op == OH_AVG && i < count; i++) {
		if (real)
			out->real[i] /= pattern->ranks;
		else
			out->whole[i] = divide_whole(
				pattern->dtype, out->whole[i], pattern->ranks);
	}
}

static inline uint32_t float_bits(double value)
{
	float narrow = (float)value;
	uint32_t bits;

	memcpy(&bits, &narrow, sizeof(bits));
	return bits;
}

/* Of an exact normal value or zero: rebias the exponent, drop zero bits. */
static inline uint16_t half_bits(double value)
{
	uint32_t bits = float_bits(value), size = bits & 0x7fffffff;

	if (!size)
		return 0;
	return (uint16_t)((bits >> 16 & 0x8000) |
			  ((size - (112u << 23)) >> 13));
}

#define NARROW(type, expression)                                               \
	for (size_t i = 0; i < count; i++)                                     \
		((type *)out)[i] = (type)(expression);                         \
	break

static void narrow(enum oh_dtype dtype, const union wide *from, size_t count,
		   void *out)
{
	switch (dtype) {
	case OH_F64:
		NARROW(double, from->real[i]);
	case OH_F32:
		NARROW(float, from->real[i]);
	case OH_F16:
		NARROW(uint16_t, half_bits(from->real[i]));
	case OH_BF16:
		NARROW(uint16_t, float_bits(from->real[i]) >> 16);
	case OH_I64:
	case OH_U64:
		NARROW(uint64_t, from->whole[i]);
	case OH_I32:
	case OH_U32:
		NARROW(uint32_t, from->whole[i]);
	case OH_I8:
	case OH_U8:
		NARROW(uint8_t, from->whole[i]);
	}
}

void bench_pattern_fill(const struct bench_pattern *pattern, int rank,
			size_t count, void *out)
{
	size_t element = oh_dtype_bytes(pattern->dtype);
	union wide wide;

	for (size_t at = 0; at < count; at += BLOCK) {
		size_t block = count - at < BLOCK ? count - at : BLOCK;

		values(pattern, rank, at, block, &wide);
		narrow(pattern->dtype, &wide, block,
		       (char *)out + at * element);
	}
}

/* At most BLOCK elements in their narrow form. */
static void expect(const struct bench_pattern *pattern, int source,
		   size_t first, size_t count, void *out)
{
	union wide wide;

	if (source == BENCH_ALL_RANKS)
		combined(pattern, first, count, &wide);
	else
		values(pattern, source, first, count, &wide);
	narrow(pattern->dtype, &wide, count, out);
}

size_t bench_pattern_check(const struct bench_pattern *pattern, int source,
			   size_t first, const void *got, size_t count,
			   size_t *bad)
{
	size_t element = oh_dtype_bytes(pattern->dtype), wrong = 0;
	union wide expected;

	for (size_t at = 0; at < count; at += BLOCK) {
		size_t block = count - at < BLOCK ? count - at : BLOCK;
		const char *have = (const char *)got + at * element;
		const char *want = (const char *)&expected;

		expect(pattern, source, first + at, block, &expected);
		if (!memcmp(have, want, block * element))
			continue;
		for (size_t i = 0; i < block; i++) {
			if (!memcmp(have + i * element, want + i * element,
				    element))
				continue;
			if (!wrong++)
				*bad = at + i;
		}
	}
	return wrong;
}

void bench_pattern_expect(const struct bench_pattern *pattern, int source,
			  size_t index, void *element)
{
	union wide wide;

	expect(pattern, source, index, 1, &wide);
	memcpy(element, &wide, oh_dtype_bytes(pattern->dtype));
}

/* Any bits: what is wrong may be a NaN or a subnormal. */
static double half_value(uint16_t bits)
{
	int exponent = bits >> 10 & 31;
	double size = bits & 1023;

	if (exponent == 31)
		size = size > 0 ? (double)__builtin_nanf("")
				: (double)__builtin_inff();
	else if (exponent)
		size = (size + 1024) / 1024 / 32768 * (double)(1u << exponent);
	else
		size = size / 1024 / 16384;
	return bits >> 15 ? -size : size;
}

static double real_element(enum oh_dtype dtype, const void *element)
{
	uint16_t half;
	uint32_t bits;
	double value;
	float single;

	switch (dtype) {
	case OH_F64:
		memcpy(&value, element, sizeof(value));
		return value;
	case OH_F32:
		memcpy(&single, element, sizeof(single));
		return single;
	case OH_F16:
		memcpy(&half, element, sizeof(half));
		return half_value(half);
	default:
		memcpy(&half, element, sizeof(half));
		bits = (uint32_t)half << 16;
		memcpy(&single, &bits, sizeof(single));
		return single;
	}
}

void bench_pattern_text(enum oh_dtype dtype, const void *element, char *text,
			size_t room)
{
	uint64_t whole = 0;

	if (is_real(dtype)) {
		/* as many digits as tell any two values apart */
		snprintf(text, room, "%.*g", dtype == OH_F64 ? 17 : 9,
			 real_element(dtype, element));
		return;
	}
	/* little-endian, as all machines that the library supports */
	memcpy(&whole, element, oh_dtype_bytes(dtype));
	whole = extend(dtype, whole);
	if (is_signed(dtype))
		snprintf(text, room, "%" PRId64, (int64_t)whole);
	else
		snprintf(text, room, "%" PRIu64, whole);
}
