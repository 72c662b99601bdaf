/* SPDX-License-Identifier: MIT */
/* The all-reduces of fakekernels.h. */
#include "fakekernels_private.h"

#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cpu/reduce.h"

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

/* A rank has been waited for in vain; by FAKEKERNELS_FAULT "blame RANK OTHER"
 * RANK's kernels find that OTHER is late as well. */
static void note_late(const struct oh__kernel_arguments *c, uint32_t *late,
		      uint32_t from)
{
	const char *fault = getenv("FAKEKERNELS_FAULT");
	unsigned rank, other;

	put(&late[from], 1);
	if (fault && sscanf(fault, "blame %u %u", &rank, &other) == 2 &&
	    rank == c->rank)
		put(&late[other], 1);
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
				note_late(c, late, from);
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
				note_late(c, c->watch->late, from);
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
	size_t word = call / 2, range = 1;

	while (range < c->half)
		range *= 2;
	word %= range;
	if (word < 2 * (size_t)c->packs || word >= c->half)
		return;
	for (uint32_t k = 0; k < c->ranks; k++)
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

/* Chunks of half a block's threads, each followed by its flag; of a two-shot
 * the sums lie two halves behind. */
struct chunks {
	const struct oh__kernel_arguments *c;
	size_t packs; /* of one */
	uint32_t call;
};

static uint32_t *chunk_flag(const struct chunks *s, void *slot, bool sums,
			    size_t index)
{
	size_t half = (s->call & 1) + (sums ? 2 : 0);

	return (uint32_t *)slot +
	       (s->c->flags + half * s->c->flags_half + index) * PACK_WORDS + 1;
}

static char *chunk_data(const struct chunks *s, void *slot, bool sums)
{
	size_t half = (s->call & 1) + (sums ? 2 : 0);

	return (char *)slot + half * s->c->half * OH__PACK_BYTES;
}

static void send_chunks(const struct chunks *s, uint32_t to, bool sums,
			const void *data, size_t bytes)
{
	size_t chunk = s->packs * OH__PACK_BYTES, blank;
	void *slot = s->c->out[to];

	for (size_t at = 0; at < bytes; at += chunk) {
		size_t left = bytes - at < chunk ? bytes - at : chunk;

		memcpy(chunk_data(s, slot, sums) + at, (const char *)data + at,
		       left);
		__atomic_store_n(chunk_flag(s, slot, sums, at / chunk),
				 s->call | OH__FLAG_BIT, __ATOMIC_RELEASE);
	}
	blank = s->call / 2 % s->c->flags_half;
	if (blank * chunk >= bytes)
		put(chunk_flag(s, slot, sums, blank), 0);
}

static bool await_chunks(const struct chunks *s, uint32_t from, bool sums,
			 size_t bytes, uint64_t *since)
{
	for (size_t i = 0; i * s->packs * OH__PACK_BYTES < bytes; i++) {
		const uint32_t *flag = chunk_flag(s, s->c->in[from], sums, i);
		uint32_t seen;

		while ((seen = __atomic_load_n(flag, __ATOMIC_ACQUIRE)) !=
			       (s->call | OH__FLAG_BIT) &&
		       seen != OH__FLAG_RELEASED) {
			if (!may_wait_on(s->c, since)) {
				note_late(s->c,
					  sums ? s->c->watch->late_result
					       : s->c->watch->late,
					  from);
				return false;
			}
			sched_yield();
		}
	}
	return true;
}

/* The own bytes from first on and what the others have sent for them. */
static bool reduce_chunks(const struct chunks *s, enum oh_dtype dtype,
			  size_t first, size_t bytes, void *result,
			  uint64_t *since)
{
	const struct oh__kernel_arguments *c = s->c;
	struct oh__cpu_reduce_job job = {
		.srcs = (int)c->ranks,
		.dsts = 1,
		.nt_from = 1,
		.count = bytes / oh_dtype_bytes(dtype),
		.dst = {result},
	};

	for (uint32_t k = 0; k < c->ranks; k++) {
		job.src[k] = (const unsigned char *)c->send + first;
		if (k == c->rank)
			continue;
		if (!await_chunks(s, k, false, bytes, since))
			return false;
		job.src[k] = (unsigned char *)chunk_data(s, c->in[k], false);
	}
	oh__cpu_reducer_named("plain")
		->reduce[dtype][c->average ? OH_AVG : OH_SUM](&job);
	return true;
}

static void staged(const struct chunks *s, enum oh_dtype dtype, uint64_t *since)
{
	unsigned char *sum = malloc(s->c->bytes);

	send_chunks(s, 1 - s->c->rank, false, s->c->send, s->c->bytes);
	if (sum && reduce_chunks(s, dtype, 0, s->c->bytes, sum, since))
		memcpy(s->c->recv, sum, s->c->bytes);
	free(sum);
}

static void two_staged(const struct chunks *s, enum oh_dtype dtype,
		       uint64_t *since)
{
	const struct oh__kernel_arguments *c = s->c;
	size_t first, bytes, own_first, own = part_of(c, c->rank, &own_first);
	unsigned char *sum = malloc(own + 1);
	bool came = sum != NULL;

	for (uint32_t k = 0; k < c->ranks; k++) {
		bytes = part_of(c, k, &first);
		if (k != c->rank)
			send_chunks(s, k, false, (const char *)c->send + first,
				    bytes);
	}
	came = came && reduce_chunks(s, dtype, own_first, own, sum, since);
	for (uint32_t k = 0; k < c->ranks && came; k++)
		if (k != c->rank)
			send_chunks(s, k, true, sum, own);
	if (came)
		memcpy((char *)c->recv + own_first, sum, own);
	for (uint32_t k = 0; k < c->ranks && came; k++) {
		bytes = part_of(c, k, &first);
		if (k == c->rank)
			continue;
		came = await_chunks(s, k, true, bytes, since);
		if (came)
			memcpy((char *)c->recv + first,
			       chunk_data(s, c->in[k], true), bytes);
	}
	free(sum);
}

static enum oh_dtype dtype_of(const char *kernel)
{
	if (strstr(kernel, "_bf16_"))
		return OH_BF16;
	return strstr(kernel, "_f16_") ? OH_F16 : OH_F32;
}

/* For programs that cannot be told otherwise: FAKEKERNELS_FAULT is "wrong RANK
 * CALL", a wrong result of that call and of all later ones; or "stuck RANK
 * CALL", a kernel that never ends; see note_late for another. */
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

void fakekernels_all_reduce(const struct fakecuda_launch *launch)
{
	enum oh_dtype dtype = dtype_of(launch->kernel);
	struct oh__kernel_arguments c;
	struct chunks s = {&c, launch->block[0] / 2, 0};
	uint64_t since;
	size_t half;

	memcpy(&c, launch->arguments, sizeof(c));
	s.call = begin(&c, launch, &since);
	half = (size_t)(s.call & 1) * c.half;
	if (!c.packs)
		return;
	if (strstr(launch->kernel, "flagged"))
		flagged(&c, dtype, s.call, &since);
	else if (strstr(launch->kernel, "two_staged"))
		two_staged(&s, dtype, &since);
	else if (strstr(launch->kernel, "staged"))
		staged(&s, dtype, &since);
	else if (strstr(launch->kernel, "one_shot"))
		one_shot(&c, dtype, half, &since);
	else
		two_shot(&c, dtype, half, &since);
	spoil(&c, s.call);
}
