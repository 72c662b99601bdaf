/* SPDX-License-Identifier: MIT */
#include "tools/run_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "onehop/onehop.h"

/* A group of 0 is the farewell. */
#define FAREWELL 0

static _Noreturn void watch(int pipe)
{
	pid_t groups[OH_MAX_RANKS], group;
	sigset_t all;
	int count = 0;

	/* away from the terminal and from whoever kills the launcher's group */
	setsid();
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, "onehop-guard");
	while (read(pipe, &group, sizeof(group)) == (ssize_t)sizeof(group)) {
		if (group == FAREWELL)
			_exit(EXIT_SUCCESS);
		if (group > 1 && count < OH_MAX_RANKS)
			groups[count++] = group;
	}
	for (int i = 0; i < count; i++)
		kill(-groups[i], SIGKILL);
	_exit(EXIT_SUCCESS);
}

bool run_guard_start(struct run_guard *guard)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return false;
	guard->pid = fork();
	if (guard->pid < 0) {
		int saved = errno;

		close(ends[0]);
		close(ends[1]);
		errno = saved;
		return false;
	}
	if (!guard->pid) {
		close(ends[1]);
		watch(ends[0]);
	}
	close(ends[0]);
	guard->pipe = ends[1];
	return true;
}

/* A write of four bytes to a pipe is one piece or none. */
bool run_guard_add(const struct run_guard *guard, pid_t group)
{
	return write(guard->pipe, &group, sizeof(group)) ==
	       (ssize_t)sizeof(group);
}

void run_guard_stop(struct run_guard *guard)
{
	run_guard_add(guard, FAREWELL);
	close(guard->pipe);
	waitpid(guard->pid, NULL, 0);
}
