/* SPDX-License-Identifier: MIT */
/*
 * Flags of subcommands: getopt_long, but that a long name is taken whole only
 * (a part of one would change its meaning when a flag is added), and what is
 * wrong is said alike by all.
 */
#ifndef OH_TOOLS_FLAGS_H
#define OH_TOOLS_FLAGS_H

#include <getopt.h>

/*
 * As getopt_long(argc, argv, shorts, longs, index), begun with optind = 0.
 * What is wrong is said on stderr for `onehop command`; then '?' is returned,
 * and no further call may follow.
 */
int flags_next(const char *command, int argc, char **argv, const char *shorts,
	       const struct option *longs, int *index);

/* That word is none of the flags, and where they are listed. */
void flags_say_unknown(const char *command, const char *word);

#endif
