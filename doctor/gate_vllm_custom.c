/* SPDX-License-Identifier: MIT */
/*
 * vLLM's own all-reduce kernel ("custom all-reduce"): the conditions at start
 * and of each call, in the engine's order. What the ranks' GPUs are is asked
 * of the machine first; a log of the same run answers what the machine does
 * not, and alone says how the peer test ended.
 */
#include "doctor/gate_vllm.h"

#include <stdio.h>
#include <string.h>

#define SOURCE "vLLM custom_all_reduce.py"
#define BASE_BYTES 8388608 /* 8192 * 1024, in every version that was read */
#define SILENCE                                                                \
	" To silence this warning, specify disable_custom_all_reduce=True "    \
	"explicitly."
#define NCCL_TAKES "NCCL takes every message"
#define NEXT_TAKES "the next path takes every message"

/* CUSTOM_ALL_REDUCE_MAX_SIZES; values above the base are cut to it. */
static const struct vllm_size_row max_sizes[] = {
	{90,
	 VLLM_HAS_SYMM_MEM,
	 {{2, 67108864}, {4, 33554432}, {6, 524288}, {8, 262144}}},
	{100,
	 VLLM_HAS_SYMM_MEM,
	 {{2, 2097152}, {4, 2097152}, {6, 1048576}, {8, 1048576}}},
	{103,
	 VLLM_CAPABILITY_103,
	 {{2, 4194304}, {4, 4194304}, {6, 8388608}, {8, 4194304}}},
};

/* How a log that is of this run answers a start condition of this name. */
static enum gate_answer logged(const struct vllm_case *at, const char *id)
{
	/* in the engine's order: a later one was reached by passing these */
	static const char *const order[] = {
		"extension_missing",  "spans_nodes", "world_size_unsupported",
		"pcie_more_than_two", "p2p_failed",
	};
	const struct log_facts *log = vllm_log(at);
	bool passed = false;

	if (!log || log->custom == LOG_CUSTOM_UNKNOWN ||
	    log->custom == LOG_CUSTOM_SETUP_FAILED)
		return GATE_UNKNOWN;
	if (log->custom == LOG_CUSTOM_ENABLED)
		return GATE_YES;
	for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++) {
		if (!strcmp(log->custom_rule, order[i]))
			return passed		       ? GATE_YES
			       : !strcmp(id, order[i]) ? GATE_NO
						       : GATE_UNKNOWN;
		if (!strcmp(id, order[i]))
			passed = true;
	}
	return GATE_UNKNOWN;
}

static void say_logged(const struct vllm_case *at, enum gate_answer answer,
		       struct gate_said *said)
{
	const struct log_facts *log = at->question->log;

	gate_said_logged(said, answer, log, log->line.custom, "%s",
			 answer == GATE_NO ? "the log says so"
			 : log->custom == LOG_CUSTOM_ENABLED
				 ? "the log says that it is enabled"
				 : "the log says that a later rule closed it");
}

/* "; the log says so, too" where it does, with the line. */
static void confirm(const struct vllm_case *at, const char *id,
		    struct gate_said *said)
{
	const struct log_facts *log = at->question->log;
	size_t evidence = strlen(said->evidence), origin = strlen(said->origin);
	const char *base;

	if (said->answer != GATE_NO || logged(at, id) != GATE_NO)
		return;
	snprintf(said->evidence + evidence, sizeof(said->evidence) - evidence,
		 "; the log says so, too");
	base = strrchr(log->file, '/');
	snprintf(said->origin + origin, sizeof(said->origin) - origin,
		 ", %.60s:%llu", base ? base + 1 : log->file,
		 (unsigned long long)log->line.custom);
}

static void ask_flag(const struct vllm_case *at, struct gate_said *said)
{
	const struct log_facts *log = vllm_log(at);

	if (vllm_batch_invariant(at, said))
		return;
	if (log && log->disable_custom == LOG_YES)
		gate_said_logged(said, GATE_NO, log, log->line.disable_custom,
				 "disable_custom_all_reduce=True");
	else if (log && log->disable_custom == LOG_NO)
		gate_said_logged(said, GATE_YES, log, log->line.disable_custom,
				 "disable_custom_all_reduce=False");
	else
		gate_said_assumed(said, GATE_YES,
				  "the kernel is on unless "
				  "--disable-custom-all-reduce is given");
}

