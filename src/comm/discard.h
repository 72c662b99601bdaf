/* SPDX-License-Identifier: MIT */
/*
 * Closes what strangers had a hand in. close() of a socket also drops the
 * descriptors that were sent to it and not received, and the last close of
 * some of them takes its time: a TCP socket's whose linger is an hour. So that
 * this is not the time of a rank that has a deadline, threads of their own
 * close them; they touch nothing else and end by themselves.
 */
#ifndef OH_COMM_DISCARD_H
#define OH_COMM_DISCARD_H

#include <pthread.h>
#include <stdbool.h>

#define OH__DISCARD_THREADS 32
#define OH__DISCARD_FDS 64

/* Zero at first. */
struct oh__discard {
	int thread_count;
	pthread_t threads[OH__DISCARD_THREADS];
	/* that wait for a thread */
	int fd_count;
	int fds[OH__DISCARD_FDS];
};

/* Takes *fd and sets it to -1. */
void oh__discard_add(struct oh__discard *discard, int *fd);

/* Gives a thread what was added, if there may be one more; false if something
 * still waits. */
bool oh__discard_start(struct oh__discard *discard);

/* Starts the rest and waits for all, but not for one that takes long. */
void oh__discard_end(struct oh__discard *discard);

/* All of it for one. */
void oh__discard_one(int *fd);

#endif
