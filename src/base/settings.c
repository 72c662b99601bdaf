/* SPDX-License-Identifier: MIT */
/* The table made from settings.def, and the parsers of its kinds. */
#include "base/settings.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

static const struct oh__setting_row rows[OH__SETTING_COUNT] = {
#define OH_SETTING(id, name, kind, standard, low, high, choices, help)         \
	[OH__SETTING_##id] = {                                                 \
		name, OH__SETTING_KIND_##kind, standard, low, high, choices,   \
		help},
#include "base/settings.def"
#undef OH_SETTING
};

const struct oh__setting_row *oh__setting_row(enum oh__setting setting)
{
	return &rows[setting];
}

const char *oh__setting_text(enum oh__setting setting)
{
	const char *text = getenv(rows[setting].name);

	return text && *text ? text : NULL;
}

bool oh__parse_number(const char *text, uint64_t *value)
{
	uint64_t sum = 0;

	if (!*text)
		return false;
	for (; *text; text++) {
		unsigned digit = (unsigned)(*text - '0');

		if (digit > 9 || sum > (UINT64_MAX - digit) / 10)
			return false;
		sum = sum * 10 + digit;
	}
	*value = sum;
	return true;
}

bool oh__parse_bytes(const char *text, uint64_t *value)
{
	size_t length = strlen(text);
	char digits[24];
	unsigned shift = 0;

	if (!length || length >= sizeof(digits))
		return false;
	memcpy(digits, text, length + 1);
	switch (digits[length - 1]) {
	case 'k':
	case 'K':
		shift = 10;
		break;
	case 'm':
	case 'M':
		shift = 20;
		break;
	case 'g':
	case 'G':
		shift = 30;
		break;
	}
	if (shift)
		digits[length - 1] = '\0';
	if (!oh__parse_number(digits, value) || *value > UINT64_MAX >> shift)
		return false;
	*value <<= shift;
	return true;
}

static bool parse_choice(const char *choices, const char *text, uint64_t *value)
{
	size_t length = strlen(text);
	uint64_t index = 0;

	for (const char *at = choices; at; index++) {
		const char *bar = strchr(at, '|');
		size_t size = bar ? (size_t)(bar - at) : strlen(at);

		if (size == length && !memcmp(at, text, length)) {
			*value = index;
			return true;
		}
		at = bar ? bar + 1 : NULL;
	}
	return false;
}

/* A rank at text, which it moves on; -1 if there is none. */
static int take_rank(const char **text)
{
	char *end;
	long rank;

	if (!isdigit((unsigned char)**text))
		return -1;
	rank = strtol(*text, &end, 10);
	*text = end;
	return rank < OH_MAX_RANKS ? (int)rank : -1;
}

static bool take_pair(const char **text, uint32_t pairs[OH_MAX_RANKS])
{
	int one = take_rank(text), other;

	if (one < 0 || *(*text)++ != '-')
		return false;
	other = take_rank(text);
	if (other < 0 || other == one)
		return false;
	pairs[one] |= 1u << other;
	pairs[other] |= 1u << one;
	return true;
}

bool oh__parse_pairs(const char *text, uint32_t pairs[OH_MAX_RANKS])
{
	bool all = !strcmp(text, "all"), good;

	memset(pairs, all ? 0xff : 0, OH_MAX_RANKS * sizeof(*pairs));
	if (all)
		return true;
	do
		good = take_pair(&text, pairs);
	while (good && *text++ == ',');
	return good && !text[-1];
}

/* What stands before one of ends, which is passed over, too; false if it is
 * nothing or too long. */
static bool take_field(const char **text, const char *ends, char field[12])
{
	size_t length = strcspn(*text, ends);

	if (!length || length >= 12)
		return false;
	memcpy(field, *text, length);
	field[length] = '\0';
	*text += length;
	if (**text)
		++*text;
	return true;
}

static bool take_number(const char **text, const char *ends, uint64_t most,
			uint32_t *number)
{
	char field[12];
	uint64_t value;

	if (!take_field(text, ends, field) ||
	    !oh__parse_number(field, &value) || value > most)
		return false;
	*number = (uint32_t)value;
	return true;
}

static bool take_row(const char **text, struct oh__setting_table_row *row)
{
	char field[12];
	uint64_t way;

	if (!take_field(text, ":", field) ||
	    !oh__parse_bytes(field, &row->last_bytes) || !row->last_bytes ||
	    row->last_bytes % 16 || row->last_bytes > 1u << 30)
		return false;
	if (!take_field(text, ":", field) ||
	    !parse_choice("flags|one-shot|two-shot|chunks", field, &way))
		return false;
	row->way = (enum oh__setting_way)way;
	return take_number(text, "x", 1024, &row->blocks) &&
	       take_number(text, ":", 512, &row->threads) && row->threads &&
	       row->threads % (row->way == OH__SETTING_CHUNKS ? 64 : 32) == 0 &&
	       take_number(text, ",", 1000000, &row->pause);
}

bool oh__parse_table(const char *text, struct oh__setting_table *table)
{
	const char *start = text;
	uint64_t last = 0;

	for (table->count = 0; *text; table->count++) {
		struct oh__setting_table_row *row = &table->row[table->count];

		if (table->count == OH__SETTING_ROWS || !take_row(&text, row) ||
		    row->last_bytes <= last)
			return false;
		last = row->last_bytes;
	}
	return text > start && text[-1] != ',';
}

