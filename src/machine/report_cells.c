/* SPDX-License-Identifier: MIT */
/*
 * The words of a matrix: what a header's columns are called and what a row's
 * cells say. Columns that lost the blank between them ("NIC8NIC9", "NODEPXB")
 * are told apart where that can be done in one way only: no word here begins
 * another one.
 */
#include "machine/report_private.h"

#include <stdio.h>
#include <string.h>

/* nvidia-smi's own words; SOC and PSB are those of drivers before 384. */
static const struct {
	const char *word;
	enum oh__link_kind kind;
} links[] = {
	{"PIX", OH__LINK_PIX},	 {"PXB", OH__LINK_PXB}, {"PHB", OH__LINK_PHB},
	{"NODE", OH__LINK_NODE}, {"SYS", OH__LINK_SYS}, {"SOC", OH__LINK_SYS},
	{"PSB", OH__LINK_PIX},
};

static const struct {
	const char *word;
	enum oh__peer_status status;
} peers[] = {
	{"OK", OH__PEER_OK},   {"CNS", OH__PEER_CNS}, {"GNS", OH__PEER_GNS},
	{"TNS", OH__PEER_TNS}, {"DR", OH__PEER_DR},   {"NS", OH__PEER_NS},
	{"U", OH__PEER_U},
};

/* No GPU has more NVLinks than 18; two digits are room enough. */
#define NVLINKS_MAX 99

static bool is_digit(char letter)
{
	return letter >= '0' && letter <= '9';
}

static size_t nvlink_length(const char *text, struct oh__cell *cell)
{
	const char *at = text + 2;
	uint64_t count;

	if (strncmp(text, "NV", 2) || !oh__read_number(&at, &count) || !count ||
	    count > NVLINKS_MAX)
		return 0;
	cell->value = OH__LINK_NV;
	cell->nvlinks = (uint8_t)count;
	return (size_t)(at - text);
}

/* The length of the word at the beginning, 0 if it is none. */
static size_t cell_length(const char *text, struct oh__cell *cell)
{
	memset(cell, 0, sizeof(*cell));
	if (*text == 'X') {
		cell->self = true;
		return 1;
	}
	for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++) {
		size_t length = strlen(links[i].word);

		cell->value = (uint8_t)links[i].kind;
		if (!strncmp(text, links[i].word, length))
			return length;
	}
	cell->peer = true;
	for (size_t i = 0; i < sizeof(peers) / sizeof(*peers); i++) {
		size_t length = strlen(peers[i].word);

		cell->value = (uint8_t)peers[i].status;
		if (!strncmp(text, peers[i].word, length))
			return length;
	}
	cell->peer = false;
	return nvlink_length(text, cell);
}

bool oh__are_cells(const char *text, size_t bytes)
{
	struct oh__cell cell;
	size_t used = 0, length;

	while (used < bytes && (length = cell_length(text + used, &cell)) > 0)
		used += length;
	return bytes && used == bytes;
}

const char *oh__cell_text(const struct oh__cell *cell, char text[8])
{
	struct oh__link link = {.from = {.source = 1},
				.kind = (enum oh__link_kind)cell->value,
				.nvlinks = cell->nvlinks};

	if (cell->self)
		snprintf(text, 8, "X");
	else if (cell->peer)
		snprintf(text, 8, "%s",
			 oh__peer_status_text(
				 (enum oh__peer_status)cell->value));
	else
		oh__link_text(&link, text);
	return text;
}

static bool is_gap(char letter)
{
	/* tables in Markdown have bars between the columns */
	return oh__is_blank(letter) || letter == '|';
}

static const char *skip_gap(const char *text)
{
	while (is_gap(*text))
		text++;
	return text;
}

static size_t word_length(const char *text)
{
	size_t length = 0;

	while (text[length] && !is_gap(text[length]))
		length++;
	return length;
}

/* "GPU12" at the beginning: its length and the number, which is cut to what a
 * header may name. */
static size_t label_length(const char *text, int *number)
{
	const char *at = text + 3;
	uint64_t value;

	if (strncmp(text, "GPU", 3) || !oh__read_number(&at, &value))
		return 0;
	*number = value < 100000 ? (int)value : 100000;
	return (size_t)(at - text);
}

/* "NIC3", "mlx5_3" */
static size_t nic_length(const char *text)
{
	size_t length = 0, digits;

	if (!strncmp(text, "NIC", 3))
		length = 3;
	else if (!strncmp(text, "mlx4_", 5) || !strncmp(text, "mlx5_", 5))
		length = 5;
	digits = length;
	while (length && is_digit(text[length]))
		length++;
	return length > digits ? length : 0;
}

static const char *const affinities[] = {
	[OH__AFFINITY_CPU] = "CPU Affinity",
	[OH__AFFINITY_NUMA] = "NUMA Affinity",
	[OH__AFFINITY_GPU_NUMA] = "GPU NUMA ID",
};

/* Tables that people make themselves say "CPU" and "NUMA". */
static const struct {
	const char *word;
	enum oh__affinity affinity;
} short_names[] = {
	{"CPU", OH__AFFINITY_CPU},
	{"NUMA", OH__AFFINITY_NUMA},
};

