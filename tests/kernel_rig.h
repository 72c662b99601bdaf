/* SPDX-License-Identifier: MIT */
/*
 * Kernels without the library around them: ranks in one process, each with a
 * stream, a mailbox that all devices have mapped, buffers and epochs. Ranks are
 * dealt out over the GPUs that are there, so that several share one; or run on
 * emulated ones (emulated.h).
 */
#ifndef OH_TESTS_KERNEL_RIG_H
#define OH_TESTS_KERNEL_RIG_H

#include <stdbool.h>

#include "kernels/arguments.h"
#include "vendor/cuda.h"

#define RIG_DEVICES 16
#define RIG_BUFFER_BYTES ((size_t)4 << 20)
#ifdef RIG_EMULATED
#define RIG_HALF_BYTES ((size_t)1 << 16)
#else
#define RIG_HALF_BYTES ((size_t)1 << 20)
#endif
/* a slot a rank, of four halves, as a two-shot wants them */
#define RIG_SLOT_BYTES (4 * RIG_HALF_BYTES)
/* behind them, for what carries flags, slots of two halves */
#define RIG_FLAGGED_AT (OH__KERNEL_RANKS * RIG_SLOT_BYTES)
#define RIG_FLAGGED_BYTES (OH__KERNEL_RANKS * 2 * RIG_HALF_BYTES)
/* and for chunks, slots of four halves and their flags */
#define RIG_STAGED_AT (RIG_FLAGGED_AT + RIG_FLAGGED_BYTES)
#define RIG_STAGED_SLOT_BYTES (5 * RIG_HALF_BYTES)
#define RIG_STAGED_BYTES (OH__KERNEL_RANKS * RIG_STAGED_SLOT_BYTES)
#define RIG_MAILBOX_BYTES (RIG_STAGED_AT + RIG_STAGED_BYTES)
#define RIG_EPOCH_BYTES (1u << 16)

enum rig_algorithm {
	RIG_ONE_SHOT,
	RIG_TWO_SHOT,
	RIG_FLAGGED, /* in a region of its own */
	RIG_STAGED, /* the same; two-shot if there are more than two ranks */
	RIG_ALGORITHMS
};

enum rig_placement {
	RIG_VRAM, /* in the reader's memory */
	RIG_PINNED, /* in host memory */
};

struct rig_device {
	CUdevice device;
	CUcontext context;
	CUmodule module;
};

struct rig_rank {
	struct rig_device *device;
	CUstream stream, beside; /* for what runs beside its calls */
	CUdeviceptr send, recv, epoch;
	CUdeviceptr mailbox; /* mapped for all devices */
	CUmemGenericAllocationHandle handle;
	void *pinned;
};

struct rig {
	const struct oh__cuda *cuda;
	int devices, ranks;
	enum rig_placement placement;
	unsigned blocks, threads; /* the grid, which never changes */
	struct rig_device device[RIG_DEVICES];
	struct rig_rank rank[OH__KERNEL_RANKS];
	struct oh__kernel_watch *watch; /* one a rank */
	/* [reader][writer] */
	struct oh__check_result (*checks)[OH__KERNEL_RANKS];
};

/* One call of all ranks. */
struct rig_call {
	enum rig_algorithm algorithm;
	enum oh_dtype dtype; /* f32, f16, bf16 */
	size_t bytes;
	size_t send_at, recv_at; /* bytes into the buffers */
	bool average;
	/* bit i: rank i receives where it sends from */
	uint32_t in_place;
	/* bit i: rank i runs the kernel for anything, where another would do */
	uint32_t general;
	size_t half_bytes; /* of a slot; 0: RIG_HALF_BYTES */
	uint32_t timeout; /* ticks; 0: seconds */
	uint32_t absent; /* bit i: rank i does not come */
};

/* Does the rank run the kernel that wants an aligned sum of whole packs? */
bool rig_is_fast(const struct rig *rig, int index, const struct rig_call *call);
void rig_fill_arguments(const struct rig *rig, int index,
			const struct rig_call *call,
			struct oh__kernel_arguments *a);
/* Of all epochs, or what a call uses of rank from's slot; from -1: no slot. */
void rig_fill_release(const struct rig *rig, int index,
		      const struct rig_call *call, int from,
		      struct oh__release_arguments *a);
void rig_fill_check(const struct rig *rig, int index, uint32_t nonce,
		    uint32_t skipped, struct oh__check_arguments *a);

/* NULL, or why there is nothing to run on. */
const char *rig_open(struct rig *rig);
/* Makes the ranks; false with oh_last_error. */
bool rig_begin(struct rig *rig, int ranks, enum rig_placement placement,
	       unsigned blocks, unsigned threads);
void rig_end(struct rig *rig);
void rig_close(struct rig *rig);

/* Where the rank receives. */
CUdeviceptr rig_result(const struct rig *rig, int index,
		       const struct rig_call *call);

bool rig_launch(struct rig *rig, const struct rig_call *call);
/* As the library does first: the kernels of the call with no work and no slots.
 */
bool rig_launch_nothing(struct rig *rig, const struct rig_call *call);
bool rig_wait(struct rig *rig);
/* Does a call still run? */
bool rig_is_busy(struct rig *rig);
/* As src/gpu/watch.c does: ends the rank's waits for those that are gone, bit
 * k: rank k; beside its kernels. */
bool rig_release(struct rig *rig, int index, const struct rig_call *call,
		 uint32_t gone);
/* Every rank's check, into rig->checks, of mailboxes in which no call was made;
 * bit i of skipped: rank i writes to itself only. */
bool rig_check(struct rig *rig, uint32_t nonce, uint32_t skipped);
/* By the clock of deadlines. */
uint64_t rig_now_ns(void);
bool rig_put(struct rig *rig, int rank, size_t at, const void *data,
	     size_t bytes);
/* What a call left on the rank: all its bytes. */
bool rig_get(struct rig *rig, int rank, const struct rig_call *call,
	     void *data);
/* Every warp's epoch of every rank. */
bool rig_set_epochs(struct rig *rig, uint32_t epoch);

#endif
