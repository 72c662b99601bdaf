/* SPDX-License-Identifier: MIT */
/*
 * NCCL as tests want it: a shared module that takes the place of libnccl.so.2
 * and that the real loader loads. It plays what stands in the file that
 * FAKENCCL_SCRIPT names, read again at each ncclGetVersion:
 *
 *   version NUMBER              22809 at first
 *   last TEXT                   what ncclGetLastError says
 *   windows 0|1                 0: as where GPUs are no peers; 1 at first
 *   async RANK CODE             what ncclCommGetAsyncError finds
 *   error FUNCTION CODE [K]     every time, or the K-th since ncclGetVersion
 *   fail K CODE                 the K-th call since then, whichever it is
 *   rank R FUNCTION CODE        of that rank, where a call has one
 *   stuck R FUNCTION            until fakenccl_release
 *
 * Calls that wait for all ranks do so, for ever if one never comes. Nothing is
 * reduced: a collective copies send to recv on its stream, through the driver's
 * fake, so that streams, captures and addresses are held to what they must be.
 */
#include <pthread.h>
#include <stdint.h>

#include "fakenccl.h"

#define ERRORS 32
#define NAME 64
#define FUNCTIONS 32
#define KEPT 512
#define GROUPS 16
#define RANKS 16
#define ANY (-1)

/* Declared as in the list, and seen from outside. */
#define SHOWN __attribute__((visibility("default")))
#define OH_NCCL(need, result, name, parameters) SHOWN result name parameters;
#include "vendor/nccl.def"

SHOWN unsigned fakenccl_count_live(const char *kind);
SHOWN unsigned fakenccl_count_calls(const char *function);
SHOWN const struct fakenccl_collective *
fakenccl_list_collectives(unsigned *count);
SHOWN void fakenccl_release_all(void);

/* What the ranks of one id share. */
struct group {
	ncclUniqueId id;
	int members, ranks;
	unsigned come, turn;
};

enum kind {
	COMMUNICATOR,
	WINDOW,
	MEMORY,
	KINDS
};

/* Begins everything that has a handle, and is memory by itself. */
struct object {
	struct object *next;
	enum kind kind;
	void *base;
	size_t bytes;
};

struct ncclComm {
	struct object object;
	struct group *group;
	int rank, device;
	unsigned windows;
};

struct ncclWindow_vidmem {
	struct object object;
	ncclComm_t comm;
};

static struct {
	char function[NAME];
	ncclResult_t code;
	unsigned at; /* 0: always */
	int rank;
	bool stuck;
} errors[ERRORS];
static int error_count;
static unsigned fail_at;
static ncclResult_t fail_code, async[RANKS];
static int version;
static bool has_windows, released;
static char last[256];

static struct {
	char name[NAME];
	unsigned calls;
} functions[FUNCTIONS];
static unsigned all_calls, ids;
static struct fakenccl_collective collectives[KEPT];
static unsigned collective_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static struct object *objects;
static struct group groups[GROUPS];
static unsigned depth; /* of ncclGroupStart, of all threads */

/* The script. */

static void script_error(const char *function, const char *code, unsigned at,
			 int rank)
{
	if (error_count == ERRORS)
		return;
	snprintf(errors[error_count].function, NAME, "%s", function);
	errors[error_count].code = (ncclResult_t)atoi(code);
	errors[error_count].at = at;
	errors[error_count].stuck = !*code;
	errors[error_count++].rank = rank;
}

/* "\n" in the script is the end of a line in the text. */
static void script_last(const char *text)
{
	for (size_t i = 0; *text && i < sizeof(last) - 1; i++, text++) {
		bool ends = text[0] == '\\' && text[1] == 'n';

		last[i] = ends ? '\n' : *text;
		text += ends;
	}
}

