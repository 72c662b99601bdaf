/* SPDX-License-Identifier: MIT */
/*
 * The rendezvous as rank 0 sees it: a guest is a connection that has not said
 * hello yet; it becomes a member, is refused, or runs out of time. When
 * something is wrong rank 0 stays for
 * OH__GRACE_MS, so that ranks that come later get
 * the same verdict.
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/descriptor.h"
#include "comm/discard.h"
#include "comm/meeting.h"

#define GUESTS 64
#define GUEST_MS 5000
/* When all places are taken: a rank says hello at once. */
#define CROWD_MS 200
/* A crowd of strangers shall not fill the log, nor slow rank 0 down by it. */
#define REFUSALS_LOGGED 16

struct guest {
	int socket;
	int pid;
	bool strange; /* of another user */
	bool heard; /* it holds the id, and is or says it is this rank */
	uint32_t rank;
	uint64_t since_ns;
};

struct root {
	const struct oh__rendezvous_options *options;
	struct oh__rendezvous *rendezvous;
	int listener;
	/* given up when there is no descriptor left, so that the others can
	 * still be told */
	int spare;
	bool starved; /* of descriptors: no guest can be let in */
	int joined; /* members, rank 0 included */
	int refused;
	/* set when the rendezvous has failed: what all ranks are told */
	bool failed;
	int culprit; /* the rank that declined, or -1 */
	uint32_t told; /* bit i: rank i has been */
	struct oh__message verdict;
	int guest_count;
	struct guest guests[GUESTS];
	struct oh__discard discard; /* what strangers had a hand in */
};

