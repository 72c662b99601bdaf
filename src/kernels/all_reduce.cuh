/* SPDX-License-Identifier: MIT */
/*
 * All-reduce by pushing into the readers' mailboxes; arrival is in the data.
 *
 * A mailbox has a slot for every rank, and a slot two halves; which one a call
 * uses is the parity of an epoch that each warp keeps for itself and that every
 * warp advances in every call, so that all agree. A slot's grid never changes, nor
 * does who writes to it. A half is written again two calls later: to have finished
 * the call between means to have heard from every rank's kernel of that call,
 * which touched nothing before that rank's kernel of the call before had ended,
 * and with it all its reads of the half and the stores that emptied it again. No
 * word is left full, so none can be taken for a later call's.
 *
 * What costs time, each measured on two H200 at 8 KB: the input is loaded before
 * the epoch is used (0.10 us), the epoch is stored as soon as it is read and not
 * at the end (0.09), the next kernel's blocks take their places while this one
 * works (0.10). Slots are indexed by constants only: an index known at run
 * time would put the arguments into local memory.
 */
#ifndef OH_KERNELS_ALL_REDUCE_CUH
#define OH_KERNELS_ALL_REDUCE_CUH

#include "pack.cuh"

/* Not the other way round: a row of kernels that let the next one start before
 * they wait can fill a GPU, and two communicators with a row each would wait for
 * each other. It is no slower. */
static __device__ __forceinline__ void begin_kernel(void)
{
	await_kernel_before();
	let_next_kernel_start();
}

/* Is k a rank? */
template <bool FAST>
static __device__ __forceinline__ bool
is_rank(int k, const struct oh__kernel_arguments &c)
{
	return FAST || k < (int)c.ranks;
}

/* The call's epoch, without the dead bit; its parity is the half. Who starts when
 * the communicator has failed has no looks left. */
static __device__ __forceinline__ uint32_t
begin_call(const struct oh__kernel_arguments &c, uint32_t thread, uint32_t &looks)
{
	volatile uint32_t *epoch = c.epoch + thread / 32;
	uint32_t call = *epoch;

	looks = call & OH__EPOCH_DEAD ? c.looks : 0;
	__syncwarp();
	if (thread % 32 == 0)
		*epoch = ((call + 1) & ~OH__EPOCH_DEAD) |
			 (call & OH__EPOCH_DEAD);
#ifdef OH_FAULT_ONE_HALF
	call = 0; /* for the test that must notice it */
#endif
	return call & ~OH__EPOCH_DEAD;
}

static __device__ __forceinline__ uint32_t
half_of(const struct oh__kernel_arguments &c, uint32_t call)
{
	return (call & 1) * c.half;
}

static __device__ __forceinline__ uint4 *
slot_of(const struct oh__kernel_arguments &c, int k)
{
	return (uint4 *)c.in[k];
}

/* Waits for every rank's pack at that place of its slot; false if this thread must
 * leave. */
template <int RANKS, bool FAST>
static __device__ __forceinline__ bool
await_packs(const struct oh__kernel_arguments &c, uint32_t at, uint4 *v,
	    uint32_t &looks)
{
	bool missing;

	do {
		missing = false;
#pragma unroll
		for (int k = 0; k < RANKS; k++) {
			v[k] = make_uint4(0, 0, 0, 0);
			if (is_rank<FAST>(k, c))
				v[k] = load(slot_of(c, k) + at);
		}
#pragma unroll
		for (int k = 0; k < RANKS; k++)
			missing |= has_hole(v[k]);
		if (missing && !may_look_on(c, looks)) {
#pragma unroll
			for (int k = 0; k < RANKS; k++)
				if (has_hole(v[k]))
					tell_late(c, k);
			return false;
		}
	} while (missing);
	dawdle();
	return true;
}

template <int RANKS, bool FAST>
static __device__ __forceinline__ void
make_all_empty(const struct oh__kernel_arguments &c, uint32_t at)
{
#pragma unroll
	for (int k = 0; k < RANKS; k++)
		if (is_rank<FAST>(k, c))
			make_empty(slot_of(c, k) + at);
}

/* Into this rank's slot in every rank's mailbox, its own too: to keep the own part
 * in registers was slower. */
template <int RANKS, bool FAST>
static __device__ __forceinline__ void
push(const struct oh__kernel_arguments &c, uint32_t at, uint4 v)
{
#pragma unroll
	for (int k = 0; k < RANKS; k++)
		if (is_rank<FAST>(k, c))
			store((uint4 *)c.out[k] + at, v);
}

