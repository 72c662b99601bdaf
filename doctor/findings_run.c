/* SPDX-License-Identifier: MIT */
/*
 * Findings from a run: how NCCL carries the messages, settings that somebody
 * left behind, and figures that mislead.
 */
#include "doctor/findings.h"

#include <math.h>

/* NCCL's transport by its lines, or by its rules. */
static const char *transport_of(const struct diagnosis *d)
{
	const struct gate *gate = diagnosis_gate(d, "transport");

	if (d->has_log && d->log.transport)
		return log_transport_name(d->log.transport);
	return gate && gate->transport ? gate->transport : "depends";
}

bool finding_level_helps(const struct diagnosis *d)
{
	const char *transport = transport_of(d);
	const struct gate *gate = diagnosis_gate(d, "transport");
	const struct gate_step *level = finding_step(gate, "level_allows");
	const struct gate_step *cuda = finding_step(gate, "cuda_peer");
	struct gate_question question;
	char value[48], origin[96];

	if ((strcmp(transport, "SHM") && strcmp(transport, "mixed")) ||
	    (d->has_log && d->log.p2p_refused) ||
	    (level && level->answer == GATE_YES) ||
	    (cuda && cuda->answer == GATE_NO))
		return false;
	finding_question(d, &question);
	return !gate_setting(&question, "NCCL_P2P_DISABLE", value, origin) ||
	       !strcmp(value, "0");
}

/* A pair that goes through host memory, by NCCL's words of all versions; -1. */
static int shm_pair(const struct log_facts *log)
{
	for (int i = 0; i < log->pair_count; i++)
		if (strstr(log->pairs[i].via, "SHM") ||
		    strstr(log->pairs[i].via, "shared memory"))
			return i;
	return -1;
}

/* A pair that the log shows on SHM, or the rule that leads there. */
static void say_shm_evidence(const struct diagnosis *d, struct finding *finding)
{
	const struct gate *gate = diagnosis_gate(d, "transport");
	char origin[96];

	if (d->has_log && d->log.transport) {
		int i = shm_pair(&d->log);

		finding_log_origin(d, d->log.line.transport, origin);
		if (i >= 0)
			FINDING_SAY(finding->evidence,
				    "NCCL's line: %d -> %d via %s (%s)",
				    d->log.pairs[i].from, d->log.pairs[i].to,
				    d->log.pairs[i].via, origin);
		else
			FINDING_SAY(finding->evidence, "NCCL's lines (%s)",
				    origin);
		return;
	}
	for (int i = 0; i < gate->step_count; i++)
		if (gate->steps[i].answer == GATE_NO) {
			FINDING_SAY(finding->evidence, "%.200s (%.90s)",
				    gate->steps[i].evidence,
				    gate->steps[i].origin);
			return;
		}
	FINDING_SAY(finding->evidence, "%s", gate->summary);
}

static void say_shm_remedy(const struct diagnosis *d, struct finding *finding)
{
	const struct gate *gate = diagnosis_gate(d, "transport");
	const struct gate_step *peer = finding_step(gate, "nvml_p2p_status");
	const struct gate_step *cuda = finding_step(gate, "cuda_peer");
	struct gate_question question;
	char value[48], origin[96];

	finding_question(d, &question);
	if (gate_setting(&question, "NCCL_P2P_DISABLE", value, origin) &&
	    strcmp(value, "0") != 0)
		FINDING_SAY(finding->remedy,
			    "NCCL_P2P_DISABLE=%.20s is set (%.90s). Find out "
			    "why before you take it away: it is the usual way "
			    "out of a hang.",
			    value, origin);
	else if ((peer && peer->answer == GATE_NO) ||
		 (d->has_log && d->log.p2p_refused))
		FINDING_SAY(finding->remedy,
			    "None in NCCL: the driver refuses peer access, so "
			    "host memory is its way. Keep ranks on one socket "
			    "if there is a choice.");
	else if (cuda && cuda->answer == GATE_NO)
		FINDING_SAY(finding->remedy,
			    "Find out why CUDA refuses: compare nvidia-smi "
			    "topo -p2p r inside and outside of the container, "
			    "and start without libraries that stand between "
			    "the engine and the driver (shared GPUs). No "
			    "NCCL_P2P_LEVEL helps.");
	else
		FINDING_SAY(finding->remedy,
			    "%sNCCL_P2P_LEVEL=SYS, tried first with onehop "
			    "bench --memory device --peer nccl, which checks "
			    "every sum. With ACS redirect or a translating "
			    "IOMMU it can hang or corrupt: boot with iommu=pt "
			    "and clear ACS before.",
			    peer && peer->answer == GATE_YES
				    ? ""
				    : "Ask the driver (nvidia-smi topo -p2p "
				      "r); if it says OK: ");
}

