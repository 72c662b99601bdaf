/* SPDX-License-Identifier: MIT */
/*
 * Processes that come to a rendezvous without being invited. One that does not
 * hold the id is refused, with an answer, and the ranks meet as if it were not
 * there; so is any process of another user. One that holds the id and sends
 * something wrong makes all ranks fail in the same way. Nobody crashes, hangs
 * or leaks.
 */
#include "forge.h"
#include "leftovers.h"
#include "mailbox/segment.h"
#include "ranks.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define NOBODY 65534

enum {
	STRANGER_READY,
	MET
};

static enum oh_status create(struct ranks_self *self, int ranks,
			     struct oh_comm **comm)
{
	struct oh_comm_options options = {
		.size = sizeof(options),
		.id = &self->ids[0],
		.rank = self->rank,
		.ranks = ranks,
		.rendezvous_timeout_ms = 40000,
		.call_timeout_ms = 40000,
	};

	return oh_comm_create(&options, comm);
}

static enum oh_status sum_one(struct ranks_self *self, struct oh_comm *comm)
{
	int32_t in = 1, out = 0;
	enum oh_status status =
		oh_all_reduce(comm, &in, &out, 1, OH_I32, OH_SUM, NULL);

	ranks_check(self, status || out == oh_comm_ranks(comm), "the sum is %d",
		    out);
	return status;
}

static void check_leftovers(struct ranks_self *self,
			    const struct leftovers *before)
{
	struct leftovers after = leftovers_now();
	char text[256];

	ranks_check(self, leftovers_none(before, &after), "left behind: %s",
		    leftovers_text(before, &after, text));
}

static void check_answer(struct ranks_self *self, int fd,
			 enum oh_status expected, const char *part)
{
	struct oh__verdict verdict;
	bool answered = forge_answer(fd, &verdict);

	if (!ranks_check(self, answered, "no answer"))
		return;
	ranks_check(self,
		    verdict.status == (uint32_t)expected &&
			    strstr(verdict.text, part),
		    "answer %u, '%s' expected: %.400s", verdict.status, part,
		    verdict.text);
}

/* Strangers: the last rank of the run, who does not hold the id. */

struct stranger {
	struct ranks_self *self;
	struct oh__meeting_place place; /* with another secret */
	struct oh__incoming hello; /* with that secret */
	struct ranks_random random;
};

/* Sends what is not a message; the answer says so. */
static void send_wrong(struct stranger *s, const void *bytes, size_t count)
{
	int fd = forge_connect(&s->place);

	forge_send(fd, bytes, count, NULL, 0);
	check_answer(s->self, fd, OH_ERR_PROTOCOL, "refused");
	close(fd);
}

/* A hello with its checksum, and descriptors. */
static void send_hello(struct stranger *s, const int *fds, int fd_count)
{
	int fd = forge_connect(&s->place);

	forge_send_message(fd, &s->hello.message, fds, fd_count);
	check_answer(s->self, fd, OH_ERR_PROTOCOL, "refused");
	close(fd);
}

static void silent(struct stranger *s)
{
	/* until this process ends */
	(void)!forge_connect(&s->place);
}

static void closing(struct stranger *s)
{
	for (int i = 0; i < 50; i++)
		close(forge_connect(&s->place));
	/* an empty record looks like the end, and is */
	for (int i = 0; i < 10; i++) {
		int fd = forge_connect(&s->place);

		forge_send(fd, "", 0, NULL, 0);
		close(fd);
	}
}

static void random_bytes(struct stranger *s)
{
	uint64_t bytes[600];

	for (int i = 0; i < 20; i++) {
		size_t count = 1 + ranks_below(&s->random, sizeof(bytes) - 1);

		for (size_t k = 0; k < sizeof(bytes) / 8; k++)
			bytes[k] = ranks_random(&s->random);
		send_wrong(s, bytes, count);
	}
}

