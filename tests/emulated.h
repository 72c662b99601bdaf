/* SPDX-License-Identifier: MIT */
/*
 * GPUs on one thread of a processor, in place of src/kernels/device.cuh: the
 * rest of the kernels is compiled as it is, and every thread of theirs is a
 * fiber. Which one goes on is drawn at each look and store, and what is stored
 * waits in a buffer of its block, from which words leave in any order, but for
 * those to one place, late: a flag without a fence comes before its data sooner
 * or later. 64 words wait at most, and any barrier of the block lets a fence
 * after it tell of them. The clock begins anywhere, and not all read it alike.
 *
 * For C++, before any header of src/kernels.
 */
#ifndef OH_TESTS_EMULATED_H
#define OH_TESTS_EMULATED_H

/* its longjmp takes another stack for a broken one */
#undef _FORTIFY_SOURCE

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <functional>
#include <ucontext.h>
#include <vector>

#define OH_KERNELS_DEVICE_CUH
#define QUICK_LOOKS 64u
#define __device__
#define __forceinline__ inline

#include "kernels/arguments.h"

struct uint2 {
	uint32_t x, y;
};
struct uint4 {
	uint32_t x, y, z, w;
};
struct float2 {
	float x, y;
};

static inline uint2 make_uint2(uint32_t x, uint32_t y)
{
	return {x, y};
}

static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
	return {x, y, z, w};
}

namespace emulated
{
struct launch;
struct fiber;

/* Stored, and not yet seen by anyone. */
struct word {
	uintptr_t to;
	uint64_t value;
	size_t bytes;
	const fiber *by;
	bool met; /* who stored it has come to a barrier since */
};

struct barrier {
	uint32_t come, turn, sum, result;
};

enum {
	BARRIERS = 3,
	WARPS = 16,
	STORES = 64
};

struct block {
	struct launch *launch;
	uint32_t shared;
	barrier barriers[BARRIERS], warps[WARPS];
	uint32_t asleep[WARPS]; /* for so many turns */
	std::vector<word> stores;
};

struct dimension {
	uint32_t x;
};

struct fiber {
	jmp_buf state;
	ucontext_t context;
	std::vector<char> stack;
	struct block *block;
	dimension thread, place; /* threadIdx, blockIdx */
	bool begun, done;
};

/* A kernel of one rank, from its start to its end. */
struct launch {
	std::function<void()> run;
	struct oh__kernel_arguments arguments; /* of an all-reduce */
	dimension threads, blocks; /* blockDim, gridDim */
	std::vector<block> resident;
	std::vector<fiber *> fibers;
	struct launch *before; /* of the same rank, and not yet at its end */
};

static jmp_buf scheduler;
static fiber *current;
static std::vector<fiber *> idle;

static uint64_t seed;

/* What is stored where the kernel's call has nothing to do; it is not done. */
static bool (*is_astray)(const struct oh__kernel_arguments &, uintptr_t to);
static unsigned long astray;

static inline uint32_t draw(uint32_t below)
{
	uint64_t x = seed += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)((x ^ x >> 31) >> 16) % below;
}

static inline void leave()
{
	if (!_setjmp(current->state))
		_longjmp(scheduler, 1);
}

/* Others may go on here. */
static inline void yield()
{
	if (draw(2))
		leave();
}

static inline void fiber_main()
{
	for (;;) {
		current->block->launch->run();
		current->done = true;
		leave();
	}
}

/* A fiber's turn takes a microsecond, however busy the machine is. */
static inline uint64_t turns;
static uint64_t turn_zero_ns; /* what the clock showed then */

/* Anywhere in what the kernels count ticks in, or just before its end. */
static inline void set_clock()
{
	uint64_t tick = draw(2) ? draw(OH__TICKS) : OH__TICKS - draw(300);

	turn_zero_ns = tick * OH__TICK_NS + draw(OH__TICK_NS) - turns * 1000;
}

static inline void resume(fiber *f)
{
	turns++;
	current = f;
	if (_setjmp(scheduler))
		return;
	if (f->begun)
		_longjmp(f->state, 1);
	f->begun = true;
	setcontext(&f->context);
}

static inline fiber *make_fiber()
{
	fiber *f = new fiber();

	f->stack.resize(32768);
	getcontext(&f->context);
	f->context.uc_stack.ss_sp = f->stack.data();
	f->context.uc_stack.ss_size = f->stack.size();
	makecontext(&f->context, fiber_main, 0);
	return f;
}

static inline void see(const word &w)
{
	memcpy((void *)w.to, &w.value, w.bytes);
}