static bool look_shm(const struct diagnosis *d, struct finding *finding)
{
	const char *transport = transport_of(d);
	bool mixed = !strcmp(transport, "mixed");

	if (!mixed && strcmp(transport, "SHM") != 0)
		return false;
	/* of P2P within hosts and a network between them */
	if (mixed && d->has_log && d->log.pair_count && shm_pair(&d->log) < 0)
		return false;
	/* where the engine's kernel takes the small messages it matters less */
	finding->severity =
		finding_custom_enabled(d) ? FINDING_INFO : FINDING_WARNING;
	FINDING_SAY(finding->title,
		    mixed ? "NCCL goes through host memory between some of the "
			    "GPUs (SHM)"
			  : "NCCL goes through host memory between the GPUs "
			    "(SHM)");
	say_shm_evidence(d, finding);
	if (mixed)
		FINDING_SAY(finding->consequence,
			    "A ring is as slow as its slowest hop, and SHM is "
			    "one of them.");
	else
		FINDING_SAY(finding->consequence,
			    "Every hop of an all-reduce is written to host "
			    "memory and read back from there.");
	say_shm_remedy(d, finding);
	return true;
}

static bool look_shm_full(const struct diagnosis *d, struct finding *finding)
{
	char origin[96];

	if (!d->has_log || !d->log.shm_full)
		return false;
	finding_log_origin(d, d->log.line.shm_full, origin);
	finding->severity = FINDING_PROBLEM;
	FINDING_SAY(finding->title, "/dev/shm is too small for NCCL");
	FINDING_SAY(finding->evidence,
		    "no space left on device for a shared memory segment (%s)",
		    origin);
	FINDING_SAY(finding->consequence,
		    "NCCL cannot set up its transport through host memory, and "
		    "the run ends at the start. A container has 64 MB unless "
		    "told otherwise.");
	FINDING_SAY(finding->remedy,
		    "docker run --shm-size=8g (or --ipc=host); Kubernetes: an "
		    "emptyDir of medium Memory on /dev/shm.");
	return true;
}

static bool look_cache(const struct diagnosis *d, struct finding *finding)
{
	char origin[96];

	if (!d->has_log || strcmp(d->log.p2p_cache_action, "read") != 0 ||
	    d->log.custom != LOG_CUSTOM_DISABLED ||
	    strcmp(d->log.custom_rule, "p2p_failed") != 0)
		return false;
	finding_log_origin(d, d->log.line.p2p_cache, origin);
	finding->severity = FINDING_WARNING;
	FINDING_SAY(finding->title,
		    "The peer test was not made: its answer came from an old "
		    "file");
	FINDING_SAY(finding->evidence, "%s was read, not made (%s)",
		    *d->log.p2p_cache_file ? d->log.p2p_cache_file
					   : "a cache file",
		    origin);
	FINDING_SAY(finding->consequence,
		    "The file outlives changes of driver, kernel, BIOS and "
		    "IOMMU; its name holds CUDA_VISIBLE_DEVICES and nothing "
		    "else.");
	FINDING_SAY(finding->remedy,
		    "rm ~/.cache/%s/%.120s%s, and start again: the test takes "
		    "some seconds.",
		    finding_cache(d),
		    *d->log.p2p_cache_file ? d->log.p2p_cache_file
					   : "gpu_p2p_access_cache_for_*.json",
		    d->log.engine == LOG_SGLANG ? ""
						: " (or in VLLM_CACHE_ROOT)");
	return true;
}

