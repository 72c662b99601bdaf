/* SPDX-License-Identifier: MIT */
/*
 * Lines in the shapes that the releases of vLLM, SGLang and NCCL print, and
 * what must come out of them; texts of other kinds, out of which nothing may.
 */
#include <stdlib.h>
#include <string.h>

#include "log_text.h"
#include "tap.h"

#define PCIE                                                                   \
	"Custom allreduce is disabled because it's not supported on more "     \
	"than two PCIe-only GPUs. To silence this warning, specify "           \
	"disable_custom_all_reduce=True explicitly."
#define P2P                                                                    \
	"is disabled because your platform lacks GPU P2P capability or P2P "   \
	"test failed. To silence this warning, specify "                       \
	"disable_custom_all_reduce=True explicitly."
#define LIST(backends, group)                                                  \
	"INFO 06-14 04:57:12 [cuda_communicator.py:245] Using [" backends      \
	"] all-reduce backends (in dispatch order) for group '" group          \
	"' out of potential backends: ['CUSTOM', 'SYMM_MEM', 'PYNCCL'].\n"
#define CONFIG(settings)                                                       \
	"(EngineCore pid=1) INFO 06-14 04:57:12 [core.py:114] Initializing "   \
	"a V1 LLM engine (v0.23.1) with config: model='m', " settings "\n"
#define STAMP "node-a:30:80 [0] NCCL INFO "

struct line_case {
	const char *what, *text;
	/* NULL: not said */
	const char *engine, *custom, *nccl, *transport, *symm_mem;
	uint64_t tp;
};

