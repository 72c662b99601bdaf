/* SPDX-License-Identifier: MIT */
/*
 * The ranks meet before each replay. Whatever may wait in the driver for
 * something of another rank (allocations, copies, a capture) is done between
 * two meetings, when no rank's kernel waits for another's. A rank that waits
 * long for the others looks whether its own calls have failed: then it is the
 * one that can say why they do not come.
 *
 * A command is a call by itself, a capture, and passes: the first replay, then
 * the timed ones in two halves, each behind some that warm the GPU up. A pass
 * begins with new inputs and a poisoned result, and ends with a look at every
 * element.
 */
#include "bench/device_worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "bench/device_data.h"
#include "bench/device_memory.h"
#include "bench/serve.h"

struct worker {
	const struct bench_device_subject *subject;
	struct bench_device_seat seat;
	struct bench_setup setup;
	struct bench_arena *arena;
	struct bench_waiter waiter;
	CUdevice device;
	CUcontext context;
	bool own_memory; /* seat.memory is this worker's */
	bool failed; /* while it waited for the others; oh_last_error has it */
	CUstream stream;
	CUevent begin, end;
	char *sent, *got; /* one side each, on the host */
};

struct job {
	const struct bench_command *command;
	struct bench_device_data data;
	bool checks;
	CUgraph graph;
	CUgraphExec executable; /* NULL: calls are queued */
	uint64_t next_call;
	uint32_t timed; /* replays so far */
};

struct pass {
	uint32_t untimed;
	uint64_t ticks; /* more untimed replays until so many have passed */
	uint32_t timed;
};

/* false: it failed, as the reply says. */
static bool fine(enum oh_status status, struct bench_reply *reply)
{
	if (!status)
		return true;
	bench_reply_fail(reply, "%s: %.500s", oh_status_name(status),
			 oh_last_error()->message);
	if (status == OH_ERR_TIMEOUT)
		reply->outcome = BENCH_LATE;
	return false;
}

/* The same of a step that a subject may refuse. */
static bool is_willing(enum oh_status status, struct bench_reply *reply)
{
	if (fine(status, reply))
		return true;
	if (status == OH_ERR_UNSUPPORTED) {
		reply->outcome = BENCH_REFUSED;
		snprintf(reply->text, sizeof(reply->text), "%s",
			 oh_last_error()->message);
	}
	return false;
}

static bool meet(struct worker *w, uint64_t *start, struct bench_reply *reply)
{
	if (bench_arena_meet(w->arena, &w->waiter, start))
		return true;
	if (w->failed)
		return fine(oh_last_error()->status, reply);
	reply->outcome = BENCH_GAVE_UP;
	return false;
}

/* See struct bench_waiter. */
static void look_at_health(void *state)
{
	struct worker *w = state;

	if (w->failed || !w->subject->health(&w->seat))
		return;
	w->failed = true;
	bench_arena_abort(w->arena);
}

/* Opening and closing. */

static enum oh_status open_device(struct worker *w)
{
	struct bench_device_seat *seat = &w->seat;
	enum oh_status status = oh__cuda_load(&seat->cuda);
	CUcontext context;

	if (!status)
		status = OH__CUDA(
			seat->cuda->cuDeviceGet(&w->device, seat->ordinal));
	if (!status)
		status = OH__CUDA(seat->cuda->cuDevicePrimaryCtxRetain(
			&context, w->device));
	if (status)
		return status;
	w->context = context;
	return OH__CUDA(seat->cuda->cuCtxSetCurrent(context));
}

static enum oh_status take_memory(struct worker *w)
{
	struct bench_device_seat *seat = &w->seat;
	size_t side = seat->bytes / 2;
	enum oh_status status = OH_OK;

	if (!seat->memory) {
		status = bench_device_alloc(seat->cuda, seat->bytes,
					    &seat->memory);
		w->own_memory = !status;
	}
	w->sent = aligned_alloc(64, side);
	w->got = aligned_alloc(64, side);
	if (!status && (!w->sent || !w->got))
		status = OH__FAIL(OH_ERR_NO_MEMORY, "no memory for %zu bytes",
				  2 * side);
	return status;
}

