/* SPDX-License-Identifier: MIT */
/*
 * Streams, events, modules and launches of the CUDA driver's fake. A launch is
 * an entry in a log, and runs only if the test has said how. A stream's work is
 * done when it is submitted, or becomes a node of a graph while the stream
 * captures. A kernel is loaded when it is launched first, and that waits until
 * no other kernel of the context runs, as a driver may.
 */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <time.h>

#include "fakecuda_private.h"

#define LAUNCHES 512
#define FUNCTION_ATTRIBUTES 16

struct CUmod_st {
	struct object object;
};

struct CUfunc_st {
	struct object object;
	CUmodule module;
	char name[NAME];
	size_t size[PARAMETERS];
	unsigned parameters;
	int attribute[FUNCTION_ATTRIBUTES];
	bool loaded;
};

struct CUevent_st {
	struct object object;
	unsigned flags;
	bool recorded;
	struct timespec when;
	CUgraph capture; /* what it was recorded in last, NULL: nothing */
	struct waits waits;
};

static struct fakecuda_launch launches[LAUNCHES];
static unsigned launch_count;
static fakecuda_runner *run_kernel;

/* Work. */

void fake_launches_forget(void)
{
	launch_count = 0;
}

const struct fakecuda_launch *fakecuda_list_launches(unsigned *count)
{
	*count = launch_count < LAUNCHES ? launch_count : LAUNCHES;
	return launches;
}

void fakecuda_set_runner(fakecuda_runner *runner)
{
	fake_lock();
	run_kernel = runner;
	fake_unlock();
}

static void *find(void *module, const char *name, void *function)
{
	void *symbol = module ? dlsym(module, name) : NULL;

	if (symbol)
		memcpy(function, &symbol, sizeof(symbol));
	return symbol;
}

void fake_kernels_load(void (*read_line)(char *line))
{
	const char *path = getenv("FAKECUDA_KERNELS");
	void *module = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	void (*script)(char *text, size_t room);
	static char text[32768];

	if (!find(module, "fakekernels_script", &script) ||
	    !find(module, "fakekernels_run", &run_kernel)) {
		if (path)
			fprintf(stderr, "FAKECUDA_KERNELS: %s\n", dlerror());
		return;
	}
	script(text, sizeof(text));
	for (char *line = text, *next; *line; line = next) {
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		read_line(line);
	}
}

static void do_launch(const struct fakecuda_launch *launch, CUstream stream,
		      bool replay)
{
	fakecuda_runner *run = run_kernel;
	CUcontext context = stream->object.context;

	if (launch_count++ < LAUNCHES) {
		launches[launch_count - 1] = *launch;
		launches[launch_count - 1].stream = stream;
		launches[launch_count - 1].replayed = replay;
	}
	if (!run)
		return;
	/* it may wait for what another thread launches */
	context->running++;
	fake_unlock();
	run(launch);
	fake_lock();
	context->running--;
}

void fake_work_do(const struct fake_work *work, CUstream stream, bool replay)
{
	switch (work->type) {
	case LAUNCH:
		do_launch(work->launch, stream, replay);
		return;
	case FILL:
		for (size_t i = 0; i < work->bytes; i += work->width)
			memcpy(work->to + i, &work->value, work->width);
		return;
	case COPY:
		memmove(work->to, work->from, work->bytes);
		return;
	case NOTHING:
		return;
	}
}

/* Streams. */

CUstream fake_stream_default(CUcontext context)
{
	CUstream stream = calloc(1, sizeof(*stream));

	if (stream)
		stream->object.context = context;
	return stream;
}

CUcontext fake_stream_context(CUstream stream)
{
	return stream->object.context;
}

/* The legacy stream waits for those that do not say otherwise: none of them
 * may be in a capture, which a use of it breaks. */
static bool meets_capture(CUcontext context, bool breaks)
{
	bool met = false;

	for (struct object *at = fake_objects(); at; at = at->next) {
		CUstream stream = (CUstream)at;

		if (at->kind != STREAM || at->context != context ||
		    !stream->capture || stream->flags & CU_STREAM_NON_BLOCKING)
			continue;
		stream->capture->broken |= breaks;
		met = true;
	}
	return met;
}

