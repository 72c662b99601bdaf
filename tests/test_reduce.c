/* SPDX-License-Identifier: MIT */
/*
 * Holds every reducer that is built in and can run here against the reference
 * in tests/reduce/reference.h, bit by bit: plain C too, so all agree with each
 * other. Shapes of calls are drawn at random (the same in every run), all
 * values of the 16-bit types are tried, buffers stand at the edge of mapped
 * memory. At the end reducers with a fault must be noticed.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "cpu/reduce.h"
#include "reduce/samples.h"
#include "tap.h"

#define LARGE 4099 /* elements: odd, and some turns of every unrolled loop */
#define GUARD 128 /* bytes around a destination that must not change */
#define ROOM (LARGE * 8 + 64 + 2 * GUARD)
#define MAX_DSTS (OH_MAX_RANKS + 2)

static unsigned char input_room[OH_MAX_RANKS][LARGE * 8];
static unsigned char *inputs[OH_MAX_RANKS];
static unsigned char expected[LARGE * 8];
static unsigned char src_room[OH_MAX_RANKS][ROOM];
static unsigned char dst_room[MAX_DSTS][ROOM];

/* What one call is made of, but for the buffers. */
struct shape {
	enum oh_dtype dtype;
	enum oh_op op;
	int srcs, dsts, nt_from;
	int in_place; /* dst[0] is this source; -1: none */
	size_t count;
};

static const char *shape_text(const struct shape *shape)
{
	static char text[160];

	snprintf(text, sizeof(text),
		 "%s %s, srcs %d, dsts %d, nt_from %d, in_place %d, count %zu",
		 ref_types[shape->dtype].name, ref_ops[shape->op], shape->srcs,
		 shape->dsts, shape->nt_from, shape->in_place, shape->count);
	return text;
}

/* Fills the inputs, and what is expected of them. */
static void make_inputs(enum oh_dtype dtype, enum oh_op op, int srcs,
			size_t count)
{
	const struct ref_type *type = &ref_types[dtype];
	unsigned int rare = 4 + 4 * (unsigned int)srcs;

	for (int s = 0; s < srcs; s++) {
		inputs[s] = input_room[s];
		for (size_t i = 0; i < count; i++) {
			uint64_t bits = sample_bits(type, rare);

			memcpy(inputs[s] + i * type->bytes, &bits, type->bytes);
		}
	}
	for (size_t i = 0; i < count; i++)
		ref_element(dtype, op, inputs, srcs, i, expected);
}

static bool is_filled(const unsigned char *from, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		if (from[i] != 0xa5)
			return false;
	}
	return true;
}

/* The result is there and nothing beside it. */
static bool is_right(const unsigned char *dst, size_t bytes)
{
	return memcmp(dst, expected, bytes) == 0 &&
	       is_filled(dst - GUARD, GUARD) && is_filled(dst + bytes, GUARD);
}

/* Makes a call with buffers at any alignment; false if it does wrong. */
static bool run_shape(const struct oh__cpu_reducer *reducer,
		      const struct shape *shape)
{
	const size_t bytes = shape->count * ref_types[shape->dtype].bytes;
	struct oh__cpu_reduce_job job = {
		.srcs = shape->srcs,
		.dsts = shape->dsts,
		.nt_from = shape->nt_from,
		.count = shape->count,
	};
	unsigned char *src[OH_MAX_RANKS], *dst[MAX_DSTS];
	bool right = true;

	for (int s = 0; s < shape->srcs; s++) {
		src[s] = src_room[s] + GUARD + random_below(64);
		memset(src[s] - GUARD, 0xa5, bytes + 2 * GUARD);
		memcpy(src[s], inputs[s], bytes);
		job.src[s] = src[s];
	}
	for (int d = 0; d < shape->dsts; d++) {
		dst[d] = dst_room[d] + GUARD + random_below(64);
		memset(dst[d] - GUARD, 0xa5, bytes + 2 * GUARD);
		if (d == 0 && shape->in_place >= 0)
			dst[d] = src[shape->in_place];
		job.dst[d] = dst[d];
	}
	reducer->reduce[shape->dtype][shape->op](&job);
	for (int d = 0; d < shape->dsts; d++)
		right = right && is_right(dst[d], bytes);
	for (int s = 0; s < shape->srcs; s++)
		right = right && (s == shape->in_place ||
				  memcmp(src[s], inputs[s], bytes) == 0);
	return right;
}

