/* SPDX-License-Identifier: MIT */
/*
 * Buffers at every offset of a line, for every type and collective, also where
 * the offset is no multiple of the element: the result is right, the bytes
 * around both buffers stay as they were, and so does send. Then buffers whose
 * first or last byte borders on a page that cannot be read: a load or store
 * beyond them ends the process.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls.h"

/* The largest message here is 3 elements of 8 bytes beyond a slot, times the
 * ranks, and the guards. */
#define SLOT "4096"
#define RANKS 3
#define LARGEST (4096 + 24)
#define ROOM_BYTES ((RANKS * LARGEST + 3 * CALL_GUARD + 4095) & ~4095)

/* Some elements; more than the widest vectors take at once; more than a round,
 * the last one a bit. */
static size_t count_of(int k, size_t element)
{
	const size_t counts[] = {1, 3, 200 / element + 1, LARGEST / element};

	return counts[k];
}

#define COUNTS 4

static bool try_offsets(struct ranks_self *self, struct oh_comm *comm,
			uint8_t *send, uint8_t *recv, struct call *call)
{
	int step = ranks_quick() ? 13 : 3;
	/* the types and operations share the offsets out */
	int first = 1 + (int)(call->dtype + call->op) % step;

	for (int offset = first; offset < 64; offset += step) {
		/* another one for recv; 37 is odd, so all of them come */
		int other = (offset * 37 + self->rank * 5) % 64;

		call->number++;
		call->count =
			count_of((offset + call->dtype + call->op) % COUNTS,
				 oh_dtype_bytes(call->dtype));
		call->in_place = call->number % 3 == 0;
		call->root = (int)(call->number % RANKS);
		if (!call_try(self, comm, call, send + CALL_GUARD + offset,
			      recv + CALL_GUARD + other))
			return false;
	}
	return true;
}

static void offsets(struct ranks_self *self)
{
	struct oh_comm *comm = ranks_comm(self, 0);
	struct call call = {.number = self->seed % 1000003 * 1000000};
	uint8_t *send = aligned_alloc(4096, ROOM_BYTES);
	uint8_t *recv = aligned_alloc(4096, ROOM_BYTES);
	bool fine = comm && send && recv;

	ranks_check(self, send && recv, "no memory");
	for (int c = 0; c < OH_COLLECTIVE_COUNT; c++)
		for (int d = 0; d < OH_DTYPE_COUNT; d++)
			for (int op = 0; op < OH_OP_COUNT && fine; op++) {
				/* operations are nothing to the others */
				if (op && c != OH_ALL_REDUCE &&
				    c != OH_REDUCE_SCATTER)
					break;
				call.collective = (enum oh_collective)c;
				call.dtype = (enum oh_dtype)d;
				call.op = (enum oh_op)op;
				fine = try_offsets(self, comm, send, recv,
						   &call);
			}
	oh_comm_destroy(comm);
	free(send);
	free(recv);
}

/* Pages between two that cannot be touched. */
static uint8_t *make_fenced(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *at = mmap(NULL, bytes + 2 * page, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED ||
	    mprotect(at + page, bytes, PROT_READ | PROT_WRITE))
		return NULL;
	return at + page;
}

/* Both buffers at the front or at the end of their pages. */
static bool try_fenced(struct ranks_self *self, struct oh_comm *comm,
		       const struct call *call, uint8_t *rooms[2], bool front)
{
	size_t send_bytes = call_send_bytes(call, self->ranks);
	size_t recv_bytes = call_recv_bytes(call, self->ranks);
	uint8_t *send = front ? rooms[0] : rooms[0] + ROOM_BYTES - send_bytes;
	uint8_t *recv = front ? rooms[1] : rooms[1] + ROOM_BYTES - recv_bytes;
	char text[128];
	size_t wrong;

	call_text(call, text, sizeof(text));
	ranks_at(self, "fenced %s", text);
	call_values(call, self->ranks, self->rank, 0,
		    send_bytes / oh_dtype_bytes(call->dtype), send);
	memset(recv, 0x5a, recv_bytes);
	if (!ranks_fine(self, call_make(comm, call, send, recv), text))
		return false;
	wrong = call_wrong(call, self->ranks, self->rank, recv);
	ranks_check(self, wrong == SIZE_MAX, "fenced %s: element %zu is wrong",
		    text, wrong);
	return true;
}

static void fenced(struct ranks_self *self)
{
	struct oh_comm *comm = ranks_comm(self, 0);
	struct call call = {.number = self->seed % 1000003 * 1000000};
	uint8_t *rooms[2] = {make_fenced(ROOM_BYTES), make_fenced(ROOM_BYTES)};
	int all = OH_COLLECTIVE_COUNT * OH_DTYPE_COUNT * OH_OP_COUNT * COUNTS;
	bool fine = comm && rooms[0] && rooms[1];

	ranks_check(self, rooms[0] && rooms[1], "no memory");
	for (int i = 0; i < all && fine; i += ranks_quick() ? 7 : 1) {
		int k = i;

		call.number++;
		call.root = (int)(call.number % RANKS);
		call.collective = (enum oh_collective)(k % OH_COLLECTIVE_COUNT);
		k /= OH_COLLECTIVE_COUNT;
		call.dtype = (enum oh_dtype)(k % OH_DTYPE_COUNT);
		k /= OH_DTYPE_COUNT;
		call.op = (enum oh_op)(k % OH_OP_COUNT);
		k /= OH_OP_COUNT;
		call.count = count_of(k, oh_dtype_bytes(call.dtype));
		fine = try_fenced(self, comm, &call, rooms, true) &&
		       try_fenced(self, comm, &call, rooms, false);
	}
	oh_comm_destroy(comm);
}

static const struct ranks_case cases[] = {
	{"offsets", offsets}, {"fenced", fenced}, {0}};

/* Both cases with one way to store and one algorithm. */
static void run(const char *stores, const char *algorithm)
{
	struct ranks_options options = {.ranks = RANKS};
	char text[128];

	setenv("ONEHOP_STORES", stores, 1);
	setenv("ONEHOP_ALGORITHM", algorithm, 1);
	options.text = text;
	for (int i = 0; cases[i].name; i++) {
		snprintf(text, sizeof(text), "%s, stores %s, algorithm %s",
			 cases[i].name, stores, algorithm);
		ranks_threads(&cases[i], &options);
	}
}

int main(int argc, char **argv)
{
	char stores[32], algorithm[32], isa[32];

	setenv("ONEHOP_HEAP_BYTES", "1M", 0);
	setenv("ONEHOP_SLOT_BYTES", SLOT, 1);
	ranks_main(argc, argv, cases);
	for (int s = 0; call_choice("ONEHOP_STORES", s, stores, sizeof(stores));
	     s++)
		for (int a = 0; call_choice("ONEHOP_ALGORITHM", a, algorithm,
					    sizeof(algorithm));
		     a++)
			/* auto alone teaches nothing that the others do not */
			if (strcmp(stores, "auto") && strcmp(algorithm, "auto"))
				run(stores, algorithm);
	/* the best one has been in use so far */
	for (int i = 1; call_choice("ONEHOP_ISA", i, isa, sizeof(isa)); i++) {
		setenv("ONEHOP_ISA", isa, 1);
		tap_note("ONEHOP_ISA=%s", isa);
		run("auto", "auto");
	}
	return tap_done();
}
