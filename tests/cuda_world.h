/* SPDX-License-Identifier: MIT */
/*
 * One of everything that the CUDA driver gives out, built with each function
 * of the table at least once, and taken down again whatever was reached.
 */
#ifndef OH_TESTS_CUDA_WORLD_H
#define OH_TESTS_CUDA_WORLD_H

#include <stdlib.h>
#include <unistd.h>

#include "vendor/cuda.h"

#define WORLD_BYTES ((size_t)2 << 20)

struct cuda_world {
	const struct oh__cuda *cuda;
	bool retained, captured;
	CUcontext context;
	CUmodule module;
	CUfunction function;
	CUstream stream;
	CUevent event[2];
	CUdeviceptr memory, space, mapped;
	CUmemGenericAllocationHandle handle, import;
	int fd;
	void *host, *registered;
	CUgraph graph;
	CUgraphExec executable;
};

/* Returns the first failure from the function it is in. */
#define TRY(call)                                                              \
	do {                                                                   \
		CUresult code_ = (call);                                       \
		if (code_)                                                     \
			return code_;                                          \
	} while (0)

static inline CUresult world_device(struct cuda_world *w)
{
	const struct oh__cuda *cuda = w->cuda;
	const char *text;
	char name[64];
	CUdevice device;
	CUresult code;
	CUuuid uuid;
	int value;

	TRY(cuda->cuInit(0));
	TRY(cuda->cuDriverGetVersion(&value));
	TRY(cuda->cuGetErrorName(CUDA_SUCCESS, &text));
	TRY(cuda->cuGetErrorString(CUDA_SUCCESS, &text));
	TRY(cuda->cuDeviceGetCount(&value));
	TRY(cuda->cuDeviceGet(&device, 0));
	TRY(cuda->cuDeviceGetName(name, sizeof(name), device));
	TRY(cuda->cuDeviceGetUuid_v2(&uuid, device));
	TRY(cuda->cuDeviceGetPCIBusId(name, sizeof(name), device));
	TRY(cuda->cuDeviceGetAttribute(
		&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
	TRY(cuda->cuDeviceCanAccessPeer(&value, device, 1));
	TRY(cuda->cuDeviceGetP2PAttribute(
		&value, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, device, 1));
	TRY(cuda->cuDevicePrimaryCtxRetain(&w->context, device));
	w->retained = true;
	TRY(cuda->cuCtxSetCurrent(w->context));
	TRY(cuda->cuCtxPushCurrent_v2(w->context));
	TRY(cuda->cuCtxPopCurrent_v2(&w->context));
	TRY(cuda->cuCtxGetCurrent(&w->context));
	TRY(cuda->cuCtxGetDevice(&device));
	/* a context is no peer of its own */
	code = cuda->cuCtxEnablePeerAccess(w->context, 0);
	if (code != CUDA_ERROR_INVALID_CONTEXT)
		return code ? code : CUDA_ERROR_UNKNOWN;
	return cuda->cuCtxSynchronize();
}

static inline CUresult world_memory(struct cuda_world *w)
{
	const struct oh__cuda *cuda = w->cuda;
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
	size_t free_bytes, total;
	CUdeviceptr pointer;
	CUmemorytype type;
	void *value = &type;
	unsigned word = 5;

	TRY(cuda->cuMemGetInfo_v2(&free_bytes, &total));
	TRY(cuda->cuMemAlloc_v2(&w->memory, 4096));
	TRY(cuda->cuMemHostAlloc(&w->host, 4096, CU_MEMHOSTALLOC_PORTABLE));
	w->registered = aligned_alloc(4096, 4096);
	if (!w->registered)
		return CUDA_ERROR_OUT_OF_MEMORY;
	TRY(cuda->cuMemHostRegister_v2(w->registered, 4096,
				       CU_MEMHOSTREGISTER_DEVICEMAP));
	TRY(cuda->cuMemHostGetDevicePointer_v2(&pointer, w->registered, 0));
	TRY(cuda->cuMemHostUnregister(w->registered));
	TRY(cuda->cuPointerGetAttributes(1, &attribute, &value, w->memory));
	TRY(cuda->cuMemcpyHtoD_v2(w->memory, &word, sizeof(word)));
	return cuda->cuMemcpyDtoH_v2(&word, w->memory, sizeof(word));
}

static inline CUresult world_sharing(struct cuda_world *w)
{
	const struct oh__cuda *cuda = w->cuda;
	const CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes =
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
	};
	const CUmemAccessDesc access = {properties.location,
					CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr pointer;
	CUipcMemHandle ipc;
	CUresult code;
	size_t unit;

	TRY(cuda->cuMemGetAllocationGranularity(
		&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	TRY(cuda->cuMemCreate(&w->handle, WORLD_BYTES, &properties, 0));
	TRY(cuda->cuMemExportToShareableHandle(
		&w->fd, w->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		0));
	TRY(cuda->cuMemImportFromShareableHandle(
		&w->import, (void *)(intptr_t)w->fd,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	TRY(cuda->cuMemAddressReserve(&w->space, WORLD_BYTES, 0, 0, 0));
	TRY(cuda->cuMemMap(w->space, WORLD_BYTES, 0, w->import, 0));
	w->mapped = w->space;
	TRY(cuda->cuMemSetAccess(w->space, WORLD_BYTES, &access, 1));
	TRY(cuda->cuIpcGetMemHandle(&ipc, w->memory));
	/* its own process cannot open it */
	code = cuda->cuIpcOpenMemHandle_v2(&pointer, ipc,
					   CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	if (code != CUDA_ERROR_INVALID_CONTEXT)
		return code ? code : CUDA_ERROR_UNKNOWN;
	code = cuda->cuIpcCloseMemHandle(w->memory);
	return code == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : code;
}

static inline CUresult world_kernel(struct cuda_world *w)
{
	const struct oh__cuda *cuda = w->cuda;
	const CUlaunchConfig config = {1, 1, 1,		32,   1,
				       1, 0, w->stream, NULL, 0};
	int value;

	TRY(cuda->cuModuleLoadData(&w->module, "image"));
	TRY(cuda->cuModuleGetFunction(&w->function, w->module, "kernel"));
	TRY(cuda->cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS,
				     w->function));
	TRY(cuda->cuFuncSetAttribute(
		w->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
		65536));
	TRY(cuda->cuOccupancyMaxActiveBlocksPerMultiprocessor(
		&value, w->function, 32, 0));
	TRY(cuda->cuLaunchKernelEx(&config, w->function, NULL, NULL));
	return cuda->cuLaunchKernel(w->function, 1, 1, 1, 32, 1, 1, 0,
				    w->stream, NULL, NULL);
}

static inline CUresult world_stream(struct cuda_world *w)
{
	const struct oh__cuda *cuda = w->cuda;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	CUstreamCaptureStatus status;
	CUcontext context;
	float ms;
	unsigned word;

	TRY(cuda->cuStreamCreateWithPriority(&w->stream, CU_STREAM_NON_BLOCKING,
					     0));
	TRY(world_kernel(w));
	TRY(cuda->cuMemcpyHtoDAsync_v2(w->memory, &word, 4, w->stream));
	TRY(cuda->cuMemcpyDtoHAsync_v2(&word, w->memory, 4, w->stream));
	TRY(cuda->cuMemcpyDtoDAsync_v2(w->memory + 8, w->memory, 4, w->stream));
	TRY(cuda->cuMemsetD8Async(w->memory, 1, 16, w->stream));
	TRY(cuda->cuMemsetD32Async(w->space, 1, 16, w->stream));
	for (int i = 0; i < 2; i++) {
		TRY(cuda->cuEventCreate(&w->event[i], CU_EVENT_DEFAULT));
		TRY(cuda->cuEventRecord(w->event[i], w->stream));
	}
	TRY(cuda->cuEventQuery(w->event[1]));
	TRY(cuda->cuEventElapsedTime(&ms, w->event[0], w->event[1]));
	TRY(cuda->cuStreamWaitEvent(w->stream, w->event[1], 0));
	TRY(cuda->cuStreamQuery(w->stream));
	TRY(cuda->cuStreamSynchronize(w->stream));
	TRY(cuda->cuStreamGetCtx(w->stream, &context));
	TRY(cuda->cuThreadExchangeStreamCaptureMode(&mode));
	return cuda->cuStreamIsCapturing(w->stream, &status);
}

static inline CUresult world_graph(struct cuda_world *w)
{
	const struct oh__cuda *cuda = w->cuda;
	CUstreamCaptureStatus status;

	TRY(cuda->cuStreamBeginCapture_v2(w->stream,
					  CU_STREAM_CAPTURE_MODE_GLOBAL));
	w->captured = true;
	TRY(cuda->cuStreamGetCaptureInfo_v2(w->stream, &status, NULL, NULL,
					    NULL, NULL));
	TRY(cuda->cuStreamGetCaptureInfo_v3(w->stream, &status, NULL, NULL,
					    NULL, NULL, NULL));
	TRY(cuda->cuStreamUpdateCaptureDependencies(
		w->stream, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
	TRY(cuda->cuStreamUpdateCaptureDependencies_v2(
		w->stream, NULL, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
	TRY(cuda->cuStreamEndCapture(w->stream, &w->graph));
	w->captured = false;
	TRY(cuda->cuGraphInstantiateWithFlags(&w->executable, w->graph, 0));
	TRY(cuda->cuGraphUpload(w->executable, w->stream));
	return cuda->cuGraphLaunch(w->executable, w->stream);
}

static inline CUresult world_build(struct cuda_world *w,
				   const struct oh__cuda *cuda)
{
	*w = (struct cuda_world){.cuda = cuda, .fd = -1};
	TRY(world_device(w));
	TRY(world_memory(w));
	TRY(world_sharing(w));
	TRY(world_stream(w));
	return world_graph(w);
}

/* A call of the end that fails is made once more: the first failure, or ok. */
#define UNDO(call)                                                             \
	do {                                                                   \
		CUresult code_ = (call);                                       \
		if (code_ && !*first)                                          \
			*first = code_;                                        \
		if (code_)                                                     \
			(void)(call);                                          \
	} while (0)

static inline void world_end_work(struct cuda_world *w, CUresult *first)
{
	const struct oh__cuda *cuda = w->cuda;

	if (w->captured)
		UNDO(cuda->cuStreamEndCapture(w->stream, &w->graph));
	if (w->executable)
		UNDO(cuda->cuGraphExecDestroy(w->executable));
	if (w->graph)
		UNDO(cuda->cuGraphDestroy(w->graph));
	for (int i = 0; i < 2; i++)
		if (w->event[i])
			UNDO(cuda->cuEventDestroy_v2(w->event[i]));
	if (w->module)
		UNDO(cuda->cuModuleUnload(w->module));
	if (w->stream)
		UNDO(cuda->cuStreamDestroy_v2(w->stream));
}

static inline void world_end_memory(struct cuda_world *w, CUresult *first)
{
	const struct oh__cuda *cuda = w->cuda;

	if (w->mapped)
		UNDO(cuda->cuMemUnmap(w->mapped, WORLD_BYTES));
	if (w->space)
		UNDO(cuda->cuMemAddressFree(w->space, WORLD_BYTES));
	if (w->import)
		UNDO(cuda->cuMemRelease(w->import));
	if (w->handle)
		UNDO(cuda->cuMemRelease(w->handle));
	if (w->fd >= 0)
		close(w->fd);
	if (w->host)
		UNDO(cuda->cuMemFreeHost(w->host));
	/* it may be registered still */
	if (w->registered)
		cuda->cuMemHostUnregister(w->registered);
	free(w->registered);
	if (w->memory)
		UNDO(cuda->cuMemFree_v2(w->memory));
}

/* The first failure of the end. */
static inline CUresult world_end(struct cuda_world *w)
{
	CUresult code = CUDA_SUCCESS, *first = &code;

	world_end_work(w, first);
	world_end_memory(w, first);
	w->cuda->cuCtxSetCurrent(NULL);
	w->cuda->cuCtxSetCurrent(NULL);
	if (w->retained)
		UNDO(w->cuda->cuDevicePrimaryCtxRelease_v2(0));
	return code;
}

#endif
