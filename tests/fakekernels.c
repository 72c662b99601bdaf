/* SPDX-License-Identifier: MIT */
#include "fakekernels_private.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "gpu/engine.h"
#include "kernels/arguments.h"
#include "kernels/image.h"

/* What cuModuleLoadData is given in place of an image. */
const uint64_t oh__kernels_image[1] = {1};
const size_t oh__kernels_image_bytes = sizeof(oh__kernels_image);

static struct {
	int from, to;
} lost[64];
static int lost_count;

void fakekernels_lose(int from, int to)
{
	lost[lost_count].from = from;
	lost[lost_count++].to = to;
}

static bool is_lost(uint32_t from, uint32_t to)
{
	for (int i = 0; i < lost_count; i++)
		if (lost[i].from == (int)from && lost[i].to == (int)to)
			return true;
	return false;
}

static enum oh__gpu_memory_kind kind_of(const void *pointer, int *owner)
{
	enum oh__gpu_memory_kind kind = OH__GPU_MEMORY_HOST;
	const struct oh__cuda *cuda;

	if (!oh__cuda_load(&cuda))
		oh__gpu_memory_of(cuda, pointer, &kind, owner);
	return kind;
}

/* The check, and the release. */

static bool is_check_lost(uint32_t from, uint32_t to, const void *at)
{
	const char *fault = getenv("FAKEKERNELS_LOSE");
	unsigned lost_from, lost_to;
	char everywhere[16] = "";
	int owner;

	return fault &&
	       sscanf(fault, "%u %u %15s", &lost_from, &lost_to, everywhere) >=
		       2 &&
	       from == lost_from && to == lost_to &&
	       (*everywhere || kind_of(at, &owner) == OH__GPU_MEMORY_DEVICE);
}

static uint32_t pattern(uint32_t nonce, uint32_t from, uint32_t to,
			uint32_t word)
{
	return (nonce ^ (from * 131 + to) * 0x9e3779b9u) + word * 0x85ebca6bu;
}

static uint32_t *place(void *area, uint32_t index)
{
	return (uint32_t *)area + (size_t)index * OH__CHECK_WORDS;
}

static void check_write(const struct fakecuda_launch *launch)
{
	struct oh__check_arguments c;

	memcpy(&c, launch->arguments, sizeof(c));
	for (uint32_t k = 0; k < launch->grid[0]; k++) {
		if (!c.peer[k] || is_check_lost(c.rank, k, c.peer[k]))
			continue;
		for (uint32_t i = 0; i < OH__CHECK_WORDS; i++)
			put(place(c.peer[k], c.rank) + i,
			    pattern(c.nonce, c.rank, k, i));
	}
}

static void check_read(const struct fakecuda_launch *launch)
{
	struct oh__check_arguments c;

	memcpy(&c, launch->arguments, sizeof(c));
	for (uint32_t k = 0; k < launch->grid[0]; k++) {
		uint32_t wrong = 0;

		for (uint32_t i = 0; i < OH__CHECK_WORDS; i++)
			wrong += see(place(c.own, k) + i) !=
				 pattern(c.nonce, k, c.rank, i);
		c.result[k] = (struct oh__check_result){wrong, c.nonce};
	}
}

static void release(const struct fakecuda_launch *launch)
{
	struct oh__release_arguments c;

	memcpy(&c, launch->arguments, sizeof(c));
	for (uint32_t i = 0; i < c.epochs; i++)
		__atomic_fetch_or(c.epoch + i, OH__EPOCH_DEAD,
				  __ATOMIC_RELAXED);
	for (uint64_t i = 0; i < c.words; i++) {
		uint32_t empty = OH__WORD_EMPTY;

		if (!c.flagged)
			__atomic_compare_exchange_n(
				c.slot + i, &empty, OH__WORD_NAN, false,
				__ATOMIC_RELAXED, __ATOMIC_RELAXED);
		else if (i % 2)
			put(c.slot + i, OH__FLAG_RELEASED);
	}
}

/* The probe. */

/* Is what this GPU stores there lost? */
static bool is_store_lost(const struct fakecuda_launch *launch, const void *to)
{
	int owner;

	return lost_count && kind_of(to, &owner) == OH__GPU_MEMORY_DEVICE &&
	       is_lost((uint32_t)launch->device, (uint32_t)owner);
}

static struct oh__probe_arguments
probe_begin(const struct fakecuda_launch *launch)
{
	struct oh__probe_arguments c;

	memcpy(&c, launch->arguments, sizeof(c));
	for (unsigned i = 1; i < launch->grid[0]; i++)
		put(c.answer + i, 0);
	return c;
}

static void probe_store(const struct fakecuda_launch *launch)
{
	struct oh__probe_arguments c;

	memcpy(&c, launch->arguments, sizeof(c));
	if (is_store_lost(launch, c.to))
		return;
	for (uint64_t i = 0; i < c.packs * PACK_WORDS; i++)
		put((uint32_t *)c.to + i,
		    (uint32_t)i * OH__PROBE_STEP + c.seed);
}

static void probe_load(const struct fakecuda_launch *launch)
{
	struct oh__probe_arguments c = probe_begin(launch);
	uint32_t sum = 0;

	for (uint64_t i = 0; i < c.packs * PACK_WORDS; i++)
		sum += see((const uint32_t *)c.from + i);
	put(c.answer, sum);
}

