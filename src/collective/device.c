/* SPDX-License-Identifier: MIT */
#include "collective/device.h"

#include <stdio.h>

#include "base/error.h"
#include "base/log.h"

/* Everyone's bytes, through host memory. */
static enum oh_status exchange(void *context, const void *mine, size_t bytes,
			       void *all)
{
	struct oh_comm *comm = context;
	struct oh__call call = {
		.collective = OH_ALL_GATHER,
		.send = mine,
		.recv = all,
		.count = bytes,
		.dtype = OH_U8,
	};

	return oh__run_rounds(
		comm, oh__table_find(&comm->table, OH_ALL_GATHER, bytes),
		&call);
}

enum oh_status oh__device_connect(struct oh_comm *comm,
				  const struct oh__gpu_options *options,
				  struct oh__rendezvous *rendezvous)
{
	struct oh__gpu_options complete = *options;
	CUcontext context;
	enum oh_status status;

	complete.mailbox = &comm->mailbox;
	complete.exchange = exchange;
	complete.context = comm;
	status = oh__gpu_connect(&comm->gpu, &complete, rendezvous);
	if (status)
		return status;
	/* pointers are told apart wherever there may be such memory; the other
	 * ranks have met for the last time */
	comm->cuda = comm->gpu.device.cuda;
	if (!comm->cuda && oh__cuda_started(&context) &&
	    oh__cuda_load(&comm->cuda))
		oh__log(OH_LOG_WARN,
			"GPU memory is taken for host memory in calls: %s",
			oh_last_error()->message);
	return OH_OK;
}

bool oh__device_has(enum oh_collective collective, enum oh_dtype dtype,
		    enum oh_op op)
{
	return collective == OH_ALL_REDUCE && oh__gpu_dtype_of(dtype) >= 0 &&
	       (op == OH_SUM || op == OH_AVG);
}

/* Why calls like this one do not work on GPU memory; false if they do. */
static bool say_why_not(const struct oh_comm *comm, const struct oh__call *call,
			char *why, size_t room)
{
	if (comm->mailbox.ranks == 1)
		return false;
	if (!comm->gpu.on) {
		snprintf(why, room,
			 "this communicator works on host memory only: %.170s",
			 comm->gpu.why_not);
		return true;
	}
	if (call->collective != OH_ALL_REDUCE) {
		snprintf(why, room,
			 "%s on GPU memory: only all-reduce works there so far",
			 oh_collective_name(call->collective));
		return true;
	}
	if (oh__device_has(call->collective, call->dtype, call->op))
		return false;
	snprintf(why, room,
		 "all-reduce of %s %s on GPU memory: f32, f16 and bf16 work "
		 "there so far, with sum and avg",
		 oh_dtype_name(call->dtype), oh_op_name(call->op));
	return true;
}

static enum oh_status check_device(const struct oh_comm *comm,
				   const struct oh__call *call,
				   const char *name, int ordinal)
{
	const struct oh__gpu *gpu = &comm->gpu;
	char why[360];

	if (ordinal >= 0 && gpu->device.context &&
	    ordinal != gpu->facts[gpu->rank].ordinal)
		return OH__FAIL(OH_ERR_INVALID,
				"%s is memory of device %d, the communicator "
				"was made for device %d",
				name, ordinal, gpu->facts[gpu->rank].ordinal);
	if (say_why_not(comm, call, why, sizeof(why)))
		return OH__FAIL(OH_ERR_UNSUPPORTED, "%s (%s is GPU memory)",
				why, name);
	return OH_OK;
}

static const char *place_of(enum oh__gpu_memory_kind kind)
{
	return kind == OH__GPU_MEMORY_HOST ? "host memory" : "GPU memory";
}

/* Of a buffer; the thread may have no context. */
static enum oh_status kind_of(const struct oh_comm *comm, const void *pointer,
			      enum oh__gpu_memory_kind *kind, int *ordinal)
{
	CUcontext context = comm->gpu.device.context;
	CUresult code = oh__gpu_memory_of(comm->cuda, pointer, kind, ordinal);

	if (code == CUDA_ERROR_INVALID_CONTEXT && context &&
	    !comm->cuda->cuCtxPushCurrent_v2(context)) {
		code = oh__gpu_memory_of(comm->cuda, pointer, kind, ordinal);
		comm->cuda->cuCtxPopCurrent_v2(&context);
	}
	return oh__cuda_check(code, "cuPointerGetAttributes", __FILE__,
			      __LINE__);
}

