/* SPDX-License-Identifier: MIT */
/*
 * Owns the communicator, the memory and the window of each rank of the peer
 * NCCL. A rank's seat is used by its thread alone; what the ranks share of each
 * other is under one lock: who has come to the meeting, and the first failure.
 * That failure is never taken back.
 */
#include "bench/nccl_job.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/error.h"
#include "bench/device_memory.h"
#include "vendor/library.h"
#include "vendor/nccl.h"

struct seat {
	CUdevice device;
	CUcontext context; /* NULL: not retained */
	bool current; /* the context, in the rank's thread */
	void *memory;
	ncclComm_t comm;
	ncclWindow_t window;
};

struct bench_nccl {
	struct bench_nccl_setup setup;
	const struct oh__cuda *cuda;
	const struct oh__nccl *nccl;
	ncclUniqueId id;
	char version[24];
	struct seat seat[OH_MAX_RANKS];

	pthread_mutex_t lock;
	pthread_cond_t moved;
	unsigned come; /* to this meeting, a bit each */
	unsigned turn; /* meetings so far */
	struct oh_error failure; /* status OH_OK: none */
	int culprit;
};

static const struct {
	const char *name;
	bool peers; /* may reach each other's memory */
	bool window;
} kinds[BENCH_NCCL_KINDS] = {
	[BENCH_NCCL_DEFAULT] = {"nccl", true, false},
	[BENCH_NCCL_SYMM] = {"nccl-symm", true, true},
	[BENCH_NCCL_SHM] = {"nccl-shm", false, false},
};

static const ncclDataType_t types[OH_DTYPE_COUNT] = {
	[OH_F64] = ncclFloat64, [OH_F32] = ncclFloat32,
	[OH_F16] = ncclFloat16, [OH_BF16] = ncclBfloat16,
	[OH_I64] = ncclInt64,	[OH_U64] = ncclUint64,
	[OH_I32] = ncclInt32,	[OH_U32] = ncclUint32,
	[OH_I8] = ncclInt8,	[OH_U8] = ncclUint8,
};

static const ncclRedOp_t ops[OH_OP_COUNT] = {
	[OH_SUM] = ncclSum, [OH_PROD] = ncclProd, [OH_MIN] = ncclMin,
	[OH_MAX] = ncclMax, [OH_AVG] = ncclAvg,
};

const char *bench_nccl_name(enum bench_nccl_kind kind)
{
	return kinds[kind].name;
}

enum oh_status bench_nccl_check(enum bench_nccl_kind kind)
{
	const char *text = getenv("NCCL_P2P_DISABLE");
	/* as NCCL reads it: nothing but 1 forbids */
	bool peers = !text || strtol(text, NULL, 0) != 1;

	if (peers == kinds[kind].peers)
		return OH_OK;
	if (peers)
		return OH__FAIL(OH_ERR_SETTING,
				"%s needs NCCL_P2P_DISABLE=1 in the "
				"environment before NCCL starts, and it is "
				"%s; start a process of its own with it",
				kinds[kind].name, text ? text : "unset");
	return OH__FAIL(OH_ERR_SETTING,
			"NCCL_P2P_DISABLE=%s forbids NCCL the peers that %s is "
			"to be measured with; unset it, or take %s",
			text, kinds[kind].name, kinds[BENCH_NCCL_SHM].name);
}

/* Opening. */

/* 22809 and, until 2.8, 2708. */
static void write_version(struct bench_nccl *job, int code)
{
	int unit = code < 10000 ? 10 : 100;

	snprintf(job->version, sizeof(job->version), "%d.%d.%d",
		 code / 100 / unit, code / 100 % unit, code % 100);
}

static enum oh_status check_setup(const struct bench_nccl_setup *setup)
{
	if (setup->ranks < 1 || setup->ranks > OH_MAX_RANKS || !setup->bytes)
		return OH__FAIL(OH_ERR_INVALID,
				"%d ranks with %zu bytes each: NCCL is "
				"measured with 1 to %d ranks and at least a "
				"byte",
				setup->ranks, setup->bytes, OH_MAX_RANKS);
	for (int i = 0; i < setup->ranks; i++)
		for (int j = 0; j < i; j++)
			if (setup->device[i] == setup->device[j])
				return OH__FAIL(OH_ERR_UNSUPPORTED,
						"ranks %d and %d are both on "
						"GPU %d: NCCL takes a GPU "
						"once; give each rank its own",
						j, i, setup->device[i]);
	return OH_OK;
}