static void ask_single(const struct vllm_case *at, struct gate_said *said)
{
	gate_said_assumed(said, at->question->tp > 1 ? GATE_YES : GATE_NO, "");
	GATE_SAY(said->evidence, "%d rank%s", at->question->tp,
		 at->question->tp == 1 ? "" : "s");
	GATE_SAY(said->origin, "tensor-parallel size");
}

static void ask_extension(const struct vllm_case *at, struct gate_said *said)
{
	if (logged(at, "extension_missing") != GATE_UNKNOWN)
		say_logged(at, logged(at, "extension_missing"), said);
	else
		gate_said_assumed(said, GATE_YES,
				  "vLLM's packages have it built");
}

static void ask_nodes(const struct vllm_case *at, struct gate_said *said)
{
	if (logged(at, "spans_nodes") != GATE_UNKNOWN)
		say_logged(at, logged(at, "spans_nodes"), said);
	else
		gate_said_assumed(said, GATE_YES, "one host");
}

static const char *world_sizes(struct gate *gate)
{
	return vllm_has(gate, VLLM_SIXTEEN_RANKS) ? "[2, 4, 6, 8, 16]"
						  : "[2, 4, 6, 8]";
}

static void ask_world_size(const struct vllm_case *at, struct gate_said *said)
{
	int tp = at->question->tp;
	bool fits = tp == 2 || tp == 4 || tp == 6 || tp == 8;

	said->answer = fits ? GATE_YES : GATE_NO;
	GATE_SAY(said->origin, "tensor-parallel size");
	if (tp == 16 && vllm_has(at->gate, VLLM_SIXTEEN_RANKS))
		GATE_SAY(said->evidence,
			 "16 is on this version's list for all-gather and "
			 "reduce-scatter alone; an all-reduce takes at most 8");
	else
		GATE_SAY(said->evidence, "%d is %s [2, 4, 6, 8]", tp,
			 fits ? "in" : "not in");
	confirm(at, "world_size_unsupported", said);
}

static void ask_uuid(const struct vllm_case *at, struct gate_said *said)
{
	const struct gate_question *question = at->question;

	if (question->log && question->log->uuid_in_visible)
		gate_said_logged(said, GATE_NO, question->log, 0,
				 "int() failed on a UUID in "
				 "CUDA_VISIBLE_DEVICES");
	else if (question->visible_uuids) {
		said->answer = GATE_NO;
		GATE_SAY(said->evidence,
			 "CUDA_VISIBLE_DEVICES=%.60s: this version reads every "
			 "entry as a number and stops at a UUID",
			 question->visible_devices ? question->visible_devices
						   : "");
		GATE_SAY(said->origin, "CUDA_VISIBLE_DEVICES");
	} else if (question->visible_devices) {
		said->answer = GATE_YES;
		GATE_SAY(said->evidence, "CUDA_VISIBLE_DEVICES=%.60s",
			 question->visible_devices);
		GATE_SAY(said->origin, "CUDA_VISIBLE_DEVICES");
	} else
		gate_said_assumed(said, GATE_YES,
				  "CUDA_VISIBLE_DEVICES is not set");
}

static void ask_nvlink(const struct vllm_case *at, struct gate_said *said)
{
	if (at->question->tp <= 2) {
		said->answer = GATE_YES;
		GATE_SAY(said->evidence, "%s no NVLink by this rule",
			 at->question->tp == 1 ? "one rank needs"
					       : "two ranks need");
		GATE_SAY(said->origin, "tensor-parallel size");
		return;
	}
	gate_pairs_nvlink(at->question, said);
	if (said->answer == GATE_UNKNOWN &&
	    logged(at, "pcie_more_than_two") != GATE_UNKNOWN)
		say_logged(at, logged(at, "pcie_more_than_two"), said);
	confirm(at, "pcie_more_than_two", said);
}

