/* SPDX-License-Identifier: MIT */
/*
 * Diagnoses for the tests of findings, built by a few words each; the gates are
 * asked as the doctor asks them.
 */
#ifndef OH_TESTS_FINDING_CASE_H
#define OH_TESTS_FINDING_CASE_H

#include <string.h>

#include "doctor/diagnosis.h"
#include "tap.h"

static struct diagnosis d;

static inline struct oh__from from(uint32_t line)
{
	return (struct oh__from){.source = 1, .line = line};
}

static inline void name_gpu(int gpu, const char *name)
{
	oh__text_set(&d.machine.gpu[gpu].name, from(2), name, strlen(name));
}

/* A machine of one model, every pair linked alike, a rank on each. */
static inline void begin(int gpus, const char *name, enum oh__link_kind kind)
{
	memset(&d, 0, sizeof(d));
	d.has_machine = true;
	oh__machine_source(&d.machine, "report.txt");
	d.machine.gpus = d.visible.count = d.tp = gpus;
	for (int i = 0; i < gpus; i++) {
		d.visible.gpu[i] = i;
		name_gpu(i, name);
		for (int k = 0; k < gpus; k++)
			if (i != k)
				d.machine.link[i][k] = (struct oh__link){
					from((uint32_t)i + 10), kind,
					kind == OH__LINK_NV ? 18 : 0};
	}
}

static inline void link_pair(int i, int k, enum oh__link_kind kind)
{
	d.machine.link[i][k].kind = d.machine.link[k][i].kind = kind;
	d.machine.link[i][k].nvlinks = d.machine.link[k][i].nvlinks =
		kind == OH__LINK_NV ? 4 : 0;
}

static inline void peers(enum oh__peer_status status)
{
	for (int i = 0; i < d.machine.gpus; i++)
		for (int k = 0; k < d.machine.gpus; k++)
			if (i != k)
				d.machine.peer[OH__PEER_READ][i][k] =
					(struct oh__peer){from(30), status};
}

static inline void begin_log(enum log_engine engine)
{
	d.has_log = true;
	d.log.engine = engine;
	snprintf(d.log.file, sizeof(d.log.file), "vllm.log");
}

static inline void log_disabled(const char *rule)
{
	begin_log(LOG_VLLM);
	d.log.custom = LOG_CUSTOM_DISABLED;
	d.log.line.custom = 6;
	snprintf(d.log.custom_rule, sizeof(d.log.custom_rule), "%s", rule);
	snprintf(d.log.custom_text, sizeof(d.log.custom_text),
		 "Custom allreduce is disabled because");
}

static inline void set_variable(const char *name, const char *value)
{
	struct oh__variable *variable =
		&d.machine.variables[d.machine.variable_count++];

	variable->from = from(40);
	snprintf(variable->name, sizeof(variable->name), "%s", name);
	snprintf(variable->value, sizeof(variable->value), "%s", value);
}

/* Asks the gates of both engines where there is a machine, and collects. */
static inline void collect(void)
{
	struct gate_question question = {
		.machine = &d.machine,
		.tp = d.tp,
		.log = d.has_log ? &d.log : NULL,
		.visible_uuids = d.visible.uuids,
	};
	static const char *const engines[] = {"vllm", "nccl"};

	for (int i = 0; i < d.tp && i < OH__GPUS; i++)
		question.gpus[i] = d.visible.gpu[i];
	version_parse(d.options.version ? d.options.version : "",
		      &question.version);
	d.gate_count = 0;
	for (int i = 0; i < 2 && d.has_machine && d.tp; i++) {
		const struct gate_engine *engine =
			gate_engine_named(engines[i]);

		engine->ask(&question, d.gates + d.gate_count);
		d.gate_count += engine->count;
		/* the version is vLLM's */
		question.version = (struct version){0};
	}
	findings_collect(&d);
}

static inline const struct finding *find(const char *id)
{
	for (int i = 0; i < d.finding_count; i++)
		if (!strcmp(d.findings[i].id, id))
			return &d.findings[i];
	return NULL;
}

/* Whole sentences: every field is there and none was cut. */
static inline bool is_whole(const struct finding *finding)
{
	return *finding->title && *finding->evidence && *finding->consequence &&
	       *finding->remedy &&
	       strlen(finding->title) < sizeof(finding->title) - 1 &&
	       strlen(finding->evidence) < sizeof(finding->evidence) - 1 &&
	       strlen(finding->consequence) <
		       sizeof(finding->consequence) - 1 &&
	       strlen(finding->remedy) < sizeof(finding->remedy) - 1;
}

static inline void note_findings(void)
{
	for (int i = 0; i < d.finding_count; i++)
		tap_note("%s: %s", d.findings[i].id, d.findings[i].evidence);
}

/*
 * Collects and expects just these, in any order: one more is a false alarm,
 * whatever its severity.
 */
static inline void expect(const char *what, const char *const *ids)
{
	bool found[DIAGNOSIS_FINDINGS] = {false};
	bool all = true, ranked = true, whole = true;

	collect();
	for (; *ids; ids++) {
		bool there = false;

		for (int i = 0; i < d.finding_count; i++)
			if (!strcmp(d.findings[i].id, *ids))
				there = found[i] = true;
		if (!there)
			tap_note("missed: %s", *ids);
		all &= there;
	}
	for (int i = 0; i < d.finding_count; i++) {
		const struct finding *finding = &d.findings[i];

		if (!found[i]) {
			tap_note("false alarm: %s (%s)", finding->id,
				 finding_severity_name(finding->severity));
			all = false;
		}
		if (i && finding[-1].severity < finding->severity)
			ranked = false;
		if (!is_whole(finding)) {
			tap_note("%s is cut or empty", finding->id);
			whole = false;
		}
	}
	if (!tap_ok(all && ranked && whole, "%s: %d findings", what,
		    d.finding_count))
		note_findings();
}

#define EXPECT(what, ...)                                                      \
	expect(what, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static inline bool has_text(const char *id, const char *text)
{
	const struct finding *finding = find(id);

	return finding && (strstr(finding->title, text) ||
			   strstr(finding->evidence, text) ||
			   strstr(finding->consequence, text) ||
			   strstr(finding->remedy, text));
}

#endif