/* A call with this many sources and elements, all else at random. */
static struct shape random_shape(enum oh_dtype dtype, enum oh_op op, int srcs,
				 size_t count)
{
	struct shape shape = {
		.dtype = dtype,
		.op = op,
		.srcs = srcs,
		.dsts = 1 + (int)random_below(3),
		.in_place = -1,
		.count = count,
	};

	if (random_below(4) == 0)
		shape.dsts = 1 + (int)random_below(MAX_DSTS);
	shape.nt_from = shape.dsts;
	if (random_below(2))
		shape.nt_from = (int)random_below((unsigned int)shape.dsts + 1);
	if (random_below(2))
		shape.in_place = (int)random_below((unsigned int)srcs);
	return shape;
}

/* Runs shapes of one type and operation; the number that went wrong. */
static int count_wrong(const struct oh__cpu_reducer *reducer,
		       enum oh_dtype dtype, enum oh_op op, bool tell)
{
	static const size_t large[] = {255, 256, 257, 1000, 1031, LARGE};
	int wrong = 0;

	for (int srcs = 1; srcs <= OH_MAX_RANKS; srcs++) {
		bool all = srcs == 2 || srcs == 5;

		make_inputs(dtype, op, srcs, all ? LARGE : 131);
		for (size_t i = 0; i < (all ? 137 : 131); i++) {
			size_t count = i < 131 ? i : large[i - 131];
			struct shape shape;

			/* a fourth of the counts, others for every srcs */
			if (!all && (i + (size_t)srcs) % 4)
				continue;
			shape = random_shape(dtype, op, srcs, count);
			if (run_shape(reducer, &shape))
				continue;
			if (tell && !wrong)
				tap_note("wrong: %s", shape_text(&shape));
			wrong++;
		}
	}
	return wrong;
}

static void check_shapes(const struct oh__cpu_reducer *reducer)
{
	for (int dtype = 0; dtype < OH_DTYPE_COUNT; dtype++) {
		for (int op = 0; op < OH_OP_COUNT; op++)
			tap_ok(!count_wrong(reducer, (enum oh_dtype)dtype,
					    (enum oh_op)op, true),
			       "%s: %s %s in all shapes", reducer->name,
			       ref_types[dtype].name, ref_ops[op]);
	}
}

/* All values of a 16-bit type, alone and with each of some others. */
static bool right_for_all_values(enum oh_dtype dtype, enum oh_op op,
				 const struct oh__cpu_reducer *const *reducers)
{
	static uint16_t all[65536], other[65536], want[65536], got[65536];
	const struct ref_type *type = &ref_types[dtype];
	unsigned char *src[OH_MAX_RANKS] = {(unsigned char *)all,
					    (unsigned char *)other};
	struct oh__cpu_reduce_job job = {.src = {all, other},
					 .dst = {got},
					 .dsts = 1,
					 .nt_from = 1,
					 .count = 65536};
	bool right = true;

	for (unsigned int with = 0; with < 25; with++) {
		for (unsigned int i = 0; i < 65536; i++) {
			all[i] = (uint16_t)i;
			/* 0: alone; then the edges; each 2nd with some bits */
			other[i] = (uint16_t)edge_bits(type, with);
			if (i % 2)
				other[i] = (uint16_t)ordinary_bits(type);
		}
		job.srcs = with ? 2 : 1;
		for (unsigned int i = 0; i < 65536; i++)
			ref_element(dtype, op, src, job.srcs, i,
				    (unsigned char *)want);
		for (int r = 0; reducers[r]; r++) {
			if (!reducers[r]->usable())
				continue;
			reducers[r]->reduce[dtype][op](&job);
			for (unsigned int i = 0; i < 65536; i++) {
				if (got[i] == want[i])
					continue;
				tap_note("%s: %s %s of %#x and %#x gave %#x, "
					 "not %#x",
					 reducers[r]->name, type->name,
					 ref_ops[op], i, other[i], got[i],
					 want[i]);
				right = false;
				break;
			}
		}
	}
	return right;
}

