/* SPDX-License-Identifier: MIT */
/* Which path a call would take, told from the same table that calls use. */
#include "collective/device.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static double us_of(uint32_t ns)
{
	return ns / 1000.0;
}

static uint32_t chosen_ns(const struct oh__row *row)
{
	return row->probe_ns[oh__candidate((enum oh__algorithm)row->algorithm,
					   (enum oh__stores)row->stores)];
}

static void explain_row(const struct oh__row *row,
			enum oh_collective collective, struct oh_route *route)
{
	char upto[48] = "of any larger size";

	if (row->last_bytes != UINT64_MAX)
		snprintf(upto, sizeof(upto), "up to %llu bytes",
			 (unsigned long long)row->last_bytes);
	snprintf(route->row, sizeof(route->row),
		 "%s %s: %s, %s stores, rounds of %llu bytes",
		 oh_collective_name(collective), upto,
		 oh__algorithm_name((enum oh__algorithm)row->algorithm),
		 oh__stores_name((enum oh__stores)row->stores),
		 (unsigned long long)row->round_bytes);
}

static void explain_evidence(const struct oh_comm *comm,
			     const struct oh__row *row, struct oh_route *route)
{
	if (comm->table_reason)
		snprintf(route->evidence, sizeof(route->evidence),
			 "nothing was measured, the table is the default: %s",
			 comm->table_reason);
	else if (row->probe_bytes)
		snprintf(route->evidence, sizeof(route->evidence),
			 "when the communicator was made it took %.2f us at "
			 "%llu bytes, the best of all; a hand-shake took %.2f "
			 "us",
			 us_of(chosen_ns(row)),
			 (unsigned long long)row->probe_bytes,
			 us_of(comm->table.handshake_ns));
	else if (row->last_bytes == OH__SMALL_LAST)
		snprintf(route->evidence, sizeof(route->evidence),
			 "a call of so few bytes is one hand-shake and is not "
			 "measured; a hand-shake took %.2f us when the "
			 "communicator was made",
			 us_of(comm->table.handshake_ns));
	else
		snprintf(route->evidence, sizeof(route->evidence),
			 "the stores are those that staged a one-shot "
			 "all-reduce of this size fastest when the "
			 "communicator was made; a hand-shake took %.2f us",
			 us_of(comm->table.handshake_ns));
}

static struct oh_route_alternative *add(struct oh_route *route,
					const char *name, const char *reason)
{
	struct oh_route_alternative *other =
		&route->alternatives[route->alternative_count++];

	snprintf(other->name, sizeof(other->name), "%s", name);
	snprintf(other->reason, sizeof(other->reason), "%s", reason);
	return other;
}

/* A candidate of the row, by what was measured. */
static void explain_candidate(const struct oh_comm *comm,
			      const struct oh__row *row, int candidate,
			      struct oh_route *route)
{
	enum oh__algorithm algorithm =
		(enum oh__algorithm)(candidate / OH__STORES_COUNT);
	enum oh__stores stores =
		(enum oh__stores)(candidate % OH__STORES_COUNT);
	const char *refused = oh__candidate_refused(
		&comm->table_options, row->probe_bytes, algorithm, stores);
	struct oh_route_alternative *other;

	if (algorithm == (enum oh__algorithm)row->algorithm &&
	    stores == (enum oh__stores)row->stores)
		return;
	other = add(route, "",
		    comm->table_reason
			    ? "the default table has another for this size"
		    : refused ? refused
			      : "not measured");
	snprintf(other->name, sizeof(other->name), "%s %s",
		 oh__algorithm_name(algorithm), oh__stores_name(stores));
	if (row->probe_ns[candidate])
		snprintf(other->reason, sizeof(other->reason),
			 "slower: %.2f us against %.2f us at %llu bytes when "
			 "the communicator was made",
			 us_of(row->probe_ns[candidate]), us_of(chosen_ns(row)),
			 (unsigned long long)row->probe_bytes);
}

static void explain_others(const struct oh_comm *comm,
			   enum oh_collective collective,
			   const struct oh__row *row, struct oh_route *route)
{
	if (collective == OH_ALL_REDUCE)
		for (int i = 0; i < OH__CANDIDATES; i++)
			explain_candidate(comm, row, i, route);
	else
		add(route, "two-shot", "it exists for all-reduce only");
}

