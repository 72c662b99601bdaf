/* SPDX-License-Identifier: MIT */
/*
 * Every collective, type, operation and root, on 1 to 8 and on 16 ranks, at
 * the sizes where the way of a call changes: what comes out must be exact.
 * Each run makes one communicator and many calls on it. The full cross product
 * is long; by default most of its calls are left out at random (the seed is
 * printed), but for the smallest and those at a boundary of the table.
 *
 *	--long	all of them
 *	--huge	one all-reduce of more than 2^32 elements, in place
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls.h"
#include "mailbox/segment.h"

#define COUNTS 160
#define SLOTS 3
/* more than the largest message of the default run; a part for each rank */
#define ROOM_BYTES (3 << 20)

struct counts {
	size_t count[COUNTS];
	int n;
};

/* The buffers of a rank, with guards. */
struct room {
	uint8_t *send, *recv;
};

/* "keep 40": one call in forty is made, and some small ones; 1: all. */
static unsigned keep_of(const struct ranks_self *self)
{
	return (unsigned)atoi(self->argument + strlen("keep "));
}

static void add(struct counts *counts, size_t count)
{
	for (int i = 0; i < counts->n; i++)
		if (counts->count[i] == count)
			return;
	if (counts->n < COUNTS)
		counts->count[counts->n++] = count;
}

/* The counts on both sides of a message of so many bytes. */
static void add_around(struct counts *counts, size_t bytes, size_t element)
{
	size_t count = bytes / element;

	if (count)
		add(counts, count - 1);
	add(counts, count);
	add(counts, count + 1);
}

static void explain(struct ranks_self *self, struct oh_comm *comm,
		    enum oh_collective collective, size_t bytes,
		    struct oh_route *route)
{
	memset(route, 0, sizeof(*route));
	route->size = sizeof(*route);
	ranks_fine(
		self,
		oh_comm_explain(comm, collective, bytes, OH_U8, OH_SUM, route),
		"oh_comm_explain");
}

/* The largest size up to limit that goes as first does, in as many rounds if
 * the table's row is the same everywhere. */
static size_t last_alike(struct ranks_self *self, struct oh_comm *comm,
			 enum oh_collective collective, size_t first,
			 size_t limit, bool rounds)
{
	struct oh_route want, route;
	size_t low = first, high = limit;

	explain(self, comm, collective, first, &want);
	while (low < high) {
		size_t middle = high - (high - low) / 2;

		explain(self, comm, collective, middle, &route);
		if (!strcmp(route.row, want.row) &&
		    (!rounds || route.rounds == want.rounds))
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* The ends of the rows of the table, and of one and of two rounds in each. */
static void add_boundaries(struct ranks_self *self, struct oh_comm *comm,
			   enum oh_collective collective, size_t element,
			   size_t limit, struct counts *counts)
{
	size_t first = 1;

	while (first < limit) {
		size_t row =
			last_alike(self, comm, collective, first, limit, false);
		size_t at = first;

		for (int i = 0; i < 3 && at <= row; i++) {
			at = last_alike(self, comm, collective, at, row, true);
			if (at < limit)
				add_around(counts, at, element);
			at++;
		}
		if (row < limit)
			add_around(counts, row, element);
		first = row + 1;
	}
}

static void make_counts(struct ranks_self *self, struct oh_comm *comm,
			enum oh_collective collective, size_t element,
			struct counts *counts)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const size_t limit = ROOM_BYTES / (size_t)self->ranks / 2;
	const size_t small[] = {0, 1, 2, 3, 5, 7, 17, 33, 101, 1001};
	const size_t edges[] = {OH__LINE, OH__LINE_PAIR, 512, page};

	counts->n = 0;
	for (size_t i = 0; i < sizeof(small) / sizeof(small[0]); i++)
		add(counts, small[i]);
	for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
		add_around(counts, edges[i], element);
		/* each rank's slice, and the slices of all ranks */
		add_around(counts, edges[i] * (size_t)self->ranks, element);
	}
	add_boundaries(self, comm, collective, element, limit, counts);
}

/* All ranks decide alike. */
static bool is_kept(const struct ranks_self *self, const struct call *call,
		    unsigned keep)
{
	if (call->count <= 2 && call->number % 4 == 0)
		return true;
	return ranks_mix(self->seed ^ call->number * 0x9e3779b97f4a7c15ull) %
		       keep ==
	       0;
}

/* Every operation or root of one count. */
static bool try_count(struct ranks_self *self, struct oh_comm *comm,
		      const struct room *room, struct call *call)
{
	unsigned keep = keep_of(self);
	int kinds = 1;

	if (call->collective == OH_BROADCAST)
		kinds = self->ranks;
	else if (call->collective != OH_ALL_GATHER)
		kinds = OH_OP_COUNT;
	/* long messages teach little that shorter ones do not */
	if (keep > 1 && call->count * oh_dtype_bytes(call->dtype) > 16384)
		keep *= 8;
	for (int kind = 0; kind < kinds; kind++) {
		if (call->collective == OH_BROADCAST)
			call->root = kind;
		else
			call->op = (enum oh_op)kind;
		for (int in_place = 0; in_place < 2; in_place++) {
			call->number++;
			call->in_place = in_place;
			if (!is_kept(self, call, keep))
				continue;
			if (!call_try(self, comm, call, room->send, room->recv))
				return false;
			self->words[0] += !self->rank;
		}
	}
	return true;
}

