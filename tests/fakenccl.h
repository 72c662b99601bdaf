/* SPDX-License-Identifier: MIT */
/*
 * Lets a test program run with fakenccl.so in NCCL's place, beside the driver's
 * fake: fakecuda_start first, then fakenccl_start, and the program has both.
 * The directory is that of fakenvml.h, whose fakenvml_end removes it.
 */
#ifndef OH_TESTS_FAKENCCL_H
#define OH_TESTS_FAKENCCL_H

#include "fakecuda.h"
#include "vendor/nccl.h"

/* A collective that was called, in the order of the process. */
struct fakenccl_collective {
	char function[32];
	int rank, device, root;
	const void *send;
	void *recv;
	size_t count;
	ncclDataType_t type;
	ncclRedOp_t op;
	cudaStream_t stream;
};

/* Puts a module of the build into NCCL's place, under a name of its own if a
 * file is named. */
static inline void fakenccl_place(const char *module, const char *file)
{
	char self[PATH_MAX], target[PATH_MAX * 2], link[PATH_MAX];

	fakenvml_self(self);
	if (strrchr(self, '/'))
		*strrchr(self, '/') = '\0';
	snprintf(target, sizeof(target), "%s/%s", self, module);
	snprintf(link, sizeof(link), "%s/%s", fakenvml_directory(),
		 file ? file : "libnccl.so.2");
	unlink(link);
	if (access(target, R_OK) || symlink(target, link)) {
		printf("Bail out! %s cannot be used\n", target);
		exit(1);
	}
}

/* After fakecuda_start, with whose directory it works; returns in the last
 * run. */
static inline void fakenccl_start(char **argv)
{
	char script[PATH_MAX];

	if (getenv("FAKENCCL_SCRIPT"))
		return;
	snprintf(script, sizeof(script), "%s/nccl", fakenvml_directory());
	setenv("FAKENCCL_SCRIPT", script, 1);
	fakenccl_place("fakenccl.so", NULL);
	fakenvml_again(argv);
}

/* What NCCL plays from the next ncclGetVersion on. */
static inline void fakenccl_play(const char *script, const char *more)
{
	FILE *file = fopen(getenv("FAKENCCL_SCRIPT"), "w");

	if (!file) {
		printf("Bail out! the script cannot be written\n");
		exit(1);
	}
	fprintf(file, "%s%s", script, more);
	fclose(file);
}

/* A function of the module by name, into function. */
static inline void fakenccl_find(const char *name, void *function)
{
	void *handle = dlopen("libnccl.so.2", RTLD_NOW);
	void *symbol = handle ? dlsym(handle, name) : NULL;

	if (!symbol) {
		printf("Bail out! NCCL is not the fake\n");
		exit(1);
	}
	memcpy(function, &symbol, sizeof(symbol));
}

/* How many objects of a kind are alive, NULL: of all kinds. "communicator",
 * "window", "memory" (of ncclMemAlloc). */
static inline unsigned fakenccl_live(const char *kind)
{
	unsigned (*live)(const char *name);

	fakenccl_find("fakenccl_count_live", &live);
	return live(kind);
}

/* How often a function was called since the last ncclGetVersion, which is the
 * first; NULL: all. */
static inline unsigned fakenccl_calls(const char *function)
{
	unsigned (*calls)(const char *name);

	fakenccl_find("fakenccl_count_calls", &calls);
	return calls(function);
}

/* The collectives since the last ncclGetVersion; the first 512 are kept. */
static inline const struct fakenccl_collective *
fakenccl_collectives(unsigned *count)
{
	const struct fakenccl_collective *(*list)(unsigned *number);

	fakenccl_find("fakenccl_list_collectives", &list);
	return list(count);
}

/* Ends all calls that wait for another rank, or are stuck: as failed. */
static inline void fakenccl_release(void)
{
	void (*release)(void);

	fakenccl_find("fakenccl_release_all", &release);
	release();
}

#endif
