/* SPDX-License-Identifier: MIT */
/*
 * One call: which kernel with which arguments, in which order, in whose stream.
 * The kernel is this rank's own choice where only its buffers decide; what goes
 * through the mailboxes is decided by the size alone.
 */
#include <string.h>

#include "base/error.h"
#include "gpu/agree.h"

CUresult oh__gpu_memory_of(const struct oh__cuda *cuda, const void *pointer,
			   enum oh__gpu_memory_kind *kind, int *ordinal)
{
	CUpointer_attribute which[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_IS_MANAGED,
	};
	unsigned type = 0, managed = 0;
	void *values[] = {&type, ordinal, &managed};
	CUresult code;

	*ordinal = -1;
	*kind = OH__GPU_MEMORY_HOST;
	/* memory that the driver does not know is a success with zeros */
	code = cuda->cuPointerGetAttributes(3, which, values,
					    (CUdeviceptr)(uintptr_t)pointer);
	if (code)
		return code == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : code;
	/* managed memory may be anywhere, and every GPU can use it */
	if (managed)
		*ordinal = -1;
	if (type == CU_MEMORYTYPE_DEVICE || managed)
		*kind = OH__GPU_MEMORY_DEVICE;
	return CUDA_SUCCESS;
}

static bool is_aligned(const void *pointer)
{
	return (uintptr_t)pointer % OH__PACK_BYTES == 0;
}

static CUfunction pick_kernel(const struct oh__gpu *gpu,
			      const struct oh__gpu_class *class,
			      const struct oh__gpu_call *call)
{
	int dtype = oh__gpu_dtype_of(call->dtype);
	CUfunction fast = gpu->device.fast[class->algorithm][dtype];

	if (fast && !call->average && call->bytes % OH__PACK_BYTES == 0 &&
	    is_aligned(call->send) && is_aligned(call->recv))
		return fast;
	return gpu->device.any[class->algorithm][dtype];
}

/* Rank's slot of the class in to's mailbox, as this rank sees it. */
static void *slot_of(const struct oh__gpu *gpu,
		     const struct oh__gpu_class *class, int from, int to)
{
	const struct oh__gpu_memory *m = &gpu->memory;
	CUdeviceptr base = oh__gpu_passes(gpu->rows, from, to) ? m->vram[to]
							       : m->pinned[to];

	return (void *)(base + oh__gpu_slot(class, from));
}

/* At least one more than asked for: the clock may be about to tick. */
static uint32_t ticks_of(uint64_t ns)
{
	uint64_t ticks = ns / OH__TICK_NS + 1;

	return ticks < OH__TICKS / 4 ? (uint32_t)ticks : OH__TICKS / 4;
}

static void fill_arguments(const struct oh__gpu *gpu,
			   const struct oh__gpu_class *class,
			   const struct oh__gpu_call *call,
			   struct oh__kernel_arguments *a)
{
	uint32_t ranks = (uint32_t)gpu->ranks;

	memset(a, 0, sizeof(*a));
	a->send = call->send;
	a->recv = call->recv;
	a->bytes = call->bytes;
	a->packs =
		(uint32_t)((call->bytes + OH__PACK_BYTES - 1) / OH__PACK_BYTES);
	a->part = (a->packs + ranks - 1) / ranks;
	a->half = (uint32_t)(class->half_bytes / OH__PACK_BYTES);
	a->flags = (uint32_t)(class->flags_offset / OH__PACK_BYTES);
	a->flags_half = (uint32_t)(class->flags_bytes / OH__PACK_BYTES);
	a->rank = (uint32_t)gpu->rank;
	a->ranks = ranks;
	a->average = call->average;
	a->timeout = ticks_of(gpu->timeout_ns);
	a->pause = class->pause;
	a->epoch = (uint32_t *)gpu->epochs + class->first_epoch;
	a->watch = (void *)(gpu->host_device +
			    offsetof(struct oh__gpu_host, watch));
	for (int i = 0; i < gpu->ranks; i++) {
		a->in[i] = slot_of(gpu, class, i, gpu->rank);
		a->out[i] = slot_of(gpu, class, gpu->rank, i);
	}
}

static enum oh_status launch_round(const struct oh__gpu *gpu,
				   const struct oh__gpu_class *class,
				   const struct oh__gpu_call *call)
{
	CUlaunchAttribute early = {
		.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
		.value = {.programmaticStreamSerializationAllowed = 1},
	};
	const struct oh__gpu_grid *grid = &gpu->grid[class - gpu->layout.class];
	CUlaunchConfig config = {
		.gridDimX = grid->blocks,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = class->threads,
		.blockDimY = 1,
		.blockDimZ = 1,
		.hStream = call->stream,
		.attrs = &early,
		.numAttrs = !grid->waits,
	};
	struct oh__kernel_arguments arguments;
	void *parameters[] = {&arguments};

	fill_arguments(gpu, class, call, &arguments);
	return OH__CUDA(gpu->device.cuda->cuLaunchKernelEx(
		&config, pick_kernel(gpu, class, call), parameters, NULL));
}

