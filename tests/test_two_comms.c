/* SPDX-License-Identifier: MIT */
/*
 * Several communicators of the same ranks, or of some of them, or with another
 * numbering: used in turn by one thread, and at the same time, in opposite
 * order, by several. And one communicator used by several threads at once:
 * one gets in, the others are told.
 */
#include <pthread.h>
#include <string.h>

#include "calls.h"

#define LARGEST 20000 /* some rounds of a slot of 8192 */
#define ROOM_BYTES (5 * LARGEST + 3 * CALL_GUARD)

/* A communicator, and this rank as it is numbered in it. */
struct member {
	struct ranks_self self;
	struct oh_comm *comm;
	struct ranks_random common; /* the same on its ranks */
	uint8_t *send, *recv;
};

static bool join(struct ranks_self *self, int id, int rank, int ranks,
		 struct member *member)
{
	member->self = *self;
	member->self.rank = rank;
	member->self.ranks = ranks;
	member->common.state = self->seed + (uint64_t)id;
	member->comm = ranks_comm(&member->self, id);
	member->send = malloc(ROOM_BYTES);
	member->recv = malloc(ROOM_BYTES);
	return member->comm && member->send && member->recv;
}

static void leave(struct member *member)
{
	oh_comm_destroy(member->comm);
	free(member->send);
	free(member->recv);
}

static bool try_one(struct member *member)
{
	struct call call =
		call_random(&member->common, member->self.ranks, LARGEST);

	return call_try(&member->self, member->comm, &call,
			member->send + CALL_GUARD, member->recv + CALL_GUARD);
}

static int turns(int usual)
{
	return ranks_quick() ? usual / 10 : usual;
}

/* One thread, the communicators at random; the last has the ranks reversed. */
static void interleaved(struct ranks_self *self)
{
	struct ranks_random common = {self->seed};
	struct member members[4] = {0};
	bool fine = true;

	for (int k = 0; k < 4 && fine; k++)
		fine = join(self, k,
			    k < 3 ? self->rank : self->ranks - 1 - self->rank,
			    self->ranks, &members[k]);
	for (int i = 0; i < turns(1500) && fine; i++)
		fine = try_one(&members[ranks_below(&common, 4)]);
	for (int k = 0; k < 4; k++)
		leave(&members[k]);
}

/* All ranks; the lower and the upper ones; those of even and odd number. */
static void subgroups(struct ranks_self *self)
{
	struct ranks_random common = {self->seed};
	int half = self->ranks / 2;
	bool upper = self->rank >= half;
	struct member members[3] = {0};
	bool fine;

	fine = join(self, 0, self->rank, self->ranks, &members[0]) &&
	       join(self, 1 + upper, self->rank - (upper ? half : 0),
		    upper ? self->ranks - half : half, &members[1]) &&
	       join(self, 3 + self->rank % 2, self->rank / 2,
		    (self->ranks + 1 - self->rank % 2) / 2, &members[2]);
	for (int i = 0; i < turns(1500) && fine; i++)
		fine = try_one(&members[ranks_below(&common, 3)]);
	for (int k = 0; k < 3; k++)
		leave(&members[k]);
}

/*
 * A thread for each of two communicators. On even ranks the first issues its
 * i-th call only after the second has begun its own, on odd ranks the other
 * way round: if one call had to end for the other to begin, nothing would.
 */
struct issuer {
	struct member member;
	pthread_t thread;
	_Atomic uint64_t begun;
	_Atomic uint64_t *first; /* calls begun by the thread to wait for */
	bool fine;
};

static void *issue(void *argument)
{
	struct issuer *issuer = argument;
	uint64_t calls = (uint64_t)turns(1000);

	for (uint64_t i = 1; i <= calls && issuer->fine; i++) {
		while (issuer->first && atomic_load(issuer->first) < i)
			sched_yield();
		atomic_store(&issuer->begun, i);
		issuer->fine = try_one(&issuer->member);
	}
	/* the other one does not wait for what will not come */
	atomic_store(&issuer->begun, UINT64_MAX);
	return NULL;
}

static void opposite(struct ranks_self *self)
{
	struct issuer issuers[2] = {0};
	bool fine = true;

	for (int k = 0; k < 2 && fine; k++)
		issuers[k].fine = fine = join(self, k, self->rank, self->ranks,
					      &issuers[k].member);
	issuers[self->rank % 2].first = &issuers[!(self->rank % 2)].begun;
	for (int k = 0; k < 2 && fine; k++)
		pthread_create(&issuers[k].thread, NULL, issue, &issuers[k]);
	for (int k = 0; k < 2 && fine; k++)
		pthread_join(issuers[k].thread, NULL);
	for (int k = 0; k < 2; k++)
		leave(&issuers[k].member);
}

/* Communicators come and go, each in a thread of its own. */
static void *come_and_go(void *argument)
{
	struct member *place = argument, member = {0};
	bool fine = join(&place->self, (int)place->common.state,
			 place->self.rank, place->self.ranks, &member);

	for (int i = 0; i < 20 && fine; i++)
		fine = try_one(&member);
	leave(&member);
	return NULL;
}

static void creation(struct ranks_self *self)
{
	struct member places[RANKS_IDS];
	pthread_t threads[RANKS_IDS];

	for (int k = 0; k < RANKS_IDS; k++) {
		places[k] = (struct member){.self = *self};
		places[k].common.state = (uint64_t)k;
		pthread_create(&threads[k], NULL, come_and_go, &places[k]);
	}
	for (int k = 0; k < RANKS_IDS; k++)
		pthread_join(threads[k], NULL);
}

