/* SPDX-License-Identifier: MIT */
/*
 * How long one small all-reduce takes by each path: measured ranges of public
 * reports and of this project, with their sources. A range is what people saw
 * on different machines of that kind, not an error bar.
 */
#ifndef OH_DOCTOR_PATH_TIME_H
#define OH_DOCTOR_PATH_TIME_H

#include <stdint.h>

enum path_link {
	PATH_NVLINK, /* every pair */
	PATH_PCIE,
};

struct path_time {
	const char *path; /* "nccl", "custom", "onehop_peer", "onehop_pinned" */
	const char *title; /* for people: "NCCL over PCIe" */
	enum path_link link;
	int ranks_low, ranks_high; /* that the row holds for */
	uint64_t bytes_low, bytes_high;
	double low_us, high_us; /* of one call, inside a CUDA graph */
	const char *source;
};

/* The rows for these; NULL after the last. Gives at most most. */
int path_times(enum path_link link, int ranks, uint64_t bytes,
	       const struct path_time **rows, int most);

#endif
