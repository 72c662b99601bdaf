/* SPDX-License-Identifier: MIT */
/*
 * What host and device share: the arguments of a kernel and the words by which
 * they tell each other of a failure. Plain C, no vendor types.
 */
#ifndef OH_KERNELS_ARGUMENTS_H
#define OH_KERNELS_ARGUMENTS_H

#include <stdint.h>

#define OH__KERNEL_RANKS 16
#define OH__PACK_BYTES 16

/* In a warp's epoch word: the communicator has failed, kernels leave at once.
 * The host sets it. */
#define OH__EPOCH_DEAD 0x80000000u

/* In host memory that the device has mapped. */
struct oh__kernel_watch {
	/* a kernel's: 1 + its own rank, when it has waited long enough */
	uint32_t late;
};

struct oh__kernel_arguments {
	const void *send;
	void *recv;
	uint64_t bytes; /* of this round's vector */
	uint32_t packs; /* of 16 bytes, the last one may be cut */
	/* packs of each rank's part in a two-shot; from one source's place to
	 * the next's in a mailbox */
	uint32_t part, stride;
	uint32_t rank, ranks;
	uint32_t average;
	/* a thread that has looked so often in vain leaves */
	uint32_t looks;
	/* one word a warp of the grid, in device memory */
	uint32_t *epoch;
	struct oh__kernel_watch *watch;
	/* this rank's mailbox, and every rank's as this rank sees it */
	void *own;
	void *mailbox[OH__KERNEL_RANKS];
};

#endif
