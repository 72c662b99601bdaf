/* SPDX-License-Identifier: MIT */
/*
 * The log reader: one pass over a line finds all literals of the engines'
 * tables, and what they mean is collected. No literal is tied to a place in
 * the line. Memory is constant: nothing of a line is kept but the facts.
 *
 * The pass is Wu and Manber's: the bytes at the end of a window of LOG_STEM
 * say how far the next literal can begin, so most bytes are never looked at.
 *
 * A log may hold several starts of an engine. Facts are of the last one, or of
 * the one before if the last was cut before it came to the all-reduce.
 */
#include "doctor/log.h"

#include <stdlib.h>
#include <string.h>

#include "doctor/decimal.h"
#include "doctor/log_private.h"

#define LINE_MOST 65536
#define ESCAPE '\033'

/* Bytes of a block, and bits of its hash. */
#define BLOCK 3
#define HASH_BITS 14
#define HASHES (1 << HASH_BITS)
#define ROWS_MOST 96
#define NO_ROW UINT8_MAX

struct scan {
	uint8_t shift[HASHES];
	uint8_t first[HASHES]; /* row whose stem ends with the block */
	uint8_t next[ROWS_MOST];
	const struct log_row *rows[ROWS_MOST];
	uint16_t length[ROWS_MOST];
	int count;
};

struct log_reader {
	struct log_run run, earlier;
	bool has_earlier;
	uint64_t line;
	bool line_once, line_prefixed;
	enum log_engine certain; /* the first that was */
	bool likely[LOG_NCCL + 1];
	struct scan scan;
	char plain[LINE_MOST]; /* a line without escapes */
};

static uint32_t block_hash(const char *block)
{
	const unsigned char *byte = (const unsigned char *)block;

	/* shifts that keep letters apart cost less than a product */
	return ((uint32_t)byte[0] ^ (uint32_t)byte[1] << 4 ^
		(uint32_t)byte[2] << 7) &
	       (HASHES - 1);
}

static void add_row(struct scan *scan, const struct log_row *row)
{
	int index = scan->count++;
	uint32_t hash;

	scan->rows[index] = row;
	scan->length[index] = (uint16_t)strlen(row->text);
	for (int end = BLOCK; end < LOG_STEM; end++) {
		uint8_t shift = (uint8_t)(LOG_STEM - end);

		hash = block_hash(row->text + end - BLOCK);
		if (scan->shift[hash] > shift)
			scan->shift[hash] = shift;
	}
	hash = block_hash(row->text + LOG_STEM - BLOCK);
	scan->shift[hash] = 0;
	scan->next[index] = scan->first[hash];
	scan->first[hash] = (uint8_t)index;
}

struct log_reader *log_reader_create(void)
{
	static const struct log_row *const tables[] = {
		log_vllm_rows, log_sglang_rows, log_nccl_rows};
	struct log_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return NULL;
	memset(reader->scan.shift, LOG_STEM - BLOCK + 1,
	       sizeof(reader->scan.shift));
	memset(reader->scan.first, NO_ROW, sizeof(reader->scan.first));
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		for (const struct log_row *row = tables[i];
		     row->text && reader->scan.count < ROWS_MOST; row++)
			add_row(&reader->scan, row);
	return reader;
}

static void take_rows(struct log_reader *reader, uint32_t hash,
		      const char *line, size_t bytes, size_t at)
{
	const struct scan *scan = &reader->scan;

	for (uint8_t i = scan->first[hash]; i != NO_ROW; i = scan->next[i]) {
		size_t length = scan->length[i];
		struct log_hit hit = {line, bytes, at, at + length};

		if (length <= bytes - at &&
		    !memcmp(line + at, scan->rows[i]->text, length))
			scan->rows[i]->take(reader, scan->rows[i], &hit);
	}
}

