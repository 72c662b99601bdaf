/* SPDX-License-Identifier: MIT */
/*
 * What is found, and what is not: each finding on the evidence that it needs,
 * and the same case without that evidence. finding_case.h has the words that
 * build a diagnosis.
 */
#include <math.h>
#include <string.h>

#include "finding_case.h"

/* The case that the project starts from. */
static void begin_eight(void)
{
	begin(8, "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
	      OH__LINK_NODE);
	for (int i = 0; i < 4; i++)
		for (int k = 4; k < 8; k++)
			link_pair(i, k, OH__LINK_SYS);
	oh__text_set(&d.machine.host.cpu, from(11), "AMD EPYC 9335", 13);
	peers(OH__PEER_OK);
	d.options.version = "0.16.0";
}

/* Its log, its budget, and what somebody believed of its memory. */
static void begin_eight_server(void)
{
	/* 17 to 57 us a call, 156 calls: 2.652 to 8.892 ms of 17.391 */
	static const struct path_time nccl = {
		.path = "nccl", .low_us = 17, .high_us = 57};
	static const struct path_time peer = {.path = "onehop_peer",
					      .title = "one-shot, one socket",
					      .low_us = 9.2,
					      .high_us = 11.8};

	begin_eight();
	log_disabled("pcie_more_than_two");
	d.log.rms_fusion = LOG_NO;
	d.log.line.rms_fusion = 3;
	d.log.transport = LOG_TRANSPORT_SHM;
	d.log.line.transport = 9;
	d.log.pair_count = 1;
	d.log.pairs[0] = (struct log_pair){0, 1, "SHM/direct/direct"};
	d.log.nccl_setting_count = 1;
	snprintf(d.log.nccl_settings[0], sizeof(d.log.nccl_settings[0]),
		 "NCCL_PROTO=LL");
	d.budget.any = true;
	d.budget.all_reduces_per_token.value = 156;
	d.budget.ms_per_token.value = 17.391;
	d.budget.claimed_gb_s.value = 1500;
	snprintf(d.budget.claimed_gb_s.source,
		 sizeof(d.budget.claimed_gb_s.source), "--claimed-gb-s");
	d.budget.gpu_peak_gb_s.value = 1792;
	snprintf(d.budget.gpu_peak_gb_s.source,
		 sizeof(d.budget.gpu_peak_gb_s.source), "data sheet");
	d.budget.achieved_gb_s_per_gpu.value = 201.25;
	d.budget.path_count = 2;
	d.budget.paths[0] = (struct budget_path){.time = &nccl,
						 .low_ms = 2.652,
						 .high_ms = 8.892,
						 .low_share = 0.1525,
						 .high_share = 0.5113};
	d.budget.paths[1] = (struct budget_path){.time = &peer,
						 .low_ms = 1.435,
						 .high_ms = 1.841,
						 .low_share = 0.0825,
						 .high_share = 0.1058};
}

static void try_eight(void)
{
	begin_eight_server();
	EXPECT("eight PCIe cards", "gate_pcie_more_than_two",
	       "gate_is_engine_rule", "peer_never_examined",
	       "claimed_bandwidth_wrong", "nccl_shm_transport", "fusion_off",
	       "nccl_proto_forced");
	tap_ok(!strncmp(find("nccl_shm_transport")->remedy,
			"NCCL_P2P_LEVEL=SYS", 18),
	       "NCCL's level can be tried");
	tap_ok(!strcmp(d.findings[0].id, "gate_pcie_more_than_two") &&
		       d.findings[0].severity == FINDING_PROBLEM &&
		       !strcmp(d.findings[1].id, "gate_is_engine_rule") &&
		       !strcmp(d.findings[2].id, "peer_never_examined"),
	       "the closed gate comes first, then what it means");
	tap_ok(has_text("gate_pcie_more_than_two",
			"156 all-reduces a token at 17 to 57 us each: 2.7 to "
			"8.9 ms of 17.4 ms (15 to 51 %)"),
	       "with the share that NCCL can have");
	tap_ok(has_text("gate_pcie_more_than_two", "vllm.log:6"),
	       "and the log's line");
	tap_ok(has_text("gate_is_engine_rule",
			"one-shot, one socket: 9.2 to 11.8 us"),
	       "kernels for PCIe elsewhere");
	/* 201.25 / 1792 and 201.25 / 1500 */
	tap_ok(has_text("claimed_bandwidth_wrong", "11.2 % of its peak, not "
						   "13.4 %"),
	       "the peak of the card");
	tap_ok(has_text("nccl_shm_transport", "0 -> 1 via SHM/direct/direct "
					      "(vllm.log:9)"),
	       "NCCL's own line");
	tap_ok(find("fusion_off")->severity == FINDING_INFO,
	       "12.0 cannot fuse: for information");
}

