/* SPDX-License-Identifier: MIT */
/*
 * MPI's ranks bind themselves, with the same processors as this library's
 * ranks, so their launchers must not. Open MPI gives way in its waiting loops
 * when it believes that it has more ranks than slots; so it is told of hardware
 * threads, and of oversubscription only when it is true.
 */
#include "bench/peers.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/launch.h"
#include "bench/paths.h"

enum family {
	OPENMPI,
	MPICH,
	NCCL,
};

static const struct {
	const char *name;
	enum family family;
	const char *program, *launcher, *packages; /* of an MPI */
	const char *setting; /* of NCCL */
} peers[BENCH_PEER_COUNT] = {
	[BENCH_OPENMPI] = {"openmpi", OPENMPI, "onehop-peer-openmpi",
			   "mpirun.openmpi", "openmpi-bin libopenmpi-dev",
			   NULL},
	[BENCH_OPENMPI_SM] = {"openmpi-sm", OPENMPI, "onehop-peer-openmpi",
			      "mpirun.openmpi", "openmpi-bin libopenmpi-dev",
			      NULL},
	[BENCH_MPICH] = {"mpich", MPICH, "onehop-peer-mpich", "mpirun.mpich",
			 "mpich libmpich-dev", NULL},
	[BENCH_NCCL] = {.name = "nccl", .family = NCCL},
	[BENCH_NCCL_WINDOWS] = {.name = "nccl-symm", .family = NCCL},
	[BENCH_NCCL_HOST] = {.name = "nccl-shm",
			     .family = NCCL,
			     .setting = "NCCL_P2P_DISABLE=1"},
};

const char *bench_peer_name(enum bench_peer peer)
{
	return peers[peer].name;
}

bool bench_peer_is_on_device(enum bench_peer peer)
{
	return peers[peer].family == NCCL;
}

const char *bench_peer_setting(enum bench_peer peer)
{
	return peers[peer].setting;
}

/* Beside the command, in the build's bench folder, or where it is installed,
 * which may have been moved as a whole. */
static bool find_peer_program(const char *name, char *path, size_t room)
{
	static const char *const folders[] = {"", "bench/", "../bench/",
					      "../libexec/onehop/"};
	char self[512];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (length > 0) {
		self[length] = '\0';
		slash = strrchr(self, '/');
		for (size_t i = 0; slash && i < 4; i++) {
			snprintf(path, room, "%.*s%s%s",
				 (int)(slash - self + 1), self, folders[i],
				 name);
			if (!access(path, X_OK))
				return true;
		}
	}
	snprintf(path, room, "%s/%s", bench_libexec_folder, name);
	return !access(path, X_OK);
}

static void openmpi_arguments(enum bench_peer peer, int ranks, int processors,
			      struct bench_peer_start *start)
{
	/* this host only, whatever batch system or remote shell there is */
	const char *const fixed[] = {start->launcher, "--mca",	   "plm",
				     "isolated",      "--bind-to", "none",
				     "--tag-output",  NULL};
	size_t n = 0, sets = 0;

	for (; fixed[n]; n++)
		start->argv[n] = fixed[n];
	start->argv[n++] =
		ranks > processors ? "--oversubscribe" : "--use-hwthread-cpus";
	if (peer == BENCH_OPENMPI_SM) {
		start->argv[n++] = "--mca";
		start->argv[n++] = "coll_sm_priority";
		start->argv[n++] = "90";
	}
	start->argv[n++] = "-n";
	start->argv[n++] = start->ranks;
	start->argv[n++] = start->program;
	start->argv[n] = NULL;
	if (!geteuid()) {
		start->set[sets++] = "OMPI_ALLOW_RUN_AS_ROOT=1";
		start->set[sets++] = "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";
	}
	start->set[sets] = NULL;
}

static void mpich_arguments(struct bench_peer_start *start)
{
	const char *const fixed[] = {start->launcher,
				     "-launcher",
				     "fork",
				     "-bind-to",
				     "none",
				     "-prepend-rank",
				     "-n",
				     start->ranks,
				     start->program,
				     NULL};

	memcpy(start->argv, fixed, sizeof(fixed));
	start->set[0] = NULL;
}

bool bench_peer_prepare(enum bench_peer peer, int ranks, int processors,
			struct bench_peer_start *start, char *text, size_t room)
{
	const char *packages = peers[peer].packages;

	if (!bench_find_program(peers[peer].launcher, start->launcher,
				sizeof(start->launcher))) {
		snprintf(text, room,
			 "%s is left out: %s is not in PATH; on Debian: apt "
			 "install %s",
			 peers[peer].name, peers[peer].launcher, packages);
		return false;
	}
	if (!find_peer_program(peers[peer].program, start->program,
			       sizeof(start->program))) {
		snprintf(text, room,
			 "%s is left out: %s is neither beside this command "
			 "nor in %s; build Onehop where the Debian packages %s "
			 "are installed",
			 peers[peer].name, peers[peer].program,
			 bench_libexec_folder, packages);
		return false;
	}
	snprintf(start->ranks, sizeof(start->ranks), "%d", ranks);
	if (peers[peer].family == OPENMPI)
		openmpi_arguments(peer, ranks, processors, start);
	else
		mpich_arguments(start);
	return true;
}
