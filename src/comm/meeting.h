/* SPDX-License-Identifier: MIT */
/* What the two sides of a rendezvous share; private to src/comm. */
#ifndef OH_COMM_MEETING_H
#define OH_COMM_MEETING_H

#include <sys/socket.h>
#include <sys/un.h>

#include "comm/rendezvous.h"

/* The abstract address of a place; gives its length. */
socklen_t oh__meeting_address(const struct oh__meeting_place *place,
			      struct sockaddr_un *address);

/* The uid and the process at the other end; false if the kernel won't say. */
int oh__meeting_peer(int socket, struct ucred *peer);

/* Waits until the socket can be read: OH_OK or OH_ERR_TIMEOUT (unlogged). */
enum oh_status oh__meeting_wait(int socket, uint64_t deadline_ns);

/* A verdict of this thread's last error, or of success. */
void oh__meeting_fill_verdict(struct oh__verdict *verdict,
			      enum oh_status status, int culprit);

/* Makes one and sends it. */
enum oh_status oh__meeting_send_verdict(int socket, enum oh_status status,
					int culprit);

/* Makes a received verdict this thread's last error; gives its status. */
enum oh_status oh__meeting_take_verdict(const struct oh__verdict *verdict);

/* How much longer the others wait for rank 0, which decides. */
#define OH__PATIENCE_MS 5000
/* How long a rank that gives up waits for rank 0 to say who is missing. */
#define OH__ANSWER_MS 1000
/* How long rank 0 stays to tell why there will be no communicator. */
#define OH__GRACE_MS 2000

enum oh_status oh__meeting_as_root(const struct oh__rendezvous_options *options,
				   struct oh__rendezvous *rendezvous,
				   int *taken);
enum oh_status
oh__meeting_as_member(const struct oh__rendezvous_options *options,
		      struct oh__rendezvous *rendezvous);

/* oh__rendezvous_decline of rank 0 and of the others. */
enum oh_status
oh__meeting_decline_as_root(const struct oh__rendezvous_options *options,
			    enum oh_status status);
enum oh_status
oh__meeting_decline_as_member(const struct oh__rendezvous_options *options,
			      enum oh_status status);

#endif
