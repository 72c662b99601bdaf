/* SPDX-License-Identifier: MIT */
/* The command line of `onehop bench`: its flags, and the cases they mean. */
#ifndef OH_TOOLS_BENCH_OPTIONS_H
#define OH_TOOLS_BENCH_OPTIONS_H

#include <stdio.h>

#include "bench/run.h"
#include "bench/sizes.h"

/* Where a machine-readable result goes. */
struct bench_sink {
	bool wanted;
	const char *path; /* NULL: stdout */
};

struct bench_options {
	bool help;
	const char *worker; /* hidden: the ranks to serve, bench/ranks.h */
	const char *memory; /* key of a row of frames, tools/bench.c */
	uint64_t first, last, factor, step; /* 0: not given */
	struct bench_sizes sizes; /* count 0: not given */
	int iterations; /* 0: by size */
	int warmups; /* -1: by size, on a device by time */
	int in_place; /* -1 only while the memory is not known */
	bool both_places; /* --in-place and --out-of-place were given */
	bool check, comm_alloc, threads, pin;
	bool device; /* memory is "device" */
	const char *device_flag; /* one that is only for it; NULL */
	bool graph, eager; /* as they were given; neither: graph */
	int calls; /* of a replay; 0: by size */
	const char *forbid_peer; /* NULL: not given */
	/* bit i: enum value i */
	unsigned collectives, dtypes, ops;
	int root, ranks; /* ranks 0: by processors */
	int timeout_s;
	unsigned peers; /* bits, as they were named */
	bool all_peers;
	bool peer[BENCH_PEER_COUNT]; /* those of the memory */
	struct bench_sink json, csv;
};

/* false after a message on stderr: exit code 2. */
bool bench_options_parse(int argc, char **argv, struct bench_options *options);

/* The last step of it: what contradicts itself, and defaults. */
bool bench_options_settle(struct bench_options *options);

/* Is every pair of --forbid-peer one of so many ranks? false as above. */
bool bench_options_pairs_fit(const struct bench_options *options, int ranks);

void bench_options_help(FILE *out);

/*
 * The cases in the order in which they are run. ranks is known; crowded: more
 * of them than processors, or than GPUs. false after a message on stderr. The
 * caller frees *cases.
 */
bool bench_options_cases(const struct bench_options *options, int ranks,
			 bool crowded, struct bench_case **cases,
			 size_t *count);

#endif