static void script_line(const char *line)
{
	char word[4][NAME] = {""};
	int rest = 0;

	sscanf(line, "%63s %63s %63s %63s", word[0], word[1], word[2], word[3]);
	sscanf(line, "%*s %n", &rest);
	if (!strcmp(word[0], "version"))
		version = atoi(word[1]);
	else if (!strcmp(word[0], "windows"))
		has_windows = atoi(word[1]);
	else if (!strcmp(word[0], "async"))
		async[atoi(word[1]) % RANKS] = (ncclResult_t)atoi(word[2]);
	else if (!strcmp(word[0], "error"))
		script_error(word[1], word[2], (unsigned)atoi(word[3]), ANY);
	else if (!strcmp(word[0], "rank"))
		script_error(word[2], word[3], 0, atoi(word[1]));
	else if (!strcmp(word[0], "stuck"))
		script_error(word[2], "", 0, atoi(word[1]));
	else if (!strcmp(word[0], "last") && rest)
		script_last(line + rest);
	else if (!strcmp(word[0], "fail")) {
		fail_at = (unsigned)atoi(word[1]);
		fail_code = (ncclResult_t)atoi(word[2]);
	}
}

static void read_script(void)
{
	const char *path = getenv("FAKENCCL_SCRIPT");
	FILE *file = path ? fopen(path, "r") : NULL;
	char line[512];

	memset(functions, 0, sizeof(functions));
	memset(async, 0, sizeof(async));
	memset(last, 0, sizeof(last));
	error_count = 0;
	fail_at = all_calls = collective_count = 0;
	version = 22809;
	has_windows = true;
	released = false;
	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		script_line(line);
	}
	if (file)
		fclose(file);
}

/* How a call begins and ends. */

/* Counts a call of a function, and says which one it is. */
static unsigned count_call(const char *name)
{
	all_calls++;
	for (int i = 0; i < FUNCTIONS; i++) {
		if (!*functions[i].name)
			snprintf(functions[i].name, NAME, "%s", name);
		if (!strcmp(functions[i].name, name))
			return ++functions[i].calls;
	}
	return 0;
}

static ncclResult_t scripted(const char *function, int rank)
{
	unsigned call = count_call(function);

	if (all_calls == fail_at)
		return fail_code;
	for (int i = 0; i < error_count; i++) {
		if (strcmp(errors[i].function, function) ||
		    (errors[i].at && errors[i].at != call) ||
		    (errors[i].rank != ANY && errors[i].rank != rank))
			continue;
		while (errors[i].stuck && !released)
			pthread_cond_wait(&moved, &lock);
		return errors[i].stuck ? ncclSystemError : errors[i].code;
	}
	return ncclSuccess;
}

static ncclResult_t enter(const char *function, int rank)
{
	pthread_mutex_lock(&lock);
	if (!strcmp(function, "ncclGetVersion"))
		read_script();
	return scripted(function, rank);
}

static void leave(ncclResult_t *failure)
{
	(void)failure;
	pthread_mutex_unlock(&lock);
}

#define ENTER(rank)                                                            \
	__attribute__((cleanup(leave))) ncclResult_t failure =                 \
		enter(__func__, rank);                                         \
	if (failure)                                                           \
	return failure

/* Objects. */

static void *object_new(enum kind kind, size_t size, void *base, size_t bytes)
{
	struct object *object = calloc(1, size);

	if (!object)
		return NULL;
	*object = (struct object){objects, kind, base, bytes};
	objects = object;
	return object;
}

static void object_end(void *object)
{
	for (struct object **at = &objects; *at; at = &(*at)->next)
		if (*at == object) {
			*at = (*at)->next;
			free(object);
			return;
		}
}

static bool object_is(const void *handle, enum kind kind)
{
	for (const struct object *at = objects; at; at = at->next)
		if (at == handle)
			return at->kind == kind;
	return false;
}

/* A communicator's rank for the script, which also asks of those that are
 * none. */
static int rank_of(ncclComm_t comm)
{
	int rank;

	pthread_mutex_lock(&lock);
	rank = object_is(comm, COMMUNICATOR) ? comm->rank : ANY;
	pthread_mutex_unlock(&lock);
	return rank;
}

