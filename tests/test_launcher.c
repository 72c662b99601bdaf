/* SPDX-License-Identifier: MIT */
/*
 * Ranks from the environment: every launcher's variables, as they should be,
 * malformed, incomplete, of a job on several hosts; and the real mpirun of
 * Open MPI and MPICH where they are installed.
 */
#include "ranks.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const variables[] = {
	"ONEHOP_RANK",
	"ONEHOP_RANKS",
	"ONEHOP_ID",
	"RANK",
	"WORLD_SIZE",
	"LOCAL_WORLD_SIZE",
	"MASTER_ADDR",
	"MASTER_PORT",
	"TORCHELASTIC_RUN_ID",
	"TORCHELASTIC_RESTART_COUNT",
	"OMPI_COMM_WORLD_RANK",
	"OMPI_COMM_WORLD_SIZE",
	"OMPI_COMM_WORLD_LOCAL_SIZE",
	"PMIX_NAMESPACE",
	"PMI_RANK",
	"PMI_SIZE",
	"MPI_LOCALNRANKS",
	"SLURM_PROCID",
	"SLURM_STEP_NUM_TASKS",
	"SLURM_STEP_NUM_NODES",
	"SLURM_JOB_ID",
	"SLURM_STEP_ID",
};

static void clean(void)
{
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		unsetenv(variables[i]);
}

/* "NAME=value NAME=value"; %r, %n and %j stand for rank, ranks and a number
 * that is the job's own. */
static void set(const char *assignments, int rank, int ranks, uint64_t job)
{
	char text[1024], *rest = text, *part;

	snprintf(text, sizeof(text), "%s", assignments);
	while ((part = strtok_r(rest, " ", &rest))) {
		char *value = strchr(part, '='), number[32];

		*value++ = '\0';
		snprintf(number, sizeof(number), "%llu",
			 (unsigned long long)job);
		if (!strcmp(value, "%r"))
			snprintf(number, sizeof(number), "%d", rank);
		if (!strcmp(value, "%n"))
			snprintf(number, sizeof(number), "%d", ranks);
		setenv(part, *value == '%' ? number : value, 1);
	}
}

/* Ranks that a launcher started, by its variables. */

#define TORCHRUN "RANK=%r WORLD_SIZE=%n MASTER_ADDR=localhost MASTER_PORT=%j"

static const struct {
	const char *name, *environment;
} launchers[] = {
	{"onehop", "ONEHOP_RANK=%r ONEHOP_RANKS=%n"},
	{"torchrun", TORCHRUN " LOCAL_WORLD_SIZE=%n TORCHELASTIC_RUN_ID=none"},
	{"openmpi", "OMPI_COMM_WORLD_RANK=%r OMPI_COMM_WORLD_SIZE=%n "
		    "OMPI_COMM_WORLD_LOCAL_SIZE=%n PMIX_NAMESPACE=%j"},
	{"hydra", "PMI_RANK=%r PMI_SIZE=%n MPI_LOCALNRANKS=%n"},
	{"slurm", "SLURM_PROCID=%r SLURM_STEP_NUM_TASKS=%n "
		  "SLURM_STEP_NUM_NODES=1 SLURM_JOB_ID=%j SLURM_STEP_ID=0"},
	/* the first that is complete counts */
	{"torchrun-within-slurm",
	 TORCHRUN " SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_JOB_ID=%j"},
	{"half-torchrun-within-slurm",
	 "RANK=7 WORLD_SIZE=8 SLURM_PROCID=%r SLURM_STEP_NUM_TASKS=%n "
	 "SLURM_JOB_ID=%j"},
};

#define LAUNCHERS (sizeof(launchers) / sizeof(launchers[0]))

static void set_id(const struct oh_unique_id *id)
{
	char text[2 * sizeof(id->bytes) + 1];

	for (size_t i = 0; i < sizeof(id->bytes); i++)
		snprintf(text + 2 * i, 3, "%02x", id->bytes[i]);
	setenv("ONEHOP_ID", text, 1);
}

/* Several communicators in turn, two of them at the same time. */
static void meet(struct ranks_self *self)
{
	struct oh_comm *comms[4];

	for (size_t i = 0; i < LAUNCHERS; i++)
		if (!strcmp(launchers[i].name, self->argument))
			set(launchers[i].environment, self->rank, self->ranks,
			    self->seed);
	if (!strcmp(self->argument, "onehop"))
		set_id(&self->ids[0]);
	for (int i = 0; i < 4; i++) {
		struct oh_comm_options options = {.size = sizeof(options),
						  .rendezvous_timeout_ms =
							  40000};
		int32_t in = self->rank, out = -1;

		ranks_at(self, "communicator %d", i);
		if (!ranks_fine(self, oh_comm_create(&options, &comms[i]),
				"oh_comm_create"))
			return;
		ranks_check(self,
			    oh_comm_rank(comms[i]) == self->rank &&
				    oh_comm_ranks(comms[i]) == self->ranks,
			    "rank %d of %d", oh_comm_rank(comms[i]),
			    oh_comm_ranks(comms[i]));
		ranks_fine(self,
			   oh_all_reduce(comms[i], &in, &out, 1, OH_I32, OH_MAX,
					 NULL),
			   "oh_all_reduce");
		ranks_check(self, out == self->ranks - 1, "the result is %d",
			    out);
		if (i % 2)
			oh_comm_destroy(comms[i]);
	}
	oh_comm_destroy(comms[0]);
	oh_comm_destroy(comms[2]);
}