static CUstream stream_of(CUstream handle, bool breaks, CUresult *failure)
{
	CUcontext context = fake_current();

	*failure = CUDA_SUCCESS;
	if (handle && handle != CU_STREAM_LEGACY &&
	    handle != CU_STREAM_PER_THREAD) {
		if (fake_object_is(handle, STREAM))
			return handle;
		*failure = CUDA_ERROR_INVALID_HANDLE;
		return NULL;
	}
	if (!context)
		*failure = CUDA_ERROR_INVALID_CONTEXT;
	else if (handle != CU_STREAM_PER_THREAD &&
		 meets_capture(context, breaks))
		*failure = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	return *failure ? NULL : context->stream;
}

CUstream fake_stream_of(CUstream handle, CUresult *failure)
{
	return stream_of(handle, true, failure);
}

CUstream fake_stream_asked(CUstream handle, CUresult *failure)
{
	return stream_of(handle, false, failure);
}

CUresult fake_submit(CUstream stream, struct fake_work *work)
{
	if (stream->capture && !stream->capture->broken) {
		CUresult code =
			fake_graph_add(stream->capture, &stream->waits, work);

		stream->capture->broken = fake_void_captures;
		return code;
	}
	if (!stream->capture)
		fake_work_do(work, stream, false);
	free(work->launch);
	return stream->capture ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
			       : CUDA_SUCCESS;
}

bool fake_capture_broken(void)
{
	bool broken = false;

	if (*fake_thread_mode() == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	for (struct object *at = fake_objects(); at; at = at->next) {
		CUstream stream = (CUstream)at;

		if (at->kind != STREAM || !stream->capture ||
		    stream->mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
		    (stream->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
		     !pthread_equal(stream->thread, pthread_self())))
			continue;
		stream->capture->broken = broken = true;
	}
	return broken;
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags,
				    int priority)
{
	ENTER(CURRENT);
	CUstream it;

	if (flags > CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	it = fake_object_new(STREAM, sizeof(*it));
	if (!it)
		return CUDA_ERROR_OUT_OF_MEMORY;
	it->flags = flags;
	*stream = it;
	return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
	ENTER(INIT);
	if (!fake_object_is(stream, STREAM))
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->capture)
		stream->capture->broken = true;
	fake_object_end(stream);
	return CUDA_SUCCESS;
}

/* Waiting for a stream, or asking it, is not for one that captures. */
static CUresult check_idle(CUstream handle)
{
	CUresult failure;
	CUstream stream = fake_stream_of(handle, &failure);

	if (stream && stream->capture) {
		stream->capture->broken = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return failure;
}

CUresult cuStreamSynchronize(CUstream stream)
{
	ENTER(CURRENT);
	return check_idle(stream);
}

CUresult cuStreamQuery(CUstream stream)
{
	ENTER(CURRENT);
	return check_idle(stream);
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *context)
{
	ENTER(CURRENT);
	CUstream stream = fake_stream_of(handle, &failure);

	if (stream)
		*context = stream->object.context;
	return failure;
}

/* Events. */

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	ENTER(CURRENT);
	CUevent it;

	if (flags > 7)
		return CUDA_ERROR_INVALID_VALUE;
	it = fake_object_new(EVENT, sizeof(*it));
	if (!it)
		return CUDA_ERROR_OUT_OF_MEMORY;
	it->flags = flags;
	*event = it;
	return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
	ENTER(INIT);
	if (!fake_object_is(event, EVENT))
		return CUDA_ERROR_INVALID_HANDLE;
	fake_object_end(event);
	return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream handle)
{
	ENTER(CURRENT);
	CUstream stream = fake_stream_of(handle, &failure);

	if (!stream)
		return failure;
	if (!fake_object_is(event, EVENT) ||
	    event->object.context != stream->object.context)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->capture && stream->capture->broken)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	event->recorded = true;
	event->capture = stream->capture;
	event->waits = stream->waits;
	clock_gettime(CLOCK_MONOTONIC, &event->when);
	return CUDA_SUCCESS;
}

