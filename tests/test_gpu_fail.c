/* SPDX-License-Identifier: MIT */
/*
 * Ranks on GPU memory that die, stop, skip a call, leave or are aborted: the
 * others' kernels end, every later call says why, the GPU can be used at once
 * and the next communicator works.
 *
 *	--long	more rows, also on real GPUs
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "gpu_ranks.h"

#define ROOM ((size_t)4 << 20)
#define CULPRIT 1

/* Words: what has happened, so that nobody waits longer for it. */
enum {
	SEEN, /* by so many of those that live on */
	READY /* the culprit has done what it does */
};

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static long us_of(const struct rusage *usage)
{
	return usage->ru_utime.tv_sec * 1000000 + usage->ru_utime.tv_usec +
	       usage->ru_stime.tv_sec * 1000000 + usage->ru_stime.tv_usec;
}

static void nap_ms(long ms)
{
	struct timespec nap = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&nap, NULL);
}

/* A size of each kind of kernel. */
static struct gpu_case case_of(struct ranks_self *self, int n)
{
	static const size_t counts[] = {16, 3000, 20000, 400000};

	return (struct gpu_case){.count = counts[n % 4],
				 .dtype = OH_BF16,
				 .seed = self->seed + (uint64_t)n};
}

static bool begin(struct gpu_rank *g, struct ranks_self *self)
{
	if (!gpu_rank_begin(g, self, ROOM))
		return false;
	for (int n = 0; n < 8; n++) {
		struct gpu_case test = case_of(self, n);

		if (!gpu_rank_try(g, &test, g->stream[0]))
			return false;
	}
	return true;
}

/* Calls until one fails, or they cannot be made any more. */
static enum oh_status call_until(struct gpu_rank *g, double end)
{
	struct gpu_case test = case_of(g->self, atoi(g->self->argument));
	enum oh_status status = OH_OK;

	while (!status && now_s() < end) {
		status = gpu_rank_call(g, &test, g->stream[0]);
		if (!GPU_FINE(g, cuStreamSynchronize(g->stream[0])))
			break;
		nap_ms(1);
	}
	return status;
}

/* Nobody leaves before all that live on have seen what the culprit did. */
static void stay(struct ranks_self *self)
{
	ranks_await(&self->words[SEEN], (uint64_t)self->ranks - 1);
}

/* The kernel that waits ends in time; then calls fail, and say for whom. */
static void expect(struct gpu_rank *g, enum oh_status due, int culprit,
		   double within_s)
{
	struct oh_health health = {.size = sizeof(health), .culprit = -1};
	double start = now_s();
	enum oh_status status = call_until(g, start + within_s);

	ranks_check(g->self, status == due, "%s after %.2f s, not %s: %s",
		    oh_status_name(status), now_s() - start,
		    oh_status_name(due), oh_last_error()->message);
	/* that it has failed is known before it is known why */
	while (health.culprit < 0 && now_s() < start + within_s) {
		oh_comm_health(g->comm, &health);
		nap_ms(1);
	}
	ranks_check(g->self, health.status == due && health.culprit == culprit,
		    "health says %s by rank %d", oh_status_name(health.status),
		    health.culprit);
	atomic_fetch_add(&g->self->words[SEEN], 1);
	stay(g->self);
}

/* What is left of the ranks makes a communicator, which works. */
static void try_again(struct gpu_rank *g)
{
	struct ranks_self smaller = *g->self, *whole = g->self;
	struct gpu_case test = case_of(whole, 1);

	smaller.ranks--;
	smaller.rank -= smaller.rank > CULPRIT;
	oh_comm_destroy(g->comm);
	g->comm = ranks_comm(&smaller, 1);
	g->self = &smaller;
	if (g->comm && smaller.ranks > 1)
		gpu_rank_try(g, &test, g->stream[1]);
	g->self = whole;
}

static void killed(struct ranks_self *self)
{
	struct gpu_rank g;

	if (begin(&g, self)) {
		if (self->rank == CULPRIT)
			raise(SIGKILL);
		expect(&g, OH_ERR_PEER_LOST, CULPRIT, 5);
		try_again(&g);
	}
	gpu_rank_end(&g);
}