/* What a capture knows of a stream; no id: there is none, or no longer. */
struct capture {
	cuuint64_t id;
	const CUgraphNode *nodes; /* that the next one will follow */
	size_t count;
};

/* Another thread may invalidate the capture at any time. */
static enum oh_status read_capture(const struct oh__cuda *cuda, CUstream stream,
				   struct capture *capture)
{
	CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
	const CUgraphEdgeData *edges;
	enum oh_status status;
	CUgraph graph;

	if (cuda->cuStreamGetCaptureInfo_v3)
		status = OH__CUDA(cuda->cuStreamGetCaptureInfo_v3(
			stream, &capturing, &capture->id, &graph,
			&capture->nodes, &edges, &capture->count));
	else
		status = OH__CUDA(cuda->cuStreamGetCaptureInfo_v2(
			stream, &capturing, &capture->id, &graph,
			&capture->nodes, &capture->count));
	if (capturing != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		*capture = (struct capture){.id = 0};
	return status;
}

static bool follows(const struct capture *capture, CUgraphNode node)
{
	for (size_t i = 0; i < capture->count; i++)
		if (capture->nodes[i] == node)
			return true;
	return false;
}

/* The last call in that capture; NULL: there was none. */
static struct oh__gpu_capture *find_capture(struct oh__gpu_order *order,
					    cuuint64_t id)
{
	for (int i = 0; i < OH__GPU_CAPTURES && id; i++)
		if (order->capture[i].id == id)
			return &order->capture[i];
	return NULL;
}

/* For a capture that has none: that of an earlier one of the stream, which has
 * ended, else that of the capture whose last call is the longest ago. */
static struct oh__gpu_capture *take_place(struct oh__gpu_order *order,
					  CUstream stream)
{
	struct oh__gpu_capture *place = &order->capture[0];

	for (int i = 0; i < OH__GPU_CAPTURES; i++) {
		struct oh__gpu_capture *at = &order->capture[i];

		if (at->id && at->stream == stream &&
		    stream != CU_STREAM_PER_THREAD)
			return at;
		if (at->call < place->call)
			place = at;
	}
	return place;
}

/* Calls of one capture on two streams: an edge from one to the next. */
static enum oh_status order_in_capture(struct oh__gpu *gpu, CUstream stream)
{
	const struct oh__cuda *cuda = gpu->device.cuda;
	struct oh__gpu_capture *last;
	struct capture capture;
	enum oh_status status = read_capture(cuda, stream, &capture);

