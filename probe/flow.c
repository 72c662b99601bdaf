/* SPDX-License-Identifier: MIT */
#include "probe/flow.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

/* Between looks at a stream. */
#define NAP_NS 20000

/* A wait for a flag is over well before the deadline: a look takes up to 3 us
 * of host memory, 1 us of a GPU's. */
#define LOOK_NS 6000
#define MOST_LOOKS (2u << 20)

/* Times as a clock of 0.5 us takes them may be 0. */
#define LEAST_US 1e-3

uint32_t run_seed(struct run *run)
{
	/* far enough for the rounds of a flag */
	return run->seed += 0x01000193;
}

bool run_is_over(const struct run *run, const struct probe_problem *problem)
{
	return run->probe->late || problem->trouble;
}

void run_progress(const struct run *run, const char *format, ...)
{
	char text[80];
	va_list args;

	if (!run->options->progress)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	run->options->progress(run->options->context, text);
}

struct flow flow_kernel(struct run *run, int gpu, int partner,
			enum gpu_kernel kernel, uint64_t bytes,
			struct probe_problem *problem)
{
	struct gpu *it = &run->gpu[gpu];

	/* no sum and no count of words is so */
	memset(gpu_answer(it, partner), 0xff, OH__PROBE_ANSWER_BYTES);
	return (struct flow){
		.gpu = it,
		.partner = partner,
		.problem = problem,
		.kernel = kernel,
		.blocks = it->blocks,
		.bytes = bytes,
		.arguments = {.packs = bytes / OH__PACK_BYTES,
			      .seed = run->seed,
			      .answer = (void *)gpu_answer_seen(it, partner)},
		.repeats = 1,
	};
}

struct flow flow_copy(struct run *run, int gpu, int partner,
		      enum flow_kind kind, uint64_t bytes,
		      struct probe_problem *problem)
{
	return (struct flow){
		.gpu = &run->gpu[gpu],
		.partner = partner,
		.problem = problem,
		.kind = kind,
		.bytes = bytes,
		.repeats = 1,
	};
}

static void submit_one(struct flow *flow)
{
	struct oh__probe_arguments *a = &flow->arguments;
	CUstream stream = flow->gpu->stream[flow->partner];
	CUdeviceptr to = (uintptr_t)a->to, from = (uintptr_t)a->from;

	switch (flow->kind) {
	case FLOW_KERNEL:
		gpu_launch(flow->gpu, flow->kernel, flow->blocks, stream, a,
			   flow->problem);
		break;
	case FLOW_COPY:
		GPU_CALL(flow->problem, flow->gpu, cuMemcpyDtoDAsync_v2, to,
			 from, flow->bytes, stream);
		break;
	case FLOW_TO_HOST:
		GPU_CALL(flow->problem, flow->gpu, cuMemcpyDtoHAsync_v2, a->to,
			 from, flow->bytes, stream);
		break;
	case FLOW_FROM_HOST:
		GPU_CALL(flow->problem, flow->gpu, cuMemcpyHtoDAsync_v2, to,
			 a->from, flow->bytes, stream);
		break;
	}
}

static bool submit(struct flow *flow)
{
	if (flow->graph)
		GPU_CALL(flow->problem, flow->gpu, cuGraphLaunch, flow->graph,
			 flow->gpu->stream[flow->partner]);
	for (int i = 0; i < flow->repeats && !flow->graph; i++)
		submit_one(flow);
	return !flow->problem->trouble;
}

/* Repeats in a graph, for a stream takes small copies faster than the thread
 * can queue them. */
static void make_graph(struct flow *flow)
{
	const struct oh__cuda *cuda = flow->gpu->cuda;
	CUstream stream = flow->gpu->stream[flow->partner];
	CUgraphExec executable = NULL;
	CUgraph graph = NULL;
	CUresult code;

	if (flow->repeats == 1 || !cuda->cuGraphLaunch ||
	    !GPU_CALL(flow->problem, flow->gpu, cuStreamBeginCapture_v2, stream,
		      CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
		return;
	submit(flow);
	code = cuda->cuStreamEndCapture(stream, &graph);
	/* a stream that captures is of no use any more */
	if (code)
		cuda->cuStreamEndCapture(stream, &graph);
	gpu_note(flow->problem, cuda, code, "cuStreamEndCapture");
	if (!graph)
		return;
	GPU_CALL(flow->problem, flow->gpu, cuGraphInstantiateWithFlags,
		 &executable, graph, 0);
	cuda->cuGraphDestroy(graph);
	flow->graph = executable;
}

/* Whatever a problem was, what was queued is waited for. */
static bool is_done(struct flow *flow)
{
	struct probe_problem sink = {0};
	CUresult code;

	if (!gpu_enter(flow->gpu, &sink)) {
		gpu_note(flow->problem, flow->gpu->cuda, (CUresult)sink.code,
			 sink.call);
		return true;
	}
	code = flow->gpu->cuda->cuStreamQuery(flow->gpu->stream[flow->partner]);
	if (code == CUDA_ERROR_NOT_READY)
		return false;
	gpu_note(flow->problem, flow->gpu->cuda, code, "cuStreamQuery");
	return true;
}

static void wait_for(struct run *run, struct flow *flows, int count)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};
	uint64_t deadline = oh__now_ns() + run->options->timeout_ns;
	int done = 0;

	for (;;) {
		while (done < count && is_done(&flows[done]))
			done++;
		if (done == count)
			return;
		if (oh__now_ns() >= deadline)
			break;
		nanosleep(&nap, NULL);
	}
	run->probe->late = true;
	for (; done < count; done++)
		if (!is_done(&flows[done]) && !flows[done].problem->trouble)
			flows[done].problem->trouble = PROBE_LATE;
}

