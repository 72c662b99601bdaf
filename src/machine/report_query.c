/* SPDX-License-Identifier: MIT */
/*
 * Devices that a text names by PCI address or by their order: nvidia-smi -q and
 * lspci -vvv. They are kept aside and put to the GPUs at the end, when all
 * addresses and the number of GPUs are known; what fits no GPU is left out with
 * a remark. ACS control of bridges is counted on the way.
 */
#include "machine/report_private.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* NULL when there are too many to be a machine's GPUs. */
static struct oh__gpu *add_device(struct oh__report *report, bool queried)
{
	struct oh__lists *lists = &report->lists;

	if (lists->devices == OH__DEVICES)
		return NULL;
	lists->queried[lists->devices] = queried;
	return &lists->device[lists->devices++];
}

static void set_number(struct oh__report *report, struct oh__number *number,
		       uint64_t value)
{
	if (!oh__known(number->from))
		oh__number_set(number, report->from, value);
}

/* --- nvidia-smi -q --- */

static bool begin_query(struct oh__report *report, const char *address)
{
	struct oh__gpu *device = add_device(report, true);

	report->lists.query = -1;
	*report->lists.query_section = '\0';
	if (!device)
		return false;
	report->lists.query = report->lists.devices - 1;
	if (address)
		oh__text_set(&device->pci, report->from, address,
			     strlen(address));
	return true;
}

/* "16x", "5", "143771 MiB" as a number. */
static bool read_value(const char *text, uint64_t *value)
{
	return oh__read_mib(text, value) || oh__read_number(&text, value);
}

static const struct {
	const char *section, *key;
	size_t offset;
} numbers[] = {
	/* the first has words, the others numbers */
	{"MIG Mode", "Current", offsetof(struct oh__gpu, mig)},
	{"PCIe Generation", "Current", offsetof(struct oh__gpu, pcie_gen)},
	{"PCIe Generation", "Max", offsetof(struct oh__gpu, pcie_gen_max)},
	{"Link Width", "Current", offsetof(struct oh__gpu, pcie_width)},
	{"Link Width", "Max", offsetof(struct oh__gpu, pcie_width_max)},
	{"FB Memory Usage", "Total", offsetof(struct oh__gpu, memory_bytes)},
};

static void take_query_number(struct oh__report *report, struct oh__gpu *device,
			      const char *body)
{
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		void *number = (char *)device + numbers[i].offset;
		const char *text = oh__value_of(body, numbers[i].key);
		uint64_t value;

		if (text &&
		    !strcmp(report->lists.query_section, numbers[i].section) &&
		    (i ? read_value(text, &value) : oh__read_mig(text, &value)))
			set_number(report, number, value);
	}
}

static void take_query_text(struct oh__report *report, struct oh__gpu *device,
			    const char *body)
{
	const char *name = oh__value_of(body, "Product Name");
	const char *uuid = oh__value_of(body, "GPU UUID");
	const char *bus = oh__value_of(body, "Bus Id");
	char address[16];

	if (name && !oh__known(device->name.from))
		oh__text_set(&device->name, report->from, name, strlen(name));
	if (uuid && !strncmp(uuid, "GPU-", 4) && !oh__known(device->uuid.from))
		oh__text_set(&device->uuid, report->from, uuid, strlen(uuid));
	if (bus && !oh__known(device->pci.from) && oh__read_pci(bus, address))
		oh__text_set(&device->pci, report->from, address,
			     strlen(address));
}

/* Headings that the lines below belong to; a part of the output may begin with
 * any of them. */
static bool take_heading(struct oh__report *report, const char *body)
{
	struct oh__lists *lists = &report->lists;
	bool link = !strcmp(body, "GPU Link Info") ||
		    !strcmp(body, "PCIe Generation");
	bool begun = lists->query >= 0 &&
		     !oh__known(lists->device[lists->query].pcie_gen.from) &&
		     !oh__known(lists->device[lists->query].pcie_gen_max.from);

	if (strchr(body, ':') || strlen(body) >= sizeof(lists->query_section))
		return false;
	if (link && !begun && !begin_query(report, NULL))
		return false;
	if (lists->query < 0)
		return false;
	snprintf(lists->query_section, sizeof(lists->query_section), "%s",
		 body);
	return link;
}

static bool take_smi_query(struct oh__report *report, const char *body)
{
	struct oh__lists *lists = &report->lists;
	const char *attached = oh__value_of(body, "Attached GPUs");
	struct oh__gpu *device;
	char address[16];
	uint64_t count;

	if (attached && oh__read_number(&attached, &count) && count < 1000) {
		lists->attached = (int)count;
		return true;
	}
	if (oh__begins(body, "GPU ")) {
		size_t length = oh__read_pci(body + 4, address);

		return length && !body[4 + length] &&
		       begin_query(report, address);
	}
	if (take_heading(report, body))
		return true;
	if (lists->query < 0 || !strchr(body, ':'))
		return false;
	device = &lists->device[lists->query];
	take_query_number(report, device, body);
	take_query_text(report, device, body);
	return false;
}

