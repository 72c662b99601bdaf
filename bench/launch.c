/* SPDX-License-Identifier: MIT */
/*
 * Children talk into a file of memory: it takes what they say without a
 * reader, so that nobody blocks on a full pipe and this process need not wake
 * while calls are timed.
 */
#include "bench/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

bool bench_talk_open(struct bench_talk *talk)
{
	talk->heard = 0;
	talk->fd = memfd_create("onehop-bench-talk", MFD_CLOEXEC);
	return talk->fd >= 0;
}

void bench_talk_close(struct bench_talk *talk)
{
	if (talk->fd >= 0)
		close(talk->fd);
	talk->fd = -1;
}

/* How many of the bytes to print now: whole lines, or all. */
static size_t printable(const char *text, size_t length, size_t room, bool last)
{
	const char *end = memrchr(text, '\n', length);

	if (end)
		return (size_t)(end - text) + 1;
	return last || length == room ? length : 0;
}

static void print_lines(const char *name, const char *text, size_t length)
{
	while (length) {
		const char *end = memchr(text, '\n', length);
		size_t line = end ? (size_t)(end - text) : length;

		fprintf(stderr, "%s: %.*s\n", name, (int)line, text);
		line += end != NULL;
		text += line;
		length -= line;
	}
}

void bench_talk_hear(struct bench_talk *talk, const char *name, bool last)
{
	char text[4096];

	while (talk->fd >= 0) {
		ssize_t got = pread(talk->fd, text, sizeof(text), talk->heard);
		size_t length;

		if (got <= 0)
			return;
		length = printable(text, (size_t)got, sizeof(text), last);
		if (!length)
			return;
		print_lines(name, text, length);
		talk->heard += (off_t)length;
	}
}

static void become(const struct bench_spawn *spawn, pid_t parent,
		   const sigset_t *mask)
{
	int null;

	setpgid(0, spawn->group);
	prctl(PR_SET_PDEATHSIG, spawn->death_signal);
	if (getppid() != parent)
		_exit(1);
	for (int i = 0; i < spawn->keeps; i++)
		fcntl(spawn->keep[i], F_SETFD, 0);
	if (dup2(spawn->talk, 1) < 0 || dup2(spawn->talk, 2) < 0)
		_exit(BENCH_UNUSABLE);
	null = open("/dev/null", O_RDONLY);
	if (null < 0 || dup2(null, 0) < 0) {
		fprintf(stderr, "/dev/null: %s\n", strerror(errno));
		_exit(BENCH_UNUSABLE);
	}
	for (int i = 0; spawn->unset && spawn->unset[i]; i++)
		unsetenv(spawn->unset[i]);
	for (int i = 0; spawn->set && spawn->set[i]; i++)
		putenv((char *)(uintptr_t)spawn->set[i]);
	sigprocmask(SIG_SETMASK, mask, NULL);
	/* an ignored signal would stay ignored in the new program */
	signal(SIGPIPE, SIG_DFL);
	/* it changes neither the list nor the words */
	execvp(spawn->argv[0], (char *const *)(uintptr_t)spawn->argv);
	fprintf(stderr, "%s: %s\n", spawn->argv[0], strerror(errno));
	_exit(BENCH_UNUSABLE);
}

pid_t bench_spawn(const struct bench_spawn *spawn)
{
	pid_t parent = getpid(), pid;
	sigset_t none;

	sigemptyset(&none);
	/* what is buffered belongs to this process */
	fflush(NULL);
	pid = fork();
	if (!pid)
		become(spawn, parent, &none);
	/* on both sides, as either may come first; fails once it has exec'ed */
	if (pid > 0)
		setpgid(pid, spawn->group ? spawn->group : pid);
	return pid;
}

bool bench_has_ended(pid_t pid)
{
	siginfo_t info = {0};

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) ||
	       info.si_pid == pid;
}

int bench_reap(pid_t pid, char *text, size_t room)
{
	int status;

	*text = '\0';
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -1;
	}
	if (WIFSIGNALED(status))
		snprintf(text, room, "killed by signal %d (%s)",
			 WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		snprintf(text, room, "exited with %d", WEXITSTATUS(status));
	return WIFSIGNALED(status) ? -1 : WEXITSTATUS(status);
}

void bench_adopt_orphans(void)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void bench_reap_orphans(void)
{
	struct timespec pause = {.tv_nsec = 2000000};

	/* they have got their signal; half a second is ample */
	for (int i = 0; i < 250; i++) {
		pid_t pid = waitpid(-1, NULL, WNOHANG);

		if (pid < 0)
			return;
		if (!pid)
			nanosleep(&pause, NULL);
	}
}

bool bench_await_end(pid_t pid, int ms)
{
	struct timespec pause = {.tv_nsec = 2000000};

	for (int i = 0; i < ms; i += 2) {
		if (bench_has_ended(pid))
			return true;
		nanosleep(&pause, NULL);
	}
	return bench_has_ended(pid);
}

bool bench_find_program(const char *name, char *path, size_t room)
{
	const char *at = getenv("PATH");

	while (at && *at) {
		size_t length = strcspn(at, ":");

		snprintf(path, room, "%.*s/%s", (int)length, at, name);
		if (length && !access(path, X_OK))
			return true;
		at += length;
		at += *at == ':';
	}
	return false;
}
