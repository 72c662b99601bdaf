/* SPDX-License-Identifier: MIT */
/*
 * Names and texts of the public enums. All strings are static; an unknown
 * value gives "unknown", never a crash.
 */
#include "onehop/onehop.h"

struct status_row {
	const char *name, *text, *remedy;
};

#define STATUS_ROW(name, value, text, remedy) [value] = {#name, text, remedy},
static const struct status_row statuses[] = {OH_STATUS_LIST(STATUS_ROW)};
#undef STATUS_ROW

static const struct {
	const char *name;
	size_t bytes;
} dtypes[OH_DTYPE_COUNT] = {
	[OH_F64] = {"f64", 8},	 [OH_F32] = {"f32", 4}, [OH_F16] = {"f16", 2},
	[OH_BF16] = {"bf16", 2}, [OH_I64] = {"i64", 8}, [OH_U64] = {"u64", 8},
	[OH_I32] = {"i32", 4},	 [OH_U32] = {"u32", 4}, [OH_I8] = {"i8", 1},
	[OH_U8] = {"u8", 1},
};

static const char *const ops[OH_OP_COUNT] = {
	[OH_SUM] = "sum", [OH_PROD] = "prod", [OH_MIN] = "min",
	[OH_MAX] = "max", [OH_AVG] = "avg",
};

static const char *const collectives[OH_COLLECTIVE_COUNT] = {
	[OH_ALL_REDUCE] = "all_reduce",
	[OH_REDUCE_SCATTER] = "reduce_scatter",
	[OH_ALL_GATHER] = "all_gather",
	[OH_BROADCAST] = "broadcast",
};

static const char unknown[] = "unknown";

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static const struct status_row *status_row(enum oh_status status)
{
	static const struct status_row none = {unknown, unknown, unknown};

	if ((size_t)status >= LENGTH(statuses))
		return &none;
	return &statuses[status];
}

const char *oh_status_name(enum oh_status status)
{
	return status_row(status)->name;
}

const char *oh_status_text(enum oh_status status)
{
	return status_row(status)->text;
}

const char *oh_status_remedy(enum oh_status status)
{
	return status_row(status)->remedy;
}

const char *oh_dtype_name(enum oh_dtype dtype)
{
	return (size_t)dtype < OH_DTYPE_COUNT ? dtypes[dtype].name : unknown;
}

size_t oh_dtype_bytes(enum oh_dtype dtype)
{
	return (size_t)dtype < OH_DTYPE_COUNT ? dtypes[dtype].bytes : 0;
}

const char *oh_op_name(enum oh_op op)
{
	return (size_t)op < OH_OP_COUNT ? ops[op] : unknown;
}

const char *oh_collective_name(enum oh_collective collective)
{
	return (size_t)collective < OH_COLLECTIVE_COUNT
		       ? collectives[collective]
		       : unknown;
}

const char *oh_version(void)
{
	return OH_VERSION_STRING;
}
