/* SPDX-License-Identifier: MIT */
/*
 * One-shot all-reduce of two ranks in chunks, for long vectors by way of host
 * memory: a flag follows each chunk. Nothing has to be made empty again, which over
 * PCIe would cost as much as sending, and both directions of the link are at work at
 * once: half of a block's threads send, chunk after chunk, and half receive. A fence
 * before each flag costs some 2 us, so short vectors are better off without.
 *
 * Chunks and flags have two halves of a slot each, as packs do; a flag is the epoch,
 * and old ones are blanked as in flagged.cuh. A chunk's size is part of what the
 * ranks agree on, the number of blocks is not.
 */
#ifndef OH_KERNELS_STAGED_CUH
#define OH_KERNELS_STAGED_CUH

#include "flagged.cuh"

/* Barriers of the sending and the receiving threads. */
enum { SENDERS = 1, RECEIVERS = 2 };

/* The second word of the flag's pack: one of those that a release sets. */
static __device__ __forceinline__ uint32_t *
flag_at(void *slot, const struct oh__kernel_arguments &c, uint32_t half,
	uint32_t index)
{
	return (uint32_t *)((uint4 *)slot + c.flags + half * c.flags_half +
			    index) +
	       1;
}

static __device__ __forceinline__ void raise_flag(uint32_t *at, uint32_t flag)
{
#ifndef OH_FAULT_NO_FENCE /* for the test that must notice it */
	fence_stores();
#endif
	store_flag(at, flag);
}

static __device__ __forceinline__ bool is_raised(const uint32_t *at, uint32_t flag)
{
	uint32_t seen = load_flag(at);

	return seen == flag || seen == OH__FLAG_RELEASED;
}

/* The senders tell the receivers how far they have read the input, which in
 * place the result replaces. They wait for nobody, so their word comes. */
static __device__ __forceinline__ void tell_sent(uint32_t *sent, uint32_t count)
{
	__threadfence_block();
	atomicExch(sent, count);
}

static __device__ __forceinline__ void await_sent(uint32_t *sent, uint32_t count)
{
	while (atomicAdd(sent, 0) < count)
		;
	__threadfence_block();
}

template <bool FAST>
static __device__ __forceinline__ void
send_chunks(const struct oh__kernel_arguments &c, uint32_t call,
	    uint32_t *sent)
{
	const uint32_t chunk = blockDim.x / 2, thread = threadIdx.x, half = call & 1;
	void *slot = c.rank ? c.out[0] : c.out[1];
	uint32_t index = blockIdx.x;

	for (; index * chunk < c.packs; index += gridDim.x) {
		uint32_t i = index * chunk + thread;

#ifdef OH_FAULT_FLAG_FIRST
		if (!thread) /* for the test that must notice it */
			raise_flag(flag_at(slot, c, half, index),
				   call | OH__FLAG_BIT);
#endif
		if (i < c.packs)
			store((uint4 *)slot + half_of(c, call) + i,
			      vector<FAST>::take(c, i));
		meet(SENDERS);
		if (thread)
			continue;
		tell_sent(sent, index + 1);
		raise_flag(flag_at(slot, c, half, index), call | OH__FLAG_BIT);
	}
	if (blockIdx.x || thread || !c.packs)
		return;
#ifdef OH_FAULT_NO_BLANK
	return; /* for the test that must notice it */
#endif
	/* one flag of the half, another one in its next call */
	index = call / 2 % c.flags_half;
	if (index * chunk >= c.packs)
		store_flag(flag_at(slot, c, half, index), 0);
}

static __device__ __forceinline__ bool
await_chunk(const struct oh__kernel_arguments &c, const uint32_t *flag,
	    uint32_t call, uint32_t &waited)
{
	while (!is_raised(flag, call | OH__FLAG_BIT))
		if (!may_look_on(c, waited)) {
			tell_late(c, 1 - c.rank);
			return false;
		}
	return true;
}

template <class T, bool FAST>
static __device__ __forceinline__ void
receive_chunks(const struct oh__kernel_arguments &c, uint32_t call,
	       uint32_t *sent, uint32_t waited)
{
	const uint32_t chunk = blockDim.x / 2, thread = threadIdx.x - chunk;
	void *slot = c.rank ? c.in[0] : c.in[1];
	uint4 v[2], own = make_uint4(0, 0, 0, 0), other = own;

	for (uint32_t index = blockIdx.x; index * chunk < c.packs;
	     index += gridDim.x) {
		uint32_t i = index * chunk + thread;
		bool late = false;

		if (i < c.packs)
			own = vector<FAST>::take(c, i);
		if (!thread) {
			await_sent(sent, index + 1);
			late = !await_chunk(c, flag_at(slot, c, call & 1, index),
					    call, waited);
		}
		if (meet_any(RECEIVERS, late))
			return;
		dawdle();
		if (i >= c.packs)
			continue;
		other = load((uint4 *)slot + half_of(c, call) + i);
		v[0] = c.rank ? other : own;
		v[1] = c.rank ? own : other;
		vector<FAST>::put(c, i, combine<T, 2, FAST>(v, c));
	}
}

template <class T, bool FAST>
static __device__ __forceinline__ void
staged(const struct oh__kernel_arguments &c)
{
	SHARED_WORD(sent);
	uint32_t waited, call;

	if (!threadIdx.x)
		sent = 0;
	begin_kernel<2>(c);
	call = begin_call(c, blockIdx.x * blockDim.x + threadIdx.x, waited);
	__syncthreads();
	if (threadIdx.x < blockDim.x / 2)
		send_chunks<FAST>(c, call, &sent);
	else
		receive_chunks<T, FAST>(c, call, &sent, waited);
}

#endif
