/* SPDX-License-Identifier: MIT */
/*
 * A rank is killed at a random moment. Every survivor learns of it, says who
 * it was, stays in that state, leaves nothing behind, and makes a new
 * communicator with the other survivors. How soon a death is seen is printed;
 * only a bound far beyond it is checked.
 */
#include "leftovers.h"
#include "random_call.h"
#include "ranks.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS 1000000u
/* The library looks every 20 ms; this is for a busy machine. */
#define SEEN_WITHIN_MS 5000u

enum mode {
	IN_CREATE,
	IN_CALLS,
	WHILE_OTHERS_SPIN,
	IN_DESTROY,
	MODES
};

static const char *const mode_names[MODES] = {
	"in oh_comm_create", "at a random moment of its calls",
	"while the others wait for it", "in oh_comm_destroy"};

/* Words of the board. */
enum {
	PHASE,
	KILLED_NS,
	MET,
	NEXT_MET,
	STATUS,
	LATENCY = STATUS + 4
};

enum phase {
	STARTING,
	CREATING,
	CALLING,
	PARKED,
	DESTROYING
};

struct plan {
	int mode, victim, calls;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct plan plan_of(const struct ranks_self *self)
{
	struct plan plan = {0};

	if (sscanf(self->argument, "%d %d %d", &plan.mode, &plan.victim,
		   &plan.calls) != 3)
		abort();
	return plan;
}

static enum oh_status create(struct ranks_self *self, int id, int rank,
			     int ranks, struct oh_comm **comm)
{
	struct oh_comm_options options = {
		.size = sizeof(options),
		.id = &self->ids[id],
		.rank = rank,
		.ranks = ranks,
		/* the first may lack a rank for good: that is to be over
		 * soon */
		.rendezvous_timeout_ms = id ? 30000 : 1500,
		.call_timeout_ms = 50000,
	};

	return oh_comm_create(&options, comm);
}

static void park(void)
{
	for (;;)
		pause();
}

static void be_victim(struct ranks_self *self, const struct plan *plan)
{
	struct ranks_random random = {self->seed};
	struct random_buffers buffers = random_buffers_make();
	struct oh_comm *comm;
	bool right;

	ranks_barrier(self);
	atomic_store(&self->words[PHASE], CREATING);
	if (create(self, 0, self->rank, self->ranks, &comm))
		park();
	atomic_store(&self->words[PHASE], CALLING);
	for (int i = 0;; i++) {
		struct random_call call;

		if (plan->mode == WHILE_OTHERS_SPIN && i == plan->calls) {
			atomic_store(&self->words[PHASE], PARKED);
			park();
		}
		if (plan->mode == IN_DESTROY && i == plan->calls) {
			atomic_store(&self->words[PHASE], DESTROYING);
			oh_comm_destroy(comm);
			park();
		}
		call = random_call_draw(&random, self->ranks);
		if (random_call_make(comm, &call, &buffers, &right))
			park();
	}
}

/* Calls until one fails, or all that there are. */
static enum oh_status call_on(struct ranks_self *self, struct oh_comm *comm,
			      struct random_buffers *buffers,
			      const struct plan *plan)
{
	struct ranks_random random = {self->seed};
	enum oh_status status = OH_OK;

	for (int i = 0; !status; i++) {
		struct random_call call;
		bool right;

		if (plan->mode == IN_DESTROY && i == plan->calls)
			break;
		call = random_call_draw(&random, self->ranks);
		ranks_at(self, "call %d", i);
		status = random_call_make(comm, &call, buffers, &right);
		ranks_check(self, right, "call %d, %s of %zu: wrong result", i,
			    oh_collective_name(call.collective), call.count);
	}
	return status;
}

static void note_latency(struct ranks_self *self)
{
	uint64_t killed = atomic_load(&self->words[KILLED_NS]);
	uint64_t ns = killed ? now_ns() - killed : 0;

	atomic_store(&self->words[LATENCY + self->rank], ns);
	ranks_check(self, killed, "failed before the rank was killed");
	ranks_check(self, ns < SEEN_WITHIN_MS * (uint64_t)NS_PER_MS,
		    "the death was seen after %llu ms",
		    (unsigned long long)(ns / NS_PER_MS));
}

static void check_message(struct ranks_self *self, int victim)
{
	char who[16];

	snprintf(who, sizeof(who), "rank %d", victim);
	ranks_check(self, strstr(oh_last_error()->message, who),
		    "the message does not name %s: %s", who,
		    oh_last_error()->message);
}

/* A communicator that has lost a rank stays so. */
static void check_lost(struct ranks_self *self, struct oh_comm *comm,
		       const struct plan *plan)
{
	struct oh_health health = {.size = sizeof(health)};
	enum oh_status status;
	int32_t in = 1, out = 0;

	for (int i = 0; i < 2; i++) {
		status =
			oh_all_reduce(comm, &in, &out, 1, OH_I32, OH_SUM, NULL);
		ranks_check(self, status == OH_ERR_PEER_LOST,
			    "the next call returned %s",
			    oh_status_name(status));
		check_message(self, plan->victim);
	}
	status = oh_comm_health(comm, &health);
	ranks_fine(self, status, "oh_comm_health");
	ranks_check(self, health.status == OH_ERR_PEER_LOST,
		    "health.status is %s", oh_status_name(health.status));
	ranks_check(self, health.culprit == plan->victim,
		    "health.culprit is %d, killed was %d", health.culprit,
		    plan->victim);
	ranks_check(self, health.lost_ranks == 1u << plan->victim,
		    "health.lost_ranks is %x, killed was %d", health.lost_ranks,
		    plan->victim);
}

/* Every survivor's last status, told to the others. */
static void compare(struct ranks_self *self, const struct plan *plan,
		    enum oh_status status)
{
	atomic_store(&self->words[STATUS + self->rank], status);
	atomic_fetch_add(&self->words[MET], 1);
	ranks_await(&self->words[MET], (uint64_t)self->ranks - 1);
	for (int i = 0; i < self->ranks; i++) {
		uint64_t other = atomic_load(&self->words[STATUS + i]);

		if (i == plan->victim)
			continue;
		/* whether a rank had reached rank 0 before it died is that
		 * rank's own luck */
		if (plan->mode == IN_CREATE && plan->victim == 0)
			continue;
		ranks_check(self, other == status,
			    "ended with %s, rank %d with %s",
			    oh_status_name(status), i,
			    oh_status_name((enum oh_status)other));
	}
}

static void go_on_without(struct ranks_self *self,
			  struct random_buffers *buffers,
			  const struct plan *plan)
{
	int rank = self->rank - (self->rank > plan->victim);
	struct ranks_random random = {self->seed + 1};
	struct oh_comm *comm;
	bool right;

	ranks_at(self, "the second communicator");
	if (!ranks_fine(self, create(self, 1, rank, self->ranks - 1, &comm),
			"oh_comm_create among the survivors"))
		return;
	for (int i = 0; i < 4; i++) {
		struct random_call call =
			random_call_draw(&random, self->ranks - 1);

		ranks_fine(self, random_call_make(comm, &call, buffers, &right),
			   "a call of the survivors");
		ranks_check(self, right, "a wrong result of the survivors");
	}
	oh_comm_destroy(comm);
}

static void survive(struct ranks_self *self, const struct plan *plan)
{
	struct random_buffers buffers = random_buffers_make();
	struct leftovers before = leftovers_now(), after;
	struct oh_comm *comm = NULL;
	enum oh_status status;
	char text[256];

	ranks_barrier(self);
	ranks_at(self, "oh_comm_create");
	status = create(self, 0, self->rank, self->ranks, &comm);
	if (!status)
		status = call_on(self, comm, &buffers, plan);
	if (status) {
		check_message(self, plan->victim);
		ranks_check(self,
			    status == OH_ERR_PEER_LOST ||
				    (status == OH_ERR_TIMEOUT &&
				     plan->mode == IN_CREATE),
			    "%s: %s", oh_status_name(status),
			    oh_last_error()->message);
		if (status == OH_ERR_PEER_LOST)
			note_latency(self);
	}
	ranks_check(self, !status == (plan->mode == IN_DESTROY),
		    "ended with %s", oh_status_name(status));
	if (status && comm)
		check_lost(self, comm, plan);
	compare(self, plan, status);
	if (self->seed & 1) {
		oh_comm_destroy(comm);
		comm = NULL;
	}
	go_on_without(self, &buffers, plan);
	oh_comm_destroy(comm);
	after = leftovers_now();
	ranks_check(self, leftovers_none(&before, &after), "left behind: %s",
		    leftovers_text(&before, &after, text));
	random_buffers_free(&buffers);
}

static void run(struct ranks_self *self)
{
	struct plan plan = plan_of(self);

	if (self->rank == plan.victim)
		be_victim(self, &plan);
	else
		survive(self, &plan);
}

static const struct ranks_case cases[] = {{"kill", run}, {0}};

/* Latencies of all survivors of all runs. */
struct latencies {
	uint64_t ns[1024];
	int count;
};

static void collect(struct latencies *latencies, _Atomic uint64_t *words,
		    int ranks)
{
	for (int i = 0; i < ranks && latencies->count < 1024; i++) {
		uint64_t ns = atomic_load(&words[LATENCY + i]);

		if (ns)
			latencies->ns[latencies->count++] = ns;
	}
}

static void kill_at(struct ranks_group *group, const struct plan *plan,
		    struct ranks_random *random)
{
	static const enum phase from[MODES] = {CREATING, CALLING, PARKED,
					       DESTROYING};
	/* longest delay in us: about as long as each takes, and past the
	 * 200 ms from which a waiting rank sleeps */
	static const uint64_t longest_us[MODES] = {3000, 30000, 250000, 1000};
	/* with measurements a communicator takes this long */
	static const uint64_t tune_us = 40000;
	_Atomic uint64_t *words = ranks_words(group);
	uint64_t us = longest_us[plan->mode], until;

