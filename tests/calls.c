/* SPDX-License-Identifier: MIT */
/*
 * Values are made in blocks: first the random bits of every element, then what
 * they mean in the call's type.
 */
#include "calls.h"

#include <math.h>
#include <string.h>

#include "base/settings.h"
#include "cpu/stores.h"

#define BLOCK 256
#define GUARD_BYTE 0xc3
/* 2^64 / golden ratio */
#define GOLDEN 0x9e3779b97f4a7c15ull

static bool is_copy(const struct call *call)
{
	return call->collective == OH_ALL_GATHER ||
	       call->collective == OH_BROADCAST;
}

static bool is_real(enum oh_dtype dtype)
{
	return dtype == OH_F64 || dtype == OH_F32 || dtype == OH_F16 ||
	       dtype == OH_BF16;
}

size_t call_send_bytes(const struct call *call, int ranks)
{
	size_t bytes = call->count * oh_dtype_bytes(call->dtype);

	return call->collective == OH_REDUCE_SCATTER ? bytes * (size_t)ranks
						     : bytes;
}

size_t call_recv_bytes(const struct call *call, int ranks)
{
	size_t bytes = call->count * oh_dtype_bytes(call->dtype);

	return call->collective == OH_ALL_GATHER ? bytes * (size_t)ranks
						 : bytes;
}

static void make_bits(const struct call *call, int rank, size_t first, size_t n,
		      uint64_t *bits)
{
	uint64_t key = ranks_mix(call->number * 16 + (uint64_t)rank + 1);

	for (size_t i = 0; i < n; i++)
		bits[i] = ranks_mix(key + (first + i) * GOLDEN);
}

/* The largest number so that the sum of 16 (sums), or the number itself, has
 * no more bits than the type's significand. */
static int64_t real_limit(const struct call *call)
{
	bool sums = call->op == OH_SUM || call->op == OH_AVG;

	switch (call->dtype) {
	case OH_F64:
		return sums ? 1ll << 48 : 1ll << 53;
	case OH_F32:
		return sums ? 1 << 19 : 1 << 24;
	case OH_F16:
		return sums ? 127 : 2048;
	default:
		return sums ? 15 : 256;
	}
}

/* A factor: the product of 16 stays in the range of the type. */
static double factor_of(const struct call *call, int ranks, int rank,
			size_t index, uint64_t bits)
{
	int range = call->dtype == OH_F16 ? 1 : 7;
	int power = (int)((bits >> 8) % (2 * (unsigned)range + 1)) - range;
	bool odd = (index + call->number) % (uint64_t)ranks == (uint64_t)rank;
	double x = odd ? (double)(1 + 2 * (bits >> 32 & 7)) : 1;

	return ldexp(bits & 1 ? -x : x, power);
}

/* Whole numbers but for OH_PROD. */
static double real_of(const struct call *call, int ranks, int rank,
		      size_t index, uint64_t bits)
{
	int64_t limit = real_limit(call);

	if (call->op == OH_PROD)
		return factor_of(call, ranks, rank, index, bits);
	return (double)((int64_t)(bits % (2 * (uint64_t)limit + 1)) - limit);
}

