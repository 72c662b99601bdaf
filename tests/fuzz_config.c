/* SPDX-License-Identifier: MIT */
/*
 * A target for libFuzzer, built on request only (clang):
 *
 *	meson compile -C build fuzz_config && build/tests/fuzz_config
 *
 * The input is a config.json. What is read has finite figures that agree with
 * each other, and a budget of it stays within its fields; what is refused
 * leaves a message.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/budget.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void check(const struct model *model)
{
	double sum = 0;

	require(model->layers > 0 && model->hidden > 0);
	require(model->part_count >= 0 && model->part_count <= MODEL_PARTS);
	require(isfinite(model->parameters_total) &&
		isfinite(model->bytes_counted));
	require(model->parameters_active <= model->parameters_total);
	require(!model->counted || model->parameters_active > 0);
	for (int i = 0; i < model->part_count; i++) {
		require(model->parts[i].bytes_per_parameter > 0);
		sum += model->parts[i].parameters;
	}
	require(fabs(sum - model->parameters_total) <= sum / 1e9);
	for (int tp = 1; tp <= 16; tp *= 2)
		require(isfinite(model_active_bytes(model, tp, tp, 1)));
}

static void make_budget(const struct model *model)
{
	struct budget_question question = {
		.model = model,
		.tp = 8,
		.link = PATH_PCIE,
		.link_known = true,
		.gpu_name = "NVIDIA GeForce RTX 4090",
		.tokens_per_second = 50,
		.path_now = "nccl",
	};
	struct budget budget;

	budget_make(&question, &budget);
	require(budget.any && budget.verdict_why[0]);
	require(budget.path_count <= BUDGET_PATHS);
	for (int i = 0; i < budget.path_count; i++)
		require(isfinite(budget.paths[i].high_tokens_per_second));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	/* no NUL behind it: reading on is found */
	char *text = malloc(bytes ? bytes : 1);
	struct model model;

	setenv("ONEHOP_LOG", "off", 0);
	if (bytes)
		memcpy(text, data, bytes);
	model_is_config(text, bytes);
	if (model_read("config.json", text, bytes, &model)) {
		require(oh_last_error()->message[0]);
	} else {
		check(&model);
		make_budget(&model);
	}
	free(text);
	return 0;
}
