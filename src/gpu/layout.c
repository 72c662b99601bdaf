/* SPDX-License-Identifier: MIT */
#include "gpu/layout.h"

#include <string.h>

/* Regions begin on lines that no other region's stores touch. */
#define ALIGN 4096

/* A row of a table: up to which size, how, with which grid. */
struct row {
	uint64_t last_bytes;
	enum oh__gpu_algorithm algorithm;
	uint32_t blocks, threads, pause;
};

#define KIB 1024ull
#define MIB (KIB * KIB)

/* Peers' memory. Two ranks: the fastest of a sweep on two H200, of which there
 * is no raw data. */
static const struct row peers_2[] = {
	{512, OH__GPU_ONE_SHOT, 1, 128, 600},
	{2 * KIB, OH__GPU_ONE_SHOT, 2, 64, 800},
	{8 * KIB, OH__GPU_ONE_SHOT, 16, 64, 700},
	{32 * KIB, OH__GPU_ONE_SHOT, 64, 32, 700},
	{64 * KIB, OH__GPU_ONE_SHOT, 64, 64, 0},
	{128 * KIB, OH__GPU_ONE_SHOT, 0, 64, 0},
	{256 * KIB, OH__GPU_ONE_SHOT, 0, 128, 0},
	{512 * KIB, OH__GPU_ONE_SHOT, 0, 256, 0},
	{MIB, OH__GPU_ONE_SHOT, 0, 512, 0},
	{8 * MIB, OH__GPU_TWO_SHOT, 0, 512, 0},
};

/* Three and four: with N ranks a one-shot receives N - 1 messages, a two-shot
 * two, with one arrival more. The fastest of a sweep on four H200. */
static const struct row peers_4[] = {
	{512, OH__GPU_ONE_SHOT, 1, 128, 700},
	{2 * KIB, OH__GPU_ONE_SHOT, 2, 32, 800},
	{8 * KIB, OH__GPU_ONE_SHOT, 16, 32, 700},
	{32 * KIB, OH__GPU_ONE_SHOT, 64, 32, 900},
	{64 * KIB, OH__GPU_ONE_SHOT, 64, 64, 0},
	{128 * KIB, OH__GPU_ONE_SHOT, 0, 64, 0},
	{256 * KIB, OH__GPU_TWO_SHOT, 0, 128, 0},
	{512 * KIB, OH__GPU_TWO_SHOT, 0, 256, 1000},
	{MIB, OH__GPU_TWO_SHOT, 128, 384, 0},
	{8 * MIB, OH__GPU_TWO_SHOT, 0, 384, 0},
};

/* More. The borders are those of prototypes on four H200: no machine with more
 * was there. 320 threads: of a kernel for eight ranks three such blocks find
 * room on a multiprocessor of an H200, so that all take part. */
static const struct row peers_many[] = {
	{KIB, OH__GPU_ONE_SHOT, 4, 32, 0},
	{8 * KIB, OH__GPU_ONE_SHOT, 16, 64, 0},
	{64 * KIB, OH__GPU_ONE_SHOT, 0, 32, 0},
	{256 * KIB, OH__GPU_TWO_SHOT, 0, 128, 0},
	{8 * MIB, OH__GPU_TWO_SHOT, 0, 320, 0},
};

/*
 * Host memory: every thread that looks costs reads over PCIe, so few blocks; a
 * first look that comes just when the peer's stores have arrived saves a round
 * trip. Cycles of an H200 behind PCIe 5, the fastest of a sweep for two ranks.
 */
static const struct row pinned_2[] = {
	{512, OH__GPU_FLAGGED, 1, 64, 300},
	{KIB, OH__GPU_FLAGGED, 2, 64, 200},
	{2 * KIB, OH__GPU_FLAGGED, 4, 64, 200},
	{4 * KIB, OH__GPU_ONE_SHOT, 4, 64, 400},
	{8 * KIB, OH__GPU_ONE_SHOT, 4, 128, 500},
	{16 * KIB, OH__GPU_ONE_SHOT, 16, 64, 600},
	{32 * KIB, OH__GPU_ONE_SHOT, 32, 64, 1000},
	{64 * KIB, OH__GPU_ONE_SHOT, 64, 64, 1600},
	{128 * KIB, OH__GPU_ONE_SHOT, 32, 256, 2500},
	{256 * KIB, OH__GPU_ONE_SHOT, 32, 512, 5000},
	{512 * KIB, OH__GPU_ONE_SHOT, 64, 512, 0},
	{8 * MIB, OH__GPU_STAGED, 64, 512, 0},
};

/* Three and four; the fastest of a sweep on four H200, but for the last row,
 * which was not measured yet. */
