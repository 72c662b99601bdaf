/* SPDX-License-Identifier: MIT */
/*
 * The table of a communicator, measured with the engine that will run it. For
 * a few sizes every candidate sums a buffer that each rank has just rewritten,
 * as an engine's next layer would have; of the ranks' medians of a few calls
 * the slowest counts (rank 0's alone chose two-shot where it was slower half of
 * the time), and rank 0's choice is broadcast. Data is sums of small integers
 * and is not looked at: tests do that.
 *
 * Whether ranks measure must be the same on all of them: it depends on settings
 * that they agreed on, on the processors that all have told all, and on the
 * time that the slowest has spent so far (a machine that others keep busy would
 * cost a scheduler's tick a call, and its figures are worth nothing).
 */
#include "collective/communicator.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

/* A row of the table each: measured at so many bytes, and up to which it
 * serves: half-way (in powers of two) to the next. Of a two-shot with string
 * stores 4 KiB says nothing of 8: it took 0.33 and 0.9 us. */
static const struct {
	uint32_t bytes, last;
} probes[] = {
	{1024, 2048},	 {4096, 5792},	   {8192, 11584},      {16384, 32768},
	{65536, 131072}, {262144, 524288}, {1 << 20, 2 << 20},
};

#define PROBES (sizeof(probes) / sizeof(probes[0]))
_Static_assert(PROBES + 1 <= OH__ROWS, "a row for small ones and every probe");

#define HANDSHAKES 200
/* Calls of a candidate: the first half warms the caches and faults pages in
 * (string stores take some twenty calls to reach their pace), the median of
 * the second half counts. */
#define REPEATS 96
#define REPEATS_LONG 24
#define REPEATS_LONG_FIRST 262144
/* a second hand-shake must be worth it, in per cent of the time */
#define TWO_SHOT_GAIN 10
/* then the default serves */
#define BUDGET_NS (50 * OH__NS_PER_MS)

static const struct oh__row plain_row = {
	.last_bytes = UINT64_MAX,
	.round_bytes = 4096,
	.algorithm = OH__ONE_SHOT,
	.stores = OH__STORES_VECTOR,
};

static enum oh_status sum(struct oh_comm *comm, const struct oh__row *row,
			  float *data, size_t bytes)
{
	struct oh__call call = {
		.collective = OH_ALL_REDUCE,
		.send = data,
		.recv = data,
		.count = bytes / sizeof(float),
		.dtype = OH_F32,
		.op = OH_SUM,
	};

	return oh__run_rounds(comm, row, &call);
}

/* Has the slowest rank spent more than the budget? The same on all ranks. */
static enum oh_status over_budget(struct oh_comm *comm, uint64_t start_ns,
				  bool *over)
{
	uint64_t spent = oh__now_ns() - start_ns;
	struct oh__call call = {
		.collective = OH_ALL_REDUCE,
		.send = &spent,
		.recv = &spent,
		.count = 1,
		.dtype = OH_U64,
		.op = OH_MAX,
	};
	enum oh_status status = oh__run_rounds(comm, &plain_row, &call);

	*over = spent > BUDGET_NS;
	return status;
}

static enum oh_status measure_handshake(struct oh_comm *comm, float *data,
					uint32_t *shortest)
{
	*shortest = UINT32_MAX;
	for (int i = 0; i < HANDSHAKES; i++) {
		uint64_t start = oh__now_ns(), ns;
		enum oh_status status =
			sum(comm, &plain_row, data, sizeof(float));

		if (status)
			return status;
		ns = oh__now_ns() - start;
		if (ns < *shortest)
			*shortest = (uint32_t)ns;
		*data = 1;
	}
	return OH_OK;
}

/* The middle one of a few, which it sorts. */
static uint32_t median(uint32_t *ns, int count)
{
	for (int i = 1; i < count; i++)
		for (int k = i; k > 0 && ns[k] < ns[k - 1]; k--) {
			uint32_t larger = ns[k - 1];

			ns[k - 1] = ns[k];
			ns[k] = larger;
		}
	return ns[count / 2];
}

/* A call is as slow as its slowest rank. */
static enum oh_status slowest(struct oh_comm *comm, uint32_t *ns)
{
	struct oh__call call = {
		.collective = OH_ALL_REDUCE,
		.send = ns,
		.recv = ns,
		.count = 1,
		.dtype = OH_U32,
		.op = OH_MAX,
	};

	return oh__run_rounds(comm, &plain_row, &call);
}

static enum oh_status measure_candidate(struct oh_comm *comm,
					const struct oh__row *row, float *data,
					size_t bytes, uint32_t *typical)
{
	int repeats = bytes < REPEATS_LONG_FIRST ? REPEATS : REPEATS_LONG;
	uint32_t ns[REPEATS];

	for (int i = 0; i < repeats; i++) {
		enum oh_status status;
		uint64_t start;

		for (size_t k = 0; k < bytes / sizeof(float); k++)
			data[k] = (float)(i + (int)(k & 63));
		status = sum(comm, &plain_row, data, sizeof(float));
		start = oh__now_ns();
		if (!status)
			status = sum(comm, row, data, bytes);
		if (status)
			return status;
		ns[i] = (uint32_t)(oh__now_ns() - start);
	}
	*typical = median(ns + repeats / 2, repeats / 2);
	return slowest(comm, typical);
}

