/* SPDX-License-Identifier: MIT */
/*
 * What the parent and one rank say to each other, over a socket of whole
 * messages (SOCK_SEQPACKET). A rank says hello, gets its setup with the
 * arena's descriptor, answers with a reply once its subject is open; then
 * each command gets a reply. Between commands it blocks in a read, so that a
 * subject that is not measured takes no processor time.
 *
 * Both sides come from one build, yet peer programs are files of their own:
 * magic and protocol tell a stale one.
 */
#ifndef OH_BENCH_PROTOCOL_H
#define OH_BENCH_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "onehop/onehop.h"

#define BENCH_MAGIC 0x62686f6eu
#define BENCH_PROTOCOL 4u

/* What the exchange of flags before and after a run says it moves: buffers and
 * mailbox have room for it, however small the rows are. */
#define BENCH_LEAST_BYTES 64

/* The variable that names the socket to a peer program. */
#define BENCH_SOCKET_VARIABLE "ONEHOP_BENCH_SOCKET"

struct bench_hello {
	uint32_t magic, protocol;
	int32_t rank; /* as the launcher's environment says, else -1 */
};

struct bench_setup {
	uint32_t magic, protocol;
	int32_t rank, ranks;
	int32_t cpu; /* to pin to, -1 for none */
	uint32_t timeout_ms; /* of a command */
	uint8_t tsc, crowded, in_place, comm_alloc;
	uint8_t fits; /* integers do not overflow, see pattern.h */
	uint64_t lead_ticks;
	/* host: the larger side of the largest command; device: all buffers of
	 * one side */
	uint64_t buffer_bytes;
	uint64_t mailbox_bytes;
	struct oh_unique_id id;
	/* ranks on GPU memory only */
	int32_t gpus; /* rank r has GPU r modulo this */
	uint8_t graph; /* calls are replayed by a graph, else queued */
	uint8_t by_host; /* floors go through host memory */
};

enum bench_kind {
	BENCH_CALLS, /* calls of the subject */
	BENCH_FLOOR_FLAG, /* exchange of flags */
	BENCH_FLOOR_COPY, /* rank 0 copies to the mailbox, the others read */
	BENCH_FLOOR_EMPTY, /* a kernel that does nothing */
	BENCH_QUIT,
};

enum bench_check {
	BENCH_CHECK_OFF,
	BENCH_CHECK_SOME, /* some elements each call, all in the last one */
	BENCH_CHECK_FIRST, /* the same, and all elements of the first one */
};

struct bench_command {
	uint32_t kind, check;
	uint32_t collective, dtype, op, root;
	/* timed and untimed ones: of calls, on a device of replays */
	uint32_t iterations, warmups;
	uint64_t count; /* as given to the call */
	uint64_t first_call; /* the pattern's number of the first one */
	/* device only: calls of a replay, and the buffers that they take in
	 * turn */
	uint32_t calls, buffers;
	uint64_t warm_ticks; /* device only: untimed replays for so long, too */
};

enum bench_outcome {
	BENCH_DONE,
	BENCH_REFUSED, /* the subject has no such call; text says why */
	BENCH_FAILED,
	BENCH_LATE, /* a deadline has passed inside the subject */
	BENCH_GAVE_UP, /* another rank has failed, whose reply tells more */
};

struct bench_reply {
	uint32_t outcome;
	uint64_t wrong; /* elements and guard bytes */
	char path[72]; /* "shm/one-shot"; empty if the subject tells none */
	char about[72]; /* setup: version; calls: reduction code */
	char stores[32]; /* into mailboxes of host memory; else empty */
	char text[600]; /* refused, failed, late; or the first wrong element */
};

/* One whole message; false with errno set, ECONNRESET at the end. */
bool bench_send(int socket, const void *message, size_t bytes, int pass_fd);
bool bench_receive(int socket, void *message, size_t bytes, int *passed_fd);

/* Is the other end of the socket a process of this user? */
bool bench_same_user(int socket);

#endif
