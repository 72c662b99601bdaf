/* SPDX-License-Identifier: MIT */
/*
 * A rank that has met the others and then writes nonsense into its own
 * segment: states that mean nothing, data and results beyond its heap, words
 * that change while they are read. The others get a clear error, or go on;
 * what they read is never an index or a length before it has been checked.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "collective/communicator.h"
#include "leftovers.h"
#include "random_call.h"
#include "ranks.h"

#define HEAP_BYTES (1 << 20)
/* A call that a nonsense word keeps from ending. */
#define CALL_MS 300u

enum {
	DONE,
	ENDED
};

static struct oh_comm *create(struct ranks_self *self, unsigned call_ms)
{
	struct oh_comm_options options = {
		.size = sizeof(options),
		.id = &self->ids[0],
		.rank = self->rank,
		.ranks = self->ranks,
		.rendezvous_timeout_ms = 40000,
		.call_timeout_ms = call_ms,
	};
	struct oh_comm *comm = NULL;

	ranks_fine(self, oh_comm_create(&options, &comm), "oh_comm_create");
	return comm;
}

static bool is_hostile(const struct ranks_self *self)
{
	return self->rank == self->ranks - 1;
}

/* All ranks end at the same time, so that no process is missed early. */
static void leave(struct ranks_self *self, struct oh_comm *comm)
{
	atomic_fetch_add(&self->words[ENDED], 1);
	ranks_await(&self->words[ENDED], (uint64_t)self->ranks);
	oh_comm_destroy(comm);
}

/* States: argument is the index of a row. */

static const struct {
	uint64_t state;
	enum oh_status status;
} states[] = {
	{1, OH_ERR_PROTOCOL}, /* success, caused by rank 0 */
	{0xffffffff, OH_ERR_PROTOCOL},
	{(uint64_t)OH_ERR_INVALID << 32 | 1, OH_ERR_PROTOCOL},
	{(uint64_t)OH_ERR_BUSY << 32 | 1, OH_ERR_PROTOCOL},
	{999ull << 32, OH_ERR_PROTOCOL},
	{0x80000000ull << 32, OH_ERR_PROTOCOL},
	{UINT64_MAX, OH_ERR_PROTOCOL},
	{(uint64_t)OH_ERR_TIMEOUT << 32 | 77, OH_ERR_TIMEOUT},
	{(uint64_t)OH_ERR_ABORTED << 32 | 0x80000000, OH_ERR_ABORTED},
	{(uint64_t)OH_ERR_MISMATCH << 32 | UINT32_MAX, OH_ERR_MISMATCH},
};

#define STATES ((int)(sizeof(states) / sizeof(states[0])))

static void wrong_state(struct ranks_self *self)
{
	int row = atoi(self->argument), hostile = self->ranks - 1;
	struct oh_comm *comm = create(self, 40000);
	struct oh_health health = {.size = sizeof(health)};
	int32_t in = 1, out = 0;
	char who[32];

	if (!comm)
		return;
	snprintf(who, sizeof(who), "rank %d", hostile);
	if (is_hostile(self)) {
		atomic_store(&comm->mailbox.own->state.word, states[row].state);
		leave(self, comm);
		return;
	}
	/* twice: it stays so */
	for (int i = 0; i < 2; i++) {
		enum oh_status status =
			oh_all_reduce(comm, &in, &out, 1, OH_I32, OH_SUM, NULL);

		ranks_check(self, status == states[row].status, "%s: %s",
			    oh_status_name(status), oh_last_error()->message);
		ranks_check(self, strstr(oh_last_error()->message, who),
			    "not named: %s", oh_last_error()->message);
	}
	ranks_fine(self, oh_comm_health(comm, &health), "oh_comm_health");
	ranks_check(self,
		    health.status == states[row].status &&
			    health.culprit == hostile,
		    "health says %s by %d", oh_status_name(health.status),
		    health.culprit);
	leave(self, comm);
}

/*
 * Offsets: the hostile rank is made to believe that its heap is elsewhere, so
 * that it publishes offsets into it that the others' mapping does not have.
 */

enum which {
	SOURCE,
	TARGET
};