/* Both engines compare with "1" and nothing else (vLLM envs.py). */
static enum gate_peer_word peer_word(const struct vllm_case *at)
{
	const struct log_facts *log = vllm_log(at);
	char value[48], origin[96];
	bool skips;

	if (log && *log->p2p_cache_action)
		return strcmp(log->p2p_cache_action, "read") ? GATE_PEER_TEST
							     : GATE_PEER_FILE;
	if (!vllm_has(at->gate, VLLM_SKIP_VARIABLE))
		return GATE_PEER_TEST;
	if (gate_setting(at->question, "VLLM_SKIP_P2P_CHECK", value, origin))
		skips = !strcmp(value, "1");
	else
		skips = vllm_has(at->gate, VLLM_SKIP_DEFAULT);
	return skips ? GATE_PEER_DRIVER : GATE_PEER_TEST;
}

/* A log of the same machine that settles what the driver was not asked. */
static void ask_peer_of_log(const struct vllm_case *at, struct gate_said *said)
{
	const struct log_facts *log = at->question->log;
	enum gate_answer answer = logged(at, "p2p_failed");

	if (answer == GATE_NO) {
		said->answer = GATE_UNKNOWN; /* the log outranks the driver */
		say_logged(at, answer, said);
		if (!strcmp(log->p2p_cache_action, "read"))
			gate_said_logged(said, answer, log, log->line.p2p_cache,
					 "the log says so; the answer was read "
					 "from the cache file %.100s",
					 log->p2p_cache_file);
	}
	if (said->answer != GATE_UNKNOWN || !log)
		return;
	if (answer != GATE_UNKNOWN)
		say_logged(at, answer, said);
	else if (log->p2p_refused)
		gate_said_logged(said, GATE_NO, log, log->line.p2p_refused,
				 "NCCL's lines say that CUDA refuses peer "
				 "access");
	else if (log->transport == LOG_TRANSPORT_P2P && at->question->tp == 2)
		gate_said_logged(said, GATE_YES, log, log->line.transport,
				 "NCCL itself uses peer access between the "
				 "two");
}

/* What is behind an answer of "yes". */
static const char *peer_basis(enum gate_peer_word word)
{
	switch (word) {
	case GATE_PEER_DRIVER:
		return "takes the driver's word and moves no data to see";
	case GATE_PEER_FILE:
		return "took a cache file's word, says the log: of an earlier "
		       "test";
	case GATE_PEER_TEST:
	case GATE_PEER_NOT_SAID:
		break;
	}
	return "tries it with data and keeps the answer in a cache file: "
	       "evidence, not proof";
}

static void ask_peer(const struct vllm_case *at, struct gate_said *said)
{
	char value[48], origin[96], who[48] = "this version";
	size_t used;

	gate_pairs_peer(at->question, said);
	ask_peer_of_log(at, said);
	if (said->answer != GATE_YES)
		return;
	at->gate->peer_word = peer_word(at);
	if (at->gate->peer_word != GATE_PEER_FILE &&
	    vllm_has(at->gate, VLLM_SKIP_VARIABLE) &&
	    gate_setting(at->question, "VLLM_SKIP_P2P_CHECK", value, origin))
		GATE_SAY(who, "VLLM_SKIP_P2P_CHECK=%.8s: vLLM", value);
	used = strlen(said->evidence);
	snprintf(said->evidence + used, sizeof(said->evidence) - used,
		 "; %s %s", who, peer_basis(at->gate->peer_word));
}

static void ask_multiple(const struct vllm_case *at, struct gate_said *said)
{
	uint64_t bytes = at->question->bytes;

	if (!bytes) {
		gate_said_assumed(said, GATE_YES,
				  "decode messages are tokens x hidden x 2 "
				  "bytes, and hidden is a multiple of 8");
		return;
	}
	said->answer = bytes % 16 ? GATE_NO : GATE_YES;
	GATE_SAY(said->evidence, "%llu bytes, remainder %llu",
		 (unsigned long long)bytes, (unsigned long long)(bytes % 16));
	GATE_SAY(said->origin, "message size");
}

