/* SPDX-License-Identifier: MIT */
/*
 * The kernels alone, on the GPUs that are there or on emulated ones: their
 * results have the bits of the processor's engine at every size, alignment,
 * type, number of ranks and placement; thousands of calls in a row use halves
 * and epochs as they should; a flag of an earlier turn of the epochs is not
 * believed; a rank that does not come, a communicator that has failed, and a
 * release end the others' kernels and leave the GPU usable; the check of pairs
 * sees who does not store.
 *
 *	--row		calls in a row and old flags alone
 *	--must-fail F	the kernels have the fault F: it must be noticed
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cpu/reduce.h"
#include "kernel_ends.h"
#include "kernel_rig.h"
#include "tap.h"

/* How much is tried: an emulated GPU is slow. */
#ifdef RIG_EMULATED
enum {
	BLOCKS = 2,
	THREADS = 64,
	SIZES = 14,
	BATCHES = 4,
	FAULT_TICKS = 1000,
};
#else
enum {
	BLOCKS = 8,
	THREADS = 128,
	SIZES = 19,
	BATCHES = 30,
	FAULT_TICKS = 50,
};
#endif

static struct rig rig;
static uint64_t seed = 20261130;
static unsigned char *in[OH__KERNEL_RANKS], *out, *due;

static uint64_t random_word(void)
{
	uint64_t x = seed += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static size_t element_bytes(enum oh_dtype dtype)
{
	return dtype == OH_F32 ? 4 : 2;
}

/* Bits of any kind: NaN, infinities, subnormals, what stands for nothing; and
 * -0 in the same places of all ranks, whose sum is -0. */
static void fill(unsigned char *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t word = random_word();
		size_t left = bytes - i;

		if (word % 13 == 0)
			word = UINT64_MAX;
		if (i / 8 % 17 == 0)
			word = i / 8 % 2 ? 0x8000000080000000
					 : 0x8000800080008000;
		memcpy(data + i, &word, left < 8 ? left : 8);
	}
}

/* As the engine for host memory has it. */
static void expect(const struct rig_call *call)
{
	struct oh__cpu_reduce_job job = {
		.srcs = rig.ranks,
		.dsts = 1,
		.nt_from = 1,
		.count = call->bytes / element_bytes(call->dtype),
	};
	const struct oh__cpu_reducer *plain = oh__cpu_reducer_named("plain");

	for (int i = 0; i < rig.ranks; i++)
		job.src[i] = in[i];
	job.dst[0] = due;
	plain->reduce[call->dtype][call->average ? OH_AVG : OH_SUM](&job);
}

/* New data, one call, every rank's result. */
static bool try_once(const struct rig_call *call)
{
	for (int i = 0; i < rig.ranks; i++) {
		fill(in[i], call->bytes);
		if (!rig_put(&rig, i, call->send_at, in[i], call->bytes))
			return false;
	}
	if (!rig_launch(&rig, call) || !rig_wait(&rig))
		return false;
	expect(call);
	for (int i = 0; i < rig.ranks; i++)
		if (!rig_get(&rig, i, call, out) ||
		    memcmp(out, due, call->bytes) || ends_is_late(&rig, i))
			return false;
	return true;
}

static const size_t sizes[19] = {1,    3,     7,     8,	    9,	   31,	32,
				 33,   63,    64,    65,    511,   512, 2049,
				 4096, 16384, 16391, 65536, 131072};

#define TRIED (5 * SIZES)

/* Elements of every size, at some alignments; how many were right before one
 * was not. */
static int try_sizes(enum rig_algorithm algorithm, enum oh_dtype dtype)
{
	static const size_t places[] = {0, 16, 2, 7, 12};
	int right = 0;

	for (size_t s = 0; s < SIZES; s++)
		for (size_t p = 0; p < sizeof(places) / sizeof(*places); p++) {
			struct rig_call call = {
				.algorithm = algorithm,
				.dtype = dtype,
				.bytes = sizes[s] * element_bytes(dtype),
				.send_at = places[p],
				.recv_at = places[(p + s) % 5],
				.average = (s + p) % 3 == 0,
				/* some of the ranks, as their buffers would
				 * have it */
				.in_place = (uint32_t)random_word(),
				.general = (uint32_t)random_word(),
			};

			if (!try_once(&call))
				return right;
			right++;
		}
	return right;
}

