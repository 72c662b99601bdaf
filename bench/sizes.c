/* SPDX-License-Identifier: MIT */
/* Parsers take the whole text or nothing: a typing error is not a size. */
#include "bench/sizes.h"

#include <string.h>

static bool parse_digits(const char *text, size_t length, uint64_t *value)
{
	uint64_t sum = 0;

	if (!length || length > 19)
		return false;
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		sum = sum * 10 + (uint64_t)(text[i] - '0');
	}
	*value = sum;
	return true;
}

bool bench_parse_number(const char *text, uint64_t low, uint64_t high,
			uint64_t *value)
{
	uint64_t number;

	if (!parse_digits(text, strlen(text), &number))
		return false;
	if (number < low || number > high)
		return false;
	*value = number;
	return true;
}

static bool parse_size(const char *text, size_t length, uint64_t *bytes)
{
	static const char units[] = "KkMmGg";
	const char *unit = NULL;
	unsigned shift = 0;
	uint64_t number;

	if (length)
		unit = memchr(units, text[length - 1], sizeof(units) - 1);
	if (unit) {
		shift = 10 * (unsigned)((unit - units) / 2 + 1);
		length--;
	}
	if (!parse_digits(text, length, &number))
		return false;
	if (!number || number > BENCH_SIZE_MAX >> shift)
		return false;
	*bytes = number << shift;
	return true;
}

bool bench_parse_size(const char *text, uint64_t *bytes)
{
	return parse_size(text, strlen(text), bytes);
}

bool bench_parse_sizes(const char *text, struct bench_sizes *sizes)
{
	sizes->count = 0;
	for (;;) {
		size_t length = strcspn(text, ",");

		if (sizes->count == BENCH_SIZES_MAX)
			return false;
		if (!parse_size(text, length, &sizes->bytes[sizes->count]))
			return false;
		sizes->count++;
		if (!text[length])
			return true;
		text += length + 1;
	}
}

bool bench_sizes_range(uint64_t first, uint64_t last, uint64_t factor,
		       uint64_t step, struct bench_sizes *sizes)
{
	sizes->count = 0;
	for (uint64_t bytes = first; bytes <= last;) {
		if (sizes->count == BENCH_SIZES_MAX)
			return false;
		sizes->bytes[sizes->count++] = bytes;
		bytes = step ? bytes + step : bytes * factor;
	}
	return true;
}

/* Up to bytes so many. */
struct step {
	uint64_t bytes;
	int number;
};

/* The first step that the bytes do not exceed; the last one takes all. */
static int find_step(const struct step *steps, uint64_t bytes)
{
	while (bytes > steps->bytes)
		steps++;
	return steps->number;
}

int bench_default_iterations(uint64_t bytes, bool crowded)
{
	static const struct step steps[] = {{64 << 10, 2000}, {256 << 10, 1000},
					    {1 << 20, 400},   {4 << 20, 120},
					    {16 << 20, 30},   {UINT64_MAX, 12}};
	int iterations = find_step(steps, bytes);

	/* a call then waits for the scheduler, often a tick of some ms */
	if (crowded && iterations > 100)
		iterations = 100;
	return iterations;
}

int bench_default_warmups(uint64_t bytes)
{
	if (bytes <= 64 << 10)
		return 10;
	return bytes <= 1 << 20 ? 5 : 2;
}

int bench_default_calls(uint64_t bytes, bool shared)
{
	static const struct step steps[] = {
		{4 << 20, 100}, {16 << 20, 20}, {UINT64_MAX, 5}};
	int calls = find_step(steps, bytes);

	/* a call then waits for a slice of the GPU's time, some ms */
	return shared && calls > 10 ? 10 : calls;
}

int bench_default_replays(uint64_t bytes, bool shared)
{
	static const struct step steps[] = {
		{4 << 20, 1000}, {16 << 20, 50}, {UINT64_MAX, 20}};
	int replays = find_step(steps, bytes);

	return shared && replays > 20 ? 20 : replays;
}
