/* SPDX-License-Identifier: MIT */
/*
 * Launches, streams, events and graphs of the CUDA driver's fake, as the
 * library uses them: what is launched with what, what follows what in a
 * captured graph, and what a capture forbids.
 */
#include "fakecuda.h"
#include "tap.h"

/* A kernel of a pointer, a half and two words: 8, 2, padding to 16, 8 bytes. */
static const char script[] = "devices 2\n"
			     "kernel sum 8 2 8\n"
			     "kernel empty\n";

static const struct oh__cuda *cuda;
static CUcontext context;
static CUmodule module;
static CUfunction sum, empty;
static CUstream one, two;
static CUevent event;

static CUresult launch(CUfunction function, CUstream stream, void **parameters)
{
	const CUlaunchConfig config = {
		.gridDimX = 4,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 128,
		.blockDimY = 2,
		.blockDimZ = 1,
		.hStream = stream,
	};

	return cuda->cuLaunchKernelEx(&config, function, parameters, NULL);
}

static CUstreamCaptureStatus status_of(CUstream stream)
{
	CUstreamCaptureStatus status = 99;

	cuda->cuStreamIsCapturing(stream, &status);
	return status;
}

static unsigned launches(void)
{
	unsigned count;

	fakecuda_launches(&count);
	return count;
}