/* One that is in the buffer; the first that goes to the same place. */
static inline void see_one(block &b, size_t index)
{
	size_t first = 0;

	while (b.stores[first].to != b.stores[index].to)
		first++;
	see(b.stores[first]);
	b.stores.erase(b.stores.begin() + (std::ptrdiff_t)first);
}

static inline void see_all(block &b)
{
	for (const word &w : b.stores)
		see(w);
	b.stores.clear();
}

static inline void put(void *to, uint64_t value, size_t bytes)
{
	block &b = *current->block;

	if (is_astray(b.launch->arguments, (uintptr_t)to)) {
		astray++;
		return;
	}
	b.stores.push_back({(uintptr_t)to, value, bytes, current, false});
	if (b.stores.size() > STORES)
		see_one(b, 0);
}

static inline void put(uint4 *to, uint4 v)
{
	put(&to->x, (uint64_t)v.y << 32 | v.x, 8);
	put(&to->z, (uint64_t)v.w << 32 | v.z, 8);
	yield();
}

/* What happened before it: this thread's stores, and those of others before a
 * barrier. */
static inline void fence()
{
	std::vector<word> &stores = current->block->stores;
	std::vector<word> left;

	yield();
	for (const word &w : stores)
		if (w.met || w.by == current)
			see(w);
		else
			left.push_back(w);
	stores.swap(left);
}

/* The sum of what they bring. */
static inline uint32_t meet(barrier &at, uint32_t threads, uint32_t mine)
{
	uint32_t turn = at.turn;

	for (word &w : current->block->stores)
		w.met |= w.by == current;
	at.sum += mine;
	if (++at.come == threads) {
		at.come = 0;
		at.result = at.sum;
		at.sum = 0;
		at.turn++;
	}
	while (at.turn == turn)
		leave();
	return at.result;
}

/* Beside the one before it, as a programmatic launch. */
static inline launch *start(const std::function<void()> &run,
			    const struct oh__kernel_arguments &arguments,
			    uint32_t blocks, uint32_t threads, launch *before)
{
	launch *l = new launch();

	l->before = before;

	l->run = run;
	l->arguments = arguments;
	l->threads.x = threads;
	l->blocks.x = blocks;
	l->resident.resize(blocks);
	for (uint32_t i = 0; i < blocks * threads; i++) {
		fiber *f = idle.empty() ? make_fiber() : idle.back();

		if (!idle.empty())
			idle.pop_back();
		f->block = &l->resident[i / threads];
		f->block->launch = l;
		f->block->shared =
			i % threads ? f->block->shared : draw(UINT32_MAX);
		f->thread.x = i % threads;
		f->place.x = i / threads;
		f->done = false;
		l->fibers.push_back(f);
	}
	return l;
}

/* A turn of every thread whose warp is awake; true: the kernel has ended. */
static inline bool go_on(launch *l)
{
	bool done = true;

	for (fiber *f : l->fibers) {
		uint32_t &asleep = f->block->asleep[f->thread.x / 32];

		if (f->thread.x % 32 == 0)
			asleep = asleep ? asleep - 1 : draw(16) ? 0 : draw(24);
		if (!asleep && !f->done)
			resume(f);
		done &= f->done;
	}
	for (block &b : l->resident)
		for (uint32_t n = draw(STORES); n && !b.stores.empty(); n--)
			see_one(b, draw((uint32_t)b.stores.size()));
	return done;
}

/* What was stored is seen by then. */
static inline void end(launch *l)
{
	for (block &b : l->resident)
		see_all(b);
	idle.insert(idle.end(), l->fibers.begin(), l->fibers.end());
	delete l;
}

} // namespace emulated

/* What the kernels use. */
#define threadIdx (emulated::current->thread)
#define blockIdx (emulated::current->place)
#define blockDim (emulated::current->block->launch->threads)
#define gridDim (emulated::current->block->launch->blocks)
#define SHARED_WORD(NAME) uint32_t &NAME = emulated::current->block->shared

