/* SPDX-License-Identifier: MIT */
/*
 * The engines' rules, on machines that are built here: each verdict with the
 * rule that decides, the steps that were never reached, and what is not known.
 */
#include <stdlib.h>
#include <string.h>

#include "gate_asker.h"

static bool overrides(const struct gate *gate, const char *what)
{
	for (int i = 0; i < gate->override_count; i++)
		if (strstr(gate->overrides[i].what, what))
			return true;
	return false;
}

/* The chain's rules: what an answer makes of the verdict. */
static void try_frame(void)
{
	static const struct {
		const char *answers; /* y, n, u of steps "a", "b", "c" */
		enum gate_verdict verdict;
		const char *rule;
		int reached; /* steps */
	} chains[] = {
		{"", GATE_ENABLED, NULL, 0},
		{"yyy", GATE_ENABLED, NULL, 3},
		{"nyy", GATE_DISABLED, "a", 1},
		{"yny", GATE_DISABLED, "b", 2},
		{"ynn", GATE_DISABLED, "b", 2},
		{"ynu", GATE_DISABLED, "b", 2},
		{"uyy", GATE_DEPENDS, NULL, 3},
		/* disabled either way, but not known by which */
		{"uny", GATE_DISABLED, NULL, 2},
		{"yun", GATE_DISABLED, NULL, 3},
		{"uuu", GATE_DEPENDS, NULL, 3},
	};
	static const char *const ids[] = {"a", "b", "c"};

	for (size_t i = 0; i < sizeof(chains) / sizeof(*chains); i++) {
		struct gate *gate = &gates[0];
		int reached = 0, decides = 0;

		memset(gate, 0, sizeof(*gate));
		for (int k = 0; chains[i].answers[k]; k++) {
			char answer = chains[i].answers[k];

			gate_add(gate, ids[k],
				 answer == 'y'	 ? GATE_YES
				 : answer == 'n' ? GATE_NO
						 : GATE_UNKNOWN,
				 "");
		}
		gate_decide(gate);
		for (int k = 0; k < gate->step_count; k++) {
			reached += gate->steps[k].reached;
			decides += gate->steps[k].decides;
		}
		tap_ok(gate->verdict == chains[i].verdict &&
			       same_rule(gate->rule, chains[i].rule) &&
			       reached == chains[i].reached &&
			       decides == (gate->verdict == GATE_DISABLED),
		       "a chain \"%s\" is %s", chains[i].answers,
		       gate_verdict_name(chains[i].verdict));
	}
	memset(&gates[0], 0, sizeof(gates[0]));
	for (int i = 0; i < GATE_STEPS + 3; i++)
		gate_add(&gates[0], "a", GATE_YES, "");
	tap_ok(gates[0].step_count == GATE_STEPS,
	       "a chain that is too long stays inside its array");
	tap_ok(gate_engine_named("vllm") && gate_engine_named("nccl") &&
		       !gate_engine_named("Vllm") && !gate_engine_named(""),
	       "engines go by their names");
}

/* Eight cards of two sockets, as the case that this project starts from. */
static void begin_eight(void)
{
	begin(8, "NVIDIA RTX PRO 6000 Blackwell Workstation Edition");
	link_all(OH__LINK_SYS, 0);
	for (int i = 0; i < 8; i++)
		for (int k = i + 1; k < 8; k++)
			if (i / 4 == k / 4)
				link_pair(i, k, OH__LINK_NODE, 0);
	set_cpu("AMD EPYC 9335 32-Core Processor");
	peers_all(OH__PEER_NVLINK, OH__PEER_NS);
	peers_all(OH__PEER_READ, OH__PEER_OK);
	set_version("0.16.0rc2.dev313+g662205d34");
	question.bytes = 12288;
}

