/* SPDX-License-Identifier: MIT */
/*
 * Does what one GPU stores arrive in another's memory? Each rank writes a
 * pattern through its mapping of every peer's check area; when all have, each
 * looks at what came into its own, from every rank: who could not store is wrong
 * in all words. A block a rank, no waiting in the kernel: the host has the
 * deadline.
 */
#ifndef OH_KERNELS_CHECK_CUH
#define OH_KERNELS_CHECK_CUH

#include "wait.cuh"

/* Different for every writer, reader, word and run. */
static __device__ __forceinline__ uint32_t pattern(uint32_t nonce, uint32_t from,
						   uint32_t to, uint32_t word)
{
	return (nonce ^ (from * 131 + to) * 0x9e3779b9u) + word * 0x85ebca6bu;
}

static __device__ __forceinline__ void fill_area(volatile uint32_t *at,
					    uint32_t nonce, uint32_t from,
					    uint32_t to)
{
	for (uint32_t i = threadIdx.x; i < OH__CHECK_WORDS; i += blockDim.x)
		at[i] = pattern(nonce, from, to, i);
}

/* How many words are wrong, the same for all threads of the block. */
static __device__ __forceinline__ uint32_t
count_wrong(volatile const uint32_t *at, uint32_t nonce, uint32_t from,
	    uint32_t to)
{
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < OH__CHECK_WORDS; i += blockDim.x)
		wrong += __syncthreads_count(
			at[i + threadIdx.x] !=
			pattern(nonce, from, to, i + threadIdx.x));
	return wrong;
}

static __device__ __forceinline__ uint32_t *place(void *area, uint32_t index)
{
	return (uint32_t *)area + index * OH__CHECK_WORDS;
}

static __device__ __forceinline__ void
check_write(const struct oh__check_arguments &c)
{
	uint32_t k = blockIdx.x;

	if (c.peer[k])
		fill_area(place(c.peer[k], c.rank), c.nonce, c.rank, k);
}

static __device__ __forceinline__ void
check_read(const struct oh__check_arguments &c)
{
	uint32_t k = blockIdx.x;
	uint32_t wrong = count_wrong(place(c.own, k), c.nonce, k, c.rank);

	if (threadIdx.x)
		return;
	c.result[k].wrong_stored = wrong;
	c.result[k].nonce = c.nonce;
}

#endif
