/* SPDX-License-Identifier: MIT */
/*
 * What the JSON of every measurement says of itself, under the same names:
 * "commit", "end_time", "machine", "arguments". New references; NULL without
 * memory.
 */
#ifndef OH_TOOLS_STAMP_JSON_H
#define OH_TOOLS_STAMP_JSON_H

#include <jansson.h>

#include "tools/bench_machine.h"

/* What was built; null outside of git. */
json_t *stamp_commit(void);
/* Now, UTC: "2026-01-31T12:00:00Z". */
json_t *stamp_time(void);
json_t *stamp_machine(const struct bench_machine *machine);
/* A command line. */
json_t *stamp_words(int argc, char **argv);
/* null for "". */
json_t *stamp_text(const char *text);

#endif
