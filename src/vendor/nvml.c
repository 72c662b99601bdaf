/* SPDX-License-Identifier: MIT */
/*
 * Owns the process's table of NVML functions. It is filled under a lock by the
 * first call that finds the library and never changes after; a failure is not
 * kept, for a driver may be installed while the process runs.
 */
#include "vendor/nvml.h"

#include <pthread.h>
#include <stdbool.h>

#include "vendor/library.h"

#define REQUIRED true
#define OPTIONAL false

static const struct oh__symbol symbols[] = {
#define OH_NVML(need, result, name, parameters)                                \
	{#name, offsetof(struct oh__nvml, name), need},
#include "vendor/nvml.def"
};

static const struct oh__library library = {
	.file = "libnvidia-ml.so.1",
	.remedy = OH__DRIVER_REMEDY,
	.symbols = symbols,
	.count = sizeof(symbols) / sizeof(*symbols),
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool loaded;
static struct oh__nvml table;

enum oh_status oh__nvml_load(const struct oh__nvml **nvml)
{
	enum oh_status status = OH_OK;

	pthread_mutex_lock(&lock);
	if (!loaded)
		status = oh__library_load(&library, &table);
	if (!status) {
		loaded = true;
		*nvml = &table;
	}
	pthread_mutex_unlock(&lock);
	return status;
}
