/* SPDX-License-Identifier: MIT */
/*
 * Which processor each rank is pinned to: distinct cores before a core's
 * second hardware thread, in the order of the machine's tree, within what this
 * process may use.
 */
#ifndef OH_TOOLS_BINDING_H
#define OH_TOOLS_BINDING_H

#include <stdbool.h>

/* How many processors (hardware threads) this process may use. */
int binding_processors(void);

/*
 * cpu[i] = the operating system's number of the processor for rank i. false,
 * and nothing is written, if there are more ranks than processors or the
 * machine's tree cannot be read.
 */
bool binding_choose(int ranks, int *cpu);

/* Pins the calling thread; false with errno set. */
bool binding_pin(int cpu);

#endif
