/* SPDX-License-Identifier: MIT */
/*
 * A rank that has met the others and then hands round what it should not:
 * descriptors that nobody announced, masks of others, other messages, halves,
 * nothing. As rank 0, and as another. The others get the same clear error by
 * their deadline, and no descriptor of theirs or of its stays open.
 */
#include "share.h"

#include <stdlib.h>

#include "base/error.h"

#define LONG_MS 40000u
/* The least that a rank waits in a share (OH__AGREE_MS). */
#define SHORT_MS 5000u
#define RANKS 3

enum {
	ENDED
};

/* What a traitor works with. */
struct traitor {
	struct ranks_self *self;
	struct oh__rendezvous rendezvous;
	int socket; /* to the rank that it lies to now */
	int peer; /* that rank */
	int fds[FORGE_FDS];
	struct oh__message share; /* a genuine one, of two descriptors */
};

/* Gives a message its head. */
static void seal(struct oh__message *message, enum oh__message_type type)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) ||
	    oh__message_send(ends[0], message, type, NULL, 0))
		abort();
	close(ends[0]);
	close(ends[1]);
}

/* A member announces two of its own, rank 0 one of each rank but the peer. */
static void make_share(struct traitor *it)
{
	uint32_t *masks = it->share.body.share.masks;

	memset(&it->share, 0, sizeof(it->share));
	if (it->self->rank)
		masks[it->self->rank] = 3;
	for (int i = 0; i < RANKS && !it->self->rank; i++)
		masks[i] = i != it->peer;
	seal(&it->share, OH__MESSAGE_SHARE);
}

static void send_changed(struct traitor *it, int fd_count)
{
	forge_check(&it->share);
	forge_send_message(it->socket, &it->share, it->fds, fd_count);
}

static void send_as(struct traitor *it, enum oh__message_type type,
		    int fd_count)
{
	struct oh__message message;

	memset(&message, 0, sizeof(message));
	seal(&message, type);
	forge_send_message(it->socket, &message, it->fds, fd_count);
}

static void send_verdict(struct traitor *it, unsigned status, int culprit,
			 int fd_count)
{
	struct oh__message message;

	memset(&message, 0, sizeof(message));
	message.body.verdict.status = status;
	message.body.verdict.culprit = culprit;
	strcpy(message.body.verdict.text, "what it\asays");
	seal(&message, OH__MESSAGE_VERDICT);
	forge_send_message(it->socket, &message, it->fds, fd_count);
}

/* Deeds in place of a share. */

static void one_too_few(struct traitor *it)
{
	send_changed(it, 1);
}

static void one_too_many(struct traitor *it)
{
	send_changed(it, 3);
}

static void none(struct traitor *it)
{
	send_changed(it, 0);
}

static void no_mask(struct traitor *it)
{
	memset(&it->share.body, 0, sizeof(it->share.body));
	send_changed(it, 2);
}

/* All of a rank may come, and the next bit may not. */
static void unknown_bit(struct traitor *it)
{
	it->share.body.share.masks[it->self->rank] = SHARE_ALL + 1;
	send_changed(it, 1 + !it->self->rank);
}

static void last_bit(struct traitor *it)
{
	it->share.body.share.masks[it->self->rank] |= 1u << 31;
	send_changed(it, 3);
}

static void all_bits(struct traitor *it)
{
	memset(&it->share.body, 0xff, sizeof(it->share.body));
	send_changed(it, OH__MESSAGE_FDS);
}

/* A member speaks for another, rank 0 hands a member its own. */
static void of_another(struct traitor *it)
{
	it->share.body.share
		.masks[it->self->rank ? RANKS - it->self->rank : it->peer] = 1;
	send_changed(it, 3);
}

static void of_nobody(struct traitor *it)
{
	it->share.body.share.masks[RANKS] = 1;
	send_changed(it, 3);
}

static void of_the_last(struct traitor *it)
{
	it->share.body.share.masks[OH_MAX_RANKS - 1] = 1;
	send_changed(it, 3);
}

static void full_record(struct traitor *it)
{
	send_changed(it, OH__MESSAGE_FDS);
}

static void beyond_record(struct traitor *it)
{
	send_changed(it, OH__MESSAGE_FDS + 1);
}

static void most_of_all(struct traitor *it)
{
	send_changed(it, FORGE_FDS);
}

