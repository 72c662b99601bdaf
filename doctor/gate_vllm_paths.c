/* SPDX-License-Identifier: MIT */
/*
 * vLLM's other paths of an all-reduce: symmetric memory (torch's and NCCL's),
 * FlashInfer's kernels, the compiler's fusion with RMSNorm. All but the one for
 * PCIe need NVLink, most of them a switch with multicast, and all look up the
 * GPU's capability and the number of ranks in a table of sizes.
 */
#include "doctor/gate_vllm.h"

#include <stdio.h>
#include <string.h>

#define MIB(n) ((uint64_t)(n) << 20)
#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define LINKS_OF_A_GPU 18 /* NVLinks that one GPU has at most, since 9.0 */

/* The largest message, of symm_mem.py. */
static const struct vllm_size_row symm_mem_sizes[] = {
	{90,
	 VLLM_HAS_SYMM_MEM,
	 {{2, MIB(64)}, {4, MIB(32)}, {6, MIB(64)}, {8, MIB(64)}}},
	{100,
	 VLLM_HAS_SYMM_MEM,
	 {{2, MIB(8)}, {4, MIB(32)}, {6, MIB(128)}, {8, MIB(128)}}},
	{103,
	 VLLM_CAPABILITY_103,
	 {{2, MIB(4)}, {4, MIB(32)}, {6, MIB(32)}, {8, MIB(64)}}},
};

/* Of FlashInfer's all-reduce and the fusion. */
static const struct vllm_size_row flashinfer_sizes[] = {
	{90, VLLM_HAS_FUSION, {{2, MIB(64)}, {4, MIB(2)}, {8, MIB(1) / 2}}},
	{100,
	 VLLM_HAS_FUSION,
	 {{2, MIB(64)}, {4, MIB(32)}, {8, MIB(1)}, {16, MIB(64)}}},
	{103,
	 VLLM_CAPABILITY_103,
	 {{2, MIB(64)}, {4, MIB(64)}, {8, MIB(2)}, {16, MIB(64)}}},
	{107, VLLM_BACKEND_LIST, {{2, MIB(64)}, {4, MIB(64)}, {8, MIB(2)}}},
};

static void say_release(const struct vllm_case *at, enum vllm_since since,
			struct gate_said *said)
{
	bool exact;
	const char *release = vllm_release(since, &exact);

	said->answer = vllm_has(at->gate, since) ? GATE_YES : GATE_NO;
	GATE_SAY(said->evidence, "this is %.40s, and it came with %s%s",
		 at->gate->version.known ? at->gate->version.text
					 : "the newest version",
		 release, exact ? "" : " (an estimate)");
	GATE_SAY(said->origin, "version");
}

static void ask_single(const struct vllm_case *at, struct gate_said *said)
{
	said->answer = at->question->tp > 1 ? GATE_YES : GATE_NO;
	GATE_SAY(said->evidence, "%d rank%s", at->question->tp,
		 at->question->tp == 1 ? "" : "s");
	GATE_SAY(said->origin, "tensor-parallel size");
}

static void say_capability(const struct vllm_case *at,
			   const struct vllm_size_row *rows, size_t count,
			   struct gate_said *said)
{
	int capability = gate_capability(at->question, said->origin);
	bool listed = vllm_has_capability(at->gate, rows, count, capability);

	said->answer = !capability ? GATE_UNKNOWN : listed ? GATE_YES : GATE_NO;
	if (capability)
		GATE_SAY(said->evidence, "capability %d.%d is %s the table",
			 capability / 10, capability % 10,
			 listed ? "in" : "not in");
	else
		GATE_SAY(said->evidence, "the GPUs' model was not given");
}

/* By the capability's row; by any where that is not known. One that has no row
 * was refused before, and the first row stands in for it. */
static void say_world_size(const struct vllm_case *at,
			   const struct vllm_size_row *rows, size_t count,
			   struct gate_said *said)
{
	char origin[96];
	int capability = gate_capability(at->question, origin);
	bool listed = false;

	if (capability &&
	    !vllm_has_capability(at->gate, rows, count, capability))
		capability = rows[0].capability;
	for (size_t i = 0; i < count && !listed; i++)
		if (!capability || rows[i].capability == capability)
			listed = vllm_size(at->gate, rows, count,
					   rows[i].capability,
					   at->question->tp) > 0;
	said->answer = listed ? GATE_YES : GATE_NO;
	GATE_SAY(said->evidence, "%d %s %s the table", at->question->tp,
		 at->question->tp == 1 ? "rank is" : "ranks are",
		 listed ? "in" : "not in");
	GATE_SAY(said->origin, "tensor-parallel size");
}

