/* SPDX-License-Identifier: MIT */
/*
 * Every public function with arguments that are wrong: OH_ERR_INVALID, a
 * message that names the argument, outputs that stay as they were, and a
 * communicator that works as before. And with arguments that look wrong but
 * are not: NULL where nothing is read, count 0, buffers that touch.
 */
#include <string.h>
#include <unistd.h>

#include "calls.h"

#define COUNT 8

/* A communicator, and memory for all calls here. */
struct subject {
	struct ranks_self *self;
	struct oh_comm *comm;
	int32_t *memory; /* zero; 4 * COUNT * ranks elements */
};

/* The last failure was of this kind and names this. */
static void refused(struct subject *subject, enum oh_status status,
		    const char *what, const char *word)
{
	const struct oh_error *error = oh_last_error();

	ranks_check(subject->self, status == OH_ERR_INVALID, "%s: %s", what,
		    oh_status_name(status));
	ranks_check(subject->self, error->status == status,
		    "%s: oh_last_error has %s", what,
		    oh_status_name(error->status));
	ranks_check(subject->self, strstr(error->message, word),
		    "%s: '%s' is not in: %s", what, word, error->message);
	ranks_check(subject->self,
		    error->line > 0 && strstr(error->file, ".c") &&
			    error->call && !error->code && !*error->code_name,
		    "%s: %s:%d, call '%s', code %d '%s'", what, error->file,
		    error->line, error->call, error->code, error->code_name);
}

static void check_works(struct subject *subject, const char *after)
{
	struct ranks_self *self = subject->self;
	int32_t x = 1 + self->rank, y = 0;
	int ranks = self->ranks;

	ranks_fine(
		self,
		oh_all_reduce(subject->comm, &x, &y, 1, OH_I32, OH_SUM, NULL),
		after);
	ranks_check(self, y == ranks * (ranks + 1) / 2, "%s: the sum is %d",
		    after, y);
}

/* One call of every kind with something wrong in it. */
struct wrong {
	const char *what, *word;
	bool no_comm, no_send, no_recv;
	enum oh_dtype dtype;
	enum oh_op op;
	int root;
	size_t count;
	void *stream;
};

/* Only where the collective has the argument. */
static bool concerns(const struct subject *subject, const struct wrong *wrong,
		     enum oh_collective collective)
{
	bool reduces =
		collective == OH_ALL_REDUCE || collective == OH_REDUCE_SCATTER;
	bool broadcast = collective == OH_BROADCAST;

	if (!strcmp(wrong->word, "op"))
		return reduces;
	if (!strcmp(wrong->word, "root"))
		return broadcast;
	/* the default root is 0 */
	if (wrong->no_send)
		return !broadcast || subject->self->rank == 0;
	return true;
}

static void try_wrong(struct subject *subject, const struct wrong *wrong)
{
	for (int c = 0; c < OH_COLLECTIVE_COUNT; c++) {
		struct call call = {.collective = (enum oh_collective)c,
				    .dtype = wrong->dtype,
				    .op = wrong->op,
				    .root = wrong->root,
				    .count = wrong->count};
		struct oh_comm *comm = wrong->no_comm ? NULL : subject->comm;
		const void *send = wrong->no_send ? NULL : subject->memory;
		void *recv = wrong->no_recv ? NULL
					    : subject->memory +
						      2 * COUNT * OH_MAX_RANKS;
		enum oh_status status;
		char what[96];

		if (!concerns(subject, wrong, call.collective))
			continue;
		snprintf(what, sizeof(what), "%s of %s",
			 oh_collective_name(call.collective), wrong->what);
		status = wrong->stream ? oh_all_reduce(comm, send, recv,
						       call.count, call.dtype,
						       call.op, wrong->stream)
				       : call_make(comm, &call, send, recv);
		refused(subject, status, what, wrong->word);
	}
	check_works(subject, wrong->what);
}

