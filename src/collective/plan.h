/* SPDX-License-Identifier: MIT */
/*
 * Which way a call goes. One table a communicator, the same on all ranks: the
 * plan is a pure function of collective and bytes, never of a rank's own
 * buffers. A collective's rows are looked up from the first; a row serves up
 * to its last_bytes, and the last row serves all the rest.
 */
#ifndef OH_COLLECTIVE_PLAN_H
#define OH_COLLECTIVE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/stores.h"
#include "onehop/onehop.h"

enum oh__algorithm {
	OH__ONE_SHOT, /* everyone reads everything */
	OH__TWO_SHOT, /* a slice each, then the slices are gathered */
	OH__ALGORITHM_COUNT,
};

/* An algorithm with a way to store: what can be chosen. */
#define OH__CANDIDATES (OH__ALGORITHM_COUNT * OH__STORES_COUNT)

static inline int oh__candidate(enum oh__algorithm algorithm,
				enum oh__stores stores)
{
	return (int)algorithm * OH__STORES_COUNT + (int)stores;
}

struct oh__row {
	uint64_t last_bytes; /* of the message, inclusive */
	uint64_t round_bytes; /* a longer message runs in rounds of this */
	uint32_t algorithm;
	uint32_t stores;
	/* all-reduce: what was measured at probe_bytes, in ns by
	 * oh__candidate, 0 for not measured; probe_bytes 0: a default */
	uint64_t probe_bytes;
	uint32_t probe_ns[OH__CANDIDATES];
};

#define OH__ROWS 8

struct oh__table {
	uint32_t row_count[OH_COLLECTIVE_COUNT];
	uint32_t handshake_ns; /* a 4-byte all-reduce; 0: not measured */
	uint32_t reserved;
	struct oh__row rows[OH_COLLECTIVE_COUNT][OH__ROWS];
};

/* What is allowed: the settings that all ranks agreed on. */
struct oh__table_options {
	int ranks;
	bool crowded; /* there are more ranks than processors */
	size_t slot_bytes;
	/* ONEHOP_ALGORITHM: 0 auto, else 1 + enum oh__algorithm */
	uint64_t algorithm;
	/* ONEHOP_STORES: 0 auto, else 1 + enum oh__stores */
	uint64_t stores;
};

/* May this candidate be chosen? */
bool oh__candidate_allowed(const struct oh__table_options *options,
			   enum oh__algorithm algorithm,
			   enum oh__stores stores);

/* Why it is not tried at a probe of that size, 0 for calls that have none;
 * NULL: it is. */
const char *oh__candidate_refused(const struct oh__table_options *options,
				  uint64_t probe_bytes,
				  enum oh__algorithm algorithm,
				  enum oh__stores stores);

/*
 * Up to here a call is one-shot with vector stores, without being measured: it
 * is one hand-shake, and the message fits in a few lines.
 */
#define OH__SMALL_LAST 512

/*
 * From here on vector stores are not tried where string stores are to be had: a
 * virtual machine's cores can be moved apart later, and then vector stores cost
 * two to four times as much, against a gain of a fifth while they are near. Nor
 * are non-temporal ones at any size: far they gain nothing, and near they cost
 * two to three times as much.
 */
#define OH__ROBUST_FIRST 16384

/* Starts a table: empty, or with the rows for small messages. */
void oh__table_begin(struct oh__table *table,
		     const struct oh__table_options *options);

/* The table for when nothing was measured. */
void oh__table_standard(struct oh__table *table,
			const struct oh__table_options *options);

/* Appends a row; the round is what the slot holds. */
void oh__table_add(struct oh__table *table,
		   const struct oh__table_options *options,
		   enum oh_collective collective, const struct oh__row *row);

/* Is this a table that could be run? It came from another rank. */
bool oh__table_valid(const struct oh__table *table, int ranks,
		     size_t slot_bytes);

/* The row of a call; the table is valid. */
const struct oh__row *oh__table_find(const struct oh__table *table,
				     enum oh_collective collective,
				     uint64_t bytes);

const char *oh__algorithm_name(enum oh__algorithm algorithm);

#endif
