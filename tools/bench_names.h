/* SPDX-License-Identifier: MIT */
/*
 * "f32,bf16" or "all": bit i of *set for the enum's value i. false if a name is
 * none of them.
 */
#ifndef OH_TOOLS_BENCH_NAMES_H
#define OH_TOOLS_BENCH_NAMES_H

#include <stdbool.h>

bool bench_names_dtypes(const char *text, unsigned *set);
bool bench_names_ops(const char *text, unsigned *set);
bool bench_names_collectives(const char *text, unsigned *set);
bool bench_names_peers(const char *text, unsigned *set);

#endif
