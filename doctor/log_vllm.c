/* SPDX-License-Identifier: MIT */
/*
 * What vLLM prints of its start and its all-reduce, from 0.6 to 0.30, and what
 * SGLang's older kernel, taken from it, prints alike. Literals were read in
 * the source of both and in public logs; a sentence's beginning is enough, for
 * its end may stand in the next line.
 */
#include <string.h>

#include "doctor/decimal.h"
#include "doctor/log_private.h"

/* "[2026-09-02 08:00:20 DP0 TP1] ": SGLang's, with the rank in it. */
#define STAMP_MOST 64
/* Why a kernel is disabled follows at once. */
#define REASON_MOST 160
/* More backends than there are, as a list. */
#define LIST_MOST 384

enum {
	V1_WORKER,
	V0_WORKER, /* beside a driver that is a rank itself */
	PLAIN_WORKER,
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The rank in SGLang's stamp before a sentence. */
static bool sglang_rank(const struct log_hit *hit, uint64_t *rank)
{
	size_t end = log_find_before(hit, "TP", STAMP_MOST), digits;
	char before, after;

	if (end < 3)
		return false;
	before = hit->line[end - 3];
	digits = decimal_read_count(hit->line + end, hit->at - end, rank);
	after = digits ? hit->line[end + digits] : '\0';
	return (before == ' ' || before == '[') &&
	       (after == ']' || after == ' ');
}

void log_take_rank_line(struct log_reader *reader, const struct log_row *row,
			const struct log_hit *hit)
{
	uint64_t rank;

	(void)row;
	if (sglang_rank(hit, &rank)) {
		log_seen(reader, LOG_TP_RANK, rank);
		log_is_of(reader, LOG_SGLANG, true);
		return;
	}
	log_is_of(reader, LOG_VLLM, false);
	if (!log_prefixed(reader, false))
		log_run(reader)->driver = true;
}

/* A start of the server, in the words of its releases. */
static void take_start(struct log_reader *reader, const struct log_row *row,
		       const struct log_hit *hit)
{
	struct version version = {0};

	(void)row;
	log_read_version(hit, hit->after, &version);
	if (!version.known)
		return;
	log_start(reader);
	log_is_of(reader, LOG_VLLM, true);
	log_version(reader, LOG_VLLM, hit, hit->after, LOG_CONFIG);
}

static void take_version(struct log_reader *reader, const struct log_row *row,
			 const struct log_hit *hit)
{
	(void)row;
	if (log_version(reader, LOG_VLLM, hit, hit->after, LOG_CONFIG))
		log_is_of(reader, LOG_VLLM, true);
}

/* collect_env's word: of what is installed, not of what ran. */
static void take_installed(struct log_reader *reader, const struct log_row *row,
			   const struct log_hit *hit)
{
	size_t at = hit->after;

	while (at < hit->bytes &&
	       (hit->line[at] == ' ' || hit->line[at] == ':'))
		at++;
	log_version(reader, (enum log_engine)row->value, hit, at, LOG_HINT);
}

/* "Initializing a V1 LLM engine (v0.26.0) with config: model='glm-5', ..." */
static void take_config(struct log_reader *reader, const struct log_row *row,
			const struct log_hit *hit)
{
	if (!log_find_before(hit, "LLM engine", REASON_MOST))
		return;
	log_is_of(reader, LOG_VLLM, true);
	log_settings(reader, hit, (enum log_strength)row->value);
}

static void take_arguments(struct log_reader *reader, const struct log_row *row,
			   const struct log_hit *hit)
{
	log_settings(reader, hit, (enum log_strength)row->value);
}

static void take_hint(struct log_reader *reader, const struct log_row *row,
		      const struct log_hit *hit)
{
	log_setting(reader, (enum log_key)row->value, hit, LOG_HINT);
}

/* "--tensor-parallel-size 8" of the command */
static void take_size_option(struct log_reader *reader,
			     const struct log_row *row,
			     const struct log_hit *hit)
{
	struct log_facts *facts = &log_run(reader)->facts;
	uint64_t size;

	(void)row;
	if (hit->after >= hit->bytes || !strchr(" =", hit->line[hit->after]))
		return;
	if (!decimal_read_count(hit->line + hit->after + 1,
				hit->bytes - hit->after - 1, &size) ||
	    !size || !log_outweighs(reader, LOG_KEY_TP, LOG_HINT))
		return;
	facts->tensor_parallel_size = size;
	facts->line.tensor_parallel_size = log_line(reader);
}

static void take_nccl(struct log_reader *reader, const struct log_row *row,
		      const struct log_hit *hit)
{
	struct log_facts *facts = &log_run(reader)->facts;

	log_take_rank_line(reader, row, hit);
	if (!log_outweighs(reader, LOG_KEY_NCCL, LOG_ARGUMENT))
		return;
	log_read_version(hit, hit->after, &facts->nccl);
	facts->line.nccl = log_line(reader);
}

static void take_is_vllm(struct log_reader *reader, const struct log_row *row,
			 const struct log_hit *hit)
{
	(void)row, (void)hit;
	log_is_of(reader, LOG_VLLM, false);
}

/* "(Worker_TP0 pid=7) ", "(VllmWorker rank=0 pid=7) ", "(RayWorker..." */
static void take_worker(struct log_reader *reader, const struct log_row *row,
			const struct log_hit *hit)
{
	size_t at = log_find(hit, "pid=", STAMP_MOST);
	uint64_t pid;

	if (!at || !decimal_read_count(hit->line + at, hit->bytes - at, &pid))
		return;
	/* others have workers too */
	if (row->value != PLAIN_WORKER)
		log_is_of(reader, LOG_VLLM, false);
	log_prefixed(reader, true);
	log_seen(reader, LOG_WORKER_PID, pid);
	if (row->value == V0_WORKER)
		log_run(reader)->v0_workers = true;
}

/* "world_size=2 rank=1 local_rank=1 distributed_init_method=..." */
static void take_local_rank(struct log_reader *reader,
			    const struct log_row *row,
			    const struct log_hit *hit)
{
	size_t at = log_find_before(hit, "rank=", STAMP_MOST);
	uint64_t rank;

	(void)row;
	if (at && decimal_read_count(hit->line + at, hit->bytes - at, &rank))
		log_seen(reader, LOG_WORKER_RANK, rank);
}

static void take_world(struct log_reader *reader, const struct log_row *row,
		       const struct log_hit *hit)
{
	(void)row;
	log_world(reader, hit);
}

/* Reasons by their words; a wrapped line may have lost the rest. */
static const char *reason_of(const struct log_hit *hit)
{
	static const struct {
		const char *words, *rule;
	} reasons[] = {
		{"not supported on more than two", "pcie_more_than_two"},
		{"your platform lacks", "p2p_failed"},
		{"unsupported world size", "world_size_unsupported"},
		{"spans across nodes", "spans_nodes"},
		{"missing custom allreduce library", "extension_missing"},
		{"multi-node group does not support", "spans_nodes"},
		{"not supported on current platform", "disabled_by_flag"},
		{"not supported on", "pcie_more_than_two"},
		{"due to an unsupported", "world_size_unsupported"},
		{"this process group", "spans_nodes"},
		{"of missing custom", "extension_missing"},
		{"your platform", "p2p_failed"},
	};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++)
		if (log_find(hit, reasons[i].words, REASON_MOST))
			return reasons[i].rule;
	return "";
}

