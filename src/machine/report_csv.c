/* SPDX-License-Identifier: MIT */
/*
 * nvidia-smi --query-gpu=... --format=csv: the header names the columns. With
 * "noheader" a value is known by its shape alone, and only those shapes count
 * that can be nothing else.
 */
#include "machine/report_private.h"

#include <stddef.h>
#include <string.h>

enum field {
	FIELD_OTHER,
	FIELD_INDEX,
	FIELD_NAME,
	FIELD_UUID,
	FIELD_PCI,
	FIELD_GEN,
	FIELD_GEN_MAX,
	FIELD_WIDTH,
	FIELD_WIDTH_MAX,
	FIELD_MEMORY,
	FIELD_CAPABILITY,
	FIELD_MIG,
	FIELD_DRIVER,
};

static const struct {
	const char *name;
	enum field field;
} fields[] = {
	{"index", FIELD_INDEX},
	{"name", FIELD_NAME},
	{"gpu_name", FIELD_NAME},
	{"uuid", FIELD_UUID},
	{"gpu_uuid", FIELD_UUID},
	{"pci.bus_id", FIELD_PCI},
	{"gpu_bus_id", FIELD_PCI},
	{"pcie.link.gen.current", FIELD_GEN},
	{"pcie.link.gen.gpucurrent", FIELD_GEN},
	{"pcie.link.gen.max", FIELD_GEN_MAX},
	{"pcie.link.width.current", FIELD_WIDTH},
	{"pcie.link.width.max", FIELD_WIDTH_MAX},
	{"memory.total", FIELD_MEMORY},
	{"compute_cap", FIELD_CAPABILITY},
	{"mig.mode.current", FIELD_MIG},
	{"driver_version", FIELD_DRIVER},
};

/* Up to the comma; gives back what is behind it, NULL at the end. */
static const char *next_value(const char *text, const char **value,
			      size_t *bytes)
{
	size_t length = strcspn(text, ",");

	*value = oh__skip_blanks(text);
	*bytes = *value < text + length
			 ? oh__trimmed(*value, (size_t)(text + length - *value))
			 : 0;
	return text[length] ? text + length + 1 : NULL;
}

/* "memory.total [MiB]" is memory.total. */
static enum field field_of(const char *text, size_t bytes)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		size_t length = strlen(fields[i].name);

		if (bytes >= length && !memcmp(text, fields[i].name, length) &&
		    (bytes == length || oh__is_blank(text[length])))
			return fields[i].field;
	}
	return FIELD_OTHER;
}

/* Names in small letters, with points and a unit in brackets. */
static bool is_field_name(const char *text, size_t bytes)
{
	if (bytes > 64)
		return false;
	for (size_t i = 0; i < bytes; i++) {
		if (i && text[i] == '[')
			return true;
		if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789._ ", text[i]))
			return false;
	}
	return bytes > 0;
}

static bool take_csv_header(struct oh__report *report, const char *body)
{
	struct oh__lists *lists = &report->lists;
	int columns = 0, known = 0;

	for (const char *text = body; text;) {
		const char *value;
		size_t bytes;

		text = next_value(text, &value, &bytes);
		if (columns == OH__CSV_COLUMNS || !is_field_name(value, bytes))
			return false;
		lists->csv_field[columns] = (int)field_of(value, bytes);
		known += lists->csv_field[columns] != FIELD_OTHER;
		columns++;
	}
	if (!known || known * 2 < columns)
		return false;
	lists->csv_columns = columns;
	lists->csv_row = 0;
	return true;
}

/* Small numbers, and where they go. */
static const struct {
	enum field field;
	size_t offset;
} counts[] = {
	{FIELD_GEN, offsetof(struct oh__gpu, pcie_gen)},
	{FIELD_GEN_MAX, offsetof(struct oh__gpu, pcie_gen_max)},
	{FIELD_WIDTH, offsetof(struct oh__gpu, pcie_width)},
	{FIELD_WIDTH_MAX, offsetof(struct oh__gpu, pcie_width_max)},
};

static void take_count(struct oh__report *report, struct oh__gpu *gpu,
		       enum field field, const char *text)
{
	uint64_t value;

	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		void *number = (char *)gpu + counts[i].offset;

		if (counts[i].field == field &&
		    oh__read_number(&text, &value) && value && value < 1024)
			oh__report_set_number(report, number, value);
	}
}

static void take_text(struct oh__report *report, struct oh__gpu *gpu,
		      enum field field, const char *text, size_t bytes)
{
	char address[16];

	if (field == FIELD_NAME)
		oh__report_set_name(report, gpu, text, bytes);
	else if (field == FIELD_UUID && !strncmp(text, "GPU-", 4))
		oh__report_set_text(report, &gpu->uuid, text, bytes);
	else if (field == FIELD_PCI && oh__read_pci(text, address))
		oh__report_set_text(report, &gpu->pci, address,
				    strlen(address));
	else if (field == FIELD_DRIVER)
		oh__report_set_text(report, &report->machine.host.driver, text,
				    oh__version_length(text));
}

static void take_value(struct oh__report *report, struct oh__gpu *gpu,
		       enum field field, const char *text, size_t bytes)
{
	const char *at = text;
	uint64_t value;

