/* SPDX-License-Identifier: MIT */
/*
 * The benchmark's data on GPU memory: how buffers lie, and that nothing wrong
 * in them goes unnoticed. No GPU is needed: the sums are made here.
 */
#include <stdlib.h>
#include <string.h>

#include "bench/device_data.h"
#include "bench/sizes.h"
#include "tap.h"

#define RANKS 3
#define FIRST 1000 /* number of the first call */

static const struct bench_setup setup = {.rank = 1, .ranks = RANKS};

static void try_layout(void)
{
	int bad = 0;

	for (uint64_t bytes = 1; bytes < (uint64_t)1 << 33;
	     bytes += bytes / 3 + 1) {
		uint32_t buffers = bench_device_buffers(bytes);
		uint64_t side = bench_device_side(bytes, buffers);

		/* odd, and within 64 MiB unless it is one */
		bad += buffers % 2 != 1 || buffers > BENCH_BUFFERS_MAX;
		bad += buffers > 1 && side > 64 << 20;
		/* a gap behind each, and all as aligned as the first */
		bad += side < (bytes + 256) * buffers || side / buffers % 256;
	}
	tap_ok(!bad, "buffers of any size: odd, apart and aligned (%d bad)",
	       bad);
	tap_ok(bench_device_buffers(4 << 20) == 7 &&
		       bench_device_buffers(16 << 20) == 3 &&
		       bench_device_buffers(64 << 20) == 1,
	       "7 of 4M, 3 of 16M, 1 of 64M");
}

static void try_defaults(void)
{
	tap_ok(bench_default_calls(64, false) == 100 &&
		       bench_default_calls(4 << 20, false) == 100 &&
		       bench_default_calls((4 << 20) + 1, false) == 20 &&
		       bench_default_calls((uint64_t)1 << 32, false) == 5,
	       "calls of a replay by size");
	tap_ok(bench_default_replays(4 << 20, false) == 1000 &&
		       bench_default_replays((4 << 20) + 1, false) == 50 &&
		       bench_default_replays((uint64_t)1 << 32, false) == 20,
	       "replays by size");
	tap_ok(bench_default_calls(64, true) == 10 &&
		       bench_default_calls((uint64_t)1 << 32, true) == 5 &&
		       bench_default_replays(64, true) == 20,
	       "fewer of both where ranks share GPUs");
	/* the same table serves the host */
	tap_ok(bench_default_iterations(64 << 10, false) == 2000 &&
		       bench_default_iterations((64 << 10) + 1, false) ==
			       1000 &&
		       bench_default_iterations(16 << 20, false) == 30 &&
		       bench_default_iterations((16 << 20) + 1, false) == 12 &&
		       bench_default_iterations(64, true) == 100,
	       "calls on host memory as before");
}

/* Two sides: what this rank sends, and what all ranks' sum is. */
struct sides {
	struct bench_device_data data;
	size_t bytes;
	char *sent, *got;
};

static void poison(struct sides *sides)
{
	memset(sides->got, BENCH_POISON, sides->bytes);
}

/* As if every call had worked. */
static void sum_all(struct sides *sides)
{
	const struct bench_device_data *data = &sides->data;

	for (uint32_t i = 0; i < data->buffers; i++) {
		struct bench_pattern pattern = data->pattern;

		pattern.call += i;
		for (size_t k = 0; k < data->count; k++)
			bench_pattern_expect(&pattern, BENCH_ALL_RANKS, k,
					     sides->got + i * data->stride +
						     k * data->element);
	}
}

static void open_sides(struct sides *sides, enum oh_dtype dtype, uint64_t count)
{
	const struct bench_command command = {
		.dtype = dtype, .op = OH_SUM, .count = count, .buffers = 5};

	bench_device_data_open(&command, &setup, &sides->data);
	sides->bytes = (size_t)bench_device_side(count * oh_dtype_bytes(dtype),
						 command.buffers);
	sides->sent = aligned_alloc(64, sides->bytes);
	sides->got = aligned_alloc(64, sides->bytes);
	if (!sides->sent || !sides->got)
		exit(1);
	bench_device_data_write(&sides->data, FIRST, sides->sent);
	poison(sides);
	sum_all(sides);
}

