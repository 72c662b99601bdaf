/* SPDX-License-Identifier: MIT */
/* Lists of names in flags: what they are called elsewhere is understood, too.
 */
#include "tools/bench_names.h"

#include <string.h>

#include "bench/peers.h"
#include "onehop/onehop.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The index of a name, -1 if there is none. */
typedef int find_name(const char *name, size_t length);

static bool same(const char *name, const char *text, size_t length)
{
	return strlen(name) == length && !memcmp(name, text, length);
}

static int find_dtype(const char *name, size_t length)
{
	/* as nccl-tests and frameworks say */
	static const struct {
		const char *name;
		enum oh_dtype dtype;
	} others[] = {
		{"double", OH_F64},    {"float64", OH_F64}, {"float", OH_F32},
		{"float32", OH_F32},   {"half", OH_F16},    {"float16", OH_F16},
		{"bfloat16", OH_BF16}, {"int64", OH_I64},   {"uint64", OH_U64},
		{"int32", OH_I32},     {"uint32", OH_U32},  {"int8", OH_I8},
		{"uint8", OH_U8},
	};

	for (int i = 0; i < OH_DTYPE_COUNT; i++) {
		if (same(oh_dtype_name((enum oh_dtype)i), name, length))
			return i;
	}
	for (size_t i = 0; i < COUNT(others); i++) {
		if (same(others[i].name, name, length))
			return (int)others[i].dtype;
	}
	return -1;
}

static int find_op(const char *name, size_t length)
{
	for (int i = 0; i < OH_OP_COUNT; i++) {
		if (same(oh_op_name((enum oh_op)i), name, length))
			return i;
	}
	return -1;
}

static int find_collective(const char *name, size_t length)
{
	for (int i = 0; i < OH_COLLECTIVE_COUNT; i++) {
		if (same(oh_collective_name((enum oh_collective)i), name,
			 length))
			return i;
	}
	return -1;
}

static int find_peer(const char *name, size_t length)
{
	for (int i = 0; i < BENCH_PEER_COUNT; i++) {
		if (same(bench_peer_name((enum bench_peer)i), name, length))
			return i;
	}
	return -1;
}

/* "a,b" or "all": a bit for each. */
static bool parse_set(const char *text, find_name *find, int count,
		      unsigned *set)
{
	*set = 0;
	if (!strcmp(text, "all")) {
		*set = (1u << count) - 1;
		return true;
	}
	for (;;) {
		size_t length = strcspn(text, ",");
		int index = find(text, length);

		if (index < 0)
			return false;
		*set |= 1u << index;
		if (!text[length])
			return true;
		text += length + 1;
	}
}

bool bench_names_dtypes(const char *text, unsigned *set)
{
	return parse_set(text, find_dtype, OH_DTYPE_COUNT, set);
}

bool bench_names_ops(const char *text, unsigned *set)
{
	return parse_set(text, find_op, OH_OP_COUNT, set);
}

bool bench_names_collectives(const char *text, unsigned *set)
{
	return parse_set(text, find_collective, OH_COLLECTIVE_COUNT, set);
}

bool bench_names_peers(const char *text, unsigned *set)
{
	return parse_set(text, find_peer, BENCH_PEER_COUNT, set);
}
