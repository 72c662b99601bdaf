/* SPDX-License-Identifier: MIT */
/*
 * Random sequences of all calls on several communicators at once, with random
 * delays between the steps of the protocol (src/base/fault.h), every element
 * checked. Then the negative controls: with each fault that the test build of
 * the library can bring back, the same program must notice something: wrong
 * data, an error, or that a call which must fail does not.
 */
#include <pthread.h>
#include <string.h>

#include "base/fault.h"
#include "calls.h"
#include "collective/communicator.h"

#define COMMS 3
#define LARGEST 30000 /* some rounds of a slot of 8192 */
#define ROOM_BYTES (5 * LARGEST + 3 * CALL_GUARD + 64)
#define DELAY_NS 20000
/* A call that a fault has hung is given up after this. */
#define FAULT_TIMEOUT_MS 2000

/* One communicator of a rank and its thread. */
struct player {
	struct ranks_self *self;
	struct oh_comm *comm;
	uint64_t seed;
	int calls;
	uint8_t *heap[2], *plain[2];
	pthread_t thread;
};

static bool make_buffers(struct player *player)
{
	for (int i = 0; i < 2; i++) {
		void *pointer;

		if (!ranks_fine(
			    player->self,
			    oh_comm_alloc(player->comm, ROOM_BYTES, &pointer),
			    "oh_comm_alloc"))
			return false;
		player->heap[i] = pointer;
		player->plain[i] = malloc(ROOM_BYTES);
		if (!ranks_check(player->self, player->plain[i], "no memory"))
			return false;
	}
	return true;
}

/* Each rank has buffers of its own choice. */
static bool play_call(struct player *player, const struct call *call,
		      struct ranks_random *own)
{
	uint64_t choice = ranks_random(own);
	uint8_t *send = choice & 1 ? player->heap[0] : player->plain[0];
	uint8_t *recv = choice & 2 ? player->heap[1] : player->plain[1];

	send += choice & 4 ? choice >> 8 & 63 : 0;
	recv += choice & 8 ? choice >> 16 & 63 : 0;
	return call_try(player->self, player->comm, call, send + CALL_GUARD,
			recv + CALL_GUARD);
}

static void *play(void *argument)
{
	struct player *player = argument;
	struct ranks_self *self = player->self;
	struct ranks_random common = {player->seed};
	struct ranks_random own = {player->seed + 1 + (uint64_t)self->rank};
	struct call call = call_random(&common, self->ranks, LARGEST);

	for (int i = 0; i < player->calls; i++) {
		struct call next = call_random(&common, self->ranks, LARGEST);

		/* runs of one kind: a root may get ahead of the others */
		if (ranks_below(&common, 4)) {
			next.collective = call.collective;
			next.root = call.root;
		}
		call = next;
		if (!play_call(player, &call, &own) || ranks_failures(self)) {
			/* the others need not wait for a deadline */
			oh_comm_abort(player->comm);
			return NULL;
		}
	}
	return NULL;
}

static struct oh_comm *make_comm(struct ranks_self *self, int k)
{
	struct oh_comm_options options = {
		.size = sizeof(options),
		.id = &self->ids[k],
		.rank = self->rank,
		.ranks = self->ranks,
		.call_timeout_ms = FAULT_TIMEOUT_MS,
	};
	struct oh_comm *comm = NULL;

	if (oh__fault_now == OH__FAULT_NONE)
		return ranks_comm(self, k);
	ranks_fine(self, oh_comm_create(&options, &comm), "oh_comm_create");
	return comm;
}

/* A thread for each communicator. */
static void sequences(struct ranks_self *self)
{
	struct player players[COMMS] = {0};
	bool fine = true;

	for (int k = 0; k < COMMS && fine; k++) {
		players[k] = (struct player){
			.self = self,
			.comm = make_comm(self, k),
			.seed = self->seed * COMMS + (uint64_t)k,
			.calls = ranks_quick() ? 40 : 400,
		};
		fine = players[k].comm && make_buffers(&players[k]);
	}
	for (int k = 0; k < COMMS && fine; k++)
		pthread_create(&players[k].thread, NULL, play, &players[k]);
	for (int k = 0; k < COMMS; k++) {
		if (fine)
			pthread_join(players[k].thread, NULL);
		oh_comm_destroy(players[k].comm);
		free(players[k].plain[0]);
		free(players[k].plain[1]);
	}
}

