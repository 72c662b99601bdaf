/* SPDX-License-Identifier: MIT */
/*
 * The end of a matrix: every column must have its row, "X" must stand on the
 * diagonal, and links must be the same both ways. So a cell that was lost or
 * doubled is found, also where NIC columns beside the GPU columns are damaged.
 * What an earlier matrix of the text said must be said again, or not at all.
 */
#include "machine/report_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void remark(struct oh__report *report, const char *text)
{
	struct oh__from from = {report->from.source,
				report->matrix.header_line};

	oh__machine_remark(&report->machine, from, "%s", text);
}

void oh__matrix_fail(struct oh__report *report, uint32_t line,
		     const char *format, ...)
{
	char text[320];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	oh__report_fail(report, OH_ERR_INVALID,
			"%s:%u: %s; paste the whole matrix as nvidia-smi "
			"prints it",
			report->machine.sources[0], line, text);
}

int oh__column_of(const struct oh__header *header, int label)
{
	for (int i = 0; i < header->gpus; i++)
		if (header->label[i] == label)
			return i;
	return -1;
}

bool oh__report_check_header(struct oh__report *report)
{
	const struct oh__header *header = &report->matrix.header;
	uint32_t line = report->matrix.header_line;

	if (header->gpus > OH__GPUS) {
		oh__matrix_fail(report, line,
				"the matrix has %d GPUs, %d at most are read",
				header->gpus, OH__GPUS);
		return false;
	}
	for (int i = 0; i < header->gpus; i++) {
		if (oh__column_of(header, header->label[i]) != i) {
			oh__matrix_fail(report, line,
					"column GPU%d is there twice",
					header->label[i]);
			return false;
		}
		if (oh__column_of(header, i) < 0) {
			oh__matrix_fail(report, line,
					"the header has %d GPU columns, but "
					"column GPU%d "
					"is missing",
					header->gpus, i);
			return false;
		}
	}
	return true;
}

/* "GPU2, GPU5 to GPU15" */
static void list_missing(const struct oh__matrix *matrix, char *text,
			 size_t bytes)
{
	const struct oh__header *header = &matrix->header;
	size_t used = 0;

	*text = '\0';
	for (int i = 0; i < header->gpus && used < bytes; i++) {
		int last = i;

		if (matrix->row_line[i])
			continue;
		while (last + 1 < header->gpus && !matrix->row_line[last + 1])
			last++;
		used += (size_t)snprintf(text + used, bytes - used, "%sGPU%d",
					 used ? ", " : "", header->label[i]);
		if (last > i && used < bytes)
			used += (size_t)snprintf(text + used, bytes - used,
						 " to GPU%d",
						 header->label[last]);
		i = last;
	}
}

static bool check_rows(struct oh__report *report)
{
	struct oh__matrix *matrix = &report->matrix;
	char missing[160];
	int rows = 0;

	for (int i = 0; i < matrix->header.gpus; i++)
		rows += matrix->row_line[i] != 0;
	if (rows == matrix->header.gpus)
		return true;
	list_missing(matrix, missing, sizeof(missing));
	oh__matrix_fail(
		report, matrix->header_line,
		"the matrix is cut: the header has %d GPU columns, %d rows are "
		"there, missing: %s",
		matrix->header.gpus, rows, missing);
	return false;
}

static bool check_diagonal(struct oh__report *report)
{
	struct oh__matrix *matrix = &report->matrix;
	const struct oh__header *header = &matrix->header;
	char text[8];

	for (int i = 0; i < header->gpus; i++) {
		for (int j = 0; j < header->gpus; j++) {
			if (matrix->cell[i][j].self == (i == j))
				continue;
			oh__matrix_fail(
				report, matrix->row_line[i],
				"row GPU%d, column GPU%d: '%s' stands there, X "
				"belongs to GPU%d's own column: a cell is lost "
				"or "
				"doubled",
				header->label[i], header->label[j],
				oh__cell_text(&matrix->cell[i][j], text),
				header->label[i]);
			return false;
		}
	}
	return true;
}