static enum oh_status check_windows(const struct bench_nccl *job)
{
	const struct oh__nccl *nccl = job->nccl;

	if (!kinds[job->setup.kind].window ||
	    (nccl->ncclMemAlloc && nccl->ncclMemFree &&
	     nccl->ncclCommWindowRegister && nccl->ncclCommWindowDeregister))
		return OH_OK;
	return oh__vendor_absent(
		"NCCL %s has no symmetric windows (ncclCommWindowRegister); "
		"install 2.27 or later for %s",
		job->version, kinds[job->setup.kind].name);
}

static enum oh_status load(struct bench_nccl *job)
{
	enum oh_status status = oh__cuda_load(&job->cuda);
	int code = 0;

	if (!status)
		status = oh__nccl_load(job->setup.file, &job->nccl);
	if (!status)
		status = OH__NCCL(job->nccl->ncclGetVersion(&code));
	write_version(job, code);
	if (!status)
		status = check_windows(job);
	if (!status)
		status = OH__NCCL(job->nccl->ncclGetUniqueId(&job->id));
	return status;
}

static void make_lock(struct bench_nccl *job)
{
	pthread_condattr_t attributes;

	pthread_mutex_init(&job->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&job->moved, &attributes);
	pthread_condattr_destroy(&attributes);
}

enum oh_status bench_nccl_open(const struct bench_nccl_setup *setup,
			       struct bench_nccl **job)
{
	enum oh_status status = check_setup(setup);
	struct bench_nccl *it;

	if (!status)
		status = bench_nccl_check(setup->kind);
	if (status)
		return status;
	it = calloc(1, sizeof(*it));
	if (!it)
		return OH__FAIL(OH_ERR_NO_MEMORY, "no memory for %zu bytes",
				sizeof(*it));
	it->setup = *setup;
	status = load(it);
	if (status) {
		free(it);
		return status;
	}
	make_lock(it);
	*job = it;
	return OH_OK;
}

void bench_nccl_close(struct bench_nccl *job)
{
	if (!job)
		return;
	pthread_cond_destroy(&job->moved);
	pthread_mutex_destroy(&job->lock);
	free(job);
}

const char *bench_nccl_version(const struct bench_nccl *job)
{
	return job->version;
}

/* Meetings. */

/* Under the lock: keeps the thread's last error as everybody's, if it is the
 * first. */
static void keep_failure(struct bench_nccl *job, int rank)
{
	if (!job->failure.status) {
		job->failure = *oh_last_error();
		job->culprit = rank;
	}
	pthread_cond_broadcast(&job->moved);
}

void bench_nccl_give_up(struct bench_nccl *job, int rank)
{
	if (!oh_last_error()->status)
		OH__FAIL(OH_ERR_ABORTED, "rank %d does not join NCCL", rank);
	pthread_mutex_lock(&job->lock);
	keep_failure(job, rank);
	pthread_mutex_unlock(&job->lock);
}

/* Under the lock: the failure as this rank's own, if it is another's. It is
 * logged already. */
static enum oh_status tell_failure(const struct bench_nccl *job, int rank)
{
	struct oh_error record = job->failure;

	if (job->culprit != rank) {
		snprintf(record.message, sizeof(record.message),
			 "rank %d: %.490s", job->culprit, job->failure.message);
		oh__error_restore(&record);
	}
	return record.status;
}

static struct timespec deadline_of(const struct bench_nccl *job)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_sec += job->setup.timeout_ms / 1000;
	at.tv_nsec += job->setup.timeout_ms % 1000 * 1000000L;
	at.tv_sec += at.tv_nsec / 1000000000L;
	at.tv_nsec %= 1000000000L;
	return at;
}

