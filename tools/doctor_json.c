/* SPDX-License-Identifier: MIT */
/*
 * JSON, schema_version 1. Keys are only ever added. What was not given or
 * cannot be said is null; numbers are numbers, units are in the keys' names.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor_write.h"
#include "tools/machine_json.h"
#include "tools/text_json.h"

static json_t *text_or_null(const char *value)
{
	return value && *value ? text_json(value) : json_null();
}

static json_t *count_or_null(uint64_t value)
{
	return value ? json_integer((json_int_t)value) : json_null();
}

static json_t *bool_or_null(enum log_bool value)
{
	return value == LOG_NOT_SAID ? json_null()
				     : json_boolean(value == LOG_YES);
}

/* A whole number stays one; a figure keeps six digits that count. */
static json_t *number(double value)
{
	char digits[32];

	if (!isfinite(value))
		return json_null();
	if (fabs(value) < 9e15 && value == floor(value))
		return json_integer((json_int_t)value);
	snprintf(digits, sizeof(digits), "%.6g", value);
	return json_real(fabs(value) < 1e6 ? strtod(digits, NULL) : value);
}

static json_t *number_or_null(bool known, double value)
{
	return known ? number(value) : json_null();
}

static json_t *list_inputs(const struct diagnosis *d)
{
	json_t *list = json_array();

	for (int i = 0; i < d->input_count; i++)
		json_array_append_new(
			list, json_pack("{s:o, s:s}", "file",
					text_json(d->inputs[i].file), "kind",
					input_kind_name(d->inputs[i].kind)));
	return list;
}

static json_t *list_steps(const struct gate *gate)
{
	json_t *list = json_array();

	for (int i = 0; i < gate->step_count; i++) {
		const struct gate_step *step = &gate->steps[i];

		json_array_append_new(
			list,
			json_pack("{s:s, s:o, s:s, s:o, s:o, s:b, s:b, s:o}",
				  "id", step->id, "question",
				  text_json(step->question), "answer",
				  gate_answer_name(step->answer), "evidence",
				  text_or_null(step->evidence), "origin",
				  text_or_null(step->origin), "reached",
				  step->reached, "decides", step->decides,
				  "source", text_or_null(step->source)));
	}
	return list;
}

static json_t *list_overrides(const struct gate *gate)
{
	json_t *list = json_array();

	for (int i = 0; i < gate->override_count; i++)
		json_array_append_new(
			list,
			json_pack("{s:o, s:o}", "what",
				  text_json(gate->overrides[i].what), "risk",
				  text_or_null(gate->overrides[i].risk)));
	return list;
}

static json_t *list_assumed(const struct gate *gate)
{
	json_t *list = json_array();

	for (int i = 0; i < gate->assumed_count; i++)
		json_array_append_new(list, text_json(gate->assumed[i]));
	return list;
}

static json_t *list_pairs(const struct gate *gate)
{
	json_t *list = json_array();

	for (int i = 0; i < gate->pair_count; i++)
		json_array_append_new(
			list,
			json_pack("{s:i, s:i, s:o, s:o}", "from",
				  gate->pairs[i].from, "to", gate->pairs[i].to,
				  "transport",
				  text_or_null(gate->pairs[i].transport),
				  "rule", text_or_null(gate->pairs[i].why)));
	return list;
}

static json_t *gate_json(const struct gate *gate)
{
	json_t *object = json_pack(
		"{s:s, s:o, s:b, s:b, s:s, s:i, s:o, s:s, s:o, s:o, s:o, s:o, "
		"s:o, s:o, s:o, s:o}",
		"engine", gate->engine, "version",
		text_or_null(gate->version.text), "version_assumed",
		gate->version_assumed, "version_estimated",
		gate->version_estimated, "feature", gate->feature, "tp",
		gate->tp, "bytes", count_or_null(gate->bytes), "verdict",
		gate_verdict_name(gate->verdict), "rule",
		text_or_null(gate->rule), "log_line",
		text_or_null(gate->log_line), "summary",
		text_or_null(gate->summary), "if_yes",
		text_or_null(gate->if_yes), "if_no", text_or_null(gate->if_no),
		"chain", list_steps(gate), "overrides", list_overrides(gate),
		"assumed", list_assumed(gate));

	if (gate->transport) {
		json_object_set_new(object, "transport",
				    text_json(gate->transport));
		json_object_set_new(object, "pairs", list_pairs(gate));
	}
	return object;
}

