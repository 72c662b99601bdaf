/* SPDX-License-Identifier: MIT */
#include "collective/plan.h"

#include <string.h>

#include "mailbox/segment.h"

/*
 * Longer messages run in rounds, so that what is staged is read while it is
 * still in a cache; see docs/measurements.
 */
#define ROUND_BYTES (1u << 20)

const char *oh__algorithm_name(enum oh__algorithm algorithm)
{
	static const char *const names[OH__ALGORITHM_COUNT] = {
		[OH__ONE_SHOT] = "one-shot",
		[OH__TWO_SHOT] = "two-shot",
	};

	return (unsigned)algorithm < OH__ALGORITHM_COUNT ? names[algorithm]
							 : "unknown";
}

bool oh__candidate_allowed(const struct oh__table_options *options,
			   enum oh__algorithm algorithm, enum oh__stores stores)
{
	if (options->algorithm && options->algorithm != algorithm + 1u)
		return false;
	if (options->stores)
		return options->stores == stores + 1u;
	return oh__stores_usable(stores);
}

const char *oh__candidate_refused(const struct oh__table_options *options,
				  uint64_t probe_bytes,
				  enum oh__algorithm algorithm,
				  enum oh__stores stores)
{
	if (!oh__stores_usable(stores))
		return "this processor has no such stores";
	if (!oh__candidate_allowed(options, algorithm, stores))
		return "not allowed by ONEHOP_ALGORITHM or ONEHOP_STORES";
	if (!probe_bytes)
		return "not tried at this size: a call is one hand-shake";
	if (!oh__candidate_allowed(options, algorithm, OH__STORES_STRING))
		return NULL;
	if (stores == OH__STORES_NON_TEMPORAL)
		return "not tried beside string stores: they gain nothing, and "
		       "cost two to three times as much where cores are near";
	if (stores == OH__STORES_VECTOR && probe_bytes >= OH__ROBUST_FIRST)
		return "not tried at this size: if the cores are moved apart "
		       "later it costs two to four times as much";
	return NULL;
}

void oh__table_add(struct oh__table *table,
		   const struct oh__table_options *options,
		   enum oh_collective collective, const struct oh__row *row)
{
	uint32_t *count = &table->row_count[collective];
	struct oh__row *added = &table->rows[collective][*count];
	uint64_t round = options->slot_bytes;

	if (collective == OH_REDUCE_SCATTER)
		round = round / (uint64_t)options->ranks / OH__LINE * OH__LINE;
	*added = *row;
	added->round_bytes = round < ROUND_BYTES ? round : ROUND_BYTES;
	++*count;
}

static void add_standard(struct oh__table *table,
			 const struct oh__table_options *options,
			 enum oh_collective collective, uint64_t last_bytes,
			 enum oh__algorithm algorithm, enum oh__stores stores)
{
	struct oh__row row = {.last_bytes = last_bytes,
			      .algorithm = algorithm,
			      .stores = stores};

	if (options->algorithm && collective == OH_ALL_REDUCE)
		row.algorithm = (uint32_t)options->algorithm - 1;
	if (options->stores)
		row.stores = (uint32_t)options->stores - 1;
	oh__table_add(table, options, collective, &row);
}

void oh__table_begin(struct oh__table *table,
		     const struct oh__table_options *options)
{
	memset(table, 0, sizeof(*table));
	for (int c = 0; c < OH_COLLECTIVE_COUNT; c++)
		add_standard(table, options, (enum oh_collective)c,
			     OH__SMALL_LAST, OH__ONE_SHOT, OH__STORES_VECTOR);
}

/*
 * One-shot reads ranks - 1 messages, two-shot two, with one hand-shake more.
 * In a crowd a hand-shake costs a switch between processes, some 5 us.
 */
static uint64_t one_shot_last(const struct oh__table_options *options)
{
	if (options->crowded)
		return 65536;
	return options->ranks <= 2 ? 8192 : 2048;
}

void oh__table_standard(struct oh__table *table,
			const struct oh__table_options *options)
{
	oh__table_begin(table, options);
	add_standard(table, options, OH_ALL_REDUCE, one_shot_last(options),
		     OH__ONE_SHOT, OH__STORES_STRING);
	add_standard(table, options, OH_ALL_REDUCE, UINT64_MAX, OH__TWO_SHOT,
		     OH__STORES_STRING);
	for (int c = OH_REDUCE_SCATTER; c <= OH_BROADCAST; c++)
		add_standard(table, options, (enum oh_collective)c, UINT64_MAX,
			     OH__ONE_SHOT, OH__STORES_STRING);
}

const struct oh__row *oh__table_find(const struct oh__table *table,
				     enum oh_collective collective,
				     uint64_t bytes)
{
	const struct oh__row *row = table->rows[collective];

	while (bytes > row->last_bytes)
		row++;
	return row;
}

static bool row_valid(const struct oh__row *row, enum oh_collective collective,
		      int ranks, size_t slot_bytes)
{
	uint64_t limit = slot_bytes;

	if (collective == OH_REDUCE_SCATTER)
		limit /= (uint64_t)ranks;
	if (collective != OH_ALL_REDUCE && row->algorithm != OH__ONE_SHOT)
		return false;
	/* no element is cut by a round: 8 bytes is the longest */
	return row->algorithm < OH__ALGORITHM_COUNT &&
	       row->stores < OH__STORES_COUNT && row->round_bytes >= 8 &&
	       row->round_bytes % 8 == 0 && row->round_bytes <= limit;
}

bool oh__table_valid(const struct oh__table *table, int ranks,
		     size_t slot_bytes)
{
	for (int c = 0; c < OH_COLLECTIVE_COUNT; c++) {
		uint32_t count = table->row_count[c];

		if (!count || count > OH__ROWS ||
		    table->rows[c][count - 1].last_bytes != UINT64_MAX)
			return false;
		for (uint32_t i = 0; i < count; i++)
			if (!row_valid(&table->rows[c][i],
				       (enum oh_collective)c, ranks,
				       slot_bytes))
				return false;
	}
	return true;
}
