/* SPDX-License-Identifier: MIT */
#include "bench/device_data.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define POOL_BYTES (64ull << 20) /* of a side */
#define ALIGNMENT 256ull /* as allocators of frameworks have it */

static uint64_t stride_of(uint64_t bytes)
{
	return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + ALIGNMENT;
}

uint32_t bench_device_buffers(uint64_t bytes)
{
	uint32_t buffers = BENCH_BUFFERS_MAX;

	while (buffers > 1 && bench_device_side(bytes, buffers) > POOL_BYTES)
		buffers -= 2;
	return buffers;
}

uint64_t bench_device_side(uint64_t bytes, uint32_t buffers)
{
	return stride_of(bytes) * buffers;
}

void bench_device_data_open(const struct bench_command *command,
			    const struct bench_setup *setup,
			    struct bench_device_data *data)
{
	memset(data, 0, sizeof(*data));
	data->pattern.dtype = (enum oh_dtype)command->dtype;
	data->pattern.op = (enum oh_op)command->op;
	data->pattern.ranks = setup->ranks;
	data->pattern.fits = setup->fits;
	data->rank = setup->rank;
	data->buffers = command->buffers;
	data->count = (size_t)command->count;
	data->element = oh_dtype_bytes(data->pattern.dtype);
	data->bytes = data->count * data->element;
	data->stride = (size_t)stride_of(data->bytes);
}

/* The pattern of a buffer's call. */
static struct bench_pattern pattern_of(const struct bench_device_data *data,
				       uint32_t buffer)
{
	struct bench_pattern pattern = data->pattern;

	pattern.call += buffer;
	return pattern;
}

void bench_device_data_write(struct bench_device_data *data,
			     uint64_t first_call, char *side)
{
	data->pattern.call = first_call;
	memset(side, 0, data->stride * data->buffers);
	for (uint32_t i = 0; i < data->buffers; i++) {
		struct bench_pattern pattern = pattern_of(data, i);

		bench_pattern_fill(&pattern, data->rank, data->count,
				   side + i * data->stride);
	}
}

static void describe(const struct bench_device_data *data, uint32_t buffer,
		     const char *got, size_t index, char *text, size_t room)
{
	struct bench_pattern pattern = pattern_of(data, buffer);
	char want[8], have_text[40], want_text[40];

	bench_pattern_expect(&pattern, BENCH_ALL_RANKS, index, want);
	bench_pattern_text(pattern.dtype, want, want_text, sizeof(want_text));
	bench_pattern_text(pattern.dtype, got + index * data->element,
			   have_text, sizeof(have_text));
	snprintf(text, room,
		 "call %" PRIu64 ": element %zu of recv is %s instead of %s",
		 pattern.call, index, have_text, want_text);
}

/* Bytes of the gap behind a buffer that are no poison any more. */
static uint64_t check_gap(const struct bench_device_data *data, const char *got)
{
	uint64_t wrong = 0;

	for (size_t i = data->bytes; i < data->stride; i++)
		wrong += (unsigned char)got[i] != BENCH_POISON;
	return wrong;
}

void bench_device_data_check(struct bench_device_data *data, const char *side,
			     char *text, size_t room)
{
	for (uint32_t i = 0; i < data->buffers; i++) {
		struct bench_pattern pattern = pattern_of(data, i);
		const char *got = side + i * data->stride;
		size_t bad = 0, wrong;
		uint64_t beside = check_gap(data, got);

		wrong = bench_pattern_check(&pattern, BENCH_ALL_RANKS, 0, got,
					    data->count, &bad);
		if (wrong && !*text)
			describe(data, i, got, bad, text, room);
		if (beside && !*text)
			snprintf(text, room,
				 "%" PRIu64 " bytes behind recv were changed",
				 beside);
		data->wrong += wrong + beside;
	}
}

void bench_device_data_check_sent(struct bench_device_data *data,
				  const char *side, const char *sent,
				  char *text, size_t room)
{
	size_t bytes = data->stride * data->buffers, first = 0;
	uint64_t wrong = 0;

	if (!memcmp(side, sent, bytes))
		return;
	for (size_t i = bytes; i-- > 0;) {
		if (side[i] == sent[i])
			continue;
		wrong++;
		first = i;
	}
	if (!*text)
		snprintf(text, room,
			 "%" PRIu64 " bytes of send were changed, the first in "
			 "element %zu",
			 wrong, first % data->stride / data->element);
	data->wrong += wrong;
}
