/* SPDX-License-Identifier: MIT */
/*
 * The three lines: what the engine does, what it costs, what to do next. A
 * diagnosis is filled by hand, so that each sentence is seen alone.
 */
#include <string.h>

#include "doctor/diagnosis.h"
#include "tap.h"

static struct diagnosis d;
static struct summary_line lines[SUMMARY_LINES];

static void begin(int tp)
{
	memset(&d, 0, sizeof(d));
	d.tp = tp;
	d.has_machine = true;
	d.machine.gpus = d.visible.count = 8;
}

static struct gate *add_gate(enum gate_verdict verdict, const char *rule)
{
	struct gate *gate = &d.gates[d.gate_count++];

	gate->engine = "vllm";
	gate->feature = "custom_all_reduce";
	gate->tp = d.tp;
	gate->verdict = verdict;
	gate->rule = rule;
	return gate;
}

/* Which path takes a message of 12288 bytes; NULL: that hangs on id. */
static void dispatch(const char *rule, const char *id)
{
	struct gate *gate = &d.gates[1];

	d.gate_count = 2;
	memset(gate, 0, sizeof(*gate));
	gate->engine = "vllm";
	gate->feature = "dispatch";
	gate->tp = d.tp;
	gate->rule = rule;
	gate->verdict = rule ? GATE_ENABLED : GATE_DEPENDS;
	gate->step_count = 1;
	gate->steps[0].id = id;
}

static void add_finding(enum finding_severity severity, const char *remedy)
{
	struct finding *finding = &d.findings[d.finding_count++];

	finding->id = "it";
	finding->severity = severity;
	snprintf(finding->remedy, sizeof(finding->remedy), "%s", remedy);
}

static void set(struct figure *figure, double value)
{
	figure->value = value;
	strcpy(figure->source, "test");
}

/* Line n, from 1, has that label and that part. */
static void expect(int n, const char *label, const char *part)
{
	const struct summary_line *line = &lines[n - 1];

	summary_make(&d, lines);
	if (!tap_ok(!strcmp(line->label, label) && strstr(line->text, part),
		    "%s: %s", label, part))
		tap_note("%s: %s", line->label, line->text);
}

static void try_what(void)
{
	begin(8);
	expect(1, "unknown", "nothing that was given tells it");
	add_gate(GATE_DISABLED, "pcie_more_than_two");
	expect(1, "disabled",
	       "vLLM's own all-reduce at 8 ranks, by rule pcie_more_than_two; "
	       "NCCL takes all");
	d.has_log = true;
	d.log.engine = LOG_VLLM;
	d.log.transport = LOG_TRANSPORT_SHM;
	expect(1, "disabled", "NCCL (SHM) takes all");
	begin(8);
	add_gate(GATE_ENABLED, NULL);
	expect(1, "enabled", "no rule closes it");
	d.has_log = true;
	d.log.engine = LOG_VLLM;
	d.log.custom = LOG_CUSTOM_DISABLED;
	expect(1, "disputed", "the log says that it is off");
	begin(2);
	add_gate(GATE_DEPENDS, NULL)->step_count = 1;
	d.gates[0].steps[0].id = "p2p_failed";
	expect(1, "depends", "p2p_failed cannot be told");
	begin(1);
	add_gate(GATE_DISABLED, "single_rank");
	expect(1, "one rank", "nothing to reduce");
	begin(0);
	d.visible.count = 0;
	expect(1, "no GPU", "hides all 8");
	memset(&d, 0, sizeof(d));
	d.has_log = true;
	d.log.engine = LOG_SGLANG;
	d.log.custom = LOG_CUSTOM_ENABLED;
	expect(1, "enabled", "SGLang's own all-reduce, says its log");
	d.log.custom = LOG_CUSTOM_DISABLED;
	expect(1, "disabled", "SGLang's own all-reduce, says its log");
}

/* The first line names what takes a message, where that is known. */
static void try_dispatch(void)
{
	struct gate *own;

	begin(8);
	own = add_gate(GATE_ENABLED, NULL);
	dispatch("CUSTOM", NULL);
	expect(1, "enabled",
	       "vLLM's own all-reduce takes the messages of a decode step at 8 "
	       "ranks: no rule closes it");
	dispatch("ALLREDUCE_RMS_FUSION", NULL);
	expect(1, "enabled",
	       "the fusion of all-reduce and RMSNorm (ALLREDUCE_RMS_FUSION) "
	       "takes the messages of a decode step at 8 ranks; vLLM's own "
	       "all-reduce is on, and comes after it");
	dispatch(NULL, "FLASHINFER");
	expect(1, "enabled",
	       "no rule closes it; whether FlashInfer's all-reduce "
	       "(FLASHINFER) comes before it cannot be told");
	own->verdict = GATE_DEPENDS;
	own->step_count = 1;
	own->steps[0].id = "p2p_failed";
	expect(1, "depends", "at 8 ranks: p2p_failed cannot be told");
	dispatch("FLASHINFER", NULL);
	expect(1, "depends",
	       "FlashInfer's all-reduce (FLASHINFER) takes the messages of a "
	       "decode step at 8 ranks; of vLLM's own all-reduce p2p_failed");

	begin(8);
	own = add_gate(GATE_DISABLED, "disabled_by_flag");
	dispatch("PYNCCL", NULL);
	expect(1, "disabled", "by rule disabled_by_flag; NCCL takes all");
	dispatch("SYMM_MEM", NULL);
	own->bytes = 12288;
	expect(1, "disabled",
	       "by rule disabled_by_flag; torch's symmetric memory (SYMM_MEM) "
	       "takes a message of 12288 bytes");
	dispatch(NULL, "FLASHINFER_PCIE_IPC");
	expect(1, "disabled",
	       "FlashInfer's all-reduce over PCIe (FLASHINFER_PCIE_IPC) takes "
	       "a message of 12288 bytes, if it accepts");
	own->rule = "too_large";
	dispatch("PYNCCL", NULL);
	expect(1, "disabled",
	       "by rule too_large; NCCL takes a message of 12288 bytes");
}