static json_t *list_gates(const struct diagnosis *d)
{
	json_t *list = json_array();

	for (int i = 0; i < d->gate_count; i++)
		json_array_append_new(list, gate_json(&d->gates[i]));
	return list;
}

static json_t *log_groups(const struct log_facts *log)
{
	json_t *groups = json_object();

	for (int i = 0; i < log->group_count; i++) {
		json_t *list = json_array();

		for (int k = 0; k < log->groups[i].count; k++)
			json_array_append_new(
				list, text_json(log->groups[i].backend[k]));
		json_object_set_new(groups, log->groups[i].group, list);
	}
	return groups;
}

static json_t *log_pairs(const struct log_facts *log)
{
	json_t *pairs = json_object();

	for (int i = 0; i < log->pair_count; i++) {
		char key[32];

		snprintf(key, sizeof(key), "%d->%d", log->pairs[i].from,
			 log->pairs[i].to);
		json_object_set_new(pairs, key, text_json(log->pairs[i].via));
	}
	return pairs;
}

static json_t *log_custom(const struct log_facts *log)
{
	switch (log->custom) {
	case LOG_CUSTOM_ENABLED:
		return json_string("enabled");
	case LOG_CUSTOM_DISABLED:
		return text_or_null(log->custom_rule);
	case LOG_CUSTOM_SETUP_FAILED:
		return json_string("setup_failed");
	case LOG_CUSTOM_UNKNOWN:
		break;
	}
	return json_null();
}

static json_t *log_settings(const struct log_facts *log)
{
	json_t *list = json_array();

	for (int i = 0; i < log->nccl_setting_count; i++)
		json_array_append_new(list, text_json(log->nccl_settings[i]));
	return list;
}

static json_t *log_cache(const struct log_facts *log)
{
	if (!*log->p2p_cache_file)
		return json_null();
	return json_pack("{s:o, s:o}", "action",
			 text_or_null(log->p2p_cache_action), "file",
			 text_json(log->p2p_cache_file));
}

static json_t *log_v2(const struct log_facts *log)
{
	if (!log->v2_seen)
		return json_null();
	return json_pack("{s:o, s:o, s:b, s:b}", "symmetric_memory_mb",
			 number(log->v2_symmetric_memory_mb), "local_buffer_mb",
			 number(log->v2_local_buffer_mb), "multicast",
			 log->v2_multicast, "pull", log->v2_pull);
}

static void log_add_engine(const struct log_facts *log, json_t *object)
{
	json_object_update_new(
		object,
		json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
			  "symm_mem_capability",
			  text_or_null(log->symm_mem_capability),
			  "tensor_parallel_size",
			  count_or_null(log->tensor_parallel_size),
			  "allreduce_rms_fusion", bool_or_null(log->rms_fusion),
			  "disable_custom_all_reduce",
			  bool_or_null(log->disable_custom), "enforce_eager",
			  bool_or_null(log->enforce_eager), "backends",
			  log->group_count ? log_groups(log) : json_null(),
			  "custom_all_reduce_generation",
			  text_or_null(log->custom_generation), "v2",
			  log_v2(log), "p2p_cache", log_cache(log), "pairs",
			  log->pair_count ? log_pairs(log) : json_null()));
}

