/* SPDX-License-Identifier: MIT */
/* fakecuda.so in the CUDA driver's place, see fakelibrary.h. */
#ifndef OH_TESTS_FAKECUDA_H
#define OH_TESTS_FAKECUDA_H

#include <stdbool.h>

#include "fakelibrary.h"
#include "vendor/cuda.h"

#define FAKECUDA_ATTRIBUTES 8

/* A kernel that a stream ran, in the order of the process. */
struct fakecuda_launch {
	char kernel[128];
	unsigned grid[3], block[3], shared_bytes;
	CUdevice device;
	CUstream stream;
	bool replayed; /* by a graph */
	unsigned attributes;
	CUlaunchAttribute attribute[FAKECUDA_ATTRIBUTES];
	/* as the kernel sees them: each at a multiple of its own size, 8 at
	 * most */
	size_t argument_bytes;
	unsigned char arguments[4096];
};

/* Runs a kernel, as its launch says, to its end. */
typedef void fakecuda_runner(const struct fakecuda_launch *launch);

static const struct fakelibrary fakecuda = {"fakecuda.so", "libcuda.so.1",
					    "FAKECUDA_SCRIPT", "cuda"};

static inline void fakecuda_start(char **argv)
{
	fakelibrary_start(&fakecuda, argv);
}

/* What the driver plays from the next cuInit on. */
static inline void fakecuda_play(const char *script, const char *more)
{
	fakelibrary_play(&fakecuda, script, more);
}

static inline void fakecuda_find(const char *name, void *function)
{
	fakelibrary_find(&fakecuda, name, function);
}

/*
 * How many objects of a kind are alive, NULL: of all kinds. "context",
 * "module", "stream", "event", "graph", "executable", "handle" (of
 * cuMemCreate), "reservation", "mapping", "memory" (of cuMemAlloc), "ipc",
 * "host" (pinned), "registration".
 */
static inline unsigned fakecuda_live(const char *kind)
{
	unsigned (*live)(const char *name);

	fakecuda_find("fakecuda_count_live", &live);
	return live(kind);
}

/* What the driver plays now. */
static inline const char *fakecuda_script(void)
{
	static char script[16384];
	FILE *file = fopen(getenv(fakecuda.variable), "r");
	size_t used = 0;

	if (file) {
		used = fread(script, 1, sizeof(script) - 1, file);
		fclose(file);
	}
	if (!used || used == sizeof(script) - 1)
		fakelibrary_bail("the driver's script cannot be read", "");
	script[used] = '\0';
	return script;
}

/* How often a function was called since the last cuInit, NULL: all. */
static inline unsigned fakecuda_calls(const char *function)
{
	unsigned (*calls)(const char *name);

	fakecuda_find("fakecuda_count_calls", &calls);
	return calls(function);
}

/* The call of that number from now on fails, 1: the next; 0: none does. And,
 * for good, all after it. */
static inline void fakecuda_fail(unsigned number, CUresult code, bool for_good)
{
	void (*fail)(unsigned which, CUresult why, bool all);

	fakecuda_find("fakecuda_fail_call", &fail);
	fail(number, code, for_good);
}

/* Which function that was; NULL: it has not been called yet. */
static inline const char *fakecuda_failed(void)
{
	const char *(*failed)(void);

	fakecuda_find("fakecuda_failed_function", &failed);
	return failed();
}

/* The launches since the last cuInit; the first 512 are kept. */
static inline const struct fakecuda_launch *fakecuda_launches(unsigned *count)
{
	const struct fakecuda_launch *(*launches)(unsigned *number);

	fakecuda_find("fakecuda_list_launches", &launches);
	return launches(count);
}

/* From now on this runs what is launched, in the thread that launches it or a
 * graph with it; NULL: nothing does. */
static inline void fakecuda_run(fakecuda_runner *runner)
{
	void (*set)(fakecuda_runner * it);

	fakecuda_find("fakecuda_set_runner", &set);
	set(runner);
}

/* Whether a node of a captured graph waits for another one of it. */
static inline bool fakecuda_follows(CUgraphNode later, CUgraphNode earlier)
{
	bool (*follows)(CUgraphNode one, CUgraphNode other);

	fakecuda_find("fakecuda_is_after", &follows);
	return follows(later, earlier);
}

#endif
