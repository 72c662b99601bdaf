/* SPDX-License-Identifier: MIT */
/*
 * A communicator: what the rooms below made for it, and the table. Made by
 * communicator.c, used by calls.c and explain.c.
 */
#ifndef OH_COLLECTIVE_COMMUNICATOR_H
#define OH_COLLECTIVE_COMMUNICATOR_H

#include <stdatomic.h>

#include "collective/plan.h"
#include "comm/liveness.h"
#include "cpu/engine.h"
#include "mailbox/heap.h"

struct oh_comm {
	struct oh__mailbox mailbox;
	struct oh__heap heap;
	struct oh__life life;
	struct oh__cpu cpu;
	struct oh__table table;
	atomic_flag busy; /* a call is in flight */
};

/* Measures, agrees on a table, and puts it into comm. All ranks call it. */
enum oh_status oh__tune(struct oh_comm *comm,
			const struct oh__table_options *options, bool measure);

#endif
