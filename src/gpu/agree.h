/* SPDX-License-Identifier: MIT */
/*
 * Do the ranks make the same calls on GPU memory? A kernel cannot ask, so each
 * rank writes into its segment what it queues, and the watching threads
 * compare: within a look or two after both have made a call that differs, if
 * neither is a hundred calls ahead by then. What a graph's replay does later is
 * not seen.
 */
#ifndef OH_GPU_AGREE_H
#define OH_GPU_AGREE_H

#include "gpu/engine.h"

/* Before the call is queued, or after it was captured. */
void oh__gpu_note_call(struct oh__gpu *gpu, const struct oh__gpu_call *call);

/* A rank whose calls differ, -1 if none; text: in what. */
int oh__gpu_find_mismatch(const struct oh__gpu *gpu, char *text, size_t room);

/* Has the rank made fewer calls than this one? */
bool oh__gpu_is_behind(const struct oh__gpu *gpu, int rank);

#endif
