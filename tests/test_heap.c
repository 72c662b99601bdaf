/* SPDX-License-Identifier: MIT */
/*
 * oh_comm_alloc and oh_comm_free by their contract, and the collectives with
 * any mixture of that memory and other memory over the ranks.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"
#include "cpu/engine.h"

#define SLOT_BYTES ((size_t)64 << 10)
#define SLOT "64K"
#define HEAP_BYTES ((size_t)4 << 20)
#define HEAP "4M"
#define PAGE ((size_t)4096)

static bool is_zero(const uint8_t *at, size_t bytes)
{
	return !bytes || (!at[0] && !memcmp(at, at + 1, bytes - 1));
}

/* Aligned, zero, and all of it can be written. */
static uint8_t *take(struct ranks_self *self, struct oh_comm *comm,
		     size_t bytes)
{
	void *pointer = NULL;

	if (!ranks_fine(self, oh_comm_alloc(comm, bytes, &pointer),
			"oh_comm_alloc"))
		return NULL;
	ranks_check(self, (uintptr_t)pointer % PAGE == 0,
		    "%p of %zu bytes is not aligned", pointer, bytes);
	ranks_check(self, is_zero(pointer, bytes), "%zu bytes are not zero",
		    bytes);
	memset(pointer, 0xa5, bytes);
	return pointer;
}

static void give(struct ranks_self *self, struct oh_comm *comm, void *pointer)
{
	ranks_fine(self, oh_comm_free(comm, pointer), "oh_comm_free");
}

static void sizes(struct ranks_self *self)
{
	const size_t bytes[] = {0,	  1,	  63,	    PAGE - 1,	   PAGE,
				PAGE + 1, 100000, 1u << 20, (2u << 20) - 3};
	const int n = sizeof(bytes) / sizeof(bytes[0]);
	struct oh_comm *comm = ranks_comm(self, 0);
	uint8_t *at[16];

	if (!comm)
		return;
	/* again and again: what was freed is zero once more */
	for (int turn = 0; turn < 5; turn++) {
		for (int i = 0; i < n; i++)
			at[i] = take(self, comm, bytes[i]);
		for (int i = 0; i < n; i++)
			for (int k = 0; k < i; k++)
				ranks_check(self,
					    at[i] >= at[k] + bytes[k] ||
						    at[k] >= at[i] + bytes[i],
					    "%zu and %zu bytes overlap",
					    bytes[i], bytes[k]);
		for (int i = 0; i < n; i++)
			give(self, comm, at[(i * 5 + turn) % n]);
	}
	give(self, comm, NULL);
	oh_comm_destroy(comm);
}

/* Free pieces that touch become one, in every order of freeing. */
static void coalescing(struct ranks_self *self)
{
	static const int orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0},
					{0, 2, 1, 3}, {1, 3, 0, 2},
					{2, 0, 3, 1}, {1, 2, 0, 3}};
	struct oh_comm *comm = ranks_comm(self, 0);
	uint8_t *at[4];

	for (size_t i = 0; comm && i < sizeof(orders) / sizeof(orders[0]);
	     i++) {
		for (int k = 0; k < 4; k++)
			at[k] = take(self, comm, HEAP_BYTES / 4);
		for (int k = 0; k < 4; k++)
			give(self, comm, at[orders[i][k]]);
		/* no room for this unless they are one piece */
		give(self, comm, take(self, comm, HEAP_BYTES));
	}
	oh_comm_destroy(comm);
}

/* A first piece that fits is used again, and the rest of it stays usable. */
static void reuse(struct ranks_self *self)
{
	struct oh_comm *comm = ranks_comm(self, 0);
	uint8_t *low, *hole, *high, *small, *next;

	if (!comm)
		return;
	low = take(self, comm, HEAP_BYTES / 4);
	hole = take(self, comm, HEAP_BYTES / 4);
	high = take(self, comm, HEAP_BYTES / 2);
	give(self, comm, hole);
	/* nothing else is free: both must come from the hole */
	small = take(self, comm, PAGE);
	next = take(self, comm, HEAP_BYTES / 4 - PAGE);
	ranks_check(self, small != next && small >= hole && next >= hole,
		    "the hole was not used");
	ranks_check(self, low[HEAP_BYTES / 4 - 1] == 0xa5 && high[0] == 0xa5,
		    "the neighbours of the hole have changed");
	give(self, comm, low);
	give(self, comm, small);
	give(self, comm, high);
	give(self, comm, next);
	oh_comm_destroy(comm);
}