/* Is the row better than the best so far? */
static bool beats(const struct oh__row *row, uint32_t ns,
		  const struct oh__row *best, uint32_t best_ns)
{
	if (best_ns != UINT32_MAX && row->algorithm == OH__TWO_SHOT &&
	    best->algorithm == OH__ONE_SHOT)
		return ns < best_ns - best_ns / 100 * TWO_SHOT_GAIN;
	return ns < best_ns;
}

/* Fills the row of one probe: the times of all candidates and the best. */
static enum oh_status measure_row(struct oh_comm *comm,
				  const struct oh__table_options *options,
				  float *data, size_t bytes,
				  struct oh__row *best)
{
	uint32_t best_ns = UINT32_MAX;

	best->probe_bytes = bytes;
	for (int i = 0; i < OH__CANDIDATES; i++) {
		struct oh__row row = {
			.last_bytes = UINT64_MAX,
			.round_bytes = options->slot_bytes,
			.algorithm = (uint32_t)i / OH__STORES_COUNT,
			.stores = (uint32_t)i % OH__STORES_COUNT,
		};
		enum oh_status status;

		if (oh__candidate_refused(options, bytes,
					  (enum oh__algorithm)row.algorithm,
					  (enum oh__stores)row.stores))
			continue;
		status = measure_candidate(comm, &row, data, bytes,
					   &best->probe_ns[i]);
		if (status)
			return status;
		if (beats(&row, best->probe_ns[i], best, best_ns)) {
			best_ns = best->probe_ns[i];
			best->algorithm = row.algorithm;
			best->stores = row.stores;
		}
	}
	return OH_OK;
}

/* The stores that are fastest for a one-shot of this size serve the other
 * collectives, which stage in the same way. */
static void add_others(struct oh__table *table,
		       const struct oh__table_options *options,
		       const struct oh__row *measured)
{
	struct oh__row row = {
		.last_bytes = measured->last_bytes,
		.algorithm = OH__ONE_SHOT,
		.stores = measured->stores,
	};
	uint32_t best_ns = UINT32_MAX;

	for (int s = 0; s < OH__STORES_COUNT; s++) {
		uint32_t ns = measured->probe_ns[oh__candidate(
			OH__ONE_SHOT, (enum oh__stores)s)];

		if (ns && ns < best_ns) {
			best_ns = ns;
			row.stores = (uint32_t)s;
		}
	}
	for (int c = OH_REDUCE_SCATTER; c <= OH_BROADCAST; c++)
		oh__table_add(table, options, (enum oh_collective)c, &row);
}

static enum oh_status measure_table(struct oh_comm *comm,
				    const struct oh__table_options *options,
				    float *data, struct oh__table *table)
{
	uint64_t start_ns = oh__now_ns();
	enum oh_status status;
	bool over;

	oh__table_begin(table, options);
	status = measure_handshake(comm, data, &table->handshake_ns);
	for (size_t i = 0; i < PROBES && !status; i++) {
		struct oh__row row = {.last_bytes = UINT64_MAX};
		size_t bytes = probes[i].bytes;

		status = over_budget(comm, start_ns, &over);
		if (status)
			return status;
		if (over) {
			comm->table_reason = "the machine is busy, measuring "
					     "took too long";
			oh__table_standard(table, options);
			return OH_OK;
		}
		/* larger probes would run in rounds: the row before serves */
		if (i && bytes > options->slot_bytes)
			break;
		if (bytes > options->slot_bytes)
			bytes = options->slot_bytes;
		status = measure_row(comm, options, data, bytes, &row);
		if (i + 1 < PROBES &&
		    probes[i + 1].bytes <= options->slot_bytes)
			row.last_bytes = probes[i].last;
		oh__table_add(table, options, OH_ALL_REDUCE, &row);
		add_others(table, options, &row);
	}
	return status;
}

/* Rank 0's table becomes everyone's. */
static enum oh_status share_table(struct oh_comm *comm, struct oh__table *table)
{
	struct oh__call call = {
		.collective = OH_BROADCAST,
		.send = table,
		.recv = table,
		.count = sizeof(*table),
		.dtype = OH_U8,
	};
	enum oh_status status = oh__run_rounds(comm, &plain_row, &call);

	if (status)
		return status;
	if (oh__table_valid(table, comm->mailbox.ranks,
			    comm->mailbox.slot_bytes))
		return OH_OK;
	oh__mailbox_fail(&comm->mailbox, OH_ERR_PROTOCOL, 0);
	return OH__FAIL(OH_ERR_PROTOCOL,
			"rank 0 sent a table that cannot be run");
}

enum oh_status oh__tune(struct oh_comm *comm, bool measure)
{
	const struct oh__table_options *options = &comm->table_options;
	enum oh_status status;
	float *data;

	if (!measure) {
		oh__table_standard(&comm->table, options);
		return OH_OK;
	}
	/* as tensors are: 16 bytes off a line two-shot seemed the faster one */
	data = aligned_alloc(4096, probes[PROBES - 1].bytes);
	if (!data) {
		oh__mailbox_fail(&comm->mailbox, OH_ERR_NO_MEMORY,
				 comm->mailbox.rank);
		return OH__FAIL(OH_ERR_NO_MEMORY, "no memory to measure with");
	}
	status = measure_table(comm, options, data, &comm->table);
	if (!status)
		status = share_table(comm, &comm->table);
	free(data);
	return status;
}
