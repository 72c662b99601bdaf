/* SPDX-License-Identifier: MIT */
/*
 * The check of every pair's memory before it is trusted: the driver's word that
 * a peer can be reached does not suffice, stores must arrive (src/kernels
 * check.cuh). Two steps with all ranks' meeting between them.
 */
#ifndef OH_GPU_CHECK_H
#define OH_GPU_CHECK_H

#include "gpu/engine.h"

/* Which memory is checked: bases of the ranks' mailboxes as seen here, 0 where
 * this rank cannot store; own: this rank's. */
struct oh__gpu_areas {
	CUdeviceptr own;
	CUdeviceptr peer[OH_MAX_RANKS];
	uint32_t nonce; /* the same on all ranks, another in every check */
};

enum oh_status oh__gpu_check_write(struct oh__gpu *gpu,
				   const struct oh__gpu_areas *areas,
				   uint64_t deadline_ns);
/* After all have written; fills wrong_stored of the ways to other ranks. */
enum oh_status oh__gpu_check_read(struct oh__gpu *gpu,
				  const struct oh__gpu_areas *areas,
				  uint64_t deadline_ns,
				  struct oh__gpu_row *row);

#endif
