/* SPDX-License-Identifier: MIT */
/*
 * What is read out of logs. Public reports with the answers due, the same
 * reports behind every prefix that people paste, and lines in the shapes that
 * the releases of vLLM, SGLang and NCCL print.
 */
#include <glob.h>
#include <jansson.h>
#include <string.h>

#include "log_text.h"
#include "tap.h"

#define TEXT_MOST (1 << 20)
#define LINE_MOST 65536

static char *read_file(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = calloc(1, TEXT_MOST);

	if (!file || !fread(text, 1, TEXT_MOST - 1, file))
		tap_note("cannot read %s", path);
	if (file)
		fclose(file);
	return text;
}

static void check_text(const char *where, json_t *due, const char *key,
		       const char *got)
{
	json_t *value = json_object_get(due, key);

	if (value)
		tap_ok(same_text(json_string_value(value), got),
		       "%s: %s is %s (got %s)", where, key,
		       json_is_null(value) ? "null" : json_string_value(value),
		       got ? got : "null");
}

static void check_count(const char *where, json_t *due, const char *key,
			uint64_t got)
{
	json_t *value = json_object_get(due, key);

	if (json_is_integer(value))
		tap_ok((uint64_t)json_integer_value(value) == got,
		       "%s: %s is %lld (got %llu)", where, key,
		       (long long)json_integer_value(value),
		       (unsigned long long)got);
}

static void check_log_part(const char *where, json_t *due,
			   const struct log_facts *facts)
{
	json_t *fusion = json_object_get(due, "allreduce_rms_fusion");

	check_text(where, due, "engine", log_engine_name(facts->engine));
	check_text(where, due, "version", facts->version.text);
	check_text(where, due, "custom_all_reduce", custom_name(facts));
	check_text(where, due, "custom_all_reduce_generation",
		   facts->custom_generation);
	check_text(where, due, "nccl_version", facts->nccl.text);
	check_text(where, due, "nccl_transport",
		   log_transport_name(facts->transport));
	check_text(where, due, "symm_mem", log_symm_mem_name(facts->symm_mem));
	check_text(where, due, "symm_mem_capability",
		   facts->symm_mem_capability);
	check_count(where, due, "tensor_parallel_size",
		    facts->tensor_parallel_size);
	if (json_is_boolean(fusion))
		tap_ok(facts->rms_fusion ==
			       (json_is_true(fusion) ? LOG_YES : LOG_NO),
		       "%s: the fusion is %s", where,
		       json_is_true(fusion) ? "on" : "off");
}

static void check_groups(const char *where, json_t *due,
			 const struct log_facts *facts)
{
	const char *name;
	json_t *list;

	json_object_foreach(due, name, list)
	{
		int at = 0;
		bool same;

		while (at < facts->group_count &&
		       strcmp(facts->groups[at].group, name))
			at++;
		same = at < facts->group_count &&
		       (size_t)facts->groups[at].count == json_array_size(list);
		for (size_t i = 0; same && i < json_array_size(list); i++)
			same = !strcmp(
				facts->groups[at].backend[i],
				json_string_value(json_array_get(list, i)));
		tap_ok(same, "%s: the backends of %s", where, name);
	}
}

static void check_pairs(const char *where, json_t *due,
			const struct log_facts *facts)
{
	const char *name;
	json_t *via;

	json_object_foreach(due, name, via)
	{
		bool same = false;
		char text[32];

		for (int i = 0; i < facts->pair_count; i++) {
			snprintf(text, sizeof(text), "%d->%d",
				 facts->pairs[i].from, facts->pairs[i].to);
			if (!strcmp(text, name))
				same = !strcmp(facts->pairs[i].via,
					       json_string_value(via));
		}
		tap_ok(same, "%s: %s goes by %s", where, name,
		       json_string_value(via));
	}
	if (due)
		tap_ok((size_t)facts->pair_count == json_object_size(due),
		       "%s: no other pairs", where);
}

static void check_v2(const char *where, json_t *due,
		     const struct log_facts *facts)
{
	if (!due)
		return;
	tap_ok(facts->v2_seen &&
		       facts->v2_symmetric_memory_mb ==
			       json_real_value(json_object_get(
				       due, "symmetric_memory_mb")) &&
		       facts->v2_local_buffer_mb ==
			       json_real_value(
				       json_object_get(due, "local_buffer_mb")),
	       "%s: the buffers of v2", where);
	tap_ok(facts->v2_multicast == json_is_true(json_object_get(
					      due, "multicast")) &&
		       facts->v2_pull ==
			       json_is_true(json_object_get(due, "pull")),
	       "%s: the ways of v2", where);
}

