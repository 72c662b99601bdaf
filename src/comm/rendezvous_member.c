/* SPDX-License-Identifier: MIT */
/* The rendezvous as every rank but 0 sees it. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/descriptor.h"
#include "comm/discard.h"
#include "comm/meeting.h"

#define RETRY_FIRST_US 200
#define RETRY_LAST_US 10000

/* Another user's is closed at once, and nothing received. */
static enum oh_status check_root(int *socket)
{
	struct ucred peer;

	if (!oh__meeting_peer(*socket, &peer)) {
		int code = errno;

		oh__discard_one(socket);
		return OH__FAIL_CALL(OH_ERR_SYSTEM, "getsockopt(SO_PEERCRED)",
				     code, "cannot tell who rank 0 is");
	}
	if (peer.uid == geteuid())
		return OH_OK;
	oh__discard_one(socket);
	return OH__FAIL(OH_ERR_PROTOCOL,
			"the rendezvous socket belongs to uid %u (process %d), "
			"this process runs as uid %u",
			(unsigned)peer.uid, (int)peer.pid, (unsigned)geteuid());
}

/* Not there yet, or its queue is full. */
static bool worth_a_retry(int code)
{
	return code == ECONNREFUSED || code == EAGAIN || code == ENOENT ||
	       code == EINTR;
}