/* Under the lock: until the meeting is over, or something has failed. */
static void wait_for_all(struct bench_nccl *job, int rank)
{
	struct timespec deadline = deadline_of(job);
	unsigned turn = job->turn;

	while (job->turn == turn && !job->failure.status) {
		if (pthread_cond_timedwait(&job->moved, &job->lock,
					   &deadline) != ETIMEDOUT ||
		    job->turn != turn || job->failure.status)
			continue;
		OH__FAIL(OH_ERR_TIMEOUT,
			 "rank %d of NCCL has not come within %u ms; see its "
			 "own error, or NCCL_DEBUG=INFO if it is inside NCCL",
			 __builtin_ctz(~job->come), job->setup.timeout_ms);
		keep_failure(job, rank);
	}
}

/*
 * Each rank comes with the status of its step, and leaves with that of all. A
 * meeting that all have come to has succeeded, also for those that wake after
 * another rank has failed in its next step.
 */
static enum oh_status meet(struct bench_nccl *job, int rank,
			   enum oh_status status)
{
	unsigned turn;

	pthread_mutex_lock(&job->lock);
	turn = job->turn;
	job->come |= 1u << rank;
	if (status) {
		keep_failure(job, rank);
	} else if (job->come == (1u << job->setup.ranks) - 1 &&
		   !job->failure.status) {
		job->come = 0;
		job->turn++;
		pthread_cond_broadcast(&job->moved);
	} else {
		wait_for_all(job, rank);
		if (job->turn == turn)
			status = tell_failure(job, rank);
	}
	pthread_mutex_unlock(&job->lock);
	return status;
}

/* Joining. */

static enum oh_status take_context(struct bench_nccl *job, int rank)
{
	const struct oh__cuda *cuda = job->cuda;
	struct seat *seat = &job->seat[rank];
	CUcontext context;
	enum oh_status status;

	status = OH__CUDA(
		cuda->cuDeviceGet(&seat->device, job->setup.device[rank]));
	if (!status)
		status = OH__CUDA(
			cuda->cuDevicePrimaryCtxRetain(&context, seat->device));
	if (status)
		return status;
	seat->context = context;
	status = OH__CUDA(cuda->cuCtxPushCurrent_v2(context));
	seat->current = !status;
	return status;
}

/* Before the communicator: what can fail alone fails before NCCL waits. */
static enum oh_status take_memory(struct bench_nccl *job, int rank)
{
	struct seat *seat = &job->seat[rank];
	CUdeviceptr memory;
	void *pointer;
	enum oh_status status;

	if (kinds[job->setup.kind].window) {
		status = OH__NCCL(
			job->nccl->ncclMemAlloc(&pointer, job->setup.bytes));
	} else {
		status = bench_device_alloc(job->cuda, job->setup.bytes,
					    &memory);
		pointer = (void *)(uintptr_t)memory;
	}
	if (!status)
		seat->memory = pointer;
	return status;
}

static enum oh_status enter_communicator(struct bench_nccl *job, int rank)
{
	ncclComm_t comm;
	enum oh_status status = OH__NCCL(job->nccl->ncclCommInitRank(
		&comm, job->setup.ranks, job->id, rank));

	if (!status)
		job->seat[rank].comm = comm;
	return status;
}

static enum oh_status register_window(struct bench_nccl *job, int rank)
{
	struct seat *seat = &job->seat[rank];
	ncclWindow_t window = NULL;
	enum oh_status status;

	if (!kinds[job->setup.kind].window)
		return OH_OK;
	status = OH__NCCL(job->nccl->ncclCommWindowRegister(
		seat->comm, seat->memory, job->setup.bytes, &window,
		NCCL_WIN_COLL_SYMMETRIC));
	if (!status && !window)
		return oh__vendor_absent(
			"NCCL %s makes no symmetric window here: its ranks do "
			"not reach each other's memory; see NCCL_DEBUG=INFO",
			job->version);
	seat->window = window;
	return status;
}

enum oh_status bench_nccl_join(struct bench_nccl *job, int rank)
{
	static enum oh_status (*const steps[])(struct bench_nccl * at,
					       int of) = {
		take_context,
		take_memory,
		enter_communicator,
		register_window,
	};
	enum oh_status status = OH_OK;