static void scan_line(struct log_reader *reader, const char *line, size_t bytes)
{
	const struct scan *scan = &reader->scan;
	size_t end = LOG_STEM;

	while (end <= bytes) {
		uint32_t hash = block_hash(line + end - BLOCK);

		if (!scan->shift[hash]) {
			take_rows(reader, hash, line, bytes, end - LOG_STEM);
			end++;
		}
		end += scan->shift[hash];
	}
}

/* Where an escape sequence (ECMA-48) that begins at line[0] ends. */
static size_t escape_bytes(const char *line, size_t bytes)
{
	size_t at = 1;

	if (at == bytes || line[at] != '[')
		return at < bytes ? 2 : 1;
	for (at++; at < bytes; at++)
		if (line[at] >= 0x40 && line[at] <= 0x7e)
			return at + 1;
	return bytes;
}

static size_t without_escapes(char *to, const char *line, size_t bytes)
{
	const char *end = line + bytes;
	size_t used = 0;

	while (line < end) {
		size_t left = (size_t)(end - line);
		const char *escape = memchr(line, ESCAPE, left);
		size_t plain = escape ? (size_t)(escape - line) : left;

		memcpy(to + used, line, plain);
		used += plain;
		line += plain;
		if (escape)
			line += escape_bytes(line, left - plain);
	}
	return used;
}

void log_reader_feed(struct log_reader *reader, const char *line, size_t bytes)
{
	if (bytes && *line == '\r') {
		line++;
		bytes--;
	} else {
		reader->line++;
	}
	reader->line_once = false;
	reader->line_prefixed = false;
	if (bytes > LINE_MOST)
		bytes = LINE_MOST;
	if (bytes && memchr(line, ESCAPE, bytes)) {
		bytes = without_escapes(reader->plain, line, bytes);
		line = reader->plain;
	}
	scan_line(reader, line, bytes);
}

struct log_run *log_run(struct log_reader *reader)
{
	return &reader->run;
}

uint64_t log_line(const struct log_reader *reader)
{
	return reader->line;
}

void log_is_of(struct log_reader *reader, enum log_engine engine, bool certain)
{
	reader->likely[engine] = true;
	if (certain && reader->certain == LOG_NONE)
		reader->certain = engine;
}

void log_start(struct log_reader *reader)
{
	if (!reader->run.begun)
		return;
	/* a start that never came so far says less than the one before */
	if (reader->run.facts.custom || !reader->has_earlier)
		reader->earlier = reader->run;
	reader->has_earlier = true;
	memset(&reader->run, 0, sizeof(reader->run));
}

bool log_once(struct log_reader *reader)
{
	bool first = !reader->line_once;

	reader->line_once = true;
	return first;
}

bool log_prefixed(struct log_reader *reader, bool mark)
{
	bool before = reader->line_prefixed;

	reader->line_prefixed |= mark;
	return before;
}

void log_seen(struct log_reader *reader, enum log_identity kind, uint64_t id)
{
	struct log_run *run = &reader->run;
	int count = run->id_count[kind];

	for (int i = 0; i < count; i++)
		if (run->ids[kind][i] == id)
			return;
	if (count < LOG_RANKS)
		run->ids[kind][run->id_count[kind]++] = id;
}

void log_world(struct log_reader *reader, const struct log_hit *hit)
{
	uint64_t ranks;

	if (decimal_read_count(hit->line + hit->after, hit->bytes - hit->after,
			       &ranks) &&
	    ranks <= LOG_WORLD && ranks > reader->run.world)
		reader->run.world = ranks;
}

bool log_outweighs(struct log_reader *reader, enum log_key key,
		   enum log_strength strength)
{
	uint8_t *known = &reader->run.strength[key];

	if (*known >= strength)
		return false;
	*known = (uint8_t)strength;
	if (strength == LOG_CONFIG)
		reader->run.begun = true;
	return true;
}

static void decide_custom(struct log_reader *reader, enum log_custom custom,
			  const char *rule, const struct log_hit *hit,
			  size_t from)
{
	struct log_facts *facts = &reader->run.facts;
	size_t length = strnlen(rule, sizeof(facts->custom_rule) - 1);

	reader->run.begun = true;
	facts->custom = custom;
	memcpy(facts->custom_rule, rule, length);
	facts->custom_rule[length] = '\0';
	facts->line.custom = reader->line;
	log_copy_sentence(facts->custom_text, sizeof(facts->custom_text), hit,
			  from);
}

