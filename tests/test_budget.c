/* SPDX-License-Identifier: MIT */
/*
 * The budget's arithmetic and what it concludes, the tables that it rests on:
 * GPUs by name, times of one all-reduce by path.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/budget.h"
#include "tap.h"

/* A model of one part with round figures: 100 layers of 1000 values, 16e9
 * parameters of 2 bytes that split. */
static const struct model round_model = {
	.family = "llama",
	.known_family = true,
	.counted = true,
	.layers = 100,
	.hidden = 1000,
	.parameters_total = 16e9,
	.parameters_active = 16e9,
	.bytes_total = 32e9,
	.bytes_counted = 32e9,
	.activation_bytes = 2,
	.dtype = "bfloat16",
	.part_count = 1,
	.parts = {{.name = "mlp",
		   .parameters = 16e9,
		   .bytes_per_parameter = 2}},
};

static bool is_near(double value, double due, double within)
{
	return fabs(value - due) <= within;
}

static bool is_known(const struct figure *figure)
{
	return figure->source[0];
}

static bool ruled_out(const struct budget *budget, enum budget_verdict verdict)
{
	return budget->not_bound_by & 1u << verdict;
}

static const struct budget_path *path_of(const struct budget *budget,
					 const char *name)
{
	for (int i = 0; i < budget->path_count; i++)
		if (!strcmp(budget->paths[i].time->path, name))
			return &budget->paths[i];
	return NULL;
}

/* A figure within half of the last digit that is due. */
static void is_figure(const struct figure *figure, double due, double within,
		      const char *what)
{
	if (!tap_ok(is_known(figure) && is_near(figure->value, due, within),
		    "%s: %.10g", what, due))
		tap_note("%.12g from \"%s\"", figure->value, figure->source);
}

/* The file of the case, read. */
static bool read_glm5(struct model *model)
{
	const char *source = getenv("SOURCE");
	char name[512], *text = calloc(1, 65536);
	size_t used = 0;
	FILE *file;

	snprintf(name, sizeof(name),
		 "%s/tests/cases/glm5-eight-rtx-pro-6000/config.json",
		 source ? source : ".");
	file = fopen(name, "r");
	if (file) {
		used = fread(text, 1, 65535, file);
		fclose(file);
	}
	used = used && !model_read(name, text, used, model);
	free(text);
	return tap_ok(used, "GLM-5's config is read");
}

static struct log_facts glm5_log(void)
{
	struct log_facts log = {.engine = LOG_VLLM, .enforce_eager = LOG_NO};

	snprintf(log.dtype, sizeof(log.dtype), "torch.bfloat16");
	snprintf(log.quantization, sizeof(log.quantization), "gguf");
	return log;
}

static const struct budget_question glm5_question = {
	.gpu_name = "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
	.gpu_name_origin = "report.txt:2",
	.tp = 8,
	.link = PATH_PCIE,
	.link_known = true,
	.tokens_per_second = 57.5,
	.active_bytes = 28e9,
	.checkpoint_bytes = 402e9,
	.claimed_gb_s = 1500,
	.path_now = "nccl",
};

/* What tests/cases/glm5-eight-rtx-pro-6000/expect.json says. */
static void check_glm5_figures(const struct budget *b)
{
	is_figure(&b->layers, 78, 0, "layers");
	is_figure(&b->all_reduces_per_token, 156, 0, "all-reduces, 2 * 78");
	is_figure(&b->embedding_all_reduces, 1, 0, "the embedding's apart");
	is_figure(&b->message_bytes_per_token, 12288, 0, "bytes, 2 * 6144");
	is_figure(&b->ms_per_token, 17.391, 0.0005, "ms, 1000 / 57.5");
	is_figure(&b->us_per_layer, 222.965, 0.0005, "us a layer, by 78");
	is_figure(&b->active_bytes_per_gpu, 3.5e9, 0, "bytes, 28e9 / 8");
	is_figure(&b->achieved_gb_s_per_gpu, 201.25, 0.005, "3.5 * 57.5");
	is_figure(&b->utilisation_of_claimed_bandwidth, 0.1342, 0.00005,
		  "of the claimed 1500");
	is_figure(&b->gpu_peak_gb_s, 1792, 0, "peak");
	is_figure(&b->utilisation_of_peak, 0.1123, 0.00005, "of the peak");
	is_figure(&b->parameters_total, 743.9e9, 743.9e6, "parameters");
	is_figure(&b->parameters_active, 40.8e9, 40.8e6, "active ones");
	is_figure(&b->all_reduces_per_second, 8970, 0, "156 * 57.5");
	/* 3.5e9 / 1792e9 */
	is_figure(&b->memory_ms_per_token, 1.953, 0.0005, "ms of memory");
}

