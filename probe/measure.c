/* SPDX-License-Identifier: MIT */
/*
 * What has one GPU only: its own memory, and host memory. A count or a sum that
 * is wrong is told with the step in which it was found.
 */
#include "probe/measure.h"

#include "base/clock.h"

#define CHASES 200

bool measure_count(struct run *run, int gpu, CUdeviceptr at, uint64_t bytes,
		   uint32_t seed, struct probe_count *count,
		   struct probe_problem *problem)
{
	struct flow flow;
	uint64_t words = bytes / 4, wrong;

	if (run_is_over(run, problem))
		return false;
	flow = flow_kernel(run, gpu, gpu, GPU_COUNT, bytes, problem);
	flow.arguments.from = (void *)at;
	flow.arguments.seed = seed;
	if (!flows_run(run, &flow, 1))
		return false;
	wrong = flow_sum(&flow);
	count->words += words;
	count->wrong += wrong < words ? wrong : words;
	return true;
}

void measure_sum(const struct flow *flow, uint32_t seed, uint64_t first_word,
		 struct probe_count *count)
{
	uint64_t n = flow->bytes / 4;
	/* of first_word + i, for i from 0 to n - 1; one of n and n - 1 is
	 * even */
	uint64_t indexes =
		n * first_word + (n % 2 ? n * ((n - 1) / 2) : n / 2 * (n - 1));
	uint32_t due = (uint32_t)indexes * OH__PROBE_STEP + (uint32_t)n * seed;

	count->words += n;
	/* of which word it was, a sum does not tell */
	count->wrong += flow_sum(flow) != due;
}

void measure_judge(const struct probe_count *count,
		   struct probe_problem *problem)
{
	if (count->wrong && !problem->trouble)
		problem->trouble = PROBE_WRONG;
}

struct flow measure_chase(struct run *run, int gpu, int partner, CUdeviceptr at,
			  struct probe_problem *problem)
{
	struct flow flow =
		flow_kernel(run, gpu, partner, GPU_CHASE, 0, problem);

	flow.arguments.from = (void *)at;
	flow.arguments.rounds = CHASES;
	return flow;
}

/* The first run brings clocks and caches up. */
bool measure_chases(struct run *run, struct flow *flows, int count)
{
	bool fine = flows_run(run, flows, count);

	return fine && flows_run(run, flows, count);
}

/* A kernel that is timed between two places. */
static struct flow moving(struct run *run, int gpu, enum gpu_kernel kernel,
			  CUdeviceptr at, uint64_t bytes)
{
	struct flow flow = flow_kernel(run, gpu, gpu, kernel, bytes,
				       &run->probe->gpu[gpu].problem);

	flow.arguments.to = (void *)at;
	flow.arguments.from = (void *)at;
	return flow;
}

/* Makes the pattern that others load and copy. */
static bool fill_out(struct run *run, int gpu)
{
	struct gpu *it = &run->gpu[gpu];
	struct flow flow =
		moving(run, gpu, GPU_STORE, it->seen[gpu] + GPU_DATA_AT,
		       run->probe->bytes);

	it->seed = flow.arguments.seed = run_seed(run);
	it->filled = flows_run(run, &flow, 1);
	return it->filled;
}

static void own_load(struct run *run, int gpu)
{
	struct probe_gpu *facts = &run->probe->gpu[gpu];
	struct gpu *it = &run->gpu[gpu];
	struct flow flow;

	facts->problem.step = "loads from its own memory";
	if (run_is_over(run, &facts->problem))
		return;
	flow = moving(run, gpu, GPU_LOAD, it->seen[gpu] + GPU_DATA_AT,
		      run->probe->bytes);
	if (!flows_time(run, &flow, 1))
		return;
	facts->own[PROBE_LOAD] = flow_rate(&flow);
	measure_sum(&flow, it->seed, 0, &facts->count);
	flow = measure_chase(run, gpu, gpu, it->seen[gpu] + GPU_DATA_AT,
			     &facts->problem);
	if (measure_chases(run, &flow, 1))
		flow_rounds(&flow, OH__PROBE_CHAIN, &facts->latency);
}