/* Only the engine's sentence counts, not "is disabled for now". */
void log_take_disabled(struct log_reader *reader, const struct log_row *row,
		       const struct log_hit *hit)
{
	bool said = log_is_at(hit, hit->after, " because") ||
		    log_is_at(hit, hit->after, " due to") ||
		    hit->after == hit->bytes;

	if (!said)
		return;
	log_take_rank_line(reader, row, hit);
	log_custom_disabled(reader, hit, reason_of(hit));
	log_generation(reader, row->value == 2 ? "v2" : "v1");
}

/* "Registering 5 cuda graph addresses": a kernel that is off has none. */
static void take_registering(struct log_reader *reader,
			     const struct log_row *row,
			     const struct log_hit *hit)
{
	size_t at = log_find_before(hit, "Registering ", STAMP_MOST);

	if (!at || at >= hit->at || !is_digit(hit->line[at]))
		return;
	log_take_rank_line(reader, row, hit);
	log_custom_enabled(reader, hit, at - strlen("Registering "));
	log_generation(reader, "v1");
}

/* custom_all_reduce.cuh:455 'invalid argument' */
static void take_kernel_error(struct log_reader *reader,
			      const struct log_row *row,
			      const struct log_hit *hit)
{
	size_t from = log_find_before(hit, "Failed: ", LOG_NEAR);
	uint64_t number;
	size_t digits = decimal_read_count(hit->line + hit->after,
					   hit->bytes - hit->after, &number);

	(void)row;
	if (!digits)
		return;
	if (!log_is_at(hit, hit->after + digits, " '") &&
	    !log_find(hit, "CUDA error", REASON_MOST))
		return;
	log_is_of(reader, LOG_VLLM, false);
	log_custom_failed(reader, hit,
			  from ? from - strlen("Failed: ") : hit->at);
}

