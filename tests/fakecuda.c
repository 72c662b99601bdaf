/* SPDX-License-Identifier: MIT */
/*
 * The CUDA driver as tests want it: a shared module that takes the place of
 * libcuda.so.1 and that the real loader loads. It plays what stands in the
 * file that FAKECUDA_SCRIPT names, read again at each cuInit:
 *
 *   devices N                   version NUMBER      granularity BYTES
 *   ptx VERSION [KERNEL]        what one or all are made for, 90 at first
 *   lazy-graphs                 one that was not uploaded waits for kernels
 *   void-captures               a launch in one is the last that it knows
 *   device I KEY VALUE          name, pci, uuid (32 hex digits), memory
 *   device I attribute A VALUE  in the driver's numbers
 *   peer I J 0|1                whether I reaches J's memory; 0 at first
 *   kernel NAME SIZE...         parameters; without any, all names are known
 *   error FUNCTION CODE [K]     every time, or the K-th since cuInit
 *   fail K CODE                 the K-th call since cuInit, whichever it is
 *
 * I and J may be "*". FAKECUDA_KERNELS may name a module that runs kernels, see
 * fakekernels.h. CUDA_VISIBLE_DEVICES takes numbers. All work is done at
 * once and by the caller; memory of devices is memory of the host. This file:
 * the script, how calls begin, devices and contexts.
 */
#include <ctype.h>
#include <pthread.h>

#include "fakecuda_private.h"

#define ERRORS 64
#define KERNELS 256
#define FUNCTIONS 128
#define STACK 8
#define WORDS (PARAMETERS + 2)

struct fake_device fake_devices[DEVICES];
size_t fake_granularity;
static int ptx_version;
static char ptx_kernel[NAME];
bool fake_lazy_graphs, fake_void_captures;

static int device_count, version;
static int visible[DEVICES], visible_count;
static struct fake_kernel kernels[KERNELS];
static int kernel_count;
static struct {
	char function[NAME];
	CUresult code;
	unsigned at; /* 0: always */
} errors[ERRORS];
static int error_count;
static unsigned fail_at;
static CUresult fail_code;
static bool fail_for_good; /* and all that come after it */
static const char *failed; /* the function whose call was the one */

static struct {
	const char *name;
	unsigned calls;
} functions[FUNCTIONS];
static unsigned all_calls;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool initialised;
static struct object *objects;
static CUcontext primary[DEVICES];

/* A thread's contexts, the last one is current. Not _Thread_local:
 * MemorySanitizer takes that of a loaded module for uninitialised. */
struct thread {
	CUcontext stack[STACK];
	int depth;
	CUstreamCaptureMode mode; /* GLOBAL is 0 */
};
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

/* The script. */

static bool matches(const char *text, int index)
{
	return !strcmp(text, "*") || atoi(text) == index;
}

static void script_uuid(struct fake_device *device, const char *hex)
{
	for (int i = 0; i < 16 && isxdigit((unsigned char)hex[2 * i]); i++) {
		unsigned byte = 0;

		sscanf(hex + (size_t)2 * (unsigned)i, "%2x", &byte);
		device->uuid[i] = (unsigned char)byte;
	}
}

static void script_device(char word[][NAME], const char *rest)
{
	for (int i = 0; i < DEVICES; i++) {
		struct fake_device *device = &fake_devices[i];

		if (!matches(word[1], i))
			continue;
		if (!strcmp(word[2], "name"))
			snprintf(device->name, NAME, "%s", rest);
		if (!strcmp(word[2], "pci"))
			snprintf(device->pci, NAME, "%s", rest);
		if (!strcmp(word[2], "uuid"))
			script_uuid(device, rest);
		if (!strcmp(word[2], "memory"))
			device->memory = strtoull(rest, NULL, 0);
		if (!strcmp(word[2], "attribute"))
			device->attribute[atoi(word[3]) % ATTRIBUTES] =
				atoi(word[4]);
	}
}

static void script_peer(char word[][NAME])
{
	for (int i = 0; i < DEVICES; i++)
		for (int j = 0; j < DEVICES; j++)
			if (matches(word[1], i) && matches(word[2], j))
				fake_devices[i].peer[j] = atoi(word[3]);
}

static void script_kernel(char word[][NAME], int words)
{
	struct fake_kernel *kernel = &kernels[kernel_count];

	if (kernel_count == KERNELS)
		return;
	kernel_count++;
	*kernel = (struct fake_kernel){.parameters = 0};
	snprintf(kernel->name, NAME, "%s", word[1]);
	for (int i = 2; i < words && kernel->parameters < PARAMETERS; i++)
		kernel->size[kernel->parameters++] = strtoull(word[i], NULL, 0);
}