static void collectives(struct subject *subject)
{
	const enum oh_dtype no_type = (enum oh_dtype)OH_DTYPE_COUNT;
	const enum oh_dtype odd_type = (enum oh_dtype) - 1;
	const enum oh_op no_op = (enum oh_op)OH_OP_COUNT;
	const enum oh_op odd_op = (enum oh_op)0x70000000;
	const struct wrong wrongs[] = {
		{"no communicator", "comm", .no_comm = true, .count = COUNT},
		{"no send", "send", .no_send = true, .count = COUNT},
		{"no recv", "recv", .no_recv = true, .count = COUNT},
		{"no such type", "dtype", .dtype = no_type, .count = COUNT},
		{"an odd type", "dtype", .dtype = odd_type, .count = COUNT},
		{"no such type, count 0", "dtype", .dtype = no_type},
		{"no such op", "op", .op = no_op, .count = COUNT},
		{"an odd op", "op", .op = odd_op, .count = COUNT},
		{"root -1", "root", .root = -1, .count = COUNT},
		{"root beyond", "root", .root = subject->self->ranks,
		 .count = COUNT},
		{"a huge count", "count", .dtype = OH_F64,
		 .count = SIZE_MAX / 8 + 1},
		{"the hugest count", "count", .dtype = OH_F16,
		 .count = SIZE_MAX},
		{"more than an object can have", "count", .dtype = OH_U8,
		 .count = PTRDIFF_MAX / (size_t)subject->self->ranks + 1},
		{"a stream", "stream", .count = COUNT, .stream = subject},
	};

	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++)
		try_wrong(subject, &wrongs[i]);
}

/* Buffers at these distances, in elements: send - recv. */
static void try_overlap(struct subject *subject, enum oh_collective collective,
			long distance, bool valid)
{
	struct ranks_self *self = subject->self;
	struct call call = {.collective = collective,
			    .dtype = OH_I32,
			    .root = 0,
			    .count = COUNT};
	/* far enough from both ends of the memory */
	int32_t *recv = subject->memory + 2 * COUNT * self->ranks;
	bool sends = collective != OH_BROADCAST || self->rank == 0;
	enum oh_status status;
	char what[96];

	snprintf(what, sizeof(what), "%s with send at recv %+ld",
		 oh_collective_name(collective), distance);
	if (valid) {
		ranks_fine(
			self,
			call_make(subject->comm, &call, recv + distance, recv),
			what);
		return;
	}
	/* what is not sent may overlap; here it must not run alone */
	if (!sends)
		return;
	status = call_make(subject->comm, &call, recv + distance, recv);
	refused(subject, status, what, "overlap");
}

static void overlaps(struct subject *subject)
{
	int ranks = subject->self->ranks, rank = subject->self->rank;
	long n = COUNT, all = n * ranks, own = n * rank;

	for (int c = 0; c < OH_COLLECTIVE_COUNT; c++) {
		bool scatter = c == OH_REDUCE_SCATTER;
		bool gather = c == OH_ALL_GATHER;
		/* in elements: send from d to d + from, recv from 0 to to */
		long from = scatter ? all : n, to = gather ? all : n;
		long in_place = scatter ? -own : gather ? own : 0;

		for (long d = 1 - from; d < to; d++)
			if (d != in_place)
				try_overlap(subject, (enum oh_collective)c, d,
					    false);
		try_overlap(subject, (enum oh_collective)c, in_place, true);
		/* they touch, on either side */
		try_overlap(subject, (enum oh_collective)c, -from, true);
		try_overlap(subject, (enum oh_collective)c, to, true);
	}
	check_works(subject, "after overlaps");
}

/* As large as an object may be: the place that would be in place is before all
 * addresses, or behind them. */
