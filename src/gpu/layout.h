/* SPDX-License-Identifier: MIT */
/*
 * Where everything lies in a GPU rank's mailbox, and which kernel serves which
 * size: pure arithmetic, the same on all ranks, as a writer computes places in
 * memory of the reader.
 *
 * A mailbox begins with the check area (src/kernels). Then each class of sizes
 * has a region of its own, with a slot for every rank; a slot has two halves,
 * and for a two-shot two more, for the results. Classes have different grids,
 * and a grid has epochs of its own (src/kernels), so classes share no memory
 * and no epochs. A rank may launch fewer threads than a class asks for, always
 * the same number: what it writes, and where, does not depend on it.
 */
#ifndef OH_GPU_LAYOUT_H
#define OH_GPU_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/settings.h"
#include "kernels/arguments.h"

enum oh__gpu_algorithm {
	OH__GPU_FLAGGED, /* one-shot whose data carries flags */
	OH__GPU_ONE_SHOT, /* everyone sends everything to everyone */
	OH__GPU_TWO_SHOT, /* a part each, then the sums are sent to everyone */
	OH__GPU_STAGED, /* one-shot of two ranks, a flag after each chunk */
	OH__GPU_TWO_STAGED, /* two-shot of more, the same */
	OH__GPU_ALGORITHMS,
};

#define OH__GPU_CLASSES OH__SETTING_ROWS

struct oh__gpu_class {
	uint64_t last_bytes; /* of a call; of the last class: of a round */
	enum oh__gpu_algorithm algorithm;
	uint32_t blocks; /* 0: as many as the GPU has multiprocessors */
	uint32_t threads;
	uint32_t pause; /* cycles from sending to the first look */
	uint64_t offset; /* of rank 0's slot, from the mailbox's begin */
	uint64_t half_bytes; /* what one rank sends to another in a call; of
				OH__GPU_FLAGGED with the flags among it */
	/* where a slot's flags begin, behind all halves, and those of one half:
	 * all of a slot for OH__GPU_FLAGGED; none without flags */
	uint64_t flags_offset, flags_bytes;
	uint64_t slot_bytes;
	uint32_t first_epoch; /* index of its first epoch word */
};

struct oh__gpu_layout {
	int ranks;
	int classes;
	struct oh__gpu_class class[OH__GPU_CLASSES];
	uint64_t bytes; /* of a mailbox */
	uint32_t epochs; /* words */
	const char *source; /* where the table is from */
};

/* One word a warp, for any grid that a class may have. */
#define OH__GPU_CLASS_EPOCHS 8192

/*
 * For 2 to OH__KERNEL_RANKS ranks. pinned: some mailbox lies in host memory.
 * budget_bytes: no mailbox is longer; the least that works is
 * OH__GPU_LEAST_BYTES. False if it is less. given: rows in place of the
 * library's own, NULL or without rows: none; false, too, if the first of them
 * finds no room.
 */
#define OH__GPU_LEAST_BYTES (1u << 20)
bool oh__gpu_layout_make(struct oh__gpu_layout *layout, int ranks, bool pinned,
			 const struct oh__setting_table *given,
			 uint64_t budget_bytes);

/* Of both layouts, with peers' memory and with host memory: ranks that have the
 * same one find each other's slots. Any number of ranks. */
uint64_t oh__gpu_layout_hash(int ranks, const struct oh__setting_table *given,
			     uint64_t budget_bytes);

/* The class of a call of that many bytes, 0 not among them. */
const struct oh__gpu_class *
oh__gpu_layout_find(const struct oh__gpu_layout *layout, uint64_t bytes);

/* Where rank's slot of the class begins in a mailbox. */
static inline uint64_t oh__gpu_slot(const struct oh__gpu_class *class, int rank)
{
	return class->offset + (uint64_t)rank * class->slot_bytes;
}

const char *oh__gpu_algorithm_name(enum oh__gpu_algorithm algorithm);

#endif
