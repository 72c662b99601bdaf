/* SPDX-License-Identifier: MIT */
/*
 * The public collectives: arguments are checked, the plan looked up, and the
 * message cut into rounds, each of which is one call of the engine. The number
 * of rounds depends on the size alone.
 */
#include "base/error.h"
#include "collective/device.h"
#include "cpu/fpenv.h"

#include <string.h>

typedef enum oh_status engine_fn(struct oh__cpu *cpu,
				 const struct oh__cpu_round *round);

/*
 * What all ranks must agree on, in 32 bits: two multiplications by the odd
 * constant of Fibonacci hashing (2^64 / golden ratio), the upper half kept.
 */
static uint32_t signature_of(const struct oh__call *call)
{
	const uint64_t odd = 0x9e3779b97f4a7c15ull;
	uint64_t small = (uint64_t)call->collective |
			 (uint64_t)call->dtype << 8 | (uint64_t)call->op << 16 |
			 (uint64_t)call->root << 24;
	uint64_t mixed = (call->count * odd) ^ (small + 1);

	return (uint32_t)((mixed * odd) >> 32);
}

static bool overlap(const void *a, size_t a_bytes, const void *b,
		    size_t b_bytes)
{
	uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

	return x < y + b_bytes && y < x + a_bytes;
}

static enum oh_status check_enums(const struct oh_comm *comm,
				  const struct oh__call *call)
{
	if ((size_t)call->dtype >= OH_DTYPE_COUNT)
		return OH__FAIL(OH_ERR_INVALID, "dtype is %d, it takes 0 to %d",
				(int)call->dtype, OH_DTYPE_COUNT - 1);
	if ((size_t)call->op >= OH_OP_COUNT)
		return OH__FAIL(OH_ERR_INVALID, "op is %d, it takes 0 to %d",
				(int)call->op, OH_OP_COUNT - 1);
	if (call->root < 0 || call->root >= comm->mailbox.ranks)
		return OH__FAIL(OH_ERR_INVALID,
				"root is %d, the communicator has %d ranks",
				call->root, comm->mailbox.ranks);
	return OH_OK;
}

/* send and recv: no NULL, no wrap, no overlap but in place. */
static enum oh_status check_buffers(const struct oh_comm *comm,
				    const struct oh__call *call)
{
	size_t ranks = (size_t)comm->mailbox.ranks;
	size_t rank = (size_t)comm->mailbox.rank;
	size_t element = oh_dtype_bytes(call->dtype);
	size_t bytes = call->count * element;
	bool scatter = call->collective == OH_REDUCE_SCATTER;
	bool gather = call->collective == OH_ALL_GATHER;
	bool sends = call->collective != OH_BROADCAST ||
		     comm->mailbox.rank == call->root;
	/* a number: what it points at need not be there */
	uintptr_t in_place = (uintptr_t)call->recv;

	/* no object is larger; nor does the end of one wrap then */
	if (call->count > PTRDIFF_MAX / element / ranks)
		return OH__FAIL(OH_ERR_INVALID,
				"count is %zu elements of %zu bytes for %zu "
				"ranks, more than an address can hold",
				call->count, element, ranks);
	if (!call->recv || (sends && !call->send))
		return OH__FAIL(OH_ERR_INVALID, "%s is NULL, count is %zu",
				call->recv ? "send" : "recv", call->count);
	if (scatter)
		in_place -= rank * bytes;
	if (gather)
		in_place += rank * bytes;
	if (sends && (uintptr_t)call->send != in_place &&
	    overlap(call->send, scatter ? ranks * bytes : bytes, call->recv,
		    gather ? ranks * bytes : bytes))
		return OH__FAIL(OH_ERR_INVALID,
				"send %p and recv %p overlap and are not in "
				"place (%s: send == %p)",
				call->send, call->recv,
				oh_collective_name(call->collective),
				(void *)in_place);
	return OH_OK;
}

static engine_fn *engine_of(enum oh_collective collective)
{
	switch (collective) {
	case OH_ALL_REDUCE:
		return oh__cpu_all_reduce;
	case OH_REDUCE_SCATTER:
		return oh__cpu_reduce_scatter;
	case OH_ALL_GATHER:
		return oh__cpu_all_gather;
	case OH_BROADCAST:
		break;
	}
	return oh__cpu_broadcast;
}

enum oh_status oh__run_rounds(struct oh_comm *comm, const struct oh__row *row,
			      const struct oh__call *call)
{
	size_t bytes = call->count * oh_dtype_bytes(call->dtype);
	engine_fn *engine = engine_of(call->collective);
	struct oh__call_record record = {
		.count = call->count,
		.collective = call->collective,
		.dtype = call->dtype,
		.op = call->op,
		.root = (uint32_t)call->root,
	};
	struct oh__cpu_round round = {
		.signature = signature_of(call),
		.record = &record,
		.dtype = call->dtype,
		.op = call->op,
		.root = call->root,
		.stride = bytes,
		.two_shot = row->algorithm == OH__TWO_SHOT,
		.stores = (enum oh__stores)row->stores,
	};

	comm->mailbox.start_ns = 0;
	for (size_t at = 0; at < bytes; at += round.bytes) {
		enum oh_status status;

		round.bytes = bytes - at < row->round_bytes ? bytes - at
							    : row->round_bytes;
		/* of a broadcast only one of the two may be there */
		if (call->send)
			round.send = (const uint8_t *)call->send + at;
		if (call->recv)
			round.recv = (uint8_t *)call->recv + at;
		status = engine(&comm->cpu, &round);
		if (status)
			return status;
	}
	return OH_OK;
}