static void parts(struct stranger *s)
{
	const struct oh__message *message = &s->hello.message;
	size_t whole = FORGE_HEADER_BYTES + message->header.bytes;
	static char huge[100000];

	send_wrong(s, message, 1);
	send_wrong(s, message, FORGE_HEADER_BYTES - 1);
	send_wrong(s, message, FORGE_HEADER_BYTES);
	send_wrong(s, message, FORGE_HEADER_BYTES + 40);
	send_wrong(s, message, whole - 1);
	memcpy(huge, message, whole);
	send_wrong(s, huge, whole + 1);
	send_wrong(s, huge, sizeof(struct oh__message) + 1);
	send_wrong(s, huge, sizeof(huge));
}

static void wrong_fields(struct stranger *s)
{
	const struct oh__message good = s->hello.message;
	struct oh__message *m = &s->hello.message;

	m->header.magic ^= 1;
	send_wrong(s, m, sizeof(*m));
	*m = good;
	m->header.bytes = UINT32_MAX;
	send_wrong(s, m, FORGE_HEADER_BYTES + good.header.bytes);
	*m = good;
	m->header.check ^= 1;
	send_hello(s, s->hello.fds, OH__RANK_FDS);
	*m = good;
	m->body.hello.rank = 77;
	forge_check(m);
	send_hello(s, s->hello.fds, OH__RANK_FDS);
	*m = good;
	m->body.hello.rank = UINT32_MAX;
	m->body.hello.ranks = UINT32_MAX;
	m->body.hello.agree_count = UINT32_MAX;
	forge_check(m);
	send_hello(s, s->hello.fds, OH__RANK_FDS);
	*m = good;
	/* who does not hold the id cannot tell versions apart either */
	m->header.protocol++;
	send_hello(s, s->hello.fds, OH__RANK_FDS);
	for (int type = 0; type < 7; type++) {
		*m = good;
		m->header.type = (uint16_t)type;
		send_hello(s, NULL, 0);
	}
	*m = good;
}

static void wrong_secret(struct stranger *s)
{
	int ends[2], fds[FORGE_FDS];

	send_hello(s, s->hello.fds, OH__RANK_FDS);
	send_hello(s, NULL, 0);
	if (pipe(ends))
		abort();
	for (int i = 0; i < FORGE_FDS; i++)
		fds[i] = ends[i & 1];
	send_hello(s, fds, OH__MESSAGE_FDS);
	send_hello(s, fds, OH__MESSAGE_FDS + 1);
	send_hello(s, fds, FORGE_FDS);
	close(ends[0]);
	close(ends[1]);
}

static void crowd(struct stranger *s)
{
	for (int i = 0; i < 200; i++) {
		struct sockaddr_un address;
		socklen_t length = oh__meeting_address(&s->place, &address);
		int fd = forge_socket();

		/* held until this process ends; a full queue is skipped */
		fcntl(fd, F_SETFL, O_NONBLOCK);
		if (connect(fd, (struct sockaddr *)&address, length))
			usleep(1000);
	}
}

/* Comes, talks and goes for as long as the ranks need. */
static void flood(struct stranger *s)
{
	atomic_store(&s->self->words[STRANGER_READY], 1);
	while (atomic_load(&s->self->words[MET]) < 2) {
		struct sockaddr_un address;
		socklen_t length = oh__meeting_address(&s->place, &address);
		int fd = forge_socket();

		fcntl(fd, F_SETFL, O_NONBLOCK);
		if (!connect(fd, (struct sockaddr *)&address, length))
			for (int i = 0; i < 20; i++)
				forge_send_message(fd, &s->hello.message,
						   s->hello.fds, OH__RANK_FDS);
		close(fd);
	}
}

