/* SPDX-License-Identifier: MIT */
/*
 * Waiting: for how long, and what is told of whom when it was in vain.
 *
 * A wait first counts looks, which costs 0.01 us a call; a clock, or a word in
 * host memory, looked at now and then costs 0.05 to 0.14. Once it is long the
 * clock decides, and nothing is lost by asking it. The host ends waits earlier by
 * writing the missing packs or flags itself.
 */
#ifndef OH_KERNELS_WAIT_CUH
#define OH_KERNELS_WAIT_CUH

#include "device.cuh"

#define EMPTY OH__WORD_EMPTY

static __device__ __forceinline__ bool has_hole(uint4 v)
{
	return v.x == EMPTY || v.y == EMPTY || v.z == EMPTY || v.w == EMPTY;
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

/* What a thread has waited in a call, in one register: a count of looks; when
 * those are used up, the tick of that moment; or that it may not wait. */
#ifndef QUICK_LOOKS /* an emulated GPU takes fewer */
#define QUICK_LOOKS 4096u /* a millisecond, where a look takes least */
#endif
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
#ifdef OH_FAULT_DEAD_WAITS /* for the test that must notice it */
	return tick <= c.timeout || tick > OH__TICKS / 2;
#endif
#ifdef OH_FAULT_CLOCK_BACK /* the same */
	return waited != NO_WAIT && tick <= c.timeout;
#endif
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
