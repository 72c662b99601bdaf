/* SPDX-License-Identifier: MIT */
/*
 * Lets a test program run with modules of the build in the place of vendors'
 * libraries (fakenvml.h, fakecuda.h, fakenccl.h): the program starts itself
 * again with a directory on LD_LIBRARY_PATH in which a module bears a library's
 * name, so that the real loader finds it. What the module plays stands in a
 * file there. A directory serves one process tree and is removed at the end.
 */
#ifndef OH_TESTS_FAKELIBRARY_H
#define OH_TESTS_FAKELIBRARY_H

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fakelibrary {
	const char *module; /* of the build */
	const char *file; /* by which the loader finds it */
	const char *variable; /* whose value is its script's path */
	const char *script; /* the file */
};

_Noreturn static inline void fakelibrary_bail(const char *what, const char *why)
{
	printf("Bail out! %s%s\n", what, why);
	exit(1);
}

/* The directory of this run; also for the test's own files. */
static inline const char *fakelibrary_directory(void)
{
	return getenv("ONEHOP_TEST_DIRECTORY");
}

/* This program's path. A checker that runs it would start itself by the link.
 */
static inline void fakelibrary_self(char path[PATH_MAX])
{
	ssize_t bytes = readlink("/proc/self/exe", path, PATH_MAX - 1);

	path[bytes > 0 ? bytes : 0] = '\0';
}

/* Gives a module of the build, from beside this program, that name. */
static inline void fakelibrary_place(const char *module, const char *file)
{
	char self[PATH_MAX], target[PATH_MAX * 2], link[PATH_MAX];

	fakelibrary_self(self);
	if (strrchr(self, '/'))
		*strrchr(self, '/') = '\0';
	snprintf(target, sizeof(target), "%s/%s", self, module);
	snprintf(link, sizeof(link), "%s/%s", fakelibrary_directory(), file);
	unlink(link);
	if (access(target, R_OK) || symlink(target, link))
		fakelibrary_bail(target, " cannot be used");
}

static inline void fakelibrary_open(void)
{
	char directory[] = "/tmp/onehop-test-XXXXXX", search[PATH_MAX];
	const char *old = getenv("LD_LIBRARY_PATH");

	if (fakelibrary_directory())
		return;
	if (!mkdtemp(directory))
		fakelibrary_bail("no directory under /tmp", "");
	setenv("ONEHOP_TEST_DIRECTORY", directory, 1);
	snprintf(search, sizeof(search), "%s%s%s", directory, old ? ":" : "",
		 old ? old : "");
	setenv("LD_LIBRARY_PATH", search, 1);
}

/* The first thing in main, for each of its libraries; returns in the run that
 * has it. */
static inline void fakelibrary_start(const struct fakelibrary *library,
				     char **argv)
{
	char path[PATH_MAX];

	if (getenv(library->variable))
		return;
	fakelibrary_open();
	snprintf(path, sizeof(path), "%s/%s", fakelibrary_directory(),
		 library->script);
	setenv(library->variable, path, 1);
	fakelibrary_place(library->module, library->file);
	fakelibrary_self(path);
	execv(path, argv);
	fakelibrary_bail("the program cannot be started again", "");
}

static inline void fakelibrary_play(const struct fakelibrary *library,
				    const char *script, const char *more)
{
	FILE *file = fopen(getenv(library->variable), "w");

	if (!file)
		fakelibrary_bail("the script cannot be written", "");
	fprintf(file, "%s%s", script, more);
	fclose(file);
}

/* A function of the module by name, into function. */
static inline void fakelibrary_find(const struct fakelibrary *library,
				    const char *name, void *function)
{
	void *handle = dlopen(library->file, RTLD_NOW);
	void *symbol = handle ? dlsym(handle, name) : NULL;

	if (!symbol)
		fakelibrary_bail(library->file, " is not the fake");
	memcpy(function, &symbol, sizeof(symbol));
}

/* The last thing in main. */
static inline void fakelibrary_end(void)
{
	char command[PATH_MAX];

	snprintf(command, sizeof(command), "rm -rf '%s'",
		 fakelibrary_directory());
	if (system(command))
		printf("# %s is left\n", fakelibrary_directory());
}

#endif
