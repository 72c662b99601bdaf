/* SPDX-License-Identifier: MIT */
/*
 * NCCL (libnccl.so.2), loaded at run time: the benchmark's peer, never needed
 * by the library. The declarations are our own: building needs no header of the
 * vendor. They bear the vendor's names, so that one list (nccl.def) can be held
 * against a real nccl.h by a test; hence this header and that one never meet in
 * one file.
 */
#ifndef OH_VENDOR_NCCL_H
#define OH_VENDOR_NCCL_H

#include <stddef.h>

#include "onehop/onehop.h"

/* An enum of small values is an unsigned int in the vendor's binary
 * interface; the values stand in nccl.def. */
typedef unsigned int ncclResult_t;
typedef unsigned int ncclDataType_t;
typedef unsigned int ncclRedOp_t;
typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
/* the driver's CUstream by the name that NCCL uses */
typedef struct CUstream_st *cudaStream_t;

typedef struct {
	char internal[128];
} ncclUniqueId;

enum oh__nccl_constant {
#define OH_NCCL_CONSTANT(name, value) name = (value),
#include "vendor/nccl.def"
};

#define OH_NCCL_SIZE(type, bytes)                                              \
	_Static_assert(sizeof(type) == (bytes), #type);
#include "vendor/nccl.def"

/* NULL where NCCL is too old for an optional one. */
struct oh__nccl {
#define OH_NCCL(need, result, name, parameters) result(*name) parameters;
#include "vendor/nccl.def"
};

/*
 * The table, the same for the whole process and for good: two NCCLs in one
 * process are never wanted, so once one is loaded every call gives that one.
 * file: a path, for Python's wheels keep theirs where no loader looks; NULL:
 * libnccl.so.2. OH_ERR_UNSUPPORTED if there is no such file (nothing is logged
 * above info), OH_ERR_SYSTEM if it cannot be loaded; a failure is not kept.
 * NCCL reads its settings from the environment once, when they are first
 * needed. Thread: any.
 */
enum oh_status oh__nccl_load(const char *file, const struct oh__nccl **nccl);

/*
 * A call of the table, such as OH__NCCL(nccl->ncclCommDestroy(comm)), as a
 * status: OH_OK or OH_ERR_SYSTEM. A failure is logged, and recorded with the
 * function's name, NCCL's code, and what NCCL said last in this process, which
 * another thread's failure may have been.
 */
#define OH__NCCL(call) oh__nccl_check((call), #call, __FILE__, __LINE__)

/* text: the call as written, or the function's name. */
__attribute__((cold)) enum oh_status
oh__nccl_fail(ncclResult_t code, const char *text, const char *file, int line);

static inline enum oh_status oh__nccl_check(ncclResult_t code, const char *text,
					    const char *file, int line)
{
	if (__builtin_expect(code == ncclSuccess, 1))
		return OH_OK;
	return oh__nccl_fail(code, text, file, line);
}

#endif