static bool all_fine(const struct flow *flows, int count)
{
	for (int i = 0; i < count; i++)
		if (flows[i].problem->trouble)
			return false;
	return true;
}

bool flows_start(struct flow *flows, int count)
{
	for (int i = 0; i < count; i++)
		if (gpu_enter(flows[i].gpu, flows[i].problem))
			submit(&flows[i]);
	return all_fine(flows, count);
}

bool flows_end(struct run *run, struct flow *flows, int count)
{
	wait_for(run, flows, count);
	return all_fine(flows, count);
}

bool flows_run(struct run *run, struct flow *flows, int count)
{
	flows_start(flows, count);
	return flows_end(run, flows, count);
}

static void begin_timing(struct flow *flow)
{
	gpu_enter(flow->gpu, flow->problem);
	for (int i = 0; i <= FLOW_TIMES; i++)
		GPU_CALL(flow->problem, flow->gpu, cuEventCreate,
			 &flow->event[i], CU_EVENT_DEFAULT);
	make_graph(flow);
}

static void end_timing(struct flow *flow)
{
	for (int i = 0; i <= FLOW_TIMES; i++)
		if (flow->event[i])
			flow->gpu->cuda->cuEventDestroy_v2(flow->event[i]);
	if (flow->graph)
		flow->gpu->cuda->cuGraphExecDestroy(flow->graph);
}

static void record(struct flow *flow, int i)
{
	GPU_CALL(flow->problem, flow->gpu, cuEventRecord, flow->event[i],
		 flow->gpu->stream[flow->partner]);
}

static int compare(const void *a, const void *b)
{
	const double *one = a, *other = b;

	return (*one > *other) - (*one < *other);
}

struct probe_figure figure_of(double *values, int count)
{
	if (count < 1)
		return (struct probe_figure){0};
	qsort(values, (size_t)count, sizeof(*values), compare);
	return (struct probe_figure){true, values[count / 2], values[0]};
}

static void read_times(struct flow *flow)
{
	double us[FLOW_TIMES];
	float ms = 0;

	for (int i = 1; i < FLOW_TIMES; i++) {
		GPU_CALL(flow->problem, flow->gpu, cuEventElapsedTime, &ms,
			 flow->event[i], flow->event[i + 1]);
		us[i - 1] = (double)ms * 1e3 / flow->repeats;
		if (us[i - 1] < LEAST_US)
			us[i - 1] = LEAST_US;
	}
	if (!flow->problem->trouble)
		flow->us = figure_of(us, FLOW_TIMES - 1);
}

bool flows_time(struct run *run, struct flow *flows, int count)
{
	for (int i = 0; i < count; i++) {
		begin_timing(&flows[i]);
		record(&flows[i], 0);
	}
	for (int time = 0; time < FLOW_TIMES; time++)
		for (int i = 0; i < count; i++)
			if (gpu_enter(flows[i].gpu, flows[i].problem) &&
			    submit(&flows[i]))
				record(&flows[i], time + 1);
	wait_for(run, flows, count);
	for (int i = 0; i < count && !run->probe->late; i++) {
		gpu_enter(flows[i].gpu, flows[i].problem);
		read_times(&flows[i]);
		end_timing(&flows[i]);
	}
	return all_fine(flows, count);
}

uint32_t run_looks(const struct run *run)
{
	uint64_t looks = run->options->timeout_ns / LOOK_NS;

	return looks < MOST_LOOKS ? (uint32_t)looks : MOST_LOOKS;
}

uint32_t flow_sum(const struct flow *flow)
{
	const uint32_t *answer = gpu_answer(flow->gpu, flow->partner);
	uint32_t sum = 0;

	for (unsigned i = 0; i < flow->blocks; i++)
		sum += __atomic_load_n(&answer[i], __ATOMIC_RELAXED);
	return sum;
}

bool flow_rounds(const struct flow *flow, double parts, struct probe_figure *us)
{
	const uint32_t *answer = gpu_answer(flow->gpu, flow->partner);
	uint64_t cycles = answer[2] | (uint64_t)answer[3] << 32;
	int rounds = (int)flow->arguments.rounds;
	double values[OH__PROBE_ROUNDS], each;

	if (answer[0] != flow->arguments.rounds || rounds < 2 || !cycles)
		return false;
	each = answer[1] / 1e3 / (double)cycles;
	/* the first waited for the other side's start */
	for (int i = 1; i < rounds; i++)
		values[i - 1] = answer[OH__PROBE_HEAD + i] * each / parts;
	*us = figure_of(values, rounds - 1);
	return true;
}

struct probe_figure flow_rate(const struct flow *flow)
{
	double kilobytes = (double)flow->bytes / 1e3;

	if (!flow->us.known)
		return flow->us;
	return (struct probe_figure){true, kilobytes / flow->us.median,
				     kilobytes / flow->us.best};
}
