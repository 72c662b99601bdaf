/* SPDX-License-Identifier: MIT */
/*
 * Compares nvml.def with the vendor's nvml.h where the build has one. Our own
 * header is not included here: both declare the same names.
 */
#include "nvml_header.h"

#include <stddef.h>

#if __has_include(<nvml.h>)
#include <nvml.h>
#endif

/* The names that are used came one by one until CUDA 11.4 or so. */
#if defined(NVML_API_VERSION) && NVML_API_VERSION >= 12

#define SAME(name, condition)                                                  \
	if (!(condition))                                                      \
		return name;
#define OH_NVML(need, result, name, parameters)                                \
	SAME(#name, __builtin_types_compatible_p(__typeof__(name),             \
						 result parameters))
#define OH_NVML_CONSTANT(name, value) SAME(#name, (name) == (value))
#define OH_NVML_SIZE(type, bytes) SAME(#type, sizeof(type) == (bytes))
#define OH_NVML_MEMBER(type, member, offset)                                   \
	SAME(#type "." #member, offsetof(type, member) == (offset))

const char *nvml_header_differs(const char **why_not)
{
	*why_not = NULL;
#include "vendor/nvml.def"
	return NULL;
}

#else

const char *nvml_header_differs(const char **why_not)
{
	*why_not = "the build found no nvml.h of CUDA 12 or later";
	return NULL;
}

#endif
