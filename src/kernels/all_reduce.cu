/* SPDX-License-Identifier: MIT */
/*
 * All-reduce by pushing into the readers' mailboxes; arrival is in the data.
 *
 * A mailbox has two halves; which one a call uses is the parity of an epoch that
 * each warp keeps for itself and that every warp advances in every call, so that
 * all agree. The grid of a mailbox never changes, nor does who writes to it. A
 * half is written again two calls later: to have finished the call between means
 * to have heard from every rank's kernel of that call, which touched nothing
 * before that rank's kernel of the call before had ended, and with it all its
 * reads of the half and the stores that emptied it again. No word is left full,
 * so none can be taken for a later call's.
 *
 * What costs time, each measured on two H200 at 8 KB: the input is loaded before
 * the epoch is used (0.10 us), the epoch is stored as soon as it is read and not
 * at the end (0.09), the next kernel's blocks take their places while this one
 * works (0.10). Peers' mailboxes are indexed by constants only: an index known at
 * run time would put the arguments into local memory.
 */
#include "pack.cuh"

/* Is k a rank? */
template <bool FAST>
static __device__ __forceinline__ bool
is_rank(int k, const struct oh__kernel_arguments &c)
{
	return FAST || k < (int)c.ranks;
}

/* The places of a half; the same for both kinds of kernels, as ranks of one call
 * may run either. */
template <int RANKS, bool FAST>
static __device__ __forceinline__ size_t
half_packs(const struct oh__kernel_arguments &c)
{
	return (size_t)(FAST ? RANKS : c.ranks) * c.stride;
}

/* Does the own part stay here? Through host memory it would only cost. */
template <bool KEEP>
static __device__ __forceinline__ bool
is_kept(int k, const struct oh__kernel_arguments &c)
{
	return KEEP && k == (int)c.rank;
}

/* Which half this call uses; false if the communicator has failed. */
template <int RANKS, bool FAST>
static __device__ __forceinline__ bool
begin_call(const struct oh__kernel_arguments &c, uint32_t thread, size_t &half)
{
	volatile uint32_t *epoch = c.epoch + thread / 32;
	uint32_t call = *epoch;

	if (call & OH__EPOCH_DEAD)
		return false;
	__syncwarp();
	if (thread % 32 == 0)
		*epoch = (call + 1) & ~OH__EPOCH_DEAD;
#ifdef OH_FAULT_ONE_HALF
	call = 0; /* for the test that must notice it */
#endif
	half = (call & 1) * half_packs<RANKS, FAST>(c);
	return true;
}

/* Waits for every rank's pack at "in"; false if this thread must leave. */
template <int RANKS, bool FAST, bool KEEP>
static __device__ __forceinline__ bool
await_packs(const struct oh__kernel_arguments &c, const uint4 *in, uint4 own,
	    uint4 *v, uint32_t &looks)
{
	bool missing;

	do {
		missing = false;
#pragma unroll
		for (int k = 0; k < RANKS; k++) {
			v[k] = own;
			if (is_rank<FAST>(k, c) && !is_kept<KEEP>(k, c))
				v[k] = load(in + (size_t)k * c.stride);
		}
#pragma unroll
		for (int k = 0; k < RANKS; k++)
			missing |= has_hole(v[k]);
		if (missing && !may_look_on(c, looks))
			return false;
	} while (missing);
	dawdle();
	return true;
}

template <int RANKS, bool FAST, bool KEEP>
static __device__ __forceinline__ void
make_all_empty(const struct oh__kernel_arguments &c, uint4 *in)
{
#pragma unroll
	for (int k = 0; k < RANKS; k++)
		if (is_rank<FAST>(k, c) && !is_kept<KEEP>(k, c))
			make_empty(in + (size_t)k * c.stride);
}

/* To every rank's mailbox, at this rank's place. */
template <int RANKS, bool FAST, bool KEEP>
static __device__ __forceinline__ void
push(const struct oh__kernel_arguments &c, size_t at, uint4 v)
{
#pragma unroll
	for (int k = 0; k < RANKS; k++)
		if (is_rank<FAST>(k, c) && !is_kept<KEEP>(k, c))
			store((uint4 *)c.mailbox[k] + at +
				      (size_t)c.rank * c.stride,
			      v);
}

/* Everyone sends everything to everyone. */
template <class T, int RANKS, bool FAST, bool KEEP>
static __device__ __forceinline__ void
one_shot(const struct oh__kernel_arguments &c)
{
	const uint32_t threads = gridDim.x * blockDim.x;
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, looks = 0;
	uint4 own = make_uint4(0, 0, 0, 0), v[RANKS];
	size_t half;

	let_next_kernel_start();
	await_kernel_before();
	if (i < c.packs)
		own = vector<FAST>::take(c, i);
	if (!begin_call<RANKS, FAST>(c, i, half))
		return;
	while (i < c.packs) {
		uint4 *in = (uint4 *)c.own + half + i;

		own = sendable(own);
		push<RANKS, FAST, KEEP>(c, half + i, own);
		if (!await_packs<RANKS, FAST, KEEP>(c, in, own, v, looks))
			return;
		make_all_empty<RANKS, FAST, KEEP>(c, in);
		vector<FAST>::put(c, i, combine<T, RANKS, FAST>(v, c));
		i += threads;
		if (i < c.packs)
			own = vector<FAST>::take(c, i);
	}
}

