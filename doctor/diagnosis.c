/* SPDX-License-Identifier: MIT */
/*
 * From evidence to conclusions: which GPUs the ranks run on, the gates of the
 * engine and of NCCL below it, the budget, and what is found. What was assumed
 * on the way is said where it was assumed.
 */
#include "doctor/diagnosis.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* Names of CUDA_VISIBLE_DEVICES, by who knows best. */
static const char *visible_devices(const struct diagnosis *d)
{
	const struct oh__variable *variable;

	if (d->options.visible_devices)
		return d->options.visible_devices;
	if (d->has_log && *d->log.visible_devices)
		return d->log.visible_devices;
	variable = oh__machine_variable(&d->machine, "CUDA_VISIBLE_DEVICES");
	return variable ? variable->value : NULL;
}

static void resolve_visible(struct diagnosis *d)
{
	const struct oh__variable *order =
		oh__machine_variable(&d->machine, "CUDA_DEVICE_ORDER");

	if (d->has_machine)
		oh__visible_devices(&d->machine, visible_devices(d),
				    order ? order->value : NULL, &d->visible);
}

static enum oh_status check_tp(const struct diagnosis *d)
{
	if (!d->has_machine || !d->machine.gpus || d->tp <= d->visible.count)
		return OH_OK;
	return OH__FAIL(OH_ERR_INVALID,
			"tensor-parallel size %d (%s), and %d GPUs are there "
			"for it%s%s: ranks on other hosts are not explained; "
			"give --tp, or the report of a whole machine",
			d->tp, d->tp_source, d->visible.count,
			*d->visible.remark ? ", " : "", d->visible.remark);
}

static void choose_tp(struct diagnosis *d)
{
	const struct log_facts *log = d->has_log ? &d->log : NULL;

	if (d->options.tp) {
		d->tp = d->options.tp;
		snprintf(d->tp_source, sizeof(d->tp_source), "--tp");
	} else if (log && log->tensor_parallel_size &&
		   log->tensor_parallel_size <= 4096) {
		d->tp = (int)log->tensor_parallel_size;
		snprintf(d->tp_source, sizeof(d->tp_source), "%.60s:%llu",
			 log->file,
			 (unsigned long long)log->line.tensor_parallel_size);
	} else if (d->has_machine && d->visible.count) {
		d->tp = d->visible.count;
		snprintf(d->tp_source, sizeof(d->tp_source),
			 "assumed: every visible GPU");
	}
}

static void ask(struct diagnosis *d, const struct gate_engine *engine,
		struct gate_question *question)
{
	if (d->gate_count + engine->count > DIAGNOSIS_GATES)
		return;
	engine->ask(question, d->gates + d->gate_count);
	d->gate_count += engine->count;
}

static enum oh_status choose_engine(const struct diagnosis *d,
				    const struct gate_engine **engine,
				    struct version *version)
{
	const char *name = d->options.engine;
	const char *logged = d->has_log && d->log.engine != LOG_NCCL
				     ? log_engine_name(d->log.engine)
				     : NULL;
	const struct oh__text *reported = &d->machine.host.vllm;

	memset(version, 0, sizeof(*version));
	*engine = gate_engine_named(name ? name : logged ? logged : "vllm");
	if (name && !*engine)
		return OH__FAIL(OH_ERR_INVALID,
				"--engine '%s': there are no rules of that "
				"engine; there are those of vllm and nccl",
				name);
	if (d->options.version) {
		if (!version_parse(d->options.version, version))
			return OH__FAIL(OH_ERR_INVALID,
					"--engine %s@%s: '%s' is no version; "
					"it looks like 0.16 or 0.6.6.post1",
					name, d->options.version,
					d->options.version);
		return OH_OK;
	}
	if (name && logged && strcmp(name, logged) != 0)
		return OH_OK;
	if (d->has_log && d->log.version.known)
		*version = d->log.version;
	else if (oh__known(reported->from) && *engine &&
		 !strcmp((*engine)->name, "vllm"))
		version_parse(reported->text, version);
	return OH_OK;
}

static void find_nccl_version(const struct diagnosis *d,
			      struct version *version)
{
	const struct oh__text *reported = &d->machine.host.nccl;

	memset(version, 0, sizeof(*version));
	if (d->has_log && d->log.nccl.known)
		*version = d->log.nccl;
	else if (oh__known(reported->from))
		version_parse(reported->text, version);
}

/* Of the sequences decoded at once, 0 for one; more than any limit at most. */
static uint64_t message_bytes(const struct model *model, double batch)
{
	double rows = batch > 1 ? ceil(batch) : 1;

	return (uint64_t)fmin((double)model->hidden *
				      (double)model->activation_bytes * rows,
			      1e15);
}

