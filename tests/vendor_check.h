/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the vendors' libraries share: how loud the log was, what
 * the last error says, and processes of their own with another library in the
 * place of the fake.
 */
#ifndef OH_TESTS_VENDOR_CHECK_H
#define OH_TESTS_VENDOR_CHECK_H

#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "base/error.h"
#include "fakelibrary.h"
#include "tap.h"

extern char **environ;

static enum oh_log_level loudest; /* OH_LOG_OFF: nothing was said */

/* Threads may call it at the same time. */
static inline void note_level(enum oh_log_level level, const char *line,
			      void *context)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	(void)line;
	(void)context;
	pthread_mutex_lock(&lock);
	if (!loudest || level < loudest)
		loudest = level;
	pthread_mutex_unlock(&lock);
}

static inline bool is_said(const char *word)
{
	return strstr(oh_last_error()->message, word);
}

struct vendor_child {
	const char *name;
	int (*run)(void); /* 0; 77: it cannot be tried here, why_not */
	const char
		*module; /* in the fake's place; NULL: no directory of ours */
	const char *what, *why_not;
};

/* In the child's process: the exit code. */
static inline int vendor_child(const struct vendor_child *children,
			       const char *name)
{
	for (; children->name; children++)
		if (!strcmp(children->name, name))
			return children->run();
	return 1;
}

/* A fresh process: one in which a driver is loaded is never forked. */
static inline int vendor_spawn(const char *name)
{
	char self[PATH_MAX], argument[32];
	char *argv[] = {self, argument, NULL};
	int status = -1;
	pid_t pid;

	fakelibrary_self(self);
	snprintf(argument, sizeof(argument), "%s", name);
	fflush(stdout);
	if (posix_spawn(&pid, self, NULL, NULL, argv, environ))
		return -1;
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static inline void vendor_try_children(const struct vendor_child *children,
				       const char *file)
{
	char *path = strdup(getenv("LD_LIBRARY_PATH"));

	for (; children->name; children++) {
		int status;

		if (children->module)
			fakelibrary_place(children->module, file);
		else
			unsetenv("LD_LIBRARY_PATH");
		status = vendor_spawn(children->name);
		if (status == 77)
			tap_skip(children->what, children->why_not);
		else
			tap_ok(status == 0, "%s (%d)", children->what, status);
		setenv("LD_LIBRARY_PATH", path, 1);
	}
	free(path);
}

/* name: a declaration that differs from the vendor's header; why_not: that
 * cannot be told here. */
static inline void vendor_try_header(const char *name, const char *why_not)
{
	if (why_not)
		tap_skip("our declarations are the vendor's", why_not);
	else if (!tap_ok(!name, "our declarations are the vendor's"))
		tap_note("%s differs", name);
}

#endif
