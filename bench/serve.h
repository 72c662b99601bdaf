/* SPDX-License-Identifier: MIT */
/*
 * One rank's side of the talk with the parent (bench/protocol.h): what all
 * kinds of ranks have in common. A service does what the commands say.
 */
#ifndef OH_BENCH_SERVE_H
#define OH_BENCH_SERVE_H

#include "bench/arena.h"
#include "bench/protocol.h"

struct bench_service {
	/*
	 * Joins the other ranks and gets ready for commands. The arena is the
	 * rank's until the end. false with outcome and text of the reply set.
	 */
	bool (*open)(void *context, const struct bench_setup *setup,
		     struct bench_arena *arena, struct bench_reply *reply);
	/* The reply is BENCH_DONE and empty before. */
	void (*obey)(void *context, const struct bench_command *command,
		     struct bench_reply *reply);
	void (*close)(void *context);
};

/*
 * Serves the parent on the socket until it says quit; returns the exit code.
 * rank is what the launcher says, -1 if it says nothing. May run in several
 * threads at once. If the parent ends, the process ends, at once and from
 * anywhere.
 */
int bench_serve(const struct bench_service *service, void *context, int socket,
		int rank);

/* Sets outcome and text of a failure. */
__attribute__((format(printf, 2, 3))) void
bench_reply_fail(struct bench_reply *reply, const char *format, ...);

#endif
