/* SPDX-License-Identifier: MIT */
/*
 * Findings from the engines' rules: which one keeps the engine's own kernel
 * out, what that rule did not look at, and where a log says otherwise. A rule
 * of the engine is told apart from a limit of the hardware.
 */
#include "doctor/findings.h"

#define PCIE_IPC "VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC"
#define BENCH "onehop bench --memory device --ranks %d --peer nccl"

static bool closed_by(const struct diagnosis *d, const char *rule)
{
	const char *found = finding_rule(d);

	return found && !strcmp(found, rule);
}

/* The driver's word on the pairs of the ranks. */
static enum gate_answer peers(const struct diagnosis *d, struct gate_said *said)
{
	struct gate_question question;

	memset(said, 0, sizeof(*said));
	finding_question(d, &question);
	if (question.tp < 2)
		return GATE_UNKNOWN;
	gate_pairs_peer(&question, said);
	return said->answer;
}

/* Of an engine that has another kernel, for 2, 4 or 8 ranks on PCIe. */
static void say_other_kernel(const struct diagnosis *d, char text[80])
{
	const struct gate *gate = diagnosis_gate(d, "custom_all_reduce");
	bool has = gate && version_at_least(&gate->version, "0.30") &&
		   !gate->version_assumed;

	if (!strcmp(finding_engine(d), "SGLang"))
		snprintf(text, 80, "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE=1");
	else
		snprintf(text, 80, "%s" PCIE_IPC "=1",
			 has ? "" : "vLLM 0.30 with ");
}

/* Is it one to try: for so many ranks, and not switched on? */
static bool may_try_kernel(const struct diagnosis *d)
{
	bool sglang = !strcmp(finding_engine(d), "SGLang");
	struct gate_question question;
	char value[48], origin[96];

	finding_question(d, &question);
	return (d->tp == 4 || d->tp == 8) &&
	       (!gate_setting(&question,
			      sglang ? "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE"
				     : PCIE_IPC,
			      value, origin) ||
		!gate_is_true(value));
}

/* The driver grants peer access. What the server can be started with comes
 * first, and then what tells whether it was worth it. */
static void say_what_to_try(const struct diagnosis *d, struct finding *finding)
{
	bool level = finding_level_helps(d), kernel = may_try_kernel(d);
	bool risk = finding_peers_at_risk(d);
	int ranks = d->tp > 2 ? d->tp : 4;
	char other[80];

	say_other_kernel(d, other);
	if (!level && !kernel) {
		FINDING_SAY(finding->remedy,
			    "Time a call of NCCL and one of Onehop: " BENCH
			    ". No setting opens this rule itself.",
			    ranks);
		return;
	}
	FINDING_SAY(finding->remedy,
		    "%s %s%s%.60s; time NCCL %s: " BENCH ". %s%sNo setting "
		    "opens this rule itself.",
		    risk ? "Mend what is said of ACS and IOMMU, then try"
			 : "Try",
		    level ? "NCCL_P2P_LEVEL=SYS" : "",
		    level && kernel ? ", or " : "", kernel ? other : "",
		    level ? "with and without that level" : "as it is", ranks,
		    risk ? "" : "Not where onehop probe finds a fault. ",
		    kernel ? "The kernel needs a FlashInfer build that has "
			     "it. "
			   : "");
}

/* No setting opens the rule itself. What is worth trying hangs on what the
 * driver says. */
static void say_pcie_remedy(const struct diagnosis *d, struct finding *finding)
{
	struct gate_said said;
	enum gate_answer peer = peers(d, &said);
	char other[80];

	say_other_kernel(d, other);
	if (peer == GATE_NO)
		FINDING_SAY(finding->remedy,
			    "No kernel over PCIe can help, as the driver "
			    "refuses peer access. Fewer ranks, or cards with "
			    "NVLink between all of them.");
	else if (peer == GATE_UNKNOWN)
		FINDING_SAY(finding->remedy,
			    "Ask the driver for peer access first: nvidia-smi "
			    "topo -p2p r; nvidia-smi topo -p2p w. If it says "
			    "OK, %s is another kernel (2, 4 or 8 ranks, where "
			    "the FlashInfer build has it).",
			    other);
	else
		say_what_to_try(d, finding);
}

