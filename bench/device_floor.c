/* SPDX-License-Identifier: MIT */
/*
 * Floors as a subject: a kernel that does nothing, and one in which the ranks
 * exchange flags (src/kernels/floor.cuh). The first is launched plainly; the
 * second as this library launches its own, so that it may be placed while the
 * one before works.
 *
 * All ranks are threads of this process. Flags lie in each rank's GPU memory if
 * all of this library's pairs meet there, else in host memory that all GPUs
 * have mapped. Where a rank's flags are is written under the lock
 * before it says that it is open, and read after all have said so.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "bench/device_subject.h"
#include "kernels/arguments.h"
#include "kernels/image.h"

#define LOOKS (1u << 22) /* some seconds */
#define FLAG_WORDS 32 /* a rank's: a line of its own */

struct floor {
	CUmodule module;
	CUfunction empty, flag, current;
	CUdeviceptr memory; /* state, then flags if they are here */
	uint32_t *late;
	bool early; /* launches may overlap */
	struct oh__floor_arguments arguments;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUdeviceptr flags[OH_MAX_RANKS];
static void *host_flags; /* of all ranks, if they are there */
static int users;

static int gpu_of(const struct bench_setup *setup, int rank)
{
	return setup->gpus > 0 ? rank % setup->gpus : 0;
}

/* The primary contexts stay retained: the process ends with the floor. */
static enum oh_status reach_peers(const struct bench_device_seat *seat)
{
	const struct oh__cuda *cuda = seat->cuda;
	CUcontext context;

	for (int i = 0; i < seat->setup->ranks; i++) {
		int gpu = gpu_of(seat->setup, i);
		enum oh_status status;
		CUresult code;

		if (gpu == seat->ordinal)
			continue;
		status =
			OH__CUDA(cuda->cuDevicePrimaryCtxRetain(&context, gpu));
		if (status)
			return status;
		code = cuda->cuCtxEnablePeerAccess(context, 0);
		if (code && code != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
			return oh__cuda_fail(code, "cuCtxEnablePeerAccess",
					     __FILE__, __LINE__);
	}
	return OH_OK;
}

static enum oh_status load_kernels(const struct bench_device_seat *seat,
				   struct floor *floor)
{
	const struct oh__cuda *cuda = seat->cuda;
	enum oh_status status;
	int made_for = 0;

	if (!oh__kernels_image_bytes)
		return OH__FAIL(OH_ERR_UNSUPPORTED,
				"this build has no kernels: it was made "
				"without nvcc");
	status = OH__CUDA(
		cuda->cuModuleLoadData(&floor->module, oh__kernels_image));
	if (!status)
		status = OH__CUDA(cuda->cuModuleGetFunction(
			&floor->empty, floor->module, "oh__floor_empty"));
	if (!status)
		status = OH__CUDA(cuda->cuModuleGetFunction(
			&floor->flag, floor->module, "oh__floor_flag"));
	if (!status)
		status = OH__CUDA(cuda->cuFuncGetAttribute(
			&made_for, CU_FUNC_ATTRIBUTE_PTX_VERSION, floor->flag));
	floor->early = made_for >= 90; /* as in gpu/engine.c */
	return status;
}

/* Under the lock, by the first rank. */
static enum oh_status take_host_flags(const struct oh__cuda *cuda)
{
	const size_t bytes = sizeof(uint32_t) * FLAG_WORDS * OH_MAX_RANKS;
	enum oh_status status = OH_OK;

