/* SPDX-License-Identifier: MIT */
#include "mailbox/wait.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "comm/liveness.h"

/* How often the life descriptors are polled; a death is seen within twice
 * that. */
#define LIFE_NS (20 * OH__NS_PER_MS)
/* From here on a waiting rank yields its core between looks. */
#define YIELD_NS 10000ull
/* From here on it sleeps for SLEEP_NS: nobody is in a hurry any more. */
#define LAZY_NS (200 * OH__NS_PER_MS)
#define SLEEP_NS 50000

struct patience {
	uint64_t start_ns, next_life_ns;
};

/* The ranks of the set from which it has not come. */
static uint32_t missing_of(const struct oh__mailbox *m,
			   const struct oh__wait *wait, uint32_t ranks)
{
	uint32_t missing = 0;

	for (int rank = 0; rank < m->ranks; rank++)
		if (ranks >> rank & 1 && !oh__has_come(m, wait, rank))
			missing |= 1u << rank;
	return missing;
}

static const char *list_ranks(uint32_t ranks, char *text, size_t bytes)
{
	size_t used = 0;

	*text = '\0';
	for (int rank = 0; rank < OH_MAX_RANKS && used < bytes; rank++)
		if (ranks >> rank & 1)
			used += (size_t)snprintf(text + used, bytes - used,
						 "%s%d", used ? ", " : "",
						 rank);
	return text;
}

static enum oh_status check_abort(struct oh__mailbox *m)
{
	uint64_t failure =
		atomic_load_explicit(&m->failure, memory_order_acquire);

	if (!atomic_load_explicit(&m->abort, memory_order_acquire))
		return OH_OK;
	return OH__FAIL(OH_ERR_ABORTED,
			"rank %d: the call was ended by oh_comm_abort on "
			"rank %d",
			m->rank, oh__state_culprit(failure));
}

/* Rounds since the communicator was made, as people count them. */
static unsigned long long round_now(const struct oh__mailbox *m)
{
	return m->call - m->before;
}

static const char *describe(const struct oh__call_record *record, char text[96])
{
	int used = snprintf(
		text, 96, "%s of %llu %s",
		oh_collective_name((enum oh_collective)record->collective),
		(unsigned long long)record->count,
		oh_dtype_name((enum oh_dtype)record->dtype));

	if (record->collective == OH_ALL_REDUCE ||
	    record->collective == OH_REDUCE_SCATTER)
		snprintf(text + used, 96 - (size_t)used, " %s",
			 oh_op_name((enum oh_op)record->op));
	if (record->collective == OH_BROADCAST)
		snprintf(text + used, 96 - (size_t)used, " from root %u",
			 record->root);
	return text;
}

/* Does rank call something else in the same call, the last of that half? */
static bool differs(const struct oh__mailbox *m, int rank, int half)
{
	uint64_t ours = atomic_load_explicit(&m->own->half[half].arrival.word,
					     memory_order_relaxed);
	/* pairs with oh__publish_arrival */
	uint64_t theirs = atomic_load_explicit(
		&m->peer[rank]->half[half].arrival.word, memory_order_acquire);

	return ours >> 32 == theirs >> 32 && ours != theirs;
}

/* Ranks that differ in a call have differed in the one before it if neither
 * waited for the other there. */
static enum oh_status fail_mismatch(struct oh__mailbox *m, int rank)
{
	int now = oh__half_now(m);
	bool before = differs(m, rank, !now);
	int half = before ? !now : now;
	char ours[96], theirs[96];

	describe(&m->own->half[half].record, ours);
	describe(&m->peer[rank]->half[half].record, theirs);
	oh__mailbox_fail(m, OH_ERR_MISMATCH, rank);
	return OH__FAIL(OH_ERR_MISMATCH,
			"the ranks differ in round %llu%s: rank %d calls %s; "
			"rank %d calls %s",
			round_now(m) - before,
			strcmp(ours, theirs) ? "" : " or in one before it",
			m->rank, ours, rank, theirs);
}

static enum oh_status check_mismatch(struct oh__mailbox *m)
{
	for (int rank = 0; rank < m->ranks; rank++)
		if (differs(m, rank, oh__half_now(m)))
			return fail_mismatch(m, rank);
	return OH_OK;
}

/* A rank reports a mismatch: the ranks' own words say more, here or, if this
 * rank did not wait there, in the call before. */
static enum oh_status find_mismatch(struct oh__mailbox *m)
{
	for (int rank = 0; rank < m->ranks; rank++)
		if (differs(m, rank, 0) || differs(m, rank, 1))
			return fail_mismatch(m, rank);
	return OH_OK;
}

