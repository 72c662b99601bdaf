/* SPDX-License-Identifier: MIT */
/*
 * The two sides' common part, and what follows once the ranks have met: the
 * agreement, and the share, which hands descriptors round and then agrees.
 *
 *	to rank 0	SHARE	a rank's descriptors	| of a
 *	to a rank	SHARE	those of all others	| share only
 *	to rank 0	VERDICT	how the rank fares
 *	to a rank	VERDICT	how all fare
 *
 * Rank 0 hears everyone before it tells anyone, and a failure cuts it short: a
 * rank's VERDICT may come in place of its SHARE, and rank 0's last one in place
 * of anything. Rank 0 decides; the others wait OH__PATIENCE_MS longer than
 * their own deadline, to get its verdict rather than a time-out of their own.
 */
#include "comm/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/descriptor.h"
#include "comm/meeting.h"

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

/* The first numbers of a file, how many; -1 if there is no such file. */
static int read_numbers(const char *path, unsigned numbers[3])
{
	FILE *file = fopen(path, "re");
	int count = 0;

	if (!file)
		return errno == ENOENT ? -1 : 0;
	count = fscanf(file, "%u %u %u", &numbers[0], &numbers[1], &numbers[2]);
	fclose(file);
	return count;
}

/*
 * In a user namespace all users of the host that it does not map have one uid,
 * the overflow uid: as that, a process cannot tell its own user from them. The
 * map of the host itself is of all uids to themselves.
 */
