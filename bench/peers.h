/* SPDX-License-Identifier: MIT */
/* The libraries to compare with, and how each is started here. */
#ifndef OH_BENCH_PEERS_H
#define OH_BENCH_PEERS_H

#include <stdbool.h>
#include <stddef.h>

enum bench_peer {
	BENCH_OPENMPI,
	BENCH_OPENMPI_SM,
	BENCH_MPICH,
};
#define BENCH_PEER_COUNT 3

/* "openmpi", "openmpi-sm", "mpich" */
const char *bench_peer_name(enum bench_peer peer);

/* The command line and environment that start a peer's ranks. */
struct bench_peer_start {
	char launcher[1024], program[1024], ranks[16];
	const char *argv[20];
	const char *set[4];
};

/*
 * false with the reason in text: what is missing and which Debian packages
 * have it. start holds pointers into itself: it is not to be moved.
 */
bool bench_peer_prepare(enum bench_peer peer, int ranks, int processors,
			struct bench_peer_start *start, char *text,
			size_t room);

#endif
