/* SPDX-License-Identifier: MIT */
/*
 * NCCL as a peer on GPU memory, as fast as it can be called: one process, a
 * thread a rank, a rank a GPU, the calls made directly. One thread opens; each
 * rank's thread joins, enqueues and leaves; when all have left, one closes.
 *
 * A failure is a status, and oh_last_error names call, code and text. Joining
 * succeeds on all ranks or fails on all: the ranks meet after each step, and
 * nobody enters NCCL unless all are there. Meetings have a deadline. A rank
 * that fails inside NCCL's own meeting can leave the others in there for ever;
 * that rank returns, and ranks that wait elsewhere return after the deadline,
 * so whoever started the threads learns of it and ends the process. If all
 * hang, only a deadline on the whole process helps.
 */
#ifndef OH_BENCH_NCCL_JOB_H
#define OH_BENCH_NCCL_JOB_H

#include <stddef.h>
#include <stdint.h>

#include "onehop/onehop.h"
#include "vendor/cuda.h"

enum bench_nccl_kind {
	BENCH_NCCL_DEFAULT, /* as NCCL chooses; memory of cuMemAlloc */
	BENCH_NCCL_SYMM, /* memory of ncclMemAlloc in a symmetric window */
	BENCH_NCCL_SHM, /* as DEFAULT, peers forbidden by NCCL_P2P_DISABLE=1 */
};
#define BENCH_NCCL_KINDS 3

struct bench_nccl_setup {
	enum bench_nccl_kind kind;
	int ranks;
	int device[OH_MAX_RANKS]; /* the driver's number, each once */
	size_t bytes; /* of each rank's memory */
	uint32_t timeout_ms; /* of a meeting */
	const char *file; /* NULL: libnccl.so.2 */
};

/* An all-reduce; send and recv are offsets into the rank's memory. */
struct bench_nccl_call {
	size_t send, recv, count;
	enum oh_dtype dtype;
	enum oh_op op;
};

struct bench_nccl;

/* "nccl", "nccl-symm", "nccl-shm" */
const char *bench_nccl_name(enum bench_nccl_kind kind);

/*
 * Does the environment let NCCL be what the kind says? NCCL reads it once, so
 * nccl-shm must be started with NCCL_P2P_DISABLE=1, in a process of its own;
 * the others are no peers with it. OH_ERR_SETTING says which variable.
 */
enum oh_status bench_nccl_check(enum bench_nccl_kind kind);

/*
 * Loads NCCL and the driver, checks the setup and the environment. Calls no
 * rank. OH_ERR_UNSUPPORTED: no NCCL, no driver, or an NCCL without windows.
 */
enum oh_status bench_nccl_open(const struct bench_nccl_setup *setup,
			       struct bench_nccl **job);

/* "2.28.9", until the job is closed. */
const char *bench_nccl_version(const struct bench_nccl *job);

/*
 * From the rank's own thread: makes the device's primary context current in it
 * until the rank leaves, takes the memory, enters the communicator, registers
 * the window. Waits for the other ranks. After a failure the rank leaves, too,
 * unless the process ends.
 */
enum oh_status bench_nccl_join(struct bench_nccl *job, int rank);

/* A rank that will not join: all others fail with this thread's last error. */
void bench_nccl_give_up(struct bench_nccl *job, int rank);

/* The rank's memory, after it has joined; nothing is written to it. */
CUdeviceptr bench_nccl_memory(const struct bench_nccl *job, int rank);

/*
 * From the rank's own thread: puts one ncclAllReduce on the stream, also while
 * it captures. NCCL connects the ranks in the first call of its kind, so each
 * call is made once before it is captured, and the capture is thread-local:
 * another rank may be allocating.
 */
enum oh_status bench_nccl_enqueue(struct bench_nccl *job, int rank,
				  const struct bench_nccl_call *call,
				  CUstream stream);

/* What NCCL has noticed since; for who waits for a stream. */
enum oh_status bench_nccl_health(struct bench_nccl *job, int rank);

/*
 * From the rank's own thread, its streams idle: gives all back. If a rank has
 * failed, the communicator is aborted, for which NCCL may want all ranks:
 * instead of waiting for that, a process may end. Safe for who has not joined.
 */
void bench_nccl_leave(struct bench_nccl *job, int rank);

/* NULL is fine. */
void bench_nccl_close(struct bench_nccl *job);

#endif
