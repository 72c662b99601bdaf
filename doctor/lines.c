/* SPDX-License-Identifier: MIT */
#include "doctor/lines.h"

#include <string.h>

/* Units looked at for a text without a mark, and how few are too few. */
#define PROBE 64
#define PROBE_LEAST 4

void lines_begin(struct lines *lines, lines_take *take, void *context)
{
	lines->take = take;
	lines->context = context;
	lines->used = lines->returns = 0;
	lines->line = 1;
	lines->cut = lines->first_cut = 0;
	lines->skipping = lines->begun = lines->odd = false;
	lines->unended = false;
	lines->wide = 0;
}

/* Zeros are few between lines, many in UTF-16 behind a text in bytes. */
static bool has_zeros_between(const char *line, size_t bytes)
{
	size_t zeros = 0;

	if (!memchr(line, '\0', bytes))
		return false;
	for (size_t i = 0; i < bytes; i++)
		zeros += !line[i];
	return zeros < bytes / 4;
}

static void give(struct lines *lines, const char *line, size_t bytes)
{
	char *piece = lines->carry, *zero;
	bool unended = lines->unended;

	if (!has_zeros_between(line, bytes)) {
		lines->take(lines->context, line, bytes);
		return;
	}
	memmove(piece, line, bytes);
	lines->unended = false; /* but the last of them */
	while ((zero = memchr(piece, '\0', bytes))) {
		lines->take(lines->context, piece, (size_t)(zero - piece));
		bytes -= (size_t)(zero - piece);
		piece = zero;
		*piece = '\r';
	}
	lines->unended = unended;
	lines->take(lines->context, piece, bytes);
}

static void give_cut(struct lines *lines, const char *line)
{
	if (!lines->cut++)
		lines->first_cut = lines->line;
	lines->unended = true;
	give(lines, line, LINES_LONGEST);
	lines->unended = false;
}

/* The beginning of a line whose end has not come. */
static void keep(struct lines *lines, const char *data, size_t bytes)
{
	size_t room = sizeof(lines->carry) - lines->used;

	if (lines->skipping)
		return;
	if (bytes > room) {
		memcpy(lines->carry + lines->used, data, room);
		give_cut(lines, lines->carry);
		lines->used = 0;
		lines->skipping = true;
		return;
	}
	memcpy(lines->carry + lines->used, data, bytes);
	lines->used += bytes;
}

static void give_kept(struct lines *lines)
{
	if (!lines->skipping)
		give(lines, lines->carry, lines->used);
	lines->used = 0;
	lines->skipping = false;
}

/* Returns that no line feed came behind: each was an end. */
static void cut_at_returns(struct lines *lines)
{
	for (; lines->returns; lines->returns--) {
		give_kept(lines);
		lines->carry[lines->used++] = '\r';
	}
}

/* Without a line feed. */
static void keep_pieces(struct lines *lines, const char *data, size_t bytes)
{
	while (bytes) {
		const char *end = memchr(data, '\r', bytes);
		size_t length = end ? (size_t)(end - data) : bytes;

		if (length) {
			cut_at_returns(lines);
			keep(lines, data, length);
		}
		if (end) {
			lines->returns++;
			length++;
		}
		data += length;
		bytes -= length;
	}
}

/* A line feed has come, behind bytes of its line. */
static void end(struct lines *lines, const char *data, size_t bytes)
{
	while (bytes && data[bytes - 1] == '\r')
		bytes--;
	if (lines->used || lines->skipping || lines->returns ||
	    memchr(data, '\r', bytes)) {
		keep_pieces(lines, data, bytes);
		give_kept(lines);
	} else if (bytes > LINES_LONGEST) {
		give_cut(lines, data);
	} else {
		give(lines, data, bytes);
	}
	lines->returns = 0;
	lines->line++;
}

static void feed_bytes(struct lines *lines, const char *data, size_t bytes)
{
	const char *newline;

	while (bytes && (newline = memchr(data, '\n', bytes))) {
		size_t length = (size_t)(newline - data);

		end(lines, data, length);
		data += length + 1;
		bytes -= length + 1;
	}
	keep_pieces(lines, data, bytes);
}

/* Takes the ASCII out of UTF-16; anything else becomes a question mark. */
static void feed_wide(struct lines *lines, const char *data, size_t bytes)
{
	char text[4096];
	size_t used = 0;

	for (size_t i = 0; i < bytes; i++) {
		char low, high;

		if (!lines->odd) {
			lines->half = data[i];
			lines->odd = true;
			continue;
		}
		lines->odd = false;
		low = lines->wide == 1 ? lines->half : data[i];
		high = lines->wide == 1 ? data[i] : lines->half;
		text[used++] = high || (unsigned char)low > 126 ? '?' : low;
		if (used == sizeof(text)) {
			feed_bytes(lines, text, used);
			used = 0;
		}
	}
	feed_bytes(lines, text, used);
}

/* Without a mark: letters of UTF-16 have a zero before or behind them. */
static int wide_by_zeros(const char *data, size_t bytes)
{
	size_t zeros[2] = {0, 0}, pairs = bytes / 2;

	if (pairs > PROBE)
		pairs = PROBE;
	for (size_t i = 0; i < 2 * pairs; i++)
		zeros[i % 2] += !data[i];
	if (pairs < PROBE_LEAST || (zeros[0] && zeros[1]))
		return 0;
	if (zeros[1] >= pairs - pairs / 4)
		return 1;
	return zeros[0] >= pairs - pairs / 4 ? 2 : 0;
}

void lines_feed(struct lines *lines, const char *data, size_t bytes)
{
	/* the first piece holds the mark: pieces are not of one byte */
	if (!lines->begun && bytes >= 2) {
		if (!memcmp(data, "\xff\xfe", 2))
			lines->wide = 1;
		else if (!memcmp(data, "\xfe\xff", 2))
			lines->wide = 2;
		if (lines->wide) {
			data += 2;
			bytes -= 2;
		} else if (bytes >= 3 && !memcmp(data, "\xef\xbb\xbf", 3)) {
			data += 3;
			bytes -= 3;
		} else {
			lines->wide = wide_by_zeros(data, bytes);
		}
	}
	lines->begun = true;
	if (lines->wide)
		feed_wide(lines, data, bytes);
	else
		feed_bytes(lines, data, bytes);
}

void lines_end(struct lines *lines)
{
	lines->unended = !lines->returns;
	if (lines->used)
		give_kept(lines);
}