/* What can be tried, on the server first. */
static void try_eight_remedies(void)
{
	static const char id[] = "gate_pcie_more_than_two";

	begin_eight_server();
	collect();
	tap_ok(!strncmp(find(id)->remedy,
			"Try NCCL_P2P_LEVEL=SYS, or vLLM 0.30 with "
			"VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC=1; time NCCL "
			"with and without that level: onehop bench",
			134) &&
		       is_whole(find(id)),
	       "the server's settings first, then the time of a call");
	tap_ok(has_text(id, "Not where onehop probe finds a fault"),
	       "where peer access works");
	d.options.version = "0.30";
	d.has_log = false;
	collect();
	tap_ok(has_text(id, "SYS, or VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC=1"),
	       "a version that has the kernel is not advised");
	d.tp = 6;
	collect();
	tap_ok(has_text(id, "Try NCCL_P2P_LEVEL=SYS; time") &&
		       !has_text(id, "PCIE_IPC"),
	       "nor a kernel that is not for six ranks");
	d.tp = 8;
	set_variable("NCCL_P2P_LEVEL", "SYS");
	collect();
	tap_ok(has_text(id, "Try VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC=1; "
			    "time NCCL as it is"),
	       "nor a level that is set");
	set_variable("VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC", "1");
	memset(&d.budget, 0, sizeof(d.budget));
	collect();
	tap_ok(has_text(id, "Time a call of NCCL and one of Onehop") &&
		       has_text(id, "unless FlashInfer's all-reduce over PCIe "
				    "takes it"),
	       "all of it is set: what is left is to time it");
	begin_eight();
	d.machine.host.acs_redirect = (struct oh__number){from(9), 4};
	collect();
	tap_ok(!strncmp(find(id)->remedy, "Mend what is said of ACS and IOMMU,",
			35) &&
		       is_whole(find(id)),
	       "not before ACS is out of the way");
}

static void try_eight_less(void)
{
	begin_eight_server();
	d.budget.claimed_gb_s.value = 1870; /* 4.4 % above 1792 */
	d.log.rms_fusion = LOG_NOT_SAID;
	d.log.nccl_setting_count = 0;
	EXPECT("without what was wrong", "gate_pcie_more_than_two",
	       "gate_is_engine_rule", "peer_never_examined",
	       "nccl_shm_transport");
	d.has_log = false;
	memset(&d.budget, 0, sizeof(d.budget));
	EXPECT("by the report alone", "gate_pcie_more_than_two",
	       "gate_is_engine_rule", "peer_never_examined",
	       "nccl_shm_transport");
	peers(OH__PEER_CNS);
	EXPECT("where the driver refuses", "gate_pcie_more_than_two",
	       "nccl_shm_transport");
	tap_ok(has_text("nccl_shm_transport", "None in NCCL"),
	       "NCCL has no way round that");
	for (int i = 0; i < 8; i++)
		for (int k = 0; k < 8; k++)
			d.machine.peer[OH__PEER_READ][i][k].from.source = 0;
	EXPECT("where the driver was not asked", "gate_pcie_more_than_two",
	       "gate_is_engine_rule", "nccl_shm_transport");
	tap_ok(has_text("nccl_shm_transport", "Ask the driver"),
	       "it is to be asked first");
}