unsigned fakenccl_count_live(const char *kind)
{
	static const char *const names[KINDS] = {
		[COMMUNICATOR] = "communicator",
		[WINDOW] = "window",
		[MEMORY] = "memory",
	};
	unsigned count = 0;

	pthread_mutex_lock(&lock);
	for (const struct object *at = objects; at; at = at->next)
		count += !kind || !strcmp(names[at->kind], kind);
	pthread_mutex_unlock(&lock);
	return count;
}

unsigned fakenccl_count_calls(const char *function)
{
	unsigned count;

	pthread_mutex_lock(&lock);
	count = function ? 0 : all_calls;
	for (int i = 0; function && i < FUNCTIONS && *functions[i].name; i++)
		if (!strcmp(functions[i].name, function))
			count = functions[i].calls;
	pthread_mutex_unlock(&lock);
	return count;
}

const struct fakenccl_collective *fakenccl_list_collectives(unsigned *count)
{
	pthread_mutex_lock(&lock);
	*count = collective_count < KEPT ? collective_count : KEPT;
	pthread_mutex_unlock(&lock);
	return collectives;
}

void fakenccl_release_all(void)
{
	pthread_mutex_lock(&lock);
	released = true;
	pthread_cond_broadcast(&moved);
	pthread_mutex_unlock(&lock);
}

/* The driver. */

static bool find(const char *name, void *function)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);
	void *symbol = handle ? dlsym(handle, name) : NULL;

	if (symbol)
		memcpy(function, &symbol, sizeof(symbol));
	return symbol;
}

/* The device of the calling thread's context; -1 if there is none. */
static int current_device(void)
{
	CUresult (*get)(CUdevice * device);
	CUdevice device;

	return find("cuCtxGetDevice", &get) && !get(&device) ? device : -1;
}

static ncclResult_t copy(const struct fakenccl_collective *call, size_t bytes)
{
	CUresult (*copies)(CUdeviceptr to, CUdeviceptr from, size_t length,
			   CUstream stream);

	return find("cuMemcpyDtoDAsync_v2", &copies) &&
			       !copies((uintptr_t)call->recv,
				       (uintptr_t)call->send, bytes,
				       call->stream)
		       ? ncclSuccess
		       : ncclUnhandledCudaError;
}

/* NCCL. */

ncclResult_t ncclGetVersion(int *number)
{
	ENTER(ANY);
	*number = version;
	return ncclSuccess;
}

/* NULL to 7, so that somebody has to mind it. */
const char *ncclGetErrorString(ncclResult_t result)
{
	static const char *const texts[] = {
		"fake text 0", "fake text 1", "fake text 2", "fake text 3",
		"fake text 4", "fake text 5", "fake text 6"};

	enter(__func__, ANY);
	leave(NULL);
	return result < ncclInProgress ? texts[result] : NULL;
}

const char *ncclGetLastError(ncclComm_t comm)
{
	const char *text;

	(void)comm;
	enter(__func__, ANY);
	text = *last ? last : NULL;
	leave(NULL);
	return text;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	ENTER(ANY);
	memset(id, 0, sizeof(*id));
	snprintf(id->internal, sizeof(id->internal), "fake %u", ++ids);
	return ncclSuccess;
}

/* Waits until all ranks of the group are here. */
static ncclResult_t meet(struct group *group)
{
	unsigned turn = group->turn;

	if (++group->come == (unsigned)group->ranks) {
		group->come = 0;
		group->turn++;
		pthread_cond_broadcast(&moved);
	}
	while (group->turn == turn && !released)
		pthread_cond_wait(&moved, &lock);
	return group->turn == turn ? ncclRemoteError : ncclSuccess;
}

/* The group of an id, a new one if there is none. */
static struct group *group_of(const ncclUniqueId *id, int ranks)
{
	struct group *unused = NULL;

