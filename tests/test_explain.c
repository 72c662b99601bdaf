/* SPDX-License-Identifier: MIT */
/*
 * oh_comm_explain and oh_comm_health: every field is filled and ended, what is
 * told is what runs (seen in the mailbox and in the number of rounds), what is
 * forced by a setting is told so, and a caller that knows fewer fields gets
 * those. Then the log: levels and the sink.
 */
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls.h"
#include "collective/communicator.h"

#define LARGEST (300 << 10)

static void explain(struct ranks_self *self, struct oh_comm *comm,
		    enum oh_collective collective, size_t bytes,
		    struct oh_route *route)
{
	/* what is not filled shows */
	memset(route, 0xff, sizeof(*route));
	route->size = sizeof(*route);
	route->memory = OH_MEMORY_HOST;
	ranks_fine(
		self,
		oh_comm_explain(comm, collective, bytes, OH_F32, OH_SUM, route),
		"oh_comm_explain");
}

static void check_text(struct ranks_self *self, const char *name,
		       const char *text, size_t room)
{
	size_t length = strnlen(text, room);
	bool printable = length > 0 && length < room;

	for (size_t i = 0; i < length; i++)
		printable &= text[i] >= ' ' && text[i] <= '~';
	ranks_check(self, printable, "%s is '%.*s'", name, (int)length, text);
}

#define CHECK_TEXT(self, text) check_text(self, #text, text, sizeof(text))

static void check_fields(struct ranks_self *self, const struct oh_route *route)
{
	CHECK_TEXT(self, route->algorithm);
	CHECK_TEXT(self, route->algorithm_direct);
	CHECK_TEXT(self, route->placement);
	CHECK_TEXT(self, route->stores);
	CHECK_TEXT(self, route->reducer);
	CHECK_TEXT(self, route->order);
	CHECK_TEXT(self, route->row);
	CHECK_TEXT(self, route->evidence);
	ranks_check(self, route->size == sizeof(*route), "size was changed");
	if (!ranks_check(self,
			 route->alternative_count >= 1 &&
				 route->alternative_count <=
					 OH_ROUTE_ALTERNATIVES,
			 "%u alternatives", route->alternative_count))
		return;
	for (uint32_t i = 0; i < route->alternative_count; i++) {
		CHECK_TEXT(self, route->alternatives[i].name);
		CHECK_TEXT(self, route->alternatives[i].reason);
		for (uint32_t k = 0; k < i; k++)
			ranks_check(self,
				    strcmp(route->alternatives[i].name,
					   route->alternatives[k].name),
				    "%s is there twice",
				    route->alternatives[i].name);
	}
}

static const size_t sizes[] = {0,     4,     1000,   2044,   2048,
			       2052,  4096,  8192,   8196,   65536,
			       65540, 98304, 131072, 262148, LARGEST};

/* Everything, also for sizes that no call here has. */
static void fields(struct ranks_self *self)
{
	const size_t n = sizeof(sizes) / sizeof(sizes[0]);
	struct oh_comm *comm = ranks_comm(self, 0);

	for (int c = 0; c < OH_COLLECTIVE_COUNT && comm; c++)
		for (size_t i = 0; i < n + 2; i++) {
			size_t bytes = i < n	? sizes[i]
				       : i == n ? SIZE_MAX - 3
						: (size_t)1 << 40;
			struct oh_route route;

			explain(self, comm, (enum oh_collective)c, bytes,
				&route);
			check_fields(self, &route);
			ranks_check(self, (route.rounds == 0) == (bytes == 0),
				    "%zu bytes take %llu rounds", bytes,
				    (unsigned long long)route.rounds);
		}
	oh_comm_destroy(comm);
}

static uint64_t calls_of(struct ranks_self *self, struct oh_comm *comm)
{
	struct oh_health health = {.size = sizeof(health)};

	ranks_fine(self, oh_comm_health(comm, &health), "oh_comm_health");
	ranks_check(self,
		    health.status == OH_OK && health.culprit == -1 &&
			    !health.lost_ranks,
		    "status %s, culprit %d, lost %x",
		    oh_status_name(health.status), health.culprit,
		    health.lost_ranks);
	return health.calls;
}

