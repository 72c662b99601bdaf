/* SPDX-License-Identifier: MIT */
/*
 * What vLLM's gates share: the releases in which things came, and chains made
 * from tables of rules. The releases are mostly estimates between two sources
 * that were read, so each has the versions for which it is sure; a gate whose
 * version lies between them says that it is estimated.
 */
#include "doctor/gate_vllm.h"

#include <stdio.h>
#include <string.h>

struct release {
	/* surely not before, first by the best estimate, surely from */
	const char *not_before, *since, *surely;
};

/* Named pull requests and releases are exact; the rest was read in sources
 * before and after. */
static const struct release releases[] = {
	[VLLM_ALWAYS] = {"0", "0", "0"},
	/* pull request 8911, September 2024 */
	[VLLM_SKIP_VARIABLE] = {"0.6.1", "0.6.2", "0.6.4"},
	/* 0 in 0.9.2, 1 in the newest */
	[VLLM_SKIP_DEFAULT] = {"0.9.3", "0.11", "0.12"},
	[VLLM_QUICK_REDUCE] = {"0.9.2", "0.10", "0.11"},
	[VLLM_HAS_SYMM_MEM] = {"0.9.2", "0.10", "0.11"},
	[VLLM_SYMM_MEM_DEFAULT] = {"0.10", "0.11", "0.12"},
	[VLLM_HAS_NCCL_SYMM] = {"0.10", "0.11", "0.12"},
	[VLLM_HAS_FUSION] = {"0.9.2", "0.10", "0.12"},
	[VLLM_FUSION_DEFAULT] = {"0.11", "0.12", "0.14"},
	[VLLM_HAS_FLASHINFER] = {"0.12", "0.15", "0.20"},
	[VLLM_CAPABILITY_103] = {"0.12", "0.15", "0.20"},
	[VLLM_VISIBLE_UUIDS] = {"0.24", "0.25", "0.27"},
	[VLLM_BACKEND_LIST] = {"0.24", "0.25", "0.26"},
	[VLLM_SIXTEEN_RANKS] = {"0.27", "0.27.1", "0.28"},
	/* pull request 52998 */
	[VLLM_FLASHINFER_DEFAULT] = {"0.29", "0.29", "0.29"},
	/* pull requests 53576 and 54869 */
	[VLLM_HAS_PCIE_IPC] = {"0.30", "0.30", "0.30"},
};

static bool has(const struct gate *gate, enum vllm_since since)
{
	return since != VLLM_NEVER &&
	       version_at_least(&gate->version, releases[since].since);
}

static bool is_sure(const struct gate *gate, enum vllm_since since)
{
	const struct version *version = &gate->version;

	return since == VLLM_NEVER || !version->known ||
	       !version_at_least(version, releases[since].not_before) ||
	       version_at_least(version, releases[since].surely);
}

bool vllm_has(struct gate *gate, enum vllm_since since)
{
	if (!is_sure(gate, since))
		gate->version_estimated = true;
	return has(gate, since);
}

const char *vllm_release(enum vllm_since since, bool *exact)
{
	*exact = !strcmp(releases[since].not_before, releases[since].surely);
	return releases[since].since;
}

const struct log_facts *vllm_log(const struct vllm_case *at)
{
	const struct log_facts *log = at->question->log;
	const struct version *asked = &at->question->version;

	if (!log || log->engine != LOG_VLLM)
		return NULL;
	if (log->tensor_parallel_size &&
	    log->tensor_parallel_size != (uint64_t)at->question->tp)
		return NULL;
	if (asked->known && log->version.known &&
	    version_compare(asked, &log->version))
		return NULL;
	return log;
}

void vllm_chain(const struct vllm_case *at, const struct vllm_rule *rules,
		size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct vllm_rule *rule = &rules[i];
		struct gate_said said = {0};
		struct gate_step *step;

		rule->ask(at, &said);
		/* a condition that holds changes nothing where it is missing */
		if (said.answer != GATE_YES &&
		    (!is_sure(at->gate, rule->since) ||
		     !is_sure(at->gate, rule->until)))
			at->gate->version_estimated = true;
		if (!has(at->gate, rule->since) || has(at->gate, rule->until))
			continue;
		step = gate_add(at->gate, rule->id, said.answer, rule->source);
		GATE_SAY(step->question, "%s", rule->question);
		GATE_SAY(step->evidence, "%s", said.evidence);
		GATE_SAY(step->origin, "%s", said.origin);
	}
	gate_decide(at->gate);
}

