/* SPDX-License-Identifier: MIT */
/*
 * A forked child has no part in its parent's communicator: its calls are
 * refused, and destroying its copy goes unnoticed by the other rank. Two ranks
 * as processes that fork each other's beginning from this one.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "onehop/onehop.h"
#include "tap.h"

static struct oh_comm *join(const struct oh_unique_id *id, int rank)
{
	struct oh_comm_options options = {.size = sizeof(options),
					  .id = id,
					  .rank = rank,
					  .ranks = 2,
					  .rendezvous_timeout_ms = 20000,
					  .call_timeout_ms = 20000};
	struct oh_comm *comm = NULL;

	return oh_comm_create(&options, &comm) ? NULL : comm;
}

static int sum_is(struct oh_comm *comm, float want)
{
	float value = 1;

	return !oh_all_reduce(comm, &value, &value, 1, OH_F32, OH_SUM, NULL) &&
	       value == want;
}

/* Rank 1: two calls, the second after rank 0's child has gone. */
static int other_rank(const struct oh_unique_id *id)
{
	struct oh_comm *comm = join(id, 1);
	int fine = comm && sum_is(comm, 2) && sum_is(comm, 2);

	oh_comm_destroy(comm);
	return fine ? 0 : 1;
}

/* What the child sees, a bit each. */
static int in_child(struct oh_comm *comm)
{
	struct oh_health health = {.size = sizeof(health)};
	struct oh_route route = {.size = sizeof(route)};
	float value = 1;
	void *memory;
	int wrong = 0;

	wrong |= oh_all_reduce(comm, &value, &value, 1, OH_F32, OH_SUM, NULL) !=
		 OH_ERR_INVALID;
	wrong |= !strstr(oh_last_error()->message, "forked") << 1;
	wrong |= (oh_comm_alloc(comm, 1, &memory) != OH_ERR_INVALID) << 2;
	wrong |= (oh_comm_abort(comm) != OH_ERR_INVALID) << 3;
	wrong |= (oh_comm_health(comm, &health) != OH_ERR_INVALID) << 4;
	wrong |= (oh_comm_explain(comm, OH_ALL_REDUCE, 64, OH_F32, OH_SUM,
				  &route) != OH_ERR_INVALID)
		 << 5;
	oh_comm_destroy(comm);
	return wrong;
}

static int exit_of(pid_t process)
{
	int status;

	if (waitpid(process, &status, 0) != process || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

static void no_line(enum oh_log_level level, const char *line, void *context)
{
}

static atomic_bool enough;

static void *log_failures(void *unused)
{
	while (!enough) {
		for (int i = 0; i < 200; i++)
			oh_comm_abort(NULL);
		/* valgrind lets a thread go on until it waits */
		usleep(100);
	}
	return NULL;
}

/* The parent's threads may be at any place while it forks: what they hold is
 * never given back in the child. A child logs in microseconds; it has 10 s. */
static int children_that_hang(int children)
{
	pthread_t thread[2];
	int hung = 0;

	oh_set_log(OH_LOG_ERROR, no_line, NULL);
	for (int i = 0; i < 2; i++)
		if (pthread_create(&thread[i], NULL, log_failures, NULL))
			abort();
	for (int i = 0; i < children && !hung; i++) {
		pid_t child = fork();

		if (!child) {
			alarm(10);
			_exit(oh_comm_abort(NULL) != OH_ERR_INVALID);
		}
		hung += exit_of(child) != 0;
	}
	enough = true;
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	oh_set_log(OH_LOG_OFF, NULL, NULL);
	return hung;
}

/* A rank of two that waits for the other in vain. */
static enum oh_status wait_alone(const struct oh_unique_id *id, int rank)
{
	struct oh_comm_options options = {.size = sizeof(options),
					  .id = id,
					  .rank = rank,
					  .ranks = 2,
					  .rendezvous_timeout_ms = 500};
	struct oh_comm *comm;

	return oh_comm_create(&options, &comm);
}

static void *wait_as_root(void *id)
{
	return (void *)(uintptr_t)wait_alone(id, 0);
}

/* A child that is forked while rank 0 waits has its listener, too: whoever
 * comes after rank 0 has gone must not wait there for an answer. */
static void test_listener(void)
{
	struct oh_unique_id id;
	pthread_t root;
	void *status;
	pid_t child;

	if (oh_unique_id_create(&id) ||
	    pthread_create(&root, NULL, wait_as_root, &id))
		abort();
	usleep(200000);
	child = fork();
	if (!child) {
		pause();
		_exit(0);
	}
	pthread_join(root, &status);
	tap_ok((enum oh_status)(uintptr_t)status == OH_ERR_TIMEOUT &&
		       wait_alone(&id, 1) == OH_ERR_TIMEOUT &&
		       strstr(oh_last_error()->message, "did not open"),
	       "nobody listens in a child: %s", oh_last_error()->message);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

int main(void)
{
	struct oh_unique_id id;
	struct oh_comm *comm;
	pid_t other, child;
	int seen;

	/* valgrind looks for pointers in all that is mapped */
	setenv("ONEHOP_HEAP_BYTES", "1M", 1);
	oh_set_log(OH_LOG_OFF, NULL, NULL);
	alarm(60);
	tap_ok(!oh_unique_id_create(&id), "an id");
	other = fork();
	if (!other)
		_exit(other_rank(&id));
	comm = join(&id, 0);
	if (!tap_ok(comm && sum_is(comm, 2), "two ranks sum"))
		return tap_done();
	child = fork();
	if (!child)
		_exit(in_child(comm));
	seen = exit_of(child);
	tap_ok(seen == 0, "calls are refused in a child, seen %d", seen);
	tap_ok(sum_is(comm, 2), "the parent's call works after the child's "
				"destroy");
	oh_comm_destroy(comm);
	test_listener();
	tap_ok(exit_of(other) == 0, "the other rank has noticed nothing");
	tap_ok(!children_that_hang(400),
	       "a child logs, whatever the parent's threads were at");
	return tap_done();
}
