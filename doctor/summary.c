/* SPDX-License-Identifier: MIT */
#include "doctor/summary.h"

#include <stdio.h>
#include <string.h>

#include "doctor/diagnosis.h"
#include "doctor/gate_vllm.h"

#define SAY(line, ...) snprintf((line)->text, sizeof((line)->text), __VA_ARGS__)

static const struct gate *custom_gate(const struct diagnosis *d)
{
	return diagnosis_gate(d, "custom_all_reduce");
}

static const char *engine_name(const char *engine)
{
	return !strcmp(engine, "vllm")	   ? "vLLM"
	       : !strcmp(engine, "sglang") ? "SGLang"
	       : !strcmp(engine, "nccl")   ? "NCCL"
					   : engine;
}

/* " (SHM)", or nothing. */
static const char *transport(const struct diagnosis *d, char text[16])
{
	const char *name = NULL;

	if (d->has_log && d->log.transport)
		name = log_transport_name(d->log.transport);
	for (int i = 0; i < d->gate_count && !name; i++)
		if (d->gates[i].transport &&
		    strcmp(d->gates[i].transport, "depends") != 0)
			name = d->gates[i].transport;
	snprintf(text, 16, name ? " (%s)" : "%s", name ? name : "");
	return text;
}

/* The first step whose answer nobody knows. */
static const char *unknown_step(const struct gate *gate)
{
	const char *id = gate_unknown_step(gate);

	return id ? id : "a rule";
}

/* What is on its way: "a message of 12288 bytes". */
static const char *message(const struct gate *gate, char text[48])
{
	if (gate->bytes)
		snprintf(text, 48, "a message of %llu bytes",
			 (unsigned long long)gate->bytes);
	else
		snprintf(text, 48, "the messages of a decode step");
	return text;
}

/* "torch's symmetric memory (SYMM_MEM)"; of NCCL how it goes. */
static const char *taker(const struct diagnosis *d, const char *path,
			 char text[96])
{
	char way[16];

	if (!strcmp(path, "PYNCCL"))
		snprintf(text, 96, "NCCL%s", transport(d, way));
	else
		snprintf(text, 96, "%s (%s)", vllm_path_words(path), path);
	return text;
}

static void say_disabled(const struct diagnosis *d, const struct gate *gate,
			 struct summary_line *line)
{
	const struct gate *dispatch = diagnosis_gate(d, "dispatch");
	const char *path = dispatch ? dispatch->rule : NULL;
	char rule[64] = "", what[48], who[96];

	if (gate->rule)
		snprintf(rule, sizeof(rule), ", by rule %.50s", gate->rule);
	/* at its start, and not for this message */
	if (!path || (!strcmp(path, "PYNCCL") && !vllm_closed_per_call(gate)))
		snprintf(what, sizeof(what), "all");
	else
		message(gate, what);
	if (dispatch && !path)
		SAY(line,
		    "%s's own all-reduce at %d ranks%s; %s takes %s, if it "
		    "accepts",
		    engine_name(gate->engine), gate->tp, rule,
		    taker(d, unknown_step(dispatch), who), message(gate, what));
	else
		SAY(line, "%s's own all-reduce at %d ranks%s; %s takes %s",
		    engine_name(gate->engine), gate->tp, rule,
		    taker(d, path ? path : "PYNCCL", who), what);
}

/* Another path comes first, or may. */
static void say_before(const struct diagnosis *d, const struct gate *gate,
		       struct summary_line *line)
{
	const struct gate *dispatch = diagnosis_gate(d, "dispatch");
	const char *engine = engine_name(gate->engine);
	char what[48], who[96];

	if (!dispatch->rule)
		SAY(line,
		    "%s's own all-reduce at %d ranks: no rule closes it; "
		    "whether %s comes before it cannot be told",
		    engine, gate->tp, taker(d, unknown_step(dispatch), who));
	else if (gate->verdict == GATE_ENABLED)
		SAY(line,
		    "%s takes %s at %d ranks; %s's own all-reduce is on, and "
		    "comes after it",
		    taker(d, dispatch->rule, who), message(gate, what),
		    gate->tp, engine);
	else
		SAY(line,
		    "%s takes %s at %d ranks; of %s's own all-reduce %s cannot "
		    "be told",
		    taker(d, dispatch->rule, who), message(gate, what),
		    gate->tp, engine, unknown_step(gate));
}

static void say_verdict(const struct diagnosis *d, const struct gate *gate,
			struct summary_line *line)
{
	static const enum summary_tone tones[] = {
		[GATE_DEPENDS] = SUMMARY_DOUBT,
		[GATE_ENABLED] = SUMMARY_GOOD,
		[GATE_DISABLED] = SUMMARY_BAD,
	};
	const struct gate *dispatch = diagnosis_gate(d, "dispatch");
	const char *engine = engine_name(gate->engine);
	bool enabled = gate->verdict == GATE_ENABLED;
	bool own =
		dispatch && dispatch->rule && !strcmp(dispatch->rule, "CUSTOM");
	char what[48];