static bool look_pcie(const struct diagnosis *d, struct finding *finding)
{
	const char *engine = finding_engine(d);
	char goes[112];

	if (!closed_by(d, "pcie_more_than_two"))
		return false;
	finding->severity = FINDING_PROBLEM;
	if (d->tp > 2)
		FINDING_SAY(finding->title,
			    "%s's own all-reduce is off: %d GPUs, and not "
			    "every pair has NVLink",
			    engine, d->tp);
	else
		FINDING_SAY(finding->title,
			    "%s's own all-reduce is off: more than two GPUs, "
			    "and not every pair has NVLink",
			    engine);
	finding_rule_evidence(d, "pcie_more_than_two", finding->evidence,
			      sizeof(finding->evidence));
	finding_share(d, "nccl", finding->consequence,
		      sizeof(finding->consequence));
	if (!*finding->consequence)
		FINDING_SAY(finding->consequence,
			    "%s, two in each layer of each token.",
			    finding_goes(d, goes));
	say_pcie_remedy(d, finding);
	return true;
}

/* What such kernels took elsewhere, by the budget's rows; "" if none. */
static void say_elsewhere(const struct diagnosis *d, char *text, size_t bytes)
{
	size_t used = 0;

	*text = '\0';
	for (int i = 0; i < d->budget.path_count && used < bytes; i++) {
		const struct path_time *time = d->budget.paths[i].time;

		if (strncmp(time->path, "onehop_peer", 11) != 0)
			continue;
		used += (size_t)snprintf(text + used, bytes - used,
					 "%s%.60s: %.3g to %.3g us",
					 used ? "; " : "", time->title,
					 time->low_us, time->high_us);
	}
}

static bool look_engine_rule(const struct diagnosis *d, struct finding *finding)
{
	struct gate_said said;
	char elsewhere[200];

	if (!closed_by(d, "pcie_more_than_two") || peers(d, &said) == GATE_NO)
		return false;
	finding->severity = FINDING_WARNING;
	FINDING_SAY(finding->title,
		    "The missing kernel is a rule of the engine, not a limit "
		    "of the hardware");
	if (said.answer == GATE_YES)
		FINDING_SAY(finding->evidence,
			    "the rule pcie_more_than_two asks for NVLink and "
			    "nothing else, and %.150s (%.90s)",
			    said.evidence, said.origin);
	else
		FINDING_SAY(finding->evidence,
			    "the rule pcie_more_than_two asks for NVLink and "
			    "nothing else; the driver's word on peer access "
			    "was not given (nvidia-smi topo -p2p r)");
	say_elsewhere(d, elsewhere, sizeof(elsewhere));
	if (*elsewhere)
		FINDING_SAY(finding->consequence,
			    "Measured on other machines, a call: %s.",
			    elsewhere);
	else
		FINDING_SAY(finding->consequence,
			    "Kernels of that kind run over PCIe elsewhere: on "
			    "one socket mostly faster than NCCL for decode "
			    "messages, across sockets not always.");
	FINDING_SAY(finding->remedy,
		    "Bridges between pairs of cards do not open it, only "
		    "NVLink between all of them does. Look for an engine or a "
		    "version with a kernel for PCIe instead.");
	return true;
}

static bool look_never_examined(const struct diagnosis *d,
				struct finding *finding)
{
	struct gate_said said;

	if (!closed_by(d, "pcie_more_than_two") &&
	    !closed_by(d, "world_size_unsupported"))
		return false;
	if (peers(d, &said) != GATE_YES || !strcmp(said.origin, "assumed"))
		return false;
	finding->severity = FINDING_WARNING;
	FINDING_SAY(finding->title,
		    "Peer access was never looked at, and the driver grants it "
		    "for every pair");
	FINDING_SAY(finding->evidence,
		    "%.150s (%.90s); the rule %s decided before", said.evidence,
		    said.origin, finding_rule(d));
	FINDING_SAY(finding->consequence,
		    "What the GPUs could do for each other is not known to the "
		    "engine, good or bad.");
	FINDING_SAY(finding->remedy,
		    "Try it with data before relying on it: onehop probe "
		    "stores, loads and copies between all pairs and checks "
		    "every word. The driver's word is no proof: with ACS "
		    "redirect or a translating IOMMU a kernel's stores can be "
		    "lost where copies pass.");
	return true;
}

