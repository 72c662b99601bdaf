/* SPDX-License-Identifier: MIT */
#include "bench/device_memory.h"

#include <stdio.h>

#include "base/error.h"

enum oh_status bench_device_alloc(const struct oh__cuda *cuda, size_t bytes,
				  CUdeviceptr *memory)
{
	CUresult code = cuda->cuMemAlloc_v2(memory, bytes);
	char left[48] = "";
	size_t unused, total;

	if (code != CUDA_ERROR_OUT_OF_MEMORY)
		return oh__cuda_check(code, "cuMemAlloc_v2", __FILE__,
				      __LINE__);
	if (!cuda->cuMemGetInfo_v2(&unused, &total))
		snprintf(left, sizeof(left), ", of which %zu MiB are free",
			 unused >> 20);
	return OH__FAIL(OH_ERR_NO_MEMORY,
			"cuMemAlloc_v2 failed, code %u: buffers need %zu MiB "
			"of GPU memory%s; give smaller --sizes or -e, or end "
			"what else uses the GPU (nvidia-smi shows it)",
			code, (bytes + (1u << 20) - 1) >> 20, left);
}
