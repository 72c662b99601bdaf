/* SPDX-License-Identifier: MIT */
/*
 * Texts of machines that this reader is not for. The tools of AMD and Intel
 * print matrices that look much like nvidia-smi's, with GPU0 and GPU1, but hold
 * weights, hops or the maker's own words: they must be refused, never read. A
 * line of collect_env that only names a version is a hint, which counts where
 * nothing of NVIDIA's is in the text.
 */
#include "machine/report_private.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

enum kind {
	KIND_BEGINS, /* the line begins so */
	KIND_VALUE, /* "key: value", and the value is a version */
	KIND_YES, /* "key: True" */
	KIND_TEXT, /* "key: value", and the value holds "holds" */
	KIND_ROW, /* the line begins so and holds "holds" */
};

static const struct {
	enum kind kind;
	enum oh__maker maker;
	bool hint;
	const char *text;
	const char *holds;
	const char *what; /* for the person */
} signs[] = {
	/* rocm-smi --showtopo; the lines' "=" are passed over */
	{KIND_BEGINS, OH__MAKER_AMD, false, "ROCm System Management Interface",
	 NULL, "output of rocm-smi"},
	{KIND_BEGINS, OH__MAKER_AMD, false, "Weight between two GPUs", NULL,
	 "rocm-smi --showtopo"},
	{KIND_BEGINS, OH__MAKER_AMD, false, "Hops between two GPUs", NULL,
	 "rocm-smi --showtopo"},
	{KIND_BEGINS, OH__MAKER_AMD, false, "Link Type between two GPUs", NULL,
	 "rocm-smi --showtopo"},
	{KIND_BEGINS, OH__MAKER_AMD, false, "GPU[0]", NULL,
	 "output of rocm-smi"},
	{KIND_ROW, OH__MAKER_AMD, false, "GPU0 ", " XGMI",
	 "rocm-smi --showtopo"},
	{KIND_ROW, OH__MAKER_AMD, false, "GPU0 ", " PCIE",
	 "rocm-smi --showtopo"},
	/* amd-smi topology, amd-smi */
	{KIND_BEGINS, OH__MAKER_AMD, false, "LINK TYPE TABLE:", NULL,
	 "amd-smi topology"},
	{KIND_BEGINS, OH__MAKER_AMD, false, "WEIGHT TABLE:", NULL,
	 "amd-smi topology"},
	{KIND_BEGINS, OH__MAKER_AMD, false, "ACCESS TABLE:", NULL,
	 "amd-smi topology"},
	{KIND_BEGINS, OH__MAKER_AMD, false, "HOPS TABLE:", NULL,
	 "amd-smi topology"},
	{KIND_BEGINS, OH__MAKER_AMD, false, "AMD-SMI ", NULL,
	 "output of amd-smi"},
	{KIND_BEGINS, OH__MAKER_AMD, false, "AMD Topology:", NULL,
	 "SGLang's check_env on ROCm"},
	{KIND_BEGINS, OH__MAKER_AMD, false, "GPU 0: AMD ", NULL,
	 "a list of AMD's GPUs"},
	{KIND_TEXT, OH__MAKER_AMD, false, "GPU models and configuration", "AMD",
	 "collect_env with AMD's GPUs"},
	{KIND_TEXT, OH__MAKER_AMD, false, "GPU models and configuration", "gfx",
	 "collect_env with AMD's GPUs"},
	{KIND_VALUE, OH__MAKER_AMD, true, "ROCM used to build PyTorch", NULL,
	 "PyTorch built for ROCm"},
	{KIND_VALUE, OH__MAKER_AMD, true, "HIP runtime version", NULL,
	 "a HIP runtime"},
	{KIND_YES, OH__MAKER_AMD, true, "ROCM available", NULL,
	 "PyTorch for ROCm"},
	{KIND_TEXT, OH__MAKER_AMD, true, "PyTorch version", "+rocm",
	 "PyTorch built for ROCm"},
	/* xpu-smi topology -m, xpu-smi discovery */
	{KIND_BEGINS, OH__MAKER_INTEL, false, "GPU 0/0", NULL,
	 "xpu-smi topology -m"},
	{KIND_TEXT, OH__MAKER_INTEL, false, "Device Name", "Intel",
	 "xpu-smi discovery"},
	{KIND_BEGINS, OH__MAKER_INTEL, false, "GPU 0: Intel", NULL,
	 "a list of Intel's GPUs"},
	{KIND_TEXT, OH__MAKER_INTEL, true, "PyTorch version", "+xpu",
	 "PyTorch built for XPU"},
	{KIND_YES, OH__MAKER_INTEL, true, "Is XPU available", NULL,
	 "PyTorch for XPU"},
	/* no GPU at all */
	{KIND_BEGINS, OH__MAKER_NONE, true, "No devices were found", NULL,
	 "nvidia-smi found no device"},
	{KIND_BEGINS, OH__MAKER_NONE, true, "NVIDIA-SMI has failed", NULL,
	 "nvidia-smi could not reach the driver"},
	{KIND_TEXT, OH__MAKER_NONE, true, "GPU models and configuration",
	 "No CUDA", "collect_env saw no CUDA"},
	{KIND_TEXT, OH__MAKER_NONE, true, "GPU models and configuration",
	 "Could not collect", "collect_env saw no GPU"},
	{KIND_TEXT, OH__MAKER_NONE, true, "Is CUDA available", "False",
	 "PyTorch saw no CUDA"},
	{KIND_TEXT, OH__MAKER_NONE, true, "CUDA available", "False",
	 "PyTorch saw no CUDA"},
};

