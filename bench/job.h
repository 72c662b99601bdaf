/* SPDX-License-Identifier: MIT */
/*
 * One command on one rank: where the buffers of the case lie, what is written
 * to them before each call, and what must be in them after it.
 */
#ifndef OH_BENCH_JOB_H
#define OH_BENCH_JOB_H

#include "bench/pattern.h"
#include "bench/subject.h"

/* Bytes on both sides of a buffer that nobody may write to. A multiple of 64
 * keeps the data aligned as frameworks align theirs. */
#define BENCH_GUARD_BYTES 64

/* Memory with a guard before and after the largest buffer. */
struct bench_region {
	void *memory; /* as it came from the subject or malloc */
	char *data;
};

struct bench_job {
	const struct bench_command *command;
	struct bench_pattern pattern; /* of the current call */
	struct bench_call call;
	enum oh_collective collective;
	int rank;
	size_t element;
	void *input; /* what is rewritten before each call */
	size_t input_count;
	char *region; /* around which the guards are */
	size_t region_bytes;
	uint64_t wrong;
};

/* The bytes of the larger side of a call. */
size_t bench_larger_side(enum oh_collective collective, int ranks, size_t count,
			 size_t element);

/* recv may be the same region as send: in place. */
void bench_job_open(const struct bench_command *command,
		    const struct bench_setup *setup, void *state,
		    const struct bench_region *send,
		    const struct bench_region *recv, struct bench_job *job);

/* Rewrites the whole input for a call of this number. */
void bench_job_write(struct bench_job *job, uint64_t call);

/*
 * Compares the result with what it must be: all of it, or the first, the
 * middle, the last and one changing element. Adds to job->wrong; the first
 * wrong element is described in text, which is empty before.
 */
void bench_job_check(struct bench_job *job, bool all, char *text, size_t room);

/* The guards, once at the end of a command; as above. */
void bench_job_check_guards(struct bench_job *job, char *text, size_t room);

#endif
