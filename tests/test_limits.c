/* SPDX-License-Identifier: MIT */
/*
 * Limits of a process: descriptors that run out at every step of making a
 * communicator give the same status on all ranks, and a limit that is lowered
 * afterwards does not hide a rank's death.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "leftovers.h"
#include "ranks.h"

#define LIMIT 64
#define LONG_MS 40000u

static enum oh_status join(struct ranks_self *self, struct oh_comm **comm)
{
	struct oh_comm_options options = {
		.size = sizeof(options),
		.id = &self->ids[0],
		.rank = self->rank,
		.ranks = self->ranks,
		.rendezvous_timeout_ms = LONG_MS,
		.call_timeout_ms = LONG_MS,
	};

	return oh_comm_create(&options, comm);
}

/* Opens all that may be opened, but a few. */
static void leave_free(int count)
{
	struct rlimit limit = {LIMIT, LIMIT};
	int fds[LIMIT], used = 0;

	setrlimit(RLIMIT_NOFILE, &limit);
	while (used < LIMIT && (fds[used] = dup(STDIN_FILENO)) >= 0)
		used++;
	while (count-- > 0 && used > 0)
		close(fds[--used]);
}

/* "ODD FREE": one rank has that many descriptors left. */
static void few_descriptors(struct ranks_self *self)
{
	struct leftovers before, after;
	struct oh_comm *comm = NULL;
	enum oh_status status;
	int odd, left;
	char text[64], notes[256];

	if (sscanf(self->argument, "%d %d", &odd, &left) != 2)
		abort();
	before = leftovers_now();
	if (self->rank == odd)
		leave_free(left);
	status = join(self, &comm);
	ranks_check(self, status == OH_ERR_SYSTEM && !comm, "%s: %s",
		    oh_status_name(status), oh_last_error()->message);
	snprintf(text, sizeof(text), "rank %d", odd);
	if (self->rank == odd)
		return;
	ranks_check(self, strstr(oh_last_error()->message, text),
		    "the rank is not named: %s", oh_last_error()->message);
	after = leftovers_now();
	ranks_check(self, leftovers_none(&before, &after), "left behind: %s",
		    leftovers_text(&before, &after, notes));
}

/* As many as it takes. */
static void enough_descriptors(struct ranks_self *self)
{
	struct oh_comm *comm = NULL;

	if (self->rank == 0)
		leave_free(atoi(self->argument));
	ranks_fine(self, join(self, &comm), "oh_comm_create");
	oh_comm_destroy(comm);
}

/* Rank 1 dies; rank 0 may not even poll one descriptor. */
static void no_polls(struct ranks_self *self)
{
	struct oh_health health = {.size = sizeof(health)};
	struct rlimit before, none;
	struct oh_comm *comm = NULL;
	enum oh_status status;
	int32_t one = 1;

	if (!ranks_fine(self, join(self, &comm), "oh_comm_create"))
		return;
	if (self->rank == 1)
		raise(SIGKILL);
	getrlimit(RLIMIT_NOFILE, &before);
	none = (struct rlimit){0, before.rlim_max};
	setrlimit(RLIMIT_NOFILE, &none);
	status = oh_all_reduce(comm, &one, &one, 1, OH_I32, OH_SUM, NULL);
	ranks_check(self, status == OH_ERR_PEER_LOST, "%s: %s",
		    oh_status_name(status), oh_last_error()->message);
	oh_comm_health(comm, &health);
	ranks_check(self, health.lost_ranks == 1u << 1, "lost ranks %x",
		    health.lost_ranks);
	oh_comm_destroy(comm);
	/* a sanitizer wants to look around at the end */
	setrlimit(RLIMIT_NOFILE, &before);
}

static const struct ranks_case cases[] = {
	{"few-descriptors", few_descriptors},
	{"enough-descriptors", enough_descriptors},
	{"no-polls", no_polls},
	{0}};

int main(int argc, char **argv)
{
	setenv("ONEHOP_LOG", "off", 1);
	setenv("ONEHOP_HEAP_BYTES", "1M", 1);
	ranks_main(argc, argv, cases);
	for (int odd = 0; odd < 3; odd++)
		for (int left = 2; left <= (odd ? 3 : 5); left++) {
			char argument[32];

			snprintf(argument, sizeof(argument), "%d %d", odd,
				 left);
			ranks_processes(
				&cases[0],
				&(struct ranks_options){.ranks = 3,
							.argument = argument});
		}
	ranks_processes(&cases[1],
			&(struct ranks_options){.ranks = 3, .argument = "20"});
	ranks_processes(&cases[2],
			&(struct ranks_options){.ranks = 2, .dies = 1u << 1});
	return tap_done();
}