/* What a call has left in the own mailbox against what was told. */
static void compare(struct ranks_self *self, struct oh_comm *comm,
		    const struct call *call, bool heap,
		    const struct oh_route *route)
{
	struct oh__mailbox *m = &comm->mailbox;
	const struct oh__half *half = &m->own->half[m->call & 1];
	size_t bytes = call->count * oh_dtype_bytes(call->dtype);
	const struct oh__row *row =
		oh__table_find(&comm->table, call->collective, bytes);
	size_t last = (bytes - 1) % row->round_bytes + 1;
	const char *told = heap ? route->algorithm_direct : route->algorithm;
	bool reduced = atomic_load(&half->reduced.word) == m->want;
	bool direct = half->arrival.source != 0;
	bool told_direct = !strcmp(told, "direct");
	bool told_two = told_direct || !strcmp(told, "two-shot");
	bool sends =
		call->collective != OH_BROADCAST || self->rank == call->root;

	/* the mailbox shows the last round, which may be too short for that */
	if (heap && bytes > last && last < OH__DIRECT_FIRST)
		return;
	/* only two-shot has a second flag in an all-reduce */
	if (call->collective == OH_ALL_REDUCE)
		ranks_check(self, reduced == told_two,
			    "all-reduce of %zu elements, told %s, %s flag",
			    call->count, told,
			    reduced ? "second" : "no second");
	if (sends)
		ranks_check(self, direct == told_direct,
			    "%s of %zu elements, told %s, runs %s",
			    oh_collective_name(call->collective), call->count,
			    told, direct ? "directly" : "staged");
	ranks_check(self, !strcmp(route->reducer, comm->cpu.reducer->name),
		    "told %s, runs %s", route->reducer,
		    comm->cpu.reducer->name);
}

/* Every size on both kinds of memory. */
static void truth(struct ranks_self *self)
{
	struct oh_comm *comm = ranks_comm(self, 0);
	size_t room = (size_t)self->ranks * LARGEST + 3 * CALL_GUARD;
	uint8_t *plain = malloc(2 * room);
	void *heap = NULL;
	bool fine = comm && plain &&
		    ranks_fine(self, oh_comm_alloc(comm, 2 * room, &heap),
			       "oh_comm_alloc");
	uint64_t before = fine ? calls_of(self, comm) : 0;

	ranks_check(self, !before, "a new communicator has %llu calls",
		    (unsigned long long)before);
	for (size_t i = 1; i < 8 * sizeof(sizes) / sizeof(sizes[0]) && fine;
	     i++) {
		struct call call = {.collective = (enum oh_collective)(i % 4),
				    .dtype = OH_F32,
				    .count = sizes[i / 8] / 4,
				    .number = self->seed + i};
		bool in_heap = i % 8 >= 4;
		uint8_t *at = (in_heap ? (uint8_t *)heap : plain) + CALL_GUARD;
		struct oh_route route;

		explain(self, comm, call.collective, sizes[i / 8], &route);
		fine = call_try(self, comm, &call, at, at + room);
		ranks_check(
			self, calls_of(self, comm) - before == route.rounds,
			"%zu bytes: told %llu rounds, took %llu", sizes[i / 8],
			(unsigned long long)route.rounds,
			(unsigned long long)(calls_of(self, comm) - before));
		before += route.rounds;
		if (fine && call.count)
			compare(self, comm, &call, in_heap, &route);
		/* the mailbox is looked at before the next call writes it */
		ranks_barrier(self);
	}
	oh_comm_destroy(comm);
	free(plain);
}

/* What ONEHOP_ALGORITHM, _STORES and _ISA name is in use. */
static void forced(struct ranks_self *self)
{
	struct oh_comm *comm = ranks_comm(self, 0);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && comm; i++)
		for (int c = 0; c < OH_COLLECTIVE_COUNT; c++) {
			struct oh_route route;

			explain(self, comm, (enum oh_collective)c, sizes[i],
				&route);
			check_fields(self, &route);
			if (c == OH_ALL_REDUCE)
				ranks_check(self,
					    !strcmp(route.algorithm,
						    getenv("ONEHOP_ALGORITHM")),
					    "algorithm %s", route.algorithm);
			ranks_check(
				self,
				!strcmp(route.stores, getenv("ONEHOP_STORES")),
				"stores %s", route.stores);
			ranks_check(
				self,
				!strcmp(route.reducer, getenv("ONEHOP_ISA")),
				"reducer %s", route.reducer);
		}
	oh_comm_destroy(comm);
}