/* "['CUSTOM', 'PYNCCL']" from at on, into group. Is CUSTOM among them? */
static bool read_backends(const struct log_hit *hit, size_t at,
			  struct log_facts *facts, int group)
{
	bool custom = false;
	size_t end = at;

	for (; at < hit->at && hit->line[at] != ']'; at = end + 1) {
		char name[sizeof(facts->groups[0].backend[0])];

		log_copy(name, sizeof(name), hit, at, "");
		end = at + strlen(name);
		if (!name[0])
			continue;
		custom |= !strcmp(name, "CUSTOM");
		if (group < LOG_GROUPS &&
		    facts->groups[group].count < LOG_BACKENDS)
			memcpy(facts->groups[group]
				       .backend[facts->groups[group].count++],
			       name, sizeof(name));
	}
	return custom;
}

static bool lists(const struct log_facts *facts, int group, const char *backend)
{
	for (int i = 0; i < facts->groups[group].count; i++)
		if (!strcmp(facts->groups[group].backend[i], backend))
			return true;
	return false;
}

/* "Using ['CUSTOM', 'PYNCCL'] all-reduce backends (in dispatch order) for
 * group 'tp:0' ..."; some quote it without "group". */
static void take_backends(struct log_reader *reader, const struct log_row *row,
			  const struct log_hit *hit)
{
	struct log_facts *facts = &log_run(reader)->facts;
	size_t list = log_find_before(hit, "Using [", LIST_MOST);
	size_t name = log_find(hit, "group '", REASON_MOST);
	int group = facts->group_count;
	char text[sizeof(facts->groups[0].group)] = "";
	bool custom;

	(void)row;
	if (!list || group == LOG_GROUPS)
		return;
	log_is_of(reader, LOG_VLLM, false);
	if (!name)
		name = log_find(hit, "for '", REASON_MOST);
	if (name)
		log_copy(text, sizeof(text), hit, name, ":");
	for (int i = 0; i < group; i++)
		if (!strcmp(facts->groups[i].group, text))
			return;
	memcpy(facts->groups[group].group, text, sizeof(text));
	custom = read_backends(hit, list, facts, group);
	facts->group_count++;
	if (!facts->line.backends)
		facts->line.backends = log_line(reader);
	if (text[0] && strncmp(text, "tp", 2) != 0)
		return;
	log_custom_listed(reader, hit, list - strlen("Using ["), custom);
	if (lists(facts, group, "SYMM_MEM")) {
		facts->symm_mem = LOG_SYMM_ENABLED;
		facts->line.symm_mem = log_line(reader);
	}
}

