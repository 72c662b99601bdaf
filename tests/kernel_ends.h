/* SPDX-License-Identifier: MIT */
/*
 * How kernels of the rig end that would wait for long: because the communicator
 * has failed, or the host ends their waits. And the check of pairs, which like
 * the release is a kernel beside them.
 */
#ifndef OH_TESTS_KERNEL_ENDS_H
#define OH_TESTS_KERNEL_ENDS_H

#include "kernel_rig.h"

/* Kernels that wait do so for a while now. */
void ends_look_around(void);
/* Has the rank told of one that is late? */
bool ends_is_late(const struct rig *rig, int rank);

/* Kernels that are queued when the communicator has failed do not wait, nor do
 * those behind them. */
bool ends_is_dead_quick(struct rig *rig, enum rig_algorithm algorithm);
/* A rank does not come, and the host ends the others' waits for it long before
 * the deadline, and those of later calls. Begins the rig anew. */
bool ends_is_release_right(struct rig *rig, enum rig_algorithm algorithm);
/* The check finds what each rank stores, and who does not. */
bool ends_is_check_right(struct rig *rig);

#endif