static const struct line_case cases[] = {
	/* engines and their starts */
	{"an empty text", "", NULL, NULL, NULL, NULL, NULL, 0},
	{"the server's version", "vLLM API server version 0.9.2\n", "vllm",
	 NULL, NULL, NULL, NULL, 0},
	{"the picture's version",
	 "(APIServer pid=1) INFO 02-05 18:21:20 [utils.py:325]  ▄▄ ▄█ █     █ "
	 "    █ ▀▄▀ █  version 0.15.1\n",
	 "vllm", NULL, NULL, NULL, NULL, 0},
	{"vLLM below V1",
	 "INFO 01-20 08:11:52 llm_engine.py:98] Initializing an LLM engine "
	 "(v0.5.4) with config: model='m', tensor_parallel_size=4, "
	 "disable_custom_all_reduce=False\n",
	 "vllm", NULL, NULL, NULL, NULL, 4},
	{"SGLang's arguments as a dataclass",
	 "[2025-03-10 16:19:28] server_args=ServerArgs(model_path='/m', "
	 "quantization=None, attn_tp_size=7, tp_size=2, dp_size=1)\n",
	 "sglang", NULL, NULL, NULL, NULL, 2},
	{"old SGLang on vLLM's communicator",
	 "server_args=ServerArgs(model_path='/m', tp_size=4, disable=None)\n"
	 "INFO 07-20 pynccl.py:63] vLLM is using nccl==2.20.5\n",
	 "sglang", NULL, "2.20.5", NULL, NULL, 4},

	/* the rules, in the words of their releases */
	{"pcie_more_than_two", "WARNING custom_all_reduce.py:134] " PCIE,
	 "vllm", "pcie_more_than_two", NULL, NULL, NULL, 0},
	{"p2p_failed", "Custom allreduce " P2P, "vllm", "p2p_failed", NULL,
	 NULL, NULL, 0},
	{"world_size_unsupported",
	 "WARNING 07-13 03:43:42 custom_all_reduce.py:129] Custom allreduce is "
	 "disabled due to an unsupported world size: 3. Supported world sizes: "
	 "[2, 4, 6, 8]. To silence this warning, specify "
	 "disable_custom_all_reduce=True explicitly.",
	 "vllm", "world_size_unsupported", NULL, NULL, NULL, 0},
	{"spans_nodes",
	 "Custom allreduce is disabled because this process group spans across "
	 "nodes.",
	 "vllm", "spans_nodes", NULL, NULL, NULL, 0},
	{"spans_nodes of a group without multicast",
	 "Custom collectives are disabled because this multi-node group does "
	 "not support MNNVL multicast.",
	 "vllm", "spans_nodes", NULL, NULL, NULL, 0},
	{"extension_missing",
	 "Custom allreduce is disabled because of missing custom allreduce "
	 "library",
	 "vllm", "extension_missing", NULL, NULL, NULL, 0},
	{"wrapped by a terminal",
	 "Custom allreduce is disabled because it's not supported on\nmore "
	 "than two PCIe-only GPUs.",
	 "vllm", "pcie_more_than_two", NULL, NULL, NULL, 0},
	{"SGLang's first kernel by its class",
	 "[2026-03-03 11:06:07 TP0] CustomAllreduce " P2P, "sglang",
	 "p2p_failed", NULL, NULL, NULL, 0},
	{"SGLang's first kernel in vLLM's words",
	 "[2026-03-03 11:06:07 DP0 TP1 EP1] " PCIE, "sglang",
	 "pcie_more_than_two", NULL, NULL, NULL, 0},
	{"SGLang's second kernel", "CustomAllReduceV2 " P2P, "sglang",
	 "p2p_failed", NULL, NULL, NULL, 0},
	{"the flag",
	 CONFIG("tensor_parallel_size=4, disable_custom_all_reduce=True, "
		"quantization=None"),
	 "vllm", "disabled_by_flag", NULL, NULL, NULL, 4},
	{"SGLang's flag",
	 "server_args={'tp_size': 2, 'disable_custom_all_reduce': True}",
	 "sglang", "disabled_by_flag", NULL, NULL, NULL, 2},
	{"advice is no flag",
	 "vLLM API server version 0.9.2\nTo silence this warning, specify "
	 "disable_custom_all_reduce=True explicitly.",
	 "vllm", NULL, NULL, NULL, NULL, 0},
	{"another thing that is off",
	 "vLLM API server version 0.9.2\nCustom allreduce is disabled for now\n"
	 "Custom quick allreduce is disabled because of x",
	 "vllm", NULL, NULL, NULL, NULL, 0},

	/* on */
	{"listed", LIST("'CUSTOM', 'PYNCCL'", "tp:0"), "vllm", "enabled", NULL,
	 NULL, NULL, 0},
	{"graph addresses",
	 "INFO 05-01 custom_all_reduce.py:219] Registering 4480 cuda graph "
	 "addresses",
	 "vllm", "enabled", NULL, NULL, NULL, 0},
	{"SGLang's second kernel is on",
	 "[2026-09-02 08:00:22 TP0] Custom allreduce v2 initialized "
	 "successfully",
	 "sglang", "enabled", NULL, NULL, NULL, 0},
	{"a configuration of v2 without most of it",
	 "All Reduce config: local_buffer = 8.00 MB", "sglang", "enabled", NULL,
	 NULL, NULL, 0},

	/* which line decides */
	{"the group's list against another group's warning",
	 PCIE "\n" LIST("'CUSTOM', 'PYNCCL'", "tp:0"), "vllm", "enabled", NULL,
	 NULL, NULL, 0},
	{"and in the other order", LIST("'CUSTOM', 'PYNCCL'", "tp:0") PCIE,
	 "vllm", "enabled", NULL, NULL, NULL, 0},
	{"another group's list says nothing of this one",
	 PCIE "\n" LIST("'CUSTOM', 'PYNCCL'", "ep:0"), "vllm",
	 "pcie_more_than_two", NULL, NULL, NULL, 0},
	{"a list without it, and why", LIST("'PYNCCL'", "tp:0") PCIE, "vllm",
	 "pcie_more_than_two", NULL, NULL, NULL, 0},
	{"a list without it, and no word why",
	 LIST("'FLASHINFER', 'PYNCCL'", "tp:0"), "vllm", "", NULL, NULL, NULL,
	 0},
	{"a list without it, by the flag",
	 CONFIG("disable_custom_all_reduce=True, x=1") LIST("'PYNCCL'", "tp:0"),
	 "vllm", "disabled_by_flag", NULL, NULL, NULL, 0},
	{"a warning beats later addresses",
	 PCIE "\nRegistering 5 cuda graph addresses", "vllm",
	 "pcie_more_than_two", NULL, NULL, NULL, 0},
	{"and earlier ones", "Registering 5 cuda graph addresses\n" PCIE,
	 "vllm", "pcie_more_than_two", NULL, NULL, NULL, 0},

	/* failures of a kernel that was on */
	{"it fails when graphs are captured",
	 LIST("'CUSTOM', 'PYNCCL'",
	      "tp:0") "Failed: Cuda error /workspace/csrc/custom_all_reduce"
		      ".cuh:455 'invalid argument'",
	 "vllm", "setup_failed", NULL, NULL, NULL, 0},
	{"in the words before 0.9",
	 "Failed: /home/runner/work/vllm/csrc/custom_all_reduce.cuh:310 "
	 "'invalid argument'",
	 "vllm", "setup_failed", NULL, NULL, NULL, 0},
	{"in SGLang's",
	 "[2026-06-11 TP3] Scheduler hit an exception\nException: Capture cuda "
	 "graph failed: Runtime check failed at /x/distributed/"
	 "custom_all_reduce.cuh:37: CUDA error: invalid argument",
	 "sglang", "setup_failed", NULL, NULL, NULL, 0},
	{"SGLang cannot set it up",
	 "[2026-04-14 16:08:44 TP1] Setup Custom allreduce failed with CUDART "
	 "error: peer access is not supported between these two devices. To "
	 "silence this warning, specify --disable-custom-all-reduce "
	 "explicitly.",
	 "sglang", "setup_failed", NULL, NULL, NULL, 0},
	{"a compiler's warning in the same file",
	 "vLLM API server version 0.9.2\ncsrc/custom_all_reduce.cuh:310: "
	 "warning: unused variable",
	 "vllm", NULL, NULL, NULL, NULL, 0},
	{"what a rule has closed cannot fail",
	 PCIE "\nFailed: /x/custom_all_reduce.cuh:455 'invalid argument'",
	 "vllm", "pcie_more_than_two", NULL, NULL, NULL, 0},

	/* symmetric memory */
	{"capability",
	 "SymmMemCommunicator: Device capability 8.6 not "
	 "supported, communicator is not available.",
	 "vllm", NULL, NULL, NULL, "capability_unsupported", 0},
	{"multicast",
	 "SymmMemCommunicator: symmetric memory multicast operations are not "
	 "supported.",
	 "vllm", NULL, NULL, NULL, "no_multicast", 0},
	{"world size",
	 "SymmMemCommunicator: World size 3 not supported, communicator is not "
	 "available.",
	 "vllm", NULL, NULL, NULL, "world_size_unsupported", 0},
	{"initialisation",
	 "SymmMemCommunicator: symmetric memory initialization failed: x "
	 "Communicator is not available.",
	 "vllm", NULL, NULL, NULL, "failed", 0},
	{"an override is no refusal",
	 "SymmMemCommunicator: Using override max_size: 5 bytes", "vllm", NULL,
	 NULL, NULL, NULL, 0},
	{"listed", LIST("'CUSTOM', 'SYMM_MEM', 'PYNCCL'", "tp:0"), "vllm",
	 "enabled", NULL, NULL, "enabled", 0},

	/* NCCL */
	{"its banner alone", "NCCL version 2.7.8+cuda11.1\n", "nccl", NULL,
	 "2.7.8", NULL, NULL, 0},
	{"its banner from mpirun", "[1,0]<stdout>:NCCL version 2.8.3+cuda11.2",
	 "nccl", NULL, "2.8.3", NULL, NULL, 0},
	{"the engine's NCCL, not PyTorch's",
	 "NCCL version 2.27.5+cuda12.9\nINFO vLLM is using nccl==2.28.9\n",
	 "vllm", NULL, "2.28.9", NULL, NULL, 0},
	{"a patch of 0 ends in a full stop", "vLLM is using nccl==2.29.\n",
	 "vllm", NULL, "2.29", NULL, NULL, 0},
	{"PyTorch's error names it",
	 "[rank0]: torch.distributed.DistBackendError: NCCL error in: "
	 "x.cpp:19, "
	 "unhandled system error, NCCL version 2.20.5",
	 NULL, NULL, "2.20.5", NULL, NULL, 0},
	{"P2P", STAMP "Channel 00/0 : 2[2] -> 1[1] via P2P/IPC/read", "nccl",
	 NULL, NULL, "P2P", NULL, 0},
	{"SHM, 2.30", STAMP "Channel 00 : 0[4000] -> 1[5000] via SHM/direct",
	 "nccl", NULL, NULL, "SHM", NULL, 0},
	{"SHM, before 2.12",
	 STAMP "Ring 00 : 0[1a000] -> 1[3d000] via direct shared memory",
	 "nccl", NULL, NULL, "SHM", NULL, 0},
	{"the network",
	 STAMP "Channel 07/0 : 0[0] -> 2[0] [receive] via NET/IB/3/GDRDMA",
	 "nccl", NULL, NULL, "NET", NULL, 0},
	{"the network, before 2.5",
	 STAMP "Ring 00 : 3 -> 4 [send] via NET/Socket/0", "nccl", NULL, NULL,
	 "NET", NULL, 0},
	{"the network that is not used",
	 STAMP "Using network Socket\n" STAMP "NET/Socket : Using [0]eth0",
	 "nccl", NULL, NULL, NULL, NULL, 0},
	{"two ways",
	 STAMP "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n" STAMP
	       "Channel 00 : 1[1] -> 2[2] via SHM/direct/direct",
	 "nccl", NULL, NULL, "mixed", NULL, 0},
	{"no pair", STAMP "Channel 00/0 : cut [0] -> via P2P/CUMEM", "nccl",
	 NULL, NULL, NULL, NULL, 0},

	/* no logs */
	{"prose about NCCL",
	 "NCCL is slow on my machine. I set NCCL_DEBUG=INFO and the NCCL INFO "
	 "lines show SHM.\nThe NCCL version 2.18.3 of the wheel hangs.\n"
	 "Try NCCL_P2P_DISABLE=1, NCCL WARN goes away.\n",
	 NULL, NULL, NULL, NULL, NULL, 0},
	{"prose about the kernel",
	 "custom allreduce is disabled and vLLM falls back to PYNCCL; see "
	 "custom_all_reduce.py. all-reduce backends differ.",
	 NULL, NULL, NULL, NULL, NULL, 0},
	{"somebody else's arguments", "args: Namespace(lr=0.1, model='resnet')",
	 NULL, NULL, NULL, NULL, NULL, 0},
	{"somebody else's workers", "(Worker pid=5) task done", NULL, NULL,
	 NULL, NULL, NULL, 0},
	{"a topology",
	 "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSYS\t0-31\nGPU1\tSYS\t X "
	 "\t0-31",
	 NULL, NULL, NULL, NULL, NULL, 0},
	{"metrics",
	 "vllm:inter_token_latency_seconds_count{engine=\"0\"} 490.0\n", NULL,
	 NULL, NULL, NULL, NULL, 0},
};