static void try_eight(void)
{
	const struct gate *gate;
	const struct gate_step *peer, *nvlink;

	begin_eight();
	log_disabled("pcie_more_than_two");
	gate = expect_custom(GATE_DISABLED, "pcie_more_than_two",
			     "eight PCIe cards");
	nvlink = step_of(gate, "pcie_more_than_two");
	peer = step_of(gate, "p2p_failed");
	tap_ok(nvlink->decides && nvlink->reached &&
		       strstr(nvlink->evidence, "28 of 28 pairs") &&
		       strstr(nvlink->evidence, "the log says so") &&
		       !strcmp(nvlink->origin, "report.txt:30, vllm.log:6"),
	       "with both evidences: %s (%s)", nvlink->evidence,
	       nvlink->origin);
	tap_ok(!peer->reached && peer->answer == GATE_YES &&
		       strstr(peer->evidence, "OK for all 28 pairs"),
	       "peer access was not reached, and would have passed");
	tap_ok(!strcmp(gate->log_line,
		       "Custom allreduce is disabled because it's not "
		       "supported on more than two PCIe-only GPUs. To silence "
		       "this warning, specify disable_custom_all_reduce=True "
		       "explicitly."),
	       "the line that vLLM prints");
	tap_ok(gate->override_count == 2 && !gate->version_estimated,
	       "two overrides: 0.16 has no kernel for PCIe");
	tap_ok(!gate->version_assumed && gate->tp == 8, "0.16, eight ranks");
	expect("symm_mem", GATE_DISABLED, "capability_unsupported",
	       "symmetric memory on 12.0");
	tap_ok(!strcmp(ask("symm_mem")->log_line,
		       "SymmMemCommunicator: Device capability 12.0 not "
		       "supported, communicator is not available."),
	       "the line that it prints");
	expect("allreduce_rms_fusion", GATE_DISABLED, "capability_unsupported",
	       "the fusion on 12.0");
	expect("dispatch", GATE_ENABLED, "PYNCCL", "so that NCCL takes it");
	expect_transport("SHM", "AMD, eight GPUs, NODE and SYS");
	tap_ok(ask("transport")->pair_count == 28, "28 pairs");
	expect("transport", GATE_DISABLED, "level_allows", "by the level");
}

