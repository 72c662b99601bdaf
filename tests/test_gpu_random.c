/* SPDX-License-Identifier: MIT */
/*
 * Random sequences of calls on GPU memory: sizes on both sides of every class's
 * border, types, alignments, in place or not, two communicators, two streams,
 * eager and captured in graphs that are replayed with new data, queued many at
 * a time. All ranks draw the same calls and graphs; streams, alignments and
 * delays are each rank's own affair. Every element of a call is drawn for
 * itself, so data of another call, rank or place is noticed (gpu_play.h: how
 * surely); around a result nothing may change.
 *
 *	--calls N	in all runs together; a fifth of that where processes
 *			share GPUs, which takes long
 *	--all-calls	there, too, all of them
 *	--only N	the N-th run alone
 *	--every N	the N-th, the 2N-th and so on
 *	--threads	no processes
 *	--must-fail	the kernels have a fault: something must be noticed
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu_play.h"
#include "gpu_ranks.h"

#define COMMS PLAY_COMMS
#define BATCH 64 /* calls that are queued before a look */
#define SEGMENT 6 /* calls of a graph */
#define REPLAYS 4
#define POISON 0xa5
/* Of a call that a fault has hung. */
#define FAULT_TIMEOUT_MS 1500
/* In the word by which ranks meet. */
#define FAILED (1ull << 40)

#ifdef OH_TESTS_FAKE
#define CALLS 500
#define LARGEST ((size_t)512 << 10)
#else
#define CALLS 2500
#define LARGEST ((size_t)4 << 20)
#endif
#define ROOM (8 * LARGEST)
/* of a call in a graph, with all its replays within the room */
#define LARGEST_CAPTURED (LARGEST / 8)

/* Calls that are made several times, with new data: plays first to first +
 * calls * times. */
struct step {
	int first, calls, times;
	size_t fixed; /* the graph's regions, one after the other */
	bool captured; /* into a graph, else eager */
	int stream; /* of the graph */
	CUgraphExec graph;
};

struct player {
	struct ranks_self *self;
	struct gpu_rank g;
	struct oh_comm *comm[COMMS];
	struct ranks_random common, own;
	bool must_fail;
	int streams;
	uint64_t calls, made;
	unsigned char *all; /* every rank's data of a call */
	CUevent event;
	/* the batch */
	struct play play[BATCH];
	struct step step[BATCH];
	int plays, steps;
	size_t used;
	/* calls of the two communicators wait for each other */
	bool in_turn;
	int last_stream, last_comm; /* -1: all streams wait for the last */
};

/* Drawing a batch. */

/* A place for each call; the graph's own first. False if there is no room. */
static bool place_step(struct player *p, struct step *step,
		       const struct play *pattern)
{
	size_t used = p->used;

	step->fixed = used;
	for (int n = 0; n < step->calls && step->captured; n++)
		used += play_region(&pattern[n]);
	for (int n = 0; n < step->calls * step->times; n++) {
		struct play *play = &p->play[step->first + n];

		*play = pattern[n % step->calls];
		play->number = p->made + (uint64_t)(step->first + n);
		play->region = used;
		used += play_region(play);
	}
	if (used > ROOM)
		return false;
	p->used = used;
	return true;
}

static bool draw_step(struct player *p)
{
	bool again = !ranks_below(&p->common, 3);
	struct step *step = &p->step[p->steps];
	struct play pattern[SEGMENT];
	size_t largest = again ? LARGEST_CAPTURED : LARGEST;

	*step = (struct step){
		.first = p->plays,
		.calls = again ? 1 + (int)ranks_below(&p->common, SEGMENT) : 1,
		.times = again ? 1 + (int)ranks_below(&p->common, REPLAYS) : 1,
		.stream = (int)ranks_below(&p->own, (uint64_t)p->streams),
	};
	step->captured = again && ranks_below(&p->common, 3);
	for (int n = 0; n < step->calls; n++)
		pattern[n] =
			play_draw(&p->common, &p->own, p->streams, largest);
	if (!place_step(p, step, pattern))
		return false;
	p->plays += step->calls * step->times;
	p->steps++;
	return true;
}

