/* SPDX-License-Identifier: MIT */
#include "fakekernels.h"

#include <sched.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cpu/reduce.h"
#include "gpu/engine.h"
#include "kernels/arguments.h"
#include "kernels/image.h"

/* What cuModuleLoadData is given in place of an image. */
const uint64_t oh__kernels_image[1] = {1};
const size_t oh__kernels_image_bytes = sizeof(oh__kernels_image);

#define PACK_WORDS (OH__PACK_BYTES / 4)

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
		if ((lost[i].from < 0 || lost[i].from == (int)from) &&
		    (lost[i].to < 0 || lost[i].to == (int)to))
			return true;
	return false;
}

static uint32_t see(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static void put(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
}

/* All-reduce. */

/* Since when a call has waited: 0, not yet, or NO_WAIT: it may not. */
#define NO_WAIT UINT64_MAX

static bool may_wait_on(const struct oh__kernel_arguments *c, uint64_t *since)
{
	uint64_t now = oh__now_ns();

	if (!*since)
		*since = now;
	return *since != NO_WAIT && (now - *since) / OH__TICK_NS <= c->timeout;
}

/* The call's epoch; every warp's goes on. */
static uint32_t begin(const struct oh__kernel_arguments *c,
		      const struct fakecuda_launch *launch, uint64_t *since)
{
	uint32_t warps = (launch->grid[0] * launch->block[0] + 31) / 32;
	uint32_t call = see(c->epoch);

	*since = call & OH__EPOCH_DEAD ? NO_WAIT : 0;
	for (uint32_t i = 0; i < warps; i++)
		put(c->epoch + i,
		    ((call + 1) & ~OH__EPOCH_DEAD) | (call & OH__EPOCH_DEAD));
	return call & ~OH__EPOCH_DEAD;
}

/* Packs of a buffer that end with its bytes, into a slot. */
static void push(const struct oh__kernel_arguments *c, uint32_t to, size_t at,
		 const unsigned char *data, size_t bytes)
{
	uint32_t *slot = (uint32_t *)c->out[to] + at * PACK_WORDS;

	for (size_t i = 0;
	     i < (bytes + OH__PACK_BYTES - 1) / OH__PACK_BYTES * PACK_WORDS;
	     i++) {
		uint32_t word = 0;
		size_t left = bytes > i * 4 ? bytes - i * 4 : 0;

		memcpy(&word, data + i * 4, left < 4 ? left : 4);
		put(slot + i, word == OH__WORD_EMPTY ? OH__WORD_NAN : word);
	}
}

/* Takes packs out of a slot and leaves it empty. */
static bool take(const struct oh__kernel_arguments *c, uint32_t from, size_t at,
		 uint32_t *data, size_t packs, uint64_t *since)
{
	uint32_t *late = at >= 2 * (size_t)c->half ? c->watch->late_result
						   : c->watch->late;
	uint32_t *slot = (uint32_t *)c->in[from] + at * PACK_WORDS;

	for (size_t i = 0; i < packs * PACK_WORDS; i++) {
		while ((data[i] = see(slot + i)) == OH__WORD_EMPTY) {
			if (!may_wait_on(c, since)) {
				put(&late[from], 1);
				return false;
			}
			sched_yield();
		}
		put(slot + i, OH__WORD_EMPTY);
	}
	return true;
}

static bool reduce(const struct oh__kernel_arguments *c, enum oh_dtype dtype,
		   size_t at, size_t packs, unsigned char *result,
		   uint64_t *since)
{
	struct oh__cpu_reduce_job job = {
		.srcs = (int)c->ranks,
		.dsts = 1,
		.nt_from = 1,
		.count = packs * OH__PACK_BYTES / oh_dtype_bytes(dtype),
	};
	const struct oh__cpu_reducer *plain = oh__cpu_reducer_named("plain");
	size_t bytes = packs * OH__PACK_BYTES;
	unsigned char *all = malloc(bytes * c->ranks + 1);
	bool came = all != NULL;

	for (uint32_t k = 0; k < c->ranks && came; k++) {
		job.src[k] = all + k * bytes;
		came = take(c, k, at, (uint32_t *)(void *)(all + k * bytes),
			    packs, since);
	}
	job.dst[0] = result;
	if (came)
		plain->reduce[dtype][c->average ? OH_AVG : OH_SUM](&job);
	free(all);
	return came;
}

static void one_shot(const struct oh__kernel_arguments *c, enum oh_dtype dtype,
		     size_t half, uint64_t *since)
{
	unsigned char *result = malloc((size_t)c->packs * OH__PACK_BYTES + 1);

	for (uint32_t k = 0; k < c->ranks; k++)
		push(c, k, half, c->send, c->bytes);
	if (result && reduce(c, dtype, half, c->packs, result, since))
		memcpy(c->recv, result, c->bytes);
	free(result);
}

/* Bytes of a rank's part; *first: where it begins. */
static size_t part_of(const struct oh__kernel_arguments *c, uint32_t rank,
		      size_t *first)
{
	size_t bytes = (size_t)c->part * OH__PACK_BYTES;

	*first = rank * bytes;
	if (*first >= c->bytes)
		return 0;
	return c->bytes - *first < bytes ? c->bytes - *first : bytes;
}

static void two_shot(const struct oh__kernel_arguments *c, enum oh_dtype dtype,
		     size_t half, uint64_t *since)
{
	unsigned char *room = malloc((size_t)c->part * OH__PACK_BYTES + 1);
	size_t results = half + 2 * (size_t)c->half, first, bytes;
	bool came = room != NULL;

	for (uint32_t k = 0; k < c->ranks; k++) {
		bytes = part_of(c, k, &first);
		push(c, k, half, (const unsigned char *)c->send + first, bytes);
	}
	bytes = (part_of(c, c->rank, &first) + OH__PACK_BYTES - 1) /
		OH__PACK_BYTES * OH__PACK_BYTES;
	if (came && bytes)
		came = reduce(c, dtype, half, bytes / OH__PACK_BYTES, room,
			      since);
	for (uint32_t k = 0; k < c->ranks && came; k++)
		push(c, k, results, room, bytes);
	for (uint32_t k = 0; k < c->ranks && came; k++) {
		bytes = part_of(c, k, &first);
		came = take(c, k, results, (uint32_t *)(void *)room,
			    (bytes + OH__PACK_BYTES - 1) / OH__PACK_BYTES,
			    since);
		if (came)
			memcpy((unsigned char *)c->recv + first, room, bytes);
	}
	free(room);
}

/* Words of four: data, flag, data, flag. */
static void push_flagged(const struct oh__kernel_arguments *c, uint32_t to,
			 size_t half, uint32_t flag)
{
	uint32_t *slot = (uint32_t *)c->out[to] + half * PACK_WORDS;

	for (size_t i = 0; i < (size_t)c->packs * PACK_WORDS; i++) {
		size_t left = c->bytes > i * 4 ? c->bytes - i * 4 : 0;
		uint32_t word = 0;

		memcpy(&word, (const unsigned char *)c->send + i * 4,
		       left < 4 ? left : 4);
		put(slot + 2 * i, word);
		/* the flag behind its data */
		__atomic_store_n(slot + 2 * i + 1, flag, __ATOMIC_RELEASE);
	}
}

static bool take_flagged(const struct oh__kernel_arguments *c, uint32_t from,
			 size_t half, uint32_t flag, uint32_t *data,
			 uint64_t *since)
{
	const uint32_t *slot = (uint32_t *)c->in[from] + half * PACK_WORDS;

	for (size_t i = 0; i < (size_t)c->packs * PACK_WORDS; i++) {
		uint32_t seen;

		while ((seen = __atomic_load_n(slot + 2 * i + 1,
					       __ATOMIC_ACQUIRE)) != flag &&
		       seen != OH__FLAG_RELEASED) {
			if (!may_wait_on(c, since)) {
				put(&c->watch->late[from], 1);
				return false;
			}
			sched_yield();
		}
		data[i] = see(slot + 2 * i);
	}
	return true;
}

static void blank_one(const struct oh__kernel_arguments *c, size_t half,
		      uint32_t call)
{
	size_t word = call / 2 % c->half;

	for (uint32_t k = 0; k < c->ranks && word >= 2 * (size_t)c->packs; k++)
		for (size_t i = 0; i < PACK_WORDS && k != c->rank; i++)
			put((uint32_t *)c->out[k] + (half + word) * PACK_WORDS +
				    i,
			    0);
}

static void flagged(const struct oh__kernel_arguments *c, enum oh_dtype dtype,
		    uint32_t call, uint64_t *since)
{
	size_t half = (size_t)(call & 1) * c->half;
	size_t bytes = (size_t)c->packs * OH__PACK_BYTES;
	uint32_t flag = call | OH__FLAG_BIT;
	unsigned char *all = calloc(bytes, c->ranks + 1);
	struct oh__cpu_reduce_job job = {
		.srcs = (int)c->ranks,
		.dsts = 1,
		.nt_from = 1,
		.count = bytes / oh_dtype_bytes(dtype),
		.dst = {all + c->ranks * bytes},
	};
	bool came = all != NULL;

	for (uint32_t k = 0; k < c->ranks; k++)
		if (k != c->rank)
			push_flagged(c, k, half, flag);
	for (uint32_t k = 0; k < c->ranks && came; k++) {
		job.src[k] = all + k * bytes;
		if (k == c->rank)
			memcpy(all + k * bytes, c->send, c->bytes);
		else
			came = take_flagged(
				c, k, half, flag,
				(uint32_t *)(void *)(all + k * bytes), since);
	}
	if (came) {
		oh__cpu_reducer_named("plain")
			->reduce[dtype][c->average ? OH_AVG : OH_SUM](&job);
		memcpy(c->recv, job.dst[0], c->bytes);
	}
	blank_one(c, half, call);
	free(all);
}

/* Chunks of half a block's threads, each followed by its flag. */
static uint32_t *chunk_flag(const struct oh__kernel_arguments *c, void *slot,
			    uint32_t call, size_t index)
{
	return (uint32_t *)slot +
	       (c->flags + (call & 1) * (size_t)c->flags_half + index) *
		       PACK_WORDS +
	       1;
}

static void send_chunks(const struct oh__kernel_arguments *c, uint32_t call,
			size_t chunk)
{
	void *slot = c->out[1 - c->rank];
	size_t half = (size_t)(call & 1) * c->half, index = 0;

	for (size_t at = 0; at < c->packs; at += chunk, index++) {
		size_t first = at * OH__PACK_BYTES;
		size_t bytes = c->bytes - first < chunk * OH__PACK_BYTES
				       ? c->bytes - first
				       : chunk * OH__PACK_BYTES;

		memcpy((char *)slot + half * OH__PACK_BYTES + first,
		       (const char *)c->send + first, bytes);
		__atomic_store_n(chunk_flag(c, slot, call, index),
				 call | OH__FLAG_BIT, __ATOMIC_RELEASE);
	}
	index = call / 2 % c->flags_half;
	if (index * chunk >= c->packs)
		put(chunk_flag(c, slot, call, index), 0);
}

static bool await_chunks(const struct oh__kernel_arguments *c, uint32_t call,
			 size_t chunk, uint64_t *since)
{
	for (size_t i = 0; i * chunk < c->packs; i++) {
		const uint32_t *flag =
			chunk_flag(c, c->in[1 - c->rank], call, i);
		uint32_t seen;

		while ((seen = __atomic_load_n(flag, __ATOMIC_ACQUIRE)) !=
			       (call | OH__FLAG_BIT) &&
		       seen != OH__FLAG_RELEASED) {
			if (!may_wait_on(c, since)) {
				put(&c->watch->late[1 - c->rank], 1);
				return false;
			}
			sched_yield();
		}
	}
	return true;
}

static void staged(const struct oh__kernel_arguments *c, enum oh_dtype dtype,
		   uint32_t call, const struct fakecuda_launch *launch,
		   uint64_t *since)
{
	size_t half = (size_t)(call & 1) * c->half * OH__PACK_BYTES;
	size_t bytes = (size_t)c->packs * OH__PACK_BYTES;
	unsigned char *all = calloc(bytes, 2);
	struct oh__cpu_reduce_job job = {
		.srcs = 2,
		.dsts = 1,
		.nt_from = 1,
		.count = bytes / oh_dtype_bytes(dtype),
		.dst = {all + bytes},
	};

	if (!all)
		return;
	send_chunks(c, call, launch->block[0] / 2);
	memcpy(all, c->send, c->bytes);
	job.src[c->rank] = all;
	job.src[1 - c->rank] = (unsigned char *)c->in[1 - c->rank] + half;
	if (await_chunks(c, call, launch->block[0] / 2, since)) {
		oh__cpu_reducer_named("plain")
			->reduce[dtype][c->average ? OH_AVG : OH_SUM](&job);
		memcpy(c->recv, job.dst[0], c->bytes);
	}
	free(all);
}

static enum oh_dtype dtype_of(const char *kernel)
{
	if (strstr(kernel, "_bf16_"))
		return OH_BF16;
	return strstr(kernel, "_f16_") ? OH_F16 : OH_F32;
}

/* For programs that cannot be told otherwise: FAKEKERNELS_FAULT is "wrong RANK
 * CALL", a wrong result of that call and of all later ones; or "stuck RANK
 * CALL", a kernel that never ends. */
static void spoil(const struct oh__kernel_arguments *c, uint32_t call)
{
	const char *fault = getenv("FAKEKERNELS_FAULT");
	unsigned rank, from;
	char what[8];

	if (!fault || sscanf(fault, "%7s %u %u", what, &rank, &from) != 3 ||
	    rank != c->rank || call < from)
		return;
	if (!strcmp(what, "wrong"))
		*(unsigned char *)c->recv ^= 1;
	while (!strcmp(what, "stuck"))
		sched_yield();
}

static void all_reduce(const struct fakecuda_launch *launch)
{
	struct oh__kernel_arguments c;
	uint64_t since;
	uint32_t call;
	size_t half;

	memcpy(&c, launch->arguments, sizeof(c));
	call = begin(&c, launch, &since);
	half = (size_t)(call & 1) * c.half;
	if (!c.packs)
		return;
	if (strstr(launch->kernel, "flagged"))
		flagged(&c, dtype_of(launch->kernel), call, &since);
	else if (strstr(launch->kernel, "staged"))
		staged(&c, dtype_of(launch->kernel), call, launch, &since);
	else if (strstr(launch->kernel, "one_shot"))
		one_shot(&c, dtype_of(launch->kernel), half, &since);
	else
		two_shot(&c, dtype_of(launch->kernel), half, &since);
	spoil(&c, call);
}

/* The check, and the release. */

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
	for (uint32_t k = 0; k < launch->grid[0]; k++)
		for (uint32_t i = 0; i < OH__CHECK_WORDS; i++) {
			if (c.peer[k] && !is_lost(c.rank, k))
				put(place(c.peer[k], c.rank) + i,
				    pattern(c.nonce, c.rank, k, i));
			if (k == c.rank)
				put(place(c.own, OH__KERNEL_RANKS) + i,
				    pattern(c.nonce, k, k, i));
		}
}