static const struct row pinned_4[] = {
	{512, OH__GPU_FLAGGED, 1, 32, 200},
	{2 * KIB, OH__GPU_FLAGGED, 4, 32, 600},
	{8 * KIB, OH__GPU_ONE_SHOT, 4, 128, 1200},
	{32 * KIB, OH__GPU_ONE_SHOT, 8, 256, 2400},
	{64 * KIB, OH__GPU_TWO_SHOT, 32, 128, 2000},
	{128 * KIB, OH__GPU_TWO_SHOT, 32, 256, 3000},
	{256 * KIB, OH__GPU_TWO_SHOT, 32, 256, 5000},
	{8 * MIB, OH__GPU_TWO_STAGED, 64, 512, 0},
};

static const struct row pinned_many[] = {
	{KIB, OH__GPU_FLAGGED, 1, 64, 400},
	{4 * KIB, OH__GPU_FLAGGED, 4, 64, 400},
	{8 * KIB, OH__GPU_ONE_SHOT, 4, 128, 400},
	{32 * KIB, OH__GPU_ONE_SHOT, 32, 256, 1000},
	{256 * KIB, OH__GPU_TWO_SHOT, 64, 256, 0},
	{8 * MIB, OH__GPU_TWO_STAGED, 64, 512, 0},
};

const char *oh__gpu_algorithm_name(enum oh__gpu_algorithm algorithm)
{
	static const char *const names[OH__GPU_ALGORITHMS] = {
		[OH__GPU_FLAGGED] = "one-shot with flags",
		[OH__GPU_ONE_SHOT] = "one-shot",
		[OH__GPU_TWO_SHOT] = "two-shot",
		[OH__GPU_STAGED] = "one-shot in chunks",
		[OH__GPU_TWO_STAGED] = "two-shot in chunks",
	};

	return (unsigned)algorithm < OH__GPU_ALGORITHMS ? names[algorithm]
							: "unknown";
}

#define TABLE(rows) (*count = sizeof(rows) / sizeof(*(rows)), rows)

static const struct row *own_table(int ranks, bool pinned, size_t *count)
{
	if (ranks == 2)
		return pinned ? TABLE(pinned_2) : TABLE(peers_2);
	if (ranks <= 4)
		return pinned ? TABLE(pinned_4) : TABLE(peers_4);
	return pinned ? TABLE(pinned_many) : TABLE(peers_many);
}

static struct row given_row(const struct oh__setting_table_row *given,
			    int ranks)
{
	const enum oh__gpu_algorithm ways[] = {
		[OH__SETTING_FLAGS] = OH__GPU_FLAGGED,
		[OH__SETTING_ONE_SHOT] = OH__GPU_ONE_SHOT,
		[OH__SETTING_TWO_SHOT] = OH__GPU_TWO_SHOT,
		[OH__SETTING_CHUNKS] =
			ranks == 2 ? OH__GPU_STAGED : OH__GPU_TWO_STAGED,
	};

	return (struct row){given->last_bytes, ways[given->way], given->blocks,
			    given->threads, given->pause};
}

static const char *source_of(int ranks, bool pinned)
{
	if (ranks == 2)
		return "a sweep on two H200";
	if (ranks > 4)
		return "prototypes on four H200";
	if (ranks == 3)
		return pinned ? "a sweep with four ranks on four H200, above "
				"256 KiB from nothing that was measured"
			      : "a sweep with four ranks on four H200";
	return pinned ? "a sweep on four H200, above 256 KiB from nothing that "
			"was measured"
		      : "a sweep on four H200";
}

/* Rows of a table, and where they are from; how many. */
static size_t take_table(int ranks, bool pinned,
			 const struct oh__setting_table *given,
			 struct row rows[OH__GPU_CLASSES], const char **source)
{
	size_t count;
	const struct row *own = own_table(ranks, pinned, &count);

	*source = source_of(ranks, pinned);
	if (!given || !given->count) {
		memcpy(rows, own, count * sizeof(*rows));
		return count;
	}
	for (uint32_t i = 0; i < given->count; i++)
		rows[i] = given_row(&given->row[i], ranks);
	*source = "ONEHOP_DEVICE_TABLE";
	return given->count;
}

static bool is_two_shot(enum oh__gpu_algorithm algorithm)
{
	return algorithm == OH__GPU_TWO_SHOT || algorithm == OH__GPU_TWO_STAGED;
}

static bool is_staged(enum oh__gpu_algorithm algorithm)
{
	return algorithm == OH__GPU_STAGED || algorithm == OH__GPU_TWO_STAGED;
}

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

