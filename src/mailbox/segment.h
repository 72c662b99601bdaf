/* SPDX-License-Identifier: MIT */
/*
 * Mailboxes: memory that one rank writes and the others read. A rank's segment
 * is one memfd, mapped for writing by its owner and read-only by the rest:
 *
 *	control | half 0: slot, result | half 1: slot, result
 *
 * Words and epochs. Calls (rounds, to be exact) are numbered c = 1, 2, ... in
 * 64 bits; a flag holds a 32-bit epoch that is never 0 and whose parity is
 * that of c also across its wrap (oh__epoch). A flag word is epoch << 32 |
 * signature, the signature being a hash of what is called and of all that was
 * called before, so that ranks which call different things see it at once, or,
 * where neither waits for the other (two roots of a broadcast), later.
 *
 * Re-use of memory:
 * - Half h = c & 1 (arrival, slot, result, reduced flag) is written in call c
 *   only when every reader has finished call c-2. A rank that has started c-1
 *   has finished c-2. `known[i]` is the highest call that rank i is known to
 *   have finished; whoever sees i's arrival of call c raises it to c-1. After
 *   a call in which everyone waits for everyone that is always enough; after
 *   a broadcast, whose root waits for nobody, the credit word `finished` is
 *   read instead, and waited for. It counts in 64 bits and cannot wrap.
 * - Within a call the slot and the result are disjoint, and each is written
 *   before the release store of its own flag (arrival, reduced) and read after
 *   an acquire load of it.
 * - A flag that nobody writes for 2^32 calls would match again. The arrival is
 *   written in every call of its half; the reduced flag is scrubbed by a call
 *   that does not use it, so a stale one lives for two calls at most.
 *
 * Payload in the flag's own line was tried for tiny messages: no faster than a
 * flag behind the data, near or far (docs/measurements), so there is none.
 *
 * Nothing that a peer writes is used as an index or a length before it has
 * been checked against this rank's own sizes (oh__peer_heap).
 */
#ifndef OH_MAILBOX_SEGMENT_H
#define OH_MAILBOX_SEGMENT_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "comm/rendezvous.h"

/* Two cache lines: processors fetch them in pairs. */
#define OH__LINE_PAIR 128
#define OH__LINE 64

/* A rank has started a call: its flag, and where the data is. */
struct oh__arrival {
	alignas(OH__LINE_PAIR) _Atomic uint64_t word;
	uint64_t source; /* 0: in the slot; else 1 + offset in the heap */
	uint64_t target; /* 0: none; else 1 + offset in the heap */
};

struct oh__flag {
	alignas(OH__LINE_PAIR) _Atomic uint64_t word;
};

/* What was called, read by a peer only to explain a mismatch. */
struct oh__call_record {
	alignas(OH__LINE_PAIR) uint64_t count;
	uint32_t collective, dtype, op, root;
};

struct oh__half {
	struct oh__arrival arrival;
	struct oh__flag reduced;
	struct oh__call_record record;
};

/* A call on GPU memory; chain is a hash of it and of all before. Read while it
 * may be written again. */
struct oh__device_call {
	_Atomic uint64_t bytes;
	_Atomic uint32_t what, chain;
};

#define OH__DEVICE_CALLS 128

/* The head of a segment. */
struct oh__control {
	struct oh__flag finished; /* the last call finished, 64 bits */
	struct oh__flag state; /* 0, or oh__state of a failure or a farewell */
	struct oh__half half[2];
	/* calls on GPU memory that were made, and the last ones: call n at n
	 * modulo their number; see src/gpu/agree.c */
	struct oh__flag device_calls;
	struct oh__device_call device_call[OH__DEVICE_CALLS];
};

/* A rank has left in order, by oh_comm_destroy. Beyond every status. */
#define OH__STATE_LEFT 0xffffu

/* What the ranks tell each other by way of the rendezvous. */
struct oh__facts {
	uint64_t slot_bytes;
	uint64_t heap_bytes;
	uint32_t protocol;
	uint32_t cpu_count; /* bits set in cpus, 0 if it has no room */
	uint8_t cpus[128]; /* what the rank may run on, one bit a processor */
	uint8_t has_gpu; /* it will try to have calls on GPU memory */
};

