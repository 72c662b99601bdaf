/* SPDX-License-Identifier: MIT */
/*
 * What is measured, seen from one rank: how to open it, how to get memory, how
 * to make its calls. One is this library (subject_onehop.c), one is MPI
 * (peer_mpi.c, a program of its own for each MPI).
 */
#ifndef OH_BENCH_SUBJECT_H
#define OH_BENCH_SUBJECT_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/protocol.h"
#include "onehop/onehop.h"

/* A call that is to be timed. */
struct bench_call {
	void *state; /* of open */
	/* as onehop.h has them; prepare may move them to where the subject
	 * wants its in-place buffers */
	const void *send;
	void *recv;
	size_t count;
	enum oh_dtype dtype;
	enum oh_op op;
	int root;
	bool in_place;
	bool own_memory; /* the buffers are of the subject's alloc */
};

/* 0, or a code that explain understands. */
typedef int bench_call_fn(const struct bench_call *call);

struct bench_subject {
	/*
	 * Joins the ranks. Fills reply->about with a version, or returns false
	 * with outcome and text set.
	 */
	bool (*open)(const struct bench_setup *setup, void **state,
		     struct bench_reply *reply);
	void (*close)(void *state);
	/* Zero or more bytes of the subject's own memory; NULL: malloc's. */
	void *(*alloc)(void *state, size_t bytes, struct bench_reply *reply);
	/*
	 * The function for a case, NULL with outcome and text set. Also fills
	 * path and about.
	 */
	bench_call_fn *(*prepare)(enum oh_collective collective,
				  struct bench_call *call,
				  struct bench_reply *reply);
	/* What a code of a call means: sets outcome and text. */
	void (*explain)(enum oh_collective collective, int code,
			struct bench_reply *reply);
	/* See struct bench_waiter; may be NULL. */
	void (*poke)(void *state);
};

#endif