	if (plan->mode == IN_CREATE && ranks_below(random, 2))
		us = tune_us;
	ranks_await(&words[PHASE], from[plan->mode]);
	until = now_ns() + ranks_below(random, us * 1000);
	if (plan->mode == WHILE_OTHERS_SPIN)
		usleep((useconds_t)((until - now_ns()) / 1000));
	while (now_ns() < until)
		;
	atomic_store(&words[KILLED_NS], now_ns());
	kill(ranks_pid(group, plan->victim), SIGKILL);
}

static bool kill_one(int mode, struct ranks_random *random,
		     struct latencies *latencies)
{
	int ranks = 2 + (int)ranks_below(random, 3);
	struct plan plan = {mode, (int)ranks_below(random, (uint64_t)ranks),
			    (int)ranks_below(random, 40)};
	char argument[64];
	struct ranks_options options = {.ranks = ranks,
					.argument = argument,
					.dies = 1u << plan.victim};
	struct ranks_group *group;
	int failures;

	snprintf(argument, sizeof(argument), "%d %d %d", plan.mode, plan.victim,
		 plan.calls);
	group = ranks_start(&cases[0], &options);
	kill_at(group, &plan, random);
	failures = ranks_wait(group);
	if (failures) {
		tap_note("rank %d of %d, killed %s, after %d calls",
			 plan.victim, ranks, mode_names[mode], plan.calls);
		ranks_notes(group);
	}
	collect(latencies, ranks_words(group), ranks);
	ranks_free(group);
	return !failures;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void report(struct latencies *latencies)
{
	int count = latencies->count, late = 0;

	if (!count)
		return;
	qsort(latencies->ns, (size_t)count, sizeof(latencies->ns[0]), by_size);
	for (int i = 0; i < count; i++)
		late += latencies->ns[i] > 100ull * NS_PER_MS;
	tap_note("a death was seen after %.1f ms in the middle, %.1f ms at "
		 "most; %d of %d later than 100 ms",
		 (double)latencies->ns[count / 2] / NS_PER_MS,
		 (double)latencies->ns[count - 1] / NS_PER_MS, late, count);
}

int main(int argc, char **argv)
{
	/* 200 in all, 20 if it is to be quick */
	static const int times[MODES] = {30, 80, 50, 40};
	struct leftovers before, after;
	struct ranks_random random;

	setenv("ONEHOP_LOG", "off", 1);
	setenv("ONEHOP_HEAP_BYTES", "1M", 1);
	ranks_main(argc, argv, cases);
	random = (struct ranks_random){ranks_seed()};
	before = leftovers_now();
	for (int mode = 0; mode < MODES; mode++) {
		struct latencies latencies = {.count = 0};
		int each = times[mode] / (ranks_quick() ? 10 : 1);
		int failed = 0;

		for (int i = 0; i < each; i++)
			failed += !kill_one(mode, &random, &latencies);
		tap_ok(!failed,
		       "a rank is killed %s: %d of %d times all was well",
		       mode_names[mode], each - failed, each);
		report(&latencies);
	}
	after = leftovers_now();
	tap_ok(after.fds == before.fds && after.names <= before.names,
	       "no descriptors and no names in /dev/shm are left");
	return tap_done();
}
