/* SPDX-License-Identifier: MIT */
/* fakenvml.so in NVML's place, see fakelibrary.h. */
#ifndef OH_TESTS_FAKENVML_H
#define OH_TESTS_FAKENVML_H

#include "fakelibrary.h"

static const struct fakelibrary fakenvml = {"fakenvml.so", "libnvidia-ml.so.1",
					    "FAKENVML_SCRIPT", "script"};

static inline void fakenvml_start(char **argv)
{
	fakelibrary_start(&fakenvml, argv);
}

/* What NVML says from the next nvmlInit_v2 on. */
static inline void fakenvml_play(const char *script, const char *more)
{
	fakelibrary_play(&fakenvml, script, more);
}

/* A counter of the module: "fakenvml_calls", "fakenvml_users". */
static inline unsigned fakenvml_count(const char *name)
{
	void *handle = dlopen(fakenvml.file, RTLD_NOW);
	const unsigned *count = handle ? dlsym(handle, name) : NULL;

	return count ? *count : 0;
}

#endif