static json_t *log_json(const struct log_facts *log)
{
	json_t *object = json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
		"s:b, s:b}",
		"engine", text_or_null(log_engine_name(log->engine)), "version",
		log->version.known ? text_json(log->version.text) : json_null(),
		"custom_all_reduce", log_custom(log), "nccl_version",
		log->nccl.known ? text_json(log->nccl.text) : json_null(),
		"nccl_transport",
		text_or_null(log_transport_name(log->transport)), "symm_mem",
		text_or_null(log_symm_mem_name(log->symm_mem)), "model",
		text_or_null(log->model), "quantization",
		text_or_null(log->quantization), "visible_devices",
		text_or_null(log->visible_devices), "ranks",
		count_or_null(log->ranks), "disabled_warnings",
		json_integer((json_int_t)log->disabled_warnings),
		"nccl_settings", log_settings(log), "p2p_refused",
		log->p2p_refused, "shm_full", log->shm_full);

	log_add_engine(log, object);
	json_object_set_new(
		object, "generation_tokens_per_second",
		number_or_null(log->generation_tokens_per_second > 0,
			       log->generation_tokens_per_second));
	json_object_set_new(
		object, "tokens_per_step",
		number_or_null(log->tokens_per_step > 0, log->tokens_per_step));
	return object;
}

static json_t *metrics_json(const struct metrics *m)
{
	json_t *median = json_null();

	if (m->has_median)
		median = json_pack("[o, o]", number(m->median_low_s),
				   number(m->median_high_s));
	return json_pack(
		"{s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "engine",
		text_or_null(m->engine), "metric", text_or_null(m->metric),
		"tokens", (json_int_t)m->tokens, "mean_ms",
		number_or_null(m->mean_ms > 0, m->mean_ms), "median_bucket",
		median, "generation_tokens_total",
		number_or_null(m->generation_tokens >= 0, m->generation_tokens),
		"prompt_tokens_total",
		number_or_null(m->prompt_tokens >= 0, m->prompt_tokens),
		"requests", number_or_null(m->requests >= 0, m->requests),
		"running", number_or_null(m->running >= 0, m->running),
		"ttft_mean_ms",
		number_or_null(m->ttft_mean_ms >= 0, m->ttft_mean_ms));
}

static void add_figure(json_t *object, json_t *sources, const char *key,
		       const struct figure *figure)
{
	bool known = *figure->source;

	json_object_set_new(object, key, number_or_null(known, figure->value));
	if (known)
		json_object_set_new(sources, key, text_json(figure->source));
}

static json_t *list_paths(const struct budget *b)
{
	json_t *list = json_array();

	for (int i = 0; i < b->path_count; i++) {
		const struct budget_path *path = &b->paths[i];
		bool share = path->high_share > 0;
		bool rate = path->high_tokens_per_second > 0;

		json_array_append_new(
			list,
			json_pack(
				"{s:s, s:s, s:b, s:[o, o], s:[o, o], s:[o, o], "
				"s:[o, o], s:[o, o], s:o}",
				"path", path->time->path, "title",
				path->time->title, "now", path->now, "us",
				number(path->time->low_us),
				number(path->time->high_us), "ms_per_token",
				number(path->low_ms), number(path->high_ms),
				"share", number_or_null(share, path->low_share),
				number_or_null(share, path->high_share),
				"left_ms_per_token",
				number_or_null(share, path->low_left_ms),
				number_or_null(share, path->high_left_ms),
				"tokens_per_second",
				number_or_null(rate,
					       path->low_tokens_per_second),
				number_or_null(rate,
					       path->high_tokens_per_second),
				"source", text_json(path->time->source)));
	}
	return list;
}

static json_t *list_not_bound_by(const struct budget *b)
{
	json_t *list = json_array();

	for (int v = 0; v < BUDGET_VERDICTS; v++)
		if (b->not_bound_by >> v & 1)
			json_array_append_new(list,
					      json_string(budget_verdict_name(
						      (enum budget_verdict)v)));
	return list;
}

static json_t *list_not_bound_why(const struct budget *b)
{
	json_t *object = json_object();

	for (int v = 0; v < BUDGET_VERDICTS; v++)
		if (b->not_bound_by >> v & 1)
			json_object_set_new(
				object,
				budget_verdict_name((enum budget_verdict)v),
				json_string(b->not_bound_why[v]));
	return object;
}