static void check_glm5_paths(const struct budget *b)
{
	const struct budget_path *nccl = path_of(b, "nccl");
	const struct budget_path *peer = path_of(b, "onehop_peer");
	const struct budget_path *far_away = path_of(b, "onehop_peer_far");

	if (!tap_ok(nccl && peer && far_away && nccl->now && !peer->now,
		    "NCCL is today's path of three"))
		return;
	/* 156 * 17 and 57 us, of 17391 */
	tap_ok(is_near(nccl->low_ms, 2.652, 1e-9) &&
		       is_near(nccl->high_ms, 8.892, 1e-9) &&
		       is_near(nccl->low_share, 0.1525, 0.00005) &&
		       is_near(nccl->high_share, 0.5113, 0.00005),
	       "NCCL: 17 to 57 us a call are 15 to 51 %%");
	tap_ok(is_near(nccl->low_left_ms, 8.4993, 0.0001) &&
		       is_near(nccl->high_left_ms, 14.7393, 0.0001),
	       "8.5 to 14.7 ms of the token are left");
	tap_ok(nccl->low_tokens_per_second == 0, "no forecast for today's");
	/* slowest: 1000 / (17.3913 - 2.652 + 156 * 0.0118), fastest:
	 * 1000 / (17.3913 - 8.892 + 156 * 0.0092) */
	tap_ok(is_near(peer->low_tokens_per_second, 60.31, 0.005) &&
		       is_near(peer->high_tokens_per_second, 100.66, 0.005),
	       "one-shot stores: 60 to 101 tokens/s");
	/* 1000 / (17.3913 - 2.652 + 156 * 0.0643): can be slower than now */
	tap_ok(is_near(far_away->low_tokens_per_second, 40.37, 0.005),
	       "across sockets: 40 at worst");
	for (int i = 0; i < b->path_count; i++)
		tap_ok(b->paths[i].time->source[0], "%s: a source",
		       b->paths[i].time->title);
}

static void try_glm5(void)
{
	struct budget_question question = glm5_question;
	struct log_facts log = glm5_log();
	struct model model;
	struct budget b;

	if (!read_glm5(&model))
		return;
	question.model = &model;
	question.log = &log;
	budget_make(&question, &b);
	tap_ok(b.any, "GLM-5 has a budget");
	check_glm5_figures(&b);
	check_glm5_paths(&b);
	tap_ok(b.verdict == BUDGET_NOT_ENOUGH_EVIDENCE &&
		       !strcmp(budget_verdict_name(b.verdict),
			       "not_enough_evidence"),
	       "the evidence is not enough");
	tap_ok(b.not_bound_by == 1u << BUDGET_MEMORY_BANDWIDTH,
	       "memory alone is ruled out: %s",
	       b.not_bound_why[BUDGET_MEMORY_BANDWIDTH]);
	tap_ok(strstr(b.verdict_why, "15 to 51 %") &&
		       strstr(b.verdict_why, "17 to 57 us") &&
		       strstr(b.verdict_why, "onehop bench --memory device "
					     "--ranks 8 --sizes 12288 "),
	       "it says what is missing: %s", b.verdict_why);
	tap_ok(strstr(b.gpu_peak_gb_s.source, "data sheet") &&
		       strstr(b.gpu_peak_gb_s.source, "report.txt:2"),
	       "peak: %s", b.gpu_peak_gb_s.source);

	/* without --active-bytes: 402e9 of 743.9e9 * 2 bytes scale what a
	 * rank reads; more than an eighth of the active ones, for MLA's way
	 * down and the indexer are read by each */
	question.active_bytes = 0;
	budget_make(&question, &b);
	tap_ok(b.active_bytes_per_gpu.value > 40.8e9 * 402 / 743.9 / 8 &&
		       b.active_bytes_per_gpu.value < 40.8e9 * 402 / 743.9 / 4,
	       "counted: %.4g bytes, %s", b.active_bytes_per_gpu.value,
	       b.active_bytes_per_gpu.source);
	/* the log says gguf, of which the config knows nothing */
	question.checkpoint_bytes = 0;
	budget_make(&question, &b);
	tap_ok(!is_known(&b.active_bytes_per_gpu) &&
		       !is_known(&b.utilisation_of_peak) && !b.not_bound_by &&
		       strstr(b.verdict_why, "--checkpoint-bytes"),
	       "bytes of another quantization are not made up: %s",
	       b.verdict_why);
}

