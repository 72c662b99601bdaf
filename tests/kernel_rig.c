/* SPDX-License-Identifier: MIT */
#include "kernel_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "kernels/image.h"

static bool enter(struct rig *rig, const struct rig_device *device)
{
	return !OH__CUDA(rig->cuda->cuCtxSetCurrent(device->context));
}

static bool open_device(struct rig *rig, int ordinal)
{
	const struct oh__cuda *cuda = rig->cuda;
	struct rig_device *device = &rig->device[ordinal];

	return !OH__CUDA(cuda->cuDeviceGet(&device->device, ordinal)) &&
	       !OH__CUDA(cuda->cuDevicePrimaryCtxRetain(&device->context,
							device->device)) &&
	       enter(rig, device) &&
	       !OH__CUDA(cuda->cuModuleLoadData(&device->module,
						oh__kernels_image));
}

const char *rig_open(struct rig *rig)
{
	int count = 0;

	memset(rig, 0, sizeof(*rig));
	/* a kernel that is loaded when it is first launched would wait for the
	 * one of another rank on the same GPU, which waits for it */
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	if (!oh__kernels_image_bytes)
		return "built without nvcc";
	if (oh__cuda_load(&rig->cuda) || OH__CUDA(rig->cuda->cuInit(0)) ||
	    OH__CUDA(rig->cuda->cuDeviceGetCount(&count)) || !count)
		return "there is no GPU";
	rig->devices = count < RIG_DEVICES ? count : RIG_DEVICES;
	for (int i = 0; i < rig->devices; i++)
		if (!open_device(rig, i))
			return oh_last_error()->message;
	if (OH__CUDA(rig->cuda->cuMemHostAlloc(
		    (void **)&rig->watch,
		    OH__KERNEL_RANKS * sizeof(*rig->watch),
		    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)))
		return oh_last_error()->message;
	if (OH__CUDA(rig->cuda->cuMemHostAlloc(
		    (void **)&rig->checks,
		    OH__KERNEL_RANKS * sizeof(*rig->checks),
		    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)))
		return oh_last_error()->message;
	return NULL;
}

void rig_close(struct rig *rig)
{
	rig->cuda->cuMemFreeHost(rig->watch);
	rig->cuda->cuMemFreeHost(rig->checks);
	for (int i = 0; i < rig->devices; i++) {
		enter(rig, &rig->device[i]);
		rig->cuda->cuModuleUnload(rig->device[i].module);
		rig->cuda->cuDevicePrimaryCtxRelease_v2(rig->device[i].device);
	}
}

/* On the rank's device, open to all of them. */
static bool make_vram(struct rig *rig, struct rig_rank *rank)
{
	const struct oh__cuda *cuda = rig->cuda;
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, rank->device->device},
	};
	CUmemAccessDesc access[RIG_DEVICES];

	for (int i = 0; i < rig->devices; i++)
		access[i] = (CUmemAccessDesc){
			{CU_MEM_LOCATION_TYPE_DEVICE, rig->device[i].device},
			CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	return !OH__CUDA(cuda->cuMemCreate(&rank->handle, RIG_MAILBOX_BYTES,
					   &prop, 0)) &&
	       !OH__CUDA(cuda->cuMemAddressReserve(
		       &rank->mailbox, RIG_MAILBOX_BYTES, 0, 0, 0)) &&
	       !OH__CUDA(cuda->cuMemMap(rank->mailbox, RIG_MAILBOX_BYTES, 0,
					rank->handle, 0)) &&
	       !OH__CUDA(cuda->cuMemSetAccess(rank->mailbox, RIG_MAILBOX_BYTES,
					      access, (size_t)rig->devices));
}

static bool make_pinned(struct rig *rig, struct rig_rank *rank)
{
	return !OH__CUDA(rig->cuda->cuMemHostAlloc(
		       &rank->pinned, RIG_MAILBOX_BYTES,
		       CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)) &&
	       !OH__CUDA(rig->cuda->cuMemHostGetDevicePointer_v2(
		       &rank->mailbox, rank->pinned, 0));
}

