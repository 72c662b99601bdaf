/* SPDX-License-Identifier: MIT */
/*
 * Two ranks on PCIe whose engine has its own kernel on: the finding says of
 * peer access what the chain says, and names the engine's own settings.
 */
#include <string.h>

#include "finding_case.h"

/* Two ranks on PCIe whose kernel is on, by a version or "". */
static void begin_pair(const char *version)
{
	begin(2, "NVIDIA L40S", OH__LINK_PHB);
	peers(OH__PEER_OK);
	d.options.version = version;
}

static void expect_pair(const char *what, enum finding_severity severity,
			const char *title, const char *remedy)
{
	const struct finding *pair;

	collect();
	pair = find("custom_enabled_on_pcie_pair");
	if (!tap_ok(pair && is_whole(pair) && pair->severity == severity &&
			    strstr(pair->title, title) &&
			    strstr(pair->remedy, remedy),
		    "%s: %s, %s", what, title, remedy) &&
	    pair)
		tap_note("%s: %s; %s", finding_severity_name(pair->severity),
			 pair->title, pair->remedy);
}

/* The finding says what the chain above it says. */
static void try_pair(void)
{
	static const char id[] = "custom_enabled_on_pcie_pair";

	begin_pair("0.16");
	expect_pair("0.16", FINDING_WARNING, "on the driver's word",
		    "start with VLLM_SKIP_P2P_CHECK=0");
	tap_ok(has_text(id, "takes the driver's word and moves no data"),
	       "with the chain's words as evidence");
	set_variable("VLLM_SKIP_P2P_CHECK", "0");
	expect_pair("told to test", FINDING_INFO, "after a test with data",
		    "delete ~/.cache/vllm/gpu_p2p_access_cache_for_*.json");
	tap_ok(has_text(id, "; VLLM_SKIP_P2P_CHECK=0: vLLM tries") &&
		       !has_text(id, "driver's word") &&
		       !has_text(id, "with VLLM_SKIP_P2P_CHECK=0"),
	       "and what is set is not advised");
	begin_pair("0.6.6");
	expect_pair("0.6.6", FINDING_INFO, "after a test with data",
		    "onehop probe");
	tap_ok(has_text(id, "not proof") && !has_text(id, "SKIP_P2P"),
	       "which has no such word to take");
	name_gpu(0, "NVIDIA GeForce RTX 4090");
	expect_pair("GeForce", FINDING_WARNING, "after a test", "own stores");
	begin_pair("0.16");
	begin_log(LOG_VLLM);
	strcpy(d.log.p2p_cache_action, "read");
	expect_pair("a file that the log names", FINDING_WARNING,
		    "earlier test's word, from a file", "not made again");
	strcpy(d.log.p2p_cache_action, "generate");
	expect_pair("a test that the log shows", FINDING_INFO,
		    "after a test with data", "onehop probe");
}

static void try_pair_of_sglang(void)
{
	static const char id[] = "custom_enabled_on_pcie_pair";

	begin_pair("");
	begin_log(LOG_SGLANG);
	d.log.custom = LOG_CUSTOM_ENABLED;
	expect_pair("SGLang", FINDING_INFO, "after a test with data",
		    "~/.cache/sglang/");
	tap_ok(has_text(id, "unless SGLANG_SKIP_P2P_CHECK=1") &&
		       !has_text(id, "VLLM_") && !has_text(id, "asks for it"),
	       "by its own variable");
	set_variable("SGLANG_SKIP_P2P_CHECK", "true");
	expect_pair("true is not 1", FINDING_INFO, "after a test", "probe");
	strcpy(d.machine.variables[0].value, "1");
	expect_pair("told to skip", FINDING_WARNING, "on the driver's word",
		    "start without SGLANG_SKIP_P2P_CHECK=1");
	strcpy(d.log.p2p_cache_action, "read");
	expect_pair("SGLang's file", FINDING_WARNING, "from a file",
		    "~/.cache/sglang/");
	strcpy(d.log.custom_generation, "v2");
	collect();
	tap_ok(has_text(id, "asks for it: are both of one machine?"),
	       "its second kernel is for NVLink");

	memset(&d, 0, sizeof(d));
	log_disabled("p2p_failed");
	d.log.engine = LOG_SGLANG;
	strcpy(d.log.p2p_cache_action, "read");
	EXPECT("SGLang's file says no", "gate_p2p_failed", "stale_p2p_cache");
	tap_ok(has_text("gate_p2p_failed", "rm ~/.cache/sglang/") &&
		       has_text("stale_p2p_cache", "rm ~/.cache/sglang/") &&
		       !has_text("stale_p2p_cache", "VLLM_"),
	       "which file to delete");
}

int main(void)
{
	try_pair();
	try_pair_of_sglang();
	return tap_done();
}