static bool knows_its_user(void)
{
	unsigned overflow[3] = {65534}, map[3] = {0};
	int count;

	read_numbers("/proc/sys/kernel/overflowuid", overflow);
	if (geteuid() != overflow[0])
		return true;
	count = read_numbers("/proc/self/uid_map", map);
	return count < 0 ||
	       (count == 3 && !map[0] && !map[1] && map[2] == UINT32_MAX);
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
	if (!knows_its_user())
		return OH__FAIL(OH_ERR_UNSUPPORTED,
				"this process runs as uid %u, which in its "
				"user namespace stands for all users that are "
				"not mapped (/proc/self/uid_map): it cannot "
				"tell its ranks from theirs, run it as another "
				"uid",
				(unsigned)geteuid());
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

enum oh_status oh__rendezvous_decline(const struct oh__meeting_place *place,
				      int rank, int ranks,
				      enum oh_status status)
{
	struct oh__rendezvous_options options = {
		.place = place,
		.rank = rank,
		.ranks = ranks,
	};

	if (ranks == 1 || !knows_its_user())
		return status;
	if (rank == 0)
		return oh__meeting_decline_as_root(&options, status);
	return oh__meeting_decline_as_member(&options, status);
}

/* A rank's own words, with its name before them for the others. */
static enum oh_status name_rank(int rank, enum oh_status status)
{
	char why[sizeof(((struct oh__verdict *)NULL)->text)];

	snprintf(why, sizeof(why), "%s", oh_last_error()->message);
	return OH__FAIL(status, "rank %d: %s", rank, why);
}

/* The set-up waits for no person, but for what is left of the deadline. */
static uint64_t agree_deadline_ns(const struct oh__rendezvous *rendezvous)
{
	uint64_t least = oh__now_ns() + OH__AGREE_MS * OH__NS_PER_MS;

	if (rendezvous->deadline_ns > least)
		least = rendezvous->deadline_ns;
	return rendezvous->rank ? least + OH__PATIENCE_MS * OH__NS_PER_MS
				: least;
}

/* The next record of a rank. OH_ERR_SYSTEM is this rank's own failure, all
 * others are that rank's. */
static enum oh_status receive_word(const struct oh__rendezvous *rendezvous,
				   int from, uint64_t deadline_ns,
				   struct oh__incoming *incoming)
{
	int socket = rendezvous->sockets[from];
	enum oh_status status = oh__meeting_wait(socket, deadline_ns);
	char who[32];

	snprintf(who, sizeof(who), "rank %d", from);
	if (status == OH_ERR_TIMEOUT)
		return OH__FAIL(OH_ERR_TIMEOUT,
				"%s did not finish its set-up before the "
				"deadline: it is stopped, or very busy",
				who);
	if (!status)
		status = oh__message_receive(socket, who, incoming);
	if (status == OH_ERR_PEER_LOST)
		return OH__FAIL(OH_ERR_PEER_LOST,
				"%s ended or gave up while the communicator "
				"was made",
				who);
	return status;
}

/* Descriptors of the ranks whose word this is: a rank's of itself, rank 0's of
 * all but this one. */
static enum oh_status take_share(const struct oh__rendezvous *rendezvous,
				 int from, struct oh__incoming *incoming,
				 int (*taken)[OH__SHARE_FDS])
{
	const uint32_t *masks = incoming->message.body.share.masks;
	const uint32_t all = (1u << OH__SHARE_FDS) - 1;
	int due = 0, next = 0;

	for (int i = 0; i < OH_MAX_RANKS; i++) {
		bool may =
			from ? i == from
			     : i < rendezvous->ranks && i != rendezvous->rank;

		if (masks[i] & ~(may ? all : 0))
			return OH__FAIL(OH_ERR_PROTOCOL,
					"rank %d sent descriptors with mask "
					"%x as rank %d's, at most %x can come",
					from, masks[i], i, may ? all : 0);
		due += __builtin_popcount(masks[i]);
	}
	if (incoming->fd_count != due)
		return OH__FAIL(OH_ERR_PROTOCOL,
				"rank %d sent %d descriptors, its message "
				"says %d",
				from, incoming->fd_count, due);
	/* no more than have come, and no rank's but theirs */
	for (int i = 0; i < OH_MAX_RANKS; i++)
		for (int k = 0; k < OH__SHARE_FDS; k++)
			if (masks[i] >> k & 1)
				taken[i][k] = incoming->fds[next++];
	incoming->fd_count = 0;
	return OH_OK;
}

/* Takes a record that is due. A failure that a rank tells may come in place of
 * it and becomes this thread's last error; descriptors not taken are closed. */
static enum oh_status take_word(const struct oh__rendezvous *rendezvous,
				int from, enum oh__message_type due,
				struct oh__incoming *incoming,
				int (*taken)[OH__SHARE_FDS])
{
	const struct oh__message *message = &incoming->message;
	unsigned type = message->header.type;
	enum oh_status status = OH_OK;

	if (type == OH__MESSAGE_VERDICT)
		status = oh__meeting_take_verdict(&message->body.verdict);
	if (status && from)
		status = name_rank(from, status);
	if (!status && type != due)
		status = OH__FAIL(OH_ERR_PROTOCOL,
				  "rank %d sent a message of type %u where its "
				  "%s due",
				  from, type,
				  due == OH__MESSAGE_SHARE ? "descriptors were"
							   : "verdict was");
	if (!status && type == OH__MESSAGE_SHARE)
		status = take_share(rendezvous, from, incoming, taken);
	oh__incoming_close(incoming);
	return status;
}

/* Rank 0 hears everyone, until one has failed: then *culprit is that rank, or 0
 * if it was rank 0 that could not hear it. */
static enum oh_status hear_all(const struct oh__rendezvous *rendezvous,
			       enum oh__message_type due,
			       int (*taken)[OH__SHARE_FDS], int *culprit)
{
	uint64_t deadline_ns = agree_deadline_ns(rendezvous);
	struct oh__incoming incoming;
	enum oh_status status = OH_OK;

	for (int i = 1; i < rendezvous->ranks && !status; i++) {
		status = receive_word(rendezvous, i, deadline_ns, &incoming);
		*culprit = status == OH_ERR_SYSTEM ? 0 : i;
		if (!status)
			status =
				take_word(rendezvous, i, due, &incoming, taken);
	}
	return status;
}

/*
 * Rank 0 hears everyone, unless one has failed already, then tells everyone.
 * What it has told one rank holds for all: a rank that ends in between is
 * missed in the first call.
 */
static enum oh_status agree_as_root(const struct oh__rendezvous *rendezvous,
				    enum oh_status status, int culprit)
{
	struct oh__message message;
	struct oh_error own;

	if (!status)
		status = hear_all(rendezvous, OH__MESSAGE_VERDICT, NULL,
				  &culprit);
	own = *oh_last_error();
	if (status && culprit == 0)
		name_rank(0, status);
	oh__meeting_fill_verdict(&message.body.verdict, status,
				 status ? culprit : -1);
	for (int i = 1; i < rendezvous->ranks; i++)
		oh__message_send(rendezvous->sockets[i], &message,
				 OH__MESSAGE_VERDICT, NULL, 0);
	/* whom it could not tell is not why it failed */
	oh__error_restore(&own);
	return status;
}

static enum oh_status agree_as_member(const struct oh__rendezvous *rendezvous,
				      enum oh_status status)
{
	struct oh_error own = *oh_last_error();
	struct oh__incoming incoming;
	enum oh_status told;
	int culprit;

	told = oh__meeting_send_verdict(rendezvous->sockets[0], status,
					rendezvous->rank);
	if (told && told != OH_ERR_PEER_LOST)
		return told;
	told = receive_word(rendezvous, 0, agree_deadline_ns(rendezvous),
			    &incoming);
	if (told)
		return told;
	told = take_word(rendezvous, 0, OH__MESSAGE_VERDICT, &incoming, NULL);
	culprit = incoming.message.body.verdict.culprit;
	/* This rank's own failure may not be the first: rank 0 says which. That
	 * all is well it cannot say then. */
	if (!status ||
	    (told && (told != status || culprit != rendezvous->rank)))
		return told;
	oh__error_restore(&own);
	return status;
}

enum oh_status oh__rendezvous_agree(struct oh__rendezvous *rendezvous,
				    enum oh_status status)
{
	if (rendezvous->ranks == 1)
		return status;
	return rendezvous->rank ? agree_as_member(rendezvous, status)
				: agree_as_root(rendezvous, status, 0);
}

/* The descriptors of the ranks whose row is not NULL. */
static enum oh_status send_share(int socket,
				 const int *const rows[OH_MAX_RANKS])
{
	struct oh__message message;
	uint32_t *masks = message.body.share.masks;
	int fds[OH__MESSAGE_FDS];
	int count = 0;

	memset(masks, 0, sizeof(message.body.share.masks));
	for (int i = 0; i < OH_MAX_RANKS; i++)
		for (int k = 0; k < OH__SHARE_FDS && rows[i]; k++)
			if (rows[i][k] >= 0) {
				masks[i] |= 1u << k;
				fds[count++] = rows[i][k];
			}
	return oh__message_send(socket, &message, OH__MESSAGE_SHARE, fds,
				count);
}

/* Rank 0 tells everyone. A rank that has ended is found out when it is to say
 * whether it has them. */
static enum oh_status hand_out(const struct oh__rendezvous *rendezvous,
			       const int *fds, int (*taken)[OH__SHARE_FDS])
{
	enum oh_status status = OH_OK;

	for (int to = 1; to < rendezvous->ranks; to++) {
		const int *rows[OH_MAX_RANKS] = {fds};

		for (int i = 1; i < rendezvous->ranks; i++)
			rows[i] = i == to ? NULL : taken[i];
		status = send_share(rendezvous->sockets[to], rows);
		if (status && status != OH_ERR_PEER_LOST)
			return status;
	}
	return OH_OK;
}

static enum oh_status share_as_root(const struct oh__rendezvous *rendezvous,
				    const int *fds, int (*taken)[OH__SHARE_FDS])
{
	int culprit = 0;
	enum oh_status status =
		hear_all(rendezvous, OH__MESSAGE_SHARE, taken, &culprit);

	if (!status) {
		culprit = 0;
		status = hand_out(rendezvous, fds, taken);
	}
	return agree_as_root(rendezvous, status, culprit);
}

static enum oh_status share_as_member(const struct oh__rendezvous *rendezvous,
				      const int *fds,
				      int (*taken)[OH__SHARE_FDS])
{
	const int *rows[OH_MAX_RANKS] = {NULL};
	struct oh__incoming incoming;
	enum oh_status status;

	rows[rendezvous->rank] = fds;
	status = send_share(rendezvous->sockets[0], rows);
	/* rank 0 may have told why before it ended */
	if (!status || status == OH_ERR_PEER_LOST)
		status = receive_word(rendezvous, 0,
				      agree_deadline_ns(rendezvous), &incoming);
	if (!status) {
		status = take_word(rendezvous, 0, OH__MESSAGE_SHARE, &incoming,
				   taken);
		/* all were told that failure, or rank 0 sends nonsense and
		 * cannot be asked for a verdict */
		if (status)
			return status;
	} else if (status != OH_ERR_SYSTEM) {
		return status;
	}
	/* this rank may lack room for them, or could not send its own */
	return agree_as_member(rendezvous, status);
}

enum oh_status oh__rendezvous_share(struct oh__rendezvous *rendezvous,
				    enum oh_status status,
				    const int fds[OH__SHARE_FDS],
				    int taken[OH_MAX_RANKS][OH__SHARE_FDS])
{
	for (int i = 0; i < OH_MAX_RANKS; i++)
		for (int k = 0; k < OH__SHARE_FDS; k++)
			taken[i][k] = -1;
	/* who has failed has nothing to hand round */
	if (status || rendezvous->ranks == 1)
		return oh__rendezvous_agree(rendezvous, status);
	status = rendezvous->rank ? share_as_member(rendezvous, fds, taken)
				  : share_as_root(rendezvous, fds, taken);
	for (int i = 0; i < OH_MAX_RANKS && status; i++)
		for (int k = 0; k < OH__SHARE_FDS; k++)
			oh__fd_close(&taken[i][k]);
	return status;
}

void oh__rendezvous_close(struct oh__rendezvous *rendezvous)
{
	for (int i = 0; i < OH_MAX_RANKS; i++) {
		oh__fd_close(&rendezvous->sockets[i]);
		for (int k = 0; k < OH__RANK_FDS; k++)
			oh__fd_close(&rendezvous->fds[i][k]);
	}
}