static bool look_uuid(const struct diagnosis *d, struct finding *finding)
{
	const struct gate *gate = diagnosis_gate(d, "custom_all_reduce");
	const struct gate_step *step =
		finding_step(gate, "visible_devices_uuid");
	bool crashed = d->has_log && d->log.uuid_in_visible;
	bool vllm = gate || (d->has_log && d->log.engine == LOG_VLLM);
	bool older = step && step->answer == GATE_NO;

	/* newer versions read UUIDs; an unknown one may be an older */
	if (!crashed && !older &&
	    !(vllm && d->visible.uuids && (!gate || gate->version_assumed)))
		return false;
	finding->severity =
		crashed || older ? FINDING_PROBLEM : FINDING_WARNING;
	FINDING_SAY(finding->title,
		    "CUDA_VISIBLE_DEVICES names UUIDs, which vLLM before about "
		    "0.25 cannot read");
	if (crashed)
		FINDING_SAY(finding->evidence,
			    "the log: invalid literal for int() with base 10 "
			    "(%.90s)",
			    *d->log.file ? d->log.file : "log");
	else if (step)
		FINDING_SAY(finding->evidence, "%.215s (%.90s)", step->evidence,
			    step->origin);
	else
		FINDING_SAY(finding->evidence,
			    "the list names UUIDs; the version of vLLM was not "
			    "given");
	FINDING_SAY(
		finding->consequence,
		"vLLM stops with a ValueError, which may surface as \"Model "
		"architectures failed to be inspected\".");
	FINDING_SAY(finding->remedy,
		    "Numbers instead, in bus order: CUDA_DEVICE_ORDER="
		    "PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,1 (nvidia-smi -L shows "
		    "which is which). From vLLM 0.25 on: --device-ids.");
	return true;
}

static bool look_expandable(const struct diagnosis *d, struct finding *finding)
{
	static const char *const names[] = {"PYTORCH_CUDA_ALLOC_CONF",
					    "PYTORCH_ALLOC_CONF"};
	const struct oh__variable *variable = NULL;
	char origin[96];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !variable; i++)
		variable = oh__machine_variable(&d->machine, names[i]);
	if (!variable || !strstr(variable->value, "expandable_segments:True") ||
	    !finding_custom_enabled(d))
		return false;
	finding_origin(d, variable->from, origin, sizeof(origin));
	finding->severity = FINDING_WARNING;
	FINDING_SAY(finding->title,
		    "expandable_segments and the engine's own all-reduce do "
		    "not go together");
	FINDING_SAY(finding->evidence, "%s=%.100s (%s)", variable->name,
		    variable->value, origin);
	FINDING_SAY(finding->consequence,
		    "Such memory cannot be shared by CUDA IPC: a worker ends "
		    "with 'invalid argument' in custom_all_reduce.cuh while "
		    "graphs are captured.");
	FINDING_SAY(finding->remedy,
		    "unset %s, or --disable-custom-all-reduce.",
		    variable->name);
	return true;
}

static bool look_proto(const struct diagnosis *d, struct finding *finding)
{
	struct gate_question question;
	char value[48], origin[96];

	finding_question(d, &question);
	if (!gate_setting(&question, "NCCL_PROTO", value, origin))
		return false;
	finding->severity = FINDING_INFO;
	FINDING_SAY(finding->title, "NCCL's protocol is forced");
	FINDING_SAY(finding->evidence, "NCCL_PROTO=%s (%s)", value, origin);
	FINDING_SAY(finding->consequence,
		    "It holds for every size. LL suits small messages and "
		    "moves half the payload of Simple for large ones, so that "
		    "prompts take longer.");
	FINDING_SAY(finding->remedy,
		    "Compare with it unset, and with "
		    "NCCL_PROTO=LL,LL128,Simple, on decode and on prompts.");
	return true;
}