/* Killed while its own kernel waits: it is late, and the last of them. */
static void killed_waiting(struct ranks_self *self)
{
	struct itimerval timer = {.it_value = {.tv_usec = 250000}};
	struct gpu_case test = case_of(self, atoi(self->argument));
	struct gpu_rank g;

	if (begin(&g, self)) {
		if (self->rank == CULPRIT) {
			/* the fake's launch waits: the alarm ends both */
			setitimer(ITIMER_REAL, &timer, NULL);
			atomic_store(&self->words[READY], 1);
			gpu_rank_call(&g, &test, g.stream[0]);
			pause();
		}
		ranks_await(&self->words[READY], 1);
		nap_ms(500);
		expect(&g, OH_ERR_PEER_LOST, CULPRIT, 5);
		try_again(&g);
	}
	gpu_rank_end(&g);
}

static void with_deadline(struct ranks_self *self, struct gpu_rank *g)
{
	struct oh_comm_options options = {
		.size = sizeof(options),
		.id = &self->ids[2],
		.rank = self->rank,
		.ranks = self->ranks,
		.call_timeout_ms = 300,
	};

	oh_comm_destroy(g->comm);
	g->comm = NULL;
	ranks_fine(self, oh_comm_create(&options, &g->comm), "oh_comm_create");
}

/* As soon as the kernel has ended, whoever is to blame. */
static void expect_at_once(struct gpu_rank *g)
{
	struct gpu_case test = case_of(g->self, atoi(g->self->argument));
	struct oh_health health = {.size = sizeof(health)};

	ranks_fine(g->self, gpu_rank_call(g, &test, g->stream[0]), "the call");
	GPU_FINE(g, cuStreamSynchronize(g->stream[0]));
	oh_comm_health(g->comm, &health);
	ranks_check(g->self, health.status == OH_ERR_TIMEOUT,
		    "health says %s behind the kernel",
		    oh_status_name(health.status));
}

static void skipped(struct ranks_self *self)
{
	struct gpu_rank g;

	if (begin(&g, self)) {
		with_deadline(self, &g);
		if (self->rank == CULPRIT) {
			stay(self);
		} else {
			expect_at_once(&g);
			expect(&g, OH_ERR_TIMEOUT, CULPRIT, 5);
		}
	}
	gpu_rank_end(&g);
}

/* One rank calls half of what the others do: it is noticed long before a
 * deadline. */
static void differs(struct ranks_self *self)
{
	struct gpu_case test = case_of(self, atoi(self->argument));
	struct gpu_rank g;

	test.count /= 2;
	if (begin(&g, self)) {
		if (self->rank == CULPRIT) {
			/* those that have called know from whom they differ */
			nap_ms(100);
			gpu_rank_call(&g, &test, g.stream[0]);
			stay(self);
		} else {
			expect(&g, OH_ERR_MISMATCH, CULPRIT, 5);
		}
	}
	gpu_rank_end(&g);
}

/* Memory that a rank gets after its mailbox has gone stays as it is, while
 * others store where the mailbox was. */
static void leave(struct gpu_rank *g)
{
	enum {
		BYTES = 64 << 20, /* the mailbox at most */
		WORD = 0x5a5a1234
	};
	uint32_t *words = malloc(BYTES);
	CUdeviceptr memory = 0;
	size_t wrong = 0;
	bool set;

	oh_comm_destroy(g->comm);
	g->comm = NULL;
	set = ranks_check(g->self, words, "no memory") &&
	      GPU_FINE(g, cuMemAlloc_v2(&memory, BYTES)) &&
	      GPU_FINE(g, cuMemsetD32Async(memory, WORD, BYTES / sizeof(*words),
					   g->stream[0])) &&
	      GPU_FINE(g, cuStreamSynchronize(g->stream[0]));
	atomic_store(&g->self->words[READY], 1);
	stay(g->self);
	if (set && GPU_FINE(g, cuMemcpyDtoH_v2(words, memory, BYTES))) {
		for (size_t i = 0; i < BYTES / sizeof(*words); i++)
			wrong += words[i] != WORD;
		ranks_check(g->self, !wrong,
			    "%zu words of new memory were written", wrong);
	}
	if (memory)
		g->cuda->cuMemFree_v2(memory);
	free(words);
}

static void left(struct ranks_self *self)
{
	struct gpu_rank g;

	if (begin(&g, self)) {
		if (self->rank == CULPRIT) {
			leave(&g);
		} else {
			ranks_await(&self->words[READY], 1);
			/* long before the deadline of a kernel */
			expect(&g, OH_ERR_PEER_LOST, CULPRIT, 5);
		}
	}
	gpu_rank_end(&g);
}

