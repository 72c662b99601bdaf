/* SPDX-License-Identifier: MIT */
/*
 * No function of the library is a cancellation point: a thread that is to be
 * cancelled finishes it, and neither a lock nor a descriptor stays behind.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "leftovers.h"
#include "onehop/onehop.h"
#include "tap.h"

#ifndef __has_feature
#define __has_feature(feature) 0 /* gcc has macros of its own */
#endif

static struct oh_unique_id id;
static struct oh_comm *comm;
static int finished; /* steps that the cancelled thread came to */

static enum oh_status join(struct oh_comm **made)
{
	struct oh_comm_options options = {
		.size = sizeof(options), .id = &id, .ranks = 1};

	return oh_comm_create(&options, made);
}

/* Cancelled before it begins; each failure writes to the log. */
static void *fail_to_allocate(void *unused)
{
	void *memory = NULL;

	pthread_cancel(pthread_self());
	oh_comm_alloc(comm, (size_t)1 << 40, &memory);
	finished = 1;
	pthread_testcancel();
	return NULL;
}

static void *fail_in_a_call(void *unused)
{
	float value = 1;

	pthread_cancel(pthread_self());
	oh_all_reduce(comm, &value, &value, 1, OH_F32, OH_SUM, NULL);
	finished = 2;
	pthread_testcancel();
	return NULL;
}

static void *make_and_end(void *unused)
{
	struct oh_comm *made = NULL;

	pthread_cancel(pthread_self());
	if (!join(&made))
		finished = 3;
	oh_comm_destroy(made);
	finished++;
	pthread_testcancel();
	return NULL;
}

/* Without GPUs it fails, after it has made and ended threads. */
static void *make_all_and_ask(void *unused)
{
	struct oh_health health = {.size = sizeof(health)};
	struct oh_comm *made[2] = {NULL, NULL};
	struct oh_unique_id other;

	pthread_cancel(pthread_self());
	oh_comm_create_all(2, NULL, made);
	finished = 5;
	oh_unique_id_create(&other);
	finished = 6;
	oh_comm_health(comm, &health);
	finished = 7;
	oh_comm_destroy(made[0]);
	oh_comm_destroy(made[1]);
	pthread_testcancel();
	return NULL;
}

static int cancelled(void *(*run)(void *))
{
	pthread_t thread;
	void *result = NULL;

	if (pthread_create(&thread, NULL, run, NULL))
		abort();
	pthread_join(thread, &result);
	return result == PTHREAD_CANCELED;
}

int main(void)
{
	struct leftovers before, after;
	void *memory = NULL;
	float value = 1;

	setenv("ONEHOP_LOG", "error", 1);
	setenv("ONEHOP_HEAP_BYTES", "1M", 1);
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
	/* it takes what unwinding leaves on the stack for an overflow */
	tap_skip_all("AddressSanitizer does not know cancelled threads");
#endif
	alarm(60);
	tap_ok(!oh_unique_id_create(&id) && !join(&comm), "a communicator");
	before = leftovers_now();
	tap_ok(cancelled(fail_to_allocate) && finished == 1,
	       "a failing oh_comm_alloc is finished");
	tap_ok(!oh_comm_alloc(comm, 64, &memory), "the next one works");
	oh_comm_free(comm, memory);
	oh_comm_abort(comm);
	tap_ok(cancelled(fail_in_a_call) && finished == 2,
	       "a failing call is finished");
	tap_ok(oh_all_reduce(comm, &value, &value, 1, OH_F32, OH_SUM, NULL) ==
		       OH_ERR_ABORTED,
	       "the next one is not found busy");
	tap_ok(cancelled(make_and_end) && finished == 4,
	       "oh_comm_create and oh_comm_destroy are finished");
	tap_ok(cancelled(make_all_and_ask) && finished == 7,
	       "oh_comm_create_all, oh_unique_id_create and oh_comm_health are "
	       "finished");
	after = leftovers_now();
	/* a sanitizer may have started threads of its own */
	if (LEFTOVERS_HEAP)
		tap_ok(leftovers_none(&before, &after),
		       "nothing is left behind");
	oh_comm_destroy(comm);
	return tap_done();
}