static void check_read(const struct fakecuda_launch *launch)
{
	struct oh__check_arguments c;

	memcpy(&c, launch->arguments, sizeof(c));
	for (uint32_t k = 0; k < launch->grid[0]; k++) {
		uint32_t stored = 0, loaded = 0;

		if (!c.peer[k])
			continue;
		for (uint32_t i = 0; i < OH__CHECK_WORDS; i++) {
			stored += see(place(c.own, k) + i) !=
				  pattern(c.nonce, k, c.rank, i);
			loaded += see(place(c.peer[k], OH__KERNEL_RANKS) + i) !=
				  pattern(c.nonce, k, k, i);
		}
		c.result[k] =
			(struct oh__check_result){stored, loaded, c.nonce};
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
	enum oh__gpu_memory_kind kind;
	const struct oh__cuda *cuda;
	int owner;

	if (!lost_count || oh__cuda_load(&cuda) ||
	    oh__gpu_memory_of(cuda, to, &kind, &owner))
		return false;
	return kind == OH__GPU_MEMORY_DEVICE &&
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
static struct fakecuda_launch following[64];
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
		following[following_count++ % 64] = *launch;
		return;
	}
	rounds = is_store_lost(launch, c.to) ? 0 : c.rounds;
	if (rounds)
		put(c.to, c.seed + rounds - 1);
	for (int i = 0; i < following_count && i < 64; i++) {
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
	all_reduce(launch);
}

void fakekernels_script(char *text, size_t room)
{
	static const char *const algorithms[] = {"one_shot", "two_shot",
						 "flagged", "staged"};
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
	for (int n = 0; n < 4 * 3 * 9; n++)
		used += (size_t)snprintf(
			text + used, room - used, "kernel oh__%s_%s_%s %zu\n",
			algorithms[n % 4], dtypes[n / 4 % 3], kinds[n / 12],
			sizeof(struct oh__kernel_arguments));
}
