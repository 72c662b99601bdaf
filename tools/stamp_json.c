/* SPDX-License-Identifier: MIT */
#include "tools/stamp_json.h"

#include <string.h>
#include <time.h>

#include "tools/commit.h"
#include "tools/text_json.h"

json_t *stamp_text(const char *text)
{
	return *text ? text_json(text) : json_null();
}

json_t *stamp_commit(void)
{
	return strcmp(commit_name, "unknown") ? json_string(commit_name)
					      : json_null();
}

json_t *stamp_time(void)
{
	time_t now = time(NULL);
	struct tm utc;
	char text[32];

	gmtime_r(&now, &utc);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
	return json_string(text);
}

json_t *stamp_machine(const struct bench_machine *machine)
{
	return json_pack("{s:o, s:o, s:i, s:i, s:i, s:f}", "cpu",
			 stamp_text(machine->cpu), "kernel",
			 text_json(machine->kernel), "cores", machine->cores,
			 "processors", machine->processors, "numa_nodes",
			 machine->numa_nodes, "load", machine->load);
}

json_t *stamp_words(int argc, char **argv)
{
	json_t *list = json_array();

	for (int i = 0; i < argc; i++)
		json_array_append_new(list, text_json(argv[i]));
	return list;
}
