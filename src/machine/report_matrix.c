/* SPDX-License-Identifier: MIT */
/*
 * The matrices of nvidia-smi topo -m and topo -p2p. A header line opens one, a
 * row is known by its label, and other text between them is passed over. A row
 * that a terminal has broken is put together with the lines below it if that
 * can be done in one way only; so is a header. What the matrix says is checked
 * and kept at its end (report_store.c).
 */
#include "machine/report_private.h"

#include <stdio.h>
#include <string.h>

#define GAP " \t|" /* between columns */

/* --- rows --- */

/* A row is whole when each column has its cell and its affinity. */
static bool is_exact(const struct oh__header *header, const struct oh__row *row)
{
	return !*row->bad && row->cells == header->gpus + header->nics &&
	       row->words == header->affinities;
}

static bool same_cells(const struct oh__header *header, const struct oh__row *a,
		       const struct oh__row *b)
{
	return a->cells == b->cells &&
	       !memcmp(a->cell, b->cell,
		       (size_t)header->gpus * sizeof(*a->cell));
}

static bool is_list(const char *text, size_t bytes)
{
	bool digit = false;

	for (size_t i = 0; i < bytes; i++) {
		if (!strchr("0123456789,-", text[i]))
			return false;
		digit |= text[i] >= '0' && text[i] <= '9';
	}
	return digit;
}

/* One cell of the affinity columns. "N/A" and ranges of nodes stay unknown. */
static void set_affinity(struct oh__report *report, int row,
			 enum oh__affinity affinity, const char *text,
			 size_t bytes)
{
	struct oh__matrix *matrix = &report->matrix;
	const char *end = text;
	uint64_t node;

	if (affinity == OH__AFFINITY_CPU && is_list(text, bytes))
		oh__text_set(&matrix->cpu[row], report->from, text, bytes);
	if (affinity == OH__AFFINITY_NUMA && bytes <= 4 &&
	    oh__read_number(&end, &node) && end == text + bytes)
		oh__number_set(&matrix->numa[row], report->from, node);
}

/* nvidia-smi ends each of these cells by a tab, also an empty one. */
static void take_tail_by_tabs(struct oh__report *report, int row,
			      const char *tail)
{
	const struct oh__header *header = &report->matrix.header;

	for (int i = 0; i < header->affinities && *tail; i++) {
		size_t length = strcspn(tail, "\t");
		const char *text = tail;
		size_t bytes = oh__trimmed(text, length);

		while (bytes && *text == ' ') {
			text++;
			bytes--;
		}
		set_affinity(report, row, header->affinity[i], text, bytes);
		tail += length + (tail[length] == '\t');
	}
}

/* In a line without tabs a word belongs to the column that it begins at. One
 * that reaches into the next column is two that lost the blank between. */
static void take_tail_by_place(struct oh__report *report, int row,
			       const char *line, const char *tail)
{
	const struct oh__header *header = &report->matrix.header;

	for (tail += strspn(tail, GAP); *tail; tail += strspn(tail, GAP)) {
		size_t length = oh__tail_word(tail);
		int at = (int)(tail - line), end = at + (int)length;

		for (int i = 0; i < header->affinities; i++) {
			bool fits = i + 1 == header->affinities ||
				    end < header->affinity_at[i + 1];

			if (header->affinity_at[i] != at)
				continue;
			report->matrix.tail_damaged |= !fits;
			if (fits)
				set_affinity(report, row, header->affinity[i],
					     tail, length);
		}
		tail += length;
	}
}

/*
 * The affinity columns. As many words as columns leave no doubt; of fewer,
 * where some are blank, only those count whose place tells the column, which
 * it does in a line that is "whole" as it was printed.
 */
static void take_tail(struct oh__report *report, int row, const char *text,
		      const struct oh__row *parsed, bool whole)
{
	struct oh__matrix *matrix = &report->matrix;
	const struct oh__header *header = &matrix->header;
	const char *tail = text + parsed->tail_at, *gap = tail;

	if (parsed->words > header->affinities) {
		matrix->tail_damaged |= header->affinities > 0;
		return;
	}
	if (parsed->words == header->affinities) {
		for (int i = 0; i < parsed->words; i++) {
			size_t length;

			tail += strspn(tail, GAP);
			length = oh__tail_word(tail);
			set_affinity(report, row, header->affinity[i], tail,
				     length);
			tail += length;
		}
		return;
	}
	/* back over the blanks in front, to the end of the last cell */
	while (gap > text && oh__is_blank(gap[-1]))
		gap--;
	if (strchr(gap, '\t')) {
		gap += strcspn(gap, "\t") + 1;
		take_tail_by_tabs(report, row, gap);
	} else if (whole && !header->tabs) {
		take_tail_by_place(report, row, report->line, tail);
	}
}

