/* SPDX-License-Identifier: MIT */
/*
 * Machines and logs for the gates' rules, built by a few words each, and what
 * the gates answer.
 */
#ifndef OH_TESTS_GATE_ASKER_H
#define OH_TESTS_GATE_ASKER_H

#include <stdlib.h>
#include <string.h>

#include "doctor/gate.h"
#include "doctor/version.h"
#include "tap.h"

#define VLLM_GATES 7

static struct oh__machine machine;
static struct log_facts facts;
static struct gate gates[VLLM_GATES];
static struct gate_question question;

static inline struct oh__from from(uint32_t line)
{
	return (struct oh__from){.source = 1, .line = line};
}

/* GPUs of a name, ranks in their order, nothing else known. */
static inline void begin(int gpus, const char *name)
{
	memset(&machine, 0, sizeof(machine));
	memset(&question, 0, sizeof(question));
	memset(&facts, 0, sizeof(facts));
	oh__machine_source(&machine, "report.txt");
	machine.gpus = gpus;
	for (int i = 0; i < gpus; i++) {
		oh__text_set(&machine.gpu[i].name, from(2), name, strlen(name));
		question.gpus[i] = i;
	}
	question.machine = &machine;
	question.tp = gpus;
}

static inline void link_pair(int i, int k, enum oh__link_kind kind,
			     uint32_t nvlinks)
{
	struct oh__link link = {from((uint32_t)i + 10), kind, nvlinks};

	machine.link[i][k] = machine.link[k][i] = link;
}

static inline void link_all(enum oh__link_kind kind, uint32_t nvlinks)
{
	for (int i = 0; i < machine.gpus; i++)
		for (int k = i + 1; k < machine.gpus; k++)
			link_pair(i, k, kind, nvlinks);
}

static inline void peers_all(enum oh__peer_aspect aspect,
			     enum oh__peer_status status)
{
	for (int i = 0; i < machine.gpus; i++)
		for (int k = 0; k < machine.gpus; k++)
			if (i != k)
				machine.peer[aspect][i][k] =
					(struct oh__peer){from(30), status};
}

static inline void set_variable(const char *name, const char *value)
{
	struct oh__variable *variable =
		&machine.variables[machine.variable_count++];

	variable->from = from(40);
	snprintf(variable->name, sizeof(variable->name), "%s", name);
	snprintf(variable->value, sizeof(variable->value), "%s", value);
}

static inline void set_cpu(const char *name)
{
	oh__text_set(&machine.host.cpu, from(3), name, strlen(name));
}

static inline void set_version(const char *text)
{
	version_parse(text, &question.version);
}

/* A log of vLLM, of all the ranks. */
static inline void begin_log(void)
{
	snprintf(facts.file, sizeof(facts.file), "vllm.log");
	facts.engine = LOG_VLLM;
	facts.tensor_parallel_size = (uint64_t)question.tp;
	question.log = &facts;
}

static inline void log_disabled(const char *rule)
{
	begin_log();
	facts.custom = LOG_CUSTOM_DISABLED;
	facts.line.custom = 6;
	snprintf(facts.custom_rule, sizeof(facts.custom_rule), "%s", rule);
}

static inline const struct gate *ask(const char *feature)
{
	const struct gate_engine *engine = gate_engine_named(
		strcmp(feature, "transport") ? "vllm" : "nccl");

	memset(gates, 0xa5, sizeof(gates));
	engine->ask(&question, gates);
	for (int i = 0; i < engine->count; i++)
		if (!strcmp(gates[i].feature, feature))
			return &gates[i];
	tap_note("there is no gate %s", feature);
	exit(1);
}

static inline const struct gate_step *step_of(const struct gate *gate,
					      const char *id)
{
	for (int i = 0; i < gate->step_count; i++)
		if (!strcmp(gate->steps[i].id, id))
			return &gate->steps[i];
	return NULL;
}

static inline bool same_rule(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static inline const struct gate *expect(const char *feature,
					enum gate_verdict verdict,
					const char *rule, const char *what)
{
	const struct gate *gate = ask(feature);
	bool ok = gate->verdict == verdict && same_rule(gate->rule, rule);

	if (!tap_ok(ok, "%s: %s, %s", what, gate_verdict_name(verdict),
		    rule ? rule : "no rule"))
		tap_note("%s is %s by %s", feature,
			 gate_verdict_name(gate->verdict),
			 gate->rule ? gate->rule : "no rule");
	return gate;
}

static inline const struct gate *
expect_custom(enum gate_verdict verdict, const char *rule, const char *what)
{
	return expect("custom_all_reduce", verdict, rule, what);
}

static inline void expect_transport(const char *transport, const char *what)
{
	const struct gate *gate = ask("transport");

	if (!tap_ok(same_rule(gate->transport, transport), "%s: %s", what,
		    transport))
		tap_note("it is %s: %s", gate->transport, gate->summary);
}

#endif
