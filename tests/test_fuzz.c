/* SPDX-License-Identifier: MIT */
/*
 * Some thousand random messages for what receives them, and for rank 0 while a
 * rank wants in. Seeded; fuzz_message.c looks longer.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>

#include "forge.h"
#include "leftovers.h"
#include "ranks.h"

static struct ranks_random randomness;

static uint64_t below(uint64_t limit)
{
	return ranks_below(&randomness, limit);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* A record in the making; room for one that is too long. */
struct record {
	union {
		struct oh__message message;
		uint8_t bytes[3 * sizeof(struct oh__message)];
	};
	size_t count;
	int fds[FORGE_FDS];
	int fd_count;
};

static void change_bytes(struct record *record)
{
	static const uint32_t values[] = {
		0, 1, 2, 3, 16, 48, 0x7fffffff, 0x80000000, UINT32_MAX};
	uint32_t value = values[below(sizeof(values) / sizeof(values[0]))];
	size_t at = below(2) ? below(FORGE_HEADER_BYTES) : below(record->count);

	switch (below(3)) {
	case 0:
		record->bytes[at] ^= (uint8_t)(1u << below(8));
		break;
	case 1:
		at = at / 4 * 4;
		memcpy(record->bytes + at, &value, sizeof(value));
		break;
	case 2:
		for (size_t i = at; i < record->count; i++)
			record->bytes[i] = (uint8_t)ranks_random(&randomness);
		break;
	}
}

/* From a genuine message to one that is more or less wrong. */
static void mutate(struct record *record, const struct oh__incoming *good,
		   const int *strays)
{
	memset(record, 0, sizeof(*record));
	memcpy(&record->message, &good->message, sizeof(good->message));
	record->count = FORGE_HEADER_BYTES + good->message.header.bytes;
	for (uint64_t i = below(4); i; i--)
		change_bytes(record);
	if (!below(4))
		record->count = below(sizeof(record->bytes));
	if (below(2) &&
	    record->message.header.bytes <= sizeof(record->message.body))
		forge_check(&record->message);
	record->fd_count = below(3) ? OH__RANK_FDS : (int)below(FORGE_FDS + 1);
	for (int i = 0; i < record->fd_count; i++)
		record->fds[i] = i < good->fd_count && below(8)
					 ? good->fds[i]
					 : strays[below(4)];
}

/* Descriptors of no use. */
static void open_strays(int strays[4])
{
	if (pipe(strays))
		abort();
	strays[2] = open("/dev/null", O_RDONLY);
	strays[3] = forge_socket();
}

static void close_strays(int strays[4])
{
	for (int i = 0; i < 4; i++)
		close(strays[i]);
}

static bool receive_one(const struct record *record)
{
	struct oh__incoming incoming;
	enum oh_status status;
	int ends[2];
	bool fine = true;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends))
		abort();
	forge_send(ends[0], record->bytes, record->count, record->fds,
		   record->fd_count);
	shutdown(ends[0], SHUT_WR);
	status = oh__message_receive(ends[1], "the fuzzer", &incoming);
	switch (status) {
	case OH_OK:
		fine = incoming.fd_count == record->fd_count &&
		       !memcmp(&incoming.message, record->bytes, record->count);
		break;
	case OH_ERR_PEER_LOST:
		fine = !record->count && !record->fd_count;
		break;
	case OH_ERR_PROTOCOL:
	case OH_ERR_MISMATCH:
		fine = !incoming.fd_count;
		break;
	default:
		fine = false;
	}
	if (!status)
		oh__incoming_close(&incoming);
	close(ends[0]);
	close(ends[1]);
	return fine;
}

static void test_receive(const struct oh__incoming *good, int times)
{
	static struct record record;
	struct leftovers before = leftovers_now(), after;
	int strays[4], wrong = 0;
	char text[256];

	open_strays(strays);
	for (int i = 0; i < times; i++) {
		mutate(&record, good, strays);
		wrong += !receive_one(&record);
	}
	close_strays(strays);
	after = leftovers_now();
	tap_ok(!wrong, "%d messages are received whole or not at all", times);
	if (!tap_ok(leftovers_none(&before, &after),
		    "and leave no descriptors"))
		tap_note("%s", leftovers_text(&before, &after, text));
}

/* A rank in a thread. */
struct rank {
	struct oh_unique_id id;
	int rank;
	unsigned ms;
	enum oh_status status;
};