/* Pack j of the vector to its owner, a constant index for each. */
template <int RANKS>
static __device__ __forceinline__ void
push_to(const struct oh__kernel_arguments &c, uint32_t owner, size_t at,
	uint4 v)
{
#pragma unroll
	for (int k = 0; k < RANKS; k++)
		if (k == (int)owner)
			store((uint4 *)c.mailbox[k] + at +
				      (size_t)c.rank * c.stride,
			      v);
}

/* A thread a pack. Fewer threads with a pack of each part were no faster up to
 * 4 MB. */
template <int RANKS, bool FAST>
static __device__ __forceinline__ void
scatter(const struct oh__kernel_arguments &c, uint32_t first, uint32_t threads,
	size_t half, uint4 own)
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
	    uint32_t threads, size_t half, size_t results, uint32_t &looks)
{
	const uint4 whole = make_uint4(0, 0, 0, 0);
	uint4 v[RANKS];

	for (uint32_t i = first; i < c.part && c.rank * c.part + i < c.packs;
	     i += threads) {
		uint4 *in = (uint4 *)c.own + half + i;

		if (!await_packs<RANKS, FAST, false>(c, in, whole, v, looks))
			return false;
		make_all_empty<RANKS, FAST, false>(c, in);
		push<RANKS, FAST, false>(
			c, results + i,
			sendable(combine<T, RANKS, FAST>(v, c)));
	}
	return true;
}

template <bool FAST>
static __device__ __forceinline__ bool
gather(const struct oh__kernel_arguments &c, uint32_t first,
	      uint32_t threads, size_t results, uint32_t &looks)
{
	for (uint32_t j = first; j < c.packs; j += threads) {
		uint32_t owner = j / c.part;
		uint4 *in = (uint4 *)c.own + results +
			    (size_t)owner * c.stride + (j - owner * c.part);
		uint4 v = load(in);

		while (has_hole(v)) {
			if (!may_look_on(c, looks))
				return false;
			v = load(in);
		}
		make_empty(in);
		vector<FAST>::put(c, j, v);
	}
	return true;
}

/* Scatter, reduce the own part, gather, without a barrier: a second region of
 * the mailbox takes the results. */
template <class T, int RANKS, bool FAST>
static __device__ __forceinline__ void
two_shot(const struct oh__kernel_arguments &c)
{
	const uint32_t threads = gridDim.x * blockDim.x;
	const uint32_t first = blockIdx.x * blockDim.x + threadIdx.x;
	uint4 own = make_uint4(0, 0, 0, 0);
	size_t half, results;
	uint32_t looks = 0;

	let_next_kernel_start();
	await_kernel_before();
	if (first < c.packs)
		own = vector<FAST>::take(c, first);
	if (!begin_call<RANKS, FAST>(c, first, half))
		return;
	results = half + 2 * half_packs<RANKS, FAST>(c);
	scatter<RANKS, FAST>(c, first, threads, half, own);
	if (reduce_part<T, RANKS, FAST>(c, first, threads, half, results,
					looks))
		gather<FAST>(c, first, threads, results, looks);
}

#define KERNEL(NAME, THREADS, ...)                                             \
	extern "C" __global__ void __launch_bounds__(THREADS)                  \
		oh__##NAME(const __grid_constant__ struct oh__kernel_arguments c) \
	{                                                                      \
		__VA_ARGS__(c);                                                \
	}

/* For a type and a number of ranks; KIND is that number, or any. */
#define KERNELS(T, RANKS, FAST, KIND)                                          \
	KERNEL(one_shot_##T##_##KIND, 512, one_shot<T, RANKS, FAST, false>)    \
	KERNEL(one_shot_keep_##T##_##KIND, 512,                                \
	       one_shot<T, RANKS, FAST, true>)                                 \
	KERNEL(two_shot_##T##_##KIND, FAST ? 1024 : 512,                       \
	       two_shot<T, RANKS, FAST>)

#define KERNELS_OF(T)                                                          \
	KERNELS(T, 2, true, 2)                                                 \
	KERNELS(T, 3, true, 3)                                                 \
	KERNELS(T, 4, true, 4)                                                 \
	KERNELS(T, 8, true, 8)                                                 \
	KERNELS(T, OH__KERNEL_RANKS, false, any)

KERNELS_OF(f32)
KERNELS_OF(f16)
KERNELS_OF(bf16)
