/* SPDX-License-Identifier: MIT */
/*
 * What is measured on GPU memory, seen from one rank: how to join, where its
 * memory is, how to queue a call. This library (device_onehop.c), NCCL
 * (device_nccl.c), and kernels that show what a GPU takes for nothing
 * (device_floor.c).
 *
 * A rank is a thread, in which the primary context of its GPU is current. What
 * fails is in oh_last_error.
 */
#ifndef OH_BENCH_DEVICE_SUBJECT_H
#define OH_BENCH_DEVICE_SUBJECT_H

#include "bench/protocol.h"
#include "vendor/cuda.h"

struct bench_device_seat {
	const struct oh__cuda *cuda;
	const struct bench_setup *setup;
	int ordinal;
	size_t bytes; /* of the memory that the rank needs, both sides */
	/* filled by open: its memory, unless it is the worker that takes it;
	 * how it comes to each rank, if the subject tells */
	CUdeviceptr memory;
	struct oh_route_peer *ways;
	uint64_t *create_ns; /* what it took to create the communicator */
	void *state;
};

struct bench_device_call {
	CUdeviceptr send, recv;
	size_t count;
	enum oh_dtype dtype;
	enum oh_op op;
};

struct bench_device_subject {
	const char *name; /* as in --worker */
	/* Joins the ranks. Fills reply->about with a version. */
	enum oh_status (*open)(struct bench_device_seat *seat,
			       struct bench_reply *reply);
	/* The streams are idle. Works after an open that failed, too. */
	void (*close)(struct bench_device_seat *seat);
	/*
	 * Before the calls of a command: fills path and about.
	 * OH_ERR_UNSUPPORTED is a refusal, by all ranks alike, here and of the
	 * first call.
	 */
	enum oh_status (*prepare)(struct bench_device_seat *seat,
				  const struct bench_command *command,
				  struct bench_reply *reply);
	/* Queues one call, also while the stream captures. */
	enum oh_status (*queue)(struct bench_device_seat *seat,
				const struct bench_device_call *call,
				CUstream stream);
	/* Has a call failed that was queued? The stream is idle. */
	enum oh_status (*health)(struct bench_device_seat *seat);
};

/* NULL if none has that name. */
const struct bench_device_subject *bench_device_subject_named(const char *name);

extern const struct bench_device_subject bench_device_onehop;
extern const struct bench_device_subject bench_device_floor;
/* by enum bench_nccl_kind */
extern const struct bench_device_subject bench_device_nccl[3];

#endif
