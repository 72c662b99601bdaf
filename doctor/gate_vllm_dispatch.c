/* SPDX-License-Identifier: MIT */
/*
 * Which of vLLM's paths takes a message: the first in its order that accepts.
 * A step asks whether a path passes the message on, so that "no" decides; the
 * verdict is then "enabled" by the rule of that path's name.
 */
#include "doctor/gate_vllm.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define PATHS 11
#define SOURCE "vLLM cuda_communicator.py, all_reduce"

enum path {
	PATH_END,
	PATH_FUSION, /* not a backend: the compiler took the call away */
	PATH_NCCL_SYMM,
	PATH_QUICK_REDUCE,
	PATH_PCIE_IPC,
	PATH_FLASHINFER,
	PATH_AITER,
	PATH_CUSTOM,
	PATH_SYMM_MEM,
	PATH_PYNCCL,
	PATH_TORCH,
};

struct path_row {
	const char *name; /* as vLLM prints it */
	const char *words;
	bool has_gate;
	enum vllm_feature gate;
};

static const struct path_row paths[] = {
	[PATH_FUSION] = {"ALLREDUCE_RMS_FUSION",
			 "the fusion of all-reduce and RMSNorm", true,
			 VLLM_RMS_FUSION},
	[PATH_NCCL_SYMM] = {"NCCL_SYMM_MEM", "NCCL's symmetric memory", true,
			    VLLM_NCCL_SYMM_MEM},
	[PATH_QUICK_REDUCE] = {"QUICK_REDUCE", "quick all-reduce", false, 0},
	[PATH_PCIE_IPC] = {"FLASHINFER_PCIE_IPC",
			   "FlashInfer's all-reduce over PCIe", true,
			   VLLM_PCIE_IPC},
	[PATH_FLASHINFER] = {"FLASHINFER", "FlashInfer's all-reduce", true,
			     VLLM_FLASHINFER},
	[PATH_AITER] = {"AITER_CUSTOM", "AITER's all-reduce", false, 0},
	[PATH_CUSTOM] = {"CUSTOM", "vLLM's own all-reduce", true,
			 VLLM_CUSTOM_ALL_REDUCE},
	[PATH_SYMM_MEM] = {"SYMM_MEM", "torch's symmetric memory", true,
			   VLLM_SYMM_MEM},
	[PATH_PYNCCL] = {"PYNCCL", "NCCL", false, 0},
	[PATH_TORCH] = {"TORCH_DISTRIBUTED", "torch.distributed", false, 0},
};

/* Newest first; each era's first release. In 0.30 NCCL's symmetric memory is
 * asked only where FlashInfer declines, which is its place here too. */
static const struct {
	enum vllm_since since;
	enum path order[PATHS];
} eras[] = {
	{VLLM_HAS_PCIE_IPC,
	 {PATH_FUSION, PATH_NCCL_SYMM, PATH_QUICK_REDUCE, PATH_PCIE_IPC,
	  PATH_FLASHINFER, PATH_AITER, PATH_CUSTOM, PATH_SYMM_MEM, PATH_PYNCCL,
	  PATH_TORCH}},
	{VLLM_HAS_FLASHINFER,
	 {PATH_FUSION, PATH_NCCL_SYMM, PATH_QUICK_REDUCE, PATH_FLASHINFER,
	  PATH_AITER, PATH_CUSTOM, PATH_SYMM_MEM, PATH_PYNCCL, PATH_TORCH}},
	{VLLM_HAS_NCCL_SYMM,
	 {PATH_FUSION, PATH_NCCL_SYMM, PATH_QUICK_REDUCE, PATH_CUSTOM,
	  PATH_SYMM_MEM, PATH_PYNCCL, PATH_TORCH}},
	{VLLM_QUICK_REDUCE,
	 {PATH_FUSION, PATH_QUICK_REDUCE, PATH_CUSTOM, PATH_SYMM_MEM,
	  PATH_PYNCCL, PATH_TORCH}},
	{VLLM_ALWAYS, {PATH_CUSTOM, PATH_PYNCCL, PATH_TORCH}},
};

const char *vllm_path_words(const char *name)
{
	for (size_t i = 1; i < COUNT(paths); i++)
		if (!strcmp(paths[i].name, name))
			return paths[i].words;
	return name;
}

static const enum path *order_of(struct gate *gate)
{
	size_t i = 0;

	while (i < COUNT(eras) - 1 && !vllm_has(gate, eras[i].since))
		i++;
	return eras[i].order;
}

static void ask_nccl(const struct vllm_case *at, struct gate_said *said)
{
	char value[48];

	if (gate_setting(at->question, "VLLM_DISABLE_PYNCCL", value,
			 said->origin) &&
	    gate_is_true(value)) {
		said->answer = GATE_YES;
		GATE_SAY(said->evidence, "VLLM_DISABLE_PYNCCL=%s", value);
		return;
	}
	gate_said_assumed(said, GATE_NO, "NCCL takes whatever comes");
}