/* Machines of the field, without versions: verdict and rule. */
static void try_machines(void)
{
	const struct gate_step *single, *nvlink;
	const struct gate *gate;

	begin(2, "NVIDIA A10");
	link_all(OH__LINK_PHB, 0);
	peers_all(OH__PEER_READ, OH__PEER_CNS);
	expect_custom(GATE_DISABLED, "p2p_failed", "two that refuse reads");
	expect_transport("SHM", "they");

	begin(2, "NVIDIA GeForce RTX 5090");
	link_all(OH__LINK_PHB, 0);
	peers_all(OH__PEER_READ, OH__PEER_GNS);
	peers_all(OH__PEER_WRITE, OH__PEER_GNS);
	expect_custom(GATE_DISABLED, "p2p_failed", "two GeForce cards");
	expect_transport("SHM", "they");

	begin(8, "NVIDIA GeForce RTX 4090");
	link_all(OH__LINK_SYS, 0);
	expect_custom(GATE_DISABLED, "pcie_more_than_two", "eight, all SYS");
	expect_transport("SHM", "they, whatever the processor is");

	begin(8, "NVIDIA H100 80GB HBM3");
	link_all(OH__LINK_NV, 18);
	expect_custom(GATE_ENABLED, NULL, "eight with NVSwitch");
	expect_transport("P2P", "they");
	expect("symm_mem", GATE_ENABLED, NULL, "their symmetric memory");
	tap_ok(ask("custom_all_reduce")->assumed_count >= 4,
	       "and says what is assumed");

	begin(3, "NVIDIA RTX PRO 6000 Blackwell Workstation Edition");
	link_all(OH__LINK_PHB, 0);
	expect_custom(GATE_DISABLED, "world_size_unsupported", "three");
	set_version("0.16");
	tap_ok(strstr(ask("custom_all_reduce")->log_line,
		      "world size: 3. Supported world sizes: [2, 4, 6, 8]. "),
	       "with the list of 0.16");
	set_version("0.28");
	tap_ok(strstr(ask("custom_all_reduce")->log_line,
		      "Supported world sizes: [2, 4, 6, 8, 16]. "),
	       "and that of 0.28");

	begin(4, "NVIDIA GeForce RTX 3090");
	link_all(OH__LINK_NODE, 0);
	link_pair(0, 1, OH__LINK_NV, 4);
	link_pair(2, 3, OH__LINK_NV, 4);
	expect_custom(GATE_DISABLED, "pcie_more_than_two", "bridged pairs");
	expect_transport("mixed", "they");
	/* of 0-1, 1-2, 2-3, 3-0 two are bridged */
	tap_ok(strstr(ask("transport")->summary, "2 of its 4 hops"), "%s",
	       ask("transport")->summary);
	question.tp = 2;
	expect_custom(GATE_ENABLED, NULL, "one bridged pair");
	question.gpus[1] = 2;
	expect_custom(GATE_DEPENDS, NULL, "two of different bridges");

	begin(2, "NVIDIA GeForce RTX 3090");
	link_all(OH__LINK_PHB, 0);
	peers_all(OH__PEER_READ, OH__PEER_OK);
	peers_all(OH__PEER_WRITE, OH__PEER_OK);
	expect_custom(GATE_ENABLED, NULL, "two of which the driver says OK");

	begin(16, "Tesla V100-SXM3-32GB");
	link_all(OH__LINK_NV, 6);
	expect_custom(GATE_DISABLED, "world_size_unsupported", "sixteen");

	begin(1, "NVIDIA A10");
	gate = expect_custom(GATE_DISABLED, "single_rank", "one");
	single = step_of(gate, "single_rank");
	nvlink = step_of(gate, "pcie_more_than_two");
	tap_ok(single && !strcmp(single->evidence, "1 rank") && nvlink &&
		       strstr(nvlink->evidence, "one rank needs no NVLink"),
	       "and speaks of one");
	expect("dispatch", GATE_DISABLED, "single_rank", "one");
	expect("transport", GATE_DISABLED, "single_rank", "one");
}

static void try_unknown(void)
{
	const struct gate *gate;

	begin(2, "NVIDIA GeForce RTX 5090");
	link_all(OH__LINK_SYS, 0);
	gate = expect_custom(GATE_DEPENDS, NULL, "peer status not given");
	tap_ok(strstr(gate->summary, "the driver's peer status") &&
		       *gate->if_yes && strstr(gate->if_no, "p2p_failed"),
	       "it says of what, and both outcomes");
	expect("dispatch", GATE_DEPENDS, NULL, "and with it the dispatch");
	expect_transport("depends", "two GPUs, SYS, processor not given");
	set_cpu("Intel(R) Xeon(R) Gold 6430");
	expect_transport("SHM", "on Intel it does not matter");
	set_cpu("AMD EPYC 7742 64-Core Processor");
	expect_transport("depends", "on AMD the driver decides");
	peers_all(OH__PEER_READ, OH__PEER_OK);
	expect_transport("P2P", "which says yes");
	peers_all(OH__PEER_WRITE, OH__PEER_NS);
	expect_transport("SHM", "or no to writes");
	expect_custom(GATE_DISABLED, "p2p_failed", "which vLLM asks too");

	/* the driver's "unknown" is no answer */
	peers_all(OH__PEER_READ, OH__PEER_U);
	peers_all(OH__PEER_WRITE, OH__PEER_U);
	expect_custom(GATE_DEPENDS, NULL, "the driver says U");

	begin(4, "NVIDIA L40S");
	expect_custom(GATE_DEPENDS, NULL, "no links given");
	expect_transport("depends", "no links given");
	link_pair(0, 1, OH__LINK_PIX, 0);
	expect_custom(GATE_DISABLED, "pcie_more_than_two",
		      "one known pair is enough for a no");
	machine.gpus = 0;
	expect_custom(GATE_DEPENDS, NULL, "no machine at all");
	expect_transport("depends", "no machine at all");

	/* a switch each for two GPUs: those pairs depend on the driver */
	begin(4, "NVIDIA L40S");
	link_all(OH__LINK_NODE, 0);
	link_pair(0, 1, OH__LINK_PIX, 0);
	link_pair(2, 3, OH__LINK_PIX, 0);
	expect_transport("depends", "pairs behind switches, no peer status");
	peers_all(OH__PEER_READ, OH__PEER_OK);
	expect_transport("mixed", "the driver says OK");
	peers_all(OH__PEER_READ, OH__PEER_CNS);
	expect_transport("SHM", "the driver refuses");

	begin(2, "NVIDIA H100 80GB HBM3");
	link_all(OH__LINK_NV, 12);
	machine.gpu[1].mig = (struct oh__number){from(7), 1};
	expect_custom(GATE_DISABLED, "p2p_failed", "a GPU in MIG mode");
	expect_transport("SHM", "a GPU in MIG mode");
}

