/* SPDX-License-Identifier: MIT */
/*
 * The frame that engines fill: steps are added in the engine's order, and
 * gate_decide alone says which of them decides. A new engine is a row in the
 * table below and a file of its own.
 */
#include "doctor/gate.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "doctor/gate_nccl.h"
#include "doctor/gate_vllm.h"

const struct gate_engine gate_engines[] = {
	{"vllm", "vLLM on CUDA, from 0.6 on", GATE_VLLM_COUNT, gate_vllm_ask},
	{"nccl", "NCCL's transport for each pair of ranks", GATE_NCCL_COUNT,
	 gate_nccl_ask},
	{0},
};

const struct gate_engine *gate_engine_named(const char *name)
{
	for (const struct gate_engine *row = gate_engines; row->name; row++)
		if (!strcmp(row->name, name))
			return row;
	return NULL;
}

/* No chain is as long as the array; the last step would be written again. */
struct gate_step *gate_add(struct gate *gate, const char *id,
			   enum gate_answer answer, const char *source)
{
	struct gate_step *step;

	if (gate->step_count < GATE_STEPS)
		gate->step_count++;
	step = &gate->steps[gate->step_count - 1];
	memset(step, 0, sizeof(*step));
	step->id = id;
	step->answer = answer;
	step->source = source;
	return step;
}

void gate_assume(struct gate *gate, const char *format, ...)
{
	va_list args;

	if (gate->assumed_count == GATE_ASSUMED)
		return;
	va_start(args, format);
	vsnprintf(gate->assumed[gate->assumed_count++],
		  sizeof(gate->assumed[0]), format, args);
	va_end(args);
}

void gate_override(struct gate *gate, const char *what, const char *risk)
{
	struct gate_override *override;

	if (gate->override_count == GATE_OVERRIDES)
		return;
	override = &gate->overrides[gate->override_count++];
	GATE_SAY(override->what, "%s", what);
	GATE_SAY(override->risk, "%s", risk);
}

void gate_decide(struct gate *gate)
{
	bool closed = false, unknown = false;

	gate->rule = NULL;
	for (int i = 0; i < gate->step_count; i++) {
		struct gate_step *step = &gate->steps[i];

		step->reached = !closed;
		step->decides = !closed && step->answer == GATE_NO;
		if (step->decides) {
			closed = true;
			/* behind an unknown step this one closes the gate too,
			 * but which of the two it was is not known */
			gate->rule = unknown ? NULL : step->id;
		}
		if (!closed && step->answer == GATE_UNKNOWN)
			unknown = true;
	}
	gate->verdict = closed	  ? GATE_DISABLED
			: unknown ? GATE_DEPENDS
				  : GATE_ENABLED;
}

const char *gate_unknown_step(const struct gate *gate)
{
	for (int i = 0; i < gate->step_count; i++)
		if (gate->steps[i].answer == GATE_UNKNOWN)
			return gate->steps[i].id;
	return NULL;
}

const char *gate_answer_name(enum gate_answer answer)
{
	switch (answer) {
	case GATE_YES:
		return "yes";
	case GATE_NO:
		return "no";
	case GATE_UNKNOWN:
		break;
	}
	return "unknown";
}

const char *gate_verdict_name(enum gate_verdict verdict)
{
	switch (verdict) {
	case GATE_ENABLED:
		return "enabled";
	case GATE_DISABLED:
		return "disabled";
	case GATE_DEPENDS:
		break;
	}
	return "depends";
}