/* "row GPU1, column GPU2", where the first cell is missing or wrong */
static void fail_row(struct oh__report *report, int row, uint32_t line,
		     const struct oh__row *parsed)
{
	const struct oh__header *header = &report->matrix.header;
	int label = header->label[row];

	if (*parsed->bad)
		oh__matrix_fail(report, line,
				"row GPU%d, column GPU%d: '%s' is no link or "
				"status (%d "
				"of %d cells are there)",
				label, header->label[parsed->cells],
				parsed->bad, parsed->cells, header->gpus);
	else
		oh__matrix_fail(
			report, line,
			"row GPU%d is cut: column GPU%d is missing (%d of %d "
			"cells are there)",
			label, header->label[parsed->cells], parsed->cells,
			header->gpus);
}

/* All cells of a matrix are links, or all are statuses. */
static bool check_kind(struct oh__report *report, int row, int column,
		       const struct oh__cell *cell)
{
	struct oh__matrix *matrix = &report->matrix;
	char text[8];

	if (cell->self)
		return true;
	if (!matrix->kind_known) {
		matrix->kind_known = true;
		matrix->peer = cell->peer;
	}
	if (matrix->peer == cell->peer)
		return true;
	oh__matrix_fail(report, report->from.line,
			"row GPU%d, column GPU%d: '%s' does not belong into a "
			"matrix of "
			"%s",
			matrix->header.label[row], matrix->header.label[column],
			oh__cell_text(cell, text),
			matrix->peer ? "peer statuses" : "links");
	return false;
}

/* Keeps a row whose GPU columns are all there. */
static void store_row(struct oh__report *report, int row,
		      const struct oh__row *parsed)
{
	struct oh__matrix *matrix = &report->matrix;
	const struct oh__header *header = &matrix->header;
	size_t bytes = (size_t)header->gpus * sizeof(*parsed->cell);

	for (int i = 0; i < header->gpus; i++)
		if (!check_kind(report, row, i, &parsed->cell[i]))
			return;
	if (matrix->row_line[row] &&
	    memcmp(matrix->cell[row], parsed->cell, bytes)) {
		oh__matrix_fail(
			report, report->from.line,
			"row GPU%d differs from the same row in line %u",
			header->label[row], matrix->row_line[row]);
		return;
	}
	memcpy(matrix->cell[row], parsed->cell, bytes);
	matrix->row_line[row] = report->from.line;
	if (!*matrix->glued)
		memcpy(matrix->glued, parsed->glued, sizeof(matrix->glued));
}

/* Too many cells without NIC columns can only be too many GPU cells. */
static bool fits(struct oh__report *report, int row,
		 const struct oh__row *parsed)
{
	const struct oh__header *header = &report->matrix.header;

	if (parsed->cells == header->gpus + header->nics)
		return true;
	if (!header->nics && parsed->cells > header->gpus) {
		oh__matrix_fail(report, report->from.line,
				"row GPU%d has %d cells, the header has %d GPU "
				"columns up "
				"to GPU%d",
				header->label[row], parsed->cells, header->gpus,
				header->label[header->gpus - 1]);
		return false;
	}
	return true;
}

/* The row is over: what has not come by now is missing. */
void oh__report_close_row(struct oh__report *report)
{
	struct oh__matrix *matrix = &report->matrix;
	const struct oh__header *header = &matrix->header;
	int row = matrix->open;
	struct oh__row parsed;

	if (row < 0)
		return;
	matrix->open = -1;
	oh__row_parse(matrix->open_text, header, &parsed);
	if (parsed.cells < header->gpus)
		fail_row(report, row, matrix->open_line, &parsed);
	else if (parsed.cells != header->gpus + header->nics)
		matrix->nics_damaged = true;
}

/* text begins behind the label. */
static void take_row(struct oh__report *report, int row, const char *text)
{
	struct oh__matrix *matrix = &report->matrix;
	const struct oh__header *header = &matrix->header;
	struct oh__row parsed;

	oh__report_close_row(report);
	matrix->state = OH__MATRIX_ROWS;
	oh__row_parse(text, header, &parsed);
	if (*parsed.bad && !parsed.bad_is_last) {
		fail_row(report, row, report->from.line, &parsed);
		return;
	}
	if (!fits(report, row, &parsed))
		return;
	if (parsed.cells >= header->gpus) {
		store_row(report, row, &parsed);
		take_tail(report, row, text, &parsed, true);
	}
	if (is_exact(header, &parsed))
		return;
	matrix->open = row;
	matrix->misses = 0;
	matrix->open_line = report->from.line;
	snprintf(matrix->open_text, sizeof(matrix->open_text), "%s", text);
}