/* Everyone sends everything to everyone. */
template <class T, int RANKS, bool FAST>
static __device__ __forceinline__ void
one_shot(const struct oh__kernel_arguments &c)
{
	const uint32_t threads = gridDim.x * blockDim.x;
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, looks, half;
	uint4 own = make_uint4(0, 0, 0, 0), v[RANKS];

	begin_kernel();
	if (i < c.packs)
		own = vector<FAST>::take(c, i);
	half = half_of(c, begin_call(c, i, looks));
	while (i < c.packs) {
		push<RANKS, FAST>(c, half + i, sendable(own));
		if (c.pause)
			pause(c);
		if (!await_packs<RANKS, FAST>(c, half + i, v, looks))
			return;
		make_all_empty<RANKS, FAST>(c, half + i);
		vector<FAST>::put(c, i, combine<T, RANKS, FAST>(v, c));
		i += threads;
		if (i < c.packs)
			own = vector<FAST>::take(c, i);
	}
}

/* An index known at run time would put the arguments into local memory. */
template <int RANKS>
static __device__ __forceinline__ uint4 *
slot_of_owner(const struct oh__kernel_arguments &c, uint32_t owner)
{
	uint4 *slot = slot_of(c, 0);

#pragma unroll
	for (int k = 1; k < RANKS; k++)
		slot = k == (int)owner ? slot_of(c, k) : slot;
	return slot;
}

/* Pack j of the vector to its owner, a constant index for each. */
template <int RANKS>
static __device__ __forceinline__ void
push_to(const struct oh__kernel_arguments &c, uint32_t owner, uint32_t at,
	uint4 v)
{
#pragma unroll
	for (int k = 0; k < RANKS; k++)
		if (k == (int)owner)
			store((uint4 *)c.out[k] + at, v);
}

/* A thread a pack. Fewer threads with a pack of each part were no faster up to
 * 4 MB. */
template <int RANKS, bool FAST>
static __device__ __forceinline__ void
scatter(const struct oh__kernel_arguments &c, uint32_t first, uint32_t threads,
	uint32_t half, uint4 own)
{
	for (uint32_t j = first; j < c.packs; j += threads) {
		uint32_t owner = j / c.part;

		if (j != first)
			own = vector<FAST>::take(c, j);
		push_to<RANKS>(c, owner, half + j - owner * c.part,
			       sendable(own));
	}
}

template <class T, int RANKS, bool FAST>
static __device__ __forceinline__ bool
reduce_part(const struct oh__kernel_arguments &c, uint32_t first,
	    uint32_t threads, uint32_t half, uint32_t results, uint32_t &looks)
{
	uint4 v[RANKS];

	for (uint32_t i = first; i < c.part && c.rank * c.part + i < c.packs;
	     i += threads) {
		if (!await_packs<RANKS, FAST>(c, half + i, v, looks))
			return false;
		make_all_empty<RANKS, FAST>(c, half + i);
		push<RANKS, FAST>(c, results + i,
				  sendable(combine<T, RANKS, FAST>(v, c)));
	}
	return true;
}

template <int RANKS, bool FAST>
static __device__ __forceinline__ bool
gather(const struct oh__kernel_arguments &c, uint32_t first, uint32_t threads,
       uint32_t results, uint32_t &looks)
{
	for (uint32_t j = first; j < c.packs; j += threads) {
		uint32_t owner = j / c.part;
		uint4 *in = slot_of_owner<RANKS>(c, owner) + results + j -
			    owner * c.part;
		uint4 v = load(in);

		while (has_hole(v)) {
			if (!may_look_on(c, looks)) {
				tell_late_result(c, owner);
				return false;
			}
			v = load(in);
		}
		make_empty(in);
		vector<FAST>::put(c, j, v);
	}
	return true;
}

/* Scatter, reduce the own part, gather, without a barrier: two more halves of a
 * slot take the results. */
template <class T, int RANKS, bool FAST>
static __device__ __forceinline__ void
two_shot(const struct oh__kernel_arguments &c)
{
	const uint32_t threads = gridDim.x * blockDim.x;
	const uint32_t first = blockIdx.x * blockDim.x + threadIdx.x;
	uint4 own = make_uint4(0, 0, 0, 0);
	uint32_t looks, half, results;

	begin_kernel();
	if (first < c.packs)
		own = vector<FAST>::take(c, first);
	half = half_of(c, begin_call(c, first, looks));
	results = half + 2 * c.half;
	scatter<RANKS, FAST>(c, first, threads, half, own);
	if (reduce_part<T, RANKS, FAST>(c, first, threads, half, results,
					looks))
		gather<RANKS, FAST>(c, first, threads, results, looks);
}

#endif
