/* SPDX-License-Identifier: MIT */
/* Which path a call would take, told from the same table that calls use. */
#include "collective/communicator.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

static void explain_row(const struct oh__row *row, struct oh_route *route)
{
	const char *chosen = row->measured ? "measured when the communicator "
					     "was made"
					   : "the default";

	if (row->last_bytes == UINT64_MAX)
		snprintf(
			route->row, sizeof(route->row),
			"%s of all larger sizes: %s in rounds of %llu bytes, "
			"%s stores (%s)",
			oh_collective_name((enum oh_collective)row->collective),
			oh__algorithm_name((enum oh__algorithm)row->algorithm),
			(unsigned long long)row->round_bytes,
			row->non_temporal ? "non-temporal" : "cached", chosen);
	else
		snprintf(
			route->row, sizeof(route->row),
			"%s up to %llu bytes: %s in rounds of %llu bytes, %s "
			"stores (%s)",
			oh_collective_name((enum oh_collective)row->collective),
			(unsigned long long)row->last_bytes,
			oh__algorithm_name((enum oh__algorithm)row->algorithm),
			(unsigned long long)row->round_bytes,
			row->non_temporal ? "non-temporal" : "cached", chosen);
}

/* Why another algorithm does not serve this size. */
static void explain_algorithm(const struct oh__table *table,
			      enum oh_collective collective, uint64_t bytes,
			      enum oh__algorithm algorithm,
			      struct oh_route_alternative *other)
{
	uint64_t first = 0, last = 0;
	bool found = false;

	snprintf(other->name, sizeof(other->name), "%s",
		 oh__algorithm_name(algorithm));
	for (uint32_t i = 0; i < table->row_count; i++) {
		const struct oh__row *row = &table->rows[i];

		if (row->collective != (uint32_t)collective)
			continue;
		if (row->algorithm == (uint32_t)algorithm) {
			last = row->last_bytes;
			found = true;
		} else if (!found) {
			first = row->last_bytes + 1;
		}
	}
	if (!found)
		snprintf(other->reason, sizeof(other->reason),
			 collective == OH_ALL_REDUCE
				 ? "no row of the table has it: "
				   "ONEHOP_ALGORITHM or the measurement rules "
				   "it out"
				 : "it is an all-reduce; this collective reads "
				   "everything once");
	else if (bytes > last)
		snprintf(other->reason, sizeof(other->reason),
			 "its rows end at %llu bytes",
			 (unsigned long long)last);
	else
		snprintf(other->reason, sizeof(other->reason),
			 "its rows begin at %llu bytes",
			 (unsigned long long)first);
}

static void add_alternative(struct oh_route *route, const char *name,
			    const char *reason)
{
	struct oh_route_alternative *other =
		&route->alternatives[route->alternative_count++];

	snprintf(other->name, sizeof(other->name), "%s", name);
	snprintf(other->reason, sizeof(other->reason), "%s", reason);
}

static void explain_others(const struct oh_comm *comm,
			   enum oh_collective collective, uint64_t bytes,
			   const struct oh__row *row, struct oh_route *route)
{
	for (int i = 0; i < OH__ALGORITHM_COUNT; i++)
		if (i != (int)row->algorithm)
			explain_algorithm(
				&comm->table, collective, bytes,
				(enum oh__algorithm)i,
				&route->alternatives
					 [route->alternative_count++]);
	add_alternative(route,
			row->non_temporal ? "cached stores"
					  : "non-temporal stores",
			row->measured ? "slower when the communicator was made"
				      : "not measured to be faster here");
	add_alternative(route, "vram-dst",
			"the ranks are on host memory; this build has no GPU "
			"ranks");
	add_alternative(route, "pinned",
			"the ranks are on host memory; this build has no GPU "
			"ranks");
}

static enum oh_status check(const struct oh_comm *comm,
			    enum oh_collective collective, enum oh_dtype dtype,
			    enum oh_op op, const struct oh_route *route)
{
	if (!comm || !route)
		return OH__FAIL(OH_ERR_INVALID, "comm or route is NULL");
	if (route->size < sizeof(route->size) ||
	    route->size > sizeof(struct oh_route))
		return OH__FAIL(OH_ERR_INVALID,
				"route->size is %zu, set it to sizeof(struct "
				"oh_route)",
				route->size);
	if ((size_t)collective >= OH_COLLECTIVE_COUNT ||
	    (size_t)dtype >= OH_DTYPE_COUNT || (size_t)op >= OH_OP_COUNT)
		return OH__FAIL(OH_ERR_INVALID,
				"collective %d, dtype %d or op %d is unknown",
				(int)collective, (int)dtype, (int)op);
	return OH_OK;
}

enum oh_status oh_comm_explain(struct oh_comm *comm,
			       enum oh_collective collective, size_t bytes,
			       enum oh_dtype dtype, enum oh_op op,
			       struct oh_route *route)
{
	enum oh_status status = check(comm, collective, dtype, op, route);
	const struct oh__row *row;
	struct oh_route now;

	if (status)
		return status;
	memset(&now, 0, sizeof(now));
	now.size = route->size;
	row = oh__table_find(&comm->table, collective, bytes);
	snprintf(now.algorithm, sizeof(now.algorithm), "%s",
		 oh__algorithm_name((enum oh__algorithm)row->algorithm));
	snprintf(now.placement, sizeof(now.placement), "%s",
		 oh__placement_name(OH__PLACEMENT_SHM));
	snprintf(now.stores, sizeof(now.stores), "%s",
		 row->non_temporal ? "non-temporal" : "cached");
	snprintf(now.reducer, sizeof(now.reducer), "%s",
		 comm->cpu.reducer->name);
	snprintf(now.order, sizeof(now.order), "flat");
	snprintf(now.evidence, sizeof(now.evidence), "%s",
		 comm->table.evidence);
	now.rounds = bytes / row->round_bytes + (bytes % row->round_bytes != 0);
	explain_row(row, &now);
	explain_others(comm, collective, bytes, row, &now);
	memcpy(route, &now, now.size);
	return OH_OK;
}
