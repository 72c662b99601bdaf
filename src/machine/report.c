/* SPDX-License-Identifier: MIT */
/*
 * The report reader's frame: lines come in, each is cleaned and offered to the
 * parts, and at the end all that was read must fit together. Memory is one
 * struct, whatever the length of the text; time is linear in it.
 */
#include "machine/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "machine/report_private.h"

struct oh__report *oh__report_create(const char *name)
{
	struct oh__report *report = calloc(1, sizeof(*report));

	if (!report)
		return NULL;
	report->from.source = oh__machine_source(&report->machine, name);
	report->matrix.open = -1;
	report->lists.last = -1;
	report->lists.table_gpu = -1;
	report->lists.query = -1;
	return report;
}

void oh__report_fail(struct oh__report *report, enum oh_status status,
		     const char *format, ...)
{
	va_list args;

	if (report->status)
		return;
	report->status = status;
	va_start(args, format);
	vsnprintf(report->message, sizeof(report->message), format, args);
	va_end(args);
}

/* What a program logs is no output of a tool, and most of a long text. */
static bool is_logged(const char *body)
{
	static const char *const levels[] = {"INFO ", "WARNING ", "DEBUG ",
					     "ERROR "};

	for (size_t i = 0; i < sizeof(levels) / sizeof(*levels); i++)
		if (oh__begins(body, levels[i]))
			return true;
	return false;
}

/* Most lines of a log are of no interest; what they cost is the time that a
 * gigabyte takes. */
void oh__report_feed(struct oh__report *report, const char *line, size_t bytes)
{
	const char *body;

	/* a piece that begins so is of the line before */
	if (report->from.line < UINT32_MAX &&
	    !(report->from.line && bytes && *line == '\r'))
		report->from.line++;
	if (report->status)
		return;
	oh__line_clean(line, bytes, report->line, sizeof(report->line));
	body = oh__line_body(report->line);
	if (!*body) {
		report->lists.pci_known = false;
		return;
	}
	oh__report_take_command(report);
	if (oh__report_take_matrix(report) || is_logged(body))
		return;
	oh__report_take_foreign(report, body);
	if (!oh__report_take_gpus(report, body) &&
	    !oh__report_take_query(report, body))
		oh__report_take_fact(report, body);
}

enum oh_status oh__report_finish(struct oh__report *report,
				 struct oh__machine *machine, bool *found)
{
	enum oh_status status;

	oh__report_close_matrix(report);
	oh__report_close_lists(report);
	status = oh__report_check_maker(report);
	if (!status && report->status)
		status = OH__FAIL(report->status, "%s", report->message);
	if (!status) {
		*machine = report->machine;
		*found = report->found || report->machine.gpus > 0;
	}
	free(report);
	return status;
}
