/* SPDX-License-Identifier: MIT */
#include "probe/gpu.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu/memory.h"
#include "kernels/image.h"

_Static_assert(PROBE_GPUS *OH__PROBE_ANSWER_BYTES <= GPU_FLAGS_AT &&
		       GPU_FLAGS_AT + PROBE_GPUS * GPU_FLAG_BYTES <=
			       GPU_DATA_AT,
	       "answers, flags and data lie apart");

bool gpu_note(struct probe_problem *problem, const struct oh__cuda *cuda,
	      CUresult code, const char *call)
{
	const char *name = NULL;

	if (problem->trouble)
		return false;
	if (!code)
		return true;
	problem->trouble = PROBE_FAILED;
	problem->code = (int)code;
	problem->call = call;
	if (cuda->cuGetErrorName(code, &name))
		name = NULL;
	snprintf(problem->code_name, sizeof(problem->code_name), "%s",
		 name ? name : "");
	return false;
}

bool gpu_enter(const struct gpu *gpu, struct probe_problem *problem)
{
	return GPU_CALL(problem, gpu, cuCtxSetCurrent, gpu->context);
}

static int attribute(const struct gpu *gpu, CUdevice_attribute which,
		     struct probe_problem *problem)
{
	int value = 0;

	GPU_CALL(problem, gpu, cuDeviceGetAttribute, &value, which,
		 gpu->device);
	return value;
}

bool gpu_identify(struct gpu *gpu, struct probe_gpu *facts)
{
	struct probe_problem *problem = &facts->problem;

	problem->step = "identifying it";
	facts->node = -1;
	GPU_CALL(problem, gpu, cuDeviceGet, &gpu->device, facts->ordinal);
	GPU_CALL(problem, gpu, cuDeviceGetPCIBusId, facts->address,
		 (int)sizeof(facts->address), gpu->device);
	GPU_CALL(problem, gpu, cuDeviceGetName, facts->name,
		 (int)sizeof(facts->name), gpu->device);
	facts->name[sizeof(facts->name) - 1] = '\0';
	facts->address[sizeof(facts->address) - 1] = '\0';
	for (char *at = facts->address; *at; at++)
		if (*at >= 'A' && *at <= 'F')
			*at = (char)(*at - 'A' + 'a');
	facts->capability =
		10 * attribute(gpu,
			       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
			       problem) +
		attribute(gpu, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
			  problem);
	facts->multiprocessors = attribute(
		gpu, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, problem);
	if (*facts->address)
		facts->node = oh__gpu_node_of(facts->address);
	return !problem->trouble;
}

/* A range of addresses for a handle, open to its owner and to this GPU. */
static CUresult map(const struct gpu *gpu, const struct gpu *owner,
		    CUdeviceptr *address, const char **call)
{
	const struct oh__cuda *cuda = gpu->cuda;
	CUmemAccessDesc access[] = {
		{{CU_MEM_LOCATION_TYPE_DEVICE, gpu->device},
		 CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
		/* a copy may be done by the engine of either */
		{{CU_MEM_LOCATION_TYPE_DEVICE, owner->device},
		 CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
	};
	CUdeviceptr at;
	CUresult code = cuda->cuMemAddressReserve(&at, owner->bytes, 0, 0, 0);

	*call = "cuMemAddressReserve";
	if (code)
		return code;
	*call = "cuMemMap";
	code = cuda->cuMemMap(at, owner->bytes, 0, owner->handle, 0);
	if (code)
		goto err_free;
	*call = "cuMemSetAccess";
	code = cuda->cuMemSetAccess(at, owner->bytes, access,
				    gpu == owner ? 1 : 2);
	if (code)
		goto err_unmap;
	*address = at;
	return CUDA_SUCCESS;
err_unmap:
	cuda->cuMemUnmap(at, owner->bytes);
err_free:
	cuda->cuMemAddressFree(at, owner->bytes);
	return code;
}

CUresult gpu_reach(struct gpu *gpu, const struct gpu *owner, const char **call)
{
	return map(gpu, owner, &gpu->seen[owner->index], call);
}

bool gpu_reach_host(struct gpu *gpu, const struct gpu *owner,
		    struct probe_problem *problem)
{
	gpu_enter(gpu, problem);
	return GPU_CALL(problem, gpu, cuMemHostGetDevicePointer_v2,
			&gpu->host_seen[owner->index], owner->host, 0);
}

static bool make_memory(struct gpu *gpu, uint64_t bytes,
			struct probe_problem *problem)
{
	const CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, gpu->device},
	};
	size_t page = 1;
	const char *call;
	CUresult code;

	problem->step = "memory";
	if (!GPU_CALL(problem, gpu, cuMemGetAllocationGranularity, &page,
		      &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM))
		return false;
	gpu->bytes = (GPU_DATA_AT + 2 * (size_t)bytes + page - 1) / page * page;
	if (!GPU_CALL(problem, gpu, cuMemCreate, &gpu->handle, gpu->bytes,
		      &properties, 0))
		return false;
	code = gpu_reach(gpu, gpu, &call);
	return gpu_note(problem, gpu->cuda, code, call);
}