/* At most, as the tables of sizes have it. */
static void say_size(const struct vllm_case *at,
		     const struct vllm_size_row *rows, size_t count,
		     struct gate_said *said)
{
	uint64_t bytes = at->question->bytes;
	int capability = gate_capability(at->question, said->origin);
	uint64_t limit =
		vllm_size(at->gate, rows, count, capability, at->question->tp);

	if (!bytes || !limit) {
		gate_said_assumed(said, GATE_YES, "");
		if (limit)
			GATE_SAY(said->evidence,
				 "decode messages are; the limit is %llu bytes",
				 (unsigned long long)limit);
		else
			GATE_SAY(said->evidence, "decode messages are");
		return;
	}
	said->answer = bytes <= limit ? GATE_YES : GATE_NO;
	GATE_SAY(said->evidence, "%llu bytes, limit %llu",
		 (unsigned long long)bytes, (unsigned long long)limit);
	GATE_SAY(said->origin, "message size");
}

/* A switch between the GPUs: more links to them all than one GPU has, so that
 * the same ones are counted for each. */
static void say_nvswitch(const struct vllm_case *at, struct gate_said *said)
{
	const struct gate_question *question = at->question;
	const struct oh__machine *machine = question->machine;
	int first = gate_gpu(question, 0);
	uint64_t links = 0;

	gate_pairs_nvlink(question, said);
	if (said->answer != GATE_YES || first < 0)
		return;
	for (int i = 0; i < machine->gpus; i++)
		if (machine->link[first][i].kind == OH__LINK_NV)
			links += machine->link[first][i].nvlinks;
	said->answer = links > LINKS_OF_A_GPU ? GATE_YES : GATE_UNKNOWN;
	GATE_SAY(said->evidence,
		 said->answer == GATE_YES
			 ? "NVLink between all pairs, through a switch: %llu "
			   "links by pairs, more than a GPU has"
			 : "NVLink between all pairs; %llu links may be "
			   "bridges or a switch",
		 (unsigned long long)links);
}

static void ask_contiguous(const struct vllm_case *at, struct gate_said *said)
{
	(void)at;
	gate_said_assumed(said, GATE_YES,
			  "the output of a row-parallel layer is contiguous");
}

/* torch's symmetric memory */

static void symm_mem_release(const struct vllm_case *at, struct gate_said *said)
{
	say_release(at, VLLM_HAS_SYMM_MEM, said);
}

static void symm_mem_switch(const struct vllm_case *at, struct gate_said *said)
{
	vllm_switch(at, "VLLM_ALLREDUCE_USE_SYMM_MEM",
		    vllm_has(at->gate, VLLM_SYMM_MEM_DEFAULT), said);
}

/* The log's word on a condition that says "no" with this state and "yes" with
 * those that come behind it. */
static bool symm_mem_logged(const struct vllm_case *at, enum log_symm_mem no,
			    struct gate_said *said)
{
	static const int order[] = {
		[LOG_SYMM_CAPABILITY] = 1, [LOG_SYMM_WORLD_SIZE] = 2,
		[LOG_SYMM_FAILED] = 3,	   [LOG_SYMM_NO_MULTICAST] = 4,
		[LOG_SYMM_ENABLED] = 5,
	};
	const struct log_facts *log = vllm_log(at);

	if (!log || order[log->symm_mem] < order[no])
		return false;
	gate_said_logged(said, log->symm_mem == no ? GATE_NO : GATE_YES, log,
			 log->line.symm_mem, "the log says so");
	if (log->symm_mem == LOG_SYMM_CAPABILITY && *log->symm_mem_capability)
		GATE_SAY(said->evidence,
			 "the log says so: capability %s is not in the table",
			 log->symm_mem_capability);
	return true;
}

static void symm_mem_capability(const struct vllm_case *at,
				struct gate_said *said)
{
	if (!symm_mem_logged(at, LOG_SYMM_CAPABILITY, said))
		say_capability(at, symm_mem_sizes, COUNT(symm_mem_sizes), said);
}