/* Follows a rank that has failed; a rank that left is lost if it is missed. */
static enum oh_status check_states(struct oh__mailbox *m,
				   const struct oh__wait *wait, uint32_t ranks)
{
	for (int rank = 0; rank < m->ranks; rank++) {
		/* pairs with set_state */
		uint64_t state = atomic_load_explicit(
			&m->peer[rank]->state.word, memory_order_acquire);
		unsigned status = oh__state_status(state);
		int culprit = oh__state_culprit(state);

		if (!state || rank == m->rank)
			continue;
		/* the others may have finished this call and failed in the
		 * next; what they stored before is there by now */
		if (!missing_of(m, wait, ranks))
			return OH_OK;
		if (status == OH__STATE_LEFT) {
			/* what it stored before it left is there by now */
			if (!(ranks >> rank & 1) || oh__has_come(m, wait, rank))
				continue;
			oh__mailbox_fail(m, OH_ERR_PEER_LOST, rank);
			return OH__FAIL(
				OH_ERR_PEER_LOST,
				"rank %d destroyed its communicator, "
				"and rank %d waits for it in round %llu",
				rank, m->rank, round_now(m));
		}
		if (!oh__is_failure(status)) {
			oh__mailbox_fail(m, OH_ERR_PROTOCOL, rank);
			return OH__FAIL(OH_ERR_PROTOCOL,
					"rank %d wrote the state %llx, which "
					"means nothing",
					rank, (unsigned long long)state);
		}
		if (culprit < 0 || culprit >= m->ranks)
			culprit = rank;
		if (status == OH_ERR_MISMATCH && find_mismatch(m))
			return OH_ERR_MISMATCH;
		oh__mailbox_fail(m, (enum oh_status)status, culprit);
		return OH__FAIL((enum oh_status)status,
				"rank %d reports: %s (caused by rank %d)", rank,
				oh_status_text((enum oh_status)status),
				culprit);
	}
	return OH_OK;
}

static enum oh_status check_life(struct oh__mailbox *m,
				 const struct oh__wait *wait, uint32_t ranks)
{
	uint32_t lost = oh__life_lost(m->life, m->ranks);

	/* what a rank stored before it ended is there by now */
	lost &= lost ? missing_of(m, wait, ranks) : 0;
	if (!lost)
		return OH_OK;
	oh__mailbox_fail(m, OH_ERR_PEER_LOST, __builtin_ctz(lost));
	return OH__FAIL(OH_ERR_PEER_LOST,
			"the process of rank %d has ended, and rank %d waits "
			"for it in round %llu",
			__builtin_ctz(lost), m->rank, round_now(m));
}

static enum oh_status check_deadline(struct oh__mailbox *m,
				     const struct oh__wait *wait,
				     uint32_t ranks, uint64_t waited_ns)
{
	uint32_t missing;
	char list[64];

	if (waited_ns < m->timeout_ns)
		return OH_OK;
	missing = missing_of(m, wait, ranks);
	if (!missing)
		return OH_OK;
	oh__mailbox_fail(m, OH_ERR_TIMEOUT, __builtin_ctz(missing));
	return OH__FAIL(OH_ERR_TIMEOUT,
			"rank %d waited %llu ms in round %llu for rank %s, "
			"whose process lives: it is stopped, busy or has "
			"skipped a call",
			m->rank,
			(unsigned long long)(waited_ns / OH__NS_PER_MS),
			round_now(m), list_ranks(missing, list, sizeof(list)));
}

static void rest(const struct oh__mailbox *m, uint64_t waited_ns)
{
	struct timespec nap = {.tv_nsec = SLEEP_NS};

	if (waited_ns >= (m->spin_short ? OH__NS_PER_MS : LAZY_NS))
		nanosleep(&nap, NULL);
	else if (m->spin_short || waited_ns >= YIELD_NS)
		sched_yield();
}

/* Everything but the words themselves. */
static enum oh_status look_around(struct oh__mailbox *m,
				  const struct oh__wait *wait, uint32_t ranks,
				  struct patience *patience)
{
	uint64_t now = oh__now_ns();
	enum oh_status status;

	status = check_abort(m);
	if (!status)
		status = check_mismatch(m);
	if (!status)
		status = check_states(m, wait, ranks);
	if (!status && now >= patience->next_life_ns) {
		patience->next_life_ns = now + LIFE_NS;
		status = check_life(m, wait, ranks);
	}
	if (!status)
		status = check_deadline(m, wait, ranks, now - m->start_ns);
	if (!status)
		rest(m, now - patience->start_ns);
	return status;
}

/* oh_comm_abort in another thread may have come first: then that counts. */
static enum oh_status settle(const struct oh__mailbox *m, enum oh_status status)
{
	uint64_t failure =
		atomic_load_explicit(&m->failure, memory_order_acquire);
	enum oh_status kept = (enum oh_status)oh__state_status(failure);

	if (kept == status)
		return status;
	return OH__FAIL(kept, "rank %d: %s (caused by rank %d)", m->rank,
			oh_status_text(kept), oh__state_culprit(failure));
}