	line->label = gate_verdict_name(gate->verdict);
	line->tone = tones[gate->verdict];
	if (gate->verdict == GATE_DISABLED)
		say_disabled(d, gate, line);
	else if (dispatch && !own && (enabled || dispatch->rule))
		say_before(d, gate, line);
	else if (own)
		SAY(line,
		    "%s's own all-reduce takes %s at %d ranks: no rule closes "
		    "it",
		    engine, message(gate, what), gate->tp);
	else if (enabled)
		SAY(line, "%s's own all-reduce at %d ranks: no rule closes it",
		    engine, gate->tp);
	else
		SAY(line,
		    "%s's own all-reduce at %d ranks: %s cannot be told from "
		    "what was given",
		    engine, gate->tp, unknown_step(gate));
}

/* NCCL's rules where they are what was asked for; NULL else. */
static const struct gate *nccl_gate(const struct diagnosis *d)
{
	for (int i = 0; d->options.engine && i < d->gate_count; i++)
		if (!strcmp(d->options.engine, "nccl") &&
		    !strcmp(d->gates[i].engine, "nccl") &&
		    d->gates[i].transport)
			return &d->gates[i];
	return NULL;
}

static const char *way_in_words(const char *transport)
{
	return !strcmp(transport, "P2P")   ? "the GPUs' own memory (P2P)"
	       : !strcmp(transport, "SHM") ? "host memory (SHM)"
	       : !strcmp(transport, "NET") ? "the network (NET)"
					   : "several ways (mixed)";
}

/* The log tells what happened, the rules what is due. */
static void say_transport(const struct diagnosis *d, const struct gate *gate,
			  struct summary_line *line)
{
	bool logged = d->has_log && d->log.transport;
	const char *way =
		logged ? log_transport_name(d->log.transport) : gate->transport;

	line->label = "transport";
	if (!strcmp(way, "depends")) {
		line->tone = SUMMARY_DOUBT;
		SAY(line,
		    "NCCL's at %d ranks: %s cannot be told from what was given",
		    gate->tp, unknown_step(gate));
		return;
	}
	line->tone = !strcmp(way, "P2P") ? SUMMARY_GOOD : SUMMARY_BAD;
	SAY(line, "NCCL goes through %s at %d ranks%s%s", way_in_words(way),
	    gate->tp,
	    logged	 ? ", says its log"
	    : gate->rule ? ", by rule "
			 : "",
	    !logged && gate->rule ? gate->rule : "");
}

/* No gate was asked: the log alone speaks, or nobody. */
static void say_log(const struct diagnosis *d, struct summary_line *line)
{
	line->label = "unknown";
	line->tone = SUMMARY_DOUBT;
	if (d->has_log && d->log.custom == LOG_CUSTOM_ENABLED) {
		line->label = "enabled";
		line->tone = SUMMARY_GOOD;
		SAY(line, "%s's own all-reduce, says its log",
		    engine_name(log_engine_name(d->log.engine)));
	} else if (d->has_log && d->log.custom) {
		line->label = "disabled";
		line->tone = SUMMARY_BAD;
		SAY(line, "%s's own all-reduce, says its log%s%s",
		    engine_name(log_engine_name(d->log.engine)),
		    *d->log.custom_rule ? ", by rule " : "",
		    d->log.custom_rule);
	} else {
		SAY(line, "which all-reduce the engine takes: nothing that was "
			  "given tells it");
	}
}

static void say_what(const struct diagnosis *d, struct summary_line *line)
{
	const struct gate *gate = custom_gate(d);
	bool on = gate && gate->verdict == GATE_ENABLED;
	bool log_off = d->has_log && (d->log.custom == LOG_CUSTOM_DISABLED ||
				      d->log.custom == LOG_CUSTOM_SETUP_FAILED);

	if (d->tp == 1) {
		line->label = "one rank";
		line->tone = SUMMARY_PLAIN;
		SAY(line, "there is nothing to reduce");
	} else if (d->has_machine && d->machine.gpus && !d->visible.count) {
		line->label = "no GPU";
		line->tone = SUMMARY_BAD;
		SAY(line,
		    "is visible to the engine: CUDA_VISIBLE_DEVICES hides all "
		    "%d",
		    d->machine.gpus);
	} else if (on && log_off) {
		line->label = "disputed";
		line->tone = SUMMARY_DOUBT;
		SAY(line,
		    "%s's own all-reduce: the log says that it is off "
		    "(%s:%llu), "
		    "no rule says why",
		    engine_name(gate->engine), d->log.file,
		    (unsigned long long)d->log.line.custom);
	} else if (gate) {
		say_verdict(d, gate, line);
	} else if (nccl_gate(d)) {
		say_transport(d, nccl_gate(d), line);
	} else {
		say_log(d, line);
	}
}

static const struct budget_path *path_now(const struct budget *b)
{
	for (int i = 0; i < b->path_count; i++)
		if (b->paths[i].now)
			return &b->paths[i];
	return NULL;
}

