/* SPDX-License-Identifier: MIT */
/*
 * A flow is one kernel or copy in a stream of a GPU, run once or timed. Flows
 * that are given together run at the same time: each is queued several times
 * in a row, and the time of each is taken between events of its own stream, so
 * that but for the first all have all others beside them.
 *
 * One thread queues everything and waits by looking, with a deadline: a GPU
 * that hangs does not hang the program. After that the driver must not be
 * called any more.
 */
#ifndef OH_PROBE_FLOW_H
#define OH_PROBE_FLOW_H

#include "probe/gpu.h"

#define FLOW_TIMES 8 /* the first does not count */
#define FLOW_ROUNDS 1000 /* of a flag */

struct run {
	const struct oh__cuda *cuda;
	const struct probe_options *options;
	struct probe *probe;
	struct gpu gpu[PROBE_GPUS];
	uint32_t seed;
};

enum flow_kind {
	FLOW_KERNEL,
	FLOW_COPY, /* between memory of GPUs */
	FLOW_TO_HOST,
	FLOW_FROM_HOST,
};

struct flow {
	struct gpu *gpu;
	int partner; /* chooses stream and answer */
	struct probe_problem *problem;
	enum flow_kind kind;
	enum gpu_kernel kernel;
	unsigned blocks;
	uint64_t bytes;
	struct oh__probe_arguments arguments; /* to and from serve copies too */
	int repeats; /* in each time that is taken */
	CUgraphExec graph; /* of the repeats, where there are several */
	CUevent event[FLOW_TIMES + 1];
	struct probe_figure us; /* of one of the repeats */
};

/* A kernel over so many bytes, its answer cleared; seed as it was last. */
struct flow flow_kernel(struct run *run, int gpu, int partner,
			enum gpu_kernel kernel, uint64_t bytes,
			struct probe_problem *problem);
struct flow flow_copy(struct run *run, int gpu, int partner,
		      enum flow_kind kind, uint64_t bytes,
		      struct probe_problem *problem);

/* Another one. */
uint32_t run_seed(struct run *run);
/* Of a wait for a flag. */
uint32_t run_looks(const struct run *run);
/* Nothing more can be tried there. */
bool run_is_over(const struct run *run, const struct probe_problem *problem);
void run_progress(const struct run *run, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Flows whose problem is none before; false if a problem came up in any. */
bool flows_run(struct run *run, struct flow *flows, int count);
/* The same in two steps; the second is owed even if the first says false. */
bool flows_start(struct flow *flows, int count);
bool flows_end(struct run *run, struct flow *flows, int count);
bool flows_time(struct run *run, struct flow *flows, int count);

/* The words of a kernel's answer, together. */
uint32_t flow_sum(const struct flow *flow);
/* us of a ping's or a chase's rounds, divided by parts; false if it has not
 * made all of them. */
bool flow_rounds(const struct flow *flow, double parts,
		 struct probe_figure *us);
/* GB/s of a figure in us. */
struct probe_figure flow_rate(const struct flow *flow);

/* Sorts. */
struct probe_figure figure_of(double *values, int count);

#endif
