/* SPDX-License-Identifier: MIT */
/*
 * What stands around a literal: settings in the dumps that engines print when
 * they start (Python's "name=value" and "'name': value", JSON's too), and the
 * text of values. Every look is bounded by the line or by LOG_NEAR.
 */
#include <stdlib.h>
#include <string.h>

#include "doctor/decimal.h"
#include "doctor/log_private.h"

/* Wide enough for any value of a dump that is kept. */
#define VALUE_MOST LOG_TEXT

struct setting {
	const char *name;
	enum log_key key;
};

/*
 * vLLM's and SGLang's names. fuse_allreduce_rms was called
 * enable_fi_allreduce_fusion before vLLM 0.13 or so.
 */
static const struct setting settings[] = {
	{"tensor_parallel_size", LOG_KEY_TP},
	{"tp_size", LOG_KEY_TP},
	{"model", LOG_KEY_MODEL},
	{"model_path", LOG_KEY_MODEL},
	{"model_tag", LOG_KEY_MODEL}, /* vllm serve MODEL */
	{"quantization", LOG_KEY_QUANTIZATION},
	{"dtype", LOG_KEY_DTYPE},
	{"enforce_eager", LOG_KEY_EAGER},
	{"disable_cuda_graph", LOG_KEY_EAGER},
	{"disable_custom_all_reduce", LOG_KEY_DISABLE_CUSTOM},
	{"fuse_allreduce_rms", LOG_KEY_FUSION},
	{"enable_fi_allreduce_fusion", LOG_KEY_FUSION},
	{"enable_flashinfer_allreduce_fusion", LOG_KEY_FUSION},
};

static bool is_name_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '_';
}

bool log_is_at(const struct log_hit *hit, size_t at, const char *text)
{
	size_t length = strlen(text);

	return at <= hit->bytes && length <= hit->bytes - at &&
	       !memcmp(hit->line + at, text, length);
}

size_t log_find(const struct log_hit *hit, const char *text, size_t reach)
{
	size_t left = hit->bytes - hit->after, length = strlen(text);
	const char *found = memmem(hit->line + hit->after,
				   left < reach ? left : reach, text, length);

	return found ? (size_t)(found - hit->line) + length : 0;
}

size_t log_find_before(const struct log_hit *hit, const char *text,
		       size_t reach)
{
	size_t length = strlen(text);
	size_t least = hit->at > reach ? hit->at - reach : 0;
	size_t left = hit->at - least;
	const char *from = hit->line + least, *found;

	left = left < length ? 0 : left - length + 1;
	while (left && (found = memrchr(from, text[0], left))) {
		left = (size_t)(found - from);
		if (!memcmp(found, text, length))
			return least + left + length;
	}
	return 0;
}

void log_copy(char *to, size_t size, const struct log_hit *hit, size_t at,
	      const char *also)
{
	size_t used = 0;

	for (; at < hit->bytes && used + 1 < size; at++) {
		char c = hit->line[at];

		if (!c || (!is_name_byte(c) && !strchr(also, c)))
			break;
		to[used++] = c;
	}
	to[used] = '\0';
}

void log_copy_sentence(char *to, size_t size, const struct log_hit *hit,
		       size_t at)
{
	size_t used = 0;
	char *stop;

	for (; at < hit->bytes && used + 1 < size; at++) {
		unsigned char c = (unsigned char)hit->line[at];

		/* a line in JSON ends with \n inside the string */
		if (log_is_at(hit, at, "\\n"))
			break;
		if (c >= ' ' && c != 0x7f)
			to[used++] = (char)c;
	}
	while (used && (to[used - 1] == ' ' || to[used - 1] == '`'))
		used--;
	to[used] = '\0';
	/* the end of vLLM's and SGLang's advice; what follows was glued on */
	stop = strstr(to, "explicitly.");
	if (stop)
		stop[strlen("explicitly.")] = '\0';
}

void log_read_version(const struct log_hit *hit, size_t at,
		      struct version *version)
{
	char text[sizeof(version->text)];

	log_copy(text, sizeof(text), hit, at, ".+-!");
	for (size_t end = strlen(text); end && text[end - 1] == '.'; end--)
		text[end - 1] = '\0';
	version_parse(text, version);
}

bool log_version(struct log_reader *reader, enum log_engine engine,
		 const struct log_hit *hit, size_t at,
		 enum log_strength strength)
{
	struct log_version *known = &log_run(reader)->versions[engine];
	struct version version = {0};

	log_read_version(hit, at, &version);
	if (version.known && known->strength < strength) {
		known->version = version;
		known->line = log_line(reader);
		known->strength = (uint8_t)strength;
	}
	return version.known;
}

static enum log_bool truth(const char *value)
{
	if (!strcmp(value, "True") || !strcmp(value, "true"))
		return LOG_YES;
	if (!strcmp(value, "False") || !strcmp(value, "false"))
		return LOG_NO;
	return LOG_NOT_SAID;
}

static bool is_nothing(const char *value)
{
	return !value[0] || !strcmp(value, "None") || !strcmp(value, "null");
}