/* --- lspci --- */

static bool take_pci_header(struct oh__report *report, const char *body)
{
	struct oh__lists *lists = &report->lists;
	size_t length = oh__read_pci(body, lists->pci_address);
	const char *text = body + length;

	if (!length || !oh__is_blank(*text))
		return false;
	lists->pci_known = true;
	lists->pci_bridge = strstr(text, "bridge") != NULL;
	lists->pci_gpu = strstr(text, "NVIDIA") &&
			 (strstr(text, "VGA compatible controller") ||
			  strstr(text, "3D controller") ||
			  strstr(text, "Display controller"));
	return true;
}

/* PCI Express: transfers a second of each generation, in tenths of GT. */
static uint64_t generation_of(const char *text)
{
	static const unsigned int tenths[] = {25, 50, 80, 160, 320, 640};
	uint64_t whole, part = 0;

	if (!oh__read_number(&text, &whole) || whole > 100)
		return 0;
	if (*text == '.') {
		text++;
		if (!oh__read_number(&text, &part) || part > 9)
			return 0;
	}
	for (size_t i = 0; i < sizeof(tenths) / sizeof(*tenths); i++)
		if (tenths[i] == whole * 10 + part && !strncmp(text, "GT/s", 4))
			return i + 1;
	return 0;
}

static struct oh__gpu *device_at(struct oh__report *report, const char *address)
{
	struct oh__lists *lists = &report->lists;
	struct oh__gpu *device;

	for (int i = 0; i < lists->devices; i++)
		if (!lists->queried[i] &&
		    !strcmp(lists->device[i].pci.text, address))
			return &lists->device[i];
	device = add_device(report, false);
	if (device)
		oh__text_set(&device->pci, report->from, address,
			     strlen(address));
	return device;
}

/* "LnkSta: Speed 2.5GT/s (downgraded), Width x16" of a GPU. */
static bool take_link_state(struct oh__report *report, const char *body)
{
	const char *most = oh__value_of(body, "LnkCap");
	const char *now = oh__value_of(body, "LnkSta");
	const char *text = most ? most : now, *speed, *width;
	struct oh__gpu *device;
	uint64_t value;

	if (!text)
		return false;
	if (!report->lists.pci_known || !report->lists.pci_gpu)
		return true;
	device = device_at(report, report->lists.pci_address);
	if (!device)
		return true;
	speed = strstr(text, "Speed ");
	width = strstr(text, "Width x");
	if (speed && (value = generation_of(speed + 6)) > 0)
		set_number(report,
			   most ? &device->pcie_gen_max : &device->pcie_gen,
			   value);
	width = width ? width + 7 : "";
	if (oh__read_number(&width, &value) && value && value <= 32)
		set_number(report,
			   most ? &device->pcie_width_max : &device->pcie_width,
			   value);
	return true;
}

/* Counts bridges that send peer traffic up to the root. A line without its
 * device's (grep) is taken for a bridge's. */
static bool take_acs(struct oh__report *report, const char *body)
{
	struct oh__number *count = &report->machine.host.acs_redirect;
	const char *text = oh__value_of(body, "ACSCtl");
	bool redirects;

	if (!text)
		return false;
	if (report->lists.pci_known && !report->lists.pci_bridge)
		return true;
	redirects = strstr(text, "ReqRedir+") || strstr(text, "CmpltRedir+");
	report->found = true;
	/* the line that it points to is the first that redirects */
	if (!oh__known(count->from) || (redirects && !count->value))
		count->from = report->from;
	count->value += redirects;
	return true;
}

bool oh__report_take_query(struct oh__report *report, const char *body)
{
	return take_pci_header(report, body) || take_acs(report, body) ||
	       take_link_state(report, body) || take_smi_query(report, body);
}

/* --- the end --- */

/* Fills in what the GPU does not know. */
static void give(struct oh__report *report, struct oh__gpu *gpu,
		 const struct oh__gpu *device)
{
	const struct oh__number *from[] = {
		&device->mig,	     &device->memory_bytes,
		&device->pcie_gen,   &device->pcie_gen_max,
		&device->pcie_width, &device->pcie_width_max,
	};
	struct oh__number *to[] = {
		&gpu->mig,	    &gpu->memory_bytes, &gpu->pcie_gen,
		&gpu->pcie_gen_max, &gpu->pcie_width,	&gpu->pcie_width_max,
	};

	report->found = true;
	for (size_t i = 0; i < sizeof(to) / sizeof(*to); i++)
		if (!oh__known(to[i]->from))
			*to[i] = *from[i];
	if (!oh__known(gpu->uuid.from))
		gpu->uuid = device->uuid;
	if (!oh__known(gpu->pci.from))
		gpu->pci = device->pci;
	if (!oh__known(device->name.from))
		return;
	report->from = device->name.from;
	oh__report_set_name(report, gpu, device->name.text,
			    strlen(device->name.text));
}

