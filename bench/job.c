/* SPDX-License-Identifier: MIT */
/*
 * A result consists of parts, each of count elements from one source: one
 * part, or for all-gather one of each rank.
 */
#include "bench/job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define GUARD_BYTE 0xa5

size_t bench_larger_side(enum oh_collective collective, int ranks, size_t count,
			 size_t element)
{
	bool spread =
		collective == OH_REDUCE_SCATTER || collective == OH_ALL_GATHER;

	return count * element * (size_t)(spread ? ranks : 1);
}

/* Which buffers the call gets; in place as onehop.h defines it. */
static void place(const struct bench_region *send,
		  const struct bench_region *recv, struct bench_job *job)
{
	size_t offset = (size_t)job->rank * job->call.count * job->element;
	bool in_place = job->call.in_place;

	job->input = send->data;
	job->input_count = job->call.count;
	job->call.recv = recv->data;
	if (job->collective == OH_REDUCE_SCATTER) {
		job->input_count *= (size_t)job->pattern.ranks;
		if (in_place)
			job->call.recv = recv->data + offset;
	} else if (job->collective == OH_ALL_GATHER && in_place) {
		job->input = send->data + offset;
	}
	job->call.send = job->input;
}

static void write_guards(const struct bench_job *job)
{
	memset(job->region - BENCH_GUARD_BYTES, GUARD_BYTE, BENCH_GUARD_BYTES);
	memset(job->region + job->region_bytes, GUARD_BYTE, BENCH_GUARD_BYTES);
}

void bench_job_open(const struct bench_command *command,
		    const struct bench_setup *setup, void *state,
		    const struct bench_region *send,
		    const struct bench_region *recv, struct bench_job *job)
{
	bool reduces;

	memset(job, 0, sizeof(*job));
	job->command = command;
	job->collective = (enum oh_collective)command->collective;
	job->rank = setup->rank;
	job->call.state = state;
	job->call.count = (size_t)command->count;
	job->call.dtype = (enum oh_dtype)command->dtype;
	job->call.op = (enum oh_op)command->op;
	job->call.root = (int)command->root;
	job->call.in_place = setup->in_place;
	job->call.own_memory = setup->comm_alloc;
	job->element = oh_dtype_bytes(job->call.dtype);
	reduces = job->collective == OH_ALL_REDUCE ||
		  job->collective == OH_REDUCE_SCATTER;
	job->pattern.dtype = job->call.dtype;
	job->pattern.op = reduces ? job->call.op : OH_SUM;
	job->pattern.ranks = setup->ranks;
	job->pattern.fits = setup->fits;
	place(send, recv, job);
	job->region = recv->data;
	job->region_bytes =
		job->collective == OH_REDUCE_SCATTER && !setup->in_place
			? job->call.count * job->element
			: bench_larger_side(job->collective, setup->ranks,
					    job->call.count, job->element);
	write_guards(job);
}

void bench_job_write(struct bench_job *job, uint64_t call)
{
	job->pattern.call = call;
	bench_pattern_fill(&job->pattern, job->rank, job->input_count,
			   job->input);
}

struct part {
	int source;
	size_t first; /* the pattern's index of the part's first element */
	const char *got;
};

static struct part part_of(const struct bench_job *job, size_t index)
{
	struct part part = {.source = BENCH_ALL_RANKS, .got = job->call.recv};

	switch (job->collective) {
	case OH_ALL_REDUCE:
		break;
	case OH_REDUCE_SCATTER:
		part.first = (size_t)job->rank * job->call.count;
		break;
	case OH_ALL_GATHER:
		part.source = (int)index;
		part.got += index * job->call.count * job->element;
		break;
	case OH_BROADCAST:
		part.source = job->call.root;
		break;
	}
	return part;
}

/* Compares part's elements from at on. */
static void check(struct bench_job *job, const struct part *part, size_t at,
		  size_t count, char *text, size_t room)
{
	const char *got = part->got + at * job->element;
	char want[8], have_text[40], want_text[40];
	size_t wrong, bad = 0;

	wrong = bench_pattern_check(&job->pattern, part->source,
				    part->first + at, got, count, &bad);
	if (!wrong)
		return;
	job->wrong += wrong;
	if (*text)
		return;
	bench_pattern_expect(&job->pattern, part->source,
			     part->first + at + bad, want);
	bench_pattern_text(job->pattern.dtype, want, want_text,
			   sizeof(want_text));
	bench_pattern_text(job->pattern.dtype, got + bad * job->element,
			   have_text, sizeof(have_text));
	snprintf(text, room,
		 "call %" PRIu64 ": element %zu of recv is %s instead of %s",
		 job->pattern.call,
		 (size_t)(got + bad * job->element -
			  (const char *)job->call.recv) /
			 job->element,
		 have_text, want_text);
}

/* A call must leave a send buffer of its own as it was. */
static void check_send(struct bench_job *job, char *text, size_t room)
{
	size_t wrong, bad = 0;

	wrong = bench_pattern_check(&job->pattern, job->rank, 0, job->input,
				    job->input_count, &bad);
	if (wrong && !*text)
		snprintf(text, room,
			 "call %" PRIu64 ": element %zu of send was changed",
			 job->pattern.call, bad);
	job->wrong += wrong;
}

void bench_job_check(struct bench_job *job, bool all, char *text, size_t room)
{
	size_t parts = job->collective == OH_ALL_GATHER
			       ? (size_t)job->pattern.ranks
			       : 1;
	size_t count = job->call.count;
	/* the one that changes: a multiplicative hash of the call */
	size_t other =
		(size_t)(job->pattern.call * 0x9e3779b97f4a7c15ull >> 32) %
		count;
	size_t some[] = {0, count / 2, other, count - 1};

	for (size_t i = 0; i < parts; i++) {
		struct part part = part_of(job, i);

		if (all) {
			check(job, &part, 0, count, text, room);
			continue;
		}
		for (size_t j = 0; j < sizeof(some) / sizeof(some[0]); j++)
			check(job, &part, some[j], 1, text, room);
	}
	if (all && !job->call.in_place)
		check_send(job, text, room);
}

void bench_job_check_guards(struct bench_job *job, char *text, size_t room)
{
	const unsigned char *before =
		(const unsigned char *)job->region - BENCH_GUARD_BYTES;
	const unsigned char *after =
		(const unsigned char *)job->region + job->region_bytes;
	uint64_t wrong = 0;

	for (int i = 0; i < BENCH_GUARD_BYTES; i++)
		wrong += (uint64_t)((before[i] != GUARD_BYTE) +
				    (after[i] != GUARD_BYTE));
	if (wrong && !*text)
		snprintf(text, room,
			 "%" PRIu64 " bytes beside recv were changed", wrong);
	job->wrong += wrong;
}
