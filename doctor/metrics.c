/* SPDX-License-Identifier: MIT */
/*
 * Reads the Prometheus and OpenMetrics text of vLLM and SGLang, a line at a
 * time, in constant memory. Series of one name are added up over engines,
 * models and reasons.
 *
 * A text may hold several scrapes, one behind the other: a new one begins with
 * a second HELP or TYPE of a name, behind "# EOF", or with a series that was
 * there before. Of each name the last scrape that is whole counts: a counter
 * of two scrapes is never added up, and a cut one does not replace a whole one.
 */
#include "doctor/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "doctor/decimal.h"

/* vLLM's histograms have 20 buckets, SGLang's 24. */
#define BUCKETS 64
/* Series of one scrape that are told apart; a power of two. */
#define SEEN 8192
#define SEEN_MOST (SEEN / 2)
#define PARTS(table) (sizeof(table) / sizeof(*(table)))

enum engine {
	ENGINE_VLLM,
	ENGINE_SGLANG,
	ENGINES,
};

static const char *const engine_names[ENGINES] = {
	[ENGINE_VLLM] = "vllm",
	[ENGINE_SGLANG] = "sglang",
};

/*
 * The time between tokens, the best first. vLLM called it
 * time_per_output_token before 0.11 or so; its request_... is one mean of each
 * request, so that long requests count as much as short ones.
 */
enum histogram_name {
	VLLM_INTER_TOKEN,
	SGLANG_INTER_TOKEN,
	VLLM_PER_TOKEN,
	SGLANG_PER_TOKEN,
	VLLM_PER_REQUEST,
	BETWEEN_TOKENS, /* how many of these there are */
	VLLM_FIRST_TOKEN = BETWEEN_TOKENS,
	SGLANG_FIRST_TOKEN,
	HISTOGRAMS,
};

static const struct {
	const char *name;
	enum engine engine;
} histogram_names[HISTOGRAMS] = {
	[VLLM_INTER_TOKEN] = {"vllm:inter_token_latency_seconds", ENGINE_VLLM},
	[SGLANG_INTER_TOKEN] = {"sglang:inter_token_latency_seconds",
				ENGINE_SGLANG},
	[VLLM_PER_TOKEN] = {"vllm:time_per_output_token_seconds", ENGINE_VLLM},
	[SGLANG_PER_TOKEN] = {"sglang:time_per_output_token_seconds",
			      ENGINE_SGLANG},
	[VLLM_PER_REQUEST] = {"vllm:request_time_per_output_token_seconds",
			      ENGINE_VLLM},
	[VLLM_FIRST_TOKEN] = {"vllm:time_to_first_token_seconds", ENGINE_VLLM},
	[SGLANG_FIRST_TOKEN] = {"sglang:time_to_first_token_seconds",
				ENGINE_SGLANG},
};

enum field {
	GENERATION_TOKENS,
	PROMPT_TOKENS,
	REQUESTS,
	RUNNING,
	WAITING,
	FIELDS,
};

/* Rows of one engine and field: the first that is there counts. The sums and
 * counts of finished requests stand in for counters that are left out. */
static const struct {
	const char *name;
	enum engine engine;
	enum field field;
} scalar_names[] = {
	{"vllm:generation_tokens_total", ENGINE_VLLM, GENERATION_TOKENS},
	{"vllm:request_generation_tokens_sum", ENGINE_VLLM, GENERATION_TOKENS},
	{"vllm:prompt_tokens_total", ENGINE_VLLM, PROMPT_TOKENS},
	{"vllm:request_prompt_tokens_sum", ENGINE_VLLM, PROMPT_TOKENS},
	{"vllm:request_success_total", ENGINE_VLLM, REQUESTS},
	{"vllm:request_generation_tokens_count", ENGINE_VLLM, REQUESTS},
	{"vllm:e2e_request_latency_seconds_count", ENGINE_VLLM, REQUESTS},
	{"vllm:num_requests_running", ENGINE_VLLM, RUNNING},
	{"vllm:num_requests_waiting", ENGINE_VLLM, WAITING},
	{"sglang:generation_tokens_total", ENGINE_SGLANG, GENERATION_TOKENS},
	{"sglang:prompt_tokens_total", ENGINE_SGLANG, PROMPT_TOKENS},
	{"sglang:num_requests_total", ENGINE_SGLANG, REQUESTS},
	{"sglang:e2e_request_latency_seconds_count", ENGINE_SGLANG, REQUESTS},
	{"sglang:num_running_reqs", ENGINE_SGLANG, RUNNING},
	{"sglang:num_queue_reqs", ENGINE_SGLANG, WAITING},
};