static const char *const algorithm_names[] = {
	[RIG_ONE_SHOT] = "one-shot",
	[RIG_TWO_SHOT] = "two-shot",
	[RIG_FLAGGED] = "one-shot with flags",
	[RIG_STAGED] = "in chunks",
};

/* Every kernel of so many ranks, both kinds. */
static bool try_nothing(void)
{
	static const enum oh_dtype dtypes[] = {OH_F32, OH_F16, OH_BF16};

	for (int n = 0; n < 2 * 3 * RIG_ALGORITHMS; n++) {
		struct rig_call call = {
			.algorithm = (enum rig_algorithm)(n / 6),
			.dtype = dtypes[n % 3],
			.general = n / 3 % 2 ? ~0u : 0,
		};

		if (!rig_launch_nothing(&rig, &call))
			return false;
	}
	return rig_wait(&rig) && rig_set_epochs(&rig, 0);
}

static void test_bits(int ranks, enum rig_placement placement)
{
	static const enum oh_dtype dtypes[] = {OH_F32, OH_F16, OH_BF16};

	/* ranks that share a GPU must all find room there */
	if (!tap_ok(rig_begin(&rig, ranks, placement, BLOCKS, THREADS),
		    "%d ranks, mailboxes in %s", ranks,
		    placement == RIG_VRAM ? "GPU memory" : "host memory")) {
		tap_note("%s", oh_last_error()->message);
		return;
	}
	tap_ok(try_nothing(), "nothing to do, and no slots");
	for (int a = 0; a < RIG_ALGORITHMS; a++)
		for (int t = 0; t < 3; t++) {
			int right;

			right = try_sizes((enum rig_algorithm)a, dtypes[t]);
			if (!tap_ok(right == TRIED,
				    "%s %s: the processor's bits",
				    algorithm_names[a],
				    oh_dtype_name(dtypes[t])))
				tap_note("%d right; %s", right,
					 oh_last_error()->message);
		}
	rig_end(&rig);
}

#define BATCH 64
#define BATCH_BYTES ((size_t)32768)

static uint32_t batch_timeout; /* 0: as long as it takes */
static int batch_algorithm = -1; /* all */

static enum rig_algorithm draw_algorithm(void)
{
	int drawn = (int)(random_word() % RIG_ALGORITHMS);

	return (enum rig_algorithm)(batch_algorithm < 0 ? drawn
							: batch_algorithm);
}

/* Calls in a row without a look between them, each with data of its own. */
static bool try_batch(void)
{
	struct rig_call calls[BATCH];

	for (int n = 0; n < BATCH; n++) {
		size_t count = 1 + random_word() % (BATCH_BYTES / 4 - 1);

		calls[n] = (struct rig_call){
			.algorithm = draw_algorithm(),
			.dtype = OH_F32,
			.bytes = 4 * count,
			.send_at = (size_t)n * BATCH_BYTES,
			.recv_at = (size_t)n * BATCH_BYTES,
			.in_place = (uint32_t)random_word(),
			.general = (uint32_t)random_word(),
			.timeout = batch_timeout,
		};
	}
	for (int i = 0; i < rig.ranks; i++) {
		fill(in[i], BATCH * BATCH_BYTES);
		if (!rig_put(&rig, i, 0, in[i], BATCH * BATCH_BYTES))
			return false;
	}
	for (int n = 0; n < BATCH; n++)
		if (!rig_launch(&rig, &calls[n]))
			return false;
	if (!rig_wait(&rig))
		return false;
	for (int n = 0; n < BATCH; n++) {
		unsigned char *whole[OH__KERNEL_RANKS];
		bool same = true;

		memcpy(whole, in, sizeof(whole));
		for (int i = 0; i < rig.ranks; i++)
			in[i] += calls[n].send_at;
		expect(&calls[n]);
		memcpy(in, whole, sizeof(whole));
		for (int i = 0; i < rig.ranks; i++)
			same &= rig_get(&rig, i, &calls[n], out) &&
				!memcmp(out, due, calls[n].bytes);
		if (!same)
			return false;
	}
	return true;
}

static void test_row(int ranks, uint32_t epoch)
{
	int fine = 0;

	if (!tap_ok(rig_begin(&rig, ranks, RIG_VRAM, BLOCKS, THREADS) &&
			    rig_set_epochs(&rig, epoch),
		    "%d ranks from epoch %u on", ranks, epoch))
		return;
	while (fine < BATCHES && try_batch())
		fine++;
	tap_ok(fine == BATCHES, "%d calls in a row, %d batches right",
	       BATCHES * BATCH, fine);
	rig_end(&rig);
}

