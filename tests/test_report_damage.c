/* SPDX-License-Identifier: MIT */
/*
 * Damage by rule: the matrices of tests/cases and tests/reports broken at every
 * width, cut behind every byte, and with every cell lost, doubled or changed.
 * A damaged matrix may be refused, and what is whole may still be read; but
 * links that are read are those of the undamaged text, always.
 */
#include <dirent.h>

#include "report_reader.h"
#include "tap.h"

#define TEXT_BYTES 65536

static struct reading reading;
static struct oh__machine whole; /* the undamaged text's */
static int tried, refused, wrong;

/* Every link that is known is that of the whole machine. */
static bool links_hold(const struct oh__machine *machine)
{
	for (int i = 0; i < machine->gpus; i++) {
		for (int j = 0; j < machine->gpus; j++) {
			const struct oh__link *link = &machine->link[i][j];

			if (oh__known(link->from) &&
			    (link->kind != whole.link[i][j].kind ||
			     link->nvlinks != whole.link[i][j].nvlinks))
				return false;
		}
	}
	return true;
}

/* NUMA nodes, too: a shifted column is a wrong node. */
static bool nodes_hold(const struct oh__machine *machine)
{
	for (int i = 0; i < machine->gpus; i++)
		if (oh__known(machine->gpu[i].numa_node.from) &&
		    (!oh__known(whole.gpu[i].numa_node.from) ||
		     machine->gpu[i].numa_node.value !=
			     whole.gpu[i].numa_node.value))
			return false;
	return true;
}

static void try_text(const char *what, const char *text, size_t bytes,
		     bool nodes)
{
	read_report("report.txt", text, bytes, &reading);
	tried++;
	if (reading.status) {
		refused++;
		return;
	}
	if (links_hold(&reading.machine) &&
	    (!nodes || nodes_hold(&reading.machine)))
		return;
	if (!wrong++)
		tap_note("%s is read wrongly:\n%.*s", what,
			 bytes < 3000 ? (int)bytes : 3000, text);
}

static void begin(void)
{
	tried = refused = wrong = 0;
}

static void end(const char *name, const char *what)
{
	tap_ok(!wrong, "%s, %s: %d texts, %d refused, %d read wrongly", name,
	       what, tried, refused, wrong);
}

/* Tabs become blanks, as a terminal shows them. */
static size_t expand(const char *text, char *out)
{
	size_t used = 0, column = 0;

	for (; *text && used < TEXT_BYTES - 16; text++) {
		if (*text == '\t') {
			do
				out[used++] = ' ';
			while (++column % 8);
			continue;
		}
		out[used++] = *text;
		column = *text == '\n' ? 0 : column + 1;
	}
	out[used] = '\0';
	return used;
}

/* Ends every line after a number of columns, or at the blank before that. */
static size_t wrap(const char *text, size_t width, bool at_blanks, char *out)
{
	size_t used = 0, begin_of_line = 0;

	for (; *text && used < TEXT_BYTES - 2; text++) {
		if (*text != '\n' && used - begin_of_line == width) {
			size_t cut = used;

			while (at_blanks && cut > begin_of_line + 1 &&
			       out[cut] != ' ' && out[cut - 1] != ' ')
				cut--;
			if (cut == begin_of_line + 1)
				cut = used;
			memmove(out + cut + 1, out + cut, used - cut);
			out[cut] = '\n';
			used++;
			begin_of_line = cut + 1;
		}
		out[used++] = *text;
		if (*text == '\n')
			begin_of_line = used;
	}
	out[used] = '\0';
	return used;
}

static void try_widths(const char *name, const char *text)
{
	static char plain[TEXT_BYTES], wrapped[TEXT_BYTES];

	expand(text, plain);
	begin();
	for (size_t width = 30; width < 200; width++)
		try_text("a text broken within words", wrapped,
			 wrap(plain, width, false, wrapped), true);
	end(name, "broken within words");
	begin();
	for (size_t width = 30; width < 200; width++)
		try_text("a text broken between words", wrapped,
			 wrap(plain, width, true, wrapped), true);
	end(name, "broken between words");
}

/* A node that is cut, 1 of 12, cannot be told: only links count here. */
static void try_cuts(const char *name, const char *text)
{
	size_t bytes = strlen(text), step = 1 + bytes / 4000;

	begin();
	for (size_t i = 0; i < bytes; i += step)
		try_text("a text that is cut", text, i, false);
	end(name, "cut");
}