static bool look_disabled(const struct diagnosis *d, struct finding *finding)
{
	struct gate_question question;
	char value[48], origin[96];

	finding_question(d, &question);
	if (!gate_setting(&question, "NCCL_P2P_DISABLE", value, origin) ||
	    !strcmp(value, "0") || !finding_custom_enabled(d))
		return false;
	finding->severity = FINDING_WARNING;
	FINDING_SAY(finding->title,
		    "NCCL_P2P_DISABLE does not reach the engine's own kernel, "
		    "which is on");
	FINDING_SAY(finding->evidence, "NCCL_P2P_DISABLE=%s (%s)", value,
		    origin);
	FINDING_SAY(finding->consequence,
		    "If peer access hangs here, the engine's kernel hangs "
		    "still, later in the start.");
	FINDING_SAY(finding->remedy,
		    "--disable-custom-all-reduce as well, or neither.");
	return true;
}

static bool look_nccl_version(const struct diagnosis *d,
			      struct finding *finding)
{
	const struct version *nccl = &d->log.nccl;
	struct gate_question question;
	char origin[96];

	finding_question(d, &question);
	/* NCCL issue 2418: 2.26.2, on capability 12.0, from 512 KiB on */
	if (!d->has_log || !nccl->known || nccl->part[0] != 2 ||
	    nccl->part[1] != 26 || nccl->part[2] != 2 ||
	    gate_capability(&question, origin) != 120)
		return false;
	finding_log_origin(d, d->log.line.nccl, origin);
	finding->severity = FINDING_WARNING;
	FINDING_SAY(finding->title,
		    "NCCL 2.26.2 has a reported fault on these GPUs");
	FINDING_SAY(finding->evidence, "nccl==%s (%s), capability 12.0",
		    nccl->text, origin);
	FINDING_SAY(finding->consequence,
		    "Reported: an illegal memory access in messages of 512 KiB "
		    "and more (NCCL issue 2418).");
	FINDING_SAY(finding->remedy,
		    "A newer NCCL: pip install -U nvidia-nccl-cu12");
	return true;
}

static bool look_claimed(const struct diagnosis *d, struct finding *finding)
{
	const struct budget *budget = &d->budget;
	double claimed = budget->claimed_gb_s.value;
	double peak = budget->gpu_peak_gb_s.value;

	/* data sheets are rounded; 5 % is no error */
	if (claimed <= 0 || peak <= 0 || fabs(claimed - peak) <= 0.05 * peak)
		return false;
	finding->severity = FINDING_WARNING;
	FINDING_SAY(finding->title, "The memory's peak is %.0f GB/s, not %.0f",
		    peak, claimed);
	FINDING_SAY(finding->evidence, "%.0f GB/s: %.150s; claimed: %.80s",
		    peak, budget->gpu_peak_gb_s.source,
		    budget->claimed_gb_s.source);
	if (budget->achieved_gb_s_per_gpu.value > 0)
		FINDING_SAY(finding->consequence,
			    "The %.0f GB/s that each GPU reads now are %.1f %% "
			    "of its peak, not %.1f %%.",
			    budget->achieved_gb_s_per_gpu.value,
			    100 * budget->achieved_gb_s_per_gpu.value / peak,
			    100 * budget->achieved_gb_s_per_gpu.value /
				    claimed);
	else
		FINDING_SAY(finding->consequence,
			    "A share of the peak that was worked out with it "
			    "is off by %.0f %%.",
			    100 * fabs(peak / claimed - 1));
	FINDING_SAY(finding->remedy,
		    "Use %.0f GB/s. Editions of one chip differ: look for the "
		    "exact name (nvidia-smi -L).",
		    peak);
	return true;
}

