/* SPDX-License-Identifier: MIT */
/*
 * What `onehop probe` runs: stores of a pattern, loads that are summed, a count
 * of wrong words, a flag thrown to and fro, and loads of which each waits for the
 * one before. Every word of a pattern is its index times a constant plus a seed,
 * so the sum of all is known without looking. Waits are bounded by a count of
 * looks, which the first wait in vain uses up.
 */
#ifndef OH_KERNELS_PROBE_CUH
#define OH_KERNELS_PROBE_CUH

#include "check.cuh"

static __device__ __forceinline__ uint4 probe_pack(uint32_t seed, uint64_t pack)
{
	uint32_t word = (uint32_t)(pack * 4) * OH__PROBE_STEP + seed;

	return make_uint4(word, word + OH__PROBE_STEP, word + 2 * OH__PROBE_STEP,
			  word + 3 * OH__PROBE_STEP);
}

/* The block's words together, as its word of the answer. */
static __device__ __forceinline__ void
probe_answer(const struct oh__probe_arguments &c, uint32_t mine)
{
	__shared__ uint32_t all;

	if (!threadIdx.x)
		all = 0;
	__syncthreads();
	atomicAdd(&all, mine);
	__syncthreads();
	if (!threadIdx.x)
		c.answer[blockIdx.x] = all;
}

static __device__ __forceinline__ void
probe_store(const struct oh__probe_arguments &c)
{
	const uint64_t threads = (uint64_t)gridDim.x * blockDim.x;
	uint4 *to = (uint4 *)c.to;

#pragma unroll 4
	for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
	     i < c.packs; i += threads)
		to[i] = probe_pack(c.seed, i);
}

/* Several loads of a thread are on their way at once. */
static __device__ __forceinline__ void
probe_load(const struct oh__probe_arguments &c)
{
	const uint64_t threads = (uint64_t)gridDim.x * blockDim.x;
	const uint4 *from = (const uint4 *)c.from;
	uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
	uint32_t sum = 0;

	for (; i + 7 * threads < c.packs; i += 8 * threads) {
		uint4 v[8];

#pragma unroll
		for (int k = 0; k < 8; k++)
			v[k] = __ldcs(from + i + k * threads);
#pragma unroll
		for (int k = 0; k < 8; k++)
			sum += v[k].x + v[k].y + v[k].z + v[k].w;
	}
	for (; i < c.packs; i += threads) {
		uint4 v = __ldcs(from + i);

		sum += v.x + v.y + v.z + v.w;
	}
	probe_answer(c, sum);
}

static __device__ __forceinline__ void
probe_count(const struct oh__probe_arguments &c)
{
	const uint64_t threads = (uint64_t)gridDim.x * blockDim.x;
	const uint4 *from = (const uint4 *)c.from;
	uint32_t wrong = 0;

	for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
	     i < c.packs; i += threads) {
		uint4 v = load(from + i), due = probe_pack(c.seed, i);

		wrong += (v.x != due.x) + (v.y != due.y) + (v.z != due.z) +
			 (v.w != due.w);
	}
	probe_answer(c, wrong);
}

/* What a thread alone has timed: cycles of each round, and both clocks over
 * all, for cycles vary in length. */
static __device__ __forceinline__ void
probe_tell(const struct oh__probe_arguments &c, const uint32_t *cycles,
	   uint32_t rounds, uint64_t all_ns, uint64_t all_cycles)
{
	for (uint32_t i = 0; i < rounds; i++)
		c.answer[OH__PROBE_HEAD + i] = cycles[i];
	c.answer[1] = (uint32_t)all_ns;
	c.answer[2] = (uint32_t)all_cycles;
	c.answer[3] = (uint32_t)(all_cycles >> 32);
	c.answer[0] = rounds;
}

static __device__ __forceinline__ bool
probe_await(const volatile uint32_t *at, uint32_t due, uint32_t looks)
{
	for (uint32_t i = 0; i < looks; i++)
		if (*at == due)
			return true;
	return false;
}

/* One thread: rounds of a flag to the other side and back. */
static __device__ __forceinline__ void
probe_ping(const struct oh__probe_arguments &c)
{
	__shared__ uint32_t cycles[OH__PROBE_ROUNDS];
	volatile uint32_t *to = (volatile uint32_t *)c.to;
	const volatile uint32_t *from = (const volatile uint32_t *)c.from;
	uint64_t start_ns = now_ns(), start = (uint64_t)clock64();
	uint32_t i = 0;

	for (; i < c.rounds; i++) {
		uint64_t begin = (uint64_t)clock64();

		if (c.leads)
			*to = c.seed + i;
		if (!probe_await(from, c.seed + i, c.looks))
			break;
		if (!c.leads)
			*to = c.seed + i;
		cycles[i] = (uint32_t)((uint64_t)clock64() - begin);
	}
	probe_tell(c, cycles, i, now_ns() - start_ns,
		   (uint64_t)clock64() - start);
}

/* One thread: a round is OH__PROBE_CHAIN loads in a chain. zero is 0, which
 * the compiler does not know. */
static __device__ __forceinline__ void
probe_chase(const struct oh__probe_arguments &c)
{
	__shared__ uint32_t cycles[OH__PROBE_ROUNDS];
	const uint4 *from = (const uint4 *)c.from;
	uint64_t start_ns = now_ns(), start = (uint64_t)clock64();
	uint32_t seen = 0;

	for (uint32_t i = 0; i < c.rounds; i++) {
		uint64_t begin = (uint64_t)clock64();

		for (int k = 0; k < OH__PROBE_CHAIN; k++)
			seen = load(from + (seen & c.zero)).x;
		cycles[i] = (uint32_t)((uint64_t)clock64() - begin) +
			    (seen & c.zero);
	}
	probe_tell(c, cycles, c.rounds, now_ns() - start_ns,
		   (uint64_t)clock64() - start);
}

#endif
