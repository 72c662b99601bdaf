/* SPDX-License-Identifier: MIT */
/*
 * A target for libFuzzer, built on request only (clang):
 *
 *	meson compile -C build fuzz_log && build/tests/fuzz_log -runs=1000000
 *
 * The input is a text; its lines go to the log reader. Facts must be of their
 * types' ranges, texts must end, and what is counted must fit its array.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(bool holds)
{
	if (!holds)
		abort();
}

#define CHECK_ENDS(text) check(memchr(text, '\0', sizeof(text)))

static void check_facts(const struct log_facts *facts)
{
	check((facts->engine == LOG_NONE) == !log_engine_name(facts->engine));
	check(!facts->transport || log_transport_name(facts->transport));
	check(!facts->symm_mem || log_symm_mem_name(facts->symm_mem));
	check(facts->pair_count >= 0 && facts->pair_count <= LOG_PAIRS);
	check(!facts->transport == !facts->pair_count);
	for (int i = 0; i < facts->pair_count; i++)
		CHECK_ENDS(facts->pairs[i].via);
	check(facts->group_count >= 0 && facts->group_count <= LOG_GROUPS);
	for (int i = 0; i < facts->group_count; i++) {
		check(facts->groups[i].count <= LOG_BACKENDS);
		CHECK_ENDS(facts->groups[i].group);
		for (int j = 0; j < facts->groups[i].count; j++)
			CHECK_ENDS(facts->groups[i].backend[j]);
	}
	check(facts->nccl_setting_count <= 8);
	for (int i = 0; i < facts->nccl_setting_count; i++)
		CHECK_ENDS(facts->nccl_settings[i]);
	check(facts->custom == LOG_CUSTOM_DISABLED || !facts->custom_rule[0]);
	CHECK_ENDS(facts->custom_rule);
	CHECK_ENDS(facts->custom_generation);
	CHECK_ENDS(facts->custom_text);
	CHECK_ENDS(facts->symm_mem_capability);
	CHECK_ENDS(facts->visible_devices);
	CHECK_ENDS(facts->p2p_cache_action);
	CHECK_ENDS(facts->p2p_cache_file);
	CHECK_ENDS(facts->model);
	CHECK_ENDS(facts->quantization);
	CHECK_ENDS(facts->dtype);
	CHECK_ENDS(facts->version.text);
	CHECK_ENDS(facts->nccl.text);
	check(facts->ranks <= LOG_WORLD);
	check(facts->generation_tokens_per_second >= 0);
	check(!facts->tokens_per_step ||
	      (facts->tokens_per_step >= 1 && facts->tokens_per_step < 1000));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const char *text = (const char *)data, *end = text + bytes;
	struct log_reader *reader = log_reader_create();
	struct log_facts facts;

	while (text < end) {
		size_t left = (size_t)(end - text);
		const char *stop = memchr(text, '\n', left);
		size_t length = stop ? (size_t)(stop - text) : left;
		/* of its own, so that a byte too far is seen */
		char *line = malloc(length ? length : 1);

		memcpy(line, text, length);
		log_reader_feed(reader, line, length);
		free(line);
		text += length + (stop != NULL);
	}
	log_reader_finish(reader, &facts);
	check_facts(&facts);
	return 0;
}