static void try_case(const struct line_case *row)
{
	struct log_facts facts = read_text(row->text);

	tap_ok(same_text(log_engine_name(facts.engine), row->engine),
	       "%s: a log of %s", row->what,
	       row->engine ? row->engine : "nobody");
	tap_ok(!custom_name(&facts) == !row->custom &&
		       same_text(custom_name(&facts), row->custom),
	       "%s: the kernel is %s (got %s)", row->what,
	       row->custom ? row->custom : "not named",
	       custom_name(&facts) ? custom_name(&facts) : "nothing");
	tap_ok(same_text(facts.nccl.text, row->nccl) &&
		       same_text(log_transport_name(facts.transport),
				 row->transport),
	       "%s: NCCL %s by %s", row->what, row->nccl ? row->nccl : "?",
	       row->transport ? row->transport : "?");
	tap_ok(same_text(log_symm_mem_name(facts.symm_mem), row->symm_mem),
	       "%s: symmetric memory", row->what);
	tap_ok(facts.tensor_parallel_size == row->tp,
	       "%s: over %llu ranks (got %llu)", row->what,
	       (unsigned long long)row->tp,
	       (unsigned long long)facts.tensor_parallel_size);
}

/* Strong words replace weak ones, equal ones do not. */
static void try_settings(void)
{
	struct log_facts facts = read_text(
		"$ vllm serve m --tensor-parallel-size 2\n"
		"non-default args: {'model': 'a/b', 'tensor_parallel_size': 4, "
		"'dtype': 'auto'}\n" CONFIG(
			"speculative_config=SpeculativeConfig(model='draft'), "
			"dtype=torch.float16, tensor_parallel_size=8, "
			"quantization=compressed-tensors, enforce_eager=True, "
			"compilation_config={\"pass_config\":"
			"{\"enable_fi_allreduce_fusion\":true}}") CONFIG("dty"
									 "pe="
									 "x"));

	tap_ok(facts.tensor_parallel_size == 8, "what the engine uses counts");
	tap_ok(facts.line.tensor_parallel_size == 3, "by its line");
	tap_ok(!strcmp(facts.model, "m") && !strcmp(facts.dtype, "float16") &&
		       !strcmp(facts.quantization, "compressed-tensors"),
	       "model %s, dtype %s, quantization %s", facts.model, facts.dtype,
	       facts.quantization);
	tap_ok(facts.enforce_eager == LOG_YES && facts.rms_fusion == LOG_YES,
	       "flags in Python's and in JSON's words");
	facts = read_text("non-default args: {'tensor_parallel_size': 4}");
	tap_ok(facts.tensor_parallel_size == 4, "else what it was given");
	facts = read_text("(APIServer pid=1) INFO [utils.py:261] non-default "
			  "args: {'model_tag': 'o/m', 'max_model_len': 8}");
	tap_ok(!strcmp(facts.model, "o/m"), "a model that stood alone: %s",
	       facts.model);
	facts = read_text("vllm serve m --tensor-parallel-size=2");
	tap_ok(facts.tensor_parallel_size == 2, "else the command");
	facts = read_text("python -m sglang.launch_server --tp-size 4 \\");
	tap_ok(facts.tensor_parallel_size == 4, "SGLang's too");
	facts = read_text("tensor_parallel_size=99999999999999999999999");
	tap_ok(!facts.tensor_parallel_size, "a number without end is none");
	facts = read_text(CONFIG("quantization=None, dtype=auto"));
	tap_ok(!facts.quantization[0] && !facts.dtype[0], "None is nothing");
}