static const struct ranks_case cases[] = {{"meet", meet}, {0}};

/* What one rank can tell alone. */

static const struct {
	const char *environment;
	enum oh_status status;
	const char *message;
} alone[] = {
	{"", OH_ERR_LAUNCHER,
	 "PMI_RANK and SLURM_PROCID; start the program by `onehop run -n 2 -- "
	 "PROGRAM`, torchrun, mpirun or srun, or give rank, ranks and id in "
	 "oh_comm_options"},
	{"RANK=0", OH_ERR_LAUNCHER,
	 "WORLD_SIZE is not: start the program by `onehop run"},
	{"RANK=0 WORLD_SIZE=1", OH_ERR_LAUNCHER, "MASTER_ADDR is not"},
	{"RANK=0 WORLD_SIZE=1 MASTER_ADDR=", OH_ERR_LAUNCHER,
	 "MASTER_ADDR is not"},
	{"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", OH_ERR_LAUNCHER,
	 "PMIX_NAMESPACE is not"},
	{"ONEHOP_RANK=0 ONEHOP_RANKS=1", OH_ERR_LAUNCHER,
	 "ONEHOP_ID is not: start the program by"},
	{TORCHRUN " RANK=abc", OH_ERR_LAUNCHER, "RANK is 'abc'"},
	{TORCHRUN " RANK=-1", OH_ERR_LAUNCHER, "RANK is '-1'"},
	{TORCHRUN " RANK=0x0", OH_ERR_LAUNCHER, "RANK is '0x0'"},
	{TORCHRUN " RANK=18446744073709551616", OH_ERR_LAUNCHER, "RANK is"},
	{TORCHRUN " WORLD_SIZE=1.0", OH_ERR_LAUNCHER, "WORLD_SIZE is '1.0'"},
	{TORCHRUN " LOCAL_WORLD_SIZE=one", OH_ERR_LAUNCHER,
	 "LOCAL_WORLD_SIZE is 'one'"},
	{TORCHRUN " RANK=2 WORLD_SIZE=2", OH_ERR_INVALID, "rank is 2"},
	{TORCHRUN " WORLD_SIZE=17", OH_ERR_INVALID, "ranks is 17"},
	{TORCHRUN " WORLD_SIZE=0", OH_ERR_INVALID, "ranks is 0"},
	{TORCHRUN " WORLD_SIZE=8 LOCAL_WORLD_SIZE=4", OH_ERR_UNSUPPORTED,
	 "spans hosts: WORLD_SIZE is 8 and LOCAL_WORLD_SIZE is 4"},
	{"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 PMIX_NAMESPACE=%j "
	 "OMPI_COMM_WORLD_LOCAL_SIZE=2",
	 OH_ERR_UNSUPPORTED, "spans hosts"},
	{"PMI_RANK=0 PMI_SIZE=4 MPI_LOCALNRANKS=1", OH_ERR_UNSUPPORTED,
	 "spans hosts"},
	{"PMI_RANK=0 PMI_SIZE=4 MPI_LOCALNRANKS=?", OH_ERR_LAUNCHER,
	 "MPI_LOCALNRANKS is '?'"},
	{"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=%j "
	 "SLURM_STEP_NUM_NODES=2",
	 OH_ERR_UNSUPPORTED, "SLURM_STEP_NUM_NODES is 2"},
	{"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_JOB_ID=%j "
	 "SLURM_STEP_NUM_NODES=1-2",
	 OH_ERR_LAUNCHER, "SLURM_STEP_NUM_NODES is '1-2'"},
	{"ONEHOP_RANK=x ONEHOP_RANKS=1 ONEHOP_ID=0", OH_ERR_SETTING,
	 "ONEHOP_RANK is 'x'"},
	{"ONEHOP_RANK=0 ONEHOP_RANKS=17 ONEHOP_ID=0", OH_ERR_SETTING,
	 "ONEHOP_RANKS is '17'"},
	{"ONEHOP_RANK=0 ONEHOP_RANKS=1 ONEHOP_ID=0", OH_ERR_SETTING,
	 "ONEHOP_ID is not 256 hexadecimal digits"},
	/* Onehop's own comes before torchrun's, which is out of range here */
	{TORCHRUN " WORLD_SIZE=17 ONEHOP_RANK=0 ONEHOP_RANKS=1 ONEHOP_ID=%i",
	 OH_OK, ""},
	{TORCHRUN, OH_OK, ""},
	{"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_JOB_ID=%j", OH_OK, ""},
};

