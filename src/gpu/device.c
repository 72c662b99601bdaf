/* SPDX-License-Identifier: MIT */
#include "gpu/device.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/rendezvous.h"
#include "kernels/image.h"

/* Between looks at a stream. */
#define NAP_NS 20000

static const char *const dtype_names[OH__GPU_DTYPES] = {
	[OH__GPU_F32] = "f32",
	[OH__GPU_F16] = "f16",
	[OH__GPU_BF16] = "bf16",
};

/* Not the process's number: two PID namespaces may have it twice. Drawn with
 * the driver started, which no child of a fork has, so none has the same. */
static pthread_once_t process_once = PTHREAD_ONCE_INIT;
static uint8_t process[sizeof(((struct oh__gpu_facts *)0)->process)];

int oh__gpu_dtype_of(enum oh_dtype dtype)
{
	switch (dtype) {
	case OH_F32:
		return OH__GPU_F32;
	case OH_F16:
		return OH__GPU_F16;
	case OH_BF16:
		return OH__GPU_BF16;
	default:
		return -1;
	}
}

enum oh_status oh__gpu_enter(const struct oh__gpu_device *device,
			     CUstreamCaptureMode *mode)
{
	enum oh_status status =
		OH__CUDA(device->cuda->cuCtxPushCurrent_v2(device->context));

	*mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	/* if it fails, what a capture forbids fails by itself */
	if (!status)
		device->cuda->cuThreadExchangeStreamCaptureMode(mode);
	return status;
}

void oh__gpu_leave(const struct oh__gpu_device *device,
		   CUstreamCaptureMode *mode)
{
	CUcontext popped;

	device->cuda->cuThreadExchangeStreamCaptureMode(mode);
	device->cuda->cuCtxPopCurrent_v2(&popped);
}

enum oh_status oh__gpu_wait(struct oh__gpu_device *device, uint64_t deadline_ns,
			    const char *what)
{
	struct timespec nap = {.tv_nsec = NAP_NS};
	/* making the context and loading kernels may have taken the time */
	uint64_t least = oh__now_ns() + OH__AGREE_MS * OH__NS_PER_MS;

	if (deadline_ns < least)
		deadline_ns = least;
	for (;;) {
		CUresult code = device->cuda->cuStreamQuery(device->stream);

		if (code != CUDA_ERROR_NOT_READY)
			return oh__cuda_check(code, "cuStreamQuery", __FILE__,
					      __LINE__);
		device->hangs = oh__now_ns() >= deadline_ns;
		if (device->hangs)
			return OH__FAIL(OH_ERR_TIMEOUT,
					"the GPU did not finish %s before the "
					"deadline: it hangs, or other work "
					"keeps it busy",
					what);
		nanosleep(&nap, NULL);
	}
}

static int attribute(const struct oh__gpu_device *d, CUdevice_attribute which)
{
	int value = 0;

	if (d->cuda->cuDeviceGetAttribute(&value, which, d->device))
		return 0;
	return value;
}

enum oh__gpu_share oh__gpu_share_of(const struct oh__gpu_device *d,
				    enum oh__gpu_share wanted)
{
	bool exports =
		attribute(
			d,
			CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) &&
		attribute(
			d,
			CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);

	if (wanted == OH__GPU_SHARE_AUTO)
		return exports ? OH__GPU_SHARE_DESCRIPTOR : OH__GPU_SHARE_IPC;
	if (wanted == OH__GPU_SHARE_DESCRIPTOR && !exports)
		return OH__GPU_SHARE_NONE;
	return wanted;
}

/* If it fails, ranks of such processes pass for those of one, which costs them
 * CUDA IPC and is safe. */
static void draw_process(void)
{
	if (getrandom(process, sizeof(process), 0) != sizeof(process))
		oh__log(OH_LOG_INFO, "no random bytes for a process");
}

static enum oh_status read_facts(const struct oh__gpu_device *d,
				 struct oh__gpu_facts *facts)
{
	CUuuid uuid;
	enum oh_status status =
		OH__CUDA(d->cuda->cuDeviceGetUuid_v2(&uuid, d->device));

