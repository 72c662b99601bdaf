/* SPDX-License-Identifier: MIT */
/*
 * Owns the log level and the sink. The level is read without the lock; sink
 * and context change together under it. The sink is called outside the lock,
 * so a sink that is being replaced may see one more line. A fork waits for the
 * lock, so that no thread that the child lacks holds it there.
 */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "base/cancel.h"
#include "base/settings.h"

#define LEVEL_UNSET (-1)

static atomic_int level_now = LEVEL_UNSET;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static oh_log_sink *sink_now;
static void *sink_context;

static const char *const level_names[] = {"off", "error", "warn", "info",
					  "debug"};

/* A program is not to die of a line whose reader has gone: a SIGPIPE of this
 * write, which comes to this thread, is taken back. */
static void write_stderr(enum oh_log_level level, const char *line,
			 void *context)
{
	static const struct timespec at_once;
	sigset_t pipe, pending, before;
	int code = errno;
	bool blocked;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	sigpending(&pending);
	blocked = !pthread_sigmask(SIG_BLOCK, &pipe, &before);
	fprintf(stderr, "onehop: %s: %s\n", level_names[level], line);
	if (blocked && !sigismember(&pending, SIGPIPE))
		while (sigtimedwait(&pipe, NULL, &at_once) < 0 &&
		       errno == EINTR)
			;
	if (blocked)
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = code;
}

static void take_lock(void)
{
	pthread_mutex_lock(&lock);
}

static void give_lock(void)
{
	pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(take_lock, give_lock, give_lock);
}

/* The level of ONEHOP_LOG; a malformed value is reported by the first
 * oh_comm_create, here it means the default. */
static int level_from_settings(void)
{
	uint64_t value;

	if (!oh__setting_peek(OH__SETTING_LOG, &value))
		value = OH_LOG_WARN;
	return (int)value;
}

bool oh__log_enabled(enum oh_log_level level)
{
	int now = atomic_load_explicit(&level_now, memory_order_relaxed);

	if (now == LEVEL_UNSET) {
		now = level_from_settings();
		/* a level set by another thread in between wins */
		int unset = LEVEL_UNSET;
		if (!atomic_compare_exchange_strong(&level_now, &unset, now))
			now = unset;
	}
	return (int)level <= now;
}

void oh__log(enum oh_log_level level, const char *format, ...)
{
	char line[768];
	oh_log_sink *sink;
	void *context;
	va_list args;
	int cancel;

	if (!oh__log_enabled(level))
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);

	cancel = oh__cancel_off();
	pthread_mutex_lock(&lock);
	sink = sink_now ? sink_now : write_stderr;
	context = sink_context;
	pthread_mutex_unlock(&lock);
	sink(level, line, context);
	oh__cancel_restore(cancel);
}

void oh_set_log(enum oh_log_level level, oh_log_sink *sink, void *context)
{
	/* the enum may be unsigned */
	if ((int)level < (int)OH_LOG_OFF)
		level = OH_LOG_OFF;
	if ((int)level > (int)OH_LOG_DEBUG)
		level = OH_LOG_DEBUG;
	pthread_mutex_lock(&lock);
	sink_now = sink;
	sink_context = context;
	pthread_mutex_unlock(&lock);
	atomic_store(&level_now, (int)level);
}
