/* SPDX-License-Identifier: MIT */
/*
 * A target for libFuzzer, built on request only (clang):
 *
 *	meson compile -C build fuzz_metrics &&
 *	build/tests/fuzz_metrics -runs=1000000
 *
 * The input is a text; its lines go to the reader of metrics. What it finds
 * must be of an engine, and numbers must be numbers.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/metrics.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(bool holds)
{
	if (!holds)
		abort();
}

static void check_metrics(const struct metrics *metrics)
{
	check(metrics->found == (metrics->engine != NULL));
	check(metrics->found || !metrics->metric[0]);
	check(memchr(metrics->metric, '\0', sizeof(metrics->metric)));
	check(metrics->mean_ms >= 0 && !isnan(metrics->mean_ms));
	check(metrics->tokens || metrics->line || !metrics->metric[0] ||
	      metrics->mean_ms == 0);
	check(!metrics->has_median ||
	      metrics->median_low_s < metrics->median_high_s);
	check(metrics->first_bucket_s >= 0 &&
	      isfinite(metrics->first_bucket_s));
	check(!isnan(metrics->ttft_mean_ms));
	check(isfinite(metrics->requests) && isfinite(metrics->running));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const char *text = (const char *)data, *end = text + bytes;
	struct metrics_reader *reader = metrics_reader_create();
	struct metrics metrics;

	setenv("ONEHOP_LOG", "off", 0);
	while (text < end) {
		size_t left = (size_t)(end - text);
		const char *stop = memchr(text, '\n', left);
		size_t length = stop ? (size_t)(stop - text) : left;
		/* of its own, so that a byte too far is seen */
		char *line = malloc(length ? length : 1);

		memcpy(line, text, length);
		metrics_reader_feed(reader, line, length, stop != NULL);
		free(line);
		text += length + (stop != NULL);
	}
	if (metrics_reader_finish(reader, &metrics))
		check_metrics(&metrics);
	return 0;
}