static void try_log(void)
{
	begin(2, "NVIDIA GeForce RTX 4090");
	link_all(OH__LINK_PHB, 0);
	peers_all(OH__PEER_READ, OH__PEER_OK);
	log_disabled("p2p_failed");
	snprintf(facts.p2p_cache_action, sizeof(facts.p2p_cache_action),
		 "read");
	snprintf(facts.p2p_cache_file, sizeof(facts.p2p_cache_file),
		 "gpu_p2p_access_cache_for_0,1.json");
	facts.line.p2p_cache = 4;
	expect_custom(GATE_DISABLED, "p2p_failed",
		      "the log outranks the driver's word");
	tap_ok(strstr(step_of(&gates[0], "p2p_failed")->evidence,
		      "gpu_p2p_access_cache_for_0,1.json"),
	       "and names the cache file");

	begin(2, "NVIDIA RTX PRO 6000 Blackwell Workstation Edition");
	link_all(OH__LINK_PHB, 0);
	begin_log();
	facts.custom = LOG_CUSTOM_ENABLED;
	expect_custom(GATE_ENABLED, NULL, "the log says enabled");
	facts.tensor_parallel_size = 4;
	expect_custom(GATE_DEPENDS, NULL, "a log of four ranks says nothing");
	facts.tensor_parallel_size = 2;
	facts.engine = LOG_SGLANG;
	expect_custom(GATE_DEPENDS, NULL, "nor one of another engine");
	facts.engine = LOG_VLLM;
	version_parse("0.9.0", &facts.version);
	set_version("0.16");
	expect_custom(GATE_DEPENDS, NULL, "nor one of another version");
	set_version("0.9.0");
	expect_custom(GATE_ENABLED, NULL, "one of the same does");
	facts.disable_custom = LOG_YES;
	expect_custom(GATE_DISABLED, "disabled_by_flag", "switched off");

	begin(4, "NVIDIA L40S");
	log_disabled("pcie_more_than_two");
	expect_custom(GATE_DISABLED, "pcie_more_than_two",
		      "links are not known, the log says it");
	tap_ok(step_of(&gates[0], "world_size_unsupported")->answer == GATE_YES,
	       "what comes before was passed");
	log_disabled("extension_missing");
	expect_custom(GATE_DISABLED, "extension_missing", "no library");
	tap_ok(!strcmp(gates[0].log_line, "Custom allreduce is disabled "
					  "because of missing custom allreduce "
					  "library"),
	       "its line");
	memset(facts.file, 'd', sizeof(facts.file) - 1);
	memcpy(facts.file + sizeof(facts.file) - 8, "/a.log", 7);
	ask("custom_all_reduce");
	tap_ok(strstr(step_of(&gates[0], "extension_missing")->origin,
		      "ddd/a.log:6"),
	       "the end of a long path is kept");
	log_disabled("spans_nodes");
	expect_custom(GATE_DISABLED, "spans_nodes", "two hosts");

	/* NCCL's own lines tell what the driver was not asked */
	begin(2, "NVIDIA L40S");
	link_all(OH__LINK_PHB, 0);
	begin_log();
	facts.engine = LOG_NCCL;
	facts.transport = LOG_TRANSPORT_P2P;
	expect_custom(GATE_ENABLED, NULL, "NCCL uses P2P");
	expect_transport("P2P", "NCCL uses P2P");
	facts.transport = LOG_TRANSPORT_UNKNOWN;
	facts.p2p_refused = true;
	expect_custom(GATE_DISABLED, "p2p_failed", "CUDA refused NCCL");
}