static bool check_symmetry(struct oh__report *report)
{
	struct oh__matrix *matrix = &report->matrix;
	const struct oh__header *header = &matrix->header;

	for (int i = 0; i < header->gpus; i++) {
		for (int j = 0; j < i; j++) {
			const struct oh__cell *a = &matrix->cell[j][i];
			const struct oh__cell *b = &matrix->cell[i][j];
			char a_text[8], b_text[8];

			if (!memcmp(a, b, sizeof(*a)))
				continue;
			oh__matrix_fail(report, matrix->row_line[i],
					"row GPU%d, column GPU%d says %s, but "
					"row GPU%d, "
					"column GPU%d says %s in line %u",
					header->label[i], header->label[j],
					oh__cell_text(b, b_text),
					header->label[j], header->label[i],
					oh__cell_text(a, a_text),
					matrix->row_line[j]);
			return false;
		}
	}
	return true;
}

/* Two matrices of one text are of one machine. */
static bool check_count(struct oh__report *report)
{
	const struct oh__matrix *matrix = &report->matrix;
	const struct oh__from *seen = &report->machine.link[0][0].from;

	if (!oh__known(*seen) || report->machine.gpus == matrix->header.gpus)
		return true;
	oh__matrix_fail(
		report, matrix->header_line,
		"this matrix has %d GPUs, the one that ends in line %u has %d",
		matrix->header.gpus, seen->line, report->machine.gpus);
	return false;
}

static void contradict(struct oh__report *report, int from, int to,
		       const char *what, struct oh__from other)
{
	const struct oh__matrix *matrix = &report->matrix;
	char text[8];

	oh__matrix_fail(report, matrix->row_line[from],
			"row GPU%d, column GPU%d says %s, line %u said %s",
			matrix->header.label[from], matrix->header.label[to],
			oh__cell_text(&matrix->cell[from][to], text),
			other.line, what);
}

static bool store_link(struct oh__report *report, int from, int to)
{
	const struct oh__matrix *matrix = &report->matrix;
	const struct oh__cell *cell = &matrix->cell[from][to];
	struct oh__link *link =
		&report->machine.link[matrix->header.label[from]]
				     [matrix->header.label[to]];
	enum oh__link_kind kind =
		cell->self ? OH__LINK_SELF : (enum oh__link_kind)cell->value;
	char text[8];

	if (oh__known(link->from) &&
	    (link->kind != kind || link->nvlinks != cell->nvlinks)) {
		contradict(report, from, to, oh__link_text(link, text),
			   link->from);
		return false;
	}
	link->from = report->from;
	link->from.line = matrix->row_line[from];
	link->kind = kind;
	link->nvlinks = cell->nvlinks;
	return true;
}

static bool store_peer(struct oh__report *report, unsigned int aspects,
		       int from, int to)
{
	const struct oh__matrix *matrix = &report->matrix;
	enum oh__peer_status status =
		(enum oh__peer_status)matrix->cell[from][to].value;

	for (int aspect = 0; aspect < OH__PEER_ASPECTS; aspect++) {
		struct oh__peer *peer =
			&report->machine
				 .peer[aspect][matrix->header.label[from]]
				      [matrix->header.label[to]];

		if (from == to || !(aspects >> aspect & 1))
			continue;
		if (oh__known(peer->from) && peer->status != status) {
			contradict(report, from, to,
				   oh__peer_status_text(peer->status),
				   peer->from);
			return false;
		}
		peer->from = report->from;
		peer->from.line = matrix->row_line[from];
		peer->status = status;
	}
	return true;
}

