/* SPDX-License-Identifier: MIT */
/*
 * What only a GPU can do, and C++ has no word for: stores that peers see, loads that
 * see what peers have stored, what one kernel owes the next, barriers of a part of a
 * block, the clock, conversions. All else in the kernels is plain C++, so that
 * tests/emulated.h can be a GPU in place of this file.
 *
 * Volatile vector accesses are relaxed at system scope. A vector is as many accesses
 * as it has elements, so it may arrive in two pieces, of 64 bits.
 */
#ifndef OH_KERNELS_DEVICE_CUH
#define OH_KERNELS_DEVICE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "arguments.h"

/* One for a block. */
#define SHARED_WORD(NAME) __shared__ uint32_t NAME

static __device__ __forceinline__ void store(uint4 *to, uint4 v)
{
	asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(to),
		     "l"((uint64_t)v.y << 32 | v.x),
		     "l"((uint64_t)v.w << 32 | v.z)
		     : "memory");
}

static __device__ __forceinline__ uint4 load(const uint4 *from)
{
	uint64_t low, high;

	asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
		     : "=l"(low), "=l"(high)
		     : "l"(from)
		     : "memory");
	return make_uint4((uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high,
			  (uint32_t)(high >> 32));
}

static __device__ __forceinline__ void make_empty(uint4 *at)
{
	*at = make_uint4(OH__WORD_EMPTY, OH__WORD_EMPTY,
			 OH__WORD_EMPTY, OH__WORD_EMPTY);
}

/* Tells of nothing before it by itself: fence_stores comes between. */
static __device__ __forceinline__ void store_flag(uint32_t *at, uint32_t flag)
{
	asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(at), "r"(flag)
		     : "memory");
}

/* A flag stored after it tells of the stores before it: of the whole block's, if a
 * barrier was between. */
static __device__ __forceinline__ void fence_stores(void)
{
	asm volatile("fence.acq_rel.sys;" ::: "memory");
}

static __device__ __forceinline__ uint32_t load_flag(const uint32_t *at)
{
	uint32_t seen;

	asm volatile("ld.acquire.sys.global.u32 %0, [%1];"
		     : "=r"(seen)
		     : "l"(at)
		     : "memory");
	return seen;
}

/* Barriers of half a block's threads. */
static __device__ __forceinline__ void meet(uint32_t barrier)
{
	asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(blockDim.x / 2)
		     : "memory");
}

/* The same; true if it is for any thread. */
static __device__ __forceinline__ bool meet_any(uint32_t barrier, bool mine)
{
	uint32_t any;

	asm volatile("{\n\t"
		     ".reg .pred in, out;\n\t"
		     "setp.ne.u32 in, %1, 0;\n\t"
		     "bar.red.or.pred out, %2, %3, in;\n\t"
		     "selp.u32 %0, 1, 0, out;\n\t"
		     "}"
		     : "=r"(any)
		     : "r"((uint32_t)mine), "r"(barrier), "r"(blockDim.x / 2)
		     : "memory");
	return any;
}

/* With programmatic launch the kernel before may still run: nothing of it, of
 * the input or of a mailbox is touched before this. */
static __device__ __forceinline__ void await_kernel_before(void)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* The next kernel's blocks may take their places. */
static __device__ __forceinline__ void let_next_kernel_start(void)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

static __device__ __forceinline__ uint64_t now_ns(void)
{
	uint64_t ns;

	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
	return ns;
}

/* Two values in a word. */
static __device__ __forceinline__ float2 widen_f16(uint32_t v)
{
	return __half22float2(*reinterpret_cast<__half2 *>(&v));
}

static __device__ __forceinline__ uint32_t narrow_f16(float low, float high)
{
	__half2 pair = __floats2half2_rn(low, high);

	return *reinterpret_cast<uint32_t *>(&pair);
}

static __device__ __forceinline__ uint32_t narrow_bf16(float low, float high)
{
	__nv_bfloat162 pair = __floats2bfloat162_rn(low, high);

	return *reinterpret_cast<uint32_t *>(&pair);
}

#endif