static json_t *budget_json(const struct budget *b, const struct model *model)
{
	const struct {
		const char *key;
		const struct figure *figure;
	} figures[] = {
		{"layers", &b->layers},
		{"hidden_size", &b->hidden_size},
		{"allreduces_per_token", &b->all_reduces_per_token},
		{"embedding_allreduces_per_token", &b->embedding_all_reduces},
		{"message_bytes_per_token", &b->message_bytes_per_token},
		{"parameters_total", &b->parameters_total},
		{"parameters_active", &b->parameters_active},
		{"tokens_per_second", &b->tokens_per_second},
		{"batch", &b->batch},
		{"ms_per_token", &b->ms_per_token},
		{"us_per_layer", &b->us_per_layer},
		{"active_bytes_per_gpu", &b->active_bytes_per_gpu},
		{"achieved_gb_s_per_gpu", &b->achieved_gb_s_per_gpu},
		{"gpu_peak_gb_s", &b->gpu_peak_gb_s},
		{"utilisation_of_peak", &b->utilisation_of_peak},
		{"claimed_gb_s", &b->claimed_gb_s},
		{"utilisation_of_claimed_bandwidth",
		 &b->utilisation_of_claimed_bandwidth},
		{"all_reduces_per_second", &b->all_reduces_per_second},
		{"memory_ms_per_token", &b->memory_ms_per_token},
	};
	json_t *object = json_object(), *sources = json_object();

	json_object_set_new(object, "verdict",
			    json_string(budget_verdict_name(b->verdict)));
	json_object_set_new(object, "verdict_why",
			    text_or_null(b->verdict_why));
	json_object_set_new(object, "not_bound_by", list_not_bound_by(b));
	json_object_set_new(object, "not_bound_why", list_not_bound_why(b));
	for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++)
		add_figure(object, sources, figures[i].key, figures[i].figure);
	json_object_set_new(object, "paths", list_paths(b));
	json_object_set_new(object, "model",
			    model ? text_or_null(model->family) : json_null());
	json_object_set_new(object, "parameters_exact",
			    model && model->counted ? json_boolean(model->exact)
						    : json_null());
	json_object_set_new(object, "model_remark",
			    text_or_null(model ? model->remark : NULL));
	json_object_set_new(object, "sources", sources);
	return object;
}

static json_t *list_findings(const struct diagnosis *d)
{
	json_t *list = json_array();

	for (int i = 0; i < d->finding_count; i++) {
		const struct finding *f = &d->findings[i];

		json_array_append_new(
			list,
			json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "id", f->id,
				  "severity",
				  finding_severity_name(f->severity), "title",
				  text_json(f->title), "evidence",
				  text_or_null(f->evidence), "consequence",
				  text_or_null(f->consequence), "remedy",
				  text_or_null(f->remedy)));
	}
	return list;
}

static json_t *list_summary(const struct diagnosis *d)
{
	json_t *list = json_array();

	for (int i = 0; i < SUMMARY_LINES; i++)
		json_array_append_new(list,
				      json_pack("{s:s, s:o}", "label",
						d->summary[i].label, "text",
						text_json(d->summary[i].text)));
	return list;
}

bool doctor_write_json(const struct diagnosis *d, FILE *out)
{
	json_t *root = json_pack(
		"{s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
		"schema_version", 1, "version", oh_version(), "summary",
		list_summary(d), "inputs", list_inputs(d), "tp",
		d->tp ? json_integer(d->tp) : json_null(), "tp_source",
		text_or_null(d->tp_source), "machine",
		d->has_machine ? machine_json(&d->machine) : json_null(),
		"gates", list_gates(d), "log",
		d->has_log ? log_json(&d->log) : json_null(), "metrics",
		d->has_metrics ? metrics_json(&d->metrics) : json_null(),
		"budget",
		d->budget.any ? budget_json(&d->budget,
					    d->has_model ? &d->model : NULL)
			      : json_null(),
		"findings", list_findings(d));
	bool fine =
		root &&
		!json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9));

	json_decref(root);
	return fine && fputc('\n', out) != EOF;
}