/* The command that stood above the matrix, which is used up by that. */
static bool take_announcement(struct oh__matrix *matrix, bool *pci,
			      unsigned int *aspects)
{
	for (int i = 0; i < matrix->announced; i++) {
		if (matrix->announce[i].links == matrix->peer)
			continue;
		*pci = matrix->announce[i].pci;
		*aspects = matrix->announce[i].aspects;
		matrix->announced -= i + 1;
		memmove(matrix->announce, matrix->announce + i + 1,
			(size_t)matrix->announced * sizeof(*matrix->announce));
		return true;
	}
	return false;
}

static void store_affinity(struct oh__report *report)
{
	const struct oh__matrix *matrix = &report->matrix;

	for (int i = 0; i < matrix->header.gpus; i++) {
		struct oh__gpu *gpu =
			&report->machine.gpu[matrix->header.label[i]];

		if (oh__known(matrix->cpu[i].from))
			gpu->cpu_affinity = matrix->cpu[i];
		if (oh__known(matrix->numa[i].from))
			gpu->numa_node = matrix->numa[i];
	}
}

static void remark_glued(struct oh__report *report, const char *word)
{
	char text[OH__TEXT_BYTES];

	snprintf(text, sizeof(text),
		 "columns of the matrix are glued together (%s); they were "
		 "told apart",
		 word);
	remark(report, text);
}

/* Cells into the machine, if what they say is known. */
static bool store_cells(struct oh__report *report)
{
	struct oh__matrix *matrix = &report->matrix;
	unsigned int aspects = 0;
	bool pci = false, ok = true;
	bool announced = take_announcement(matrix, &pci, &aspects);

	if (matrix->peer && !announced)
		remark(report,
		       "a matrix of peer statuses without its command: "
		       "what was asked (r, w, n, a) is not known, it is "
		       "left out");
	if (pci)
		remark(report, "topo -mp does not show NVLinks; its links are "
			       "left out");
	for (int i = 0; ok && !pci && i < matrix->header.gpus; i++)
		for (int j = 0; ok && j < matrix->header.gpus; j++)
			ok = matrix->peer ? store_peer(report, aspects, i, j)
					  : store_link(report, i, j);
	return ok;
}

static void store_remarks(struct oh__report *report)
{
	const struct oh__matrix *matrix = &report->matrix;

	if (*matrix->header.glued)
		remark_glued(report, matrix->header.glued);
	else if (*matrix->glued)
		remark_glued(report, matrix->glued);
	if (matrix->nics_damaged)
		remark(report, "NIC columns do not fit the header; they were "
			       "left out");
	if (matrix->tail_damaged)
		remark(report, "affinity columns do not fit the header; they "
			       "were left out");
}

static void store(struct oh__report *report)
{
	struct oh__matrix *matrix = &report->matrix;

	if (!check_count(report) || !store_cells(report))
		return;
	if (report->machine.gpus < matrix->header.gpus)
		report->machine.gpus = matrix->header.gpus;
	report->found = true;
	store_affinity(report);
	store_remarks(report);
}

static void forget_matrix(struct oh__matrix *matrix)
{
	matrix->state = OH__MATRIX_NONE;
	matrix->open = -1;
	matrix->firm = matrix->kind_known = matrix->peer = false;
	matrix->nics_damaged = matrix->tail_damaged = false;
	*matrix->glued = '\0';
	memset(matrix->row_line, 0, sizeof(matrix->row_line));
	memset(matrix->cell, 0, sizeof(matrix->cell));
	memset(matrix->cpu, 0, sizeof(matrix->cpu));
	memset(matrix->numa, 0, sizeof(matrix->numa));
}

void oh__report_close_matrix(struct oh__report *report)
{
	struct oh__matrix *matrix = &report->matrix;

	if (matrix->state == OH__MATRIX_NONE)
		return;
	if (matrix->state == OH__MATRIX_HEADER && !matrix->firm) {
		forget_matrix(matrix);
		return;
	}
	oh__report_close_row(report);
	if (!report->status && oh__report_check_header(report) &&
	    check_rows(report) && check_diagonal(report) &&
	    (matrix->peer || check_symmetry(report)))
		store(report);
	forget_matrix(matrix);
}