static void try_calls(void)
{
	begin(2, "NVIDIA GeForce RTX 3090");
	link_all(OH__LINK_NV, 4);
	question.bytes = 8388607 / 16 * 16; /* the last multiple below */
	expect_custom(GATE_ENABLED, NULL, "just below the limit");
	question.bytes = 8388608;
	expect_custom(GATE_DISABLED, "too_large", "the limit itself");
	tap_ok(same_rule(ask("dispatch")->rule, "PYNCCL"), "goes to NCCL");
	tap_ok(strstr(ask("dispatch")->log_line, "Using ['CUSTOM', 'PYNCCL']"),
	       "though it is listed: %.60s", ask("dispatch")->log_line);
	question.bytes = 24;
	expect_custom(GATE_DISABLED, "size_not_multiple_of_16", "24 bytes");

	/* H100 with NVSwitch at eight ranks: 262144 while symmetric memory is
	 * in use, 8388608 without */
	begin(8, "NVIDIA H100 80GB HBM3");
	link_all(OH__LINK_NV, 18);
	question.bytes = 262144;
	set_version("0.16");
	expect_custom(GATE_DISABLED, "too_large", "the table's limit");
	expect("symm_mem", GATE_ENABLED, NULL, "symmetric memory has it");
	question.bytes = 64 << 20; /* at most: its own limit is taken in */
	expect("symm_mem", GATE_ENABLED, NULL, "up to 64 MiB");
	question.bytes++;
	expect("symm_mem", GATE_DISABLED, "too_large", "a byte more");
	question.bytes = 262128;
	expect_custom(GATE_ENABLED, NULL, "16 bytes less");
	question.bytes = 262144;
	set_variable("VLLM_ALLREDUCE_USE_SYMM_MEM", "0");
	expect_custom(GATE_ENABLED, NULL, "symmetric memory switched off");
	expect("symm_mem", GATE_DISABLED, "switched_off", "by its variable");
	machine.variable_count = 0;
	set_version("0.9.0");
	expect_custom(GATE_ENABLED, NULL, "0.9 has no such table");

	/* 18 links to one peer are all that a GPU has: bridges or a switch */
	begin(2, "NVIDIA H200 NVL");
	link_all(OH__LINK_NV, 18);
	expect("symm_mem", GATE_DEPENDS, NULL, "two with 18 links");
	expect_custom(GATE_ENABLED, NULL, "their own kernel");

	begin(4, "NVIDIA B200");
	link_all(OH__LINK_NV, 18);
	set_version("0.16");
	begin_log();
	facts.symm_mem = LOG_SYMM_NO_MULTICAST;
	question.bytes = 4 << 20;
	expect_custom(GATE_ENABLED, NULL, "B200, no multicast: 8 MiB");
	facts.symm_mem = LOG_SYMM_ENABLED;
	expect_custom(GATE_DISABLED, "too_large", "with it 2 MiB");
}

