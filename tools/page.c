/* SPDX-License-Identifier: MIT */
#include "tools/page.h"

#include <stdarg.h>
#include <string.h>

#define LONGEST 2048

static const char *const styles[] = {
	[PAGE_PLAIN] = "",	 [PAGE_BOLD] = "\x1b[1m",
	[PAGE_DIM] = "\x1b[2m",	 [PAGE_GOOD] = "\x1b[32m",
	[PAGE_BAD] = "\x1b[31m", [PAGE_DOUBT] = "\x1b[33m",
};

static void put(const struct page *page, const char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		unsigned char c = (unsigned char)text[i];

		fputc(c < ' ' || c > '~' ? '?' : c, page->out);
	}
}

static void put_styled(const struct page *page, enum page_style style,
		       const char *text)
{
	bool coloured = page->colour && style != PAGE_PLAIN;

	if (coloured)
		fputs(styles[style], page->out);
	put(page, text, strlen(text));
	if (coloured)
		fputs("\x1b[0m", page->out);
}

static void put_blanks(const struct page *page, int count)
{
	fprintf(page->out, "%*s", count > 0 ? count : 0, "");
}

/* The words of a text from column on; further lines begin at indent. */
static void put_words(const struct page *page, int indent, int column,
		      const char *text)
{
	bool first = true;

	while (*text) {
		size_t blanks = strspn(text, " \t\n");
		size_t bytes = strcspn(text + blanks, " \t\n");

		text += blanks;
		if (!bytes)
			break;
		if (!first && column + 1 + (int)bytes > page->width) {
			fputc('\n', page->out);
			put_blanks(page, indent);
			column = indent;
		} else if (!first) {
			fputc(' ', page->out);
			column++;
		}
		put(page, text, bytes);
		column += (int)bytes;
		text += bytes;
		first = false;
	}
}

void page_write(const struct page *page, int indent, enum page_style style,
		const char *label, const char *format, ...)
{
	int column = (int)strlen(label);
	char text[LONGEST];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	put_styled(page, style, label);
	if (*text && column >= indent && indent) {
		fputc('\n', page->out);
		column = 0;
	}
	if (*text && column < indent) {
		put_blanks(page, indent - column);
		column = indent;
	}
	put_words(page, indent, column, text);
	fputc('\n', page->out);
}

void page_head(const struct page *page, const char *format, ...)
{
	char text[LONGEST];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fputc('\n', page->out);
	put_styled(page, PAGE_BOLD, text);
	fputc('\n', page->out);
}