/* A call into a graph, which all ranks have done. */
static bool capture(struct gpu_rank *g, int calls, CUgraphExec *exec)
{
	struct gpu_case test = case_of(g->self, atoi(g->self->argument));
	CUstream stream = g->stream[0];
	CUgraph graph = NULL;
	bool fine = GPU_FINE(
		g, cuStreamBeginCapture_v2(
			   stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));

	while (fine && calls--)
		fine = ranks_fine(g->self, gpu_rank_call(g, &test, stream),
				  "oh_all_reduce");
	fine = GPU_FINE(g, cuStreamEndCapture(stream, &graph)) && fine &&
	       GPU_FINE(g, cuGraphInstantiateWithFlags(exec, graph, 0));
	if (graph)
		g->cuda->cuGraphDestroy(graph);
	return fine;
}

static void expect_of_replay(struct gpu_rank *g, CUgraphExec exec)
{
	struct oh_health health = {.size = sizeof(health), .culprit = -1};
	double end = now_s() + 5;

	if (GPU_FINE(g, cuGraphLaunch(exec, g->stream[0])))
		GPU_FINE(g, cuStreamSynchronize(g->stream[0]));
	do {
		nap_ms(1);
		oh_comm_health(g->comm, &health);
	} while (health.culprit < 0 && now_s() < end);
	ranks_check(g->self,
		    now_s() < end && health.status == OH_ERR_PEER_LOST &&
			    health.culprit == CULPRIT,
		    "health says %s by rank %d", oh_status_name(health.status),
		    health.culprit);
	atomic_fetch_add(&g->self->words[SEEN], 1);
	stay(g->self);
}

/* Of replays nobody knows how many the others make: a rank that has left is
 * missed at the deadline of a kernel. */
static void left_replay(struct ranks_self *self)
{
	CUgraphExec exec = NULL;
	struct gpu_rank g;

	if (begin(&g, self)) {
		with_deadline(self, &g);
		if (capture(&g, 1, &exec)) {
			ranks_barrier(self);
			if (self->rank == CULPRIT) {
				leave(&g);
			} else {
				ranks_await(&self->words[READY], 1);
				expect_of_replay(&g, exec);
			}
		}
	}
	if (exec)
		g.cuda->cuGraphExecDestroy(exec);
	gpu_rank_end(&g);
}

/* More calls wait in the queue than a failure ends waits one by one: those that
 * come later must not wait at all. */
static void killed_queue(struct ranks_self *self)
{
	CUgraphExec exec = NULL;
	struct gpu_rank g;

	if (begin(&g, self) && capture(&g, 120, &exec)) {
		ranks_barrier(self);
		if (self->rank == CULPRIT)
			raise(SIGKILL);
		expect_of_replay(&g, exec);
		try_again(&g);
	}
	if (exec)
		g.cuda->cuGraphExecDestroy(exec);
	gpu_rank_end(&g);
}

static void *abort_soon(void *comm)
{
	nap_ms(200);
	oh_comm_abort(comm);
	return NULL;
}

static void aborted(struct ranks_self *self)
{
	struct gpu_rank g;
	pthread_t thread;

	if (begin(&g, self)) {
		if (self->rank == 0 &&
		    ranks_check(
			    self,
			    !pthread_create(&thread, NULL, abort_soon, g.comm),
			    "no thread")) {
			expect(&g, OH_ERR_ABORTED, 0, 5);
			pthread_join(thread, NULL);
		} else if (self->rank != CULPRIT) {
			expect(&g, OH_ERR_ABORTED, 0, 5);
		} else {
			stay(self);
		}
	}
	gpu_rank_end(&g);
}

/* The program has no descriptors any more; the communicator ends all the same,
 * and nothing spins until then. */
static void no_descriptors(struct ranks_self *self)
{
	struct rlimit before, none;
	struct rusage used, now;
	struct gpu_rank g;

	if (begin(&g, self)) {
		getrlimit(RLIMIT_NOFILE, &before);
		none = (struct rlimit){0, before.rlim_max};
		setrlimit(RLIMIT_NOFILE, &none);
		getrusage(RUSAGE_SELF, &used);
		nap_ms(500);
		getrusage(RUSAGE_SELF, &now);
		oh_comm_destroy(g.comm);
		g.comm = NULL;
		setrlimit(RLIMIT_NOFILE, &before);
		ranks_check(self, us_of(&now) - us_of(&used) < 250000,
			    "the watching thread spins: %ld us of 500000",
			    us_of(&now) - us_of(&used));
	}
	gpu_rank_end(&g);
}

