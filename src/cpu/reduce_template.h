/* SPDX-License-Identifier: MIT */
/*
 * The vector reducers, written once. A file for an instruction set includes
 * this one, which then defines its reducer, after it has defined:
 *
 * VEC_REDUCER, VEC_NAME, VEC_USABLE	the reducer
 * VEC_BYTES, vec, struct wide		a vector; f32 vectors a and b
 * VEC_UNROLL, VEC_WIDE_UNROLL		vectors a step; the latter for f16, bf16
 * vec_load, _store, _stream		any alignment; stream: aligned
 * vec_load_part, vec_store_part	1 to VEC_BYTES - 1 bytes
 * vec_min_s8, _s16, _s32, _s64		signed minimum
 * vec_canonical_f32, _f64		NaN made canonical
 * f16_load, f16_widen, f16_narrow	conversion; the halves are the file's
 * bf16_narrow				a: even elements, b: odd elements
 *
 * Everything is inlined into the kernels with a constant struct kind, so the
 * switches on type and operation cost nothing. Elements never mix: neither the
 * width of a vector nor the order of the loops can change a result.
 */
#include <string.h>

#include "cpu/reduce_list.h"

#define VEC_TYPE(element)                                                      \
	typedef element##_t v_##element __attribute__((vector_size(VEC_BYTES)))
VEC_TYPE(int8);
VEC_TYPE(uint8);
VEC_TYPE(int16);
VEC_TYPE(uint16);
VEC_TYPE(int32);
VEC_TYPE(uint32);
VEC_TYPE(int64);
VEC_TYPE(uint64);
typedef float v_f32 __attribute__((vector_size(VEC_BYTES)));
typedef double v_f64 __attribute__((vector_size(VEC_BYTES)));

/* What a kernel computes; a constant everywhere. */
struct kind {
	enum oh_dtype dtype;
	enum oh_op op;
};

/* The sum so far, or the like, of VEC_BYTES of each source. */
struct acc {
	struct wide wide; /* f16 and bf16, if is_wide */
	vec vec; /* all others */
};

VEC_INLINE size_t element_bytes(enum oh_dtype dtype)
{
	switch (dtype) {
	case OH_F64:
	case OH_I64:
	case OH_U64:
		return 8;
	case OH_F32:
	case OH_I32:
	case OH_U32:
		return 4;
	case OH_F16:
	case OH_BF16:
		return 2;
	default:
		return 1;
	}
}

VEC_INLINE bool is_float(enum oh_dtype dtype)
{
	return dtype == OH_F64 || dtype == OH_F32 || dtype == OH_F16 ||
	       dtype == OH_BF16;
}

VEC_INLINE bool is_unsigned(enum oh_dtype dtype)
{
	return dtype == OH_U64 || dtype == OH_U32 || dtype == OH_U8;
}

VEC_INLINE bool is_min_max(enum oh_op op)
{
	return op == OH_MIN || op == OH_MAX;
}

VEC_INLINE bool is_wide(struct kind kind)
{
	return element_bytes(kind.dtype) == 2 && !is_min_max(kind.op);
}

/*
 * Minimum and maximum of every type are a signed integer minimum of keys that
 * have the order of the values: an unsigned integer gets its upper bit
 * inverted, a negative float all bits but the sign, and for a maximum all bits
 * are inverted. Then -0 is below +0, and the key of NaN is the largest number,
 * which no other float has (it would be a NaN itself). Narrow floats need no
 * conversion.
 */
VEC_INLINE int64_t infinity_bits(enum oh_dtype dtype)
{
	switch (dtype) {
	case OH_F64:
		return 0x7ff0000000000000;
	case OH_F32:
		return 0x7f800000;
	case OH_BF16:
		return 0x7f80;
	default:
		return 0x7c00;
	}
}

