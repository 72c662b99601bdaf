/* SPDX-License-Identifier: MIT */
/* The GPUs of this host, as the benchmark's parent sees them: it makes no
 * context. */
#ifndef OH_BENCH_DEVICE_H
#define OH_BENCH_DEVICE_H

#include <stddef.h>

#include "onehop/onehop.h"

#define BENCH_GPUS_MAX 64

struct bench_gpus {
	int count; /* that CUDA_VISIBLE_DEVICES leaves */
	char name[BENCH_GPUS_MAX][64];
	char driver[96]; /* "580.95.05"; "" if NVML does not tell */
	char cuda[16]; /* what the driver supports: "13.0" */
};

/* Of the driver, as NVML tells it: "580.95.05"; "" if it does not. */
void bench_driver_version(char *text, size_t room);

/* Of CUDA, from cuDriverGetVersion's number: "13.0"; "" for 0. */
void bench_cuda_version(int number, char *text, size_t room);

/* OH_ERR_UNSUPPORTED: there is no GPU, no driver, or no kernel in this build;
 * anything else: they are there and do not work. The reason says what would
 * change it. */
enum oh_status bench_gpus_find(struct bench_gpus *gpus, char *reason,
			       size_t room);

#endif
