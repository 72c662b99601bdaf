/* SPDX-License-Identifier: MIT */
/*
 * Part of a vector, for instruction sets without byte masks. A part is two
 * pieces of one power of two of bytes, from its start and up to its end, which
 * may overlap; so nothing outside of it is touched. In the vector the pieces
 * stand one after the other: an element in the overlap is computed twice, with
 * the same result. The rest of the vector is zero.
 *
 * Up to 16 bytes; what is more than half a vector of 32 bytes is left to the
 * file that includes this one.
 */
#ifndef OH_CPU_REDUCE_PART_H
#define OH_CPU_REDUCE_PART_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct part {
	uint64_t lower, upper;
};

VEC_INLINE struct part part_load(const char *from, size_t bytes)
{
	struct part x = {0, 0};
	uint32_t a = 0, b = 0;
	uint16_t c = 0, d = 0;

	if (bytes >= 8) {
		memcpy(&x.lower, from, 8);
		memcpy(&x.upper, from + bytes - 8, 8);
	} else if (bytes >= 4) {
		memcpy(&a, from, 4);
		memcpy(&b, from + bytes - 4, 4);
		x.lower = a | (uint64_t)b << 32;
	} else if (bytes >= 2) {
		memcpy(&c, from, 2);
		memcpy(&d, from + bytes - 2, 2);
		x.lower = c | (uint64_t)d << 16;
	} else {
		x.lower = (unsigned char)*from;
	}
	return x;
}

VEC_INLINE void part_store(char *to, struct part x, size_t bytes)
{
	uint32_t b = (uint32_t)(x.lower >> 32);
	uint16_t d = (uint16_t)(x.lower >> 16);

	/* little endian: the first bytes of a number are its lowest ones */
	if (bytes >= 8) {
		memcpy(to, &x.lower, 8);
		memcpy(to + bytes - 8, &x.upper, 8);
	} else if (bytes >= 4) {
		memcpy(to, &x.lower, 4);
		memcpy(to + bytes - 4, &b, 4);
	} else if (bytes >= 2) {
		memcpy(to, &x.lower, 2);
		memcpy(to + bytes - 2, &d, 2);
	} else {
		memcpy(to, &x.lower, 1);
	}
}

#endif
