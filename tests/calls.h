/* SPDX-License-Identifier: MIT */
/*
 * One call of a test: what it is, what every rank sends in it, and what must
 * come out, computed here from the public header's words and nothing of src/.
 * The values depend on the number of the call, the rank and the element, so
 * that data of another call, rank or place is noticed.
 *
 * All results are exact. Integers and what is only copied (all-gather,
 * broadcast) are random bits. Real numbers to be summed, averaged or compared
 * are whole and so small that each sum can be represented (an average is
 * rounded as the header says); those to be multiplied are powers of two but
 * for one rank's, which is a small odd number times that.
 */
#ifndef OH_TESTS_CALLS_H
#define OH_TESTS_CALLS_H

#include "ranks.h"

struct call {
	enum oh_collective collective;
	enum oh_dtype dtype;
	enum oh_op op;
	int root;
	size_t count;
	bool in_place;
	uint64_t number; /* as different in every call as can be */
};

/* Around every buffer that call_try gets, checked by it. */
#define CALL_GUARD 64

/* The bytes of a rank's send and recv. */
size_t call_send_bytes(const struct call *call, int ranks);
size_t call_recv_bytes(const struct call *call, int ranks);

/* n elements of rank's send, from element first on. */
void call_values(const struct call *call, int ranks, int rank, size_t first,
		 size_t n, void *values);

/* The same of what rank gets in recv. */
void call_expected(const struct call *call, int ranks, int rank, size_t first,
		   size_t n, void *values);

/* The first element of recv that is wrong, SIZE_MAX if none is. */
size_t call_wrong(const struct call *call, int ranks, int rank,
		  const uint8_t *recv);

/* Only the call itself. */
enum oh_status call_make(struct oh_comm *comm, const struct call *call,
			 const void *send, void *recv);

/* "all_reduce f32 sum count 5 in place" */
const char *call_text(const struct call *call, char *text, size_t bytes);

/*
 * Fills the buffers, makes the call, and checks recv, the guards, and that
 * send has stayed as it was. In place, reduce-scatter uses send alone and the
 * others recv alone, which may then be the same. Wrong data is a failure of
 * the rank; false only if the call itself failed, for then the ranks are out
 * of step.
 */
bool call_try(struct ranks_self *self, struct oh_comm *comm,
	      const struct call *call, uint8_t *send, uint8_t *recv);

/* Any call but an empty one, of up to bytes bytes (a rank's part): the same on
 * ranks that draw from the same state. Small sizes are as likely as large. */
struct call call_random(struct ranks_random *common, int ranks, size_t bytes);

/*
 * The index-th value that the setting takes (ONEHOP_ALGORITHM, ONEHOP_STORES,
 * ONEHOP_ISA) and that can be used here; false if there are not so many.
 */
bool call_choice(const char *setting, int index, char *text, size_t bytes);

#endif
