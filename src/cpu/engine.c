/* SPDX-License-Identifier: MIT */
/*
 * Memory order: payload is written before the release store that publishes it
 * and read after the acquire load that saw it (wait.h names the pairs).
 * Non-temporal stores are weakly ordered on x86: stage and reduce end in a
 * store fence before anything is published.
 */
#include "cpu/engine.h"

#include <string.h>

#include "base/error.h"
#include "mailbox/heap.h"

/* Half of a 32 KiB first-level cache with three streams in it. */
#define RESULT_BLOCK 4096

/* A part of a message, in bytes. */
struct slice {
	size_t first, bytes;
};

/* Rank's share of a message: whole lines, the last ones shorter or empty. */
static struct slice slice_of(size_t bytes, int ranks, int rank)
{
	size_t share = (bytes + (size_t)ranks - 1) / (size_t)ranks;
	size_t lines = (share + OH__LINE - 1) / OH__LINE * OH__LINE;
	size_t first = lines * (size_t)rank;

	if (first >= bytes)
		return (struct slice){bytes, 0};
	return (struct slice){first,
			      lines < bytes - first ? lines : bytes - first};
}

/* Into a mailbox, by the stores of the plan. */
static void stage(const struct oh__cpu *cpu, const struct oh__cpu_round *round,
		  void *to, const void *from, size_t bytes)
{
	if (oh__fault(OH__FAULT_FLAG_FIRST)) {
		oh__publish_arrival(cpu->mailbox, 0, 0);
		oh__fault_delay();
	}
	oh__stores_copy(cpu->reducer, round->stores, to, from, bytes);
}

static void reduce(const struct oh__cpu *cpu, const struct oh__cpu_round *round,
		   struct oh__cpu_reduce_job *job, size_t bytes)
{
	job->srcs = cpu->mailbox->ranks;
	if (!job->nt_from)
		job->nt_from = job->dsts;
	job->count = bytes / oh_dtype_bytes(round->dtype);
	if (job->count)
		cpu->reducer->reduce[round->dtype][round->op](job);
}

static const struct oh__arrival *arrival_of(const struct oh__mailbox *m,
					    int rank)
{
	return &m->peer[rank]->half[oh__half_now(m)].arrival;
}

/*
 * Where rank's data of this call begins, given that extent bytes of it will be
 * read: in its slot or in its heap.
 */
static enum oh_status source_of(struct oh__mailbox *m, int rank, size_t extent,
				const uint8_t **source)
{
	/* read once: what is checked is what is used */
	uint64_t offset =
		*(const volatile uint64_t *)&arrival_of(m, rank)->source;

	if (!offset) {
		*source = oh__peer_slot(m, rank, oh__half_now(m));
		return OH_OK;
	}
	*source = oh__peer_heap(m, rank, offset, extent);
	if (*source)
		return OH_OK;
	oh__mailbox_fail(m, OH_ERR_PROTOCOL, rank);
	return OH__FAIL(OH_ERR_PROTOCOL,
			"rank %d says its data is at %llu of its heap of %zu "
			"bytes, where %zu bytes do not fit",
			rank, (unsigned long long)(offset - 1), m->heap_bytes,
			extent);
}

/* As source_of for where rank wants its result; NULL if it fetches it. */
static enum oh_status target_of(struct oh__mailbox *m, int rank, size_t extent,
				uint8_t **target)
{
	uint64_t offset =
		*(const volatile uint64_t *)&arrival_of(m, rank)->target;

	*target = offset ? oh__peer_heap(m, rank, offset, extent) : NULL;
	if (*target || !offset)
		return OH_OK;
	oh__mailbox_fail(m, OH_ERR_PROTOCOL, rank);
	return OH__FAIL(OH_ERR_PROTOCOL,
			"rank %d wants its result at %llu of its heap of %zu "
			"bytes, where %zu bytes do not fit",
			rank, (unsigned long long)(offset - 1), m->heap_bytes,
			extent);
}

static enum oh_status wait_for(struct oh__mailbox *m, enum oh__wait_for what)
{
	struct oh__wait wait = {.what = what, .call = m->call};
	enum oh_status status = oh__wait(m, &wait, oh__others(m));