/* A communicator that has failed says so again. */
static enum oh_status check_failure(struct oh_comm *comm)
{
	uint64_t failure = atomic_load_explicit(&comm->mailbox.failure,
						memory_order_acquire);
	bool told = failure ==
		    atomic_load_explicit(&comm->gpu.told, memory_order_acquire);

	if (!failure && oh__gpu_gave_up(&comm->gpu))
		return OH__FAIL(OH_ERR_TIMEOUT,
				"a kernel of the communicator has waited in "
				"vain: destroy it and make a new one "
				"(oh_comm_health tells for whom once that is "
				"known)");
	if (!failure)
		return OH_OK;
	return OH__FAIL(
		(enum oh_status)oh__state_status(failure),
		"the communicator has failed before (%s, caused by "
		"rank %d%s%s): destroy it and make a new one",
		oh_status_text((enum oh_status)oh__state_status(failure)),
		oh__state_culprit(failure), told ? ": " : "",
		told ? comm->gpu.why_failed : "");
}

static enum oh_status run_planned(struct oh_comm *comm,
				  const struct oh__call *call)
{
	size_t bytes = call->count * oh_dtype_bytes(call->dtype);
	uint64_t fpenv = oh__fpenv_enter();
	enum oh_status status = oh__run_rounds(
		comm, oh__table_find(&comm->table, call->collective, bytes),
		call);

	oh__fpenv_leave(fpenv);
	return status;
}

/* Which memory is it on, and can that be done there? */
static enum oh_status check_memory(const struct oh_comm *comm,
				   const struct oh__call *call, bool *on_device)
{
	enum oh_status status = oh__device_recognise(comm, call, on_device);

	if (!status && !*on_device && call->stream)
		return OH__FAIL(
			OH_ERR_INVALID,
			"stream is %p, it must be NULL for host memory%s",
			call->stream,
			comm->cuda ? ""
				   : "; this communicator was made before CUDA "
				     "was started and takes every pointer for "
				     "that: name a device in its options, or "
				     "make it with a CUDA context current");
	return status;
}

static enum oh_status start(struct oh_comm *comm, const struct oh__call *call)
{
	enum oh_status status = check_enums(comm, call);
	bool on_device;

	if (status || !call->count)
		return status ? status : check_failure(comm);
	status = check_buffers(comm, call);
	if (!status)
		status = check_memory(comm, call, &on_device);
	if (status)
		return status;
	if (atomic_flag_test_and_set_explicit(&comm->busy,
					      memory_order_acquire))
		return OH__FAIL(OH_ERR_BUSY,
				"%s while another call runs on rank %d of this "
				"communicator",
				oh_collective_name(call->collective),
				comm->mailbox.rank);
	status = check_failure(comm);
	if (!status)
		status = on_device ? oh__device_run(comm, call)
				   : run_planned(comm, call);
	atomic_flag_clear_explicit(&comm->busy, memory_order_release);
	return status;
}

/* Unless a call was refused the others wait for what will not come. */
static enum oh_status run(struct oh_comm *comm, const struct oh__call *call)
{
	enum oh_status status = oh__comm_check(comm);

	if (status)
		return status;
	status = start(comm, call);
	/* for whom a kernel has waited in vain is found out elsewhere */
	if (status != OH_ERR_UNSUPPORTED && oh__is_failure(status) &&
	    !oh__gpu_gave_up(&comm->gpu))
		oh__mailbox_fail(&comm->mailbox, status, comm->mailbox.rank);
	return status;
}

enum oh_status oh_all_reduce(struct oh_comm *comm, const void *send, void *recv,
			     size_t count, enum oh_dtype dtype, enum oh_op op,
			     void *stream)
{
	struct oh__call call = {OH_ALL_REDUCE, send, recv, count,
				dtype,	       op,   0,	   stream};

	return run(comm, &call);
}

enum oh_status oh_reduce_scatter(struct oh_comm *comm, const void *send,
				 void *recv, size_t count, enum oh_dtype dtype,
				 enum oh_op op, void *stream)
{
	struct oh__call call = {
		OH_REDUCE_SCATTER, send, recv, count, dtype, op, 0, stream};

	return run(comm, &call);
}

enum oh_status oh_all_gather(struct oh_comm *comm, const void *send, void *recv,
			     size_t count, enum oh_dtype dtype, void *stream)
{
	struct oh__call call = {OH_ALL_GATHER, send,   recv, count,
				dtype,	       OH_SUM, 0,    stream};

	return run(comm, &call);
}

enum oh_status oh_broadcast(struct oh_comm *comm, const void *send, void *recv,
			    size_t count, enum oh_dtype dtype, int root,
			    void *stream)
{
	struct oh__call call = {OH_BROADCAST, send,   recv, count,
				dtype,	      OH_SUM, root, stream};

	return run(comm, &call);
}