static bool look_bucket(const struct diagnosis *d, struct finding *finding)
{
	const struct metrics *metrics = &d->metrics;
	bool first = metrics->median_low_s <= 0;
	/* without a mean the bucket is all there is */
	bool wide = metrics->mean_ms <= 0 &&
		    metrics->median_high_s > 2 * metrics->median_low_s;
	char high[32];

	if (!d->has_metrics || !metrics->has_median || (!first && !wide))
		return false;
	if (isinf(metrics->median_high_s))
		snprintf(high, sizeof(high), "without end");
	else
		snprintf(high, sizeof(high), "to %g ms",
			 1000 * metrics->median_high_s);
	finding->severity = FINDING_INFO;
	FINDING_SAY(finding->title,
		    "The histogram cannot tell how long a token takes");
	FINDING_SAY(finding->evidence,
		    "%s: the median lies in the bucket from %g ms %s (%.90s)",
		    metrics->metric, 1000 * metrics->median_low_s, high,
		    *metrics->file ? metrics->file : "metrics");
	if (metrics->mean_ms > 0)
		FINDING_SAY(finding->consequence,
			    "Quantiles on a dashboard are guesses inside that "
			    "bucket. The mean by sum and count is %.2f ms.",
			    metrics->mean_ms);
	else
		FINDING_SAY(finding->consequence,
			    "Quantiles on a dashboard are guesses inside that "
			    "bucket.");
	FINDING_SAY(finding->remedy,
		    "Use sum and count: rate(%.64s_sum[1m]) / "
		    "rate(%.64s_count[1m]).",
		    metrics->metric, metrics->metric);
	return true;
}

static bool look_eager(const struct diagnosis *d, struct finding *finding)
{
	if (!d->has_log || d->log.enforce_eager != LOG_YES)
		return false;
	finding->severity = FINDING_WARNING;
	FINDING_SAY(finding->title,
		    "CUDA graphs are off: every kernel is launched by itself");
	FINDING_SAY(finding->evidence, "enforce_eager=True (%.120s)",
		    d->log.file);
	FINDING_SAY(finding->consequence,
		    "A step has hundreds of kernels, and the processor's time "
		    "to launch each adds up. What that costs here was not "
		    "measured.");
	FINDING_SAY(finding->remedy,
		    "Start without --enforce-eager. If that fails for want of "
		    "memory, lower --gpu-memory-utilization or capture fewer "
		    "sizes (--cuda-graph-sizes).");
	return true;
}

/* Said by NCCL, by torch or by the engine, where nothing else was given. */
static bool look_refused(const struct diagnosis *d, struct finding *finding)
{
	char origin[96];

	if (!d->has_log || !d->log.p2p_refused || finding_rule(d))
		return false;
	finding->severity = FINDING_WARNING;
	finding_log_origin(d, d->log.line.p2p_refused, origin);
	FINDING_SAY(finding->title,
		    "The driver refuses peer access between two GPUs");
	FINDING_SAY(finding->evidence, "the log says so (%s)", origin);
	FINDING_SAY(finding->consequence,
		    "What needs it fails or goes through host memory.");
	FINDING_SAY(finding->remedy,
		    "Ask the driver why: nvidia-smi topo -p2p r (CNS: the "
		    "chipset, GNS: the GPU or its driver, TNS: the topology).");
	return true;
}

/* The list ends early, or hides everything. */
static bool look_visible(const struct diagnosis *d, struct finding *finding)
{
	if (!d->has_machine || !*d->visible.remark)
		return false;
	finding->severity =
		d->visible.count ? FINDING_WARNING : FINDING_PROBLEM;
	FINDING_SAY(finding->title,
		    "CUDA_VISIBLE_DEVICES leaves %d of %d GPUs to the engine",
		    d->visible.count, d->machine.gpus);
	FINDING_SAY(finding->evidence, "%s", d->visible.remark);
	FINDING_SAY(finding->consequence,
		    "CUDA takes the list up to the first entry that names "
		    "nothing, without a word.");
	FINDING_SAY(finding->remedy,
		    "Correct the list: indices from 0, or whole UUIDs of "
		    "nvidia-smi -L.");
	return true;
}

const struct finding_row findings_of_run[] = {
	{"visible_devices_cut", look_visible},
	{"shm_too_small", look_shm_full},
	{"cuda_graphs_off", look_eager},
	{"uuid_in_visible_devices", look_uuid},
	{"p2p_refused", look_refused},
	{"nccl_shm_transport", look_shm},
	{"claimed_bandwidth_wrong", look_claimed},
	{"stale_p2p_cache", look_cache},
	{"expandable_segments", look_expandable},
	{"nccl_p2p_disabled", look_disabled},
	{"nccl_known_bad", look_nccl_version},
	{"nccl_proto_forced", look_proto},
	{"metrics_bucket_too_coarse", look_bucket},
	{0},
};