/* Where the rate comes from. */
static void try_rates(void)
{
	struct metrics metrics = {
		.found = true,
		.metric = "vllm:inter_token_latency_seconds",
		.tokens = 1623,
		.mean_ms = 20,
		.running = 16,
	};
	struct log_facts log = {
		.generation_tokens_per_second = 120,
		.generation_running = 3,
		.line.rate = 77,
	};
	struct budget_question question = {.model = &round_model,
					   .log = &log,
					   .metrics = &metrics,
					   .tokens_per_second = 10};
	struct budget b;

	budget_make(&question, &b);
	is_figure(&b.tokens_per_second, 10, 0, "the option first");
	question.tokens_per_second = 0;
	budget_make(&question, &b);
	is_figure(&b.tokens_per_second, 50, 0, "metrics next, 1000 / 20");
	tap_ok(strstr(b.tokens_per_second.source, "1623 tokens") &&
		       b.batch.value == 1 &&
		       strstr(b.batch.source, "16 requests"),
	       "batch: %s", b.batch.source);
	metrics.tokens = 0;
	budget_make(&question, &b);
	is_figure(&b.tokens_per_second, 40, 0, "the log last, 120 / 3");
	tap_ok(strstr(b.tokens_per_second.source, "line 77") &&
		       b.batch.value == 3 &&
		       b.message_bytes_per_token.value == 3 * 2000,
	       "with its running requests as batch");
	question.batch = 4;
	budget_make(&question, &b);
	tap_ok(b.batch.value == 4 && b.message_bytes_per_token.value == 8000,
	       "unless a batch is given");
	question.message_bytes = 65536;
	budget_make(&question, &b);
	tap_ok(b.message_bytes_per_token.value == 65536 &&
		       !strcmp(b.message_bytes_per_token.source, "as given"),
	       "or the bytes are");
	question.message_bytes = 0;
	log.generation_running = 0;
	budget_make(&question, &b);
	tap_ok(!is_known(&b.tokens_per_second) && !is_known(&b.ms_per_token) &&
		       !is_known(&b.all_reduces_per_second) &&
		       strstr(b.verdict_why, "--tokens-per-second"),
	       "a rate of nobody's requests is none: %s", b.verdict_why);
	question.tokens_per_second = NAN;
	budget_make(&question, &b);
	tap_ok(!is_known(&b.tokens_per_second), "not a number is none");
}

/* A log's 2.5 tokens of a step: no share of a token's time is one of a step. */
static void try_speculation(void)
{
	struct metrics metrics = {.metric = "m", .tokens = 9, .mean_ms = 5};
	struct log_facts log = {.tokens_per_step = 2.5,
				.line.tokens_per_step = 88};
	struct budget_question question = {
		.model = &round_model,
		.log = &log,
		.tp = 8,
		.link = PATH_PCIE,
		.link_known = true,
		.peak_gb_s = 1000,
		.tokens_per_second = 200,
		.path_now = "nccl",
	};
	struct budget b;

	budget_make(&question, &b);
	tap_ok(b.verdict == BUDGET_NOT_ENOUGH_EVIDENCE && !b.not_bound_by &&
		       strstr(b.verdict_why, "2.5 tokens of one step") &&
		       strstr(b.verdict_why, "line 88"),
	       "no verdict: %s", b.verdict_why);
	tap_ok(path_of(&b, "onehop_peer")->high_tokens_per_second == 0,
	       "and no forecast");
	question.tokens_per_second = 0;
	log.generation_tokens_per_second = 200;
	log.generation_running = 1;
	budget_make(&question, &b);
	tap_ok(strstr(b.verdict_why, "one step"), "nor by the log's rate");
	/* one observation for each output, whatever is in it */
	question.metrics = &metrics;
	budget_make(&question, &b);
	tap_ok(b.verdict == BUDGET_MEMORY_BANDWIDTH, "metrics count steps: %s",
	       b.verdict_why);
	question.metrics = NULL;
	log.tokens_per_step = 1;
	budget_make(&question, &b);
	tap_ok(b.verdict == BUDGET_MEMORY_BANDWIDTH, "one token is no draft");
}