static uint32_t float_bits(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

/* Rounded to nearest, ties to even. */
static uint16_t f16_bits(float x)
{
	uint32_t bits = float_bits(x);
	uint32_t sign = bits >> 16 & 0x8000;
	uint32_t rest = bits & 0x7fffffff;

	if (rest >= float_bits(65520))
		return (uint16_t)(sign | 0x7c00);
	if (rest < float_bits(0x1p-14f)) {
		/* the unit of 0.5 is that of subnormal f16 */
		rest = float_bits(fabsf(x) + 0.5f) - float_bits(0.5f);
		return (uint16_t)(sign | rest);
	}
	rest += 0xfff + (rest >> 13 & 1);
	return (uint16_t)(sign | ((rest - (112u << 23)) >> 13));
}

static uint16_t bf16_bits(float x)
{
	uint32_t bits = float_bits(x);

	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* x is f32's result or, for f64, f64's. */
static uint64_t real_bits(enum oh_dtype dtype, double x)
{
	uint64_t bits;

	switch (dtype) {
	case OH_F64:
		memcpy(&bits, &x, sizeof(bits));
		return bits;
	case OH_F32:
		return float_bits((float)x);
	case OH_F16:
		return f16_bits((float)x);
	default:
		return bf16_bits((float)x);
	}
}

/* The lowest bytes of each; the machines that run this are little endian. */
static void store(const uint64_t *bits, size_t n, size_t bytes, uint8_t *to)
{
	for (size_t i = 0; i < n; i++)
		memcpy(to + i * bytes, &bits[i], bytes);
}

static void values_block(const struct call *call, int ranks, int rank,
			 size_t first, size_t n, uint8_t *values)
{
	uint64_t bits[BLOCK];

	make_bits(call, rank, first, n, bits);
	if (!is_copy(call) && is_real(call->dtype))
		for (size_t i = 0; i < n; i++)
			bits[i] = real_bits(
				call->dtype,
				real_of(call, ranks, rank, first + i, bits[i]));
	store(bits, n, oh_dtype_bytes(call->dtype), values);
}

void call_values(const struct call *call, int ranks, int rank, size_t first,
		 size_t n, void *values)
{
	size_t bytes = oh_dtype_bytes(call->dtype);

	for (size_t at = 0; at < n; at += BLOCK)
		values_block(call, ranks, rank, first + at,
			     n - at < BLOCK ? n - at : BLOCK,
			     (uint8_t *)values + at * bytes);
}

static double combine_real(enum oh_op op, double x, double y)
{
	switch (op) {
	case OH_PROD:
		return x * y;
	case OH_MIN:
		return x < y ? x : y;
	case OH_MAX:
		return x > y ? x : y;
	default:
		return x + y;
	}
}

static void reduce_real(const struct call *call, int ranks, size_t first,
			size_t n, uint64_t *result)
{
	double sum[BLOCK];

	for (int rank = 0; rank < ranks; rank++) {
		uint64_t bits[BLOCK];

		make_bits(call, rank, first, n, bits);
		for (size_t i = 0; i < n; i++) {
			double x =
				real_of(call, ranks, rank, first + i, bits[i]);

			sum[i] = rank ? combine_real(call->op, sum[i], x) : x;
		}
	}
	for (size_t i = 0; i < n; i++) {
		double x = sum[i];

		if (call->op == OH_AVG)
			x = call->dtype == OH_F64 ? x / ranks
						  : (float)x / (float)ranks;
		result[i] = real_bits(call->dtype, x);
	}
}

/* The integer of the lowest bits, sign-extended where the type has a sign. */
static uint64_t extend(enum oh_dtype dtype, uint64_t bits)
{
	unsigned unused = 64 - 8 * (unsigned)oh_dtype_bytes(dtype);
	bool is_signed = dtype == OH_I64 || dtype == OH_I32 || dtype == OH_I8;

	bits <<= unused;
	return is_signed ? (uint64_t)((int64_t)bits >> unused) : bits >> unused;
}

static uint64_t combine_integer(const struct call *call, uint64_t x, uint64_t y)
{
	bool is_signed = call->dtype == OH_I64 || call->dtype == OH_I32 ||
			 call->dtype == OH_I8;
	bool less = is_signed ? (int64_t)x < (int64_t)y : x < y;

	switch (call->op) {
	case OH_PROD:
		return extend(call->dtype, x * y);
	case OH_MIN:
		return less ? x : y;
	case OH_MAX:
		return less ? y : x;
	default:
		return extend(call->dtype, x + y);
	}
}

static void reduce_integer(const struct call *call, int ranks, size_t first,
			   size_t n, uint64_t *result)
{
	bool is_signed = call->dtype == OH_I64 || call->dtype == OH_I32 ||
			 call->dtype == OH_I8;

	for (int rank = 0; rank < ranks; rank++) {
		uint64_t bits[BLOCK];

		make_bits(call, rank, first, n, bits);
		for (size_t i = 0; i < n; i++) {
			uint64_t x = extend(call->dtype, bits[i]);

			result[i] =
				rank ? combine_integer(call, result[i], x) : x;
		}
	}
	for (size_t i = 0; i < n && call->op == OH_AVG; i++)
		result[i] = is_signed ? (uint64_t)((int64_t)result[i] / ranks)
				      : result[i] / (uint64_t)ranks;
}

static void expected_block(const struct call *call, int ranks, int rank,
			   size_t first, size_t n, uint8_t *values)
{
	uint64_t bits[BLOCK];

	switch (call->collective) {
	case OH_ALL_GATHER:
		values_block(call, ranks, (int)(first / call->count),
			     first % call->count, n, values);
		return;
	case OH_BROADCAST:
		values_block(call, ranks, call->root, first, n, values);
		return;
	case OH_REDUCE_SCATTER:
		first += (size_t)rank * call->count;
		break;
	case OH_ALL_REDUCE:
		break;
	}
	if (is_real(call->dtype))
		reduce_real(call, ranks, first, n, bits);
	else
		reduce_integer(call, ranks, first, n, bits);
	store(bits, n, oh_dtype_bytes(call->dtype), values);
}

/* How many elements the block at first may have; all of one rank's part. */
static size_t block_at(const struct call *call, size_t first, size_t n)
{
	size_t most = n < BLOCK ? n : BLOCK;
	size_t part = call->count - first % call->count;

	return most < part ? most : part;
}

void call_expected(const struct call *call, int ranks, int rank, size_t first,
		   size_t n, void *values)
{
	size_t bytes = oh_dtype_bytes(call->dtype);
	uint8_t *at = values;

	while (n) {
		size_t block = block_at(call, first, n);

		expected_block(call, ranks, rank, first, block, at);
		first += block;
		n -= block;
		at += block * bytes;
	}
}

size_t call_wrong(const struct call *call, int ranks, int rank,
		  const uint8_t *recv)
{
	size_t bytes = oh_dtype_bytes(call->dtype);
	size_t all = call_recv_bytes(call, ranks) / bytes;
	uint8_t values[BLOCK * 8];

	for (size_t first = 0; first < all;) {
		size_t n = block_at(call, first, all - first);

		expected_block(call, ranks, rank, first, n, values);
		if (memcmp(values, recv + first * bytes, n * bytes))
			for (size_t i = 0; i < n; i++)
				if (memcmp(values + i * bytes,
					   recv + (first + i) * bytes, bytes))
					return first + i;
		first += n;
	}
	return SIZE_MAX;
}

enum oh_status call_make(struct oh_comm *comm, const struct call *call,
			 const void *send, void *recv)
{
	switch (call->collective) {
	case OH_ALL_REDUCE:
		return oh_all_reduce(comm, send, recv, call->count, call->dtype,
				     call->op, NULL);
	case OH_REDUCE_SCATTER:
		return oh_reduce_scatter(comm, send, recv, call->count,
					 call->dtype, call->op, NULL);
	case OH_ALL_GATHER:
		return oh_all_gather(comm, send, recv, call->count, call->dtype,
				     NULL);
	case OH_BROADCAST:
		break;
	}
	return oh_broadcast(comm, send, recv, call->count, call->dtype,
			    call->root, NULL);
}

const char *call_text(const struct call *call, char *text, size_t bytes)
{
	char root[16] = "";

	if (call->collective == OH_BROADCAST)
		snprintf(root, sizeof(root), "root %d", call->root);
	snprintf(text, bytes, "%s %s %s count %zu%s, number %llu",
		 oh_collective_name(call->collective),
		 oh_dtype_name(call->dtype),
		 *root		 ? root
		 : is_copy(call) ? ""
				 : oh_op_name(call->op),
		 call->count, call->in_place ? " in place" : "",
		 (unsigned long long)call->number);
	return text;
}

static void set_guards(uint8_t *buffer, size_t bytes)
{
	memset(buffer - CALL_GUARD, GUARD_BYTE, CALL_GUARD);
	memset(buffer + bytes, GUARD_BYTE, CALL_GUARD);
}

static void check_guards(struct ranks_self *self, const struct call *call,
			 const char *name, const uint8_t *buffer, size_t bytes)
{
	char text[128];

	for (int i = 0; i < CALL_GUARD; i++)
		if (!ranks_check(self, buffer[i - CALL_GUARD] == GUARD_BYTE,
				 "%s: byte %d before %s was written",
				 call_text(call, text, sizeof(text)),
				 CALL_GUARD - i, name) ||
		    !ranks_check(self, buffer[bytes + (size_t)i] == GUARD_BYTE,
				 "%s: byte %d behind %s was written",
				 call_text(call, text, sizeof(text)), i, name))
			return;
}

static void check_result(struct ranks_self *self, const struct call *call,
			 const uint8_t *recv)
{
	size_t bytes = oh_dtype_bytes(call->dtype);
	size_t wrong = call_wrong(call, self->ranks, self->rank, recv);
	uint64_t is = 0, expected = 0;
	char text[128];

	if (wrong == SIZE_MAX)
		return;
	call_expected(call, self->ranks, self->rank, wrong, 1, &expected);
	memcpy(&is, recv + wrong * bytes, bytes);
	ranks_check(self, false, "%s: element %zu is %#llx, expected %#llx",
		    call_text(call, text, sizeof(text)), wrong,
		    (unsigned long long)is, (unsigned long long)expected);
}

/* send is as call_values made it, but for the part that is recv in place. */
static void check_send(struct ranks_self *self, const struct call *call,
		       const uint8_t *send)
{
	size_t bytes = oh_dtype_bytes(call->dtype);
	size_t all = call_send_bytes(call, self->ranks) / bytes;
	size_t own = (size_t)self->rank * call->count;
	uint8_t values[BLOCK * 8];
	char text[128];

	for (size_t first = 0; first < all;) {
		size_t n = block_at(call, first, all - first);

		values_block(call, self->ranks, self->rank, first, n, values);
		if (!(call->in_place && first >= own &&
		      first < own + call->count) &&
		    !ranks_check(
			    self,
			    !memcmp(values, send + first * bytes, n * bytes),
			    "%s: send has changed near element %zu",
			    call_text(call, text, sizeof(text)), first))
			return;
		first += n;
	}
}

/* Where send and recv are in the call. */
static void place(const struct ranks_self *self, const struct call *call,
		  uint8_t **send, uint8_t **recv)
{
	size_t bytes = call->count * oh_dtype_bytes(call->dtype);

	if (!call->in_place)
		return;
	if (call->collective == OH_REDUCE_SCATTER)
		*recv = *send + (size_t)self->rank * bytes;
	else if (call->collective == OH_ALL_GATHER)
		*send = *recv + (size_t)self->rank * bytes;
	else
		*send = *recv;
}

bool call_try(struct ranks_self *self, struct oh_comm *comm,
	      const struct call *call, uint8_t *send, uint8_t *recv)
{
	size_t send_bytes = call_send_bytes(call, self->ranks);
	size_t recv_bytes = call_recv_bytes(call, self->ranks);
	bool scatter = call->collective == OH_REDUCE_SCATTER;
	bool uses_send = !call->in_place || scatter;
	bool uses_recv = !call->in_place || !scatter;
	uint8_t *from = send, *to = recv;
	char text[128];

	place(self, call, &from, &to);
	if (uses_recv) {
		set_guards(recv, recv_bytes);
		memset(recv, 0x5a, recv_bytes);
	}
	if (uses_send)
		set_guards(send, send_bytes);
	call_values(call, self->ranks, self->rank, 0,
		    send_bytes / oh_dtype_bytes(call->dtype), from);
	/* only the root's is read: wrong values and NULL in turn */
	if (call->collective == OH_BROADCAST && self->rank != call->root &&
	    !call->in_place && call->number & 1)
		from = NULL;
	call_text(call, text, sizeof(text));
	ranks_at(self, "%s", text);
	if (!ranks_fine(self, call_make(comm, call, from, to), text))
		return false;
	check_result(self, call, to);
	if (uses_recv)
		check_guards(self, call, "recv", recv, recv_bytes);
	if (uses_send) {
		check_guards(self, call, "send", send, send_bytes);
		check_send(self, call, send);
	}
	return true;
}

struct call call_random(struct ranks_random *common, int ranks, size_t bytes)
{
	struct call call;
	size_t most;

	call.collective =
		(enum oh_collective)ranks_below(common, OH_COLLECTIVE_COUNT);
	call.dtype = (enum oh_dtype)ranks_below(common, OH_DTYPE_COUNT);
	call.op = (enum oh_op)ranks_below(common, OH_OP_COUNT);
	call.root = (int)ranks_below(common, (uint64_t)ranks);
	/* 8 bytes at least, and half as many with every step */
	most = bytes >> ranks_below(common, 10);
	if (most < 8)
		most = 8;
	call.count = 1 + ranks_below(common, most / oh_dtype_bytes(call.dtype));
	call.in_place = ranks_below(common, 2);
	call.number = ranks_random(common);
	return call;
}

static bool usable(const char *setting, const char *value)
{
	const struct oh__cpu_reducer *reducer = oh__cpu_reducer_named(value);

	if (!strcmp(value, "auto") || strcmp(setting, "ONEHOP_ISA"))
		return true;
	return reducer && reducer->usable();
}

bool call_choice(const char *setting, int index, char *text, size_t bytes)
{
	const char *at = NULL;

	for (int i = 0; i < OH__SETTING_COUNT; i++) {
		const struct oh__setting_row *row =
			oh__setting_row((enum oh__setting)i);

		if (!strcmp(row->name, setting))
			at = row->choices;
	}
	for (; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL) {
		snprintf(text, bytes, "%.*s", (int)strcspn(at, "|"), at);
		if (usable(setting, text) && !index--)
			return true;
	}
	return false;
}