static inline uint32_t min(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static inline void store(uint4 *to, uint4 v)
{
	emulated::put(to, v);
}

static inline uint4 load(const uint4 *from)
{
	emulated::yield();
	return *from;
}

static inline void make_empty(uint4 *at)
{
	emulated::put(at, {OH__WORD_EMPTY, OH__WORD_EMPTY, OH__WORD_EMPTY,
			   OH__WORD_EMPTY});
}

static inline void store_flag(uint32_t *at, uint32_t flag)
{
	emulated::put(at, flag, sizeof(flag));
	emulated::yield();
}

static inline void fence_stores()
{
	emulated::fence();
}

static inline uint32_t load_flag(const uint32_t *at)
{
	emulated::yield();
	return *at;
}

static inline void meet(uint32_t barrier)
{
	emulated::meet(emulated::current->block->barriers[barrier],
		       blockDim.x / 2, 0);
}

static inline bool meet_any(uint32_t barrier, bool mine)
{
	return emulated::meet(emulated::current->block->barriers[barrier],
			      blockDim.x / 2, mine);
}

static inline void __syncthreads()
{
	emulated::meet(emulated::current->block->barriers[0], blockDim.x, 0);
}

static inline uint32_t __syncthreads_count(bool mine)
{
	return emulated::meet(emulated::current->block->barriers[0], blockDim.x,
			      mine);
}

static inline void __syncwarp()
{
	uint32_t warp = threadIdx.x / 32;

	emulated::meet(emulated::current->block->warps[warp],
		       min(blockDim.x - warp * 32, 32), 0);
}

static inline void await_kernel_before()
{
	while (emulated::current->block->launch->before)
		emulated::leave();
	emulated::yield();
}

static inline void let_next_kernel_start()
{
}

/* Who asks for the time waits. Every other one is shown what it was up to two
 * ticks before: so the clock goes back a little. */
static inline uint64_t now_ns()
{
	uint32_t late;

	emulated::leave();
	late = emulated::draw(2) ? 0 : emulated::draw(2 * OH__TICK_NS);
	return emulated::turn_zero_ns + emulated::turns * 1000 - late;
}

static inline long long clock64()
{
	static long long cycles;

	emulated::leave();
	return cycles += 64;
}

static inline int __clz(int word)
{
	return __builtin_clz((unsigned)word);
}

static inline void __threadfence_block()
{
}

static inline uint32_t atomicExch(uint32_t *at, uint32_t value)
{
	uint32_t before = *at;

	*at = value;
	return before;
}

static inline uint32_t atomicAdd(uint32_t *at, uint32_t value)
{
	uint32_t before;

	emulated::leave();
	before = *at;
	*at = before + value;
	return before;
}

static inline uint32_t atomicOr(uint32_t *at, uint32_t bits)
{
	uint32_t before;

	emulated::yield();
	before = *at;
	*at = before | bits;
	return before;
}

static inline uint32_t atomicCAS(uint32_t *at, uint32_t due, uint32_t value)
{
	uint32_t before;

	emulated::yield();
	before = *at;
	if (before == due)
		*at = value;
	return before;
}

static inline float __uint_as_float(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* What is not a number has one form, as after a GPU's sum. */
static inline uint32_t __float_as_uint(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return value != value ? 0x7fffffff : bits;
}

static inline float __fdiv_rn(float a, float b)
{
	return a / b;
}

static inline float widen_one_f16(uint32_t bits)
{
	uint32_t sign = (bits & 0x8000u) << 16, rest = (bits & 0x7fffu) << 13;

	if (rest >= 0x0f800000u) /* infinity, not a number */
		return __uint_as_float(sign | 0x70000000u | rest);
	/* another exponent's bias; right for subnormals, too */
	return __uint_as_float(sign | rest) * 0x1p112f;
}

static inline float2 widen_f16(uint32_t v)
{
	return {widen_one_f16(v & 0xffff), widen_one_f16(v >> 16)};
}

/* To the nearest, ties to even. */
static inline uint32_t narrow_one_f16(float value)
{
	uint32_t bits, sign;
	float size;

	memcpy(&bits, &value, sizeof(bits));
	sign = bits >> 16 & 0x8000u;
	bits &= 0x7fffffffu;
	if (bits > 0x7f800000u)
		return 0x7fff;
	if (bits >= 0x477ff000u)
		return sign | 0x7c00u;
	if (bits >= 0x38800000u)
		return sign |
		       (bits + 0xfffu + (bits >> 13 & 1) - 0x38000000u) >> 13;
	/* a sum whose last place is that of a subnormal, 2^-24 */
	size = __uint_as_float(bits) + 0.5f;
	memcpy(&bits, &size, sizeof(bits));
	return sign | (bits - 0x3f000000u);
}

static inline uint32_t narrow_f16(float low, float high)
{
	return narrow_one_f16(low) | narrow_one_f16(high) << 16;
}

static inline uint32_t narrow_one_bf16(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	if (value != value)
		return 0x7fff;
	return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

static inline uint32_t narrow_bf16(float low, float high)
{
	return narrow_one_bf16(low) | narrow_one_bf16(high) << 16;
}

#endif