static void test_release(int ranks)
{
	for (int a = 0; a < RIG_ALGORITHMS; a++) {
		if (!tap_ok(rig_begin(&rig, ranks, RIG_VRAM, BLOCKS, THREADS),
			    "%d ranks", ranks))
			return;
		tap_ok(ends_is_release_right(&rig, (enum rig_algorithm)a),
		       "%s: the host ends a wait", algorithm_names[a]);
		rig_end(&rig);
	}
}

static void test_check(int ranks)
{
	if (!tap_ok(rig_begin(&rig, ranks, RIG_VRAM, BLOCKS, THREADS),
		    "%d ranks", ranks))
		return;
	tap_ok(ends_is_check_right(&rig),
	       "what each rank stores arrives; who does not store is wrong in "
	       "all words");
	rig_end(&rig);
}

static uint64_t run_for_ns(const struct rig_call *call, bool *done)
{
	uint64_t start = rig_now_ns();

	*done = rig_launch(&rig, call) && rig_wait(&rig);
	return rig_now_ns() - start;
}

/* One rank does not come: the others leave, and say so; not before the
 * deadline, unless the communicator has failed. */
static void test_absent(int ranks, enum rig_algorithm algorithm)
{
	struct rig_call call = {
		.algorithm = algorithm,
		.dtype = OH_F32,
		.bytes = 4096,
		.timeout = 200,
		.absent = 2,
	};
	struct rig_call after = {
		.algorithm = algorithm, .dtype = OH_F32, .bytes = 4096};
	uint64_t waited_ns;
	bool done;

	if (!tap_ok(rig_begin(&rig, ranks, RIG_VRAM, BLOCKS, THREADS),
		    "%d ranks", ranks))
		return;
	waited_ns = run_for_ns(&call, &done);
	for (int i = 0; i < ranks; i++)
		if (i != 1)
			done = done && rig.watch[i].late[1] &&
			       !rig.watch[i].late[i];
	tap_ok(done && waited_ns >= (uint64_t)call.timeout * OH__TICK_NS,
	       "%s: a rank that waits in vain leaves at the deadline, and says "
	       "for whom",
	       algorithm_names[algorithm]);
	tap_ok(ends_is_dead_quick(&rig, algorithm),
	       "kernels of a communicator that has failed do not wait");
	rig_end(&rig);
	tap_ok(rig_begin(&rig, ranks, RIG_VRAM, BLOCKS, THREADS) &&
		       try_once(&after),
	       "the next communicator works");
	rig_end(&rig);
}

/* A rank that has sent its data, but not its part of the sum: it has waited in
 * vain for ranks that came later. */
static void test_late_result(enum rig_algorithm algorithm)
{
	struct rig_call call = {
		.algorithm = algorithm,
		.dtype = OH_F32,
		.bytes = 4096,
		.timeout = 200,
		.absent = 1 | 2,
	};
	bool done;

	if (!tap_ok(rig_begin(&rig, 3, RIG_VRAM, BLOCKS, THREADS), "3 ranks"))
		return;
	done = rig_launch(&rig, &call) && rig_wait(&rig);
	call.absent = 4;
	done = done && rig_launch(&rig, &call) && rig_wait(&rig);
	for (int i = 0; i < 2; i++)
		done = done && rig.watch[i].late_result[2] &&
		       !rig.watch[i].late_result[!i] && !rig.watch[i].late[2];
	tap_ok(done, "%s: a sum that does not come is told",
	       algorithm_names[algorithm]);
	rig_end(&rig);
}

/* In halves of so many bytes, filled by a long call. */
#define STALE_HALF ((size_t)4096)

static struct rig_call stale_call(enum rig_algorithm algorithm, bool is_long)
{
	struct rig_call call = {
		.algorithm = algorithm,
		.dtype = OH_F32,
		.bytes = OH__PACK_BYTES,
		.half_bytes = STALE_HALF,
	};

	if (!is_long)
		return call;
	call.bytes = STALE_HALF;
	/* flags among the data take as much again */
	if (algorithm == RIG_FLAGGED)
		call.bytes /= 2;
	/* a two-shot sends each rank its part */
	if (algorithm == RIG_STAGED && rig.ranks > 2)
		call.bytes *= (size_t)rig.ranks;
	return call;
}