static void probe_count(const struct fakecuda_launch *launch)
{
	struct oh__probe_arguments c = probe_begin(launch);
	uint32_t wrong = 0;

	for (uint64_t i = 0; i < c.packs * PACK_WORDS; i++)
		wrong += see((const uint32_t *)c.from + i) !=
			 (uint32_t)i * OH__PROBE_STEP + c.seed;
	put(c.answer, wrong);
}

/* A flag that follows waits here for the one that leads. */
#define FOLLOWING 128 /* 16 GPUs have 120 pairs */
static struct fakecuda_launch following[FOLLOWING];
static int following_count;

static void probe_tell(const struct fakecuda_launch *launch, uint32_t rounds,
		       uint32_t loads)
{
	struct oh__probe_arguments c;

	memcpy(&c, launch->arguments, sizeof(c));
	for (uint32_t i = 0; i < rounds; i++)
		put(c.answer + OH__PROBE_HEAD + i, 1000 * loads);
	put(c.answer + 1, 1000 * loads * rounds);
	put(c.answer + 2, 1000 * loads * rounds);
	put(c.answer + 3, 0);
	put(c.answer, rounds);
}

/* Without anyone who follows it is the processor that does, later. */
static void probe_ping(const struct fakecuda_launch *launch)
{
	struct oh__probe_arguments c, other;
	uint32_t rounds;

	memcpy(&c, launch->arguments, sizeof(c));
	if (!c.leads) {
		following[following_count++ % FOLLOWING] = *launch;
		return;
	}
	rounds = is_store_lost(launch, c.to) ? 0 : c.rounds;
	if (rounds)
		put(c.to, c.seed + rounds - 1);
	for (int i = 0; i < following_count && i < FOLLOWING; i++) {
		memcpy(&other, following[i].arguments, sizeof(other));
		if (other.seed != c.seed)
			continue;
		if (is_store_lost(&following[i], other.to))
			rounds = 0;
		probe_tell(&following[i], rounds, 1);
	}
	probe_tell(launch, rounds, 1);
}

static void probe_chase(const struct fakecuda_launch *launch)
{
	struct oh__probe_arguments c;

	memcpy(&c, launch->arguments, sizeof(c));
	probe_tell(launch, c.rounds, OH__PROBE_CHAIN);
}

/* The floors of measurements. */

static void floor_empty(const struct fakecuda_launch *launch)
{
	(void)launch;
}

static void floor_flag(const struct fakecuda_launch *launch)
{
	struct oh__floor_arguments c;
	uint32_t epoch, looks;

	memcpy(&c, launch->arguments, sizeof(c));
	epoch = c.state[0] + 1;
	looks = c.state[1] ? c.looks : 0;
	for (uint32_t k = 0; k < c.ranks; k++)
		if (k != c.rank && !is_lost(c.rank, k))
			put(c.flags[k] + c.rank, epoch);
	for (uint32_t k = 0; k < c.ranks; k++)
		while (k != c.rank &&
		       (int32_t)(see(c.flags[c.rank] + k) - epoch) < 0) {
			if (++looks > c.looks) {
				put(c.late, 1 + k);
				c.state[1] = 1;
				break;
			}
			sched_yield();
		}
	c.state[0] = epoch;
}

static const struct {
	const char *name;
	size_t bytes; /* 0: it has no arguments */
	fakecuda_runner *run;
} others[] = {
	{"oh__check_write", sizeof(struct oh__check_arguments), check_write},
	{"oh__check_read", sizeof(struct oh__check_arguments), check_read},
	{"oh__release", sizeof(struct oh__release_arguments), release},
	{"oh__floor_empty", 0, floor_empty},
	{"oh__floor_flag", sizeof(struct oh__floor_arguments), floor_flag},
	{"oh__probe_store", sizeof(struct oh__probe_arguments), probe_store},
	{"oh__probe_load", sizeof(struct oh__probe_arguments), probe_load},
	{"oh__probe_count", sizeof(struct oh__probe_arguments), probe_count},
	{"oh__probe_ping", sizeof(struct oh__probe_arguments), probe_ping},
	{"oh__probe_chase", sizeof(struct oh__probe_arguments), probe_chase},
};

#define OTHERS (sizeof(others) / sizeof(*others))

void fakekernels_run(const struct fakecuda_launch *launch)
{
	for (size_t i = 0; i < OTHERS; i++)
		if (!strcmp(launch->kernel, others[i].name)) {
			others[i].run(launch);
			return;
		}
	fakekernels_all_reduce(launch);
}

void fakekernels_script(char *text, size_t room)
{
	static const char *const algorithms[] = {
		"one_shot", "two_shot", "flagged", "staged", "two_staged"};
	static const char *const dtypes[] = {"f32", "f16", "bf16"};
	static const char *const kinds[] = {
		"2", "3", "4", "8", "any2", "any3", "any4", "any8", "any16"};
	size_t used = 0;

	following_count = 0;
	*text = '\0';
	for (size_t i = 0; i < OTHERS; i++)
		used += (size_t)snprintf(text + used, room - used,
					 others[i].bytes ? "kernel %s %zu\n"
							 : "kernel %s\n",
					 others[i].name, others[i].bytes);
	for (int n = 0; n < 5 * 3 * 9; n++)
		used += (size_t)snprintf(
			text + used, room - used, "kernel oh__%s_%s_%s %zu\n",
			algorithms[n % 5], dtypes[n / 5 % 3], kinds[n / 15],
			sizeof(struct oh__kernel_arguments));
}
