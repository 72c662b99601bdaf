/* SPDX-License-Identifier: MIT */
/*
 * The host's facts: drivers and versions from collect_env and package lists,
 * the processor, the kernel and its command line, the IOMMU's mode, and
 * variables of the environment. A fact is a line of its own with the shape that
 * its tool gives it; the first one of a kind counts.
 */
#include "machine/report_private.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static void set_text(struct oh__report *report, size_t offset,
		     const char *value, size_t bytes)
{
	void *text = (char *)&report->machine.host + offset;

	oh__report_set_text(report, text, value, bytes);
}

#define HOST(field) offsetof(struct oh__host, field)

/* --- "key : value" --- */

enum shape {
	SHAPE_VERSION,
	SHAPE_CPU,
	SHAPE_PLATFORM, /* "Linux-6.8.0-45-generic-x86_64-with-glibc2.35" */
	SHAPE_COMMAND_LINE,
};

static const struct {
	const char *key;
	enum shape shape;
	size_t offset;
} rows[] = {
	{"Nvidia driver version", SHAPE_VERSION, HOST(driver)},
	{"NVIDIA driver version", SHAPE_VERSION, HOST(driver)},
	{"CUDA Driver Version", SHAPE_VERSION, HOST(driver)},
	{"Driver Version", SHAPE_VERSION, HOST(driver)},
	{"CUDA Version", SHAPE_VERSION, HOST(cuda)},
	{"vLLM Version", SHAPE_VERSION, HOST(vllm)},
	{"sglang", SHAPE_VERSION, HOST(sglang)},
	{"PyTorch version", SHAPE_VERSION, HOST(torch)},
	{"PyTorch", SHAPE_VERSION, HOST(torch)},
	{"Model name", SHAPE_CPU, HOST(cpu)},
	{"model name", SHAPE_CPU, HOST(cpu)},
	{"CPU", SHAPE_CPU, HOST(cpu)},
	{"Kernel", SHAPE_VERSION, HOST(kernel)},
	{"Python platform", SHAPE_PLATFORM, HOST(kernel)},
	{"Kernel command line", SHAPE_COMMAND_LINE, 0},
	{"Command line", SHAPE_COMMAND_LINE, 0},
};

/* A language model has a name, too. */
static bool is_cpu(const char *text)
{
	static const char *const words[] = {
		"Intel",    "AMD ",    "EPYC",	    "Xeon",	"Ryzen",
		"Core(TM)", "CPU",     "Processor", "Neoverse", "Grace",
		"POWER",    "Kunpeng", "Cortex",    "Ampere",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strstr(text, words[i]))
			return true;
	return false;
}

static void take_platform(struct oh__report *report, const char *text)
{
	static const char *const ends[] = {"-x86_64", "-aarch64", "-with-"};
	size_t bytes = strlen(text);

	if (strncmp(text, "Linux-", 6))
		return;
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		const char *end = strstr(text, ends[i]);

		if (end && (size_t)(end - text) < bytes)
			bytes = (size_t)(end - text);
	}
	set_text(report, HOST(kernel), text + 6, bytes - 6);
}

/* --- the kernel's command line and the IOMMU --- */

static void set_iommu(struct oh__report *report, enum oh__iommu mode)
{
	report->machine.host.iommu.from = report->from;
	report->machine.host.iommu.mode = mode;
	report->found = true;
}

/* Options and what they make of the IOMMU (kernel-parameters.txt of Linux);
 * intel_iommu=on and amd_iommu=on leave the mode to how the kernel was built.
 */
static const struct {
	const char *option;
	enum oh__iommu mode;
} options[] = {
	{"iommu=off", OH__IOMMU_OFF},
	{"amd_iommu=off", OH__IOMMU_OFF},
	{"intel_iommu=off", OH__IOMMU_OFF},
	{"iommu=pt", OH__IOMMU_PASSTHROUGH},
	{"iommu.passthrough=1", OH__IOMMU_PASSTHROUGH},
	{"iommu=nopt", OH__IOMMU_TRANSLATED},
	{"iommu.passthrough=0", OH__IOMMU_TRANSLATED},
};

/* The strongest of the options; what is off has no mode. */
static enum oh__iommu iommu_of(const char *command_line)
{
	size_t count = sizeof(options) / sizeof(*options), best = count;

	while (*(command_line = oh__skip_blanks(command_line))) {
		size_t length = strcspn(command_line, " \t");

		for (size_t i = 0; i < best; i++)
			if (strlen(options[i].option) == length &&
			    !memcmp(options[i].option, command_line, length))
				best = i;
		command_line += length;
	}
	return best < count ? options[best].mode : OH__IOMMU_UNKNOWN;
}