static bool make_rank(struct rig *rig, int index)
{
	const struct oh__cuda *cuda = rig->cuda;
	struct rig_rank *rank = &rig->rank[index];

	rank->device = &rig->device[index % rig->devices];
	return enter(rig, rank->device) &&
	       !OH__CUDA(cuda->cuStreamCreateWithPriority(
		       &rank->stream, CU_STREAM_NON_BLOCKING, 0)) &&
	       !OH__CUDA(cuda->cuStreamCreateWithPriority(
		       &rank->beside, CU_STREAM_NON_BLOCKING, 0)) &&
	       !OH__CUDA(cuda->cuMemAlloc_v2(&rank->send, RIG_BUFFER_BYTES)) &&
	       !OH__CUDA(cuda->cuMemAlloc_v2(&rank->recv, RIG_BUFFER_BYTES)) &&
	       !OH__CUDA(cuda->cuMemAlloc_v2(&rank->epoch, RIG_EPOCH_BYTES)) &&
	       (rig->placement == RIG_VRAM ? make_vram(rig, rank)
					   : make_pinned(rig, rank)) &&
	       !OH__CUDA(cuda->cuMemsetD32Async(rank->mailbox, OH__WORD_EMPTY,
						RIG_FLAGGED_AT / 4,
						rank->stream)) &&
	       !OH__CUDA(cuda->cuMemsetD32Async(
		       rank->mailbox + RIG_FLAGGED_AT, 0,
		       (RIG_FLAGGED_BYTES + RIG_STAGED_BYTES) / 4,
		       rank->stream));
}

bool rig_begin(struct rig *rig, int ranks, enum rig_placement placement,
	       unsigned blocks, unsigned threads)
{
	rig->ranks = ranks;
	rig->placement = placement;
	rig->blocks = blocks;
	rig->threads = threads;
	memset(rig->rank, 0, sizeof(rig->rank));
	memset(rig->watch, 0, OH__KERNEL_RANKS * sizeof(*rig->watch));
	for (int i = 0; i < ranks; i++)
		if (!make_rank(rig, i))
			return false;
	return rig_set_epochs(rig, 0) && rig_wait(rig);
}

void rig_end(struct rig *rig)
{
	const struct oh__cuda *cuda = rig->cuda;

	for (int i = 0; i < rig->ranks; i++) {
		struct rig_rank *rank = &rig->rank[i];

		enter(rig, rank->device);
		cuda->cuStreamSynchronize(rank->stream);
		cuda->cuStreamDestroy_v2(rank->stream);
		cuda->cuStreamDestroy_v2(rank->beside);
		cuda->cuMemFree_v2(rank->send);
		cuda->cuMemFree_v2(rank->recv);
		cuda->cuMemFree_v2(rank->epoch);
	}
	for (int i = 0; i < rig->ranks; i++) {
		struct rig_rank *rank = &rig->rank[i];

		if (rank->pinned) {
			cuda->cuMemFreeHost(rank->pinned);
			continue;
		}
		cuda->cuMemUnmap(rank->mailbox, RIG_MAILBOX_BYTES);
		cuda->cuMemAddressFree(rank->mailbox, RIG_MAILBOX_BYTES);
		cuda->cuMemRelease(rank->handle);
	}
}

/* "oh__two_shot_bf16_4", or "..._any4" */
static bool find_kernel(struct rig *rig, int index, const struct rig_call *call,
			CUfunction *kernel)
{
	static const char *const algorithms[] = {
		[RIG_ONE_SHOT] = "one_shot",
		[RIG_TWO_SHOT] = "two_shot",
		[RIG_FLAGGED] = "flagged",
		[RIG_STAGED] = "staged",
	};
	bool fast = rig_is_fast(rig, index, call);
	int width = rig->ranks <= 4 ? rig->ranks : rig->ranks <= 8 ? 8 : 16;
	char name[64];

	snprintf(name, sizeof(name), "oh__%s%s_%s_%s%d",
		 call->algorithm == RIG_STAGED && rig->ranks > 2 ? "two_" : "",
		 algorithms[call->algorithm], oh_dtype_name(call->dtype),
		 fast ? "" : "any", width);
	return !OH__CUDA(rig->cuda->cuModuleGetFunction(
		kernel, rig->rank[index].device->module, name));
}

static bool launch(struct rig *rig, int index, const struct rig_call *call,
		   unsigned blocks, unsigned threads,
		   struct oh__kernel_arguments *arguments)
{
	const struct rig_rank *rank = &rig->rank[index];
	/* kernels of ranks in host memory order their last stores by ending */
	CUlaunchAttribute early = {
		.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
		.value = {.programmaticStreamSerializationAllowed = 1},
	};
	CUlaunchConfig config = {
		.gridDimX = blocks,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = threads,
		.blockDimY = 1,
		.blockDimZ = 1,
		.hStream = rank->stream,
		.attrs = &early,
		.numAttrs = rig->placement == RIG_VRAM,
	};
	void *parameters[] = {arguments};
	CUfunction kernel;

