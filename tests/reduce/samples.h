/* SPDX-License-Identifier: MIT */
/*
 * Inputs of tests/test_reduce.c: a mixture of ordinary numbers, of any bits,
 * and of numbers where arithmetic has an edge. The same in every run.
 */
#ifndef OH_TESTS_REDUCE_SAMPLES_H
#define OH_TESTS_REDUCE_SAMPLES_H

#include "reference.h"

/* xorshift64* of Vigna, 2016. */
static uint64_t random_state = 0x9e3779b97f4a7c15;

static inline uint64_t random_bits(void)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return random_state * 0x2545f4914f6cdd1d;
}

/* 0 to below - 1. */
static inline unsigned int random_below(unsigned int below)
{
	return (unsigned int)((random_bits() >> 32) * below >> 32);
}

/* The k-th number with an edge, either sign. */
static inline uint64_t edge_bits(const struct ref_type *type, unsigned int k)
{
	uint64_t sign = (uint64_t)1 << (8 * type->bytes - 1);
	uint64_t one = (uint64_t)1 << type->significand_bits;
	uint64_t infinity = ref_infinity(type);
	const uint64_t edges[] = {
		0, /* zero */
		1, /* the smallest subnormal */
		one - 1, /* the largest subnormal */
		one, /* the smallest normal number */
		one + 1,
		infinity - 1, /* the largest number */
		infinity - one, /* the largest power of two */
		infinity,
		infinity + 1, /* a signalling NaN */
		infinity + one / 2, /* the quiet NaN of x86, with a sign */
		infinity + one - 1, /* the canonical NaN */
		infinity / 2 & -one, /* 1 */
	};

	if (!type->is_float) {
		const uint64_t integers[] = {0,	   1,	     ~(uint64_t)0,
					     sign, sign - 1, sign + 1};

		return integers[k % 6];
	}
	return edges[k / 2 % 12] | (k & 1 ? sign : 0);
}

/* A number near 1, so that sums are rounded, and often at a tie. */
static inline uint64_t ordinary_bits(const struct ref_type *type)
{
	int m = type->significand_bits;
	uint64_t one_exponent = (uint64_t)(1 - type->exponent_min);
	uint64_t exponent = one_exponent - 6 + random_below(12);
	uint64_t sign = random_bits() >> 63;
	uint64_t fraction = random_bits() >> 1;

	if (!type->is_float)
		return random_bits();
	if (random_below(4) == 0)
		exponent += (uint64_t)m / 2;
	/* few bits set at either end make ties */
	if (random_below(2))
		fraction &= (uint64_t)5 << random_below((unsigned int)m);
	return sign << (8 * type->bytes - 1) | exponent << m |
	       (fraction & (((uint64_t)1 << m) - 1));
}

/*
 * One number. Edges come once in rare times, any bits as often: with many
 * sources they must be rare, or nearly every sum is NaN.
 */
static inline uint64_t sample_bits(const struct ref_type *type,
				   unsigned int rare)
{
	switch (random_below(rare)) {
	case 0:
		return edge_bits(type, random_below(24));
	case 1:
		return random_bits();
	default:
		return ordinary_bits(type);
	}
}

#endif
