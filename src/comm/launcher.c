/* SPDX-License-Identifier: MIT */
/*
 * One row a launcher. Variables as set by: torchrun of PyTorch 2.11 (its
 * documentation, "Environment Variables"), mpirun of Open MPI 4.1.4, mpirun of
 * MPICH 4.0.2 (Hydra), srun (its manual, "OUTPUT ENVIRONMENT VARIABLES").
 */
#include "comm/launcher.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/settings.h"

struct launcher {
	const char *name;
	const char *rank;
	const char *ranks;
	/* ranks on this host, or hosts; NULL if it does not say */
	const char *local_ranks;
	const char *hosts;
	/* what tells this job from others of the same user */
	const char *job[5];
	bool job_is_ancestor; /* it is the launcher's own process */
};

static const struct launcher launchers[] = {
	{.name = "torchrun",
	 .rank = "RANK",
	 .ranks = "WORLD_SIZE",
	 .local_ranks = "LOCAL_WORLD_SIZE",
	 .job = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
		 "TORCHELASTIC_RESTART_COUNT"}},
	{.name = "openmpi",
	 .rank = "OMPI_COMM_WORLD_RANK",
	 .ranks = "OMPI_COMM_WORLD_SIZE",
	 .local_ranks = "OMPI_COMM_WORLD_LOCAL_SIZE",
	 .job = {"PMIX_NAMESPACE"}},
	{.name = "hydra",
	 .rank = "PMI_RANK",
	 .ranks = "PMI_SIZE",
	 .local_ranks = "MPI_LOCALNRANKS",
	 .job_is_ancestor = true},
	{.name = "slurm",
	 .rank = "SLURM_PROCID",
	 .ranks = "SLURM_STEP_NUM_TASKS",
	 .hosts = "SLURM_STEP_NUM_NODES",
	 .job = {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};

#define LAUNCHERS (sizeof(launchers) / sizeof(launchers[0]))

static const char *variable(const char *name)
{
	const char *text = name ? getenv(name) : NULL;

	return text && *text ? text : NULL;
}

static enum oh_status read_number(const char *name, int *number)
{
	uint64_t value;
	const char *text = variable(name);

	if (!text || !oh__parse_number(text, &value) || value > 1000000)
		return OH__FAIL(OH_ERR_LAUNCHER,
				"%s is '%.32s', not a whole number", name,
				text ? text : "");
	*number = (int)value;
	return OH_OK;
}

static enum oh_status check_one_host(const struct launcher *launcher, int ranks)
{
	enum oh_status status;
	int number = 0;

	if (variable(launcher->local_ranks)) {
		status = read_number(launcher->local_ranks, &number);
		if (status)
			return status;
		if (number != ranks)
			return OH__FAIL(OH_ERR_UNSUPPORTED,
					"the job spans hosts: %s is %d and %s "
					"is %d; a communicator lives on one "
					"host",
					launcher->ranks, ranks,
					launcher->local_ranks, number);
	}
	if (variable(launcher->hosts)) {
		status = read_number(launcher->hosts, &number);
		if (status)
			return status;
		if (number != 1)
			return OH__FAIL(OH_ERR_UNSUPPORTED,
					"the job spans hosts: %s is %d; a "
					"communicator lives on one host",
					launcher->hosts, number);
	}
	return OH_OK;
}

/* The parent and the name of a process; false if it cannot be read. */
static bool read_process(long process, long *parent, char name[16])
{
	char path[64], line[256];
	const char *open, *close;
	FILE *file;
	bool ok;

	snprintf(path, sizeof(path), "/proc/%ld/stat", process);
	file = fopen(path, "re");
	if (!file)
		return false;
	ok = fgets(line, sizeof(line), file) != NULL;
	fclose(file);
	/* pid (name) state ppid; the name may hold parentheses itself */
	open = ok ? strchr(line, '(') : NULL;
	close = open ? strrchr(line, ')') : NULL;
	if (!close || sscanf(close + 1, " %*c %ld", parent) != 1)
		return false;
	snprintf(name, 16, "%.*s", (int)(close - open - 1), open + 1);
	return true;
}

/*
 * Hydra gives its ranks nothing in common but the process that started them,
 * hydra_pmi_proxy; a shell may stand in between.
 */
static long launcher_process(void)
{
	long process = getppid();

	for (int depth = 0; process > 1 && depth < 16; depth++) {
		char name[16];
		long parent;

		if (!read_process(process, &parent, name))
			break;
		if (!strncmp(name, "hydra_pmi", 9))
			return process;
		process = parent;
	}
	return getppid();
}

static void describe_job(const struct launcher *launcher, char *job,
			 size_t bytes)
{
	size_t used = 0;

	*job = '\0';
	if (launcher->job_is_ancestor)
		used = (size_t)snprintf(job, bytes, "%ld", launcher_process());
	for (int i = 0; launcher->job[i] && used < bytes; i++) {
		const char *text = variable(launcher->job[i]);

		used += (size_t)snprintf(job + used, bytes - used, "%s\n",
					 text ? text : "");
	}
}

static bool is_complete(const struct launcher *launcher)
{
	return variable(launcher->rank) && variable(launcher->ranks) &&
	       (!launcher->job[0] || variable(launcher->job[0]));
}

static enum oh_status from_launcher(const struct launcher *launcher,
				    struct oh__launch *launch)
{
	static atomic_uint made;
	char job[512];
	enum oh_status status;

	status = read_number(launcher->rank, &launch->rank);
	if (!status)
		status = read_number(launcher->ranks, &launch->ranks);
	if (!status)
		status = check_one_host(launcher, launch->ranks);
	if (status)
		return status;
	launch->launcher = launcher->name;
	describe_job(launcher, job, sizeof(job));
	oh__meeting_place_of_job(launcher->name, job, made++, &launch->place);
	return OH_OK;
}

/* `onehop run`: the id has a secret; later communicators of the same program
 * meet beside the first. */
static enum oh_status from_onehop(struct oh__launch *launch)
{
	static atomic_uint made;
	struct oh_unique_id id;
	enum oh_status status;
	uint64_t rank, ranks;
	unsigned count;

	status = oh__setting_value(OH__SETTING_RANK, &rank);
	if (!status)
		status = oh__setting_value(OH__SETTING_RANKS, &ranks);
	if (status)
		return status;
	if (!oh__id_from_text(oh__setting_text(OH__SETTING_ID), &id))
		return OH__FAIL(OH_ERR_SETTING,
				"ONEHOP_ID is not 256 hexadecimal digits");
	status = oh__meeting_place_of_id(&id, &launch->place);
	if (status)
		return status;
	launch->launcher = "onehop";
	launch->rank = (int)rank;
	launch->ranks = (int)ranks;
	count = made++;
	if (count) {
		size_t used = strlen(launch->place.address);

		snprintf(launch->place.address + used,
			 sizeof(launch->place.address) - used, "/%u", count);
	}
	return OH_OK;
}

#define WHAT_TO_DO                                                             \
	"start the program by `onehop run -n 2 -- PROGRAM`, torchrun, mpirun " \
	"or srun, or give rank, ranks and id in oh_comm_options"

/* Names what is half set, or else that nothing is. */
static enum oh_status fail_without_launcher(void)
{
	for (size_t i = 0; i < LAUNCHERS; i++) {
		const struct launcher *launcher = &launchers[i];
		const char *lacking = launcher->job[0];

		if (!variable(launcher->rank))
			continue;
		if (!variable(launcher->ranks))
			lacking = launcher->ranks;
		return OH__FAIL(
			OH_ERR_LAUNCHER,
			"%s is set, as by %s, but %s is not: " WHAT_TO_DO,
			launcher->rank, launcher->name, lacking);
	}
	if (oh__setting_text(OH__SETTING_RANK))
		return OH__FAIL(OH_ERR_LAUNCHER,
				"ONEHOP_RANK is set, but ONEHOP_RANKS or "
				"ONEHOP_ID is not: " WHAT_TO_DO);
	return OH__FAIL(OH_ERR_LAUNCHER,
			"no launcher has set this process's rank: looked for "
			"ONEHOP_RANK, RANK, OMPI_COMM_WORLD_RANK, PMI_RANK "
			"and SLURM_PROCID; " WHAT_TO_DO);
}

enum oh_status oh__launch_from_environment(struct oh__launch *launch)
{
	if (oh__setting_text(OH__SETTING_RANK) &&
	    oh__setting_text(OH__SETTING_RANKS) &&
	    oh__setting_text(OH__SETTING_ID))
		return from_onehop(launch);
	for (size_t i = 0; i < LAUNCHERS; i++)
		if (is_complete(&launchers[i]))
			return from_launcher(&launchers[i], launch);
	return fail_without_launcher();
}