static void begin(CUstream stream)
{
	cuda->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static void set_up(void)
{
	CUfunction unknown = NULL;

	fakecuda_play(script, "");
	cuda->cuInit(0);
	cuda->cuDevicePrimaryCtxRetain(&context, 0);
	cuda->cuCtxSetCurrent(context);
	tap_ok(!cuda->cuModuleLoadData(&module, "image") &&
		       !cuda->cuModuleGetFunction(&sum, module, "sum") &&
		       !cuda->cuModuleGetFunction(&empty, module, "empty") &&
		       cuda->cuModuleGetFunction(&unknown, module, "other") ==
			       CUDA_ERROR_NOT_FOUND &&
		       !unknown,
	       "a module has the kernels of the script");
	cuda->cuStreamCreateWithPriority(&one, CU_STREAM_NON_BLOCKING, -1);
	cuda->cuStreamCreateWithPriority(&two, CU_STREAM_NON_BLOCKING, 0);
	cuda->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
}

static void tear_down(void)
{
	cuda->cuEventDestroy_v2(event);
	cuda->cuStreamDestroy_v2(one);
	cuda->cuStreamDestroy_v2(two);
	cuda->cuModuleUnload(module);
	tap_ok(cuda->cuStreamSynchronize(one) == CUDA_ERROR_INVALID_HANDLE &&
		       launch(sum, NULL, NULL) == CUDA_ERROR_INVALID_HANDLE,
	       "what was destroyed is not used");
	cuda->cuCtxSetCurrent(NULL);
	cuda->cuDevicePrimaryCtxRelease_v2(0);
	tap_ok(!fakecuda_live(NULL), "nothing is left");
}

static void try_launch(void)
{
	CUlaunchAttribute attribute = {
		.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
		.value.programmaticStreamSerializationAllowed = 1,
	};
	CUlaunchConfig config = {4, 3, 2, 64, 2, 1, 512, one, &attribute, 1};
	unsigned long long pointer = 0x1122334455667788, words = 5;
	unsigned short half = 0x99aa;
	void *parameters[] = {&pointer, &half, &words};
	const struct fakecuda_launch *log;
	unsigned count;
	int value = 0;

	tap_ok(!cuda->cuLaunchKernelEx(&config, sum, parameters, NULL) &&
		       launches() == 1,
	       "a launch is logged");
	log = fakecuda_launches(&count);
	tap_ok(!strcmp(log->kernel, "sum") && log->grid[0] == 4 &&
		       log->grid[1] == 3 && log->grid[2] == 2 &&
		       log->block[0] == 64 && log->block[1] == 2 &&
		       log->block[2] == 1 && log->shared_bytes == 512 &&
		       log->stream == one && !log->device && !log->replayed,
	       "with its shape and stream");
	tap_ok(log->attributes == 1 && log->attribute[0].id == attribute.id &&
		       log->attribute[0]
				       .value
				       .programmaticStreamSerializationAllowed ==
			       1,
	       "its attributes");
	tap_ok(log->argument_bytes == 24 &&
		       !memcmp(log->arguments, &pointer, 8) &&
		       !memcmp(log->arguments + 8, &half, 2) &&
		       !memcmp(log->arguments + 16, &words, 8),
	       "and its arguments as the kernel sees them");
	config.blockDimX = 1024;
	tap_ok(cuda->cuLaunchKernelEx(&config, sum, parameters, NULL) ==
		       CUDA_ERROR_INVALID_VALUE,
	       "a block of 2048 threads is too large");
	config.blockDimX = 64;
	config.sharedMemBytes = 65536;
	tap_ok(cuda->cuLaunchKernelEx(&config, sum, parameters, NULL) ==
			       CUDA_ERROR_INVALID_VALUE &&
		       !cuda->cuFuncSetAttribute(
			       sum,
			       CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
			       65536) &&
		       !cuda->cuFuncGetAttribute(
			       &value,
			       CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
			       sum) &&
		       value == 65536 &&
		       !cuda->cuLaunchKernelEx(&config, sum, parameters, NULL),
	       "shared memory beyond 48 KB is asked for first");
}

static void try_extra(void)
{
	unsigned char buffer[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
	size_t bytes = sizeof(buffer);
	void *extra[] = {(void *)CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT, buffer,
			 (void *)CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT, &bytes,
			 (void *)CU_LAUNCH_PARAM_END_AS_INT};
	const struct fakecuda_launch *log;
	unsigned before = launches(), count;

	tap_ok(!cuda->cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, NULL, NULL,
				     extra) &&
		       (log = fakecuda_launches(&count)) &&
		       count == before + 1 &&
		       log[before].argument_bytes == 12 &&
		       !memcmp(log[before].arguments, buffer, 12),
	       "arguments as one buffer, by the older call");
}

static void try_other_context(void)
{
	CUcontext other = NULL, seen = NULL;
	CUstream theirs = NULL;

	cuda->cuDevicePrimaryCtxRetain(&other, 1);
	cuda->cuCtxPushCurrent_v2(other);
	cuda->cuStreamCreateWithPriority(&theirs, CU_STREAM_DEFAULT, 0);
	tap_ok(launch(empty, NULL, NULL) == CUDA_ERROR_INVALID_HANDLE &&
		       !launch(empty, one, NULL),
	       "a kernel runs where its module is");
	tap_ok(cuda->cuEventRecord(event, theirs) ==
			       CUDA_ERROR_INVALID_HANDLE &&
		       !cuda->cuEventRecord(event, one) &&
		       !cuda->cuStreamWaitEvent(theirs, event, 0),
	       "an event is recorded in its own context and waited for in any");
	tap_ok(!cuda->cuStreamGetCtx(one, &seen) && seen == context &&
		       !cuda->cuStreamGetCtx(NULL, &seen) && seen == other,
	       "a stream knows its context");
	cuda->cuStreamDestroy_v2(theirs);
	cuda->cuCtxPopCurrent_v2(NULL);
	cuda->cuDevicePrimaryCtxRelease_v2(1);
}

static void try_events(void)
{
	CUevent start = NULL, end = NULL;
	float ms = -1;

	cuda->cuEventCreate(&start, CU_EVENT_DEFAULT);
	cuda->cuEventCreate(&end, CU_EVENT_DEFAULT);
	cuda->cuEventRecord(start, one);
	tap_ok(cuda->cuEventElapsedTime(&ms, start, end) ==
			       CUDA_ERROR_INVALID_HANDLE &&
		       !cuda->cuEventQuery(end) &&
		       !cuda->cuEventRecord(end, one) &&
		       !cuda->cuEventElapsedTime(&ms, start, end) && ms >= 0 &&
		       cuda->cuEventElapsedTime(&ms, start, event) ==
			       CUDA_ERROR_INVALID_HANDLE,
	       "time passes between events that were recorded and may tell");
	cuda->cuEventDestroy_v2(start);
	cuda->cuEventDestroy_v2(end);
}

/* One call on a stream, one on another that waits for it, and back. */
static void try_capture(void)
{
	const CUgraphNode *nodes = NULL;
	CUgraphNode first, second;
	CUstreamCaptureStatus status;
	CUgraphExec executable = NULL;
	CUgraph graph = NULL, seen = NULL;
	unsigned before = launches(), count = 0;
	cuuint64_t id = 0;
	size_t waits = 9;

	begin(one);
	tap_ok(status_of(one) == CU_STREAM_CAPTURE_STATUS_ACTIVE &&
		       status_of(two) == CU_STREAM_CAPTURE_STATUS_NONE &&
		       !launch(empty, one, NULL) && launches() == before,
	       "a launch in a capture is not done");
	tap_ok(!cuda->cuStreamGetCaptureInfo_v2(one, &status, &id, &seen,
						&nodes, &waits) &&
		       id && seen && waits == 1,
	       "the next one would wait for it");
	first = nodes[0];
	cuda->cuEventRecord(event, one);
	cuda->cuStreamWaitEvent(two, event, 0);
	tap_ok(status_of(two) == CU_STREAM_CAPTURE_STATUS_ACTIVE &&
		       cuda->cuEventQuery(event) == CUDA_ERROR_CAPTURED_EVENT,
	       "a stream that waits for a captured event is captured");
	launch(empty, two, NULL);
	cuda->cuStreamGetCaptureInfo_v3(two, &status, NULL, NULL, &nodes, NULL,
					&waits);
	second = nodes[0];
	tap_ok(waits == 1 && second != first &&
		       fakecuda_follows(second, first) &&
		       !fakecuda_follows(first, second),
	       "its work follows what it waited for");
	cuda->cuEventRecord(event, two);
	cuda->cuStreamWaitEvent(one, event, 0);
	tap_ok(!cuda->cuStreamEndCapture(one, &graph) && graph == seen &&
		       status_of(two) == CU_STREAM_CAPTURE_STATUS_NONE &&
		       fakecuda_live("graph") == 1,
	       "joined, the capture gives a graph");
	tap_ok(!cuda->cuGraphInstantiateWithFlags(&executable, graph, 0) &&
		       !cuda->cuGraphDestroy(graph) &&
		       !cuda->cuGraphUpload(executable, one) &&
		       !cuda->cuGraphLaunch(executable, two) &&
		       !cuda->cuGraphLaunch(executable, one) &&
		       launches() == before + 4,
	       "a replay does all of it, again and again");
	tap_ok(fakecuda_launches(&count)[before + 3].replayed &&
		       fakecuda_launches(&count)[before].stream == two,
	       "on the stream that launched it");
	cuda->cuGraphExecDestroy(executable);
}

static void try_dependencies(void)
{
	const CUgraphNode *nodes = NULL;
	CUgraphNode first, second;
	CUstreamCaptureStatus status;
	CUgraph graph = NULL;
	size_t waits = 0;

	begin(one);
	launch(empty, one, NULL);
	cuda->cuStreamGetCaptureInfo_v2(one, &status, NULL, NULL, &nodes,
					&waits);
	first = nodes[0];
	cuda->cuStreamUpdateCaptureDependencies(
		one, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
	launch(empty, one, NULL);
	cuda->cuStreamGetCaptureInfo_v2(one, &status, NULL, NULL, &nodes,
					&waits);
	second = nodes[0];
	tap_ok(waits == 1 && !fakecuda_follows(second, first),
	       "work waits for nothing after its dependencies were set to "
	       "none");
	tap_ok(!cuda->cuStreamUpdateCaptureDependencies_v2(
		       one, &first, NULL, 1,
		       CU_STREAM_ADD_CAPTURE_DEPENDENCIES) &&
		       !cuda->cuStreamGetCaptureInfo_v2(one, &status, NULL,
							NULL, &nodes, &waits) &&
		       waits == 2,
	       "one is added");
	cuda->cuStreamEndCapture(one, &graph);
	cuda->cuGraphDestroy(graph);
	tap_ok(cuda->cuStreamUpdateCaptureDependencies(
		       one, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES) ==
		       CUDA_ERROR_ILLEGAL_STATE,
	       "outside a capture there are none");
}

/* Two streams that wait for each other 200 times: 2^200 ways through it. */
static void try_many_ways(void)
{
	const CUgraphNode *nodes = NULL;
	CUgraphNode first = NULL, last = NULL;
	CUstreamCaptureStatus status;
	CUgraph graph = NULL;
	size_t waits;

	begin(one);
	for (int i = 0; i < 200; i++) {
		launch(empty, one, NULL);
		cuda->cuStreamGetCaptureInfo_v2(one, &status, NULL, NULL,
						&nodes, &waits);
		last = nodes[0];
		first = first ? first : last;
		if (i)
			launch(empty, two, NULL);
		cuda->cuEventRecord(event, one);
		cuda->cuStreamWaitEvent(two, event, 0);
		cuda->cuEventRecord(event, two);
		cuda->cuStreamWaitEvent(one, event, 0);
	}
	tap_ok(fakecuda_follows(last, first) && !fakecuda_follows(first, last),
	       "the order in a large graph is found");
	tap_ok(!cuda->cuStreamEndCapture(one, &graph),
	       "and that all of it was joined");
	cuda->cuGraphDestroy(graph);
}

/* What is forbidden ends the capture. */
static void try_forbidden(CUresult code, CUresult expected, const char *what)
{
	CUgraph graph = (CUgraph)1;
	bool broken = status_of(one) == CU_STREAM_CAPTURE_STATUS_INVALIDATED;

	tap_ok(code == expected && broken &&
		       launch(empty, one, NULL) ==
			       CUDA_ERROR_STREAM_CAPTURE_INVALIDATED &&
		       cuda->cuStreamEndCapture(one, &graph) ==
			       CUDA_ERROR_STREAM_CAPTURE_INVALIDATED &&
		       !graph && !fakecuda_live("graph"),
	       "in a capture: %s", what);
}

static void try_forbiddens(void)
{
	CUdeviceptr pointer;
	CUstream blocking = NULL;
	CUstreamCaptureStatus status;
	CUgraph graph = NULL;

	begin(one);
	try_forbidden(cuda->cuMemAlloc_v2(&pointer, 64),
		      CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "no allocation");
	begin(one);
	try_forbidden(cuda->cuStreamSynchronize(one),
		      CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "no waiting");
	begin(one);
	try_forbidden(cuda->cuCtxSynchronize(),
		      CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
		      "no waiting for all");
	cuda->cuEventRecord(event, two);
	begin(one);
	try_forbidden(cuda->cuStreamWaitEvent(one, event, 0),
		      CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
		      "no event from outside");
	begin(one);
	cuda->cuEventRecord(event, one);
	cuda->cuStreamWaitEvent(two, event, 0);
	launch(empty, two, NULL);
	tap_ok(cuda->cuStreamEndCapture(two, &graph) ==
			       CUDA_ERROR_STREAM_CAPTURE_UNMATCHED &&
		       cuda->cuStreamEndCapture(one, &graph) ==
			       CUDA_ERROR_STREAM_CAPTURE_UNJOINED &&
		       !graph && !fakecuda_live("graph"),
	       "a stream that was not joined spoils it");
	cuda->cuStreamBeginCapture_v2(one, CU_STREAM_CAPTURE_MODE_RELAXED);
	tap_ok(!cuda->cuMemAlloc_v2(&pointer, 64) &&
		       !cuda->cuMemFree_v2(pointer) &&
		       !cuda->cuStreamEndCapture(one, &graph) &&
		       !cuda->cuGraphDestroy(graph),
	       "a relaxed capture allows allocation");
	cuda->cuStreamCreateWithPriority(&blocking, CU_STREAM_DEFAULT, 0);
	begin(blocking);
	tap_ok(cuda->cuStreamIsCapturing(NULL, &status) ==
			       CUDA_ERROR_STREAM_CAPTURE_IMPLICIT &&
		       status_of(blocking) == CU_STREAM_CAPTURE_STATUS_ACTIVE,
	       "who asks the default stream breaks nothing");
	tap_ok(launch(empty, NULL, NULL) ==
			       CUDA_ERROR_STREAM_CAPTURE_IMPLICIT &&
		       cuda->cuStreamEndCapture(blocking, &graph) ==
			       CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
	       "the default stream is no part of it");
	cuda->cuStreamDestroy_v2(blocking);
	tap_ok(cuda->cuStreamBeginCapture_v2(NULL, 0) ==
			       CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
		       cuda->cuStreamEndCapture(one, &graph) ==
			       CUDA_ERROR_ILLEGAL_STATE,
	       "nor can be captured");
}

/* Memory is filled when a graph is launched. */
static void try_captured_work(void)
{
	CUgraphExec executable = NULL;
	CUgraph graph = NULL;
	CUdeviceptr pointer = 0;
	unsigned word = 0;

	cuda->cuMemAlloc_v2(&pointer, 64);
	cuda->cuMemsetD8Async(pointer, 0, 64, one);
	begin(one);
	cuda->cuMemsetD32Async(pointer, 7, 4, one);
	cuda->cuMemcpyDtoDAsync_v2(pointer + 32, pointer, 16, one);
	cuda->cuStreamEndCapture(one, &graph);
	cuda->cuMemcpyDtoH_v2(&word, pointer + 44, 4);
	tap_ok(!word, "captured work waits for its graph");
	cuda->cuGraphInstantiateWithFlags(&executable, graph, 0);
	cuda->cuGraphLaunch(executable, one);
	cuda->cuMemcpyDtoH_v2(&word, pointer + 44, 4);
	tap_ok(word == 7, "and is done by it in order");
	cuda->cuGraphExecDestroy(executable);
	cuda->cuGraphDestroy(graph);
	cuda->cuMemFree_v2(pointer);
}

int main(int argc, char **argv)
{
	fakecuda_start(argv);
	oh_set_log(OH_LOG_OFF, NULL, NULL);
	fakecuda_play(script, "");
	if (oh__cuda_load(&cuda)) {
		printf("Bail out! the fake cannot be loaded\n");
		return 1;
	}
	set_up();
	try_launch();
	try_extra();
	try_other_context();
	try_events();
	try_capture();
	try_dependencies();
	try_many_ways();
	try_forbiddens();
	try_captured_work();
	tear_down();
	fakelibrary_end();
	return tap_done();
}
