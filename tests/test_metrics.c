/* SPDX-License-Identifier: MIT */
/*
 * What is read out of metrics: public reports with the answers due, and the
 * shapes that a text of Prometheus or OpenMetrics may have.
 */
#include <glob.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "doctor/decimal.h"
#include "doctor/metrics.h"
#include "onehop/onehop.h"
#include "tap.h"

#define TEXT_MOST (1 << 20)
#define ITL "vllm:inter_token_latency_seconds"

/* The answers due have three places or four. */
static bool is_near(double a, double b)
{
	return fabs(a - b) < 6e-4;
}

static bool read_text(const char *text, struct metrics *metrics)
{
	struct metrics_reader *reader = metrics_reader_create();

	while (*text) {
		size_t bytes = strcspn(text, "\n");

		metrics_reader_feed(reader, text, bytes, text[bytes] == '\n');
		text += bytes + (text[bytes] == '\n');
	}
	return metrics_reader_finish(reader, metrics);
}

static void check_number(const char *where, json_t *due, const char *key,
			 double got)
{
	json_t *value = json_object_get(due, key);

	if (json_is_number(value))
		tap_ok(is_near(json_number_value(value), got),
		       "%s: %s is %g (got %g)", where, key,
		       json_number_value(value), got);
}

static void check_report(const char *where, json_t *due,
			 const struct metrics *metrics)
{
	json_t *median = json_object_get(due, "median_bucket");

	tap_ok(metrics->engine && !strcmp(metrics->engine,
					  json_string_value(json_object_get(
						  due, "engine"))),
	       "%s: of the engine", where);
	tap_ok(!strcmp(metrics->metric,
		       json_string_value(json_object_get(due, "metric"))),
	       "%s: by %s", where, metrics->metric);
	check_number(where, due, "tokens", (double)metrics->tokens);
	check_number(where, due, "mean_ms", metrics->mean_ms);
	check_number(where, due, "requests", metrics->requests);
	check_number(where, due, "ttft_mean_ms", metrics->ttft_mean_ms);
	check_number(where, due, "generation_tokens_total",
		     metrics->generation_tokens);
	check_number(where, due, "prompt_tokens_total", metrics->prompt_tokens);
	if (!json_is_array(median)) {
		tap_ok(!metrics->has_median, "%s: no median", where);
		return;
	}
	tap_ok(metrics->has_median &&
		       metrics->median_low_s ==
			       json_number_value(json_array_get(median, 0)) &&
		       metrics->median_high_s ==
			       json_number_value(json_array_get(median, 1)),
	       "%s: the median's bucket (got %g to %g)", where,
	       metrics->median_low_s, metrics->median_high_s);
}

static void try_report(const char *directory, const char *input,
		       const char *part)
{
	static char text[TEXT_MOST];
	struct metrics metrics;
	char path[4096];
	json_t *due;
	FILE *file;

	snprintf(path, sizeof(path), "%s/expect.json", directory);
	due = json_load_file(path, 0, NULL);
	snprintf(path, sizeof(path), "%s/%s", directory, input);
	file = fopen(path, "r");
	memset(text, 0, sizeof(text));
	if (!tap_ok(due && file && fread(text, 1, TEXT_MOST - 1, file) > 0,
		    "%s can be read", path))
		return;
	fclose(file);
	tap_ok(read_text(text, &metrics) && metrics.found, "%s is metrics",
	       path);
	check_report(strrchr(directory, '/') + 1, json_object_get(due, part),
		     &metrics);
	json_decref(due);
}

static void try_reports(const char *source)
{
	char pattern[4096];
	glob_t found;
	int count = 0;

	snprintf(pattern, sizeof(pattern), "%s/tests/reports/*", source);
	glob(pattern, 0, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		char path[4096];
		const char *kind;
		json_t *due;

		snprintf(path, sizeof(path), "%s/expect.json",
			 found.gl_pathv[i]);
		due = json_load_file(path, 0, NULL);
		kind = json_string_value(json_object_get(due, "kind"));
		if (kind && !strcmp(kind, "metrics")) {
			try_report(found.gl_pathv[i], "input.txt", "facts");
			count++;
		}
		json_decref(due);
	}
	globfree(&found);
	tap_ok(count >= 2, "there are reports of metrics (%d)", count);
	snprintf(pattern, sizeof(pattern),
		 "%s/tests/cases/glm5-eight-rtx-pro-6000", source);
	try_report(pattern, "metrics.prom", "metrics");
}

