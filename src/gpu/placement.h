/* SPDX-License-Identifier: MIT */
/*
 * Where the mailbox of each pair of ranks lies, decided from what was tried:
 * pure logic. The way from rank i to rank j is i's stores into j's memory; it
 * passes if i could map that memory, if the stores of a kernel on i were read
 * back right by a kernel on j, and if nobody forbids it. Else the slot lies in
 * host memory. All ranks decide from the same rows, so all decide alike.
 */
#ifndef OH_GPU_PLACEMENT_H
#define OH_GPU_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "onehop/onehop.h"

enum oh__gpu_try {
	OH__GPU_UNTRIED,
	OH__GPU_SELF, /* the rank's own memory */
	OH__GPU_FORBIDDEN, /* by ONEHOP_FORBID_PEER */
	OH__GPU_NOT_SHARED, /* by ONEHOP_DEVICE_SHARE */
	OH__GPU_NOT_EXPORTED, /* the owner's driver has no descriptors */
	OH__GPU_NO_HANDLE, /* it gave no handle of CUDA IPC, see code */
	OH__GPU_SAME_PROCESS, /* CUDA IPC is for others */
	OH__GPU_NOT_MAPPED, /* the driver refused a descriptor, see code */
	OH__GPU_NOT_OPENED, /* it refused a handle of CUDA IPC, see code */
	OH__GPU_MAPPED, /* a descriptor */
	OH__GPU_OPENED, /* by CUDA IPC */
};

/* What one rank found out about another. */
struct oh__gpu_way {
	uint32_t tried; /* enum oh__gpu_try: this rank at the other's memory */
	int32_t code; /* the driver's, of what it refused */
	/* words of OH__CHECK_WORDS, of the other's stores into this rank's
	 * memory, that came out wrong; all if it could not store */
	uint32_t wrong_stored;
};

/* What one rank found out about all; exchanged as it is. */
struct oh__gpu_row {
	struct oh__gpu_way way[OH_MAX_RANKS];
};

/* May rank from store straight into rank to's memory? */
bool oh__gpu_passes(const struct oh__gpu_row *rows, int from, int to);

/* Why, or why not, in words. */
void oh__gpu_say_way(const struct oh__gpu_row *rows, int from, int to,
		     char *text, size_t room);

#endif