static void own_store(struct run *run, int gpu)
{
	struct probe_gpu *facts = &run->probe->gpu[gpu];
	CUdeviceptr in =
		run->gpu[gpu].seen[gpu] + GPU_DATA_AT + run->probe->bytes;
	struct flow flow;

	facts->problem.step = "stores into its own memory";
	if (run_is_over(run, &facts->problem))
		return;
	flow = moving(run, gpu, GPU_STORE, in, run->probe->bytes);
	flow.arguments.seed = run_seed(run);
	if (!flows_time(run, &flow, 1))
		return;
	facts->own[PROBE_STORE] = flow_rate(&flow);
	measure_count(run, gpu, in, flow.bytes, flow.arguments.seed,
		      &facts->count, &facts->problem);
}

static void own_copy(struct run *run, int gpu)
{
	struct probe_gpu *facts = &run->probe->gpu[gpu];
	CUdeviceptr out = run->gpu[gpu].seen[gpu] + GPU_DATA_AT;
	CUdeviceptr in = out + run->probe->bytes;
	struct flow flow;

	facts->problem.step = "a copy within its own memory";
	if (run_is_over(run, &facts->problem))
		return;
	flow = flow_copy(run, gpu, gpu, FLOW_COPY, run->probe->bytes,
			 &facts->problem);
	flow.arguments.to = (void *)in;
	flow.arguments.from = (void *)out;
	if (!flows_time(run, &flow, 1))
		return;
	facts->own[PROBE_COPY] = flow_rate(&flow);
	measure_count(run, gpu, in, flow.bytes, run->gpu[gpu].seed,
		      &facts->count, &facts->problem);
}

void measure_own(struct run *run, int gpu)
{
	struct probe_gpu *facts = &run->probe->gpu[gpu];

	facts->problem.step = "stores into its own memory";
	if (run_is_over(run, &facts->problem) || !fill_out(run, gpu))
		return;
	own_load(run, gpu);
	own_store(run, gpu);
	own_copy(run, gpu);
	run->gpu[gpu].filled = !facts->count.wrong;
	measure_judge(&facts->count, &facts->problem);
}

/* Host memory. */

static char *host_data(const struct gpu *gpu)
{
	return gpu->host + GPU_DATA_AT;
}

/* As the processor sees it. */
static void host_count(const struct run *run, int gpu, uint32_t seed)
{
	struct probe_count *count = &run->probe->gpu[gpu].count;
	const uint32_t *word = (void *)host_data(&run->gpu[gpu]);
	uint64_t words = run->probe->host_bytes / 4;

	count->words += words;
	for (uint64_t i = 0; i < words; i++)
		count->wrong += word[i] != (uint32_t)i * OH__PROBE_STEP + seed;
}

/* Returns the seed of what was stored. */
static uint32_t host_store(struct run *run, int gpu)
{
	struct probe_gpu *facts = &run->probe->gpu[gpu];
	struct flow flow = moving(run, gpu, GPU_STORE,
				  run->gpu[gpu].host_seen[gpu] + GPU_DATA_AT,
				  run->probe->host_bytes);

	flow.arguments.seed = run_seed(run);
	if (flows_time(run, &flow, 1)) {
		facts->host[PROBE_STORE] = flow_rate(&flow);
		host_count(run, gpu, flow.arguments.seed);
	}
	return flow.arguments.seed;
}

static void host_load(struct run *run, int gpu, uint32_t seed)
{
	struct probe_gpu *facts = &run->probe->gpu[gpu];
	CUdeviceptr at = run->gpu[gpu].host_seen[gpu] + GPU_DATA_AT;
	struct flow flow;

	if (run_is_over(run, &facts->problem))
		return;
	flow = moving(run, gpu, GPU_LOAD, at, run->probe->host_bytes);
	if (!flows_time(run, &flow, 1))
		return;
	facts->host[PROBE_LOAD] = flow_rate(&flow);
	measure_sum(&flow, seed, 0, &facts->count);
	flow = measure_chase(run, gpu, gpu, at, &facts->problem);
	if (measure_chases(run, &flow, 1))
		flow_rounds(&flow, OH__PROBE_CHAIN, &facts->host_load);
}

