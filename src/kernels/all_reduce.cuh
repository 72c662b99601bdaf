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
 * What costs time, each measured on two H200 at 8 KB: the arguments are fetched
 * before the wait (0.10 us), the input is loaded before the epoch is used (0.10),
 * the epoch is stored as soon as it is read and not at the end (0.09), the next
 * kernel's blocks take their places while this one works (0.10). Slots are indexed
 * by constants only: an index known at run time would put the arguments into local
 * memory.
 */
#ifndef OH_KERNELS_ALL_REDUCE_CUH
#define OH_KERNELS_ALL_REDUCE_CUH

#include "pack.cuh"

/*
 * A multiprocessor that has not yet read a launch's arguments fetches them from
 * memory: 0.1 us, spent here while the kernel before still works. The sum is no
 * likely one, and what it decides does no harm, but it is not known to the
 * compiler.
 */
template <int RANKS>
static __device__ __forceinline__ void
fetch_arguments(const struct oh__kernel_arguments &c)
{
	uint64_t sum = (uint64_t)c.send ^ (uint64_t)c.recv ^ (uint64_t)c.epoch ^
		       c.packs ^ c.half ^ c.pause;

#pragma unroll
	for (int k = 0; k < RANKS; k++)
		sum ^= (uint64_t)c.in[k] ^ (uint64_t)c.out[k];
	if (sum == 1)
		let_next_kernel_start();
}

/* The next one is let in only after the wait: a row of kernels that let the next
 * one start before it can fill a GPU, and two communicators with a row each would
 * wait for each other. */
template <int RANKS>
static __device__ __forceinline__ void
begin_kernel(const struct oh__kernel_arguments &c)
{
	fetch_arguments<RANKS>(c);
#ifndef OH_FAULT_EARLY /* for the test that must notice it */
	await_kernel_before();
#endif
	let_next_kernel_start();
}

/* Is k a rank? */
template <bool FAST>
static __device__ __forceinline__ bool
is_rank(int k, const struct oh__kernel_arguments &c)
{
	return FAST || k < (int)c.ranks;
}

template <int RANKS, bool FAST>
static __device__ __forceinline__ bool
is_other(int k, const struct oh__kernel_arguments &c)
{
	return is_rank<FAST>(k, c) && k != (int)c.rank;
}

/* The call's epoch, without the dead bit; its parity is the half. Who starts when
 * the communicator has failed does not wait. */
