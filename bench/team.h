/* SPDX-License-Identifier: MIT */
/*
 * The ranks of one subject, seen from the parent: started, given commands,
 * ended. Whatever way a run ends, bench_team_end leaves no process behind.
 */
#ifndef OH_BENCH_TEAM_H
#define OH_BENCH_TEAM_H

#include <stdbool.h>
#include <sys/types.h>

#include "bench/arena.h"
#include "bench/clock.h"
#include "bench/launch.h"
#include "bench/peers.h"
#include "bench/protocol.h"

/* What all subjects of a run share. */
struct bench_frame {
	int ranks, processors;
	bool pinned;
	int cpu[OH_MAX_RANKS]; /* if pinned */
	bool threads; /* this library's ranks are threads of one process */
	bool in_place, comm_alloc;
	bool fits; /* integers do not overflow, see pattern.h */
	int timeout_s; /* of a command */
	uint64_t buffer_bytes, mailbox_bytes;
	struct bench_clock clock;
	/* ranks on GPU memory: buffer_bytes is that of all buffers of a side */
	bool device;
	bool graph; /* calls are replayed by a graph, else queued */
	int gpus; /* rank r has GPU r modulo this */
	const char *forbid_peer; /* NULL: as the environment says */
};

/* The pairs of ranks whose GPUs must meet in host memory; NULL: none. */
const char *bench_forbidden(const struct bench_frame *frame);

struct bench_failure {
	int exit_code;
	char text[900];
};

struct bench_team {
	const char *name;
	const struct bench_frame *frame;
	/* this library: a process a rank, or one with threads. NCCL and the
	 * floors of GPUs: one with threads. MPI: mpirun. */
	pid_t pid[OH_MAX_RANKS];
	int pids;
	struct bench_talk talk[OH_MAX_RANKS]; /* one for each pid */
	int socket[OH_MAX_RANKS]; /* -1: not there */
	pid_t rank_pid[OH_MAX_RANKS]; /* whose threads are one process: equal */
	int rank_pidfd[OH_MAX_RANKS]; /* of mpirun's ranks; -1: none */
	struct bench_arena arena;
	bool is_peer; /* the run goes on without it */
	bool by_mpirun;
	bool open; /* all ranks have opened the subject */
	char version[72];
};

/* Starts the ranks and opens the subject; on false nothing is left. A peer is
 * started by its mpirun, or, NCCL, as this command's own threads. */
bool bench_team_start_own(const struct bench_frame *frame,
			  struct bench_team *team,
			  struct bench_failure *failure);
bool bench_team_start_peer(const struct bench_frame *frame,
			   enum bench_peer peer, struct bench_team *team,
			   struct bench_failure *failure);

/* The floors of GPUs, which are no peer but may be missing like one. by_host:
 * their flags lie in host memory. */
bool bench_team_start_floor(const struct bench_frame *frame, bool by_host,
			    struct bench_team *team,
			    struct bench_failure *failure);

/* How this library's ranks come to each other's GPUs, [from][to]; true if some
 * meet in host memory. */
bool bench_team_ways(const struct bench_team *team,
		     struct oh_route_peer ways[OH_MAX_RANKS][OH_MAX_RANKS]);
/* What creating the communicator took the rank that came last. */
double bench_team_create_ms(const struct bench_team *team);

/*
 * All ranks obey the command; replies has a row for each. false: a rank
 * failed, ended or was late, or a signal came; the team can only be ended.
 * A refusal is no failure: all ranks refuse.
 */
bool bench_team_order(struct bench_team *team,
		      const struct bench_command *command,
		      struct bench_reply *replies,
		      struct bench_failure *failure);

/*
 * Ends the team: politely if nothing has failed, else by force. false: it was
 * polite, and a process did not end within some seconds or not with 0. Safe to
 * call twice.
 */
bool bench_team_end(struct bench_team *team, bool politely,
		    struct bench_failure *failure);

#endif