static void checksum(struct traitor *it)
{
	it->share.header.check ^= 1;
	forge_send_message(it->socket, &it->share, it->fds, 2);
}

static void protocol(struct traitor *it)
{
	it->share.header.protocol--;
	send_changed(it, 2);
}

static void half(struct traitor *it)
{
	forge_send(it->socket, &it->share, FORGE_HEADER_BYTES + 8, it->fds, 2);
}

static void more(struct traitor *it)
{
	forge_send(it->socket, &it->share,
		   FORGE_HEADER_BYTES + it->share.header.bytes + 1, it->fds, 2);
}

static void garbage(struct traitor *it)
{
	forge_send(it->socket, "no message at all, but long enough for one", 43,
		   it->fds, 2);
}

static void only_descriptors(struct traitor *it)
{
	forge_send(it->socket, "", 0, it->fds, 2);
}

static void hello(struct traitor *it)
{
	send_as(it, OH__MESSAGE_HELLO, OH__RANK_FDS);
}

static void welcome(struct traitor *it)
{
	send_as(it, OH__MESSAGE_WELCOME, (RANKS - 1) * OH__RANK_FDS);
}

static void unknown_type(struct traitor *it)
{
	it->share.header.type = OH__MESSAGE_SHARE + 1;
	send_changed(it, 2);
}

static void fine(struct traitor *it)
{
	send_verdict(it, OH_OK, -1, 0);
}

static void fine_with_two(struct traitor *it)
{
	send_verdict(it, OH_OK, -1, 2);
}

static void unknown_status(struct traitor *it)
{
	send_verdict(it, 4242, -1, 2);
}

/* It says that the other did it, who knows nothing of that. */
static void accuse(struct traitor *it)
{
	send_verdict(it, OH_ERR_UNSUPPORTED, it->peer, 2);
}

static void accuse_locally(struct traitor *it)
{
	send_verdict(it, OH_ERR_SYSTEM, it->peer, 0);
}

static void hang_up(struct traitor *it)
{
	shutdown(it->socket, SHUT_RDWR);
}

static void say_nothing(struct traitor *it)
{
}

/* A genuine share, and deeds in place of what follows it. */

static void share(struct traitor *it)
{
	send_changed(it, 2);
}

static void share_fine(struct traitor *it)
{
	send_changed(it, 2);
	send_verdict(it, OH_OK, -1, 0);
}

static void share_hang_up(struct traitor *it)
{
	send_changed(it, 2);
	hang_up(it);
}

static void share_twice(struct traitor *it)
{
	send_changed(it, 2);
	send_changed(it, 2);
}

static void share_garbage(struct traitor *it)
{
	send_changed(it, 2);
	garbage(it);
}

static void share_accuse(struct traitor *it)
{
	send_changed(it, 2);
	accuse(it);
}

static void share_unknown_status(struct traitor *it)
{
	send_changed(it, 2);
	unknown_status(it);
}

