/* SPDX-License-Identifier: MIT */
/*
 * All-reduce in chunks, for long vectors by way of host memory: a flag follows each
 * chunk. Nothing has to be made empty again, which over PCIe would cost as much as
 * sending, and both directions of the link are at work at once: half of a block's
 * threads send, chunk after chunk, and half receive. A fence before each flag costs
 * some 2 us, so short vectors are better off without. One-shot of two ranks; two-shot
 * of more.
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

/* The chunk before its flag. */
static __device__ __forceinline__ void fence_chunk(void)
{
#ifndef OH_FAULT_NO_FENCE /* for the test that must notice it */
	fence_stores();
#endif
}

static __device__ __forceinline__ bool is_raised(const uint32_t *at, uint32_t flag)
{
	uint32_t seen = load_flag(at);

#ifdef OH_FAULT_NO_RELEASE /* for the test that must notice it */
	return seen == flag;
#endif
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
			store_flag(flag_at(slot, c, half, index),
				   call | OH__FLAG_BIT);
#endif
		if (i < c.packs)
			store((uint4 *)slot + half_of(c, call) + i,
			      vector<FAST>::take(c, i));
		meet(SENDERS);
		if (thread)
			continue;
		tell_sent(sent, index + 1);
		fence_chunk();
		store_flag(flag_at(slot, c, half, index), call | OH__FLAG_BIT);
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

/*
 * Two-shot. The senders scatter what the others own, and gather the sums; the
 * receivers reduce the own part. A slot has four halves: two for what comes to be
 * summed, two for sums, and flags for each.
 */
enum { OWN = 0, SUMS = 2 };

/* Has rank k's part a pack i? */
static __device__ __forceinline__ bool
has_pack(const struct oh__kernel_arguments &c, uint32_t k, uint32_t i)
{
	return i < c.part && k * c.part + i < c.packs;
}

/* Thread k's chunk of rank k, or of its sums: of all at once. */
template <int RANKS, bool FAST, int WHAT>
static __device__ __forceinline__ bool
await_chunks(const struct oh__kernel_arguments &c, uint32_t call, uint32_t thread,
	     uint32_t index, uint32_t &waited)
{
	const uint32_t half = WHAT + (call & 1), first = index * (blockDim.x / 2);
	const uint32_t *flag = NULL;

#pragma unroll
	for (int k = 0; k < RANKS; k++)
		if (k == (int)thread && is_other<RANKS, FAST>(k, c) &&
		    has_pack(c, WHAT == SUMS ? k : c.rank, first))
			flag = flag_at(c.in[k], c, half, index);
	while (flag && !is_raised(flag, call | OH__FLAG_BIT))
		if (!may_look_on(c, waited)) {
			if (WHAT == SUMS)
				tell_late_result(c, thread);
			else
				tell_late(c, thread);
			return false;
		}
	return true;
}

/* After a chunk for each, or of the own sums: those who have one are told. */
template <int RANKS, bool FAST, int WHAT>
static __device__ __forceinline__ void
raise_flags(const struct oh__kernel_arguments &c, uint32_t call, uint32_t index)
{
	const uint32_t half = WHAT + (call & 1), first = index * (blockDim.x / 2);

	fence_chunk();
#pragma unroll
	for (int k = 0; k < RANKS; k++)
		if (is_other<RANKS, FAST>(k, c) &&
		    has_pack(c, WHAT == SUMS ? c.rank : k, first))
			store_flag(flag_at(c.out[k], c, half, index),
				   call | OH__FLAG_BIT);
}

/* One flag of a half in each slot, another one in its next call, if this call does
 * not raise it. */
template <int RANKS, bool FAST, int WHAT>
static __device__ __forceinline__ void
blank_flags(const struct oh__kernel_arguments &c, uint32_t call)
{
	const uint32_t half = WHAT + (call & 1), index = call / 2 % c.flags_half;
	const uint32_t first = index * (blockDim.x / 2);

#pragma unroll
	for (int k = 0; k < RANKS; k++)
		if (is_other<RANKS, FAST>(k, c) &&
		    !has_pack(c, WHAT == SUMS ? c.rank : k, first))
			store_flag(flag_at(c.out[k], c, half, index), 0);
}

template <int RANKS, bool FAST>
static __device__ __forceinline__ void
scatter_chunks(const struct oh__kernel_arguments &c, uint32_t call)
{
	const uint32_t chunk = blockDim.x / 2, thread = threadIdx.x;
	uint4 v[RANKS];

	for (uint32_t index = blockIdx.x; index * chunk < c.part;
	     index += gridDim.x) {
		uint32_t i = index * chunk + thread;

#ifdef OH_FAULT_FLAG_FIRST
		if (!thread) /* for the test that must notice it */
			raise_flags<RANKS, FAST, OWN>(c, call, index);
#endif
#pragma unroll
		for (int k = 0; k < RANKS; k++)
			if (is_other<RANKS, FAST>(k, c) && has_pack(c, k, i))
				v[k] = vector<FAST>::take(c, k * c.part + i);
#pragma unroll
		for (int k = 0; k < RANKS; k++)
			if (is_other<RANKS, FAST>(k, c) && has_pack(c, k, i))
				store((uint4 *)c.out[k] + half_of(c, call) + i,
				      v[k]);
		meet(SENDERS);
		if (!thread)
			raise_flags<RANKS, FAST, OWN>(c, call, index);
	}
#ifndef OH_FAULT_NO_BLANK /* for the test that must notice it */
	if (!blockIdx.x && !thread && c.packs) {
		blank_flags<RANKS, FAST, OWN>(c, call);
		blank_flags<RANKS, FAST, SUMS>(c, call);
	}
#endif
}

template <class T, int RANKS, bool FAST>
static __device__ __forceinline__ void
reduce_chunks(const struct oh__kernel_arguments &c, uint32_t call,
	      uint32_t &waited)
{
	const uint32_t chunk = blockDim.x / 2, thread = threadIdx.x - chunk;
	const uint32_t half = half_of(c, call), sums = half + 2 * c.half;
	uint4 v[RANKS], sum;

	for (uint32_t index = blockIdx.x; has_pack(c, c.rank, index * chunk);
	     index += gridDim.x) {
		uint32_t i = index * chunk + thread;
		bool mine = has_pack(c, c.rank, i);
		uint4 own = make_uint4(0, 0, 0, 0);

		if (mine)
			own = vector<FAST>::take(c, c.rank * c.part + i);
		if (meet_any(RECEIVERS, !await_chunks<RANKS, FAST, OWN>(
						c, call, thread, index, waited)))
			return;
		dawdle();
#pragma unroll
		for (int k = 0; k < RANKS; k++) {
			v[k] = own;
			if (mine && is_other<RANKS, FAST>(k, c))
				v[k] = load(slot_of(c, k) + half + i);
		}
		sum = combine<T, RANKS, FAST>(v, c);
#pragma unroll
		for (int k = 0; k < RANKS; k++)
			if (mine && is_other<RANKS, FAST>(k, c))
				store((uint4 *)c.out[k] + sums + i, sum);
		if (mine)
			vector<FAST>::put(c, c.rank * c.part + i, sum);
		meet(RECEIVERS);
		if (!thread)
			raise_flags<RANKS, FAST, SUMS>(c, call, index);
	}
}

template <int RANKS, bool FAST>
static __device__ __forceinline__ void
gather_chunks(const struct oh__kernel_arguments &c, uint32_t call,
	      uint32_t &waited)
{
	const uint32_t chunk = blockDim.x / 2, thread = threadIdx.x;
	const uint32_t sums = half_of(c, call) + 2 * c.half;
	uint4 v[RANKS];

	for (uint32_t index = blockIdx.x; index * chunk < c.part;
	     index += gridDim.x) {
		uint32_t i = index * chunk + thread;

		if (meet_any(SENDERS, !await_chunks<RANKS, FAST, SUMS>(
					      c, call, thread, index, waited)))
			return;
		dawdle();
#pragma unroll
		for (int k = 0; k < RANKS; k++)
			if (is_other<RANKS, FAST>(k, c) && has_pack(c, k, i))
				v[k] = load(slot_of(c, k) + sums + i);
#pragma unroll
		for (int k = 0; k < RANKS; k++)
			if (is_other<RANKS, FAST>(k, c) && has_pack(c, k, i))
				vector<FAST>::put(c, k * c.part + i, v[k]);
	}
}

template <class T, int RANKS, bool FAST>
static __device__ __forceinline__ void
two_staged(const struct oh__kernel_arguments &c)
{
	uint32_t waited, call;

	begin_kernel<RANKS>(c);
	call = begin_call(c, blockIdx.x * blockDim.x + threadIdx.x, waited);
	if (threadIdx.x < blockDim.x / 2) {
		scatter_chunks<RANKS, FAST>(c, call);
		gather_chunks<RANKS, FAST>(c, call, waited);
	} else {
		reduce_chunks<T, RANKS, FAST>(c, call, waited);
	}
}

#endif