/* A caller that knows no memory means the host's. */
static enum oh_memory memory_of(const struct oh_route *route)
{
	return route->size >= offsetof(struct oh_route, peers) ? route->memory
							       : OH_MEMORY_HOST;
}

static enum oh_status check(const struct oh_comm *comm,
			    enum oh_collective collective, size_t bytes,
			    enum oh_dtype dtype, enum oh_op op,
			    const struct oh_route *route)
{
	enum oh_status status = oh__comm_check(comm);

	if (status)
		return status;
	if (!route)
		return OH__FAIL(OH_ERR_INVALID, "route is NULL");
	if (route->size < sizeof(route->size) ||
	    route->size > sizeof(struct oh_route))
		return OH__FAIL(OH_ERR_INVALID,
				"route->size is %zu, set it to sizeof(struct "
				"oh_route)",
				route->size);
	if ((unsigned)memory_of(route) > OH_MEMORY_DEVICE)
		return OH__FAIL(OH_ERR_INVALID,
				"route->memory is %d, it takes 0 and 1",
				(int)memory_of(route));
	if ((size_t)collective >= OH_COLLECTIVE_COUNT)
		return OH__FAIL(OH_ERR_INVALID,
				"collective is %d, it takes 0 to %d",
				(int)collective, OH_COLLECTIVE_COUNT - 1);
	if ((size_t)dtype >= OH_DTYPE_COUNT)
		return OH__FAIL(OH_ERR_INVALID, "dtype is %d, it takes 0 to %d",
				(int)dtype, OH_DTYPE_COUNT - 1);
	if (bytes % oh_dtype_bytes(dtype))
		return OH__FAIL(OH_ERR_INVALID,
				"bytes is %zu, no multiple of the %zu of a %s",
				bytes, oh_dtype_bytes(dtype),
				oh_dtype_name(dtype));
	if ((collective == OH_ALL_REDUCE || collective == OH_REDUCE_SCATTER) &&
	    (size_t)op >= OH_OP_COUNT)
		return OH__FAIL(OH_ERR_INVALID, "op is %d, it takes 0 to %d",
				(int)op, OH_OP_COUNT - 1);
	return OH_OK;
}

static void explain_host(const struct oh_comm *comm,
			 enum oh_collective collective, size_t bytes,
			 struct oh_route *route)
{
	const struct oh__row *row =
		oh__table_find(&comm->table, collective, bytes);
	/* rounds are as short as that with many ranks and small slots */
	bool direct = bytes >= OH__DIRECT_FIRST &&
		      row->round_bytes >= OH__DIRECT_FIRST;

	snprintf(route->algorithm, sizeof(route->algorithm), "%s",
		 oh__algorithm_name((enum oh__algorithm)row->algorithm));
	snprintf(route->algorithm_direct, sizeof(route->algorithm_direct), "%s",
		 direct ? "direct" : route->algorithm);
	snprintf(route->placement, sizeof(route->placement), "shm");
	snprintf(route->stores, sizeof(route->stores), "%s",
		 oh__stores_name((enum oh__stores)row->stores));
	snprintf(route->reducer, sizeof(route->reducer), "%s",
		 comm->cpu.reducer->name);
	snprintf(route->order, sizeof(route->order), "flat");
	route->rounds =
		bytes / row->round_bytes + (bytes % row->round_bytes != 0);
	explain_row(row, collective, route);
	explain_evidence(comm, row, route);
	explain_others(comm, collective, row, route);
}

enum oh_status oh_comm_explain(struct oh_comm *comm,
			       enum oh_collective collective, size_t bytes,
			       enum oh_dtype dtype, enum oh_op op,
			       struct oh_route *route)
{
	enum oh_status status =
		check(comm, collective, bytes, dtype, op, route);
	struct oh_route now;

	if (status)
		return status;
	memset(&now, 0, sizeof(now));
	now.size = route->size;
	now.memory = memory_of(route);
	if (now.memory == OH_MEMORY_DEVICE) {
		struct oh__call call = {
			.collective = collective,
			.count = bytes / oh_dtype_bytes(dtype),
			.dtype = dtype,
			.op = op,
		};

		oh__device_explain(comm, &call, &now);
	} else {
		explain_host(comm, collective, bytes, &now);
	}
	memcpy(route, &now, now.size);
	return OH_OK;
}
