/* SPDX-License-Identifier: MIT */
/*
 * The kernels of src/kernels on a processor, for fakecuda.h: what they do to
 * mailboxes, epochs and buffers, one launch after the other in the thread that
 * launches. So the library's GPU ranks run whole where there is no GPU, and
 * only the kernels' own code is left to machines that have one.
 */
#ifndef OH_TESTS_FAKEKERNELS_H
#define OH_TESTS_FAKEKERNELS_H

#include "fakecuda.h"

/* The script's lines that name the kernels. */
void fakekernels_script(char *text, size_t room);
/* For fakecuda_run. */
void fakekernels_run(const struct fakecuda_launch *launch);

/*
 * From now on what GPU from stores into GPU to's memory in kernels of the probe
 * is lost, as on a machine whose driver allows what its IOMMU prevents. A copy
 * engine loses nothing. In a communicator's check FAKEKERNELS_LOSE does it:
 * "FROM TO", of ranks, or "FROM TO everywhere", through host memory as well.
 */
void fakekernels_lose(int from, int to);

#endif