	take_text(report, gpu, field, text, bytes);
	take_count(report, gpu, field, text);
	/* the unit of memory may stand in the header */
	if (field == FIELD_MEMORY && oh__read_number(&at, &value) &&
	    value < UINT32_MAX)
		oh__report_set_number(report, &gpu->memory_bytes, value << 20);
	if (field == FIELD_CAPABILITY && oh__read_capability(text, &value))
		oh__report_set_number(report, &gpu->capability, value);
	if (field == FIELD_MIG && oh__read_mig(text, &value))
		oh__report_set_number(report, &gpu->mig, value);
}

/* A value may be missing, "[N/A]", but not be of another kind. */
static bool is_plausible(enum field field, const char *text, size_t bytes)
{
	char address[16];
	uint64_t value;

	switch (field) {
	case FIELD_OTHER:
		return true;
	case FIELD_NAME:
		return oh__is_product(text, bytes);
	case FIELD_UUID:
		return !strncmp(text, "GPU-", 4);
	case FIELD_PCI:
		return oh__read_pci(text, address) > 0;
	case FIELD_MIG:
		return oh__read_mig(text, &value) || *text == '[';
	default:
		return (*text >= '0' && *text <= '9') || *text == '[';
	}
}

/* A row has the header's columns. Its GPU is told by the column of indices,
 * else by its place. */
static bool is_csv_row(const struct oh__lists *lists, const char *body,
		       uint64_t *index)
{
	int column = 0;

	*index = (uint64_t)lists->csv_row;
	for (const char *text = body; text; column++) {
		const char *value;
		enum field field;
		size_t bytes;

		text = next_value(text, &value, &bytes);
		if (column == lists->csv_columns)
			return false;
		field = (enum field)lists->csv_field[column];
		if (!is_plausible(field, value, bytes) ||
		    (field == FIELD_INDEX && !oh__read_number(&value, index)))
			return false;
	}
	return column == lists->csv_columns;
}

static bool take_csv_row(struct oh__report *report, const char *body)
{
	struct oh__lists *lists = &report->lists;
	struct oh__gpu *gpu;
	uint64_t index;
	int column = 0;

	if (!is_csv_row(lists, body, &index)) {
		lists->csv_columns = 0;
		return false;
	}
	gpu = oh__report_gpu(report, index);
	for (const char *text = body; gpu && text; column++) {
		const char *value;
		size_t bytes;

		text = next_value(text, &value, &bytes);
		take_value(report, gpu, (enum field)lists->csv_field[column],
			   value, bytes);
	}
	lists->csv_row++;
	return true;
}

/* What a value without a header is, by its shape alone. */
static enum field guess_field(const char *text, size_t bytes, bool first)
{
	char address[16];
	const char *end = text;
	uint64_t value;

	if (oh__is_product(text, bytes))
		return FIELD_NAME;
	if (!strncmp(text, "GPU-", 4))
		return FIELD_UUID;
	if (oh__read_pci(text, address) == bytes)
		return FIELD_PCI;
	if (oh__read_mib(text, &value))
		return FIELD_MEMORY;
	if (first && oh__read_number(&end, &value) && end == text + bytes)
		return FIELD_INDEX;
	return FIELD_OTHER;
}

/* "NVIDIA H200, 143771 MiB", of --format=csv,noheader: a product and another
 * value that can be nothing else. Two memories are used and total: neither. */
static bool take_bare_row(struct oh__report *report, const char *body)
{
	struct oh__lists *lists = &report->lists;
	int seen[FIELD_DRIVER + 1] = {0}, columns = 0;
	struct oh__gpu *gpu;
	uint64_t index = (uint64_t)lists->bare_row;

	for (const char *text = body; text; columns++) {
		const char *value;
		enum field field;
		size_t bytes;

		text = next_value(text, &value, &bytes);
		field = guess_field(value, bytes, !columns);
		seen[field]++;
		if (field == FIELD_INDEX)
			oh__read_number(&value, &index);
	}
	if (columns < 2 || seen[FIELD_NAME] != 1 ||
	    !(seen[FIELD_UUID] || seen[FIELD_PCI] || seen[FIELD_MEMORY])) {
		lists->bare_row = 0;
		return false;
	}
	/* the next one without an index is counted on */
	lists->bare_row = seen[FIELD_INDEX] ? 0 : lists->bare_row + 1;
	gpu = oh__report_gpu(report, index);
	for (const char *text = body; gpu && text;) {
		const char *value;
		enum field field;
		size_t bytes;

		text = next_value(text, &value, &bytes);
		field = guess_field(value, bytes, false);
		if (seen[field] == 1)
			take_value(report, gpu, field, value, bytes);
	}
	return true;
}

/* Told by the first value, for most lines of a log are none. */
static bool may_be_bare(const char *body)
{
	const char *at = body;
	uint64_t index;

	if (oh__read_number(&at, &index))
		return *at == ',';
	return !strncmp(body, "GPU-", 4) ||
	       oh__is_product(body, strcspn(body, ","));
}

bool oh__report_take_values(struct oh__report *report, const char *body)
{
	if (report->lists.csv_columns && take_csv_row(report, body))
		return true;
	if (*body >= 'a' && *body <= 'z')
		return take_csv_header(report, body);
	return may_be_bare(body) && take_bare_row(report, body);
}