static void try_releases(void)
{
	const struct gate *gate;

	begin(2, "NVIDIA L40S");
	link_all(OH__LINK_PHB, 0);
	peers_all(OH__PEER_READ, OH__PEER_OK);
	peers_all(OH__PEER_WRITE, OH__PEER_OK);
	question.visible_uuids = true;
	question.visible_devices = "GPU-4d0c2e6c,GPU-1f";
	set_version("0.20");
	gate = expect_custom(GATE_DISABLED, "visible_devices_uuid",
			     "UUIDs in 0.20");
	tap_ok(!gate->version_estimated, "surely");
	set_version("0.25");
	gate = expect_custom(GATE_ENABLED, NULL, "UUIDs in 0.25");
	tap_ok(gate->version_estimated, "by an estimate");
	tap_ok(!step_of(gate, "visible_devices_uuid"),
	       "which has no such condition");
	question.visible_uuids = false;
	tap_ok(!ask("custom_all_reduce")->version_estimated,
	       "without UUIDs it does not matter");
	question.visible_uuids = true;
	question.version.known = false;
	gate = expect_custom(GATE_ENABLED, NULL, "UUIDs in the newest");
	tap_ok(gate->version_assumed && !gate->version_estimated,
	       "the version is assumed");

	question.visible_uuids = false;
	set_version("0.6.6.post1");
	gate = expect_custom(GATE_ENABLED, NULL, "0.6.6");
	tap_ok(strstr(step_of(gate, "p2p_failed")->evidence, "not proof"),
	       "tests the driver's word");
	expect("symm_mem", GATE_DISABLED, "not_in_version", "0.6.6");
	expect("pcie_ipc", GATE_DISABLED, "not_in_version", "0.6.6");
	tap_ok(ask("dispatch")->step_count == 3 && !*ask("dispatch")->log_line,
	       "0.6.6: CUSTOM, PYNCCL, torch, and no list printed");
	set_version("0.10.2");
	gate = expect_custom(GATE_ENABLED, NULL, "0.10.2");
	tap_ok(gate->version_estimated, "whether it trusts is an estimate");
	set_version("0.16");
	gate = ask("custom_all_reduce");
	tap_ok(strstr(step_of(gate, "p2p_failed")->evidence, "driver's word"),
	       "0.16 takes the driver's word");
	set_variable("VLLM_SKIP_P2P_CHECK", "0");
	gate = ask("custom_all_reduce");
	tap_ok(strstr(step_of(gate, "p2p_failed")->evidence, "with data"),
	       "unless it is told to test");
	tap_ok(!overrides(gate, "VLLM_SKIP_P2P_CHECK"),
	       "which is not offered then");
	snprintf(machine.variables[0].value, OH__TEXT_BYTES, "true");
	gate = ask("custom_all_reduce");
	tap_ok(strstr(step_of(gate, "p2p_failed")->evidence, "with data"),
	       "nothing but 1 takes the driver's word");
	machine.variable_count = 0;
	gate = ask("custom_all_reduce");
	tap_ok(overrides(gate, "VLLM_SKIP_P2P_CHECK=0"), "else it is offered");
	set_version("0.6.6");
	gate = ask("custom_all_reduce");
	tap_ok(!overrides(gate, "VLLM_SKIP_P2P_CHECK"),
	       "but not in a version that tests by itself");

	set_version("0.30");
	set_variable("VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC", "1");
	expect("pcie_ipc", GATE_DEPENDS, NULL, "switched on, build not known");
	expect("dispatch", GATE_DEPENDS, NULL, "comes before CUSTOM");
	set_variable("VLLM_BATCH_INVARIANT", "1");
	expect_custom(GATE_DISABLED, "disabled_by_flag", "batch invariant");
	expect("dispatch", GATE_ENABLED, "PYNCCL", "batch invariant");
}

