/* SPDX-License-Identifier: MIT */
/*
 * Where the time of a token goes, as far as the evidence carries: from the
 * model, the tensor-parallel size and a measured rate come the number of
 * all-reduces, the bytes that each GPU reads, what that is of the memory's
 * peak, and the share that communication can have by each path. Pure
 * arithmetic: nothing is read or printed here.
 */
#ifndef OH_DOCTOR_BUDGET_H
#define OH_DOCTOR_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "doctor/hardware.h"
#include "doctor/log.h"
#include "doctor/metrics.h"
#include "doctor/model.h"
#include "doctor/path_time.h"

#define BUDGET_PATHS 8
#define BUDGET_TEXT 160

/* A figure and where it comes from; source "" : not known. */
struct figure {
	double value;
	char source[BUDGET_TEXT];
};

struct budget_question {
	const struct model *model; /* NULL: none */
	const struct metrics *metrics; /* NULL: none */
	const struct log_facts *log; /* NULL: none */
	const char *gpu_name; /* of the slowest rank's GPU, NULL */
	const char *gpu_name_origin;
	int tp; /* 0: not known */
	enum path_link link;
	bool link_known;
	/* as given on the command line; 0: not */
	double tokens_per_second, batch, message_bytes, active_bytes,
		checkpoint_bytes, peak_gb_s, claimed_gb_s;
	/* the path that the engine takes now, by log or gate: a name of
	 * path_time.h, NULL if it is not known */
	const char *path_now;
};

/* One path: what its calls take of a token. */
struct budget_path {
	const struct path_time *time;
	bool now; /* the engine's today */
	double low_ms, high_ms; /* of one token */
	double low_share, high_share; /* of ms_per_token; 0 without it */
	/* what a token of today spends on all else if its calls take this
	 * path's time: ms_per_token less high_ms and less low_ms, 0 at least;
	 * 0 without ms_per_token */
	double low_left_ms, high_left_ms;
	/* tokens/s if the calls took this path instead of today's: the least
	 * and the most that the ranges allow; 0: cannot be said */
	double low_tokens_per_second, high_tokens_per_second;
};

enum budget_verdict {
	BUDGET_NOT_ENOUGH_EVIDENCE,
	BUDGET_COMMUNICATION,
	BUDGET_MEMORY_BANDWIDTH,
	BUDGET_LAUNCH,
	BUDGET_VERDICTS, /* how many there are */
};

struct budget {
	bool any; /* there is something to say */
	struct figure layers, hidden_size;
	struct figure all_reduces_per_token; /* two a layer */
	struct figure embedding_all_reduces; /* one more a token */
	struct figure message_bytes_per_token;
	struct figure parameters_total, parameters_active;
	struct figure tokens_per_second; /* of one sequence */
	struct figure batch;
	struct figure ms_per_token, us_per_layer;
	struct figure active_bytes_per_gpu;
	struct figure achieved_gb_s_per_gpu, gpu_peak_gb_s;
	struct figure utilisation_of_peak;
	struct figure claimed_gb_s, utilisation_of_claimed_bandwidth;
	struct figure all_reduces_per_second;
	struct figure memory_ms_per_token; /* at the peak: a lower bound */
	int path_count;
	struct budget_path paths[BUDGET_PATHS];
	enum budget_verdict verdict;
	char verdict_why[320];
	/* bit per enum budget_verdict */
	uint32_t not_bound_by;
	char not_bound_why[BUDGET_VERDICTS][160];
};

void budget_make(const struct budget_question *question, struct budget *budget);

const char *budget_verdict_name(enum budget_verdict verdict);

/* "15 to 51 %", or "1 %" where both round to it. Returns text. */
const char *budget_percent(double low, double high, char text[32]);

#endif
