/* SPDX-License-Identifier: MIT */
/*
 * A malformed setting is an error that names the variable and what it takes,
 * and makes nothing; a well-formed one is taken. Every setting of the table
 * has its turn. And the log's own place, stderr, without a reader.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
	{OH__SETTING_DEVICE_TABLE, "8K:one-shot:16x64"},
	{OH__SETTING_DEVICE_TABLE, "8K:one-shot:16x48:0"},
	{OH__SETTING_FORBID_PEER, "0"},
	{OH__SETTING_FORBID_PEER, "0-16"},
	{OH__SETTING_FORBID_PEER, "1-1"},
	{OH__SETTING_ALGORITHM, "one"},
	{OH__SETTING_ALGORITHM, "one-shot|two-shot"},
	{OH__SETTING_STORES, "AUTO"},
	{OH__SETTING_TUNE, "1"},
	{OH__SETTING_ISA, "avx"},
	{OH__SETTING_SPIN, "0"},
	{OH__SETTING_LOG, "warning"},
	{OH__SETTING_FIRST_CALL, "1e6"},
};

/* The last line of the log but those of errors. */
static char warned[256];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void take_line(enum oh_log_level level, const char *line, void *context)
{
	pthread_mutex_lock(&lock);
	if (level == OH_LOG_WARN)
		snprintf(warned, sizeof(warned), "%s", line);
	pthread_mutex_unlock(&lock);
}

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

