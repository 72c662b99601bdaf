/* SPDX-License-Identifier: MIT */
/*
 * Owns the process's table of CUDA driver functions, and how the driver's
 * errors become the library's. The table is filled under a lock by the first
 * call that finds a driver that starts, and never changes after; a failure is
 * not kept, for a driver may be installed while the process runs.
 */
#include "vendor/cuda.h"

#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "vendor/library.h"

#define REQUIRED true
#define OPTIONAL false

static const struct oh__symbol symbols[] = {
#define OH_CUDA(need, result, name, parameters)                                \
	{#name, offsetof(struct oh__cuda, name), need},
#include "vendor/cuda.def"
};

#define SYMBOLS (sizeof(symbols) / sizeof(*symbols))

static const struct oh__library library = {
	.file = "libcuda.so.1",
	.remedy = OH__DRIVER_REMEDY,
	.symbols = symbols,
	.count = SYMBOLS,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct oh__cuda table;
/* &table once it is filled; set under the lock with release, read without it
 * by oh__cuda_fail with acquire */
static const struct oh__cuda *loaded;

static enum oh_status fail(const struct oh__cuda *cuda, CUresult code,
			   const char *text, const char *file, int line)
{
	const char *name = NULL, *meaning = NULL;

	/* both say NULL to a code that they do not know */
	if (cuda && cuda->cuGetErrorName(code, &name))
		name = NULL;
	if (cuda && cuda->cuGetErrorString(code, &meaning))
		meaning = NULL;
	return oh__error_set_vendor(code == CUDA_ERROR_OUT_OF_MEMORY
					    ? OH_ERR_NO_MEMORY
					    : OH_ERR_SYSTEM,
				    oh__library_function_of(&library, text),
				    (int)code, name, meaning, file, line);
}

/* A driver without a GPU is as good as none: containers and build machines
 * have one. */
static enum oh_status start(const struct oh__cuda *cuda)
{
	CUresult code = cuda->cuInit(0);

	if (code == CUDA_ERROR_NO_DEVICE)
		return oh__vendor_absent(
			"the CUDA driver finds no GPU (cuInit, code 100 "
			"CUDA_ERROR_NO_DEVICE); see nvidia-smi and "
			"CUDA_VISIBLE_DEVICES");
	if (code == CUDA_ERROR_STUB_LIBRARY)
		return oh__vendor_absent(
			"libcuda.so.1 is the toolkit's stub and no driver "
			"(cuInit, code 34 CUDA_ERROR_STUB_LIBRARY); take its "
			"directory off LD_LIBRARY_PATH");
	return code ? fail(cuda, code, "cuInit", __FILE__, __LINE__) : OH_OK;
}

enum oh_status oh__cuda_load(const struct oh__cuda **cuda)
{
	enum oh_status status = OH_OK;

	pthread_mutex_lock(&lock);
	if (!loaded)
		status = oh__library_load(&library, &table);
	if (!status && !loaded)
		status = start(&table);
	if (!status) {
		__atomic_store_n(&loaded, &table, __ATOMIC_RELEASE);
		*cuda = &table;
	}
	pthread_mutex_unlock(&lock);
	return status;
}

bool oh__cuda_started(CUcontext *context)
{
	CUresult (*get)(CUcontext * current);
	void *symbol = oh__library_find_loaded(library.file, "cuCtxGetCurrent");

	*context = NULL;
	memcpy(&get, &symbol, sizeof(get));
	return symbol && !get(context);
}

enum oh_status oh__cuda_fail(CUresult code, const char *text, const char *file,
			     int line)
{
	return fail(__atomic_load_n(&loaded, __ATOMIC_ACQUIRE), code, text,
		    file, line);
}