/* How a refused pair can be helped. */
static void say_peer_remedy(const struct diagnosis *d, struct finding *finding)
{
	struct gate_said said;

	if (d->has_log && !strcmp(d->log.p2p_cache_action, "read"))
		FINDING_SAY(finding->remedy,
			    "Delete the cached answer and start again: rm "
			    "~/.cache/%s/%.120s. It is never tested again "
			    "by itself.",
			    finding_cache(d),
			    *d->log.p2p_cache_file
				    ? d->log.p2p_cache_file
				    : "gpu_p2p_access_cache_for_*.json");
	else if (peers(d, &said) == GATE_NO)
		FINDING_SAY(finding->remedy,
			    "Ask the driver why it refuses: nvidia-smi topo "
			    "-p2p r (CNS: the "
			    "chipset, GNS: the GPU or its driver, TNS: the "
			    "topology). NCCL through host memory works.");
	else
		FINDING_SAY(finding->remedy,
			    "Try it with data: onehop probe. If all is right, "
			    "delete "
			    "~/.cache/%s/gpu_p2p_access_cache_for_*.json and "
			    "start again. If the driver refuses it, "
			    "nvidia-smi topo -p2p r says why; if data is "
			    "wrong, look at IOMMU and ACS.",
			    finding_cache(d));
}

static bool look_p2p_failed(const struct diagnosis *d, struct finding *finding)
{
	const struct gate *nccl = diagnosis_gate(d, "transport");

	if (!closed_by(d, "p2p_failed"))
		return false;
	finding->severity = FINDING_PROBLEM;
	FINDING_SAY(finding->title,
		    "%s's own all-reduce is off: the GPUs cannot reach each "
		    "other's memory, or the test of it failed",
		    finding_engine(d));
	finding_rule_evidence(d, "p2p_failed", finding->evidence,
			      sizeof(finding->evidence));
	finding_share(d, "nccl", finding->consequence,
		      sizeof(finding->consequence));
	if (!*finding->consequence && nccl && nccl->transport &&
	    !strcmp(nccl->transport, "SHM"))
		FINDING_SAY(finding->consequence,
			    "Every all-reduce goes to NCCL, which has to go "
			    "through host memory as well.");
	if (!*finding->consequence)
		FINDING_SAY(finding->consequence,
			    "Every all-reduce goes to NCCL. Whether that has "
			    "to go through host memory as well, its own lines "
			    "tell (NCCL_DEBUG=INFO).");
	say_peer_remedy(d, finding);
	return true;
}

static bool look_world_size(const struct diagnosis *d, struct finding *finding)
{
	char goes[112];

	if (!closed_by(d, "world_size_unsupported"))
		return false;
	finding->severity = FINDING_PROBLEM;
	if (d->tp)
		FINDING_SAY(finding->title,
			    "%s's own all-reduce is off: it is made for 2, 4, "
			    "6 or 8 ranks, not for %d",
			    finding_engine(d), d->tp);
	else
		FINDING_SAY(finding->title,
			    "%s's own all-reduce is off: it is made for 2, 4, "
			    "6 or 8 ranks",
			    finding_engine(d));
	finding_rule_evidence(d, "world_size_unsupported", finding->evidence,
			      sizeof(finding->evidence));
	FINDING_SAY(finding->consequence,
		    "%s, and nothing else about the machine was looked at.",
		    finding_goes(d, goes));
	FINDING_SAY(finding->remedy,
		    "--tensor-parallel-size 2, 4, 6 or 8, if heads and memory "
		    "allow it. With more than two ranks the rule on NVLink "
		    "comes next.");
	return true;
}

static bool look_extension(const struct diagnosis *d, struct finding *finding)
{
	char goes[112];

	if (!closed_by(d, "extension_missing"))
		return false;
	finding->severity = FINDING_PROBLEM;
	FINDING_SAY(finding->title, "%s's own all-reduce is not in this build",
		    finding_engine(d));
	finding_rule_evidence(d, "extension_missing", finding->evidence,
			      sizeof(finding->evidence));
	FINDING_SAY(finding->consequence, "%s, whatever the hardware.",
		    finding_goes(d, goes));
	FINDING_SAY(finding->remedy,
		    "Install a released package for this CUDA version, or "
		    "build with the CUDA toolkit present.");
	return true;
}

static bool look_nodes(const struct diagnosis *d, struct finding *finding)
{
	if (!closed_by(d, "spans_nodes"))
		return false;
	finding->severity = FINDING_WARNING;
	FINDING_SAY(finding->title,
		    "The tensor-parallel group spans hosts: %s's own "
		    "all-reduce is off",
		    finding_engine(d));
	finding_rule_evidence(d, "spans_nodes", finding->evidence,
			      sizeof(finding->evidence));
	FINDING_SAY(finding->consequence,
		    "Every all-reduce crosses the network by NCCL. Containers "
		    "without a common /dev/shm count as hosts.");
	FINDING_SAY(finding->remedy,
		    "Tensor parallelism inside a host and pipeline parallelism "
		    "between hosts; containers: --ipc=host.");
	return true;
}