void log_custom_enabled(struct log_reader *reader, const struct log_hit *hit,
			size_t from)
{
	if (reader->run.facts.custom == LOG_CUSTOM_UNKNOWN)
		decide_custom(reader, LOG_CUSTOM_ENABLED, "", hit, from);
}

/* Groups of other ranks print it too: the list of the tensor-parallel group,
 * where there is one, knows better. */
void log_custom_disabled(struct log_reader *reader, const struct log_hit *hit,
			 const char *rule)
{
	struct log_facts *facts = &reader->run.facts;
	bool open = facts->custom == LOG_CUSTOM_UNKNOWN ||
		    facts->custom == LOG_CUSTOM_ENABLED ||
		    (facts->custom == LOG_CUSTOM_DISABLED &&
		     !facts->custom_rule[0]);

	facts->disabled_warnings++;
	if (facts->custom == LOG_CUSTOM_ENABLED && reader->run.tp_listed)
		return;
	if (open)
		decide_custom(reader, LOG_CUSTOM_DISABLED, rule, hit, hit->at);
}

/* A kernel that a rule has closed cannot fail. */
void log_custom_failed(struct log_reader *reader, const struct log_hit *hit,
		       size_t from)
{
	enum log_custom custom = reader->run.facts.custom;

	if (custom == LOG_CUSTOM_UNKNOWN || custom == LOG_CUSTOM_ENABLED)
		decide_custom(reader, LOG_CUSTOM_SETUP_FAILED, "", hit, from);
}

void log_custom_listed(struct log_reader *reader, const struct log_hit *hit,
		       size_t from, bool custom)
{
	enum log_custom known = reader->run.facts.custom;

	reader->run.tp_listed = true;
	if (known == LOG_CUSTOM_SETUP_FAILED)
		return;
	if (custom)
		decide_custom(reader, LOG_CUSTOM_ENABLED, "", hit, from);
	else if (known != LOG_CUSTOM_DISABLED)
		decide_custom(reader, LOG_CUSTOM_DISABLED, "", hit, from);
}

void log_generation(struct log_reader *reader, const char *generation)
{
	char *known = reader->run.facts.custom_generation;

	if (!known[0])
		memcpy(known, generation, strlen(generation) + 1);
}

/* The last one while requests ran counts: one at rest ends with the tail of a
 * request, which is no rate of its own. */
void log_rate(struct log_reader *reader, double tokens_per_second,
	      uint64_t running)
{
	struct log_facts *facts = &reader->run.facts;
	bool known = facts->generation_tokens_per_second > 0;

	if (!(tokens_per_second > 0) || (known && !running))
		return;
	facts->generation_tokens_per_second = tokens_per_second;
	facts->generation_running = running == UINT64_MAX ? 0 : running;
	facts->line.rate = reader->line;
}

void log_accepted(struct log_reader *reader, const struct log_hit *hit)
{
	struct log_facts *facts = &reader->run.facts;
	double tokens;

	/* "nan" before the first draft; no draft has a thousand tokens */
	if (!decimal_read(hit->line + hit->after, hit->bytes - hit->after,
			  &tokens) ||
	    !(tokens >= 1 && tokens < 1000))
		return;
	facts->tokens_per_step = tokens;
	facts->line.tokens_per_step = reader->line;
}

static enum log_engine engine_of(const struct log_reader *reader)
{
	if (reader->certain != LOG_NONE)
		return reader->certain;
	for (int engine = LOG_VLLM; engine <= LOG_NCCL; engine++)
		if (reader->likely[engine])
			return (enum log_engine)engine;
	return LOG_NONE;
}