static void draw_batch(struct player *p)
{
	p->plays = p->steps = 0;
	p->used = 0;
	p->in_turn = ranks_below(&p->common, 2);
	while (p->plays + SEGMENT * REPLAYS <= BATCH && draw_step(p))
		;
}

/* Making the calls. */

static CUstream stream_of(struct player *p, int index)
{
	return p->g.stream[index];
}

/* What comes in one stream waits for what is in another. */
static bool link_streams(struct player *p, int from, int to)
{
	return from == to ||
	       (GPU_FINE(&p->g, cuEventRecord(p->event, stream_of(p, from))) &&
		GPU_FINE(&p->g,
			 cuStreamWaitEvent(stream_of(p, to), p->event, 0)));
}

/* The library orders calls of a communicator; between two that shall not run
 * side by side the caller does. */
static bool go_to(struct player *p, const struct play *play, int stream)
{
	bool fine = true;

	if (p->in_turn && p->last_comm >= 0 && p->last_comm != play->comm)
		fine = link_streams(p, p->last_stream, stream);
	p->last_stream = stream;
	p->last_comm = play->comm;
	return fine;
}

static bool call(struct player *p, const struct play *play, size_t region,
		 int stream)
{
	CUdeviceptr recv = p->g.recv + region + play->recv_at;
	CUdeviceptr send =
		play->in_place ? recv : p->g.send + region + play->send_at;

	/* a call of nothing is none */
	return (!play->count || go_to(p, play, stream)) &&
	       ranks_fine(p->self,
			  oh_all_reduce(p->comm[play->comm], (void *)send,
					(void *)recv, play->count, play->dtype,
					play->op, stream_of(p, stream)),
			  "oh_all_reduce");
}

/* Some ranks are late now and then. */
static void dawdle(struct player *p)
{
	if (!ranks_below(&p->own, 32))
		nanosleep(&(struct timespec){.tv_nsec = (long)ranks_below(
						     &p->own, 300000)},
			  NULL);
}

static bool call_all(struct player *p, const struct step *step)
{
	for (int n = 0; n < step->calls * step->times; n++) {
		const struct play *play = &p->play[step->first + n];

		dawdle(p);
		if (!call(p, play, play->region, play->stream))
			return false;
	}
	return true;
}

/* The calls of a step into a graph, on all streams. */
static bool capture_calls(struct player *p, const struct step *step)
{
	size_t region = step->fixed;

	p->last_comm = -1;
	for (int i = 0; i < p->streams; i++)
		if (!link_streams(p, step->stream, i))
			return false;
	for (int n = 0; n < step->calls; n++) {
		const struct play *play = &p->play[step->first + n];

		if (!call(p, play, region, play->stream))
			return false;
		region += play_region(play);
	}
	for (int i = 0; i < p->streams; i++)
		if (!link_streams(p, i, step->stream))
			return false;
	p->last_comm = -1;
	return true;
}

