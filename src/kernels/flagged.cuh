/* SPDX-License-Identifier: MIT */
/*
 * One-shot all-reduce whose data carries flags: eight bytes travel as a word of
 * 16, data, flag, data, flag. Twice the bytes, but nothing has to be made empty
 * again, so kernels may follow one another closely where mailboxes lie in host
 * memory, whose stores only a kernel's end would put in order. A word may arrive
 * in two pieces, so both flags are looked at. A thread has one word at a time: the
 * words of a warp lie side by side, or each would be a transfer of its own.
 *
 * A flag of a half that no call has written for 2^31 calls would match again. So
 * each call's sender blanks one word of its slots, another one each time: after as
 * many calls of a half as the next power of two has of its words none is left. The
 * sender does it, because only its own stores to a place keep their order.
 */
#ifndef OH_KERNELS_FLAGGED_CUH
#define OH_KERNELS_FLAGGED_CUH

#include "all_reduce.cuh"

static __device__ __forceinline__ bool has_come(uint4 v, uint32_t flag)
{
#ifdef OH_FAULT_NO_RELEASE /* for the test that must notice it */
	return v.y == flag && v.w == flag;
#endif
	return (v.y == flag && v.w == flag) ||
	       (v.y == OH__FLAG_RELEASED && v.w == OH__FLAG_RELEASED);
}

/* The own word is there already. */
template <int RANKS, bool FAST>
static __device__ __forceinline__ bool
await_flagged(const struct oh__kernel_arguments &c, uint32_t at, uint32_t flag,
	      uint4 *v, uint32_t &waited)
{
	bool missing;

	do {
		missing = false;
#pragma unroll
		for (int k = 0; k < RANKS; k++)
			if (is_other<RANKS, FAST>(k, c))
				v[k] = load(slot_of(c, k) + at);
#pragma unroll
		for (int k = 0; k < RANKS; k++)
			if (is_other<RANKS, FAST>(k, c))
				missing |= !has_come(v[k], flag);
		if (missing && !may_look_on(c, waited)) {
#pragma unroll
			for (int k = 0; k < RANKS; k++)
				if (is_other<RANKS, FAST>(k, c) &&
				    !has_come(v[k], flag))
					tell_late(c, k);
			return false;
		}
	} while (missing);
	dawdle();
	return true;
}

template <int RANKS, bool FAST>
static __device__ __forceinline__ void
push_flagged(const struct oh__kernel_arguments &c, uint32_t at, uint4 v)
{
#ifdef OH_FAULT_FLAG_FIRST /* for the test that must notice it */
#pragma unroll
	for (int k = 0; k < RANKS; k++)
		if (is_other<RANKS, FAST>(k, c))
			store((uint4 *)c.out[k] + at,
			      make_uint4(0, v.y, 0, v.w));
	dawdle();
#endif
#pragma unroll
	for (int k = 0; k < RANKS; k++)
		if (is_other<RANKS, FAST>(k, c))
			store((uint4 *)c.out[k] + at, v);
}

/* One word of the half, another one in its next call, if this call does not use
 * it. */
template <int RANKS, bool FAST>
static __device__ __forceinline__ void
blank_one(const struct oh__kernel_arguments &c, uint32_t half, uint32_t call)
{
	/* below the next power of two: a division would take 0.05 us */
	uint32_t word = call / 2 & 0xffffffffu >> __clz((int)c.half - 1);

#ifdef OH_FAULT_NO_BLANK
	return; /* for the test that must notice it */
#endif
	if (word >= 2 * c.packs && word < c.half)
		push_flagged<RANKS, FAST>(c, half + word,
					  make_uint4(0, 0, 0, 0));
}

template <class T, int RANKS, bool FAST>
static __device__ __forceinline__ uint2
combine_flagged(const uint4 *v, const struct oh__kernel_arguments &c)
{
	uint4 data[RANKS], sum;

#pragma unroll
	for (int k = 0; k < RANKS; k++)
		data[k] = make_uint4(v[k].x, v[k].z, 0, 0);
	sum = combine<T, RANKS, FAST>(data, c);
	return make_uint2(sum.x, sum.y);
}

template <class T, int RANKS, bool FAST>
static __device__ __forceinline__ void
flagged(const struct oh__kernel_arguments &c)
{
	const uint32_t threads = gridDim.x * blockDim.x, words = 2 * c.packs;
	const uint32_t first = blockIdx.x * blockDim.x + threadIdx.x;
	uint2 own = make_uint2(0, 0);
	uint32_t waited, call, flag, half;
	uint4 v[RANKS];

	begin_kernel<RANKS>(c);
	if (first < words)
		own = vector<FAST>::take_half(c, first);
	call = begin_call(c, first, waited);
	flag = call | OH__FLAG_BIT;
	half = half_of(c, call);
	/* by the thread that has least to do, and before it waits */
	if (first == threads - 1 && words)
		blank_one<RANKS, FAST>(c, half, call);
	for (uint32_t i = first; i < words; i += threads) {
		if (i != first)
			own = vector<FAST>::take_half(c, i);
#pragma unroll
		for (int k = 0; k < RANKS; k++)
			v[k] = make_uint4(own.x, flag, own.y, flag);
		push_flagged<RANKS, FAST>(c, half + i, v[0]);
		if (c.pause)
			pause(c);
		if (!await_flagged<RANKS, FAST>(c, half + i, flag, v, waited))
			return;
		vector<FAST>::put_half(c, i,
				       combine_flagged<T, RANKS, FAST>(v, c));
	}
}

#endif