static uint64_t count_ranks(const struct log_run *run, enum log_engine engine)
{
	const int *count = run->id_count;
	int workers = count[LOG_WORKER_PID], ranks = count[LOG_WORKER_RANK];

	if (engine == LOG_SGLANG && count[LOG_TP_RANK])
		return (uint64_t)count[LOG_TP_RANK];
	if (engine == LOG_VLLM && workers)
		return (uint64_t)(workers + (run->v0_workers && run->driver));
	if (engine == LOG_VLLM && ranks)
		return (uint64_t)ranks;
	if (count[LOG_NCCL_PID] > 1)
		return (uint64_t)count[LOG_NCCL_PID];
	return (uint64_t)count[LOG_NCCL_DEVICE];
}

static enum log_transport transport_of(const struct log_run *run)
{
	enum log_transport only = LOG_TRANSPORT_UNKNOWN;

	for (int kind = LOG_TRANSPORT_P2P; kind <= LOG_TRANSPORT_NET; kind++) {
		if (!(run->transports & 1 << kind))
			continue;
		if (only != LOG_TRANSPORT_UNKNOWN)
			return LOG_TRANSPORT_MIXED;
		only = (enum log_transport)kind;
	}
	return only;
}

/* What no line says but the settings together do. */
static void conclude(struct log_run *run, enum log_engine engine)
{
	struct log_facts *facts = &run->facts;
	bool why_unknown = facts->custom == LOG_CUSTOM_UNKNOWN ||
			   (facts->custom == LOG_CUSTOM_DISABLED &&
			    !facts->custom_rule[0]);

	facts->engine = engine;
	facts->version = run->versions[engine].version;
	facts->line.version = run->versions[engine].line;
	facts->ranks = count_ranks(run, engine);
	if (facts->ranks < run->world)
		facts->ranks = run->world;
	facts->transport = transport_of(run);
	if (why_unknown && facts->disable_custom == LOG_YES) {
		facts->custom = LOG_CUSTOM_DISABLED;
		memcpy(facts->custom_rule, "disabled_by_flag",
		       sizeof("disabled_by_flag"));
	}
	if (engine != LOG_SGLANG)
		facts->custom_generation[0] = '\0';
}

void log_reader_finish(struct log_reader *reader, struct log_facts *facts)
{
	enum log_engine engine = engine_of(reader);

	conclude(&reader->run, engine);
	if (reader->has_earlier)
		conclude(&reader->earlier, engine);
	if (reader->has_earlier && !reader->run.facts.custom)
		*facts = reader->earlier.facts;
	else
		*facts = reader->run.facts;
	free(reader);
}

const char *log_engine_name(enum log_engine engine)
{
	static const char *const names[] = {
		[LOG_VLLM] = "vllm",
		[LOG_SGLANG] = "sglang",
		[LOG_NCCL] = "nccl",
	};

	return engine > LOG_NONE && engine <= LOG_NCCL ? names[engine] : NULL;
}

const char *log_transport_name(enum log_transport transport)
{
	static const char *const names[] = {
		[LOG_TRANSPORT_P2P] = "P2P",
		[LOG_TRANSPORT_SHM] = "SHM",
		[LOG_TRANSPORT_NET] = "NET",
		[LOG_TRANSPORT_MIXED] = "mixed",
	};

	return transport > LOG_TRANSPORT_UNKNOWN &&
			       transport <= LOG_TRANSPORT_MIXED
		       ? names[transport]
		       : NULL;
}

const char *log_symm_mem_name(enum log_symm_mem symm_mem)
{
	static const char *const names[] = {
		[LOG_SYMM_ENABLED] = "enabled",
		[LOG_SYMM_CAPABILITY] = "capability_unsupported",
		[LOG_SYMM_NO_MULTICAST] = "no_multicast",
		[LOG_SYMM_WORLD_SIZE] = "world_size_unsupported",
		[LOG_SYMM_FAILED] = "failed",
	};

	return symm_mem > LOG_SYMM_UNKNOWN && symm_mem <= LOG_SYMM_FAILED
		       ? names[symm_mem]
		       : NULL;
}
