/* SPDX-License-Identifier: MIT */
/*
 * The arithmetic of GPU mailboxes: for every number of ranks, placement and
 * budget the slots lie inside the mailbox, meet nowhere and leave nothing
 * unused but for alignment, hold what a call sends, and every size finds its
 * class. And of placement: which pairs go by way of a peer's memory, and what
 * is said of those that do not.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/layout.h"
#include "gpu/placement.h"
#include "tap.h"
#include "vendor/cuda.h"

struct span {
	uint64_t begin, end;
};

static int by_begin(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* All slots of all classes and the check area, in order. */
static int list_spans(const struct oh__gpu_layout *layout, struct span *spans)
{
	int count = 1;

	spans[0] = (struct span){0, OH__CHECK_AREA_BYTES};
	for (int c = 0; c < layout->classes; c++)
		for (int r = 0; r < layout->ranks; r++) {
			uint64_t slot = oh__gpu_slot(&layout->class[c], r);

			spans[count++] = (struct span){
				slot, slot + layout->class[c].slot_bytes};
		}
	qsort(spans, (size_t)count, sizeof(*spans), by_begin);
	return count;
}

static bool are_apart(const struct oh__gpu_layout *layout)
{
	struct span spans[1 + OH__GPU_CLASSES * OH__KERNEL_RANKS];
	int count = list_spans(layout, spans);

	for (int i = 1; i < count; i++)
		if (spans[i].begin < spans[i - 1].end)
			return false;
	return spans[count - 1].end <= layout->bytes;
}

/* Nothing lies unused but up to the next line of 4096 bytes, behind a class. */
static bool are_close(const struct oh__gpu_layout *layout)
{
	struct span spans[1 + OH__GPU_CLASSES * OH__KERNEL_RANKS];
	int count = list_spans(layout, spans);

	for (int i = 1; i < count; i++) {
		bool within = (i - 1) % layout->ranks;
		uint64_t gap = spans[i].begin - spans[i - 1].end;

		if (within ? gap > 0 : gap >= 4096)
			return false;
	}
	return layout->bytes - spans[count - 1].end < 4096;
}

static bool is_two_shot(const struct oh__gpu_class *class)
{
	return class->algorithm == OH__GPU_TWO_SHOT ||
	       class->algorithm == OH__GPU_TWO_STAGED;
}

/* Bytes that a rank sends to another in a call of that many, with flags. */
static uint64_t sent(const struct oh__gpu_layout *layout,
		     const struct oh__gpu_class *class, uint64_t bytes)
{
	uint64_t packs = (bytes + OH__PACK_BYTES - 1) / OH__PACK_BYTES;
	uint64_t ranks = (uint64_t)layout->ranks;

	if (is_two_shot(class))
		packs = (packs + ranks - 1) / ranks;
	return packs * OH__PACK_BYTES *
	       (class->algorithm == OH__GPU_FLAGGED ? 2 : 1);
}

/* A slot is its halves, and the flags of each where they stand apart. */
static bool adds_up(const struct oh__gpu_class *class)
{
	uint64_t halves = is_two_shot(class) ? 4 : 2;
	uint64_t data = halves * class->half_bytes;
	uint64_t chunk = class->threads / 2 * OH__PACK_BYTES;

	if (class->algorithm == OH__GPU_FLAGGED)
		return class->slot_bytes == data && !class->flags_offset &&
		       class->flags_bytes == class->half_bytes;
	if (class->algorithm != OH__GPU_STAGED &&
	    class->algorithm != OH__GPU_TWO_STAGED)
		return class->slot_bytes == data && !class->flags_offset &&
		       !class->flags_bytes;
	return class->flags_offset == data &&
	       class->slot_bytes == data + halves * class->flags_bytes &&
	       class->flags_bytes % OH__PACK_BYTES == 0 &&
	       class->flags_bytes / OH__PACK_BYTES * chunk >=
		       class->half_bytes &&
	       (class->flags_bytes / OH__PACK_BYTES - 1) * chunk <
		       class->half_bytes;
}

static bool holds_calls(const struct oh__gpu_layout *layout)
{
	uint64_t first = 1;

	for (int c = 0; c < layout->classes; c++) {
		const struct oh__gpu_class *class = &layout->class[c];

		if (class->last_bytes < first ||
		    class->last_bytes % OH__PACK_BYTES ||
		    class->half_bytes % OH__PACK_BYTES ||
		    sent(layout, class, class->last_bytes) >
			    class->half_bytes ||
		    !adds_up(class) || class->threads % 32 || !class->threads ||
		    oh__gpu_layout_find(layout, first) != class ||
		    oh__gpu_layout_find(layout, class->last_bytes) != class)
			return false;
		first = class->last_bytes + 1;
	}
	/* the last one runs all that is longer in rounds */
	return oh__gpu_layout_find(layout, UINT64_MAX) ==
	       &layout->class[layout->classes - 1];
}