static const struct deed {
	const char *text;
	void (*act)(struct traitor *it);
	enum oh_status status;
	const char *part; /* of the message */
} deeds[] = {
	{"says nothing", say_nothing, OH_ERR_TIMEOUT, "did not finish"},
	{"shares and says nothing", share, OH_ERR_TIMEOUT, "did not finish"},
	{"shares and agrees", share_fine, OH_OK, ""},
	{"sends one descriptor less", one_too_few, OH_ERR_PROTOCOL,
	 "sent 1 descriptors, its message says 2"},
	{"sends one descriptor more", one_too_many, OH_ERR_PROTOCOL,
	 "sent 3 descriptors, its message says 2"},
	{"sends no descriptors", none, OH_ERR_PROTOCOL,
	 "sent 0 descriptors, its message says 2"},
	{"sends empty masks", no_mask, OH_ERR_PROTOCOL,
	 "sent 2 descriptors, its message says 0"},
	{"sends an unknown bit", unknown_bit, OH_ERR_PROTOCOL,
	 "with mask 10 as rank"},
	{"sends the last bit", last_bit, OH_ERR_PROTOCOL, "with mask 8000000"},
	{"sends all bits", all_bits, OH_ERR_PROTOCOL, "with mask ffffffff"},
	{"sends what is not its", of_another, OH_ERR_PROTOCOL,
	 "at most 0 can come"},
	{"sends what is nobody's", of_nobody, OH_ERR_PROTOCOL,
	 "with mask 1 as rank 3's"},
	{"sends what is rank 15's", of_the_last, OH_ERR_PROTOCOL,
	 "with mask 1 as rank 15's"},
	{"sends 64 descriptors", full_record, OH_ERR_PROTOCOL,
	 "sent 64 descriptors, its message says 2"},
	{"sends 65 descriptors", beyond_record, OH_ERR_PROTOCOL,
	 "more than 64 descriptors"},
	{"sends 253 descriptors", most_of_all, OH_ERR_PROTOCOL,
	 "more than 64 descriptors"},
	{"sends a wrong checksum", checksum, OH_ERR_PROTOCOL, "checksum"},
	{"speaks another protocol", protocol, OH_ERR_MISMATCH,
	 "speaks rendezvous protocol"},
	{"sends half a share", half, OH_ERR_PROTOCOL, "type 5 with 24 bytes"},
	{"sends a longer share", more, OH_ERR_PROTOCOL, "type 5 with 81 bytes"},
	{"sends garbage", garbage, OH_ERR_PROTOCOL, "sent 43 bytes"},
	{"sends descriptors alone", only_descriptors, OH_ERR_PROTOCOL,
	 "sent 0 bytes"},
	{"says hello", hello, OH_ERR_PROTOCOL, "type 1 where its descriptors"},
	{"welcomes", welcome, OH_ERR_PROTOCOL, "type 2 where its descriptors"},
	{"sends an unknown type", unknown_type, OH_ERR_PROTOCOL, "type 6 with"},
	{"says that all is fine", fine, OH_ERR_PROTOCOL,
	 "type 3 where its descriptors"},
	{"says that with two descriptors", fine_with_two, OH_ERR_PROTOCOL,
	 "type 3 where its descriptors"},
	{"sends an unknown status", unknown_status, OH_ERR_PROTOCOL,
	 "unknown status 4242: what it?says"},
	{"accuses another rank", accuse, OH_ERR_UNSUPPORTED, "what it?says"},
	{"accuses another rank of a lack", accuse_locally, OH_ERR_SYSTEM,
	 "what it?says"},
	{"hangs up", hang_up, OH_ERR_PEER_LOST, "ended or gave up"},
	{"shares and hangs up", share_hang_up, OH_ERR_PEER_LOST,
	 "ended or gave up"},
	{"shares twice", share_twice, OH_ERR_PROTOCOL,
	 "type 5 where its verdict"},
	{"shares and sends garbage", share_garbage, OH_ERR_PROTOCOL,
	 "sent 43 bytes"},
	{"shares and accuses another rank", share_accuse, OH_ERR_UNSUPPORTED,
	 "what it?says"},
	{"shares and sends an unknown status", share_unknown_status,
	 OH_ERR_PROTOCOL, "unknown status 4242: what it?says"},
};

#define DEEDS ((int)(sizeof(deeds) / sizeof(deeds[0])))

/* What rank 0 tells of it; none where it tells nobody, or has nothing more. */
static void check_answer(struct traitor *it, const struct deed *deed)
{
	struct oh__verdict verdict = {0};
	struct pollfd one = {.fd = it->socket, .events = POLLIN};
	struct oh__incoming incoming;
	bool answered = false;

	while (!answered && poll(&one, 1, 20000) == 1 &&
	       !oh__message_receive(it->socket, "rank 0", &incoming)) {
		oh__incoming_close(&incoming);
		verdict = incoming.message.body.verdict;
		answered = incoming.message.header.type == OH__MESSAGE_VERDICT;
	}
	ranks_check(it->self,
		    answered && verdict.status == (unsigned)deed->status &&
			    strstr(verdict.text, deed->part),
		    "the answer was %u: %.400s", answered ? verdict.status : 0,
		    verdict.text);
}

static void lie(struct traitor *it, int peer, const struct deed *deed)
{
	it->peer = peer;
	it->socket = it->rendezvous.sockets[peer];
	make_share(it);
	deed->act(it);
}