/* All mailboxes of a communicator, as one rank sees them. */
struct oh__mailbox {
	int rank, ranks;
	size_t slot_bytes, result_bytes, segment_bytes, heap_bytes;
	size_t page_bytes;

	struct oh__control *own;
	/* index: rank; [rank] is this rank's own mapping */
	const struct oh__control *peer[OH_MAX_RANKS];
	uint8_t *heap[OH_MAX_RANKS];

	uint64_t call; /* the number of the current or last call */
	uint64_t before; /* the last one before the user's own */
	uint64_t want; /* the flag word of the current call */
	uint64_t chain; /* hash of all calls so far; its upper half is sent */
	uint64_t known[OH_MAX_RANKS];

	/* waiting: see wait.h */
	uint64_t timeout_ns;
	uint64_t start_ns; /* of the user's call: its first long wait; 0 */
	bool spin_short;
	atomic_bool abort;
	_Atomic uint64_t failure; /* oh__state of this rank, 0 if none */
	int life[OH_MAX_RANKS]; /* -1 for this rank */
};

/* The epoch of a call: 2 to 2^32-1, of the call's parity. */
static inline uint32_t oh__epoch(uint64_t call)
{
	return (uint32_t)(call % 0xfffffffeu) + 2;
}

/* A state word: which status, caused by which rank (-1: unknown). */
static inline uint64_t oh__state(unsigned status, int culprit)
{
	return (uint64_t)status << 32 | (uint32_t)(culprit + 1);
}

static inline unsigned oh__state_status(uint64_t state)
{
	return (unsigned)(state >> 32);
}

static inline int oh__state_culprit(uint64_t state)
{
	return (int)((uint32_t)state - 1);
}

/* Offsets in a segment; the same on all ranks. */
static inline size_t oh__slot_offset(const struct oh__mailbox *m, int half)
{
	size_t control = (sizeof(struct oh__control) + m->page_bytes - 1) /
			 m->page_bytes * m->page_bytes;

	return control + (size_t)half * (m->slot_bytes + m->result_bytes);
}

static inline uint8_t *oh__own_slot(const struct oh__mailbox *m, int half)
{
	return (uint8_t *)m->own + oh__slot_offset(m, half);
}

static inline uint8_t *oh__own_result(const struct oh__mailbox *m, int half)
{
	return oh__own_slot(m, half) + m->slot_bytes;
}

static inline const uint8_t *oh__peer_slot(const struct oh__mailbox *m,
					   int rank, int half)
{
	return (const uint8_t *)m->peer[rank] + oh__slot_offset(m, half);
}

static inline const uint8_t *oh__peer_result(const struct oh__mailbox *m,
					     int rank, int half)
{
	return oh__peer_slot(m, rank, half) + m->slot_bytes;
}

struct oh__mailbox_options {
	int rank, ranks;
	size_t slot_bytes, heap_bytes;
	uint64_t first_call;
	uint64_t timeout_ns;
	bool has_gpu; /* for the others to know */
};

/*
 * Makes this rank's segment and heap. fds gets three descriptors for the
 * rendezvous (segment, heap, and the third left to the caller), facts what
 * goes with them. On failure nothing is left.
 */
enum oh_status oh__mailbox_create(struct oh__mailbox *m,
				  const struct oh__mailbox_options *options,
				  int fds[OH__RANK_FDS],
				  uint8_t facts[OH__FACTS_BYTES]);

/* Checks and maps what the peers sent; takes their life descriptors. */
enum oh_status oh__mailbox_connect(struct oh__mailbox *m,
				   struct oh__rendezvous *rendezvous);

/* Unmaps and closes; works in every state. */
void oh__mailbox_destroy(struct oh__mailbox *m);

/* How many different processors the ranks may run on, 0 if not known. */
int oh__mailbox_processors(const struct oh__rendezvous *rendezvous);

/* Has any rank a GPU? */
bool oh__mailbox_has_gpu(const struct oh__rendezvous *rendezvous);

#endif
