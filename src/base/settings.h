/* SPDX-License-Identifier: MIT */
/*
 * Settings from the environment, one row each in settings.def. A value that is
 * malformed or out of range is OH_ERR_SETTING with the variable's name and
 * what it takes; it is never ignored. An empty value counts as unset.
 */
#ifndef OH_BASE_SETTINGS_H
#define OH_BASE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "onehop/onehop.h"

enum oh__setting {
#define OH_SETTING(id, ...) OH__SETTING_##id,
#include "base/settings.def"
#undef OH_SETTING
	OH__SETTING_COUNT,
};

enum oh__setting_kind {
	OH__SETTING_KIND_NUMBER,
	OH__SETTING_KIND_BYTES,
	OH__SETTING_KIND_CHOICE,
	OH__SETTING_KIND_PAIRS,
	OH__SETTING_KIND_TABLE,
	OH__SETTING_KIND_TEXT,
};

struct oh__setting_row {
	const char *name; /* "ONEHOP_..." */
	enum oh__setting_kind kind;
	const char *standard; /* the default as text, "" for none */
	uint64_t low, high; /* numbers and bytes */
	const char *choices; /* "a|b|c" */
	const char *help;
};

const struct oh__setting_row *oh__setting_row(enum oh__setting setting);

/* The variable's text, NULL if it is unset or empty. */
const char *oh__setting_text(enum oh__setting setting);

/* The value in use: the environment's, else the default. */
enum oh_status oh__setting_value(enum oh__setting setting, uint64_t *value);

/* As oh__setting_value without a record of what is wrong: false then. */
bool oh__setting_peek(enum oh__setting setting, uint64_t *value);

/* Of a setting of pairs: as oh__parse_pairs, none if it is unset. */
enum oh_status oh__setting_pairs(enum oh__setting setting,
				 uint32_t pairs[OH_MAX_RANKS]);

/* What its values are: "1 to 16", "off|on". */
void oh__setting_takes(const struct oh__setting_row *row, char *text,
		       size_t room);

/* Reads all settings once, so that a malformed one fails early. */
enum oh_status oh__settings_check(void);

/* Warns of variables that begin as settings do and are none, once a process. */
void oh__settings_warn_unknown(void);

/*
 * Decimal digits with an optional K, M or G (binary); false if text is
 * anything else or too large.
 */
bool oh__parse_bytes(const char *text, uint64_t *value);

/* Decimal digits and nothing else. */
bool oh__parse_number(const char *text, uint64_t *value);

/*
 * "0-1,2-3", two ranks each: bit i of pairs[k] and bit k of pairs[i] are set
 * for each, the rest is zero. "all": all bits are set, a rank's own too.
 */
bool oh__parse_pairs(const char *text, uint32_t pairs[OH_MAX_RANKS]);

/* How calls on GPU memory go, by their size. */
#define OH__SETTING_ROWS 12

enum oh__setting_way {
	OH__SETTING_FLAGS, /* one-shot whose data carries flags */
	OH__SETTING_ONE_SHOT,
	OH__SETTING_TWO_SHOT,
	OH__SETTING_CHUNKS, /* one-shot of two ranks, two-shot of more */
};

struct oh__setting_table {
	uint32_t count;
	struct oh__setting_table_row {
		uint64_t last_bytes; /* in whole packs of 16, growing */
		enum oh__setting_way way;
		uint32_t blocks; /* 0: as many as multiprocessors */
		uint32_t threads; /* in whole warps; of chunks in pairs of them
				   */
		uint32_t pause; /* cycles */
	} row[OH__SETTING_ROWS];
};

/* "512:flags:1x32:200,8M:chunks:64x512:0": last_bytes, way, blocks x threads,
 * pause. */
bool oh__parse_table(const char *text, struct oh__setting_table *table);

/* Of a setting that is one; no rows if it is unset. */
enum oh_status oh__setting_table(enum oh__setting setting,
				 struct oh__setting_table *table);

#endif
