/* SPDX-License-Identifier: MIT */
/*
 * The data of calls on GPU memory, seen from the host: how the buffers of a
 * case lie, what is written to them, what must come out. The calls of a replay
 * take the buffers in turn, so a call never finds what the one before it, or
 * the one before that, left in a mailbox. Plain C: no GPU is needed.
 *
 * A side is its buffers one after the other, each followed by a gap; both sides
 * are alike. In recv everything is BENCH_POISON before a round: a NaN in every
 * type of floating point, and in the gaps it must stay.
 */
#ifndef OH_BENCH_DEVICE_DATA_H
#define OH_BENCH_DEVICE_DATA_H

#include "bench/pattern.h"
#include "bench/protocol.h"

#define BENCH_POISON 0xff

/* The most buffers of a side: odd, as mailboxes alternate. */
#define BENCH_BUFFERS_MAX 7

struct bench_device_data {
	struct bench_pattern pattern; /* call: of the first buffer */
	int rank;
	uint32_t buffers;
	size_t count, element;
	size_t bytes; /* of a call */
	size_t stride; /* from buffer to buffer */
	uint64_t wrong; /* elements and bytes of gaps so far */
};

/* How many buffers of that size each side has: 1, 3, 5 or 7, some 64 MiB. */
uint32_t bench_device_buffers(uint64_t bytes);

/* Bytes of one side. */
uint64_t bench_device_side(uint64_t bytes, uint32_t buffers);

void bench_device_data_open(const struct bench_command *command,
			    const struct bench_setup *setup,
			    struct bench_device_data *data);

/* Writes a whole side of inputs; first_call is that of the first buffer. */
void bench_device_data_write(struct bench_device_data *data,
			     uint64_t first_call, char *side);

/*
 * Compares a whole side of results. Adds to data->wrong; the first wrong
 * element is described in text, which is empty before.
 */
void bench_device_data_check(struct bench_device_data *data, const char *side,
			     char *text, size_t room);

/* The inputs must be as they were. */
void bench_device_data_check_sent(struct bench_device_data *data,
				  const char *side, const char *sent,
				  char *text, size_t room);

#endif