static void symm_mem_world_size(const struct vllm_case *at,
				struct gate_said *said)
{
	if (!symm_mem_logged(at, LOG_SYMM_WORLD_SIZE, said))
		say_world_size(at, symm_mem_sizes, COUNT(symm_mem_sizes), said);
}

static void symm_mem_multicast(const struct vllm_case *at,
			       struct gate_said *said)
{
	if (!symm_mem_logged(at, LOG_SYMM_NO_MULTICAST, said))
		say_nvswitch(at, said);
}

static void symm_mem_dtype(const struct vllm_case *at, struct gate_said *said)
{
	(void)at;
	gate_said_assumed(said, GATE_YES, "models are served in bf16");
}

static void symm_mem_size(const struct vllm_case *at, struct gate_said *said)
{
	say_size(at, symm_mem_sizes, COUNT(symm_mem_sizes), said);
}

#define SYMM_MEM "vLLM symm_mem.py"
static const struct vllm_rule symm_mem_rules[] = {
	{"not_in_version", "Does this version have the path?", VLLM_ALWAYS,
	 VLLM_NEVER, symm_mem_release, SYMM_MEM},
	{"switched_off", "Is it switched on?", VLLM_HAS_SYMM_MEM, VLLM_NEVER,
	 symm_mem_switch, SYMM_MEM},
	{"single_rank", "Is there more than one rank?", VLLM_ALWAYS, VLLM_NEVER,
	 ask_single, SYMM_MEM},
	{"capability_unsupported", "Is the GPUs' capability 9.0, 10.0 or 10.3?",
	 VLLM_ALWAYS, VLLM_NEVER, symm_mem_capability, SYMM_MEM},
	{"world_size_unsupported", "Is the number of ranks in its table?",
	 VLLM_ALWAYS, VLLM_NEVER, symm_mem_world_size, SYMM_MEM},
	{"no_multicast", "Is there an NVLink switch with multicast?",
	 VLLM_ALWAYS, VLLM_NEVER, symm_mem_multicast, SYMM_MEM},
	{"dtype_unsupported", "In each call: is it bf16?", VLLM_ALWAYS,
	 VLLM_NEVER, symm_mem_dtype, SYMM_MEM},
	{"too_large", "In each call: is it no larger than the limit?",
	 VLLM_ALWAYS, VLLM_NEVER, symm_mem_size, SYMM_MEM},
};

static void symm_mem_line(struct gate *gate, int capability)
{
	if (!gate->rule)
		return;
	if (!strcmp(gate->rule, "capability_unsupported") && capability)
		GATE_SAY(gate->log_line,
			 "SymmMemCommunicator: Device capability %d.%d not "
			 "supported, communicator is not available.",
			 capability / 10, capability % 10);
	if (!strcmp(gate->rule, "world_size_unsupported"))
		GATE_SAY(gate->log_line,
			 "SymmMemCommunicator: World size %d not supported, "
			 "communicator is not available.",
			 gate->tp);
	if (!strcmp(gate->rule, "no_multicast"))
		GATE_SAY(gate->log_line,
			 "SymmMemCommunicator: symmetric memory multicast "
			 "operations are not supported.");
}

/* "X is out: <rule's question>" for every path of this file. */
static void say_summary(struct gate *gate, const char *path)
{
	const struct gate_step *step = NULL;

	for (int i = 0; i < gate->step_count && !step; i++)
		if (gate->steps[i].decides ||
		    (gate->verdict == GATE_DEPENDS &&
		     gate->steps[i].answer == GATE_UNKNOWN))
			step = &gate->steps[i];
	if (gate->verdict == GATE_ENABLED) {
		GATE_SAY(gate->summary, "%s is in use.", path);
		return;
	}
	if (!step)
		return;
	GATE_SAY(gate->summary, "%s %s: %.130s.", path,
		 gate->verdict == GATE_DISABLED ? "is out" : "depends",
		 step->evidence);
	if (gate->verdict == GATE_DISABLED)
		return;
	GATE_SAY(gate->if_yes, "%s takes the messages that it accepts", path);
	GATE_SAY(gate->if_no, "it is out by rule %s", step->id);
}

void vllm_ask_symm_mem(const struct vllm_case *at)
{
	char origin[96];

	vllm_chain(at, symm_mem_rules, COUNT(symm_mem_rules));
	symm_mem_line(at->gate, gate_capability(at->question, origin));
	say_summary(at->gate, "torch's symmetric memory");
}