	if (!host_flags)
		status = OH__CUDA(cuda->cuMemHostAlloc(
			&host_flags, bytes,
			CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	if (!status && !users)
		memset(host_flags, 0, bytes);
	return status;
}

static enum oh_status place_flags(struct bench_device_seat *seat, bool peers)
{
	struct floor *floor = seat->state;
	const int rank = seat->setup->rank;
	enum oh_status status = OH_OK;

	pthread_mutex_lock(&lock);
	if (!peers)
		status = take_host_flags(seat->cuda);
	if (!status)
		flags[rank] =
			peers ? floor->memory + FLAG_WORDS * sizeof(uint32_t)
			      : (uintptr_t)host_flags +
					(unsigned)rank * FLAG_WORDS *
						sizeof(uint32_t);
	users++;
	pthread_mutex_unlock(&lock);
	return status;
}

static enum oh_status take_words(const struct bench_device_seat *seat,
				 struct floor *floor)
{
	const struct oh__cuda *cuda = seat->cuda;
	const size_t words = 2 * FLAG_WORDS;
	void *late;
	enum oh_status status = OH__CUDA(
		cuda->cuMemAlloc_v2(&floor->memory, words * sizeof(uint32_t)));

	if (!status)
		status = OH__CUDA(
			cuda->cuMemsetD32Async(floor->memory, 0, words, NULL));
	if (!status)
		status = OH__CUDA(cuda->cuStreamSynchronize(NULL));
	if (!status)
		status = OH__CUDA(cuda->cuMemHostAlloc(
			&late, sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP));
	if (status)
		return status;
	floor->late = late;
	*floor->late = 0;
	return OH_OK;
}

static enum oh_status floor_open(struct bench_device_seat *seat,
				 struct bench_reply *reply)
{
	struct floor *floor = calloc(1, sizeof(*floor));
	bool peers = !seat->setup->by_host && seat->cuda->cuCtxEnablePeerAccess;
	enum oh_status status;

	if (!floor)
		return OH__FAIL(OH_ERR_NO_MEMORY, "no memory for %zu bytes",
				sizeof(*floor));
	seat->state = floor;
	status = load_kernels(seat, floor);
	if (!status && peers)
		status = reach_peers(seat);
	if (!status)
		status = take_words(seat, floor);
	if (!status)
		status = place_flags(seat, peers);
	snprintf(reply->about, sizeof(reply->about), "%s",
		 peers ? "GPU memory" : "host memory");
	return status;
}

static void floor_close(struct bench_device_seat *seat)
{
	struct floor *floor = seat->state;

	seat->cuda->cuMemFreeHost(floor->late);
	seat->cuda->cuMemFree_v2(floor->memory);
	seat->cuda->cuModuleUnload(floor->module);
	free(floor);
	pthread_mutex_lock(&lock);
	if (!--users && host_flags) {
		seat->cuda->cuMemFreeHost(host_flags);
		host_flags = NULL;
	}
	pthread_mutex_unlock(&lock);
}

static enum oh_status fill_arguments(const struct bench_device_seat *seat,
				     struct floor *floor)
{
	struct oh__floor_arguments *a = &floor->arguments;
	enum oh_status status;
	CUdeviceptr late;

	status = OH__CUDA(seat->cuda->cuMemHostGetDevicePointer_v2(
		&late, floor->late, 0));
	a->rank = (uint32_t)seat->setup->rank;
	a->ranks = (uint32_t)seat->setup->ranks;
	a->looks = LOOKS;
	a->state = (uint32_t *)floor->memory;
	a->late = (uint32_t *)late;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < seat->setup->ranks; i++)
		a->flags[i] = (uint32_t *)flags[i];
	pthread_mutex_unlock(&lock);
	return status;
}

static enum oh_status floor_prepare(struct bench_device_seat *seat,
				    const struct bench_command *command,
				    struct bench_reply *reply)
{
	struct floor *floor = seat->state;

	floor->current =
		command->kind == BENCH_FLOOR_FLAG ? floor->flag : floor->empty;
	return fill_arguments(seat, floor);
}

static enum oh_status floor_queue(struct bench_device_seat *seat,
				  const struct bench_device_call *call,
				  CUstream stream)
{
	struct floor *floor = seat->state;
	bool flag = floor->current == floor->flag;
	CUlaunchAttribute early = {
		.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
		.value = {.programmaticStreamSerializationAllowed = 1},
	};
	CUlaunchConfig config = {
		.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = OH__FLOOR_THREADS,
		.blockDimY = 1,
		.blockDimZ = 1,
		.hStream = stream,
		.attrs = &early,
		.numAttrs = flag && floor->early,
	};
	void *parameters[] = {&floor->arguments};

	return OH__CUDA(seat->cuda->cuLaunchKernelEx(
		&config, floor->current, flag ? parameters : NULL, NULL));
}

static enum oh_status floor_health(struct bench_device_seat *seat)
{
	const struct floor *floor = seat->state;
	uint32_t late = *(volatile uint32_t *)floor->late;

	if (!late)
		return OH_OK;
	return OH__FAIL(OH_ERR_SYSTEM,
			"the flag of rank %u has not come to rank %d: its GPU "
			"may reach this one's memory, says the driver, and "
			"does not; see onehop doctor --here, or measure with "
			"--forbid-peer all",
			late - 1, seat->setup->rank);
}

const struct bench_device_subject bench_device_floor = {
	.name = "floor",
	.open = floor_open,
	.close = floor_close,
	.prepare = floor_prepare,
	.queue = floor_queue,
	.health = floor_health,
};
