/* SPDX-License-Identifier: MIT */
/*
 * Has the process of a rank ended? Each rank makes one descriptor of its own
 * life and hands it to the others: a pidfd of itself, or, where the kernel
 * refuses those (before 5.3, some containers), the reading end of a pipe whose
 * writing end it keeps open. poll() tells when the process has ended. A pidfd
 * works across PID namespaces because it travels as a descriptor; the pipe
 * does not notice a death while a forked child of that rank lives.
 */
#ifndef OH_COMM_LIVENESS_H
#define OH_COMM_LIVENESS_H

#include <stdint.h>

#include "onehop/onehop.h"

struct oh__life {
	int fd; /* for the peers */
	int keep; /* the pipe's writing end, -1 with a pidfd */
};

enum oh_status oh__life_create(struct oh__life *life);
void oh__life_close(struct oh__life *life);

/* Bit i is set if the process behind fds[i] has ended; does not wait. */
uint32_t oh__life_lost(const int *fds, int ranks);

#endif