	if (!status && what == OH__ARRIVED)
		oh__all_arrived(m);
	return status;
}

/* 1 + the offset of a buffer that the others are to use where it is; 0 to
 * stage it. */
static uint64_t direct(const struct oh__mailbox *m, const void *buffer,
		       size_t bytes, size_t extent)
{
	return bytes < OH__DIRECT_FIRST ? 0
					: oh__heap_offset(m, buffer, extent);
}

/* Copies all but the own slice, which nobody else reads in two-shot. */
static void stage_slices(const struct oh__cpu *cpu,
			 const struct oh__cpu_round *round, struct slice own)
{
	uint8_t *slot = oh__own_slot(cpu->mailbox, oh__half_now(cpu->mailbox));
	size_t behind = own.first + own.bytes;

	stage(cpu, round, slot, round->send, own.first);
	stage(cpu, round, slot + behind, round->send + behind,
	      round->bytes - behind);
	oh__stores_fence(round->stores);
}

/* The own slice also to the own result, by the stores of the plan. */
static void reduce_to_result(struct oh__cpu *cpu,
			     const struct oh__cpu_round *round,
			     struct oh__cpu_reduce_job *job, size_t bytes)
{
	struct oh__mailbox *m = cpu->mailbox;
	uint8_t *result = oh__own_result(m, oh__half_now(m));

	if (round->stores != OH__STORES_STRING) {
		job->dst[job->dsts++] = result;
		job->nt_from = round->stores == OH__STORES_NON_TEMPORAL
				       ? job->dsts - 1
				       : job->dsts;
		reduce(cpu, round, job, bytes);
		oh__stores_fence(round->stores);
		return;
	}
	/* in blocks that are still in the first cache when they are copied */
	for (size_t at = 0; at < bytes; at += RESULT_BLOCK) {
		size_t part =
			bytes - at < RESULT_BLOCK ? bytes - at : RESULT_BLOCK;
		struct oh__cpu_reduce_job block = *job;

		for (int i = 0; i < m->ranks; i++)
			block.src[i] = (const uint8_t *)job->src[i] + at;
		for (int i = 0; i < job->dsts; i++)
			block.dst[i] = (uint8_t *)job->dst[i] + at;
		reduce(cpu, round, &block, part);
		oh__stores_copy(cpu->reducer, round->stores, result + at,
				block.dst[0], part);
	}
}

/*
 * Sums the own slice and stores it to the own recv, to every heap that is a
 * target, and to the own result if somebody fetches it from there.
 */
static enum oh_status reduce_slice(struct oh__cpu *cpu,
				   const struct oh__cpu_round *round,
				   struct slice own)
{
	struct oh__mailbox *m = cpu->mailbox;
	struct oh__cpu_reduce_job job = {.dst = {round->recv + own.first},
					 .dsts = 1};
	bool fetched = false;

	for (int i = 0; i < m->ranks; i++) {
		const uint8_t *source = round->send;
		enum oh_status status = OH_OK;
		uint8_t *target = NULL;

		if (i != m->rank)
			status = source_of(m, i, round->bytes, &source);
		if (!status && i != m->rank)
			status = target_of(m, i, round->bytes, &target);
		if (status)
			return status;
		job.src[i] = source + own.first;
		if (target)
			job.dst[job.dsts++] = target + own.first;
		else
			fetched |= i != m->rank;
	}
	if (fetched)
		reduce_to_result(cpu, round, &job, own.bytes);
	else
		reduce(cpu, round, &job, own.bytes);
	return OH_OK;
}

/* Waits for the others' slices and fetches them. */
static enum oh_status gather_slices(struct oh__cpu *cpu,
				    const struct oh__cpu_round *round,
				    bool fetch)
{
	struct oh__mailbox *m = cpu->mailbox;
	struct oh__wait wait = {.what = OH__REDUCED};

	/* the next rank first, so that not all read from the same one */
	for (int k = 1; k < m->ranks; k++) {
		int rank = (m->rank + k) % m->ranks;
		struct slice slice = slice_of(round->bytes, m->ranks, rank);
		enum oh_status status = oh__wait(m, &wait, 1u << rank);

		if (status)
			return status;
		oh__fault_delay();
		if (fetch)
			memcpy(round->recv + slice.first,
			       oh__peer_result(m, rank, oh__half_now(m)),
			       slice.bytes);
	}
	return OH_OK;
}

