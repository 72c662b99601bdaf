/* SPDX-License-Identifier: MIT */
#include "bench/device.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "kernels/image.h"
#include "vendor/cuda.h"
#include "vendor/library.h"
#include "vendor/nvml.h"

void bench_driver_version(char *text, size_t room)
{
	const struct oh__nvml *nvml;

	*text = '\0';
	if (oh__nvml_load(&nvml) || !nvml->nvmlSystemGetDriverVersion ||
	    nvml->nvmlInit_v2())
		return;
	if (nvml->nvmlSystemGetDriverVersion(text, (unsigned)room))
		*text = '\0';
	nvml->nvmlShutdown();
}

void bench_cuda_version(int number, char *text, size_t room)
{
	*text = '\0';
	if (number)
		snprintf(text, room, "%d.%d", number / 1000,
			 number % 1000 / 10);
}

/* What only measurements call is optional in the table. */
static enum oh_status check_driver(const struct oh__cuda *cuda)
{
	if (cuda->cuEventElapsedTime && cuda->cuStreamBeginCapture_v2 &&
	    cuda->cuStreamEndCapture && cuda->cuGraphInstantiateWithFlags &&
	    cuda->cuGraphUpload && cuda->cuGraphLaunch &&
	    cuda->cuGraphExecDestroy && cuda->cuGraphDestroy)
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
	bench_cuda_version(version, gpus->cuda, sizeof(gpus->cuda));
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
		bench_driver_version(gpus->driver, sizeof(gpus->driver));
	return status;
}