#define VEC_KEYS(bits)                                                         \
	VEC_INLINE vec key_##bits(vec raw, struct kind kind)                   \
	{                                                                      \
		v_int##bits x = (v_int##bits)raw, nan;                         \
		int##bits##_t flip = kind.op == OH_MAX ? -1 : 0;               \
                                                                               \
		if (!is_float(kind.dtype)) {                                   \
			if (is_unsigned(kind.dtype))                           \
				flip ^= INT##bits##_MIN;                       \
			return (vec)(x ^ flip);                                \
		}                                                              \
		nan = (v_int##bits)((x & INT##bits##_MAX) >                    \
				    (int##bits##_t)infinity_bits(kind.dtype)); \
		x ^= ((x >> (bits - 1)) & INT##bits##_MAX) ^ flip;             \
		return (vec)((x & ~nan) | (nan & INT##bits##_MAX));            \
	}                                                                      \
                                                                               \
	VEC_INLINE vec unkey_##bits(vec key, struct kind kind)                 \
	{                                                                      \
		v_int##bits x = (v_int##bits)key, nan;                         \
		int##bits##_t flip = kind.op == OH_MAX ? -1 : 0;               \
                                                                               \
		if (!is_float(kind.dtype))                                     \
			return key_##bits(key, kind);                          \
		nan = (v_int##bits)(x == INT##bits##_MAX);                     \
		x ^= flip;                                                     \
		x ^= (x >> (bits - 1)) & INT##bits##_MAX;                      \
		return (vec)(x & ~(nan & INT##bits##_MIN));                    \
	}

VEC_KEYS(8)
VEC_KEYS(16)
VEC_KEYS(32)
VEC_KEYS(64)

#define VEC_BY_SIZE(dtype, call)                                               \
	switch (element_bytes(dtype)) {                                        \
	case 1:                                                                \
		return call(8);                                                \
	case 2:                                                                \
		return call(16);                                               \
	case 4:                                                                \
		return call(32);                                               \
	default:                                                               \
		return call(64);                                               \
	}

VEC_INLINE vec key(vec raw, struct kind kind){
#define CALL(bits) key_##bits(raw, kind)
	VEC_BY_SIZE(kind.dtype, CALL)
#undef CALL
}

VEC_INLINE vec unkey(vec raw, struct kind kind){
#define CALL(bits) unkey_##bits(raw, kind)
	VEC_BY_SIZE(kind.dtype, CALL)
#undef CALL
}

VEC_INLINE vec smaller(vec a, vec b, enum oh_dtype dtype){
#define CALL(bits) vec_min_s##bits(a, b)
	VEC_BY_SIZE(dtype, CALL)
#undef CALL
}

VEC_INLINE vec add(vec a, vec b, enum oh_dtype dtype)
{
#define CALL(bits) (vec)((v_uint##bits)a + (v_uint##bits)b)
	if (dtype == OH_F32)
		return (vec)((v_f32)a + (v_f32)b);
	if (dtype == OH_F64)
		return (vec)((v_f64)a + (v_f64)b);
	VEC_BY_SIZE(dtype, CALL)
#undef CALL
}

VEC_INLINE vec multiply(vec a, vec b, enum oh_dtype dtype)
{
#define CALL(bits) (vec)((v_uint##bits)a * (v_uint##bits)b)
	if (dtype == OH_F32)
		return (vec)((v_f32)a * (v_f32)b);
	if (dtype == OH_F64)
		return (vec)((v_f64)a * (v_f64)b);
	VEC_BY_SIZE(dtype, CALL)
#undef CALL
}

/* 1/n where that is exact, so that x * (1/n) has the bits of x / n. */
static const float exact_inverse[OH_MAX_RANKS + 1] = {
	[1] = 1,	[2] = 1.0f / 2,	  [4] = 1.0f / 4,
	[8] = 1.0f / 8, [16] = 1.0f / 16,
};

VEC_INLINE v_f32 divide_f32(v_f32 sum, int by)
{
	if (exact_inverse[by] != 0)
		return sum * exact_inverse[by];
	return sum / (float)by;
}

/*
 * Division by the number of sources. 8-bit integers are divided in f32, 32-bit
 * ones in f64: the numbers are exact there, and a quotient that is no integer
 * is at least 1/16 away from the next, far more than the rounding error.
 */
VEC_INLINE vec divide(vec sum, enum oh_dtype dtype, int by)
{
#define CASE(name, type, in)                                                   \
	case name: {                                                           \
		type array[VEC_BYTES / sizeof(type)];                          \
                                                                               \
		memcpy(array, &sum, sizeof(sum));                              \
		for (size_t i = 0; i < VEC_BYTES / sizeof(type); i++)          \
			array[i] = (type)((in)array[i] / (in)by);              \
		memcpy(&sum, array, sizeof(sum));                              \
		return sum;                                                    \
	}
	switch (dtype) {
		CASE(OH_I64, int64_t, int64_t)
		CASE(OH_U64, uint64_t, uint64_t)
		CASE(OH_I32, int32_t, double)
		CASE(OH_U32, uint32_t, double)
		CASE(OH_I8, int8_t, float)
		CASE(OH_U8, uint8_t, float)
	case OH_F64:
		return (vec)((v_f64)sum / (double)by);
	default:
		return (vec)divide_f32((v_f32)sum, by);
	}
#undef CASE
}

/* A vector of a source as it is combined. */
VEC_INLINE struct acc widen(vec raw, struct kind kind)
{
	struct acc x = {.vec = raw};

	if (is_min_max(kind.op)) {
		x.vec = key(raw, kind);
	} else if (kind.dtype == OH_F16) {
		x.wide = f16_widen(raw);
	} else if (kind.dtype == OH_BF16) {
		x.wide.a = (v_f32)((v_uint32)raw << 16);
		x.wide.b = (v_f32)((v_uint32)raw & 0xffff0000u);
	}
	return x;
}

VEC_INLINE struct acc fetch(const char *from, struct kind kind)
{
	if (kind.dtype == OH_F16 && is_wide(kind))
		return (struct acc){.wide = f16_load(from)};
	return widen(vec_load(from), kind);
}

VEC_INLINE struct acc combine(struct acc x, struct acc y, struct kind kind)
{
	if (is_min_max(kind.op)) {
		x.vec = smaller(x.vec, y.vec, kind.dtype);
	} else if (is_wide(kind) && kind.op == OH_PROD) {
		x.wide.a *= y.wide.a;
		x.wide.b *= y.wide.b;
	} else if (is_wide(kind)) {
		x.wide.a += y.wide.a;
		x.wide.b += y.wide.b;
	} else if (kind.op == OH_PROD) {
		x.vec = multiply(x.vec, y.vec, kind.dtype);
	} else {
		x.vec = add(x.vec, y.vec, kind.dtype);
	}
	return x;
}

/* The end of it: division, the one rounding, canonical NaN. */
VEC_INLINE vec narrow(struct acc x, struct kind kind, int srcs)
{
	if (is_min_max(kind.op))
		return unkey(x.vec, kind);
	if (is_wide(kind)) {
		if (kind.op == OH_AVG) {
			x.wide.a = divide_f32(x.wide.a, srcs);
			x.wide.b = divide_f32(x.wide.b, srcs);
		}
		return kind.dtype == OH_F16 ? f16_narrow(x.wide)
					    : bf16_narrow(x.wide);
	}
	if (kind.op == OH_AVG)
		x.vec = divide(x.vec, kind.dtype, srcs);
	if (kind.dtype == OH_F32)
		return vec_canonical_f32(x.vec);
	if (kind.dtype == OH_F64)
		return vec_canonical_f64(x.vec);
	return x.vec;
}

/* Some vectors, a constant number of them, from the byte at. */
VEC_INLINE void step(const struct oh__cpu_reduce_job *job, size_t at,
		     struct kind kind, int vectors)
{
	struct acc acc[VEC_UNROLL];
	vec out[VEC_UNROLL];
	int dst = 0;

#pragma GCC unroll 4
	for (int i = 0; i < vectors; i++) {
		const char *from = (const char *)job->src[0] + at;

		acc[i] = fetch(from + i * VEC_BYTES, kind);
	}
#pragma GCC unroll 1
	for (int src = 1; src < job->srcs; src++) {
		const char *from = (const char *)job->src[src] + at;

#pragma GCC unroll 4
		for (int i = 0; i < vectors; i++)
			acc[i] = combine(acc[i],
					 fetch(from + i * VEC_BYTES, kind),
					 kind);
	}
#pragma GCC unroll 4
	for (int i = 0; i < vectors; i++)
		out[i] = narrow(acc[i], kind, job->srcs);
#pragma GCC unroll 1
	for (; dst < job->nt_from; dst++) {
		char *to = (char *)job->dst[dst] + at;

#pragma GCC unroll 4
		for (int i = 0; i < vectors; i++)
			vec_store(to + i * VEC_BYTES, out[i]);
	}
#pragma GCC unroll 1
	for (; dst < job->dsts; dst++) {
		char *to = (char *)job->dst[dst] + at;
		bool aligned = (uintptr_t)to % VEC_BYTES == 0;

#pragma GCC unroll 4
		for (int i = 0; i < vectors; i++) {
			if (aligned)
				vec_stream(to + i * VEC_BYTES, out[i]);
			else
				vec_store(to + i * VEC_BYTES, out[i]);
		}
	}
}

/* Less than a vector. */
VEC_INLINE void step_part(const struct oh__cpu_reduce_job *job, size_t at,
			  size_t bytes, struct kind kind)
{
	const char *from = (const char *)job->src[0] + at;
	struct acc acc = widen(vec_load_part(from, bytes), kind);
	vec out;

#pragma GCC unroll 1
	for (int src = 1; src < job->srcs; src++) {
		from = (const char *)job->src[src] + at;
		acc = combine(acc, widen(vec_load_part(from, bytes), kind),
			      kind);
	}
	out = narrow(acc, kind, job->srcs);
#pragma GCC unroll 1
	for (int dst = 0; dst < job->dsts; dst++)
		vec_store_part((char *)job->dst[dst] + at, out, bytes);
}

/* The bytes from at to end, for any number of sources and destinations. */
VEC_INLINE void range(const struct oh__cpu_reduce_job *job, size_t at,
		      size_t end, struct kind kind)
{
	const int vectors = is_wide(kind) ? VEC_WIDE_UNROLL : VEC_UNROLL;
	const size_t bytes = (size_t)vectors * VEC_BYTES;

	for (; end - at >= bytes; at += bytes)
		step(job, at, kind, vectors);
	for (; end - at >= VEC_BYTES; at += VEC_BYTES)
		step(job, at, kind, 1);
	if (at < end)
		step_part(job, at, end - at, kind);
}

/*
 * Two sources and one or two destinations, the pointers in registers: this is
 * what small calls between two ranks are made of.
 */
VEC_INLINE void pair(const struct oh__cpu_reduce_job *job, size_t end,
		     struct kind kind, bool second)
{
	const char *a = job->src[0], *b = job->src[1];
	char *x = job->dst[0], *y = job->dst[job->dsts - 1];
	size_t at = 0;

#pragma GCC unroll 4
	for (; end - at >= VEC_BYTES; at += VEC_BYTES) {
		vec out = narrow(
			combine(fetch(a + at, kind), fetch(b + at, kind), kind),
			kind, 2);

		vec_store(x + at, out);
		if (second)
			vec_store(y + at, out);
	}
	if (at < end) {
		const size_t bytes = end - at;
		struct acc acc = widen(vec_load_part(a + at, bytes), kind);
		vec out;

		acc = combine(acc, widen(vec_load_part(b + at, bytes), kind),
			      kind);
		out = narrow(acc, kind, 2);
		vec_store_part(x + at, out, bytes);
		if (second)
			vec_store_part(y + at, out, bytes);
	}
}

/* Bytes until the first non-temporal destination is at a cache line. */
VEC_INLINE size_t head_bytes(const struct oh__cpu_reduce_job *job, size_t end,
			     size_t element)
{
	size_t head;

	if (job->nt_from >= job->dsts)
		return 0;
	head = -(uintptr_t)job->dst[job->nt_from] % 64;
	return head % element || head > end ? 0 : head;
}

typedef void range_fn(const struct oh__cpu_reduce_job *job, size_t at,
		      size_t end);

VEC_INLINE void reduce(const struct oh__cpu_reduce_job *job, struct kind kind,
		       range_fn *ranged)
{
	const size_t element = element_bytes(kind.dtype);
	const size_t end = job->count * element;
	size_t head;

	if ((kind.op == OH_SUM || kind.op == OH_AVG) && is_float(kind.dtype) &&
	    job->srcs == 2 && job->dsts <= 2 && job->nt_from >= job->dsts) {
		if (job->dsts == 1)
			pair(job, end, kind, false);
		else
			pair(job, end, kind, true);
		return;
	}
	head = head_bytes(job, end, element);
	if (head)
		ranged(job, 0, head);
	ranged(job, head, end);
}

#define VEC_KERNEL(dtype, op)                                                  \
	static void range_##dtype##_##op(const struct oh__cpu_reduce_job *job, \
					 size_t at, size_t end)                \
	{                                                                      \
		range(job, at, end, (struct kind){OH_##dtype, OH_##op});       \
	}                                                                      \
                                                                               \
	static void reduce_##dtype##_##op(                                     \
		const struct oh__cpu_reduce_job *job)                          \
	{                                                                      \
		reduce(job, (struct kind){OH_##dtype, OH_##op},                \
		       range_##dtype##_##op);                                  \
	}

/* Integers that wrap are signed and unsigned alike in a sum and a product. */
#define VEC_KERNELS_UNSIGNED(dtype)                                            \
	VEC_KERNEL(dtype, MIN)                                                 \
	VEC_KERNEL(dtype, MAX)                                                 \
	VEC_KERNEL(dtype, AVG)

#define VEC_KERNELS(dtype)                                                     \
	VEC_KERNEL(dtype, SUM)                                                 \
	VEC_KERNEL(dtype, PROD)                                                \
	VEC_KERNELS_UNSIGNED(dtype)

VEC_KERNELS(F64)
VEC_KERNELS(F32)
VEC_KERNELS(F16)
VEC_KERNELS(BF16)
VEC_KERNELS(I64)
VEC_KERNELS_UNSIGNED(U64)
VEC_KERNELS(I32)
VEC_KERNELS_UNSIGNED(U32)
VEC_KERNELS(I8)
VEC_KERNELS_UNSIGNED(U8)

static void copy(void *dst, const void *src, size_t bytes)
{
	const char *from = src;
	char *to = dst;
	size_t at = 0;

	for (; bytes - at >= VEC_BYTES; at += VEC_BYTES)
		vec_store(to + at, vec_load(from + at));
	if (at < bytes)
		vec_store_part(to + at, vec_load_part(from + at, bytes - at),
			       bytes - at);
}

static void copy_nt(void *dst, const void *src, size_t bytes)
{
	const char *from = src;
	char *to = dst;
	size_t head = -(uintptr_t)to % 64, at = 0;

	if (bytes >= 64 + VEC_BYTES) {
		memcpy(to, from, head);
		for (at = head; bytes - at >= VEC_BYTES; at += VEC_BYTES)
			vec_stream(to + at, vec_load(from + at));
	}
	if (at < bytes)
		memcpy(to + at, from + at, bytes - at);
}

#define VEC_ROW(dtype, wraps)                                                  \
	[OH_##dtype] = {                                                       \
		[OH_SUM] = reduce_##wraps##_SUM,                               \
		[OH_PROD] = reduce_##wraps##_PROD,                             \
		[OH_MIN] = reduce_##dtype##_MIN,                               \
		[OH_MAX] = reduce_##dtype##_MAX,                               \
		[OH_AVG] = reduce_##dtype##_AVG,                               \
	}

const struct oh__cpu_reducer VEC_REDUCER = {
	.name = VEC_NAME,
	.usable = VEC_USABLE,
	.reduce =
		{
			VEC_ROW(F64, F64),
			VEC_ROW(F32, F32),
			VEC_ROW(F16, F16),
			VEC_ROW(BF16, BF16),
			VEC_ROW(I64, I64),
			VEC_ROW(U64, I64),
			VEC_ROW(I32, I32),
			VEC_ROW(U32, I32),
			VEC_ROW(I8, I8),
			VEC_ROW(U8, I8),
		},
	.copy = copy,
	.copy_nt = copy_nt,
};