struct text_case {
	const char *what, *text;
	const char *engine, *metric; /* NULL: none */
	uint64_t tokens;
	double mean_ms;
	double low, high; /* of the median; high 0: none */
};

static const struct text_case cases[] = {
	{"nothing", "", NULL, NULL, 0, 0, 0, 0},
	{"prose with a name in it",
	 "The metric vllm:inter_token_latency_seconds_count 5\n"
	 "vllm: error 5\nvllm:generation_tokens_total went up\n"
	 "vllm:generation_tokens_total 500 tokens in all\n"
	 "vllm:generation_tokens_total{model=\"cut\n",
	 NULL, NULL, 0, 0, 0, 0},
	{"somebody else's metrics",
	 "process_cpu_seconds_total 5\nhttp_requests_total{le=\"1\"} 3\n", NULL,
	 NULL, 0, 0, 0, 0},
	{"an engine that served nothing",
	 "vllm:num_requests_running 0\n" ITL "_sum 0\n" ITL "_count 0\n",
	 "vllm", ITL, 0, 0, 0, 0},
	{"times behind the values",
	 ITL "_sum{a=\"b\"} 2 1520879607789\n" ITL
	     "_count{a=\"b\"} 4 1520879607789\n",
	 "vllm", ITL, 4, 500, 0, 0},
	{"quotes, commas and braces in labels",
	 ITL "_sum{a=\"}, le=\\\"0.1\\\" 7\", b=\"\\\\\"} 3\n" ITL
	     "_count{ b = \"\",} 9\n" ITL
	     "_count{a=\"}, le=\\\"0.1\\\" 7\", b=\"\\\\\",} 6\n",
	 "vllm", ITL, 6, 500, 0, 0},
	/* 4 of 10 up to 0.02, 8 up to 0.04: the 5th is in between */
	{"OpenMetrics",
	 "# TYPE " ITL " histogram\n# UNIT " ITL " seconds\n" ITL
	 "_bucket{le=\"0.02\"} 4 # {trace_id=\"x\"} 0.01 1.5e9\n" ITL
	 "_bucket{le=\"0.04\"} 8.0\n" ITL "_bucket{le=\"+Inf\"} 1e1\n" ITL
	 "_count 10\n" ITL "_sum 0.3\n" ITL "_created 1.7e9\n# EOF\n",
	 "vllm", ITL, 10, 30, 0.02, 0.04},
	/* 6 + 4 intervals; 1 + 3 of them up to 0.01, 6 + 4 up to 0.02 */
	{"two engines are added up",
	 ITL "_bucket{engine=\"0\",le=\"0.01\"} 1\n" ITL
	     "_bucket{engine=\"0\",le=\"0.02\"} 6\n" ITL
	     "_bucket{engine=\"0\",le=\"+Inf\"} 6\n" ITL
	     "_count{engine=\"0\"} 6\n" ITL "_sum{engine=\"0\"} 0.09\n" ITL
	     "_bucket{le=\"0.010\",engine=\"1\"} 3\n" ITL
	     "_bucket{le=\"2e-2\",engine=\"1\"} 4\n" ITL
	     "_bucket{le=\"inf\",engine=\"1\"} 4\n" ITL
	     "_count{engine=\"1\"} 4\n" ITL "_sum{engine=\"1\"} 0.01\n",
	 "vllm", ITL, 10, 10, 0.01, 0.02},
	/* 0.015 is a bound of one engine only: the median is between 0.01
	 * and 0.02 */
	{"bounds of one engine alone do not count",
	 ITL "_bucket{engine=\"0\",le=\"0.01\"} 1\n" ITL
	     "_bucket{engine=\"0\",le=\"0.015\"} 6\n" ITL
	     "_bucket{engine=\"0\",le=\"0.02\"} 6\n" ITL
	     "_count{engine=\"0\"} 6\n" ITL "_sum{engine=\"0\"} 0.09\n" ITL
	     "_bucket{le=\"0.01\",engine=\"1\"} 3\n" ITL
	     "_bucket{le=\"0.02\",engine=\"1\"} 4\n" ITL
	     "_count{engine=\"1\"} 4\n" ITL "_sum{engine=\"1\"} 0.01\n",
	 "vllm", ITL, 10, 10, 0.01, 0.02},
	{"buckets alone",
	 ITL "_bucket{le=\"0.01\"} 9\n" ITL "_bucket{le=\"+Inf\"} 10\n", "vllm",
	 ITL, 10, 0, 0, 0.01},
	{"a median above all bounds",
	 ITL "_bucket{le=\"0.01\"} 1\n" ITL "_bucket{le=\"+Inf\"} 10\n" ITL
	     "_count 10\n" ITL "_sum 1\n",
	 "vllm", ITL, 10, 100, 0.01, INFINITY},
	{"a bound of no time",
	 ITL "_bucket{le=\"0\"} 9\n" ITL "_bucket{le=\"0.01\"} 10\n" ITL
	     "_count 10\n" ITL "_sum 1\n",
	 "vllm", ITL, 10, 100, 0, 0.01},
	{"one bucket without an end",
	 ITL "_bucket{le=\"+Inf\"} 10\n" ITL "_count 10\n" ITL "_sum 1\n",
	 "vllm", ITL, 10, 100, 0, 0},
	{"old and new names together",
	 "vllm:time_per_output_token_seconds_sum 9\n"
	 "vllm:time_per_output_token_seconds_count 3\n" ITL "_sum 1\n" ITL
	 "_count 4\n",
	 "vllm", ITL, 4, 250, 0, 0},
	{"a new name that counted nothing yet",
	 "vllm:time_per_output_token_seconds_sum 9\n"
	 "vllm:time_per_output_token_seconds_count 3\n" ITL "_sum 0\n" ITL
	 "_count 0\n",
	 "vllm", "vllm:time_per_output_token_seconds", 3, 3000, 0, 0},
	{"means of requests, if there is nothing else",
	 "vllm:request_time_per_output_token_seconds_sum 0.4\n"
	 "vllm:request_time_per_output_token_seconds_count 8\n",
	 "vllm", "vllm:request_time_per_output_token_seconds", 8, 50, 0, 0},
	{"SGLang",
	 "sglang:inter_token_latency_seconds_sum{model_name=\"m\"} 2.5\n"
	 "sglang:inter_token_latency_seconds_bucket{le=\"0.002\","
	 "model_name=\"m\"} 1.0\n"
	 "sglang:inter_token_latency_seconds_bucket{le=\"0.004\","
	 "model_name=\"m\"} 1000.0\n"
	 "sglang:inter_token_latency_seconds_bucket{le=\"+Inf\","
	 "model_name=\"m\"} 1000.0\n"
	 "sglang:inter_token_latency_seconds_count{model_name=\"m\"} 1000.0\n",
	 "sglang", "sglang:inter_token_latency_seconds", 1000, 2.5, 0.002,
	 0.004},
	{"older SGLang",
	 "sglang:time_per_output_token_seconds_sum 8.8\n"
	 "sglang:time_per_output_token_seconds_count 880\n",
	 "sglang", "sglang:time_per_output_token_seconds", 880, 10, 0, 0},
	{"Ray Serve's names",
	 "# HELP ray_vllm_inter_token_latency_seconds x\n"
	 "ray_vllm_inter_token_latency_seconds_bucket{WorkerId=\"a\",le="
	 "\"0.02\"} 4\n"
	 "ray_vllm_inter_token_latency_seconds_bucket{WorkerId=\"a\",le="
	 "\"+Inf\"} 4\n"
	 "ray_vllm_inter_token_latency_seconds_count{WorkerId=\"a\"} 4\n"
	 "ray_vllm_inter_token_latency_seconds_sum{WorkerId=\"a\"} 0.04\n",
	 "vllm", ITL, 4, 10, 0, 0.02},
	{"names without a colon",
	 "sglang_inter_token_latency_seconds_sum 2\n"
	 "sglang_inter_token_latency_seconds_count 400\n",
	 "sglang", "sglang:inter_token_latency_seconds", 400, 5, 0, 0},
	{"without a colon only names that are read",
	 "vllm_exporter_scrapes_total 5\nvllm_up 1\nray_vllm_x 2\n"
	 "ray_serve_inter_token_latency_seconds_count 3\n",
	 NULL, NULL, 0, 0, 0, 0},
	/* engine 1 is cut before its count: its buckets are in no sum */
	{"a series that was cut before its count",
	 ITL "_bucket{engine=\"0\",le=\"0.01\"} 1\n" ITL
	     "_bucket{engine=\"0\",le=\"0.02\"} 6\n" ITL
	     "_bucket{engine=\"0\",le=\"0.03\"} 6\n" ITL
	     "_bucket{engine=\"0\",le=\"+Inf\"} 6\n" ITL
	     "_count{engine=\"0\"} 6\n" ITL "_sum{engine=\"0\"} 0.09\n" ITL
	     "_bucket{engine=\"1\",le=\"0.01\"} 3\n" ITL
	     "_bucket{engine=\"1\",le=\"0.02\"} 4\n",
	 "vllm", ITL, 6, 15, 0, 0},

	/* several scrapes */
	{"the second of two, told by TYPE",
	 "# TYPE " ITL " histogram\n" ITL "_sum 1\n" ITL
	 "_count 10\n# TYPE " ITL " histogram\n" ITL "_sum 3\n" ITL
	 "_count 20\n",
	 "vllm", ITL, 20, 150, 0, 0},
	{"told by EOF",
	 ITL "_sum 1\n" ITL "_count 10\n# EOF\n" ITL "_sum 3\n" ITL
	     "_count 20\n# EOF\n",
	 "vllm", ITL, 20, 150, 0, 0},
	{"told by the series alone",
	 ITL "_sum 1\n" ITL "_count 10\n" ITL "_sum 3\n" ITL "_count 20\n",
	 "vllm", ITL, 20, 150, 0, 0},
	{"a server that began anew counts less",
	 ITL "_sum 9\n" ITL "_count 90\n" ITL "_sum 1\n" ITL "_count 2\n",
	 "vllm", ITL, 2, 500, 0, 0},
	{"a second one that was cut",
	 "# HELP " ITL " x\n" ITL "_bucket{le=\"0.1\"} 9\n" ITL
	 "_bucket{le=\"+Inf\"} 10\n" ITL "_count 10\n" ITL "_sum 1\n# HELP " ITL
	 " x\n" ITL "_bucket{le=\"0.1\"} 19\n" ITL "_bucket{le=\"+I",
	 "vllm", ITL, 10, 100, 0, 0.1},
	{"a sum that may be cut within its number",
	 ITL "_count 10\n" ITL "_sum 2", "vllm", ITL, 10, 0, 0, 0},
	{"a carriage return before a series",
	 "\r" ITL "_count 10\n\r" ITL "_sum 2\r\n", "vllm", ITL, 10, 200, 0, 0},
	{"each line twice",
	 "# HELP " ITL " x\n# HELP " ITL " x\n# TYPE " ITL
	 " histogram\n# TYPE " ITL " histogram\n" ITL "_sum 1\n" ITL
	 "_sum 1\n" ITL "_count 10\n" ITL "_count 10\n",
	 "vllm", ITL, 10, 100, 0, 0},
	{"all of it twice",
	 ITL "_sum 1\n" ITL "_count 10\n" ITL "_sum 1\n" ITL "_count 10\n",
	 "vllm", ITL, 10, 100, 0, 0},
	{"a count without all of its sums",
	 ITL "_sum{engine=\"0\"} 1\n" ITL "_count{engine=\"0\"} 10\n" ITL
	     "_count{engine=\"1\"} 10\n",
	 "vllm", ITL, 20, 0, 0, 0},
};

