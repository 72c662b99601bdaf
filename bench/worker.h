/* SPDX-License-Identifier: MIT */
/* One rank of a subject on host memory: does what the parent's commands say. */
#ifndef OH_BENCH_WORKER_H
#define OH_BENCH_WORKER_H

#include "bench/subject.h"

/* As bench_serve of bench/serve.h. */
int bench_worker_serve(const struct bench_subject *subject, int socket,
		       int rank);

#endif
