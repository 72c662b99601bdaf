/* SPDX-License-Identifier: MIT */
/*
 * Calls are counted in 64 bits and flags hold 32: the numbers around which
 * that could matter are passed with calls of all kinds (ONEHOP_FIRST_CALL sets
 * where a communicator begins). And a flag of a call to come, left over from
 * 2^32 calls ago, is wiped before that call.
 */
#include <string.h>

#include "calls.h"
#include "collective/communicator.h"

/* A period of oh__epoch. */
#define PERIOD 0xfffffffeull
#define BEFORE 60 /* calls before the number in question */
#define LARGEST 9000 /* some rounds of a slot of 4096 */
#define ROOM_BYTES (5 * LARGEST + 3 * CALL_GUARD)

struct room {
	uint8_t *send, *recv;
};

/* One of them in memory of oh_comm_alloc. */
static bool make_room(struct ranks_self *self, struct oh_comm *comm,
		      struct room *room)
{
	void *pointer;

	if (!ranks_fine(self, oh_comm_alloc(comm, ROOM_BYTES, &pointer),
			"oh_comm_alloc"))
		return false;
	room->send = pointer;
	room->recv = malloc(ROOM_BYTES);
	return ranks_check(self, room->recv, "no memory");
}

static uint64_t calls_of(struct ranks_self *self, struct oh_comm *comm)
{
	struct oh_health health = {.size = sizeof(health)};

	ranks_fine(self, oh_comm_health(comm, &health), "oh_comm_health");
	return health.calls;
}

/* Calls of all kinds until well behind the number in the argument. */
static void pass(struct ranks_self *self)
{
	uint64_t number = strtoull(self->argument, NULL, 0);
	struct oh_comm *comm = ranks_comm(self, 0);
	struct ranks_random common = {self->seed};
	struct room room = {0};
	uint64_t now = number - BEFORE;
	bool fine = comm && make_room(self, comm, &room);

	if (fine)
		ranks_check(self, comm->mailbox.call == now,
			    "begins at %llu, not at %llu",
			    (unsigned long long)comm->mailbox.call,
			    (unsigned long long)now);
	for (int i = 0; fine && now < number + BEFORE; i++) {
		struct call call = call_random(&common, self->ranks, LARGEST);
		bool swap = ranks_mix(call.number + (uint64_t)self->rank) & 1;

		fine = call_try(self, comm, &call,
				(swap ? room.recv : room.send) + CALL_GUARD,
				(swap ? room.send : room.recv) + CALL_GUARD);
		now = comm->mailbox.call;
	}
	if (fine)
		ranks_check(self,
			    calls_of(self, comm) >= BEFORE && now > number,
			    "the number was not passed");
	oh_comm_destroy(comm);
	free(room.recv);
}

static enum oh_status sum(struct oh_comm *comm, size_t count)
{
	static _Thread_local float data[LARGEST / 4];

	return oh_all_reduce(comm, data, data, count, OH_F32, OH_SUM, NULL);
}

/*
 * The flag that a two-shot all-reduce would set in a call to come is planted
 * in the own mailbox. The next calls do without it: it must be gone when as
 * many are over as segment.h says, two.
 */
static void scrub(struct ranks_self *self)
{
	struct oh_comm *comm = ranks_comm(self, 0);
	struct oh__mailbox *m = comm ? &comm->mailbox : NULL;

	for (uint64_t ahead = 3; comm && ahead < 40; ahead++) {
		struct oh__flag *flag;
		uint64_t call, word;

		if (!ranks_fine(self, sum(comm, LARGEST / 4), "two-shot"))
			break;
		/* nobody looks for the flag of that one any more */
		ranks_barrier(self);
		call = m->call + ahead;
		flag = &m->own->half[call & 1].reduced;
		/* which calls it was set in is nothing to the scrubbing */
		word = (uint64_t)oh__epoch(call) << 32 | 0x1234;
		atomic_store(&flag->word, word);
		for (int i = 0; i < 2; i++)
			ranks_fine(self, sum(comm, 1), "one-shot");
		ranks_check(self, atomic_load(&flag->word) != word,
			    "the flag of call %llu is still there before call "
			    "%llu",
			    (unsigned long long)call,
			    (unsigned long long)m->call + 1);
		/* and it is wiped, not replaced, so long as none is due */
		ranks_check(self, !atomic_load(&flag->word),
			    "the flag is not 0");
	}
	oh_comm_destroy(comm);
}

static const struct ranks_case cases[] = {
	{"pass", pass}, {"scrub", scrub}, {0}};

static void pass_number(uint64_t number)
{
	struct ranks_options options = {0};
	char first[32], text[32];

	snprintf(first, sizeof(first), "%llu",
		 (unsigned long long)number - BEFORE);
	snprintf(text, sizeof(text), "%#llx", (unsigned long long)number);
	setenv("ONEHOP_FIRST_CALL", first, 1);
	options.argument = text;
	for (int n = 1; n <= 5; n++) {
		options.ranks = n;
		ranks_threads(&cases[0], &options);
	}
}

/* oh__epoch itself: never 0, of the call's parity, new in every call. */
static void check_epoch(void)
{
	bool never_zero = true, parity = true, differs = true;

	for (uint64_t multiple = 0; multiple < 5; multiple++)
		for (uint64_t i = 0; i < 200; i++) {
			uint64_t call = multiple * PERIOD - 100 + i;
			uint32_t epoch = oh__epoch(call);

			never_zero &= epoch != 0;
			parity &= (epoch & 1) == (call & 1);
			/* the half's flag before that is two calls old */
			differs &= epoch != oh__epoch(call + 2);
		}
	tap_ok(never_zero, "an epoch is never 0");
	tap_ok(parity, "an epoch has the parity of its call");
	tap_ok(differs, "two calls of one half have different epochs");
}

int main(int argc, char **argv)
{
	setenv("ONEHOP_HEAP_BYTES", "1M", 0);
	setenv("ONEHOP_SLOT_BYTES", "4096", 1);
	/* the calls that are counted are those of the test */
	setenv("ONEHOP_TUNE", "off", 1);
	ranks_main(argc, argv, cases);
	check_epoch();
	pass_number(1ull << 31);
	pass_number(PERIOD);
	pass_number(1ull << 32);
	pass_number(2 * PERIOD);
	pass_number(1ull << 33);
	pass_number(7 * PERIOD);
	/* the highest that ONEHOP_FIRST_CALL takes */
	pass_number((1ull << 62) + BEFORE);
	setenv("ONEHOP_FIRST_CALL", "0", 1);
	ranks_threads(&cases[1], &(struct ranks_options){.ranks = 2});
	ranks_threads(&cases[1], &(struct ranks_options){.ranks = 5});
	return tap_done();
}