/* The compiler's fusion with RMSNorm */

static void fusion_release(const struct vllm_case *at, struct gate_said *said)
{
	say_release(at, VLLM_HAS_FUSION, said);
}

static void fusion_compiled(const struct vllm_case *at, struct gate_said *said)
{
	const struct log_facts *log = vllm_log(at);

	if (vllm_batch_invariant(at, said))
		return;
	if (log && log->enforce_eager != LOG_NOT_SAID)
		gate_said_logged(
			said,
			log->enforce_eager == LOG_YES ? GATE_NO : GATE_YES, log,
			0, "enforce_eager=%s",
			log->enforce_eager == LOG_YES ? "True" : "False");
	else
		gate_said_assumed(said, GATE_YES,
				  "models are compiled unless --enforce-eager "
				  "is given");
}

static void fusion_capability(const struct vllm_case *at,
			      struct gate_said *said)
{
	say_capability(at, flashinfer_sizes, COUNT(flashinfer_sizes), said);
}

static void flashinfer_library(const struct vllm_case *at,
			       struct gate_said *said)
{
	(void)at;
	gate_said_assumed(said, GATE_YES, "FlashInfer is installed");
}

static void fusion_world_size(const struct vllm_case *at,
			      struct gate_said *said)
{
	say_world_size(at, flashinfer_sizes, COUNT(flashinfer_sizes), said);
}

static void fusion_switch(const struct vllm_case *at, struct gate_said *said)
{
	const struct log_facts *log = vllm_log(at);

	if (log && log->rms_fusion != LOG_NOT_SAID) {
		gate_said_logged(
			said, log->rms_fusion == LOG_YES ? GATE_YES : GATE_NO,
			log, log->line.rms_fusion, "fuse_allreduce_rms: %s",
			log->rms_fusion == LOG_YES ? "True" : "False");
		return;
	}
	if (vllm_has(at->gate, VLLM_FUSION_DEFAULT))
		gate_said_assumed(said, GATE_YES,
				  "on by the default optimisation level");
	else
		gate_said_assumed(said, GATE_NO,
				  "off unless switched on in this version");
}

static void fusion_size(const struct vllm_case *at, struct gate_said *said)
{
	say_size(at, flashinfer_sizes, COUNT(flashinfer_sizes), said);
}

#define FUSION "vLLM compilation/collective_fusion.py, pass_config"
static const struct vllm_rule fusion_rules[] = {
	{"not_in_version", "Does this version have the fusion?", VLLM_ALWAYS,
	 VLLM_NEVER, fusion_release, FUSION},
	{"single_rank", "Is there more than one rank?", VLLM_ALWAYS, VLLM_NEVER,
	 ask_single, FUSION},
	{"not_compiled", "Is the model compiled?", VLLM_ALWAYS, VLLM_NEVER,
	 fusion_compiled, FUSION},
	{"capability_unsupported", "Is the GPUs' capability 9.0 or 10.x?",
	 VLLM_ALWAYS, VLLM_NEVER, fusion_capability, FUSION},
	{"flashinfer_missing", "Is FlashInfer installed?", VLLM_ALWAYS,
	 VLLM_NEVER, flashinfer_library, FUSION},
	{"switched_off", "Is fuse_allreduce_rms on?", VLLM_HAS_FUSION,
	 VLLM_NEVER, fusion_switch, FUSION},
	{"world_size_unsupported", "Is the number of ranks in its table?",
	 VLLM_ALWAYS, VLLM_NEVER, fusion_world_size, FUSION},
	{"no_multicast", "Is there an NVLink switch?", VLLM_ALWAYS, VLLM_NEVER,
	 say_nvswitch, FUSION},
	{"too_large", "In each call: is it no larger than the limit?",
	 VLLM_ALWAYS, VLLM_NEVER, fusion_size, FUSION},
};

void vllm_ask_rms_fusion(const struct vllm_case *at)
{
	struct gate *gate = at->gate;

	vllm_chain(at, fusion_rules, COUNT(fusion_rules));
	if (gate->rule && !strcmp(gate->rule, "world_size_unsupported"))
		GATE_SAY(gate->log_line,
			 "Flashinfer allreduce fusion is not supported for "
			 "world size %d or max size is not provided",
			 gate->tp);
	say_summary(gate, "the fusion of all-reduce and RMSNorm");
}