/* Refused, with a message that has the word, and *pointer left alone. */
static void refuse_alloc(struct ranks_self *self, struct oh_comm *comm,
			 size_t bytes, const char *word)
{
	void *pointer = self;
	enum oh_status status = oh_comm_alloc(comm, bytes, &pointer);

	ranks_check(self, status == OH_ERR_NO_MEMORY, "%zu bytes: %s", bytes,
		    oh_status_name(status));
	ranks_check(self, pointer == self, "%zu bytes: *pointer was set",
		    bytes);
	ranks_check(self, strstr(oh_last_error()->message, word),
		    "%zu bytes: '%s' is not in: %s", bytes, word,
		    oh_last_error()->message);
}

static void exhaustion(struct ranks_self *self)
{
	struct oh_comm *comm = ranks_comm(self, 0);
	char left[32];
	uint8_t *all, *most;

	if (!comm)
		return;
	most = take(self, comm, HEAP_BYTES - 2 * PAGE);
	/* the message says how much is left */
	snprintf(left, sizeof(left), "%zu", 2 * PAGE);
	refuse_alloc(self, comm, 2 * PAGE + 1, left);
	refuse_alloc(self, comm, HEAP_BYTES, "ONEHOP_HEAP_BYTES");
	refuse_alloc(self, comm, SIZE_MAX, left);
	refuse_alloc(self, comm, SIZE_MAX - PAGE + 1, left);
	refuse_alloc(self, comm, SIZE_MAX - PAGE, left);
	refuse_alloc(self, comm, SIZE_MAX / 2, left);
	give(self, comm, take(self, comm, 2 * PAGE));
	give(self, comm, most);
	all = take(self, comm, HEAP_BYTES);
	refuse_alloc(self, comm, 0, "ONEHOP_HEAP_BYTES");
	refuse_alloc(self, comm, 1, "ONEHOP_HEAP_BYTES");
	give(self, comm, all);
	oh_comm_destroy(comm);
}

static void refuse_free(struct ranks_self *self, struct oh_comm *comm,
			void *pointer, const char *what)
{
	enum oh_status status = oh_comm_free(comm, pointer);

	ranks_check(self, status == OH_ERR_INVALID, "free of %s: %s", what,
		    oh_status_name(status));
}

static void foreign(struct ranks_self *self)
{
	struct oh_comm *comm = ranks_comm(self, 0);
	struct oh_comm *other = ranks_comm(self, 1);
	uint8_t *at, *theirs;

	if (!comm || !other)
		return;
	at = take(self, comm, 3 * PAGE);
	theirs = take(self, other, PAGE);
	refuse_free(self, comm, self, "a pointer to the stack");
	refuse_free(self, comm, at + 1, "a byte behind the pointer");
	refuse_free(self, comm, at + PAGE, "the second page");
	refuse_free(self, comm, at + HEAP_BYTES, "what is behind the heap");
	refuse_free(self, comm, at - PAGE, "what is before the heap");
	refuse_free(self, comm, theirs, "another communicator's");
	ranks_check(self, at[3 * PAGE - 1] == 0xa5, "it was freed");
	give(self, comm, at);
	refuse_free(self, comm, at, "what was freed before");
	give(self, other, theirs);
	oh_comm_destroy(comm);
	oh_comm_destroy(other);
}

/* Threads of one rank that allocate at once. */
struct worker {
	struct ranks_self *self;
	struct oh_comm *comm;
	pthread_t thread;
	uint64_t number;
};

static void *work(void *argument)
{
	struct worker *worker = argument;
	struct ranks_random random = {worker->self->seed + worker->number};
	int turns = ranks_quick() ? 30 : 300;

	for (int i = 0; i < turns; i++) {
		size_t bytes = 1 + ranks_below(&random, 20 * PAGE);
		uint8_t value = (uint8_t)(worker->number * 16 + 1);
		uint8_t *at = take(worker->self, worker->comm, bytes);

		if (!at)
			return NULL;
		memset(at, value, bytes);
		ranks_check(worker->self,
			    at[0] == value && !memcmp(at, at + 1, bytes - 1),
			    "another thread has the same memory");
		give(worker->self, worker->comm, at);
	}
	return NULL;
}