static void try_rules(void)
{
	begin(8, "NVIDIA H100 80GB HBM3", OH__LINK_NV);
	EXPECT("NVSwitch: nothing");
	d.machine.host.acs_redirect = (struct oh__number){from(9), 4};
	EXPECT("NVSwitch with ACS", "acs_redirect");
	tap_ok(find("acs_redirect")->severity == FINDING_INFO,
	       "which is not in its way");

	begin(3, "NVIDIA L40S", OH__LINK_PHB);
	EXPECT("three ranks", "world_size_unsupported", "nccl_shm_transport");
	peers(OH__PEER_OK);
	EXPECT("with peer access", "world_size_unsupported",
	       "peer_never_examined", "nccl_shm_transport");

	begin(1, "NVIDIA L40S", OH__LINK_PHB);
	d.machine.host.acs_redirect = (struct oh__number){from(9), 4};
	EXPECT("one GPU: nothing");

	begin(2, "NVIDIA L40S", OH__LINK_PHB);
	peers(OH__PEER_CNS);
	EXPECT("refused", "gate_p2p_failed", "nccl_shm_transport");

	begin(2, "NVIDIA GeForce RTX 5090", OH__LINK_PHB);
	peers(OH__PEER_GNS);
	EXPECT("GeForce", "gate_p2p_failed", "p2p_denied_geforce",
	       "nccl_shm_transport");

	begin(2, "NVIDIA L40S", OH__LINK_PHB);
	EXPECT("not asked", "peer_status_unknown");
	tap_ok(has_text("peer_status_unknown", "nvidia-smi topo -p2p r"),
	       "with the command");
	peers(OH__PEER_OK);
	oh__text_set(&d.machine.host.cpu, from(11), "Intel(R) Xeon(R)", 16);
	EXPECT("granted: the kernel runs unchecked",
	       "custom_enabled_on_pcie_pair", "nccl_shm_transport");
	tap_ok(find("custom_enabled_on_pcie_pair")->severity ==
			       FINDING_WARNING &&
		       find("nccl_shm_transport")->severity == FINDING_INFO,
	       "a warning, and NCCL matters less");
	d.machine.host.iommu.from = from(8);
	d.machine.host.iommu.mode = OH__IOMMU_PASSTHROUGH;
	collect();
	tap_ok(find("custom_enabled_on_pcie_pair")->severity == FINDING_INFO,
	       "for information where the IOMMU passes through");
	name_gpu(0, "NVIDIA GeForce RTX 3090");
	name_gpu(1, "NVIDIA GeForce RTX 3090");
	collect();
	tap_ok(find("custom_enabled_on_pcie_pair")->severity == FINDING_WARNING,
	       "but not with patched GeForce drivers");

	begin(4, "NVIDIA GeForce RTX 3090", OH__LINK_NODE);
	link_pair(0, 1, OH__LINK_NV);
	link_pair(2, 3, OH__LINK_NV);
	EXPECT("two bridges", "gate_pcie_more_than_two", "gate_is_engine_rule",
	       "partial_nvlink", "nccl_shm_transport");
	tap_ok(has_text("partial_nvlink", "2 of 6 pairs"), "two of six pairs");
	tap_ok(has_text("partial_nvlink", "--tensor-parallel-size 2"),
	       "two ranks on a bridge");
	d.tp = 2;
	EXPECT("one bridged pair: nothing");

	/* CUDA says no although NVLink is there */
	begin(2, "NVIDIA A100-PCIE-40GB", OH__LINK_NV);
	log_disabled("p2p_failed");
	version_parse("0.29.0", &d.log.version);
	EXPECT("refused by CUDA", "gate_p2p_failed", "nccl_shm_transport");
	tap_ok(has_text("nccl_shm_transport", "No NCCL_P2P_LEVEL helps"),
	       "which no level mends");
	version_parse("0.6.6", &d.log.version);
	EXPECT("a test with data that failed", "gate_p2p_failed");
	tap_ok(has_text("gate_p2p_failed", "its own lines tell") &&
		       has_text("gate_p2p_failed", "with data: onehop probe. "),
	       "NCCL may still have its way");
}

