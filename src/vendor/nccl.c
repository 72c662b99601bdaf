/* SPDX-License-Identifier: MIT */
/*
 * Owns the process's table of NCCL functions, and how NCCL's errors become the
 * library's. The table is filled under a lock by the first call that finds the
 * library and never changes after; a failure is not kept, for the next call may
 * name another file.
 */
#include "vendor/nccl.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "vendor/library.h"

#define REQUIRED true
#define OPTIONAL false

static const struct oh__symbol symbols[] = {
#define OH_NCCL(need, result, name, parameters)                                \
	{#name, offsetof(struct oh__nccl, name), need},
#include "vendor/nccl.def"
};

/* NCCL itself has texts for its codes, but not their names */
static const char *const code_names[] = {
#define OH_NCCL_RESULT(name, value) [value] = #name,
#include "vendor/nccl.def"
};

#define SYMBOLS (sizeof(symbols) / sizeof(*symbols))
#define CODES (sizeof(code_names) / sizeof(*code_names))

static const struct oh__library library = {
	.file = "libnccl.so.2",
	.remedy = "install NCCL 2, or put its directory into LD_LIBRARY_PATH",
	.symbols = symbols,
	.count = SYMBOLS,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct oh__nccl table;
/* &table once it is filled; set under the lock with release, read without it
 * by oh__nccl_fail with acquire */
static const struct oh__nccl *loaded;

enum oh_status oh__nccl_load(const char *file, const struct oh__nccl **nccl)
{
	struct oh__library wanted = library;
	enum oh_status status = OH_OK;

	if (file)
		wanted.file = file;
	pthread_mutex_lock(&lock);
	if (!loaded)
		status = oh__library_load(&wanted, &table);
	if (!status) {
		__atomic_store_n(&loaded, &table, __ATOMIC_RELEASE);
		*nccl = &table;
	}
	pthread_mutex_unlock(&lock);
	return status;
}

/*
 * What NCCL has for a code is general ("unhandled cuda error"); what it said
 * last tells the cause ("Cuda failure 'out of memory'"), in several lines now
 * and then.
 */
static void explain(const struct oh__nccl *nccl, ncclResult_t code, char *text,
		    size_t room)
{
	const char *meaning = nccl->ncclGetErrorString(code), *last = NULL;

	if (nccl->ncclGetLastError)
		last = nccl->ncclGetLastError(NULL);
	if (!meaning)
		meaning = "";
	if (!last)
		last = "";
	snprintf(text, room, "%s%s%.*s", meaning, *meaning && *last ? ": " : "",
		 (int)strcspn(last, "\n"), last);
}

enum oh_status oh__nccl_fail(ncclResult_t code, const char *text,
			     const char *file, int line)
{
	const struct oh__nccl *nccl =
		__atomic_load_n(&loaded, __ATOMIC_ACQUIRE);
	char meaning[384] = "";

	if (nccl)
		explain(nccl, code, meaning, sizeof(meaning));
	return oh__error_set_vendor(
		OH_ERR_SYSTEM, oh__library_function_of(&library, text),
		(int)code, code < CODES ? code_names[code] : NULL,
		*meaning ? meaning : NULL, file, line);
}