static bool is_captured(CUevent event)
{
	return event->capture && fake_object_is(event->capture, GRAPH) &&
	       event->capture->capturing;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags)
{
	ENTER(CURRENT);
	CUstream stream = fake_stream_of(handle, &failure);

	if (!stream)
		return failure;
	if (!fake_object_is(event, EVENT) || flags > 1)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!is_captured(event)) {
		if (!stream->capture || !event->recorded)
			return CUDA_SUCCESS;
		/* a capture waits for nothing that comes from outside */
		stream->capture->broken = true;
		return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	if (stream->capture && stream->capture != event->capture)
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	if (!stream->capture) {
		stream->capture = event->capture;
		stream->mode = event->capture->origin->mode;
		stream->thread = event->capture->origin->thread;
		stream->waits.count = 0;
	}
	return fake_wait_for_all(&stream->waits, &event->waits);
}

CUresult cuEventQuery(CUevent event)
{
	ENTER(INIT);
	if (!fake_object_is(event, EVENT))
		return CUDA_ERROR_INVALID_HANDLE;
	return is_captured(event) ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
	ENTER(INIT);
	if (!fake_object_is(start, EVENT) || !fake_object_is(end, EVENT) ||
	    !start->recorded || !end->recorded ||
	    (start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
		return CUDA_ERROR_INVALID_HANDLE;
	*ms = (float)((double)(end->when.tv_sec - start->when.tv_sec) * 1e3 +
		      (double)(end->when.tv_nsec - start->when.tv_nsec) / 1e6);
	return CUDA_SUCCESS;
}

/* Modules and launches. */

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	ENTER(UNSAFE);
	CUmodule it;

	if (!image)
		return CUDA_ERROR_INVALID_VALUE;
	it = fake_object_new(MODULE, sizeof(*it));
	if (!it)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*module = it;
	return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
	ENTER(UNSAFE);
	struct object *next;

	if (!fake_object_is(module, MODULE))
		return CUDA_ERROR_INVALID_HANDLE;
	for (struct object *at = fake_objects(); at; at = next) {
		next = at->next;
		if (at->kind == FUNCTION && ((CUfunction)at)->module == module)
			fake_object_end(at);
	}
	fake_object_end(module);
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module,
			     const char *name)
{
	ENTER(INIT);
	bool known;
	const struct fake_kernel *kernel = fake_kernel_of(name, &known);
	CUfunction it;

	if (!fake_object_is(module, MODULE))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!known)
		return CUDA_ERROR_NOT_FOUND;
	it = fake_object_new(FUNCTION, sizeof(*it));
	if (!it)
		return CUDA_ERROR_OUT_OF_MEMORY;
	it->module = module;
	it->object.context = module->object.context;
	snprintf(it->name, NAME, "%s", name);
	for (unsigned i = 0; kernel && i < kernel->parameters; i++)
		it->size[it->parameters++] = kernel->size[i];
	it->attribute[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024;
	it->attribute[CU_FUNC_ATTRIBUTE_NUM_REGS] = 32;
	it->attribute[CU_FUNC_ATTRIBUTE_PTX_VERSION] = fake_ptx_of(name);
	/* what a launch may ask for unless it is raised */
	it->attribute[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = 49152;
	*function = it;
	return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
			    CUfunction function)
{
	ENTER(INIT);
	if (!fake_object_is(function, FUNCTION))
		return CUDA_ERROR_INVALID_HANDLE;
	if (attribute >= FUNCTION_ATTRIBUTES)
		return CUDA_ERROR_INVALID_VALUE;
	*value = function->attribute[attribute];
	return CUDA_SUCCESS;
}

/* As if registers were no limit. */
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
						     CUfunction function,
						     int threads,
						     size_t shared_bytes)
{
	ENTER(INIT);
	if (!fake_object_is(function, FUNCTION))
		return CUDA_ERROR_INVALID_HANDLE;
	if (threads < 1 || threads > 1024 || shared_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*blocks = 2048 / threads < 32 ? 2048 / threads : 32;
	return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
			    int value)
{
	ENTER(INIT);
	if (!fake_object_is(function, FUNCTION))
		return CUDA_ERROR_INVALID_HANDLE;
	/* those below are facts of the kernel */
	if (attribute < CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
	    attribute >= FUNCTION_ATTRIBUTES)
		return CUDA_ERROR_INVALID_VALUE;
	function->attribute[attribute] = value;
	return CUDA_SUCCESS;
}

/* Each parameter at a multiple of its size, 8 at most. */
static CUresult pack_parameters(struct fakecuda_launch *launch,
				CUfunction function, void **parameters)
{
	size_t used = 0;

	for (unsigned i = 0; i < function->parameters; i++) {
		size_t size = function->size[i], unit = 8;

		while (unit > 1 && size % unit)
			unit /= 2;
		used = (used + unit - 1) / unit * unit;
		if (!parameters || used + size > sizeof(launch->arguments))
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(launch->arguments + used, parameters[i], size);
		used += size;
	}
	launch->argument_bytes = used;
	return CUDA_SUCCESS;
}

/* Pairs of a key and a pointer: a buffer, and its size. */
static CUresult copy_parameters(struct fakecuda_launch *launch, void **extra)
{
	const void *buffer = NULL;

	for (; (uintptr_t)*extra != CU_LAUNCH_PARAM_END_AS_INT; extra += 2)
		if ((uintptr_t)*extra == CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT)
			buffer = extra[1];
		else
			launch->argument_bytes = *(const size_t *)extra[1];
	if (!buffer || launch->argument_bytes > sizeof(launch->arguments))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(launch->arguments, buffer, launch->argument_bytes);
	return CUDA_SUCCESS;
}

static CUresult check_shape(const struct fakecuda_launch *launch,
			    CUfunction function)
{
	const unsigned *grid = launch->grid, *block = launch->block;
	const unsigned long long threads =
		(unsigned long long)block[0] * block[1] * block[2];

	if (!grid[0] || !grid[1] || !grid[2] || !threads ||
	    threads > (unsigned)function->attribute
			      [CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] ||
	    launch->shared_bytes >
		    (unsigned)function->attribute
			    [CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES])
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult describe(struct fakecuda_launch *launch,
			 const CUlaunchConfig *config, CUfunction function)
{
	*launch = (struct fakecuda_launch){
		.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
		.block = {config->blockDimX, config->blockDimY,
			  config->blockDimZ},
		.shared_bytes = config->sharedMemBytes,
		.device = function->object.context->ordinal,
		.attributes = config->numAttrs,
	};
	memcpy(launch->kernel, function->name, NAME);
	if (config->numAttrs > FAKECUDA_ATTRIBUTES)
		return CUDA_ERROR_INVALID_VALUE;
	if (config->numAttrs)
		memcpy(launch->attribute, config->attrs,
		       config->numAttrs * sizeof(*config->attrs));
	return check_shape(launch, function);
}

void fake_wait_for_kernels(CUcontext context)
{
	while (context->running) {
		fake_unlock();
		sched_yield();
		fake_lock();
	}
}

static CUresult launch_kernel(const CUlaunchConfig *config, CUfunction function,
			      void **parameters, void **extra)
{
	struct fake_work work = {.type = LAUNCH};
	CUresult failure;
	CUstream stream = fake_stream_of(config->hStream, &failure);

	if (!stream)
		return failure;
	/* a kernel runs where its module is */
	if (!fake_object_is(function, FUNCTION) ||
	    function->object.context != stream->object.context)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!function->loaded)
		fake_wait_for_kernels(function->object.context);
	function->loaded = true;
	work.launch = malloc(sizeof(*work.launch));
	if (!work.launch)
		return CUDA_ERROR_OUT_OF_MEMORY;
	failure = describe(work.launch, config, function);
	if (!failure)
		failure = extra ? copy_parameters(work.launch, extra)
				: pack_parameters(work.launch, function,
						  parameters);
	if (!failure)
		return fake_submit(stream, &work);
	free(work.launch);
	return failure;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
			  void **parameters, void **extra)
{
	ENTER(CURRENT);
	return launch_kernel(config, function, parameters, extra);
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x,
			unsigned int grid_y, unsigned int grid_z,
			unsigned int block_x, unsigned int block_y,
			unsigned int block_z, unsigned int shared_bytes,
			CUstream stream, void **parameters, void **extra)
{
	ENTER(CURRENT);
	const CUlaunchConfig config = {
		.gridDimX = grid_x,
		.gridDimY = grid_y,
		.gridDimZ = grid_z,
		.blockDimX = block_x,
		.blockDimY = block_y,
		.blockDimZ = block_z,
		.sharedMemBytes = shared_bytes,
		.hStream = stream,
	};

	return launch_kernel(&config, function, parameters, extra);
}