	for (int i = 0; i < GROUPS; i++) {
		if (!groups[i].members)
			unused = &groups[i];
		else if (!memcmp(&groups[i].id, id, sizeof(*id)))
			return &groups[i];
	}
	if (unused)
		*unused = (struct group){.id = *id, .ranks = ranks};
	return unused;
}

static ncclComm_t comm_new(struct group *group, int rank, int device)
{
	ncclComm_t comm = object_new(COMMUNICATOR, sizeof(*comm), NULL, 0);

	if (!comm)
		return NULL;
	comm->group = group;
	comm->rank = rank;
	comm->device = device;
	group->members++;
	return comm;
}

static void comm_end(ncclComm_t comm)
{
	comm->group->members--;
	object_end(comm);
}

/* A rank twice, or a GPU. */
static bool is_taken(const struct group *group, int rank, int device)
{
	for (struct object *at = objects; at; at = at->next) {
		ncclComm_t comm = (ncclComm_t)at;

		if (at->kind == COMMUNICATOR && comm->group == group &&
		    (comm->rank == rank || comm->device == device))
			return true;
	}
	return false;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id,
			      int rank)
{
	ENTER(rank);
	struct group *group = group_of(&id, ranks);
	int device = current_device();
	ncclComm_t it;
	ncclResult_t result;

	if (device < 0)
		return ncclUnhandledCudaError;
	if (!group || rank < 0 || rank >= ranks || group->ranks != ranks)
		return ncclInvalidArgument;
	if (is_taken(group, rank, device))
		return ncclInvalidUsage;
	it = comm_new(group, rank, device);
	if (!it)
		return ncclSystemError;
	result = meet(group);
	if (result)
		comm_end(it);
	else
		*comm = it;
	return result;
}

ncclResult_t ncclCommInitAll(ncclComm_t *comms, int count, const int *devices)
{
	ENTER(ANY);
	ncclUniqueId id = {{0}};
	struct group *group;

	snprintf(id.internal, sizeof(id.internal), "fake %u", ++ids);
	group = group_of(&id, count);
	if (!group || count < 1)
		return ncclInvalidArgument;
	for (int i = 0; i < count; i++)
		comms[i] = comm_new(group, i, devices ? devices[i] : i);
	return ncclSuccess;
}

/* Windows are given back first: the real one only leaks them. */
ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	ENTER(rank_of(comm));
	if (!object_is(comm, COMMUNICATOR))
		return ncclInvalidArgument;
	if (comm->windows)
		return ncclInvalidUsage;
	comm_end(comm);
	return ncclSuccess;
}

static void windows_end(ncclComm_t comm)
{
	struct object *next;

	for (struct object *at = objects; at; at = next) {
		next = at->next;
		if (at->kind == WINDOW && ((ncclWindow_t)at)->comm == comm)
			object_end(at);
	}
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	ENTER(rank_of(comm));
	if (!object_is(comm, COMMUNICATOR))
		return ncclInvalidArgument;
	windows_end(comm);
	comm_end(comm);
	return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
	ENTER(rank_of(comm));
	if (!object_is(comm, COMMUNICATOR))
		return ncclInvalidArgument;
	*error = async[comm->rank % RANKS];
	return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
	ENTER(ANY);
	depth++;
	return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
	ENTER(ANY);
	if (!depth)
		return ncclInvalidUsage;
	depth--;
	return ncclSuccess;
}

/* Collectives. */

static size_t bytes_of(ncclDataType_t type)
{
	static const unsigned char bytes[] = {
		[ncclInt8] = 1,	   [ncclUint8] = 1,   [ncclInt32] = 4,
		[ncclUint32] = 4,  [ncclInt64] = 8,   [ncclUint64] = 8,
		[ncclFloat16] = 2, [ncclFloat32] = 4, [ncclFloat64] = 8,
		[ncclBfloat16] = 2};

	return type < sizeof(bytes) ? bytes[type] : 0;
}

static ncclResult_t collective(const char *function, ncclComm_t comm,
			       struct fakenccl_collective call)
{
	size_t bytes = call.count * bytes_of(call.type);

