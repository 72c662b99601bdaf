/* SPDX-License-Identifier: MIT */
#include "gpu/check.h"

#include <string.h>

#include "base/error.h"

static enum oh_status run(struct oh__gpu *gpu, CUfunction kernel,
			  const struct oh__gpu_areas *areas,
			  uint64_t deadline_ns)
{
	struct oh__check_arguments arguments = {
		.rank = (uint32_t)gpu->rank,
		.nonce = areas->nonce,
		.own = (void *)areas->own,
		.result = (void *)(gpu->host_device +
				   offsetof(struct oh__gpu_host, result)),
	};
	void *parameters[] = {&arguments};
	CUlaunchConfig config = {
		.gridDimX = (unsigned)gpu->ranks,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = OH__CHECK_THREADS,
		.blockDimY = 1,
		.blockDimZ = 1,
		.hStream = gpu->device.stream,
	};
	enum oh_status status;

	for (int i = 0; i < gpu->ranks; i++)
		arguments.peer[i] = (void *)areas->peer[i];
	status = OH__CUDA(gpu->device.cuda->cuLaunchKernelEx(&config, kernel,
							     parameters, NULL));
	if (status)
		return status;
	return oh__gpu_wait(&gpu->device, deadline_ns,
			    "the check of its peers' memory");
}

enum oh_status oh__gpu_check_write(struct oh__gpu *gpu,
				   const struct oh__gpu_areas *areas,
				   uint64_t deadline_ns)
{
	return run(gpu, gpu->device.check_write, areas, deadline_ns);
}

enum oh_status oh__gpu_check_read(struct oh__gpu *gpu,
				  const struct oh__gpu_areas *areas,
				  uint64_t deadline_ns, struct oh__gpu_row *row)
{
	enum oh_status status;

	memset(gpu->host->result, 0, sizeof(gpu->host->result));
	status = run(gpu, gpu->device.check_read, areas, deadline_ns);
	for (int i = 0; i < gpu->ranks && !status; i++) {
		const struct oh__check_result *result = &gpu->host->result[i];
		struct oh__gpu_way *way = &row->way[i];

		if (i == gpu->rank)
			continue;
		if (result->nonce != areas->nonce)
			return OH__FAIL(OH_ERR_SYSTEM,
					"the kernel that checks rank %d's "
					"memory left no answer",
					i);
		way->wrong_stored = result->wrong_stored;
	}
	return status;
}
