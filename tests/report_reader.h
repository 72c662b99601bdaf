/* SPDX-License-Identifier: MIT */
/*
 * Texts into a machine, for tests: from memory, or from a file of the tree.
 */
#ifndef OH_TESTS_REPORT_READER_H
#define OH_TESTS_REPORT_READER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/machine.h"
#include "machine/report.h"

struct reading {
	enum oh_status status;
	bool found;
	char message[512]; /* of the error, "" if there is none */
	struct oh__machine machine;
};

/* Feeds a text line by line. */
static inline void read_report(const char *name, const char *text, size_t bytes,
			       struct reading *reading)
{
	struct oh__report *report = oh__report_create(name);

	memset(reading, 0, sizeof(*reading));
	while (bytes) {
		const char *end = memchr(text, '\n', bytes);
		size_t length = end ? (size_t)(end - text) : bytes;

		oh__report_feed(report, text, length);
		length += end != NULL;
		text += length;
		bytes -= length;
	}
	reading->status =
		oh__report_finish(report, &reading->machine, &reading->found);
	if (reading->status)
		snprintf(reading->message, sizeof(reading->message), "%s",
			 oh_last_error()->message);
}

/* A file of the tree, or NULL; to be freed. */
static inline char *read_tree_file(const char *path, size_t *bytes)
{
	const char *source = getenv("SOURCE");
	char *name = NULL, *text = NULL;
	long size;
	FILE *file;

	if (asprintf(&name, "%s/%s", source ? source : ".", path) < 0)
		return NULL;
	file = fopen(name, "rb");
	free(name);
	if (!file)
		return NULL;
	if (!fseek(file, 0, SEEK_END) && (size = ftell(file)) >= 0 &&
	    !fseek(file, 0, SEEK_SET)) {
		text = malloc((size_t)size + 1);
		*bytes = text ? fread(text, 1, (size_t)size, file) : 0;
		if (text)
			text[*bytes] = '\0';
	}
	fclose(file);
	return text;
}

#endif
