/* SPDX-License-Identifier: MIT */
#include "gpu/watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/descriptor.h"
#include "comm/liveness.h"
#include "gpu/agree.h"
#include "mailbox/wait.h"

/* A warp that stores its epoch may undo what a release did, and a rank that
 * fails later leaves new gaps: so often, then all is quiet. */
#define RELEASES 50
#define RELEASE_BLOCKS 256
/* Between looks after that: for ranks that are lost later still. */
#define SLOW_MS 200

static uint64_t failure_of(const struct oh__gpu *gpu)
{
	return atomic_load_explicit(&gpu->mailbox->failure,
				    memory_order_acquire);
}

static void fail(struct oh__gpu *gpu, enum oh_status status, int culprit,
		 const char *why)
{
	if (!failure_of(gpu) &&
	    !atomic_load_explicit(&gpu->told, memory_order_relaxed)) {
		snprintf(gpu->why_failed, sizeof(gpu->why_failed), "%s", why);
		atomic_store_explicit(&gpu->told, oh__state(status, culprit),
				      memory_order_release);
	}
	oh__mailbox_fail(gpu->mailbox, status, culprit);
	oh__log(OH_LOG_WARN, "rank %d: %s (rank %d); calls on GPU memory end",
		gpu->rank, why, culprit);
}

/* Has a rank called something else than this one? */
static bool look_at_calls(struct oh__gpu *gpu)
{
	char why[200];
	int culprit = oh__gpu_find_mismatch(gpu, why, sizeof(why));

	if (culprit >= 0)
		fail(gpu, OH_ERR_MISMATCH, culprit, why);
	return culprit >= 0;
}

/* Follows a rank that has failed. One that left is missed by a kernel first. */
static void look_at_states(struct oh__gpu *gpu)
{
	const struct oh__mailbox *m = gpu->mailbox;

	for (int i = 0; i < gpu->ranks; i++) {
		/* pairs with set_state of mailbox/wait.c */
		uint64_t state = atomic_load_explicit(&m->peer[i]->state.word,
						      memory_order_acquire);
		unsigned status = oh__state_status(state);
		int culprit = oh__state_culprit(state);

		if (i == gpu->rank || !state || status == OH__STATE_LEFT)
			continue;
		if (culprit < 0 || culprit >= gpu->ranks)
			culprit = i;
		/* a state that means nothing is a failure of that rank's */
		if (!oh__is_failure(status))
			status = OH_ERR_PROTOCOL;
		/* who differs from that rank need not differ from this one */
		if (status == OH_ERR_MISMATCH && look_at_calls(gpu))
			return;
		fail(gpu, (enum oh_status)status, culprit,
		     "a rank reports a failure");
		return;
	}
}

static void look_at_lives(struct oh__gpu *gpu)
{
	uint32_t lost = oh__life_lost(gpu->mailbox->life, gpu->ranks);

	/* in this order: a rank leaves, then it ends */
	lost &= ~oh__ranks_left(gpu->mailbox);
	if (lost)
		fail(gpu, OH_ERR_PEER_LOST, __builtin_ctz(lost),
		     "the process of a rank has ended");
}

/* A rank that has left is missed by the calls that it has not made. */
static void look_at_leavers(struct oh__gpu *gpu)
{
	uint32_t left = oh__ranks_left(gpu->mailbox);

	for (int i = 0; i < gpu->ranks; i++)
		if (i != gpu->rank && left >> i & 1 &&
		    oh__gpu_is_behind(gpu, i)) {
			fail(gpu, OH_ERR_PEER_LOST, i,
			     "a rank has destroyed its communicator without a "
			     "call that this one has made");
			return;
		}
}

/* Those that kernels have waited for in vain, a bit each. */
static uint32_t late_ones(const uint32_t *words)
{
	uint32_t late = 0;

	for (int i = 0; i < OH__KERNEL_RANKS; i++)
		/* a kernel writes them, or on the fake a thread */
		if (__atomic_load_n(&words[i], __ATOMIC_RELAXED))
			late |= 1u << i;
	return late;
}

bool oh__gpu_gave_up(const struct oh__gpu *gpu)
{
	const struct oh__kernel_watch *watch;

	if (!gpu->on || !gpu->host)
		return false;
	watch = &gpu->host->watch;
	return late_ones(watch->late) || late_ones(watch->late_result);
}

/* Of those ranks the ones that have made fewer calls than this one. */
static uint32_t behind_ones(const struct oh__gpu *gpu, uint32_t ranks)
{
	uint32_t behind = 0;

	for (int i = 0; i < gpu->ranks; i++)
		if (ranks >> i & 1 && oh__gpu_is_behind(gpu, i))
			behind |= 1u << i;
	return behind;
}

