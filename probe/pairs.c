/* SPDX-License-Identifier: MIT */
/*
 * What has two GPUs: the check of stores and loads, the flag and loads in a
 * chain, what goes through, and the same for all pairs at once. Then each
 * sender has a part of its own of the reader's memory, so that none covers up
 * what another has lost.
 *
 * A check writes over what was there before with another seed, and stores come
 * before copies: so no word that is right can be one of before.
 */
#include <stdlib.h>
#include <string.h>

#include "probe/measure.h"

/* Copies of so few bytes, so many in a row. */
#define SMALL_BYTES 16
#define SMALL_COPIES 64

#define PAIRS (PROBE_GPUS * PROBE_GPUS)

static struct probe_pair *pair_of(struct run *run, int from, int to)
{
	return &run->probe->pair[from][to];
}

/* Runs a kernel once over the check area of a GPU's memory. */
static bool check_once(struct run *run, int gpu, enum gpu_kernel kernel,
		       CUdeviceptr at, uint32_t seed,
		       struct probe_problem *problem)
{
	struct flow flow =
		flow_kernel(run, gpu, gpu, kernel, GPU_CHECK_BYTES, problem);

	flow.arguments.to = (void *)at;
	flow.arguments.seed = seed;
	return flows_run(run, &flow, 1);
}

void measure_check(struct run *run, int from, int to)
{
	struct probe_pair *pair = pair_of(run, from, to);
	struct probe_problem *problem = &pair->problem;
	CUdeviceptr seen = run->gpu[from].seen[to];
	CUdeviceptr own = run->gpu[to].seen[to];
	uint32_t seed = run_seed(run);

	problem->step = "the check of loads";
	if (run_is_over(run, problem) ||
	    !check_once(run, to, GPU_STORE, own, seed, problem) ||
	    !measure_count(run, from, seen, GPU_CHECK_BYTES, seed,
			   &pair->count[PROBE_LOAD], problem))
		return;
	problem->step = "the check of stores";
	seed = run_seed(run);
	if (!check_once(run, from, GPU_STORE, seen, seed, problem) ||
	    !measure_count(run, to, own, GPU_CHECK_BYTES, seed,
			   &pair->count[PROBE_STORE], problem))
		return;
	measure_judge(&pair->count[PROBE_STORE], problem);
	measure_judge(&pair->count[PROBE_LOAD], problem);
}

/* The flag. */

/* One side. Its flag lies in its own memory, in GPU memory or in host memory.
 */
static struct flow ping(struct run *run, int me, int other, bool host,
			struct probe_problem *problem)
{
	const CUdeviceptr *seen =
		host ? run->gpu[me].host_seen : run->gpu[me].seen;
	struct flow flow = flow_kernel(run, me, other, GPU_PING, 0, problem);

	flow.arguments.to = (void *)(seen[other] + GPU_FLAGS_AT +
				     (CUdeviceptr)me * GPU_FLAG_BYTES);
	flow.arguments.from = (void *)(seen[me] + GPU_FLAGS_AT +
				       (CUdeviceptr)other * GPU_FLAG_BYTES);
	flow.arguments.rounds = FLOW_ROUNDS;
	flow.arguments.looks = run_looks(run);
	return flow;
}

/* Both: who follows must be there first. */
static void begin_ping(struct run *run, int from, int to, bool host,
		       struct flow *follower, struct flow *leader)
{
	struct probe_problem *problem = &pair_of(run, from, to)->problem;

	run_seed(run);
	*follower = ping(run, to, from, host, problem);
	*leader = ping(run, from, to, host, problem);
	leader->arguments.leads = 1;
}

static void ping_alone(struct run *run, int from, int to, bool host,
		       struct probe_figure *us)
{
	struct probe_problem *problem = &pair_of(run, from, to)->problem;
	struct flow flows[2];

	if (run_is_over(run, problem))
		return;
	begin_ping(run, from, to, host, &flows[0], &flows[1]);
	if (flows_run(run, flows, 2) && !flow_rounds(&flows[1], 2, us))
		problem->trouble = PROBE_SILENT;
}

static struct flow small_copy(struct run *run, int from, int to)
{
	struct flow flow = flow_copy(run, from, to, FLOW_COPY, SMALL_BYTES,
				     &pair_of(run, from, to)->problem);

	flow.arguments.to = (void *)(run->gpu[from].seen[to] + GPU_DATA_AT +
				     run->probe->bytes);
	flow.arguments.from = (void *)(run->gpu[from].seen[from] + GPU_DATA_AT);
	flow.repeats = SMALL_COPIES;
	return flow;
}

