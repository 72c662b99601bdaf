/* SPDX-License-Identifier: MIT */
/*
 * How the CUDA driver is loaded, what becomes of its errors, and that each
 * function of the table works and can fail. The module that plays the driver
 * is fakecuda.c; other libraries take its place in processes of their own.
 */
#include <pthread.h>

#include "cuda_header.h"
#include "fakecuda.h"
#include "tap.h"
#include "cuda_world.h"
#include "vendor_check.h"

#define STUB "/usr/local/cuda/lib64/stubs/libcuda.so"

/* Two that reach each other, and one that reaches nobody. */
static const char script[] = "devices 3\n"
			     "version 12080\n"
			     "device * name NVIDIA Fake 7\n"
			     "device 1 uuid 00112233445566778899aabbccddeeff\n"
			     "device 1 pci 0000:C1:00.0\n"
			     "device 1 attribute 16 84\n"
			     "peer 0 1 1\n"
			     "peer 1 0 1\n"
			     "kernel kernel\n";

/* Before there is a driver, then one that does not start, then one that does.
 */

static void try_start(const char *more, enum oh_status expected,
		      const char *word, const char *what)
{
	const struct oh__cuda *cuda = NULL;
	enum oh_status status;

	fakecuda_play(script, more);
	loudest = OH_LOG_OFF;
	status = oh__cuda_load(&cuda);
	tap_ok(status == expected && !cuda && is_said(word) &&
		       oh_last_error()->status == expected &&
		       (loudest < OH_LOG_INFO) == (expected == OH_ERR_SYSTEM),
	       "%s", what);
}

static void try_starts(void)
{
	tap_ok(oh__cuda_fail(CUDA_ERROR_OUT_OF_MEMORY, "cuInit", __FILE__, 1) ==
			       OH_ERR_NO_MEMORY &&
		       !strcmp(oh_last_error()->message,
			       "cuInit failed, code 2"),
	       "without a table an error has its code only");
	try_start("devices 0\n", OH_ERR_UNSUPPORTED, "CUDA_ERROR_NO_DEVICE",
		  "a driver without a GPU is none, and no error");
	try_start("error cuInit 34\n", OH_ERR_UNSUPPORTED, "stub",
		  "the toolkit's stub is none, and no error");
	try_start("error cuInit 803\n", OH_ERR_SYSTEM,
		  "cuInit failed, code 803 CUDA_ERROR_SYSTEM_DRIVER_MISMATCH "
		  "(system driver mismatch)",
		  "a driver that does not start is an error");
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	try_start("", OH_ERR_UNSUPPORTED, "CUDA_VISIBLE_DEVICES",
		  "nor is one whose GPUs are hidden");
	unsetenv("CUDA_VISIBLE_DEVICES");
}

static void *load_in_thread(void *result)
{
	const struct oh__cuda **cuda = result;

	if (oh__cuda_load(cuda))
		*cuda = NULL;
	return NULL;
}

/* The table, after all that failed. */
static const struct oh__cuda *try_threads(void)
{
	enum {
		THREADS = 8
	};
	const struct oh__cuda *cuda[THREADS] = {NULL};
	pthread_t threads[THREADS];
	bool same = true;

	fakecuda_play(script, "");
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, load_in_thread, &cuda[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < THREADS; i++)
		same = same && cuda[i] && cuda[i] == cuda[0];
	tap_ok(same, "threads that load it at once get the same table");
	tap_ok(fakecuda_calls("cuInit") == 1, "and it is initialised once");
	if (!cuda[0])
		return NULL;
#define OH_CUDA(need, result, name, parameters)                                \
	same = same && cuda[0]->name != NULL;
#include "vendor/cuda.def"
	tap_ok(same, "all functions are there");
	return cuda[0];
}

/* Errors. */

