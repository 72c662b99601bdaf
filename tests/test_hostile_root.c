/* SPDX-License-Identifier: MIT */
/*
 * A false rank 0, as a rank sees it: garbage, wrong messages and descriptors,
 * silence, a place that somebody else holds. The rank gets a clear error by
 * its deadline, never crashes, hangs or leaks.
 */
#include "forge.h"
#include "leftovers.h"
#include "ranks.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NOBODY 65534
/* Of a rank that is left alone with a false rank 0. */
#define SHORT_MS 500u

enum {
	LISTENING,
	ENDED
};

/* What a false rank 0 works with. */
struct impostor {
	struct ranks_self *self;
	struct oh__meeting_place place;
	int listener;
	int socket; /* to the rank */
	struct oh__incoming hello; /* of the rank */
	struct oh__incoming own; /* as if rank 0 had said hello */
};

static void accept_rank(struct impostor *it)
{
	struct pollfd one = {.events = POLLIN};

	it->socket = accept4(it->listener, NULL, NULL, SOCK_CLOEXEC);
	one.fd = it->socket;
	if (poll(&one, 1, 20000) != 1 ||
	    oh__message_receive(it->socket, "the rank", &it->hello))
		abort();
}

/* The message is sealed for type, then damaged by the caller. */
static void make(struct impostor *it, enum oh__message_type type,
		 struct oh__message *message)
{
	static const uint32_t bytes[] = {
		[OH__MESSAGE_HELLO] = sizeof(struct oh__hello),
		[OH__MESSAGE_WELCOME] = sizeof(struct oh__welcome),
		[OH__MESSAGE_VERDICT] = sizeof(struct oh__verdict),
	};
	struct oh__welcome *welcome = &message->body.welcome;

	memset(message, 0, sizeof(*message));
	message->header = it->hello.message.header;
	message->header.type = (uint16_t)type;
	message->header.bytes = bytes[type];
	if (type == OH__MESSAGE_WELCOME) {
		memcpy(welcome->facts[0], it->own.message.body.hello.facts,
		       OH__FACTS_BYTES);
		memcpy(welcome->facts[1], it->hello.message.body.hello.facts,
		       OH__FACTS_BYTES);
	}
	forge_check(message);
}

static void send_made(struct impostor *it, enum oh__message_type type,
		      int fd_count)
{
	struct oh__message message;
	int fds[OH__MESSAGE_FDS];

	make(it, type, &message);
	for (int i = 0; i < OH__MESSAGE_FDS; i++)
		fds[i] = it->own.fds[i % OH__RANK_FDS];
	forge_send_message(it->socket, &message, fds, fd_count);
}

static void send_verdict(struct impostor *it, unsigned status, int filler)
{
	struct oh__message message;

	make(it, OH__MESSAGE_VERDICT, &message);
	message.body.verdict.status = status;
	message.body.verdict.culprit = INT32_MIN;
	if (filler)
		memset(message.body.verdict.text, filler,
		       sizeof(message.body.verdict.text));
	forge_check(&message);
	forge_send_message(it->socket, &message, NULL, 0);
}

/* As rank 0 does with the verdict of a rank that could not go on. */
static void echo(struct impostor *it)
{
	struct oh__message message;

	make(it, OH__MESSAGE_VERDICT, &message);
	if (!forge_answer(it->socket, &message.body.verdict))
		return;
	forge_check(&message);
	forge_send_message(it->socket, &message, NULL, 0);
}

/* What it does after it has heard the rank's hello. */

static void hang_up(struct impostor *it)
{
}

static void garbage(struct impostor *it)
{
	forge_send(it->socket, "no message at all, but long enough for one", 43,
		   NULL, 0);
}

static void protocol(struct impostor *it)
{
	struct oh__message message;

	make(it, OH__MESSAGE_WELCOME, &message);
	message.header.protocol++;
	forge_send_message(it->socket, &message, it->own.fds, OH__RANK_FDS);
}