/* "; memory 11 % of its peak", where that is known. */
static const char *memory_share(const struct budget *b, char text[48])
{
	*text = '\0';
	if (*b->utilisation_of_peak.source)
		snprintf(text, 48, "; memory %.0f %% of its peak",
			 100 * b->utilisation_of_peak.value);
	return text;
}

static void say_known_cost(const struct budget *b,
			   const struct budget_path *path,
			   struct summary_line *line)
{
	double calls = b->all_reduces_per_token.value;
	char memory[48], share[32];

	if (!path)
		SAY(line,
		    "%.0f all-reduces a token of %.0f bytes; no time is known "
		    "for them%s",
		    calls, b->message_bytes_per_token.value,
		    memory_share(b, memory));
	else if (!*b->ms_per_token.source)
		SAY(line,
		    "%.0f all-reduces a token; elsewhere %.4g to %.4g us each, "
		    "%.2g to %.2g ms; the share needs a rate",
		    calls, path->time->low_us, path->time->high_us,
		    path->low_ms, path->high_ms);
	else
		SAY(line,
		    "%.0f all-reduces a token, elsewhere %.4g to %.4g us each: "
		    "%s of %.1f ms%s",
		    calls, path->time->low_us, path->time->high_us,
		    budget_percent(path->low_share, path->high_share, share),
		    b->ms_per_token.value, memory_share(b, memory));
}

static void say_cost(const struct diagnosis *d, struct summary_line *line)
{
	const struct budget *b = &d->budget;

	line->label = "cost";
	line->tone = SUMMARY_PLAIN;
	if (b->any && *b->all_reduces_per_token.source)
		say_known_cost(b, path_now(b), line);
	else if (b->any && *b->ms_per_token.source)
		SAY(line,
		    "%.1f ms a token; how many all-reduces needs the model's "
		    "config.json",
		    b->ms_per_token.value);
	else
		SAY(line, "not known: it needs the model's config.json and a "
			  "rate (--tokens-per-second, /metrics)");
}

/* The first sentence says what to do; the finding has the rest. */
static int first_sentence(const char *text)
{
	const char *end = strstr(text, ". ");

	return end ? (int)(end - text) : (int)strlen(text);
}

/* A rule of the engine that is no fault: what is broken goes before it. */
static bool is_rule(const struct finding *f)
{
	return !strncmp(f->id, "gate_", 5) ||
	       !strcmp(f->id, "world_size_unsupported");
}

/* The worst finding that can be mended, one that is broken first; a mere hint
 * only where the verdict hangs on what is not known. */
static const struct finding *first_remedy(const struct diagnosis *d)
{
	const struct gate *gate = custom_gate(d);
	bool hints = gate && gate->verdict == GATE_DEPENDS;
	const struct finding *first = NULL;

	for (int i = 0; i < d->finding_count; i++) {
		const struct finding *f = &d->findings[i];

		if (!*f->remedy || (!hints && f->severity == FINDING_INFO))
			continue;
		if (f->severity == FINDING_PROBLEM && !is_rule(f))
			return f;
		first = first ? first : f;
	}
	return first;
}

static bool is_ruled_out(const struct budget *b, enum budget_verdict verdict)
{
	return b->any && b->not_bound_by >> verdict & 1;
}

/* What would tell more, where nothing is wrong but much is not known. */
static void say_missing(const struct diagnosis *d, struct summary_line *line)
{
	if (d->tp == 1 || ((custom_gate(d) || nccl_gate(d)) && d->has_model))
		SAY(line, "nothing to mend was found");
	else if (!d->has_machine)
		SAY(line, "add nvidia-smi topo -m of the machine, and --tp if "
			  "no log says it");
	else if (!d->has_model)
		SAY(line, "nothing to mend was found; config.json and a rate "
			  "would tell the cost");
	else
		SAY(line, "add nvidia-smi topo -m of the machine");
}

static void say_next(const struct diagnosis *d, struct summary_line *line)
{
	const struct finding *f = first_remedy(d);

	line->label = "next";
	line->tone = SUMMARY_PLAIN;
	if (d->budget.any && d->budget.verdict == BUDGET_MEMORY_BANDWIDTH)
		SAY(line, "the memory is the limit, not the all-reduce: fewer "
			  "bytes a token, or more GPUs");
	else if (is_ruled_out(&d->budget, BUDGET_COMMUNICATION) && d->tp != 1)
		SAY(line, "look elsewhere: the all-reduce takes too little to "
			  "matter; profile a step (nsys)");
	else if (f)
		SAY(line, "%.*s", first_sentence(f->remedy), f->remedy);
	else
		say_missing(d, line);
}

void summary_make(const struct diagnosis *diagnosis,
		  struct summary_line lines[SUMMARY_LINES])
{
	memset(lines, 0, SUMMARY_LINES * sizeof(*lines));
	say_what(diagnosis, &lines[0]);
	say_cost(diagnosis, &lines[1]);
	say_next(diagnosis, &lines[2]);
}
