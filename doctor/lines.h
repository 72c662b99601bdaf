/* SPDX-License-Identifier: MIT */
/*
 * Cuts a stream into lines for readers that take one at a time: "\n", "\r\n"
 * and a last line without an end. A carriage return without a line feed (a
 * progress bar, an old Mac's text) and a zero byte between letters cut, too;
 * the piece behind begins with "\r", which tells readers that count lines as
 * editors do that it is of the same one. A piece is given whole up to
 * LINES_LONGEST bytes; what is longer is cut there and the rest of it skipped.
 * UTF-16 (what a Windows shell writes), known by its byte order mark or by a
 * zero in every second byte at the beginning, becomes ASCII.
 */
#ifndef OH_DOCTOR_LINES_H
#define OH_DOCTOR_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINES_LONGEST 65536

typedef void lines_take(void *context, const char *line, size_t bytes);

struct lines {
	lines_take *take;
	void *context;
	size_t used;
	size_t returns; /* behind it: the next byte says what they are */
	uint64_t line; /* that is being read, by line feeds, from 1 on */
	uint64_t cut, first_cut; /* pieces that were too long, and a line */
	bool unended; /* what is given may go on: too long, or the last */
	bool skipping; /* the rest of a line that was too long */
	bool begun; /* the byte order mark has been looked for */
	int wide; /* 0: bytes; 1: low byte first; 2: high byte first */
	bool odd; /* half of a UTF-16 unit is kept */
	char half;
	char carry[LINES_LONGEST];
};

void lines_begin(struct lines *lines, lines_take *take, void *context);
void lines_feed(struct lines *lines, const char *data, size_t bytes);
/* The last line, if it had no end. */
void lines_end(struct lines *lines);

#endif
