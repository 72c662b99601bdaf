/* SPDX-License-Identifier: MIT */
/*
 * What the CUDA driver's fake calls its errors: the names and numbers of the
 * list that the library is built from.
 */
#include <ctype.h>

#include "fakecuda_private.h"

static const char *name_of(CUresult code)
{
	static const struct {
		const char *name;
		CUresult code;
	} names[] = {
#define OH_CUDA_RESULT(name, value) {#name, value},
#include "vendor/cuda.def"
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (names[i].code == code)
			return names[i].name;
	return NULL;
}

CUresult cuGetErrorName(CUresult code, const char **name)
{
	ENTER(BARE);
	*name = name_of(code);
	return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* "out of memory" for CUDA_ERROR_OUT_OF_MEMORY, and so on; for good. */
CUresult cuGetErrorString(CUresult code, const char **text)
{
	static char texts[1000][48];
	ENTER(BARE);
	const char *name = name_of(code);

	*text = NULL;
	if (!name || code >= 1000)
		return CUDA_ERROR_INVALID_VALUE;
	name += code ? strlen("CUDA_ERROR_") : strlen("CUDA_");
	for (size_t i = 0; name[i] && i < sizeof(texts[0]) - 1; i++)
		texts[code][i] =
			name[i] == '_' ? ' '
				       : (char)tolower((unsigned char)name[i]);
	*text = texts[code];
	return CUDA_SUCCESS;
}
