/* SPDX-License-Identifier: MIT */
/*
 * The engine for GPU memory: set up when a communicator is made, then one call
 * a function. A call is queued in the caller's stream, or captured into a
 * graph; nothing waits on the host. What the host must notice (a rank that
 * died, a kernel that gave up) a watching thread notices (watch.h).
 *
 * Order of calls: one at a time, in every rank the same order. Calls on one
 * stream are in order; when the stream changes, the new one waits for an event
 * in the old one, or, inside a capture, for the node of the last call. Between
 * a graph's replay and other calls the caller sees to the order.
 */
#ifndef OH_GPU_ENGINE_H
#define OH_GPU_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "comm/rendezvous.h"
#include "gpu/memory.h"
#include "gpu/placement.h"
#include "mailbox/segment.h"

/* In host memory that this rank's GPU has mapped. */
struct oh__gpu_host {
	struct oh__kernel_watch watch;
	struct oh__check_result result[OH_MAX_RANKS];
};

/* How a class is launched. */
struct oh__gpu_grid {
	uint32_t blocks;
	/* why it is not placed while the kernel before works; NULL if it is */
	const char *waits;
};

/* Where the last call of a capture went. */
struct oh__gpu_capture {
	cuuint64_t id; /* 0: none */
	CUstream stream;
	CUgraphNode node;
	uint64_t call; /* its number among those that were captured; 0: none */
};

/* More than may be under way, which the header says: nobody tells that a
 * capture has ended. */
#define OH__GPU_CAPTURES 64

/* Where the last call went. */
struct oh__gpu_order {
	CUstream stream; /* of the last eager call */
	bool any; /* there was one */
	bool recorded; /* the event was recorded after it */
	CUevent event;
	struct oh__gpu_capture capture[OH__GPU_CAPTURES];
	uint64_t captured; /* calls */
};

struct oh__gpu {
	int rank, ranks;
	bool on; /* calls on GPU memory can be made */
	char why_not[256];
	struct oh__gpu_device device;
	struct oh__gpu_facts facts[OH_MAX_RANKS];
	struct oh__gpu_row rows[OH_MAX_RANKS];
	struct oh__gpu_layout layout;
	struct oh__gpu_memory memory;
	struct oh__gpu_host *host;
	CUdeviceptr host_device; /* the same as the GPU sees it */
	CUdeviceptr epochs;
	bool any_pinned;
	struct oh__gpu_grid grid[OH__GPU_CLASSES];
	struct oh__gpu_order order;
	uint64_t calls; /* that were made */
	uint32_t chain; /* hash of them, see agree.h */
	struct oh__mailbox *mailbox; /* where failures are kept and told */
	/* the watching thread: why the failure came that told names, 0: none;
	 * another thread's may have come first */
	char why_failed[200];
	_Atomic uint64_t told;
	pthread_t watcher;
	bool watching;
	uint64_t timeout_ns; /* of a call */
	uint64_t missed_ns; /* since when a kernel misses a result, 0 */
	atomic_bool ends; /* it shall end */
	int wake; /* an eventfd, for then */
};

/* All ranks give their bytes and get everyone's, in the order of the ranks. */
typedef enum oh_status oh__gpu_exchange(void *context, const void *mine,
					size_t bytes, void *all);

struct oh__gpu_options {
	const int *device; /* as in struct oh_comm_options */
	uint64_t budget_bytes; /* of a mailbox */
	const struct oh__setting_table *table; /* no rows: the library's own */
	enum oh__gpu_share share; /* the same on all ranks */
	uint32_t first_epoch;
	const uint32_t *forbidden; /* as of oh__parse_pairs */
	uint64_t call_timeout_ns;
	uint64_t deadline_ns; /* of the set-up */
	struct oh__mailbox *mailbox; /* connected */
	oh__gpu_exchange *exchange;
	void *context;
};

/*
 * All ranks call it. Succeeds on all or fails on all with the same status; if a
 * rank has no GPU it succeeds, and gpu->on is false.
 */
enum oh_status oh__gpu_connect(struct oh__gpu *gpu,
			       const struct oh__gpu_options *options,
			       struct oh__rendezvous *rendezvous);

/* Is the rank another one of this process on this GPU? Then they use one
 * context, where the first launch of a kernel or a graph, and freeing memory,
 * may wait for a kernel that waits for it. */
bool oh__gpu_share_context(const struct oh__gpu *gpu, int rank);

/* Has a kernel of this rank waited in vain? Known as soon as the kernel has
 * ended; whom the failure blames, and its text, come later. */
bool oh__gpu_gave_up(const struct oh__gpu *gpu);

/* Works in every state, a zeroed one too. No kernel of a call may be waiting.
 */
void oh__gpu_destroy(struct oh__gpu *gpu);

/* In a forked child, which has neither the watching thread nor a CUDA context:
 * frees the child's copies of what is not the driver's. */
void oh__gpu_forget(struct oh__gpu *gpu);

/* Of a pointer: is it memory of a GPU (or managed), and of which, -1 if of any?
 * A failure of the driver's is given back. */
enum oh__gpu_memory_kind {
	OH__GPU_MEMORY_HOST,
	OH__GPU_MEMORY_DEVICE,
};
CUresult oh__gpu_memory_of(const struct oh__cuda *cuda, const void *pointer,
			   enum oh__gpu_memory_kind *kind, int *ordinal);

struct oh__gpu_call {
	const void *send;
	void *recv;
	uint64_t bytes; /* not 0 */
	enum oh_dtype dtype;
	bool average;
	CUstream stream;
};

/* Queues an all-reduce; gpu->on. */
enum oh_status oh__gpu_all_reduce(struct oh__gpu *gpu,
				  const struct oh__gpu_call *call);

#endif