static void huge_overlaps(struct subject *subject)
{
	size_t ranks = (size_t)subject->self->ranks;
	const enum oh_collective made[] = {OH_REDUCE_SCATTER, OH_ALL_GATHER};

	for (int i = 0; i < 2; i++) {
		struct call call = {.collective = made[i],
				    .dtype = OH_I32,
				    .count = PTRDIFF_MAX / 4 / ranks};

		refused(subject,
			call_make(subject->comm, &call, subject->memory,
				  subject->memory + COUNT),
			oh_collective_name(made[i]), "overlap");
	}
	check_works(subject, "after huge overlaps");
}

/* All that a call does not need. */
static void allowed(struct subject *subject)
{
	struct ranks_self *self = subject->self;
	struct oh_comm *comm = subject->comm;
	int32_t *memory = subject->memory;

	for (int c = 0; c < OH_COLLECTIVE_COUNT; c++) {
		struct call call = {.collective = (enum oh_collective)c};

		ranks_fine(self, call_make(comm, &call, NULL, NULL),
			   "count 0 and no buffers");
		/* nobody waits for anybody: one rank may do it alone */
		for (int i = 0; i < self->rank * 3; i++)
			ranks_fine(self, call_make(comm, &call, memory, memory),
				   "count 0 on one rank");
	}
	ranks_fine(self,
		   oh_broadcast(comm, self->rank ? NULL : memory,
				memory + COUNT, COUNT, OH_I32, 0, NULL),
		   "a broadcast with no send but the root's");
	ranks_fine(self,
		   oh_broadcast(comm, self->rank ? memory + 1 : memory,
				self->rank ? memory : memory + COUNT, COUNT,
				OH_I32, 0, NULL),
		   "a broadcast whose send, not read, overlaps");
	ranks_fine(self, oh_comm_free(comm, NULL), "free of NULL");
	oh_comm_destroy(NULL);
	ranks_check(self,
		    oh_comm_rank(comm) == self->rank &&
			    oh_comm_ranks(comm) == self->ranks,
		    "rank %d of %d", oh_comm_rank(comm), oh_comm_ranks(comm));
	ranks_check(self, oh_comm_rank(NULL) == -1 && oh_comm_ranks(NULL) == -1,
		    "rank %d of %d of NULL", oh_comm_rank(NULL),
		    oh_comm_ranks(NULL));
}

static void others(struct subject *subject)
{
	struct oh_comm *comm = subject->comm;
	struct oh_route route = {.size = sizeof(route)};
	struct oh_health health = {.size = sizeof(health)};
	void *pointer = subject;

	refused(subject, oh_unique_id_create(NULL), "no id", "id");
	refused(subject, oh_comm_abort(NULL), "abort", "comm");
	refused(subject, oh_comm_health(NULL, &health), "health", "comm");
	refused(subject, oh_comm_health(comm, NULL), "health", "health");
	health.size = 7;
	refused(subject, oh_comm_health(comm, &health), "health", "size");
	refused(subject, oh_comm_alloc(NULL, 1, &pointer), "alloc", "comm");
	refused(subject, oh_comm_alloc(comm, 1, NULL), "alloc", "pointer");
	ranks_check(subject->self, pointer == subject, "pointer was set");
	refused(subject, oh_comm_free(NULL, NULL), "free", "comm");
	refused(subject, oh_comm_free(comm, subject), "free", "oh_comm_alloc");
	refused(subject,
		oh_comm_explain(NULL, OH_ALL_REDUCE, 4, OH_F32, OH_SUM, &route),
		"explain", "comm");
	refused(subject,
		oh_comm_explain(comm, OH_ALL_REDUCE, 4, OH_F32, OH_SUM, NULL),
		"explain", "route");
	refused(subject,
		oh_comm_explain(comm, (enum oh_collective)4, 4, OH_F32, OH_SUM,
				&route),
		"explain", "collective");
	refused(subject,
		oh_comm_explain(comm, OH_ALL_REDUCE, 4, (enum oh_dtype)10,
				OH_SUM, &route),
		"explain", "dtype");
	refused(subject,
		oh_comm_explain(comm, OH_REDUCE_SCATTER, 4, OH_F32,
				(enum oh_op)5, &route),
		"explain", "op");
	refused(subject,
		oh_comm_explain(comm, OH_ALL_REDUCE, 6, OH_F32, OH_SUM, &route),
		"explain", "bytes");
	/* ignored where there is none */
	ranks_fine(subject->self,
		   oh_comm_explain(comm, OH_BROADCAST, 4, OH_F32, (enum oh_op)5,
				   &route),
		   "explain");
	route.size = sizeof(route) + 1;
	refused(subject,
		oh_comm_explain(comm, OH_ALL_REDUCE, 4, OH_F32, OH_SUM, &route),
		"explain", "size");
}

