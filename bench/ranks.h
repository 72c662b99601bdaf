/* SPDX-License-Identifier: MIT */
/* The ranks of a team that this command is itself: --worker. */
#ifndef OH_BENCH_RANKS_H
#define OH_BENCH_RANKS_H

/*
 * "SUBJECT:7" serves one rank on the socket 7, "SUBJECT:7,9" one in a thread
 * each. Returns the exit code: 0 if all ended as they were asked to.
 */
int bench_ranks_serve(const char *list);

#endif