static enum oh_status make_stream(struct worker *w)
{
	const struct oh__cuda *cuda = w->seat.cuda;
	enum oh_status status = OH__CUDA(cuda->cuStreamCreateWithPriority(
		&w->stream, CU_STREAM_NON_BLOCKING, 0));

	if (!status)
		status = OH__CUDA(
			cuda->cuEventCreate(&w->begin, CU_EVENT_DEFAULT));
	if (!status)
		status = OH__CUDA(
			cuda->cuEventCreate(&w->end, CU_EVENT_DEFAULT));
	return status;
}

static bool device_open(void *context, const struct bench_setup *setup,
			struct bench_arena *arena, struct bench_reply *reply)
{
	struct worker *w = context;
	struct bench_device_seat *seat = &w->seat;

	w->setup = *setup;
	w->arena = arena;
	w->waiter = (struct bench_waiter){
		.ranks = setup->ranks,
		.tsc = setup->tsc,
		.crowded = setup->crowded,
		.lead_ticks = setup->lead_ticks,
		.poke = look_at_health,
		.state = w,
	};
	seat->setup = &w->setup;
	seat->ordinal = setup->gpus > 0 ? setup->rank % setup->gpus : 0;
	seat->bytes = 2 * (size_t)setup->buffer_bytes;
	seat->ways = arena->head->ways[setup->rank];
	seat->create_ns = &arena->head->create_ns[setup->rank];
	return fine(open_device(w), reply) &&
	       fine(w->subject->open(seat, reply), reply) &&
	       fine(take_memory(w), reply) && fine(make_stream(w), reply);
}

static void device_close(void *context)
{
	struct worker *w = context;
	const struct oh__cuda *cuda = w->seat.cuda;

	cuda->cuEventDestroy_v2(w->begin);
	cuda->cuEventDestroy_v2(w->end);
	cuda->cuStreamDestroy_v2(w->stream);
	if (w->own_memory)
		cuda->cuMemFree_v2(w->seat.memory);
	w->subject->close(&w->seat);
	cuda->cuCtxSetCurrent(NULL);
	cuda->cuDevicePrimaryCtxRelease_v2(w->device);
	free(w->sent);
	free(w->got);
}

/* Calls. */

static enum oh_status queue(struct worker *w, const struct job *job,
			    uint32_t index)
{
	const struct bench_device_data *data = &job->data;
	size_t at = index % data->buffers * data->stride;
	struct bench_device_call call = {
		.send = w->seat.memory + at,
		.recv = w->seat.memory + w->seat.bytes / 2 + at,
		.count = data->count,
		.dtype = data->pattern.dtype,
		.op = data->pattern.op,
	};

	return w->subject->queue(&w->seat, &call, w->stream);
}

static enum oh_status queue_all(struct worker *w, const struct job *job)
{
	enum oh_status status = OH_OK;

	for (uint32_t i = 0; i < job->command->calls && !status; i++)
		status = queue(w, job, i);
	return status;
}

/* A call by itself: some libraries connect the ranks in the first one, which
 * they cannot do in a capture. */
static bool try_call(struct worker *w, const struct job *job,
		     struct bench_reply *reply)
{
	uint64_t ignored;

	return meet(w, &ignored, reply) &&
	       is_willing(queue(w, job, 0), reply) &&
	       fine(OH__CUDA(w->seat.cuda->cuStreamSynchronize(w->stream)),
		    reply) &&
	       fine(w->subject->health(&w->seat), reply) &&
	       meet(w, &ignored, reply);
}

/* Where ranks share a context the first launch of a graph may wait for a kernel
 * that waits for it: what a driver leaves for it is done here. */
