/* SPDX-License-Identifier: MIT */
/*
 * One rank of a subject on GPU memory. Calls are captured into a graph (or
 * queued), and a replay of all of them is timed by events before and behind it;
 * the parent takes the rank that started last, which waited for nobody.
 */
#ifndef OH_BENCH_DEVICE_WORKER_H
#define OH_BENCH_DEVICE_WORKER_H

#include "bench/device_subject.h"

/* As bench_serve of bench/serve.h, for a rank that no launcher started. */
int bench_device_serve(const struct bench_device_subject *subject, int socket);

#endif
