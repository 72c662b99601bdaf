/* SPDX-License-Identifier: MIT */
/* CSV: a line a row, the first names the columns; empty means not known. Only
 * the last column may hold a comma, and is quoted. */
#include "tools/bench_write.h"

#include <inttypes.h>
#include <stdlib.h>

static void csv_text(FILE *out, const char *text)
{
	if (!*text)
		return;
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', out);
		fputc(*text == '\n' ? ' ' : *text, out);
	}
	fputc('"', out);
}

static void csv_row(FILE *out, const struct bench_plan *plan,
		    const struct bench_row *row)
{
	const struct bench_case *what = row->what;

	fprintf(out, "%s,%" PRIu64 ",%zu,%s,%s,",
		oh_collective_name(what->collective), what->bytes, what->count,
		oh_dtype_name(what->dtype),
		bench_reduces(what->collective) ? oh_op_name(what->op) : "");
	if (what->collective == OH_BROADCAST)
		fprintf(out, "%d", what->root);
	fprintf(out, ",%d,%d,%s,%s,", plan->frame.ranks, plan->frame.in_place,
		row->subject, row->path);
	if (row->measured)
		fprintf(out, "%.6g,%.6g,%.6g,%.6g,%.6g,", row->us.min,
			row->us.p50, row->us.p99, row->algbw, row->busbw);
	else
		fprintf(out, ",,,,,");
	if (row->measured && row->checked)
		fprintf(out, "%" PRIu64, row->wrong);
	fputc(',', out);
	if (row->flag_us > 0)
		fprintf(out, "%.6g", row->flag_us);
	fputc(',', out);
	if (row->measured && row->ratio > 0)
		fprintf(out, "%.6g", row->ratio);
	fputc(',', out);
	csv_text(out, row->why);
	fputc('\n', out);
}

char *bench_csv(const struct bench_plan *plan,
		const struct bench_result *result)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	bool fine;

	if (!out)
		return NULL;
	fputs("collective,bytes,count,dtype,op,root,ranks,in_place,subject,"
	      "path,us_min,us_p50,us_p99,algbw_gb_s,busbw_gb_s,wrong,"
	      "flag_exchange_us,ratio,refused\n",
	      out);
	for (size_t i = 0; i < result->row_count; i++)
		csv_row(out, plan, &result->rows[i]);
	fine = !ferror(out);
	if (fclose(out) || !fine) {
		free(text);
		return NULL;
	}
	return text;
}
