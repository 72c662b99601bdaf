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
	BENCH_NCCL,
	BENCH_NCCL_WINDOWS,
	BENCH_NCCL_HOST,
};
#define BENCH_PEER_COUNT 6

/* "openmpi", "openmpi-sm", "mpich", "nccl", "nccl-symm", "nccl-shm" */
const char *bench_peer_name(enum bench_peer peer);

/* Does it work on GPU memory, or on host memory? */
bool bench_peer_is_on_device(enum bench_peer peer);

/* What a peer on GPU memory needs in its environment, NULL for nothing. */
const char *bench_peer_setting(enum bench_peer peer);

/* The command line and environment that start the ranks of an MPI. */
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