/* Threads of rank 0 that all make the same call at once. */
#define CALLERS 3
#define BUSY_WORD 0 /* how many were told so, in all turns */

struct caller {
	struct ranks_self *self;
	struct oh_comm *comm;
	struct call call;
	pthread_t thread;
	enum oh_status status;
	int32_t recv[4];
};

static void *call_once(void *argument)
{
	struct caller *caller = argument;
	int32_t send[4];

	call_values(&caller->call, caller->self->ranks, caller->self->rank, 0,
		    caller->call.count, send);
	caller->status =
		call_make(caller->comm, &caller->call, send, caller->recv);
	if (caller->status == OH_ERR_BUSY) {
		ranks_check(caller->self,
			    strstr(oh_last_error()->message, "call"),
			    "the message: %s", oh_last_error()->message);
		atomic_fetch_add(&caller->self->words[BUSY_WORD], 1);
	}
	return NULL;
}

/* While one is in: every collective is refused, all else works. */
static void try_beside(struct ranks_self *self, struct oh_comm *comm)
{
	struct oh_health health = {.size = sizeof(health)};
	struct oh_route route = {.size = sizeof(route)};
	struct call call = {.dtype = OH_I32, .count = 3};
	int32_t send[64], recv[64];
	enum oh_status status;

	for (int c = 0; c < OH_COLLECTIVE_COUNT; c++) {
		call.collective = (enum oh_collective)c;
		call.count = 3;
		status = call_make(comm, &call, send, recv);
		ranks_check(self, status == OH_ERR_BUSY, "%s beside it: %s",
			    oh_collective_name(call.collective),
			    oh_status_name(status));
		status = call_make(comm, &call, NULL, recv);
		ranks_check(self, status == OH_ERR_INVALID,
			    "%s of NULL beside it: %s",
			    oh_collective_name(call.collective),
			    oh_status_name(status));
		call.count = 0;
		ranks_fine(self, call_make(comm, &call, send, recv),
			   "count 0 beside it");
	}
	ranks_fine(self, oh_comm_health(comm, &health), "oh_comm_health");
	ranks_check(self, health.status == OH_OK, "health is %s",
		    oh_status_name(health.status));
	ranks_fine(self,
		   oh_comm_explain(comm, OH_ALL_REDUCE, 12, OH_I32, OH_SUM,
				   &route),
		   "oh_comm_explain");
}

static void call_all(struct ranks_self *self, struct oh_comm *comm,
		     const struct call *call, uint64_t turn)
{
	struct caller callers[CALLERS];
	int in = 0;

	for (int i = 0; i < CALLERS; i++) {
		callers[i] = (struct caller){.self = self, .comm = comm};
		callers[i].call = *call;
		pthread_create(&callers[i].thread, NULL, call_once,
			       &callers[i]);
	}
	/* all but one; that one cannot end before rank 1 comes */
	ranks_check(self,
		    ranks_await(&self->words[BUSY_WORD],
				(CALLERS - 1) * (turn + 1)),
		    "the others were not told");
	try_beside(self, comm);
	ranks_barrier(self);
	for (int i = 0; i < CALLERS; i++) {
		pthread_join(callers[i].thread, NULL);
		if (callers[i].status == OH_ERR_BUSY)
			continue;
		in++;
		ranks_fine(self, callers[i].status, "the call that got in");
		ranks_check(self,
			    call_wrong(call, self->ranks, self->rank,
				       (uint8_t *)callers[i].recv) == SIZE_MAX,
			    "its result is wrong");
	}
	ranks_check(self, in == 1, "%d calls got in", in);
}

static void busy(struct ranks_self *self)
{
	struct oh_comm *comm = ranks_comm(self, 0);
	struct call call = {.dtype = OH_I32, .count = 4};

	for (uint64_t turn = 0; comm && turn < (uint64_t)turns(50); turn++) {
		call.number = self->seed + turn;
		if (self->rank == 0) {
			call_all(self, comm, &call, turn);
		} else {
			struct caller caller = {.self = self, .comm = comm};

			caller.call = call;
			ranks_barrier(self);
			call_once(&caller);
			ranks_fine(self, caller.status, "rank 1's call");
		}
	}
	oh_comm_destroy(comm);
}

static const struct ranks_case cases[] = {{"interleaved", interleaved},
					  {"subgroups", subgroups},
					  {"opposite", opposite},
					  {"creation", creation},
					  {"busy", busy},
					  {0}};

int main(int argc, char **argv)
{
	/* being busy is logged as the error that it is */
	setenv("ONEHOP_LOG", "off", 0);
	setenv("ONEHOP_HEAP_BYTES", "1M", 0);
	setenv("ONEHOP_SLOT_BYTES", "8192", 1);
	ranks_main(argc, argv, cases);
	for (int i = 0; cases[i].name; i++)
		for (int n = 2; n <= 4; n++) {
			struct ranks_options options = {.ranks = n};

			/* barriers of two */
			if (cases[i].run == busy && n > 2)
				continue;
			ranks_threads(&cases[i], &options);
			if (n < 4)
				ranks_processes(&cases[i], &options);
		}
	return tap_done();
}
