/* SPDX-License-Identifier: MIT */
/*
 * The diagnosis for a person: three lines that say it all, then the chain of
 * the engine's own kernel, then the findings and what to do, then where a
 * token's time goes, the other gates in a line each, and what was read.
 */
#include <stdarg.h>
#include <string.h>

#include "tools/doctor_write.h"
#include "tools/page.h"

#define WIDTH 100
#define LABEL 12 /* columns of a label */

/* 17.4, 223, 1792, 0.13: what a person reads. */
static const char *figure(double value, char *text, size_t room)
{
	double size = value < 0 ? -value : value;

	if (size >= 1e12)
		snprintf(text, room, "%.1f T", value / 1e12);
	else if (size >= 1e9)
		snprintf(text, room, "%.1f G", value / 1e9);
	else if (size >= 1e7)
		snprintf(text, room, "%.1f M", value / 1e6);
	else if (size >= 100 || value == (double)(long)value)
		snprintf(text, room, "%.0f", value);
	else
		snprintf(text, room, size >= 1 ? "%.1f" : "%.2f", value);
	return text;
}

static const enum page_style verdict_styles[] = {
	[GATE_DEPENDS] = PAGE_DOUBT,
	[GATE_ENABLED] = PAGE_GOOD,
	[GATE_DISABLED] = PAGE_BAD,
};

static void write_summary(const struct page *page, const struct diagnosis *d)
{
	static const enum page_style styles[] = {
		[SUMMARY_PLAIN] = PAGE_BOLD,
		[SUMMARY_GOOD] = PAGE_GOOD,
		[SUMMARY_BAD] = PAGE_BAD,
		[SUMMARY_DOUBT] = PAGE_DOUBT,
	};

	for (int i = 0; i < SUMMARY_LINES; i++)
		page_write(page, LABEL, styles[d->summary[i].tone],
			   d->summary[i].label, "%s", d->summary[i].text);
}

static void write_findings(const struct page *page, const struct diagnosis *d)
{
	static const enum page_style style[] = {
		[FINDING_INFO] = PAGE_DIM,
		[FINDING_WARNING] = PAGE_DOUBT,
		[FINDING_PROBLEM] = PAGE_BAD,
	};

	if (d->finding_count)
		page_head(page, "findings");
	for (int i = 0; i < d->finding_count; i++) {
		const struct finding *f = &d->findings[i];

		page_write(page, LABEL, style[f->severity],
			   finding_severity_name(f->severity), "%s  [%s]",
			   f->title, f->id);
		if (*f->evidence)
			page_write(page, LABEL, PAGE_DIM, "  evidence", "%s",
				   f->evidence);
		if (*f->consequence)
			page_write(page, LABEL, PAGE_DIM, "  means", "%s",
				   f->consequence);
		if (*f->remedy)
			page_write(page, LABEL, PAGE_DIM, "  do", "%s",
				   f->remedy);
	}
}

static void write_step(const struct page *page, const struct gate_step *step)
{
	static const enum page_style style[] = {
		[GATE_UNKNOWN] = PAGE_DOUBT,
		[GATE_YES] = PAGE_GOOD,
		[GATE_NO] = PAGE_BAD,
	};
	char label[LABEL + 1];

	snprintf(label, sizeof(label), "  %s%s", gate_answer_name(step->answer),
		 step->decides ? " <-" : "");
	page_write(page, LABEL, step->reached ? style[step->answer] : PAGE_DIM,
		   label, "%s%s%s%s%s%s%s%s",
		   step->reached ? "" : "(never reached) ", step->question,
		   *step->evidence ? " " : "", step->evidence,
		   *step->origin ? " (" : "", step->origin,
		   *step->origin ? ")" : "",
		   step->decides ? "  -- this decides" : "");
}

static void head_gate(const struct page *page, const struct gate *gate)
{
	page_head(page, "%s%s%s %s, %d rank%s: %s%s%s", gate->engine,
		  *gate->version.text ? " " : "", gate->version.text,
		  gate->feature, gate->tp, gate->tp == 1 ? "" : "s",
		  gate->transport ? gate->transport
				  : gate_verdict_name(gate->verdict),
		  gate->rule ? " by " : "", gate->rule ? gate->rule : "");
}

