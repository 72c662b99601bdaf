/* SPDX-License-Identifier: MIT */
/* The machine in words, for the header of a result. */
#ifndef OH_TOOLS_BENCH_MACHINE_H
#define OH_TOOLS_BENCH_MACHINE_H

#include <stdint.h>

struct bench_machine {
	char cpu[128]; /* the model; "" if the kernel tells none */
	char kernel[160]; /* "Linux 6.1.0 x86_64" */
	int cores, processors, numa_nodes; /* of the machine; 0: unknown */
	double load; /* average of the last minute: others that run */
	uint64_t available_bytes; /* of memory; 0: unknown */
};

void bench_machine_read(struct bench_machine *machine);

#endif
