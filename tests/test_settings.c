/* SPDX-License-Identifier: MIT */
/*
 * A malformed setting is an error that names the variable and what it takes,
 * and makes nothing; a well-formed one is taken. Every setting of the table
 * has its turn.
 */
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "tap.h"

struct attempt {
	enum oh__setting setting;
	const char *value;
};

static const struct attempt malformed[] = {
	{OH__SETTING_RANK, "16"}, /* OH_MAX_RANKS */
	{OH__SETTING_RANK, "-0"},
	{OH__SETTING_RANKS, "0"},
	{OH__SETTING_RANKS, "17"},
	{OH__SETTING_RENDEZVOUS_TIMEOUT_MS, "0"},
	{OH__SETTING_RENDEZVOUS_TIMEOUT_MS, "1s"},
	{OH__SETTING_CALL_TIMEOUT_MS, "86400001"}, /* a day and 1 ms */
	{OH__SETTING_CALL_TIMEOUT_MS, " 1"},
	{OH__SETTING_SLOT_BYTES, "4095"},
	{OH__SETTING_SLOT_BYTES, "1025M"},
	{OH__SETTING_SLOT_BYTES, "K"},
	{OH__SETTING_HEAP_BYTES, "1"},
	{OH__SETTING_HEAP_BYTES, "18446744073709551616"}, /* 2^64 */
	{OH__SETTING_HEAP_BYTES, "18014398509481985K"}, /* 2^64 + 1024 */
	{OH__SETTING_DEVICE_BYTES, "1048575"},
	{OH__SETTING_DEVICE_BYTES, "64MB"},
	{OH__SETTING_DEVICE_SHARE, "cuda-ipc"},
	{OH__SETTING_DEVICE_SHARE, "2"},
	{OH__SETTING_FORBID_PEER, "0"},
	{OH__SETTING_FORBID_PEER, "0-16"},
	{OH__SETTING_ALGORITHM, "one"},
	{OH__SETTING_ALGORITHM, "one-shot|two-shot"},
	{OH__SETTING_STORES, "AUTO"},
	{OH__SETTING_TUNE, "1"},
	{OH__SETTING_ISA, "avx"},
	{OH__SETTING_SPIN, "0"},
	{OH__SETTING_LOG, "warning"},
	{OH__SETTING_FIRST_CALL, "1e6"},
};

/* One rank, so that nobody else is needed. */
static enum oh_status create(struct oh_comm **comm)
{
	struct oh_unique_id id;
	struct oh_comm_options options = {
		.size = sizeof(options), .id = &id, .ranks = 1};
	enum oh_status status = oh_unique_id_create(&id);

	return status ? status : oh_comm_create(&options, comm);
}

static void try_malformed(const struct attempt *attempt)
{
	const struct oh__setting_row *row = oh__setting_row(attempt->setting);
	struct oh_comm *comm = NULL;
	const struct oh_error *error;
	enum oh_status status;

	setenv(row->name, attempt->value, 1);
	status = create(&comm);
	unsetenv(row->name);
	tap_ok(status == OH_ERR_SETTING, "%s='%s' is refused", row->name,
	       attempt->value);
	tap_ok(!comm, "%s='%s' makes nothing", row->name, attempt->value);
	error = oh_last_error();
	tap_ok(error->status == OH_ERR_SETTING &&
		       strstr(error->message, row->name) &&
		       strstr(error->message, attempt->value),
	       "%s='%s' is named in the message", row->name, attempt->value);
	tap_note("%s", error->message);
	oh_comm_destroy(comm);
}

static void try_each_is_there(void)
{
	for (int i = 0; i < OH__SETTING_COUNT; i++) {
		bool found = i == OH__SETTING_ID; /* has a test of its own */

		for (size_t j = 0; j < sizeof(malformed) / sizeof(*malformed);
		     j++)
			found |= (int)malformed[j].setting == i;
		tap_ok(found, "%s has its turn",
		       oh__setting_row((enum oh__setting)i)->name);
	}
}

/* Each default, set by hand, must do. */
static void try_defaults(void)
{
	for (int i = 0; i < OH__SETTING_COUNT; i++) {
		const struct oh__setting_row *row =
			oh__setting_row((enum oh__setting)i);
		struct oh_comm *comm = NULL;
		enum oh_status status;

		if (!*row->standard)
			continue;
		setenv(row->name, row->standard, 1);
		status = create(&comm);
		unsetenv(row->name);
		if (!tap_ok(status == OH_OK, "%s=%s, its default, is taken",
			    row->name, row->standard))
			tap_note("%s", oh_last_error()->message);
		oh_comm_destroy(comm);
	}
}

static void try_empty(void)
{
	struct oh_comm *comm = NULL;

	setenv("ONEHOP_SLOT_BYTES", "", 1);
	tap_ok(create(&comm) == OH_OK, "an empty value counts as unset");
	unsetenv("ONEHOP_SLOT_BYTES");
	oh_comm_destroy(comm);
}

/* A malformed id is an error too, and its value stays out of the message. */
static void try_id(void)
{
	struct oh_comm *comm = NULL;

	setenv("ONEHOP_RANK", "0", 1);
	setenv("ONEHOP_RANKS", "1", 1);
	setenv("ONEHOP_ID", "5ec2e7", 1);
	tap_ok(oh_comm_create(NULL, &comm) == OH_ERR_SETTING,
	       "an ONEHOP_ID of six digits is refused");
	tap_ok(strstr(oh_last_error()->message, "ONEHOP_ID"),
	       "it is named in the message");
	tap_ok(!strstr(oh_last_error()->message, "5ec2e7"), "its value is not");
	unsetenv("ONEHOP_RANK");
	unsetenv("ONEHOP_RANKS");
	unsetenv("ONEHOP_ID");
	oh_comm_destroy(comm);
}

static void ignore_line(enum oh_log_level level, const char *line,
			void *context)
{
}

int main(void)
{
	oh_set_log(OH_LOG_ERROR, ignore_line, NULL);
	for (int i = 0; i < OH__SETTING_COUNT; i++)
		unsetenv(oh__setting_row((enum oh__setting)i)->name);
	for (size_t i = 0; i < sizeof(malformed) / sizeof(*malformed); i++)
		try_malformed(&malformed[i]);
	try_each_is_there();
	try_defaults();
	try_empty();
	try_id();
	return tap_done();
}