static enum oh_status two_shot(struct oh__cpu *cpu,
			       const struct oh__cpu_round *round,
			       struct slice own, bool fetch)
{
	struct oh__mailbox *m = cpu->mailbox;
	enum oh_status status = reduce_slice(cpu, round, own);

	if (status)
		return status;
	oh__publish_reduced(m);
	status = gather_slices(cpu, round, fetch);
	if (status)
		return status;
	oh__call_end(m, true);
	return OH_OK;
}

static enum oh_status one_shot(struct oh__cpu *cpu,
			       const struct oh__cpu_round *round)
{
	struct oh__mailbox *m = cpu->mailbox;
	struct oh__cpu_reduce_job job = {.dst = {round->recv}, .dsts = 1};

	for (int i = 0; i < m->ranks; i++)
		job.src[i] = i == m->rank
				     ? round->send
				     : oh__peer_slot(m, i, oh__half_now(m));
	reduce(cpu, round, &job, round->bytes);
	oh__call_end(m, false);
	return OH_OK;
}

/* Does any rank's arrival name its heap? */
static bool any_direct(const struct oh__mailbox *m)
{
	uint64_t offsets = 0;

	for (int i = 0; i < m->ranks; i++)
		offsets |= arrival_of(m, i)->source | arrival_of(m, i)->target;
	return offsets;
}

enum oh_status oh__cpu_all_reduce(struct oh__cpu *cpu,
				  const struct oh__cpu_round *round)
{
	struct oh__mailbox *m = cpu->mailbox;
	struct slice own = slice_of(round->bytes, m->ranks, m->rank);
	uint64_t source = direct(m, round->send, round->bytes, round->bytes);
	uint64_t target = direct(m, round->recv, round->bytes, round->bytes);
	enum oh_status status;

	status = oh__call_begin(m, round->signature, round->record);
	if (status)
		return status;
	if (!source)
		stage_slices(cpu, round,
			     round->two_shot ? own : (struct slice){0, 0});
	oh__publish_arrival(m, source, target);
	status = wait_for(m, OH__ARRIVED);
	if (status)
		return status;
	if (round->two_shot || any_direct(m))
		return two_shot(cpu, round, own, !target);
	return one_shot(cpu, round);
}

/* This rank has read all it needs. If the others read its buffer where it is,
 * it waits until they have, too. */
static enum oh_status end_reading(struct oh__mailbox *m, uint64_t source)
{
	enum oh_status status = OH_OK;

	oh__publish_reduced(m);
	if (source)
		status = wait_for(m, OH__REDUCED);
	if (!status)
		oh__call_end(m, true);
	return status;
}

/* The parts of the others, at rank * bytes of the slot. */
static void stage_parts(const struct oh__cpu *cpu,
			const struct oh__cpu_round *round)
{
	struct oh__mailbox *m = cpu->mailbox;
	uint8_t *slot = oh__own_slot(m, oh__half_now(m));

	for (int i = 0; i < m->ranks; i++)
		if (i != m->rank)
			stage(cpu, round, slot + (size_t)i * round->bytes,
			      round->send + (size_t)i * round->stride,
			      round->bytes);
	oh__stores_fence(round->stores);
}

/* This rank's part from everyone. */
static enum oh_status reduce_part(struct oh__cpu *cpu,
				  const struct oh__cpu_round *round)
{
	struct oh__mailbox *m = cpu->mailbox;
	struct oh__cpu_reduce_job job = {.dst = {round->recv}, .dsts = 1};
	size_t extent = (size_t)(m->ranks - 1) * round->stride + round->bytes;

	for (int i = 0; i < m->ranks; i++) {
		const uint8_t *source = round->send;
		size_t stride = round->stride;

		if (i != m->rank) {
			enum oh_status status =
				source_of(m, i, extent, &source);

			if (status)
				return status;
			if (source == oh__peer_slot(m, i, oh__half_now(m)))
				stride = round->bytes;
		}
		job.src[i] = source + (size_t)m->rank * stride;
	}
	reduce(cpu, round, &job, round->bytes);
	return OH_OK;
}

