/* SPDX-License-Identifier: MIT */
/*
 * What is in the image: every kernel by its name, oh__ALGORITHM_DTYPE_RANKS, and
 * those of the check. RANKS "any" is the kernel for every alignment, size, number
 * of ranks, and for averages; the others want aligned whole packs and a sum.
 */
#include "all_reduce.cuh"
#include "check.cuh"
#include "flagged.cuh"
#include "release.cuh"

#define KERNEL(NAME, THREADS, ...)                                             \
	extern "C" __global__ void __launch_bounds__(THREADS)                  \
		oh__##NAME(const __grid_constant__ struct oh__kernel_arguments c) \
	{                                                                      \
		__VA_ARGS__(c);                                                \
	}

/* For a type and a number of ranks; KIND is that number, or any. */
#define KERNELS(T, RANKS, FAST, KIND)                                          \
	KERNEL(one_shot_##T##_##KIND, 512, one_shot<T, RANKS, FAST>)           \
	KERNEL(two_shot_##T##_##KIND, FAST ? 1024 : 512,                       \
	       two_shot<T, RANKS, FAST>)                                       \
	KERNEL(flagged_##T##_##KIND, 512, flagged<T, RANKS, FAST>)

#define KERNELS_OF(T)                                                          \
	KERNELS(T, 2, true, 2)                                                 \
	KERNELS(T, 3, true, 3)                                                 \
	KERNELS(T, 4, true, 4)                                                 \
	KERNELS(T, 8, true, 8)                                                 \
	KERNELS(T, OH__KERNEL_RANKS, false, any)

KERNELS_OF(f32)
KERNELS_OF(f16)
KERNELS_OF(bf16)

extern "C" __global__ void __launch_bounds__(OH__RELEASE_THREADS)
	oh__release(const __grid_constant__ struct oh__release_arguments c)
{
	release(c);
}

extern "C" __global__ void __launch_bounds__(OH__CHECK_THREADS)
	oh__check_write(const __grid_constant__ struct oh__check_arguments c)
{
	check_write(c);
}

extern "C" __global__ void __launch_bounds__(OH__CHECK_THREADS)
	oh__check_read(const __grid_constant__ struct oh__check_arguments c)
{
	check_read(c);
}
