/* SPDX-License-Identifier: MIT */
/*
 * A run: what is to be measured, and what came of it. The subjects alternate:
 * each case is measured in rounds, in each of which every subject has its turn
 * and another one begins; so that a machine that changes its speed changes it
 * for all.
 */
#ifndef OH_BENCH_RUN_H
#define OH_BENCH_RUN_H

#include "bench/peers.h"
#include "bench/stats.h"
#include "bench/team.h"

struct bench_case {
	enum oh_collective collective;
	enum oh_dtype dtype;
	enum oh_op op;
	int root;
	size_t count; /* as given to the call */
	uint64_t bytes; /* the larger side */
	/* of all rounds together: calls, on a device replays of calls */
	int iterations;
	int warmups; /* before each round; -1: by time, on a device */
	int calls; /* of a replay, 1 on the host */
	uint32_t buffers; /* that they take in turn, on a device */
};

struct bench_plan {
	struct bench_frame frame;
	bool check;
	bool peer[BENCH_PEER_COUNT];
	struct bench_case *cases;
	size_t case_count;
};

/* One subject's result in one case. */
struct bench_row {
	const struct bench_case *what;
	const char *subject; /* "onehop" or a peer's name */
	char path[72]; /* empty: the subject tells none */
	char reducer[40]; /* the reduction code; empty as above */
	char stores[32]; /* into mailboxes of host memory; else empty */
	bool measured; /* else refused: why says the reason */
	char why[240];
	/* of a call: of the slowest rank; on a device of the rank that started
	 * last, a replay's part */
	struct bench_times us;
	double algbw, busbw; /* of the median */
	double ratio; /* the median over this library's, 0 if unknown */
	double flag_us; /* flag exchange in the same rounds */
	bool checked;
	uint64_t wrong;
};

/* Floors of one size, in the rounds of the first case that has it. */
struct bench_floor_row {
	uint64_t bytes;
	/* medians; 0: not measured. A copy on the host, an empty kernel on a
	 * device. */
	double copy_us, empty_us, flag_us;
};

struct bench_peer_state {
	bool wanted;
	bool ran; /* it was started; else why says the reason */
	char version[72];
	char why[900];
};

struct bench_result {
	char version[72]; /* of this library */
	char reducer[40]; /* of its first case */
	struct bench_row *rows;
	size_t row_count;
	struct bench_floor_row *floors;
	size_t floor_count;
	double flag_before_us, flag_after_us; /* 0: not measured */
	char flag_place[72]; /* where flags of a device lie; "": unknown */
	/* of a device, [from][to]: how ranks come to each other's GPUs */
	struct oh_route_peer ways[OH_MAX_RANKS][OH_MAX_RANKS];
	double create_ms; /* of a device: the communicator, of the last to come
			   */
	struct bench_peer_state peers[BENCH_PEER_COUNT];
	bool complete; /* all cases were measured */
	uint64_t wrong; /* of all rows */
	int exit_code;
	char why[900]; /* of exit_code, if it is not wrong results */
};

/* What a run tells while it goes; context is the first argument. */
struct bench_watcher {
	void *context;
	/* Before each turn of a subject; cases counted from 0. */
	void (*turn)(void *context, size_t index, const char *subject);
	/* All subjects are open. false: nobody wants the result any more. */
	bool (*started)(void *context, const struct bench_plan *plan,
			const struct bench_result *result);
	/* A case is done: its rows, the first is this library's. false as
	 * above. */
	bool (*rows)(void *context, const struct bench_row *rows, size_t count);
	/* Something is wrong: a sentence. */
	void (*complain)(void *context, const char *text);
};

/* Always fills *result; result->exit_code is 0 if all went well. */
void bench_run(const struct bench_plan *plan,
	       const struct bench_watcher *watcher,
	       struct bench_result *result);

void bench_result_free(struct bench_result *result);

/*
 * How two ranks stand to each other: " (near)" below 0.15 us, " (far)" above
 * 0.2 us, " (between)". More ranks, or ranks that share a processor, are not
 * put into words: "".
 */
const char *bench_distance(const struct bench_frame *frame, double flag_us);

#endif