static bool have_own_epochs(const struct oh__gpu_layout *layout)
{
	for (int c = 0; c < layout->classes; c++)
		if (layout->class[c].first_epoch !=
		    (uint32_t)c * OH__GPU_CLASS_EPOCHS)
			return false;
	return layout->epochs ==
	       (uint32_t)layout->classes * OH__GPU_CLASS_EPOCHS;
}

static void test_layouts(void)
{
	static const uint64_t budgets[] = {OH__GPU_LEAST_BYTES, 3000000,
					   8u << 20, 64u << 20, 1u << 30};
	struct oh__gpu_layout layout;
	int tried = 0, good = 0;
	uint64_t most = 0;

	for (int ranks = 2; ranks <= OH__KERNEL_RANKS; ranks++)
		for (int pinned = 0; pinned < 2; pinned++)
			for (size_t b = 0; b < 5; b++, tried++) {
				if (!oh__gpu_layout_make(&layout, ranks, pinned,
							 NULL, budgets[b]) ||
				    layout.bytes > budgets[b] ||
				    !are_apart(&layout) ||
				    !are_close(&layout) ||
				    !holds_calls(&layout) ||
				    !have_own_epochs(&layout))
					tap_note(
						"%d ranks, pinned %d, budget "
						"%llu",
						ranks, pinned,
						(unsigned long long)budgets[b]);
				else
					good++;
				if (budgets[b] == 64u << 20 &&
				    layout.bytes > most)
					most = layout.bytes;
			}
	tap_ok(good == tried, "%d of %d layouts are sound", good, tried);
	tap_note("at most %llu bytes of the default budget",
		 (unsigned long long)most);
	tap_ok(!oh__gpu_layout_make(&layout, 16, false, NULL, 70000),
	       "a budget that holds nothing is refused");
}

static struct oh__setting_table random_table(void)
{
	struct oh__setting_table table = {
		.count = 1 + (uint32_t)rand() % OH__SETTING_ROWS};
	uint64_t last = 0;

	for (uint32_t i = 0; i < table.count; i++) {
		last += (uint64_t)(1 + rand() % 1000) * OH__PACK_BYTES
			<< rand() % 12;
		table.row[i] = (struct oh__setting_table_row){
			.last_bytes = last,
			.way = (enum oh__setting_way)(rand() % 4),
			.blocks = (uint32_t)rand() % 1025,
			.threads = 64 * (1 + (uint32_t)rand() % 8),
		};
	}
	return table;
}

/* As somebody may set them. */
static void test_given(void)
{
	int good = 0, refused = 0;

	for (int i = 0; i < 3000; i++) {
		struct oh__setting_table table = random_table();
		int ranks = 2 + rand() % (OH__KERNEL_RANKS - 1);
		uint64_t budget = OH__GPU_LEAST_BYTES << rand() % 11;
		struct oh__gpu_layout layout;

		if (!oh__gpu_layout_make(&layout, ranks, i % 2, &table, budget))
			refused++;
		else
			good += layout.bytes <= budget && are_apart(&layout) &&
				are_close(&layout) && holds_calls(&layout) &&
				have_own_epochs(&layout);
	}
	tap_ok(good + refused == 3000 && good > 2000,
	       "%d layouts of tables that are given are sound, %d do not fit",
	       good, refused);
}

/* What is wrong must be seen: a slot moved by a pack, or by a line. */
static void test_control(void)
{
	struct oh__gpu_layout layout;

	oh__gpu_layout_make(&layout, 4, false, NULL, 64u << 20);
	layout.class[1].offset -= OH__PACK_BYTES;
	tap_ok(!are_apart(&layout), "slots that meet are noticed");
	oh__gpu_layout_make(&layout, 4, false, NULL, 64u << 20);
	layout.class[layout.classes - 1].offset += 4096;
	tap_ok(!are_close(&layout), "room that is not used is noticed");
	oh__gpu_layout_make(&layout, 4, false, NULL, 64u << 20);
	layout.class[2].half_bytes -= OH__PACK_BYTES;
	tap_ok(!holds_calls(&layout), "a slot too short is noticed");
}

/* Ranks whose layouts differ in a place or a size have different hashes. */
static void test_hash(void)
{
	const uint64_t budget = 64u << 20;
	struct oh__setting_table table = {
		1, {{1 << 20, OH__SETTING_ONE_SHOT, 16, 64, 0}}};
	struct oh__setting_table other = table;
	uint64_t plain = oh__gpu_layout_hash(4, NULL, budget);
	uint64_t given = oh__gpu_layout_hash(4, &table, budget);

	other.row[0].last_bytes /= 2;
	tap_ok(plain == oh__gpu_layout_hash(4, NULL, budget) &&
		       given == oh__gpu_layout_hash(4, &table, budget),
	       "a layout has one hash");
	tap_ok(plain != given &&
		       plain != oh__gpu_layout_hash(5, NULL, budget) &&
		       plain != oh__gpu_layout_hash(4, NULL, 1 << 20) &&
		       given != oh__gpu_layout_hash(4, &other, budget),
	       "other rows, ranks and budgets have others");
	other = table;
	other.row[0].way = OH__SETTING_TWO_SHOT;
	tap_ok(given != oh__gpu_layout_hash(4, &other, budget),
	       "and so has another kernel");
}

