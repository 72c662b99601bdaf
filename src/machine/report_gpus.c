/* SPDX-License-Identifier: MIT */
/*
 * Lists of GPUs, a line or a few for each: nvidia-smi -L, "GPU models and
 * configuration" of collect_env, the list of SGLang's check_env, nvidia-smi's
 * table. Lines must have their tool's shape; prose that begins with "GPU 0:" is
 * no list.
 */
#include "machine/report_private.h"

#include <stdio.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

void oh__report_set_text(struct oh__report *report, struct oh__text *text,
			 const char *value, size_t bytes)
{
	bytes = oh__trimmed(value, bytes);
	if (!bytes || oh__known(text->from))
		return;
	oh__text_set(text, report->from, value, bytes);
	report->found = true;
}

void oh__report_set_number(struct oh__report *report, struct oh__number *number,
			   uint64_t value)
{
	if (oh__known(number->from))
		return;
	oh__number_set(number, report->from, value);
	report->found = true;
}

struct oh__gpu *oh__report_gpu(struct oh__report *report, uint64_t index)
{
	if (index >= OH__GPUS) {
		oh__report_fail(report, OH_ERR_INVALID,
				"%s:%u: GPU %llu: %d GPUs at most are read",
				report->machine.sources[0], report->from.line,
				(unsigned long long)index, OH__GPUS);
		return NULL;
	}
	if (report->machine.gpus <= (int)index)
		report->machine.gpus = (int)index + 1;
	report->found = true;
	return &report->machine.gpu[index];
}

/* Older drivers leave the maker's name out. */
static const char *name_of_model(const char *name)
{
	return strncmp(name, "NVIDIA ", 7) ? name : name + 7;
}

static bool is_cut(const char *name, size_t bytes)
{
	return bytes >= 2 && !memcmp(name + bytes - 2, "..", 2);
}

void oh__report_set_name(struct oh__report *report, struct oh__gpu *gpu,
			 const char *name, size_t bytes)
{
	struct oh__text text;

	bytes = oh__trimmed(name, bytes);
	/* the table of older drivers has room for twenty letters */
	if (!bytes || is_cut(name, bytes))
		return;
	oh__text_set(&text, report->from, name, bytes);
	if (!oh__known(gpu->name.from)) {
		gpu->name = text;
		return;
	}
	if (strcmp(name_of_model(gpu->name.text), name_of_model(text.text)))
		oh__report_fail(report, OH_ERR_INVALID,
				"%s:%u: a GPU is called '%.60s' here and "
				"'%.60s' in line %u; give texts of one machine "
				"only",
				report->machine.sources[0], report->from.line,
				text.text, gpu->name.text, gpu->name.from.line);
}

/* "24576 MiB" at the beginning. */
bool oh__read_mib(const char *text, uint64_t *bytes)
{
	uint64_t value;

	if (!oh__read_number(&text, &value) || value > UINT32_MAX)
		return false;
	text = oh__skip_blanks(text);
	*bytes = value * MIB;
	return !strncmp(text, "MiB", 3);
}

/* --- "GPU 0: NAME (UUID: GPU-...)", "GPU 0,1,2,3: NAME" --- */

/* "0" or "0,1,2,3" at the beginning, as bits; those beyond a machine's GPUs
 * are left to "highest". */
static const char *read_indices(const char *text, uint32_t *bits,
				uint64_t *highest)
{
	*bits = 0;
	*highest = 0;
	for (;;) {
		uint64_t index;

		if (!oh__read_number(&text, &index))
			return NULL;
		if (index < OH__GPUS)
			*bits |= UINT32_C(1) << index;
		if (index > *highest)
			*highest = index;
		if (*text != ',')
			return text;
		text++;
	}
}

/* What stands behind the name, one after the other. */
static void take_behind_name(struct oh__report *report, struct oh__gpu *gpu,
			     const char *text)
{
	uint64_t memory;

	for (; *text; text += strcspn(text, ",|")) {
		text = oh__skip_blanks(text + 1);
		if (oh__read_mib(text, &memory))
			oh__report_set_number(report, &gpu->memory_bytes,
					      memory);
		if (!strncmp(text, "driver ", 7))
			oh__report_set_text(
				report, &report->machine.host.driver, text + 7,
				oh__version_length(text + 7));
	}
}

/* A name, then perhaps ", 24576 MiB" or " | 24576 MiB | driver 595.71.05",
 * and "(UUID: GPU-...)". */