/* Two groups of four with NVLink between all, and GPU0-GPU4 and so on. */
static void try_mesh(void)
{
	begin(8, "Tesla V100-SXM2-32GB", OH__LINK_SYS);
	for (int i = 0; i < 4; i++) {
		for (int k = i + 1; k < 4; k++) {
			link_pair(i, k, OH__LINK_NV);
			link_pair(i + 4, k + 4, OH__LINK_NV);
		}
		link_pair(i, i + 4, OH__LINK_NV);
	}
	EXPECT("eight V100", "gate_pcie_more_than_two", "gate_is_engine_rule",
	       "partial_nvlink");
	tap_ok(has_text("partial_nvlink", "CUDA_VISIBLE_DEVICES=0,1,2,3"),
	       "four of them have NVLink between all");
	tap_ok(has_text("partial_nvlink", "ring does the work"),
	       "and NCCL need not leave NVLink");
}

static void try_flag(void)
{
	begin(2, "NVIDIA A100-SXM4-80GB", OH__LINK_NV);
	begin_log(LOG_VLLM);
	d.log.disable_custom = LOG_YES;
	EXPECT("switched off", "custom_disabled_by_flag");
	tap_ok(find("custom_disabled_by_flag")->severity == FINDING_WARNING &&
		       has_text("custom_disabled_by_flag", "goes to NCCL; no"),
	       "where nothing else stands against it");
	begin(8, "NVIDIA H100 80GB HBM3", OH__LINK_NV);
	begin_log(LOG_VLLM);
	d.log.disable_custom = LOG_YES;
	collect();
	tap_ok(has_text("custom_disabled_by_flag",
			"goes to the fusion of all-reduce and RMSNorm; no"),
	       "where another path takes over");
	begin_eight();
	begin_log(LOG_VLLM);
	d.log.disable_custom = LOG_YES;
	collect();
	tap_ok(find("custom_disabled_by_flag")->severity == FINDING_INFO &&
		       !find("gate_pcie_more_than_two"),
	       "for information where another rule would");
	begin(2, "NVIDIA A100-PCIE-40GB", OH__LINK_NODE);
	begin_log(LOG_VLLM);
	d.log.disable_custom = LOG_YES;
	EXPECT("switched off, and peer access is not known",
	       "custom_disabled_by_flag");
	tap_ok(has_text("custom_disabled_by_flag", "cannot be told") &&
		       has_text("custom_disabled_by_flag", "; whether"),
	       "nothing is claimed of what was not asked");
}

/* No machine: the log alone. */
static void try_flag_of_log(void)
{
	memset(&d, 0, sizeof(d));
	d.tp = 4;
	log_disabled("disabled_by_flag");
	EXPECT("switched off, says a sentence", "custom_disabled_by_flag");
	tap_ok(has_text("custom_disabled_by_flag", "because\" (vllm.log:6)"),
	       "the sentence is the evidence");
	d.log.disable_custom = LOG_YES;
	d.log.line.disable_custom = 1;
	EXPECT("switched off, says the flag", "custom_disabled_by_flag");
	tap_ok(has_text("custom_disabled_by_flag",
			"disable_custom_all_reduce=True (vllm.log:1)"),
	       "the flag is the evidence");
	tap_ok(find("custom_disabled_by_flag")->severity == FINDING_WARNING &&
		       has_text("custom_disabled_by_flag", "cannot be told") &&
		       !has_text("custom_disabled_by_flag", "no other rule"),
	       "a warning that claims nothing of the other rules");
	d.log.engine = LOG_SGLANG;
	collect();
	tap_ok(has_text("custom_disabled_by_flag", "SGLang's own"),
	       "of SGLang, too");
	d.tp = 1;
	EXPECT("switched off, one rank: nothing");
}

