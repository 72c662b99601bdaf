/* SPDX-License-Identifier: MIT */
/*
 * What the files of the CUDA driver's fake share: the script as it was read,
 * the objects that are alive, and how a call begins. One lock is held through
 * every call. A device is known by its number in the script, which all
 * processes share; the number that a caller uses is an ordinal among those
 * that CUDA_VISIBLE_DEVICES leaves.
 */
#ifndef OH_TESTS_FAKECUDA_PRIVATE_H
#define OH_TESTS_FAKECUDA_PRIVATE_H

#include <pthread.h>
#include <stdint.h>

#include "fakecuda.h"

#define DEVICES 16
#define ATTRIBUTES 160
#define PARAMETERS 32
#define NAME 128

/* Declared as in the list, and seen from outside. */
#define OH_CUDA(need, result, name, parameters)                                \
	__attribute__((visibility("default"))) result name parameters;
#include "vendor/cuda.def"

enum kind {
	CONTEXT,
	MODULE,
	FUNCTION,
	STREAM,
	EVENT,
	GRAPH,
	EXECUTABLE,
	HANDLE,
	BLOCK, /* memory that has no handle, or none any more */
	RESERVATION,
	MAPPING,
	MEMORY,
	IPC,
	HOST,
	REGISTRATION,
	KINDS
};

/* Begins everything that has a handle or an address. */
struct object {
	struct object *next;
	enum kind kind;
	CUcontext context; /* current when it was made */
};

struct fake_device {
	char name[NAME], pci[NAME];
	unsigned char uuid[16];
	size_t memory, used;
	int attribute[ATTRIBUTES];
	bool peer[DEVICES]; /* may reach their memory */
};

/* A kernel that modules have, and its parameters' sizes. */
struct fake_kernel {
	char name[NAME];
	size_t size[PARAMETERS];
	unsigned parameters;
};

struct CUctx_st {
	struct object object;
	int device; /* in the script */
	CUdevice ordinal;
	unsigned users;
	unsigned running; /* kernels, now */
	CUstream stream; /* the default one */
};

extern struct fake_device fake_devices[DEVICES];
extern size_t fake_granularity;
/* A graph that was not uploaded waits as a kernel does that is not loaded. */
extern bool fake_lazy_graphs;
/* As if another thread did what a capture forbids, behind each launch. */
extern bool fake_void_captures;

/* The script's number for an ordinal; -1 if there is none. */
int fake_device_of(CUdevice ordinal);
/* The ordinal, or CU_DEVICE_INVALID if the device is not visible. */
CUdevice fake_ordinal_of(int device);
/* NULL and *known false: modules have no such kernel. NULL and *known true:
 * the script names no kernels, so they have any. */
const struct fake_kernel *fake_kernel_of(const char *name, bool *known);
/* For which capability it is made, times ten. */
int fake_ptx_of(const char *name);

/* Zeroed and linked; NULL without memory. */
void *fake_object_new(enum kind kind, size_t bytes);
void fake_object_end(void *object);
/* Whether a handle is one of that kind that is alive. */
bool fake_object_is(const void *handle, enum kind kind);
struct object *fake_objects(void);

enum need {
	BARE, /* works without cuInit */
	INIT,
	CURRENT, /* a current context */
	UNSAFE, /* the same, and may not come during a capture */
};

/* The current context's; NULL if there is none. */
CUcontext fake_current(void);
/* How much of unsafe calls the calling thread minds. */
CUstreamCaptureMode *fake_thread_mode(void);
/* The lock of every call, for work that waits for another thread's. */
void fake_unlock(void);
void fake_lock(void);
/* Whether a capture forbids unsafe calls now; it is void then. */
bool fake_capture_broken(void);
/* The default stream that a context begins with. */
CUstream fake_stream_default(CUcontext context);

/* Takes the lock, counts the call, and says how it fails, if it does. */
CUresult fake_enter(const char *function, enum need need);
void fake_leave(CUresult *failure);

#define ENTER(need)                                                            \
	__attribute__((cleanup(fake_leave))) CUresult failure =                \
		fake_enter(__func__, need);                                    \
	if (failure)                                                           \
	return failure