/* Layers that are not summed twice. */
static void try_sums(void)
{
	struct model model = round_model;
	struct budget_question question = {
		.model = &model,
		.tp = 8,
		.link = PATH_PCIE,
		.link_known = true,
		.tokens_per_second = 10,
	};
	struct budget b;

	model.known_family = model.counted = false;
	budget_make(&question, &b);
	tap_ok(b.all_reduces_per_token.value == 200 &&
		       !strncmp(b.all_reduces_per_token.source, "assumed", 7),
	       "an unknown family: %s", b.all_reduces_per_token.source);
	model.layers_of_one_sum = 100;
	budget_make(&question, &b);
	tap_ok(b.all_reduces_per_token.value == 100 && b.path_count > 0,
	       "once a layer: %s", b.all_reduces_per_token.source);
	model.sums_unknown = true;
	budget_make(&question, &b);
	tap_ok(!is_known(&b.all_reduces_per_token) && !b.path_count &&
		       !is_known(&b.all_reduces_per_second) &&
		       is_known(&b.layers) && is_known(&b.us_per_layer),
	       "not said: none, and no path");
}

struct judged {
	const char *what;
	double tokens_per_second;
	const char *path_now;
	enum log_bool eager;
	enum budget_verdict verdict;
	uint32_t not_bound_by;
	const char *why; /* is in verdict_why */
};

#define MEMORY (1u << BUDGET_MEMORY_BANDWIDTH)
#define CALLS (1u << BUDGET_COMMUNICATION)

/*
 * The round model on 8 ranks over PCIe: a rank reads 4e9 bytes a token, of
 * 1000 GB/s, so r tokens/s are r * 0.004 of the peak. 200 calls of 2000 bytes
 * take 3.4 to 11.4 ms by NCCL.
 */
static const struct judged judged[] = {
	/* 5 ms: NCCL's 3.4 would be most of it, yet memory decides */
	{"80 % of the peak", 200, "nccl", LOG_NO, BUDGET_MEMORY_BANDWIDTH, 0,
	 "80 %"},
	{"60 % of the peak", 150, "nccl", LOG_NO, BUDGET_MEMORY_BANDWIDTH, 0,
	 "60 %"},
	/* 6.71 ms, 3.4 of them: 51 % */
	{"59.6 %, calls half of it", 149, "nccl", LOG_NO, BUDGET_COMMUNICATION,
	 0, "51 %"},
	/* 6.94 ms, 3.4 of them: 49 % */
	{"57.6 %, calls less than half", 144, "nccl", LOG_NO,
	 BUDGET_NOT_ENOUGH_EVIDENCE, 0, "49 to 164 %"},
	{"40 % is not ruled out", 100, "nccl", LOG_NO,
	 BUDGET_NOT_ENOUGH_EVIDENCE, 0, "34 to 114 %"},
	{"39.6 % is", 99, "nccl", LOG_NO, BUDGET_NOT_ENOUGH_EVIDENCE, MEMORY,
	 "34 to 113 %"},
	/* 100 ms: at most 11.4 % are calls */
	{"calls under 15 %", 10, "nccl", LOG_NO, BUDGET_NOT_ENOUGH_EVIDENCE,
	 MEMORY | CALLS, "3 to 11 %"},
	/* 66.7 ms: 17 % at most */
	{"calls of 17 % are not ruled out", 15, "nccl", LOG_NO,
	 BUDGET_NOT_ENOUGH_EVIDENCE, MEMORY, "5 to 17 %"},
	/* 100 ms, less 11.4 of calls and 4 / 0.6 of memory: 82 % */
	{"eager, most of it unexplained", 10, "nccl", LOG_YES, BUDGET_LAUNCH,
	 MEMORY | CALLS, "82 %"},
	/* 33.3 ms, less 11.4 and 6.67: 46 % */
	{"eager, less than half unexplained", 30, "nccl", LOG_YES,
	 BUDGET_NOT_ENOUGH_EVIDENCE, MEMORY, "10 to 34 %"},
	{"eager, path not known", 10, NULL, LOG_YES, BUDGET_NOT_ENOUGH_EVIDENCE,
	 MEMORY, "not known"},
	/* nobody measured a custom kernel of eight PCIe ranks */
	{"a path without a row", 10, "custom", LOG_NO,
	 BUDGET_NOT_ENOUGH_EVIDENCE, MEMORY, "nobody measured"},
	/* 120 % of the peak */
	{"more than the peak", 300, "custom", LOG_NO,
	 BUDGET_NOT_ENOUGH_EVIDENCE, 0, "impossible"},
};