static bool is_sign(size_t sign, const char *body)
{
	const char *text = signs[sign].text, *value;

	if (*body != *text)
		return false;
	if (signs[sign].kind == KIND_BEGINS)
		return !strncmp(body, text, strlen(text));
	if (signs[sign].kind == KIND_ROW)
		return oh__begins(body, text) &&
		       strstr(body, signs[sign].holds) != NULL;
	value = oh__value_of(body, text);
	if (!value)
		return false;
	if (signs[sign].kind == KIND_VALUE)
		return *value >= '0' && *value <= '9';
	if (signs[sign].kind == KIND_YES)
		return !strncmp(value, "True", 4);
	return strstr(value, signs[sign].holds) != NULL;
}

static void note(struct oh__report *report, size_t sign)
{
	bool hint = signs[sign].hint;
	enum oh__maker *maker = hint ? &report->hint : &report->maker;
	uint32_t *line = hint ? &report->hint_line : &report->maker_line;
	char *what = hint ? report->hint_what : report->maker_what;

	/* a maker says more than that there is no GPU */
	if (*maker != OH__MAKER_NVIDIA &&
	    (*maker != OH__MAKER_NONE || signs[sign].maker == OH__MAKER_NONE))
		return;
	*maker = signs[sign].maker;
	*line = report->from.line;
	snprintf(what, sizeof(report->hint_what), "%s", signs[sign].what);
}

void oh__report_take_foreign(struct oh__report *report, const char *body)
{
	/* the tools' boxes */
	body = oh__skip_blanks(body + strspn(body, "=|+"));
	for (size_t i = 0; i < sizeof(signs) / sizeof(*signs); i++)
		if (is_sign(i, body))
			note(report, i);
}

static const char *sentence_of(enum oh__maker maker)
{
	switch (maker) {
	case OH__MAKER_AMD:
		return "AMD GPUs (ROCm), whose links and rules are others";
	case OH__MAKER_INTEL:
		return "Intel GPUs (XPU), whose links and rules are others";
	default:
		return "a machine on which no NVIDIA GPU was seen";
	}
}

enum oh_status oh__report_check_maker(const struct oh__report *report)
{
	bool hint = report->maker == OH__MAKER_NVIDIA;
	enum oh__maker maker = hint ? report->hint : report->maker;

	if (maker == OH__MAKER_NVIDIA || report->machine.gpus > 0)
		return OH_OK;
	return OH__FAIL(
		OH_ERR_UNSUPPORTED,
		"%s:%u: %s: this is about %s; only NVIDIA's are read: give "
		"`nvidia-smi topo -m` of a machine that has some",
		report->machine.sources[0],
		hint ? report->hint_line : report->maker_line,
		hint ? report->hint_what : report->maker_what,
		sentence_of(maker));
}