/* Another user may even hold the id. */
static void another_user(struct stranger *s)
{
	struct oh__meeting_place right = forge_place(&s->self->ids[0]);
	int fd;

	if (setresgid(NOBODY, NOBODY, NOBODY) ||
	    setresuid(NOBODY, NOBODY, NOBODY))
		abort();
	memcpy(s->hello.message.body.hello.secret, right.secret,
	       OH__SECRET_BYTES);
	forge_check(&s->hello.message);
	fd = forge_connect(&s->place);
	check_answer(s->self, fd, OH_ERR_PROTOCOL, "another user");
	close(fd);
	fd = forge_connect(&s->place);
	forge_send_message(fd, &s->hello.message, s->hello.fds, OH__RANK_FDS);
	check_answer(s->self, fd, OH_ERR_PROTOCOL, "another user");
	close(fd);
	for (int i = 0; i < 300; i++)
		close(forge_connect(&s->place));
}

static const struct {
	const char *name;
	void (*act)(struct stranger *s);
	bool as_root;
} strangers[] = {
	{"connects and says nothing", silent, false},
	{"connects and closes", closing, false},
	{"sends random bytes", random_bytes, false},
	{"sends parts of messages", parts, false},
	{"sends wrong heads", wrong_fields, false},
	{"sends a wrong secret and 253 descriptors", wrong_secret, false},
	{"opens 200 connections", crowd, false},
	{"floods the rendezvous", flood, false},
	{"is another user", another_user, true},
};

#define STRANGERS (sizeof(strangers) / sizeof(strangers[0]))

static void be_stranger(struct ranks_self *self)
{
	struct stranger s = {.self = self, .random = {self->seed}};

	s.place = forge_place(&self->ids[0]);
	memset(s.place.secret, 0x5a, sizeof(s.place.secret));
	forge_hello(&s.place, 1, 2, &s.hello);
	strangers[atoi(self->argument)].act(&s);
	atomic_store(&self->words[STRANGER_READY], 1);
	ranks_await(&self->words[MET], 2);
	oh__incoming_close(&s.hello);
}

/* Ranks 0 and 1 of 2; rank 1 comes when the stranger has done its worst. */
static void meet_anyway(struct ranks_self *self)
{
	struct leftovers before;
	struct oh_comm *comm = NULL;

	leftovers_first_thread();
	before = leftovers_now();
	if (self->rank == 2) {
		be_stranger(self);
		return;
	}
	if (self->rank == 1)
		ranks_await(&self->words[STRANGER_READY], 1);
	if (ranks_fine(self, create(self, 2, &comm), "oh_comm_create"))
		ranks_fine(self, sum_one(self, comm), "oh_all_reduce");
	atomic_fetch_add(&self->words[MET], 1);
	oh_comm_destroy(comm);
	check_leftovers(self, &before);
}

static void slow_log(enum oh_log_level level, const char *line, void *context)
{
	usleep(50000);
}

/* A TCP socket whose last close takes 60 s: it has more to send than its other
 * end takes. */
static int slow_to_close(void)
{
	struct linger linger = {1, 60};
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t length = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	static char bytes[65536];

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, (struct sockaddr *)&address, length) ||
	    listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &length) ||
	    connect(fd, (struct sockaddr *)&address, length))
		return -1;
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	return fd;
}

/* While rank 0 logs the first one's refusal, the others send it that socket
 * and wait to be let in. */
static void send_slow(struct stranger *s)
{
	int fd = slow_to_close();

	ranks_check(s->self, fd >= 0, "no connection to this host itself");
	for (int i = 0; i < 8; i++)
		forge_send(forge_connect(&s->place), "", 1, &fd, fd >= 0);
	close(fd);
	ranks_await(&s->self->words[MET], 2);
}

/*
 * Another user comes, until rank 0 has given up: that must be at its deadline.
 * One comes as often as it can, and each refusal that is logged takes 50 ms;
 * the other ("1") sends what is slow to close.
 */
