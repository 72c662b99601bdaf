/* SPDX-License-Identifier: MIT */
/*
 * Ranks on host memory: each call is timed by itself, from a start that the
 * ranks agree on in the arena's barrier.
 */
#include "bench/worker.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "bench/clock.h"
#include "bench/floor.h"
#include "bench/job.h"
#include "bench/serve.h"

struct worker {
	const struct bench_subject *subject;
	void *state;
	struct bench_setup setup;
	struct bench_arena *arena;
	struct bench_waiter waiter;
	struct bench_floor floor;
	struct bench_region send, recv;
};

static bool region_alloc(struct worker *worker, struct bench_region *region,
			 struct bench_reply *reply)
{
	size_t bytes = ((size_t)worker->setup.buffer_bytes +
			2 * BENCH_GUARD_BYTES + 63) &
		       ~(size_t)63;
	const struct bench_subject *subject = worker->subject;

	if (worker->setup.comm_alloc && subject->alloc) {
		region->memory = subject->alloc(worker->state, bytes, reply);
		if (!region->memory)
			return false;
	} else {
		region->memory = aligned_alloc(64, bytes);
		if (!region->memory) {
			bench_reply_fail(reply, "%zu bytes for a buffer: %s",
					 bytes, strerror(errno));
			return false;
		}
	}
	region->data = (char *)region->memory + BENCH_GUARD_BYTES;
	return true;
}

/* The subject's own memory goes with it. */
static void regions_free(struct worker *worker)
{
	if (worker->setup.comm_alloc && worker->subject->alloc)
		return;
	free(worker->send.memory);
	if (worker->recv.memory != worker->send.memory)
		free(worker->recv.memory);
}

static bool set_up(void *context, const struct bench_setup *setup,
		   struct bench_arena *arena, struct bench_reply *reply)
{
	struct worker *worker = context;

	worker->setup = *setup;
	worker->arena = arena;
	if (!worker->subject->open(setup, &worker->state, reply))
		return false;
	if (!region_alloc(worker, &worker->send, reply))
		return false;
	worker->recv = worker->send;
	if (!setup->in_place && !region_alloc(worker, &worker->recv, reply))
		return false;
	worker->waiter = (struct bench_waiter){
		.ranks = setup->ranks,
		.tsc = setup->tsc,
		.crowded = setup->crowded,
		.lead_ticks = setup->lead_ticks,
		.poke = worker->subject->poke,
		.state = worker->state,
	};
	worker->floor = (struct bench_floor){
		.arena = arena,
		.rank = setup->rank,
		.ranks = setup->ranks,
		.crowded = setup->crowded,
	};
	return true;
}

/* Spins to the start, calls, stops the time. */
static int timed_call(const struct worker *worker, const struct bench_job *job,
		      bench_call_fn *function, uint64_t start, uint64_t *ticks)
{
	bool tsc = worker->setup.tsc, crowded = worker->setup.crowded;
	uint64_t end;
	int code;

	while (bench_ticks(tsc) < start) {
		if (crowded)
			sched_yield();
	}
	code = function(&job->call);
	end = bench_ticks_after(tsc);
	*ticks = end - start;
	return code;
}

static bench_call_fn *floor_function(struct worker *worker,
				     struct bench_job *job)
{
	job->call.state = &worker->floor;
	worker->floor.bytes = job->call.count * job->element;
	return job->command->kind == BENCH_FLOOR_FLAG ? bench_floor_flag
						      : bench_floor_copy;
}

static bool writes_input(const struct bench_job *job)
{
	return job->command->kind == BENCH_CALLS ||
	       (job->command->kind == BENCH_FLOOR_COPY && !job->rank);
}

static bool one_call(struct worker *worker, struct bench_job *job,
		     bench_call_fn *function, uint32_t index,
		     struct bench_reply *reply)
{
	const struct bench_command *command = job->command;
	uint32_t calls = command->warmups + command->iterations;
	bool all = index + 1 == calls ||
		   (!index && command->check == BENCH_CHECK_FIRST);
	uint64_t start, ticks;
	int code;

	if (writes_input(job))
		bench_job_write(job, command->first_call + index);
	if (!bench_arena_meet(worker->arena, &worker->waiter, &start)) {
		reply->outcome = BENCH_GAVE_UP;
		return false;
	}
	code = timed_call(worker, job, function, start, &ticks);
	if (code) {
		worker->subject->explain(job->collective, code, reply);
		bench_arena_abort(worker->arena);
		return false;
	}
	if (index >= command->warmups)
		worker->arena->head
			->ticks[job->rank][index - command->warmups] = ticks;
	if (command->check != BENCH_CHECK_OFF)
		bench_job_check(job, all, reply->text, sizeof(reply->text));
	return true;
}

static bool command_is_sound(const struct worker *worker,
			     const struct bench_command *command,
			     struct bench_reply *reply)
{
	uint64_t needs, has = worker->setup.buffer_bytes;

	if (command->iterations > BENCH_ROUND_MAX || !command->count ||
	    command->collective >= OH_COLLECTIVE_COUNT ||
	    command->dtype >= OH_DTYPE_COUNT || command->op >= OH_OP_COUNT) {
		bench_reply_fail(reply, "a command that makes no sense");
		return false;
	}
	/* a count that is larger than the buffer might overflow */
	needs = command->count > has
			? command->count
			: bench_larger_side(
				  (enum oh_collective)command->collective,
				  worker->setup.ranks, (size_t)command->count,
				  oh_dtype_bytes(
					  (enum oh_dtype)command->dtype));
	if (needs <= has)
		return true;
	bench_reply_fail(reply,
			 "the command needs buffers of %" PRIu64
			 " bytes, the setup has %" PRIu64,
			 needs, has);
	return false;
}

static void obey(void *context, const struct bench_command *command,
		 struct bench_reply *reply)
{
	struct worker *worker = context;
	bench_call_fn *function;
	struct bench_job job;
	uint64_t ignored;

	if (!command_is_sound(worker, command, reply))
		return;
	bench_job_open(command, &worker->setup, worker->state, &worker->send,
		       &worker->recv, &job);
	if (command->kind == BENCH_CALLS)
		function = worker->subject->prepare(job.collective, &job.call,
						    reply);
	else
		function = floor_function(worker, &job);
	if (!function)
		return;
	for (uint32_t i = 0; i < command->warmups + command->iterations; i++) {
		if (!one_call(worker, &job, function, i, reply))
			return;
	}
	/* together, as a rank that blocks in a read helps nobody on */
	if (!bench_arena_meet(worker->arena, &worker->waiter, &ignored)) {
		reply->outcome = BENCH_GAVE_UP;
		return;
	}
	if (command->check != BENCH_CHECK_OFF)
		bench_job_check_guards(&job, reply->text, sizeof(reply->text));
	reply->wrong = job.wrong;
}

static void end(void *context)
{
	struct worker *worker = context;

	worker->subject->close(worker->state);
	regions_free(worker);
}

int bench_worker_serve(const struct bench_subject *subject, int socket,
		       int rank)
{
	static const struct bench_service service = {set_up, obey, end};
	struct worker worker = {.subject = subject};

	return bench_serve(&service, &worker, socket, rank);
}
