/* SPDX-License-Identifier: MIT */
/*
 * Prometheus or OpenMetrics text of vLLM and SGLang: the time between tokens,
 * by its sum and count, and by its buckets where they are there. Series of
 * several engines or models are added up; a mean is from sum and count, never
 * from buckets.
 */
#ifndef OH_DOCTOR_METRICS_H
#define OH_DOCTOR_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct metrics {
	char file[192]; /* for evidence; set by who feeds the reader */
	bool found; /* any series of an engine */
	bool cut; /* a series was left out that may be cut */
	const char *engine; /* "vllm", "sglang", NULL */
	char metric[64]; /* the histogram that was used, "" if none */
	uint64_t line; /* of its count */
	uint64_t tokens; /* intervals counted */
	double mean_ms; /* 0 if tokens is 0 */
	bool has_median;
	double median_low_s, median_high_s; /* the bucket; high may be inf */
	/* the finest bucket that tells fast ones apart, in seconds; 0: none */
	double first_bucket_s;
	/* beside it; negative: not there */
	double generation_tokens, prompt_tokens, requests, running, waiting;
	double ttft_mean_ms;
};

struct metrics_reader;

struct metrics_reader *metrics_reader_create(void);
/* As log_reader_feed. A series in a line that is not ended may be cut within a
 * number and is left out. */
void metrics_reader_feed(struct metrics_reader *reader, const char *line,
			 size_t bytes, bool ended);
/* false with the reason in oh_last_error if series contradict each other (a
 * bucket above the count, a sum that is no number). Frees the reader. */
bool metrics_reader_finish(struct metrics_reader *reader,
			   struct metrics *metrics);

#endif
