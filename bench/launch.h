/* SPDX-License-Identifier: MIT */
/* Child processes: started in a group of their own, listened to, ended. */
#ifndef OH_BENCH_LAUNCH_H
#define OH_BENCH_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* How a child ends that cannot do its work (tools/command.h). */
#define BENCH_UNUSABLE 3

/* What a child says, stdout and stderr, in a file of memory. */
struct bench_talk {
	int fd; /* -1 for none */
	off_t heard;
};

bool bench_talk_open(struct bench_talk *talk);
void bench_talk_close(struct bench_talk *talk);

/*
 * Passes on what was said since the last time, each line with name before it,
 * to stderr. Incomplete lines wait unless last is set.
 */
void bench_talk_hear(struct bench_talk *talk, const char *name, bool last);

struct bench_spawn {
	const char *const
		*argv; /* argv[0] is looked up in PATH unless it has '/' */
	const char *const *set; /* "NAME=value", NULL at the end */
	const char *const *unset; /* names, NULL at the end */
	const int *keep; /* descriptors that the child inherits */
	int keeps;
	pid_t group; /* 0: a new one */
	int talk;
	int death_signal; /* what it gets when this process ends */
};

/* -1 with errno set. A child that does not become the program says why and
 * exits with BENCH_UNUSABLE. */
pid_t bench_spawn(const struct bench_spawn *spawn);

/* Has the child ended? It stays to be reaped, so its number stays taken. */
bool bench_has_ended(pid_t pid);

/* Reaps; "killed by signal 9 (Killed)", "exited with 3", or "". Its exit code,
 * -1 if it has none. */
int bench_reap(pid_t pid, char *text, size_t room);

/* Orphans of children, such as mpirun's ranks, come to this process: */
void bench_adopt_orphans(void);
/* and are reaped here, when no child of its own is left. */
void bench_reap_orphans(void);

/* Waits at most ms for the child to end. */
bool bench_await_end(pid_t pid, int ms);

/* Where PATH has this program; false if nowhere. */
bool bench_find_program(const char *name, char *path, size_t room);

#endif
