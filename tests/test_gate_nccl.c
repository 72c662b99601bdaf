/* SPDX-License-Identifier: MIT */
/*
 * NCCL's transport beyond the plain machines: settings, NVLink by way of
 * another GPU, and what an engine's log says of CUDA's answer.
 */
#include "gate_asker.h"

/* Eight V100: two groups of four with NVLink between all, and four links from
 * the one to the other. */
static void link_mesh(void)
{
	link_all(OH__LINK_SYS, 0);
	for (int i = 0; i < 4; i++) {
		for (int k = i + 1; k < 4; k++) {
			link_pair(i, k, OH__LINK_NV, 1);
			link_pair(i + 4, k + 4, OH__LINK_NV, 1);
		}
		link_pair(i, i + 4, OH__LINK_NV, 2);
	}
}

static void try_mesh(void)
{
	begin(8, "Tesla V100-SXM2-32GB");
	link_mesh();
	expect_custom(GATE_DISABLED, "pcie_more_than_two", "a hybrid mesh");
	/* GPU0 reaches GPU5 through GPU1 or GPU4 */
	expect_transport("P2P", "NCCL goes through a GPU between");
	tap_ok(strstr(step_of(&gates[0], "nvml_p2p_status")->evidence,
		      "16 of 28 pairs have NVLink"),
	       "which it says");
	set_variable("NCCL_P2P_LEVEL", "NVL");
	expect_transport("mixed", "NVLink alone allowed");
	machine.variable_count = 0;
	machine.gpu[3].mig = (struct oh__number){from(7), 1};
	expect_transport("mixed", "one GPU in MIG mode");

	/* one bridge between is not enough */
	begin(4, "NVIDIA RTX A6000");
	link_all(OH__LINK_SYS, 0);
	link_pair(0, 1, OH__LINK_NV, 4);
	link_pair(2, 3, OH__LINK_NV, 4);
	expect_transport("mixed", "two bridged pairs");
}

/* vLLM's newer versions ask CUDA, as NCCL does. */
static void try_refused_by_cuda(void)
{
	begin(2, "NVIDIA H100 NVL");
	link_all(OH__LINK_NV, 12);
	expect_transport("P2P", "two with NVLink");
	log_disabled("p2p_failed");
	expect_transport("depends", "refused in a version that is not known");
	version_parse("0.29.0", &facts.version);
	expect_transport("SHM", "CUDA said no to vLLM");
	tap_ok(step_of(&gates[0], "cuda_peer")->decides &&
		       strstr(step_of(&gates[0], "cuda_peer")->origin,
			      "vllm.log:6"),
	       "by the log's line");
	facts.tensor_parallel_size = 4;
	expect_transport("P2P", "a log of other ranks says nothing");
	facts.tensor_parallel_size = 2;
	version_parse("0.6.6", &facts.version);
	expect_transport("depends", "an older version's test moves data");

	begin(2, "NVIDIA L40S");
	link_all(OH__LINK_PHB, 0);
	peers_all(OH__PEER_READ, OH__PEER_OK);
	ask("custom_all_reduce");
	tap_ok(strstr(step_of(&gates[0], "p2p_failed")->evidence,
		      "the driver says OK for the pair;"),
	       "two ranks are one pair");
	question.tp = 1;
	ask("custom_all_reduce");
	tap_ok(strstr(step_of(&gates[0], "p2p_failed")->evidence,
		      "one rank has no pair"),
	       "one rank is none");
}

static void try_nccl_settings(void)
{
	begin(4, "NVIDIA L40S");
	link_all(OH__LINK_SYS, 0);
	peers_all(OH__PEER_READ, OH__PEER_OK);
	expect_transport("SHM", "four, SYS, level of NCCL");
	set_variable("NCCL_P2P_LEVEL", "SYS");
	expect_transport("P2P", "level SYS");
	machine.variables[0].value[0] = '4';
	machine.variables[0].value[1] = '\0';
	expect_transport("P2P", "the old number of it");
	set_variable("NCCL_P2P_LEVEL_X", "LOC");
	set_variable("NCCL_P2P_DISABLE", "1");
	expect_transport("SHM", "P2P switched off");
	set_variable("NCCL_SHM_DISABLE", "1");
	expect_transport("NET", "SHM, too");
	machine.variable_count = 0;
	begin_log();
	snprintf(facts.nccl_settings[0], sizeof(facts.nccl_settings[0]),
		 "NCCL_P2P_LEVEL=PHB");
	facts.nccl_setting_count = 1;
	expect_transport("SHM", "level PHB of the log");
	link_all(OH__LINK_NODE, 0);
	expect_transport("P2P", "which takes in NODE");
}

int main(void)
{
	try_mesh();
	try_refused_by_cuda();
	try_nccl_settings();
	return tap_done();
}
