/* SPDX-License-Identifier: MIT */
/*
 * The two sides' common part, and the agreement at the end. Deadlines: rank 0
 * decides; the others wait OH__PATIENCE_MS longer than their own deadline, so
 * that they get its verdict rather than a time-out of their own.
 */
#include "comm/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/descriptor.h"
#include "comm/meeting.h"

/* At least, for the set-up between WELCOME and VERDICT, however short the
 * deadline of the rendezvous is. */
#define AGREE_MS 5000

socklen_t oh__meeting_address(const struct oh__meeting_place *place,
			      struct sockaddr_un *address)
{
	size_t length = strlen(place->address);

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	memcpy(address->sun_path + 1, place->address, length);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

int oh__meeting_peer(int socket, struct ucred *peer)
{
	socklen_t bytes = sizeof(*peer);

	return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, peer, &bytes) == 0;
}

enum oh_status oh__meeting_wait(int socket, uint64_t deadline_ns)
{
	struct pollfd one = {.fd = socket, .events = POLLIN};

	for (;;) {
		int ms = oh__ms_until(deadline_ns);
		int ready = poll(&one, 1, ms);

		if (ready > 0)
			return OH_OK;
		if (ready == 0 && ms == 0)
			return OH_ERR_TIMEOUT;
		if (ready < 0 && errno != EINTR)
			return OH__FAIL_CALL(OH_ERR_SYSTEM, "poll", errno,
					     "cannot wait for a rank");
	}
}

void oh__meeting_fill_verdict(struct oh__verdict *verdict,
			      enum oh_status status, int culprit)
{
	memset(verdict, 0, sizeof(*verdict));
	verdict->status = (uint32_t)status;
	verdict->culprit = culprit;
	if (status)
		snprintf(verdict->text, sizeof(verdict->text), "%s",
			 oh_last_error()->message);
}

enum oh_status oh__meeting_send_verdict(int socket, enum oh_status status,
					int culprit)
{
	struct oh__message message;

	oh__meeting_fill_verdict(&message.body.verdict, status, culprit);
	return oh__message_send(socket, &message, OH__MESSAGE_VERDICT, NULL, 0);
}

enum oh_status oh__meeting_take_verdict(const struct oh__verdict *verdict)
{
	char text[sizeof(verdict->text)];

	if (!verdict->status)
		return OH_OK;
	snprintf(text, sizeof(text), "%.*s", (int)sizeof(text) - 1,
		 verdict->text);
	for (char *at = text; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	if (!strcmp(oh_status_name((enum oh_status)verdict->status), "unknown"))
		return OH__FAIL(OH_ERR_PROTOCOL,
				"a rank sent the unknown status %u: %s",
				verdict->status, text);
	return OH__FAIL((enum oh_status)verdict->status, "%s", text);
}

enum oh_status oh__rendezvous_meet(const struct oh__rendezvous_options *options,
				   struct oh__rendezvous *rendezvous)
{
	enum oh_status status = OH_OK;
	int taken = 0;

	memset(rendezvous, 0, sizeof(*rendezvous));
	rendezvous->rank = options->rank;
	rendezvous->ranks = options->ranks;
	rendezvous->deadline_ns = options->deadline_ns;
	for (int i = 0; i < OH_MAX_RANKS; i++) {
		rendezvous->sockets[i] = -1;
		for (int k = 0; k < OH__RANK_FDS; k++)
			rendezvous->fds[i][k] = -1;
	}
	memcpy(rendezvous->facts[options->rank], options->facts,
	       OH__FACTS_BYTES);
	if (options->ranks == 1) {
		rendezvous->reached = true;
		return OH_OK;
	}
	if (options->rank == 0)
		status = oh__meeting_as_root(options, rendezvous, &taken);
	/* A second rank 0 finds the place taken and asks the first, which
	 * tells everyone. */
	if (options->rank != 0 || taken)
		status = oh__meeting_as_member(options, rendezvous);
	if (taken && !status)
		status = OH__FAIL(OH_ERR_PROTOCOL,
				  "another process is rank 0 and welcomed this "
				  "one as rank 0 too");
	if (status)
		oh__rendezvous_close(rendezvous);
	return status;
}

enum oh_status
oh__rendezvous_decline(const struct oh__rendezvous_options *options,
		       enum oh_status status)
{
	if (options->ranks == 1)
		return status;
	if (options->rank == 0)
		return oh__meeting_decline_as_root(options, status);
	return oh__meeting_decline_as_member(options, status);
}

/* A rank's own words, with its name before them for the others. */
static enum oh_status name_rank(int rank, enum oh_status status)
{
	char why[sizeof(((struct oh__verdict *)NULL)->text)];

