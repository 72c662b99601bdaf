/* SPDX-License-Identifier: MIT */
/*
 * Carries what the ranks print to this process's stdout and stderr, each line
 * with its rank in front ("[0] text"). Bytes are passed on as they are. A line
 * is written when it is complete; one longer than 64 KiB in pieces, and then
 * another rank's line may end it early. A last line without an end gets one.
 *
 * Nothing here blocks: a sink is written at most PIPE_BUF bytes at a time and
 * only when poll says so, and a stream is read only when its sink is empty, so
 * a slow reader slows the ranks down and not the caller.
 */
#ifndef OH_TOOLS_RUN_RELAY_H
#define OH_TOOLS_RUN_RELAY_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "onehop/onehop.h"

#define RELAY_SINKS 2
#define RELAY_STREAMS (RELAY_SINKS * OH_MAX_RANKS)
#define RELAY_POLLS (RELAY_SINKS + RELAY_STREAMS)

enum relay_which {
	RELAY_STDOUT,
	RELAY_STDERR
};

/* The reading end of what one rank prints to one of the two. */
struct relay_stream {
	int fd; /* -1 when it has ended */
	int rank;
	struct relay_sink *sink;
	char *line; /* what has come of a line that is not complete */
	size_t used;
};

struct relay_sink {
	int fd;
	int lost; /* errno of the write that failed, 0 while it works */
	char *data;
	size_t used, sent, room;
	/* whose line stands there without its end, NULL if none does */
	struct relay_stream *open;
};

struct relay {
	struct relay_sink sinks[RELAY_SINKS];
	struct relay_stream streams[RELAY_STREAMS];
	int count;
	int turn; /* the stream that is looked at first */
};

void relay_init(struct relay *relay);
void relay_free(struct relay *relay);

/* A new stream; the writing end of its pipe, -1 with errno set. */
int relay_add(struct relay *relay, int rank, enum relay_which which);

/* Fills RELAY_POLLS entries, with fd -1 where nothing is to be waited for. */
/* How many of them count: more than may be open is an error of poll. */
nfds_t relay_polls(const struct relay *relay);
void relay_prepare(const struct relay *relay, struct pollfd *polls);
/* Does what these entries, after poll, allow. */
void relay_serve(struct relay *relay, const struct pollfd *polls);

/* Takes what is left in the pipes, without waiting for their ends. */
void relay_end_streams(struct relay *relay);

/* Is there anything left to be written? */
bool relay_is_pending(const struct relay *relay);
/* Gives up what is left to be written. */
void relay_drop(struct relay *relay);

/* A line of the caller's own, to stderr. */
__attribute__((format(printf, 2, 3))) void relay_say(struct relay *relay,
						     const char *format, ...);

#endif
