/* SPDX-License-Identifier: MIT */
/* This library as a subject: through its public header only. */
#include "bench/subject_onehop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* status, name of the call, and what oh_last_error says */
static void explain_as(const char *call, enum oh_status status,
		       struct bench_reply *reply)
{
	const struct oh_error *error = oh_last_error();
	const char *text = error->status == status ? error->message
						   : oh_status_text(status);

	reply->outcome = status == OH_ERR_TIMEOUT ? BENCH_LATE : BENCH_FAILED;
	snprintf(reply->text, sizeof(reply->text), "%s: %s: %s", call,
		 oh_status_name(status), text);
}

static bool onehop_open(const struct bench_setup *setup, void **state,
			struct bench_reply *reply)
{
	struct oh_comm_options options = {.size = sizeof(options)};
	struct oh_comm *comm;
	enum oh_status status;

	options.id = &setup->id;
	options.rank = setup->rank;
	options.ranks = setup->ranks;
	options.rendezvous_timeout_ms = setup->timeout_ms;
	if (!getenv("ONEHOP_CALL_TIMEOUT_MS"))
		options.call_timeout_ms = setup->timeout_ms;
	status = oh_comm_create(&options, &comm);
	if (status) {
		explain_as("oh_comm_create", status, reply);
		return false;
	}
	snprintf(reply->about, sizeof(reply->about), "%s", oh_version());
	*state = comm;
	return true;
}

static void onehop_close(void *state)
{
	oh_comm_destroy(state);
}

static void *onehop_alloc(void *state, size_t bytes, struct bench_reply *reply)
{
	void *memory;
	enum oh_status status = oh_comm_alloc(state, bytes, &memory);

	if (!status)
		return memory;
	explain_as("oh_comm_alloc", status, reply);
	return NULL;
}

static int all_reduce(const struct bench_call *call)
{
	return oh_all_reduce(call->state, call->send, call->recv, call->count,
			     call->dtype, call->op, NULL);
}

static int reduce_scatter(const struct bench_call *call)
{
	return oh_reduce_scatter(call->state, call->send, call->recv,
				 call->count, call->dtype, call->op, NULL);
}

static int all_gather(const struct bench_call *call)
{
	return oh_all_gather(call->state, call->send, call->recv, call->count,
			     call->dtype, NULL);
}

static int broadcast(const struct bench_call *call)
{
	return oh_broadcast(call->state, call->send, call->recv, call->count,
			    call->dtype, call->root, NULL);
}

static bench_call_fn *onehop_prepare(enum oh_collective collective,
				     struct bench_call *call,
				     struct bench_reply *reply)
{
	static bench_call_fn *const functions[OH_COLLECTIVE_COUNT] = {
		[OH_ALL_REDUCE] = all_reduce,
		[OH_REDUCE_SCATTER] = reduce_scatter,
		[OH_ALL_GATHER] = all_gather,
		[OH_BROADCAST] = broadcast,
	};
	struct oh_route route = {.size = sizeof(route)};
	size_t bytes = call->count * oh_dtype_bytes(call->dtype);
	const char *algorithm;
	enum oh_status status;

	status = oh_comm_explain(call->state, collective, bytes, call->dtype,
				 call->op, &route);
	if (status) {
		explain_as("oh_comm_explain", status, reply);
		return NULL;
	}
	algorithm = call->own_memory ? route.algorithm_direct : route.algorithm;
	snprintf(reply->path, sizeof(reply->path), "%s/%.31s", route.placement,
		 algorithm);
	snprintf(reply->about, sizeof(reply->about), "%s", route.reducer);
	if (strcmp(algorithm, "direct"))
		snprintf(reply->stores, sizeof(reply->stores), "%s",
			 route.stores);
	return functions[collective];
}

static void onehop_explain(enum oh_collective collective, int code,
			   struct bench_reply *reply)
{
	explain_as(oh_collective_name(collective), (enum oh_status)code, reply);
}

const struct bench_subject bench_subject_onehop = {
	.open = onehop_open,
	.close = onehop_close,
	.alloc = onehop_alloc,
	.prepare = onehop_prepare,
	.explain = onehop_explain,
};
