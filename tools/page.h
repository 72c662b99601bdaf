/* SPDX-License-Identifier: MIT */
/*
 * Text for people on a page of a fixed width: paragraphs are wrapped between
 * words and hang under their first word. Colour is the caller's choice; it
 * never changes the width.
 */
#ifndef OH_TOOLS_PAGE_H
#define OH_TOOLS_PAGE_H

#include <stdbool.h>
#include <stdio.h>

struct page {
	FILE *out;
	int width;
	bool colour;
};

enum page_style {
	PAGE_PLAIN,
	PAGE_BOLD,
	PAGE_DIM,
	PAGE_GOOD, /* green */
	PAGE_BAD, /* red */
	PAGE_DOUBT, /* yellow */
};

/*
 * Writes label, padded to the indent (or on a line of its own if it is longer),
 * in style, then the text in plain letters. A word that is longer than the page
 * is not cut. Control characters and bytes that are no ASCII are shown as "?":
 * a pasted file must not move the cursor.
 */
void page_write(const struct page *page, int indent, enum page_style style,
		const char *label, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* A line in bold, with an empty one before it. */
void page_head(const struct page *page, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