/* size bytes are written, and not one more. */
static void check_size(struct ranks_self *self, const char *what,
		       const uint8_t *got, const uint8_t *full, size_t size,
		       size_t room)
{
	size_t i = sizeof(size_t);

	ranks_check(self, !memcmp(got, &size, sizeof(size)),
		    "%s of size %zu: size was changed", what, size);
	while (i < size && got[i] == full[i])
		i++;
	ranks_check(self, i == size, "%s of size %zu: byte %zu is not filled",
		    what, size, i);
	for (i = size; i < room && got[i] == 0xee; i++)
		;
	ranks_check(self, i == room, "%s of size %zu: byte %zu was written",
		    what, size, i);
}

static void smaller(struct ranks_self *self)
{
	struct oh_comm *comm = ranks_comm(self, 0);
	struct oh_route full = {.size = sizeof(full)}, route;
	struct oh_health all = {.size = sizeof(all)}, health;
	enum oh_status status;

	if (!comm)
		return;
	oh_comm_explain(comm, OH_ALL_REDUCE, 4096, OH_F32, OH_SUM, &full);
	oh_comm_health(comm, &all);
	for (size_t size = 0; size <= sizeof(route) + 9; size += 3) {
		memset(&route, 0xee, sizeof(route));
		route.size = size;
		if (size >= offsetof(struct oh_route, peers))
			route.memory = OH_MEMORY_HOST;
		status = oh_comm_explain(comm, OH_ALL_REDUCE, 4096, OH_F32,
					 OH_SUM, &route);
		if (size < sizeof(size_t) || size > sizeof(route))
			ranks_check(self, status == OH_ERR_INVALID,
				    "route of size %zu: %s", size,
				    oh_status_name(status));
		else if (ranks_fine(self, status, "oh_comm_explain"))
			check_size(self, "route", (uint8_t *)&route,
				   (uint8_t *)&full, size, sizeof(route));
	}
	for (size_t size = 0; size <= sizeof(health) + 9; size++) {
		memset(&health, 0xee, sizeof(health));
		health.size = size;
		status = oh_comm_health(comm, &health);
		if (size < sizeof(size_t) || size > sizeof(health))
			ranks_check(self, status == OH_ERR_INVALID,
				    "health of size %zu: %s", size,
				    oh_status_name(status));
		else if (ranks_fine(self, status, "oh_comm_health"))
			check_size(self, "health", (uint8_t *)&health,
				   (uint8_t *)&all, size, sizeof(health));
	}
	/* where there are no pidfds a rank that has left looks lost */
	ranks_barrier(self);
	oh_comm_destroy(comm);
}

/* After oh_comm_abort on rank 0 all say so, and who it was. */
static void aborted(struct ranks_self *self)
{
	struct oh_comm *comm = ranks_comm(self, 0);
	struct oh_health health = {.size = sizeof(health)};
	int32_t x = 1, y;
	enum oh_status status;

	if (!comm)
		return;
	if (self->rank == 0)
		ranks_fine(self, oh_comm_abort(comm), "oh_comm_abort");
	for (int i = 0; i < 2; i++) {
		status = oh_all_reduce(comm, &x, &y, 1, OH_I32, OH_SUM, NULL);
		ranks_check(self, status == OH_ERR_ABORTED, "a call gives %s",
			    oh_status_name(status));
	}
	ranks_fine(self, oh_comm_health(comm, &health), "oh_comm_health");
	ranks_check(self, health.status == OH_ERR_ABORTED, "health is %s",
		    oh_status_name(health.status));
	ranks_check(self, health.culprit == 0, "culprit is %d", health.culprit);
	ranks_check(self, !health.lost_ranks, "lost ranks %x",
		    health.lost_ranks);
	ranks_barrier(self);
	oh_comm_destroy(comm);
}

static const struct ranks_case cases[] = {
	{"fields", fields},   {"truth", truth},	    {"forced", forced},
	{"smaller", smaller}, {"aborted", aborted}, {0}};

static void run_cases(void)
{
	for (int n = 1; n <= 3; n++) {
		struct ranks_options options = {.ranks = n};

		for (int i = 0; cases[i].name; i++)
			if (cases[i].run != forced)
				ranks_threads(&cases[i], &options);
	}
}