/* FlashInfer's all-reduce on its own */

static void flashinfer_release(const struct vllm_case *at,
			       struct gate_said *said)
{
	say_release(at, VLLM_HAS_FLASHINFER, said);
}

static void flashinfer_switch(const struct vllm_case *at,
			      struct gate_said *said)
{
	vllm_switch(at, "VLLM_ALLREDUCE_USE_FLASHINFER",
		    vllm_has(at->gate, VLLM_FLASHINFER_DEFAULT), said);
}

#define FLASHINFER "vLLM flashinfer_all_reduce.py"
static const struct vllm_rule flashinfer_rules[] = {
	{"not_in_version", "Does this version have the path?", VLLM_ALWAYS,
	 VLLM_NEVER, flashinfer_release, FLASHINFER},
	{"switched_off", "Is it switched on?", VLLM_HAS_FLASHINFER, VLLM_NEVER,
	 flashinfer_switch, FLASHINFER},
	{"single_rank", "Is there more than one rank?", VLLM_ALWAYS, VLLM_NEVER,
	 ask_single, FLASHINFER},
	{"flashinfer_missing", "Is FlashInfer installed?", VLLM_ALWAYS,
	 VLLM_NEVER, flashinfer_library, FLASHINFER},
	{"capability_unsupported", "Is the GPUs' capability 9.0 or 10.x?",
	 VLLM_ALWAYS, VLLM_NEVER, fusion_capability, FLASHINFER},
	{"world_size_unsupported", "Is the number of ranks in its table?",
	 VLLM_ALWAYS, VLLM_NEVER, fusion_world_size, FLASHINFER},
	{"no_multicast", "Is there an NVLink switch?", VLLM_ALWAYS, VLLM_NEVER,
	 say_nvswitch, FLASHINFER},
	{"not_contiguous", "In each call: is the tensor contiguous?",
	 VLLM_ALWAYS, VLLM_NEVER, ask_contiguous, FLASHINFER},
	{"too_large", "In each call: is it no larger than the limit?",
	 VLLM_ALWAYS, VLLM_NEVER, fusion_size, FLASHINFER},
};

void vllm_ask_flashinfer(const struct vllm_case *at)
{
	struct gate *gate = at->gate;
	const char *rule;

	vllm_chain(at, flashinfer_rules, COUNT(flashinfer_rules));
	rule = gate->rule ? gate->rule : "";
	/* the line names the world size where it is the capability, too */
	if (!strcmp(rule, "world_size_unsupported") ||
	    !strcmp(rule, "capability_unsupported"))
		GATE_SAY(gate->log_line,
			 "FlashInfer All Reduce is disabled because it is not "
			 "supported for world_size=%d.",
			 gate->tp);
	say_summary(gate, "FlashInfer's all-reduce");
}

/* NCCL's symmetric memory */

static void nccl_symm_release(const struct vllm_case *at,
			      struct gate_said *said)
{
	say_release(at, VLLM_HAS_NCCL_SYMM, said);
}

static void nccl_symm_switch(const struct vllm_case *at, struct gate_said *said)
{
	vllm_switch(at, "VLLM_USE_NCCL_SYMM_MEM", false, said);
}

static void nccl_symm_ranks(const struct vllm_case *at, struct gate_said *said)
{
	ask_single(at, said);
	said->answer = at->question->tp >= 4 ? GATE_YES : GATE_NO;
}

static void nccl_symm_nvlink(const struct vllm_case *at, struct gate_said *said)
{
	gate_pairs_nvlink(at->question, said);
}

/* Newer versions leave out the middle, older ones everything below the large;
 * the release of the change is not known. */
static void nccl_symm_size(const struct vllm_case *at, struct gate_said *said)
{
	int tp = at->question->tp;
	uint64_t bytes = at->question->bytes;
	uint64_t top = tp == 4 ? 512 << 10 : 128 << 10;
	uint64_t large = tp == 4 ? MIB(2) : MIB(1);
	bool newer = tp > 8 || ((tp == 4 || tp == 8) &&
				(bytes <= 16 << 10 || bytes >= top));
	bool older = (tp == 4 || tp == 8) && bytes >= large;

	if (!bytes) {
		GATE_SAY(said->evidence, "the message's size was not given");
		GATE_SAY(said->origin, "unknown");
		return; /* as unknown */
	}
	GATE_SAY(said->origin, "message size");
	said->answer = newer != older ? GATE_UNKNOWN
		       : newer	      ? GATE_YES
				      : GATE_NO;
	GATE_SAY(said->evidence,
		 "%llu bytes; newer versions leave out 16 KiB to %llu KiB, "
		 "older ones all below %llu KiB",
		 (unsigned long long)bytes, (unsigned long long)top >> 10,
		 (unsigned long long)large >> 10);
}