static void take_command_line(struct oh__report *report, const char *text)
{
	enum oh__iommu mode = iommu_of(text);

	oh__report_set_text(report, &report->machine.host.command_line, text,
			    strlen(text));
	if (mode != OH__IOMMU_UNKNOWN && !report->iommu_said)
		set_iommu(report, mode);
}

/* "iommu: Default domain type: Translated (set via ...)"; what the kernel says
 * of itself counts more than its command line. */
static bool take_domain_type(struct oh__report *report, const char *body)
{
	const char *text;

	/* "iommu:", "AMD-Vi:", "DMAR:", or nothing in front */
	if (!*body || !strchr("iADd", *body))
		return false;
	text = strstr(body, "efault domain type:");
	if (!text || text - body > 24)
		return false;
	text = oh__skip_blanks(text + 19);
	if (!strncmp(text, "Passthrough", 11))
		set_iommu(report, OH__IOMMU_PASSTHROUGH);
	else if (!strncmp(text, "Translated", 10))
		set_iommu(report, OH__IOMMU_TRANSLATED);
	else
		return false;
	report->iommu_said = true;
	return true;
}

/* "nvidia 0000:07:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT ...", "DMAR: [DMA
 * Write] Request device [17:00.0] fault addr ...": an IOMMU that refuses an
 * address is one that translates. What other words say is kept. */
static bool take_fault(struct oh__report *report, const char *body)
{
	bool amd = oh__begins(body, "nvidia ") || oh__begins(body, "AMD-Vi: ");

	if (!(amd && strstr(body, "[IO_PAGE_FAULT")) &&
	    !(oh__begins(body, "DMAR: [DMA ") && strstr(body, "fault addr")))
		return false;
	if (!oh__known(report->machine.host.iommu.from))
		set_iommu(report, OH__IOMMU_TRANSLATED);
	return true;
}

/* BOOT_IMAGE=... is how GRUB's command lines begin; others are known by the
 * file that was shown. */
static bool take_boot(struct oh__report *report, const char *body)
{
	bool announced = report->command_line_next;

	report->command_line_next = strstr(body, "/proc/cmdline") != NULL;
	if (oh__begins(body, "BOOT_IMAGE=") ||
	    (announced && strchr(body, '=') && !report->command_line_next)) {
		take_command_line(report, body);
		return true;
	}
	return false;
}

static bool take_row(struct oh__report *report, const char *body)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *text;

		if (*body != *rows[i].key ||
		    !(text = oh__value_of(body, rows[i].key)))
			continue;
		if (rows[i].shape == SHAPE_VERSION)
			set_text(report, rows[i].offset, text,
				 oh__version_length(text));
		else if (rows[i].shape == SHAPE_CPU && is_cpu(text))
			set_text(report, rows[i].offset, text, strlen(text));
		else if (rows[i].shape == SHAPE_PLATFORM)
			take_platform(report, text);
		else if (rows[i].shape == SHAPE_COMMAND_LINE)
			take_command_line(report, text);
		return true;
	}
	return false;
}

/* --- packages --- */

static const struct {
	const char *name;
	size_t offset;
} packages[] = {
	{"vllm", HOST(vllm)},
	{"sglang", HOST(sglang)},
	{"torch", HOST(torch)},
	{"nvidia-nccl-cu11", HOST(nccl)},
	{"nvidia-nccl-cu12", HOST(nccl)},
	{"nvidia-nccl-cu13", HOST(nccl)},
};

/* "[pip3] torch==2.7.0", "[conda] torch  2.7.0  pypi_0"; the same without the
 * bracket is no sign of a machine, yet says the version. */
static bool take_package(struct oh__report *report, const char *body)
{
	bool found = report->found || *body == '[';
	const char *text = body;

	if (*text == '[')
		text = oh__skip_blanks(text + strcspn(text, " \t"));
	for (size_t i = 0; i < sizeof(packages) / sizeof(*packages); i++) {
		size_t length = strlen(packages[i].name);
		const char *version = text + length;

		if (!oh__begins(text, packages[i].name) ||
		    (strncmp(version, "==", 2) && !oh__is_blank(*version)))
			continue;
		version = oh__is_blank(*version) ? oh__skip_blanks(version)
						 : version + 2;
		length = oh__version_length(version);
		if (!length || (version[length] && *body != '['))
			return false;
		set_text(report, packages[i].offset, version, length);
		report->found = found;
		return true;
	}
	return false;
}

/* --- variables --- */