static void try_judged(const struct judged *j)
{
	struct log_facts log = {.enforce_eager = j->eager};
	struct budget_question question = {
		.model = &round_model,
		.log = &log,
		.tp = 8,
		.link = PATH_PCIE,
		.link_known = true,
		.peak_gb_s = 1000,
		.tokens_per_second = j->tokens_per_second,
		.path_now = j->path_now,
	};
	struct budget b;

	budget_make(&question, &b);
	if (!tap_ok(b.verdict == j->verdict, "%s: %s", j->what,
		    budget_verdict_name(j->verdict)))
		tap_note("%s: %s", budget_verdict_name(b.verdict),
			 b.verdict_why);
	if (!tap_ok(strstr(b.verdict_why, j->why), "because: %s", j->why))
		tap_note("%s", b.verdict_why);
	if (!tap_ok(b.not_bound_by == j->not_bound_by, "what is ruled out"))
		tap_note("%x", b.not_bound_by);
}

/* No forecast beyond what the ranges and the memory allow. */
static void try_forecasts(void)
{
	struct budget_question question = {
		.model = &round_model,
		.tp = 4,
		.link = PATH_PCIE,
		.link_known = true,
		.peak_gb_s = 1000,
		.path_now = "nccl",
	};
	const struct budget_path *pinned;
	struct budget b;

	/* 8 ms of memory on 4 ranks; 10 ms a token leave 2 for calls, of
	 * which NCCL's 200 * 13 us are too many: 2 at most and at least */
	question.tokens_per_second = 100;
	budget_make(&question, &b);
	pinned = path_of(&b, "onehop_pinned");
	tap_ok(pinned && is_near(pinned->high_tokens_per_second,
				 1000 / (8 + 0.54), 1e-9),
	       "never faster than memory and the new calls");
	tap_ok(pinned && is_near(pinned->low_tokens_per_second,
				 1000 / (8 + 1.44), 1e-9),
	       "a range of today's calls is cut likewise");
	/* 20 ms a token: 2.6 to 6.6 ms of NCCL, 0.54 to 1.44 instead */
	question.tokens_per_second = 50;
	budget_make(&question, &b);
	pinned = path_of(&b, "onehop_pinned");
	tap_ok(pinned &&
		       is_near(pinned->low_tokens_per_second,
			       1000 / (20 - 2.6 + 1.44), 1e-9) &&
		       is_near(pinned->high_tokens_per_second,
			       1000 / (20 - 6.6 + 0.54), 1e-9),
	       "least of today's with most of the new, and the reverse");
	question.path_now = NULL;
	budget_make(&question, &b);
	pinned = path_of(&b, "onehop_pinned");
	tap_ok(pinned && pinned->low_tokens_per_second == 0,
	       "none if today's path is not known");
	/* 1 ms a token, NCCL's calls 2.6 */
	question.path_now = "nccl";
	question.tokens_per_second = 1000;
	question.model = NULL;
	budget_make(&question, &b);
	tap_ok(b.path_count == 0 && b.verdict == BUDGET_NOT_ENOUGH_EVIDENCE &&
		       strstr(b.verdict_why, "config.json"),
	       "no paths without a message: %s", b.verdict_why);
}