static void deadline_holds(struct ranks_self *self)
{
	struct oh_comm_options options = {
		.size = sizeof(options),
		.id = &self->ids[0],
		.ranks = 2,
		.rendezvous_timeout_ms = 1000,
	};
	struct stranger s = {.self = self, .place = forge_place(&self->ids[0])};
	struct oh_comm *comm = NULL;
	enum oh_status status;
	time_t start;

	if (self->rank) {
		forge_hello(&s.place, 1, 2, &s.hello);
		if (setresuid(NOBODY, NOBODY, NOBODY))
			abort();
		if (atoi(self->argument))
			send_slow(&s);
		else
			flood(&s);
		oh__incoming_close(&s.hello);
		return;
	}
	oh_set_log(OH_LOG_WARN, slow_log, NULL);
	start = time(NULL);
	status = oh_comm_create(&options, &comm);
	/* and 2 s to tell latecomers, the rest for a busy machine */
	ranks_check(self,
		    status == OH_ERR_TIMEOUT && time(NULL) - start <= 1 + 2 + 7,
		    "%s after %d s", oh_status_name(status),
		    (int)(time(NULL) - start));
	atomic_store(&self->words[MET], 2);
}

/* Traitors: rank 2 of 3, who holds the id. */

static int memfd_of(off_t bytes, int seals)
{
	int fd = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, bytes) ||
	    (seals && fcntl(fd, F_ADD_SEALS, seals)))
		abort();
	return fd;
}

static off_t bytes_of(int fd)
{
	return lseek(fd, 0, SEEK_END);
}

static int read_only(int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDONLY | O_CLOEXEC);
}

enum treason {
	TOO_MANY,
	TOO_FEW,
	NO_FDS,
	PIPE,
	REGULAR_FILE,
	UNSEALED,
	SMALLER,
	LARGER,
	READ_ONLY,
	SEALED_FOR_WRITES,
	WRONG_SIZE,
	WRONG_CHECKSUM,
	DEAD_LIFE,
	TREASONS
};

static const char *const treasons[TREASONS] = {
	"one descriptor too many",
	"one descriptor too few",
	"no descriptors",
	"a pipe for a segment",
	"a file for a segment",
	"an unsealed segment",
	"a segment of one page",
	"a larger heap",
	"a read-only heap",
	"a heap that cannot be written",
	"a wrong length",
	"a wrong checksum",
	"the life of a dead process",
};

/* Changes the descriptors of a genuine hello; how many there are. */
static int change(struct oh__incoming *hello, int kind)
{
	int *fds = hello->fds, ends[2];

	switch (kind) {
	case TOO_MANY:
		fds[OH__RANK_FDS] = dup(fds[0]);
		hello->fd_count++;
		break;
	case TOO_FEW:
	case NO_FDS:
		return kind == NO_FDS ? 0 : OH__RANK_FDS - 1;
	case PIPE:
	case DEAD_LIFE:
		if (pipe(ends))
			abort();
		close(ends[1]);
		dup2(ends[0], fds[kind == PIPE ? 0 : 2]);
		close(ends[0]);
		break;
	case REGULAR_FILE:
		dup2(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), fds[0]);
		break;
	case UNSEALED:
		dup2(memfd_of(bytes_of(fds[0]), 0), fds[0]);
		break;
	case SMALLER:
		dup2(memfd_of(4096, F_SEAL_SHRINK | F_SEAL_GROW), fds[0]);
		break;
	case LARGER:
		dup2(memfd_of(bytes_of(fds[1]) * 2,
			      F_SEAL_SHRINK | F_SEAL_GROW),
		     fds[1]);
		break;
	case READ_ONLY:
		dup2(read_only(fds[1]), fds[1]);
		break;
	case SEALED_FOR_WRITES:
		dup2(memfd_of(bytes_of(fds[1]), F_SEAL_SHRINK | F_SEAL_GROW |
							F_SEAL_FUTURE_WRITE),
		     fds[1]);
		break;
	case WRONG_SIZE:
		hello->message.header.bytes--;
		break;
	case WRONG_CHECKSUM:
		hello->message.header.check++;
		break;
	}
	return hello->fd_count;
}

