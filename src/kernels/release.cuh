/* SPDX-License-Identifier: MIT */
/*
 * Ends the waits of a communicator that has failed. Data that has come is left as
 * it is: a call whose data is all there is right, whatever happened later. A
 * warp that stores its epoch at this moment may undo its dead bit, so the host
 * runs this again until all is quiet.
 */
#ifndef OH_KERNELS_RELEASE_CUH
#define OH_KERNELS_RELEASE_CUH

#include "wait.cuh"

static __device__ __forceinline__ void
release(const struct oh__release_arguments &c)
{
	const uint64_t threads = (uint64_t)gridDim.x * blockDim.x;
	const uint64_t first = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;

	for (uint64_t i = first; i < c.epochs; i += threads)
		atomicOr(c.epoch + i, OH__EPOCH_DEAD);
	for (uint64_t i = first; i < c.words; i += threads)
		if (!c.flagged)
			atomicCAS(c.slot + i, EMPTY, OH__WORD_NAN);
		else if (i % 2) /* data, flag, data, flag */
			((volatile uint32_t *)c.slot)[i] = OH__FLAG_RELEASED;
}

#endif