static void script_error(char word[][NAME])
{
	if (error_count == ERRORS)
		return;
	snprintf(errors[error_count].function, NAME, "%s", word[1]);
	errors[error_count].code = (CUresult)atoi(word[2]);
	errors[error_count++].at = (unsigned)atoi(word[3]);
}

static void script_ptx(char word[][NAME])
{
	ptx_version = atoi(word[1]);
	snprintf(ptx_kernel, NAME, "%s", word[2]);
}

static void script_line(char *line)
{
	char word[WORDS][NAME] = {""};
	int words = 0, rest = 0, used = 0;

	for (char *at = line;
	     words < WORDS && sscanf(at, "%127s%n", word[words], &used) == 1;
	     at += used)
		words++;
	sscanf(line, "%*s %*s %*s %n", &rest);
	if (!strcmp(word[0], "devices"))
		device_count = atoi(word[1]) % (DEVICES + 1);
	else if (!strcmp(word[0], "version"))
		version = atoi(word[1]);
	else if (!strcmp(word[0], "granularity"))
		fake_granularity = strtoull(word[1], NULL, 0);
	else if (!strcmp(word[0], "ptx"))
		script_ptx(word);
	else if (!strcmp(word[0], "lazy-graphs"))
		fake_lazy_graphs = true;
	else if (!strcmp(word[0], "void-captures"))
		fake_void_captures = true;
	else if (!strcmp(word[0], "device") && rest)
		script_device(word, line + rest);
	else if (!strcmp(word[0], "peer"))
		script_peer(word);
	else if (!strcmp(word[0], "kernel"))
		script_kernel(word, words);
	else if (!strcmp(word[0], "error"))
		script_error(word);
	else if (!strcmp(word[0], "fail")) {
		fail_at = (unsigned)atoi(word[1]);
		fail_code = (CUresult)atoi(word[2]);
	}
}