static size_t affinity_length(const char *text, enum oh__affinity *affinity)
{
	for (int i = 0; i < OH__AFFINITIES; i++) {
		*affinity = (enum oh__affinity)i;
		if (!strncmp(text, affinities[i], strlen(affinities[i])))
			return strlen(affinities[i]);
	}
	for (size_t i = 0; i < sizeof(short_names) / sizeof(*short_names);
	     i++) {
		size_t length = strlen(short_names[i].word);

		*affinity = short_names[i].affinity;
		if (word_length(text) == length &&
		    !memcmp(text, short_names[i].word, length))
			return length;
	}
	return 0;
}

/* The beginning of a word of these names, which a line's end has cut. */
static bool is_cut_affinity(const char *text)
{
	static const char *const words[] = {"CPU", "NUMA", "GPU", "Affinity",
					    "ID"};
	size_t length = word_length(text);

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (length <= strlen(words[i]) &&
		    !memcmp(text, words[i], length))
			return true;
	return false;
}

/* One column; 0 if this cannot be a header. */
static size_t take_column(const char *line, const char *text,
			  struct oh__header *header)
{
	enum oh__affinity affinity;
	int number;
	size_t length = affinity_length(text, &affinity);

	/* a word is cut at the end only */
	header->foreign |= header->cut;
	if (length) {
		if (header->affinities == OH__AFFINITIES)
			return 0;
		header->affinity[header->affinities] = affinity;
		header->affinity_at[header->affinities++] = (int)(text - line);
		header->named |= length > 4; /* than the short names */
		return length;
	}
	length = label_length(text, &number);
	if (length) {
		if (header->nics || header->affinities ||
		    header->gpus == OH__COLUMNS)
			return 0;
		header->label[header->gpus++] = number;
		return length;
	}
	length = nic_length(text);
	if (!length && is_cut_affinity(text)) {
		header->cut = true;
		return word_length(text);
	}
	header->foreign |= !length;
	header->nics++;
	if (header->affinities || header->cut)
		return 0;
	return length ? length : word_length(text);
}

/* The first of the words counts. */
static void note_glued(char glued[24], const char *word)
{
	if (!*glued)
		snprintf(glued, 24, "%.*s", (int)(word_length(word) & 0xff),
			 word);
}

bool oh__header_parse(const char *text, struct oh__header *header)
{
	const char *at = skip_gap(text);

	memset(header, 0, sizeof(*header));
	header->tabs = strchr(text, '\t') != NULL;
	while (*at) {
		size_t length = take_column(text, at, header);

		if (!length || !header->gpus)
			return false;
		if (at[length] && !is_gap(at[length]))
			note_glued(header->glued, at);
		at = skip_gap(at + length);
	}
	return header->gpus > 0;
}

/* Cells of a word, until one is none; gives back what is left of it. */
static const char *take_cells(const char *at, const char *end,
			      struct oh__row *row)
{
	const char *first = at;

	while (at < end) {
		struct oh__cell cell;
		size_t length = cell_length(at, &cell);

		if (!length || at + length > end)
			break;
		if (at > first)
			note_glued(row->glued, first);
		if (row->cells < OH__COLUMNS)
			row->cell[row->cells] = cell;
		if (row->cells < 2 * OH__COLUMNS)
			row->cells++;
		at += length;
	}
	if (at < end && at > first)
		note_glued(row->glued, first);
	return at;
}

static void note_bad(struct oh__row *row, const char *word, size_t length)
{
	snprintf(row->bad, sizeof(row->bad), "%.*s",
		 (int)(length < 24 ? length : 24), word);
	row->bad_is_last = !*skip_gap(word + length);
}

void oh__row_parse(const char *text, const struct oh__header *header,
		   struct oh__row *row)
{
	const char *at = skip_gap(text);

	memset(row, 0, sizeof(*row));
	while (*at) {
		size_t length = word_length(at);
		const char *left = take_cells(at, at + length, row);

		if (left < at + length) {
			if (row->cells < header->gpus)
				note_bad(row, left,
					 (size_t)(at + length - left));
			at = left;
			break;
		}
		at = skip_gap(at + length);
	}
	row->tail_at = (int)(at - text);
	for (; *at && !*row->bad; at = skip_gap(at + oh__tail_word(at)))
		row->words++;
}

/* "0N/A" are two: no other word of these columns ends so. */
size_t oh__tail_word(const char *text)
{
	size_t length = word_length(text);

	if (length > 3 && !memcmp(text + length - 3, "N/A", 3))
		length -= 3;
	return length;
}

/* Two cells or more that no gap parts from the label: "GPU0XNODE". */
static bool is_glued_row(const char *text)
{
	struct oh__cell cell;
	size_t length = cell_length(text, &cell);

	return length && cell_length(text + length, &cell);
}

/*
 * A label stands at a line's beginning or behind a gap or a prefix's sign, and
 * a gap follows it or, where columns are glued, the next name or the cells.
 */
const char *oh__find_label(const char *line, int *number, const char **behind)
{
	const char *at = line;

	while ((at = strstr(at, "GPU")) != NULL) {
		size_t length = label_length(at, number);
		const char *next = at + length;

		if (length && (at == line || is_gap(at[-1]) || at[-1] == '>') &&
		    (!*next || is_gap(*next) || !strncmp(next, "GPU", 3) ||
		     nic_length(next) || !strncmp(next, "CPU ", 4) ||
		     is_glued_row(next))) {
			*behind = next;
			return at;
		}
		at += 3;
	}
	return NULL;
}