static void try_pairs(void)
{
	static const struct {
		const char *text;
		bool good;
		uint32_t of[4];
	} cases[] = {
		{"0-1", true, {2, 1, 0, 0}},
		{"0-1,2-3", true, {2, 1, 8, 4}},
		{"3-0,0-3", true, {8, 0, 0, 1}},
		{"all", true, {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}},
		{"", false, {0}},
		{"0", false, {0}},
		{"0-", false, {0}},
		{"-1", false, {0}},
		{"2-2", false, {0}},
		{"0-16", false, {0}},
		{"0-1,", false, {0}},
		{"0-1;2-3", false, {0}},
		{"all,0-1", false, {0}},
		{"0-99999999999999999999", false, {0}},
		{" 0-1", false, {0}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint32_t pairs[OH_MAX_RANKS];
		bool good = oh__parse_pairs(cases[i].text, pairs);

		tap_ok(good == cases[i].good &&
			       (!good || !memcmp(pairs, cases[i].of,
						 sizeof(cases[i].of))),
		       "the pairs '%s'", cases[i].text);
	}
}

static void try_table(void)
{
	static const char text[] =
		"16:flags:1x32:200,8K:one-shot:16x96:0,1M:two-shot:1024x512:1,"
		"1G:chunks:0x64:1000000";
	static const struct oh__setting_table due = {
		4,
		{{16, OH__SETTING_FLAGS, 1, 32, 200},
		 {8192, OH__SETTING_ONE_SHOT, 16, 96, 0},
		 {1 << 20, OH__SETTING_TWO_SHOT, 1024, 512, 1},
		 {1 << 30, OH__SETTING_CHUNKS, 0, 64, 1000000}}};
	static const char *const wrong[] = {
		"",
		"8K",
		"8K:",
		"8K:one-shot",
		"8K:one-shot:16",
		"8K:one-shot:16x",
		"8K:one-shot:16x64:",
		"8K:one-shot:16x64:0,",
		",8K:one-shot:16x64:0",
		"8K:one-shot:16x64:0;64K:one-shot:16x64:0",
		"8K:one-shot:16x64:0,8K:one-shot:16x64:0",
		"8K:one-shot:16x64:0,4K:one-shot:16x64:0",
		"8K:one-shot:16:64:0",
		"8K:one-shot:16x64:0:0",
		"8K:direct:16x64:0",
		"8K:one-shot:1025x64:0",
		"8K:one-shot:16x0:0",
		"8K:one-shot:16x33:0",
		"8K:one-shot:16x544:0",
		"8K:chunks:16x96:0",
		"8K:one-shot:16x64:1000001",
		"8K:one-shot:-1x64:0",
		"8K:one-shot:16x64:-1",
		"0:one-shot:16x64:0",
		"24:one-shot:16x64:0",
		"1025M:one-shot:16x64:0",
		"99999999999999999999999999999:one-shot:16x64:0",
	};
	struct oh__setting_table table;
	char many[16 * 24] = "";

	memset(&table, 0, sizeof(table));
	tap_ok(oh__parse_table(text, &table) &&
		       !memcmp(&table, &due, sizeof(due)),
	       "the table '%s'", text);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		tap_ok(!oh__parse_table(wrong[i], &table), "no table: '%s'",
		       wrong[i]);
	for (int i = 1; i <= OH__SETTING_ROWS + 1; i++) {
		bool good = i <= OH__SETTING_ROWS;

		sprintf(many + strlen(many), "%s%dK:flags:1x32:0",
			*many ? "," : "", i);
		if (i >= OH__SETTING_ROWS)
			tap_ok(oh__parse_table(many, &table) == good,
			       "%d rows are %s", i,
			       good ? "taken" : "too many");
	}
}

/* A communicator of so many ranks, threads; the warnings go to warned. */
static void *create_one(void *argument)
{
	struct oh_comm_options *options = argument;
	struct oh_comm *comm = NULL;

	if (oh_comm_create(options, &comm))
		tap_note("%s", oh_last_error()->message);
	oh_comm_destroy(comm);
	return NULL;
}

static void create_ranks(int ranks, const char *pairs)
{
	struct oh_comm_options options[2];
	struct oh_unique_id id;
	pthread_t thread;

	*warned = '\0';
	setenv("ONEHOP_FORBID_PEER", pairs, 1);
	oh_unique_id_create(&id);
	for (int i = 0; i < 2; i++)
		options[i] = (struct oh_comm_options){.size = sizeof(*options),
						      .id = &id,
						      .rank = i,
						      .ranks = ranks};
	if (ranks == 2 && pthread_create(&thread, NULL, create_one, options))
		abort();
	create_one(&options[ranks - 1]);
	if (ranks == 2)
		pthread_join(thread, NULL);
	unsetenv("ONEHOP_FORBID_PEER");
}

/* Pairs that a communicator does not have are named, and no others. */
static void try_absent_pairs(void)
{
	create_ranks(1, "0-1");
	tap_ok(strstr(warned, "ONEHOP_FORBID_PEER has 0-1, but the ranks of "
			      "this communicator are 0 to 0"),
	       "0-1 and one rank: %s", warned);
	create_ranks(2, "4-3,0-1");
	tap_ok(strstr(warned, "has 3-4") && !strstr(warned, "has 0-1"),
	       "3-4 and two ranks: %s", warned);
	create_ranks(2, "1-0");
	tap_ok(!*warned, "0-1 and two ranks: %s", warned);
	create_ranks(2, "all");
	tap_ok(!*warned, "all and two ranks: %s", warned);
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

/* A child whose stderr has no reader logs there: what ended it, and what is
 * pending and blocked in it then, a bit each. */
static int log_to_nobody(bool was_pending)
{
	sigset_t pipes, seen;
	int ends[2], status;
	pid_t child;

	if (pipe(ends))
		abort();
	child = fork();
	if (!child) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		sigemptyset(&pipes);
		sigaddset(&pipes, SIGPIPE);
		if (was_pending) {
			sigprocmask(SIG_BLOCK, &pipes, NULL);
			raise(SIGPIPE);
		}
		oh_set_log(OH_LOG_ERROR, NULL, NULL);
		oh_comm_abort(NULL);
		sigpending(&pipes);
		sigprocmask(SIG_BLOCK, NULL, &seen);
		_exit(sigismember(&pipes, SIGPIPE) | sigismember(&seen, SIGPIPE)
							     << 1);
	}
	close(ends[0]);
	close(ends[1]);
	if (waitpid(child, &status, 0) != child)
		abort();
	return status;
}

static void try_reader_gone(void)
{
	int status = log_to_nobody(false);

	tap_ok(status == 0, "a log line that nobody reads, status %x", status);
	status = log_to_nobody(true);
	tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 3,
	       "a SIGPIPE of the caller's stays pending, status %x", status);
}

int main(void)
{
	oh_set_log(OH_LOG_WARN, take_line, NULL);
	for (int i = 0; i < OH__SETTING_COUNT; i++)
		unsetenv(oh__setting_row((enum oh__setting)i)->name);
	for (size_t i = 0; i < sizeof(malformed) / sizeof(*malformed); i++)
		try_malformed(&malformed[i]);
	try_each_is_there();
	try_pairs();
	try_table();
	try_absent_pairs();
	try_defaults();
	try_empty();
	try_id();
	try_reader_gone();
	return tap_done();
}
