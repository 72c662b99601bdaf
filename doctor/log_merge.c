/* SPDX-License-Identifier: MIT */
/*
 * Two files of one run: an engine's log and NCCL's own, or one of each worker.
 * The engine's log is the base. A line number belongs to the base's file, so a
 * fact that comes from the other file keeps none.
 */
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "doctor/log.h"

/* The last part of a path, or of a name with an owner. */
static const char *last_part(const char *model)
{
	const char *slash = strrchr(model, '/');

	return slash && slash[1] ? slash + 1 : model;
}

/* The same model may be a name in one file and a path in the other. */
static bool same_model(const char *a, const char *b)
{
	return !*a || !*b || strcasestr(a, last_part(b)) ||
	       strcasestr(b, last_part(a));
}

/* What a run decides once, and what both files say of it. */
static enum oh_status check_same_start(const struct log_facts *a,
				       const struct log_facts *b,
				       const char *advice)
{
	bool both = a->custom && b->custom;

	if (!same_model(a->model, b->model))
		return OH__FAIL(OH_ERR_INVALID,
				"the model is %.80s in %s, %.80s in %s: %s",
				a->model, a->file, b->model, b->file, advice);
	if (a->nccl.known && b->nccl.known &&
	    version_compare(&a->nccl, &b->nccl))
		return OH__FAIL(OH_ERR_INVALID,
				"NCCL is %s in %s, %s in %s: %s", a->nccl.text,
				a->file, b->nccl.text, b->file, advice);
	/* one that is on can fail later */
	if (both && (a->custom == LOG_CUSTOM_DISABLED) !=
			    (b->custom == LOG_CUSTOM_DISABLED))
		return OH__FAIL(OH_ERR_INVALID,
				"the engine's own all-reduce is on in one of "
				"%s and %s, off in the other: %s",
				a->file, b->file, advice);
	if (both && a->custom_rule[0] && b->custom_rule[0] &&
	    strcmp(a->custom_rule, b->custom_rule))
		return OH__FAIL(OH_ERR_INVALID,
				"the engine's own all-reduce is off by %s in "
				"%s, by %s in %s: %s",
				a->custom_rule, a->file, b->custom_rule,
				b->file, advice);
	return OH_OK;
}

static enum oh_status check_same_run(const struct log_facts *a,
				     const struct log_facts *b)
{
	const char *advice = "give the logs of one run";

	if (a->engine != LOG_NCCL && b->engine != LOG_NCCL &&
	    a->engine != b->engine)
		return OH__FAIL(OH_ERR_INVALID,
				"%s is a log of %s, %s one of %s: %s", a->file,
				log_engine_name(a->engine), b->file,
				log_engine_name(b->engine), advice);
	if (a->tensor_parallel_size && b->tensor_parallel_size &&
	    a->tensor_parallel_size != b->tensor_parallel_size)
		return OH__FAIL(OH_ERR_INVALID,
				"the tensor-parallel size is %llu in %s, %llu "
				"in %s: %s",
				(unsigned long long)a->tensor_parallel_size,
				a->file,
				(unsigned long long)b->tensor_parallel_size,
				b->file, advice);
	if (a->version.known && b->version.known &&
	    version_compare(&a->version, &b->version))
		return OH__FAIL(OH_ERR_INVALID,
				"the version is %s in %s, %s in %s: %s",
				a->version.text, a->file, b->version.text,
				b->file, advice);
	return check_same_start(a, b, advice);
}

static void fill_text(char *into, const char *more, size_t bytes)
{
	if (!*into)
		memcpy(into, more, bytes);
}
#define FILL_TEXT(field)                                                       \
	fill_text(into->field, more->field, sizeof(into->field))

/* What the engine says of itself. */
static void fill_engine(struct log_facts *into, const struct log_facts *more)
{
	if (!into->version.known)
		into->version = more->version;
	if (!into->custom) {
		into->custom = more->custom;
		FILL_TEXT(custom_rule);
		FILL_TEXT(custom_text);
	}
	if (!into->tensor_parallel_size)
		into->tensor_parallel_size = more->tensor_parallel_size;
	if (!into->symm_mem) {
		into->symm_mem = more->symm_mem;
		FILL_TEXT(symm_mem_capability);
	}
	if (!into->rms_fusion)
		into->rms_fusion = more->rms_fusion;
	if (!into->disable_custom)
		into->disable_custom = more->disable_custom;
	if (!into->enforce_eager)
		into->enforce_eager = more->enforce_eager;
	if (!into->group_count) {
		into->group_count = more->group_count;
		memcpy(into->groups, more->groups, sizeof(into->groups));
	}
	if (more->generation_tokens_per_second > 0 &&
	    into->generation_tokens_per_second <= 0) {
		into->generation_tokens_per_second =
			more->generation_tokens_per_second;
		into->generation_running = more->generation_running;
	}
	if (into->tokens_per_step <= 0)
		into->tokens_per_step = more->tokens_per_step;
	into->disabled_warnings += more->disabled_warnings;
	into->uuid_in_visible |= more->uuid_in_visible;
	if (into->ranks < more->ranks)
		into->ranks = more->ranks;
	FILL_TEXT(custom_generation);
	FILL_TEXT(visible_devices);
	FILL_TEXT(p2p_cache_action);
	FILL_TEXT(p2p_cache_file);
	FILL_TEXT(model);
	FILL_TEXT(quantization);
	FILL_TEXT(dtype);
}

static void add_pair(struct log_facts *into, const struct log_pair *pair)
{
	for (int i = 0; i < into->pair_count; i++)
		if (into->pairs[i].from == pair->from &&
		    into->pairs[i].to == pair->to)
			return;
	if (into->pair_count < LOG_PAIRS)
		into->pairs[into->pair_count++] = *pair;
}

static void fill_nccl(struct log_facts *into, const struct log_facts *more)
{
	if (!into->nccl.known)
		into->nccl = more->nccl;
	if (!into->transport)
		into->transport = more->transport;
	else if (more->transport && more->transport != into->transport)
		into->transport = LOG_TRANSPORT_MIXED;
	for (int i = 0; i < more->pair_count; i++)
		add_pair(into, &more->pairs[i]);
	if (!into->nccl_setting_count) {
		into->nccl_setting_count = more->nccl_setting_count;
		memcpy(into->nccl_settings, more->nccl_settings,
		       sizeof(into->nccl_settings));
	}
	into->p2p_refused |= more->p2p_refused;
	into->shm_full |= more->shm_full;
}

enum oh_status log_merge(struct log_facts *into, const struct log_facts *more)
{
	enum oh_status status = check_same_run(into, more);
	struct log_facts base;

	if (status)
		return status;
	if (into->engine != LOG_NCCL) {
		fill_engine(into, more);
		fill_nccl(into, more);
		return OH_OK;
	}
	base = *more;
	fill_engine(&base, into);
	fill_nccl(&base, into);
	*into = base;
	return OH_OK;
}
