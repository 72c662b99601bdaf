/* SPDX-License-Identifier: MIT */
/* Writers of a benchmark's result: text while it runs, JSON and CSV after. */
#ifndef OH_TOOLS_BENCH_WRITE_H
#define OH_TOOLS_BENCH_WRITE_H

#include <stdio.h>

#include "base/settings.h"
#include "bench/device.h"
#include "bench/run.h"
#include "tools/bench_machine.h"

/* What is said about a run beside its plan and its result. */
struct bench_about {
	struct bench_machine machine;
	const char *memory; /* "host", "device" */
	struct bench_gpus gpus; /* if it is "device" */
	int argc; /* the command line, from the first flag on */
	char **argv;
};

/* Text: '#' lines are talk about the table. */
void bench_text_head(FILE *out, const struct bench_about *about,
		     const struct bench_plan *plan,
		     const struct bench_result *result);
/* One case: rows[0].what points into the plan. */
void bench_text_rows(FILE *out, const struct bench_plan *plan,
		     const struct bench_row *rows, size_t count);
void bench_text_tail(FILE *out, const struct bench_plan *plan,
		     const struct bench_result *result);

/* The whole document; the caller frees it. NULL: out of memory. */
char *bench_json(const struct bench_about *about, const struct bench_plan *plan,
		 const struct bench_result *result);
char *bench_csv(const struct bench_plan *plan,
		const struct bench_result *result);

/* The settings of that memory whose value is not the default, of
 * OH__SETTING_COUNT at most; how many. The ranks have checked them. */
int bench_settings_changed(bool device, enum oh__setting *list);

/* Before ranks are started, each of which would say the same: false, and why on
 * stderr, if one that they read is malformed. forbid_peer: there is a flag in
 * place of that one. */
bool bench_settings_check(bool forbid_peer);

/* Does the collective combine values? Else it has no operation. */
bool bench_reduces(enum oh_collective collective);

#endif
