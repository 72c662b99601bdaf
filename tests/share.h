/* SPDX-License-Identifier: MIT */
/*
 * Ranks that meet at a rendezvous and hand descriptors round, without a
 * communicator. A descriptor is a memfd that holds who handed it out, and when,
 * so that a taker can tell whether it got the right one.
 */
#ifndef OH_TESTS_SHARE_H
#define OH_TESTS_SHARE_H

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "forge.h"
#include "leftovers.h"
#include "ranks.h"

#define SHARE_ALL ((1u << OH__SHARE_FDS) - 1)

/* Meets the other ranks; a failure has been noted. */
static inline bool share_meet(struct ranks_self *self, unsigned ms,
			      struct oh__rendezvous *rendezvous)
{
	static const uint8_t facts[OH__FACTS_BYTES];
	struct oh__meeting_place place = forge_place(&self->ids[0]);
	int fds[OH__RANK_FDS];
	struct oh__rendezvous_options options = {
		.place = &place,
		.rank = self->rank,
		.ranks = self->ranks,
		.deadline_ns = oh__now_ns() + ms * OH__NS_PER_MS,
		.facts = facts,
		.fds = fds,
	};
	bool met;

	for (int k = 0; k < OH__RANK_FDS; k++)
		fds[k] = memfd_create("share", MFD_CLOEXEC);
	met = ranks_fine(self, oh__rendezvous_meet(&options, rendezvous),
			 "oh__rendezvous_meet");
	for (int k = 0; k < OH__RANK_FDS; k++)
		close(fds[k]);
	return met;
}

static inline void share_word(char word[32], int rank, int round, int k)
{
	memset(word, 0, 32);
	snprintf(word, 32, "rank %d round %d fd %d", rank, round, k);
}

/* A rank's descriptors in a round: bit k of the mask for fds[k]. */
static inline void share_open(int rank, int round, unsigned mask,
			      int fds[OH__SHARE_FDS])
{
	char word[32];

	for (int k = 0; k < OH__SHARE_FDS; k++) {
		fds[k] = -1;
		if (!(mask >> k & 1))
			continue;
		share_word(word, rank, round, k);
		fds[k] = memfd_create("share", MFD_CLOEXEC);
		if (write(fds[k], word, sizeof(word)) != sizeof(word))
			abort();
	}
}

static inline void share_close(int fds[OH__SHARE_FDS])
{
	for (int k = 0; k < OH__SHARE_FDS; k++) {
		if (fds[k] >= 0)
			close(fds[k]);
		fds[k] = -1;
	}
}

/* Are these what share_open made? The words of a rank are its alone. */
static inline bool share_right(int rank, int round, unsigned mask,
			       const int fds[OH__SHARE_FDS])
{
	char word[32], got[32];
	bool right = true;

	for (int k = 0; k < OH__SHARE_FDS; k++) {
		if (!(mask >> k & 1)) {
			right &= fds[k] == -1;
			continue;
		}
		share_word(word, rank, round, k);
		right &= fds[k] > STDERR_FILENO &&
			 fcntl(fds[k], F_GETFD) == FD_CLOEXEC &&
			 pread(fds[k], got, sizeof(got), 0) == sizeof(got) &&
			 !memcmp(word, got, sizeof(got));
	}
	return right;
}

/* A share that must fail so, and leave nothing in taken. */
static inline void share_fails(struct ranks_self *self, enum oh_status status,
			       enum oh_status expected, const char *part,
			       int taken[OH_MAX_RANKS][OH__SHARE_FDS])
{
	int left = 0;

	ranks_check(self, status == expected, "%s, expected %s: %s",
		    oh_status_name(status), oh_status_name(expected),
		    oh_last_error()->message);
	ranks_check(self,
		    oh_last_error()->status == status &&
			    strstr(oh_last_error()->message, part),
		    "'%s' is not in: %s", part, oh_last_error()->message);
	for (int i = 0; i < OH_MAX_RANKS; i++)
		for (int k = 0; k < OH__SHARE_FDS; k++)
			left += taken[i][k] != -1;
	ranks_check(self, !left, "%d descriptors are left in taken", left);
}

/* Closes it; the process holds what it held before they met. */
static inline void share_leave(struct ranks_self *self,
			       struct oh__rendezvous *rendezvous,
			       const struct leftovers *before)
{
	struct leftovers after;
	char text[256];

	oh__rendezvous_close(rendezvous);
	after = leftovers_now();
	ranks_check(self, leftovers_none(before, &after), "left behind: %s",
		    leftovers_text(before, &after, text));
}

#endif