static void take_listed(struct oh__report *report, struct oh__gpu *gpu,
			const char *text)
{
	const char *uuid = strstr(text, "(UUID: ");
	size_t bytes = uuid ? (size_t)(uuid - text) : strlen(text);
	size_t name = strcspn(text, ",|");

	oh__report_set_name(report, gpu, text, name < bytes ? name : bytes);
	if (uuid)
		oh__report_set_text(report, &gpu->uuid, uuid + 7,
				    strcspn(uuid + 7, ") "));
	take_behind_name(report, gpu, text + name);
}

/* "PCIe: x4 lanes negotiated (GPU max x16, Gen up to 4) | bus 0000:06:00.0"
 * below its GPU, in reports that people's scripts write */
static bool take_lanes(struct oh__report *report, const char *body)
{
	const char *text = oh__value_of(body, "PCIe");
	const char *bus, *most, *gen;
	struct oh__gpu *gpu;
	char address[16];
	uint64_t value;

	if (!text || report->lists.last < 0 || *text++ != 'x' ||
	    !oh__read_number(&text, &value) ||
	    strncmp(text, " lanes negotiated", 17))
		return false;
	gpu = &report->machine.gpu[report->lists.last];
	oh__report_set_number(report, &gpu->pcie_width, value);
	if ((most = strstr(text, "GPU max x")) != NULL && (most += 9) &&
	    oh__read_number(&most, &value))
		oh__report_set_number(report, &gpu->pcie_width_max, value);
	if ((gen = strstr(text, "Gen up to ")) != NULL && (gen += 10) &&
	    oh__read_number(&gen, &value))
		oh__report_set_number(report, &gpu->pcie_gen_max, value);
	if ((bus = strstr(text, "| bus ")) != NULL &&
	    oh__read_pci(bus + 6, address))
		oh__report_set_text(report, &gpu->pci, address,
				    strlen(address));
	return true;
}

/* Outside of collect_env's section a list line must name a product. */
static bool is_listing(const struct oh__report *report, const char *text)
{
	size_t bytes = strcspn(text, ",(|");

	if (report->lists.section && *text)
		return true;
	return oh__is_product(text, oh__trimmed(text, bytes));
}

/* "9.0" as 90. */
bool oh__read_capability(const char *text, uint64_t *capability)
{
	uint64_t major, minor;

	if (!oh__read_number(&text, &major) || *text++ != '.' ||
	    !oh__read_number(&text, &minor) || major > 99 || minor > 9)
		return false;
	*capability = major * 10 + minor;
	return true;
}

/* What a line says of each GPU that it lists. */
static void take_for_each(struct oh__report *report, uint32_t bits,
			  const char *name, uint64_t capability)
{
	for (uint64_t i = 0; i < OH__GPUS; i++) {
		struct oh__gpu *gpu;

		if (!(bits >> i & 1))
			continue;
		gpu = oh__report_gpu(report, i);
		if (name)
			take_listed(report, gpu, name);
		else
			oh__report_set_number(report, &gpu->capability,
					      capability);
		report->lists.last = (int)i;
	}
}

/* SGLang's lines "GPU 0,1: NAME" number the devices that CUDA shows; all
 * others have nvidia-smi's indices. */
static void note_list(struct oh__report *report, uint32_t bits)
{
	struct oh__lists *lists = &report->lists;

	if (!lists->shown_section && !lists->shown && !(bits & (bits - 1))) {
		lists->listed |= bits;
		lists->listed_line = report->from.line;
		return;
	}
	if (!lists->shown)
		lists->shown_first_line = report->from.line;
	lists->shown |= bits;
	lists->shown_last_line = report->from.line;
}

static bool take_list(struct oh__report *report, const char *body)
{
	uint64_t highest, capability;
	uint32_t bits;
	const char *text;

	if (!oh__begins(body, "GPU ") ||
	    !(text = read_indices(body + 4, &bits, &highest)))
		return false;
	text = oh__skip_blanks(text);
	if (!strncmp(text, "Compute Capability:", 19)) {
		if (oh__read_capability(oh__skip_blanks(text + 19),
					&capability))
			take_for_each(report, bits, NULL, capability);
		return true;
	}
	if (*text != ':')
		return false;
	text = oh__skip_blanks(text + 1);
	if (!is_listing(report, text))
		return false;
	if (!oh__report_gpu(report, highest))
		return true;
	note_list(report, bits);
	take_for_each(report, bits, text, 0);
	return true;
}

/* "  MIG 1g.10gb     Device  0: (UUID: MIG-...)" below its GPU; collect_env
 * leaves the UUID out. */
