/* SPDX-License-Identifier: MIT */
/*
 * How the ranks of a communicator meet. Rank 0 listens on an abstract UNIX
 * socket; the others connect and send HELLO with their facts and descriptors;
 * rank 0 checks them and sends everyone WELCOME with everything. Then each
 * rank does its own set-up and all agree on one status by VERDICT, and may hand
 * round further descriptors by SHARE. A rank that fails before it can come says
 * DECLINE instead. Either all ranks succeed or all fail with the same status.
 *
 * A connection of another user, or one that does not prove the secret, is
 * refused and logged; it cannot disturb the ranks. A process that does prove
 * it and sends something wrong fails the rendezvous on all ranks.
 *
 * Facts are opaque here: the mailbox room writes and reads them.
 */
#ifndef OH_COMM_RENDEZVOUS_H
#define OH_COMM_RENDEZVOUS_H

#include <stdbool.h>

#include "comm/message.h"

/* A value that must be the same on all ranks. */
struct oh__agree {
	const char *name;
	uint64_t value;
};

struct oh__rendezvous_options {
	const struct oh__meeting_place *place;
	int rank, ranks;
	uint64_t deadline_ns;
	const struct oh__agree *agree;
	int agree_count;
	const uint8_t *facts; /* OH__FACTS_BYTES */
	const int *fds; /* OH__RANK_FDS, stay the caller's */
};

struct oh__rendezvous {
	int rank, ranks;
	uint64_t deadline_ns;
	uint8_t facts[OH_MAX_RANKS][OH__FACTS_BYTES];
	/* of every rank but this one; the taker sets what it keeps to -1 */
	int fds[OH_MAX_RANKS][OH__RANK_FDS];
	int sockets[OH_MAX_RANKS]; /* root: to each rank; else [0]: to root */
	/* the others know of this rank: it need not decline */
	bool reached;
};

/* Meets the others; on failure nothing is left open. */
enum oh_status oh__rendezvous_meet(const struct oh__rendezvous_options *options,
				   struct oh__rendezvous *rendezvous);

/* For a rank that has failed (its last error says how) before it could meet the
 * others: tells them, if they come within two seconds. Gives the status that
 * all of them get, its own if it reached nobody. */
enum oh_status oh__rendezvous_decline(const struct oh__meeting_place *place,
				      int rank, int ranks,
				      enum oh_status status);

/* At least, for each step of the set-up once the ranks have met, however short
 * the deadline of the rendezvous is. */
#define OH__AGREE_MS 5000

/* Tells the others this rank's status, gives back that of the first rank that
 * failed; its message becomes oh_last_error on every rank. */
enum oh_status oh__rendezvous_agree(struct oh__rendezvous *rendezvous,
				    enum oh_status status);

/*
 * Hands this rank's descriptors to all others and takes theirs. All ranks call
 * it, as often as they like, in the same order as oh__rendezvous_agree. fds[k]
 * is -1 where a rank has none, and stays the caller's; taken[i][k] is rank i's,
 * the taker closes it, -1 where it has none and for this rank itself. status is
 * this rank's own so far. If any rank passes a failure or cannot take them, or
 * is lost or late, all get that failure as from oh__rendezvous_agree, and
 * nothing stays open.
 *
 * After a failure of either there is only oh__rendezvous_close: what is still
 * under way between the ranks is not waited for, and lives until then.
 */
enum oh_status oh__rendezvous_share(struct oh__rendezvous *rendezvous,
				    enum oh_status status,
				    const int fds[OH__SHARE_FDS],
				    int taken[OH_MAX_RANKS][OH__SHARE_FDS]);

/* Closes sockets and the descriptors that were not taken. */
void oh__rendezvous_close(struct oh__rendezvous *rendezvous);

#endif