static void threads(struct ranks_self *self)
{
	struct oh_comm *comm = ranks_comm(self, 0);
	struct worker workers[6];
	int n = sizeof(workers) / sizeof(workers[0]);

	if (!comm)
		return;
	for (int i = 0; i < n; i++) {
		workers[i] =
			(struct worker){self, comm, 0, (uint64_t)(i * 8 + 1)};
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	for (int i = 0; i < n; i++)
		pthread_join(workers[i].thread, NULL);
	/* all of it came back */
	give(self, comm, take(self, comm, HEAP_BYTES));
	oh_comm_destroy(comm);
}

/* More than a round, times the ranks and the guards. */
#define LARGEST ((size_t)70000)
#define ROOM_BYTES (5 * (LARGEST + 64) + 3 * CALL_GUARD)

struct buffers {
	uint8_t *plain[2], *heap[2];
};

/* Each rank puts send and recv where it likes. */
static bool try_mixture(struct ranks_self *self, struct oh_comm *comm,
			const struct buffers *buffers, const struct call *call,
			struct ranks_random *own)
{
	uint64_t choice = ranks_random(own);
	uint8_t *send = choice & 1 ? buffers->heap[0] : buffers->plain[0];
	uint8_t *recv = choice & 2 ? buffers->heap[1] : buffers->plain[1];

	send += CALL_GUARD + (choice & 4 ? choice >> 8 & 63 : 0);
	recv += CALL_GUARD + (choice & 8 ? choice >> 16 & 63 : 0);
	return call_try(self, comm, call, send, recv);
}

static void mixtures(struct ranks_self *self)
{
	struct oh_comm *comm = ranks_comm(self, 0);
	struct ranks_random common = {self->seed};
	struct ranks_random own = {self->seed + 1 + (uint64_t)self->rank};
	int calls = ranks_quick() ? 100 : 2000;
	struct buffers buffers;
	bool fine = comm;

	for (int i = 0; i < 2 && fine; i++) {
		buffers.plain[i] = malloc(ROOM_BYTES);
		buffers.heap[i] = take(self, comm, ROOM_BYTES);
		fine = buffers.plain[i] && buffers.heap[i];
	}
	for (int i = 0; i < calls && fine; i++) {
		struct call call = call_random(&common, self->ranks, LARGEST);

		fine = try_mixture(self, comm, &buffers, &call, &own);
	}
	for (int i = 0; i < 2 && comm; i++)
		free(buffers.plain[i]);
	oh_comm_destroy(comm);
}

/*
 * The edges of the heap: the first byte, the last byte, all of it; and a
 * buffer that is reused as soon as the call has returned, although the others
 * read it where it is.
 */
static void edges(struct ranks_self *self)
{
	const size_t n = 10007;
	struct oh_comm *comm = ranks_comm(self, 0);
	uint8_t *heap = comm ? take(self, comm, HEAP_BYTES) : NULL;
	int turns = ranks_quick() ? 20 : 300;

	for (int turn = 0; heap && turn < turns; turn++) {
		uint8_t *send = heap, *recv = heap + HEAP_BYTES - n;
		struct call call = {
			.collective = (enum oh_collective)(turn % 4),
			.dtype = OH_U8,
			.op = (enum oh_op)(turn / 4 % OH_OP_COUNT),
			.root = turn % self->ranks,
			.count = n,
			.number = self->seed + (uint64_t)turn,
		};

		recv -= call_recv_bytes(&call, self->ranks) - n;
		call_values(&call, self->ranks, self->rank, 0,
			    call_send_bytes(&call, self->ranks), send);
		ranks_at(self, "turn %d", turn);
		if (!ranks_fine(self, call_make(comm, &call, send, recv),
				"a call at the edges of the heap"))
			break;
		/* what is not ours any more if the call came back too early */
		memset(send, 0xee, call_send_bytes(&call, self->ranks));
		ranks_check(self,
			    call_wrong(&call, self->ranks, self->rank, recv) ==
				    SIZE_MAX,
			    "turn %d: wrong", turn);
		memset(recv, 0xee, call_recv_bytes(&call, self->ranks));
	}
	oh_comm_destroy(comm);
}

static const struct ranks_case cases[] = {{"sizes", sizes},
					  {"coalescing", coalescing},
					  {"reuse", reuse},
					  {"exhaustion", exhaustion},
					  {"foreign", foreign},
					  {"threads", threads},
					  {"mixtures", mixtures},
					  {"edges", edges},
					  {0}};
#define FIRST_COLLECTIVE 6

int main(int argc, char **argv)
{
	char algorithm[32];

	/* refusals are expected here; what is not has its message noted */
	setenv("ONEHOP_LOG", "off", 0);
	setenv("ONEHOP_HEAP_BYTES", HEAP, 1);
	setenv("ONEHOP_SLOT_BYTES", SLOT, 1);
	ranks_main(argc, argv, cases);
	for (int i = 0; i < FIRST_COLLECTIVE; i++)
		ranks_threads(&cases[i], &(struct ranks_options){.ranks = 2});
	for (int a = 0;
	     call_choice("ONEHOP_ALGORITHM", a, algorithm, sizeof(algorithm));
	     a++) {
		setenv("ONEHOP_ALGORITHM", algorithm, 1);
		tap_note("ONEHOP_ALGORITHM=%s", algorithm);
		for (int i = FIRST_COLLECTIVE; cases[i].name; i++)
			for (int n = 1 + a; n <= 5; n += 2)
				ranks_threads(
					&cases[i],
					&(struct ranks_options){.ranks = n});
	}
	for (int i = FIRST_COLLECTIVE; cases[i].name; i++)
		ranks_processes(&cases[i], &(struct ranks_options){.ranks = 3});
	return tap_done();
}
