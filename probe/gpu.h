/* SPDX-License-Identifier: MIT */
/*
 * A GPU under the probe: its primary context, kernels, streams and memory. The
 * memory is the driver's VMM, mapped once for each GPU that is to reach it, as
 * a communicator's mailboxes are that are shared as descriptors: so a refusal
 * has a pair and a code. What ONEHOP_DEVICE_SHARE says does not change it.
 * cuMemAlloc and peer contexts would open whole contexts to each other.
 *
 * A GPU's memory begins with what is checked and flags, then come the bytes
 * that others load (out) and those into which they store (in). Host memory is
 * the process's own, near the GPU, and registered: answers of kernels, flags,
 * bytes.
 */
#ifndef OH_PROBE_GPU_H
#define OH_PROBE_GPU_H

#include <stddef.h>

#include "probe/probe.h"
#include "vendor/cuda.h"

enum gpu_kernel {
	GPU_STORE,
	GPU_LOAD,
	GPU_COUNT,
	GPU_PING,
	GPU_CHASE,
	GPU_KERNELS,
};

#define GPU_CHECK_BYTES 65536u
/* in GPU memory and in host memory, a line for each partner */
#define GPU_FLAGS_AT 65536u
#define GPU_FLAG_BYTES 256u
#define GPU_DATA_AT 131072u

struct gpu {
	const struct oh__cuda *cuda;
	int index; /* in struct probe */
	bool open;
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUfunction kernel[GPU_KERNELS];
	CUstream stream[PROBE_GPUS]; /* one for each partner, [index] its own */
	unsigned blocks; /* that fit at once */
	CUmemGenericAllocationHandle handle;
	size_t bytes; /* of the allocation */
	CUdeviceptr seen[PROBE_GPUS]; /* GPU k's memory for this one; 0 */
	char *host; /* NULL: none */
	size_t host_bytes;
	bool registered;
	CUdeviceptr host_seen[PROBE_GPUS]; /* GPU k's host memory; 0 */
	uint32_t seed; /* of the pattern that others load, if it is filled */
	bool filled;
};

/* Notes the first failure in the problem; true if the call and all before it
 * were fine. */
#define GPU_CALL(problem, gpu, function, ...)                                  \
	gpu_note((problem), (gpu)->cuda,                                       \
		 (problem)->trouble ? CUDA_SUCCESS                             \
				    : (gpu)->cuda->function(__VA_ARGS__),      \
		 #function)
bool gpu_note(struct probe_problem *problem, const struct oh__cuda *cuda,
	      CUresult code, const char *call);

/* The facts; false: the problem says why it cannot be used. */
bool gpu_identify(struct gpu *gpu, struct probe_gpu *facts);
/* Context, kernels and memory; what was reached is gpu_close's in any case.
 * partners: GPUs in all. */
bool gpu_open(struct gpu *gpu, struct probe_gpu *facts, int partners,
	      uint64_t bytes, uint64_t host_bytes);
/* Makes the owner's memory reachable; the driver's code, which is an answer. */
CUresult gpu_reach(struct gpu *gpu, const struct gpu *owner, const char **call);
/* The owner's host memory. */
bool gpu_reach_host(struct gpu *gpu, const struct gpu *owner,
		    struct probe_problem *problem);
/* After the last work of all GPUs. */
void gpu_close(struct gpu *gpu);

/* The context, for this thread. */
bool gpu_enter(const struct gpu *gpu, struct probe_problem *problem);
bool gpu_launch(const struct gpu *gpu, enum gpu_kernel kernel, unsigned blocks,
		CUstream stream, struct oh__probe_arguments *arguments,
		struct probe_problem *problem);

/* An answer's place, for a partner. */
static inline uint32_t *gpu_answer(const struct gpu *gpu, int partner)
{
	return (uint32_t *)(void *)(gpu->host +
				    (size_t)partner * OH__PROBE_ANSWER_BYTES);
}

static inline CUdeviceptr gpu_answer_seen(const struct gpu *gpu, int partner)
{
	return gpu->host_seen[gpu->index] +
	       (size_t)partner * OH__PROBE_ANSWER_BYTES;
}

#endif
