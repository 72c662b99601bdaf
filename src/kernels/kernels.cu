/* SPDX-License-Identifier: MIT */
/*
 * What is in the image: every kernel by its name, oh__ALGORITHM_DTYPE_RANKS, and
 * those of the check and of the probe. RANKS "any8" is the kernel for every
 * alignment and size, for averages, and for up to 8 ranks; the others want aligned
 * whole packs, a sum, and just that many ranks.
 */
#include "all_reduce.cuh"
#include "check.cuh"
#include "flagged.cuh"
#include "floor.cuh"
#include "probe.cuh"
#include "release.cuh"
#include "staged.cuh"

/* BLOCKS of them find room on a multiprocessor together: see set_grids in
 * src/gpu/engine.c for why it is three. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define FIT(BLOCKS) ((BLOCKS) > 2 ? 2 : (BLOCKS)) /* 1024 threads */
#else
#define FIT(BLOCKS) (BLOCKS)
#endif
#define KERNEL(NAME, THREADS, BLOCKS, ...)                                     \
	extern "C" __global__ void __launch_bounds__(THREADS, FIT(BLOCKS))     \
		oh__##NAME(const __grid_constant__ struct oh__kernel_arguments c) \
	{                                                                      \
		__VA_ARGS__(c);                                                \
	}

/* For a type and up to that many ranks. */
#define KERNELS(T, RANKS, FAST, KIND, BLOCKS)                                  \
	KERNEL(one_shot_##T##_##KIND, 512, BLOCKS, one_shot<T, RANKS, FAST>)   \
	KERNEL(two_shot_##T##_##KIND, 512, BLOCKS, two_shot<T, RANKS, FAST>)   \
	KERNEL(flagged_##T##_##KIND, 512, BLOCKS, flagged<T, RANKS, FAST>)

#define STAGED(T, RANKS, FAST, KIND, BLOCKS)                                   \
	KERNEL(two_staged_##T##_##KIND, 512, BLOCKS, two_staged<T, RANKS, FAST>)

#define KERNELS_OF(T)                                                          \
	KERNELS(T, 2, true, 2, 3)                                              \
	KERNELS(T, 3, true, 3, 3)                                              \
	KERNELS(T, 4, true, 4, 3)                                              \
	KERNELS(T, 8, true, 8, 2)                                              \
	KERNELS(T, 2, false, any2, 3)                                          \
	KERNELS(T, 3, false, any3, 3)                                          \
	KERNELS(T, 4, false, any4, 3)                                          \
	KERNELS(T, 8, false, any8, 2)                                          \
	KERNELS(T, OH__KERNEL_RANKS, false, any16, 1)                          \
	KERNEL(staged_##T##_2, 512, 3, staged<T, true>)                        \
	KERNEL(staged_##T##_any2, 512, 3, staged<T, false>)                    \
	STAGED(T, 3, true, 3, 3)                                               \
	STAGED(T, 4, true, 4, 3)                                               \
	STAGED(T, 8, true, 8, 2)                                               \
	STAGED(T, 3, false, any3, 3)                                           \
	STAGED(T, 4, false, any4, 3)                                           \
	STAGED(T, 8, false, any8, 2)                                           \
	STAGED(T, OH__KERNEL_RANKS, false, any16, 1)

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

/* Two blocks fit a multiprocessor. */
#define PROBE(NAME)                                                            \
	extern "C" __global__ void __launch_bounds__(OH__PROBE_THREADS, 2)     \
		oh__probe_##NAME(                                              \
			const __grid_constant__ struct oh__probe_arguments c)  \
	{                                                                      \
		probe_##NAME(c);                                               \
	}

PROBE(store)
PROBE(load)
PROBE(count)
PROBE(ping)
PROBE(chase)

extern "C" __global__ void __launch_bounds__(OH__FLOOR_THREADS) oh__floor_empty()
{
}

extern "C" __global__ void __launch_bounds__(OH__FLOOR_THREADS)
	oh__floor_flag(const __grid_constant__ struct oh__floor_arguments c)
{
	exchange_flags(c);
}
