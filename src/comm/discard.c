/* SPDX-License-Identifier: MIT */
/*
 * A thread owns its batch. Those that are still at it when the rendezvous ends
 * are detached, and the library is kept from being unloaded under them. Where
 * no thread can be had the caller closes after all.
 */
#include "comm/discard.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* What a close takes, on a busy machine. */
#define PROMPT_MS 200

struct batch {
	int count;
	int fds[OH__DISCARD_FDS];
};

static void *close_batch(void *argument)
{
	struct batch *batch = argument;

	for (int i = 0; i < batch->count; i++)
		close(batch->fds[i]);
	free(batch);
	return NULL;
}

/* The program's signals are not for it. */
static bool start_thread(pthread_t *thread, struct batch *batch)
{
	sigset_t all, before;
	int code;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	code = pthread_create(thread, NULL, close_batch, batch);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return code == 0;
}

/* Joins those that have ended. */
static void reap(struct oh__discard *discard)
{
	for (int i = discard->thread_count - 1; i >= 0; i--)
		if (!pthread_tryjoin_np(discard->threads[i], NULL))
			discard->threads[i] =
				discard->threads[--discard->thread_count];
}

bool oh__discard_start(struct oh__discard *discard)
{
	struct batch *batch;

	if (!discard->fd_count)
		return true;
	reap(discard);
	if (discard->thread_count == OH__DISCARD_THREADS)
		return false;
	batch = malloc(sizeof(*batch));
	if (batch) {
		batch->count = discard->fd_count;
		memcpy(batch->fds, discard->fds, sizeof(batch->fds));
	}
	if (batch &&
	    start_thread(&discard->threads[discard->thread_count], batch)) {
		discard->thread_count++;
	} else {
		free(batch);
		for (int i = 0; i < discard->fd_count; i++)
			close(discard->fds[i]);
	}
	discard->fd_count = 0;
	return true;
}

/* dlclose must not take the code from under a thread. */
static void stay_loaded(void)
{
	Dl_info info;

	if (dladdr((void *)(uintptr_t)stay_loaded, &info))
		dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

/* With one thread more than there may be, where it must. */
static void start_now(struct oh__discard *discard)
{
	if (oh__discard_start(discard))
		return;
	pthread_detach(discard->threads[--discard->thread_count]);
	stay_loaded();
	oh__discard_start(discard);
}

void oh__discard_add(struct oh__discard *discard, int *fd)
{
	if (discard->fd_count == OH__DISCARD_FDS)
		start_now(discard);
	if (*fd >= 0)
		discard->fds[discard->fd_count++] = *fd;
	*fd = -1;
}

static void wait_for_all(struct oh__discard *discard, unsigned ms)
{
	uint64_t until_ns = oh__now_ns() + ms * OH__NS_PER_MS;
	struct timespec pause = {.tv_nsec = 20000};

	reap(discard);
	while (discard->thread_count && oh__now_ns() < until_ns) {
		nanosleep(&pause, NULL);
		reap(discard);
	}
}

void oh__discard_end(struct oh__discard *discard)
{
	start_now(discard);
	wait_for_all(discard, PROMPT_MS);
	if (discard->thread_count)
		stay_loaded();
	while (discard->thread_count)
		pthread_detach(discard->threads[--discard->thread_count]);
}

void oh__discard_one(int *fd)
{
	struct oh__discard discard = {0};

	oh__discard_add(&discard, fd);
	oh__discard_end(&discard);
}
