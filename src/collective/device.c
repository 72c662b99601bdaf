/* SPDX-License-Identifier: MIT */
#include "collective/device.h"

#include <stdio.h>

#include "base/error.h"

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
	/* pointers are told apart wherever there may be such memory */
	if (comm->gpu.on)
		comm->cuda = comm->gpu.device.cuda;
	else if (oh__cuda_started(&context))
		return oh__cuda_load(&comm->cuda);
	return OH_OK;
}

static enum oh_status check_device(const struct oh_comm *comm,
				   const struct oh__call *call,
				   const char *name, int ordinal)
{
	const struct oh__gpu *gpu = &comm->gpu;

	if (ordinal >= 0 && gpu->on && ordinal != gpu->facts[gpu->rank].ordinal)
		return OH__FAIL(OH_ERR_INVALID,
				"%s is memory of device %d, the communicator "
				"was made for device %d",
				name, ordinal, gpu->facts[gpu->rank].ordinal);
	if (comm->mailbox.ranks == 1)
		return OH_OK;
	if (!gpu->on)
		return OH__FAIL(OH_ERR_UNSUPPORTED,
				"%s is GPU memory, and this communicator works "
				"on host memory only: %s",
				name, gpu->why_not);
	if (call->collective != OH_ALL_REDUCE)
		return OH__FAIL(OH_ERR_UNSUPPORTED,
				"%s on GPU memory: only all-reduce works there "
				"so far",
				oh_collective_name(call->collective));
	if (oh__gpu_dtype_of(call->dtype) < 0 ||
	    (call->op != OH_SUM && call->op != OH_AVG))
		return OH__FAIL(OH_ERR_UNSUPPORTED,
				"all-reduce of %s %s on GPU memory: f32, f16 "
				"and bf16 work there so far, with sum and avg",
				oh_dtype_name(call->dtype),
				oh_op_name(call->op));
	return OH_OK;
}

static const char *place_of(enum oh__gpu_memory_kind kind)
{
	return kind == OH__GPU_MEMORY_HOST ? "host memory" : "GPU memory";
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
	recv = oh__gpu_memory_of(comm->cuda, call->recv, &of_recv);
	send = recv;
	of_send = of_recv;
	if (sends && call->send != call->recv)
		send = oh__gpu_memory_of(comm->cuda, call->send, &of_send);
	if (send != recv)
		return OH__FAIL(OH_ERR_INVALID,
				"send %p is %s and recv %p is %s: both must be "
				"of one kind",
				call->send, place_of(send), call->recv,
				place_of(recv));
	if (recv == OH__GPU_MEMORY_HOST)
		return OH_OK;
	*on_device = true;
	status = check_device(comm, call, "send", of_send);
	return status ? status : check_device(comm, call, "recv", of_recv);
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
	if (call->send == call->recv)
		return OH_OK;
	return OH__CUDA(comm->cuda->cuMemcpyDtoDAsync_v2(
		(CUdeviceptr)call->recv, (CUdeviceptr)call->send,
		device_call.bytes, call->stream));
}