	if (status)
		return status;
	last = find_capture(&gpu->order, capture.id);
	if (!last || follows(&capture, last->node))
		return OH_OK;
	/* each thread has a stream of its own by that handle */
	if (last->stream == stream && stream != CU_STREAM_PER_THREAD)
		return OH_OK;
	if (cuda->cuStreamUpdateCaptureDependencies_v2)
		return OH__CUDA(cuda->cuStreamUpdateCaptureDependencies_v2(
			stream, &last->node, NULL, 1,
			CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
	return OH__CUDA(cuda->cuStreamUpdateCaptureDependencies(
		stream, &last->node, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
}

static enum oh_status note_capture(struct oh__gpu *gpu, CUstream stream)
{
	struct oh__gpu_order *order = &gpu->order;
	struct oh__gpu_capture *last;
	struct capture capture;
	enum oh_status status =
		read_capture(gpu->device.cuda, stream, &capture);

	if (status)
		return status;
	if (!capture.count)
		return OH_OK;
	last = find_capture(order, capture.id);
	if (!last)
		last = take_place(order, stream);
	*last = (struct oh__gpu_capture){
		.id = capture.id,
		.stream = stream,
		.node = capture.nodes[0],
		.call = ++order->captured,
	};
	return OH_OK;
}

/* After the last eager call, wherever it was. */
static enum oh_status order_eagerly(struct oh__gpu *gpu, CUstream stream)
{
	const struct oh__cuda *cuda = gpu->device.cuda;
	struct oh__gpu_order *order = &gpu->order;
	enum oh_status status = OH_OK;

	if (order->any && !order->recorded && order->stream != stream)
		status = OH__CUDA(
			cuda->cuEventRecord(order->event, order->stream));
	if (!status && order->any &&
	    (order->recorded || order->stream != stream))
		status = OH__CUDA(cuda->cuStreamWaitEvent(
			stream, order->event, CU_EVENT_WAIT_DEFAULT));
	return status;
}

/* One handle, and a stream for each thread: the event is recorded at once. */
static enum oh_status note_stream(struct oh__gpu *gpu, CUstream stream)
{
	struct oh__gpu_order *order = &gpu->order;

	order->stream = stream;
	order->any = true;
	order->recorded = stream == CU_STREAM_PER_THREAD;
	if (!order->recorded)
		return OH_OK;
	return OH__CUDA(gpu->device.cuda->cuEventRecord(order->event, stream));
}

static enum oh_status check_capture(const struct oh__gpu *gpu, CUstream stream,
				    CUstreamCaptureStatus *capturing)
{
	CUresult code =
		gpu->device.cuda->cuStreamIsCapturing(stream, capturing);

	if (code == CUDA_ERROR_INVALID_HANDLE)
		return OH__FAIL(OH_ERR_INVALID,
				"%p is no stream (CUDA error %d)",
				(void *)stream, (int)code);
	if (code == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
		return OH__FAIL(OH_ERR_INVALID,
				"the default stream waits for a stream that is "
				"being captured (CUDA error %d): name another "
				"stream, or end the capture first",
				(int)code);
	if (code)
		return oh__cuda_check(code, "cuStreamIsCapturing", __FILE__,
				      __LINE__);
	if (*capturing != CU_STREAM_CAPTURE_STATUS_INVALIDATED)
		return OH_OK;
	return OH__FAIL(OH_ERR_INVALID,
			"the capture of stream %p was invalidated before this "
			"call: end it and begin again",
			(void *)stream);
}

/* A stream in which the call would fail is refused before the call counts; the
 * communicator is as before then. */
static enum oh_status check_stream(const struct oh__gpu *gpu, CUstream stream,
				   CUstreamCaptureStatus *capturing)
{
	const struct oh__cuda *cuda = gpu->device.cuda;
	const struct oh__gpu_order *order = &gpu->order;
	CUstreamCaptureStatus last = CU_STREAM_CAPTURE_STATUS_NONE;
	enum oh_status status = check_capture(gpu, stream, capturing);
	CUcontext context = gpu->device.context;

	if (!status)
		status = OH__CUDA(cuda->cuStreamGetCtx(stream, &context));
	if (!status && context != gpu->device.context)
		return OH__FAIL(OH_ERR_INVALID,
				"stream %p belongs to another CUDA context "
				"than the primary one of the communicator's "
				"device",
				(void *)stream);
	if (status || *capturing || !order->any || order->recorded ||
	    order->stream == stream)
		return status;
	status = check_capture(gpu, order->stream, &last);
	if (!status && last)
		return OH__FAIL(OH_ERR_INVALID,
				"stream %p of the call before this one is "
				"being captured, and this call in stream %p "
				"must come after that one: end the capture "
				"first",
				(void *)order->stream, (void *)stream);
	return status;
}

static enum oh_status launch_rounds(struct oh__gpu *gpu,
				    const struct oh__gpu_call *call)
{
	const struct oh__gpu_class *class =
		oh__gpu_layout_find(&gpu->layout, call->bytes);
	struct oh__gpu_call round = *call;
	enum oh_status status = OH_OK;

	for (uint64_t at = 0; at < call->bytes && !status; at += round.bytes) {
		round.bytes = call->bytes - at < class->last_bytes
				      ? call->bytes - at
				      : class->last_bytes;
		round.send = (const char *)call->send + at;
		round.recv = (char *)call->recv + at;
		status = launch_round(gpu, class, &round);
	}
	return status;
}

static enum oh_status launch(struct oh__gpu *gpu,
			     const struct oh__gpu_call *call)
{
	CUstreamCaptureStatus capturing;
	enum oh_status status = check_stream(gpu, call->stream, &capturing);
	enum oh_status after;

	if (status)
		return status;
	/* a launch may wait for the queue, and a capture may come to nothing */
	if (!capturing)
		oh__gpu_note_call(gpu, call);
	status = capturing ? order_in_capture(gpu, call->stream)
			   : order_eagerly(gpu, call->stream);
	if (!status)
		status = launch_rounds(gpu, call);
	if (!status)
		status = capturing ? note_capture(gpu, call->stream)
				   : note_stream(gpu, call->stream);
	if (!capturing)
		return status;
	/* a capture that is void holds no call, and no harm is done */
	after = check_capture(gpu, call->stream, &capturing);
	if (after == OH_ERR_INVALID || !status)
		status = after;
	if (!status)
		oh__gpu_note_call(gpu, call);
	return status;
}

enum oh_status oh__gpu_all_reduce(struct oh__gpu *gpu,
				  const struct oh__gpu_call *call)
{
	const struct oh__gpu_device *device = &gpu->device;
	CUcontext current = NULL;
	enum oh_status status;

	device->cuda->cuCtxGetCurrent(&current);
	if (current == device->context)
		return launch(gpu, call);
	status = OH__CUDA(device->cuda->cuCtxPushCurrent_v2(device->context));
	if (status)
		return status;
	status = launch(gpu, call);
	device->cuda->cuCtxPopCurrent_v2(&current);
	return status;
}
