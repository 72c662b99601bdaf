/* SPDX-License-Identifier: MIT */
/*
 * A small process that outlives `onehop run` when that is killed, and then
 * kills the process groups of its ranks. The kernel's parent-death signal
 * reaches a rank only, not what the rank has started.
 *
 * The guard reads process groups from a pipe. Its end without a word of
 * farewell means that the launcher is gone.
 */
#ifndef OH_TOOLS_RUN_GUARD_H
#define OH_TOOLS_RUN_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

struct run_guard {
	pid_t pid;
	int pipe; /* the writing end; closed on exec */
};

/* false with errno set. */
bool run_guard_start(struct run_guard *guard);

/* Puts a process group under the guard. Called in the rank, before it can
 * start anything. */
bool run_guard_add(const struct run_guard *guard, pid_t group);

/* All groups have ended as they should. */
void run_guard_stop(struct run_guard *guard);

#endif