/* Answers as a rank would, until the end; the last verdict. */
static enum oh_status play_on(int fd)
{
	struct pollfd one = {.fd = fd, .events = POLLIN};
	enum oh_status last = OH_ERR_PEER_LOST;

	while (poll(&one, 1, 20000) == 1) {
		struct oh__incoming incoming;
		struct oh__verdict *verdict = &incoming.message.body.verdict;

		if (oh__message_receive(fd, "rank 0", &incoming))
			break;
		oh__incoming_close(&incoming);
		if (incoming.message.header.type == OH__MESSAGE_VERDICT) {
			last = (enum oh_status)verdict->status;
			break;
		}
		memset(verdict, 0, sizeof(*verdict));
		oh__message_send(fd, &incoming.message, OH__MESSAGE_VERDICT,
				 NULL, 0);
	}
	return last;
}

static void be_traitor(struct ranks_self *self, int kind,
		       enum oh_status expected)
{
	struct oh__meeting_place place = forge_place(&self->ids[0]);
	struct oh__incoming hello;
	enum oh_status status;
	int count, fd;

	forge_hello(&place, 2, 3, &hello);
	count = change(&hello, kind);
	fd = forge_connect(&place);
	forge_send_message(fd, &hello.message, hello.fds, count);
	status = play_on(fd);
	ranks_check(self, status == expected, "the answer was %s",
		    oh_status_name(status));
	close(fd);
	oh__incoming_close(&hello);
}

static void all_fail(struct ranks_self *self)
{
	int kind = atoi(self->argument);
	struct leftovers before = leftovers_now();
	enum oh_status status, expected = OH_ERR_PROTOCOL;
	struct oh_comm *comm = NULL;

	/* nobody looks at that before a rank is missed */
	if (kind == DEAD_LIFE)
		expected = OH_ERR_PEER_LOST;
	if (self->rank == 2) {
		be_traitor(self, kind, kind == DEAD_LIFE ? OH_OK : expected);
		return;
	}
	status = create(self, 3, &comm);
	if (!status)
		status = sum_one(self, comm);
	ranks_check(self, status == expected, "%s: %s", oh_status_name(status),
		    oh_last_error()->message);
	oh_comm_destroy(comm);
	check_leftovers(self, &before);
}

enum {
	MEET_ANYWAY,
	DEADLINE,
	ALL_FAIL
};

static const struct ranks_case cases[] = {
	[MEET_ANYWAY] = {"meet-anyway", meet_anyway},
	[DEADLINE] = {"deadline-holds", deadline_holds},
	[ALL_FAIL] = {"all-fail", all_fail},
	{0}};

static void try(int which, int number, const char *who, const char *what)
{
	char argument[16], text[128];

	snprintf(argument, sizeof(argument), "%d", number);
	snprintf(text, sizeof(text), "%s %s", who, what);
	ranks_processes(&cases[which],
			&(struct ranks_options){.ranks = 3,
						.argument = argument,
						.text = text});
}

int main(int argc, char **argv)
{
	setenv("ONEHOP_LOG", "off", 1);
	setenv("ONEHOP_HEAP_BYTES", "1M", 1);
	ranks_main(argc, argv, cases);
	for (size_t i = 0; i < STRANGERS; i++)
		if (strangers[i].as_root && geteuid())
			tap_skip(strangers[i].name, "this is not root");
		else
			try(MEET_ANYWAY, (int)i, "a stranger",
			    strangers[i].name);
	for (int i = 0; i < 2; i++)
		if (geteuid())
			tap_skip("deadline-holds", "this is not root");
		else
			try(DEADLINE, i, "another user",
			    i ? "sends what is slow to close"
			      : "floods rank 0 until its deadline");
	for (int i = 0; i < TREASONS; i++)
		try(ALL_FAIL, i, "a rank sends", treasons[i]);
	return tap_done();
}