static void run_forced(void)
{
	struct ranks_options options = {.ranks = 2};
	char algorithm[32], stores[32], isa[32];

	/* the first value of each is auto */
	for (int a = 1;
	     call_choice("ONEHOP_ALGORITHM", a, algorithm, sizeof(algorithm));
	     a++)
		for (int s = 1;
		     call_choice("ONEHOP_STORES", s, stores, sizeof(stores));
		     s++) {
			int i = 1 + (a + s) % 3;

			if (!call_choice("ONEHOP_ISA", i, isa, sizeof(isa)))
				call_choice("ONEHOP_ISA", 1, isa, sizeof(isa));
			setenv("ONEHOP_ALGORITHM", algorithm, 1);
			setenv("ONEHOP_STORES", stores, 1);
			setenv("ONEHOP_ISA", isa, 1);
			ranks_threads(&cases[2], &options);
			ranks_threads(&cases[1], &options);
		}
	unsetenv("ONEHOP_ALGORITHM");
	unsetenv("ONEHOP_STORES");
	unsetenv("ONEHOP_ISA");
}

/* Which candidates a communicator tries, and why not the others. */
static void check_candidates(void)
{
	struct oh__table_options any = {.ranks = 2, .slot_bytes = 1 << 20};
	struct oh__table_options no_string = any;

	no_string.stores = 1 + OH__STORES_NON_TEMPORAL;
	tap_ok(!oh__candidate_refused(&no_string, 65536, OH__ONE_SHOT,
				      OH__STORES_NON_TEMPORAL) ||
		       !oh__stores_usable(OH__STORES_NON_TEMPORAL),
	       "non-temporal stores are tried where no others are");
	tap_ok(oh__candidate_refused(&no_string, 65536, OH__ONE_SHOT,
				     OH__STORES_VECTOR) != NULL,
	       "and those that are not allowed are not");
	tap_ok(!oh__candidate_refused(&any, 8192, OH__TWO_SHOT,
				      OH__STORES_VECTOR),
	       "vector stores are tried at 8 KiB");
	tap_ok(oh__candidate_refused(&any, 0, OH__TWO_SHOT,
				     OH__STORES_VECTOR) != NULL,
	       "not where nothing is");
	if (!oh__stores_usable(OH__STORES_STRING)) {
		tap_skip("beside string stores", "there are none");
		return;
	}
	for (unsigned bytes = 1024; bytes <= 1 << 20; bytes *= 4)
		tap_ok(strstr(oh__candidate_refused(&any, bytes, OH__ONE_SHOT,
						    OH__STORES_NON_TEMPORAL),
			      "beside string stores"),
		       "non-temporal ones not beside string stores, at %u",
		       bytes);
	tap_ok(oh__candidate_refused(&any, OH__ROBUST_FIRST, OH__ONE_SHOT,
				     OH__STORES_VECTOR) &&
		       !oh__candidate_refused(&any, OH__ROBUST_FIRST,
					      OH__ONE_SHOT, OH__STORES_STRING),
	       "string stores alone from 16 KiB on");
}

/* What the sink got. */
struct lines {
	int count[OH_LOG_DEBUG + 1];
	char last[768];
	char information[768]; /* the last line of */
	bool broken; /* a line end in a line */
};

static void sink(enum oh_log_level level, const char *line, void *context)
{
	struct lines *lines = context;

	lines->count[level]++;
	lines->broken |= strchr(line, '\n') != NULL;
	snprintf(lines->last, sizeof(lines->last), "%s", line);
	if (level == OH_LOG_INFO)
		snprintf(lines->information, sizeof(lines->information), "%s",
			 line);
}

/* One communicator of one rank and one error at this level. */
static struct lines log_at(enum oh_log_level level)
{
	struct oh_unique_id id;
	struct oh_comm_options options = {.size = sizeof(options), .ranks = 1};
	struct lines lines = {0};
	struct oh_comm *comm;

	oh_set_log(level, sink, &lines);
	oh_unique_id_create(&id);
	options.id = &id;
	if (oh_comm_create(&options, &comm) == OH_OK) {
		oh_comm_free(comm, &lines);
		oh_comm_destroy(comm);
	}
	oh_set_log(OH_LOG_OFF, NULL, NULL);
	return lines;
}

