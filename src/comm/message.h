/* SPDX-License-Identifier: MIT */
/*
 * Messages of the rendezvous: one SOCK_SEQPACKET record each, a header with
 * magic, protocol version, type, length and checksum, a fixed body for each
 * type, and descriptors, as many as the type or a share's masks say. Whatever
 * does not fit that to the byte is OH_ERR_PROTOCOL; descriptors of a bad
 * message are closed.
 */
#ifndef OH_COMM_MESSAGE_H
#define OH_COMM_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "comm/id.h"

/* Raised whenever a message or a segment changes. */
#define OH__PROTOCOL 4

#define OH__AGREE_MAX 12
#define OH__FACTS_BYTES 256
/* Descriptors of one rank: mailbox, heap, life. */
#define OH__RANK_FDS 3
/* Descriptors that a rank hands to all others at once. */
#define OH__SHARE_FDS 4
/* Of all ranks in one record, of which the kernel takes 253 (SCM_MAX_FD). */
#define OH__MESSAGE_FDS (OH_MAX_RANKS * OH__SHARE_FDS)
_Static_assert(OH__RANK_FDS <= OH__SHARE_FDS && OH__MESSAGE_FDS <= 253,
	       "a welcome and a share fit into a record");

enum oh__message_type {
	OH__MESSAGE_HELLO = 1, /* rank to root, with the rank's descriptors */
	OH__MESSAGE_WELCOME = 2, /* root to rank, with everyone's */
	OH__MESSAGE_VERDICT = 3, /* both ways: done, or what failed */
	OH__MESSAGE_DECLINE = 4, /* rank to root: it failed before it came */
	OH__MESSAGE_SHARE = 5, /* both ways: further descriptors */
};

struct oh__hello {
	uint8_t secret[OH__SECRET_BYTES];
	uint32_t rank;
	uint32_t ranks;
	uint32_t agree_count;
	uint32_t unused;
	uint64_t agree[OH__AGREE_MAX];
	uint8_t facts[OH__FACTS_BYTES];
};

struct oh__welcome {
	uint8_t facts[OH_MAX_RANKS][OH__FACTS_BYTES];
};

struct oh__verdict {
	uint32_t status; /* enum oh_status */
	int32_t culprit; /* the rank that caused it, or -1 */
	char text[512];
};

/* Begins as a hello does. */
struct oh__decline {
	uint8_t secret[OH__SECRET_BYTES];
	uint32_t rank;
	struct oh__verdict verdict;
};

/* Bit k of rank i's: its descriptor k comes along, in this order. A rank sends
 * its own, the root those of all but the receiver. */
struct oh__share {
	uint32_t masks[OH_MAX_RANKS];
};

struct oh__message {
	struct {
		uint32_t magic;
		uint16_t protocol;
		uint16_t type;
		uint32_t bytes; /* of the body */
		uint32_t check; /* of the body */
	} header;
	union {
		struct oh__hello hello;
		struct oh__welcome welcome;
		struct oh__verdict verdict;
		struct oh__decline decline;
		struct oh__share share;
	} body;
};

/* What came in, its descriptors beside it. */
struct oh__incoming {
	struct oh__message message;
	/* of the body, also of a bad message; 0 if the head is not ours */
	size_t bytes;
	int fd_count;
	int fds[OH__MESSAGE_FDS];
};

/* Makes header and checksum, sends the record; fds may be NULL. Never raises
 * SIGPIPE. OH_ERR_PEER_LOST if the other end is closed. */
enum oh_status oh__message_send(int socket, struct oh__message *message,
				enum oh__message_type type, const int *fds,
				int fd_count);

/*
 * Receives one record without waiting. OH_ERR_PEER_LOST if the other end is
 * closed; OH_ERR_MISMATCH if it speaks another protocol version;
 * OH_ERR_SYSTEM if this process has no room for the descriptors;
 * OH_ERR_PROTOCOL for anything malformed. who names the sender in messages.
 */
enum oh_status oh__message_receive(int socket, const char *who,
				   struct oh__incoming *incoming);

/* Closes the descriptors that were not taken (set to -1). */
void oh__incoming_close(struct oh__incoming *incoming);

#endif