static void try_case(const struct text_case *row)
{
	struct metrics metrics;
	bool fine = read_text(row->text, &metrics);

	if (!tap_ok(fine, "%s: no contradiction", row->what))
		return;
	tap_ok(metrics.found == (row->engine != NULL) &&
		       !strcmp(metrics.engine ? metrics.engine : "",
			       row->engine ? row->engine : ""),
	       "%s: of %s", row->what, row->engine ? row->engine : "nobody");
	tap_ok(!strcmp(metrics.metric, row->metric ? row->metric : ""),
	       "%s: by %s (got %s)", row->what,
	       row->metric ? row->metric : "nothing", metrics.metric);
	tap_ok(metrics.tokens == row->tokens &&
		       is_near(metrics.mean_ms, row->mean_ms),
	       "%s: %llu of %g ms (got %llu of %g)", row->what,
	       (unsigned long long)row->tokens, row->mean_ms,
	       (unsigned long long)metrics.tokens, metrics.mean_ms);
	tap_ok(metrics.has_median == (row->high > 0) &&
		       (!metrics.has_median ||
			(metrics.median_low_s == row->low &&
			 metrics.median_high_s == row->high)),
	       "%s: a median from %g to %g", row->what, row->low, row->high);
}

/* What contradicts itself is an error that names the line. */
static void try_contradictions(void)
{
	static const struct {
		const char *what, *text, *words;
	} rows[] = {
		{"a bucket above the count",
		 ITL "_bucket{le=\"0.1\"} 11\n" ITL "_count 10\n" ITL
		     "_sum 1\n",
		 "line 1"},
		{"a bucket below the one before",
		 ITL "_bucket{le=\"0.1\"} 5\n" ITL "_bucket{le=\"0.2\"} 4\n" ITL
		     "_count 10\n" ITL "_sum 1\n",
		 "line 2"},
		{"a sum that is no number", ITL "_count 10\n" ITL "_sum NaN\n",
		 "line 2"},
		{"a sum without end", ITL "_count 10\n" ITL "_sum +Inf\n",
		 "line 2"},
		{"a sum below nothing", ITL "_count 10\n" ITL "_sum -1\n",
		 "line 2"},
		{"a count that is no number", ITL "_sum 1\n" ITL "_count NaN\n",
		 "line 2"},
		{"a count below nothing", ITL "_sum 1\n" ITL "_count -4\n",
		 "line 2"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct metrics metrics = {.tokens = 7};
		bool fine = read_text(rows[i].text, &metrics);

		tap_ok(!fine && strstr(oh_last_error()->message, rows[i].words),
		       "%s: %s", rows[i].what, oh_last_error()->message);
		tap_ok(metrics.tokens == 7, "%s: nothing is set", rows[i].what);
	}
}

static void try_fields(void)
{
	struct metrics metrics;

	read_text("vllm:request_success_total{finished_reason=\"stop\"} 5\n"
		  "vllm:request_success_total{finished_reason=\"length\"} 2\n"
		  "vllm:request_success_total{finished_reason=\"abort\"} 0\n"
		  "vllm:e2e_request_latency_seconds_count 9\n"
		  "vllm:num_requests_running{engine=\"0\"} 3\n"
		  "vllm:num_requests_running{engine=\"1\"} 1\n"
		  "vllm:num_requests_waiting NaN\n"
		  "vllm:time_to_first_token_seconds_count 0\n"
		  "vllm:time_to_first_token_seconds_sum 0\n",
		  &metrics);
	tap_ok(metrics.requests == 7, "requests over all reasons");
	tap_ok(metrics.running == 4, "running ones over all engines");
	tap_ok(metrics.waiting < 0, "what is no number is not there");
	tap_ok(metrics.ttft_mean_ms < 0, "no mean of nothing");
	tap_ok(metrics.generation_tokens < 0 && metrics.prompt_tokens < 0,
	       "what is not there is not 0");
	tap_ok(!metrics.metric[0] && metrics.found, "but they are metrics");
	read_text("sglang:num_requests_total{is_streaming=\"true\"} 4.0\n"
		  "sglang:num_requests_total{is_streaming=\"false\"} 3\n"
		  "sglang:num_running_reqs 2\nsglang:num_queue_reqs 1\n"
		  "sglang:prompt_tokens_total 80\n"
		  "sglang:generation_tokens_total 500\n"
		  "sglang:time_to_first_token_seconds_sum 3\n"
		  "sglang:time_to_first_token_seconds_count 6\n",
		  &metrics);
	tap_ok(metrics.requests == 7 && metrics.running == 2 &&
		       metrics.waiting == 1 && metrics.prompt_tokens == 80 &&
		       metrics.generation_tokens == 500 &&
		       metrics.ttft_mean_ms == 500,
	       "SGLang's names");
}

/* More buckets and series than there is room for. */
static void try_limits(void)
{
	struct metrics_reader *reader = metrics_reader_create();
	struct metrics metrics;
	char line[256];

	for (int i = 1; i <= 200; i++) {
		snprintf(line, sizeof(line), ITL "_bucket{le=\"%d\"} %d", i, i);
		metrics_reader_feed(reader, line, strlen(line), true);
	}
	for (int i = 0; i < 20000; i++) {
		snprintf(line, sizeof(line),
			 "vllm:num_requests_running{engine=\"%d\"} 1", i);
		metrics_reader_feed(reader, line, strlen(line), true);
	}
	metrics_reader_feed(reader, ITL "_count 200", strlen(ITL "_count 200"),
			    true);
	tap_ok(metrics_reader_finish(reader, &metrics) && !metrics.has_median,
	       "too many buckets have no median");
	tap_ok(metrics.tokens == 200 && metrics.first_bucket_s == 1,
	       "but a count and a first bound");
	tap_ok(metrics.running == 20000, "any number of series is added up");
}

static void try_decimals(void)
{
	static const struct {
		const char *text;
		size_t used;
		double value;
	} rows[] = {
		{"0", 1, 0},
		{"57.5 x", 4, 57.5},
		{"1e-05", 5, 1e-05},
		{"1.0E+3,", 6, 1000},
		{"1e", 1, 1},
		{"1e+", 1, 1},
		{".5", 2, .5},
		{"5.", 2, 5},
		{"-2.5", 4, -2.5},
		{"+Inf", 4, INFINITY},
		{"-infinity", 9, -INFINITY},
		{"4941.843970537186", 17, 4941.843970537186},
		{"662.8116002082825", 17, 662.8116002082825},
		{"123456789012345678901234567890", 30, 1.2345678901234568e29},
		{"1e999999999999", 14, INFINITY},
		{"1e-999999999999", 15, 0},
		{"", 0, 7},
		{".", 0, 7},
		{"-", 0, 7},
		{"inx", 0, 7},
		{"e5", 0, 7},
	};
	double value;
	uint64_t count = 7;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		size_t used;

		value = 7;
		used = decimal_read(rows[i].text, strlen(rows[i].text), &value);
		tap_ok(used == rows[i].used && value == rows[i].value,
		       "\"%s\" is %.17g (got %.17g)", rows[i].text,
		       rows[i].value, value);
	}
	tap_ok(decimal_read("NaN", 3, &value) == 3 && isnan(value),
	       "no number is one too");
	tap_ok(decimal_read_count("18446744073709551615", 20, &count) == 20 &&
		       count == UINT64_MAX,
	       "the largest count");
	tap_ok(!decimal_read_count("18446744073709551616", 20, &count) &&
		       count == UINT64_MAX,
	       "one more does not fit");
}

int main(void)
{
	const char *source = getenv("SOURCE");

	if (!source)
		tap_skip_all("SOURCE does not say where the reports are");
	setenv("ONEHOP_LOG", "off", 0);
	try_reports(source);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		try_case(&cases[i]);
	try_contradictions();
	try_fields();
	try_limits();
	try_decimals();
	return tap_done();
}