/* --- lines that go on --- */

/* The line without a prefix; blanks in front stay. */
static const char *continuation(const struct oh__report *report)
{
	const char *body = oh__line_body(report->line);

	return body == oh__skip_blanks(report->line) ? report->line : body;
}

struct joined {
	char text[OH__ROW_BYTES + 1];
	struct oh__row row;
	bool valid;
};

/* A terminal breaks a line anywhere, a mail program between words. */
static void join(const struct oh__matrix *matrix, const char *between,
		 const char *line, struct joined *joined)
{
	int length = snprintf(joined->text, sizeof(joined->text), "%s%s%s",
			      matrix->open_text, between, line);

	joined->valid = length >= 0 && length < (int)sizeof(joined->text);
	oh__row_parse(joined->text, &matrix->header, &joined->row);
	if (*joined->row.bad && !joined->row.bad_is_last)
		joined->valid = false;
	if (joined->row.cells > matrix->header.gpus + matrix->header.nics ||
	    joined->row.words > matrix->header.affinities)
		joined->valid = false;
}

/* Which of two ways to put a row together is right; NULL if neither is. */
static const struct joined *choose(struct oh__report *report,
				   const struct joined *spaced,
				   const struct joined *direct)
{
	const struct oh__matrix *matrix = &report->matrix;
	const struct oh__header *header = &matrix->header;
	bool a = spaced->valid, b = direct->valid;

	if (is_exact(header, &spaced->row) || is_exact(header, &direct->row)) {
		a = is_exact(header, &spaced->row);
		b = is_exact(header, &direct->row);
	}
	if (a && b && !same_cells(header, &spaced->row, &direct->row)) {
		oh__matrix_fail(
			report, matrix->open_line,
			"row GPU%d is broken in a way that can be read as two",
			header->label[matrix->open]);
		return NULL;
	}
	if (a)
		return spaced;
	return b ? direct : NULL;
}

/* The open row goes on with this line, or the line is none of the row's. */
static bool continue_row(struct oh__report *report)
{
	static _Thread_local struct joined spaced, direct;
	struct oh__matrix *matrix = &report->matrix;
	const struct oh__header *header = &matrix->header;
	int row = matrix->open;
	const struct joined *chosen;

	join(matrix, " ", continuation(report), &spaced);
	join(matrix, "", continuation(report), &direct);
	chosen = choose(report, &spaced, &direct);
	if (!chosen || report->status)
		return false;
	/* behind the GPU columns nothing forces a line to be a row's */
	if (matrix->row_line[row] && !is_exact(header, &chosen->row))
		return false;
	if (chosen->row.cells >= header->gpus) {
		store_row(report, row, &chosen->row);
		take_tail(report, row, chosen->text, &chosen->row, false);
	}
	memcpy(matrix->open_text, chosen->text, sizeof(matrix->open_text));
	if (is_exact(header, &chosen->row))
		matrix->open = -1;
	return true;
}

static bool labels_are_distinct(const struct oh__header *header)
{
	for (int i = 0; i < header->gpus; i++)
		if (oh__column_of(header, header->label[i]) != i)
			return false;
	return true;
}

/* A header that was broken, and the line behind it; "cut" if a line more must
 * follow. */
static bool join_header(struct oh__report *report, const char *between,
			bool cut)
{
	struct oh__matrix *matrix = &report->matrix;
	char text[OH__ROW_BYTES + 2];
	struct oh__header header;

	snprintf(text, sizeof(text), "%s%s%s", matrix->header_text, between,
		 continuation(report));
	if (strlen(text) > OH__LINE_BYTES || !oh__header_parse(text, &header) ||
	    header.foreign || header.cut != cut ||
	    !labels_are_distinct(&header))
		return false;
	memcpy(header.glued, matrix->header.glued, sizeof(header.glued));
	header.tabs = true; /* its places say nothing */
	matrix->header = header;
	snprintf(matrix->header_text, sizeof(matrix->header_text), "%s", text);
	matrix->firm |= header.named;
	return true;
}

/* Before any row; a header that is whole then is better than one that is not.
 */
static bool continue_header(struct oh__report *report)
{
	return join_header(report, " ", false) ||
	       join_header(report, "", false) ||
	       join_header(report, "", true) || join_header(report, " ", true);
}