static const struct {
	const char *text;
	enum oh_collective collective;
	enum which which;
	size_t count;
	uint64_t offset; /* of the buffer in that heap */
} offsets[] = {
	/* the smallest that is used where it is */
	{"the end, small", OH_ALL_REDUCE, SOURCE, OH__DIRECT_FIRST / 4,
	 HEAP_BYTES},
	{"the end", OH_ALL_REDUCE, SOURCE, 20000, HEAP_BYTES},
	{"one byte too few", OH_ALL_REDUCE, SOURCE, 20000,
	 HEAP_BYTES - 4 * 20000 + 1},
	{"2^40", OH_ALL_REDUCE, SOURCE, 20000, 1ull << 40},
	{"a result at the end", OH_ALL_REDUCE, TARGET, 20000, HEAP_BYTES},
	{"a result with one byte too few", OH_ALL_REDUCE, TARGET, 20000,
	 HEAP_BYTES - 4 * 20000 + 1},
	{"reduce-scatter", OH_REDUCE_SCATTER, SOURCE, 8000, HEAP_BYTES},
	{"reduce-scatter, the last part beyond", OH_REDUCE_SCATTER, SOURCE,
	 8000, HEAP_BYTES - 4 * 8000},
	{"all-gather", OH_ALL_GATHER, SOURCE, 8000, HEAP_BYTES},
	{"broadcast", OH_BROADCAST, SOURCE, 8000, 1ull << 40},
};

#define OFFSETS ((int)(sizeof(offsets) / sizeof(offsets[0])))
/* Beyond the largest offset with a result. */
#define APART (4 << 20)

static enum oh_status call_row(struct oh_comm *comm, int row, void *send,
			       void *recv)
{
	struct random_call call = {offsets[row].collective, offsets[row].count,
				   oh_comm_ranks(comm) - 1, 0};
	struct random_buffers buffers = {send, recv};

	return random_call_start(comm, &call, &buffers);
}

static enum oh_status call_beyond(struct oh_comm *comm, int row, uint8_t *send,
				  uint8_t *recv)
{
	struct oh__mailbox *m = &comm->mailbox;
	uint8_t *heap = m->heap[m->rank];
	size_t heap_bytes = m->heap_bytes;
	uint8_t *buffer = offsets[row].which == TARGET ? recv : send;
	enum oh_status status;

	m->heap[m->rank] = (uint8_t *)((uintptr_t)buffer - offsets[row].offset);
	m->heap_bytes = SIZE_MAX / 2;
	status = call_row(comm, row, send, recv);
	m->heap[m->rank] = heap;
	m->heap_bytes = heap_bytes;
	return status;
}

static void wrong_offset(struct ranks_self *self)
{
	int row = atoi(self->argument), hostile = self->ranks - 1;
	struct oh_health health = {.size = sizeof(health)};
	struct oh_comm *comm = create(self, 40000);
	uint8_t *buffer = calloc(1, 2 * APART);
	enum oh_status status;

	if (!comm || !buffer)
		return;
	if (is_hostile(self))
		status = call_beyond(comm, row, buffer, buffer + APART);
	else
		status = call_row(comm, row, buffer, buffer + APART);
	ranks_check(self, status == OH_ERR_PROTOCOL, "%s: %s",
		    oh_status_name(status), oh_last_error()->message);
	ranks_fine(self, oh_comm_health(comm, &health), "oh_comm_health");
	ranks_check(self, health.culprit == hostile, "the culprit is %d: %s",
		    health.culprit, oh_last_error()->message);
	leave(self, comm);
	free(buffer);
}

/* Words that change all the time. */

struct storm {
	struct oh__control *own;
	struct ranks_random random;
	int kind;
	atomic_bool over;
};

enum {
	FLIP,
	ONES,
	STORM
};

/* As another process would write: nothing is told to a checker of races. */
__attribute__((no_sanitize("thread"), no_sanitize("address"))) static void
blow(struct storm *storm)
{
	volatile uint64_t *words = (volatile uint64_t *)storm->own;
	size_t count = sizeof(*storm->own) / sizeof(*words);
	static const uint64_t values[] = {
		0,	    1,		2,	    UINT64_MAX,
		1ull << 63, 1ull << 32, HEAP_BYTES, HEAP_BYTES + 1};
	uint64_t random = ranks_random(&storm->random);
	volatile struct oh__arrival *arrival;

	if (storm->kind == STORM) {
		uint64_t value = values[random >> 8 & 7];

		words[random % count] = random >> 16 & 1 ? value : random;
		return;
	}
	/* both halves: where the data is said to be */
	arrival = &storm->own->half[random & 1].arrival;
	if (storm->kind == ONES) {
		arrival->source = UINT64_MAX;
		arrival->target = UINT64_MAX;
		return;
	}
	arrival->source = 1;
	arrival->source = 0;
}