/* A two-shot call, four that do without its flag, and the same call again. */
#define STALE_CALLS 6

static bool stale_call(struct ranks_self *self, struct oh_comm *comm, int k,
		       uint64_t number, uint8_t *room)
{
	bool large = k == 0 || k == STALE_CALLS - 1;
	struct call call = {
		.collective = large ? OH_ALL_REDUCE : OH_BROADCAST,
		.dtype = OH_I32,
		.root = large ? 0 : 1,
		.count = large ? 1500 : 1,
		.number = number + (uint64_t)k,
	};

	return call_try(self, comm, &call, room + CALL_GUARD,
			room + ROOM_BYTES + CALL_GUARD);
}

/*
 * The flag of a call to come, as 2^32 calls before it would have left it, and
 * then that call: the others must not believe it. Rank 0 plants it, and is
 * slow. What the flag will be is known from another communicator on which the
 * same calls are made before.
 */
static void stale(struct ranks_self *self)
{
	uint8_t *room = malloc(2 * ROOM_BYTES);
	struct oh_comm *twin, *comm;
	bool fine;

	/* one call of the protocol for each of these, whatever its size */
	setenv("ONEHOP_ALGORITHM", "two-shot", 1);
	twin = make_comm(self, 0);
	comm = make_comm(self, 1);
	fine = twin && comm && room;
	oh__fault_delay_ns = self->rank ? 0 : 10 * DELAY_NS;
	for (uint64_t i = 0; i < 100 && fine && !ranks_failures(self); i++) {
		struct oh__mailbox *m = &comm->mailbox;
		uint64_t number = self->seed + i * STALE_CALLS;

		for (int k = 0; k < STALE_CALLS && fine; k++)
			fine = stale_call(self, twin, k, number, room);
		fine = fine && stale_call(self, comm, 0, number, room) &&
		       ranks_barrier(self);
		if (self->rank == 0)
			atomic_store(&m->own->half[twin->mailbox.call & 1]
					      .reduced.word,
				     twin->mailbox.want);
		for (int k = 1; k < STALE_CALLS && fine; k++)
			fine = stale_call(self, comm, k, number, room);
		ranks_check(self, m->want == twin->mailbox.want,
			    "the planted flag was not that of the call");
	}
	oh_comm_destroy(twin);
	oh_comm_destroy(comm);
	free(room);
}

/* What differs on rank 1, of a call that is otherwise the same. */
static void make_different(struct call *call, int what)
{
	switch (what) {
	case 0:
		call->count++;
		break;
	case 1:
		call->dtype = OH_F32;
		break;
	case 2:
		call->op = OH_MAX;
		break;
	case 3:
		call->collective = OH_ALL_GATHER;
		break;
	}
}

/* Ranks that call different things must all be told so. */
static void mismatch(struct ranks_self *self)
{
	for (int what = 0; what < 4; what++) {
		struct oh_comm *comm = make_comm(self, what);
		struct call call = {.dtype = OH_I32, .count = 4};
		uint32_t send[64] = {0}, recv[64] = {0};
		enum oh_status status;

		if (!comm)
			return;
		if (self->rank == 1)
			make_different(&call, what);
		status = call_make(comm, &call, send, recv);
		ranks_check(self, status == OH_ERR_MISMATCH,
			    "difference %d: %s", what, oh_status_name(status));
		oh_comm_destroy(comm);
	}
}

/* A negative control, in fresh processes: which fault, and what shows it. */
struct control {
	enum oh__fault fault;
	const char *name;
	int ranks;
	const char *shown_by; /* a case */
};

static const struct control controls[] = {
	{OH__FAULT_SINGLE_HALF, "one half", 3, "sequences"},
	{OH__FAULT_NO_CREDIT, "no credit", 2, "sequences"},
	{OH__FAULT_FLAG_FIRST, "the flag first", 2, "sequences"},
	{OH__FAULT_NO_REDUCED_WAIT, "no wait for slices", 2, "sequences"},
	{OH__FAULT_NO_SCRUB, "no scrubbing", 2, "stale"},
	{OH__FAULT_NO_SIGNATURE, "no signature", 2, "mismatch"},
};