static struct flow chase(struct run *run, int from, int to)
{
	return measure_chase(run, from, to,
			     run->gpu[from].seen[to] + GPU_DATA_AT,
			     &pair_of(run, from, to)->problem);
}

/* Through host memory this works without a way between the GPUs too. */
static void host_latency(struct run *run, int from, int to)
{
	struct probe_pair *pair = pair_of(run, from, to);
	struct probe_problem kept = pair->problem;

	if (run->probe->late || !run->gpu[from].host_seen[to] ||
	    !run->gpu[to].host_seen[from])
		return;
	pair->problem =
		(struct probe_problem){.step = "a flag through host memory"};
	ping_alone(run, from, to, true, &pair->host_latency);
	/* the first one counts */
	if (kept.trouble)
		pair->problem = kept;
}

void measure_latency(struct run *run, int from, int to)
{
	struct probe_pair *pair = pair_of(run, from, to);
	struct probe_figure *us = pair->latency[PROBE_ALONE];
	struct probe_problem *problem = &pair->problem;
	struct flow flow;

	host_latency(run, from, to);
	problem->step = "a flag to and fro";
	if (run_is_over(run, problem))
		return;
	/* the answer goes the other way */
	if (!pair_of(run, to, from)->problem.trouble)
		ping_alone(run, from, to, false, &us[PROBE_STORE]);
	problem->step = "loads in a chain";
	if (run_is_over(run, problem))
		return;
	flow = chase(run, from, to);
	if (!measure_chases(run, &flow, 1))
		return;
	flow_rounds(&flow, OH__PROBE_CHAIN, &us[PROBE_LOAD]);
	problem->step = "small copies";
	flow = small_copy(run, from, to);
	if (flows_time(run, &flow, 1))
		us[PROBE_COPY] = flow.us;
}

/* What goes through. */

/* A transfer of so many bytes from place to place in the data of both. */
static struct flow transfer(struct run *run, int from, int to,
			    enum probe_way way, uint64_t at, uint64_t bytes)
{
	const struct gpu *gpu = &run->gpu[from];
	struct probe_problem *problem = &pair_of(run, from, to)->problem;
	CUdeviceptr theirs = gpu->seen[to] + GPU_DATA_AT;
	CUdeviceptr in = theirs + run->probe->bytes + at;
	struct flow flow;

	if (way == PROBE_COPY)
		flow = flow_copy(run, from, to, FLOW_COPY, bytes, problem);
	else
		flow = flow_kernel(run, from, to,
				   way == PROBE_STORE ? GPU_STORE : GPU_LOAD,
				   bytes, problem);
	flow.arguments.to = (void *)in;
	flow.arguments.from =
		(void *)(way == PROBE_COPY ? gpu->seen[from] + GPU_DATA_AT
					   : theirs + at);
	if (way == PROBE_STORE)
		flow.arguments.seed = run_seed(run);
	else
		flow.arguments.seed =
			run->gpu[way == PROBE_COPY ? from : to].seed;
	return flow;
}

/* Did it come out right? */
static void look_at(struct run *run, const struct flow *flow, int to,
		    enum probe_way way, uint64_t at)
{
	struct probe_pair *pair = pair_of(run, flow->gpu->index, to);
	CUdeviceptr in =
		run->gpu[to].seen[to] + GPU_DATA_AT + run->probe->bytes + at;

	if (way == PROBE_LOAD)
		measure_sum(flow, flow->arguments.seed, at / 4,
			    &pair->count[way]);
	else
		measure_count(run, to, in, flow->bytes, flow->arguments.seed,
			      &pair->count[way], &pair->problem);
	measure_judge(&pair->count[way], &pair->problem);
}

static const char *const alone_steps[PROBE_WAYS] = {"stores", "loads",
						    "copies"};
static const char *const together_steps[PROBE_WAYS] = {
	"stores of all pairs at once", "loads of all pairs at once",
	"copies of all pairs at once"};

void measure_rate(struct run *run, int from, int to)
{
	struct probe_pair *pair = pair_of(run, from, to);

	for (int way = 0; way < PROBE_WAYS; way++) {
		struct flow flow;

		if (run_is_over(run, &pair->problem))
			return;
		pair->problem.step = alone_steps[way];
		flow = transfer(run, from, to, (enum probe_way)way, 0,
				run->probe->bytes);
		if (!flows_time(run, &flow, 1))
			return;
		pair->rate[PROBE_ALONE][way] = flow_rate(&flow);
		look_at(run, &flow, to, (enum probe_way)way, 0);
	}
}

/* All pairs at once. */

typedef struct flow make_flow(struct run *run, int from, int to);

