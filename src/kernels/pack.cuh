/* SPDX-License-Identifier: MIT */
/*
 * Packs of 16 bytes: reading and writing them at any alignment, and summing
 * them as the processor's engine does: in f32, in rank order, one rounding at
 * the end. NaN comes out canonical because the conversions make it so.
 */
#ifndef OH_KERNELS_PACK_CUH
#define OH_KERNELS_PACK_CUH

#include "wait.cuh"

struct f32 {
	enum { WIDE = 4 };
	static __device__ __forceinline__ void add(float *sum, uint4 v)
	{
		sum[0] += __uint_as_float(v.x);
		sum[1] += __uint_as_float(v.y);
		sum[2] += __uint_as_float(v.z);
		sum[3] += __uint_as_float(v.w);
	}
	static __device__ __forceinline__ uint4 round(const float *sum)
	{
		return make_uint4(__float_as_uint(sum[0]),
				  __float_as_uint(sum[1]),
				  __float_as_uint(sum[2]),
				  __float_as_uint(sum[3]));
	}
};

/* Two values in a word; the words are alike. */
template <class PAIR> struct pairs {
	enum { WIDE = 8 };
	static __device__ __forceinline__ void add(float *sum, uint4 v)
	{
		PAIR::add(sum, v.x);
		PAIR::add(sum + 2, v.y);
		PAIR::add(sum + 4, v.z);
		PAIR::add(sum + 6, v.w);
	}
	static __device__ __forceinline__ uint4 round(const float *sum)
	{
		return make_uint4(PAIR::round(sum), PAIR::round(sum + 2),
				  PAIR::round(sum + 4), PAIR::round(sum + 6));
	}
};

struct f16_pair {
	static __device__ __forceinline__ void add(float *sum, uint32_t v)
	{
		float2 two = widen_f16(v);

		sum[0] += two.x;
		sum[1] += two.y;
	}
	static __device__ __forceinline__ uint32_t round(const float *sum)
	{
		return narrow_f16(sum[0], sum[1]);
	}
};

struct bf16_pair {
	static __device__ __forceinline__ void add(float *sum, uint32_t v)
	{
		sum[0] += __uint_as_float(v << 16);
		sum[1] += __uint_as_float(v & 0xffff0000u);
	}
	static __device__ __forceinline__ uint32_t round(const float *sum)
	{
		return narrow_bf16(sum[0], sum[1]);
	}
};

typedef pairs<f16_pair> f16;
typedef pairs<bf16_pair> bf16;

/* What is sent never looks like nothing. OH__WORD_NAN is a NaN in f32 and two
 * in the others. */
static __device__ __forceinline__ uint4 sendable(uint4 v)
{
	v.x = v.x == EMPTY ? OH__WORD_NAN : v.x;
	v.y = v.y == EMPTY ? OH__WORD_NAN : v.y;
	v.z = v.z == EMPTY ? OH__WORD_NAN : v.z;
	v.w = v.w == EMPTY ? OH__WORD_NAN : v.w;
	return v;
}

/*
 * The two kinds of kernels differ in what they ask of a call, not in what they
 * put into a mailbox. FAST: both buffers on 16 bytes, whole packs, a sum, and
 * the number of ranks known when it was compiled. Else: anything.
 */
template <bool FAST> struct vector;

template <> struct vector<true> {
	static __device__ __forceinline__ uint4
	take(const struct oh__kernel_arguments &c, uint32_t i)
	{
		return ((const uint4 *)c.send)[i];
	}
	static __device__ __forceinline__ void
	put(const struct oh__kernel_arguments &c, uint32_t i, uint4 v)
	{
		((uint4 *)c.recv)[i] = v;
	}
	/* half packs */
	static __device__ __forceinline__ uint2
	take_half(const struct oh__kernel_arguments &c, uint32_t i)
	{
		return ((const uint2 *)c.send)[i];
	}
	static __device__ __forceinline__ void
	put_half(const struct oh__kernel_arguments &c, uint32_t i, uint2 v)
	{
		((uint2 *)c.recv)[i] = v;
	}
};

