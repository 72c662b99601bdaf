/* SPDX-License-Identifier: MIT */
/*
 * Rank and number of ranks from the environment that a launcher sets, and the
 * place where its ranks meet. One host only: a job that spans hosts is
 * OH_ERR_UNSUPPORTED.
 */
#ifndef OH_COMM_LAUNCHER_H
#define OH_COMM_LAUNCHER_H

#include "comm/id.h"

struct oh__launch {
	const char *launcher; /* "onehop", "torchrun", ... */
	int rank;
	int ranks;
	struct oh__meeting_place place;
};

/*
 * Reads the first launcher's environment that is complete. Each call counts:
 * the ranks of a job meet at their first, second, ... place in turn, so all
 * ranks must make their communicators in the same order.
 */
enum oh_status oh__launch_from_environment(struct oh__launch *launch);

#endif