struct total {
	double value;
	uint64_t series; /* that were added up; 0: not there */
	uint64_t line; /* of the first */
};

struct bucket {
	double bound;
	struct total total;
};

struct histogram {
	struct total sum, count;
	int bucket_count;
	bool buckets_lost; /* more than there is room for */
	struct bucket buckets[BUCKETS];
};

struct scrape {
	struct histogram histograms[HISTOGRAMS];
	struct total scalars[PARTS(scalar_names)];
};

struct metrics_reader {
	uint64_t line;
	bool found, cut;
	enum engine engine; /* of the first series */
	struct scrape now, whole;
	uint64_t last; /* the series of the line before */
	double last_value;
	/* open addressing; a place is free unless it is of this scrape */
	int seen_count;
	uint32_t scrape;
	uint32_t seen_scrape[SEEN];
	uint64_t seen[SEEN];
};

struct sample {
	const char *name;
	size_t name_bytes;
	uint64_t identity; /* of name and labels, in whatever order */
	bool has_bound;
	double bound, value;
};

struct metrics_reader *metrics_reader_create(void)
{
	struct metrics_reader *reader = calloc(1, sizeof(*reader));

	if (reader)
		reader->scrape = 1;
	return reader;
}

static bool is_name_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '_' || c == ':';
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static size_t skip_blanks(const char *line, size_t bytes, size_t at)
{
	while (at < bytes && is_blank(line[at]))
		at++;
	return at;
}

/* FNV-1a, and a finish that makes sums of hashes safe to compare. */
static uint64_t hash_bytes(uint64_t hash, const char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ (unsigned char)text[i]) *
		       UINT64_C(1099511628211);
	return hash;
}

static uint64_t hash_finish(uint64_t hash)
{
	hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
	return hash ^ hash >> 31;
}

#define HASH_BASIS UINT64_C(14695981039346656037)

/* One label from at on: name="value" with \" inside. Returns where it ends, 0
 * if it is none. */
static size_t read_label(const char *line, size_t bytes, size_t at,
			 struct sample *sample)
{
	size_t name = at, value;
	uint64_t hash;

	while (at < bytes && is_name_byte(line[at]))
		at++;
	hash = hash_bytes(HASH_BASIS, line + name, at - name);
	if (at == name || at + 1 >= bytes || line[at] != '=' ||
	    line[at + 1] != '"')
		return 0;
	value = at + 2;
	for (at = value; at < bytes && line[at] != '"'; at++)
		at += line[at] == '\\';
	if (at >= bytes)
		return 0;
	hash = hash_bytes(hash, line + value - 1, at - value + 1);
	sample->identity += hash_finish(hash);
	if (value - 2 - name == 2 && !memcmp(line + name, "le", 2))
		sample->has_bound =
			decimal_read(line + value, at - value,
				     &sample->bound) == at - value &&
			at > value && !isnan(sample->bound);
	return at + 1;
}