static void ask_gate(const struct gate *gate, struct gate_said *said)
{
	said->answer = gate->verdict == GATE_ENABLED	? GATE_NO
		       : gate->verdict == GATE_DISABLED ? GATE_YES
							: GATE_UNKNOWN;
	GATE_SAY(said->origin, "gate %s", gate->feature);
	GATE_SAY(said->evidence, "%s%s%s", gate_verdict_name(gate->verdict),
		 gate->rule ? ": " : "", gate->rule ? gate->rule : "");
}

static void ask_path(const struct vllm_case *at, enum path path,
		     struct gate_said *said)
{
	if (paths[path].has_gate)
		ask_gate(&at->gates[paths[path].gate], said);
	else if (path == PATH_PYNCCL)
		ask_nccl(at, said);
	else if (path == PATH_TORCH)
		gate_said_assumed(said, GATE_NO, "torch takes whatever comes");
	else
		gate_said_assumed(said, GATE_YES, "it is for ROCm alone");
}

/* At start, whatever its calls look like. */
static enum gate_answer starts(const struct vllm_case *at, enum path path)
{
	const struct gate *gate = &at->gates[paths[path].gate];
	struct gate_said said = {0};

	if (paths[path].has_gate)
		return gate->verdict == GATE_ENABLED ||
				       vllm_closed_per_call(gate)
			       ? GATE_YES
		       : gate->verdict == GATE_DISABLED ? GATE_NO
							: GATE_UNKNOWN;
	ask_path(at, path, &said);
	return said.answer == GATE_NO ? GATE_YES : GATE_NO;
}

/* The line that lists the backends, if it can be told what it lists. */
static void say_line(const struct vllm_case *at, const enum path *order)
{
	char started[96] = "", potential[124] = "";
	size_t used = 0, all = 0;

	if (!vllm_has(at->gate, VLLM_BACKEND_LIST) || at->question->tp < 2)
		return;
	for (; *order; order++) {
		enum gate_answer answer = starts(at, *order);
		const char *name = paths[*order].name;

		if (*order == PATH_FUSION || *order == PATH_TORCH)
			continue;
		if (answer == GATE_UNKNOWN)
			return;
		all += (size_t)snprintf(potential + all,
					sizeof(potential) - all, "%s'%s'",
					all ? ", " : "", name);
		if (answer == GATE_YES)
			used += (size_t)snprintf(
				started + used, sizeof(started) - used,
				"%s'%s'", used ? ", " : "", name);
	}
	GATE_SAY(at->gate->log_line,
		 "Using [%s] all-reduce backends (in dispatch order) for group "
		 "'tp:0' out of potential backends: [%s]",
		 started, potential);
}

static void say_summary(struct gate *gate)
{
	char size[48] = "of a decode step";

	if (gate->bytes)
		snprintf(size, sizeof(size), "of %llu bytes",
			 (unsigned long long)gate->bytes);
	if (gate->verdict == GATE_ENABLED)
		GATE_SAY(gate->summary, "A message %s goes to %s.", size,
			 gate->rule);
	for (int i = 0; gate->verdict == GATE_DEPENDS && i < gate->step_count;
	     i++) {
		const struct gate_step *step = &gate->steps[i];

		if (step->answer != GATE_UNKNOWN)
			continue;
		GATE_SAY(gate->summary,
			 "A message %s goes to %s if that accepts, else "
			 "further down.",
			 size, step->id);
		GATE_SAY(gate->if_yes, "passed on to the next path");
		GATE_SAY(gate->if_no, "%s takes it", step->id);
		return;
	}
}

void vllm_ask_dispatch(const struct vllm_case *at)
{
	struct gate *gate = at->gate;
	const enum path *order = order_of(gate);

	if (at->question->tp < 2) {
		struct gate_step *step =
			gate_add(gate, "single_rank", GATE_NO, SOURCE);

		GATE_SAY(step->question, "Is there more than one rank?");
		GATE_SAY(step->evidence, "one rank");
		GATE_SAY(step->origin, "tensor-parallel size");
		gate_decide(gate);
		GATE_SAY(gate->summary, "One rank: nothing to reduce.");
		return;
	}
	for (const enum path *path = order; *path; path++) {
		struct gate_said said = {0};
		struct gate_step *step;

		ask_path(at, *path, &said);
		step = gate_add(gate, paths[*path].name, said.answer, SOURCE);
		GATE_SAY(step->question, "Does %s pass the message on?",
			 paths[*path].name);
		GATE_SAY(step->evidence, "%s", said.evidence);
		GATE_SAY(step->origin, "%s", said.origin);
	}
	gate_decide(gate);
	/* the last takes everything, so that one decides unless an unknown
	 * one before it might */
	gate->verdict = gate->rule ? GATE_ENABLED : GATE_DEPENDS;
	say_line(at, order);
	say_summary(gate);
}