static enum oh_status open_listener(struct root *root, int *taken)
{
	struct sockaddr_un address;
	socklen_t length = oh__meeting_address(root->options->place, &address);
	int fd = oh__fd_raise(socket(
		AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

	if (fd < 0)
		return OH__FAIL_CALL(OH_ERR_SYSTEM, "socket", errno,
				     "no rendezvous socket");
	if (bind(fd, (struct sockaddr *)&address, length) < 0) {
		enum oh_status status = OH_OK;

		if (errno == EADDRINUSE)
			*taken = 1;
		else
			status = OH__FAIL_CALL(OH_ERR_SYSTEM, "bind", errno,
					       "cannot open the rendezvous");
		close(fd);
		return status;
	}
	if (listen(fd, 2 * GUESTS) < 0) {
		enum oh_status status =
			OH__FAIL_CALL(OH_ERR_SYSTEM, "listen", errno,
				      "cannot open the rendezvous");

		close(fd);
		return status;
	}
	root->listener = fd;
	return OH_OK;
}

static void drop_guest(struct root *root, int index)
{
	root->guests[index] = root->guests[--root->guest_count];
}

/* A stranger: it is told, the ranks are not disturbed. */
static void refuse(struct root *root, int index, const char *why)
{
	struct guest *guest = &root->guests[index];
	struct oh__message message;
	struct oh__verdict *verdict = &message.body.verdict;

	if (root->refused < REFUSALS_LOGGED)
		oh__log(OH_LOG_WARN, "rendezvous refused process %d: %s",
			guest->pid, why);
	else if (root->refused == REFUSALS_LOGGED)
		oh__log(OH_LOG_WARN,
			"rendezvous refused more than %d "
			"processes, the others are not logged",
			REFUSALS_LOGGED);
	oh__meeting_fill_verdict(verdict, OH_OK, -1);
	verdict->status = OH_ERR_PROTOCOL;
	snprintf(verdict->text, sizeof(verdict->text),
		 "rank 0 refused the connection of process %d: %s", guest->pid,
		 why);
	oh__message_send(guest->socket, &message, OH__MESSAGE_VERDICT, NULL, 0);
	if (guest->strange)
		oh__discard_add(&root->discard, &guest->socket);
	else
		oh__fd_close(&guest->socket);
	drop_guest(root, index);
	root->refused++;
}

/* One that holds the id: it is told why the rendezvous has failed. */
static void tell(struct root *root, int *socket, uint32_t rank)
{
	oh__message_send(*socket, &root->verdict, OH__MESSAGE_VERDICT, NULL, 0);
	oh__fd_close(socket);
	if (rank < OH_MAX_RANKS)
		root->told |= 1u << rank;
}

static void tell_guest(struct root *root, int index)
{
	tell(root, &root->guests[index].socket, root->guests[index].rank);
	drop_guest(root, index);
}

static void receive_guest(struct root *root, int fd)
{
	struct guest *guest = &root->guests[root->guest_count++];
	struct ucred peer;

	*guest = (struct guest){.socket = fd,
				.pid = -1,
				.strange = true,
				.since_ns = oh__now_ns()};
	if (!oh__meeting_peer(fd, &peer)) {
		refuse(root, root->guest_count - 1,
		       "the kernel does not say who it is");
		return;
	}
	guest->pid = peer.pid;
	guest->strange = peer.uid != geteuid();
	if (guest->strange)
		refuse(root, root->guest_count - 1,
		       "it belongs to another user");
}

/* No more at a time than there are places: those that come all the time must
 * not keep rank 0 from its deadline and its members. */
static enum oh_status accept_guests(struct root *root)
{
	for (int i = 0; i < GUESTS && root->guest_count < GUESTS; i++) {
		int fd = oh__fd_raise(
			accept4(root->listener, NULL, NULL, SOCK_CLOEXEC));

		if (fd >= 0) {
			receive_guest(root, fd);
			continue;
		}
		if (errno != EMFILE && errno != ENFILE)
			return OH_OK;
		/* the guests that are here may go, and leave room */
		root->starved = root->guest_count > 0 || root->failed ||
				root->discard.fd_count > 0 ||
				root->discard.thread_count > 0;
		if (root->starved)
			return OH_OK;
		return OH__FAIL_CALL(OH_ERR_SYSTEM, "accept4", errno,
				     "no descriptor for a rank that comes, "
				     "raise the limit of open files (ulimit "
				     "-n)");
	}
	return OH_OK;
}

/* In the same time whatever the difference. */
static bool same_secret(const uint8_t *a, const uint8_t *b)
{
	unsigned different = 0;

	for (int i = 0; i < OH__SECRET_BYTES; i++)
		different |= (unsigned)(a[i] ^ b[i]);
	return !different;
}

/* Does the sender hold the id, whatever else is wrong with its message? Both
 * a hello and a decline begin with the secret. */
static bool holds_id(const struct root *root,
		     const struct oh__incoming *incoming)
{
	const struct oh__message *message = &incoming->message;

	return incoming->bytes >= sizeof(message->body.hello.secret) &&
	       (message->header.type == OH__MESSAGE_HELLO ||
		message->header.type == OH__MESSAGE_DECLINE) &&
	       same_secret(message->body.hello.secret,
			   root->options->place->secret);
}

static enum oh_status check_hello(const struct root *root,
				  const struct oh__hello *hello, int pid)
{
	const struct oh__rendezvous_options *options = root->options;

	if (hello->ranks != (uint32_t)options->ranks)
		return OH__FAIL(OH_ERR_MISMATCH,
				"the ranks disagree on their number: rank 0 "
				"says %d, rank %u (process %d) says %u",
				options->ranks, hello->rank, pid, hello->ranks);
	if (hello->rank >= hello->ranks)
		return OH__FAIL(OH_ERR_MISMATCH,
				"process %d says it is rank %u of %u", pid,
				hello->rank, hello->ranks);
	if (hello->rank == 0 || root->rendezvous->sockets[hello->rank] >= 0)
		return OH__FAIL(OH_ERR_MISMATCH,
				"two processes say they are rank %u; the "
				"second is process %d",
				hello->rank, pid);
	if (hello->agree_count != (uint32_t)options->agree_count)
		return OH__FAIL(OH_ERR_MISMATCH,
				"rank %u has %u common settings, rank 0 has "
				"%d: the ranks run different versions of the "
				"library",
				hello->rank, hello->agree_count,
				options->agree_count);
	for (int i = 0; i < options->agree_count; i++)
		if (hello->agree[i] != options->agree[i].value)
			return OH__FAIL(
				OH_ERR_MISMATCH,
				"the ranks disagree on %s: rank 0 has "
				"%llu, rank %u has %llu",
				options->agree[i].name,
				(unsigned long long)options->agree[i].value,
				hello->rank,
				(unsigned long long)hello->agree[i]);
	return OH_OK;
}

static enum oh_status admit(struct root *root, int index,
			    struct oh__incoming *incoming)
{
	struct oh__rendezvous *rendezvous = root->rendezvous;
	const struct oh__hello *hello = &incoming->message.body.hello;
	struct guest *guest = &root->guests[index];
	enum oh_status status = check_hello(root, hello, guest->pid);

	if (status)
		return status;
	if (incoming->fd_count != OH__RANK_FDS)
		return OH__FAIL(OH_ERR_PROTOCOL,
				"rank %u sent %d descriptors, expected %d",
				hello->rank, incoming->fd_count, OH__RANK_FDS);
	rendezvous->sockets[hello->rank] = guest->socket;
	memcpy(rendezvous->facts[hello->rank], hello->facts, OH__FACTS_BYTES);
	for (int k = 0; k < OH__RANK_FDS; k++)
		rendezvous->fds[hello->rank][k] = incoming->fds[k];
	incoming->fd_count = 0;
	drop_guest(root, index);
	root->joined++;
	return OH_OK;
}

/* What every rank is told of one that could not come. */
static enum oh_status fail_declined(struct root *root, uint32_t rank,
				    enum oh_status status)
{
	char why[sizeof(root->verdict.body.verdict.text)];

	snprintf(why, sizeof(why), "%s", oh_last_error()->message);
	root->culprit = (int)rank;
	return OH__FAIL(status, "rank %u cannot join: %s", rank, why);
}

static enum oh_status hear_decline(struct root *root,
				   const struct oh__decline *decline)
{
	enum oh_status status = oh__meeting_take_verdict(&decline->verdict);

	if (!status || decline->rank >= (uint32_t)root->options->ranks)
		return OH__FAIL(OH_ERR_PROTOCOL,
				"rank %u of %d declined without a failure",
				decline->rank, root->options->ranks);
	return fail_declined(root, decline->rank, status);
}

/* Reads a guest's hello. A failure here fails the rendezvous. */
static enum oh_status hear_guest(struct root *root, int index)
{
	struct guest *guest = &root->guests[index];
	struct oh__incoming incoming;
	enum oh_status status;
	bool declined;
	char who[32];

	snprintf(who, sizeof(who), "process %d", guest->pid);
	status = oh__message_receive(guest->socket, who, &incoming);
	if (status == OH_ERR_PEER_LOST) {
		oh__fd_close(&guest->socket);
		drop_guest(root, index);
		return OH_OK;
	}
	declined = incoming.message.header.type == OH__MESSAGE_DECLINE;
	guest->heard = holds_id(root, &incoming);
	guest->rank = OH_MAX_RANKS;
	if (!status)
		guest->rank = declined ? incoming.message.body.decline.rank
				       : incoming.message.body.hello.rank;
	if (!guest->heard) {
		refuse(root, index,
		       status ? oh_last_error()->message
			      : "it does not hold the id");
		status = OH_OK;
	} else if (root->failed) {
		tell_guest(root, index);
		status = OH_OK;
	} else if (!status && declined) {
		status = hear_decline(root, &incoming.message.body.decline);
	} else if (!status) {
		status = admit(root, index, &incoming);
	}
	oh__incoming_close(&incoming);
	return status;
}

/* Whose deadline it was: "the deadline" or a rank's. */
static enum oh_status timed_out(const struct root *root, const char *deadline)
{
	char missing[96] = "";
	char refused[64] = "";
	size_t used = 0;

	for (int i = 1; i < root->options->ranks; i++)
		if (root->rendezvous->sockets[i] < 0)
			used += (size_t)snprintf(missing + used,
						 sizeof(missing) - used, " %d",
						 i);
	if (root->refused)
		snprintf(refused, sizeof(refused),
			 "; %d connections were refused, see the log",
			 root->refused);
	return OH__FAIL(OH_ERR_TIMEOUT,
			"%d of %d ranks came before %s, missing rank%s%s",
			root->joined, root->options->ranks, deadline, missing,
			refused);
}

/* A member says nothing before it is welcomed, but why it gives up. */
static enum oh_status hear_member(struct root *root, int rank)
{
	struct oh__incoming incoming;
	enum oh_status status;
	char who[32];

	snprintf(who, sizeof(who), "rank %d", rank);
	status = oh__message_receive(root->rendezvous->sockets[rank], who,
				     &incoming);
	if (!status) {
		oh__incoming_close(&incoming);
		if (incoming.message.header.type == OH__MESSAGE_VERDICT)
			status = oh__meeting_take_verdict(
				&incoming.message.body.verdict);
		if (status)
			root->culprit = rank;
	}
	if (status == OH_ERR_TIMEOUT) {
		snprintf(who, sizeof(who), "rank %d's deadline", rank);
		return timed_out(root, who);
	}
	if (status && status != OH_ERR_PEER_LOST)
		return status;
	return OH__FAIL(OH_ERR_PEER_LOST,
			"rank %d ended or gave up before all ranks had come",
			rank);
}

static void expire_guests(struct root *root)
{
	uint64_t ms = root->guest_count == GUESTS ? CROWD_MS : GUEST_MS;
	uint64_t now = oh__now_ns();

	for (int i = root->guest_count - 1; i >= 0; i--)
		if (root->guests[i].since_ns + ms * OH__NS_PER_MS <= now)
			refuse(root, i, "it said nothing");
}

/* What serve waits for: no more entries than there are descriptors, for more
 * than may be open is an error of poll. */
struct watch {
	struct pollfd polls[1 + OH_MAX_RANKS + GUESTS];
	int ranks[OH_MAX_RANKS]; /* of the members' entries */
	int members, guests;
};

static void watch_all(const struct root *root, struct watch *watch)
{
	bool open = root->guest_count < GUESTS && !root->starved &&
		    !root->discard.fd_count;
	int count = 0;

	/* the listener, the members, the guests */
	watch->polls[count++] = (struct pollfd){
		.fd = open ? root->listener : -1, .events = POLLIN};
	watch->members = 0;
	for (int i = 1; i < OH_MAX_RANKS; i++) {
		int fd = root->rendezvous->sockets[i];

		if (fd < 0)
			continue;
		watch->ranks[watch->members++] = i;
		watch->polls[count++] =
			(struct pollfd){.fd = fd, .events = POLLIN};
	}
	watch->guests = root->guest_count;
	for (int i = 0; i < root->guest_count; i++)
		watch->polls[count++] = (struct pollfd){
			.fd = root->guests[i].socket, .events = POLLIN};
}

/* Whatever has come. */
static enum oh_status attend(struct root *root, const struct watch *watch)
{
	const struct pollfd *members = watch->polls + 1;
	const struct pollfd *guests = members + watch->members;
	enum oh_status status;

	for (int i = 0; i < watch->members; i++)
		if (members[i].revents)
			return hear_member(root, watch->ranks[i]);
	/* from the end: dropping one moves the last into its place */
	for (int i = watch->guests - 1; i >= 0; i--) {
		status = guests[i].revents ? hear_guest(root, i) : OH_OK;
		if (status)
			return status;
	}
	return watch->polls[0].revents ? accept_guests(root) : OH_OK;
}

/* One wait for whatever comes next, at most until until_ns. */
static enum oh_status serve(struct root *root, uint64_t until_ns)
{
	struct watch watch;
	int ms = oh__ms_until(until_ns);
	enum oh_status status = OH_OK;
	int ready;

	watch_all(root, &watch);
	if ((watch.guests || watch.polls[0].fd < 0) && ms > CROWD_MS / 4)
		ms = CROWD_MS / 4;
	ready = poll(watch.polls, (nfds_t)(1 + watch.members + watch.guests),
		     ms);
	root->starved = false;
	if (ready > 0)
		status = attend(root, &watch);
	else if (ready < 0 && errno != EINTR)
		status = OH__FAIL_CALL(OH_ERR_SYSTEM, "poll", errno,
				       "cannot wait for the ranks");
	expire_guests(root);
	oh__discard_start(&root->discard);
	return status;
}

/* Tells all that are here, and those that come within the grace, why not. */
static enum oh_status tell_failure(struct root *root, enum oh_status status)
{
	uint64_t until_ns = oh__now_ns() + OH__GRACE_MS * OH__NS_PER_MS;
	uint32_t all = (1u << root->options->ranks) - 2; /* but rank 0 */
	struct oh_error own = *oh_last_error();
	bool ours = status == OH_ERR_SYSTEM || status == OH_ERR_NO_MEMORY;

	/* of this process: the others are told whose it is */
	if (ours && root->culprit < 0)
		OH__FAIL(status, "rank 0: %.440s", own.message);
	oh__meeting_fill_verdict(&root->verdict.body.verdict, status,
				 root->culprit);
	root->failed = true;
	oh__fd_close(&root->spare);
	for (uint32_t i = 1; i < OH_MAX_RANKS; i++)
		if (root->rendezvous->sockets[i] >= 0)
			tell(root, &root->rendezvous->sockets[i], i);
	for (int i = root->guest_count - 1; i >= 0; i--)
		if (root->guests[i].heard)
			tell_guest(root, i);
	while ((root->told & all) != all && oh__now_ns() < until_ns)
		if (serve(root, until_ns))
			break;
	/* what strangers did meanwhile is not why it failed */
	oh__error_restore(&own);
	return status;
}

static enum oh_status welcome(struct root *root, int rank)
{
	struct oh__rendezvous *rendezvous = root->rendezvous;
	struct oh__message message;
	int fds[OH__MESSAGE_FDS];
	int count = 0;
	enum oh_status status;

	memcpy(message.body.welcome.facts, rendezvous->facts,
	       sizeof(rendezvous->facts));
	for (int i = 0; i < root->options->ranks; i++)
		for (int k = 0; k < OH__RANK_FDS && i != rank; k++)
			fds[count++] = i ? rendezvous->fds[i][k]
					 : root->options->fds[k];
	status = oh__message_send(rendezvous->sockets[rank], &message,
				  OH__MESSAGE_WELCOME, fds, count);
	if (status == OH_ERR_PEER_LOST)
		return OH__FAIL(status, "rank %d ended before it was welcomed",
				rank);
	return status;
}

/*
 * Whoever still waits is let in first, for the listener's own close would drop
 * what they have sent. It is shut down before: a forked child may hold it, too,
 * and nobody shall wait there for an answer.
 */
static void close_listener(struct root *root)
{
	struct ucred peer;
	int fd;

	shutdown(root->listener, SHUT_RDWR);
	while ((fd = accept4(root->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		if (oh__meeting_peer(fd, &peer) && peer.uid == geteuid())
			close(fd);
		else
			oh__discard_add(&root->discard, &fd);
	}
	/* some may be left where no descriptor was */
	if (errno != EAGAIN && errno != EINVAL)
		oh__discard_add(&root->discard, &root->listener);
	oh__fd_close(&root->listener);
}

static void close_root(struct root *root)
{
	while (root->guest_count)
		refuse(root, root->guest_count - 1, "the rendezvous is over");
	oh__fd_close(&root->spare);
	close_listener(root);
	oh__discard_end(&root->discard);
}

/* Before the listener: who has connected to that must be told something. */
static enum oh_status open_spare(struct root *root)
{
	root->spare =
		oh__fd_raise(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	if (root->spare >= 0)
		return OH_OK;
	return OH__FAIL_CALL(OH_ERR_SYSTEM, "socket", errno,
			     "no rendezvous socket, raise the limit of open "
			     "files (ulimit -n)");
}

enum oh_status oh__meeting_as_root(const struct oh__rendezvous_options *options,
				   struct oh__rendezvous *rendezvous,
				   int *taken)
{
	struct root root = {
		.options = options,
		.rendezvous = rendezvous,
		.joined = 1,
		.spare = -1,
		.culprit = -1,
	};
	enum oh_status status = open_spare(&root);

	if (!status)
		status = open_listener(&root, taken);
	rendezvous->reached = !status;
	if (status || *taken) {
		oh__fd_close(&root.spare);
		return status;
	}
	while (root.joined < options->ranks && !status) {
		if (oh__now_ns() >= options->deadline_ns)
			status = timed_out(&root, "the deadline");
		else
			status = serve(&root, options->deadline_ns);
	}
	for (int i = 1; i < options->ranks && !status; i++)
		status = welcome(&root, i);
	if (status)
		status = tell_failure(&root, status);
	close_root(&root);
	return status;
}

enum oh_status
oh__meeting_decline_as_root(const struct oh__rendezvous_options *options,
			    enum oh_status status)
{
	struct oh__rendezvous rendezvous = {.ranks = options->ranks};
	struct root root = {
		.options = options, .rendezvous = &rendezvous, .spare = -1};
	struct oh_error own = *oh_last_error();
	int taken = 0;

	for (int i = 0; i < OH_MAX_RANKS; i++)
		rendezvous.sockets[i] = -1;
	if (open_listener(&root, &taken) || taken) {
		oh__error_restore(&own);
		return status;
	}
	fail_declined(&root, 0, status);
	tell_failure(&root, status);
	close_root(&root);
	oh__error_restore(&own);
	return status;
}