/* A copy of text in which the cell at "at" is what "with" says. */
static void try_cell(const char *text, const char *at, size_t length,
		     const char *with)
{
	static char changed[TEXT_BYTES];
	int bytes = snprintf(changed, sizeof(changed), "%.*s%s%s",
			     (int)(at - text), text, with, at + length);

	try_text(with, changed, (size_t)bytes, false);
}

/* Cells of rows "GPUN ..." of links: their text is one of nvidia-smi's words
 * and two of these do not stand in a legend's line. */
static bool is_row(const char *line)
{
	return !strncmp(line, "GPU", 3) && line[3] >= '0' && line[3] <= '9' &&
	       (strstr(line, " X ") || strstr(line, "\tX\t"));
}

static size_t link_length(const char *text)
{
	static const char *const words[] = {"PIX",  "PXB", "PHB",
					    "NODE", "SYS", "X"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strncmp(text, words[i], strlen(words[i])))
			return strlen(words[i]);
	return strncmp(text, "NV", 2) ? 0 : 2 + strspn(text + 2, "0123456789");
}

static void try_row(const char *text, const char *row, bool doubled)
{
	size_t end = strcspn(row, "\n");
	char with[64];

	for (const char *at = row + 4; at < row + end; at++) {
		size_t length = link_length(at);

		if (!length || (at[-1] != ' ' && at[-1] != '\t'))
			continue;
		if (doubled) {
			snprintf(with, sizeof(with), "%.*s\t%.*s", (int)length,
				 at, (int)length, at);
			try_cell(text, at, length, with);
			continue;
		}
		try_cell(text, at, length, "");
		/* one row alone says so: the other direction contradicts it */
		try_cell(text, at, length, "PXB");
		try_cell(text, at, length, "NV2");
		try_cell(text, at, length, "X");
		try_cell(text, at, length, "N/A");
		try_cell(text, at, length, "OK");
	}
}

static void try_cells(const char *name, const char *text)
{
	for (int doubled = 0; doubled < 2; doubled++) {
		begin();
		for (const char *row = text; *row;) {
			if (is_row(row))
				try_row(text, row, doubled);
			row += strcspn(row, "\n");
			row += *row == '\n';
		}
		end(name,
		    doubled ? "a cell doubled" : "a cell lost or changed");
	}
}

/* A line less, a line twice, two lines in another order. */
static void try_lines(const char *name, const char *text)
{
	static char changed[TEXT_BYTES];

	begin();
	for (const char *line = text; *line;) {
		size_t length = strcspn(line, "\n"), bytes;
		int before = (int)(line - text);
		const char *next = line + length + (line[length] == '\n');

		bytes = (size_t)snprintf(changed, sizeof(changed), "%.*s%s",
					 before, text, next);
		try_text("a text without a line", changed, bytes, true);
		bytes = (size_t)snprintf(changed, sizeof(changed),
					 "%.*s%.*s\n%s", before, text,
					 (int)length, line, line);
		try_text("a text with a line twice", changed, bytes, true);
		line = next;
	}
	end(name, "a line lost or doubled");
}

static void try_file(const char *room, const char *name, const char *file)
{
	char path[512];
	size_t bytes = 0;
	char *text;

	snprintf(path, sizeof(path), "tests/%s/%s/%s", room, name, file);
	text = read_tree_file(path, &bytes);
	if (!text || bytes > TEXT_BYTES / 2)
		tap_skip(name, "no text, or a long one");
	else {
		read_report(file, text, bytes, &reading);
		whole = reading.machine;
		if (!reading.status && whole.gpus > 1) {
			try_widths(name, text);
			try_cuts(name, text);
			try_cells(name, text);
			try_lines(name, text);
		}
	}
	free(text);
}

static void try_room(const char *room, const char *file)
{
	const char *source = getenv("SOURCE");
	struct dirent **entries;
	char path[512];
	int count;

	snprintf(path, sizeof(path), "%s/tests/%s", source ? source : ".",
		 room);
	count = scandir(path, &entries, NULL, alphasort);
	tap_ok(count > 2, "tests/%s has texts", room);
	for (int i = 0; i < count; i++) {
		if (entries[i]->d_name[0] != '.')
			try_file(room, entries[i]->d_name, file);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

int main(void)
{
	oh_set_log(OH_LOG_OFF, NULL, NULL);
	try_room("cases", "report.txt");
	try_room("reports", "input.txt");
	return tap_done();
}