/* Work of a stream. */
struct fake_work {
	enum {
		NOTHING,
		LAUNCH,
		FILL,
		COPY
	} type;
	struct fakecuda_launch *launch; /* its own */
	char *to;
	const char *from;
	size_t bytes, width; /* FILL: the value is width bytes */
	unsigned value;
};

/* Does it now; replay: a graph does. */
void fake_work_do(const struct fake_work *work, CUstream stream, bool replay);
/* Does it, or adds it to the capture; takes work->launch over. */
CUresult fake_submit(CUstream stream, struct fake_work *work);
/* A handle's stream, default streams included; *failure says why NULL. */
CUstream fake_stream_of(CUstream handle, CUresult *failure);
/* Likewise, by who only asks: a capture goes on. */
CUstream fake_stream_asked(CUstream handle, CUresult *failure);
CUcontext fake_stream_context(CUstream stream);
void fake_launches_forget(void);
/* Until no kernel of the context runs; leaves the lock meanwhile. */
void fake_wait_for_kernels(CUcontext context);

#define WAITS 16 /* nodes that a node waits for */

struct waits {
	CUgraphNode node[WAITS];
	size_t count;
};

struct CUgraphNode_st {
	CUgraphNode next;
	struct fake_work work;
	struct waits waits;
	unsigned mark;
};

struct CUgraph_st {
	struct object object;
	CUgraphNode first, *end;
	cuuint64_t id;
	CUstream origin;
	bool capturing, broken;
};

struct CUstream_st {
	struct object object;
	unsigned flags;
	CUgraph capture; /* NULL: none */
	CUstreamCaptureMode mode;
	pthread_t thread; /* that began it */
	struct waits waits;
};

/* Takes work->launch over; waits is then for the new node. */
CUresult fake_graph_add(CUgraph graph, struct waits *waits,
			const struct fake_work *work);
CUresult fake_wait_for_all(struct waits *waits, const struct waits *more);

/* A device's memory: a handle until it is released, and mapped elsewhere. */
struct block {
	struct object object;
	int device, fd;
	size_t bytes;
	bool imported;
	CUmemAllocationHandleType types;
	unsigned users; /* the handle, and mappings */
};

/* Addresses: RESERVATION to REGISTRATION. */
struct range {
	struct object object;
	char *base;
	size_t bytes;
	struct block *block; /* MAPPING, MEMORY, IPC */
	unsigned reached; /* MAPPING: bit i, by device i */
	bool managed; /* HOST */
};

#define DEVICE_RANGES (1u << MAPPING | 1u << MEMORY | 1u << IPC)
#define HOST_RANGES (1u << HOST | 1u << REGISTRATION)

/* The first range of these kinds with a byte of [start, start + bytes). */
struct range *fake_range_find(unsigned kinds, const char *start, size_t bytes);
/* A range by its beginning. */
struct range *fake_range_at(enum kind kind, const void *base);
struct range *fake_range_new(enum kind kind, void *base, size_t bytes);

static inline char *fake_address(CUdeviceptr pointer)
{
	return (char *)(uintptr_t)pointer;
}

/*
 * The module that FAKECUDA_KERNELS names, if any: it runs what is launched from
 * now on, and gives lines of script, one after the other. For programs that
 * know nothing of the fake.
 */
void fake_kernels_load(void (*read_line)(char *line));

/* For tests, by fakecuda.h. */
#define SHOWN __attribute__((visibility("default")))
SHOWN unsigned fakecuda_count_live(const char *kind);
SHOWN unsigned fakecuda_count_calls(const char *function);
SHOWN void fakecuda_fail_call(unsigned number, CUresult code, bool for_good);
SHOWN const char *fakecuda_failed_function(void);
SHOWN const struct fakecuda_launch *fakecuda_list_launches(unsigned *count);
SHOWN void fakecuda_set_runner(fakecuda_runner *runner);
SHOWN bool fakecuda_is_after(CUgraphNode later, CUgraphNode earlier);
/* As a driver has it; not in the library's table. */
SHOWN CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes,
				 unsigned int flags);

#endif