static void try_fusion(void)
{
	struct log_facts facts = read_text(
		CONFIG("pass_config={'fuse_allreduce_rms': True}")
			CONFIG("x") "Flashinfer is not installed or comm "
				    "module not found, skipping allreduce "
				    "fusion pass");

	tap_ok(facts.rms_fusion == LOG_NO && facts.line.rms_fusion == 3,
	       "what was done weighs more than what was set");
	facts = read_text("[compilation.py:303] Enabled custom fusions: "
			  "norm_quant, act_quant, allreduce_rms");
	tap_ok(facts.rms_fusion == LOG_YES, "the list of fusions");
	facts = read_text("Enabled custom fusions: norm_quant, act_quant");
	tap_ok(facts.rms_fusion == LOG_NOT_SAID, "another fusion is none");
	facts = read_text("server_args=ServerArgs(tp_size=8, "
			  "enable_flashinfer_allreduce_fusion=True, x=1)");
	tap_ok(facts.rms_fusion == LOG_YES, "SGLang's");
}

static void try_rates(void)
{
	struct log_facts facts = read_text(
		"Engine 000: Avg prompt throughput: 12.0 tokens/s, Avg "
		"generation throughput: 20.3 tokens/s, Running: 1 reqs\n"
		"Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg "
		"generation throughput: 57.5 tokens/s, Running: 1 reqs\n"
		"Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg "
		"generation throughput: 31.0 tokens/s, Running: 0 reqs\n"
		"Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg "
		"generation throughput: 0.0 tokens/s, Running: 0 reqs\n");

	tap_ok(facts.generation_tokens_per_second == 57.5 &&
		       facts.generation_running == 1 && facts.line.rate == 2,
	       "the last rate while something ran");
	facts = read_text("Avg generation throughput: 1.6 tokens/s, Running: 0 "
			  "reqs, Waiting: 0 reqs");
	tap_ok(facts.generation_tokens_per_second == 1.6 &&
		       !facts.generation_running,
	       "one at rest is better than none");
	facts = read_text(
		"[2026-04-05 20:02:51 TP0] Decode batch, #running-req: 32, "
		"#token: 11179, token usage: 0.08, cuda graph: True, gen "
		"throughput (token/s): 1635.11, #queue-req: 0");
	tap_ok(facts.generation_tokens_per_second == 1635.11 &&
		       facts.generation_running == 32,
	       "SGLang's, with its requests");
	facts = read_text("[01:02:03 TP0] Decode batch. #running-req: 1, "
			  "#token: 8, gen throughput (token/s): nan");
	tap_ok(!facts.generation_tokens_per_second, "no number is no rate");
}