static void try_fusion(void)
{
	begin(4, "NVIDIA H100 80GB HBM3");
	link_all(OH__LINK_NV, 18);
	set_version("0.16");
	expect("allreduce_rms_fusion", GATE_ENABLED, NULL, "H100, 0.16");
	question.bytes = 4 << 20;
	expect("allreduce_rms_fusion", GATE_DISABLED, "too_large", "4 MiB");
	question.bytes = 0;
	begin_log();
	facts.rms_fusion = LOG_NO;
	expect("allreduce_rms_fusion", GATE_DISABLED, "switched_off",
	       "the log says so");
	facts.rms_fusion = LOG_NOT_SAID;
	facts.enforce_eager = LOG_YES;
	expect("allreduce_rms_fusion", GATE_DISABLED, "not_compiled", "eager");
	question.log = NULL;
	question.tp = 3;
	expect("allreduce_rms_fusion", GATE_DISABLED, "world_size_unsupported",
	       "three ranks");
	begin(2, "NVIDIA Something New");
	link_all(OH__LINK_NV, 18);
	expect("allreduce_rms_fusion", GATE_DEPENDS, NULL, "an unknown GPU");
	link_all(OH__LINK_SYS, 0);
	expect("allreduce_rms_fusion", GATE_DISABLED, NULL,
	       "an unknown GPU on PCIe");
}

/* No question may break the rules, whatever numbers it holds. */
static void try_nonsense(void)
{
	bool ended = true;

	begin(OH__GPUS, "NVIDIA L40S");
	link_all(OH__LINK_SYS, 0);
	for (int tp = 0; tp < 80; tp++) {
		question.tp = tp;
		for (size_t i = 0; gate_engines[i].name; i++) {
			gate_engines[i].ask(&question, gates);
			for (int k = 0; k < gate_engines[i].count; k++)
				ended &= gates[k].step_count > 0 &&
					 *gates[k].summary;
		}
	}
	question.tp = 4;
	question.gpus[2] = -7;
	question.gpus[3] = 4000;
	ask("custom_all_reduce");
	ask("transport");
	tap_ok(ended, "every gate answers for 0 to 79 ranks");
}

/* What needs peer access is not offered where the driver refuses it. */
static void test_refused(void)
{
	const struct gate *gate;

	begin(8, "NVIDIA GeForce RTX 4090");
	link_all(OH__LINK_NODE, 0);
	peers_all(OH__PEER_READ, OH__PEER_OK);
	peers_all(OH__PEER_WRITE, OH__PEER_OK);
	version_parse("0.30", &question.version);
	gate = ask("custom_all_reduce");
	tap_ok(gate->override_count == 3, "granted: %d overrides",
	       gate->override_count);
	peers_all(OH__PEER_READ, OH__PEER_CNS);
	peers_all(OH__PEER_WRITE, OH__PEER_CNS);
	gate = ask("custom_all_reduce");
	tap_ok(gate->override_count == 1 &&
		       strstr(gate->overrides[0].what, "--disable"),
	       "refused: only to be silent is left");
	expect("pcie_ipc", GATE_DISABLED, "switched_off", "off by default");
	machine.variable_count = 1;
	strcpy(machine.variables[0].name,
	       "VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC");
	strcpy(machine.variables[0].value, "1");
	machine.variables[0].from = from(3);
	gate = ask("pcie_ipc");
	tap_ok(gate->verdict == GATE_DISABLED, "refused, and switched on");
	peers_all(OH__PEER_READ, OH__PEER_OK);
	peers_all(OH__PEER_WRITE, OH__PEER_OK);
	tap_ok(ask("pcie_ipc")->verdict == GATE_DEPENDS,
	       "granted: it hangs on the build");
	version_parse("0.99", &question.version);
	gate = ask("custom_all_reduce");
	tap_ok(gate->version_estimated && gate->assumed_count &&
		       strstr(gate->assumed[0], "0.30, the newest"),
	       "a version that nobody has read");
}

int main(void)
{
	try_frame();
	try_eight();
	try_machines();
	try_unknown();
	try_log();
	try_calls();
	try_releases();
	try_fusion();
	try_nonsense();
	test_refused();
	return tap_done();
}