static void ask_contiguous(const struct vllm_case *at, struct gate_said *said)
{
	(void)at;
	gate_said_assumed(said, GATE_YES,
			  "the output of a row-parallel layer is contiguous");
}

struct limits {
	uint64_t low, high;
};

/* The limit is lowered by a table only where symmetric memory is in use too,
 * and the capability is in that table. */
static struct limits max_bytes(const struct vllm_case *at)
{
	static const int capabilities[] = {90, 100, 103};
	const struct gate *symm_mem = &at->gates[VLLM_SYMM_MEM];
	struct limits limits = {BASE_BYTES, BASE_BYTES};
	bool closed = symm_mem->verdict == GATE_DISABLED &&
		      !vllm_closed_per_call(symm_mem);
	char origin[96];
	int capability = gate_capability(at->question, origin);

	if (closed)
		return limits;
	for (size_t i = 0; i < sizeof(capabilities) / sizeof(*capabilities);
	     i++) {
		uint64_t bytes;

		if (capability && capability != capabilities[i])
			continue;
		bytes = vllm_size(at->gate, max_sizes,
				  sizeof(max_sizes) / sizeof(*max_sizes),
				  capabilities[i], at->question->tp);
		if (bytes && bytes < limits.low)
			limits.low = bytes;
	}
	if (capability && symm_mem->verdict == GATE_ENABLED)
		limits.high = limits.low;
	return limits;
}

static void ask_size(const struct vllm_case *at, struct gate_said *said)
{
	struct limits limits = max_bytes(at);
	unsigned long long bytes = at->question->bytes;
	unsigned long long low = limits.low, high = limits.high;

	if (!bytes) {
		gate_said_assumed(said, GATE_YES, "");
		GATE_SAY(said->evidence,
			 "decode messages are: 8192 bytes a token at hidden "
			 "4096, below %llu",
			 low);
		return;
	}
	GATE_SAY(said->origin, "message size");
	said->answer = bytes < low     ? GATE_YES
		       : bytes >= high ? GATE_NO
				       : GATE_UNKNOWN;
	if (said->answer == GATE_UNKNOWN)
		GATE_SAY(said->evidence,
			 "%llu bytes; the limit is %llu with symmetric memory "
			 "and %llu without",
			 bytes, low, high);
	else
		GATE_SAY(said->evidence, "%llu bytes, limit %llu", bytes,
			 said->answer == GATE_YES ? low : high);
}

static const struct vllm_rule rules[] = {
	{"disabled_by_flag", "Is the kernel left switched on?", VLLM_ALWAYS,
	 VLLM_NEVER, ask_flag, "vLLM parallel_state.py, ParallelConfig"},
	{"single_rank", "Is there more than one rank?", VLLM_ALWAYS, VLLM_NEVER,
	 ask_single, SOURCE},
	{"extension_missing", "Is the kernel's library built in?", VLLM_ALWAYS,
	 VLLM_NEVER, ask_extension, SOURCE},
	{"spans_nodes", "Are all ranks on one host?", VLLM_ALWAYS, VLLM_NEVER,
	 ask_nodes, SOURCE},
	{"world_size_unsupported", "Is the number of ranks 2, 4, 6 or 8?",
	 VLLM_ALWAYS, VLLM_NEVER, ask_world_size, SOURCE},
	{"visible_devices_uuid",
	 "Is CUDA_VISIBLE_DEVICES a list of numbers, or not set?", VLLM_ALWAYS,
	 VLLM_VISIBLE_UUIDS, ask_uuid, SOURCE},
	{"pcie_more_than_two",
	 "Are there two ranks only, or NVLink between every pair?", VLLM_ALWAYS,
	 VLLM_NEVER, ask_nvlink, SOURCE ", platforms/cuda.py"},
	{"p2p_failed", "Can every rank reach every other's memory?",
	 VLLM_ALWAYS, VLLM_NEVER, ask_peer,
	 SOURCE ", custom_all_reduce_utils.py"},
	{"size_not_multiple_of_16",
	 "In each call: are the bytes a multiple of 16?", VLLM_ALWAYS,
	 VLLM_NEVER, ask_multiple, SOURCE ", should_custom_ar"},
	{"not_contiguous", "In each call: is the tensor contiguous?",
	 VLLM_ALWAYS, VLLM_NEVER, ask_contiguous, SOURCE ", should_custom_ar"},
	{"too_large", "In each call: is it smaller than the limit?",
	 VLLM_ALWAYS, VLLM_NEVER, ask_size, SOURCE ", should_custom_ar"},
};