/* "{a="1",b="2",}" from at on. Returns where it ends, 0 if it is cut. */
static size_t read_labels(const char *line, size_t bytes, size_t at,
			  struct sample *sample)
{
	for (at++; at < bytes; at++) {
		at = skip_blanks(line, bytes, at);
		if (at < bytes && line[at] == '}')
			return at + 1;
		at = read_label(line, bytes, at, sample);
		if (!at)
			return 0;
		at = skip_blanks(line, bytes, at);
		if (at < bytes && line[at] == '}')
			return at + 1;
		if (at >= bytes || line[at] != ',')
			return 0;
	}
	return 0;
}

/* Behind a value: nothing, a time, or an exemplar of OpenMetrics. */
static bool ends_well(const char *line, size_t bytes, size_t at)
{
	double time;

	if (at < bytes && !is_blank(line[at]))
		return false;
	at = skip_blanks(line, bytes, at);
	at += decimal_read(line + at, bytes - at, &time);
	at = skip_blanks(line, bytes, at);
	return at == bytes || (line[at] == '#' && line[at - 1] == ' ');
}

static bool read_sample(const char *line, size_t bytes, struct sample *sample)
{
	size_t at = 0, used;

	while (at < bytes && is_name_byte(line[at]))
		at++;
	sample->name = line;
	sample->name_bytes = at;
	sample->identity = hash_finish(hash_bytes(HASH_BASIS, line, at));
	sample->has_bound = false;
	at = skip_blanks(line, bytes, at);
	if (at < bytes && line[at] == '{')
		at = read_labels(line, bytes, at, sample);
	else if (at == sample->name_bytes)
		return false;
	if (!at)
		return false;
	at = skip_blanks(line, bytes, at);
	used = decimal_read(line + at, bytes - at, &sample->value);
	return used && ends_well(line, bytes, at + used);
}

static bool is_part(const struct total *now, const struct total *whole)
{
	return now->series < whole->series;
}

/* A cut scrape has fewer series or buckets than the whole one before. */
static bool is_partial(const struct histogram *now,
		       const struct histogram *whole)
{
	return is_part(&now->sum, &whole->sum) ||
	       is_part(&now->count, &whole->count) ||
	       now->bucket_count < whole->bucket_count;
}

static bool is_there(const struct histogram *histogram)
{
	return histogram->count.series || histogram->sum.series ||
	       histogram->bucket_count;
}

static void end_scrape(struct metrics_reader *reader)
{
	struct scrape *now = &reader->now, *whole = &reader->whole;

	for (int i = 0; i < HISTOGRAMS; i++) {
		if (!is_there(&now->histograms[i]))
			continue;
		if (!is_partial(&now->histograms[i], &whole->histograms[i]))
			whole->histograms[i] = now->histograms[i];
		memset(&now->histograms[i], 0, sizeof(now->histograms[i]));
	}
	for (size_t i = 0; i < PARTS(scalar_names); i++)
		if (now->scalars[i].series &&
		    !is_part(&now->scalars[i], &whole->scalars[i]))
			whole->scalars[i] = now->scalars[i];
	memset(now->scalars, 0, sizeof(now->scalars));
	reader->seen_count = 0;
	reader->scrape++;
}

/* Was it there in this scrape? What finds no more room is taken for new. */
static bool seen_before(struct metrics_reader *reader, uint64_t identity)
{
	size_t at = identity % SEEN;

	for (; reader->seen_scrape[at] == reader->scrape; at = (at + 1) % SEEN)
		if (reader->seen[at] == identity)
			return true;
	if (reader->seen_count < SEEN_MOST) {
		reader->seen_scrape[at] = reader->scrape;
		reader->seen[at] = identity;
		reader->seen_count++;
	}
	return false;
}

/* A second one of its kind begins a new scrape. */
static void count_in(struct metrics_reader *reader, uint64_t identity)
{
	if (!seen_before(reader, identity))
		return;
	end_scrape(reader);
	seen_before(reader, identity);
}

static void add(struct metrics_reader *reader, struct total *total,
		double value)
{
	if (!total->series++)
		total->line = reader->line;
	total->value += value;
}