/* --- headers --- */

static bool open_matrix(struct oh__report *report, const char *label)
{
	struct oh__matrix *matrix = &report->matrix;
	struct oh__header header;

	if (!oh__header_parse(label, &header) ||
	    (header.gpus == 1 && !header.affinities && !header.nics))
		return false;
	/* an unknown word behind one label is prose */
	if (header.gpus == 1 && header.foreign && !header.affinities)
		return false;
	if (matrix->state == OH__MATRIX_HEADER && continue_header(report))
		return true;
	oh__report_close_matrix(report);
	matrix->state = OH__MATRIX_HEADER;
	matrix->misses = 0;
	for (int i = 0; i < header.affinities; i++)
		header.affinity_at[i] += (int)(label - report->line);
	matrix->header = header;
	matrix->header_line = report->from.line;
	snprintf(matrix->header_text, sizeof(matrix->header_text), "%s", label);
	matrix->firm = header.named || matrix->announced > 0;
	return true;
}

/* --- which line is what --- */

static const struct oh__header two_columns = {.gpus = 2, .label = {0, 1}};

/* A line "GPU1 X NODE": cells and nothing in front of them. */
static bool is_bare_row(const char *text)
{
	struct oh__row row;
	bool self = false;

	oh__row_parse(text, &two_columns, &row);
	for (int i = 0; i < row.cells && i < OH__COLUMNS; i++)
		self |= row.cell[i].self;
	return row.cells >= 2 && self;
}

/* How many words of a line are cells, wherever they stand; two is enough. */
static int count_cells(const char *text)
{
	int count = 0;

	for (int i = 0; i < OH__WORDS && count < 2; i++) {
		size_t length;

		text += strspn(text, " \t|");
		length = strcspn(text, " \t|");
		count += oh__are_cells(text, length);
		text += length;
	}
	return count;
}

/* A cell behind the label, or nothing yet. */
static bool begins_row(const struct oh__matrix *matrix, int column,
		       const char *text)
{
	struct oh__row row;

	if (!*text)
		return matrix->firm && !matrix->row_line[column];
	oh__row_parse(text, &two_columns, &row);
	return row.cells > 0;
}

/* A row of the open matrix, or prose that names one of its GPUs. */
static bool take_labelled(struct oh__report *report, int label,
			  const char *text)
{
	struct oh__matrix *matrix = &report->matrix;
	int column = oh__column_of(&matrix->header, label), cells;

	cells = count_cells(text);
	if (column < 0) {
		if (!is_bare_row(text))
			return false;
		oh__matrix_fail(report, report->from.line,
				"row GPU%d has no column in the header of line "
				"%u",
				label, matrix->header_line);
		return true;
	}
	if (cells < 2 && !begins_row(matrix, column, text)) {
		if (matrix->state == OH__MATRIX_HEADER && !matrix->firm)
			matrix->state = OH__MATRIX_NONE;
		return false;
	}
	if (matrix->state == OH__MATRIX_HEADER &&
	    !oh__report_check_header(report))
		return true;
	take_row(report, column, text);
	return true;
}

/* "NIC0" or "mlx5_0" and cells. */
static bool is_nic_row(const char *body)
{
	return (!strncmp(body, "NIC", 3) || !strncmp(body, "mlx", 3)) &&
	       count_cells(body + strcspn(body, " \t")) > 0;
}

/* A part of what is broken. After many lines that are none it is over. */
static bool take_part(struct oh__report *report)
{
	struct oh__matrix *matrix = &report->matrix;
	bool header = matrix->state == OH__MATRIX_HEADER;

	if (matrix->misses == OH__MISSES || (!header && matrix->open < 0))
		return false;
	if (header ? continue_header(report) : continue_row(report)) {
		matrix->misses = 0;
		return true;
	}
	if (++matrix->misses == OH__MISSES && !header)
		oh__report_close_row(report);
	return false;
}

static bool take_unlabelled(struct oh__report *report)
{
	struct oh__matrix *matrix = &report->matrix;
	const char *body = oh__line_body(report->line);

	if (matrix->state == OH__MATRIX_HEADER)
		return take_part(report);
	if (!strncmp(body, "Legend", 6)) {
		oh__report_close_matrix(report);
		return true;
	}
	if (is_nic_row(body)) {
		oh__report_close_row(report);
		return true;
	}
	return take_part(report);
}