/* Bytes from first on, as many as fill the words and are there; zeros after. */
template <uint32_t WORDS>
static __device__ __forceinline__ void
gather_bytes(const struct oh__kernel_arguments &c, uint64_t first,
	     uint32_t *words)
{
	const unsigned char *from = (const unsigned char *)c.send + first;

#pragma unroll
	for (uint32_t k = 0; k < WORDS; k++)
		words[k] = 0;
#pragma unroll
	for (uint32_t k = 0; k < 4 * WORDS; k++)
		if (first + k < c.bytes)
			words[k / 4] |= (uint32_t)from[k] << 8 * (k % 4);
}

template <uint32_t WORDS>
static __device__ __forceinline__ void
scatter_bytes(const struct oh__kernel_arguments &c, uint64_t first,
	      const uint32_t *words)
{
	unsigned char *to = (unsigned char *)c.recv + first;

#pragma unroll
	for (uint32_t k = 0; k < 4 * WORDS; k++)
		if (first + k < c.bytes)
			to[k] = (unsigned char)(words[k / 4] >> 8 * (k % 4));
}

/* Does the i-th piece of so many bytes lie whole, and on their boundary, in the
 * buffer? Such go at once: all but the last one of most calls. */
template <uint32_t BYTES>
static __device__ __forceinline__ bool
is_whole(const struct oh__kernel_arguments &c, const void *buffer, uint32_t i)
{
	return (uintptr_t)buffer % BYTES == 0 && (i + 1ull) * BYTES <= c.bytes;
}

template <> struct vector<false> {
	static __device__ __forceinline__ uint4
	take(const struct oh__kernel_arguments &c, uint32_t i)
	{
		uint32_t words[4];

		if (is_whole<OH__PACK_BYTES>(c, c.send, i))
			return vector<true>::take(c, i);
		gather_bytes<4>(c, (uint64_t)i * OH__PACK_BYTES, words);
		return make_uint4(words[0], words[1], words[2], words[3]);
	}
	static __device__ __forceinline__ void
	put(const struct oh__kernel_arguments &c, uint32_t i, uint4 v)
	{
		const uint32_t words[4] = {v.x, v.y, v.z, v.w};

		if (is_whole<OH__PACK_BYTES>(c, c.recv, i)) {
			vector<true>::put(c, i, v);
			return;
		}
		scatter_bytes<4>(c, (uint64_t)i * OH__PACK_BYTES, words);
	}
	static __device__ __forceinline__ uint2
	take_half(const struct oh__kernel_arguments &c, uint32_t i)
	{
		uint32_t words[2];

		if (is_whole<OH__PACK_BYTES / 2>(c, c.send, i))
			return vector<true>::take_half(c, i);
		gather_bytes<2>(c, (uint64_t)i * OH__PACK_BYTES / 2, words);
		return make_uint2(words[0], words[1]);
	}
	static __device__ __forceinline__ void
	put_half(const struct oh__kernel_arguments &c, uint32_t i, uint2 v)
	{
		const uint32_t words[2] = {v.x, v.y};

		if (is_whole<OH__PACK_BYTES / 2>(c, c.recv, i)) {
			vector<true>::put_half(c, i, v);
			return;
		}
		scatter_bytes<2>(c, (uint64_t)i * OH__PACK_BYTES / 2, words);
	}
};

/* The sum of all ranks' packs; average divides before the one rounding. */
template <class T, int RANKS, bool FAST>
static __device__ __forceinline__ uint4
combine(const uint4 *v, const struct oh__kernel_arguments &c)
{
	float sum[T::WIDE];

#pragma unroll
	for (int i = 0; i < T::WIDE; i++)
		sum[i] = -0.0f; /* the one value that changes none */
#pragma unroll
	for (int k = 0; k < RANKS; k++)
		if (FAST || k < (int)c.ranks)
			T::add(sum, v[k]);
	if (!FAST && c.average)
#pragma unroll
		for (int i = 0; i < T::WIDE; i++)
			sum[i] = __fdiv_rn(sum[i], (float)c.ranks);
	return T::round(sum);
}

#endif