static enum oh_status ask_gates(struct diagnosis *d)
{
	struct gate_question question = {
		.machine = &d->machine,
		.tp = d->tp,
		.bytes = d->options.bytes,
		.log = d->has_log ? &d->log : NULL,
		.visible_uuids = d->visible.uuids,
		.visible_devices = visible_devices(d),
	};
	const struct gate_engine *engine, *nccl = gate_engine_named("nccl");
	enum oh_status status = choose_engine(d, &engine, &question.version);

	if (status || !d->has_machine || !d->machine.gpus || !d->tp)
		return status;
	for (int i = 0; i < d->tp; i++)
		question.gpus[i] = d->visible.gpu[i];
	if (!question.bytes && d->has_model && d->model.hidden)
		question.bytes = message_bytes(&d->model, d->options.batch);
	if (engine && engine != nccl)
		ask(d, engine, &question);
	if (engine != nccl || !question.version.known)
		find_nccl_version(d, &question.version);
	ask(d, nccl, &question);
	return OH_OK;
}

const struct gate *diagnosis_gate(const struct diagnosis *d,
				  const char *feature)
{
	for (int i = 0; i < d->gate_count; i++)
		if (!strcmp(d->gates[i].feature, feature))
			return &d->gates[i];
	return NULL;
}

/* The path before the engine's own kernel, or behind it, that takes the
 * messages, where that is neither NCCL nor not known; NULL else. */
static const char *other_path(const struct diagnosis *d)
{
	static const char *const measured[] = {"CUSTOM", "PYNCCL",
					       "TORCH_DISTRIBUTED"};
	const struct gate *dispatch = diagnosis_gate(d, "dispatch");
	const char *path = dispatch ? dispatch->rule : NULL;

	for (size_t i = 0; path && i < sizeof(measured) / sizeof(*measured);
	     i++)
		if (!strcmp(path, measured[i]))
			path = NULL;
	return path;
}

/* What the engine's calls take now, by its log or by its rules; the table of
 * times has no rows for other paths. */
static const char *path_now(const struct diagnosis *d)
{
	if (other_path(d))
		return other_path(d);
	if (d->has_log && d->log.custom == LOG_CUSTOM_ENABLED)
		return "custom";
	if (d->has_log && d->log.custom)
		return "nccl";
	for (int i = 0; i < d->gate_count; i++) {
		const struct gate *gate = &d->gates[i];

		if (strcmp(gate->feature, "custom_all_reduce") != 0)
			continue;
		if (gate->verdict == GATE_ENABLED)
			return "custom";
		if (gate->verdict == GATE_DISABLED)
			return "nccl";
	}
	return d->has_log && d->log.transport ? "nccl" : NULL;
}

/* NVLink between every pair of the ranks, or PCIe between some. */
static bool find_link(const struct diagnosis *d, enum path_link *link)
{
	bool known = d->tp >= 2;

	*link = PATH_NVLINK;
	for (int i = 0; i < d->tp && known; i++)
		for (int k = 0; k < d->tp && known; k++) {
			const struct oh__link *pair =
				&d->machine.link[d->visible.gpu[i]]
						[d->visible.gpu[k]];

			if (i == k)
				continue;
			known = oh__known(pair->from);
			if (known && pair->kind != OH__LINK_NV)
				*link = PATH_PCIE;
		}
	return known;
}

static void make_budget(struct diagnosis *d)
{
	const struct diagnosis_options *options = &d->options;
	struct budget_question question = {
		.model = d->has_model ? &d->model : NULL,
		.metrics = d->has_metrics ? &d->metrics : NULL,
		.log = d->has_log ? &d->log : NULL,
		.tp = d->tp,
		.tokens_per_second = options->tokens_per_second,
		.batch = options->batch,
		.message_bytes = (double)options->bytes,
		.active_bytes = options->active_bytes,
		.checkpoint_bytes = options->checkpoint_bytes,
		.peak_gb_s = options->peak_gb_s,
		.claimed_gb_s = options->claimed_gb_s,
		.path_now = path_now(d),
	};
	char origin[OH__TEXT_BYTES + 16] = "";

	if (d->has_machine && d->machine.gpus && d->visible.count) {
		const struct oh__text *name =
			&d->machine.gpu[d->visible.gpu[0]].name;

		question.link_known = find_link(d, &question.link);
		if (oh__known(name->from)) {
			question.gpu_name = name->text;
			question.gpu_name_origin =
				oh__machine_origin(&d->machine, name->from,
						   origin, sizeof(origin));
		}
	}
	budget_make(&question, &d->budget);
}

enum oh_status diagnosis_conclude(struct diagnosis *diagnosis)
{
	enum oh_status status;

	resolve_visible(diagnosis);
	choose_tp(diagnosis);
	status = check_tp(diagnosis);
	if (!status)
		status = ask_gates(diagnosis);
	if (status)
		return status;
	make_budget(diagnosis);
	findings_collect(diagnosis);
	summary_make(diagnosis, diagnosis->summary);
	return OH_OK;
}