static enum oh_status connect_once(const struct oh__meeting_place *place,
				   int *fd, bool *retry)
{
	struct sockaddr_un address;
	socklen_t length = oh__meeting_address(place, &address);
	/* non-blocking: a full queue is waited for until the deadline */
	int made = oh__fd_raise(socket(
		AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	int code;

	*retry = false;
	if (made < 0)
		return OH__FAIL_CALL(OH_ERR_SYSTEM, "socket", errno,
				     "no rendezvous socket");
	if (connect(made, (struct sockaddr *)&address, length) == 0) {
		*fd = made;
		return OH_OK;
	}
	code = errno;
	close(made);
	*retry = worth_a_retry(code);
	if (*retry)
		return OH_OK;
	return OH__FAIL_CALL(OH_ERR_SYSTEM, "connect", code,
			     "cannot reach rank 0's rendezvous socket");
}

static enum oh_status connect_root(const struct oh__rendezvous_options *options,
				   int *fd)
{
	long pause_us = RETRY_FIRST_US;

	for (;;) {
		bool retry;
		enum oh_status status =
			connect_once(options->place, fd, &retry);
		struct timespec pause = {.tv_nsec = pause_us * 1000};

		if (status || !retry)
			return status;
		if (oh__now_ns() >= options->deadline_ns)
			return OH__FAIL(OH_ERR_TIMEOUT,
					"rank 0 of %d did not open the "
					"rendezvous before the deadline, seen "
					"by rank %d: has it been started, on "
					"this host and in this network "
					"namespace, with the same id or job?",
					options->ranks, options->rank);
		nanosleep(&pause, NULL);
		pause_us = pause_us * 2 > RETRY_LAST_US ? RETRY_LAST_US
							: pause_us * 2;
	}
}

static enum oh_status say_hello(int fd,
				const struct oh__rendezvous_options *options)
{
	struct oh__message message;
	struct oh__hello *hello = &message.body.hello;

	memset(hello, 0, sizeof(*hello));
	memcpy(hello->secret, options->place->secret, sizeof(hello->secret));
	hello->rank = (uint32_t)options->rank;
	hello->ranks = (uint32_t)options->ranks;
	hello->agree_count = (uint32_t)options->agree_count;
	for (int i = 0; i < options->agree_count; i++)
		hello->agree[i] = options->agree[i].value;
	memcpy(hello->facts, options->facts, OH__FACTS_BYTES);
	return oh__message_send(fd, &message, OH__MESSAGE_HELLO, options->fds,
				OH__RANK_FDS);
}

/* Gives a verdict's status; OH_OK if it is none of a failure. */
static enum oh_status take_failure(const struct oh__incoming *incoming)
{
	if (incoming->message.header.type != OH__MESSAGE_VERDICT)
		return OH_OK;
	return oh__meeting_take_verdict(&incoming->message.body.verdict);
}

static enum oh_status take_welcome(struct oh__incoming *incoming,
				   struct oh__rendezvous *rendezvous)
{
	int next = 0;

	if (incoming->message.header.type != OH__MESSAGE_WELCOME ||
	    incoming->fd_count != (rendezvous->ranks - 1) * OH__RANK_FDS)
		return OH__FAIL(OH_ERR_PROTOCOL,
				"rank 0 sent a message of type %u with %d "
				"descriptors where its welcome was due",
				incoming->message.header.type,
				incoming->fd_count);
	for (int i = 0; i < rendezvous->ranks; i++) {
		if (i == rendezvous->rank)
			continue;
		memcpy(rendezvous->facts[i],
		       incoming->message.body.welcome.facts[i],
		       OH__FACTS_BYTES);
		for (int k = 0; k < OH__RANK_FDS; k++)
			rendezvous->fds[i][k] = incoming->fds[next++];
	}
	incoming->fd_count = 0;
	return OH_OK;
}

/* Rank 0 waits longer than this rank may. It hears of that, and knows who is
 * missing: its verdict comes at once, unless it is stopped. */
static enum oh_status give_up(int fd, int rank)
{
	uint64_t until_ns = oh__now_ns() + OH__ANSWER_MS * OH__NS_PER_MS;
	struct oh__incoming incoming;
	enum oh_status told, status;
	struct oh_error own;

	status = OH__FAIL(OH_ERR_TIMEOUT,
			  "rank 0 did not answer rank %d before the deadline: "
			  "it is stopped, or waits longer for another rank",
			  rank);
	own = *oh_last_error();
	oh__meeting_send_verdict(fd, status, rank);
	told = oh__meeting_wait(fd, until_ns);
	if (!told)
		told = oh__message_receive(fd, "rank 0", &incoming);
	if (!told) {
		told = take_failure(&incoming);
		oh__incoming_close(&incoming);
		if (told)
			return told;
	}
	oh__error_restore(&own);
	return status;
}

static enum oh_status
await_welcome(int fd, const struct oh__rendezvous_options *options,
	      struct oh__rendezvous *rendezvous)
{
	struct oh__incoming incoming;
	enum oh_status status;

	status = oh__meeting_wait(fd, options->deadline_ns +
					      OH__PATIENCE_MS * OH__NS_PER_MS);
	if (status == OH_ERR_TIMEOUT)
		return give_up(fd, options->rank);
	if (!status)
		status = oh__message_receive(fd, "rank 0", &incoming);
	if (status == OH_ERR_PEER_LOST)
		return OH__FAIL(OH_ERR_PEER_LOST,
				"rank 0 closed the rendezvous without a word: "
				"its process has ended, or all %d ranks had "
				"come already and this process is one too many",
				options->ranks);
	if (status)
		goto err_say_so;
	status = take_failure(&incoming);
	if (status) {
		oh__incoming_close(&incoming);
		return status;
	}
	status = take_welcome(&incoming, rendezvous);
	oh__incoming_close(&incoming);
	if (!status)
		return OH_OK;

err_say_so:
	/* rank 0 does not know of it yet; it tells the others */
	oh__meeting_send_verdict(fd, status, options->rank);
	return status;
}

enum oh_status
oh__meeting_as_member(const struct oh__rendezvous_options *options,
		      struct oh__rendezvous *rendezvous)
{
	enum oh_status status;
	int fd = -1;

	status = connect_root(options, &fd);
	if (!status)
		status = check_root(&fd);
	if (!status)
		status = say_hello(fd, options);
	/* one that is not there, or is another's, is told nothing either */
	rendezvous->reached = status != OH_ERR_SYSTEM;
	/* rank 0 may have refused and closed before it read the hello: its
	 * verdict is still there to be read */
	if (!status || status == OH_ERR_PEER_LOST)
		status = await_welcome(fd, options, rendezvous);
	if (status) {
		oh__fd_close(&fd);
		return status;
	}
	rendezvous->sockets[0] = fd;
	return OH_OK;
}

/* Rank 0's verdict after this rank has declined; OH_OK if none comes. */
static enum oh_status await_verdict(int fd, uint64_t deadline_ns, int rank,
				    int *culprit)
{
	struct oh__incoming incoming;
	enum oh_status status = oh__meeting_wait(fd, deadline_ns);

	if (!status)
		status = oh__message_receive(fd, "rank 0", &incoming);
	if (status)
		return OH_OK;
	*culprit = incoming.message.body.verdict.culprit;
	/* what this rank has said itself need not be said again */
	if (*culprit != rank)
		status = take_failure(&incoming);
	oh__incoming_close(&incoming);
	return status;
}

enum oh_status
oh__meeting_decline_as_member(const struct oh__rendezvous_options *options,
			      enum oh_status status)
{
	uint64_t deadline_ns = oh__now_ns() + OH__GRACE_MS * OH__NS_PER_MS;
	struct oh__rendezvous_options soon = *options;
	struct oh_error own = *oh_last_error();
	struct oh__message message;
	struct oh__decline *decline = &message.body.decline;
	enum oh_status told = OH_OK;
	int culprit = -1;
	int fd = -1;

	memset(decline, 0, sizeof(*decline));
	memcpy(decline->secret, options->place->secret,
	       sizeof(decline->secret));
	decline->rank = (uint32_t)options->rank;
	oh__meeting_fill_verdict(&decline->verdict, status, options->rank);
	soon.deadline_ns = deadline_ns;
	if (!connect_root(&soon, &fd) && !check_root(&fd) &&
	    !oh__message_send(fd, &message, OH__MESSAGE_DECLINE, NULL, 0))
		told = await_verdict(fd, deadline_ns, options->rank, &culprit);
	oh__fd_close(&fd);
	/* the verdict is of another rank: that one was first */
	if (told && culprit != options->rank)
		return told;
	oh__error_restore(&own);
	return status;
}
