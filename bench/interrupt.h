/* SPDX-License-Identifier: MIT */
/*
 * SIGINT, SIGTERM and SIGHUP end a run in order: children are ended, the
 * terminal is left clean. A second one ends this process at once; its
 * children see that and end too.
 */
#ifndef OH_BENCH_INTERRUPT_H
#define OH_BENCH_INTERRUPT_H

#include <poll.h>
#include <stdbool.h>

/* false with errno set. */
bool bench_interrupt_open(void);

/* The signal that came, 0 if none has. */
int bench_interrupt_seen(void);

/* While wanted the first one ends this process at once, also if it has come
 * already: where a write may wait for its reader for ever. */
void bench_interrupt_at_once(bool wanted);

/* poll that such a signal ends early, with -1. ms -1: no end. */
int bench_interrupt_poll(struct pollfd *fds, int count, int ms);

#endif