static void try_errors(const struct oh__cuda *cuda)
{
	const struct oh_error *record = oh_last_error();
	const struct oh__cuda *const *table = &cuda;
	CUdevice device = -7;
	int line;

	loudest = OH_LOG_OFF;
	tap_ok(OH__CUDA(cuda->cuDeviceGet(&device, 0)) == OH_OK && !device &&
		       loudest == OH_LOG_OFF,
	       "a call that succeeds is ok and silent");
	line = __LINE__ + 1;
	tap_ok(OH__CUDA(cuda->cuDeviceGet(&device, 3)) == OH_ERR_SYSTEM &&
		       record->status == OH_ERR_SYSTEM && !device,
	       "one that fails is a system error");
	tap_ok(!strcmp(record->call, "cuDeviceGet") && record->code == 101 &&
		       !strcmp(record->code_name, "CUDA_ERROR_INVALID_DEVICE"),
	       "the record has the function, the code and its name");
	tap_ok(!strcmp(record->message,
		       "cuDeviceGet failed, code 101 CUDA_ERROR_INVALID_DEVICE "
		       "(invalid device)"),
	       "the message says all three");
	tap_ok(strstr(record->file, "test_cuda.c") && record->line == line &&
		       loudest == OH_LOG_ERROR,
	       "the place is recorded, and it is logged as an error");
	fakecuda_play(script, "error cuDeviceGetCount 2\n");
	cuda->cuInit(0);
	tap_ok(OH__CUDA((*table)->cuDeviceGetCount(&line)) ==
			       OH_ERR_NO_MEMORY &&
		       !strcmp(record->call, "cuDeviceGetCount") &&
		       is_said("CUDA_ERROR_OUT_OF_MEMORY (out of memory)"),
	       "want of memory has its own status");
	tap_ok(oh__cuda_fail(12345, "(odd) text", __FILE__, 1) ==
			       OH_ERR_SYSTEM &&
		       !strcmp(record->code_name, "") &&
		       !strcmp(record->message,
			       "(odd) text failed, code 12345"),
	       "a code without a name, of what is no call of the table");
}

/* Devices. */