static void be_traitor(struct ranks_self *self, const struct deed *deed)
{
	struct traitor it = {.self = self};

	if (!share_meet(self, LONG_MS, &it.rendezvous))
		return;
	for (int i = 0; i < FORGE_FDS; i++)
		it.fds[i] = STDOUT_FILENO;
	if (self->rank) {
		lie(&it, 0, deed);
		if (deed->act != hang_up && deed->act != share_hang_up)
			check_answer(&it, deed);
	} else {
		for (int i = 1; i < RANKS; i++)
			lie(&it, i, deed);
	}
	/* its sockets are there until the others have ended */
	ranks_await(&self->words[ENDED], RANKS - 1);
	oh__rendezvous_close(&it.rendezvous);
}

/* "TRAITOR DEED". */
static void betrayed(struct ranks_self *self)
{
	int fds[OH__SHARE_FDS], taken[OH_MAX_RANKS][OH__SHARE_FDS];
	struct leftovers before = leftovers_now();
	struct oh__rendezvous rendezvous;
	const struct deed *deed;
	enum oh_status status;
	int traitor, row;
	char who[32];

	if (sscanf(self->argument, "%d %d", &traitor, &row) != 2)
		abort();
	deed = &deeds[row];
	if (self->rank == traitor) {
		be_traitor(self, deed);
		return;
	}
	snprintf(who, sizeof(who), "rank %d", traitor);
	if (!share_meet(self,
			deed->status == OH_ERR_TIMEOUT ? SHORT_MS : LONG_MS,
			&rendezvous))
		return;
	share_open(self->rank, 0, SHARE_ALL, fds);
	status = oh__rendezvous_share(&rendezvous, OH_OK, fds, taken);
	if (deed->status) {
		share_fails(self, status, deed->status, deed->part, taken);
		/* in its verdict rank 0 speaks for anybody */
		ranks_check(self,
			    strstr(oh_last_error()->message, who) ||
				    (!traitor && strstr(deed->part, "it?says")),
			    "not named: %s", oh_last_error()->message);
	} else {
		ranks_fine(self, status, "oh__rendezvous_share");
		for (int i = 0; i < RANKS; i++)
			share_close(taken[i]);
	}
	share_close(fds);
	share_leave(self, &rendezvous, &before);
	atomic_fetch_add(&self->words[ENDED], 1);
}

/* Rank 1 has failed, and rank 0 says that all is well. */
static void failed_stays_failed(struct ranks_self *self)
{
	int fds[OH__SHARE_FDS], taken[OH_MAX_RANKS][OH__SHARE_FDS];
	struct leftovers before = leftovers_now();
	struct oh__rendezvous rendezvous;
	bool share = atoi(self->argument);
	enum oh_status status;

	if (!self->rank) {
		be_traitor(self, &(struct deed){"", fine, OH_OK, ""});
		return;
	}
	if (!share_meet(self, LONG_MS, &rendezvous))
		return;
	share_open(self->rank, 0, SHARE_ALL, fds);
	memset(taken, -1, sizeof(taken));
	status = OH__FAIL(OH_ERR_UNSUPPORTED, "device 1 is amiss");
	status = share ? oh__rendezvous_share(&rendezvous, status, fds, taken)
		       : oh__rendezvous_agree(&rendezvous, status);
	share_fails(self, status, OH_ERR_UNSUPPORTED, "device 1", taken);
	share_close(fds);
	share_leave(self, &rendezvous, &before);
	atomic_fetch_add(&self->words[ENDED], 1);
}

enum {
	BETRAYED,
	STAYS_FAILED
};

static const struct ranks_case cases[] = {
	[BETRAYED] = {"betrayed", betrayed},
	[STAYS_FAILED] = {"stays-failed", failed_stays_failed},
	{0}};

static void try(int which, const char *argument, const char *text)
{
	ranks_report_later(ranks_start(
		&cases[which], &(struct ranks_options){.ranks = RANKS,
						       .argument = argument,
						       .text = text}));
}

int main(int argc, char **argv)
{
	setenv("ONEHOP_LOG", "off", 1);
	ranks_main(argc, argv, cases);
	for (int row = 0; row < DEEDS; row++)
		for (int traitor = 0; traitor < RANKS; traitor++) {
			char argument[16], text[128];

			snprintf(argument, sizeof(argument), "%d %d", traitor,
				 row);
			snprintf(text, sizeof(text), "rank %d %s", traitor,
				 deeds[row].text);
			try(BETRAYED, argument, text);
		}
	try(STAYS_FAILED, "0", "a failed rank is told that it agrees");
	try(STAYS_FAILED, "1", "a failed rank is told that it shares");
	ranks_report_all();
	return tap_done();
}