enum oh_status oh__cpu_reduce_scatter(struct oh__cpu *cpu,
				      const struct oh__cpu_round *round)
{
	struct oh__mailbox *m = cpu->mailbox;
	size_t extent = (size_t)(m->ranks - 1) * round->stride + round->bytes;
	uint64_t source = direct(m, round->send, round->bytes, extent);
	enum oh_status status;

	status = oh__call_begin(m, round->signature, round->record);
	if (status)
		return status;
	if (!source)
		stage_parts(cpu, round);
	oh__publish_arrival(m, source, 0);
	status = wait_for(m, OH__ARRIVED);
	if (!status)
		status = reduce_part(cpu, round);
	if (status)
		return status;
	return end_reading(m, source);
}

enum oh_status oh__cpu_all_gather(struct oh__cpu *cpu,
				  const struct oh__cpu_round *round)
{
	struct oh__mailbox *m = cpu->mailbox;
	uint64_t source = direct(m, round->send, round->bytes, round->bytes);
	uint8_t *own = round->recv + (size_t)m->rank * round->stride;
	enum oh_status status;

	status = oh__call_begin(m, round->signature, round->record);
	if (status)
		return status;
	if (!source) {
		stage(cpu, round, oh__own_slot(m, oh__half_now(m)), round->send,
		      round->bytes);
		oh__stores_fence(round->stores);
	}
	oh__publish_arrival(m, source, 0);
	if (own != round->send)
		memcpy(own, round->send, round->bytes);
	status = wait_for(m, OH__ARRIVED);
	for (int k = 1; k < m->ranks && !status; k++) {
		int rank = (m->rank + k) % m->ranks;
		const uint8_t *from;

		status = source_of(m, rank, round->bytes, &from);
		if (!status)
			memcpy(round->recv + (size_t)rank * round->stride, from,
			       round->bytes);
	}
	if (status)
		return status;
	return end_reading(m, source);
}

static enum oh_status broadcast_root(struct oh__cpu *cpu,
				     const struct oh__cpu_round *round)
{
	struct oh__mailbox *m = cpu->mailbox;
	uint64_t source = direct(m, round->send, round->bytes, round->bytes);
	enum oh_status status = OH_OK;

	if (!source) {
		stage(cpu, round, oh__own_slot(m, oh__half_now(m)), round->send,
		      round->bytes);
		oh__stores_fence(round->stores);
	}
	oh__publish_arrival(m, source, 0);
	if (round->recv != round->send)
		memcpy(round->recv, round->send, round->bytes);
	if (source)
		status = wait_for(m, OH__FINISHED);
	return status;
}

static enum oh_status broadcast_leaf(struct oh__cpu *cpu,
				     const struct oh__cpu_round *round)
{
	struct oh__mailbox *m = cpu->mailbox;
	struct oh__wait wait = {.what = OH__ARRIVED};
	const uint8_t *from;
	enum oh_status status;

	oh__publish_arrival(m, 0, 0);
	status = oh__wait(m, &wait, 1u << round->root);
	if (status)
		return status;
	m->known[round->root] = m->call - 1;
	status = source_of(m, round->root, round->bytes, &from);
	if (!status)
		memcpy(round->recv, from, round->bytes);
	return status;
}

enum oh_status oh__cpu_broadcast(struct oh__cpu *cpu,
				 const struct oh__cpu_round *round)
{
	struct oh__mailbox *m = cpu->mailbox;
	enum oh_status status;

	status = oh__call_begin(m, round->signature, round->record);
	if (!status)
		status = m->rank == round->root ? broadcast_root(cpu, round)
						: broadcast_leaf(cpu, round);
	if (status)
		return status;
	oh__call_end(m, false);
	return OH_OK;
}