#define NCCL_SYMM "vLLM pynccl.py, all_reduce_utils.py"
static const struct vllm_rule nccl_symm_rules[] = {
	{"not_in_version", "Does this version have the path?", VLLM_ALWAYS,
	 VLLM_NEVER, nccl_symm_release, NCCL_SYMM},
	{"switched_off", "Is it switched on?", VLLM_HAS_NCCL_SYMM, VLLM_NEVER,
	 nccl_symm_switch, NCCL_SYMM},
	{"world_size_unsupported", "Are there four ranks or more?", VLLM_ALWAYS,
	 VLLM_NEVER, nccl_symm_ranks, NCCL_SYMM},
	{"no_nvlink", "Is there NVLink between every pair?", VLLM_ALWAYS,
	 VLLM_NEVER, nccl_symm_nvlink, NCCL_SYMM},
	{"size_in_the_middle", "In each call: is it of a size that it takes?",
	 VLLM_ALWAYS, VLLM_NEVER, nccl_symm_size, NCCL_SYMM},
};

void vllm_ask_nccl_symm_mem(const struct vllm_case *at)
{
	vllm_chain(at, nccl_symm_rules, COUNT(nccl_symm_rules));
	say_summary(at->gate, "NCCL's symmetric memory");
}

/* FlashInfer's all-reduce over PCIe */

static void pcie_release(const struct vllm_case *at, struct gate_said *said)
{
	say_release(at, VLLM_HAS_PCIE_IPC, said);
}

static void pcie_switch(const struct vllm_case *at, struct gate_said *said)
{
	vllm_switch(at, "VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC", false, said);
}

static void pcie_library(const struct vllm_case *at, struct gate_said *said)
{
	(void)at;
	said->answer = GATE_UNKNOWN;
	GATE_SAY(said->evidence, "which FlashInfer build it is was not given");
	GATE_SAY(said->origin, "unknown");
}

static void pcie_ranks(const struct vllm_case *at, struct gate_said *said)
{
	int tp = at->question->tp;

	ask_single(at, said);
	said->answer = tp == 2 || tp == 4 || tp == 8 ? GATE_YES : GATE_NO;
}

static void pcie_peer(const struct vllm_case *at, struct gate_said *said)
{
	gate_pairs_peer(at->question, said);
}

#define PCIE_IPC "vLLM flashinfer PCIe IPC all-reduce, pull request 53576"
static const struct vllm_rule pcie_rules[] = {
	{"not_in_version", "Does this version have the path (0.30)?",
	 VLLM_ALWAYS, VLLM_NEVER, pcie_release, PCIE_IPC},
	{"switched_off", "Is it switched on?", VLLM_HAS_PCIE_IPC, VLLM_NEVER,
	 pcie_switch, PCIE_IPC},
	{"flashinfer_missing",
	 "Does the FlashInfer build have PcieIpcAllReduceWorkspace?",
	 VLLM_ALWAYS, VLLM_NEVER, pcie_library, PCIE_IPC},
	{"world_size_unsupported", "Is the number of ranks 2, 4 or 8?",
	 VLLM_ALWAYS, VLLM_NEVER, pcie_ranks, PCIE_IPC},
	{"p2p_failed", "Can every rank reach every other's memory?",
	 VLLM_ALWAYS, VLLM_NEVER, pcie_peer, PCIE_IPC},
	{"not_captured", "Are steps captured in CUDA graphs?", VLLM_ALWAYS,
	 VLLM_NEVER, fusion_compiled, PCIE_IPC},
	{"not_contiguous", "In each call: is the tensor contiguous?",
	 VLLM_ALWAYS, VLLM_NEVER, ask_contiguous, PCIE_IPC},
};

void vllm_ask_pcie_ipc(const struct vllm_case *at)
{
	vllm_chain(at, pcie_rules, COUNT(pcie_rules));
	say_summary(at->gate, "FlashInfer's all-reduce over PCIe");
}