	if (!object_is(comm, COMMUNICATOR) || !bytes_of(call.type) ||
	    call.op > ncclAvg || call.root >= comm->group->ranks)
		return ncclInvalidArgument;
	if (collective_count < KEPT) {
		call.rank = comm->rank;
		call.device = comm->device;
		snprintf(call.function, sizeof(call.function), "%s", function);
		collectives[collective_count] = call;
	}
	collective_count++;
	return bytes ? copy(&call, bytes) : ncclSuccess;
}

#define COLLECTIVE(name, parameters, ...)                                      \
	ncclResult_t name parameters                                           \
	{                                                                      \
		ENTER(rank_of(comm));                                          \
		return collective(                                             \
			__func__, comm,                                        \
			(struct fakenccl_collective){.send = send,             \
						     .recv = recv,             \
						     .count = count,           \
						     .type = type,             \
						     .stream = stream,         \
						     __VA_ARGS__});            \
	}

COLLECTIVE(ncclAllReduce,
	   (const void *send, void *recv, size_t count, ncclDataType_t type,
	    ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream),
	   .op = op)
COLLECTIVE(ncclReduceScatter,
	   (const void *send, void *recv, size_t count, ncclDataType_t type,
	    ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream),
	   .op = op)
COLLECTIVE(ncclAllGather,
	   (const void *send, void *recv, size_t count, ncclDataType_t type,
	    ncclComm_t comm, cudaStream_t stream),
	   .root = 0)
COLLECTIVE(ncclBroadcast,
	   (const void *send, void *recv, size_t count, ncclDataType_t type,
	    int root, ncclComm_t comm, cudaStream_t stream),
	   .root = root)

/* Memory and windows. */

ncclResult_t ncclMemAlloc(void **pointer, size_t bytes)
{
	ENTER(ANY);
	CUresult (*alloc)(CUdeviceptr * address, size_t length);
	CUdeviceptr address;

	if (!find("cuMemAlloc_v2", &alloc) || alloc(&address, bytes))
		return ncclUnhandledCudaError;
	*pointer = (void *)(uintptr_t)address;
	return object_new(MEMORY, sizeof(struct object), *pointer, bytes)
		       ? ncclSuccess
		       : ncclSystemError;
}

/* The memory of which [base, base + bytes) is a part. */
static struct object *memory_of(const char *base, size_t bytes)
{
	for (struct object *at = objects; at; at = at->next) {
		const char *start = at->base;

		if (at->kind == MEMORY && base >= start &&
		    base + bytes <= start + at->bytes)
			return at;
	}
	return NULL;
}

ncclResult_t ncclMemFree(void *pointer)
{
	ENTER(ANY);
	struct object *memory = memory_of(pointer, 1);
	CUresult (*release)(CUdeviceptr address);

	if (!memory || memory->base != pointer)
		return ncclInvalidArgument;
	if (!find("cuMemFree_v2", &release) || release((uintptr_t)pointer))
		return ncclUnhandledCudaError;
	object_end(memory);
	return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *memory, size_t bytes,
				    ncclWindow_t *window, int flags)
{
	ENTER(rank_of(comm));
	ncclWindow_t it = NULL;
	ncclResult_t result;

	if (!object_is(comm, COMMUNICATOR) || flags != NCCL_WIN_COLL_SYMMETRIC)
		return ncclInvalidArgument;
	if (!bytes || !memory_of(memory, bytes))
		return ncclInvalidUsage;
	result = meet(comm->group);
	if (result)
		return result;
	if (has_windows) {
		it = object_new(WINDOW, sizeof(*it), memory, bytes);
		if (!it)
			return ncclSystemError;
		it->comm = comm;
		comm->windows++;
	}
	*window = it;
	return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
	ENTER(rank_of(comm));
	if (!object_is(comm, COMMUNICATOR) || !object_is(window, WINDOW) ||
	    window->comm != comm)
		return ncclInvalidArgument;
	comm->windows--;
	object_end(window);
	return ncclSuccess;
}