/* What one rank sends to another in a call of the row's longest. */
static uint64_t half_of(const struct row *row, uint64_t ranks)
{
	uint64_t packs = row->last_bytes / OH__PACK_BYTES;

	if (is_two_shot(row->algorithm))
		packs = (packs + ranks - 1) / ranks;
	if (row->algorithm == OH__GPU_FLAGGED)
		packs *= 2;
	return packs * OH__PACK_BYTES;
}

/* The flags of a half: one for each chunk that half the threads can take. */
static uint64_t flags_of(const struct row *row, uint64_t half_bytes)
{
	if (row->algorithm == OH__GPU_FLAGGED)
		return half_bytes;
	if (!is_staged(row->algorithm))
		return 0;
	return round_up(half_bytes, row->threads / 2 * OH__PACK_BYTES) /
	       (row->threads / 2);
}

/* Appends the class of a row; false if it does not fit. */
static bool append(struct oh__gpu_layout *layout, const struct row *row,
		   uint64_t budget_bytes)
{
	uint64_t ranks = (uint64_t)layout->ranks;
	uint64_t half = round_up(half_of(row, ranks), OH__PACK_BYTES);
	uint64_t flags = flags_of(row, half);
	unsigned halves = is_two_shot(row->algorithm) ? 4 : 2;
	bool apart = is_staged(row->algorithm);
	uint64_t slot = halves * (half + (apart ? flags : 0));
	uint64_t end = layout->bytes + round_up(ranks * slot, ALIGN);

	if (end > budget_bytes)
		return false;
	layout->class[layout->classes++] = (struct oh__gpu_class){
		.last_bytes = row->last_bytes,
		.algorithm = row->algorithm,
		.blocks = row->blocks,
		.threads = row->threads,
		.pause = row->pause,
		.offset = layout->bytes,
		.half_bytes = half,
		.flags_offset = apart ? halves * half : 0,
		.flags_bytes = flags,
		.slot_bytes = slot,
		.first_epoch = layout->epochs,
	};
	layout->bytes = end;
	layout->epochs += OH__GPU_CLASS_EPOCHS;
	return true;
}

static uint64_t last_of(const struct oh__gpu_layout *layout)
{
	return layout->classes ? layout->class[layout->classes - 1].last_bytes
			       : 0;
}

bool oh__gpu_layout_make(struct oh__gpu_layout *layout, int ranks, bool pinned,
			 const struct oh__setting_table *given,
			 uint64_t budget_bytes)
{
	struct row rows[OH__GPU_CLASSES];
	size_t count;

	memset(layout, 0, sizeof(*layout));
	count = take_table(ranks, pinned, given, rows, &layout->source);
	layout->ranks = ranks;
	layout->bytes = round_up(OH__CHECK_AREA_BYTES, ALIGN);
	/* what does not fit is halved, and is the last then */
	for (size_t i = 0; i < count; i++) {
		struct row row = rows[i];

		while (row.last_bytes > last_of(layout) &&
		       !append(layout, &row, budget_bytes))
			row.last_bytes = row.last_bytes / 2 / KIB * KIB;
		if (row.last_bytes < rows[i].last_bytes)
			break;
	}
	return layout->classes > 0;
}

/* FNV-1a of what a writer and a reader must have alike. */
static uint64_t add_layout(uint64_t hash, const struct oh__gpu_layout *layout)
{
	for (int i = 0; i < layout->classes; i++) {
		const struct oh__gpu_class *class = &layout->class[i];
		const uint64_t values[] = {
			class->last_bytes,  class->algorithm,
			class->threads,	    class->offset,
			class->half_bytes,  class->flags_offset,
			class->flags_bytes, class->slot_bytes};

		for (size_t k = 0; k < sizeof(values) / sizeof(*values); k++)
			hash = (hash ^ values[k]) * 0x100000001b3u;
	}
	return hash;
}

uint64_t oh__gpu_layout_hash(int ranks, const struct oh__setting_table *given,
			     uint64_t budget_bytes)
{
	uint64_t hash = 0xcbf29ce484222325u;
	struct oh__gpu_layout layout;

	for (int pinned = 0; pinned < 2; pinned++)
		if (ranks > 1 && oh__gpu_layout_make(&layout, ranks, pinned,
						     given, budget_bytes))
			hash = add_layout(hash, &layout);
	return hash;
}

const struct oh__gpu_class *
oh__gpu_layout_find(const struct oh__gpu_layout *layout, uint64_t bytes)
{
	const struct oh__gpu_class *class = layout->class;
	const struct oh__gpu_class *last = class + layout->classes - 1;

	while (class < last && bytes > class->last_bytes)
		class ++;
	return class;
}