static void try_host(void)
{
	begin(4, "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
	      OH__LINK_NODE);
	d.machine.host.acs_redirect = (struct oh__number){from(9), 1};
	d.machine.host.iommu.from = from(8);
	d.machine.host.iommu.mode = OH__IOMMU_TRANSLATED;
	EXPECT("ACS and a translating IOMMU", "gate_pcie_more_than_two",
	       "gate_is_engine_rule", "acs_redirect", "iommu_translated",
	       "nccl_shm_transport");
	tap_ok(find("acs_redirect")->severity == FINDING_PROBLEM &&
		       has_text("acs_redirect", "ECAP_ACS+0x6.w=0000") &&
		       has_text("iommu_translated", "iommu=pt"),
	       "both are problems, with their commands");
	d.machine.host.iommu.mode = OH__IOMMU_PASSTHROUGH;
	collect();
	tap_ok(find("acs_redirect")->severity == FINDING_WARNING &&
		       !find("iommu_translated"),
	       "ACS alone is a warning");
	d.machine.host.acs_redirect.value = 0;
	collect();
	tap_ok(!find("acs_redirect"), "looked at, and no bridge redirects");
}

static void try_links(void)
{
	begin(2, "NVIDIA A100-PCIE-40GB", OH__LINK_NV);
	for (int i = 0; i < 2; i++) {
		d.machine.gpu[i].pcie_gen = (struct oh__number){from(5), 4};
		d.machine.gpu[i].pcie_gen_max = (struct oh__number){from(5), 4};
		d.machine.gpu[i].pcie_width = (struct oh__number){from(5), 16};
		d.machine.gpu[i].pcie_width_max =
			(struct oh__number){from(5), 16};
	}
	EXPECT("full links: nothing");
	d.machine.gpu[1].pcie_gen.value = 1;
	EXPECT("an idle GPU", "gen_downtrained_idle");
	tap_ok(find("gen_downtrained_idle")->severity == FINDING_INFO &&
		       has_text("gen_downtrained_idle",
				"GPU1: generation 1 of 4"),
	       "is no problem");
	d.machine.gpu[1].pcie_gen.value = 4;
	d.machine.gpu[0].pcie_width.value = 4;
	EXPECT("a narrow link", "slow_link_width");
	tap_ok(has_text("slow_link_width", "GPU0: x4 of x16"), "of GPU0");
	d.machine.gpu[0].pcie_width_max.from.source = 0;
	EXPECT("not known how wide it can be: nothing");

	begin(2, "NVIDIA A100-PCIE-40GB", OH__LINK_NV);
	d.machine.gpu[1].mig = (struct oh__number){from(7), 1};
	EXPECT("MIG", "gate_p2p_failed", "mig_no_p2p", "nccl_shm_transport");
}

static void try_models(void)
{
	begin(4, "NVIDIA GeForce RTX 5090", OH__LINK_NODE);
	name_gpu(2, "NVIDIA GeForce RTX 4090");
	name_gpu(3, "NVIDIA GeForce RTX 4090");
	EXPECT("two models", "gate_pcie_more_than_two", "gate_is_engine_rule",
	       "mixed_models", "nccl_shm_transport");
	tap_ok(has_text("mixed_models", "2x NVIDIA GeForce RTX 5090 (GPU0 "
					"first), 2x NVIDIA GeForce RTX 4090"),
	       "how many of each");
	d.tp = 2;
	collect();
	tap_ok(!find("mixed_models"), "ranks on one of them");
	d.visible.gpu[1] = 3;
	collect();
	tap_ok(find("mixed_models"), "ranks on both");
	d.machine.gpu[3].name.from.source = 0;
	collect();
	tap_ok(!find("mixed_models"), "a name that is not known is no model");
}