/* Back first, while what the kernel stored is there. */
static void host_copies(struct run *run, int gpu, uint32_t seed)
{
	struct probe_gpu *facts = &run->probe->gpu[gpu];
	struct gpu *it = &run->gpu[gpu];
	CUdeviceptr out = it->seen[gpu] + GPU_DATA_AT;
	CUdeviceptr in = out + run->probe->bytes;
	struct flow flow;

	if (run_is_over(run, &facts->problem))
		return;
	flow = flow_copy(run, gpu, gpu, FLOW_FROM_HOST, run->probe->host_bytes,
			 &facts->problem);
	flow.arguments.to = (void *)in;
	flow.arguments.from = host_data(it);
	if (!flows_time(run, &flow, 1))
		return;
	facts->host_copy_back = flow_rate(&flow);
	if (!measure_count(run, gpu, in, flow.bytes, seed, &facts->count,
			   &facts->problem))
		return;
	flow = flow_copy(run, gpu, gpu, FLOW_TO_HOST, run->probe->host_bytes,
			 &facts->problem);
	flow.arguments.to = host_data(it);
	flow.arguments.from = (void *)out;
	if (!flows_time(run, &flow, 1))
		return;
	facts->host[PROBE_COPY] = flow_rate(&flow);
	host_count(run, gpu, it->seed);
}

/* The processor's side of the flag: answers until the last round. */
static void answer_flag(struct gpu *gpu, uint32_t first, uint32_t rounds,
			uint64_t deadline_ns)
{
	char *flags = gpu->host + GPU_FLAGS_AT;
	uint32_t *from = (void *)(flags + (size_t)gpu->index * GPU_FLAG_BYTES);
	uint32_t *to = from + GPU_FLAG_BYTES / 8;
	uint32_t answered = first - 1;

	for (unsigned i = 0; answered != first + rounds - 1; i++) {
		uint32_t seen = __atomic_load_n(from, __ATOMIC_ACQUIRE);

		if (seen - first < rounds && seen != answered) {
			__atomic_store_n(to, seen, __ATOMIC_RELEASE);
			answered = seen;
		}
		if (i % 4096 == 0 && oh__now_ns() >= deadline_ns)
			return;
	}
}

static void host_flag(struct run *run, int gpu)
{
	struct probe_gpu *facts = &run->probe->gpu[gpu];
	struct gpu *it = &run->gpu[gpu];
	CUdeviceptr flags = it->host_seen[gpu] + GPU_FLAGS_AT +
			    (size_t)gpu * GPU_FLAG_BYTES;
	struct flow flow;

	facts->problem.step = "a flag to the processor and back";
	if (run_is_over(run, &facts->problem))
		return;
	flow = flow_kernel(run, gpu, gpu, GPU_PING, 0, &facts->problem);
	flow.arguments.seed = run_seed(run);
	flow.arguments.rounds = FLOW_ROUNDS;
	flow.arguments.looks = run_looks(run);
	flow.arguments.leads = 1;
	flow.arguments.to = (void *)flags;
	flow.arguments.from = (void *)(flags + GPU_FLAG_BYTES / 2);
	if (flows_start(&flow, 1))
		answer_flag(it, flow.arguments.seed, FLOW_ROUNDS,
			    oh__now_ns() + run->options->timeout_ns / 2);
	if (flows_end(run, &flow, 1) &&
	    !flow_rounds(&flow, 2, &facts->host_flag))
		facts->problem.trouble = PROBE_SILENT;
}

void measure_host(struct run *run, int gpu)
{
	struct probe_gpu *facts = &run->probe->gpu[gpu];
	uint32_t seed;

	facts->problem.step = "host memory";
	if (run_is_over(run, &facts->problem))
		return;
	seed = host_store(run, gpu);
	host_load(run, gpu, seed);
	host_copies(run, gpu, seed);
	measure_judge(&facts->count, &facts->problem);
	host_flag(run, gpu);
}