static void checksum(struct impostor *it)
{
	struct oh__message message;

	make(it, OH__MESSAGE_WELCOME, &message);
	message.body.welcome.facts[0][0]++;
	forge_send_message(it->socket, &message, it->own.fds, OH__RANK_FDS);
}

static void no_fds(struct impostor *it)
{
	send_made(it, OH__MESSAGE_WELCOME, 0);
}

static void few_fds(struct impostor *it)
{
	send_made(it, OH__MESSAGE_WELCOME, OH__RANK_FDS - 1);
}

static void many_fds(struct impostor *it)
{
	send_made(it, OH__MESSAGE_WELCOME, OH__MESSAGE_FDS);
}

static void send_pipes(struct impostor *it)
{
	int ends[2], fds[OH__RANK_FDS];
	struct oh__message message;

	if (pipe(ends))
		abort();
	for (int i = 0; i < OH__RANK_FDS; i++)
		fds[i] = ends[i & 1];
	make(it, OH__MESSAGE_WELCOME, &message);
	forge_send_message(it->socket, &message, fds, OH__RANK_FDS);
	close(ends[0]);
	close(ends[1]);
}

static void pipes(struct impostor *it)
{
	send_pipes(it);
	echo(it);
}

/* The rank, which cannot go on with them, must not believe it. */
static void pipes_are_fine(struct impostor *it)
{
	send_pipes(it);
	send_verdict(it, OH_OK, 0);
}

static void facts(struct impostor *it)
{
	struct oh__message message;

	make(it, OH__MESSAGE_WELCOME, &message);
	memset(message.body.welcome.facts, 0xff,
	       sizeof(message.body.welcome.facts));
	forge_check(&message);
	forge_send_message(it->socket, &message, it->own.fds, OH__RANK_FDS);
	echo(it);
}

static void hello(struct impostor *it)
{
	send_made(it, OH__MESSAGE_HELLO, OH__RANK_FDS);
}

static void fine_for_welcome(struct impostor *it)
{
	send_verdict(it, OH_OK, 0);
}

static void unknown_status(struct impostor *it)
{
	send_verdict(it, 4242, '\a');
}

static void huge_status(struct impostor *it)
{
	send_verdict(it, UINT32_MAX, '%');
}

static void refusal(struct impostor *it)
{
	send_verdict(it, OH_ERR_UNSUPPORTED, 0);
}

static void welcome(struct impostor *it)
{
	send_made(it, OH__MESSAGE_WELCOME, OH__RANK_FDS);
}

static void welcome_garbage(struct impostor *it)
{
	send_made(it, OH__MESSAGE_WELCOME, OH__RANK_FDS);
	garbage(it);
}

static void welcome_twice(struct impostor *it)
{
	send_made(it, OH__MESSAGE_WELCOME, OH__RANK_FDS);
	send_made(it, OH__MESSAGE_WELCOME, OH__RANK_FDS);
}

static void await_end(struct impostor *it)
{
	ranks_await(&it->self->words[ENDED], 1);
}

static void welcome_only(struct impostor *it)
{
	send_made(it, OH__MESSAGE_WELCOME, OH__RANK_FDS);
	send_verdict(it, OH_OK, 0);
	/* and is never heard of again, though its process lives */
	await_end(it);
}