static void check_report(const char *where, json_t *facts_due,
			 const struct log_facts *facts)
{
	json_t *cache = json_object_get(facts_due, "p2p_cache");

	check_log_part(where, json_object_get(facts_due, "log"), facts);
	check_groups(where, json_object_get(facts_due, "backends"), facts);
	check_pairs(where, json_object_get(facts_due, "pairs"), facts);
	check_v2(where, json_object_get(facts_due, "v2"), facts);
	check_count(where, facts_due, "disabled_warnings",
		    facts->disabled_warnings);
	check_count(where, facts_due, "ranks", facts->ranks);
	check_text(where, facts_due, "visible_devices", facts->visible_devices);
	check_text(where, cache, "action", facts->p2p_cache_action);
	check_text(where, cache, "file", facts->p2p_cache_file);
	if (json_object_get(facts_due, "fault"))
		tap_ok(facts->shm_full, "%s: /dev/shm is full", where);
	if (json_object_get(facts_due, "p2p"))
		tap_ok(facts->p2p_refused, "%s: peer access refused", where);
}

/* What must not depend on the way a log was copied. */
static bool same_facts(const struct log_facts *a, const struct log_facts *b)
{
	return a->engine == b->engine &&
	       same_text(a->version.text, b->version.text) &&
	       same_text(a->nccl.text, b->nccl.text) &&
	       a->custom == b->custom &&
	       same_text(a->custom_rule, b->custom_rule) &&
	       same_text(a->custom_text, b->custom_text) &&
	       a->disabled_warnings == b->disabled_warnings &&
	       a->ranks == b->ranks &&
	       a->tensor_parallel_size == b->tensor_parallel_size &&
	       a->symm_mem == b->symm_mem && a->rms_fusion == b->rms_fusion &&
	       a->disable_custom == b->disable_custom &&
	       a->enforce_eager == b->enforce_eager &&
	       a->transport == b->transport && a->pair_count == b->pair_count &&
	       a->group_count == b->group_count && a->shm_full == b->shm_full &&
	       a->p2p_refused == b->p2p_refused &&
	       same_text(a->visible_devices, b->visible_devices) &&
	       same_text(a->model, b->model) &&
	       same_text(a->quantization, b->quantization) &&
	       same_text(a->dtype, b->dtype);
}

struct wrapper {
	const char *what, *before, *after;
};

static const struct wrapper wrappers[] = {
	{"docker compose", "vllm-1  | ", ""},
	{"docker compose in colour", "\033[36mvllm-1  | \033[0m", "\033[0m"},
	{"journald", "Aug 25 19:32:38 node-a vllm[7901]: ", ""},
	{"Kubernetes (CRI)", "2026-01-02T03:04:05.678901234Z stdout F ", ""},
	{"kubectl --prefix", "[pod/llm-0/vllm] ", ""},
	{"Docker Desktop", "2026-05-01 18:50:31.934 | ", ""},
	{"Slurm", "3: ", ""},
	{"Open MPI", "[1,0]<stdout>:", ""},
	{"Windows line ends", "", "\r"},
	{"Markdown", "> `", "`"},
	{"grep -n", "vllm.log:120:", ""},
	{"grep in colour",
	 "\033[35m\033[Kvllm.log\033[m\033[K:", "\033[m\033[K"},
	{"a hyperlink and a title", "\033]0;x\007", ""},
};

/* JSON escapes double quotes and backslashes; so do logs in JSON. */
static size_t wrap_json(char *to, const char *line, size_t bytes)
{
	static const char head[] = "{\"log\":\"",
			  tail[] = "\\n\",\"stream\":\"stderr\"}";
	size_t used = sizeof(head) - 1;

	memcpy(to, head, used);
	for (size_t i = 0; i < bytes; i++) {
		if (line[i] == '"' || line[i] == '\\')
			to[used++] = '\\';
		to[used++] = line[i];
	}
	memcpy(to + used, tail, sizeof(tail) - 1);
	return used + sizeof(tail) - 1;
}

static struct log_facts read_wrapped(const char *text,
				     const struct wrapper *wrapper)
{
	struct log_reader *reader = log_reader_create();
	struct log_facts facts;
	static char line[2 * LINE_MOST];

	while (*text) {
		size_t bytes = strcspn(text, "\n"), used;

		if (wrapper)
			used = (size_t)snprintf(line, sizeof(line), "%s%.*s%s",
						wrapper->before, (int)bytes,
						text, wrapper->after);
		else
			used = wrap_json(line, text, bytes);
		log_reader_feed(reader, line, used);
		text += bytes + (text[bytes] == '\n');
	}
	log_reader_finish(reader, &facts);
	return facts;
}