/* Does no rule but the flag stand against the kernel? */
static enum gate_answer others_open(const struct gate *gate)
{
	enum gate_answer answer = gate ? GATE_YES : GATE_UNKNOWN;

	for (int i = 1; gate && i < gate->step_count; i++) {
		if (gate->steps[i].answer == GATE_NO)
			return GATE_NO;
		if (gate->steps[i].answer == GATE_UNKNOWN)
			answer = GATE_UNKNOWN;
	}
	return answer;
}

/* By the rules, or by the log alone: the flag, or a sentence. */
static void say_flag_evidence(const struct diagnosis *d,
			      struct finding *finding)
{
	char origin[96];

	if (diagnosis_gate(d, "custom_all_reduce") ||
	    d->log.disable_custom != LOG_YES) {
		finding_rule_evidence(d, "disabled_by_flag", finding->evidence,
				      sizeof(finding->evidence));
		return;
	}
	finding_log_origin(d, d->log.line.disable_custom, origin);
	FINDING_SAY(finding->evidence, "disable_custom_all_reduce=True (%s)",
		    origin);
}

static bool look_flag(const struct diagnosis *d, struct finding *finding)
{
	enum gate_answer open =
		others_open(diagnosis_gate(d, "custom_all_reduce"));
	char goes[112];

	if (!closed_by(d, "disabled_by_flag") || d->tp == 1)
		return false;
	/* switched off for nothing? */
	finding->severity = open == GATE_NO ? FINDING_INFO : FINDING_WARNING;
	FINDING_SAY(finding->title,
		    "%s's own all-reduce is switched off by a flag",
		    finding_engine(d));
	say_flag_evidence(d, finding);
	FINDING_SAY(finding->consequence, "%s; %s.", finding_goes(d, goes),
		    open == GATE_YES
			    ? "no other rule stands against the kernel here"
		    : open == GATE_NO
			    ? "another rule would keep the kernel out, too"
			    : "whether another rule would keep the kernel out, "
			      "too, cannot be told from what was given");
	FINDING_SAY(finding->remedy,
		    "If nobody remembers a hang or wrong output, start once "
		    "without --disable-custom-all-reduce and compare tokens/s "
		    "and output.");
	return true;
}

static bool look_depends(const struct diagnosis *d, struct finding *finding)
{
	const struct gate *gate = diagnosis_gate(d, "custom_all_reduce");
	const struct gate_step *step = finding_step(gate, "p2p_failed");

	if (!gate || gate->verdict != GATE_DEPENDS || !step ||
	    step->answer != GATE_UNKNOWN)
		return false;
	finding->severity = FINDING_INFO;
	FINDING_SAY(finding->title,
		    "The driver's word on peer access is missing, and the gate "
		    "depends on it");
	FINDING_SAY(finding->evidence, "%s", step->evidence);
	FINDING_SAY(finding->consequence, "%.110s; %.110s.", gate->if_yes,
		    gate->if_no);
	FINDING_SAY(finding->remedy,
		    "Add the output of: nvidia-smi topo -p2p r; nvidia-smi "
		    "topo -p2p w");
	return true;
}

/* The log's word and the rules' word, of the same run. */
static bool look_contradiction(const struct diagnosis *d,
			       struct finding *finding)
{
	const struct gate *gate = diagnosis_gate(d, "custom_all_reduce");
	const struct log_facts *log = &d->log;
	bool enabled = log->custom == LOG_CUSTOM_ENABLED;
	char origin[96];

