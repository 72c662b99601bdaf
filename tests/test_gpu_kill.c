/* SPDX-License-Identifier: MIT */
/*
 * Ranks on GPU memory fall out at random moments of their calls, eager ones and
 * replays: killed, stopped, or gone by oh_comm_destroy. The others live on
 * through all rounds: each gets an error that names the right rank, its GPU is
 * idle and usable, what the fallen rank had completed is right, the next
 * communicator works, and after many rounds nothing has grown.
 *
 *	--times N	rounds in all
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu_ranks.h"

#define BATCH 8 /* calls in flight */
#define PLACE ((size_t)1 << 20) /* of a call in the buffers */
#define ROOM (BATCH * PLACE)
/* Rounds after which the caches of drivers are full. */
#define WARM 2
/* What a call may take that waits for a rank which does not come. */
#define MISSED_MS 700
/* When that rank's process has ended, nobody waits for the deadline. */
#define KILLED_MS 20000
#define SEEN_WITHIN_S 15u

#ifdef OH_TESTS_FAKE
#define TIMES 12
#else
#define TIMES 21 /* each takes seconds: more on request */
#endif

enum way {
	KILLED,
	STOPPED,
	LEFT,
	WAYS
};

/* Words of the board of those that live on, and of the one that falls. */
enum {
	ROUND, /* 1 + its number, when the rest is set; 0: not yet */
	FALLEN, /* the same, when the rank has fallen */
	FALLEN_NS, /* at this time */
	COMPLETED, /* calls that it had completed */
	MET, /* of those that live on, all rounds together */
	NEXT_MET, /* the same, with the next communicator */
	DONE, /* when their round is over */
	BROKEN, /* something was wrong for one of them */
	QUIET, /* 1 + the round after which nobody is at work */
	MEASURED, /* of those that live on, all rounds together */
	WAY,
	VICTIM,
	GRAPHS, /* replays, not eager calls */
	CALLING, /* it has made its first calls */
	LEAVE, /* it shall */
	ID, /* of the communicator */
	NEXT_ID = ID + RANKS_ID_WORDS, /* without the fallen rank */
	WORDS = NEXT_ID + RANKS_ID_WORDS
};

_Static_assert(WORDS <= RANKS_WORDS, "a board has few words");

#define NO_MORE UINT64_MAX /* rounds */

/* A rank in a round. */
struct player {
	struct ranks_self *self; /* as in the communicator */
	struct gpu_rank *g;
	enum way way;
	int victim;
	uint64_t round;
	bool falls; /* it is this one */
	CUgraphExec graph; /* NULL: eager */
	uint64_t calls; /* made in whole batches */
	uint64_t first_wrong;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void nap_us(uint64_t us)
{
	nanosleep(&(struct timespec){(time_t)(us / 1000000),
				     (long)(us % 1000000) * 1000},
		  NULL);
}

/* Sizes of each kind of kernel; data of the round, the call and the rank. */
static struct gpu_case case_of(const struct player *p, uint64_t call)
{
	static const size_t counts[] = {16, 3000, 20000, 400000};
	size_t at = (size_t)(call % BATCH) * PLACE;

	return (struct gpu_case){.count = counts[call % 4],
				 .dtype = OH_BF16,
				 .send_at = at,
				 .recv_at = at,
				 .seed = p->round << 32 | call};
}

static struct oh_comm *make_comm(const struct player *p, int id)
{
	struct oh_unique_id unique = ranks_get_id(&p->self->words[id]);
	struct oh_comm_options options = {
		.size = sizeof(options),
		.id = &unique,
		.rank = p->self->rank,
		.ranks = p->self->ranks,
		.call_timeout_ms = p->way == KILLED ? KILLED_MS : MISSED_MS,
	};
	struct oh_comm *comm = NULL;

