/* SPDX-License-Identifier: MIT */
/*
 * `onehop env`: every setting with its value now and its default. What the
 * library would refuse is marked, with the reason. The ranks' id is a secret;
 * its value is never shown, not even a malformed one. A variable ONEHOP_...
 * that is no setting, a misspelt one perhaps, is named on stderr.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings.h"
#include "comm/id.h"
#include "cpu/reduce.h"
#include "onehop/onehop.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/stamp_json.h"

enum state {
	STATE_UNSET,
	STATE_DEFAULT,
	STATE_SET,
	STATE_MALFORMED,
	STATE_REFUSED, /* well-formed, and not to be had here */
};

static const char *const state_names[] = {"unset", "default", "set",
					  "malformed", "refused"};

static const char *const kind_names[] = {
	[OH__SETTING_KIND_NUMBER] = "number",
	[OH__SETTING_KIND_BYTES] = "bytes",
	[OH__SETTING_KIND_CHOICE] = "choice",
	[OH__SETTING_KIND_PAIRS] = "pairs",
	[OH__SETTING_KIND_TABLE] = "table",
	[OH__SETTING_KIND_TEXT] = "text",
};

/* One setting as it is shown. */
struct shown {
	const struct oh__setting_row *row;
	enum state state;
	char *value; /* "" if there is none to show; freed by command_env */
	char takes[96];
	char reason[96]; /* of STATE_REFUSED, else "" */
};

static bool is_secret(enum oh__setting setting)
{
	return setting == OH__SETTING_ID;
}

/* Bytes that a terminal might obey are shown as \xNN. The caller frees it; NULL
 * without memory. */
static char *printable(const char *text)
{
	size_t used = 0, room = 4 * strlen(text) + 1;
	char *out = malloc(room);

	for (; out && *text; text++) {
		unsigned char byte = (unsigned char)*text;

		if (byte >= 0x20 && byte < 0x7f && byte != '\\')
			out[used++] = *text;
		else
			used += (size_t)snprintf(out + used, room - used,
						 "\\x%02x", byte);
	}
	if (out)
		out[used] = '\0';
	return out;
}

static bool is_well_formed(enum oh__setting setting, const char *text)
{
	struct oh_unique_id id;
	uint64_t value;

	if (is_secret(setting))
		return oh__id_from_text(text, &id);
	return oh__setting_peek(setting, &value);
}

/* Well-formed values that oh_comm_create refuses; "" for others. */
static void find_reason(enum oh__setting setting, const char *text,
			char *reason, size_t room)
{
	const struct oh__cpu_reducer *reducer;
	uint64_t rank, ranks;

	*reason = '\0';
	if (setting == OH__SETTING_ISA && strcmp(text, "auto") != 0) {
		reducer = oh__cpu_reducer_named(text);
		if (!reducer || !reducer->usable())
			snprintf(reason, room, "this %s cannot run it",
				 reducer ? "processor" : "build");
	}
	if (setting == OH__SETTING_RANK && oh__setting_peek(setting, &rank) &&
	    oh__setting_text(OH__SETTING_RANKS) &&
	    oh__setting_peek(OH__SETTING_RANKS, &ranks) && rank >= ranks)
		snprintf(reason, room,
			 "of ONEHOP_RANKS=%" PRIu64
			 " ranks the last is %" PRIu64,
			 ranks, ranks - 1);
}

static void look_at(enum oh__setting setting, struct shown *shown)
{
	const char *text = oh__setting_text(setting);

	*shown->reason = '\0';
	shown->row = oh__setting_row(setting);
	if (is_secret(setting))
		snprintf(shown->takes, sizeof(shown->takes),
			 "256 hexadecimal digits");
	else
		oh__setting_takes(shown->row, shown->takes,
				  sizeof(shown->takes));
	if (!text) {
		shown->state =
			*shown->row->standard ? STATE_DEFAULT : STATE_UNSET;
		shown->value = printable(shown->row->standard);
		return;
	}
	shown->state =
		is_well_formed(setting, text) ? STATE_SET : STATE_MALFORMED;
	if (shown->state == STATE_SET)
		find_reason(setting, text, shown->reason,
			    sizeof(shown->reason));
	if (*shown->reason)
		shown->state = STATE_REFUSED;
	shown->value = printable(is_secret(setting) ? "" : text);
}