static void write_gate(const struct page *page, const struct gate *gate)
{
	head_gate(page, gate);
	for (int i = 0; i < gate->step_count; i++)
		write_step(page, &gate->steps[i]);
	if (*gate->if_yes)
		page_write(page, LABEL, PAGE_PLAIN, "  if yes", "%s",
			   gate->if_yes);
	if (*gate->if_no)
		page_write(page, LABEL, PAGE_PLAIN, "  if no", "%s",
			   gate->if_no);
	if (*gate->log_line)
		page_write(page, LABEL, PAGE_PLAIN, "  it logs", "%s",
			   gate->log_line);
	for (int i = 0; i < gate->override_count; i++)
		page_write(page, LABEL, PAGE_PLAIN, "  override", "%s%s%s",
			   gate->overrides[i].what,
			   *gate->overrides[i].risk ? "; risk: " : "",
			   gate->overrides[i].risk);
	for (int i = 0; i < gate->assumed_count; i++)
		page_write(page, LABEL, PAGE_DIM, "  assumed", "%s",
			   gate->assumed[i]);
	if (gate->version_estimated)
		page_write(page, LABEL, PAGE_DIM, "  note",
			   "the release in which a rule of this chain first "
			   "appeared is an estimate");
}

/* The chains that a person looks at; the others are a line each, and whole in
 * JSON. */
static bool is_shown_whole(const struct diagnosis *d, int i)
{
	return i == 0 || d->gates[i].transport;
}

static void write_other_gates(const struct page *page,
			      const struct diagnosis *d)
{
	bool any = false;

	for (int i = 0; i < d->gate_count; i++) {
		const struct gate *gate = &d->gates[i];

		if (is_shown_whole(d, i))
			continue;
		if (!any)
			page_head(page, "other paths of the engine (their "
					"chains: --json)");
		any = true;
		page_write(page, LABEL, verdict_styles[gate->verdict],
			   gate_verdict_name(gate->verdict), "%s: %s",
			   gate->feature, gate->summary);
	}
	for (int i = 1; i < d->gate_count; i++)
		if (is_shown_whole(d, i))
			write_gate(page, &d->gates[i]);
}

static void write_figure(const struct page *page, const char *name,
			 const struct figure *value, const char *unit)
{
	char text[32], line[96];

	if (!*value->source)
		return;
	snprintf(line, sizeof(line), "  %-26s%9s %-8s", name,
		 figure(value->value, text, sizeof(text)), unit);
	page_write(page, 47, PAGE_PLAIN, line, "%s", value->source);
}

static void write_paths(const struct page *page, const struct budget *b)
{
	for (int i = 0; i < b->path_count; i++) {
		const struct budget_path *path = &b->paths[i];
		char share[32] = "", left[64] = "", rate[64] = "";

		if (path->high_share > 0)
			budget_percent(path->low_share, path->high_share,
				       share);
		if (path->now && path->high_share > 0)
			snprintf(left, sizeof(left),
				 "; %.3g to %.3g ms are left for all else",
				 path->low_left_ms, path->high_left_ms);
		if (path->high_tokens_per_second > 0)
			snprintf(rate, sizeof(rate),
				 "; then %.3g to %.3g "
				 "tokens/s",
				 path->low_tokens_per_second,
				 path->high_tokens_per_second);
		page_write(page, LABEL, path->now ? PAGE_BOLD : PAGE_PLAIN,
			   path->now ? "  path now" : "  path",
			   "%s: %.4g to %.4g us a call, %.3g to %.3g ms a "
			   "token%s%s%s%s (%s)",
			   path->time->title, path->time->low_us,
			   path->time->high_us, path->low_ms, path->high_ms,
			   *share ? ", " : "", share, left, rate,
			   path->time->source);
	}
}

static void write_verdict(const struct page *page, const struct budget *b)
{
	page_write(page, LABEL, PAGE_BOLD, "  verdict", "%s%s%s",
		   budget_verdict_name(b->verdict), *b->verdict_why ? ": " : "",
		   b->verdict_why);
	for (int v = 0; v < BUDGET_VERDICTS; v++)
		if (b->not_bound_by >> v & 1)
			page_write(page, LABEL, PAGE_BOLD, "  not bound",
				   "by %s: %s",
				   budget_verdict_name((enum budget_verdict)v),
				   b->not_bound_why[v]);
}