static __device__ __forceinline__ uint32_t
begin_call(const struct oh__kernel_arguments &c, uint32_t thread, uint32_t &waited)
{
#ifdef OH_FAULT_BLOCK_EPOCH /* for the test that must notice it */
	volatile uint32_t *epoch = c.epoch + blockIdx.x;
	const bool advances = threadIdx.x == 0;
#else
	volatile uint32_t *epoch = c.epoch + thread / 32;
	const bool advances = thread % 32 == 0;
#endif
	uint32_t call;

	dawdle();
	call = *epoch;
	waited = call & OH__EPOCH_DEAD ? NO_WAIT : 0;
	__syncwarp();
	if (advances)
		*epoch = ((call + 1) & ~OH__EPOCH_DEAD) |
			 (call & OH__EPOCH_DEAD);
#ifdef OH_FAULT_DEAD_ONCE /* for the test that must notice it */
	*epoch &= ~OH__EPOCH_DEAD;
#endif
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
	    uint32_t &waited)
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
		if (missing && !may_look_on(c, waited)) {
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
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, waited, half;
	uint4 own = make_uint4(0, 0, 0, 0), v[RANKS];

	begin_kernel<RANKS>(c);
	if (i < c.packs)
		own = vector<FAST>::take(c, i);
	half = half_of(c, begin_call(c, i, waited));
	while (i < c.packs) {
		push<RANKS, FAST>(c, half + i, sendable(own));
		if (c.pause)
			pause(c);
		if (!await_packs<RANKS, FAST>(c, half + i, v, waited))
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

/* A pack to its owner, a constant index for each. */
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

/* The own part, whose packs never leave this rank's registers; others counts
 * those of all other parts, as if the own part were not there. */
struct parts {
	uint32_t own_first, own, others;
};

static __device__ __forceinline__ struct parts
parts_of(const struct oh__kernel_arguments &c)
{
	struct parts p;

	p.own_first = min(c.rank * c.part, c.packs);
	p.own = min(c.packs - p.own_first, c.part);
	p.others = c.packs - p.own;
	return p;
}

/* The next rank's packs first: else all would send to the same one, and share its
 * link. */
static __device__ __forceinline__ uint32_t
other_pack(const struct oh__kernel_arguments &c, const struct parts &p,
	   uint32_t j)
{
	uint32_t at = p.own_first + p.own + j;

	return at < c.packs ? at : at - c.packs;
}

/* By warps over the blocks: a few packs are work for all multiprocessors. */
static __device__ __forceinline__ uint32_t spread_thread(void)
{
	return (threadIdx.x / 32 * gridDim.x + blockIdx.x) * 32 +
	       threadIdx.x % 32;
}

/* A thread a pack: two or four at a time were slower up to 8 MB. */
template <int RANKS, bool FAST>
static __device__ __forceinline__ void
scatter(const struct oh__kernel_arguments &c, const struct parts &p,
	uint32_t first, uint32_t half, uint4 v)
{
	const uint32_t threads = gridDim.x * blockDim.x;

	for (uint32_t j = first; j < p.others; j += threads) {
		uint32_t at = other_pack(c, p, j), owner = at / c.part;

		if (j != first)
			v = vector<FAST>::take(c, at);
		push_to<RANKS>(c, owner, half + at - owner * c.part,
			       sendable(v));
	}
}

/* Every other rank's pack at that place of its slot, and the own one; false if
 * this thread must leave. */
template <int RANKS, bool FAST>
static __device__ __forceinline__ bool
await_others(const struct oh__kernel_arguments &c, uint32_t at, uint4 own,
	     uint4 *v, uint32_t &waited)
{
	bool missing;

	do {
		missing = false;
#pragma unroll
		for (int k = 0; k < RANKS; k++) {
			v[k] = make_uint4(0, 0, 0, 0);
			if (is_other<RANKS, FAST>(k, c))
				v[k] = load(slot_of(c, k) + at);
			else if (is_rank<FAST>(k, c))
				v[k] = own;
		}
#pragma unroll
		for (int k = 0; k < RANKS; k++)
			missing |= is_other<RANKS, FAST>(k, c) &&
				   has_hole(v[k]);
		if (missing && !may_look_on(c, waited)) {
#pragma unroll
			for (int k = 0; k < RANKS; k++)
				if (is_other<RANKS, FAST>(k, c) &&
				    has_hole(v[k]))
					tell_late(c, k);
			return false;
		}
	} while (missing);
	dawdle();
	return true;
}

template <class T, int RANKS, bool FAST>
static __device__ __forceinline__ bool
reduce_part(const struct oh__kernel_arguments &c, const struct parts &p,
	    uint32_t first, uint32_t half, uint32_t results, uint32_t &waited)
{
	const uint32_t threads = gridDim.x * blockDim.x;
	uint4 v[RANKS], sum;

	for (uint32_t i = first; i < p.own; i += threads) {
		uint4 own = vector<FAST>::take(c, p.own_first + i);

		if (!await_others<RANKS, FAST>(c, half + i, own, v, waited))
			return false;
		sum = combine<T, RANKS, FAST>(v, c);
#pragma unroll
		for (int k = 0; k < RANKS; k++)
			if (is_other<RANKS, FAST>(k, c)) {
				make_empty(slot_of(c, k) + half + i);
				/* no hole: a GPU's NaN is 0x7fffffff */
				store((uint4 *)c.out[k] + results + i, sum);
			}
		vector<FAST>::put(c, p.own_first + i, sum);
	}
	return true;
}

template <int RANKS, bool FAST>
static __device__ __forceinline__ void
gather(const struct oh__kernel_arguments &c, const struct parts &p,
       uint32_t first, uint32_t results, uint32_t &waited)
{
	const uint32_t threads = gridDim.x * blockDim.x;

	for (uint32_t j = first; j < p.others; j += threads) {
		uint32_t at = other_pack(c, p, j), owner = at / c.part;
		uint4 *in = slot_of_owner<RANKS>(c, owner) + results + at -
			    owner * c.part;
		uint4 v = load(in);

		while (has_hole(v)) {
			if (!may_look_on(c, waited)) {
				tell_late_result(c, owner);
				return;
			}
			v = load(in);
		}
		make_empty(in);
		vector<FAST>::put(c, at, v);
	}
}

/*
 * Scatter, reduce the own part, gather, without a barrier: two more halves of a
 * slot take the results. In place nothing is lost: a result of another rank's part
 * comes only after that rank has had this one's pack.
 */
template <class T, int RANKS, bool FAST>
static __device__ __forceinline__ void
two_shot(const struct oh__kernel_arguments &c)
{
	const uint32_t first = spread_thread();
	const struct parts p = parts_of(c);
	uint4 v = make_uint4(0, 0, 0, 0);
	uint32_t waited, half, results;

	begin_kernel<RANKS>(c);
	if (first < p.others)
		v = vector<FAST>::take(c, other_pack(c, p, first));
	half = half_of(c, begin_call(c, blockIdx.x * blockDim.x + threadIdx.x,
				     waited));
	results = half + 2 * c.half;
	scatter<RANKS, FAST>(c, p, first, half, v);
	if (c.pause)
		pause(c);
	if (reduce_part<T, RANKS, FAST>(c, p, first, half, results, waited))
		gather<RANKS, FAST>(c, p, first, results, waited);
}

#endif