	ranks_at(p->self, "round %llu: oh_comm_create",
		 (unsigned long long)p->round);
	ranks_fine(p->self, oh_comm_create(&options, &comm), "oh_comm_create");
	return comm;
}

static bool capture(struct player *p)
{
	struct gpu_rank *g = p->g;
	CUgraph graph = NULL;
	bool fine = GPU_FINE(
		g, cuStreamBeginCapture_v2(
			   g->stream[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));

	for (uint64_t n = 0; n < BATCH && fine; n++) {
		struct gpu_case test = case_of(p, n);

		fine = ranks_fine(p->self,
				  gpu_rank_call(g, &test, g->stream[0]),
				  "captured");
	}
	fine = GPU_FINE(g, cuStreamEndCapture(g->stream[0], &graph)) && fine &&
	       GPU_FINE(g, cuGraphInstantiateWithFlags(&p->graph, graph, 0));
	if (graph)
		g->cuda->cuGraphDestroy(graph);
	return fine;
}

/* A batch; what the first call that failed said. */
static enum oh_status call_batch(struct player *p)
{
	struct gpu_rank *g = p->g;
	enum oh_status status = OH_OK;

	for (uint64_t n = 0; n < BATCH; n++) {
		struct gpu_case test = case_of(p, p->calls + n);

		if (!gpu_rank_put(g, &test, g->stream[0]) ||
		    /* the buffer on the host is used again */
		    !GPU_FINE(g, cuStreamSynchronize(g->stream[0])))
			return OH_ERR_SYSTEM;
	}
	if (p->graph) {
		/* the driver knows nothing of a rank that is lost */
		GPU_FINE(g, cuGraphLaunch(p->graph, g->stream[0]));
		return OH_OK;
	}
	for (uint64_t n = 0; n < BATCH && !status; n++) {
		struct gpu_case test = case_of(p, p->calls + n);

		status = gpu_rank_call(g, &test, g->stream[n % 3 / 2]);
	}
	return status;
}

static bool drain(struct player *p)
{
	bool fine = true;

	for (int i = 0; i < GPU_STREAMS; i++)
		fine &= gpu_rank_drain(p->g, p->g->stream[i],
				       SEEN_WITHIN_S * 1000);
	return fine;
}

static enum oh_status health_of(struct oh_comm *comm, int *culprit)
{
	struct oh_health health = {.size = sizeof(health)};

	if (oh_comm_health(comm, &health))
		return OH_ERR_INVALID;
	*culprit = health.culprit;
	return health.status;
}

/* A wrong result is none if the call was never completed: that is known later.
 */
static void look_at_results(struct player *p)
{
	for (uint64_t n = 0; n < BATCH && p->first_wrong == UINT64_MAX; n++) {
		struct gpu_case test = case_of(p, p->calls + n);

		if (!gpu_rank_same(p->g, &test, p->g->stream[0]))
			p->first_wrong = p->calls + n;
	}
}

/* Batches until something fails, or it is to leave. */
static enum oh_status call_on(struct player *p)
{
	enum oh_status status = OH_OK;
	int culprit;

	/* nobody tells those that live on */
	while (!status && !atomic_load(&p->self->words[LEAVE])) {
		ranks_at(p->self, "round %llu: calls from %llu on",
			 (unsigned long long)p->round,
			 (unsigned long long)p->calls);
		status = call_batch(p);
		if (!drain(p))
			break;
		look_at_results(p);
		if (!status)
			status = health_of(p->g->comm, &culprit);
		p->calls += BATCH;
		if (!p->falls)
			continue;
		if (!status && p->first_wrong == UINT64_MAX)
			atomic_store(&p->self->words[COMPLETED], p->calls);
		atomic_store(&p->self->words[CALLING], 1);
	}
	return status;
}

static bool begin_round(struct player *p, struct gpu_rank *g,
			struct ranks_self *self, uint64_t round)
{
	*p = (struct player){
		.self = self,
		.g = g,
		.way = (enum way)atomic_load(&self->words[WAY]),
		.victim = (int)atomic_load(&self->words[VICTIM]),
		.round = round,
		.first_wrong = UINT64_MAX,
	};
	g->self = self;
	g->comm = make_comm(p, ID);
	if (!g->comm)
		return false;
	return !atomic_load(&self->words[GRAPHS]) || capture(p);
}

static void end_round(struct player *p)
{
	if (p->graph)
		p->g->cuda->cuGraphExecDestroy(p->graph);
	oh_comm_destroy(p->g->comm);
	p->g->comm = NULL;
}

/* The one that falls. "RANKS", the whole group's. */
static void fall(struct ranks_self *self)
{
	struct ranks_self own = *self;
	struct player p;
	struct gpu_rank g;

	ranks_await(&self->words[ROUND], 1);
	own.ranks = atoi(self->argument);
	own.rank = (int)atomic_load(&self->words[VICTIM]);
	/* the others have the first devices */
	if (gpu_rank_open(&g, &own, own.ranks - 1, ROOM) &&
	    begin_round(&p, &g, &own, atomic_load(&self->words[ROUND]) - 1)) {
		enum oh_status status;

		p.falls = true;
		status = call_on(&p);
		/* stopped, and running again: it has missed a call */
		ranks_check(self, !status == (p.way == LEFT), "%s",
			    oh_status_name(status));
		end_round(&p);
		if (p.way == LEFT)
			atomic_store(&self->words[FALLEN], p.round + 1);
	}
	gpu_rank_end(&g);
}

/* Those that live on. */

static void check_error(struct player *p, enum oh_status status,
			uint64_t seen_ns)
{
	uint64_t fallen_ns = atomic_load(&p->self->words[FALLEN_NS]);
	enum oh_status due =
		p->way == STOPPED ? OH_ERR_TIMEOUT : OH_ERR_PEER_LOST;
	struct gpu_case test = case_of(p, 0);
	int culprit = -1;
	char who[16];

	ranks_check(p->self, status == due, "%s, not %s: %s",
		    oh_status_name(status), oh_status_name(due),
		    oh_last_error()->message);
	ranks_check(p->self,
		    seen_ns < fallen_ns + SEEN_WITHIN_S * 1000000000ull,
		    "seen after %llu ms",
		    (unsigned long long)(seen_ns - fallen_ns) / 1000000);
	/* that it has failed is known before it is known why */
	for (int ms = 0; ms < 2000 && culprit < 0; ms++) {
		status = health_of(p->g->comm, &culprit);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	ranks_check(p->self, status == due && culprit == p->victim,
		    "health says %s by rank %d, not %d", oh_status_name(status),
		    culprit, p->victim);
	/* it stays so */
	status = gpu_rank_call(p->g, &test, p->g->stream[1]);
	snprintf(who, sizeof(who), "rank %d", p->victim);
	ranks_check(p->self,
		    status == due && strstr(oh_last_error()->message, who),
		    "the next call: %s: %s", oh_status_name(status),
		    oh_last_error()->message);
}

/* What the fallen rank had completed, all had. */
static void check_completed(struct player *p)
{
	uint64_t completed = atomic_load(&p->self->words[COMPLETED]);

	ranks_check(p->self, p->first_wrong >= completed,
		    "call %llu is wrong, rank %d had completed %llu",
		    (unsigned long long)p->first_wrong, p->victim,
		    (unsigned long long)completed);
}

static void check_usable(struct player *p)
{
	struct gpu_rank *g = p->g;
	uint32_t words[1024], wrong = 0;

	if (!drain(p) ||
	    !GPU_FINE(g, cuMemsetD32Async(g->recv, 0xabcd1234, 1024,
					  g->stream[1])) ||
	    !GPU_FINE(g, cuMemcpyDtoHAsync_v2(words, g->recv, sizeof(words),
					      g->stream[1])) ||
	    !gpu_rank_drain(g, g->stream[1], 5000))
		return;
	for (int i = 0; i < 1024; i++)
		wrong += words[i] != 0xabcd1234;
	ranks_check(p->self, !wrong, "%u words of a fill are wrong", wrong);
}

static void check_next(struct player *p)
{
	struct ranks_self smaller = *p->self, *whole = p->self;
	struct gpu_rank *g = p->g;

	smaller.ranks--;
	smaller.rank -= smaller.rank > p->victim;
	p->way = KILLED; /* nobody is late now */
	p->self = g->self = &smaller;
	g->comm = make_comm(p, NEXT_ID);
	for (uint64_t n = 0; n < 4 && g->comm && smaller.ranks > 1; n++) {
		struct gpu_case test = case_of(p, n);

		if (!gpu_rank_try(g, &test, g->stream[1]))
			break;
	}
	/* all have what they wait for */
	atomic_fetch_add(&whole->words[NEXT_MET], 1);
	ranks_await(&whole->words[NEXT_MET],
		    (p->round + 1) * (uint64_t)smaller.ranks);
	oh_comm_destroy(g->comm);
	g->comm = NULL;
	p->self = g->self = whole;
}

static bool live_through(struct gpu_rank *g, struct ranks_self *self,
			 uint64_t round)
{
	struct player p;
	enum oh_status status;
	uint64_t seen_ns;

	if (!begin_round(&p, g, self, round))
		return false;
	status = call_on(&p);
	seen_ns = now_ns();
	ranks_at(self, "round %llu: the end of rank %d",
		 (unsigned long long)round, p.victim);
	if (!ranks_await(&self->words[FALLEN], round + 1))
		return false;
	check_error(&p, status, seen_ns);
	check_completed(&p);
	check_usable(&p);
	/* nobody leaves while others may still find out */
	atomic_fetch_add(&self->words[MET], 1);
	ranks_await(&self->words[MET],
		    (round + 1) * ((uint64_t)self->ranks - 1));
	end_round(&p);
	check_next(&p);
	return !ranks_failures(self);
}

/* What is held after a round, while nobody is at work. */
static struct gpu_holds measure(struct gpu_rank *g, struct ranks_self *self,
				uint64_t round)
{
	struct gpu_holds now;
	size_t last;

	ranks_await(&self->words[QUIET], round + 1);
	now = gpu_rank_holds(g);
	/* what a process held that was killed comes back piece by piece */
	do {
		last = now.device_bytes;
		nap_us(20000);
		now = gpu_rank_holds(g);
	} while (now.device_bytes < last);
	atomic_fetch_add(&self->words[MEASURED], 1);
	return now;
}

/* "RANKS", with the one that falls. */
static void live(struct ranks_self *self)
{
	struct gpu_holds before = {0}, after = {0};
	struct ranks_self own = *self;
	struct gpu_rank g;
	uint64_t round = 0;
	bool fine;

	own.ranks = atoi(self->argument);
	fine = gpu_rank_open(&g, self, self->rank, ROOM);
	while (fine && ranks_await(&self->words[ROUND], round + 1) &&
	       atomic_load(&self->words[ROUND]) != NO_MORE) {
		own.rank =
			self->rank + (self->rank >= (int)self->words[VICTIM]);
		fine = live_through(&g, &own, round);
		g.self = self;
		if (!fine)
			atomic_store(&self->words[BROKEN], 1);
		atomic_fetch_add(&self->words[DONE], 1);
		after = measure(&g, self, round);
		if (++round == WARM)
			before = after;
	}
	if (fine && round > WARM)
		gpu_rank_check_growth(&g, &before, &after);
	gpu_rank_end(&g);
}

enum {
	LIVE,
	FALL
};

static const struct ranks_case cases[] = {
	[LIVE] = {"live", live}, [FALL] = {"fall", fall}, {NULL, NULL}};

/* The rounds. */

static int rounds[WAYS]; /* in all series */

struct series {
	int ranks;
	const char *forbidden;
	struct ranks_random random;
	struct ranks_group *living;
	char argument[8];
};

/* What happens in a round. */
struct plan {
	int way, victim;
	bool graphs;
	bool goes_on; /* stopped, but not for good */
};

static void tell(_Atomic uint64_t *words, const struct plan *plan,
		 const struct oh_unique_id ids[2])
{
	ranks_put_id(&words[ID], &ids[0]);
	ranks_put_id(&words[NEXT_ID], &ids[1]);
	atomic_store(&words[WAY], (uint64_t)plan->way);
	atomic_store(&words[VICTIM], (uint64_t)plan->victim);
	atomic_store(&words[GRAPHS], plan->graphs);
	atomic_store(&words[COMPLETED], 0);
}

/* Makes it fall, at some moment of its calls. */
static void push(struct series *s, struct ranks_group *falling, int way,
		 uint64_t round)
{
	_Atomic uint64_t *words = ranks_words(falling);

	ranks_await(&words[CALLING], 1);
	nap_us(ranks_below(&s->random, 60000));
	atomic_store(&ranks_words(s->living)[FALLEN_NS], now_ns());
	if (way == LEFT) {
		atomic_store(&words[LEAVE], 1);
		ranks_await(&words[FALLEN], round + 1);
	} else {
		kill(ranks_pid(falling, 0), way == KILLED ? SIGKILL : SIGSTOP);
	}
	atomic_store(&ranks_words(s->living)[COMPLETED],
		     atomic_load(&words[COMPLETED]));
	atomic_store(&ranks_words(s->living)[FALLEN], round + 1);
}

/*
 * Who leaves is the least of them. Series of 8 rounds, as of 2, 3 and 4 ranks,
 * have 4 + 3 + 4 that kill, 3 + 4 + 3 that stop and 3 that leave; of all three
 * some are with eager calls and some with replays.
 */
static struct plan draw(struct series *s, uint64_t round)
{
	static const enum way ways[2][8] = {
		{KILLED, STOPPED, KILLED, STOPPED, LEFT, KILLED, STOPPED,
		 KILLED},
		{STOPPED, KILLED, STOPPED, KILLED, LEFT, STOPPED, KILLED,
		 STOPPED},
	};
	uint64_t odd = (uint64_t)s->ranks % 2;
	struct plan plan = {
		.way = (int)ways[odd][round % 8],
		.graphs = (round / 2 + round / 8 + odd) % 2,
	};

	plan.victim = (int)ranks_below(&s->random, (uint64_t)s->ranks);
	plan.goes_on = plan.way == STOPPED && ranks_below(&s->random, 2);
	return plan;
}

static struct ranks_group *start(struct series *s, const struct plan *plan,
				 uint64_t round)
{
	struct ranks_options options = {
		.ranks = 1,
		.argument = s->argument,
		.dies = plan->way != LEFT && !plan->goes_on,
	};
	struct ranks_group *falling = ranks_start(&cases[FALL], &options);
	_Atomic uint64_t *words[] = {ranks_words(falling),
				     ranks_words(s->living)};
	struct oh_unique_id ids[2];

	oh_unique_id_create(&ids[0]);
	oh_unique_id_create(&ids[1]);
	for (int i = 0; i < 2; i++) {
		tell(words[i], plan, ids);
		atomic_store(&words[i][ROUND], round + 1);
	}
	return falling;
}

static int play_round(struct series *s, uint64_t round)
{
	static const char *const names[WAYS] = {"killed", "stopped", "gone"};
	_Atomic uint64_t *words = ranks_words(s->living);
	uint64_t all = (round + 1) * ((uint64_t)s->ranks - 1);
	struct plan plan = draw(s, round);
	struct ranks_group *falling = start(s, &plan, round);
	int failures;

	push(s, falling, plan.way, round);
	rounds[plan.way]++;
	failures = !ranks_await(&words[DONE], all);
	if (plan.way == STOPPED)
		kill(ranks_pid(falling, 0), plan.goes_on ? SIGCONT : SIGKILL);
	failures += ranks_wait(falling);
	atomic_store(&words[QUIET], round + 1);
	failures += !ranks_await(&words[MEASURED], all) ||
		    atomic_load(&words[BROKEN]);
	if (failures)
		tap_note("round %llu, rank %d of %d, %s%s, %s: failed",
			 (unsigned long long)round, plan.victim, s->ranks,
			 names[plan.way], plan.goes_on ? " for a while" : "",
			 plan.graphs ? "replays" : "eager calls");
	ranks_notes(falling);
	ranks_free(falling);
	return failures;
}

static void play(int ranks, const char *forbidden, int times)
{
	struct series s = {
		.ranks = ranks,
		.random = {ranks_seed() + (uint64_t)ranks + *forbidden},
	};
	struct ranks_options options = {
		.ranks = ranks - 1,
		.argument = s.argument,
		.deadline_s = 90 + 10 * (unsigned)times,
	};
	int failures = 0, round;

	setenv("ONEHOP_FORBID_PEER", forbidden, 1);
	snprintf(s.argument, sizeof(s.argument), "%d", ranks);
	s.living = ranks_start(&cases[LIVE], &options);
	for (round = 0; round < times && !failures; round++)
		failures = play_round(&s, (uint64_t)round);
	atomic_store(&ranks_words(s.living)[ROUND], NO_MORE);
	failures += ranks_wait(s.living);
	tap_ok(!failures,
	       "a rank of %d falls %d times, forbidden '%s': %d rounds well",
	       ranks, times, forbidden, round - !!failures);
	ranks_notes(s.living);
	ranks_free(s.living);
}

int main(int argc, char **argv)
{
	static const struct {
		int ranks;
		const char *forbidden;
	} series[] = {{2, ""}, {3, "all"}, {4, "0-1"}};
	int times = TIMES;

	gpu_ranks_main(argc, argv, cases);
	/* the failures are what is wanted */
	setenv("ONEHOP_LOG", "off", 1);
	if (argc > 2 && !strcmp(argv[1], "--times"))
		times = atoi(argv[2]);
	if (ranks_quick())
		times = times / 3;
	for (int i = 0; i < 3; i++)
		play(series[i].ranks, series[i].forbidden, times / 3 + 1);
	tap_note("%d killed, %d stopped, %d left", rounds[KILLED],
		 rounds[STOPPED], rounds[LEFT]);
	return gpu_ranks_end(tap_done());
}