static void *blow_on(void *argument)
{
	struct storm *storm = argument;

	while (!atomic_load_explicit(&storm->over, memory_order_relaxed))
		for (int i = 0; i < 1000; i++)
			blow(storm);
	return NULL;
}

static void call_until(struct ranks_self *self, struct oh_comm *comm, int kind)
{
	struct ranks_random random = {self->seed};
	struct random_buffers buffers = random_buffers_make();
	enum oh_status status = OH_OK, again;
	int calls = ranks_quick() ? 100 : 400;

	for (int i = 0; i < calls && !status; i++) {
		struct random_call call =
			random_call_draw(&random, self->ranks);

		if (kind == FLIP) {
			/* as far from one rank's part to the next as the heap
			 * allows, in many rounds */
			call.collective = OH_REDUCE_SCATTER;
			call.count = (size_t)(HEAP_BYTES / 4 / self->ranks);
		}
		ranks_at(self, "call %d, %s of %zu", i,
			 oh_collective_name(call.collective), call.count);
		status = random_call_start(comm, &call, &buffers);
	}
	if (status && !is_hostile(self)) {
		again = oh_all_reduce(comm, buffers.send, buffers.recv, 1,
				      OH_I32, OH_SUM, NULL);
		ranks_check(self, again == status, "%s after %s",
			    oh_status_name(again), oh_status_name(status));
	}
	random_buffers_free(&buffers);
}

static void storm(struct ranks_self *self)
{
	struct storm storm = {.random = {self->seed},
			      .kind = atoi(self->argument)};
	struct oh_comm *comm = create(self, CALL_MS);
	pthread_t thread;

	if (!comm)
		return;
	if (is_hostile(self)) {
		storm.own = comm->mailbox.own;
		if (pthread_create(&thread, NULL, blow_on, &storm))
			abort();
		call_until(self, comm, storm.kind);
		/* until the others have ended */
		ranks_await(&self->words[ENDED], (uint64_t)self->ranks - 1);
		atomic_store(&storm.over, true);
		pthread_join(thread, NULL);
	} else {
		call_until(self, comm, storm.kind);
	}
	leave(self, comm);
}

enum {
	WRONG_STATE,
	WRONG_OFFSET,
	STORMS
};

static const struct ranks_case cases[] = {
	[WRONG_STATE] = {"wrong-state", wrong_state},
	[WRONG_OFFSET] = {"wrong-offset", wrong_offset},
	[STORMS] = {"storm", storm},
	{0}};

static bool run(int which, int ranks, int argument_number)
{
	char argument[16];
	struct ranks_options options = {.ranks = ranks, .argument = argument};
	struct ranks_group *group;
	int failures;

	snprintf(argument, sizeof(argument), "%d", argument_number);
	group = ranks_start(&cases[which], &options);
	failures = ranks_wait(group);
	ranks_notes(group);
	ranks_free(group);
	return !failures;
}

static void storms(int kind, const char *text, int times)
{
	int failed = 0;

	for (int i = 0; i < times; i++)
		failed += !run(STORMS, 2 + i % 2, kind);
	tap_ok(!failed, "%s: %d of %d times all was well", text, times - failed,
	       times);
}

int main(int argc, char **argv)
{
	bool quick = ranks_quick();

	setenv("ONEHOP_LOG", "off", 1);
	setenv("ONEHOP_HEAP_BYTES", "1M", 1);
	setenv("ONEHOP_SLOT_BYTES", "65536", 1);
	setenv("ONEHOP_TUNE", "off", 1);
	ranks_main(argc, argv, cases);
	for (int i = 0; i < STATES; i++)
		tap_ok(run(WRONG_STATE, 3, i), "state %llx",
		       (unsigned long long)states[i].state);
	for (int i = 0; i < OFFSETS; i++)
		tap_ok(run(WRONG_OFFSET, 3, i), "data elsewhere: %s",
		       offsets[i].text);
	storms(ONES, "all offsets become 2^64-1", quick ? 2 : 6);
	storms(FLIP, "data moves between slot and heap", quick ? 2 : 6);
	storms(STORM, "nonsense everywhere", quick ? 4 : 20);
	return tap_done();
}