/*
 * Of several that are late one that has left is to blame, or one that has made
 * fewer calls: with a grid of another size a rank may owe data because it waits
 * for the one that is missing. A missing result blames its rank only if for a
 * quarter of the deadline no kernel has missed data: who waits for results may
 * give up a little earlier.
 */
static void look_at_kernels(struct oh__gpu *gpu)
{
	const struct oh__kernel_watch *watch = &gpu->host->watch;
	const char *why = "a kernel has waited for a rank until the deadline";
	uint32_t late = late_ones(watch->late), left, behind;
	uint32_t late_result = late_ones(watch->late_result);
	int culprit;

	if (!late && late_result && !gpu->missed_ns)
		gpu->missed_ns = oh__now_ns();
	if (!late && gpu->missed_ns &&
	    oh__now_ns() - gpu->missed_ns >= gpu->timeout_ns / 4)
		late = late_result;
	late &= (1u << gpu->ranks) - 1;
	if (!late)
		return;
	left = oh__ranks_left(gpu->mailbox) & late;
	behind = behind_ones(gpu, late);
	culprit = __builtin_ctz(left ? left : behind ? behind : late);
	if (left)
		why = "a kernel waits for a rank that has destroyed its "
		      "communicator";
	else if (oh__gpu_share_context(gpu, culprit))
		why = "a kernel has waited until the deadline for a rank of "
		      "this process on this GPU, where a first launch and "
		      "freeing memory wait for kernels: use a process for "
		      "each rank";
	fail(gpu, left ? OH_ERR_PEER_LOST : OH_ERR_TIMEOUT, culprit, why);
}

/* Ranks from which nothing more is waited for: the dead, those that failed, and
 * all once this rank's own user has ended the call. */
static uint32_t gone(const struct oh__gpu *gpu)
{
	const struct oh__mailbox *m = gpu->mailbox;
	uint64_t failure = failure_of(gpu);
	uint32_t ranks = oh__life_lost(m->life, gpu->ranks);
	int culprit = oh__state_culprit(failure);

	if (oh__state_status(failure) == OH_ERR_ABORTED ||
	    atomic_load_explicit(&m->abort, memory_order_acquire))
		return UINT32_MAX;
	if (culprit >= 0 && culprit < gpu->ranks)
		ranks |= 1u << culprit;
	for (int i = 0; i < gpu->ranks; i++)
		if (atomic_load_explicit(&m->peer[i]->state.word,
					 memory_order_acquire))
			ranks |= 1u << i;
	return ranks;
}

static void release(const struct oh__gpu *gpu, CUdeviceptr slot, uint64_t bytes,
		    bool flagged)
{
	const struct oh__gpu_device *device = &gpu->device;
	struct oh__release_arguments arguments = {
		.epoch = (uint32_t *)gpu->epochs,
		.epochs = gpu->layout.epochs,
		.slot = (uint32_t *)slot,
		.words = bytes / sizeof(uint32_t),
		.flagged = flagged,
	};
	void *parameters[] = {&arguments};
	CUlaunchConfig config = {
		.gridDimX = RELEASE_BLOCKS,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = OH__RELEASE_THREADS,
		.blockDimY = 1,
		.blockDimZ = 1,
		.hStream = device->stream,
	};

	device->cuda->cuLaunchKernelEx(&config, device->release, parameters,
				       NULL);
}

/* In host memory, whose words the processor may as well write. */
static void release_host(void *slot, uint64_t bytes, bool flagged)
{
	uint32_t *word = slot;

	for (uint64_t i = 0; i < bytes / sizeof(*word); i++) {
		uint32_t empty = OH__WORD_EMPTY;

		if (!flagged)
			__atomic_compare_exchange_n(
				word + i, &empty, OH__WORD_NAN, false,
				__ATOMIC_RELAXED, __ATOMIC_RELAXED);
		else if (i % 2) /* data, flag, data, flag */
			__atomic_store_n(word + i, OH__FLAG_RELEASED,
					 __ATOMIC_RELAXED);
	}
}

static void release_rank(const struct oh__gpu *gpu, int rank)
{
	const struct oh__gpu_memory *m = &gpu->memory;

	for (int c = 0; c < gpu->layout.classes; c++) {
		const struct oh__gpu_class *class = &gpu->layout.class[c];
		bool flagged = class->flags_bytes != 0;
		/* data that has come is left as it is */
		uint64_t first =
			oh__gpu_slot(class, rank) + class->flags_offset;
		uint64_t bytes = class->slot_bytes - class->flags_offset;

		if (oh__gpu_passes(gpu->rows, rank, gpu->rank))
			release(gpu, m->vram[gpu->rank] + first, bytes,
				flagged);
		else
			release_host((char *)m->host[gpu->rank] + first, bytes,
				     flagged);
	}
}

