/* SPDX-License-Identifier: MIT */
/*
 * Compares nccl.def with the vendor's nccl.h where the build has one, and the
 * CUDA headers that it includes. Our own header is not included here: both
 * declare the same names.
 */
#include "nccl_header.h"

#include <stddef.h>

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>) &&              \
	__has_include(<cuda_fp16.h>)
#include <nccl.h>
#endif

/* The newest of the names that are used came with NCCL 2.27. */
#if defined(NCCL_VERSION_CODE) && NCCL_VERSION_CODE >= 22700

#define SAME(name, condition)                                                  \
	if (!(condition))                                                      \
		return name;
#define OH_NCCL(need, result, name, parameters)                                \
	SAME(#name, __builtin_types_compatible_p(__typeof__(name),             \
						 result parameters))
#define OH_NCCL_CONSTANT(name, value) SAME(#name, (name) == (value))
#define OH_NCCL_SIZE(type, bytes) SAME(#type, sizeof(type) == (bytes))

const char *nccl_header_differs(const char **why_not)
{
	*why_not = NULL;
	SAME("cudaStream_t",
	     __builtin_types_compatible_p(cudaStream_t, struct CUstream_st *))
#include "vendor/nccl.def"
	return NULL;
}

#else

const char *nccl_header_differs(const char **why_not)
{
	*why_not = "the build found no nccl.h of NCCL 2.27 or later";
	return NULL;
}

#endif
