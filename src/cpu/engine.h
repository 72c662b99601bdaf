/* SPDX-License-Identifier: MIT */
/*
 * The engine for host memory: one round of a collective on the mailboxes.
 * Which algorithm runs and how long a round is comes from the plan; every
 * function here runs exactly one call of the mailbox protocol (segment.h).
 *
 * Where the data of a rank lies is that rank's own affair: it stages it in its
 * slot, or, when a long buffer is memory of oh_comm_alloc, says where in its
 * heap (struct oh__arrival) and copies nothing. The others look at what it
 * says, so ranks with either kind of buffer work together. A rank whose own
 * heap is read, or written, returns only when the others are done with it.
 */
#ifndef OH_CPU_ENGINE_H
#define OH_CPU_ENGINE_H

#include "cpu/stores.h"
#include "mailbox/wait.h"

/*
 * Shorter messages are staged wherever they are: a second hand-shake costs
 * more than the copies that it saves. Each rank decides for itself.
 */
#define OH__DIRECT_FIRST 4096

struct oh__cpu {
	struct oh__mailbox *mailbox;
	const struct oh__cpu_reducer *reducer;
};

/* One round. Pointers are at the round's first byte. */
struct oh__cpu_round {
	uint32_t signature;
	const struct oh__call_record *record;
	enum oh_dtype dtype;
	enum oh_op op;
	int root;
	const uint8_t *send;
	uint8_t *recv;
	/* all-reduce, broadcast: of the message; reduce-scatter, all-gather:
	 * of each rank's part */
	size_t bytes;
	/* reduce-scatter, all-gather: from one rank's part to the next */
	size_t stride;
	bool two_shot; /* all-reduce */
	enum oh__stores stores; /* how slots and results are written */
};

/*
 * All-reduce. One-shot: everyone reads everything. Two-shot: each rank sums one
 * slice and gives it to all. If any rank's buffers are in its heap all run
 * two-shot, which all see in the arrivals. bytes <= slot_bytes.
 */
enum oh_status oh__cpu_all_reduce(struct oh__cpu *cpu,
				  const struct oh__cpu_round *round);

/* bytes * ranks <= slot_bytes. */
enum oh_status oh__cpu_reduce_scatter(struct oh__cpu *cpu,
				      const struct oh__cpu_round *round);

/* bytes <= slot_bytes. */
enum oh_status oh__cpu_all_gather(struct oh__cpu *cpu,
				  const struct oh__cpu_round *round);

/* bytes <= slot_bytes. The root waits for nobody unless send is in its heap. */
enum oh_status oh__cpu_broadcast(struct oh__cpu *cpu,
				 const struct oh__cpu_round *round);

#endif