static const struct {
	const char *text;
	void (*act)(struct impostor *it);
	enum oh_status status;
	const char *part; /* of the message */
} deeds[] = {
	{"hangs up", hang_up, OH_ERR_PEER_LOST, "rank 0 closed"},
	{"sends garbage", garbage, OH_ERR_PROTOCOL, "rank 0 sent 43 bytes"},
	{"speaks another protocol", protocol, OH_ERR_MISMATCH, "protocol"},
	{"sends a wrong checksum", checksum, OH_ERR_PROTOCOL, "checksum"},
	{"sends no descriptors", no_fds, OH_ERR_PROTOCOL, "0 descriptors"},
	{"sends too few descriptors", few_fds, OH_ERR_PROTOCOL,
	 "2 descriptors"},
	{"sends 64 descriptors", many_fds, OH_ERR_PROTOCOL, "64 descriptors"},
	{"sends pipes for segments", pipes, OH_ERR_PROTOCOL,
	 "rank 0 sent a descriptor"},
	{"sends pipes and says that all is fine", pipes_are_fine,
	 OH_ERR_PROTOCOL, "rank 0 sent a descriptor"},
	{"sends facts of ones", facts, OH_ERR_MISMATCH, "rank 0 has mailbox"},
	{"says hello itself", hello, OH_ERR_PROTOCOL, "type 1"},
	{"says that all is fine", fine_for_welcome, OH_ERR_PROTOCOL, "type 3"},
	{"sends an unknown status and bells", unknown_status, OH_ERR_PROTOCOL,
	 "unknown status 4242: ????"},
	{"sends the status 2^32-1", huge_status, OH_ERR_PROTOCOL,
	 "unknown status 4294967295"},
	{"refuses", refusal, OH_ERR_UNSUPPORTED, ""},
	{"welcomes and hangs up", welcome, OH_ERR_PEER_LOST, "rank 0"},
	{"welcomes and sends garbage", welcome_garbage, OH_ERR_PROTOCOL,
	 "rank 0 sent 43 bytes"},
	{"welcomes twice", welcome_twice, OH_ERR_PROTOCOL, "type 2"},
	/* its segment is one whose rank gave up */
	{"welcomes and does nothing more", welcome_only, OH_ERR_PEER_LOST,
	 "rank 0"},
	{"never answers", await_end, OH_ERR_TIMEOUT, "did not answer"},
};

#define DEEDS ((int)(sizeof(deeds) / sizeof(deeds[0])))

static void check_leftovers(struct ranks_self *self,
			    const struct leftovers *before)
{
	struct leftovers after = leftovers_now();
	char text[256];

	ranks_check(self, leftovers_none(before, &after), "left behind: %s",
		    leftovers_text(before, &after, text));
}

static void fails(struct ranks_self *self, int rank, enum oh_status expected,
		  const char *part)
{
	struct oh_comm_options options = {
		.size = sizeof(options),
		.id = &self->ids[0],
		.rank = rank,
		.ranks = 2,
		.rendezvous_timeout_ms = SHORT_MS,
		.call_timeout_ms = SHORT_MS,
	};
	struct leftovers before;
	struct oh_comm *comm = NULL;
	int32_t data = 1;
	enum oh_status status;

	leftovers_first_thread();
	before = leftovers_now();
	ranks_await(&self->words[LISTENING], 1);
	status = oh_comm_create(&options, &comm);
	/* where nothing is measured nobody has called yet */
	if (!status)
		status = oh_all_reduce(comm, &data, &data, 1, OH_I32, OH_SUM,
				       NULL);
	ranks_check(self, status == expected, "%s, expected %s: %s",
		    oh_status_name(status), oh_status_name(expected),
		    oh_last_error()->message);
	ranks_check(self, strstr(oh_last_error()->message, part),
		    "'%s' is not in: %s", part, oh_last_error()->message);
	oh_comm_destroy(comm);
	check_leftovers(self, &before);
	atomic_store(&self->words[ENDED], 1);
}

