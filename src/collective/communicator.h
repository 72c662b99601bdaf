/* SPDX-License-Identifier: MIT */
/*
 * A communicator: what the rooms below made for it, and the table. Made by
 * communicator.c and tune.c, used by calls.c and explain.c.
 */
#ifndef OH_COLLECTIVE_COMMUNICATOR_H
#define OH_COLLECTIVE_COMMUNICATOR_H

#include <stdatomic.h>

#include "collective/plan.h"
#include "comm/liveness.h"
#include "cpu/engine.h"
#include "gpu/engine.h"
#include "mailbox/heap.h"

struct oh_comm {
	struct oh__mailbox mailbox;
	struct oh__heap heap;
	struct oh__life life;
	struct oh__cpu cpu;
	struct oh__gpu gpu;
	/* by which pointers to GPU memory are told apart; NULL: there are none
	 */
	const struct oh__cuda *cuda;
	struct oh__table table;
	struct oh__table_options table_options; /* by which it was made */
	bool crowded; /* more ranks than processors, all know it */
	const char *table_reason; /* why nothing was measured, NULL if it was */
	/* a page that reads as zero in a forked child, which has no part in the
	 * communicator; one else */
	uint32_t *in_owner;
	atomic_flag busy; /* a call is in flight */
};

/* OH_ERR_INVALID for NULL and in a forked child. */
enum oh_status oh__comm_check(const struct oh_comm *comm);

/* A call as the user made it. */
struct oh__call {
	enum oh_collective collective;
	const void *send;
	void *recv;
	size_t count;
	enum oh_dtype dtype;
	enum oh_op op;
	int root;
	void *stream;
};

/* Runs a call that is known to be right by the row's plan. */
enum oh_status oh__run_rounds(struct oh_comm *comm, const struct oh__row *row,
			      const struct oh__call *call);

/*
 * Fills comm->table, the same on all ranks. All ranks call it. measure: try
 * the candidates, else take the default.
 */
enum oh_status oh__tune(struct oh_comm *comm, bool measure);

#endif