/* Where NCCL's rules are all that was asked for. */
static void try_transport(void)
{
	struct gate *gate;

	begin(8);
	gate = add_gate(GATE_DISABLED, "level_allows");
	gate->engine = "nccl";
	gate->feature = "transport";
	gate->transport = "SHM";
	expect(1, "unknown", "nothing that was given tells it");
	d.options.engine = "nccl";
	expect(1, "transport",
	       "NCCL goes through host memory (SHM) at 8 ranks, by rule "
	       "level_allows");
	gate->transport = "mixed";
	gate->rule = NULL;
	expect(1, "transport", "NCCL goes through several ways (mixed) at 8");
	gate->transport = "depends";
	gate->step_count = 1;
	gate->steps[0].id = "nvml_p2p_status";
	expect(1, "transport", "NCCL's at 8 ranks: nvml_p2p_status cannot be");
	d.has_log = true;
	d.log.transport = LOG_TRANSPORT_P2P;
	expect(1, "transport",
	       "NCCL goes through the GPUs' own memory (P2P) at 8 ranks, says "
	       "its log");
	d.has_model = true;
	expect(3, "next", "nothing to mend was found");
}

static void try_cost(void)
{
	static const struct path_time nccl = {.path = "nccl",
					      .title = "NCCL over PCIe",
					      .low_us = 17,
					      .high_us = 57};
	struct budget *b = &d.budget;

	begin(8);
	expect(2, "cost", "not known: it needs the model's config.json");
	b->any = true;
	set(&b->ms_per_token, 17.391);
	expect(2, "cost", "17.4 ms a token; how many all-reduces needs");
	set(&b->all_reduces_per_token, 156);
	set(&b->message_bytes_per_token, 12288);
	expect(2, "cost", "156 all-reduces a token of 12288 bytes; no time");
	b->path_count = 1;
	b->paths[0] = (struct budget_path){.time = &nccl,
					   .now = true,
					   .low_ms = 2.652,
					   .high_ms = 8.892,
					   .low_share = 0.1525,
					   .high_share = 0.5113};
	expect(2, "cost", "elsewhere 17 to 57 us each: 15 to 51 % of 17.4 ms");
	set(&b->utilisation_of_peak, 0.1123);
	expect(2, "cost", "; memory 11 % of its peak");
	*b->ms_per_token.source = '\0';
	expect(2, "cost", "2.7 to 8.9 ms; the share needs a rate");
}

static void try_next(void)
{
	begin(8);
	d.has_machine = false;
	expect(3, "next", "add nvidia-smi topo -m of the machine, and --tp");
	begin(8);
	expect(3, "next", "config.json and a rate would tell the cost");
	d.has_model = true;
	expect(3, "next", "add nvidia-smi topo -m of the machine");
	add_gate(GATE_ENABLED, NULL);
	expect(3, "next", "nothing to mend was found");
	add_finding(FINDING_INFO, "Hint.");
	expect(3, "next", "nothing to mend was found");
	d.gates[0].verdict = GATE_DEPENDS;
	expect(3, "next", "Hint.");
	add_finding(FINDING_WARNING, "Do this. Then that.");
	d.gates[0].verdict = GATE_DISABLED;
	expect(3, "next", "Do this");
	tap_ok(!strstr(lines[2].text, "Then"), "and no more than that");
	add_finding(FINDING_PROBLEM, "Mend that.");
	expect(3, "next", "Mend that");
	d.findings[2].id = "gate_pcie_more_than_two";
	expect(3, "next", "Do this");
	d.budget.any = true;
	d.budget.not_bound_by = 1u << BUDGET_COMMUNICATION;
	expect(3, "next", "look elsewhere");
	d.budget.verdict = BUDGET_MEMORY_BANDWIDTH;
	expect(3, "next", "the memory is the limit");
}

int main(void)
{
	try_what();
	try_dispatch();
	try_transport();
	try_cost();
	try_next();
	return tap_done();
}
