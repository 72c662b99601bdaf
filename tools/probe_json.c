/* SPDX-License-Identifier: MIT */
/* The same as JSON; what is not known is null. */
#include <jansson.h>

#include "tools/probe_write.h"
#include "tools/stamp_json.h"
#include "tools/text_json.h"

static json_t *figure_json(const struct probe_figure *figure)
{
	if (!figure->known)
		return json_null();
	return json_pack("{s:f, s:f}", "median", figure->median, "best",
			 figure->best);
}

/* Figures by way. */
static json_t *ways_json(const struct probe_figure *figures)
{
	json_t *object = json_object();

	for (int way = 0; way < PROBE_WAYS; way++)
		json_object_set_new(object, probe_way_name((enum probe_way)way),
				    figure_json(&figures[way]));
	return object;
}

static json_t *count_json(const struct probe_count *count)
{
	return json_pack("{s:I, s:I}", "words", (json_int_t)count->words,
			 "wrong", (json_int_t)count->wrong);
}

static json_t *problem_json(const struct probe_problem *problem)
{
	if (problem->trouble == PROBE_FINE)
		return json_null();
	return json_pack("{s:s?, s:s?, s:i, s:o}", "step", problem->step,
			 "call", problem->call, "code", problem->code,
			 "code_name", text_json(problem->code_name));
}

/* -1 is not known. */
static json_t *answer_json(int answer)
{
	return answer < 0 ? json_null() : json_boolean(answer);
}

static json_t *number_json(int number)
{
	return number < 0 ? json_null() : json_integer(number);
}

static json_t *host_json(const struct probe_gpu *gpu)
{
	return json_pack("{s:o, s:o, s:o, s:o}", "flag_us",
			 figure_json(&gpu->host_flag), "load_us",
			 figure_json(&gpu->host_load), "gb_s",
			 ways_json(gpu->host), "copy_back_gb_s",
			 figure_json(&gpu->host_copy_back));
}

static json_t *gpu_json(const struct probe_gpu *gpu)
{
	double peak = probe_peak(gpu);
	json_t *object = json_pack(
		"{s:i, s:o, s:o, s:i, s:i, s:o, s:s, s:o, s:o}", "gpu",
		gpu->ordinal, "pci", text_json(gpu->address), "name",
		text_json(gpu->name), "capability", gpu->capability,
		"multiprocessors", gpu->multiprocessors, "numa_node",
		number_json(gpu->node), "state", probe_state(&gpu->problem),
		"problem", problem_json(&gpu->problem), "check",
		count_json(&gpu->count));

	json_object_set_new(
		object, "own",
		json_pack("{s:o, s:o, s:o}", "load_us",
			  figure_json(&gpu->latency), "gb_s",
			  ways_json(gpu->own), "peak_gb_s",
			  peak > 0 ? json_real(peak) : json_null()));
	json_object_set_new(object, "host", host_json(gpu));
	return object;
}

static json_t *pair_json(const struct probe *probe, int from, int to)
{
	const struct probe_pair *pair = &probe->pair[from][to];
	json_t *object = json_pack(
		"{s:i, s:i, s:s, s:o, s:o, s:o, s:o}", "from",
		probe->gpu[from].ordinal, "to", probe->gpu[to].ordinal, "state",
		probe_state(&pair->problem), "problem",
		problem_json(&pair->problem), "driver_says_access",
		answer_json(pair->says), "native_atomics",
		answer_json(pair->atomics), "performance_rank",
		number_json(pair->rank));
	json_t *check = json_object();

	for (int way = 0; way < PROBE_WAYS; way++)
		json_object_set_new(check, probe_way_name((enum probe_way)way),
				    count_json(&pair->count[way]));
	json_object_set_new(object, "check", check);
	json_object_set_new(object, "latency_us",
			    ways_json(pair->latency[PROBE_ALONE]));
	json_object_set_new(object, "latency_us_together",
			    ways_json(pair->latency[PROBE_TOGETHER]));
	json_object_set_new(object, "latency_us_host",
			    figure_json(&pair->host_latency));
	json_object_set_new(object, "gb_s", ways_json(pair->rate[PROBE_ALONE]));
	json_object_set_new(object, "gb_s_together",
			    ways_json(pair->rate[PROBE_TOGETHER]));
	return object;
}

static json_t *findings_json(const struct probe *probe)
{
	struct probe_finding findings[PROBE_FINDINGS];
	int count = probe_find(probe, findings);
	json_t *array = json_array();

	for (int i = 0; i < count; i++)
		json_array_append_new(
			array,
			json_pack("{s:o, s:o, s:o}", "title",
				  text_json(findings[i].title), "evidence",
				  text_json(findings[i].evidence), "advice",
				  text_json(findings[i].advice)));
	return array;
}

/* Under the names of `onehop bench`. */
static json_t *device_json(const struct probe *probe,
			   const struct probe_about *about)
{
	char cuda[16];

	bench_cuda_version(probe->cuda, cuda, sizeof(cuda));
	return json_pack("{s:o, s:o}", "driver_version",
			 stamp_text(about->driver), "cuda_version",
			 stamp_text(cuda));
}

bool probe_write_json(const struct probe *probe,
		      const struct probe_about *about, FILE *out)
{
	json_t *gpus = json_array(), *pairs = json_array();
	json_t *root;
	bool written;

	for (int i = 0; i < probe->gpus; i++) {
		json_array_append_new(gpus, gpu_json(&probe->gpu[i]));
		for (int j = 0; j < probe->gpus; j++)
			if (i != j)
				json_array_append_new(pairs,
						      pair_json(probe, i, j));
	}
	root = json_pack(
		"{s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:i, s:I, s:I, "
		"s:I, s:o, s:o, s:o}",
		"schema_version", 1, "version", oh_version(), "commit",
		stamp_commit(), "end_time", stamp_time(), "machine",
		stamp_machine(&about->machine), "device",
		device_json(probe, about), "arguments",
		stamp_words(about->argc, about->argv), "quick", probe->quick,
		"late", probe->late, "left_out", probe->left_out, "bytes",
		(json_int_t)probe->bytes, "host_bytes",
		(json_int_t)probe->host_bytes, "together_bytes",
		(json_int_t)probe->together_bytes, "gpus", gpus, "pairs", pairs,
		"findings", findings_json(probe));
	written = root && !json_dumpf(root, out, JSON_INDENT(2)) &&
		  fputc('\n', out) != EOF;
	json_decref(root);
	return written;
}