/* SGLang's TorchSymmMemCommunicator says it alike. */
static void take_symm_mem(struct log_reader *reader, const struct log_row *row,
			  const struct log_hit *hit)
{
	static const struct {
		const char *words;
		enum log_symm_mem means;
	} refusals[] = {
		{"Device capability ", LOG_SYMM_CAPABILITY},
		{"multicast operations", LOG_SYMM_NO_MULTICAST},
		{"World size", LOG_SYMM_WORLD_SIZE},
		{"initialization failed", LOG_SYMM_FAILED},
		{"is not available", LOG_SYMM_FAILED},
		{"capability is unknown", LOG_SYMM_FAILED},
	};
	struct log_facts *facts = &log_run(reader)->facts;

	log_take_rank_line(reader, row, hit);
	for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals) &&
			   facts->symm_mem == LOG_SYMM_UNKNOWN;
	     i++) {
		size_t at = log_find(hit, refusals[i].words, REASON_MOST);

		if (!at)
			continue;
		facts->symm_mem = refusals[i].means;
		facts->line.symm_mem = log_line(reader);
		if (refusals[i].means == LOG_SYMM_CAPABILITY)
			log_copy(facts->symm_mem_capability,
				 sizeof(facts->symm_mem_capability), hit, at,
				 ".");
	}
}

/* What was done weighs more than what was set. */
static void take_fusion(struct log_reader *reader, const struct log_row *row,
			const struct log_hit *hit)
{
	struct log_run *run = log_run(reader);

	log_is_of(reader, LOG_VLLM, false);
	if (row->value == LOG_NOT_SAID &&
	    !log_find(hit, "allreduce_rms", REASON_MOST))
		return;
	run->fusion_ran = true;
	run->facts.rms_fusion = row->value == LOG_NO ? LOG_NO : LOG_YES;
	run->facts.line.rms_fusion = log_line(reader);
}

/* "reading GPU P2P access cache from /x/gpu_p2p_access_cache_for_1,2.json" */
static void take_p2p_cache(struct log_reader *reader, const struct log_row *row,
			   const struct log_hit *hit)
{
	static const char stem[] = "gpu_p2p_access_cache_for_";
	struct log_facts *facts = &log_run(reader)->facts;
	size_t at = log_find(hit, stem, LOG_NEAR);
	bool generates = log_find_before(hit, "generating ", STAMP_MOST);
	char devices[LOG_TEXT], *dot;

	log_take_rank_line(reader, row, hit);
	if (generates)
		memcpy(facts->p2p_cache_action, "generate", sizeof("generate"));
	else if (!facts->p2p_cache_action[0])
		memcpy(facts->p2p_cache_action, "read", sizeof("read"));
	if (!at || facts->p2p_cache_file[0])
		return;
	facts->line.p2p_cache = log_line(reader);
	log_copy(facts->p2p_cache_file, sizeof(facts->p2p_cache_file), hit,
		 at - strlen(stem), ",-.");
	log_copy(devices, sizeof(devices), hit, at, ",-.");
	dot = strstr(devices, ".json");
	if (!dot || !log_outweighs(reader, LOG_KEY_VISIBLE, LOG_ARGUMENT))
		return;
	*dot = '\0';
	memcpy(facts->visible_devices, devices, sizeof(devices));
}

/* As a shell, a dump or collect_env shows it. */
static void take_visible(struct log_reader *reader, const struct log_row *row,
			 const struct log_hit *hit)
{
	struct log_facts *facts = &log_run(reader)->facts;
	size_t at = hit->after;
	char value[LOG_TEXT];

	(void)row;
	while (at < hit->bytes && hit->line[at] &&
	       strchr("'\"\\ =:", hit->line[at]))
		at++;
	log_copy(value, sizeof(value), hit, at, ",-/");
	if (at == hit->after ||
	    (!is_digit(value[0]) && value[0] != '-' &&
	     strncmp(value, "GPU-", 4) != 0 && strncmp(value, "MIG-", 4) != 0))
		return;
	if (log_outweighs(reader, LOG_KEY_VISIBLE, LOG_HINT))
		memcpy(facts->visible_devices, value, sizeof(value));
}

/* vLLM and SGLang take the entries of CUDA_VISIBLE_DEVICES for numbers. */
static void take_no_number(struct log_reader *reader, const struct log_row *row,
			   const struct log_hit *hit)
{
	size_t at = hit->after;

	(void)row;
	while (at < hit->bytes && hit->line[at] &&
	       strchr(" '\"\\", hit->line[at]))
		at++;
	if (!log_is_at(hit, at, "GPU-") && !log_is_at(hit, at, "MIG-"))
		return;
	log_is_of(reader, LOG_VLLM, false);
	log_run(reader)->facts.uuid_in_visible = true;
}