static void check_levels(void)
{
	for (int level = OH_LOG_OFF; level <= OH_LOG_DEBUG; level++) {
		struct lines lines = log_at((enum oh_log_level)level);
		bool quiet = true;

		for (int i = level + 1; i <= OH_LOG_DEBUG; i++)
			quiet &= !lines.count[i];
		tap_ok(quiet && !lines.broken,
		       "level %d: no line of a higher one, no line ends",
		       level);
		tap_ok(lines.count[OH_LOG_ERROR] == (level >= OH_LOG_ERROR),
		       "level %d: %d lines about an error", level,
		       lines.count[OH_LOG_ERROR]);
		tap_ok((lines.count[OH_LOG_INFO] > 0) == (level >= OH_LOG_INFO),
		       "level %d: %d lines of information", level,
		       lines.count[OH_LOG_INFO]);
		if (level == OH_LOG_ERROR)
			tap_ok(strstr(lines.last, "OH_ERR_INVALID"),
			       "the line: %s", lines.last);
		if (level == OH_LOG_INFO)
			tap_ok(strstr(lines.information,
				      "table not measured ("),
			       "the line: %s", lines.information);
	}
	tap_ok(log_at((enum oh_log_level)77).count[OH_LOG_INFO] > 0,
	       "a level beyond the last is the last");
}

/* Without a sink the lines go to stderr. */
static void check_stderr(void)
{
	int file = memfd_create("stderr", MFD_CLOEXEC), kept = dup(2);
	char text[1024] = "";

	dup2(file, 2);
	oh_set_log(OH_LOG_ERROR, NULL, NULL);
	oh_unique_id_create(NULL);
	fflush(stderr);
	dup2(kept, 2);
	close(kept);
	oh_set_log(OH_LOG_OFF, NULL, NULL);
	if (pread(file, text, sizeof(text) - 1, 0) < 0)
		*text = '\0';
	close(file);
	tap_ok(!strncmp(text, "onehop: error: ", 15) &&
		       strchr(text, '\n') == text + strlen(text) - 1,
	       "one line on stderr: %.*s", (int)strcspn(text, "\n"), text);
}

/* On GPU memory one rank has no way to another, and says so. */
static void check_alone(void)
{
	struct oh_unique_id id;
	struct oh_comm_options options = {
		.size = sizeof(options), .id = &id, .ranks = 1};
	struct oh_route route = {.size = sizeof(route),
				 .memory = OH_MEMORY_DEVICE};
	struct oh_comm *comm = NULL;

	oh_unique_id_create(&id);
	tap_ok(!oh_comm_create(&options, &comm) &&
		       !oh_comm_explain(comm, OH_ALL_REDUCE, 64, OH_BF16,
					OH_SUM, &route),
	       "one rank and GPU memory");
	oh_comm_destroy(comm);
	tap_ok(!strcmp(route.algorithm, "copy") && route.rounds == 1,
	       "%s in %llu round", route.algorithm,
	       (unsigned long long)route.rounds);
	tap_ok(!strcmp(route.placement, "self") && route.peer_count == 1 &&
		       !strcmp(route.peers[0].placement, "self"),
	       "it meets itself: '%s', %u peers", route.placement,
	       route.peer_count);
	tap_ok(strstr(route.peers[0].reason, "one rank: no other") &&
		       strstr(route.evidence, "one rank: no other"),
	       "why: %s; %s", route.peers[0].reason, route.evidence);
}

int main(int argc, char **argv)
{
	setenv("ONEHOP_LOG", "off", 0);
	setenv("ONEHOP_HEAP_BYTES", "4M", 1);
	setenv("ONEHOP_SLOT_BYTES", "64K", 1);
	ranks_main(argc, argv, cases);
	run_cases();
	setenv("ONEHOP_TUNE", "off", 1);
	/* the number of a communicator's calls does not depend on it */
	setenv("ONEHOP_FIRST_CALL", "1000", 1);
	tap_note("ONEHOP_TUNE=off ONEHOP_FIRST_CALL=1000");
	run_cases();
	run_forced();
	check_alone();
	check_candidates();
	check_levels();
	check_stderr();
	return tap_done();
}