static void write_budget(const struct page *page, const struct diagnosis *d)
{
	const struct budget *b = &d->budget;
	const struct {
		const char *name;
		const struct figure *figure;
		const char *unit;
	} rows[] = {
		{"layers", &b->layers, ""},
		{"hidden size", &b->hidden_size, ""},
		{"parameters", &b->parameters_total, ""},
		{"parameters a token reads", &b->parameters_active, ""},
		{"all-reduces a token", &b->all_reduces_per_token, ""},
		{"the embedding's", &b->embedding_all_reduces, ""},
		{"bytes of each", &b->message_bytes_per_token, ""},
		{"tokens/s of a sequence", &b->tokens_per_second, ""},
		{"sequences at once", &b->batch, ""},
		{"time of a token", &b->ms_per_token, "ms"},
		{"time of a layer", &b->us_per_layer, "us"},
		{"all-reduces a second", &b->all_reduces_per_second, ""},
		{"weights read by a GPU", &b->active_bytes_per_gpu, "bytes"},
		{"that is", &b->achieved_gb_s_per_gpu, "GB/s"},
		{"the GPU's peak", &b->gpu_peak_gb_s, "GB/s"},
		{"used of the peak", &b->utilisation_of_peak, ""},
		{"believed", &b->claimed_gb_s, "GB/s"},
		{"used of what is believed",
		 &b->utilisation_of_claimed_bandwidth, ""},
		{"at the peak a token takes", &b->memory_ms_per_token, "ms"},
	};

	if (!b->any)
		return;
	page_head(page, "where a token's time goes");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		write_figure(page, rows[i].name, rows[i].figure, rows[i].unit);
	if (d->has_model && *d->model.remark)
		page_write(page, LABEL, PAGE_DIM, "  note", "%s",
			   d->model.remark);
	write_paths(page, b);
	write_verdict(page, b);
}

static void write_islands(const struct page *page, const struct diagnosis *d)
{
	struct oh__groups islands;
	char text[256];
	size_t used = 0;

	oh__machine_islands(&d->machine, &islands);
	for (int i = 0; i < islands.count; i++)
		for (int k = 0; k < islands.size[i]; k++)
			if (used < sizeof(text))
				used += (size_t)snprintf(text + used,
							 sizeof(text) - used,
							 "%s%d",
							 k   ? ","
							 : i ? " | "
							     : "",
							 islands.member[i][k]);
	if (islands.count)
		page_write(page, LABEL, PAGE_PLAIN, "  islands", "%s", text);
}

static void write_machine(const struct page *page, const struct diagnosis *d)
{
	const struct oh__host *host = &d->machine.host;

	for (int i = 0; i < d->machine.gpus; i++) {
		const char *name = d->machine.gpu[i].name.text;
		int last = i;

		while (last + 1 < d->machine.gpus &&
		       !strcmp(name, d->machine.gpu[last + 1].name.text))
			last++;
		page_write(page, LABEL, PAGE_PLAIN, "  GPUs", "%d x %s",
			   last - i + 1, *name ? name : "unknown model");
		i = last;
	}
	write_islands(page, d);
	if (oh__known(host->cpu.from))
		page_write(page, LABEL, PAGE_PLAIN, "  host", "%s",
			   host->cpu.text);
	if (oh__known(host->driver.from))
		page_write(page, LABEL, PAGE_PLAIN, "  driver", "%s",
			   host->driver.text);
}

static void write_inputs(const struct page *page, const struct diagnosis *d)
{
	char origin[OH__TEXT_BYTES + 16];

	page_head(page, "what was read");
	for (int i = 0; i < d->input_count; i++)
		page_write(page, LABEL, PAGE_PLAIN,
			   d->inputs[i].kind == INPUT_UNKNOWN
				   ? "not read"
				   : input_kind_name(d->inputs[i].kind),
			   "%s", d->inputs[i].file);
	if (d->tp)
		page_write(page, LABEL, PAGE_PLAIN, "  ranks", "%d (%s)", d->tp,
			   d->tp_source);
	if (d->has_machine)
		write_machine(page, d);
	for (int i = 0; i < d->machine.remark_count; i++)
		page_write(page, LABEL, PAGE_DIM, "  note", "%s (%s)",
			   d->machine.remarks[i].text,
			   oh__machine_origin(&d->machine,
					      d->machine.remarks[i].from,
					      origin, sizeof(origin)));
}

void doctor_write_text(const struct diagnosis *diagnosis, bool colour,
		       FILE *out)
{
	struct page page = {.out = out, .width = WIDTH, .colour = colour};

	write_summary(&page, diagnosis);
	if (diagnosis->gate_count)
		write_gate(&page, &diagnosis->gates[0]);
	write_findings(&page, diagnosis);
	write_budget(&page, diagnosis);
	write_other_gates(&page, diagnosis);
	write_inputs(&page, diagnosis);
}