/* A flow of each pair that has no problem; their number. */
static int gather(struct run *run, struct flow *flows, const char *step,
		  make_flow *make)
{
	int count = 0;

	for (int i = 0; i < run->probe->gpus && !run->probe->late; i++)
		for (int j = 0; j < run->probe->gpus; j++) {
			struct probe_problem *problem =
				&pair_of(run, i, j)->problem;

			if (i == j || problem->trouble)
				continue;
			problem->step = step;
			flows[count++] = make(run, i, j);
		}
	return count;
}

/* Each sender's part of the reader's memory. */
static uint64_t part_at(const struct run *run, int from, int to)
{
	return (uint64_t)(from - (from > to)) * run->probe->together_bytes;
}

static struct flow make_store(struct run *run, int from, int to)
{
	return transfer(run, from, to, PROBE_STORE, part_at(run, from, to),
			run->probe->together_bytes);
}

static struct flow make_load(struct run *run, int from, int to)
{
	return transfer(run, from, to, PROBE_LOAD, part_at(run, from, to),
			run->probe->together_bytes);
}

static struct flow make_copy(struct run *run, int from, int to)
{
	return transfer(run, from, to, PROBE_COPY, part_at(run, from, to),
			run->probe->together_bytes);
}

static void rates_together(struct run *run, struct flow *flows,
			   enum probe_way way)
{
	static make_flow *const make[PROBE_WAYS] = {make_store, make_load,
						    make_copy};
	int count = gather(run, flows, together_steps[way], make[way]);

	/* a GPU's kernels share its places, so that all run at once */
	for (int i = 0; i < count; i++)
		if (run->probe->gpus > 2)
			flows[i].blocks /= (unsigned)run->probe->gpus - 1;
	flows_time(run, flows, count);
	for (int i = 0; i < count && !run->probe->late; i++) {
		int from = flows[i].gpu->index, to = flows[i].partner;

		if (flows[i].problem->trouble)
			continue;
		pair_of(run, from, to)->rate[PROBE_TOGETHER][way] =
			flow_rate(&flows[i]);
		look_at(run, &flows[i], to, way, part_at(run, from, to));
	}
}

/* Each two GPUs once, both sides' times. */
static void flags_together(struct run *run, struct flow *flows)
{
	int gpus = run->probe->gpus, pairs = 0;

	/* each follower before all leaders: the second half is theirs */
	for (int i = 0; i < gpus && !run->probe->late; i++)
		for (int j = i + 1; j < gpus; j++) {
			if (pair_of(run, i, j)->problem.trouble ||
			    pair_of(run, j, i)->problem.trouble)
				continue;
			pair_of(run, i, j)->problem.step =
				"flags of all pairs at once";
			begin_ping(run, i, j, false, &flows[pairs],
				   &flows[PAIRS / 2 + pairs]);
			pairs++;
		}
	memmove(&flows[pairs], &flows[PAIRS / 2],
		(size_t)pairs * sizeof(*flows));
	flows_run(run, flows, 2 * pairs);
	for (int i = 0; i < 2 * pairs && !run->probe->late; i++) {
		struct flow *flow = &flows[i];
		struct probe_pair *pair =
			pair_of(run, flow->gpu->index, flow->partner);

		if (!flow->problem->trouble &&
		    !flow_rounds(flow, 2,
				 &pair->latency[PROBE_TOGETHER][PROBE_STORE]))
			flow->problem->trouble = PROBE_SILENT;
	}
}

static void loads_together(struct run *run, struct flow *flows)
{
	int count = gather(run, flows, "loads in a chain of all pairs at once",
			   chase);

	measure_chases(run, flows, count);
	for (int i = 0; i < count && !run->probe->late; i++)
		if (!flows[i].problem->trouble)
			flow_rounds(
				&flows[i], OH__PROBE_CHAIN,
				&pair_of(run, flows[i].gpu->index,
					 flows[i].partner)
					 ->latency[PROBE_TOGETHER][PROBE_LOAD]);
}

static void copies_together(struct run *run, struct flow *flows)
{
	int count = gather(run, flows, "small copies of all pairs at once",
			   small_copy);

	flows_time(run, flows, count);
	for (int i = 0; i < count; i++)
		pair_of(run, flows[i].gpu->index, flows[i].partner)
			->latency[PROBE_TOGETHER][PROBE_COPY] = flows[i].us;
}

void measure_together(struct run *run)
{
	struct flow *flows = calloc(PAIRS, sizeof(*flows));

	if (!flows)
		return;
	for (int way = 0; way < PROBE_WAYS; way++)
		rates_together(run, flows, (enum probe_way)way);
	flags_together(run, flows);
	loads_together(run, flows);
	copies_together(run, flows);
	free(flows);
}