	if (!gate || !d->has_log || log->engine != LOG_VLLM ||
	    (!enabled && log->custom != LOG_CUSTOM_DISABLED) ||
	    gate->verdict == GATE_DEPENDS ||
	    (log->tensor_parallel_size &&
	     log->tensor_parallel_size != (uint64_t)gate->tp) ||
	    (log->version.known && gate->version.known &&
	     version_compare(&log->version, &gate->version)))
		return false;
	if (gate->verdict == GATE_ENABLED
		    ? enabled
		    : !enabled && (!gate->rule ||
				   !strcmp(gate->rule, log->custom_rule)))
		return false;
	/* the limits of single calls do not show at the start */
	if (enabled && gate->rule &&
	    (!strcmp(gate->rule, "too_large") ||
	     !strcmp(gate->rule, "size_not_multiple_of_16")))
		return false;
	finding_log_origin(d, log->line.custom, origin);
	finding->severity = FINDING_WARNING;
	FINDING_SAY(finding->title,
		    "The log and the rules applied to this report say "
		    "different things");
	FINDING_SAY(finding->evidence, "log: %s%s (%s); rules: %s%s%s",
		    enabled ? "enabled" : "disabled by ",
		    enabled ? "" : log->custom_rule, origin,
		    gate_verdict_name(gate->verdict), gate->rule ? " by " : "",
		    gate->rule ? gate->rule : "");
	FINDING_SAY(finding->consequence,
		    "The log shows what happened. The report may be of another "
		    "machine, or of other GPUs of it, or the build differs.");
	FINDING_SAY(finding->remedy,
		    "Check that both are of one run: the same host, the same "
		    "CUDA_VISIBLE_DEVICES, the same version.");
	return true;
}

static bool look_setup_failed(const struct diagnosis *d,
			      struct finding *finding)
{
	char origin[96], goes[112];

	if (!d->has_log || d->log.custom != LOG_CUSTOM_SETUP_FAILED)
		return false;
	finding_log_origin(d, d->log.line.custom, origin);
	finding->severity = FINDING_PROBLEM;
	FINDING_SAY(finding->title, "%s's own all-reduce could not be set up",
		    finding_engine(d));
	FINDING_SAY(finding->evidence, "\"%.180s\" (%s)", d->log.custom_text,
		    origin);
	FINDING_SAY(finding->consequence,
		    "%s, although the rules let the kernel through.",
		    finding_goes(d, goes));
	FINDING_SAY(finding->remedy,
		    "Read the lines behind %s. Known causes: containers "
		    "without a common IPC namespace (--ipc=host), and "
		    "expandable_segments in PYTORCH_CUDA_ALLOC_CONF.",
		    origin);
	return true;
}

/* What can keep a fused kernel from being on again. */
static bool look_fusion(const struct diagnosis *d, struct finding *finding)
{
	const struct gate_step *step =
		finding_step(diagnosis_gate(d, "allreduce_rms_fusion"),
			     "capability_unsupported");
	bool possible = step && step->answer == GATE_YES;
	uint64_t ranks = d->tp ? (uint64_t)d->tp : d->log.tensor_parallel_size;
	char origin[96];

	if (!d->has_log || d->log.rms_fusion != LOG_NO || ranks < 2)
		return false;
	finding_log_origin(d, d->log.line.rms_fusion, origin);
	finding->severity = possible ? FINDING_WARNING : FINDING_INFO;
	FINDING_SAY(finding->title,
		    "All-reduce and RMSNorm are not fused: one more kernel "
		    "after each all-reduce");
	FINDING_SAY(finding->evidence, "fuse_allreduce_rms: False (%s)%s%.120s",
		    origin, step ? "; " : "", step ? step->evidence : "");
	FINDING_SAY(finding->consequence,
		    "Each all-reduce is followed by a kernel of its own for "
		    "the residual and the norm. What that costs here was not "
		    "measured.");
	if (!step || possible)
		FINDING_SAY(finding->remedy,
			    "On GPUs of capability 9.0 or 10.x, with "
			    "FlashInfer installed: --compilation-config "
			    "'{\"pass_config\": {\"fuse_allreduce_rms\": "
			    "true}}'.");
	else
		FINDING_SAY(finding->remedy,
			    "None in vLLM for these GPUs: its fusion is "
			    "FlashInfer's, for capability 9.0 and 10.x.");
	return true;
}

const struct finding_row findings_of_gates[] = {
	{"gate_pcie_more_than_two", look_pcie},
	{"gate_is_engine_rule", look_engine_rule},
	{"peer_never_examined", look_never_examined},
	{"gate_p2p_failed", look_p2p_failed},
	{"world_size_unsupported", look_world_size},
	{"gate_extension_missing", look_extension},
	{"gate_spans_nodes", look_nodes},
	{"custom_setup_failed", look_setup_failed},
	{"custom_disabled_by_flag", look_flag},
	{"custom_enabled_on_pcie_pair", finding_look_pcie_pair},
	{"log_contradicts_rules", look_contradiction},
	{"fusion_off", look_fusion},
	{"peer_status_unknown", look_depends},
	{0},
};