/* What oh_comm_create is given, and does not like. */
static void refuse_create(struct subject *subject,
			  const struct oh_comm_options *options,
			  const char *what, const char *word)
{
	struct oh_comm *comm = subject->comm;

	refused(subject, oh_comm_create(options, &comm), what, word);
	ranks_check(subject->self, comm == subject->comm, "%s: *comm was set",
		    what);
}

static void creation(struct subject *subject)
{
	const struct oh_unique_id *id = &subject->self->ids[1];
	struct oh_unique_id damaged = *id, zero = {{0}};
	struct oh_comm_options good = {
		.size = sizeof(good), .id = id, .rank = 0, .ranks = 2};
	struct oh_comm_options options = good;

	refused(subject, oh_comm_create(&good, NULL), "create", "comm");
	options.size = 0;
	refuse_create(subject, &options, "size 0", "size");
	options.size = sizeof(size_t);
	refuse_create(subject, &options, "a size without an id", "size");
	options = good;
	options.ranks = 0;
	refuse_create(subject, &options, "0 ranks", "ranks");
	options.ranks = -1;
	refuse_create(subject, &options, "-1 ranks", "ranks");
	options.ranks = OH_MAX_RANKS + 1;
	refuse_create(subject, &options, "17 ranks", "ranks");
	options = good;
	options.rank = -1;
	refuse_create(subject, &options, "rank -1", "rank");
	options.rank = 2;
	refuse_create(subject, &options, "rank 2 of 2", "rank");
	options = good;
	options.id = &zero;
	refuse_create(subject, &options, "an id of zeros", "id");
	damaged.bytes[20] ^= 1;
	options.id = &damaged;
	refuse_create(subject, &options, "a damaged id", "id");
}

static void arguments(struct ranks_self *self)
{
	struct subject subject = {self, ranks_comm(self, 0), NULL};

	subject.memory = calloc(4 * COUNT * OH_MAX_RANKS, sizeof(int32_t));
	if (subject.comm && ranks_check(self, subject.memory, "no memory")) {
		collectives(&subject);
		overlaps(&subject);
		huge_overlaps(&subject);
		allowed(&subject);
		others(&subject);
		creation(&subject);
		check_works(&subject, "at the end");
	}
	oh_comm_destroy(subject.comm);
	free(subject.memory);
}

/* A caller that was built when there were no timeouts, and one that was built
 * when there will be more. */
static void sizes(struct ranks_self *self)
{
	struct {
		struct oh_comm_options options;
		char more[64];
	} larger = {.options = {.size = sizeof(larger),
				.id = &self->ids[0],
				.rank = self->rank,
				.ranks = self->ranks}};
	struct oh_comm_options smaller = {
		.size = offsetof(struct oh_comm_options, rendezvous_timeout_ms),
		.id = &self->ids[1],
		.rank = self->rank,
		.ranks = self->ranks,
		/* not read: a rank would not come in so short a time */
		.rendezvous_timeout_ms = 1,
		.call_timeout_ms = 1,
	};
	/* ends within a field: three bytes of it would be 1 ms, or on another
	 * machine 0x010000 */
	struct oh_comm_options odd = {
		.size = offsetof(struct oh_comm_options,
				 rendezvous_timeout_ms) +
			3,
		.id = &self->ids[2],
		.rank = self->rank,
		.ranks = self->ranks,
		.rendezvous_timeout_ms = 0x01000001,
	};
	const struct oh_comm_options *all[] = {&larger.options, &smaller, &odd};

	for (int i = 0; i < 3; i++) {
		struct subject subject = {self, NULL, NULL};

		if (i && self->rank)
			usleep(20000);
		if (!ranks_fine(self, oh_comm_create(all[i], &subject.comm),
				"oh_comm_create"))
			return;
		check_works(&subject, "the communicator");
		oh_comm_destroy(subject.comm);
	}
}

