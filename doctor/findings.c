/* SPDX-License-Identifier: MIT */
/*
 * Collects the findings, worst first; those of one severity stay in the order
 * of the tables, which is from the cause to the detail. What more than one of
 * the tables asks is here.
 */
#include "doctor/findings.h"
#include "doctor/gate_vllm.h"

void finding_question(const struct diagnosis *d, struct gate_question *question)
{
	memset(question, 0, sizeof(*question));
	question->machine = &d->machine;
	question->log = d->has_log ? &d->log : NULL;
	if (!d->has_machine || d->tp < 1 || d->tp > d->machine.gpus ||
	    d->tp > OH__GPUS)
		return;
	question->tp = d->tp;
	for (int i = 0; i < d->tp; i++)
		question->gpus[i] =
			i < d->visible.count ? d->visible.gpu[i] : i;
}

const struct gate_step *finding_step(const struct gate *gate, const char *id)
{
	for (int i = 0; gate && i < gate->step_count; i++)
		if (!strcmp(gate->steps[i].id, id))
			return &gate->steps[i];
	return NULL;
}

const char *finding_rule(const struct diagnosis *d)
{
	const struct gate *gate = diagnosis_gate(d, "custom_all_reduce");

	if (gate && gate->rule)
		return gate->rule;
	if (gate && gate->verdict == GATE_ENABLED)
		return NULL;
	if (d->has_log && d->log.custom == LOG_CUSTOM_DISABLED &&
	    *d->log.custom_rule)
		return d->log.custom_rule;
	return NULL;
}

void finding_rule_evidence(const struct diagnosis *d, const char *rule,
			   char *text, size_t bytes)
{
	const struct gate_step *step =
		finding_step(diagnosis_gate(d, "custom_all_reduce"), rule);
	char origin[96];

	if (step && step->decides) {
		snprintf(text, bytes, "%s (%s)", step->evidence, step->origin);
		return;
	}
	finding_log_origin(d, d->log.line.custom, origin);
	snprintf(text, bytes, "\"%s\" (%s)", d->log.custom_text, origin);
}

bool finding_custom_enabled(const struct diagnosis *d)
{
	const struct gate *gate = diagnosis_gate(d, "custom_all_reduce");

	if (d->has_log && d->log.custom != LOG_CUSTOM_UNKNOWN)
		return d->log.custom == LOG_CUSTOM_ENABLED;
	return gate && gate->verdict == GATE_ENABLED;
}

const char *finding_goes(const struct diagnosis *d, char text[112])
{
	const struct gate *gate = diagnosis_gate(d, "dispatch");
	const char *path = gate ? gate->rule : NULL;
	const char *open = gate && !path ? gate_unknown_step(gate) : NULL;

	if (open)
		snprintf(text, 112,
			 "Every all-reduce goes to NCCL, unless %.50s takes it",
			 vllm_path_words(open));
	else if (!path || !strcmp(path, "PYNCCL") || !strcmp(path, "CUSTOM"))
		snprintf(text, 112, "Every all-reduce goes to NCCL");
	else
		snprintf(text, 112, "What a decode step sends goes to %.50s",
			 vllm_path_words(path));
	return text;
}

const char *finding_engine(const struct diagnosis *d)
{
	return d->has_log && d->log.engine == LOG_SGLANG ? "SGLang" : "vLLM";
}

const char *finding_cache(const struct diagnosis *d)
{
	return d->has_log && d->log.engine == LOG_SGLANG ? "sglang" : "vllm";
}

void finding_log_origin(const struct diagnosis *d, uint64_t line,
			char origin[96])
{
	gate_log_origin(&d->log, line, origin);
}

void finding_origin(const struct diagnosis *d, struct oh__from from, char *text,
		    size_t bytes)
{
	oh__machine_origin(&d->machine, from, text, bytes);
}

bool finding_all_nvlink(const struct diagnosis *d)
{
	struct gate_question question;
	struct gate_said said = {0};

	finding_question(d, &question);
	if (question.tp < 2) {
		question.tp = d->machine.gpus;
		for (int i = 0; i < question.tp; i++)
			question.gpus[i] = i;
	}
	if (question.tp < 2)
		return false;
	gate_pairs_nvlink(&question, &said);
	return said.answer == GATE_YES;
}

void finding_share(const struct diagnosis *d, const char *path, char *text,
		   size_t bytes)
{
	const struct budget *budget = &d->budget;
	char share[32];
	int used;

	*text = '\0';
	for (int i = 0; i < budget->path_count; i++) {
		const struct budget_path *row = &budget->paths[i];

		if (strcmp(row->time->path, path) != 0 ||
		    budget->all_reduces_per_token.value <= 0)
			continue;
		used = snprintf(text, bytes,
				"%.0f all-reduces a token at %.3g to %.3g us "
				"each: %.1f to %.1f ms",
				budget->all_reduces_per_token.value,
				row->time->low_us, row->time->high_us,
				row->low_ms, row->high_ms);
		if (budget->ms_per_token.value > 0 && used > 0 &&
		    (size_t)used < bytes)
			snprintf(text + used, bytes - (size_t)used,
				 " of %.1f ms (%s)", budget->ms_per_token.value,
				 budget_percent(row->low_share, row->high_share,
						share));
		return;
	}
}

/* A finding that is worse goes before; of one severity they keep their order.
 * Few, so that insertion will do. */
static void insert(struct diagnosis *d, const struct finding *finding)
{
	int at = d->finding_count;

	if (at == DIAGNOSIS_FINDINGS)
		return;
	while (at && d->findings[at - 1].severity < finding->severity) {
		d->findings[at] = d->findings[at - 1];
		at--;
	}
	d->findings[at] = *finding;
	d->finding_count++;
}

void findings_collect(struct diagnosis *diagnosis)
{
	static const struct finding_row *const tables[] = {
		findings_of_gates, findings_of_machine, findings_of_run};

	diagnosis->finding_count = 0;
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		for (const struct finding_row *row = tables[i]; row->id;
		     row++) {
			struct finding finding = {.id = row->id};

			if (row->look(diagnosis, &finding))
				insert(diagnosis, &finding);
		}
}

const char *finding_severity_name(enum finding_severity severity)
{
	switch (severity) {
	case FINDING_PROBLEM:
		return "problem";
	case FINDING_WARNING:
		return "warning";
	case FINDING_INFO:
		break;
	}
	return "info";
}
