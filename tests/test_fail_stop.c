/* SPDX-License-Identifier: MIT */
/*
 * Ranks that do not come but live: stopped, busy elsewhere, gone in order, or
 * aborted. The others time out and say who was missing; the late rank fails
 * too, or finishes rightly what all had finished with it. A rank that leaves
 * after its last call disturbs nobody.
 */
#include "leftovers.h"
#include "random_call.h"
#include "ranks.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS 1000000u
#define CALL_MS 300u
/* Beyond the deadline: for a busy machine. */
#define SLACK_MS 5000u

enum {
	CALLING,
	STOPPED,
	FAILED,
	MET
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void nap_ms(unsigned ms)
{
	struct timespec nap = {ms / 1000, ms % 1000 * (long)NS_PER_MS};

	nanosleep(&nap, NULL);
}

static struct oh_comm *create(struct ranks_self *self, int id, unsigned call_ms)
{
	struct oh_comm_options options = {
		.size = sizeof(options),
		.id = &self->ids[id],
		.rank = self->rank,
		.ranks = self->ranks,
		.rendezvous_timeout_ms = 40000,
		.call_timeout_ms = call_ms,
	};
	struct oh_comm *comm = NULL;

	ranks_fine(self, oh_comm_create(&options, &comm), "oh_comm_create");
	return comm;
}

static enum oh_status sum_one(struct oh_comm *comm)
{
	int32_t in = 1, out = 0;
	enum oh_status status =
		oh_all_reduce(comm, &in, &out, 1, OH_I32, OH_SUM, NULL);

	if (!status && out != oh_comm_ranks(comm))
		abort();
	return status;
}

static void check_status(struct ranks_self *self, enum oh_status status,
			 enum oh_status expected, const char *part)
{
	ranks_check(self, status == expected, "%s, expected %s: %s",
		    oh_status_name(status), oh_status_name(expected),
		    oh_last_error()->message);
	ranks_check(self, strstr(oh_last_error()->message, part),
		    "'%s' is not in: %s", part, oh_last_error()->message);
}

/* The call of a rank for which the others no longer wait: it may finish that
 * one, for all had come to it, but not the next. */
static enum oh_status sum_late(struct oh_comm *comm)
{
	enum oh_status status = sum_one(comm);

	return status ? status : sum_one(comm);
}

static void check_health(struct ranks_self *self, struct oh_comm *comm,
			 enum oh_status status, int culprit)
{
	struct oh_health health = {.size = sizeof(health)};

	ranks_fine(self, oh_comm_health(comm, &health), "oh_comm_health");
	ranks_check(self, health.status == status && health.culprit == culprit,
		    "health says %s by rank %d, expected %s by %d",
		    oh_status_name(health.status), health.culprit,
		    oh_status_name(status), culprit);
}

/* SIGSTOP: argument "VICTIM KIND", kind 1 with broadcasts. */

struct stop_plan {
	int victim, kind;
};

static struct stop_plan stop_plan_of(const struct ranks_self *self)
{
	struct stop_plan plan;