/* "Avg generation throughput: 57.5 tokens/s, Running: 1 reqs" */
static void take_rate(struct log_reader *reader, const struct log_row *row,
		      const struct log_hit *hit)
{
	size_t at = log_find(hit, "Running: ", REASON_MOST);
	uint64_t running = UINT64_MAX;
	double rate = 0;

	(void)row;
	if (!decimal_read(hit->line + hit->after, hit->bytes - hit->after,
			  &rate))
		return;
	log_is_of(reader, LOG_VLLM, false);
	if (at)
		decimal_read_count(hit->line + at, hit->bytes - at, &running);
	log_rate(reader, rate, running);
}

/* "SpecDecoding metrics: Mean acceptance length: 2.61, ..." */
static void take_accepted(struct log_reader *reader, const struct log_row *row,
			  const struct log_hit *hit)
{
	(void)row;
	log_is_of(reader, LOG_VLLM, false);
	log_accepted(reader, hit);
}

const struct log_row log_vllm_rows[] = {
	{"vLLM API server version ", take_start, 0},
	{"vLLM server version ", take_start, 0},
	{"\xe2\x96\x80\xe2\x96\x84\xe2\x96\x80 \xe2\x96\x88  version ",
	 take_start, 0},
	{"LLM engine (v", take_version, 0},
	{"vLLM Version", take_installed, LOG_VLLM},
	{"with config: ", take_config, LOG_CONFIG},
	{"non-default args: {", take_arguments, LOG_ARGUMENT},
	{"args: Namespace(", take_arguments, LOG_ARGUMENT},
	{"tensor_parallel_size", take_hint, LOG_KEY_TP},
	{"--tensor-parallel-size", take_size_option, 0},
	{"--tp-size", take_size_option, 0},
	{"disable_custom_all_reduce", take_hint, LOG_KEY_DISABLE_CUSTOM},
	{"fuse_allreduce_rms", take_hint, LOG_KEY_FUSION},
	{"enable_fi_allreduce_fusion", take_hint, LOG_KEY_FUSION},
	{"vLLM is using nccl==", take_nccl, 0},
	{"Found nccl from ", log_take_rank_line, 0},
	{"(EngineCore", take_is_vllm, 0},
	{"(APIServer pid=", take_is_vllm, 0},
	{"(Worker ", take_worker, PLAIN_WORKER},
	{"(Worker_", take_worker, V1_WORKER},
	{"(VllmWorker ", take_worker, V1_WORKER},
	{"(VllmWorkerProcess ", take_worker, V0_WORKER},
	/* RayWorkerWrapper, RayWorkerProc */
	{"(RayWorker", take_worker, V0_WORKER},
	{" local_rank=", take_local_rank, 0},
	{"world_size=", take_world, 0},
	{" in world size ", take_world, 0},
	{"Custom allreduce is disabled", log_take_disabled, 1},
	{"Custom collectives are disabled", log_take_disabled, 1},
	{"Disabled the custom all-reduce kernel", log_take_disabled, 1},
	{"cuda graph addresses", take_registering, 0},
	{"custom_all_reduce.cuh:", take_kernel_error, 0},
	{"all-reduce backends", take_backends, 0},
	{"SymmMemCommunicator: ", take_symm_mem, 0},
	{"AllReduce fusion pass is disabled", take_fusion, LOG_NO},
	{"skipping allreduce fusion pass", take_fusion, LOG_NO},
	{"Flashinfer allreduce fusion is not supported", take_fusion, LOG_NO},
	{"Enabled custom fusions: ", take_fusion, LOG_NOT_SAID},
	{"FlashInfer Allreduce norm fusion workspace", take_fusion, LOG_YES},
	{"GPU P2P access cache ", take_p2p_cache, 0},
	{"CUDA_VISIBLE_DEVICES", take_visible, 0},
	{"invalid literal for int() with base 10: ", take_no_number, 0},
	{"Avg generation throughput: ", take_rate, 0},
	{"Mean acceptance length: ", take_accepted, 0},
	{NULL, NULL, 0},
};