static bool parse(const struct oh__setting_row *row, const char *text,
		  uint64_t *value)
{
	struct oh__setting_table table;
	uint32_t pairs[OH_MAX_RANKS];

	*value = 0;
	switch (row->kind) {
	case OH__SETTING_KIND_NUMBER:
		return oh__parse_number(text, value) && *value >= row->low &&
		       *value <= row->high;
	case OH__SETTING_KIND_BYTES:
		return oh__parse_bytes(text, value) && *value >= row->low &&
		       *value <= row->high;
	case OH__SETTING_KIND_CHOICE:
		return parse_choice(row->choices, text, value);
	case OH__SETTING_KIND_PAIRS:
		return oh__parse_pairs(text, pairs);
	case OH__SETTING_KIND_TABLE:
		return oh__parse_table(text, &table);
	case OH__SETTING_KIND_TEXT:
		return true;
	}
	return false;
}

/* As oh__parse_bytes reads it, with the largest unit that leaves no rest. */
static const char *bytes_text(uint64_t bytes, char text[24])
{
	static const char units[] = "\0KMG";
	int unit = 0;

	while (unit < 3 && bytes && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	snprintf(text, 24, "%" PRIu64 "%.1s", bytes, &units[unit]);
	return text;
}

void oh__setting_takes(const struct oh__setting_row *row, char *text,
		       size_t room)
{
	char low[24], high[24];

	switch (row->kind) {
	case OH__SETTING_KIND_NUMBER:
		snprintf(text, room, "%" PRIu64 " to %" PRIu64, row->low,
			 row->high);
		return;
	case OH__SETTING_KIND_BYTES:
		snprintf(text, room,
			 "%s to %s, digits with an optional K, M or G (binary)",
			 bytes_text(row->low, low),
			 bytes_text(row->high, high));
		return;
	case OH__SETTING_KIND_CHOICE:
		snprintf(text, room, "%s", row->choices);
		return;
	case OH__SETTING_KIND_PAIRS:
		snprintf(text, room, "pairs of ranks such as 0-1,2-3, or all");
		return;
	case OH__SETTING_KIND_TABLE:
		snprintf(text, room,
			 "rows such as "
			 "8K:one-shot:16x64:700,8M:two-shot:0x512:0 "
			 "(or flags, chunks)");
		return;
	case OH__SETTING_KIND_TEXT:
		snprintf(text, room, "text");
		return;
	}
}

static enum oh_status fail_malformed(const struct oh__setting_row *row,
				     const char *text)
{
	static const char *const before[] = {
		[OH__SETTING_KIND_NUMBER] = "a whole number from ",
		[OH__SETTING_KIND_BYTES] = "",
		[OH__SETTING_KIND_CHOICE] = "one of ",
		[OH__SETTING_KIND_PAIRS] = "",
		[OH__SETTING_KIND_TABLE] = "",
		[OH__SETTING_KIND_TEXT] = "",
	};
	char takes[96];

	oh__setting_takes(row, takes, sizeof(takes));
	return OH__FAIL(OH_ERR_SETTING, "%s is '%.64s', it takes %s%s",
			row->name, text, before[row->kind], takes);
}

bool oh__setting_peek(enum oh__setting setting, uint64_t *value)
{
	const char *text = oh__setting_text(setting);

	return parse(&rows[setting], text ? text : rows[setting].standard,
		     value);
}

enum oh_status oh__setting_value(enum oh__setting setting, uint64_t *value)
{
	const struct oh__setting_row *row = &rows[setting];
	const char *text = oh__setting_text(setting);
	uint64_t parsed;

	if (!text && !*row->standard)
		return OH__FAIL(OH_ERR_LAUNCHER, "%s is not set", row->name);
	if (parse(row, text ? text : row->standard, &parsed)) {
		*value = parsed;
		return OH_OK;
	}
	return fail_malformed(row, text);
}

enum oh_status oh__setting_pairs(enum oh__setting setting,
				 uint32_t pairs[OH_MAX_RANKS])
{
	const char *text = oh__setting_text(setting);

	memset(pairs, 0, OH_MAX_RANKS * sizeof(*pairs));
	if (!text || oh__parse_pairs(text, pairs))
		return OH_OK;
	return fail_malformed(&rows[setting], text);
}

enum oh_status oh__setting_table(enum oh__setting setting,
				 struct oh__setting_table *table)
{
	const char *text = oh__setting_text(setting);

	memset(table, 0, sizeof(*table));
	if (!text || oh__parse_table(text, table))
		return OH_OK;
	return fail_malformed(&rows[setting], text);
}

enum oh_status oh__settings_check(void)
{
	for (int i = 0; i < OH__SETTING_COUNT; i++) {
		enum oh_status status;
		uint64_t value;

		if (!oh__setting_text((enum oh__setting)i))
			continue;
		status = oh__setting_value((enum oh__setting)i, &value);
		if (status)
			return status;
	}
	return OH_OK;
}

static bool is_setting(const char *name, size_t length)
{
	for (int i = 0; i < OH__SETTING_COUNT; i++)
		if (strlen(rows[i].name) == length &&
		    !memcmp(rows[i].name, name, length))
			return true;
	return false;
}

void oh__settings_warn_unknown(void)
{
	/* ONEHOP_TEST_... belongs to the tests */
	static const char prefix[] = "ONEHOP_", tests[] = "ONEHOP_TEST_";
	static atomic_flag warned = ATOMIC_FLAG_INIT;

	if (!environ || atomic_flag_test_and_set(&warned))
		return;
	for (char **at = environ; *at; at++) {
		size_t length = strcspn(*at, "=");

		if (!strncmp(*at, prefix, sizeof(prefix) - 1) &&
		    strncmp(*at, tests, sizeof(tests) - 1) &&
		    !is_setting(*at, length))
			oh__log(OH_LOG_WARN,
				"%.*s is no setting of this version, see "
				"`onehop env`",
				(int)length, *at);
	}
}
