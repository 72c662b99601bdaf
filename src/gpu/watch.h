/* SPDX-License-Identifier: MIT */
/*
 * The thread that notices for the GPU what no kernel can: a rank that died, one
 * that failed or was aborted, a kernel that gave up waiting. The communicator
 * fails then, and the waits of kernels that run or come later are ended, so
 * that the GPU is free for others; see src/kernels release.cuh. It looks every
 * OH__GPU_WATCH_MS; a death wakes it.
 */
#ifndef OH_GPU_WATCH_H
#define OH_GPU_WATCH_H

#include "gpu/engine.h"

#define OH__GPU_WATCH_MS 20

enum oh_status oh__gpu_watch_start(struct oh__gpu *gpu);
void oh__gpu_watch_end(struct oh__gpu *gpu);

#endif