enum oh_status oh__device_recognise(const struct oh_comm *comm,
				    const struct oh__call *call,
				    bool *on_device)
{
	bool sends = call->collective != OH_BROADCAST ||
		     comm->mailbox.rank == call->root;
	enum oh__gpu_memory_kind send, recv;
	int of_send, of_recv;
	enum oh_status status;

	*on_device = false;
	if (!comm->cuda)
		return OH_OK;
	status = kind_of(comm, call->recv, &recv, &of_recv);
	send = recv;
	of_send = of_recv;
	if (!status && sends && call->send != call->recv)
		status = kind_of(comm, call->send, &send, &of_send);
	if (status)
		return status;
	if (send != recv)
		return OH__FAIL(OH_ERR_INVALID,
				"send %p is %s and recv %p is %s: both must be "
				"of one kind",
				call->send, place_of(send), call->recv,
				place_of(recv));
	if (recv == OH__GPU_MEMORY_HOST)
		return OH_OK;
	*on_device = true;
	status = sends ? check_device(comm, call, "send", of_send) : OH_OK;
	return status ? status : check_device(comm, call, "recv", of_recv);
}

static void explain_peers(const struct oh__gpu *gpu, struct oh_route *route)
{
	bool direct = false, pinned = false;

	route->peer_count = (uint32_t)gpu->ranks;
	for (int i = 0; i < gpu->ranks; i++) {
		struct oh_route_peer *peer = &route->peers[i];
		bool passes = oh__gpu_passes(gpu->rows, gpu->rank, i);

		snprintf(peer->placement, sizeof(peer->placement), "%s",
			 i == gpu->rank ? "self"
			 : passes	? "vram-dst"
					: "pinned");
		oh__gpu_say_way(gpu->rows, gpu->rank, i, peer->reason,
				sizeof(peer->reason));
		for (int k = 0; k < gpu->ranks; k++) {
			passes = oh__gpu_passes(gpu->rows, i, k);
			direct |= passes && i != k;
			pinned |= !passes;
		}
	}
	snprintf(route->placement, sizeof(route->placement), "%s",
		 !pinned  ? "vram-dst"
		 : direct ? "mixed"
			  : "pinned");
}

/* The sizes of the table that go by that algorithm; false if none does. */
static bool find_sizes(const struct oh__gpu_layout *layout,
		       enum oh__gpu_algorithm algorithm, uint64_t *first,
		       uint64_t *last)
{
	uint64_t from = 1;
	bool found = false;

	for (int c = 0; c < layout->classes; c++) {
		const struct oh__gpu_class *class = &layout->class[c];

		if (class->algorithm == algorithm) {
			*first = found ? *first : from;
			*last = c == layout->classes - 1 ? UINT64_MAX
							 : class->last_bytes;
			found = true;
		}
		from = class->last_bytes + 1;
	}
	return found;
}

static void explain_others(const struct oh__gpu *gpu,
			   enum oh__gpu_algorithm chosen,
			   struct oh_route *route)
{
	for (int a = 0; a < OH__GPU_ALGORITHMS; a++) {
		struct oh_route_alternative *other =
			&route->alternatives[route->alternative_count];
		uint64_t first, last;

		if (a == (int)chosen)
			continue;
		route->alternative_count++;
		snprintf(other->name, sizeof(other->name), "%s",
			 oh__gpu_algorithm_name((enum oh__gpu_algorithm)a));
		if (!find_sizes(&gpu->layout, (enum oh__gpu_algorithm)a, &first,
				&last))
			snprintf(other->reason, sizeof(other->reason),
				 "the table for %d ranks in %s has it for no "
				 "size",
				 gpu->ranks,
				 gpu->any_pinned ? "host memory"
						 : "peers' memory");
		else if (last == UINT64_MAX)
			snprintf(other->reason, sizeof(other->reason),
				 "the table has it from %llu bytes on",
				 (unsigned long long)first);
		else
			snprintf(other->reason, sizeof(other->reason),
				 "the table has it for %llu to %llu bytes",
				 (unsigned long long)first,
				 (unsigned long long)last);
	}
}