static bool try_all(struct ranks_self *self, struct oh_comm *comm,
		    const struct room *room)
{
	struct call call = {.number = self->seed % 1000003 * 1000000};
	struct counts counts;

	for (int c = 0; c < OH_COLLECTIVE_COUNT; c++)
		for (int d = 0; d < OH_DTYPE_COUNT; d++) {
			call.collective = (enum oh_collective)c;
			call.dtype = (enum oh_dtype)d;
			call.op = OH_SUM;
			call.root = 0;
			make_counts(self, comm, call.collective,
				    oh_dtype_bytes(call.dtype), &counts);
			ranks_check(self, counts.n < COUNTS,
				    "more counts than COUNTS");
			for (int i = 0; i < counts.n; i++) {
				call.count = counts.count[i];
				if (!try_count(self, comm, room, &call))
					return false;
			}
		}
	return true;
}

static void exact(struct ranks_self *self)
{
	struct oh_comm *comm = ranks_comm(self, 0);
	uint8_t *memory = malloc(2 * ROOM_BYTES);
	struct room room = {memory + CALL_GUARD,
			    memory + ROOM_BYTES + CALL_GUARD};

	if (comm && ranks_check(self, memory, "no memory"))
		try_all(self, comm, &room);
	oh_comm_destroy(comm);
	free(memory);
}

/*
 * The huge call: 5 GiB of u8, so that counts, offsets and the number of rounds
 * pass 2^32. Words of random bits are summed byte by byte.
 */
#define HUGE_BYTES ((size_t)5 << 30)

static uint64_t huge_word(int rank, size_t index)
{
	return ranks_mix(index * 16 + (uint64_t)rank + 1);
}

/* The sums of the bytes of two words, without carries between them. */
static uint64_t add_bytes(uint64_t x, uint64_t y)
{
	const uint64_t low = 0x7f7f7f7f7f7f7f7full;

	return ((x & low) + (y & low)) ^ ((x ^ y) & ~low);
}

static void huge(struct ranks_self *self)
{
	struct oh_comm *comm = ranks_comm(self, 0);
	uint64_t *words = mmap(NULL, HUGE_BYTES, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t wrong = SIZE_MAX;

	if (!comm || !ranks_check(self, words != MAP_FAILED, "no memory"))
		return;
	for (size_t i = 0; i < HUGE_BYTES / 8; i++)
		words[i] = huge_word(self->rank, i);
	ranks_at(self, "all_reduce of %zu bytes", HUGE_BYTES);
	ranks_fine(self,
		   oh_all_reduce(comm, words, words, HUGE_BYTES, OH_U8, OH_SUM,
				 NULL),
		   "all_reduce");
	for (size_t i = 0; i < HUGE_BYTES / 8 && wrong == SIZE_MAX; i++)
		if (words[i] != add_bytes(huge_word(0, i), huge_word(1, i)))
			wrong = i;
	ranks_check(self, wrong == SIZE_MAX, "the word at byte %zu is wrong",
		    wrong * 8);
	munmap(words, HUGE_BYTES);
	oh_comm_destroy(comm);
}

static const struct ranks_case cases[] = {
	{"exact", exact}, {"huge", huge}, {0}};

static size_t available_bytes(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	unsigned long long kib = 0;
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return (size_t)kib << 10;
}

static int run_huge(void)
{
	struct ranks_options options = {.ranks = 2, .deadline_s = 300};

	/* both ranks' buffers, the mailboxes, and something to spare */
	if (available_bytes() < 2 * HUGE_BYTES + ((size_t)1 << 30))
		tap_skip_all("less than 11 GiB of memory are available");
	ranks_processes(&cases[1], &options);
	return tap_done();
}

static uint64_t calls_made;

/* One run; keep as in is_kept. */
static void run(int ranks, const char *slot_bytes, unsigned keep, bool threads)
{
	struct ranks_options options = {.ranks = ranks, .deadline_s = 120};
	struct ranks_group *group;
	char argument[32], text[96];

	setenv("ONEHOP_SLOT_BYTES", slot_bytes, 1);
	snprintf(argument, sizeof(argument), "keep %u", keep);
	snprintf(text, sizeof(text), "%d %s, slots of %s", ranks,
		 threads ? "threads" : "processes", slot_bytes);
	options.argument = argument;
	options.text = text;
	if (keep == 1)
		options.deadline_s = 3600;
	group = threads ? ranks_run_threads(&cases[0], &options)
			: ranks_start(&cases[0], &options);
	ranks_wait(group);
	calls_made += ranks_words(group)[0];
	ranks_report(group);
}

int main(int argc, char **argv)
{
	/* the table's rows differ with the size of a slot */
	static const char *const slots[SLOTS] = {"4096", "16K", "64K"};
	static const int ranks[] = {1, 2, 3, 4, 5, 6, 7, 8, 16};
	bool all = argc > 1 && !strcmp(argv[1], "--long");
	bool quick = ranks_quick();

	/* valgrind has room for little address space */
	setenv("ONEHOP_HEAP_BYTES", "1M", 0);
	ranks_main(argc, argv, cases);
	if (argc > 1 && !strcmp(argv[1], "--huge"))
		return run_huge();
	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
		for (int s = 0; s < SLOTS; s++) {
			/* more ranks than cores take longer for each call */
			unsigned keep = 2 * (unsigned)ranks[i];

			if (ranks_sanitized())
				keep *= 4;
			if (quick && (s || (ranks[i] != 2 && ranks[i] != 5)))
				continue;
			if (all || quick)
				keep = all ? 1 : 400;
			run(ranks[i], slots[s], keep, true);
		}
	for (int n = 2; n <= 5 && !quick; n++)
		run(n, slots[n % SLOTS], all ? 1 : 4 * (unsigned)n, false);
	tap_note("%llu calls", (unsigned long long)calls_made);
	return tap_done();
}