static bool make_calls(size_t count, const struct rig_call *call)
{
	for (; count; count--)
		if (!rig_launch(&rig, call))
			return false;
	return rig_wait(&rig);
}

/* The call, with rank 1 late. */
static bool is_late_one_right(struct rig_call *call)
{
	bool right = true;

	for (int i = 0; i < rig.ranks && right; i++) {
		fill(in[i], call->bytes);
		right = rig_put(&rig, i, 0, in[i], call->bytes);
	}
	call->absent = 2;
	right = right && rig_launch(&rig, call);
	ends_look_around();
	call->absent = ~2u;
	right = right && rig_launch(&rig, call) && rig_wait(&rig);
	expect(call);
	for (int i = 0; i < rig.ranks && right; i++)
		right = rig_get(&rig, i, call, out) &&
			!memcmp(out, due, call->bytes);
	return right;
}

/*
 * An epoch comes again after 2^31 calls: those between are left out, but for as
 * many as blank both halves. What the long call left behind must not be taken
 * for the call of the same epoch.
 */
static bool is_stale_refused(enum rig_algorithm algorithm)
{
	struct rig_call large = stale_call(algorithm, true);
	struct rig_call small = stale_call(algorithm, false);

	return rig_set_epochs(&rig, 1000) && make_calls(2, &large) &&
	       make_calls(2 * STALE_HALF / OH__PACK_BYTES, &small) &&
	       rig_set_epochs(&rig, 1000) && rig_wait(&rig) &&
	       is_late_one_right(&large);
}

static void test_stale(int ranks, enum rig_placement placement)
{
	for (int a = RIG_FLAGGED; a <= RIG_STAGED; a++) {
		if (!tap_ok(rig_begin(&rig, ranks, placement, 2, 64),
			    "%d ranks", ranks))
			return;
		if (!tap_ok(is_stale_refused((enum rig_algorithm)a),
			    "%s, %s: a flag of 2^31 calls before is none of "
			    "this call",
			    algorithm_names[a],
			    placement == RIG_VRAM ? "GPU memory"
						  : "host memory"))
			tap_note("%s", oh_last_error()->message);
		rig_end(&rig);
	}
}

static bool is_dead_quick(enum rig_algorithm algorithm)
{
	return ends_is_dead_quick(&rig, algorithm);
}

static bool is_release_right(enum rig_algorithm algorithm)
{
	return ends_is_release_right(&rig, algorithm);
}

/* The faults that a build may bring back; each must be noticed. */
static bool is_batch_right(enum rig_algorithm algorithm)
{
	int fine = 0;

	/* a lost pack is waited for in vain, in this call and those behind */
	batch_timeout = FAULT_TICKS;
	batch_algorithm = (int)algorithm;
	while (fine < BATCHES && try_batch())
		fine++;
	return fine == BATCHES;
}

static const struct fault {
	const char *name;
	enum rig_algorithm algorithm;
	bool (*is_right)(enum rig_algorithm algorithm);
} faults[] = {
	/* a two-shot hears of every pack that was taken, so one half does: that
	 * its place was emptied before is not promised, but shows nowhere */
	{"one_half", RIG_ONE_SHOT, is_batch_right},
	{"one_half", RIG_FLAGGED, is_batch_right},
	{"one_half", RIG_STAGED, is_batch_right},
	{"block_epoch", RIG_ONE_SHOT, is_batch_right},
	{"block_epoch", RIG_TWO_SHOT, is_batch_right},
	{"block_epoch", RIG_FLAGGED, is_batch_right},
	{"block_epoch", RIG_STAGED, is_batch_right},
	{"flag_first", RIG_FLAGGED, is_batch_right},
	{"flag_first", RIG_STAGED, is_batch_right},
	/* a GPU does not show these */
	{"early", RIG_ONE_SHOT, is_batch_right},
	{"early", RIG_TWO_SHOT, is_batch_right},
	{"early", RIG_FLAGGED, is_batch_right},
	{"early", RIG_STAGED, is_batch_right},
	{"no_fence", RIG_STAGED, is_batch_right},
	{"dead_waits", RIG_ONE_SHOT, is_dead_quick},
	{"dead_waits", RIG_TWO_SHOT, is_dead_quick},
	{"dead_waits", RIG_FLAGGED, is_dead_quick},
	{"dead_waits", RIG_STAGED, is_dead_quick},
	{"dead_once", RIG_ONE_SHOT, is_dead_quick},
	{"dead_once", RIG_TWO_SHOT, is_dead_quick},
	{"dead_once", RIG_FLAGGED, is_dead_quick},
	{"dead_once", RIG_STAGED, is_dead_quick},
	{"clock_back", RIG_ONE_SHOT, is_release_right},
	{"clock_back", RIG_TWO_SHOT, is_release_right},
	{"clock_back", RIG_FLAGGED, is_release_right},
	{"clock_back", RIG_STAGED, is_release_right},
	{"no_release", RIG_FLAGGED, is_release_right},
	{"no_release", RIG_STAGED, is_release_right},
	{"no_blank", RIG_FLAGGED, is_stale_refused},
	{"no_blank", RIG_STAGED, is_stale_refused},
};