/* Logs without a machine. */
static void try_log(void)
{
	memset(&d, 0, sizeof(d));
	log_disabled("p2p_failed");
	EXPECT("a log alone", "gate_p2p_failed");
	snprintf(d.log.p2p_cache_action, sizeof(d.log.p2p_cache_action),
		 "read");
	snprintf(d.log.p2p_cache_file, sizeof(d.log.p2p_cache_file),
		 "gpu_p2p_access_cache_for_1,2.json");
	d.log.line.p2p_cache = 5;
	EXPECT("from a cache file", "gate_p2p_failed", "stale_p2p_cache");
	tap_ok(has_text("stale_p2p_cache",
			"rm ~/.cache/vllm/gpu_p2p_access_cache_for_1,2.json"),
	       "which to delete");
	snprintf(d.log.p2p_cache_action, sizeof(d.log.p2p_cache_action),
		 "generate");
	EXPECT("a test that was made", "gate_p2p_failed");

	memset(&d, 0, sizeof(d));
	log_disabled("pcie_more_than_two");
	EXPECT("the NVLink rule", "gate_pcie_more_than_two",
	       "gate_is_engine_rule");
	d.log.engine = LOG_SGLANG;
	collect();
	tap_ok(has_text("gate_pcie_more_than_two", "SGLang's own") &&
		       has_text("gate_pcie_more_than_two",
				"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE=1"),
	       "SGLang has its own remedy");

	memset(&d, 0, sizeof(d));
	log_disabled("extension_missing");
	EXPECT("no library", "gate_extension_missing");
	log_disabled("spans_nodes");
	EXPECT("two hosts", "gate_spans_nodes");
	log_disabled("world_size_unsupported");
	EXPECT("a wrong number", "world_size_unsupported");

	memset(&d, 0, sizeof(d));
	begin_log(LOG_NCCL);
	d.log.p2p_refused = true;
	EXPECT("no peer access", "p2p_refused");
	d.log.p2p_refused = !(d.log.shm_full = true);
	d.log.transport = LOG_TRANSPORT_SHM;
	EXPECT("no space", "shm_too_small", "nccl_shm_transport");
	d.log.shm_full = false;
	d.log.transport = LOG_TRANSPORT_MIXED;
	EXPECT("a ring of both", "nccl_shm_transport");
	tap_ok(has_text("nccl_shm_transport", "some of the GPUs"), "says some");
	d.log.pair_count = 1;
	d.log.pairs[0] = (struct log_pair){0, 8, "NET/IB/0"};
	EXPECT("P2P and a network: nothing");
	d.log.pair_count = 0;
	d.log.transport = LOG_TRANSPORT_P2P;
	EXPECT("P2P: nothing");

	memset(&d, 0, sizeof(d));
	begin_log(LOG_VLLM);
	d.log.rms_fusion = LOG_NO;
	EXPECT("fusion off, one rank or not known: nothing");
	d.log.tensor_parallel_size = 2;
	EXPECT("fusion off", "fusion_off");
	d.log.custom = LOG_CUSTOM_SETUP_FAILED;
	d.log.line.custom = 7;
	snprintf(d.log.custom_text, sizeof(d.log.custom_text), "failed");
	EXPECT("set up in vain", "custom_setup_failed", "fusion_off");
	tap_ok(has_text("custom_setup_failed", "behind vllm.log:7. "),
	       "it names the line behind which to read");

	begin(4, "NVIDIA H100 80GB HBM3", OH__LINK_NV);
	begin_log(LOG_VLLM);
	d.log.rms_fusion = LOG_NO;
	EXPECT("fusion off on H100", "fusion_off");
	tap_ok(find("fusion_off")->severity == FINDING_WARNING,
	       "where it could be on");
	log_disabled("pcie_more_than_two");
	d.log.rms_fusion = LOG_NOT_SAID;
	EXPECT("the log of another machine", "log_contradicts_rules");
	d.log.tensor_parallel_size = 8;
	EXPECT("of another run: nothing");
}

static void try_settings(void)
{
	begin(2, "NVIDIA L40S", OH__LINK_NV);
	set_variable("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True");
	EXPECT("expandable segments", "expandable_segments");
	snprintf(d.machine.variables[0].value, OH__TEXT_BYTES,
		 "max_split_size_mb:512");
	EXPECT("another allocator setting: nothing");
	set_variable("NCCL_P2P_DISABLE", "1");
	EXPECT("P2P off for NCCL alone", "nccl_p2p_disabled",
	       "nccl_shm_transport");
	tap_ok(has_text("nccl_shm_transport", "is set (report.txt:40)"),
	       "somebody set it");

	begin(2, "NVIDIA L40S", OH__LINK_NV);
	d.machine.host.driver.from = from(4);
	snprintf(d.machine.host.driver.text, OH__TEXT_BYTES, "545.29.06");
	EXPECT("a driver with reports, NVLink", "driver_known_bad");
	snprintf(d.machine.host.driver.text, OH__TEXT_BYTES, "545.291");
	EXPECT("another driver: nothing");
	snprintf(d.machine.host.driver.text, OH__TEXT_BYTES, "595.91.07");
	EXPECT("that driver on another GPU: nothing");

	begin(2, "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
	      OH__LINK_NV);
	begin_log(LOG_NCCL);
	version_parse("2.26.2", &d.log.nccl);
	d.log.transport = LOG_TRANSPORT_P2P;
	EXPECT("NCCL 2.26.2 on 12.0", "nccl_known_bad");
	version_parse("2.26.5", &d.log.nccl);
	EXPECT("2.26.5: nothing");
}