/* Two of three drafted tokens are taken: 2.61 of a step. */
static void try_speculation(void)
{
	static const struct {
		const char *text;
		double tokens;
	} rows[] = {
		{"INFO 06-21 23:55:44 [metrics.py:100] SpecDecoding metrics: "
		 "Mean acceptance length: 2.61, Accepted throughput: 72.90 "
		 "tokens/s",
		 2.61},
		{"[2026-08-23 09:06:22 TP0 EP0] Decode batch, #running-req: "
		 "1, #full token: 166400, swa token usage: 0.00, accept len: "
		 "4.42, accept rate: 0.69, gen throughput (token/s): 140.78",
		 4.42},
		{"Mean acceptance length: nan, Accepted", 0},
		{"Mean acceptance length: 0.5", 0},
		{"Mean acceptance length: 1e30", 0},
		{"we saw an accept len: 3.1 there", 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct log_facts facts = read_text(rows[i].text);

		tap_ok(facts.tokens_per_step == rows[i].tokens &&
			       facts.line.tokens_per_step ==
				       (rows[i].tokens > 0),
		       "%g tokens of a step: %.60s", rows[i].tokens,
		       rows[i].text);
	}
}

static void try_environment(void)
{
	struct log_facts facts = read_text(
		"CUDA_VISIBLE_DEVICES=2,3 python -m sglang.launch_server\n"
		"reading GPU P2P access cache from "
		"/x/gpu_p2p_access_cache_for_0,1.json\n"
		"generating GPU P2P access cache in "
		"/x/gpu_p2p_access_cache_for_0,1.json\n");

	tap_ok(!strcmp(facts.visible_devices, "0,1"),
	       "the engine's word on the devices");
	tap_ok(!strcmp(facts.p2p_cache_action, "generate"),
	       "a cache that was made in this run is fresh");
	facts = read_text("CUDA_VISIBLE_DEVICES=2,3 vllm serve");
	tap_ok(!strcmp(facts.visible_devices, "2,3"), "a shell's");
	facts = read_text("{\"CUDA_VISIBLE_DEVICES\": \"GPU-1a,GPU-2b\"}");
	tap_ok(!strcmp(facts.visible_devices, "GPU-1a,GPU-2b"), "a dump's");
	facts = read_text("set CUDA_VISIBLE_DEVICES to the ones you want, or "
			  "CUDA_VISIBLE_DEVICES=$GPUS");
	tap_ok(!facts.visible_devices[0], "a name without devices");
	facts = read_text("ValueError: invalid literal for int() with base 10: "
			  "'MIG-377e0049-554c'");
	tap_ok(facts.uuid_in_visible, "a UUID that int() refuses");
	facts = read_text("ValueError: invalid literal for int() with base 10: "
			  "'abc'");
	tap_ok(!facts.uuid_in_visible, "another text that int() refuses");
	facts = read_text(
		"[t TP0] Setup Custom allreduce failed with invalid literal "
		"for int() with base 10: 'GPU-0e72'. To silence this");
	tap_ok(facts.uuid_in_visible && facts.custom == LOG_CUSTOM_SETUP_FAILED,
	       "both in one line");
}

static void try_nccl(void)
{
	static const struct {
		const char *text;
		bool full;
	} rows[] = {
		{"Error while creating shared memory segment /dev/shm/nccl-x "
		 "(size 9637888), error: No space left on device (28)",
		 true},
		{"include/shm.h:28 NCCL WARN Call to posix_fallocate failed : "
		 "No space left on device",
		 true},
		{"OSError: [Errno 28] No space left on device: '/psm_1a2b'",
		 true},
		{"OSError: [Errno 28] No space left on device: '/root/.cache'",
		 false},
	};
	struct log_facts facts = read_text(
		STAMP
		"NCCL_P2P_LEVEL set by environment to PHB.\n" STAMP
		"NCCL_P2P_LEVEL set by environment to PHB\n" STAMP
		"NCCL_SOCKET_IFNAME set by environment to eth0\n" STAMP
		"NCCL_ALGO set by environment to ring,tree\n" STAMP
		"P2P is disabled between connected GPUs 1 and 0. You can "
		"repress this message with NCCL_IGNORE_DISABLED_P2P=1.\n");

	tap_ok(facts.nccl_setting_count == 2 &&
		       !strcmp(facts.nccl_settings[0], "NCCL_P2P_LEVEL=PHB") &&
		       !strcmp(facts.nccl_settings[1], "NCCL_ALGO=ring,tree"),
	       "settings, once each, without the network's");
	tap_ok(facts.p2p_refused && facts.line.p2p_refused == 5,
	       "peer access refused");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		tap_ok(read_text(rows[i].text).shm_full == rows[i].full,
		       "full is %s: %s",
		       rows[i].full ? "/dev/shm" : "something else",
		       rows[i].text);
	facts = read_text(
		STAMP
		"Channel 00/0 : 1[1] -> 0[0] via P2P/direct pointer/read\n");
	tap_ok(facts.pair_count == 1 && facts.pairs[0].from == 1 &&
		       !facts.pairs[0].to &&
		       !strcmp(facts.pairs[0].via, "P2P/direct pointer/read"),
	       "a way with a blank in it: %s", facts.pairs[0].via);
	facts = read_text(
		STAMP "Channel 00/0 : 0[0] -> 1[1] via P2P/indirect/2[2]\n");
	tap_ok(facts.pair_count == 1 &&
		       !strcmp(facts.pairs[0].via, "P2P/indirect/2[2]"),
	       "a way over a third GPU: %s", facts.pairs[0].via);
	facts = read_text("NCCL version 2.30.7 compiled with CUDA 13.0\n");
	tap_ok(!strcmp(facts.nccl.text, "2.30.7") && facts.engine == LOG_NCCL,
	       "ncclras's words: %s", facts.nccl.text);
}

/* 100 ranks in a ring are more pairs than are kept, and more ranks. */
static void try_limits(void)
{
	struct log_reader *reader = log_reader_create();
	struct log_facts facts;
	char line[512];

	for (int i = 0; i < 100; i++) {
		snprintf(line, sizeof(line),
			 "n:%d:1 [0] NCCL INFO Channel 00 : %d[0] -> %d[0] via "
			 "%s",
			 1000 + i, i, (i + 1) % 100,
			 i == 99 ? "SHM/direct" : "P2P/IPC");
		log_reader_feed(reader, line, strlen(line));
		snprintf(line, sizeof(line), LIST("'A'", "g:%d"), i);
		log_reader_feed(reader, line, strlen(line));
		snprintf(line, sizeof(line),
			 STAMP "NCCL_X%d set by environment to 1", i);
		log_reader_feed(reader, line, strlen(line));
	}
	log_reader_finish(reader, &facts);
	tap_ok(facts.pair_count == LOG_PAIRS && facts.ranks == LOG_RANKS &&
		       facts.group_count == LOG_GROUPS &&
		       facts.nccl_setting_count == 8,
	       "no more is kept than there is room for");
	tap_ok(facts.transport == LOG_TRANSPORT_MIXED,
	       "but the way of a pair that is not kept counts");
}

static void try_ranks(void)
{
	static const struct {
		const char *what, *text;
		uint64_t ranks;
	} rows[] = {
		{"a worker before and after it knows its rank",
		 "(Worker pid=42) INFO a\n(Worker pid=43) INFO b\n"
		 "(Worker_TP1 pid=43) INFO c\n(Worker_TP0_EP0 pid=42) d\n",
		 2},
		{"workers of Ray",
		 "vLLM API server version 0.7.3\n\033[36m(RayWorkerWrapper "
		 "pid=10, ip=10.0.0.1)\033[0m a\n(RayWorkerWrapper pid=11, "
		 "ip=10.0.0.1) b\n",
		 2},
		{"ranks by number",
		 "vLLM API server version 0.9\nworld_size=2 rank=1 "
		 "local_rank=1 distributed_init_method=tcp\nworld_size=2 "
		 "rank=0 local_rank=0 distributed_init_method=tcp\n",
		 2},
		{"SGLang's",
		 "[2026-04-14 16:08:43 TP0] Load weight begin.\n[2026-04-14 "
		 "16:08:43 TP3] Load weight begin.\n",
		 2},
		{"one process with two devices",
		 "n:5:6 [0] NCCL INFO a\nn:5:7 [1] NCCL INFO b\n", 2},
		{"Ray's later workers",
		 "vLLM API server version 0.27.2\n(EngineCore pid=77) "
		 "(RayWorkerProc pid=801) a\n(RayWorkerProc pid=802, "
		 "ip=10.1.1.2) b\n",
		 2},
		{"one of as many as the group has",
		 "vLLM API server version 0.9.2\n(VllmWorker rank=1 pid=9) "
		 "INFO rank 1 in world size 4 is assigned as DP rank 0\n",
		 4},
		{"one of as many as NCCL says",
		 STAMP "ncclCommInitRank comm 0x2f rank 6 nranks 2 cudaDev "
		       "0\n" STAMP "comm 0x2f rank 6 nRanks 8 nNodes 1\n",
		 8},
		{"a number that somebody else printed",
		 STAMP "Init START\nmpirun: nranks 32\n", 1},
		{"more than any run has", STAMP "comm 0x2f nranks 99999999\n",
		 1},
		{"SGLang's at work",
		 "[2026-03-17 17:35:07 DP9 TP9] Decode batch, #running-req: "
		 "12, #token: 768, token usage: 0.00, cuda graph: True, gen "
		 "throughput (token/s): 3.83, #queue-req: 0\n[2026-03-17 "
		 "17:35:07 DP13 TP13] Decode batch, #running-req: 12\n",
		 2},
		{"SGLang's first words",
		 "[10:12:00 TP0] Init nccl begin.\n[10:12:00 TP1] Init nccl "
		 "begin.\n",
		 2},
		{"nobody by name", PCIE "\n" PCIE, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		uint64_t ranks = read_text(rows[i].text).ranks;

		tap_ok(ranks == rows[i].ranks, "%s: %llu ranks (got %llu)",
		       rows[i].what, (unsigned long long)rows[i].ranks,
		       (unsigned long long)ranks);
	}
}

/* Of several starts the last counts that came to the all-reduce. */
static void try_starts(void)
{
	static const char first[] = "vLLM API server version 0.9.2\n" CONFIG(
		"tensor_parallel_size=4, x=1") PCIE "\n";
	static const char second[] = "vLLM API server version 0.11.0\n" CONFIG(
		"tensor_parallel_size=2, x=1")
		LIST("'CUSTOM', 'PYNCCL'", "tp:0");
	char text[4096];
	struct log_facts facts;

	snprintf(text, sizeof(text), "%s%s", first, second);
	facts = read_text(text);
	tap_ok(facts.custom == LOG_CUSTOM_ENABLED &&
		       facts.tensor_parallel_size == 2 &&
		       !strcmp(facts.version.text, "0.11.0") &&
		       !facts.disabled_warnings,
	       "the last start counts");
	snprintf(text, sizeof(text), "%s%svLLM API server version 0.12.0\n",
		 second, first);
	facts = read_text(text);
	tap_ok(facts.custom == LOG_CUSTOM_DISABLED &&
		       facts.tensor_parallel_size == 4 &&
		       !strcmp(facts.version.text, "0.9.2"),
	       "but not one that was cut");
	facts = read_text("vLLM Version: 0.8.5\n\nvLLM API server version "
			  "0.9.2\n");
	tap_ok(!strcmp(facts.version.text, "0.9.2"),
	       "what ran, not what is installed");
	facts = read_text("vLLM Version                : 0.11.0\n" PCIE);
	tap_ok(!strcmp(facts.version.text, "0.11.0"), "else what is installed");
}

/* Any bytes: only that they are read at all, and that they end. */
static void try_bytes(void)
{
	static const char *const pieces[] = {" via P2P/",
					     "0[0] -> 1[1]",
					     "Using [",
					     "all-reduce backends",
					     "No space left on device",
					     "server_args={",
					     "'tp_size': ",
					     "\033[",
					     "Custom allreduce is disabled",
					     "NCCL version ",
					     "tensor_parallel_size=\"",
					     "NCCL INFO ",
					     "\xff\xfe\x00\x80",
					     " set by environment to ",
					     "custom_all_reduce.cuh:9"};
	static char line[3 * 65536];
	struct log_reader *reader = log_reader_create();
	struct log_facts facts;
	unsigned state = 1;

	log_reader_feed(reader, "", 0);
	for (int round = 0; round < 200; round++) {
		size_t used = 0;

		while (used + 64 < sizeof(line)) {
			const char *piece;

			state = state * 1103515245 + 12345;
			piece = pieces[(state >> 16) %
				       (sizeof(pieces) / sizeof(*pieces))];
			memcpy(line + used, piece, strlen(piece));
			used += strlen(piece);
			line[used++] = (char)(state >> 24);
		}
		log_reader_feed(reader, line, used);
	}
	log_reader_finish(reader, &facts);
	tap_ok(facts.pair_count <= LOG_PAIRS, "long lines of literals end");
}

int main(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		try_case(&cases[i]);
	try_settings();
	try_fusion();
	try_rates();
	try_speculation();
	try_environment();
	try_nccl();
	try_limits();
	try_ranks();
	try_starts();
	try_bytes();
	return tap_done();
}