/* Whose variables change which path is taken. */
static const char *const prefixes[] = {
	"CUDA_",  "NCCL_",	 "VLLM_",    "SGLANG_", "SGL_",
	"TORCH_", "OMP_",	 "PYTORCH_", "NVIDIA_", "TRTLLM_",
	"RAY_",	  "FLASHINFER_", "GGML_",    "ONEHOP_",
};

static size_t name_length(const char *text)
{
	size_t length = 0;

	while ((text[length] >= 'A' && text[length] <= 'Z') ||
	       (text[length] >= '0' && text[length] <= '9') ||
	       text[length] == '_')
		length++;
	return length;
}

/* Secrets stay where they are. */
static bool is_wanted(const char *name)
{
	bool known = false;

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		known |= !strncmp(name, prefixes[i], strlen(prefixes[i]));
	return known && !strstr(name, "KEY") && !strstr(name, "TOKEN") &&
	       !strstr(name, "SECRET") && !strstr(name, "PASSWORD") &&
	       strcmp(name, "ONEHOP_ID");
}

/* A value of one word, or in quotes; gives back its length, or -1. */
static long value_length(const char **value)
{
	const char *text = *value;
	char quote = *text == '"' || *text == '\'' ? *text : '\0';
	size_t length;

	if (quote) {
		const char *end = strchr(text + 1, quote);

		*value = text + 1;
		return end && !end[1] ? end - text - 1 : -1;
	}
	length = strcspn(text, " \t");
	/* a command goes on in the next line */
	if (text[length] && strcmp(text + length, " \\"))
		return -1;
	return (long)length;
}

static void keep_variable(struct oh__report *report, const char *name,
			  const char *value, size_t bytes)
{
	struct oh__machine *machine = &report->machine;
	struct oh__variable *variable;
	struct oh__text text;

	if (machine->variable_count == OH__VARIABLES ||
	    oh__machine_variable(machine, name))
		return;
	variable = &machine->variables[machine->variable_count++];
	oh__text_set(&text, report->from, value, bytes);
	variable->from = report->from;
	snprintf(variable->name, sizeof(variable->name), "%s", name);
	snprintf(variable->value, sizeof(variable->value), "%s", text.text);
	report->found = true;
}

/* NAME=VALUE alone on its line, as the shell and collect_env print it. */
static bool take_variable(struct oh__report *report, const char *body)
{
	static const char *const before[] = {
		"export ", "declare -x ", "ENV ", "-e ", "--env ", "set ",
	};
	char name[48];
	const char *value;
	size_t length;
	long bytes;

	for (size_t i = 0; i < sizeof(before) / sizeof(*before); i++)
		if (oh__begins(body, before[i]))
			body = oh__skip_blanks(body + strlen(before[i]));
	length = name_length(body);
	if (!length || length >= sizeof(name) || body[length] != '=')
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)length, body);
	value = body + length + 1;
	bytes = value_length(&value);
	if (bytes < 0 || !is_wanted(name))
		return false;
	keep_variable(report, name, value, (size_t)bytes);
	return true;
}

/* --- the kernel and its module --- */

/* "Linux host 6.8.0-45-generic #45-Ubuntu SMP ..." of uname -a, "Linux version
 * 6.8.0-45-generic (...)" of the kernel's own messages. */
static bool take_uname(struct oh__report *report, const char *body)
{
	const char *text = body + 6;
	size_t length;

	if (!oh__begins(body, "Linux "))
		return false;
	text = oh__skip_blanks(text + strcspn(text, " "));
	length = oh__version_length(text);
	if (!length || (text[length] && !oh__is_blank(text[length])) ||
	    (!strstr(text, "#") && !strstr(text, "GNU/Linux")))
		return false;
	set_text(report, HOST(kernel), text, length);
	return true;
}

/* "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.1  Release" */
static bool take_module(struct oh__report *report, const char *body)
{
	const char *text;

	if (!oh__begins(body, "NVRM") ||
	    !(text = strstr(body, "Kernel Module")))
		return false;
	while (*(text = oh__skip_blanks(text))) {
		size_t length = oh__version_length(text);

		if (length && oh__is_blank(text[length])) {
			set_text(report, HOST(driver), text, length);
			return true;
		}
		text += strcspn(text, " \t");
	}
	return false;
}

void oh__report_take_fact(struct oh__report *report, const char *body)
{
	if (take_boot(report, body) || take_row(report, body) ||
	    take_variable(report, body) || take_package(report, body) ||
	    take_uname(report, body) || take_module(report, body) ||
	    take_domain_type(report, body))
		return;
	take_fault(report, body);
}