	if (!status)
		status = OH__CUDA(d->cuda->cuDeviceGetPCIBusId(
			facts->address, sizeof(facts->address), d->device));
	if (!status)
		status = OH__CUDA(d->cuda->cuDeviceGetName(
			facts->name, sizeof(facts->name), d->device));
	if (status)
		return status;
	facts->name[sizeof(facts->name) - 1] = '\0';
	memcpy(facts->uuid, uuid.bytes, sizeof(facts->uuid));
	facts->major = (uint32_t)attribute(
		d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
	facts->minor = (uint32_t)attribute(
		d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
	facts->multiprocessors = (uint32_t)attribute(
		d, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	if (!facts->multiprocessors)
		return OH__FAIL(OH_ERR_SYSTEM,
				"the driver does not say how many "
				"multiprocessors %s (%s) has",
				facts->name, facts->address);
	pthread_once(&process_once, draw_process);
	memcpy(facts->process, process, sizeof(facts->process));
	facts->present = 1;
	return OH_OK;
}

static enum oh_status find_kernel(struct oh__gpu_device *d,
				  enum oh__gpu_algorithm algorithm, int dtype,
				  const char *kind, CUfunction *kernel)
{
	static const char *const algorithms[OH__GPU_ALGORITHMS] = {
		[OH__GPU_FLAGGED] = "flagged",
		[OH__GPU_ONE_SHOT] = "one_shot",
		[OH__GPU_TWO_SHOT] = "two_shot",
		[OH__GPU_STAGED] = "staged",
		[OH__GPU_TWO_STAGED] = "two_staged",
	};
	enum oh_status status;
	char name[64];
	int made_for;

	snprintf(name, sizeof(name), "oh__%s_%s_%s", algorithms[algorithm],
		 dtype_names[dtype], kind);
	status =
		OH__CUDA(d->cuda->cuModuleGetFunction(kernel, d->module, name));
	if (!status)
		status = OH__CUDA(d->cuda->cuFuncGetAttribute(
			&made_for, CU_FUNC_ATTRIBUTE_PTX_VERSION, *kernel));
	if (!status && (!d->made_for || made_for < d->made_for))
		d->made_for = made_for;
	return status;
}

/* Kernels for so many ranks: the least that serves for any number up to 16. */
static int width_of(int ranks)
{
	return ranks <= 4 ? ranks : ranks <= 8 ? 8 : OH__KERNEL_RANKS;
}

/* Both kinds of an algorithm's kernels, if it is for so many ranks. */
static enum oh_status find_pair(struct oh__gpu_device *d, int algorithm,
				int dtype, int ranks)
{
	char kind[16];
	enum oh_status status;

	if (algorithm == (ranks == 2 ? OH__GPU_TWO_STAGED : OH__GPU_STAGED))
		return OH_OK;
	snprintf(kind, sizeof(kind), "any%d", width_of(ranks));
	status = find_kernel(d, (enum oh__gpu_algorithm)algorithm, dtype, kind,
			     &d->any[algorithm][dtype]);
	if (status || width_of(ranks) != ranks || ranks == OH__KERNEL_RANKS)
		return status;
	snprintf(kind, sizeof(kind), "%d", ranks);
	return find_kernel(d, (enum oh__gpu_algorithm)algorithm, dtype, kind,
			   &d->fast[algorithm][dtype]);
}

static enum oh_status find_kernels(struct oh__gpu_device *d, int ranks)
{
	const struct {
		const char *name;
		CUfunction *kernel;
	} others[] = {
		{"oh__check_write", &d->check_write},
		{"oh__check_read", &d->check_read},
		{"oh__release", &d->release},
	};
	enum oh_status status = OH_OK;

	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (!status)
			status = OH__CUDA(d->cuda->cuModuleGetFunction(
				others[i].kernel, d->module, others[i].name));
	for (int a = 0; a < OH__GPU_ALGORITHMS; a++)
		for (int t = 0; t < OH__GPU_DTYPES && !status; t++)
			status = find_pair(d, a, t, ranks);
	return status;
}

static enum oh_status load_module(struct oh__gpu_device *d,
				  const struct oh__gpu_facts *facts)
{
	CUresult code =
		d->cuda->cuModuleLoadData(&d->module, oh__kernels_image);

	if (code == CUDA_ERROR_NO_BINARY_FOR_GPU)
		return OH__FAIL(OH_ERR_UNSUPPORTED,
				"this build has no kernels for %s (%s, compute "
				"capability %u.%u): it was built by a CUDA "
				"toolkit that does not know it, or for other "
				"architectures (make CUDA_ARCHS=...)",
				facts->name, facts->address, facts->major,
				facts->minor);
	return oh__cuda_check(code, "cuModuleLoadData", __FILE__, __LINE__);
}

static enum oh_status open_context(struct oh__gpu_device *d, int ranks,
				   struct oh__gpu_facts *facts)
{
	CUstreamCaptureMode mode;
	enum oh_status status = OH__CUDA(
		d->cuda->cuDevicePrimaryCtxRetain(&d->context, d->device));

	/* what one rank calls is a copy, which needs no more */
	if (status || ranks == 1)
		return status;
	status = oh__gpu_enter(d, &mode);
	if (status)
		return status;
	/* before whatever waits for a place; the driver knows its own highest
	 */
	status = OH__CUDA(d->cuda->cuStreamCreateWithPriority(
		&d->stream, CU_STREAM_NON_BLOCKING, INT_MIN));
	if (!status)
		status = load_module(d, facts);
	if (!status)
		status = find_kernels(d, ranks);
	oh__gpu_leave(d, &mode);
	return status;
}

static enum oh_status absent(struct oh__gpu_facts *facts, const char *why)
{
	snprintf(facts->why_not, sizeof(facts->why_not), "%.*s",
		 (int)sizeof(facts->why_not) - 1, why);
	return OH_OK;
}

/* The device of the thread's current context; -1 if there is none. */
static int current_device(const struct oh__cuda *cuda)
{
	CUdevice device;

	return cuda->cuCtxGetDevice(&device) ? -1 : device;
}

bool oh__gpu_share_gpu(const struct oh__gpu_facts *one,
		       const struct oh__gpu_facts *other)
{
	return !memcmp(one->uuid, other->uuid, sizeof(one->uuid));
}

bool oh__gpu_share_process(const struct oh__gpu_facts *one,
			   const struct oh__gpu_facts *other)
{
	return !memcmp(one->process, other->process, sizeof(one->process));
}

bool oh__gpu_is_wanted(const int *wanted)
{
	CUcontext context;

	return wanted || (oh__cuda_started(&context) && context);
}

/* d->device; absent if the caller has named none and has none. */
static enum oh_status pick_device(struct oh__gpu_device *d, const int *wanted,
				  int ranks, struct oh__gpu_facts *facts)
{
	enum oh_status status;
	int count;

	if (!oh__gpu_is_wanted(wanted))
		return absent(facts, "no CUDA context is current in the thread "
				     "that made the communicator, and its "
				     "options name no device");
	if (!oh__kernels_image_bytes && ranks > 1)
		return wanted ? OH__FAIL(OH_ERR_UNSUPPORTED,
					 "this library was built without nvcc "
					 "and has no kernels: ranks on GPU "
					 "memory need a build with it")
			      : absent(facts, "this library was built without "
					      "nvcc and has no kernels");
	status = oh__cuda_load(&d->cuda);
	if (!status)
		status = OH__CUDA(d->cuda->cuDeviceGetCount(&count));
	if (status)
		return status;
	facts->ordinal = wanted ? *wanted : current_device(d->cuda);
	if (facts->ordinal < 0 || facts->ordinal >= count)
		return OH__FAIL(OH_ERR_INVALID,
				"device is %d, this process sees %d (see "
				"CUDA_VISIBLE_DEVICES)",
				facts->ordinal, count);
	status = OH__CUDA(d->cuda->cuDeviceGet(&d->device, facts->ordinal));
	return status ? status : read_facts(d, facts);
}

enum oh_status oh__gpu_device_open(struct oh__gpu_device *d, const int *wanted,
				   int ranks, struct oh__gpu_facts *facts)
{
	enum oh_status status;

	memset(d, 0, sizeof(*d));
	memset(facts, 0, sizeof(*facts));
	status = pick_device(d, wanted, ranks, facts);
	if (!status && facts->present)
		status = open_context(d, ranks, facts);
	if (status || !facts->present)
		oh__gpu_device_close(d);
	if (!status || wanted)
		return status;
	/* the context that is current may be there for other things */
	facts->present = 0;
	return absent(facts, oh_last_error()->message);
}

void oh__gpu_device_close(struct oh__gpu_device *d)
{
	CUstreamCaptureMode mode;

	if (d->hangs) {
		memset(d, 0, sizeof(*d));
		return;
	}
	if (d->context && !oh__gpu_enter(d, &mode)) {
		if (d->module)
			d->cuda->cuModuleUnload(d->module);
		if (d->stream)
			d->cuda->cuStreamDestroy_v2(d->stream);
		oh__gpu_leave(d, &mode);
	}
	if (d->context)
		d->cuda->cuDevicePrimaryCtxRelease_v2(d->device);
	memset(d, 0, sizeof(*d));
}