static void try_contradiction(void)
{
	struct budget_question question = {
		.model = &round_model,
		.tp = 4,
		.link = PATH_PCIE,
		.link_known = true,
		.active_bytes = 1e6,
		.peak_gb_s = 1000,
		.tokens_per_second = 1000,
		.path_now = "nccl",
	};
	struct budget b;

	budget_make(&question, &b);
	tap_ok(b.verdict == BUDGET_NOT_ENOUGH_EVIDENCE &&
		       strstr(b.verdict_why, "longer than the whole token"),
	       "calls that outlast the token decide nothing");
	tap_ok(b.paths[1].low_tokens_per_second == 0, "nor forecast");
}

/* What is not given is not made up. */
static void try_missing(void)
{
	struct budget_question question = {0};
	struct model unknown = {.family = "newton",
				.layers = 10,
				.hidden = 64,
				.activation_bytes = 2};
	struct budget b;

	budget_make(&question, &b);
	tap_ok(!b.any && !is_known(&b.layers) && !b.path_count,
	       "of nothing comes nothing");
	question.model = &unknown;
	budget_make(&question, &b);
	tap_ok(b.any && b.all_reduces_per_token.value == 20 &&
		       b.message_bytes_per_token.value == 128 &&
		       !is_known(&b.parameters_total) &&
		       !is_known(&b.active_bytes_per_gpu),
	       "an unknown family: calls and bytes, no parameters");
	question.model = &round_model;
	question.tokens_per_second = 50;
	question.active_bytes = 8e9;
	budget_make(&question, &b);
	tap_ok(!is_known(&b.active_bytes_per_gpu) &&
		       strstr(b.verdict_why, "tensor-parallel size"),
	       "no ranks, no bytes of one: %s", b.verdict_why);
	question.tp = 8;
	question.gpu_name = "NVIDIA RTX PRO 6000 Blac...";
	budget_make(&question, &b);
	tap_ok(b.achieved_gb_s_per_gpu.value == 50 &&
		       !is_known(&b.gpu_peak_gb_s) &&
		       strstr(b.verdict_why, "--peak-gb-s"),
	       "an edition that is cut off: %s", b.verdict_why);
	question.peak_gb_s = 1000;
	budget_make(&question, &b);
	tap_ok(strstr(b.verdict_why, "topo -m"), "no links: %s", b.verdict_why);
	question.tp = 1;
	budget_make(&question, &b);
	tap_ok(b.all_reduces_per_token.value == 0 && !b.path_count &&
		       ruled_out(&b, BUDGET_COMMUNICATION),
	       "one rank sums nothing: %s",
	       b.not_bound_why[BUDGET_COMMUNICATION]);
}

