/* SPDX-License-Identifier: MIT */
/*
 * CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, resolved as the CUDA runtime does
 * it: indices or UUIDs (GPU-, MIG-GPU-, MIG-; abbreviated to any prefix that is
 * unique), never both kinds in one list; the first entry that names nothing
 * ends the list; -1 and an empty value hide everything; a device named twice
 * leaves none. Without CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA counts the fastest
 * first, which is bus order only where all GPUs are of one model.
 */
#ifndef OH_MACHINE_VISIBLE_H
#define OH_MACHINE_VISIBLE_H

#include "machine/machine.h"

struct oh__visible {
	int count;
	int gpu[OH__GPUS]; /* index in machine.gpu of each CUDA ordinal */
	/* models are mixed and the order is CUDA's own guess of the fastest */
	bool order_uncertain;
	bool uuids; /* the list names UUIDs */
	/* what ended the list early, or hid a device; "" if nothing did */
	char remark[OH__TEXT_BYTES];
};

/* devices and order may be NULL (not set). Never fails: what the runtime does
 * with nonsense is its answer. A UUID that the machine does not know ends the
 * list, with a remark. */
void oh__visible_devices(const struct oh__machine *machine, const char *devices,
			 const char *order, struct oh__visible *visible);

#endif