static enum oh_status wait_patiently(struct oh__mailbox *m,
				     const struct oh__wait *wait,
				     uint32_t ranks)
{
	uint64_t now = oh__now_ns();
	struct patience patience = {now, now + LIFE_NS};
	int looks = m->spin_short ? 4 : 64;
	enum oh_status status;

	if (!m->start_ns)
		m->start_ns = now;
	for (;;) {
		for (int i = 0; i < looks; i++) {
			if (!missing_of(m, wait, ranks))
				return OH_OK;
			oh__pause();
		}
		status = look_around(m, wait, ranks, &patience);
		if (status)
			return settle(m, status);
	}
}

enum oh_status oh__wait_slow(struct oh__mailbox *m, const struct oh__wait *wait,
			     uint32_t ranks)
{
	int cancel = oh__cancel_off();
	enum oh_status status = wait_patiently(m, wait, ranks);

	oh__cancel_restore(cancel);
	return status;
}

static enum oh_status await_credits(struct oh__mailbox *m, uint64_t call)
{
	struct oh__wait wait = {.what = OH__FINISHED, .call = call};
	enum oh_status status = oh__wait(m, &wait, oh__others(m));

	if (status)
		return status;
	for (int i = 0; i < m->ranks; i++)
		if (m->known[i] < call)
			m->known[i] = call;
	/* who waited for nobody in that call sees only now what others called:
	 * of two that differ, the first to come here finds the other's word */
	for (int i = 0; i < m->ranks; i++)
		if (differs(m, i, (int)(call & 1)))
			return fail_mismatch(m, i);
	return OH_OK;
}

enum oh_status oh__call_begin(struct oh__mailbox *m, uint32_t signature,
			      const struct oh__call_record *record)
{
	uint64_t call = m->call + 1;
	bool credits = false;

	/* the half was last used in call-2; before any write to it */
	for (int i = 0; i < m->ranks; i++)
		credits |= i != m->rank && m->known[i] + 2 < call &&
			   !oh__fault(OH__FAULT_NO_CREDIT);
	if (credits) {
		/* mismatches show in the half of the call that was */
		enum oh_status status = await_credits(m, call - 2);

		if (status)
			return status;
	}
	if (oh__fault(OH__FAULT_NO_SIGNATURE))
		signature = 0;
	m->call = call;
	/* the odd constant of Fibonacci hashing: what differed once stays so */
	m->chain = (m->chain + signature) * 0x9e3779b97f4a7c15ull;
	m->want = (uint64_t)oh__epoch(call) << 32 | m->chain >> 32;
	m->own->half[oh__half_now(m)].record = *record;
	return OH_OK;
}

/*
 * Own memory, mostly a hit in the cache. Relaxed is enough: whoever looks at
 * the flag again has acquired a later arrival of this rank before.
 */
static void scrub(struct oh__mailbox *m)
{
	struct oh__flag *reduced = &m->own->half[oh__half_now(m)].reduced;

	if (atomic_load_explicit(&reduced->word, memory_order_relaxed))
		atomic_store_explicit(&reduced->word, 0, memory_order_relaxed);
}

/*
 * The lines that the next call publishes were last read by the others: taking
 * them back now hides the invalidation, which would otherwise stand between
 * the store of a flag and its being seen.
 */
static void own_next_flags(struct oh__mailbox *m)
{
	struct oh__half *next = &m->own->half[(m->call + 1) & 1];

	__builtin_prefetch(&next->arrival, 1);
	__builtin_prefetch(&next->reduced, 1);
}

void oh__call_end(struct oh__mailbox *m, bool used_reduced)
{
	oh__fault_delay();
	if (!used_reduced && !oh__fault(OH__FAULT_NO_SCRUB))
		scrub(m);
	/* pairs with oh__has_come: all reads of the call come before it */
	atomic_store_explicit(&m->own->finished.word, m->call,
			      memory_order_release);
	own_next_flags(m);
}

static void set_state(struct oh__mailbox *m, uint64_t state)
{
	/* pairs with check_states */
	atomic_store_explicit(&m->own->state.word, state, memory_order_release);
}

bool oh__is_failure(unsigned status)
{
	return status != OH_OK && status != OH_ERR_INVALID &&
	       status != OH_ERR_BUSY &&
	       strcmp(oh_status_name((enum oh_status)status), "unknown");
}

void oh__mailbox_fail(struct oh__mailbox *m, enum oh_status status, int culprit)
{
	uint64_t none = 0;
	uint64_t state = oh__state(status, culprit);

	if (atomic_compare_exchange_strong(&m->failure, &none, state))
		set_state(m, state);
}

uint32_t oh__ranks_left(const struct oh__mailbox *m)
{
	uint32_t left = 0;

	for (int rank = 0; rank < m->ranks; rank++) {
		/* pairs with set_state */
		uint64_t state = atomic_load_explicit(
			&m->peer[rank]->state.word, memory_order_acquire);

		if (oh__state_status(state) == OH__STATE_LEFT)
			left |= 1u << rank;
	}
	return left;
}

void oh__mailbox_leave(struct oh__mailbox *m)
{
	if (!atomic_load(&m->failure) && m->own)
		set_state(m, oh__state(OH__STATE_LEFT, m->rank));
}