	if (sscanf(self->argument, "%d %d", &plan.victim, &plan.kind) != 2)
		abort();
	return plan;
}

/* Calls until one fails; how long that one took. */
static enum oh_status call_on(struct ranks_self *self, struct oh_comm *comm,
			      int kind, uint64_t *took_ns)
{
	struct ranks_random random = {self->seed};
	struct random_buffers buffers = random_buffers_make();
	enum oh_status status = OH_OK;

	for (int i = 0; !status; i++) {
		struct random_call call =
			random_call_draw(&random, self->ranks);
		uint64_t start = now_ns();
		bool right;

		if (!kind && call.collective == OH_BROADCAST)
			call.collective = OH_ALL_REDUCE;
		ranks_at(self, "call %d", i);
		status = random_call_make(comm, &call, &buffers, &right);
		*took_ns = now_ns() - start;
		ranks_check(self, right, "call %d, %s of %zu: wrong result", i,
			    oh_collective_name(call.collective), call.count);
	}
	random_buffers_free(&buffers);
	return status;
}

static void stop(struct ranks_self *self)
{
	struct stop_plan plan = stop_plan_of(self);
	struct leftovers before = leftovers_now(), after;
	struct oh_comm *comm = create(self, 0, CALL_MS);
	enum oh_status status;
	char who[16], text[256];
	uint64_t took_ns = 0;

	if (!comm)
		return;
	ranks_barrier(self);
	atomic_fetch_add(&self->words[CALLING], 1);
	status = call_on(self, comm, plan.kind, &took_ns);
	atomic_fetch_add(&self->words[FAILED], 1);
	snprintf(who, sizeof(who), "rank %d", plan.victim);
	check_status(self, status, OH_ERR_TIMEOUT,
		     self->rank == plan.victim || plan.kind ? "rank" : who);
	if (self->rank != plan.victim)
		ranks_check(self,
			    took_ns <
				    (CALL_MS + SLACK_MS) * (uint64_t)NS_PER_MS,
			    "the call took %llu ms",
			    (unsigned long long)(took_ns / NS_PER_MS));
	if (!plan.kind)
		check_health(self, comm, OH_ERR_TIMEOUT, plan.victim);
	check_status(self, sum_one(comm), OH_ERR_TIMEOUT, "failed before");
	oh_comm_destroy(comm);
	after = leftovers_now();
	ranks_check(self, leftovers_none(&before, &after), "left behind: %s",
		    leftovers_text(&before, &after, text));
}

/* Nobody calls any more: a rank that has left a call out, or come too late. */
static void skip(struct ranks_self *self)
{
	struct oh_comm *comm = create(self, 0, CALL_MS);

	if (!comm)
		return;
	ranks_fine(self, sum_one(comm), "the first call");
	if (self->rank == 1) {
		ranks_await(&self->words[FAILED], (uint64_t)self->ranks - 1);
	} else {
		check_status(self, sum_one(comm), OH_ERR_TIMEOUT, "rank 1");
		atomic_fetch_add(&self->words[FAILED], 1);
	}
	if (self->rank == 1)
		check_status(self, sum_late(comm), OH_ERR_TIMEOUT, "rank");
	check_health(self, comm, OH_ERR_TIMEOUT, 1);
	oh_comm_destroy(comm);
}

static void destroy_early(struct ranks_self *self)
{
	struct oh_comm *comm = create(self, 0, 50000);

	if (!comm)
		return;
	ranks_fine(self, sum_one(comm), "the first call");
	if (self->rank == 1) {
		oh_comm_destroy(comm);
		/* as a process it lives on */
		ranks_await(&self->words[FAILED], (uint64_t)self->ranks - 1);
		return;
	}
	check_status(self, sum_one(comm), OH_ERR_PEER_LOST, "rank 1");
	check_health(self, comm, OH_ERR_PEER_LOST, 1);
	check_status(self, sum_one(comm), OH_ERR_PEER_LOST, "failed before");
	atomic_fetch_add(&self->words[FAILED], 1);
	oh_comm_destroy(comm);
}

/* What the end of the process frees; here to be found by a leak checker. */
static struct oh_comm *volatile left_to_exit;

/* Each rank ends after its last call, in its own way, some at once. */
static void exit_in_order(struct ranks_self *self)
{
	struct ranks_random random = {self->seed + (uint64_t)self->rank};
	struct ranks_random common = {self->seed};
	struct random_buffers buffers = random_buffers_make();
	struct oh_comm *comm = create(self, 0, 50000);
	bool right;

	for (int i = 0; comm && i < 10; i++) {
		struct random_call call =
			random_call_draw(&common, self->ranks);

		if (ranks_below(&random, 4) == 0)
			nap_ms((unsigned)ranks_below(&random, 50));
		ranks_fine(self,
			   random_call_make(comm, &call, &buffers, &right),
			   "a call");
		ranks_check(self, right, "a wrong result");
	}
	if (self->rank & 1)
		oh_comm_destroy(comm);
	else
		left_to_exit = comm;
	random_buffers_free(&buffers);
}

/*
 * On one processor a rank that wakes takes the place of the one that spins:
 * the latter's looks are torn apart at any point, and what it saw of the other
 * rank may be old by the next instruction. The other has left by then.
 */
static void leave_at_once(struct ranks_self *self)
{
	struct timespec nap = {.tv_nsec = 30000};
	cpu_set_t set;
	struct oh_comm *comm;

	/* the first processor that this thread may run on */
	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		for (int i = 0, first = 0; i < CPU_SETSIZE; i++)
			if (CPU_ISSET(i, &set) && first++)
				CPU_CLR(i, &set);
	sched_setaffinity(0, sizeof(set), &set);
	for (int i = 0; i < RANKS_IDS; i++) {
		comm = create(self, i, 50000);
		if (!comm)
			return;
		ranks_fine(self, sum_one(comm), "the first call");
		if (self->rank == 0)
			nanosleep(&nap, NULL);
		ranks_fine(self, sum_one(comm), "the last call");
		oh_comm_destroy(comm);
	}
}

/* Aborts. */

struct aborter {
	struct ranks_self *self;
	struct oh_comm *comm;
};

static void *abort_soon(void *argument)
{
	struct aborter *aborter = argument;
	int32_t data = 0;

	nap_ms(50);
	/* the communicator has a call in flight */
	check_status(aborter->self,
		     oh_all_reduce(aborter->comm, &data, &data, 1, OH_I32,
				   OH_SUM, NULL),
		     OH_ERR_BUSY, "another call");
	ranks_fine(aborter->self, oh_comm_abort(aborter->comm),
		   "oh_comm_abort");
	return NULL;
}

/* Rank 1's call waits for the last rank, which waits for the end of it; a
 * thread of rank 1 ends all that. */
static void abort_waiting(struct ranks_self *self)
{
	struct oh_comm *comm = create(self, 0, 50000);
	struct aborter aborter = {self, comm};
	pthread_t thread;

	if (!comm)
		return;
	ranks_fine(self, sum_one(comm), "the first call");
	if (self->rank == self->ranks - 1)
		ranks_await(&self->words[FAILED], (uint64_t)self->ranks - 1);
	if (self->rank == 1)
		pthread_create(&thread, NULL, abort_soon, &aborter);
	check_status(self, sum_late(comm), OH_ERR_ABORTED, "abort");
	atomic_fetch_add(&self->words[FAILED], 1);
	if (self->rank == 1)
		pthread_join(thread, NULL);
	check_status(self, sum_one(comm), OH_ERR_ABORTED, "failed before");
	check_health(self, comm, OH_ERR_ABORTED, 1);
	ranks_fine(self, oh_comm_abort(comm), "a second oh_comm_abort");
	oh_comm_destroy(comm);
}

/* Before the first call, between calls, and when it has failed already. */
static void abort_outside(struct ranks_self *self)
{
	struct oh_comm *comm = create(self, 0, 50000);

	if (!comm)
		return;
	if (self->rank == 0)
		ranks_fine(self, oh_comm_abort(comm), "oh_comm_abort");
	ranks_barrier(self);
	/* the others learn of it by a call */
	if (self->rank)
		check_health(self, comm, OH_OK, -1);
	check_status(self, sum_one(comm), OH_ERR_ABORTED, "abort");
	check_health(self, comm, OH_ERR_ABORTED, 0);
	oh_comm_destroy(comm);

	comm = create(self, 1, 50000);
	if (!comm)
		return;
	ranks_fine(self, sum_one(comm), "a call");
	ranks_barrier(self);
	if (self->rank == 1)
		ranks_fine(self, oh_comm_abort(comm), "oh_comm_abort");
	check_status(self, sum_one(comm), OH_ERR_ABORTED, "abort");
	oh_comm_destroy(comm);

	comm = create(self, 2, CALL_MS);
	if (!comm)
		return;
	if (self->rank)
		check_status(self, sum_one(comm), OH_ERR_TIMEOUT, "rank 0");
	ranks_barrier(self);
	ranks_fine(self, oh_comm_abort(comm), "oh_comm_abort");
	if (self->rank) {
		check_status(self, sum_one(comm), OH_ERR_TIMEOUT,
			     "failed before");
		check_health(self, comm, OH_ERR_TIMEOUT, 0);
	}
	oh_comm_destroy(comm);
}

static void abort_alone(struct ranks_self *self)
{
	struct oh_comm *comm = create(self, 0, 50000);

	ranks_check(self, oh_comm_abort(NULL) == OH_ERR_INVALID,
		    "oh_comm_abort(NULL)");
	if (!comm)
		return;
	ranks_fine(self, sum_one(comm), "a call");
	ranks_fine(self, oh_comm_abort(comm), "oh_comm_abort");
	check_status(self, sum_one(comm), OH_ERR_ABORTED, "abort");
	oh_comm_destroy(comm);
}

enum {
	STOP,
	SKIP,
	DESTROY_EARLY,
	EXIT,
	LEAVE,
	ABORT_WAITING,
	ABORT_OUTSIDE,
	ABORT_ALONE
};

static const struct ranks_case cases[] = {
	[STOP] = {"stop", stop},
	[SKIP] = {"skip-a-call", skip},
	[DESTROY_EARLY] = {"destroy-early", destroy_early},
	[EXIT] = {"exit-in-order", exit_in_order},
	[LEAVE] = {"leave-at-once", leave_at_once},
	[ABORT_WAITING] = {"abort-a-waiting-call", abort_waiting},
	[ABORT_OUTSIDE] = {"abort-outside-of-calls", abort_outside},
	[ABORT_ALONE] = {"abort-of-one-rank", abort_alone},
	{0}};

static bool stop_one(struct ranks_random *random, int kind)
{
	int ranks = 2 + (int)ranks_below(random, 3);
	int victim = (int)ranks_below(random, (uint64_t)ranks);
	char argument[32];
	struct ranks_options options = {.ranks = ranks, .argument = argument};
	struct ranks_group *group;
	_Atomic uint64_t *words;
	int failures;

	snprintf(argument, sizeof(argument), "%d %d", victim, kind);
	group = ranks_start(&cases[STOP], &options);
	words = ranks_words(group);
	ranks_await(&words[CALLING], (uint64_t)ranks);
	usleep((useconds_t)ranks_below(random, 30000));
	kill(ranks_pid(group, victim), SIGSTOP);
	ranks_await(&words[FAILED], (uint64_t)ranks - 1);
	usleep((useconds_t)ranks_below(random, 30000));
	kill(ranks_pid(group, victim), SIGCONT);
	failures = ranks_wait(group);
	if (failures) {
		tap_note("rank %d of %d was stopped", victim, ranks);
		ranks_notes(group);
	}
	ranks_free(group);
	return !failures;
}

static void stop_some(const char *what, int kind, int times)
{
	struct ranks_random random = {ranks_seed() + (uint64_t)kind};
	int failed = 0;

	for (int i = 0; i < times; i++)
		failed += !stop_one(&random, kind);
	tap_ok(!failed, "%s: %d of %d times all was well", what, times - failed,
	       times);
}

static void exit_some(int times)
{
	int failed = 0;

	for (int i = 0; i < times; i++) {
		struct ranks_group *group = ranks_start(
			&cases[EXIT],
			&(struct ranks_options){.ranks = 2 + i % 4});

		if (ranks_wait(group)) {
			ranks_notes(group);
			failed++;
		}
		ranks_free(group);
	}
	tap_ok(!failed,
	       "ranks end after their last call, %d of %d times nobody failed",
	       times - failed, times);
}

static void leave_some(int times)
{
	int failed = 0;

	setenv("ONEHOP_SPIN", "long", 1);
	setenv("ONEHOP_TUNE", "off", 1);
	for (int i = 0; i < times; i++) {
		struct ranks_group *group = ranks_run_threads(
			&cases[LEAVE], &(struct ranks_options){.ranks = 2});

		if (ranks_wait(group)) {
			if (!failed++)
				ranks_notes(group);
		}
		ranks_free(group);
	}
	tap_ok(!failed,
	       "a rank destroys at once after its last call, %d of %d times "
	       "the other finished it",
	       times * RANKS_IDS - failed, times * RANKS_IDS);
	unsetenv("ONEHOP_SPIN");
	unsetenv("ONEHOP_TUNE");
}

int main(int argc, char **argv)
{
	bool quick = ranks_quick();
	struct ranks_options two = {.ranks = 2}, three = {.ranks = 3};

	setenv("ONEHOP_LOG", "off", 1);
	setenv("ONEHOP_HEAP_BYTES", "1M", 1);
	ranks_main(argc, argv, cases);
	stop_some("a rank is stopped", 0, quick ? 3 : 20);
	stop_some("a rank is stopped, with broadcasts", 1, quick ? 2 : 10);
	ranks_processes(&cases[SKIP], &three);
	ranks_threads(&cases[SKIP], &three);
	ranks_processes(&cases[DESTROY_EARLY], &two);
	ranks_threads(&cases[DESTROY_EARLY], &three);
	exit_some(quick ? 4 : 40);
	leave_some(quick ? 25 : 400);
	ranks_threads(&cases[ABORT_WAITING], &three);
	ranks_processes(&cases[ABORT_WAITING], &three);
	ranks_threads(&cases[ABORT_OUTSIDE], &two);
	ranks_processes(&cases[ABORT_OUTSIDE], &three);
	ranks_threads(&cases[ABORT_ALONE], &(struct ranks_options){.ranks = 1});
	return tap_done();
}
