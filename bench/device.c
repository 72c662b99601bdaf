/* SPDX-License-Identifier: MIT */
#include "bench/device.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "kernels/image.h"
#include "vendor/cuda.h"
#include "vendor/library.h"
#include "vendor/nvml.h"

/* Absent is fine. */
static void read_driver(struct bench_gpus *gpus)
{
	const struct oh__nvml *nvml;

	if (oh__nvml_load(&nvml) || !nvml->nvmlSystemGetDriverVersion ||
	    nvml->nvmlInit_v2())
		return;
	if (nvml->nvmlSystemGetDriverVersion(gpus->driver,
					     sizeof(gpus->driver)))
		gpus->driver[0] = '\0';
	nvml->nvmlShutdown();
}

/* What only measurements call is optional in the table. */
static enum oh_status check_driver(const struct oh__cuda *cuda)
{
	if (cuda->cuEventElapsedTime && cuda->cuStreamBeginCapture_v2 &&
	    cuda->cuStreamEndCapture && cuda->cuGraphInstantiateWithFlags &&
	    cuda->cuGraphLaunch && cuda->cuGraphExecDestroy &&
	    cuda->cuGraphDestroy)
		return OH_OK;
	return OH__FAIL(OH_ERR_UNSUPPORTED,
			"this driver has no graphs; install one of CUDA 12 or "
			"later");
}

static enum oh_status read_gpus(struct bench_gpus *gpus)
{
	const struct oh__cuda *cuda;
	enum oh_status status = oh__cuda_load(&cuda);
	int version = 0;

	if (!status)
		status = OH__CUDA(cuda->cuDeviceGetCount(&gpus->count));
	if (!status)
		status = OH__CUDA(cuda->cuDriverGetVersion(&version));
	if (!status)
		status = check_driver(cuda);
	if (status)
		return status;
	snprintf(gpus->cuda, sizeof(gpus->cuda), "%d.%d", version / 1000,
		 version % 1000 / 10);
	if (gpus->count > BENCH_GPUS_MAX)
		gpus->count = BENCH_GPUS_MAX;
	for (int i = 0; i < gpus->count && !status; i++)
		status = OH__CUDA(cuda->cuDeviceGetName(
			gpus->name[i], sizeof(gpus->name[i]) - 1, i));
	return status;
}

enum oh_status bench_gpus_find(struct bench_gpus *gpus, char *reason,
			       size_t room)
{
	enum oh_status status;

	memset(gpus, 0, sizeof(*gpus));
	if (!oh__kernels_image_bytes) {
		snprintf(reason, room,
			 "this build has no kernels for GPUs: install nvcc of "
			 "CUDA 12 or later and build it again");
		return OH_ERR_UNSUPPORTED;
	}
	status = read_gpus(gpus);
	if (!status && !gpus->count)
		status = oh__vendor_absent(
			"the driver shows no GPU: see nvidia-smi and "
			"CUDA_VISIBLE_DEVICES");
	if (status)
		snprintf(reason, room, "%s", oh_last_error()->message);
	else
		read_driver(gpus);
	return status;
}