static void print_text(const struct shown *shown, int count)
{
	printf("%-29s %-10s %-10s %s\n", "VARIABLE", "VALUE", "DEFAULT",
	       "TAKES");
	for (int i = 0; i < count; i++) {
		const struct oh__setting_row *row = shown[i].row;
		const char *value = shown[i].value;

		printf("%-29s %-10s %-10s %s\n", row->name,
		       *value ? value : state_names[shown[i].state],
		       *row->standard ? row->standard : "-", shown[i].takes);
		if (shown[i].state == STATE_MALFORMED)
			printf("    MALFORMED: correct it or unset it\n");
		if (shown[i].state == STATE_REFUSED)
			printf("    REFUSED: %s; correct it or unset it\n",
			       shown[i].reason);
		printf("    %s\n", row->help);
	}
}

static int print_json(const struct shown *shown, int count, json_t *unknown)
{
	json_t *settings = json_array();
	json_t *root;
	int failed;

	for (int i = 0; i < count; i++) {
		const struct oh__setting_row *row = shown[i].row;

		json_array_append_new(
			settings,
			json_pack("{s:s, s:s, s:s, s:o, s:o, s:s, s:s, s:o}",
				  "name", row->name, "kind",
				  kind_names[row->kind], "state",
				  state_names[shown[i].state], "value",
				  stamp_text(shown[i].value), "default",
				  stamp_text(row->standard), "takes",
				  shown[i].takes, "help", row->help, "reason",
				  stamp_text(shown[i].reason)));
	}
	root = json_pack("{s:i, s:s, s:o, s:O}", "schema_version", 1, "version",
			 oh_version(), "settings", settings, "unknown",
			 unknown);
	failed = json_dumpf(root, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(root);
	return failed ? EXIT_ENVIRONMENT : EXIT_FINE;
}

static bool is_setting(const char *name)
{
	for (int i = 0; i < OH__SETTING_COUNT; i++)
		if (!strcmp(oh__setting_row((enum oh__setting)i)->name, name))
			return true;
	return false;
}

/* The names of what looks like a setting and is none. */
static json_t *list_unknown(void)
{
	json_t *unknown = json_array();

	for (char **entry = environ; *entry; entry++) {
		char name[64], *shown;

		/* as oh__settings_warn_unknown has it */
		if (strncmp(*entry, "ONEHOP_", 7) ||
		    !strncmp(*entry, "ONEHOP_TEST_", 12))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(*entry, "="),
			 *entry);
		if (is_setting(name))
			continue;
		shown = printable(name);
		json_array_append_new(unknown, json_string(shown));
		free(shown);
	}
	return unknown;
}

static void print_help(void)
{
	printf("usage: onehop env [OPTION...]\n\n"
	       "Shows every setting: the environment variable, its value now,\n"
	       "its default, what it takes and what it does. A value "
	       "that\n"
	       "is malformed, or that the library refuses here, is shown as "
	       "such,\n"
	       "and the exit code is then 2.\n\n"
	       "  --json        JSON instead of text\n"
	       "  -h, --help    print this text\n");
}

/* EXIT_FINE with *json set, or what to exit with; -1 after --help. */
static int read_options(int argc, char **argv, bool *json)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option;

	*json = false;
	optind = 0; /* scan anew */
	while ((option = flags_next("env", argc, argv, "h", options, NULL)) !=
	       -1) {
		switch (option) {
		case 'j':
			*json = true;
			break;
		case 'h':
			print_help();
			return -1;
		default:
			return EXIT_USAGE;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "onehop env: '%s' is not expected\n",
			argv[optind]);
		return EXIT_USAGE;
	}
	return EXIT_FINE;
}

int command_env(int argc, char **argv)
{
	struct shown shown[OH__SETTING_COUNT];
	json_t *unknown, *name;
	bool json, bad = false, memory = true;
	size_t index;
	int code = read_options(argc, argv, &json);

	if (code)
		return code < 0 ? EXIT_FINE : code;
	for (int i = 0; i < OH__SETTING_COUNT; i++) {
		look_at((enum oh__setting)i, &shown[i]);
		bad |= shown[i].state >= STATE_MALFORMED;
		memory = memory && shown[i].value;
	}
	if (!memory) {
		fprintf(stderr, "onehop env: no memory\n");
		return EXIT_ENVIRONMENT;
	}
	unknown = list_unknown();
	if (json)
		code = print_json(shown, OH__SETTING_COUNT, unknown);
	else
		print_text(shown, OH__SETTING_COUNT);
	json_array_foreach(unknown, index, name)
		fprintf(stderr, "onehop env: %s is not a setting\n",
			json_string_value(name));
	json_decref(unknown);
	for (int i = 0; i < OH__SETTING_COUNT; i++)
		free(shown[i].value);
	return bad ? EXIT_USAGE : code;
}