/* What follows from a rule: for the person, and as the engine prints it. */
static const struct {
	const char *rule, *summary, *log_line;
} closed[] = {
	{"disabled_by_flag",
	 "vLLM's own all-reduce is switched off by a flag; " NEXT_TAKES ".",
	 ""},
	{"single_rank", "One rank: there is nothing to reduce.", ""},
	{"extension_missing",
	 "vLLM's own all-reduce is not in this build; " NEXT_TAKES ".",
	 "Custom allreduce is disabled because of missing custom allreduce "
	 "library"},
	{"spans_nodes",
	 "vLLM's own all-reduce stays inside one host; " NCCL_TAKES ".",
	 "Custom allreduce is disabled because this process group spans across "
	 "nodes."},
	{"world_size_unsupported",
	 "vLLM's own all-reduce is made for 2, 4, 6 or 8 ranks; nothing else "
	 "was looked at. " NCCL_TAKES ".",
	 NULL},
	{"visible_devices_uuid",
	 "This version of vLLM stops with a ValueError: it reads "
	 "CUDA_VISIBLE_DEVICES as numbers, and it names UUIDs.",
	 ""},
	{"pcie_more_than_two",
	 "vLLM leaves its own all-reduce out: more than two ranks, and not "
	 "every pair has NVLink. " NCCL_TAKES ".",
	 "Custom allreduce is disabled because it's not supported on more than "
	 "two PCIe-only GPUs." SILENCE},
	{"p2p_failed",
	 "vLLM leaves its own all-reduce out: the ranks' GPUs cannot reach "
	 "each other's memory. " NCCL_TAKES ".",
	 "Custom allreduce is disabled because your platform lacks GPU P2P "
	 "capability or P2P test failed." SILENCE},
	{"size_not_multiple_of_16",
	 "vLLM's own all-reduce is on, and this message goes to the next path: "
	 "its bytes are no multiple of 16.",
	 ""},
	{"not_contiguous",
	 "vLLM's own all-reduce is on, and this message goes to the next path: "
	 "it is not contiguous.",
	 ""},
	{"too_large",
	 "vLLM's own all-reduce is on, and this message goes to the next path: "
	 "it is too large.",
	 ""},
};

/* What an unknown condition would make of it. */
static const struct {
	const char *rule, *if_yes, *if_no;
} open[] = {
	{"pcie_more_than_two",
	 "NVLink between every pair: vLLM's own all-reduce takes the decode "
	 "messages",
	 "a pair without NVLink: disabled by rule "
	 "pcie_more_than_two; " NCCL_TAKES},
	{"p2p_failed",
	 "the driver says OK for every pair: vLLM's own all-reduce takes the "
	 "decode messages",
	 "the driver refuses a pair: disabled by rule p2p_failed; " NCCL_TAKES},
	{"too_large", "below the limit: vLLM's own all-reduce takes it",
	 "not below the limit: the next path takes it"},
};

#define ANY_WORD GATE_PEER_NOT_SAID