static void test_fault(const char *name, int ranks)
{
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
		const struct fault *fault = &faults[i];

		if (strcmp(fault->name, name))
			continue;
		if (!tap_ok(rig_begin(&rig, ranks, RIG_VRAM, BLOCKS, THREADS),
			    "%d ranks", ranks))
			return;
		tap_ok(!fault->is_right(fault->algorithm),
		       "the fault is noticed: %s, %s", name,
		       algorithm_names[fault->algorithm]);
		rig_end(&rig);
	}
}

/* Without a fault all that notices one is content, under the same limits. */
static void test_faultless(int ranks)
{
	for (int a = 0; a < RIG_ALGORITHMS; a++) {
		if (!tap_ok(rig_begin(&rig, ranks, RIG_VRAM, BLOCKS, THREADS),
			    "%d ranks", ranks))
			return;
		tap_ok(is_batch_right((enum rig_algorithm)a),
		       "no fault is seen where there is none: %s",
		       algorithm_names[a]);
		rig_end(&rig);
	}
	batch_timeout = 0;
	batch_algorithm = -1;
}

static void test_all(void)
{
	static const int numbers[] = {2, 3, 4, 5, 7, 8, 13, 16};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		test_bits(numbers[i], RIG_VRAM);
	test_bits(2, RIG_PINNED);
	test_bits(4, RIG_PINNED);
	test_row(2, 0);
	test_row(4, 0x7ffffff0); /* where the dead bit begins */
	for (int a = 0; a < RIG_ALGORITHMS; a++) {
		test_absent(2, (enum rig_algorithm)a);
		test_absent(3, (enum rig_algorithm)a);
	}
	test_late_result(RIG_TWO_SHOT);
	test_late_result(RIG_STAGED);
	test_release(2);
	test_release(3);
	test_check(2);
	test_check(5);
	test_stale(2, RIG_VRAM);
	test_stale(2, RIG_PINNED);
	test_stale(3, RIG_VRAM);
	test_stale(3, RIG_PINNED);
	test_faultless(2);
	test_faultless(3);
}

static void test_fault_of(const char *name)
{
	test_fault(name, 2);
#ifdef RIG_EMULATED
	test_fault(name, 3);
#endif
}

int main(int argc, char **argv)
{
	bool row = argc == 2 && !strcmp(argv[1], "--row");
	const char *fault =
		argc == 3 && !strcmp(argv[1], "--must-fail") ? argv[2] : NULL;
	const char *reason;

	if (argc > 1 && !row && !fault) {
		fprintf(stderr, "usage: %s [--row | --must-fail FAULT]\n",
			argv[0]);
		return 2;
	}
	reason = rig_open(&rig);
	if (reason)
		tap_skip_all(reason);
	tap_note("%d GPUs", rig.devices);
	for (int i = 0; i < OH__KERNEL_RANKS; i++)
		in[i] = malloc(RIG_BUFFER_BYTES);
	out = malloc(RIG_BUFFER_BYTES);
	due = malloc(RIG_BUFFER_BYTES);
	if (fault) {
		test_fault_of(fault);
	} else if (row) {
		test_row(2, 0);
		test_row(4, 0);
		test_stale(2, RIG_VRAM);
	} else {
		test_all();
	}
	rig_close(&rig);
	for (int i = 0; i < OH__KERNEL_RANKS; i++)
		free(in[i]);
	free(out);
	free(due);
	return tap_done();
}