static void take_text(char *to, size_t size, const char *value)
{
	size_t length = is_nothing(value) ? 0 : strnlen(value, size - 1);

	memcpy(to, value, length);
	to[length] = '\0';
}

static void take_count(struct log_run *run, uint64_t line, const char *value)
{
	uint64_t count;

	if (!decimal_read_count(value, strlen(value), &count) || !count)
		return;
	run->facts.tensor_parallel_size = count;
	run->facts.line.tensor_parallel_size = line;
}

/* A value that says nothing leaves what is known: "dtype='auto'". */
static void take_value(struct log_reader *reader, enum log_key key,
		       const char *value, enum log_strength strength)
{
	struct log_run *run = log_run(reader);
	struct log_facts *facts = &run->facts;
	enum log_bool said = truth(value);
	bool flag = key == LOG_KEY_EAGER || key == LOG_KEY_DISABLE_CUSTOM ||
		    key == LOG_KEY_FUSION;

	if (flag && said == LOG_NOT_SAID)
		return;
	if (key == LOG_KEY_DTYPE && !strcmp(value, "auto"))
		return;
	if (key == LOG_KEY_TP && !(value[0] >= '0' && value[0] <= '9'))
		return;
	if (!log_outweighs(reader, key, strength))
		return;
	if (key == LOG_KEY_TP) {
		take_count(run, log_line(reader), value);
	} else if (key == LOG_KEY_MODEL) {
		take_text(facts->model, sizeof(facts->model), value);
	} else if (key == LOG_KEY_QUANTIZATION) {
		take_text(facts->quantization, sizeof(facts->quantization),
			  value);
	} else if (key == LOG_KEY_DTYPE) {
		take_text(facts->dtype, sizeof(facts->dtype),
			  strncmp(value, "torch.", 6) ? value : value + 6);
	} else if (key == LOG_KEY_EAGER) {
		facts->enforce_eager = said;
	} else if (key == LOG_KEY_DISABLE_CUSTOM) {
		facts->disable_custom = said;
		facts->line.disable_custom = log_line(reader);
	} else if (key == LOG_KEY_FUSION && !run->fusion_ran) {
		facts->rms_fusion = said;
		facts->line.rms_fusion = log_line(reader);
	}
}

/* Blanks, quotes, and the backslashes that JSON puts before them. */
static size_t skip_quotes(const struct log_hit *hit, size_t at)
{
	while (at < hit->bytes && hit->line[at] &&
	       strchr(" '\"\\", hit->line[at]))
		at++;
	return at;
}

/*
 * The value of a name that ends at at: of "name=1,", "'name': 'x'}". Returns
 * where it ends, 0 if no value follows.
 */
static size_t read_value(const struct log_hit *hit, size_t at, char *value,
			 size_t size)
{
	size_t used = 0;
	bool quoted;

	while (at < hit->bytes && hit->line[at] &&
	       strchr("'\"\\", hit->line[at]))
		at++;
	if (at >= hit->bytes || (hit->line[at] != '=' && hit->line[at] != ':'))
		return 0;
	quoted = skip_quotes(hit, at + 1) > at + 1 &&
		 hit->line[skip_quotes(hit, at + 1) - 1] != ' ';
	at = skip_quotes(hit, at + 1);
	for (; at < hit->bytes; at++) {
		char c = hit->line[at];

		if (!c || strchr(quoted ? "'\"\\" : ",)}] `'\"\\", c))
			break;
		if (used + 1 < size && (unsigned char)c >= ' ')
			value[used++] = c;
	}
	value[used] = '\0';
	return at;
}

void log_setting(struct log_reader *reader, enum log_key key,
		 const struct log_hit *hit, enum log_strength strength)
{
	char value[VALUE_MOST];
	struct log_hit near = *hit;
	size_t end;

	if (log_run(reader)->strength[key] >= strength ||
	    (hit->at && is_name_byte(hit->line[hit->at - 1])))
		return;
	if (near.bytes > near.after + LOG_NEAR)
		near.bytes = near.after + LOG_NEAR;
	end = read_value(&near, near.after, value, sizeof(value));
	/* "specify disable_custom_all_reduce=True explicitly" is advice */
	if (!end || (key == LOG_KEY_DISABLE_CUSTOM &&
		     !(end < near.bytes && near.line[end] == ',')))
		return;
	take_value(reader, key, value, strength);
}

static void find_setting(struct log_reader *reader,
			 const struct setting *setting,
			 const struct log_hit *hit, enum log_strength strength)
{
	size_t length = strlen(setting->name), at = hit->after;
	char value[VALUE_MOST];
	const char *found;

	for (; at < hit->bytes; at += length) {
		found = memmem(hit->line + at, hit->bytes - at, setting->name,
			       length);
		if (!found)
			return;
		at = (size_t)(found - hit->line);
		if ((at == hit->after || !is_name_byte(found[-1])) &&
		    read_value(hit, at + length, value, sizeof(value))) {
			take_value(reader, setting->key, value, strength);
			return;
		}
	}
}

void log_settings(struct log_reader *reader, const struct log_hit *hit,
		  enum log_strength strength)
{
	if (!log_once(reader))
		return;
	for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
		find_setting(reader, &settings[i], hit, strength);
}
