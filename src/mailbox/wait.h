/* SPDX-License-Identifier: MIT */
/*
 * Begin and end of a call on the mailboxes, publishing, and waiting.
 *
 * The fast path of a wait is a short spin in this header. The slow one looks,
 * besides the words, at: this rank's abort flag; the state words of the others
 * (a rank that fails says so, and all follow); whether the word that came has
 * another signature (mismatch); the life descriptors every LIFE_MS; the
 * deadline. It gives the core away after a while, at once when there are more
 * ranks than processors. A dead rank is an error only if what is waited for
 * has not come from it: a rank may end as soon as its own part is done.
 */
#ifndef OH_MAILBOX_WAIT_H
#define OH_MAILBOX_WAIT_H

#include "base/fault.h"
#include "mailbox/segment.h"

enum oh__wait_for {
	OH__ARRIVED, /* the arrival of the call's half */
	OH__REDUCED, /* the reduced flag of the call's half */
	OH__FINISHED, /* the finished word has reached wait->call */
};

/* What a wait is for; calls wait for one thing at a time. */
struct oh__wait {
	enum oh__wait_for what;
	uint64_t call; /* OH__FINISHED: at least this one */
};

#if defined(__x86_64__)
static inline void oh__pause(void)
{
	__builtin_ia32_pause();
}
#else
static inline void oh__pause(void)
{
	__asm__ volatile("yield");
}
#endif

static inline int oh__half_now(const struct oh__mailbox *m)
{
	return oh__fault(OH__FAULT_SINGLE_HALF) ? 0 : (int)(m->call & 1);
}

/* Has it come from that rank? Acquires what the rank released before. */
static inline bool oh__has_come(const struct oh__mailbox *m,
				const struct oh__wait *wait, int rank)
{
	const struct oh__control *control = m->peer[rank];
	const struct oh__half *half = &control->half[oh__half_now(m)];

	switch (wait->what) {
	case OH__ARRIVED:
		/* pairs with oh__publish_arrival */
		return atomic_load_explicit(&half->arrival.word,
					    memory_order_acquire) == m->want;
	case OH__REDUCED:
		/* pairs with oh__publish_reduced */
		return atomic_load_explicit(&half->reduced.word,
					    memory_order_acquire) == m->want;
	case OH__FINISHED:
		/* pairs with oh__call_end */
		return atomic_load_explicit(&control->finished.word,
					    memory_order_acquire) >= wait->call;
	}
	return false;
}

/* The part of a wait that does not fit in the fast path. */
enum oh_status oh__wait_slow(struct oh__mailbox *m, const struct oh__wait *wait,
			     uint32_t ranks);

/* Bits of all ranks but this one. */
static inline uint32_t oh__others(const struct oh__mailbox *m)
{
	return ((1u << m->ranks) - 1) & ~(1u << m->rank);
}

/* Waits until it has come from each rank whose bit is set. */
static inline enum oh_status
oh__wait(struct oh__mailbox *m, const struct oh__wait *wait, uint32_t ranks)
{
	int spins = m->spin_short ? 16 : 500;

	oh__fault_delay();
	if (oh__fault(OH__FAULT_NO_REDUCED_WAIT) && wait->what == OH__REDUCED)
		return OH_OK;
	for (int rank = 0; rank < m->ranks; rank++) {
		if (!(ranks >> rank & 1))
			continue;
		while (!oh__has_come(m, wait, rank)) {
			if (!spins--)
				return oh__wait_slow(m, wait, ranks);
			oh__pause();
		}
	}
	return OH_OK;
}

/*
 * Starts a call: the next number, and the right to write its half. signature
 * is a hash of what is called, record says it in full.
 */
enum oh_status oh__call_begin(struct oh__mailbox *m, uint32_t signature,
			      const struct oh__call_record *record);

/* Everyone has arrived in this call: all have finished the one before. */
static inline void oh__all_arrived(struct oh__mailbox *m)
{
	for (int i = 0; i < m->ranks; i++)
		m->known[i] = m->call - 1;
}

/* This rank's data is where arrival says. */
static inline void oh__publish_arrival(struct oh__mailbox *m, uint64_t source,
				       uint64_t target)
{
	struct oh__arrival *arrival = &m->own->half[oh__half_now(m)].arrival;

	oh__fault_delay();
	arrival->source = source;
	arrival->target = target;
	/* pairs with oh__has_come */
	atomic_store_explicit(&arrival->word, m->want, memory_order_release);
}

/* This rank has read all slots of the call and written its results. */
static inline void oh__publish_reduced(struct oh__mailbox *m)
{
	oh__fault_delay();
	/* pairs with oh__has_come */
	atomic_store_explicit(&m->own->half[oh__half_now(m)].reduced.word,
			      m->want, memory_order_release);
}

/* Ends a call: nothing of the others is read any more. used_reduced says
 * whether it published that flag; if not, it is scrubbed. */
void oh__call_end(struct oh__mailbox *m, bool used_reduced);

/* May a rank's state say that? Anything else is nobody's of this library. */
bool oh__is_failure(unsigned status);

/* Makes a failure this rank's state, which the others will follow. Keeps the
 * first. */
void oh__mailbox_fail(struct oh__mailbox *m, enum oh_status status,
		      int culprit);

/* Bit i: rank i has said farewell. */
uint32_t oh__ranks_left(const struct oh__mailbox *m);

/* Says farewell, so that nobody waits for this rank. */
void oh__mailbox_leave(struct oh__mailbox *m);

#endif
