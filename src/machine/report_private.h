/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the report reader share. A line is cleaned once
 * (report_line.c) and offered to the parts one after the other: the matrices
 * (report_matrix.c, with report_cells.c for words and header), the lists of
 * GPUs (report_gpus.c, report_csv.c, report_query.c), the host's facts
 * (report_facts.c) and the signs of other makers' GPUs (report_foreign.c). The
 * first error is kept and ends the reading.
 */
#ifndef OH_MACHINE_REPORT_PRIVATE_H
#define OH_MACHINE_REPORT_PRIVATE_H

#include <string.h>

#include "machine/machine.h"
#include "machine/report.h"

/* A longer line is none of ours, or may be cut: a kernel's command line. */
#define OH__LINE_BYTES 4096
/* GPU columns that a header may have before it is refused. */
#define OH__COLUMNS 128
/* A row has this many lines at most when a terminal has broken it. */
#define OH__ROW_BYTES (2 * OH__LINE_BYTES)
/* Other lines between the parts of a broken one, and words of a line that are
 * looked at, before that is given up: time must not depend on the text. */
#define OH__MISSES 16
#define OH__WORDS 64
#define OH__DEVICES 64
#define OH__CSV_COLUMNS 24

/* The columns behind the GPUs and NICs. */
enum oh__affinity {
	OH__AFFINITY_CPU,
	OH__AFFINITY_NUMA,
	OH__AFFINITY_GPU_NUMA,
	OH__AFFINITIES,
};

struct oh__header {
	int gpus, nics, affinities;
	int label[OH__COLUMNS]; /* N of "GPUN", as the columns stand */
	enum oh__affinity affinity[OH__AFFINITIES];
	int affinity_at[OH__AFFINITIES]; /* their places in the line */
	bool named; /* an affinity by its whole name, which is no prose */
	bool foreign; /* a word that may be a NIC, or prose */
	bool cut; /* ends within a word */
	char glued[24]; /* a word of several columns, "" if there is none */
	bool tabs;
};

/* A cell's word. Links and peer statuses are told apart by "peer". */
struct oh__cell {
	bool peer;
	bool self; /* "X" */
	uint8_t value; /* enum oh__link_kind or enum oh__peer_status */
	uint8_t nvlinks;
};

/* A row as it was read from a line, or from several put together. */
struct oh__row {
	int cells; /* words in front of the affinity columns */
	struct oh__cell cell[OH__COLUMNS]; /* the first of them */
	char glued[24]; /* as in the header */
	/* a word within the GPU columns that is no cell's, "" if none */
	char bad[32];
	bool bad_is_last;
	int tail_at; /* where the affinity columns begin in the text */
	int words; /* in the tail */
};

enum oh__matrix_state {
	OH__MATRIX_NONE,
	OH__MATRIX_HEADER, /* and no row yet */
	OH__MATRIX_ROWS,
};

struct oh__matrix {
	enum oh__matrix_state state;
	struct oh__header header;
	char header_text[OH__LINE_BYTES + 1];
	uint32_t header_line;
	bool firm; /* an error, not prose, if no row follows */
	bool kind_known, peer;
	char glued[24];
	bool nics_damaged, tail_damaged;
	/* rows by position of their label in the header; line 0: not seen */
	uint32_t row_line[OH__GPUS];
	struct oh__cell cell[OH__GPUS][OH__GPUS];
	struct oh__text cpu[OH__GPUS];
	struct oh__number numa[OH__GPUS];
	/* the row that the next line may go on with; -1: none */
	int open;
	int misses; /* lines since then that did not fit */
	uint32_t open_line;
	char open_text[OH__ROW_BYTES + 1];
	/* which matrices have been announced by a command above them */
	int announced;
	struct {
		bool links;
		bool pci; /* links without NVLinks: topo -mp */
		unsigned int aspects; /* bits of enum oh__peer_aspect */
	} announce[8];
	bool announced_by_last_line;
};

/* Tables and lists that go over several lines. */
struct oh__lists {
	uint32_t listed; /* bits: indices in lines "GPU N: ..." */
	uint32_t tabled; /* bits: indices in nvidia-smi's table */
	uint32_t listed_line, tabled_line;
	bool section; /* below "GPU models and configuration" */
	/* bits of SGLang's list, which counts the devices that CUDA shows */
	uint32_t shown, shown_first_line, shown_last_line;
	bool shown_section; /* below "CUDA available: True" */
	int last; /* index of the last "GPU N:" line, -1: none */
	int table_gpu, table_row;
	int csv_columns, csv_row; /* 0 columns: no table of this kind */
	int csv_field[OH__CSV_COLUMNS];
	int bare_row; /* of comma separated values without a header */
	/* devices known by PCI address or order only, put to GPUs at the end */
	int devices, attached;
	struct oh__gpu device[OH__DEVICES];
	bool queried[OH__DEVICES]; /* by nvidia-smi -q; else by lspci */
	int query; /* device of nvidia-smi -q that lines belong to, -1 */
	char query_section[32];
	/* the device of lspci that lines belong to */
	bool pci_known, pci_bridge, pci_gpu;
	char pci_address[16];
};

enum oh__maker {
	OH__MAKER_NVIDIA,
	OH__MAKER_AMD,
	OH__MAKER_INTEL,
	OH__MAKER_NONE, /* a machine without GPUs */
};