static void try_devices(const struct oh__cuda *cuda)
{
	static const unsigned char uuid[16] = {
		0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
		0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
	char name[32], address[16];
	CUuuid seen;
	int version = 0, count = 0, value = 0;

	fakecuda_play(script, "");
	cuda->cuInit(0);
	tap_ok(!cuda->cuDriverGetVersion(&version) && version == 12080 &&
		       !cuda->cuDeviceGetCount(&count) && count == 3,
	       "version and number of devices");
	tap_ok(!cuda->cuDeviceGetName(name, sizeof(name), 2) &&
		       !strcmp(name, "NVIDIA Fake 7") &&
		       !cuda->cuDeviceGetPCIBusId(address, sizeof(address),
						  1) &&
		       !strcmp(address, "0000:C1:00.0") &&
		       !cuda->cuDeviceGetUuid_v2(&seen, 1) &&
		       !memcmp(seen.bytes, uuid, 16),
	       "name, address and UUID");
	tap_ok(!cuda->cuDeviceGetAttribute(
		       &value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1) &&
		       value == 84 &&
		       !cuda->cuDeviceGetAttribute(
			       &value,
			       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
			       0) &&
		       value == 9,
	       "attributes, of the script and usual ones");
	tap_ok(!cuda->cuDeviceCanAccessPeer(&value, 0, 1) && value == 1 &&
		       !cuda->cuDeviceCanAccessPeer(&value, 2, 1) && !value &&
		       !cuda->cuDeviceCanAccessPeer(&value, 0, 0) && !value &&
		       cuda->cuDeviceCanAccessPeer(&value, 0, 3) ==
			       CUDA_ERROR_INVALID_DEVICE,
	       "peers");
	setenv("CUDA_VISIBLE_DEVICES", "2,1,7,0", 1);
	cuda->cuInit(0);
	tap_ok(!cuda->cuDeviceGetCount(&count) && count == 2 &&
		       !cuda->cuDeviceGetPCIBusId(address, sizeof(address),
						  1) &&
		       !strcmp(address, "0000:C1:00.0"),
	       "CUDA_VISIBLE_DEVICES orders them and ends at what is none");
	unsetenv("CUDA_VISIBLE_DEVICES");
	cuda->cuInit(0);
}

/* Contexts. */

static void *see_none_then_second(void *argument)
{
	const struct oh__cuda *cuda = argument;
	CUcontext second = NULL, current = NULL;
	CUdevice device = -1;
	bool good;

	good = !cuda->cuCtxGetCurrent(&current) && !current &&
	       cuda->cuCtxGetDevice(&device) == CUDA_ERROR_INVALID_CONTEXT &&
	       !cuda->cuDevicePrimaryCtxRetain(&second, 1) &&
	       !cuda->cuCtxSetCurrent(second) &&
	       !cuda->cuCtxGetDevice(&device) && device == 1 &&
	       !cuda->cuDevicePrimaryCtxRelease_v2(1) &&
	       cuda->cuCtxSynchronize() == CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return good ? argument : NULL;
}

static void try_contexts(const struct oh__cuda *cuda)
{
	CUcontext first = NULL, same = NULL, second = NULL, seen = NULL;
	CUdevice device = -1;
	pthread_t thread;
	void *good = NULL;

	tap_ok(!cuda->cuDevicePrimaryCtxRetain(&first, 0) &&
		       !cuda->cuDevicePrimaryCtxRetain(&same, 0) &&
		       first == same && fakecuda_live("context") == 1,
	       "a device has one primary context");
	tap_ok(!cuda->cuCtxSetCurrent(first) && !cuda->cuCtxGetCurrent(&seen) &&
		       seen == first && !cuda->cuCtxGetDevice(&device) &&
		       !device,
	       "it is current when it is set");
	pthread_create(&thread, NULL, see_none_then_second,
		       (void *)(uintptr_t)cuda);
	pthread_join(thread, &good);
	tap_ok(good && !cuda->cuCtxGetCurrent(&seen) && seen == first,
	       "another thread has its own");
	cuda->cuDevicePrimaryCtxRetain(&second, 1);
	tap_ok(!cuda->cuCtxPushCurrent_v2(second) &&
		       !cuda->cuCtxGetDevice(&device) && device == 1 &&
		       !cuda->cuCtxPopCurrent_v2(&seen) && seen == second &&
		       !cuda->cuCtxGetDevice(&device) && !device,
	       "pushed and popped");
	tap_ok(!cuda->cuCtxSetCurrent(NULL) &&
		       cuda->cuCtxPopCurrent_v2(&seen) ==
			       CUDA_ERROR_INVALID_CONTEXT,
	       "none, when it is set to none");
	tap_ok(!cuda->cuDevicePrimaryCtxRelease_v2(1) &&
		       cuda->cuDevicePrimaryCtxRelease_v2(1) ==
			       CUDA_ERROR_INVALID_CONTEXT &&
		       cuda->cuCtxPushCurrent_v2(second) ==
			       CUDA_ERROR_INVALID_CONTEXT &&
		       !cuda->cuDevicePrimaryCtxRelease_v2(0) &&
		       fakecuda_live(NULL) == 1 &&
		       !cuda->cuDevicePrimaryCtxRelease_v2(0) &&
		       !fakecuda_live(NULL),
	       "the last release ends it");
}

/* Every function, once well and once badly. */

static CUresult play_world(const struct oh__cuda *cuda, const char *more)
{
	struct cuda_world world;
	CUresult code, end;

	fakecuda_play(script, more);
	code = world_build(&world, cuda);
	end = world_end(&world);
	return code ? code : end;
}

static void try_function(const struct oh__cuda *cuda, const char *name)
{
	char more[128];
	CUresult code;

	if (!fakecuda_calls(name)) {
		tap_ok(false, "%s is called", name);
		return;
	}
	/* a code that none of them gives by itself */
	snprintf(more, sizeof(more), "error %s 46 1\n", name);
	code = play_world(cuda, more);
	tap_ok(code == CUDA_ERROR_DEVICE_UNAVAILABLE && !fakecuda_live(NULL),
	       "%s fails as told, and nothing is left", name);
	/* the counts of the next check */
	play_world(cuda, "");
}

static void try_each_call(const struct oh__cuda *cuda)
{
	unsigned calls, wrong = 0, left = 0;

	play_world(cuda, "");
	calls = fakecuda_calls(NULL);
	for (unsigned k = 1; k <= calls; k++) {
		char more[64];
		CUresult code;

		snprintf(more, sizeof(more), "fail %u 719\n", k);
		code = play_world(cuda, more);
		left += fakecuda_live(NULL);
		wrong += code != CUDA_ERROR_LAUNCH_FAILED;
	}
	/* the world ignores 3: one unregistering, two settings of no context */
	tap_ok(calls > 70 && wrong == 3, "each of %u calls fails as told",
	       calls);
	tap_ok(!left, "and nothing is left after any");
}

static void try_functions(const struct oh__cuda *cuda)
{
	CUresult code = play_world(cuda, "");

	tap_ok(!code && !fakecuda_live(NULL),
	       "without a failure all works, and nothing is left");
	if (code)
		tap_note("code %u", code);
#define OH_CUDA(need, result, name, parameters) try_function(cuda, #name);
#include "vendor/cuda.def"
	try_each_call(cuda);
}

/* Other libraries in the driver's place. */

static int child_broken(void)
{
	const struct oh__cuda *cuda = NULL;

	return oh__cuda_load(&cuda) == OH_ERR_SYSTEM && !cuda &&
			       is_said("cuMemCreate") && loudest == OH_LOG_ERROR
		       ? 0
		       : 1;
}

static int child_garbage(void)
{
	const struct oh__cuda *cuda = NULL;

	return oh__cuda_load(&cuda) == OH_ERR_SYSTEM && !cuda &&
			       is_said("libcuda.so.1 cannot be loaded")
		       ? 0
		       : 1;
}

static int child_old(void)
{
	const struct oh__cuda *cuda = NULL;

	return !oh__cuda_load(&cuda) && !cuda->cuStreamGetCaptureInfo_v3 &&
			       cuda->cuStreamGetCaptureInfo_v2
		       ? 0
		       : 1;
}

static int child_none(void)
{
	const struct oh__cuda *cuda = NULL;
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);

	if (handle)
		return 77;
	return oh__cuda_load(&cuda) == OH_ERR_UNSUPPORTED && !cuda &&
			       loudest >= OH_LOG_INFO && is_said("libcuda.so.1")
		       ? 0
		       : 1;
}