static bool take_mig_device(struct oh__report *report, const char *body)
{
	const char *device;

	if (report->lists.last < 0 || !oh__begins(body, "MIG ") ||
	    !(device = strstr(body, " Device ")) || !strchr(device, ':'))
		return false;
	oh__report_set_number(report,
			      &report->machine.gpu[report->lists.last].mig, 1);
	return true;
}

/* --- nvidia-smi's table --- */

/* "N/A" is the word for models that cannot be divided. */
bool oh__read_mig(const char *text, uint64_t *mode)
{
	*mode = !strncmp(text, "Enabled", 7);
	return *mode || !strncmp(text, "Disabled", 8) ||
	       !strncmp(text, "N/A", 3) || !strncmp(text, "[N/A]", 5);
}

/* "| NVIDIA-SMI 580.1  Driver Version: 580.1  CUDA Version: 13.0  |" */
static bool take_banner(struct oh__report *report, const char *cell)
{
	const char *driver = strstr(cell, "Driver Version:");
	const char *cuda = strstr(cell, "CUDA Version:");

	if (strncmp(cell, "NVIDIA-SMI", 10))
		return false;
	if (driver) {
		driver = oh__skip_blanks(driver + 15);
		oh__report_set_text(report, &report->machine.host.driver,
				    driver, oh__version_length(driver));
	}
	if (cuda) {
		cuda = oh__skip_blanks(cuda + 13);
		oh__report_set_text(report, &report->machine.host.cuda, cuda,
				    oh__version_length(cuda));
	}
	return true;
}

/* "  0  NVIDIA H200     On  " and "   00000000:00:06.0 Off ": the index, the
 * name without its last word, the bus. */
static bool take_table_gpu(struct oh__report *report, const char *cell,
			   const char *second)
{
	struct oh__lists *lists = &report->lists;
	struct oh__gpu *gpu;
	const char *name = cell;
	char address[16];
	uint64_t index;
	size_t bytes;

	if (!oh__read_number(&name, &index) || !oh__is_blank(*name) ||
	    !oh__read_pci(oh__skip_blanks(second), address))
		return false;
	gpu = oh__report_gpu(report, index);
	if (!gpu)
		return true;
	name = oh__skip_blanks(name);
	bytes = oh__trimmed(name, strcspn(name, "|"));
	while (bytes && !oh__is_blank(name[bytes - 1]))
		bytes--;
	oh__report_set_name(report, gpu, name, bytes);
	oh__report_set_text(report, &gpu->pci, address, strlen(address));
	lists->tabled |= UINT32_C(1) << index;
	lists->tabled_line = report->from.line;
	lists->table_gpu = (int)index;
	lists->table_row = 1;
	return true;
}

/* The second and third line of a GPU: memory, and the MIG mode. */
static void take_table_rest(struct oh__report *report, const char *second)
{
	struct oh__lists *lists = &report->lists;
	struct oh__gpu *gpu = &report->machine.gpu[lists->table_gpu];
	const char *third = strchr(second, '|');
	uint64_t memory, mode;

	lists->table_row++;
	if (lists->table_row == 2) {
		const char *total = strchr(second, '/');

		if (total && oh__read_mib(oh__skip_blanks(total + 1), &memory))
			oh__report_set_number(report, &gpu->memory_bytes,
					      memory);
	} else if (lists->table_row == 3 && third) {
		if (oh__read_mig(oh__skip_blanks(third + 1), &mode))
			oh__report_set_number(report, &gpu->mig, mode);
	}
}

static bool take_table(struct oh__report *report, const char *body)
{
	struct oh__lists *lists = &report->lists;
	const char *cell, *second;

	if (*body != '|') {
		lists->table_gpu = -1;
		return false;
	}
	cell = oh__skip_blanks(body + 1);
	if (take_banner(report, cell))
		return true;
	second = strchr(cell, '|');
	if (!second)
		return false;
	second++;
	if (take_table_gpu(report, cell, second))
		return true;
	if (lists->table_gpu < 0)
		return false;
	take_table_rest(report, second);
	return true;
}

/* collect_env's section; the only GPU may stand on the heading's line. */
static bool take_section(struct oh__report *report, const char *body)
{
	const char *value = oh__value_of(body, "GPU models and configuration");

	report->lists.shown_section =
		oh__value_of(body, "CUDA available") != NULL;
	if (!value) {
		report->lists.section = false;
		return false;
	}
	report->lists.section = true;
	take_list(report, value);
	return true;
}

bool oh__report_take_gpus(struct oh__report *report, const char *body)
{
	if (take_list(report, body) || take_mig_device(report, body) ||
	    take_lanes(report, body))
		return true;
	return take_section(report, body) || take_table(report, body) ||
	       oh__report_take_values(report, body);
}