_Static_assert(sizeof(controls) / sizeof(controls[0]) == OH__FAULT_COUNT - 1,
	       "every fault has a control");

/* A case with the fault that the argument numbers. */
static void with_fault(struct ranks_self *self, ranks_fn *run)
{
	/* in a fresh process; for threads main has set it */
	if (!oh__fault_delay_ns) {
		oh__fault_now = (enum oh__fault)atoi(self->argument);
		oh__fault_delay_ns = DELAY_NS;
	}
	run(self);
}

static void faulty_sequences(struct ranks_self *self)
{
	with_fault(self, sequences);
}

static void faulty_stale(struct ranks_self *self)
{
	with_fault(self, stale);
}

static void faulty_mismatch(struct ranks_self *self)
{
	with_fault(self, mismatch);
}

static const struct ranks_case cases[] = {{"sequences", faulty_sequences},
					  {"stale", faulty_stale},
					  {"mismatch", faulty_mismatch},
					  {0}};

static const struct ranks_case *case_named(const char *name)
{
	const struct ranks_case *at = cases;

	while (strcmp(at->name, name))
		at++;
	return at;
}

/* Without the fault all is well, with it something is wrong. */
static void run_control(const struct control *control)
{
	const struct ranks_case *shown_by = case_named(control->shown_by);
	struct ranks_options options = {.ranks = control->ranks};
	struct ranks_group *group;
	char argument[16];
	int failures = 0;

	snprintf(argument, sizeof(argument), "%d", control->fault);
	options.argument = argument;
	/* a fault shows itself by chance, but not more than once in vain */
	for (int i = 0; i < 3 && !failures; i++) {
		group = ranks_start(shown_by, &options);
		failures = ranks_wait(group);
		if (failures && getenv("ONEHOP_TEST_VERBOSE"))
			ranks_notes(group);
		ranks_free(group);
	}
	tap_ok(failures, "the fault is noticed: %s", control->name);
}

static bool choose(const char *setting, int index)
{
	char text[32];

	return call_choice(setting, index, text, sizeof(text)) &&
	       !setenv(setting, text, 1);
}

/* As threads, with every way to store and each algorithm in turn. */
static void run_ways(int ranks)
{
	struct ranks_options options = {.argument = "0", .ranks = ranks};
	int step = ranks_quick() ? 3 : 1;
	char text[96];

	options.text = text;
	for (int s = 0; choose("ONEHOP_STORES", s); s += step) {
		if (!choose("ONEHOP_ALGORITHM", (s + ranks) % 3))
			choose("ONEHOP_ALGORITHM", 0);
		snprintf(text, sizeof(text),
			 "sequences, %d threads, %s, %s stores", ranks,
			 getenv("ONEHOP_ALGORITHM"), getenv("ONEHOP_STORES"));
		ranks_threads(&cases[0], &options);
	}
}

int main(int argc, char **argv)
{
	struct ranks_options options = {.argument = "0"};

	/* the faults would fill the log */
	setenv("ONEHOP_LOG", "off", 0);
	setenv("ONEHOP_HEAP_BYTES", "1M", 1);
	setenv("ONEHOP_SLOT_BYTES", "8192", 1);
	setenv("ONEHOP_TUNE", "off", 0);
	ranks_main(argc, argv, cases);
	oh__fault_delay_ns = DELAY_NS;
	for (int i = 0; cases[i].name; i++)
		for (int n = 2; n <= (i ? 3 : 5); n++) {
			options.ranks = n;
			ranks_processes(&cases[i], &options);
		}
	for (int n = 2; n <= 5; n++)
		run_ways(n);
	choose("ONEHOP_ALGORITHM", 0);
	choose("ONEHOP_STORES", 0);
	for (size_t i = 0; i < sizeof(controls) / sizeof(controls[0]); i++)
		run_control(&controls[i]);
	return tap_done();
}