static void add_bucket(struct metrics_reader *reader,
		       struct histogram *histogram, const struct sample *sample)
{
	int at = 0;

	/* nothing takes no time: such a bound says nothing */
	if (!sample->has_bound || !(sample->bound > 0))
		return;
	while (at < histogram->bucket_count &&
	       histogram->buckets[at].bound < sample->bound)
		at++;
	if (at == histogram->bucket_count ||
	    histogram->buckets[at].bound > sample->bound) {
		if (histogram->bucket_count == BUCKETS) {
			histogram->buckets_lost = true;
			return;
		}
		memmove(&histogram->buckets[at + 1], &histogram->buckets[at],
			(size_t)(histogram->bucket_count++ - at) *
				sizeof(struct bucket));
		histogram->buckets[at] =
			(struct bucket){.bound = sample->bound};
	}
	add(reader, &histogram->buckets[at].total, sample->value);
}

/* Exporters that take no colon in a name, Ray's for one, write "vllm_...". */
static bool begins_with(const char *text, size_t bytes, const char *name)
{
	size_t i = 0;

	for (; name[i] && i < bytes; i++)
		if (text[i] != name[i] && !(name[i] == ':' && text[i] == '_'))
			return false;
	return !name[i];
}

static bool is_name(const struct sample *sample, const char *name,
		    const char *suffix)
{
	size_t length = strlen(name), more = strlen(suffix);

	return sample->name_bytes == length + more &&
	       begins_with(sample->name, sample->name_bytes, name) &&
	       !memcmp(sample->name + length, suffix, more);
}

static void take_sample(struct metrics_reader *reader,
			const struct sample *sample)
{
	for (int i = 0; i < HISTOGRAMS; i++) {
		struct histogram *histogram = &reader->now.histograms[i];
		const char *name = histogram_names[i].name;

		if (is_name(sample, name, "_sum"))
			add(reader, &histogram->sum, sample->value);
		else if (is_name(sample, name, "_count"))
			add(reader, &histogram->count, sample->value);
		else if (is_name(sample, name, "_bucket"))
			add_bucket(reader, histogram, sample);
	}
	for (size_t i = 0; i < PARTS(scalar_names); i++)
		if (isfinite(sample->value) &&
		    is_name(sample, scalar_names[i].name, ""))
			add(reader, &reader->now.scalars[i], sample->value);
}

/* Without a colon only the names that are read are certain to be an engine's.
 */
static bool is_read(const char *text, size_t bytes)
{
	for (int i = 0; i < HISTOGRAMS; i++)
		if (begins_with(text, bytes, histogram_names[i].name))
			return true;
	for (size_t i = 0; i < PARTS(scalar_names); i++)
		if (begins_with(text, bytes, scalar_names[i].name))
			return true;
	return false;
}

/* The engine whose name a series begins with. */
static bool engine_of(const char *text, size_t bytes, enum engine *engine)
{
	for (int i = 0; i < ENGINES; i++) {
		size_t length = strlen(engine_names[i]);

		if (bytes <= length + 1 ||
		    memcmp(text, engine_names[i], length) != 0)
			continue;
		*engine = (enum engine)i;
		if (text[length] == ':')
			return is_name_byte(text[length + 1]);
		return text[length] == '_' && is_read(text, bytes);
	}
	return false;
}

/* "# HELP name ...", "# TYPE name ...", "# EOF" */
static void take_comment(struct metrics_reader *reader, const char *line,
			 size_t bytes)
{
	size_t name = sizeof("# HELP ") - 1, end;
	enum engine engine;

	if (bytes >= 5 && !memcmp(line, "# EOF", 5)) {
		end_scrape(reader);
		return;
	}
	if (bytes <= name ||
	    (memcmp(line, "# HELP ", name) && memcmp(line, "# TYPE ", name)) ||
	    !engine_of(line + name, bytes - name, &engine))
		return;
	for (end = name; end < bytes && is_name_byte(line[end]); end++)
		;
	count_in(reader, hash_finish(hash_bytes(HASH_BASIS, line, end)));
}

