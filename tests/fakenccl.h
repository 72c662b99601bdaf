/* SPDX-License-Identifier: MIT */
/* fakenccl.so in NCCL's place, beside fakecuda.so, see fakelibrary.h. */
#ifndef OH_TESTS_FAKENCCL_H
#define OH_TESTS_FAKENCCL_H

#include "fakecuda.h"
#include "vendor/nccl.h"

/* A collective that was called, in the order of the process. */
struct fakenccl_collective {
	char function[32];
	int rank, device, root;
	const void *send;
	void *recv;
	size_t count;
	ncclDataType_t type;
	ncclRedOp_t op;
	cudaStream_t stream;
};

static const struct fakelibrary fakenccl = {"fakenccl.so", "libnccl.so.2",
					    "FAKENCCL_SCRIPT", "nccl"};

static inline void fakenccl_start(char **argv)
{
	fakelibrary_start(&fakenccl, argv);
}

/* What NCCL plays from the next ncclGetVersion on. */
static inline void fakenccl_play(const char *script, const char *more)
{
	fakelibrary_play(&fakenccl, script, more);
}

static inline void fakenccl_find(const char *name, void *function)
{
	fakelibrary_find(&fakenccl, name, function);
}

/* How many objects of a kind are alive, NULL: of all kinds. "communicator",
 * "window", "memory" (of ncclMemAlloc). */
static inline unsigned fakenccl_live(const char *kind)
{
	unsigned (*live)(const char *name);

	fakenccl_find("fakenccl_count_live", &live);
	return live(kind);
}

/* How often a function was called since the last ncclGetVersion, which is the
 * first; NULL: all. */
static inline unsigned fakenccl_calls(const char *function)
{
	unsigned (*calls)(const char *name);

	fakenccl_find("fakenccl_count_calls", &calls);
	return calls(function);
}

/* The collectives since the last ncclGetVersion; the first 512 are kept. */
static inline const struct fakenccl_collective *
fakenccl_collectives(unsigned *count)
{
	const struct fakenccl_collective *(*list)(unsigned *number);

	fakenccl_find("fakenccl_list_collectives", &list);
	return list(count);
}

/* Ends all calls that wait for another rank, or are stuck: as failed. */
static inline void fakenccl_release(void)
{
	void (*release)(void);

	fakenccl_find("fakenccl_release_all", &release);
	release();
}

#endif