static void expect_way(const struct oh__gpu_row *rows, int from, int to,
		       bool passes, const char *word)
{
	char text[256];

	oh__gpu_say_way(rows, from, to, text, sizeof(text));
	tap_ok(oh__gpu_passes(rows, from, to) == passes && strstr(text, word),
	       "%d to %d: %s", from, to, text);
}

static void test_ways(void)
{
	struct oh__gpu_row rows[3];

	memset(rows, 0, sizeof(rows));
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 3; k++)
			rows[i].way[k].tried =
				i == k ? OH__GPU_SELF : OH__GPU_MAPPED;
	/* 1 read what 0 stored wrong; 2 could not map 0; 2 forbids 1 */
	rows[1].way[0].wrong_stored = 7;
	rows[2].way[0].tried = OH__GPU_NOT_MAPPED;
	rows[2].way[0].code = 217;
	rows[2].way[1].tried = OH__GPU_FORBIDDEN;
	expect_way(rows, 0, 0, true, "own");
	expect_way(rows, 0, 1, false, "read 7 wrong");
	expect_way(rows, 1, 0, true, "arrived");
	expect_way(rows, 0, 2, true, "arrived");
	expect_way(rows, 2, 0, false, "217");
	expect_way(rows, 2, 1, false, "FORBID_PEER");
	expect_way(rows, 1, 2, false, "FORBID_PEER");
}

/* Where the driver, or a setting, leaves no way: what was refused, with which
 * code, and what would change it, in the room that a caller has. */
static void test_refusals(void)
{
	static const struct {
		enum oh__gpu_try tried;
		int32_t code;
		bool passes;
		const char *words, *remedy;
	} cases[] = {
		{OH__GPU_UNTRIED, 0, false, "not tried", ""},
		{OH__GPU_NOT_SHARED, 0, false, "ONEHOP_DEVICE_SHARE is none",
		 "unset"},
		{OH__GPU_NOT_EXPORTED, 0, false,
		 "the other's driver hands out no memory of its GPU as a "
		 "descriptor",
		 "unset ONEHOP_DEVICE_SHARE"},
		{OH__GPU_NO_HANDLE, -2147483647, false,
		 "cuIpcGetMemHandle was refused (CUDA error -2147483647)",
		 "ONEHOP_DEVICE_SHARE=descriptor"},
		{OH__GPU_SAME_PROCESS, 0, false,
		 "both are ranks of one process", "make them two"},
		{OH__GPU_NOT_MAPPED, 101, false,
		 "the driver refused to map the other's memory (CUDA error "
		 "101)",
		 "-p2p w"},
		{OH__GPU_NOT_OPENED, CUDA_ERROR_ALREADY_MAPPED, false,
		 "the driver refused cuIpcOpenMemHandle of the other's memory "
		 "(CUDA error 208)",
		 "destroy it"},
		{OH__GPU_NOT_OPENED, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, false,
		 "CUDA error 217", "-p2p w"},
		{OH__GPU_NOT_OPENED, CUDA_ERROR_INVALID_VALUE, false,
		 "CUDA error 1)", "PID namespace"},
		{OH__GPU_MAPPED, 0, true, "stores were tried", "arrived"},
		{OH__GPU_OPENED, 0, true, "stores through CUDA IPC were tried",
		 "arrived"},
		{(enum oh__gpu_try)99, 0, false, "not tried", ""},
	};
	struct oh__gpu_row rows[OH_MAX_RANKS];
	struct oh_route_peer peer;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct oh__gpu_way *way = &rows[14].way[15];

		memset(rows, 0, sizeof(rows));
		rows[15].way[14].tried = OH__GPU_OPENED;
		way->tried = cases[i].tried;
		way->code = cases[i].code;
		oh__gpu_say_way(rows, 14, 15, peer.reason, sizeof(peer.reason));
		tap_ok(oh__gpu_passes(rows, 14, 15) == cases[i].passes &&
			       strlen(peer.reason) < sizeof(peer.reason) - 1 &&
			       strstr(peer.reason, cases[i].words) &&
			       strstr(peer.reason, cases[i].remedy),
		       "%s", peer.reason);
		rows[15].way[14].wrong_stored = 1;
		if (cases[i].passes)
			expect_way(rows, 14, 15, false, "rank 15 read 1 wrong");
	}
}

int main(void)
{
	oh_set_log(OH_LOG_OFF, NULL, NULL);
	test_layouts();
	test_given();
	test_control();
	test_hash();
	test_ways();
	test_refusals();
	return tap_done();
}
