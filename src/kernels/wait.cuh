/* SPDX-License-Identifier: MIT */
/*
 * Stores that peers see, loads that see what peers have stored, and what one
 * kernel owes the next. Volatile vector accesses are relaxed at system scope; a
 * vector may arrive in pieces of 32 bits, so arrival is looked for in each.
 *
 * A wait first counts looks, which costs 0.01 us a call; a clock, or a word in
 * host memory, looked at now and then costs 0.05 to 0.14. Once it is long the
 * clock decides, and nothing is lost by asking it. The host ends waits earlier by
 * writing the missing packs itself.
 */
#ifndef OH_KERNELS_WAIT_CUH
#define OH_KERNELS_WAIT_CUH

#include "arguments.h"

#define EMPTY OH__WORD_EMPTY

static __device__ __forceinline__ void store(uint4 *to, uint4 v)
{
	asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(
			     to),
		     "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
		     : "memory");
}

static __device__ __forceinline__ uint4 load(const uint4 *from)
{
	uint4 v;

	asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
		     : "l"(from)
		     : "memory");
	return v;
}

static __device__ __forceinline__ bool has_hole(uint4 v)
{
	return v.x == EMPTY || v.y == EMPTY || v.z == EMPTY || v.w == EMPTY;
}

static __device__ __forceinline__ void make_empty(uint4 *at)
{
	*at = make_uint4(EMPTY, EMPTY, EMPTY, EMPTY);
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

/* In a test build a warp now and then takes its time, up to some 20 us: before it
 * reads its epoch, and between seeing a pack and making its place empty. */
static __device__ __forceinline__ void dawdle(void)
{
#ifdef OH_TEST_DELAYS
	uint32_t chance = (uint32_t)clock64() * 2654435761u >> 16;
	long long until = clock64() + chance;

	while (chance % 8 == 0 && clock64() < until)
		;
#endif
}

/* From sending to the first look. */
static __device__ __forceinline__ void
pause(const struct oh__kernel_arguments &c)
{
	long long until = clock64() + c.pause;

	while (clock64() < until)
		;
}

static __device__ __forceinline__ uint64_t now_ns(void)
{
	uint64_t ns;

	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
	return ns;
}

/* What a thread has waited in a call, in one register: a count of looks; when
 * those are used up, the tick of that moment; or that it may not wait. */
#define QUICK_LOOKS 4096u /* a millisecond, where a look takes least */
#define SINCE 0x80000000u
#define NO_WAIT 0xffffffffu

/* false: this thread has waited long enough. */
static __device__ __forceinline__ bool
may_look_on(const struct oh__kernel_arguments &c, uint32_t &waited)
{
	uint32_t tick;

	if (waited < QUICK_LOOKS) {
		waited++;
		return true;
	}
	tick = (uint32_t)(now_ns() / OH__TICK_NS) & OH__TICKS;
	if (waited == QUICK_LOOKS)
		waited = SINCE | tick;
	tick = (tick - waited) & OH__TICKS;
	/* more than half: the clock was read a little earlier than before */
	return waited != NO_WAIT &&
	       (tick <= c.timeout || tick > OH__TICKS / 2);
}

/* It was this rank that did not come. */
static __device__ __forceinline__ void
tell_late(const struct oh__kernel_arguments &c, uint32_t rank)
{
	*(volatile uint32_t *)&c.watch->late[rank] = 1;
}

static __device__ __forceinline__ void
tell_late_result(const struct oh__kernel_arguments &c, uint32_t rank)
{
	*(volatile uint32_t *)&c.watch->late_result[rank] = 1;
}

#endif