static const struct {
	const char *rule;
	enum vllm_since since;
	/* on peer access, with which it makes sense: the driver's, a test's */
	enum gate_peer_word word;
	const char *what, *risk;
} overrides[] = {
	{"pcie_more_than_two", VLLM_HAS_PCIE_IPC, ANY_WORD,
	 "VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC=1: another kernel for 2, 4 or "
	 "8 ranks on PCIe",
	 "needs a FlashInfer build that has it; peer access is not tried "
	 "first: with ACS redirect or a translating IOMMU it can hang"},
	{"pcie_more_than_two", VLLM_ALWAYS, GATE_PEER_DRIVER,
	 "--tensor-parallel-size 2: this rule does not hold for two ranks",
	 "the model must fit two GPUs; peer access over PCIe is then used "
	 "without a test unless VLLM_SKIP_P2P_CHECK=0"},
	{"pcie_more_than_two", VLLM_ALWAYS, GATE_PEER_TEST,
	 "--tensor-parallel-size 2: this rule does not hold for two ranks",
	 "the model must fit two GPUs; peer access over PCIe is then used "
	 "after a test with data, which is evidence and no proof"},
	{"pcie_more_than_two", VLLM_ALWAYS, ANY_WORD,
	 "--disable-custom-all-reduce: silences the warning",
	 "changes nothing else; VLLM_SKIP_P2P_CHECK does not reach this rule "
	 "either"},
	{"world_size_unsupported", VLLM_ALWAYS, ANY_WORD,
	 "--tensor-parallel-size 2, 4, 6 or 8",
	 "with more than two ranks the NVLink rule comes next"},
	{"p2p_failed", VLLM_SKIP_VARIABLE, GATE_PEER_TEST,
	 "VLLM_SKIP_P2P_CHECK=1: takes the driver's word instead of the test",
	 "wrong results or a hang where the driver's word is wrong; no effect "
	 "where the driver itself says no"},
	{"p2p_failed", VLLM_ALWAYS, ANY_WORD,
	 "delete ~/.cache/vllm/gpu_p2p_access_cache_for_*.json: tests again",
	 "none; the next start takes longer"},
	{"disabled_by_flag", VLLM_ALWAYS, ANY_WORD,
	 "start without --disable-custom-all-reduce",
	 "somebody may have set it because of a hang: look first"},
	{"visible_devices_uuid", VLLM_ALWAYS, ANY_WORD,
	 "CUDA_VISIBLE_DEVICES with numbers, CUDA_DEVICE_ORDER=PCI_BUS_ID",
	 "numbers change when cards do"},
	{NULL, VLLM_ALWAYS, ANY_WORD,
	 "--disable-custom-all-reduce: NCCL takes over",
	 "a small message takes as long as NCCL needs; the way out where "
	 "peer access hangs or returns wrong data"},
	{NULL, VLLM_SKIP_VARIABLE, GATE_PEER_DRIVER,
	 "VLLM_SKIP_P2P_CHECK=0: tries peer access with data at the start",
	 "a copy can pass where a kernel's own stores fail; the result is "
	 "cached and not tried again after a new driver"},
};

/* What needs peer access is nothing to offer where the driver refuses it. */
static bool is_refused(const struct vllm_case *at, const char *what)
{
	struct gate_said said = {0};

	if (!strstr(what, "PCIE_IPC") && !strstr(what, "size 2:"))
		return false;
	gate_pairs_peer(at->question, &said);
	return said.answer == GATE_NO;
}

static bool word_fits(const struct vllm_case *at, enum gate_peer_word word)
{
	return word == ANY_WORD || (word == GATE_PEER_DRIVER) ==
					   (peer_word(at) == GATE_PEER_DRIVER);
}

static void say_overrides(const struct vllm_case *at)
{
	const char *rule = at->gate->rule;

	if (at->gate->verdict == GATE_DISABLED && !rule)
		return;
	for (size_t i = 0; i < sizeof(overrides) / sizeof(*overrides); i++) {
		const char *of = overrides[i].rule;
		bool fits = rule ? of && !strcmp(of, rule) : !of;

		if (fits && !is_refused(at, overrides[i].what) &&
		    vllm_has(at->gate, overrides[i].since) &&
		    word_fits(at, overrides[i].word))
			gate_override(at->gate, overrides[i].what,
				      overrides[i].risk);
	}
}