struct oh__report {
	struct oh__machine machine;
	struct oh__from from; /* of the line that is read */
	bool found;
	enum oh_status status; /* of the first error, with its message */
	char message[448];
	struct oh__matrix matrix;
	struct oh__lists lists;
	bool command_line_next; /* "cat /proc/cmdline" stands above */
	bool iommu_said; /* by the kernel itself, not its command line */
	/* other makers: output of their tools, or only a hint */
	enum oh__maker maker, hint;
	uint32_t maker_line, hint_line;
	char maker_what[48], hint_what[48];
	char line[OH__LINE_BYTES + 1];
};

/* Keeps the first error. */
void oh__report_fail(struct oh__report *report, enum oh_status status,
		     const char *format, ...)
	__attribute__((format(printf, 3, 4), cold));

/* report_line.c */

/* Copies a line without escapes, carriage returns and HTML; tabs stay. */
void oh__line_clean(const char *raw, size_t bytes, char *line, size_t room);

/* Behind what docker, journald, Kubernetes, a quotation or a list put before
 * the text, and behind blanks. */
const char *oh__line_body(const char *line);

/* Most lines differ in the first letter already. */
static inline bool oh__begins(const char *text, const char *prefix)
{
	return *text == *prefix && !strncmp(text, prefix, strlen(prefix));
}

bool oh__is_blank(char letter);
const char *oh__skip_blanks(const char *text);
/* Length without blanks at the end. */
size_t oh__trimmed(const char *text, size_t bytes);
/* Decimal digits at the beginning; false without one, or if over 2^63. */
bool oh__read_number(const char **text, uint64_t *value);
/* "590.48.01", "2.6.0+cu124": the length of a version at the beginning, 0 if
 * there is none. */
size_t oh__version_length(const char *text);
/* Behind the colon of "key : value" at the beginning, or NULL. */
const char *oh__value_of(const char *text, const char *key);
/* "0000:c1:00.0" from any of nvidia-smi's and lspci's spellings at the
 * beginning; gives back the length read, 0 if there is none. */
size_t oh__read_pci(const char *text, char address[16]);
/* "NVIDIA L40S", "Tesla V100-SXM2-16GB": a product, not a sentence. */
bool oh__is_product(const char *text, size_t bytes);

/* report_cells.c */

bool oh__header_parse(const char *text, struct oh__header *header);
/* text begins behind the row's label. */
void oh__row_parse(const char *text, const struct oh__header *header,
		   struct oh__row *row);
/* The length of a word of the affinity columns at the beginning. */
size_t oh__tail_word(const char *text);
/* The first "GPUN" that stands by itself or before a column, or NULL. */
const char *oh__find_label(const char *line, int *number, const char **behind);
const char *oh__cell_text(const struct oh__cell *cell, char text[8]);
/* A word that is a cell, or several glued together. */
bool oh__are_cells(const char *text, size_t bytes);

/* report_matrix.c; true: the line was one of a matrix */

bool oh__report_take_matrix(struct oh__report *report);
/* The row that lines could still go on with is over. */
void oh__report_close_row(struct oh__report *report);
/* "nvidia-smi topo -p2p r" above a matrix says what it shows. */
void oh__report_take_command(struct oh__report *report);

/* report_store.c */

/* An error in a matrix at a line. */
void oh__matrix_fail(struct oh__report *report, uint32_t line,
		     const char *format, ...)
	__attribute__((format(printf, 3, 4), cold));
/* The place of "GPUN" in the header, -1 if it has none. */
int oh__column_of(const struct oh__header *header, int label);
/* The header's columns must be those of a machine; false after an error. */
bool oh__report_check_header(struct oh__report *report);
/* Checks and keeps what the open matrix says, if there is one. */
void oh__report_close_matrix(struct oh__report *report);

/* report_gpus.c, report_csv.c and report_query.c */

bool oh__report_take_gpus(struct oh__report *report, const char *body);
bool oh__report_take_values(struct oh__report *report, const char *body);
bool oh__report_take_query(struct oh__report *report, const char *body);
void oh__report_close_lists(struct oh__report *report);
/* "24576 MiB" at the beginning. */
bool oh__read_mib(const char *text, uint64_t *bytes);
/* nvidia-smi's words for the MIG mode: 1 is on. */
bool oh__read_mig(const char *text, uint64_t *mode);
/* "9.0" as 90. */
bool oh__read_capability(const char *text, uint64_t *capability);
/* The GPU of an index, counted from now on; NULL, with an error, beyond what
 * a machine may have. */
struct oh__gpu *oh__report_gpu(struct oh__report *report, uint64_t index);
/* A name, which must not differ from one that is known. */
void oh__report_set_name(struct oh__report *report, struct oh__gpu *gpu,
			 const char *name, size_t bytes);
void oh__report_set_text(struct oh__report *report, struct oh__text *text,
			 const char *value, size_t bytes);
void oh__report_set_number(struct oh__report *report, struct oh__number *number,
			   uint64_t value);

/* report_facts.c */

void oh__report_take_fact(struct oh__report *report, const char *body);

/* report_foreign.c */

void oh__report_take_foreign(struct oh__report *report, const char *body);
/* OH_ERR_UNSUPPORTED if the report is of no machine with NVIDIA's GPUs. */
enum oh_status oh__report_check_maker(const struct oh__report *report);

#endif
