/* SPDX-License-Identifier: MIT */
/*
 * Lets a test program run with fakenvml.so in NVML's place: the program starts
 * itself again with a directory on LD_LIBRARY_PATH in which the module bears
 * NVML's name, so that the real loader finds it. A directory serves one process
 * tree and is removed at the end.
 */
#ifndef OH_TESTS_FAKENVML_H
#define OH_TESTS_FAKENVML_H

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAKENVML_DIRECTORY "ONEHOP_TEST_DIRECTORY"

/* The directory of this run; also for the test's own files. */
static inline const char *fakenvml_directory(void)
{
	return getenv(FAKENVML_DIRECTORY);
}

/* This program's path. A checker that runs it would start itself by the link.
 */
static inline void fakenvml_self(char path[PATH_MAX])
{
	ssize_t bytes = readlink("/proc/self/exe", path, PATH_MAX - 1);

	path[bytes > 0 ? bytes : 0] = '\0';
}

/* Puts a module of the build, from beside this program, into NVML's place. */
static inline void fakenvml_place(const char *module)
{
	char self[PATH_MAX], target[PATH_MAX * 2], link[PATH_MAX];

	fakenvml_self(self);
	if (strrchr(self, '/'))
		*strrchr(self, '/') = '\0';
	snprintf(target, sizeof(target), "%s/%s", self, module);
	snprintf(link, sizeof(link), "%s/libnvidia-ml.so.1",
		 fakenvml_directory());
	unlink(link);
	if (access(target, R_OK) || symlink(target, link)) {
		printf("Bail out! %s cannot be used\n", target);
		exit(1);
	}
}

/* Starts this program again. */
static inline void fakenvml_again(char **argv)
{
	char self[PATH_MAX];

	fakenvml_self(self);
	execv(self, argv);
	printf("Bail out! the program cannot be started again\n");
	exit(1);
}

/* The first thing in main; returns in the second run. */
static inline void fakenvml_start(char **argv)
{
	char directory[] = "/tmp/onehop-test-XXXXXX", script[PATH_MAX];
	char search[PATH_MAX];
	const char *old = getenv("LD_LIBRARY_PATH");

	if (fakenvml_directory())
		return;
	if (!mkdtemp(directory)) {
		printf("Bail out! no directory under /tmp\n");
		exit(1);
	}
	snprintf(script, sizeof(script), "%s/script", directory);
	setenv(FAKENVML_DIRECTORY, directory, 1);
	setenv("FAKENVML_SCRIPT", script, 1);
	snprintf(search, sizeof(search), "%s%s%s", directory, old ? ":" : "",
		 old ? old : "");
	setenv("LD_LIBRARY_PATH", search, 1);
	fakenvml_place("fakenvml.so");
	fakenvml_again(argv);
}

/* What NVML says from the next nvmlInit_v2 on. */
static inline void fakenvml_play(const char *script, const char *more)
{
	FILE *file = fopen(getenv("FAKENVML_SCRIPT"), "w");

	if (!file) {
		printf("Bail out! the script cannot be written\n");
		exit(1);
	}
	fprintf(file, "%s%s", script, more);
	fclose(file);
}

/* A counter of the module: "fakenvml_calls", "fakenvml_users". */
static inline unsigned fakenvml_count(const char *name)
{
	void *handle = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	const unsigned *count = handle ? dlsym(handle, name) : NULL;

	return count ? *count : 0;
}

static inline void fakenvml_end(void)
{
	char command[PATH_MAX];

	snprintf(command, sizeof(command), "rm -rf '%s'", fakenvml_directory());
	if (system(command))
		printf("# %s is left\n", fakenvml_directory());
}

#endif