void metrics_reader_feed(struct metrics_reader *reader, const char *line,
			 size_t bytes, bool ended)
{
	struct sample sample;
	enum engine engine;
	size_t blanks;

	reader->line += !(bytes && line[0] == '\r');
	blanks = skip_blanks(line, bytes, 0);
	line += blanks;
	bytes -= blanks;
	if (bytes && line[0] == '#') {
		take_comment(reader, line, bytes);
		return;
	}
	/* Ray puts its own name before the engine's */
	if (bytes > 4 && !memcmp(line, "ray_", 4)) {
		line += 4;
		bytes -= 4;
	}
	if (!engine_of(line, bytes, &engine))
		return;
	reader->cut |= !ended;
	if (!ended || !read_sample(line, bytes, &sample))
		return;
	if (!reader->found)
		reader->engine = engine;
	reader->found = true;
	/* a line that stands there twice is one */
	if (sample.identity == reader->last &&
	    sample.value == reader->last_value)
		return;
	reader->last = sample.identity;
	reader->last_value = sample.value;
	count_in(reader, sample.identity);
	take_sample(reader, &sample);
}

/* All of it, by the count or by the last bucket. */
static const struct total *total_of(const struct histogram *histogram)
{
	int count = histogram->bucket_count;

	if (histogram->count.series || !count ||
	    !isinf(histogram->buckets[count - 1].bound))
		return &histogram->count;
	return &histogram->buckets[count - 1].total;
}

/* What several series are in: bounds that only one of them has say nothing of
 * the sum. */
static bool is_common(const struct histogram *histogram,
		      const struct bucket *bucket)
{
	return bucket->total.series == total_of(histogram)->series ||
	       !total_of(histogram)->series;
}

static enum oh_status check(const char *name, const struct histogram *histogram)
{
	const struct total *total = total_of(histogram);
	const struct bucket *before = NULL;

	if (!isfinite(histogram->sum.value) || histogram->sum.value < 0)
		return OH__FAIL(OH_ERR_INVALID,
				"metrics line %llu: %s_sum is %g, which is no "
				"time: scrape again",
				(unsigned long long)histogram->sum.line, name,
				histogram->sum.value);
	if (!isfinite(total->value) || total->value < 0)
		return OH__FAIL(OH_ERR_INVALID,
				"metrics line %llu: the count of %s is %g, "
				"which counts nothing: scrape again",
				(unsigned long long)total->line, name,
				total->value);
	for (int i = 0; i < histogram->bucket_count; i++) {
		const struct bucket *bucket = &histogram->buckets[i];
		double most = total->value, least = 0;

		if (!total->series)
			most = INFINITY;
		if (!is_common(histogram, bucket))
			continue;
		if (before)
			least = before->total.value;
		before = bucket;
		if (bucket->total.value >= least && bucket->total.value <= most)
			continue;
		return OH__FAIL(OH_ERR_INVALID,
				"metrics line %llu: the bucket le=\"%g\" of %s "
				"holds %g, outside the %g of the one below and "
				"the count of %g: scrape again",
				(unsigned long long)bucket->total.line,
				bucket->bound, name, bucket->total.value, least,
				most);
	}
	return OH_OK;
}

/* The bucket with the middle of all intervals in it. */
static void find_median(const struct histogram *histogram,
			struct metrics *metrics)
{
	const struct total *total = total_of(histogram);
	double low = 0, first = 0;
	bool known = false;