/* What has been done about a failure. */
struct releases {
	uint32_t ranks; /* that are gone */
	int count; /* since there was another one */
};

static void end_waits(const struct oh__gpu *gpu, struct releases *done)
{
	uint32_t ranks = gone(gpu);

	if (ranks & ~done->ranks)
		done->count = 0;
	done->ranks |= ranks;
	if (done->count == RELEASES ||
	    gpu->device.cuda->cuStreamQuery(gpu->device.stream) ==
		    CUDA_ERROR_NOT_READY)
		return; /* all is quiet, or the last ones are still at work */
	done->count++;
	release(gpu, 0, 0, false);
	for (int i = 0; i < gpu->ranks; i++)
		if (ranks >> i & 1)
			release_rank(gpu, i);
}

static void look(struct oh__gpu *gpu, struct releases *done)
{
	if (!failure_of(gpu))
		look_at_lives(gpu);
	if (!failure_of(gpu))
		look_at_leavers(gpu);
	if (!failure_of(gpu))
		look_at_calls(gpu);
	if (!failure_of(gpu))
		look_at_states(gpu);
	if (!failure_of(gpu))
		look_at_kernels(gpu);
	if (failure_of(gpu))
		end_waits(gpu, done);
}

/* The descriptors to wait for; a dead rank's would wake it again and again. */
static int fill_polls(const struct oh__gpu *gpu, struct pollfd *polls)
{
	uint32_t left = oh__ranks_left(gpu->mailbox);
	int count = 0;

	polls[count++] = (struct pollfd){.fd = gpu->wake, .events = POLLIN};
	for (int i = 0; i < gpu->ranks && !failure_of(gpu); i++)
		if (!(left >> i & 1))
			polls[count++] = (struct pollfd){
				.fd = gpu->mailbox->life[i], .events = POLLIN};
	return count;
}

static void await_event(const struct oh__gpu *gpu, int ms)
{
	struct pollfd polls[1 + OH_MAX_RANKS];
	int ready = poll(polls, (nfds_t)fill_polls(gpu, polls), ms);

	/* the program has closed all, or lowered RLIMIT_NOFILE: there is time
	 * to wait for, still */
	if ((ready < 0 && errno != EINTR) ||
	    (ready > 0 && polls[0].revents & POLLNVAL))
		nanosleep(&(struct timespec){.tv_nsec = ms * 1000000l}, NULL);
}

static void *watch(void *context)
{
	struct oh__gpu *gpu = context;
	CUstreamCaptureMode mode;
	struct releases done = {0, 0};
	enum oh_status entered = oh__gpu_enter(&gpu->device, &mode);

	if (entered) {
		fail(gpu, entered, gpu->rank,
		     "the thread that watches the ranks has no CUDA context");
		return NULL;
	}
	for (;;) {
		await_event(gpu, done.count == RELEASES ? SLOW_MS
							: OH__GPU_WATCH_MS);
		if (atomic_load_explicit(&gpu->ends, memory_order_acquire))
			break;
		look(gpu, &done);
	}
	oh__gpu_leave(&gpu->device, &mode);
	return NULL;
}

enum oh_status oh__gpu_watch_start(struct oh__gpu *gpu)
{
	sigset_t all, before;
	int code;

	gpu->wake = oh__fd_raise(eventfd(0, EFD_CLOEXEC));
	if (gpu->wake < 0)
		return OH__FAIL_CALL(OH_ERR_SYSTEM, "eventfd", errno,
				     "no descriptor to end the watching "
				     "thread by");
	/* the program's signals are the program's */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	code = pthread_create(&gpu->watcher, NULL, watch, gpu);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (code)
		return OH__FAIL_CALL(OH_ERR_SYSTEM, "pthread_create", code,
				     "no thread to watch the ranks");
	gpu->watching = true;
	return OH_OK;
}

void oh__gpu_watch_end(struct oh__gpu *gpu)
{
	uint64_t one = 1;

	if (gpu->watching) {
		atomic_store_explicit(&gpu->ends, true, memory_order_release);
		while (write(gpu->wake, &one, sizeof(one)) < 0 &&
		       errno == EINTR)
			;
		pthread_join(gpu->watcher, NULL);
	}
	gpu->watching = false;
	oh__fd_close(&gpu->wake);
}
