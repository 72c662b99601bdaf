/* SPDX-License-Identifier: MIT */
/*
 * Compares cuda.def with the vendor's cuda.h where the build has one. Our own
 * header is not included here: both declare the same names. With the macro
 * below the vendor's declares each function by the name that is exported, the
 * older versions too, and maps none to a newer one.
 */
#include "cuda_header.h"

#include <stddef.h>

#define __CUDA_API_VERSION_INTERNAL
#if __has_include(<cuda.h>)
#include <cuda.h>
#endif

/* The newest of the names that are used came with CUDA 12.3. */
#if defined(CUDA_VERSION) && CUDA_VERSION >= 12030

#define SAME(name, condition)                                                  \
	if (!(condition))                                                      \
		return name;
#define OH_CUDA(need, result, name, parameters)                                \
	SAME(#name, __builtin_types_compatible_p(__typeof__(name),             \
						 result parameters))
#define OH_CUDA_CONSTANT(name, value) SAME(#name, (name) == (value))
#define OH_CUDA_SIZE(type, bytes) SAME(#type, sizeof(type) == (bytes))
#define OH_CUDA_MEMBER(type, member, offset)                                   \
	SAME(#type "." #member, offsetof(type, member) == (offset))

const char *cuda_header_differs(const char **why_not)
{
	*why_not = NULL;
	SAME("CU_STREAM_LEGACY", (size_t)CU_STREAM_LEGACY == 1)
	SAME("CU_STREAM_PER_THREAD", (size_t)CU_STREAM_PER_THREAD == 2)
#include "vendor/cuda.def"
	return NULL;
}

#else

const char *cuda_header_differs(const char **why_not)
{
	*why_not = "the build found no cuda.h of CUDA 12.3 or later";
	return NULL;
}

#endif