bool vllm_batch_invariant(const struct vllm_case *at, struct gate_said *said)
{
	char value[48];

	if (!gate_setting(at->question, "VLLM_BATCH_INVARIANT", value,
			  said->origin) ||
	    !gate_is_true(value))
		return false;
	said->answer = GATE_NO;
	GATE_SAY(said->evidence, "VLLM_BATCH_INVARIANT=%s", value);
	return true;
}

void vllm_switch(const struct vllm_case *at, const char *variable,
		 bool standard, struct gate_said *said)
{
	char value[48];

	if (vllm_batch_invariant(at, said))
		return;
	if (gate_setting(at->question, variable, value, said->origin)) {
		said->answer = gate_is_true(value) ? GATE_YES : GATE_NO;
		GATE_SAY(said->evidence, "%s=%s", variable, value);
		return;
	}
	gate_said_assumed(said, standard ? GATE_YES : GATE_NO, "");
	GATE_SAY(said->evidence, "assumed not set; the default of %s is %d",
		 variable, standard);
}

static const struct vllm_size_row *size_row(struct gate *gate,
					    const struct vllm_size_row *rows,
					    size_t count, int capability)
{
	for (size_t i = 0; i < count; i++)
		if (rows[i].capability == capability &&
		    vllm_has(gate, rows[i].since))
			return &rows[i];
	return NULL;
}

uint64_t vllm_size(struct gate *gate, const struct vllm_size_row *rows,
		   size_t count, int capability, int ranks)
{
	const struct vllm_size_row *row =
		size_row(gate, rows, count, capability);

	for (size_t i = 0; row && i < sizeof(row->at) / sizeof(*row->at); i++)
		if (row->at[i].ranks == ranks)
			return row->at[i].bytes;
	return 0;
}

bool vllm_has_capability(struct gate *gate, const struct vllm_size_row *rows,
			 size_t count, int capability)
{
	return size_row(gate, rows, count, capability) != NULL;
}

bool vllm_closed_per_call(const struct gate *gate)
{
	static const char *const ids[] = {
		"size_not_multiple_of_16", "size_not_multiple_of_4",
		"not_contiguous",	   "too_large",
		"size_in_the_middle",
	};

	for (size_t i = 0; gate->rule && i < sizeof(ids) / sizeof(*ids); i++)
		if (!strcmp(gate->rule, ids[i]))
			return true;
	return false;
}

static void begin(struct gate *gate, const char *feature,
		  const struct gate_question *question)
{
	memset(gate, 0, sizeof(*gate));
	gate->engine = "vllm";
	gate->feature = feature;
	gate->version = question->version;
	gate->version_assumed = !question->version.known;
	gate->tp = question->tp;
	gate->bytes = question->bytes;
	if (gate->version_assumed)
		gate_assume(gate, "the newest version whose rules were read: "
				  "no version was given");
	if (!version_at_least(&question->version, "0.6")) {
		gate->version_estimated = true;
		gate_assume(gate, "the rules of 0.6, the oldest that were "
				  "read");
	}
	if (question->version.known &&
	    version_at_least(&question->version, "0.31")) {
		gate->version_estimated = true;
		gate_assume(gate, "the rules of 0.30, the newest that were "
				  "read");
	}
}

void gate_vllm_ask(const struct gate_question *question, struct gate *gates)
{
	/* in the order of asking: custom all-reduce's limit depends on
	 * symmetric memory, and the dispatch on all of them */
	static const struct {
		enum vllm_feature feature;
		const char *name;
		void (*ask)(const struct vllm_case *at);
	} features[] = {
		{VLLM_SYMM_MEM, "symm_mem", vllm_ask_symm_mem},
		{VLLM_CUSTOM_ALL_REDUCE, "custom_all_reduce", vllm_ask_custom},
		{VLLM_RMS_FUSION, "allreduce_rms_fusion", vllm_ask_rms_fusion},
		{VLLM_FLASHINFER, "flashinfer", vllm_ask_flashinfer},
		{VLLM_NCCL_SYMM_MEM, "nccl_symm_mem", vllm_ask_nccl_symm_mem},
		{VLLM_PCIE_IPC, "pcie_ipc", vllm_ask_pcie_ipc},
		{VLLM_DISPATCH, "dispatch", vllm_ask_dispatch},
	};

	for (size_t i = 0; i < sizeof(features) / sizeof(*features); i++) {
		struct vllm_case at = {
			.question = question,
			.gates = gates,
			.gate = &gates[features[i].feature],
		};

		begin(at.gate, features[i].name, question);
		features[i].ask(&at);
	}
}
