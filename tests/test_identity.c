/* SPDX-License-Identifier: MIT */
/*
 * The same bits on every rank, whatever the way: reductions of real numbers,
 * among them NaN, infinities, subnormals and zeros of either sign, are held
 * against the reference of tests/reduce (rank order, f32 or f64, one rounding,
 * canonical NaN), with every algorithm, way to store and instruction set, in
 * long and short rounds, in place and not, in memory of oh_comm_alloc or not,
 * and with the floating-point control word of the caller in any state, which
 * must be the same after the call.
 */
#include <string.h>

#include "calls.h"
#include "reduce/samples.h"

/* Divisible by no number of ranks here, and some rounds of a slot of 4096. */
#define COUNT 2311
#define TYPES 4

/* The types that are rounded; OH_F64 to OH_BF16 are the first. */
static unsigned char inputs[TYPES][OH_MAX_RANKS][COUNT * 8];
static unsigned char expected[TYPES][OH_OP_COUNT][COUNT * 8];
static int prepared_ranks;

/* Inputs and what becomes of them; before the threads start. */
static void prepare(int ranks)
{
	if (prepared_ranks == ranks)
		return;
	prepared_ranks = ranks;
	random_state = ranks_mix(ranks_seed());
	for (int t = 0; t < TYPES; t++) {
		unsigned char *sources[OH_MAX_RANKS];

		for (int rank = 0; rank < ranks; rank++) {
			sources[rank] = inputs[t][rank];
			for (size_t i = 0; i < COUNT; i++) {
				unsigned bytes = ref_types[t].bytes;
				uint64_t bits = sample_bits(
					&ref_types[t], 4 + 4 * (unsigned)ranks);

				memcpy(sources[rank] + i * bytes, &bits, bytes);
			}
		}
		for (int op = 0; op < OH_OP_COUNT; op++)
			for (size_t i = 0; i < COUNT; i++)
				ref_element((enum oh_dtype)t, (enum oh_op)op,
					    sources, ranks, i, expected[t][op]);
	}
}

/* What a rank calls with. */
struct subject {
	struct ranks_self *self;
	struct oh_comm *comm;
	struct ranks_random random; /* of this rank */
	uint8_t *plain[2], *heap[2]; /* send and recv each */
};

/* Around the call: the caller's control word. */
#if defined(__x86_64__)
static unsigned get_control(void)
{
	return __builtin_ia32_stmxcsr();
}

static void set_control(unsigned control)
{
	__builtin_ia32_ldmxcsr(control);
}

/* Intel SDM vol. 1, 10.2.3. */
static const unsigned controls[] = {
	0x1f80, /* the default */
	0x1fbf, /* all sticky flags are up */
	0x9f80, /* flush to zero */
	0x1fc0, /* denormals are zero */
	0x9fc0, /* both */
	0x3f80, /* round down */
	0x5f80, /* round up */
	0x7f80, /* round towards zero */
	0x0000, /* no exception is masked */
	0xe040, /* all at once */
};
#elif defined(__aarch64__)
static unsigned get_control(void)
{
	uint64_t control;

	__asm__ volatile("mrs %0, fpcr" : "=r"(control));
	return (unsigned)control;
}

static void set_control(unsigned control)
{
	__asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)control));
}

/* Arm ARM, FPCR: flush to zero, rounding modes, default NaN. */
static const unsigned controls[] = {
	0x00000000, 0x01000000, 0x00400000, 0x00800000, 0x00c00000, 0x02000000,
};
#endif

#define CONTROLS (sizeof(controls) / sizeof(controls[0]))

/* valgrind keeps the rounding mode only. */
static bool can_be_set(unsigned control)
{
	unsigned before = get_control(), after;

	set_control(control);
	after = get_control();
	set_control(before);
	return after == control;
}

/* The call, with nothing but integers between the two control words. */
static enum oh_status call_under(unsigned control, struct subject *subject,
				 const struct call *call, const void *send,
				 void *recv)
{
	unsigned before = get_control(), after;
	enum oh_status status;

	set_control(control);
	status = call_make(subject->comm, call, send, recv);
	after = get_control();
	set_control(before);
	ranks_check(subject->self, after == control,
		    "the control word was %#x and is %#x", control, after);
	return status;
}

/* Where this rank's buffers are in this call: any mixture over the ranks. */
static void choose_buffers(struct subject *subject, const struct call *call,
			   const uint8_t **send, uint8_t **recv)
{
	uint64_t choice = ranks_random(&subject->random);
	size_t part = call->count * oh_dtype_bytes(call->dtype) *
		      (size_t)subject->self->rank;
	uint8_t *from = choice & 1 ? subject->plain[0] : subject->heap[0];
	uint8_t *to = choice & 2 ? subject->plain[1] : subject->heap[1];

	from += choice & 4 ? choice >> 8 & 63 : 0;
	to += choice & 8 ? choice >> 16 & 63 : 0;
	if (call->in_place && call->collective == OH_ALL_REDUCE)
		to = from;
	else if (call->in_place)
		to = from + part;
	*send = from;
	*recv = to;
}