	return enter(rig, rank->device) &&
	       find_kernel(rig, index, call, &kernel) &&
	       !OH__CUDA(rig->cuda->cuLaunchKernelEx(&config, kernel,
						     parameters, NULL));
}

bool rig_launch(struct rig *rig, const struct rig_call *call)
{
	for (int i = 0; i < rig->ranks; i++) {
		struct oh__kernel_arguments arguments;

		if (call->absent >> i & 1)
			continue;
		rig_fill_arguments(rig, i, call, &arguments);
		if (!launch(rig, i, call, rig->blocks, rig->threads,
			    &arguments))
			return false;
	}
	return true;
}

bool rig_launch_nothing(struct rig *rig, const struct rig_call *call)
{
	for (int i = 0; i < rig->ranks; i++) {
		struct oh__kernel_arguments nothing = {
			.epoch = (uint32_t *)rig->rank[i].epoch,
		};

		if (!launch(rig, i, call, 1, 32, &nothing))
			return false;
	}
	return true;
}

bool rig_wait(struct rig *rig)
{
	for (int i = 0; i < rig->ranks; i++)
		if (!enter(rig, rig->rank[i].device) ||
		    OH__CUDA(rig->cuda->cuStreamSynchronize(
			    rig->rank[i].stream)))
			return false;
	return true;
}

bool rig_is_busy(struct rig *rig)
{
	bool busy = false;

	for (int i = 0; i < rig->ranks; i++)
		busy |= enter(rig, rig->rank[i].device) &&
			rig->cuda->cuStreamQuery(rig->rank[i].stream) ==
				CUDA_ERROR_NOT_READY;
	return busy;
}

/* A kernel that is no all-reduce, to its end. */
static bool run_beside(struct rig *rig, int index, const char *name,
		       unsigned blocks, unsigned threads, void *arguments)
{
	const struct rig_rank *rank = &rig->rank[index];
	CUlaunchConfig config = {
		.gridDimX = blocks,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = threads,
		.blockDimY = 1,
		.blockDimZ = 1,
		.hStream = rank->beside,
	};
	void *parameters[] = {arguments};
	CUfunction kernel;

	return enter(rig, rank->device) &&
	       !OH__CUDA(rig->cuda->cuModuleGetFunction(
		       &kernel, rank->device->module, name)) &&
	       !OH__CUDA(rig->cuda->cuLaunchKernelEx(&config, kernel,
						     parameters, NULL)) &&
	       !OH__CUDA(rig->cuda->cuStreamSynchronize(rank->beside));
}

bool rig_release(struct rig *rig, int index, const struct rig_call *call,
		 uint32_t gone)
{
	for (int k = -1; k < rig->ranks; k++) {
		struct oh__release_arguments c;

		if (k >= 0 && !(gone >> k & 1))
			continue;
		rig_fill_release(rig, index, call, k, &c);
		if (!run_beside(rig, index, "oh__release", 64,
				OH__RELEASE_THREADS, &c))
			return false;
	}
	return true;
}

bool rig_check(struct rig *rig, uint32_t nonce, uint32_t skipped)
{
	for (int n = 0; n < 2 * rig->ranks; n++) {
		int index = n % rig->ranks;
		struct oh__check_arguments c;

		rig_fill_check(rig, index, nonce, skipped, &c);
		if (!run_beside(rig, index,
				n < rig->ranks ? "oh__check_write"
					       : "oh__check_read",
				(unsigned)rig->ranks, OH__CHECK_THREADS, &c))
			return false;
	}
	return true;
}

uint64_t rig_now_ns(void)
{
	return oh__now_ns();
}

bool rig_put(struct rig *rig, int rank, size_t at, const void *data,
	     size_t bytes)
{
	return enter(rig, rig->rank[rank].device) &&
	       !OH__CUDA(rig->cuda->cuMemcpyHtoD_v2(rig->rank[rank].send + at,
						    data, bytes));
}

bool rig_get(struct rig *rig, int rank, const struct rig_call *call, void *data)
{
	return enter(rig, rig->rank[rank].device) &&
	       !OH__CUDA(rig->cuda->cuMemcpyDtoH_v2(
		       data, rig_result(rig, rank, call), call->bytes));
}

bool rig_set_epochs(struct rig *rig, uint32_t epoch)
{
	for (int i = 0; i < rig->ranks; i++)
		if (!enter(rig, rig->rank[i].device) ||
		    OH__CUDA(rig->cuda->cuMemsetD32Async(
			    rig->rank[i].epoch, epoch, RIG_EPOCH_BYTES / 4,
			    rig->rank[i].stream)))
			return false;
	return true;
}