/* A row quoted from a matrix further up: it says what is known already. */
static bool is_repeated(const struct oh__report *report, int gpu,
			const char *text)
{
	const struct oh__machine *machine = &report->machine;
	const struct oh__header header = {.gpus = machine->gpus};
	struct oh__row row;

	oh__row_parse(text, &header, &row);
	if (gpu >= machine->gpus || row.cells < machine->gpus)
		return false;
	for (int i = 0; i < machine->gpus; i++) {
		const struct oh__link *link = &machine->link[gpu][i];
		const struct oh__cell *cell = &row.cell[i];

		if (cell->peer || cell->nvlinks != link->nvlinks ||
		    link->kind != (cell->self ? OH__LINK_SELF : cell->value))
			return false;
	}
	return true;
}

/* What follows a label in a header. */
static bool is_column(const char *text)
{
	return !*text || !strncmp(text, "GPU", 3) || !strncmp(text, "NIC", 3) ||
	       !strncmp(text, "mlx", 3) || !strncmp(text, "CPU ", 4);
}

bool oh__report_take_matrix(struct oh__report *report)
{
	struct oh__matrix *matrix = &report->matrix;
	const char *behind, *label;
	int number;

	label = oh__find_label(report->line, &number, &behind);
	if (!label)
		return matrix->state != OH__MATRIX_NONE &&
		       take_unlabelled(report);
	behind += strspn(behind, " \t|");
	if (is_column(behind) || !count_cells(behind)) {
		if (open_matrix(report, label))
			return true;
	}
	if (matrix->state != OH__MATRIX_NONE)
		return take_labelled(report, number, behind);
	if (!is_bare_row(behind) || is_repeated(report, number, behind))
		return false;
	oh__matrix_fail(report, report->from.line,
			"row GPU%d of a matrix has no header above it", number);
	return true;
}

/* --- commands --- */

static const struct {
	const char *word;
	unsigned int aspects;
} aspects[] = {
	{"read", 1u << OH__PEER_READ},
	{"write", 1u << OH__PEER_WRITE},
	{"nvlink", 1u << OH__PEER_NVLINK},
	{"atomics", 1u << OH__PEER_ATOMICS},
	{"atomic", 1u << OH__PEER_ATOMICS},
	{"prop", 0},
	{"r", 1u << OH__PEER_READ},
	{"w", 1u << OH__PEER_WRITE},
	{"n", 1u << OH__PEER_NVLINK},
	{"a", 1u << OH__PEER_ATOMICS},
	{"p", 0},
};

/* "r", "rw", "write" at the beginning; false if it is no such word. */
static bool read_aspects(const char *text, unsigned int *bits)
{
	*bits = 0;
	while (*text >= 'a' && *text <= 'z') {
		size_t i = 0, count = sizeof(aspects) / sizeof(*aspects);

		while (i < count &&
		       strncmp(text, aspects[i].word, strlen(aspects[i].word)))
			i++;
		if (i == count)
			return false;
		*bits |= aspects[i].aspects;
		text += strlen(aspects[i].word);
	}
	return true;
}

/* "-m", "-mp" and "--matrix" show links; -mp shows those of PCIe only. */
static bool is_matrix_option(const char *text, bool *pci)
{
	*pci = oh__begins(text, "-mp") || oh__begins(text, "--matrix_pci");
	return oh__begins(text, "-m") || oh__begins(text, "--matrix");
}

static void announce(struct oh__matrix *matrix, bool links, bool pci,
		     unsigned int bits)
{
	int room = (int)(sizeof(matrix->announce) / sizeof(*matrix->announce));

	if (matrix->announced == room)
		return;
	matrix->announce[matrix->announced].links = links;
	matrix->announce[matrix->announced].pci = pci;
	matrix->announce[matrix->announced++].aspects = bits;
}

/*
 * Commands of one line, or of lines without anything between, announce as many
 * matrices. Others take the place of those that had no output.
 */
void oh__report_take_command(struct oh__report *report)
{
	struct oh__matrix *matrix = &report->matrix;
	const char *at = strstr(report->line, "topo");
	bool first = true;

	for (; at; at = strstr(at, "topo")) {
		unsigned int bits = 0;
		bool links, pci;

		at = oh__skip_blanks(at + 4);
		links = is_matrix_option(at, &pci);
		if (!links && (strncmp(at, "-p2p", 4) || !oh__is_blank(at[4]) ||
			       !read_aspects(oh__skip_blanks(at + 4), &bits)))
			continue;
		if (first) {
			oh__report_close_matrix(report);
			if (!matrix->announced_by_last_line)
				matrix->announced = 0;
		}
		first = false;
		announce(matrix, links, pci, bits);
	}
	matrix->announced_by_last_line = !first;
}