static void
check_all_16_bit_values(const struct oh__cpu_reducer *const *reducers)
{
	for (int op = 0; op < OH_OP_COUNT; op++) {
		tap_ok(right_for_all_values(OH_F16, (enum oh_op)op, reducers),
		       "f16 %s of all values", ref_ops[op]);
		tap_ok(right_for_all_values(OH_BF16, (enum oh_op)op, reducers),
		       "bf16 %s of all values", ref_ops[op]);
	}
}

/* A page between two that fault. */
static unsigned char *guarded_page(size_t page)
{
	unsigned char *map = mmap(NULL, 3 * page, PROT_NONE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (map == MAP_FAILED ||
	    mprotect(map + page, page, PROT_READ | PROT_WRITE))
		return NULL;
	return map + page;
}

/* Buffers that end, then begin, at the edge of what is mapped. */
static bool right_at_the_edge(const struct oh__cpu_reducer *reducer,
			      unsigned char *const *pages, size_t page,
			      enum oh_dtype dtype)
{
	const unsigned int bytes = ref_types[dtype].bytes;
	struct oh__cpu_reduce_job job = {.dsts = 2, .nt_from = 2};
	bool right = true;

	for (size_t count = 0; count <= 300; count++) {
		size_t at = count % 2 ? page - count * bytes : 0;

		job.srcs = 2 + (int)(count / 2 % 2);
		job.count = count;
		for (int i = 0; i < 3; i++) {
			memcpy(pages[i] + at, inputs[i], count * bytes);
			job.src[i] = pages[i] + at;
		}
		job.dst[0] = pages[3] + at;
		job.dst[1] = pages[4] + at;
		reducer->reduce[dtype][OH_SUM](&job);
		for (size_t i = 0; i < count; i++)
			ref_element(dtype, OH_SUM, inputs, job.srcs, i,
				    expected);
		right = right &&
			!memcmp(pages[3] + at, expected, count * bytes) &&
			!memcmp(pages[4] + at, expected, count * bytes);
	}
	return right;
}

static void check_edges(const struct oh__cpu_reducer *reducer)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char *pages[5];
	bool right = true;

	for (int i = 0; i < 5; i++) {
		pages[i] = guarded_page(page);
		if (!pages[i]) {
			tap_skip("edges", "no memory for guarded pages");
			return;
		}
	}
	for (int dtype = 0; dtype < OH_DTYPE_COUNT; dtype++) {
		make_inputs((enum oh_dtype)dtype, OH_SUM, 3, 300);
		right = right_at_the_edge(reducer, pages, page,
					  (enum oh_dtype)dtype) &&
			right;
	}
	tap_ok(right, "%s: buffers at the edge of mapped memory",
	       reducer->name);
	for (int i = 0; i < 5; i++)
		munmap(pages[i] - page, 3 * page);
}

static bool right_copies(void (*copy)(void *dst, const void *src, size_t bytes))
{
	bool right = true;

	for (size_t i = 0; i < 1000; i++) {
		size_t bytes = i < 500 ? i : random_below(LARGE + 1);
		unsigned char *src = src_room[0] + random_below(64);
		unsigned char *dst = dst_room[0] + GUARD + random_below(64);

		memset(dst - GUARD, 0xa5, bytes + 2 * GUARD);
		memcpy(src, expected, bytes);
		copy(dst, src, bytes);
		right = right && is_right(dst, bytes);
	}
	copy(NULL, NULL, 0);
	return right;
}

static void check_copy(const struct oh__cpu_reducer *reducer)
{
	make_inputs(OH_U8, OH_SUM, 1, LARGE);
	tap_ok(right_copies(reducer->copy), "%s: copy", reducer->name);
	tap_ok(right_copies(reducer->copy_nt), "%s: copy_nt", reducer->name);
}

/*
 * Reducers with a fault. They are put before f32 or bf16 sums of plain C, and
 * count_wrong must find something.
 */
static const struct oh__cpu_reducer *plain;

static void fault_last_bit(const struct oh__cpu_reduce_job *job)
{
	plain->reduce[OH_F32][OH_SUM](job);
	if (job->count > 1000)
		((unsigned char *)job->dst[job->dsts - 1])[4 * 777] ^= 1;
}

