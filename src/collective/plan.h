/* SPDX-License-Identifier: MIT */
/*
 * Which way a call goes. One table a communicator, the same on all ranks: the
 * plan is a pure function of collective, bytes, element type, operation and
 * the number of ranks, never of a rank's own buffers. Rows are looked up from
 * the first; a row serves up to its last_bytes.
 */
#ifndef OH_COLLECTIVE_PLAN_H
#define OH_COLLECTIVE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "onehop/onehop.h"

enum oh__algorithm {
	OH__PACKETS_ONE_SHOT, /* one-shot, the flag in every line */
	OH__ONE_SHOT, /* everyone reads everything */
	OH__TWO_SHOT, /* a slice each, then the slices are gathered */
	OH__ALGORITHM_COUNT,
};

struct oh__row {
	uint64_t last_bytes; /* of the message, inclusive */
	uint64_t round_bytes; /* a longer message runs in rounds of this */
	uint32_t collective;
	uint32_t algorithm;
	uint32_t non_temporal;
	uint32_t measured; /* chosen by measurement, or by default */
};

#define OH__ROWS 16

struct oh__table {
	uint32_t row_count;
	uint32_t flag_ns; /* flag exchange, both ways; 0: not measured */
	struct oh__row rows[OH__ROWS];
	char evidence[192];
};

struct oh__table_options {
	int ranks;
	size_t slot_bytes;
	uint64_t
		algorithm; /* the setting's value: 0 auto, 1 one-, 2 two-shot */
	uint64_t stores; /* 0 auto, 1 cached, 2 non-temporal */
};

/* Where the measured values come from: docs/measurements. */
struct oh__choice {
	uint64_t packets_last; /* last size in packets, 0 for none */
	uint64_t one_shot_last; /* last size in one shot */
	uint64_t non_temporal_first; /* from here on; UINT64_MAX for never */
	uint64_t round_bytes;
	bool measured;
};

/* What serves this many ranks when nothing has been measured. */
struct oh__choice oh__choice_standard(int ranks);

/* The table of a choice, within the settings. */
void oh__table_fill(struct oh__table *table,
		    const struct oh__table_options *options,
		    const struct oh__choice *choice);

/* Is this a table that could be run? It came from another rank. */
bool oh__table_valid(const struct oh__table *table, int ranks,
		     size_t slot_bytes);

/* The row of a call; never NULL in a valid table. */
const struct oh__row *oh__table_find(const struct oh__table *table,
				     enum oh_collective collective,
				     uint64_t bytes);

const char *oh__algorithm_name(enum oh__algorithm algorithm);

#endif