static struct oh__gpu *gpu_at(struct oh__report *report, const char *address)
{
	for (int i = 0; i < report->machine.gpus; i++)
		if (oh__known(report->machine.gpu[i].pci.from) &&
		    !strcmp(report->machine.gpu[i].pci.text, address))
			return &report->machine.gpu[i];
	return NULL;
}

/*
 * nvidia-smi -q goes through all GPUs in their order. That order is used if
 * nothing says that GPUs were left out: as many blocks as GPUs are attached or
 * known.
 */
static void place_queried(struct oh__report *report)
{
	struct oh__lists *lists = &report->lists;
	int blocks = 0, known = report->machine.gpus, next = 0;
	bool all;

	for (int i = 0; i < lists->devices; i++)
		blocks += lists->queried[i];
	all = blocks == (known ? known : lists->attached);
	for (int i = 0; i < lists->devices; i++) {
		const struct oh__gpu *device = &lists->device[i];
		struct oh__gpu *gpu;

		if (!lists->queried[i])
			continue;
		gpu = gpu_at(report, device->pci.text);
		if (!gpu && all)
			gpu = oh__report_gpu(report, (uint64_t)next);
		next++;
		if (gpu)
			give(report, gpu, device);
		else if (!report->status)
			oh__machine_remark(&report->machine, device->pci.from,
					   "nvidia-smi -q shows %d of the "
					   "GPUs, which ones is not known",
					   blocks);
		if (!gpu)
			return;
	}
}

static void place_listed(struct oh__report *report)
{
	struct oh__lists *lists = &report->lists;

	for (int i = 0; i < lists->devices; i++) {
		struct oh__gpu *gpu = NULL;

		if (!lists->queried[i])
			gpu = gpu_at(report, lists->device[i].pci.text);
		if (gpu)
			give(report, gpu, &lists->device[i]);
	}
}

/* A list that begins with GPU 0 and has no gap is one of all GPUs. */
static void check_list(struct oh__report *report, uint32_t bits, uint32_t line)
{
	int gpus = report->machine.gpus, listed = __builtin_popcount(bits);
	const struct oh__from *matrix = &report->machine.link[0][0].from;

	if (!bits || listed == gpus || (bits & (bits + 1)))
		return;
	if (oh__known(*matrix))
		oh__report_fail(report, OH_ERR_INVALID,
				"%s:%u: the list of GPUs ends with %d, the "
				"matrix that ends in line %u has %d; one of "
				"them is cut, or they are of two machines",
				report->machine.sources[0], line, listed,
				matrix->line, gpus);
}

/* Devices that CUDA shows, fewer than the machine's: which ones they are the
 * text does not say, so their names are nobody's. */
static void drop_shown(struct oh__report *report)
{
	struct oh__lists *lists = &report->lists;
	int shown = __builtin_popcount(lists->shown);
	struct oh__from from = {report->from.source, lists->shown_first_line};

	if (!shown || shown >= report->machine.gpus)
		return;
	for (int i = 0; i < report->machine.gpus; i++) {
		struct oh__gpu *gpu = &report->machine.gpu[i];
		uint32_t line = gpu->name.from.line;

		if (line < lists->shown_first_line ||
		    line > lists->shown_last_line)
			continue;
		memset(&gpu->name, 0, sizeof(gpu->name));
		memset(&gpu->capability, 0, sizeof(gpu->capability));
	}
	oh__machine_remark(&report->machine, from,
			   "a list of the %d devices that CUDA shows, of %d: "
			   "which ones is not known, names are left out",
			   shown, report->machine.gpus);
}

void oh__report_close_lists(struct oh__report *report)
{
	struct oh__from from = report->from;
	const struct oh__from *matrix = &report->machine.link[0][0].from;

	if (report->status)
		return;
	place_queried(report);
	place_listed(report);
	report->from = from;
	drop_shown(report);
	check_list(report, report->lists.listed, report->lists.listed_line);
	check_list(report, report->lists.tabled, report->lists.tabled_line);
	for (int i = 0;
	     !report->status && oh__known(*matrix) && i < report->machine.gpus;
	     i++)
		if (!oh__known(report->machine.link[0][i].from))
			oh__report_fail(report, OH_ERR_INVALID,
					"%s: the matrix has no row and column "
					"GPU%d, but a list names that GPU; one "
					"of them is cut",
					report->machine.sources[0], i);
}
