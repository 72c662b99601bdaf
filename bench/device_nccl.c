/* SPDX-License-Identifier: MIT */
/*
 * NCCL as a subject: all ranks are threads of this process and share one job
 * (nccl_job.h), which the first to come opens and the last to leave closes.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "bench/device_subject.h"
#include "bench/nccl_job.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct bench_nccl *shared;
static int users;

static enum oh_status take_job(const struct bench_device_seat *seat,
			       enum bench_nccl_kind kind,
			       struct bench_nccl **job)
{
	const struct bench_setup *setup = seat->setup;
	struct bench_nccl_setup wanted = {
		.kind = kind,
		.ranks = setup->ranks,
		.bytes = seat->bytes,
		.timeout_ms = setup->timeout_ms,
	};
	enum oh_status status = OH_OK;

	for (int i = 0; i < setup->ranks; i++)
		wanted.device[i] = setup->gpus > 0 ? i % setup->gpus : 0;
	pthread_mutex_lock(&lock);
	if (!shared)
		status = bench_nccl_open(&wanted, &shared);
	users += !status;
	*job = shared;
	pthread_mutex_unlock(&lock);
	return status;
}

/* What of the environment changes how NCCL calls: nobody reads a figure of
 * NCCL's without asking for it. */
static void tell_version(const struct bench_nccl *job,
			 struct bench_reply *reply)
{
	static const char *const variables[] = {"NCCL_NVLS_ENABLE", "NCCL_ALGO",
						"NCCL_PROTO"};
	size_t used = (size_t)snprintf(reply->about, sizeof(reply->about), "%s",
				       bench_nccl_version(job));

	for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++) {
		const char *value = getenv(variables[i]);

		if (value && used < sizeof(reply->about))
			used += (size_t)snprintf(reply->about + used,
						 sizeof(reply->about) - used,
						 " %s=%s", variables[i], value);
	}
}

static enum oh_status join(struct bench_device_seat *seat,
			   enum bench_nccl_kind kind, struct bench_reply *reply)
{
	struct bench_nccl *job;
	enum oh_status status = take_job(seat, kind, &job);

	if (status)
		return status;
	status = bench_nccl_join(job, seat->setup->rank);
	if (status)
		return status;
	seat->state = job;
	seat->memory = bench_nccl_memory(job, seat->setup->rank);
	tell_version(job, reply);
	return OH_OK;
}

static enum oh_status open_default(struct bench_device_seat *seat,
				   struct bench_reply *reply)
{
	return join(seat, BENCH_NCCL_DEFAULT, reply);
}

static enum oh_status open_symm(struct bench_device_seat *seat,
				struct bench_reply *reply)
{
	return join(seat, BENCH_NCCL_SYMM, reply);
}

static enum oh_status open_shm(struct bench_device_seat *seat,
			       struct bench_reply *reply)
{
	return join(seat, BENCH_NCCL_SHM, reply);
}

static void nccl_close(struct bench_device_seat *seat)
{
	bench_nccl_leave(seat->state, seat->setup->rank);
	pthread_mutex_lock(&lock);
	if (!--users) {
		bench_nccl_close(shared);
		shared = NULL;
	}
	pthread_mutex_unlock(&lock);
}

static enum oh_status nccl_prepare(struct bench_device_seat *seat,
				   const struct bench_command *command,
				   struct bench_reply *reply)
{
	return OH_OK;
}

static enum oh_status nccl_queue(struct bench_device_seat *seat,
				 const struct bench_device_call *call,
				 CUstream stream)
{
	struct bench_nccl_call wanted = {
		.send = (size_t)(call->send - seat->memory),
		.recv = (size_t)(call->recv - seat->memory),
		.count = call->count,
		.dtype = call->dtype,
		.op = call->op,
	};

	return bench_nccl_enqueue(seat->state, seat->setup->rank, &wanted,
				  stream);
}

static enum oh_status nccl_health(struct bench_device_seat *seat)
{
	return bench_nccl_health(seat->state, seat->setup->rank);
}

#define SUBJECT(NAME, OPEN)                                                    \
	{                                                                      \
		.name = NAME, .open = OPEN, .close = nccl_close,               \
		.prepare = nccl_prepare, .queue = nccl_queue,                  \
		.health = nccl_health                                          \
	}

const struct bench_device_subject bench_device_nccl[BENCH_NCCL_KINDS] = {
	[BENCH_NCCL_DEFAULT] = SUBJECT("nccl", open_default),
	[BENCH_NCCL_SYMM] = SUBJECT("nccl-symm", open_symm),
	[BENCH_NCCL_SHM] = SUBJECT("nccl-shm", open_shm),
};