static void fault_stray_store(const struct oh__cpu_reduce_job *job)
{
	plain->reduce[OH_F32][OH_SUM](job);
	((unsigned char *)job->dst[0])[4 * job->count] = 0;
}

/* A tail of four that overlaps what is done: wrong in place. */
static void fault_overlap(const struct oh__cpu_reduce_job *job)
{
	struct oh__cpu_reduce_job tail = *job;

	plain->reduce[OH_F32][OH_SUM](job);
	if (job->count < 4)
		return;
	tail.count = 4;
	for (int i = 0; i < job->srcs; i++)
		tail.src[i] = (const char *)job->src[i] + 4 * job->count - 16;
	for (int i = 0; i < job->dsts; i++)
		tail.dst[i] = (char *)job->dst[i] + 4 * job->count - 16;
	plain->reduce[OH_F32][OH_SUM](&tail);
}

static void fault_order(const struct oh__cpu_reduce_job *job)
{
	struct oh__cpu_reduce_job turned = *job;

	for (int i = 0; i < job->srcs; i++)
		turned.src[i] = job->src[job->srcs - 1 - i];
	plain->reduce[OH_F32][OH_SUM](&turned);
}

/* bf16 by truncation. */
static void fault_truncate(const struct oh__cpu_reduce_job *job)
{
	for (size_t i = 0; i < job->count; i++) {
		uint16_t half[2] = {0, 0};
		float sum = 0, x;

		for (int s = 0; s < job->srcs; s++) {
			memcpy(&half[1], (const char *)job->src[s] + 2 * i, 2);
			memcpy(&x, half, 4);
			sum = s ? sum + x : x;
		}
		for (int d = 0; d < job->dsts; d++)
			memcpy((char *)job->dst[d] + 2 * i, (char *)&sum + 2,
			       2);
	}
}

static void check_faults(void)
{
	static const struct {
		const char *what;
		enum oh_dtype dtype;
		oh__cpu_reduce_fn *fault;
	} faults[] = {
		{"one bit of a large result", OH_F32, fault_last_bit},
		{"a store behind the end", OH_F32, fault_stray_store},
		{"a tail that reads what was stored", OH_F32, fault_overlap},
		{"sources in another order", OH_F32, fault_order},
		{"bf16 by truncation", OH_BF16, fault_truncate},
	};

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct oh__cpu_reducer faulty = *plain;
		int wrong;

		faulty.reduce[faults[i].dtype][OH_SUM] = faults[i].fault;
		wrong = count_wrong(&faulty, faults[i].dtype, OH_SUM, false);
		tap_ok(wrong > 0, "a fault is noticed: %s (%d calls)",
		       faults[i].what, wrong);
	}
}

static void check_list(const struct oh__cpu_reducer *const *reducers)
{
	const struct oh__cpu_reducer *best = NULL;
	bool complete = true;

	for (int r = 0; reducers[r]; r++) {
		if (!best && reducers[r]->usable())
			best = reducers[r];
		complete =
			complete && reducers[r]->copy_nt &&
			oh__cpu_reducer_named(reducers[r]->name) == reducers[r];
		for (int k = 0; k < OH_DTYPE_COUNT * OH_OP_COUNT; k++)
			complete = complete &&
				   reducers[r]->reduce[k / OH_OP_COUNT]
						      [k % OH_OP_COUNT];
	}
	tap_ok(complete, "every reducer is complete and has a name");
	tap_ok(best && oh__cpu_reducer_best() == best,
	       "the best reducer is the first that is usable, %s",
	       best ? best->name : "none");
	tap_ok(plain && plain->usable(), "plain is usable");
	tap_ok(!oh__cpu_reducer_named("none"), "an unknown name gives none");
}

int main(void)
{
	const struct oh__cpu_reducer *const *reducers = oh__cpu_reducers();

	plain = oh__cpu_reducer_named("plain");
	check_list(reducers);
	for (int r = 0; reducers[r]; r++) {
		if (!reducers[r]->usable()) {
			tap_skip(reducers[r]->name, "not on this processor");
			continue;
		}
		check_shapes(reducers[r]);
		check_edges(reducers[r]);
		check_copy(reducers[r]);
	}
	check_all_16_bit_values(reducers);
	check_faults();
	return tap_done();
}
