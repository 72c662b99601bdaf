/* SPDX-License-Identifier: MIT */
/* What `onehop probe` makes of its figures: findings, and two writers. */
#ifndef OH_TOOLS_PROBE_WRITE_H
#define OH_TOOLS_PROBE_WRITE_H

#include <stdbool.h>
#include <stdio.h>

#include "bench/device.h"
#include "probe/probe.h"
#include "tools/bench_machine.h"

/* What is said about a measurement beside its figures. */
struct probe_about {
	struct bench_machine machine;
	char driver[96]; /* "580.95.05"; "": unknown */
	int argc; /* the command line, from the first flag on */
	char **argv;
};

#define PROBE_FINDINGS 32

/* Troubles that are alike are one finding, which names its pairs. */
struct probe_finding {
	char title[240], evidence[240], advice[480];
};

/* Their number; of more than PROBE_FINDINGS the first. */
int probe_find(const struct probe *probe, struct probe_finding *findings);

/* "right", "refused", "wrong" ...: what became of a pair or a GPU. */
const char *probe_state(const struct probe_problem *problem);

/* What the data sheet says of a GPU's memory, GB/s; 0 if it is not known. */
double probe_peak(const struct probe_gpu *gpu);

void probe_write_text(const struct probe *probe,
		      const struct probe_about *about, bool colour, FILE *out);
/* false if it could not be written. */
bool probe_write_json(const struct probe *probe,
		      const struct probe_about *about, FILE *out);

#endif
