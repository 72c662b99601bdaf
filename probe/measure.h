/* SPDX-License-Identifier: MIT */
/*
 * The measurements, each of one GPU, one pair or all pairs that have no
 * problem yet. What is moved is looked at afterwards: stores by a kernel of
 * the memory's owner, loads by their sum.
 */
#ifndef OH_PROBE_MEASURE_H
#define OH_PROBE_MEASURE_H

#include "probe/flow.h"

/* Counts words that are not the seed's pattern, looked at by a GPU. */
bool measure_count(struct run *run, int gpu, CUdeviceptr at, uint64_t bytes,
		   uint32_t seed, struct probe_count *count,
		   struct probe_problem *problem);
/* A load's sum, of a pattern from a word on. */
void measure_sum(const struct flow *flow, uint32_t seed, uint64_t first_word,
		 struct probe_count *count);
/* Data that came out wrong is the problem, if there is none yet. */
void measure_judge(const struct probe_count *count,
		   struct probe_problem *problem);
/* Rounds of loads of one word in a chain, for such flows. */
bool measure_chases(struct run *run, struct flow *flows, int count);
struct flow measure_chase(struct run *run, int gpu, int partner, CUdeviceptr at,
			  struct probe_problem *problem);

/* A GPU's own memory and its host memory. The pattern that others load is
 * stored first. */
void measure_own(struct run *run, int gpu);
void measure_host(struct run *run, int gpu);

/* Do stores arrive, do loads give what is there? */
void measure_check(struct run *run, int from, int to);
/* Of a pair alone. */
void measure_latency(struct run *run, int from, int to);
void measure_rate(struct run *run, int from, int to);
/* Of all pairs at once. */
void measure_together(struct run *run);

#endif