static enum oh_status upload(struct worker *w, struct job *job)
{
	const struct oh__cuda *cuda = w->seat.cuda;
	enum oh_status status =
		OH__CUDA(cuda->cuGraphUpload(job->executable, w->stream));

	return status ? status : OH__CUDA(cuda->cuStreamSynchronize(w->stream));
}

static enum oh_status capture(struct worker *w, struct job *job)
{
	const struct oh__cuda *cuda = w->seat.cuda;
	enum oh_status status, ended;

	/* another rank of the process may be at something that a capture
	 * forbids */
	status = OH__CUDA(cuda->cuStreamBeginCapture_v2(
		w->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	if (status)
		return status;
	status = queue_all(w, job);
	ended = OH__CUDA(cuda->cuStreamEndCapture(w->stream, &job->graph));
	if (!status)
		status = ended;
	if (!status)
		status = OH__CUDA(cuda->cuGraphInstantiateWithFlags(
			&job->executable, job->graph, 0));
	if (!status)
		status = upload(w, job);
	return status;
}

static void job_close(struct worker *w, struct job *job)
{
	if (job->executable)
		w->seat.cuda->cuGraphExecDestroy(job->executable);
	if (job->graph)
		w->seat.cuda->cuGraphDestroy(job->graph);
}

/* Passes. */

static enum oh_status write_inputs(struct worker *w, struct job *job)
{
	const struct oh__cuda *cuda = w->seat.cuda;
	struct bench_device_data *data = &job->data;
	size_t bytes = data->stride * data->buffers;
	enum oh_status status;

	bench_device_data_write(data, job->next_call, w->sent);
	job->next_call += data->buffers;
	status = OH__CUDA(cuda->cuMemcpyHtoDAsync_v2(w->seat.memory, w->sent,
						     bytes, w->stream));
	if (!status)
		status = OH__CUDA(cuda->cuMemsetD8Async(
			w->seat.memory + w->seat.bytes / 2, BENCH_POISON, bytes,
			w->stream));
	if (!status)
		status = OH__CUDA(cuda->cuStreamSynchronize(w->stream));
	return status;
}

static enum oh_status fetch(struct worker *w, const struct job *job,
			    CUdeviceptr from)
{
	const struct oh__cuda *cuda = w->seat.cuda;
	enum oh_status status = OH__CUDA(cuda->cuMemcpyDtoHAsync_v2(
		w->got, from, job->data.stride * job->data.buffers, w->stream));

	if (!status)
		status = OH__CUDA(cuda->cuStreamSynchronize(w->stream));
	return status;
}

static bool check_results(struct worker *w, struct job *job,
			  struct bench_reply *reply)
{
	char *text = reply->text;

	if (!fine(fetch(w, job, w->seat.memory + w->seat.bytes / 2), reply))
		return false;
	bench_device_data_check(&job->data, w->got, text, sizeof(reply->text));
	if (!fine(fetch(w, job, w->seat.memory), reply))
		return false;
	bench_device_data_check_sent(&job->data, w->got, w->sent, text,
				     sizeof(reply->text));
	return true;
}

static enum oh_status replay(struct worker *w, struct job *job, float *ms)
{
	const struct oh__cuda *cuda = w->seat.cuda;
	enum oh_status status =
		OH__CUDA(cuda->cuEventRecord(w->begin, w->stream));

	if (!status)
		status = job->executable ? OH__CUDA(cuda->cuGraphLaunch(
						   job->executable, w->stream))
					 : queue_all(w, job);
	if (!status)
		status = OH__CUDA(cuda->cuEventRecord(w->end, w->stream));
	if (!status)
		status = OH__CUDA(cuda->cuStreamSynchronize(w->stream));
	if (!status)
		status = OH__CUDA(
			cuda->cuEventElapsedTime(ms, w->begin, w->end));
	return status;
}

/* All ranks see the same starts, so all stop alike. */
static bool replay_all(struct worker *w, struct job *job,
		       const struct pass *pass, struct bench_reply *reply)
{
	uint64_t *ns = w->arena->head->ticks[w->setup.rank];
	uint64_t start, end = 0;
	uint32_t untimed = 0, timed = 0;
	bool warm = false;
	float ms;

	for (;;) {
		if (!meet(w, &start, reply))
			return false;
		if (!untimed && !warm)
			end = start + pass->ticks;
		warm = warm || (untimed >= pass->untimed && start >= end);
		if (warm && timed == pass->timed)
			return true;
		if (!fine(replay(w, job, &ms), reply))
			return false;
		if (!warm) {
			untimed++;
			continue;
		}
		timed++;
		ns[job->timed++] = (uint64_t)((double)ms * 1e6);
	}
}

static bool run_pass(struct worker *w, struct job *job, const struct pass *pass,
		     struct bench_reply *reply)
{
	bool data = job->command->kind == BENCH_CALLS;

	/* nothing would have replaced the poison */
	if (!pass->untimed && !pass->ticks && !pass->timed)
		return true;
	return (!data || fine(write_inputs(w, job), reply)) &&
	       replay_all(w, job, pass, reply) &&
	       fine(w->subject->health(&w->seat), reply) &&
	       (!job->checks || check_results(w, job, reply));
}

static bool run_job(struct worker *w, struct job *job,
		    struct bench_reply *reply)
{
	const struct bench_command *command = job->command;
	const uint32_t half = command->iterations / 2;
	/* the second half finds the GPU as warm as a check leaves it */
	const struct pass passes[] = {
		{.untimed = 1},
		{command->warmups, command->warm_ticks, half},
		{command->warmups, command->warm_ticks / 4,
		 command->iterations - half},
	};

	if (!is_willing(w->subject->prepare(&w->seat, command, reply), reply) ||
	    !try_call(w, job, reply) ||
	    (w->setup.graph && !fine(capture(w, job), reply)))
		return false;
	for (size_t i = 0; i < sizeof(passes) / sizeof(*passes); i++)
		if (!run_pass(w, job, &passes[i], reply))
			return false;
	reply->wrong = job->data.wrong;
	return true;
}

static bool is_sound(const struct worker *w,
		     const struct bench_command *command,
		     struct bench_reply *reply)
{
	uint64_t has = w->setup.buffer_bytes;

	if (command->iterations > BENCH_ROUND_MAX || !command->count ||
	    command->collective != OH_ALL_REDUCE ||
	    command->dtype >= OH_DTYPE_COUNT || command->op >= OH_OP_COUNT ||
	    !command->calls || !command->buffers ||
	    command->buffers > BENCH_BUFFERS_MAX ||
	    command->buffers > command->calls) {
		bench_reply_fail(reply, "a command that makes no sense");
		return false;
	}
	/* a count that is larger than the buffer might overflow */
	if (command->count <= has &&
	    bench_device_side(
		    command->count *
			    oh_dtype_bytes((enum oh_dtype)command->dtype),
		    command->buffers) <= has)
		return true;
	bench_reply_fail(reply,
			 "%" PRIu32 " buffers of %" PRIu64
			 " elements do not fit the setup's %" PRIu64 " bytes",
			 command->buffers, command->count, has);
	return false;
}

static void device_obey(void *context, const struct bench_command *command,
			struct bench_reply *reply)
{
	struct worker *w = context;
	struct job job = {
		.command = command,
		.checks = command->kind == BENCH_CALLS &&
			  command->check != BENCH_CHECK_OFF,
		.next_call = command->first_call,
	};

	if (!is_sound(w, command, reply))
		return;
	bench_device_data_open(command, &w->setup, &job.data);
	if (!run_job(w, &job, reply) && reply->outcome != BENCH_REFUSED)
		bench_arena_abort(w->arena);
	job_close(w, &job);
}

int bench_device_serve(const struct bench_device_subject *subject, int socket)
{
	static const struct bench_service service = {device_open, device_obey,
						     device_close};
	struct worker worker = {.subject = subject};

	return bench_serve(&service, &worker, socket, -1);
}
