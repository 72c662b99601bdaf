/* SPDX-License-Identifier: MIT */
/* This library as a subject on GPU memory: through its public header only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "bench/device_subject.h"

/* The ways are those of every call. */
static enum oh_status tell_ways(const struct bench_device_seat *seat)
{
	struct oh_route route = {
		.size = sizeof(route),
		.memory = OH_MEMORY_DEVICE,
	};
	enum oh_status status =
		oh_comm_explain(seat->state, OH_ALL_REDUCE, BENCH_LEAST_BYTES,
				OH_F32, OH_SUM, &route);

	if (!status)
		memcpy(seat->ways, route.peers,
		       route.peer_count * sizeof(*route.peers));
	return status;
}

static enum oh_status onehop_open(struct bench_device_seat *seat,
				  struct bench_reply *reply)
{
	const struct bench_setup *setup = seat->setup;
	struct oh_comm_options options = {.size = sizeof(options)};
	struct oh_comm *comm;
	enum oh_status status;
	uint64_t start;

	options.id = &setup->id;
	options.rank = setup->rank;
	options.ranks = setup->ranks;
	options.rendezvous_timeout_ms = setup->timeout_ms;
	options.device = &seat->ordinal;
	/* before the parent's, even where a rank is missed a quarter later
	 * (onehop.h): only the ranks can say whom they wait for */
	if (!getenv("ONEHOP_CALL_TIMEOUT_MS"))
		options.call_timeout_ms = setup->timeout_ms / 4 * 3;
	start = oh__now_ns();
	status = oh_comm_create(&options, &comm);
	if (status)
		return status;
	*seat->create_ns = oh__now_ns() - start;
	snprintf(reply->about, sizeof(reply->about), "%s", oh_version());
	seat->state = comm;
	return tell_ways(seat);
}

static void onehop_close(struct bench_device_seat *seat)
{
	oh_comm_destroy(seat->state);
}

static enum oh_status onehop_prepare(struct bench_device_seat *seat,
				     const struct bench_command *command,
				     struct bench_reply *reply)
{
	enum oh_collective collective = (enum oh_collective)command->collective;
	enum oh_dtype dtype = (enum oh_dtype)command->dtype;
	struct oh_route route = {
		.size = sizeof(route),
		.memory = OH_MEMORY_DEVICE,
	};
	enum oh_status status = oh_comm_explain(
		seat->state, collective, command->count * oh_dtype_bytes(dtype),
		dtype, (enum oh_op)command->op, &route);

	if (status)
		return status;
	snprintf(reply->path, sizeof(reply->path), "%s/%.31s", route.placement,
		 route.algorithm);
	snprintf(reply->about, sizeof(reply->about), "%s", route.reducer);
	return OH_OK;
}

static enum oh_status onehop_queue(struct bench_device_seat *seat,
				   const struct bench_device_call *call,
				   CUstream stream)
{
	return oh_all_reduce(seat->state, (const void *)call->send,
			     (void *)call->recv, call->count, call->dtype,
			     call->op, stream);
}

/* What kernels ran into shows here, or in the next call. */
static enum oh_status onehop_health(struct bench_device_seat *seat)
{
	struct oh_health health = {.size = sizeof(health)};
	enum oh_status status = oh_comm_health(seat->state, &health);

	if (status || !health.status)
		return status;
	if (health.culprit < 0)
		return OH__FAIL(health.status,
				"a kernel has waited in vain for a rank");
	return OH__FAIL(health.status,
			"calls on the GPU have failed: %s (rank %d)",
			oh_status_text(health.status), health.culprit);
}

const struct bench_device_subject bench_device_onehop = {
	.name = "device",
	.open = onehop_open,
	.close = onehop_close,
	.prepare = onehop_prepare,
	.queue = onehop_queue,
	.health = onehop_health,
};