static void *be_rank(void *argument)
{
	struct rank *rank = argument;
	struct oh_comm_options options = {
		.size = sizeof(options),
		.id = &rank->id,
		.rank = rank->rank,
		.ranks = 2,
		.rendezvous_timeout_ms = rank->ms,
		.call_timeout_ms = 20000,
	};
	struct oh_comm *comm = NULL;

	rank->status = oh_comm_create(&options, &comm);
	oh_comm_destroy(comm);
	return NULL;
}

/* Messages without the secret: ranks 0 and 1 meet in spite of them. */
static bool meet_among(const struct oh__incoming *good, int messages,
		       const int *strays)
{
	static struct record record;
	struct rank ranks[2] = {{.rank = 0, .ms = 20000},
				{.rank = 1, .ms = 20000}};
	struct oh__meeting_place place;
	pthread_t threads[2];

	if (oh_unique_id_create(&ranks[0].id))
		abort();
	ranks[1].id = ranks[0].id;
	place = forge_place(&ranks[0].id);
	for (int i = 0; i < 2; i++) {
		pthread_create(&threads[i], NULL, be_rank, &ranks[i]);
		/* rank 1 comes when they have */
		for (int k = 0; k < messages && !i; k++) {
			int fd = forge_connect(&place);

			mutate(&record, good, strays);
			forge_send(fd, record.bytes, record.count, record.fds,
				   record.fd_count);
			close(fd);
		}
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	if (!ranks[0].status && !ranks[1].status)
		return true;
	tap_note("ranks 0 and 1: %s and %s", oh_status_name(ranks[0].status),
		 oh_status_name(ranks[1].status));
	return false;
}

/*
 * A message with the secret: it may be taken for rank 1's, then the real one
 * is one too many; or it fails the rendezvous; or it is refused. Whatever
 * comes out, the ranks end by their deadline.
 */
static bool meet_or_fail(const struct oh__incoming *good, const int *strays)
{
	static struct record record;
	struct oh__incoming with_secret = *good;
	struct rank ranks[2] = {{.rank = 0, .ms = 20000},
				{.rank = 1, .ms = 50}};
	struct oh__meeting_place place;
	pthread_t threads[2];
	int fd;

	if (oh_unique_id_create(&ranks[0].id))
		abort();
	ranks[1].id = ranks[0].id;
	place = forge_place(&ranks[0].id);
	memcpy(with_secret.message.body.hello.secret, place.secret,
	       OH__SECRET_BYTES);
	forge_check(&with_secret.message);
	mutate(&record, &with_secret, strays);
	pthread_create(&threads[0], NULL, be_rank, &ranks[0]);
	fd = forge_connect(&place);
	forge_send(fd, record.bytes, record.count, record.fds, record.fd_count);
	close(fd);
	pthread_create(&threads[1], NULL, be_rank, &ranks[1]);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return !ranks[0].status == !ranks[1].status;
}

static void test_root(const struct oh__incoming *good, unsigned ms)
{
	struct leftovers before = leftovers_now(), after;
	uint64_t start = now_ms();
	int strays[4], met = 0, failed = 0, rounds = 0, uneven = 0;
	char text[256];

	open_strays(strays);
	while (now_ms() - start < ms) {
		failed += !meet_among(good, 50, strays);
		met++;
	}
	start = now_ms();
	while (now_ms() - start < ms) {
		uneven += !meet_or_fail(good, strays);
		rounds++;
	}
	close_strays(strays);
	after = leftovers_now();
	tap_ok(!failed, "%d rendezvous among 50 messages each", met);
	tap_ok(!uneven, "%d rendezvous with a message that holds the id",
	       rounds);
	if (!tap_ok(leftovers_none(&before, &after), "leave nothing"))
		tap_note("%s", leftovers_text(&before, &after, text));
}

int main(void)
{
	struct oh__meeting_place place = {.secret = {1}};
	struct oh__incoming good;

	setenv("ONEHOP_LOG", "off", 1);
	setenv("ONEHOP_HEAP_BYTES", "1M", 1);
	setenv("ONEHOP_TUNE", "off", 1);
	randomness.state = ranks_seed();
	forge_hello(&place, 1, 2, &good);
	test_receive(&good, ranks_quick() ? 2000 : 20000);
	test_root(&good, ranks_quick() ? 700 : 2500);
	oh__incoming_close(&good);
	return tap_done();
}