	if (histogram->bucket_count && isfinite(histogram->buckets[0].bound))
		first = histogram->buckets[0].bound;
	for (int i = 0; i < histogram->bucket_count; i++) {
		const struct bucket *bucket = &histogram->buckets[i];

		/* a series that was cut before its count */
		if (total->series && bucket->total.series > total->series)
			return;
		if (!is_common(histogram, bucket) || known)
			continue;
		if (bucket->total.value * 2 >= total->value) {
			known = true;
			metrics->median_low_s = low;
			metrics->median_high_s = bucket->bound;
		}
		low = bucket->bound;
	}
	metrics->first_bucket_s = first;
	/* one bucket without an end says nothing */
	metrics->has_median = known && first > 0 && total->value > 0 &&
			      !histogram->buckets_lost;
}

/* The best that counted anything, or the best that is there. */
static int choose(const struct scrape *scrape)
{
	int there = HISTOGRAMS;

	for (int i = BETWEEN_TOKENS - 1; i >= 0; i--)
		if (is_there(&scrape->histograms[i]))
			there = i;
	for (int i = 0; i < BETWEEN_TOKENS; i++)
		/* not "> 0": what is no number is to be complained of */
		if (is_there(&scrape->histograms[i]) &&
		    total_of(&scrape->histograms[i])->value != 0)
			return i;
	return there;
}

static enum oh_status use_histogram(const struct histogram *histogram,
				    const char *name, struct metrics *metrics)
{
	const struct total *total = total_of(histogram);
	enum oh_status status = check(name, histogram);

	if (status)
		return status;
	memcpy(metrics->metric, name, strlen(name) + 1);
	metrics->line = total->line;
	/* 2^63 is more than can be counted */
	metrics->tokens = total->value < 0x1p63 ? (uint64_t)total->value : 0;
	if (total->value > 0 && histogram->sum.series == total->series)
		metrics->mean_ms = histogram->sum.value / total->value * 1e3;
	find_median(histogram, metrics);
	return OH_OK;
}

static double scalar(const struct scrape *scrape, enum engine engine,
		     enum field field)
{
	for (size_t i = 0; i < PARTS(scalar_names); i++)
		if (scalar_names[i].engine == engine &&
		    scalar_names[i].field == field && scrape->scalars[i].series)
			return scrape->scalars[i].value;
	return -1;
}

static double first_token_ms(const struct scrape *scrape, enum engine engine)
{
	const struct histogram *histogram =
		&scrape->histograms[engine == ENGINE_VLLM ? VLLM_FIRST_TOKEN
							  : SGLANG_FIRST_TOKEN];
	double mean = histogram->sum.value / histogram->count.value * 1e3;

	if (!histogram->sum.series || !histogram->count.series ||
	    !isfinite(mean) || mean < 0)
		return -1;
	return mean;
}

static enum oh_status fill(const struct metrics_reader *reader,
			   struct metrics *metrics)
{
	const struct scrape *scrape = &reader->whole;
	enum engine engine = reader->engine;
	int chosen = choose(scrape);

	memset(metrics, 0, sizeof(*metrics));
	metrics->found = reader->found;
	metrics->cut = reader->cut;
	if (chosen < HISTOGRAMS) {
		enum oh_status status =
			use_histogram(&scrape->histograms[chosen],
				      histogram_names[chosen].name, metrics);

		if (status)
			return status;
		engine = histogram_names[chosen].engine;
	}
	if (reader->found)
		metrics->engine = engine_names[engine];
	metrics->generation_tokens = scalar(scrape, engine, GENERATION_TOKENS);
	metrics->prompt_tokens = scalar(scrape, engine, PROMPT_TOKENS);
	metrics->requests = scalar(scrape, engine, REQUESTS);
	metrics->running = scalar(scrape, engine, RUNNING);
	metrics->waiting = scalar(scrape, engine, WAITING);
	metrics->ttft_mean_ms = first_token_ms(scrape, engine);
	return OH_OK;
}

bool metrics_reader_finish(struct metrics_reader *reader,
			   struct metrics *metrics)
{
	struct metrics filled;
	enum oh_status status;

	end_scrape(reader);
	status = fill(reader, &filled);
	free(reader);
	if (!status)
		*metrics = filled;
	return !status;
}