/* What all recent GPUs have, unless the script says otherwise. */
static const struct {
	unsigned attribute;
	int value;
} usual[] = {
	{CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
	{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
	{CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
	{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
	{CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
	{CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
	{CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
};

static void forget(void)
{
	for (int i = 0; i < DEVICES; i++) {
		struct fake_device *device = &fake_devices[i];
		size_t used = device->used;

		*device =
			(struct fake_device){.name = "Fake GPU",
					     .uuid = {[15] = (unsigned char)i},
					     .memory = (size_t)1 << 34,
					     .used = used};
		snprintf(device->pci, NAME, "0000:%02X:00.0", i + 1);
		for (size_t k = 0; k < sizeof(usual) / sizeof(*usual); k++)
			device->attribute[usual[k].attribute] = usual[k].value;
	}
	memset(functions, 0, sizeof(functions));
	device_count = error_count = kernel_count = 0;
	fail_at = all_calls = 0;
	version = 12000;
	fake_granularity = (size_t)2 << 20;
	ptx_version = 90;
	*ptx_kernel = '\0';
	fake_lazy_graphs = fake_void_captures = false;
	fake_launches_forget();
}

/* As the driver does: the first entry that is none ends the list. */
static void read_visible(void)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	char *end;

	visible_count = 0;
	for (int i = 0; !list && i < device_count; i++)
		visible[visible_count++] = i;
	while (list && visible_count < DEVICES) {
		long device = strtol(list, &end, 10);

		if (end == list || device < 0 || device >= device_count)
			break;
		visible[visible_count++] = (int)device;
		if (*end != ',')
			break;
		list = end + 1;
	}
}

static void read_script(void)
{
	const char *path = getenv("FAKECUDA_SCRIPT");
	FILE *file = path ? fopen(path, "r") : NULL;
	char line[1024];

	forget();
	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		script_line(line);
	}
	if (file)
		fclose(file);
	fake_kernels_load(script_line);
	read_visible();
}

int fake_ptx_of(const char *name)
{
	return !*ptx_kernel || !strcmp(name, ptx_kernel) ? ptx_version : 90;
}

const struct fake_kernel *fake_kernel_of(const char *name, bool *known)
{
	*known = true;
	for (int i = 0; i < kernel_count; i++)
		if (!strcmp(kernels[i].name, name))
			return &kernels[i];
	*known = !kernel_count;
	return NULL;
}

/* How a call begins and ends. */

/* Counts a call of a function, and says which one it is. */
static unsigned count_call(const char *name)
{
	all_calls++;
	for (int i = 0; i < FUNCTIONS; i++) {
		if (!functions[i].name)
			functions[i].name = name;
		if (!strcmp(functions[i].name, name))
			return ++functions[i].calls;
	}
	return 0;
}

static CUresult scripted(const char *function)
{
	unsigned call = count_call(function);

	if (fail_at &&
	    (all_calls == fail_at || (fail_for_good && all_calls > fail_at))) {
		failed = failed ? failed : function;
		return fail_code;
	}
	for (int i = 0; i < error_count; i++)
		if (!strcmp(errors[i].function, function) &&
		    (!errors[i].at || errors[i].at == call))
			return errors[i].code;
	return CUDA_SUCCESS;
}

static void make_key(void)
{
	pthread_key_create(&key, free);
}

/* The calling thread's. */
static struct thread *mine(void)
{
	struct thread *thread;

	pthread_once(&key_once, make_key);
	thread = pthread_getspecific(key);
	if (!thread) {
		thread = calloc(1, sizeof(*thread));
		pthread_setspecific(key, thread);
	}
	return thread;
}

CUstreamCaptureMode *fake_thread_mode(void)
{
	return &mine()->mode;
}

/* NULL if none is current. */
static CUcontext top(void)
{
	const struct thread *thread = mine();

	return thread->depth ? thread->stack[thread->depth - 1] : NULL;
}

static CUresult check_current(void)
{
	if (!top())
		return CUDA_ERROR_INVALID_CONTEXT;
	return fake_object_is(top(), CONTEXT) ? CUDA_SUCCESS
					      : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult fake_enter(const char *function, enum need need)
{
	CUresult code;

	pthread_mutex_lock(&lock);
	if (!strcmp(function, "cuInit"))
		read_script();
	code = scripted(function);
	if (!code && need != BARE && !initialised)
		code = CUDA_ERROR_NOT_INITIALIZED;
	if (!code && (need == CURRENT || need == UNSAFE))
		code = check_current();
	if (!code && need == UNSAFE && fake_capture_broken())
		code = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return code;
}

void fake_leave(CUresult *failure)
{
	(void)failure;
	pthread_mutex_unlock(&lock);
}

void fake_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void fake_lock(void)
{
	pthread_mutex_lock(&lock);
}

CUcontext fake_current(void)
{
	return check_current() ? NULL : top();
}

/* Objects. */

void *fake_object_new(enum kind kind, size_t bytes)
{
	struct object *object = calloc(1, bytes);

	if (!object)
		return NULL;
	object->next = objects;
	object->kind = kind;
	object->context = fake_current();
	objects = object;
	return object;
}

void fake_object_end(void *object)
{
	for (struct object **at = &objects; *at; at = &(*at)->next)
		if (*at == object) {
			*at = (*at)->next;
			free(object);
			return;
		}
}

bool fake_object_is(const void *handle, enum kind kind)
{
	for (const struct object *at = objects; at; at = at->next)
		if (at == handle)
			return at->kind == kind;
	return false;
}

struct object *fake_objects(void)
{
	return objects;
}

static const char *const kind_names[KINDS] = {
	[CONTEXT] = "context",
	[MODULE] = "module",
	[FUNCTION] = "function",
	[STREAM] = "stream",
	[EVENT] = "event",
	[GRAPH] = "graph",
	[EXECUTABLE] = "executable",
	[HANDLE] = "handle",
	[BLOCK] = "block",
	[RESERVATION] = "reservation",
	[MAPPING] = "mapping",
	[MEMORY] = "memory",
	[IPC] = "ipc",
	[HOST] = "host",
	[REGISTRATION] = "registration",
};

/* Functions go with their module, blocks with what they are mapped as. */
unsigned fakecuda_count_live(const char *kind)
{
	unsigned count = 0;

	pthread_mutex_lock(&lock);
	for (const struct object *at = objects; at; at = at->next)
		count += kind ? !strcmp(kind_names[at->kind], kind)
			      : at->kind != FUNCTION && at->kind != BLOCK;
	pthread_mutex_unlock(&lock);
	return count;
}

unsigned fakecuda_count_calls(const char *function)
{
	unsigned count;

	pthread_mutex_lock(&lock);
	count = function ? 0 : all_calls;
	for (int i = 0; function && i < FUNCTIONS && functions[i].name; i++)
		if (!strcmp(functions[i].name, function))
			count = functions[i].calls;
	pthread_mutex_unlock(&lock);
	return count;
}

void fakecuda_fail_call(unsigned number, CUresult code, bool for_good)
{
	pthread_mutex_lock(&lock);
	fail_at = number ? all_calls + number : 0;
	fail_code = code;
	fail_for_good = for_good;
	failed = NULL;
	pthread_mutex_unlock(&lock);
}

const char *fakecuda_failed_function(void)
{
	const char *function;

	pthread_mutex_lock(&lock);
	function = failed;
	pthread_mutex_unlock(&lock);
	return function;
}

/* The driver. */

CUresult cuInit(unsigned int flags)
{
	ENTER(BARE);
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!visible_count)
		return CUDA_ERROR_NO_DEVICE;
	initialised = true;
	return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *value)
{
	ENTER(BARE);
	*value = version;
	return CUDA_SUCCESS;
}

/* Devices. */

int fake_device_of(CUdevice ordinal)
{
	return ordinal >= 0 && ordinal < visible_count ? visible[ordinal] : -1;
}

CUdevice fake_ordinal_of(int device)
{
	for (int i = 0; i < visible_count; i++)
		if (visible[i] == device)
			return i;
	return CU_DEVICE_INVALID;
}

CUresult cuDeviceGetCount(int *count)
{
	ENTER(INIT);
	*count = visible_count;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	ENTER(INIT);
	if (fake_device_of(ordinal) < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

/* Cut to the length, as the driver does. */
CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
	ENTER(INIT);
	if (fake_device_of(device) < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(name, (size_t)length, "%s",
		 fake_devices[fake_device_of(device)].name);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	ENTER(INIT);
	if (fake_device_of(device) < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	memcpy(uuid->bytes, fake_devices[fake_device_of(device)].uuid, 16);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *address, int length, CUdevice device)
{
	ENTER(INIT);
	if (fake_device_of(device) < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(address, (size_t)length, "%s",
		 fake_devices[fake_device_of(device)].pci);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
			      CUdevice device)
{
	ENTER(INIT);
	if (fake_device_of(device) < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	if (attribute >= ATTRIBUTES)
		return CUDA_ERROR_INVALID_VALUE;
	*value = fake_devices[fake_device_of(device)].attribute[attribute];
	return CUDA_SUCCESS;
}

/* No device is its own peer. */
CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
	ENTER(INIT);
	int one = fake_device_of(device), other = fake_device_of(peer);

	if (one < 0 || other < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	*can = one != other && fake_devices[one].peer[other];
	return CUDA_SUCCESS;
}

/* Contexts. */

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	ENTER(INIT);
	int number = fake_device_of(device);
	CUcontext it;

	if (number < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	it = primary[number];
	if (!it) {
		it = fake_object_new(CONTEXT, sizeof(*it));
		if (!it)
			return CUDA_ERROR_OUT_OF_MEMORY;
		it->device = number;
		it->ordinal = device;
		it->stream = fake_stream_default(it);
		primary[number] = it;
	}
	it->users++;
	*context = it;
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	ENTER(INIT);
	int number = fake_device_of(device);

	if (number < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!primary[number])
		return CUDA_ERROR_INVALID_CONTEXT;
	if (--primary[number]->users)
		return CUDA_SUCCESS;
	free(primary[number]->stream);
	fake_object_end(primary[number]);
	primary[number] = NULL;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
	ENTER(INIT);
	*context = top();
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	ENTER(INIT);
	struct thread *thread = mine();

	if (!context) {
		thread->depth -= thread->depth > 0;
		return CUDA_SUCCESS;
	}
	if (!fake_object_is(context, CONTEXT))
		return CUDA_ERROR_INVALID_CONTEXT;
	thread->depth += !thread->depth;
	thread->stack[thread->depth - 1] = context;
	return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	ENTER(INIT);
	struct thread *thread = mine();

	if (thread->depth == STACK || !fake_object_is(context, CONTEXT))
		return CUDA_ERROR_INVALID_CONTEXT;
	thread->stack[thread->depth++] = context;
	return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
	ENTER(INIT);
	struct thread *thread = mine();

	if (!thread->depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	thread->depth--;
	if (context)
		*context = thread->stack[thread->depth];
	return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	ENTER(CURRENT);
	*device = fake_current()->ordinal;
	return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
	ENTER(UNSAFE);
	return CUDA_SUCCESS;
}