static bool capture(struct player *p, struct step *step)
{
	struct gpu_rank *g = &p->g;
	CUstream stream = stream_of(p, step->stream);
	CUgraph graph = NULL;
	bool fine = GPU_FINE(g, cuStreamBeginCapture_v2(
					stream,
					CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) &&
		    capture_calls(p, step);

	fine = GPU_FINE(g, cuStreamEndCapture(stream, &graph)) && fine &&
	       GPU_FINE(g, cuGraphInstantiateWithFlags(&step->graph, graph, 0));
	if (graph)
		g->cuda->cuGraphDestroy(graph);
	return fine;
}

/* The data of one replay into the graph's regions, or its results out. */
static bool carry(struct player *p, const struct step *step, int time, bool out)
{
	CUstream stream = stream_of(p, step->stream);
	struct gpu_rank *g = &p->g;
	size_t fixed = step->fixed;
	bool fine = true;

	for (int n = 0; n < step->calls && fine; n++) {
		const struct play *play =
			&p->play[step->first + time * step->calls + n];
		size_t region = play_region(play), bytes = play_bytes(play);
		CUdeviceptr to = play->in_place
					 ? g->recv + fixed + play->recv_at
					 : g->send + fixed + play->send_at;

		if (out)
			fine = GPU_FINE(
				g, cuMemcpyDtoDAsync_v2(g->recv + play->region,
							g->recv + fixed, region,
							stream));
		else
			fine = GPU_FINE(g,
					cuMemsetD8Async(g->recv + fixed, POISON,
							region, stream)) &&
			       (!bytes ||
				GPU_FINE(g, cuMemcpyDtoDAsync_v2(
						    to,
						    g->send + play->region +
							    play->send_at,
						    bytes, stream)));
		fixed += region;
	}
	return fine;
}

/* Between replays and other calls the caller sees to the order. */
static bool replay_all(struct player *p, const struct step *step)
{
	CUstream stream = stream_of(p, step->stream);

	for (int i = 0; i < p->streams; i++)
		if (!link_streams(p, i, step->stream))
			return false;
	for (int time = 0; time < step->times; time++) {
		dawdle(p);
		if (!carry(p, step, time, false) ||
		    !GPU_FINE(&p->g, cuGraphLaunch(step->graph, stream)) ||
		    !carry(p, step, time, true))
			return false;
	}
	for (int i = 0; i < p->streams; i++)
		if (!link_streams(p, step->stream, i))
			return false;
	p->last_comm = -1;
	return true;
}

/* A batch. */

static bool put_data(struct player *p)
{
	struct gpu_rank *g = &p->g;
	CUstream stream = stream_of(p, 0);

	memset(g->data, POISON, p->used);
	for (int n = 0; n < p->plays; n++)
		play_fill(&p->play[n], p->self->seed, p->self->rank,
			  g->data + p->play[n].region + p->play[n].send_at);
	if (!GPU_FINE(g, cuMemcpyHtoDAsync_v2(g->send, g->data, p->used,
					      stream)) ||
	    !GPU_FINE(g, cuMemsetD8Async(g->recv, POISON, p->used, stream)))
		return false;
	for (int n = 0; n < p->plays; n++) {
		const struct play *play = &p->play[n];

		if (play->in_place && play->count &&
		    !GPU_FINE(g, cuMemcpyDtoDAsync_v2(
					 g->recv + play->region + play->recv_at,
					 g->send + play->region + play->send_at,
					 play_bytes(play), stream)))
			return false;
	}
	return true;
}

/* All ranks meet; false once one has failed, which none will wait for. */
static bool meet(struct player *p)
{
	uint64_t ranks = (uint64_t)p->self->ranks;
	uint64_t ticket = atomic_fetch_add(&p->self->words[0], 1);

	return ticket < FAILED &&
	       ranks_await(&p->self->words[0], (ticket / ranks + 1) * ranks) &&
	       atomic_load(&p->self->words[0]) < FAILED;
}

/* Nothing is left to be done by the driver when the first kernel waits. */
static bool prepare(struct player *p)
{
	for (int s = 0; s < p->steps; s++) {
		struct step *step = &p->step[s];
		if (step->captured && !capture(p, step))
			return false;
	}
	return put_data(p) &&
	       GPU_FINE(&p->g, cuStreamSynchronize(stream_of(p, 0))) && meet(p);
}

static bool run_steps(struct player *p)
{
	p->last_comm = -1;
	for (int s = 0; s < p->steps; s++)
		if (!(p->step[s].graph ? replay_all(p, &p->step[s])
				       : call_all(p, &p->step[s])))
			return false;
	return true;
}

static void drop_graphs(struct player *p)
{
	for (int s = 0; s < p->steps; s++)
		if (p->step[s].graph)
			p->g.cuda->cuGraphExecDestroy(p->step[s].graph);
	p->steps = 0;
}

static bool is_poison(const unsigned char *at, size_t bytes)
{
	while (bytes && *at == POISON)
		at++, bytes--;
	return !bytes;
}

/* How many bytes are wrong; *first: where. */
static size_t count_wrong(const unsigned char *got, const unsigned char *due,
			  size_t bytes, size_t *first)
{
	size_t wrong = 0;

	*first = 0;
	if (!memcmp(got, due, bytes))
		return 0;
	for (size_t i = bytes; i-- > 0;)
		if (got[i] != due[i]) {
			*first = i;
			wrong++;
		}
	return wrong;
}

static bool check_play(struct player *p, const struct play *play)
{
	const unsigned char *region = p->g.got + play->region;
	const unsigned char *got = region + play->recv_at;
	size_t bytes = play_bytes(play), end = play->recv_at + bytes;
	size_t first, wrong;

	play_expect(play, p->self->seed, p->self->ranks, p->all, p->g.due);
	wrong = count_wrong(got, p->g.due, bytes, &first);
	return ranks_check(
		p->self,
		!wrong && is_poison(region, play->recv_at) &&
			is_poison(region + end, play_region(play) - end),
		"call %llu: %zu %s %s, communicator %d, stream %d, send +%zu, "
		"recv +%zu%s: %zu bytes wrong, one at %zu is %02x, not %02x; "
		"beside them: %s",
		(unsigned long long)play->number, play->count,
		oh_dtype_name(play->dtype), oh_op_name(play->op), play->comm,
		play->stream, play->send_at, play->recv_at,
		play->in_place ? ", in place" : "", wrong, first, got[first],
		p->g.due[first], wrong ? "not looked at" : "written");
}

/* Results, what is beside them, and that no input was changed. */
static bool check_batch(struct player *p)
{
	struct gpu_rank *g = &p->g;
	CUstream stream = stream_of(p, 0);

	for (int i = 0; i < p->streams; i++)
		if (!GPU_FINE(g, cuStreamSynchronize(stream_of(p, i))))
			return false;
	if (!GPU_FINE(g,
		      cuMemcpyDtoHAsync_v2(g->got, g->recv, p->used, stream)) ||
	    !GPU_FINE(g, cuStreamSynchronize(stream)))
		return false;
	for (int n = 0; n < p->plays; n++)
		if (!check_play(p, &p->play[n]))
			return false;
	if (!GPU_FINE(g,
		      cuMemcpyDtoHAsync_v2(g->got, g->send, p->used, stream)) ||
	    !GPU_FINE(g, cuStreamSynchronize(stream)))
		return false;
	for (int n = 0; n < p->plays; n++) {
		size_t at = p->play[n].region + p->play[n].send_at;

		if (!ranks_check(p->self,
				 !memcmp(g->got + at, g->data + at,
					 play_bytes(&p->play[n])),
				 "the input of call %llu was changed",
				 (unsigned long long)p->play[n].number))
			return false;
	}
	return true;
}

static bool play_batch(struct player *p)
{
	bool fine;

	draw_batch(p);
	ranks_at(p->self, "calls %llu to %llu", (unsigned long long)p->made,
		 (unsigned long long)p->made + (unsigned)p->plays);
	fine = prepare(p) && run_steps(p) && check_batch(p);
	drop_graphs(p);
	p->made += (uint64_t)p->plays;
	return fine;
}

/* A rank. */

static struct oh_comm *make_comm(struct player *p, int k)
{
	struct oh_comm_options options = {
		.size = sizeof(options),
		.id = &p->self->ids[k],
		.rank = p->self->rank,
		.ranks = p->self->ranks,
		.call_timeout_ms = FAULT_TIMEOUT_MS,
	};
	struct oh_comm *comm = NULL;

	if (!p->must_fail)
		return ranks_comm(p->self, k);
	ranks_fine(p->self, oh_comm_create(&options, &comm), "oh_comm_create");
	return comm;
}

static bool begin(struct player *p)
{
	int devices = gpu_ranks_devices();

	if (!gpu_rank_open(&p->g, p->self, p->self->place, ROOM) ||
	    !GPU_FINE(&p->g, cuEventCreate(&p->event, CU_EVENT_DISABLE_TIMING)))
		return false;
	/* a GPU has 32 queues for the streams of all its ranks */
	p->streams = p->self->ranks > 4 * devices ? 1 : GPU_STREAMS;
	p->all = malloc((LARGEST + 2 * PLAY_ALIGN) * (size_t)p->self->ranks);
	for (int k = 0; k < COMMS; k++)
		p->comm[k] = make_comm(p, k);
	return ranks_check(p->self, p->all && p->comm[0] && p->comm[1],
			   "no communicators");
}

static void end(struct player *p)
{
	/* those that wait end when a communicator has failed */
	for (int i = 0; i < GPU_STREAMS; i++)
		if (p->g.stream[i])
			gpu_rank_drain(&p->g, p->g.stream[i], 20000);
	for (int k = 0; k < COMMS; k++)
		oh_comm_destroy(p->comm[k]);
	if (p->event)
		p->g.cuda->cuEventDestroy_v2(p->event);
	gpu_rank_end(&p->g);
	free(p->all);
	free(p);
}

/* "CALLS MUST_FAIL" */
static void play(struct ranks_self *self)
{
	struct player *p = calloc(1, sizeof(*p));
	int must_fail;
	bool fine;

	if (!p || sscanf(self->argument, "%llu %d",
			 (unsigned long long *)&p->calls, &must_fail) != 2)
		abort();
	p->self = self;
	p->must_fail = must_fail;
	p->common = (struct ranks_random){self->seed};
	p->own = (struct ranks_random){self->seed + 1 + (uint64_t)self->rank};
	fine = begin(p);
	while (fine && p->made < p->calls)
		fine = play_batch(p);
	if (!fine) {
		/* the others need not wait for a deadline */
		atomic_fetch_add(&self->words[0], FAILED);
		for (int k = 0; k < COMMS; k++)
			if (p->comm[k])
				oh_comm_abort(p->comm[k]);
	}
	end(p);
}

static const struct ranks_case cases[] = {{"play", play}, {NULL, NULL}};

/* Which ranks, how; their part of the calls, of 100. */
static const struct run {
	int ranks;
	bool processes;
	const char *forbidden, *first_call, *bytes;
	unsigned part;
} runs[] = {
	{2, true, "", "0", "64M", 16},
	{2, false, "", "2147483600", "64M", 10},
	{2, false, "all", "0", "64M", 12},
	{2, true, "all", "2147483611", "64M", 10},
	{3, false, "", "2147483637", "64M", 8},
	{3, false, "0-1", "0", "64M", 8},
	{4, false, "", "0", "64M", 8},
	{4, false, "0-1,2-3", "2147483600", "64M", 8},
	{4, true, "0-1,0-2", "1", "64M", 4},
	{4, false, "", "2147483600", "2M", 6},
	{5, false, "0-4", "0", "64M", 2},
	{8, false, "", "2147483630", "64M", 4},
	{8, false, "all", "0", "64M", 4},
};

static void set(const struct run *run)
{
	setenv("ONEHOP_FORBID_PEER", run->forbidden, 1);
	setenv("ONEHOP_FIRST_CALL", run->first_call, 1);
	setenv("ONEHOP_DEVICE_BYTES", run->bytes, 1);
}

/*
 * Threads that share a GPU share a context. About once in a hundred thousand
 * calls a graph that is launched for the first time does not begin, behind a
 * kernel of another rank that waits for it. So there ranks are processes,
 * unless threads are asked for, or the GPUs are fakes, which launch any graph.
 */
static bool are_processes(const struct run *run, bool threads)
{
#ifdef OH_TESTS_FAKE
	(void)threads;
	return run->processes;
#else
	return run->processes || (!threads && run->ranks > gpu_ranks_devices());
#endif
}

/* How many calls that made. */
static uint64_t play_run(const struct run *run, bool threads, bool all_calls,
			 uint64_t calls)
{
	bool processes = are_processes(run, threads);
	char text[160], argument[64];
	struct ranks_options options = {
		.ranks = run->ranks,
		.argument = argument,
		.text = text,
		.deadline_s = 120 + (unsigned)(calls / 50),
	};
	uint64_t own = calls * run->part / 100 + 1;

	/* processes that share a GPU take turns of milliseconds */
	if (processes && !all_calls && run->ranks > gpu_ranks_devices())
		own = own / 5 + 1;
	set(run);
	snprintf(argument, sizeof(argument), "%llu 0", (unsigned long long)own);
	snprintf(text, sizeof(text),
		 "%llu calls, %d %s, forbidden '%s', from call %s, mailboxes "
		 "of %s",
		 (unsigned long long)own, run->ranks,
		 processes ? "processes" : "threads", run->forbidden,
		 run->first_call, run->bytes);
	if (processes)
		ranks_processes(&cases[0], &options);
	else
		ranks_threads(&cases[0], &options);
	return own;
}

/* Until something is wrong; placements in turn, as a fault may show itself in
 * one only. Without a fault nothing is, under the same limits. */
static void try_faults(bool faulty)
{
	static const struct run rows[] = {
		{2, false, "", "0", "64M", 0},
		{2, false, "all", "0", "64M", 0},
		{4, false, "all", "0", "64M", 0},
	};
	/* the driver may have to compile the kernels first */
	struct ranks_options options = {.argument = "2000 1",
					.deadline_s = 180};
	int failures = 0;

	for (int n = 0; n < 3 && !failures; n++) {
		struct ranks_group *group;

		set(&rows[n]);
		options.ranks = rows[n].ranks;
		group = ranks_run_threads(&cases[0], &options);
		failures = ranks_wait(group);
		ranks_notes(group);
		ranks_free(group);
	}
	tap_ok(faulty == !!failures, "%s is noticed",
	       faulty ? "the fault" : "no fault");
}

/* "--name N", where it stands. */
static void read_number(char **argument, const char *name, uint64_t *number)
{
	if (!strcmp(argument[0], name) && argument[1])
		*number = strtoull(argument[1], NULL, 10);
}

int main(int argc, char **argv)
{
	bool faulty = false, faultless = false, threads = false;
	bool all_calls = false;
	uint64_t calls = CALLS, only = 0, every = 1, made = 0;

	gpu_ranks_main(argc, argv, cases);
	setenv("ONEHOP_LOG", "off", 0);
	for (int i = 1; i < argc; i++) {
		faulty |= !strcmp(argv[i], "--must-fail");
		faultless |= !strcmp(argv[i], "--must-pass");
		threads |= !strcmp(argv[i], "--threads");
		all_calls |= !strcmp(argv[i], "--all-calls");
		read_number(argv + i, "--calls", &calls);
		read_number(argv + i, "--only", &only);
		read_number(argv + i, "--every", &every);
	}
	if (ranks_quick())
		calls = calls / 5;
	if (faulty || faultless) {
		try_faults(faulty);
		every = 0;
	}
	for (size_t i = 1; i <= sizeof(runs) / sizeof(*runs); i++)
		if (!(threads && runs[i - 1].processes) &&
		    (only ? only == i : every && i % every == 0))
			made += play_run(&runs[i - 1], threads, all_calls,
					 calls);
	tap_note("%llu calls in all", (unsigned long long)made);
	return gpu_ranks_end(tap_done());
}