/* The stub exports what drivers do. */
static int child_stub(void)
{
	void *handle = dlopen(STUB, RTLD_LAZY | RTLD_LOCAL);
	int missing = 0;

	if (!handle)
		return 77;
#define OH_CUDA(need, result, name, parameters)                                \
	if (!dlsym(handle, #name)) {                                           \
		tap_note("no %s", #name);                                      \
		missing++;                                                     \
	}
#include "vendor/cuda.def"
	return missing ? 1 : 0;
}

static const struct vendor_child children[] = {
	{"broken", child_broken, "fakecuda_broken.so",
	 "a driver without a function that is needed is an error", ""},
	{"old", child_old, "fakecuda_old.so",
	 "one without a newer function has NULL for it", ""},
	{"garbage", child_garbage, "test_cuda.p",
	 "a library that is none is an error that names it", ""},
	{"none", child_none, NULL, "without a driver: unsupported, no error",
	 "this machine has a driver"},
	{"stub", child_stub, NULL, "the toolkit's stub exports every name",
	 "there is no " STUB},
	{NULL, NULL, NULL, NULL, NULL}};

int main(int argc, char **argv)
{
	const char *differs, *why_not;
	const struct oh__cuda *cuda;

	fakecuda_start(argv);
	oh_set_log(OH_LOG_DEBUG, note_level, NULL);
	if (argc > 1)
		return vendor_child(children, argv[1]);
	differs = cuda_header_differs(&why_not);
	vendor_try_header(differs, why_not);
	try_starts();
	cuda = try_threads();
	if (cuda) {
		try_errors(cuda);
		try_devices(cuda);
		try_contexts(cuda);
		try_functions(cuda);
	}
	fakecuda_play(script, "");
	vendor_try_children(children, fakecuda.file);
	fakelibrary_end();
	return tap_done();
}