static bool make_host(struct gpu *gpu, uint64_t bytes, int node,
		      struct probe_problem *problem)
{
	void *address;

	problem->step = "host memory";
	gpu->host_bytes = GPU_DATA_AT + bytes;
	address = mmap(NULL, gpu->host_bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (address == MAP_FAILED)
		return gpu_note(problem, gpu->cuda, CUDA_ERROR_OUT_OF_MEMORY,
				"mmap");
	gpu->host = address;
	oh__gpu_place_near(gpu->host, gpu->host_bytes, node);
	memset(address, 0, gpu->host_bytes);
	gpu->registered = GPU_CALL(
		problem, gpu, cuMemHostRegister_v2, address, gpu->host_bytes,
		CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
	return gpu->registered && gpu_reach_host(gpu, gpu, problem);
}

/* All of them before the first runs: one that is loaded at its first launch
 * waits for the kernels that run. */
static bool load_kernels(struct gpu *gpu, struct probe_problem *problem)
{
	static const char *const names[GPU_KERNELS] = {
		[GPU_STORE] = "oh__probe_store", [GPU_LOAD] = "oh__probe_load",
		[GPU_COUNT] = "oh__probe_count", [GPU_PING] = "oh__probe_ping",
		[GPU_CHASE] = "oh__probe_chase",
	};

	problem->step = "the kernels";
	GPU_CALL(problem, gpu, cuModuleLoadData, &gpu->module,
		 oh__kernels_image);
	for (int i = 0; i < GPU_KERNELS; i++)
		GPU_CALL(problem, gpu, cuModuleGetFunction, &gpu->kernel[i],
			 gpu->module, names[i]);
	return !problem->trouble;
}

bool gpu_open(struct gpu *gpu, struct probe_gpu *facts, int partners,
	      uint64_t bytes, uint64_t host_bytes)
{
	struct probe_problem *problem = &facts->problem;

	problem->step = "a context";
	gpu->blocks = 2 * (unsigned)facts->multiprocessors;
	if (gpu->blocks > OH__PROBE_BLOCKS)
		gpu->blocks = OH__PROBE_BLOCKS;
	if (!GPU_CALL(problem, gpu, cuDevicePrimaryCtxRetain, &gpu->context,
		      gpu->device))
		return false;
	gpu_enter(gpu, problem);
	for (int i = 0; i < partners; i++)
		GPU_CALL(problem, gpu, cuStreamCreateWithPriority,
			 &gpu->stream[i], CU_STREAM_NON_BLOCKING, 0);
	gpu->open = !problem->trouble && load_kernels(gpu, problem) &&
		    make_memory(gpu, bytes, problem) &&
		    make_host(gpu, host_bytes, facts->node, problem);
	return gpu->open;
}

bool gpu_launch(const struct gpu *gpu, enum gpu_kernel kernel, unsigned blocks,
		CUstream stream, struct oh__probe_arguments *arguments,
		struct probe_problem *problem)
{
	bool alone = kernel == GPU_PING || kernel == GPU_CHASE;
	void *parameters[] = {arguments};
	CUlaunchConfig config = {
		.gridDimX = alone ? 1 : blocks,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = alone ? 1 : OH__PROBE_THREADS,
		.blockDimY = 1,
		.blockDimZ = 1,
		.hStream = stream,
	};

	return GPU_CALL(problem, gpu, cuLaunchKernelEx, &config,
			gpu->kernel[kernel], parameters, NULL);
}

static void unmap_all(struct gpu *gpu, const struct gpu *owners)
{
	for (int i = 0; i < PROBE_GPUS; i++)
		if (gpu->seen[i]) {
			gpu->cuda->cuMemUnmap(gpu->seen[i], owners[i].bytes);
			gpu->cuda->cuMemAddressFree(gpu->seen[i],
						    owners[i].bytes);
		}
}

void gpu_close(struct gpu *gpu)
{
	const struct oh__cuda *cuda = gpu->cuda;

	if (!gpu->context)
		return;
	cuda->cuCtxSetCurrent(gpu->context);
	/* its neighbours in the array */
	unmap_all(gpu, gpu - gpu->index);
	if (gpu->handle)
		cuda->cuMemRelease(gpu->handle);
	/* what stays registered must stay mapped */
	if (gpu->host &&
	    (!gpu->registered || !cuda->cuMemHostUnregister(gpu->host)))
		munmap(gpu->host, gpu->host_bytes);
	if (gpu->module)
		cuda->cuModuleUnload(gpu->module);
	for (int i = 0; i < PROBE_GPUS; i++)
		if (gpu->stream[i])
			cuda->cuStreamDestroy_v2(gpu->stream[i]);
	cuda->cuCtxSetCurrent(NULL);
	cuda->cuDevicePrimaryCtxRelease_v2(gpu->device);
}