static void try_alone(size_t i)
{
	struct oh_comm *comm = NULL;
	struct oh_unique_id id;
	enum oh_status status;
	bool fine;

	clean();
	set(alone[i].environment, 0, 1, ranks_seed());
	if (strstr(alone[i].environment, "%i") && !oh_unique_id_create(&id))
		set_id(&id);
	status = oh_comm_create(NULL, &comm);
	fine = status == alone[i].status && !comm == (status != OH_OK) &&
	       strstr(oh_last_error()->message, alone[i].message);
	if (!tap_ok(fine, "%s: '%s'", oh_status_name(alone[i].status),
		    alone[i].environment))
		tap_note("%s: %s", oh_status_name(status),
			 oh_last_error()->message);
	oh_comm_destroy(comm);
}

static void try_long_values(void)
{
	static char value[100000];
	struct oh_comm *comm = NULL;

	memset(value, '9', sizeof(value) - 1);
	clean();
	set(TORCHRUN, 0, 1, ranks_seed());
	setenv("RANK", value, 1);
	tap_ok(oh_comm_create(NULL, &comm) == OH_ERR_LAUNCHER,
	       "a rank of 99999 digits");
	setenv("RANK", "0", 1);
	setenv("MASTER_ADDR", value, 1);
	tap_ok(oh_comm_create(NULL, &comm) == OH_OK, "a job of 99999 digits");
	oh_comm_destroy(comm);
	clean();
}

/* Real launchers. */

static const struct {
	const char *name, *word; /* of its --version */
	const char *programs[2];
	const char *options;
} real[] = {
	{"Open MPI",
	 "Open MPI",
	 {"mpirun.openmpi", "mpirun"},
	 "--oversubscribe --bind-to none"},
	{"MPICH", "HYDRA", {"mpirun.mpich", "mpirun"}, ""},
};

/* Runs a command line; the number of its lines that have word in them. */
static int count_lines(const char *command, const char *word, bool notes)
{
	FILE *pipe = popen(command, "r");
	char line[400];
	int count = 0;

	while (pipe && fgets(line, sizeof(line), pipe)) {
		line[strcspn(line, "\n")] = '\0';
		count += strstr(line, word) != NULL;
		if (notes)
			tap_note("%s", line);
	}
	return pipe && pclose(pipe) != -1 ? count : 0;
}

static const char *find_program(size_t i)
{
	for (int k = 0; k < 2; k++) {
		char command[256];

		snprintf(command, sizeof(command),
			 "timeout 20 %s --version 2>/dev/null",
			 real[i].programs[k]);
		if (count_lines(command, real[i].word, false))
			return real[i].programs[k];
	}
	return NULL;
}

static void try_real(size_t i, const char *self)
{
	const char *program = find_program(i);
	char text[128], command[5000];
	int fine;

	snprintf(text, sizeof(text), "3 ranks of mpirun, %s", real[i].name);
	if (!program) {
		tap_skip(text, "it is not installed");
		return;
	}
	snprintf(command, sizeof(command),
		 "timeout 30 %s %s -n 2 echo started 2>&1", program,
		 real[i].options);
	if (count_lines(command, "started", false) != 2) {
		count_lines(command, "", true);
		tap_skip(text, "it starts no programs here");
		return;
	}
	snprintf(command, sizeof(command),
		 "timeout 60 %s %s -n 3 '%s' --launched 2>&1", program,
		 real[i].options, self);
	fine = count_lines(command, "rank fine", false);
	if (!tap_ok(fine == 3, "%s", text))
		count_lines(command, "", true);
}

/* In a program that mpirun started. */
static int launched(void)
{
	for (int i = 0; i < 3; i++) {
		int32_t in = 1, out = 0;
		struct oh_comm *comm;

		if (oh_comm_create(NULL, &comm) ||
		    oh_all_reduce(comm, &in, &out, 1, OH_I32, OH_SUM, NULL) ||
		    out != 3) {
			printf("failed: %s\n", oh_last_error()->message);
			return 1;
		}
		oh_comm_destroy(comm);
	}
	printf("rank fine\n");
	return 0;
}

int main(int argc, char **argv)
{
	char self[4096];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	setenv("ONEHOP_LOG", "off", 1);
	setenv("ONEHOP_HEAP_BYTES", "1M", 1);
	if (argc == 2 && !strcmp(argv[1], "--launched"))
		return launched();
	clean();
	ranks_main(argc, argv, cases);
	for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++)
		try_alone(i);
	try_long_values();
	for (size_t i = 0; i < LAUNCHERS; i++)
		ranks_processes(
			&cases[0],
			&(struct ranks_options){.ranks = 3,
						.argument = launchers[i].name});
	setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
	setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
	self[length > 0 ? length : 0] = '\0';
	for (size_t i = 0; i < sizeof(real) / sizeof(real[0]); i++)
		try_real(i, self);
	return tap_done();
}
