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
 * From now on what rank from stores into rank to's memory in a check is lost,
 * as on a machine whose driver allows what its IOMMU prevents. -1: of all. In
 * kernels of the probe these are GPUs, and a copy engine loses nothing.
 */
void fakekernels_lose(int from, int to);

#endif
