/* SPDX-License-Identifier: MIT */
#include "collective/plan.h"

#include <string.h>

#include "cpu/engine.h"

const char *oh__algorithm_name(enum oh__algorithm algorithm)
{
	static const char *const names[OH__ALGORITHM_COUNT] = {
		[OH__PACKETS_ONE_SHOT] = "one-shot-packets",
		[OH__ONE_SHOT] = "one-shot",
		[OH__TWO_SHOT] = "two-shot",
	};

	return (unsigned)algorithm < OH__ALGORITHM_COUNT ? names[algorithm]
							 : "unknown";
}

struct oh__choice oh__choice_standard(int ranks)
{
	struct oh__choice choice = {
		.packets_last = 8 * OH__PACKET_BYTES,
		.one_shot_last = ranks <= 2 ? 4096 : 2048,
		.non_temporal_first = UINT64_MAX,
		.round_bytes = 512 << 10,
	};

	return choice;
}

static void add_row(struct oh__table *table, enum oh_collective collective,
		    enum oh__algorithm algorithm, uint64_t last_bytes,
		    uint64_t round_bytes, bool non_temporal, bool measured)
{
	if (table->row_count < OH__ROWS)
		table->rows[table->row_count++] = (struct oh__row){
			.last_bytes = last_bytes,
			.round_bytes = round_bytes,
			.collective = collective,
			.algorithm = algorithm,
			.non_temporal = non_temporal,
			.measured = measured,
		};
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The rows of one collective and algorithm up to last, split where stores go
 * past the cache. */
static void add_rows(struct oh__table *table, enum oh_collective collective,
		     enum oh__algorithm algorithm, uint64_t last,
		     uint64_t round_bytes, uint64_t nt_first, bool measured)
{
	uint64_t before = 0;

	for (uint32_t i = 0; i < table->row_count; i++)
		if (table->rows[i].collective == collective)
			before = table->rows[i].last_bytes + 1;
	if (before > last)
		return;
	if (nt_first > before)
		add_row(table, collective, algorithm,
			smaller(last, nt_first - 1), round_bytes, false,
			measured);
	if (nt_first <= last)
		add_row(table, collective, algorithm, last, round_bytes, true,
			measured);
}

void oh__table_fill(struct oh__table *table,
		    const struct oh__table_options *options,
		    const struct oh__choice *choice)
{
	uint64_t packets = choice->packets_last;
	uint64_t one_shot = choice->one_shot_last;
	uint64_t nt = choice->non_temporal_first;
	uint64_t slot = options->slot_bytes;
	uint64_t round = smaller(choice->round_bytes, slot);
	uint64_t part = slot / (uint64_t)options->ranks / OH__LINE * OH__LINE;

	if (options->algorithm == 1)
		one_shot = UINT64_MAX;
	if (options->algorithm == 2)
		packets = one_shot = 0;
	if (options->stores)
		nt = options->stores == 2 ? 0 : UINT64_MAX;
	table->row_count = 0;
	if (packets)
		add_row(table, OH_ALL_REDUCE, OH__PACKETS_ONE_SHOT, packets,
			packets, false, choice->measured);
	add_rows(table, OH_ALL_REDUCE, OH__ONE_SHOT, one_shot, round, nt,
		 choice->measured);
	add_rows(table, OH_ALL_REDUCE, OH__TWO_SHOT, UINT64_MAX, round, nt,
		 choice->measured);
	add_rows(table, OH_REDUCE_SCATTER, OH__ONE_SHOT, UINT64_MAX, part, nt,
		 false);
	add_rows(table, OH_ALL_GATHER, OH__ONE_SHOT, UINT64_MAX, round, nt,
		 false);
	add_rows(table, OH_BROADCAST, OH__ONE_SHOT, UINT64_MAX, round, nt,
		 false);
}

const struct oh__row *oh__table_find(const struct oh__table *table,
				     enum oh_collective collective,
				     uint64_t bytes)
{
	for (uint32_t i = 0; i < table->row_count; i++) {
		const struct oh__row *row = &table->rows[i];

		if (row->collective == (uint32_t)collective &&
		    bytes <= row->last_bytes)
			return row;
	}
	return NULL;
}

static bool row_valid(const struct oh__row *row, int ranks, size_t slot_bytes)
{
	uint64_t limit = slot_bytes;

	if (row->collective >= OH_COLLECTIVE_COUNT ||
	    row->algorithm >= OH__ALGORITHM_COUNT || row->round_bytes < 8 ||
	    row->round_bytes % 8)
		return false;
	if (row->collective == OH_REDUCE_SCATTER)
		limit /= (uint64_t)ranks;
	if (row->algorithm == OH__PACKETS_ONE_SHOT) {
		if (row->collective != OH_ALL_REDUCE)
			return false;
		limit = OH__CPU_PACKET_LIMIT;
	}
	if (row->algorithm == OH__TWO_SHOT && row->collective != OH_ALL_REDUCE)
		return false;
	return row->round_bytes <= limit;
}

bool oh__table_valid(const struct oh__table *table, int ranks,
		     size_t slot_bytes)
{
	if (table->row_count > OH__ROWS ||
	    !memchr(table->evidence, 0, sizeof(table->evidence)))
		return false;
	for (uint32_t i = 0; i < table->row_count; i++)
		if (!row_valid(&table->rows[i], ranks, slot_bytes))
			return false;
	for (int c = 0; c < OH_COLLECTIVE_COUNT; c++)
		if (!oh__table_find(table, (enum oh_collective)c, UINT64_MAX))
			return false;
	return true;
}