static bool try(struct subject *subject, const struct call *call,
		unsigned control)
{
	struct ranks_self *self = subject->self;
	size_t bytes = call->count * oh_dtype_bytes(call->dtype);
	const unsigned char *want = expected[call->dtype][call->op];
	const uint8_t *send;
	uint8_t *recv;
	char text[128];

	choose_buffers(subject, call, &send, &recv);
	memset(recv, 0x5a, bytes);
	/* the in-place choice makes them one buffer: send is filled last */
	memcpy((uint8_t *)(uintptr_t)send, inputs[call->dtype][self->rank],
	       call_send_bytes(call, self->ranks));
	call_text(call, text, sizeof(text));
	ranks_at(self, "%s control %#x", text, control);
	if (!ranks_fine(self, call_under(control, subject, call, send, recv),
			text))
		return false;
	if (call->collective == OH_REDUCE_SCATTER)
		want += (size_t)self->rank * bytes;
	for (size_t at = 0; at < bytes; at++)
		if (!ranks_check(self, recv[at] == want[at],
				 "%s control %#x: byte %zu differs", text,
				 control, at))
			break;
	return true;
}

/* All types and operations, both in place and not. */
static bool try_all(struct subject *subject, enum oh_collective collective,
		    size_t count, unsigned control)
{
	struct call call = {.collective = collective, .count = count};

	for (int t = 0; t < TYPES; t++)
		for (int op = 0; op < OH_OP_COUNT; op++)
			for (int in_place = 0; in_place < 2; in_place++) {
				call.dtype = (enum oh_dtype)t;
				call.op = (enum oh_op)op;
				call.in_place = in_place;
				call.number++;
				if (!try(subject, &call, control))
					return false;
			}
	return true;
}

static bool make_subject(struct ranks_self *self, struct subject *subject)
{
	const size_t bytes = COUNT * 8 + 64;

	memset(subject, 0, sizeof(*subject));
	subject->self = self;
	subject->random.state = self->seed + (uint64_t)self->rank;
	subject->comm = ranks_comm(self, 0);
	if (!subject->comm)
		return false;
	for (int i = 0; i < 2; i++) {
		void *pointer;

		if (!ranks_fine(self,
				oh_comm_alloc(subject->comm, bytes, &pointer),
				"oh_comm_alloc"))
			return false;
		subject->heap[i] = pointer;
		subject->plain[i] = malloc(bytes);
		if (!ranks_check(self, subject->plain[i], "no memory"))
			return false;
	}
	return true;
}

static void end_subject(struct subject *subject)
{
	oh_comm_destroy(subject->comm);
	free(subject->plain[0]);
	free(subject->plain[1]);
}

static void identity(struct ranks_self *self)
{
	const size_t counts[] = {1, 29, 500, COUNT};
	bool controlled = !strcmp(self->argument, "controls");
	struct subject subject;
	bool fine;

	/* threads find it done */
	prepare(self->ranks);
	fine = make_subject(self, &subject);
	for (size_t c = 0; c < (controlled ? CONTROLS : 1) && fine; c++) {
		unsigned control = controlled ? controls[c] : get_control();

		if (!can_be_set(control))
			continue;
		for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
			fine = fine && try_all(&subject, OH_ALL_REDUCE,
					       counts[i], control);
		fine = fine && try_all(&subject, OH_REDUCE_SCATTER,
				       COUNT / (size_t)self->ranks, control);
	}
	end_subject(&subject);
}

/* Each rank has another instruction set. */
static void mixed(struct ranks_self *self)
{
	char isa[32];
	int n = 0;

	while (call_choice("ONEHOP_ISA", n, isa, sizeof(isa)))
		n++;
	call_choice("ONEHOP_ISA", self->rank % n, isa, sizeof(isa));
	setenv("ONEHOP_ISA", isa, 1);
	identity(self);
}

static const struct ranks_case cases[] = {
	{"identity", identity}, {"mixed", mixed}, {0}};

static bool choose(const char *setting, int index)
{
	char text[32];

	return call_choice(setting, index, text, sizeof(text)) &&
	       !setenv(setting, text, 1);
}

static void run_ways(int ranks)
{
	static const char *const slots[] = {"4096", "64K"};
	struct ranks_options options = {.ranks = ranks};
	int number = 0;
	char text[160];

	options.text = text;
	prepare(ranks);
	for (int a = 0; choose("ONEHOP_ALGORITHM", a); a++)
		for (int s = 0; choose("ONEHOP_STORES", s); s++)
			for (int i = 0; choose("ONEHOP_ISA", i); i++) {
				const char *slot = slots[number++ % 2];

				if (ranks_quick() && number % 11)
					continue;
				setenv("ONEHOP_SLOT_BYTES", slot, 1);
				snprintf(text, sizeof(text),
					 "%d ranks, %s, %s stores, %s, slots "
					 "of %s",
					 ranks, getenv("ONEHOP_ALGORITHM"),
					 getenv("ONEHOP_STORES"),
					 getenv("ONEHOP_ISA"), slot);
				ranks_threads(&cases[0], &options);
			}
	choose("ONEHOP_ALGORITHM", 0);
	choose("ONEHOP_STORES", 0);
	choose("ONEHOP_ISA", 0);
}

static void run_some(int ranks)
{
	struct ranks_options options = {.ranks = ranks};

	prepare(ranks);
	ranks_threads(&cases[0], &options);
	options.argument = "controls";
	ranks_threads(&cases[0], &options);
	options.argument = NULL;
	options.text = "each process with another instruction set";
	ranks_processes(&cases[1], &options);
}

int main(int argc, char **argv)
{
	setenv("ONEHOP_HEAP_BYTES", "1M", 0);
	ranks_main(argc, argv, cases);
	run_ways(3);
	setenv("ONEHOP_SLOT_BYTES", "4096", 1);
	for (int ranks = 2; ranks <= 8; ranks += ranks_quick() ? 3 : 1)
		run_some(ranks);
	run_some(OH_MAX_RANKS);
	return tap_done();
}
