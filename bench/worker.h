/* SPDX-License-Identifier: MIT */
/* One rank of a subject: does what the parent's commands say. */
#ifndef OH_BENCH_WORKER_H
#define OH_BENCH_WORKER_H

#include "bench/subject.h"

/*
 * Serves the parent on the socket until it says quit; returns the exit code.
 * rank is what the launcher says, -1 if it says nothing. May run in several
 * threads at once. If the parent ends, the process ends, at once and from
 * anywhere.
 */
int bench_worker_serve(const struct bench_subject *subject, int socket,
		       int rank);

#endif