	snprintf(why, sizeof(why), "%s", oh_last_error()->message);
	return OH__FAIL(status, "rank %d: %s", rank, why);
}

static enum oh_status receive_verdict(struct oh__rendezvous *rendezvous,
				      int from, uint64_t deadline_ns,
				      int *culprit)
{
	struct oh__incoming incoming;
	const struct oh__verdict *verdict = &incoming.message.body.verdict;
	enum oh_status status;
	char who[32];
	int socket = rendezvous->sockets[from];

	*culprit = from;
	snprintf(who, sizeof(who), "rank %d", from);
	status = oh__meeting_wait(socket, deadline_ns);
	if (status == OH_ERR_TIMEOUT)
		return OH__FAIL(OH_ERR_TIMEOUT,
				"%s did not finish its set-up before the "
				"deadline: it is stopped, or very busy",
				who);
	if (!status)
		status = oh__message_receive(socket, who, &incoming);
	if (status == OH_ERR_PEER_LOST)
		return OH__FAIL(OH_ERR_PEER_LOST,
				"%s ended or gave up while the communicator "
				"was made",
				who);
	if (status)
		return status;
	oh__incoming_close(&incoming);
	if (incoming.message.header.type != OH__MESSAGE_VERDICT)
		return OH__FAIL(OH_ERR_PROTOCOL,
				"%s sent a message of type %u where its "
				"verdict was due",
				who, incoming.message.header.type);
	*culprit = verdict->culprit;
	status = oh__meeting_take_verdict(verdict);
	return status && from ? name_rank(from, status) : status;
}

/*
 * Rank 0 hears everyone, then tells everyone. What it has told one rank holds
 * for all: a rank that ends in between is missed in the first call.
 */
static enum oh_status agree_as_root(struct oh__rendezvous *rendezvous,
				    enum oh_status status, uint64_t deadline_ns)
{
	struct oh_error own = *oh_last_error();
	int culprit = status ? 0 : -1, heard;

	if (status)
		name_rank(0, status);
	for (int i = 1; i < rendezvous->ranks && !status; i++) {
		status = receive_verdict(rendezvous, i, deadline_ns, &heard);
		if (status)
			culprit = i;
	}
	for (int i = 1; i < rendezvous->ranks; i++)
		oh__meeting_send_verdict(rendezvous->sockets[i], status,
					 culprit);
	if (culprit == 0)
		oh__error_restore(&own);
	return status;
}

/* The set-up waits for no person, but for what is left of the deadline. */
static uint64_t agree_deadline_ns(const struct oh__rendezvous *rendezvous)
{
	uint64_t least = oh__now_ns() + AGREE_MS * OH__NS_PER_MS;

	return rendezvous->deadline_ns > least ? rendezvous->deadline_ns
					       : least;
}

enum oh_status oh__rendezvous_agree(struct oh__rendezvous *rendezvous,
				    enum oh_status status)
{
	uint64_t deadline_ns = agree_deadline_ns(rendezvous);
	struct oh_error own = *oh_last_error();
	enum oh_status sent;
	int culprit;

	if (rendezvous->ranks == 1)
		return status;
	if (rendezvous->rank == 0)
		return agree_as_root(rendezvous, status, deadline_ns);
	sent = oh__meeting_send_verdict(rendezvous->sockets[0], status,
					rendezvous->rank);
	if (sent && sent != OH_ERR_PEER_LOST)
		return sent;
	/* this rank's own failure may not be the first: rank 0 says which */
	sent = receive_verdict(rendezvous, 0,
			       deadline_ns + OH__PATIENCE_MS * OH__NS_PER_MS,
			       &culprit);
	if (status && culprit == rendezvous->rank)
		oh__error_restore(&own);
	return sent;
}

void oh__rendezvous_close(struct oh__rendezvous *rendezvous)
{
	for (int i = 0; i < OH_MAX_RANKS; i++) {
		oh__fd_close(&rendezvous->sockets[i]);
		for (int k = 0; k < OH__RANK_FDS; k++)
			oh__fd_close(&rendezvous->fds[i][k]);
	}
}
