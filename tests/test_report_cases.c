/* SPDX-License-Identifier: MIT */
/*
 * The reports of tests/cases and tests/reports against what their expect.json
 * says of GPUs, links, islands, switch groups and peer access. A directory more
 * is a test more.
 */
#include <dirent.h>
#include <jansson.h>

#include "report_reader.h"
#include "tap.h"

static struct reading reading;

static const char *const summary_words[] = {"unknown", "none", "some", "all"};

/* Groups as JSON: [[0, 1], [2]] */
static json_t *groups_json(const struct oh__groups *groups)
{
	json_t *list = json_array();

	for (int i = 0; i < groups->count; i++) {
		json_t *group = json_array();

		for (int j = 0; j < groups->size[i]; j++)
			json_array_append_new(
				group, json_integer(groups->member[i][j]));
		json_array_append_new(list, group);
	}
	return list;
}

static void check_groups(const char *name, const char *key,
			 const json_t *expect, const struct oh__groups *groups)
{
	json_t *wanted = json_object_get(expect, key);
	json_t *got = groups_json(groups);

	if (!wanted && !strcmp(key, "switch_groups"))
		tap_ok(groups->count == 0 ||
			       !json_object_get(expect, "islands"),
		       "%s: no switch group", name);
	else if (wanted)
		tap_ok(json_equal(wanted, got), "%s: %s", name, key);
	json_decref(got);
}

/* "0-1": "NV4", and "all GPU pairs": "NV18" */
static void check_links(const char *name, json_t *links)
{
	const char *key;
	json_t *value;
	char text[8];

	json_object_foreach(links, key, value)
	{
		int from = -1, to = -1;

		if (sscanf(key, "%d-%d", &from, &to) != 2)
			from = 0, to = reading.machine.gpus - 1;
		tap_ok(from >= 0 && to >= 0 && from < OH__GPUS &&
			       to < OH__GPUS &&
			       !strcmp(oh__link_text(
					       &reading.machine.link[from][to],
					       text),
				       json_string_value(value)),
		       "%s: link %s", name, key);
	}
}

static void check_expected(const char *name, const json_t *expect)
{
	const char *peers =
		json_string_value(json_object_get(expect, "driver_says_peer"));
	json_t *gpus = json_object_get(expect, "gpus");
	struct oh__groups groups;

	if (json_is_true(json_object_get(expect, "error"))) {
		tap_ok(reading.status == OH_ERR_INVALID ||
			       reading.status == OH_ERR_UNSUPPORTED,
		       "%s: is refused: %.200s", name, reading.message);
		return;
	}
	if (!tap_ok(!reading.status && reading.found, "%s: is read", name)) {
		tap_note("%s", reading.message);
		return;
	}
	oh__machine_islands(&reading.machine, &groups);
	check_groups(name, "islands", expect, &groups);
	oh__machine_switch_groups(&reading.machine, &groups);
	check_groups(name, "switch_groups", expect, &groups);
	if (gpus)
		tap_ok(json_integer_value(gpus) == reading.machine.gpus,
		       "%s: number of GPUs", name);
	if (peers)
		tap_ok(!strcmp(summary_words[oh__machine_peers(
				       &reading.machine)],
			       peers),
		       "%s: driver_says_peer is %s", name, peers);
	check_links(name, json_object_get(expect, "links"));
}

/* A directory of tests/cases or tests/reports; a text that is no report must
 * not be taken for one. */
static void try_directory(const char *room, const char *name, const char *file)
{
	char path[512];
	size_t bytes = 0;
	json_t *expect, *facts;
	const char *kind;
	char *text;

	snprintf(path, sizeof(path), "tests/%s/%s/expect.json", room, name);
	text = read_tree_file(path, &bytes);
	expect = text ? json_loadb(text, bytes, 0, NULL) : NULL;
	free(text);
	snprintf(path, sizeof(path), "tests/%s/%s/%s", room, name, file);
	text = read_tree_file(path, &bytes);
	if (!tap_ok(expect && text, "%s: has text and expectation", name))
		return;
	read_report(file, text, bytes, &reading);
	free(text);
	facts = json_object_get(expect, "facts");
	kind = json_string_value(json_object_get(expect, "kind"));
	if (!kind || !strcmp(kind, "topo"))
		check_expected(name, facts ? facts : expect);
	else
		tap_ok(!reading.status && !reading.machine.gpus,
		       "%s: is no machine", name);
	json_decref(expect);
}

static void try_room(const char *room, const char *file)
{
	const char *source = getenv("SOURCE");
	char path[512];
	struct dirent **entries;
	int count, tried = 0;

	snprintf(path, sizeof(path), "%s/tests/%s", source ? source : ".",
		 room);
	count = scandir(path, &entries, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		if (entries[i]->d_name[0] != '.') {
			try_directory(room, entries[i]->d_name, file);
			tried++;
		}
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	tap_ok(tried > 0, "tests/%s has %d texts", room, tried);
}

int main(void)
{
	oh_set_log(OH_LOG_OFF, NULL, NULL);
	try_room("cases", "report.txt");
	try_room("reports", "input.txt");
	return tap_done();
}
