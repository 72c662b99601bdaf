/* SPDX-License-Identifier: MIT */
/*
 * What a GPU takes for nothing, for measurements: a kernel that does nothing, and
 * one in which the ranks exchange a flag each, with nothing else. A flag is the
 * call's epoch, which only grows; a rank is at most one call ahead, so a later one
 * will do. A rank that has waited in vain once waits no more.
 */
#ifndef OH_KERNELS_FLOOR_CUH
#define OH_KERNELS_FLOOR_CUH

#include "wait.cuh"

/* Lane k stores this rank's flag at rank k's, and waits for that of rank k. */
static __device__ __forceinline__ void
exchange_flags(const struct oh__floor_arguments &c)
{
	const uint32_t k = threadIdx.x;
	const bool waits = k < c.ranks && k != c.rank;
	volatile uint32_t *own = c.flags[c.rank] + k;
	volatile uint32_t *other = waits ? c.flags[k] + c.rank : own;
	uint32_t looks, epoch;

	/* arguments are fetched while the kernel before works */
	asm volatile("" ::"l"(own), "l"(other), "l"(c.state) : "memory");
	await_kernel_before();
	let_next_kernel_start();
	epoch = c.state[0] + 1;
	looks = c.state[1] ? c.looks : 0;
	__syncwarp();
	if (waits) {
		*other = epoch;
		while ((int32_t)(*own - epoch) < 0)
			if (++looks > c.looks) {
				*(volatile uint32_t *)c.late = 1 + k;
				c.state[1] = 1;
				break;
			}
	}
	if (k == c.rank)
		c.state[0] = epoch;
}

#endif