static void false_root(struct ranks_self *self)
{
	int deed = atoi(self->argument);
	struct impostor it = {.self = self,
			      .place = forge_place(&self->ids[0])};
	enum oh_status status = deeds[deed].status;
	struct oh__verdict last;

	/* a life that is a pipe ends with its communicator */
	if (deeds[deed].act == welcome_only &&
	    syscall(SYS_pidfd_open, getpid(), 0) < 0)
		status = OH_ERR_PEER_LOST;
	if (self->rank) {
		fails(self, 1, status, deeds[deed].part);
		return;
	}
	forge_hello(&it.place, 1, 2, &it.own);
	it.listener = forge_listen(&it.place);
	atomic_store(&self->words[LISTENING], 1);
	accept_rank(&it);
	deeds[deed].act(&it);
	/* lets the rank read what was sent before the end */
	shutdown(it.socket, SHUT_WR);
	while (forge_answer(it.socket, &last))
		;
	close(it.socket);
	close(it.listener);
	oh__incoming_close(&it.hello);
	oh__incoming_close(&it.own);
}

/* The place of rank 0 is held by somebody else: argument "RANK USER". */
static void place_taken(struct ranks_self *self)
{
	struct impostor it = {.self = self,
			      .place = forge_place(&self->ids[0])};
	int rank, user;

	if (sscanf(self->argument, "%d %d", &rank, &user) != 2)
		abort();
	if (self->rank) {
		fails(self, rank, OH_ERR_PROTOCOL,
		      user ? "belongs to uid 65534"
			   : "another process is rank 0");
		return;
	}
	forge_hello(&it.place, 1, 2, &it.own);
	if (user && setresuid(NOBODY, NOBODY, NOBODY))
		abort();
	it.listener = forge_listen(&it.place);
	atomic_store(&self->words[LISTENING], 1);
	if (!user) {
		accept_rank(&it);
		send_made(&it, OH__MESSAGE_WELCOME, OH__RANK_FDS);
	}
	await_end(&it);
}

/* Nobody accepts, and the queue is full: connect must not wait for ever. */
static void full_queue(struct ranks_self *self)
{
	struct oh__meeting_place place = forge_place(&self->ids[0]);
	struct sockaddr_un address;
	socklen_t length = oh__meeting_address(&place, &address);
	int listener;

	if (self->rank) {
		fails(self, 1, OH_ERR_TIMEOUT, "did not open");
		return;
	}
	listener = forge_socket();
	if (bind(listener, (struct sockaddr *)&address, length) ||
	    listen(listener, 0))
		abort();
	for (int full = 0; !full;) {
		int fd = forge_socket();

		fcntl(fd, F_SETFL, O_NONBLOCK);
		full = connect(fd, (struct sockaddr *)&address, length) < 0;
	}
	atomic_store(&self->words[LISTENING], 1);
	ranks_await(&self->words[ENDED], 1);
}

enum {
	FALSE_ROOT,
	PLACE_TAKEN,
	FULL_QUEUE
};

static const struct ranks_case cases[] = {
	[FALSE_ROOT] = {"false-root", false_root},
	[PLACE_TAKEN] = {"place-taken", place_taken},
	[FULL_QUEUE] = {"full-queue", full_queue},
	{0}};

static void try(int which, const char *argument, const char *text)
{
	ranks_processes(&cases[which],
			&(struct ranks_options){.ranks = 2,
						.argument = argument,
						.text = text});
}

int main(int argc, char **argv)
{
	setenv("ONEHOP_LOG", "off", 1);
	setenv("ONEHOP_HEAP_BYTES", "1M", 1);
	ranks_main(argc, argv, cases);
	for (int i = 0; i < DEEDS; i++) {
		char argument[16], text[128];

		snprintf(argument, sizeof(argument), "%d", i);
		snprintf(text, sizeof(text), "a false rank 0 %s",
			 deeds[i].text);
		try(FALSE_ROOT, argument, text);
	}
	try(PLACE_TAKEN, "0 0", "rank 0 finds a false one in its place");
	if (geteuid()) {
		tap_skip("another user in the place of rank 0",
			 "this is not root");
	} else {
		try(PLACE_TAKEN, "0 1", "rank 0 finds another user there");
		try(PLACE_TAKEN, "1 1", "rank 1 finds another user there");
	}
	try(FULL_QUEUE, NULL, "rank 0 accepts nobody and its queue is full");
	return tap_done();
}