static void try_wrappers(const char *where, const char *text,
			 const struct log_facts *plain)
{
	struct log_facts facts;

	for (size_t i = 0; i < sizeof(wrappers) / sizeof(*wrappers); i++) {
		facts = read_wrapped(text, &wrappers[i]);
		tap_ok(same_facts(&facts, plain), "%s: the same behind %s",
		       where, wrappers[i].what);
	}
	facts = read_wrapped(text, NULL);
	tap_ok(same_facts(&facts, plain), "%s: the same in JSON", where);
}

/* Lines whose ends were lost: only who said what is lost with them. */
static void try_glued(const char *where, const char *text,
		      const struct log_facts *plain)
{
	struct log_reader *reader = log_reader_create();
	char *glued = strdup(text);
	struct log_facts facts;

	for (char *end = strchr(glued, '\n'); end; end = strchr(end, '\n'))
		*end = ' ';
	log_reader_feed(reader, glued, strlen(glued));
	log_reader_finish(reader, &facts);
	free(glued);
	tap_ok(facts.engine == plain->engine && facts.custom == plain->custom &&
		       same_text(facts.custom_rule, plain->custom_rule) &&
		       same_text(facts.nccl.text, plain->nccl.text) &&
		       same_text(facts.version.text, plain->version.text) &&
		       facts.tensor_parallel_size ==
			       plain->tensor_parallel_size &&
		       facts.symm_mem == plain->symm_mem &&
		       facts.transport == plain->transport &&
		       facts.disabled_warnings == plain->disabled_warnings,
	       "%s: the same in one line", where);
}

/* Cut anywhere, a log says less, or the same, but nothing else. */
static void try_cuts(const char *where, const char *text,
		     const struct log_facts *whole)
{
	size_t length = strlen(text), wrong = 0;

	for (size_t cut = 0; cut < length; cut++) {
		struct log_reader *reader = log_reader_create();
		struct log_facts facts;
		char *part = strndup(text, cut);

		feed_text(reader, part);
		log_reader_finish(reader, &facts);
		free(part);
		wrong += facts.custom == LOG_CUSTOM_DISABLED &&
			 whole->custom == LOG_CUSTOM_DISABLED &&
			 facts.custom_rule[0] &&
			 strcmp(facts.custom_rule, whole->custom_rule) != 0;
		wrong += facts.custom == LOG_CUSTOM_ENABLED &&
			 whole->custom != LOG_CUSTOM_ENABLED;
	}
	tap_ok(!wrong, "%s: cut at any byte, it says nothing else", where);
}

static void try_report(const char *directory, const char *input)
{
	char path[4096];
	json_t *due;
	char *text;
	struct log_facts facts;
	const char *name = strrchr(directory, '/') + 1;

	snprintf(path, sizeof(path), "%s/expect.json", directory);
	due = json_load_file(path, 0, NULL);
	snprintf(path, sizeof(path), "%s/%s", directory, input);
	if (!tap_ok(due, "%s has an expect.json", name))
		return;
	text = read_file(path);
	facts = read_text(text);
	check_report(name,
		     json_object_get(due, "facts")
			     ? json_object_get(due, "facts")
			     : due,
		     &facts);
	try_wrappers(name, text, &facts);
	try_glued(name, text, &facts);
	try_cuts(name, text, &facts);
	free(text);
	json_decref(due);
}

static void try_reports(void)
{
	char pattern[4096];
	glob_t found;
	int logs = 0;

	snprintf(pattern, sizeof(pattern), "%s/tests/reports/*",
		 getenv("SOURCE"));
	glob(pattern, 0, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		char path[4096];
		json_t *due;

		snprintf(path, sizeof(path), "%s/expect.json",
			 found.gl_pathv[i]);
		due = json_load_file(path, 0, NULL);
		if (same_text(json_string_value(json_object_get(due, "kind")),
			      "log")) {
			try_report(found.gl_pathv[i], "input.txt");
			logs++;
		}
		json_decref(due);
	}
	globfree(&found);
	tap_ok(logs >= 7, "there are reports of logs (%d)", logs);
	snprintf(pattern, sizeof(pattern),
		 "%s/tests/cases/glm5-eight-rtx-pro-6000", getenv("SOURCE"));
	try_report(pattern, "vllm.log");
}

int main(void)
{
	if (!getenv("SOURCE"))
		tap_skip_all("SOURCE does not say where the reports are");
	try_reports();
	return tap_done();
}