/* Sixteen ranks are on newer lists, so that the NVLink rule speaks for them. */
static void say_world_size_line(const struct vllm_case *at)
{
	struct gate *gate = at->gate;
	struct gate_said said = {0};

	if (gate->tp != 16 || !vllm_has(gate, VLLM_SIXTEEN_RANKS)) {
		GATE_SAY(gate->log_line,
			 "Custom allreduce is disabled due to an unsupported "
			 "world size: %d. Supported world sizes: %s." SILENCE,
			 gate->tp, world_sizes(gate));
		return;
	}
	gate_pairs_nvlink(at->question, &said);
	for (size_t i = 0; i < sizeof(closed) / sizeof(*closed); i++)
		if (said.answer == GATE_NO &&
		    !strcmp(closed[i].rule, "pcie_more_than_two"))
			GATE_SAY(gate->log_line, "%s", closed[i].log_line);
}

static void say_closed(const struct vllm_case *at)
{
	struct gate *gate = at->gate;

	GATE_SAY(gate->summary, "vLLM leaves its own all-reduce out, by one of "
				"two rules; " NCCL_TAKES ".");
	for (size_t i = 0; gate->rule && i < sizeof(closed) / sizeof(*closed);
	     i++) {
		if (strcmp(closed[i].rule, gate->rule) != 0)
			continue;
		GATE_SAY(gate->summary, "%s", closed[i].summary);
		if (closed[i].log_line)
			GATE_SAY(gate->log_line, "%s", closed[i].log_line);
		else
			say_world_size_line(at);
	}
}

static void say_open(struct gate *gate)
{
	const char *first = NULL;

	for (int i = 0; i < gate->step_count && !first; i++)
		if (gate->steps[i].answer == GATE_UNKNOWN)
			first = gate->steps[i].id;
	GATE_SAY(gate->summary,
		 "Whether vLLM's own all-reduce runs depends on what was not "
		 "given: %s.",
		 !strcmp(first, "p2p_failed")
			 ? "the driver's peer status (nvidia-smi topo -p2p r)"
		 : !strcmp(first, "pcie_more_than_two")
			 ? "the links between the GPUs (nvidia-smi topo -m)"
			 : "symmetric memory's state, which sets the limit");
	for (size_t i = 0; i < sizeof(open) / sizeof(*open); i++)
		if (!strcmp(open[i].rule, first)) {
			GATE_SAY(gate->if_yes, "%s", open[i].if_yes);
			GATE_SAY(gate->if_no, "%s", open[i].if_no);
		}
}

static void say_assumed(const struct vllm_case *at)
{
	const struct gate_question *question = at->question;
	struct gate *gate = at->gate;

	if (!question->visible_devices)
		gate_assume(gate, "every GPU is visible: CUDA_VISIBLE_DEVICES "
				  "was not given");
	for (int i = 0; i < gate->step_count; i++) {
		const struct gate_step *step = &gate->steps[i];

		if (strcmp(step->origin, "assumed") != 0)
			continue;
		if (!strcmp(step->id, "extension_missing") ||
		    !strcmp(step->id, "spans_nodes"))
			gate_assume(gate, "%s", step->evidence);
		if (!strcmp(step->id, "p2p_failed"))
			gate_assume(gate, "NVLink implies peer access");
	}
	if (!question->bytes)
		gate_assume(gate, "messages of decode size");
}

void vllm_ask_custom(const struct vllm_case *at)
{
	struct gate *gate = at->gate;
	struct limits limits;

	vllm_chain(at, rules, sizeof(rules) / sizeof(*rules));
	say_assumed(at);
	say_overrides(at);
	if (gate->verdict == GATE_DISABLED)
		say_closed(at);
	else if (gate->verdict == GATE_DEPENDS)
		say_open(gate);
	else {
		limits = max_bytes(at);
		GATE_SAY(gate->summary,
			 "vLLM's own all-reduce takes messages below %llu "
			 "bytes; larger ones go to the next path.",
			 (unsigned long long)limits.low);
	}
}