static void close_sides(struct sides *sides)
{
	free(sides->sent);
	free(sides->got);
}

static uint64_t wrong(struct sides *sides, char *text, size_t room)
{
	*text = '\0';
	sides->data.wrong = 0;
	bench_device_data_check(&sides->data, sides->got, text, room);
	return sides->data.wrong;
}

static void try_right(void)
{
	static const enum oh_dtype dtypes[] = {OH_BF16, OH_F16, OH_F32, OH_I8};
	static const uint64_t counts[] = {1, 3, 32, 127, 128, 129, 4096};
	char text[200];
	int bad = 0;

	for (int i = 0; i < 4 * 7; i++) {
		struct sides sides;

		open_sides(&sides, dtypes[i % 4], counts[i / 4]);
		bad += wrong(&sides, text, sizeof(text)) != 0 || *text;
		bench_device_data_check_sent(&sides.data, sides.sent,
					     sides.sent, text, sizeof(text));
		bad += sides.data.wrong != 0 || *text;
		close_sides(&sides);
	}
	tap_ok(!bad, "what is right is found right (%d bad)", bad);
}

/* A fault, and how much of it must be found. */
typedef uint64_t fault_fn(struct sides *sides);

static uint64_t last_element(struct sides *sides)
{
	struct bench_device_data *data = &sides->data;

	sides->got[4 * data->stride + data->bytes - data->element] ^= 1;
	return 1;
}

static uint64_t gap(struct sides *sides)
{
	sides->got[sides->data.stride - 1] = 0;
	sides->got[sides->data.bytes] = 0;
	return 2;
}

static uint64_t not_there(struct sides *sides)
{
	memset(sides->got + 3 * sides->data.stride, BENCH_POISON,
	       sides->data.bytes);
	return sides->data.count;
}

/* Some elements are alike by chance: at most so many are found. */
static uint64_t older_call(struct sides *sides)
{
	const struct bench_device_data *data = &sides->data;

	memcpy(sides->got + 4 * data->stride, sides->got + 2 * data->stride,
	       data->bytes);
	return 0;
}

static uint64_t older_data(struct sides *sides)
{
	sides->data.pattern.call += sides->data.buffers;
	return 0;
}

static uint64_t own_data(struct sides *sides)
{
	memcpy(sides->got, sides->sent, sides->data.bytes);
	return 0;
}

static void try_wrong(void)
{
	static const struct {
		const char *what, *word;
		fault_fn *fault;
	} rows[] = {
		{"the last element of the last buffer",
		 "call 1004: element 999", last_element},
		{"bytes behind a buffer", "2 bytes behind recv", gap},
		{"a call that wrote nothing", "call 1003: element 0 of recv is",
		 not_there},
		{"the result of two calls before", "call 1004: element",
		 older_call},
		{"the results of the pass before", "call 1005: element",
		 older_data},
		{"a rank's own data", "call 1000: element", own_data},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct sides sides;
		char text[200];
		uint64_t due, seen;

		open_sides(&sides, OH_BF16, 1000);
		due = rows[i].fault(&sides);
		seen = wrong(&sides, text, sizeof(text));
		if (!tap_ok((due ? seen == due : seen > 900) &&
				    strstr(text, rows[i].word),
			    "noticed: %s", rows[i].what))
			tap_note("%llu: %s", (unsigned long long)seen, text);
		close_sides(&sides);
	}
}

static void try_sent(void)
{
	struct sides sides;
	char text[200] = "";

	open_sides(&sides, OH_F32, 100);
	memcpy(sides.got, sides.sent, sides.bytes);
	sides.got[sides.data.stride + 40] ^= 1;
	sides.got[sides.bytes - 1] ^= 1;
	bench_device_data_check_sent(&sides.data, sides.got, sides.sent, text,
				     sizeof(text));
	tap_ok(sides.data.wrong == 2 &&
		       !strcmp(text, "2 bytes of send were changed, the first "
				     "in element 10"),
	       "noticed: a changed input (%s)", text);
	close_sides(&sides);
}

int main(void)
{
	try_layout();
	try_defaults();
	try_right();
	try_wrong();
	try_sent();
	return tap_done();
}