static const char *const sizes[] = {"0", "1", "2", "3"};

static const struct ranks_case cases[] = {
	{"killed", killed},
	{"killed_waiting", killed_waiting},
	{"killed_queue", killed_queue},
	{"skipped", skipped},
	{"left", left},
	{"aborted", aborted},
	{"differs", differs},
	{"left_replay", left_replay},
	{"no_descriptors", no_descriptors},
	{NULL, NULL},
};

static void run(const char *name, int ranks, const char *size, const char *text)
{
	bool dies = !strncmp(name, "killed", 6);
	struct ranks_options options = {
		.ranks = ranks,
		.argument = size,
		.dies = dies ? 1u << CULPRIT : 0,
	};
	char line[128];

	snprintf(line, sizeof(line), "%s, %d ranks, kernel %s%s%s%s", name,
		 ranks, size, *text ? ", forbidden: " : "", text,
		 getenv("ONEHOP_DEVICE_SHARE") ? ", CUDA IPC" : "");
	options.text = line;
	for (const struct ranks_case *c = cases; c->name; c++)
		if (!strcmp(c->name, name))
			ranks_processes(c, &options);
}

/* All ends, where these pairs are no peers. */
static void test_forbidden(const char *forbidden, const char *size,
			   const char *next_size, int times)
{
	setenv("ONEHOP_FORBID_PEER", forbidden, 1);
	for (int n = 0; n < 4 * times; n++)
		run("killed", 2 + n % 3, sizes[n % 4], forbidden);
	run("killed_waiting", 3, size, forbidden);
	run("killed_queue", 3, next_size, forbidden);
	run("skipped", 3, size, forbidden);
	run("left", 3, next_size, forbidden);
	run("left_replay", 3, next_size, forbidden);
	run("aborted", 3, next_size, forbidden);
	run("differs", 3, size, forbidden);
	run("no_descriptors", 2, size, forbidden);
}

/* The same where mailboxes are shared by CUDA IPC. */
static void test_ipc(int times)
{
	static const char *const names[] = {"killed", "killed_waiting", "left",
					    "aborted", "skipped"};

	setenv("ONEHOP_DEVICE_SHARE", "ipc", 1);
	setenv("ONEHOP_FORBID_PEER", "", 1);
	for (int i = 0; i < 4; i++) {
		if (i % 2 || times > 1) {
			run("killed", 2 + i % 3, sizes[i], "");
			run("left", 2 + i % 2, sizes[i], "");
		}
		run(names[i + 1], 3, sizes[3 - i], "");
	}
	setenv("ONEHOP_FORBID_PEER", "0-1", 1);
	run("killed", 3, "0", "0-1");
	unsetenv("ONEHOP_DEVICE_SHARE");
}

/* A few of both, where real processes take seconds to start on a GPU. */
static void test_some(void)
{
	setenv("ONEHOP_FORBID_PEER", "0-1", 1);
	run("killed", 4, "2", "0-1");
	run("skipped", 3, "2", "0-1");
	run("left_replay", 3, "3", "0-1");
	setenv("ONEHOP_FORBID_PEER", "", 1);
	setenv("ONEHOP_DEVICE_SHARE", "ipc", 1);
	run("killed", 2, "1", "");
	run("left", 3, "3", "");
	unsetenv("ONEHOP_DEVICE_SHARE");
}

/* Who owes data because it waits itself is not to blame. */
static void test_blame(void)
{
#ifdef OH_TESTS_FAKE
	setenv("ONEHOP_FORBID_PEER", "", 1);
	setenv("FAKEKERNELS_FAULT", "blame 2 0", 1);
	for (int i = 0; i < 4; i++)
		run("skipped", 3, sizes[i], "nothing, one more is late");
	unsetenv("FAKEKERNELS_FAULT");
#endif
}

int main(int argc, char **argv)
{
	bool brief = gpu_ranks_brief(argc, argv);
	int times;

	gpu_ranks_main(argc, argv, cases);
	times = ranks_quick() || brief ? 1 : 2;
	/* the failures are what is wanted */
	setenv("ONEHOP_LOG", "off", 1);
	test_forbidden("", sizes[0], sizes[1], times);
	/* in a hurry without host memory alone */
	if (times > 1)
		test_forbidden("all", sizes[1], sizes[2], times);
	if (brief) {
		test_some();
	} else {
		test_forbidden("0-1", sizes[2], sizes[3], times);
		test_ipc(times);
	}
	test_blame();
	return gpu_ranks_end(tap_done());
}