static void try_hardware(void)
{
	static const struct {
		const char *name;
		double gb_s; /* 0: not known */
	} names[] = {
		{"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 1792},
		{"NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
		 1792},
		{"NVIDIA RTX PRO 6000 Blackwell Server Edition", 1597},
		{"NVIDIA RTX PRO 6000 Blackwell S...", 1597},
		{"NVIDIA RTX PRO 6000 Blac...", 0},
		{"NVIDIA RTX PRO 6000 Blackwell", 0},
		{"NVIDIA H100 80GB HBM3", 3352},
		{"NVIDIA H100 PCIe", 2039},
		{"NVIDIA H100 NVL", 3938},
		{"NVIDIA H100", 0},
		{"NVIDIA H100 80GB HBM3 MIG 1g.10gb", 0},
		{"NVIDIA H200", 4800},
		{"NVIDIA H20", 4000},
		{"NVIDIA B200", 8000},
		{"NVIDIA B300 SXM6 AC", 8000},
		{"NVIDIA A100-SXM4-40GB", 1555},
		{"NVIDIA A100-SXM4-80GB", 2039},
		{"NVIDIA A100-PCIE-40GB", 1555},
		{"NVIDIA A100 80GB PCIe", 1935},
		{"NVIDIA A10", 600},
		{"NVIDIA A10-24Q", 0},
		{"NVIDIA L40S", 864},
		{"NVIDIA L40", 864},
		{"NVIDIA L4", 300},
		{"Tesla T4", 320},
		{"Tesla V100-SXM2-16GB", 900},
		{"NVIDIA RTX 6000 Ada Generation", 960},
		{"NVIDIA RTX 5880 Ada Generation", 960},
		{"Quadro RTX 6000", 672},
		{"NVIDIA RTX A6000", 768},
		{"NVIDIA GeForce RTX 3090", 936},
		{"NVIDIA GeForce RTX 3090 Ti", 1008},
		{"NVIDIA GeForce RTX 4090", 1008},
		{"NVIDIA GeForce RTX 4090 D", 1008},
		{"NVIDIA GeForce RTX 4090 Laptop GPU", 576},
		{"NVIDIA GeForce RTX 4070 Ti SUPER", 672},
		{"NVIDIA GeForce RTX 5070 Ti", 896},
		{"NVIDIA GeForce RTX 5090", 1792},
		{"NVIDIA GeForce RTX 3080 Laptop GPU", 0},
		{"NVIDIA GeForce RTX 2080 ...", 0},
		{"AMD Instinct MI300X", 0},
		{"NVIDIA", 0},
		{"...", 0},
		{"", 0},
		{"a b c d e f g h i j k l m n o p", 0},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct hardware *found = hardware_named(names[i].name);

		if (!tap_ok(found ? found->memory_gb_s == names[i].gb_s &&
					    found->source[0]
				  : names[i].gb_s == 0,
			    "%s: %.0f GB/s", names[i].name, names[i].gb_s))
			tap_note("%s", found ? found->name : "not known");
	}
	tap_ok(!hardware_named(NULL), "no name");
	tap_ok(hardware_named("RTX 4090")->geforce &&
		       hardware_named("NVIDIA TITAN RTX")->geforce &&
		       !hardware_named("NVIDIA RTX A6000")->geforce,
	       "which ones the driver refuses peer access");
	tap_ok(hardware_named("NVIDIA RTX PRO 6000 Blackwell Server Edition")
				       ->capability == 120 &&
		       hardware_named("NVIDIA H200")->capability == 90,
	       "compute capabilities");
}

static void try_path_times(void)
{
	const struct path_time *rows[BUDGET_PATHS];
	bool sane = true, nccl = true;

	for (int ranks = 2; ranks <= 16; ranks++)
		for (int bytes = 1024; bytes <= 65536; bytes += 1024) {
			int count =
				path_times(PATH_PCIE, ranks, (uint64_t)bytes,
					   rows, BUDGET_PATHS);

			nccl &= count && !strcmp(rows[0]->path, "nccl");
			for (int i = 0; i < count; i++)
				sane &= rows[i]->low_us > 0 &&
					rows[i]->low_us < rows[i]->high_us &&
					rows[i]->link == PATH_PCIE;
			for (int i = 1; i < count; i++)
				sane &= strcmp(rows[i]->path,
					       rows[i - 1]->path) != 0;
		}
	tap_ok(nccl, "NCCL over PCIe has a row for 2 to 16 ranks");
	tap_ok(sane, "each path once, its range above 0");
	path_times(PATH_PCIE, 8, 8192, rows, 1);
	tap_ok(rows[0]->low_us == 17 && rows[0]->high_us == 57,
	       "8 ranks, 8 KB: 17 to 57 us");
	path_times(PATH_PCIE, 8, 16384, rows, 1);
	tap_ok(rows[0]->low_us == 17 && rows[0]->high_us == 57,
	       "8 ranks, 16 KB: likewise");
	tap_ok(path_times(PATH_NVLINK, 4, 8192, rows, BUDGET_PATHS) == 3 &&
		       !rows[3],
	       "NVLink: NCCL, the engine's, Onehop's; then NULL");
	tap_ok(path_times(PATH_PCIE, 1, 8192, rows, 2) == 0 && !rows[0] &&
		       path_times(PATH_PCIE, 8, 1 << 30, rows, 2) == 0,
	       "one rank or a large message: no row");
}

int main(void)
{
	setenv("ONEHOP_LOG", "off", 0);
	try_glm5();
	try_rates();
	try_speculation();
	try_sums();
	for (size_t i = 0; i < sizeof(judged) / sizeof(judged[0]); i++)
		try_judged(&judged[i]);
	try_forecasts();
	try_contradiction();
	try_missing();
	try_hardware();
	try_path_times();
	return tap_done();
}