	for (size_t i = 0; !status && i < sizeof(steps) / sizeof(*steps); i++)
		status = meet(job, rank, steps[i](job, rank));
	return status;
}

CUdeviceptr bench_nccl_memory(const struct bench_nccl *job, int rank)
{
	return (uintptr_t)job->seat[rank].memory;
}

/* Calls. */

/* What failed for one rank has failed for all. */
static enum oh_status note(struct bench_nccl *job, int rank,
			   enum oh_status status)
{
	if (!status)
		return OH_OK;
	pthread_mutex_lock(&job->lock);
	keep_failure(job, rank);
	pthread_mutex_unlock(&job->lock);
	return status;
}

/* Types, operations and places that there are. */
static bool is_sound(const struct bench_nccl *job, int rank,
		     const struct bench_nccl_call *call)
{
	size_t room = job->setup.bytes, element = oh_dtype_bytes(call->dtype);

	if (!job->seat[rank].comm || !element ||
	    (unsigned)call->op >= OH_OP_COUNT || call->count > room / element)
		return false;
	room -= call->count * element;
	return call->send <= room && call->recv <= room;
}

enum oh_status bench_nccl_enqueue(struct bench_nccl *job, int rank,
				  const struct bench_nccl_call *call,
				  CUstream stream)
{
	const struct seat *seat = &job->seat[rank];
	char *memory = seat->memory;

	if (__builtin_expect(!is_sound(job, rank, call), 0))
		return note(job, rank,
			    OH__FAIL(OH_ERR_INVALID,
				     "%zu elements of type %d, operation %d, "
				     "from byte %zu to byte %zu: rank %d has "
				     "%zu bytes, or has not joined",
				     call->count, (int)call->dtype,
				     (int)call->op, call->send, call->recv,
				     rank, job->setup.bytes));
	return note(job, rank,
		    OH__NCCL(job->nccl->ncclAllReduce(
			    memory + call->send, memory + call->recv,
			    call->count, types[call->dtype], ops[call->op],
			    seat->comm, stream)));
}

enum oh_status bench_nccl_health(struct bench_nccl *job, int rank)
{
	ncclResult_t found = ncclSuccess;
	enum oh_status status = OH__NCCL(
		job->nccl->ncclCommGetAsyncError(job->seat[rank].comm, &found));

	/* its text says that it was found later, in the background */
	if (!status && found)
		status = oh__nccl_fail(found, "ncclCommGetAsyncError", __FILE__,
				       __LINE__);
	return note(job, rank, status);
}

/* Leaving. What fails here is logged, and the rest is still given back. */

static void leave_communicator(struct bench_nccl *job, struct seat *seat)
{
	bool failed;

	pthread_mutex_lock(&job->lock);
	failed = job->failure.status != OH_OK;
	pthread_mutex_unlock(&job->lock);
	/* an abort takes the window with it */
	if (seat->window && !failed)
		OH__NCCL(job->nccl->ncclCommWindowDeregister(seat->comm,
							     seat->window));
	if (seat->comm && failed)
		OH__NCCL(job->nccl->ncclCommAbort(seat->comm));
	else if (seat->comm)
		OH__NCCL(job->nccl->ncclCommDestroy(seat->comm));
}

static void give_memory_back(struct bench_nccl *job, struct seat *seat)
{
	if (seat->memory && kinds[job->setup.kind].window)
		OH__NCCL(job->nccl->ncclMemFree(seat->memory));
	else if (seat->memory)
		OH__CUDA(job->cuda->cuMemFree_v2((uintptr_t)seat->memory));
}

void bench_nccl_leave(struct bench_nccl *job, int rank)
{
	struct seat *seat = &job->seat[rank];
	CUcontext context;

	leave_communicator(job, seat);
	give_memory_back(job, seat);
	if (seat->current)
		OH__CUDA(job->cuda->cuCtxPopCurrent_v2(&context));
	if (seat->context)
		OH__CUDA(job->cuda->cuDevicePrimaryCtxRelease_v2(seat->device));
	*seat = (struct seat){0};
}