static void explain_class(const struct oh__gpu *gpu, uint64_t bytes,
			  struct oh_route *route)
{
	const struct oh__gpu_class *class =
		oh__gpu_layout_find(&gpu->layout, bytes);
	const struct oh__gpu_grid *grid = &gpu->grid[class - gpu->layout.class];

	snprintf(route->algorithm, sizeof(route->algorithm), "%s",
		 oh__gpu_algorithm_name(class->algorithm));
	route->rounds =
		bytes / class->last_bytes + (bytes % class->last_bytes != 0);
	snprintf(route->row, sizeof(route->row),
		 "all_reduce up to %llu bytes: %s, %u blocks of %u threads, %s "
		 "while the kernel before works%s%s",
		 (unsigned long long)class->last_bytes, route->algorithm,
		 grid->blocks, class->threads,
		 grid->waits ? "not placed" : "placed", grid->waits ? ": " : "",
		 grid->waits ? grid->waits : "");
	snprintf(route->evidence, sizeof(route->evidence),
		 "nothing was measured here: the table for %d ranks in %s is "
		 "from %s",
		 gpu->ranks, gpu->any_pinned ? "host memory" : "peers' memory",
		 gpu->layout.source);
	explain_others(gpu, class->algorithm, route);
}

/* One rank shares its memory with nobody. */
static void explain_alone(uint64_t bytes, struct oh_route *route)
{
	static const char reason[] = "there is one rank: no other to share "
				     "memory with";
	struct oh_route_peer *self = &route->peers[0];

	snprintf(route->algorithm, sizeof(route->algorithm), "copy");
	snprintf(route->row, sizeof(route->row),
		 "there is one rank: a call copies send to recv");
	snprintf(route->evidence, sizeof(route->evidence),
		 "nothing was measured: %s", reason);
	snprintf(route->placement, sizeof(route->placement), "self");
	route->rounds = bytes != 0;
	route->peer_count = 1;
	snprintf(self->placement, sizeof(self->placement), "self");
	snprintf(self->reason, sizeof(self->reason), "%s", reason);
}

void oh__device_explain(const struct oh_comm *comm, const struct oh__call *call,
			struct oh_route *route)
{
	const struct oh__gpu *gpu = &comm->gpu;
	uint64_t bytes = call->count * oh_dtype_bytes(call->dtype);

	snprintf(route->order, sizeof(route->order), "flat");
	snprintf(route->reducer, sizeof(route->reducer), "cuda");
	snprintf(route->stores, sizeof(route->stores), "vector");
	if (gpu->on)
		explain_peers(gpu, route);
	if (comm->mailbox.ranks == 1) {
		explain_alone(bytes, route);
	} else if (say_why_not(comm, call, route->row, sizeof(route->row))) {
		snprintf(route->algorithm, sizeof(route->algorithm), "none");
	} else {
		explain_class(gpu, bytes, route);
	}
	snprintf(route->algorithm_direct, sizeof(route->algorithm_direct), "%s",
		 route->algorithm);
}

/* With the context of the device, or, where none was known when the
 * communicator was made, with the caller's. */
static enum oh_status copy(const struct oh_comm *comm,
			   const struct oh__gpu_call *call)
{
	CUcontext context = comm->gpu.device.context;
	enum oh_status status = OH_OK;

	if (context)
		status = OH__CUDA(comm->cuda->cuCtxPushCurrent_v2(context));
	if (status)
		return status;
	status = OH__CUDA(comm->cuda->cuMemcpyDtoDAsync_v2(
		(CUdeviceptr)call->recv, (CUdeviceptr)call->send, call->bytes,
		call->stream));
	if (context)
		comm->cuda->cuCtxPopCurrent_v2(&context);
	return status;
}

enum oh_status oh__device_run(struct oh_comm *comm, const struct oh__call *call)
{
	struct oh__gpu_call device_call = {
		.send = call->send,
		.recv = call->recv,
		.bytes = call->count * oh_dtype_bytes(call->dtype),
		.dtype = call->dtype,
		.average = call->op == OH_AVG,
		.stream = call->stream,
	};

	/* every collective of one rank is a copy */
	if (comm->mailbox.ranks > 1)
		return oh__gpu_all_reduce(&comm->gpu, &device_call);
	return call->send == call->recv ? OH_OK : copy(comm, &device_call);
}