static void try_eager(void)
{
	begin(2, "NVIDIA L40S", OH__LINK_NV);
	begin_log(LOG_VLLM);
	d.log.enforce_eager = LOG_YES;
	EXPECT("no CUDA graphs", "cuda_graphs_off");
}

static void try_visible(void)
{
	begin(2, "NVIDIA L40S", OH__LINK_NV);
	strcpy(d.visible.remark, "'7' names no GPU");
	EXPECT("a list that ends early", "visible_devices_cut");
	tap_ok(has_text("visible_devices_cut", "'7'") &&
		       find("visible_devices_cut")->severity == FINDING_WARNING,
	       "a warning that says where");
	d.visible.count = 0;
	EXPECT("a list that hides all", "visible_devices_cut");
	tap_ok(find("visible_devices_cut")->severity == FINDING_PROBLEM,
	       "a problem");
}

static void try_uuid(void)
{
	begin(2, "NVIDIA L40S", OH__LINK_NV);
	d.visible.uuids = true;
	EXPECT("UUIDs, version not known", "uuid_in_visible_devices");
	tap_ok(find("uuid_in_visible_devices")->severity == FINDING_WARNING,
	       "a warning");
	d.options.version = "0.20";
	EXPECT("UUIDs in 0.20", "uuid_in_visible_devices");
	tap_ok(find("uuid_in_visible_devices")->severity == FINDING_PROBLEM,
	       "a problem");
	d.options.version = "0.28";
	EXPECT("UUIDs in 0.28: nothing");
	memset(&d, 0, sizeof(d));
	begin_log(LOG_VLLM);
	d.log.uuid_in_visible = true;
	EXPECT("seen in a log", "uuid_in_visible_devices");
}

static void try_metrics(void)
{
	memset(&d, 0, sizeof(d));
	d.has_metrics = true;
	snprintf(d.metrics.metric, sizeof(d.metrics.metric),
		 "vllm:inter_token_latency_seconds");
	d.metrics.tokens = 490;
	d.metrics.mean_ms = 1.7633;
	EXPECT("no buckets: nothing");
	d.metrics.has_median = true;
	d.metrics.median_high_s = 0.01;
	EXPECT("the first bucket", "metrics_bucket_too_coarse");
	tap_ok(has_text("metrics_bucket_too_coarse", "1.76 ms"),
	       "with the mean instead");
	d.metrics.median_low_s = 0.01;
	d.metrics.median_high_s = 0.025;
	EXPECT("a wide bucket beside a mean: nothing");
	d.metrics.mean_ms = 0;
	EXPECT("a wide bucket alone", "metrics_bucket_too_coarse");
	d.metrics.median_low_s = 80;
	d.metrics.median_high_s = INFINITY;
	EXPECT("the last bucket", "metrics_bucket_too_coarse");
	d.metrics.median_low_s = 0.1;
	d.metrics.median_high_s = 0.15;
	EXPECT("a narrow one: nothing");
}

int main(void)
{
	memset(&d, 0, sizeof(d));
	EXPECT("nothing known: nothing");
	try_eight();
	try_eight_remedies();
	try_eight_less();
	try_rules();
	try_mesh();
	try_flag();
	try_flag_of_log();
	try_host();
	try_links();
	try_models();
	try_log();
	try_settings();
	try_eager();
	try_visible();
	try_uuid();
	try_metrics();
	return tap_done();
}
