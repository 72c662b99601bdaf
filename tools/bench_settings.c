/* SPDX-License-Identifier: MIT */
/* The settings of the ranks: are they fine, and which of them change how a call
 * works, on which memory. Those of ranks, deadlines and the log do not;
 * forbidden pairs are shown by themselves. */
#include <string.h>

#include "base/error.h"
#include "tools/bench_write.h"

/* 67108864 is 64M, whatever the kind. */
static bool is_default(enum oh__setting setting, const char *text)
{
	const char *standard = oh__setting_row(setting)->standard;
	uint64_t value, due;

	return !strcmp(text, standard) ||
	       (oh__parse_bytes(text, &value) &&
		oh__parse_bytes(standard, &due) && value == due);
}

int bench_settings_changed(bool device, enum oh__setting *list)
{
	static const struct {
		enum oh__setting setting;
		bool device;
	} rows[] = {
		{OH__SETTING_SLOT_BYTES, false},
		{OH__SETTING_HEAP_BYTES, false},
		{OH__SETTING_ALGORITHM, false},
		{OH__SETTING_STORES, false},
		{OH__SETTING_TUNE, false},
		{OH__SETTING_ISA, false},
		{OH__SETTING_SPIN, false},
		{OH__SETTING_FIRST_CALL, false},
		{OH__SETTING_DEVICE_BYTES, true},
		{OH__SETTING_DEVICE_SHARE, true},
		{OH__SETTING_DEVICE_TABLE, true},
	};
	int count = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *text = oh__setting_text(rows[i].setting);

		if (rows[i].device == device && text &&
		    !is_default(rows[i].setting, text))
			list[count++] = rows[i].setting;
	}
	return count;
}

/* The benchmark's ranks have their numbers and their id from it. */
static bool is_read(enum oh__setting setting, bool forbid_peer)
{
	return setting != OH__SETTING_RANK && setting != OH__SETTING_RANKS &&
	       setting != OH__SETTING_ID &&
	       !(forbid_peer && setting == OH__SETTING_FORBID_PEER);
}

bool bench_settings_check(bool forbid_peer)
{
	for (int i = 0; i < OH__SETTING_COUNT; i++) {
		enum oh__setting setting = (enum oh__setting)i;
		uint64_t value;

		if (!oh__setting_text(setting) ||
		    !is_read(setting, forbid_peer) ||
		    oh__setting_peek(setting, &value))
			continue;
		/* said here, once */
		oh_set_log(OH_LOG_OFF, NULL, NULL);
		(void)oh__setting_value(setting, &value);
		fprintf(stderr, "onehop bench: %s\n", oh_last_error()->message);
		return false;
	}
	return true;
}