static const struct ranks_case cases[] = {
	{"arguments", arguments}, {"sizes", sizes}, {0}};

/* Names and texts: one for every value, "unknown" for any other. */
static void check_texts(void)
{
	char version[32];
	bool all = true;

	for (int i = 0; i <= OH_ERR_BUSY; i++) {
		enum oh_status status = (enum oh_status)i;

		all &= !strncmp(oh_status_name(status), "OH_", 3) &&
		       strlen(oh_status_text(status)) > 4 &&
		       strlen(oh_status_remedy(status)) > 4;
		for (int k = 0; k < i; k++)
			all &= strcmp(oh_status_name(status),
				      oh_status_name((enum oh_status)k)) != 0;
	}
	tap_ok(all, "every status has a name, a text and a remedy");
	all = true;
	for (int i = 0; i < OH_DTYPE_COUNT; i++)
		all &= oh_dtype_bytes((enum oh_dtype)i) > 0 &&
		       strcmp(oh_dtype_name((enum oh_dtype)i), "unknown");
	for (int i = 0; i < OH_OP_COUNT; i++)
		all &= !!strcmp(oh_op_name((enum oh_op)i), "unknown");
	for (int i = 0; i < OH_COLLECTIVE_COUNT; i++)
		all &= !!strcmp(oh_collective_name((enum oh_collective)i),
				"unknown");
	tap_ok(all, "every type, operation and collective has a name");
	for (int i = -1; i < 100; i += 100)
		tap_ok(!strcmp(oh_status_name((enum oh_status)i), "unknown") &&
			       !strcmp(oh_status_text((enum oh_status)i),
				       "unknown") &&
			       !strcmp(oh_status_remedy((enum oh_status)i),
				       "unknown") &&
			       !strcmp(oh_dtype_name((enum oh_dtype)i),
				       "unknown") &&
			       !strcmp(oh_op_name((enum oh_op)i), "unknown") &&
			       !strcmp(oh_collective_name(
					       (enum oh_collective)i),
				       "unknown") &&
			       !oh_dtype_bytes((enum oh_dtype)i),
		       "%d is unknown everywhere", i);
	snprintf(version, sizeof(version), "%d.%d.%d", OH_VERSION_MAJOR,
		 OH_VERSION_MINOR, OH_VERSION_PATCH);
	tap_ok(!strcmp(oh_version(), version), "the version is %s",
	       oh_version());
}

/* Nothing has failed in a new thread; this one is it. */
static void check_no_error(void)
{
	const struct oh_error *error = oh_last_error();

	tap_ok(error && error->status == OH_OK && error->call &&
		       error->code_name && error->file && !*error->message,
	       "a thread begins without an error");
}

int main(int argc, char **argv)
{
	/* what is refused here is also logged */
	setenv("ONEHOP_LOG", "off", 0);
	setenv("ONEHOP_HEAP_BYTES", "1M", 0);
	ranks_main(argc, argv, cases);
	check_no_error();
	check_texts();
	for (int n = 1; n <= 3; n++) {
		ranks_threads(&cases[0], &(struct ranks_options){.ranks = n});
		ranks_threads(&cases[1], &(struct ranks_options){.ranks = n});
	}
	ranks_processes(&cases[0], &(struct ranks_options){.ranks = 3});
	return tap_done();
}
