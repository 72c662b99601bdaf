/* SPDX-License-Identifier: MIT */
/*
 * Ranks that this command is itself inherit a socket each. MPI's are started by
 * its mpirun, which may close what they inherit: they connect to an abstract
 * socket with a random name, and only processes of this user are let in.
 *
 * While ranks measure, this process sleeps in poll and wakes for nothing else.
 */
#include "bench/team.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench/interrupt.h"

/* The tools' exit codes that a failure leads to (tools/command.h). */
#define EXIT_DEAD 1
#define EXIT_LATE 124

__attribute__((format(printf, 3, 4))) static bool
fail(struct bench_failure *failure, int exit_code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	failure->exit_code = exit_code;
	vsnprintf(failure->text, sizeof(failure->text), format, args);
	va_end(args);
	return false;
}

static bool interrupted(struct bench_failure *failure)
{
	return fail(failure, 128 + bench_interrupt_seen(), "interrupted");
}

static void hear(struct bench_team *team, bool last)
{
	char name[64];

	for (int i = 0; i < team->pids; i++) {
		if (team->pids > 1)
			snprintf(name, sizeof(name), "%s rank %d", team->name,
				 i);
		else
			snprintf(name, sizeof(name), "%s", team->name);
		bench_talk_hear(&team->talk[i], name, last);
	}
}

static bool prepare(const struct bench_frame *frame, const char *name,
		    struct bench_team *team, struct bench_failure *failure)
{
	memset(team, 0, sizeof(*team));
	team->name = name;
	team->frame = frame;
	for (int i = 0; i < OH_MAX_RANKS; i++) {
		team->socket[i] = -1;
		team->rank_pidfd[i] = -1;
		team->talk[i].fd = -1;
	}
	if (bench_arena_create(frame->mailbox_bytes, &team->arena))
		return true;
	return fail(failure, BENCH_UNUSABLE,
		    "shared memory for the benchmark: %s", strerror(errno));
}

/* Starts one child into the team. */
static bool add_child(struct bench_team *team, struct bench_spawn *spawn,
		      struct bench_failure *failure)
{
	struct bench_talk *talk = &team->talk[team->pids];
	pid_t pid;

	if (!bench_talk_open(talk))
		return fail(failure, BENCH_UNUSABLE, "memfd_create: %s",
			    strerror(errno));
	spawn->talk = talk->fd;
	spawn->group = team->pids ? team->pid[0] : 0;
	pid = bench_spawn(spawn);
	if (pid < 0)
		return fail(failure, BENCH_UNUSABLE, "fork: %s",
			    strerror(errno));
	team->pid[team->pids++] = pid;
	return true;
}

/* What became of the process of a rank whose socket has closed. */
static bool fail_ended(struct bench_team *team, int rank,
		       struct bench_failure *failure)
{
	int index = team->pids > 1 ? rank : 0;
	char how[64] = "";
	int code = -1;

	/* a peer's mpirun first says on stderr what it saw */
	if (bench_await_end(team->pid[index], 1000) && !team->by_mpirun) {
		code = bench_reap(team->pid[index], how, sizeof(how));
		team->pid[index] = 0;
	}
	hear(team, true);
	return fail(failure,
		    code == BENCH_UNUSABLE ? BENCH_UNUSABLE : EXIT_DEAD,
		    "%s rank %d has ended%s%s", team->name, rank,
		    *how ? ": " : "", how);
}

/* The state of a process by /proc/PID/stat, whose second word may hold any
 * character but ends in the last ')'. */
static char state_of(pid_t pid)
{
	char path[48], text[256] = "";
	const char *end;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return '?';
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	end = strrchr(text, ')');
	return end && end[1] == ' ' ? end[2] : '?';
}

static bool fail_late(struct bench_team *team, const bool *answered,
		      const char *what, struct bench_failure *failure)
{
	char list[320] = "";
	size_t used = 0;
	int late = 0;

	for (int i = 0; i < team->frame->ranks; i++) {
		pid_t pid = team->rank_pid[i];
		bool stopped = pid && state_of(pid) == 'T';

		late += !answered[i];
		if (!answered[i])
			used += (size_t)snprintf(
				list + used, sizeof(list) - used, " %d%s", i,
				stopped ? " (stopped)" : "");
	}
	hear(team, true);
	return fail(failure, EXIT_LATE,
		    "%s: rank%s%s %s after %d s (--timeout)", team->name,
		    late > 1 ? "s" : "", list, what, team->frame->timeout_s);
}

static uint64_t deadline_of(const struct bench_team *team)
{
	return bench_now_ns() +
	       (uint64_t)team->frame->timeout_s * 1000000000ull;
}

static int ms_until(uint64_t deadline_ns)
{
	uint64_t now = bench_now_ns();

	return now >= deadline_ns ? 0
				  : (int)((deadline_ns - now) / 1000000 + 1);
}

/* One rank's reply: true unless it ends the wait. */
static bool judge(struct bench_team *team, int rank,
		  const struct bench_reply *reply,
		  struct bench_failure *failure)
{
	int exit_code = team->open ? EXIT_DEAD : BENCH_UNUSABLE;

	if (reply->outcome == BENCH_DONE || reply->outcome == BENCH_REFUSED ||
	    reply->outcome == BENCH_GAVE_UP)
		return true;
	hear(team, false);
	if (reply->outcome == BENCH_LATE)
		exit_code = EXIT_LATE;
	return fail(failure, exit_code, "%s rank %d: %.*s", team->name, rank,
		    (int)sizeof(reply->text), reply->text);
}

static bool receive_ready(struct bench_team *team, const struct pollfd *fds,
			  struct bench_reply *replies, bool *answered,
			  struct bench_failure *failure)
{
	for (int i = 0; i < team->frame->ranks; i++) {
		if (answered[i] || !fds[i].revents)
			continue;
		if (!bench_receive(team->socket[i], &replies[i],
				   sizeof(replies[i]), NULL))
			return fail_ended(team, i, failure);
		replies[i].text[sizeof(replies[i].text) - 1] = '\0';
		answered[i] = true;
		if (!judge(team, i, &replies[i], failure))
			return false;
	}
	return true;
}

/* Waits for a reply of every rank. */
static bool collect(struct bench_team *team, struct bench_reply *replies,
		    struct bench_failure *failure)
{
	uint64_t deadline = deadline_of(team);
	bool answered[OH_MAX_RANKS] = {false};

	for (;;) {
		struct pollfd fds[OH_MAX_RANKS];
		int missing = 0, ready;

		for (int i = 0; i < team->frame->ranks; i++) {
			fds[i].fd = answered[i] ? -1 : team->socket[i];
			fds[i].events = POLLIN;
			missing += !answered[i];
		}
		if (!missing)
			return true;
		ready = bench_interrupt_poll(fds, team->frame->ranks,
					     ms_until(deadline));
		if (ready < 0)
			return interrupted(failure);
		if (!ready)
			return fail_late(team, answered, "did not answer",
					 failure);
		if (!receive_ready(team, fds, replies, answered, failure))
			return false;
	}
}

bool bench_team_order(struct bench_team *team,
		      const struct bench_command *command,
		      struct bench_reply *replies,
		      struct bench_failure *failure)
{
	for (int i = 0; i < team->frame->ranks; i++) {
		if (!bench_send(team->socket[i], command, sizeof(*command), -1))
			return fail_ended(team, i, failure);
	}
	if (!collect(team, replies, failure))
		return false;
	hear(team, false);
	return true;
}

static uint64_t lead_ticks(const struct bench_frame *frame)
{
	/* until all have seen that they have met: a cache line's way to each;
	 * crowded: until each had its turn on a processor */
	double us = frame->ranks > frame->processors ? 5.0 * frame->ranks
						     : 2 + 0.25 * frame->ranks;

	return (uint64_t)(us * frame->clock.ticks_per_us);
}

const char *bench_forbidden(const struct bench_frame *frame)
{
	const char *text = frame->forbid_peer ? frame->forbid_peer
					      : getenv("ONEHOP_FORBID_PEER");

	return text && *text ? text : NULL;
}

bool bench_team_ways(const struct bench_team *team,
		     struct oh_route_peer ways[OH_MAX_RANKS][OH_MAX_RANKS])
{
	bool by_host = false;

	memcpy(ways, team->arena.head->ways, sizeof(team->arena.head->ways));
	for (int i = 0; i < OH_MAX_RANKS * OH_MAX_RANKS; i++) {
		struct oh_route_peer *way =
			&ways[i / OH_MAX_RANKS][i % OH_MAX_RANKS];

		/* a rank wrote it */
		way->placement[sizeof(way->placement) - 1] = '\0';
		way->reason[sizeof(way->reason) - 1] = '\0';
		by_host |= !strcmp(way->placement, "pinned");
	}
	return by_host;
}

double bench_team_create_ms(const struct bench_team *team)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < team->frame->ranks; i++)
		if (team->arena.head->create_ns[i] < least)
			least = team->arena.head->create_ns[i];
	return (double)least / 1e6;
}

/* Sends every rank its setup and waits until all have opened the subject. */
static bool set_up(struct bench_team *team, const struct oh_unique_id *id,
		   bool by_host, struct bench_failure *failure)
{
	const struct bench_frame *frame = team->frame;
	struct bench_reply replies[OH_MAX_RANKS];
	struct bench_setup setup = {
		.magic = BENCH_MAGIC,
		.protocol = BENCH_PROTOCOL,
		.ranks = frame->ranks,
		.timeout_ms = (uint32_t)frame->timeout_s * 1000,
		.tsc = frame->clock.tsc,
		.crowded = frame->ranks > frame->processors,
		.in_place = frame->in_place,
		.comm_alloc = frame->comm_alloc,
		.fits = frame->fits,
		.lead_ticks = lead_ticks(frame),
		.buffer_bytes = frame->buffer_bytes,
		.mailbox_bytes = frame->mailbox_bytes,
		.id = *id,
		.gpus = frame->gpus,
		.graph = frame->graph,
		.by_host = by_host,
	};

	for (int i = 0; i < frame->ranks; i++) {
		setup.rank = i;
		setup.cpu = frame->pinned ? frame->cpu[i] : -1;
		if (!bench_send(team->socket[i], &setup, sizeof(setup),
				team->arena.fd))
			return fail_ended(team, i, failure);
	}
	if (!collect(team, replies, failure))
		return false;
	snprintf(team->version, sizeof(team->version), "%s", replies[0].about);
	team->open = true;
	hear(team, false);
	return true;
}

/* The name of a subject of this command, and what its processes need. */
struct role {
	const char *subject; /* as in --worker */
	bool one_process;
	const char *set; /* "NAME=value", NULL for none */
	bool by_host; /* floors only: flags lie in host memory */
};

/* One process with the sockets of ranks first to first+count-1. */
static bool start_process(struct bench_team *team, const struct role *role,
			  int first, int count, struct bench_failure *failure)
{
	static const char *const unset[] = {"ONEHOP_RANK", "ONEHOP_RANKS",
					    "ONEHOP_ID", NULL};
	const char *const set[] = {role->set, NULL};
	char list[32 + OH_MAX_RANKS * 12];
	const char *argv[] = {"/proc/self/exe", "bench", "--worker", list,
			      NULL};
	struct bench_spawn spawn = {.argv = argv,
				    .set = set,
				    .unset = unset,
				    .death_signal = SIGKILL};
	int theirs[OH_MAX_RANKS], pair[2];
	size_t used;
	bool fine = true;

	used = (size_t)snprintf(list, sizeof(list), "%s:", role->subject);
	for (int i = 0; i < count; i++) {
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0,
			       pair)) {
			fine = fail(failure, BENCH_UNUSABLE, "socketpair: %s",
				    strerror(errno));
			break;
		}
		team->socket[first + i] = pair[0];
		theirs[spawn.keeps++] = pair[1];
		used += (size_t)snprintf(list + used, sizeof(list) - used,
					 "%s%d", i ? "," : "", pair[1]);
	}
	spawn.keep = theirs;
	fine = fine && add_child(team, &spawn, failure);
	for (int i = 0; fine && i < count; i++)
		team->rank_pid[first + i] = team->pid[team->pids - 1];
	for (int i = 0; i < spawn.keeps; i++)
		close(theirs[i]);
	return fine;
}

static bool greet_own(struct bench_team *team, struct bench_failure *failure)
{
	struct bench_hello hello;

	for (int i = 0; i < team->frame->ranks; i++) {
		struct pollfd fd = {team->socket[i], POLLIN, 0};

		if (bench_interrupt_poll(&fd, 1, 10000) < 0)
			return interrupted(failure);
		if (!fd.revents ||
		    !bench_receive(fd.fd, &hello, sizeof(hello), NULL))
			return fail_ended(team, i, failure);
	}
	return true;
}

/* Processes of this command; the team is prepared. */
static bool start_role(struct bench_team *team, const struct role *role,
		       struct bench_failure *failure)
{
	int ranks = team->frame->ranks, each = role->one_process ? ranks : 1;
	struct oh_unique_id id;

	if (oh_unique_id_create(&id)) {
		fail(failure, BENCH_UNUSABLE, "oh_unique_id_create: %s",
		     oh_last_error()->message);
		goto err_end;
	}
	for (int i = 0; i < ranks; i += each) {
		if (!start_process(team, role, i, each, failure))
			goto err_end;
	}
	if (!greet_own(team, failure) ||
	    !set_up(team, &id, role->by_host, failure))
		goto err_end;
	return true;
err_end:
	bench_team_end(team, false, NULL);
	return false;
}

bool bench_team_start_own(const struct bench_frame *frame,
			  struct bench_team *team,
			  struct bench_failure *failure)
{
	char *forbid = NULL; /* a list of any length */
	struct role role = {
		.subject = frame->device ? "device" : "host",
		.one_process = frame->threads,
	};
	bool fine;

	if (frame->forbid_peer &&
	    asprintf(&forbid, "ONEHOP_FORBID_PEER=%s", frame->forbid_peer) < 0)
		return fail(failure, BENCH_UNUSABLE, "out of memory");
	role.set = forbid;
	fine = prepare(frame, "onehop", team, failure) &&
	       start_role(team, &role, failure);
	free(forbid);
	return fine;
}

bool bench_team_start_floor(const struct bench_frame *frame, bool by_host,
			    struct bench_team *team,
			    struct bench_failure *failure)
{
	const struct role role = {
		.subject = "floor", .one_process = true, .by_host = by_host};

	if (!prepare(frame, "floor", team, failure))
		return false;
	team->is_peer = true;
	return start_role(team, &role, failure);
}

/* An abstract socket with a name of 128 random bits in hexadecimal. */
static int listen_somewhere(char *variable, size_t room)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	unsigned char random[16];
	char name[64] = "onehop-bench-";
	size_t length = strlen(name);
	int fd;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -1;
	for (size_t i = 0; i < sizeof(random); i++, length += 2)
		snprintf(name + length, sizeof(name) - length, "%02x",
			 random[i]);
	snprintf(variable, room, "%s=%s", BENCH_SOCKET_VARIABLE, name);
	memcpy(address.sun_path + 1, name, length);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (bind(fd, (struct sockaddr *)&address,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			     length)) ||
	    listen(fd, OH_MAX_RANKS)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Lets one process in; whoever is not a rank of this run is sent away. */
static void admit(struct bench_team *team, int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	struct pollfd look = {fd, POLLIN, 0};
	struct bench_hello hello;
	struct ucred who;
	socklen_t size = sizeof(who);

	if (fd < 0)
		return;
	if (!bench_same_user(fd) || poll(&look, 1, 1000) <= 0 ||
	    !bench_receive(fd, &hello, sizeof(hello), NULL) ||
	    hello.magic != BENCH_MAGIC || hello.protocol != BENCH_PROTOCOL ||
	    hello.rank < 0 || hello.rank >= team->frame->ranks ||
	    team->socket[hello.rank] >= 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size)) {
		close(fd);
		return;
	}
	team->socket[hello.rank] = fd;
	team->rank_pid[hello.rank] = who.pid;
	team->rank_pidfd[hello.rank] = (int)syscall(SYS_pidfd_open, who.pid, 0);
}

static bool admit_all(struct bench_team *team, int listener,
		      struct bench_failure *failure)
{
	uint64_t deadline = deadline_of(team);

	for (;;) {
		struct pollfd fd = {listener, POLLIN, 0};
		bool here[OH_MAX_RANKS];
		int missing = 0, ready;

		for (int i = 0; i < team->frame->ranks; i++) {
			here[i] = team->socket[i] >= 0;
			missing += !here[i];
		}
		if (!missing)
			return true;
		/* somebody may always be at the door */
		if (!ms_until(deadline))
			return fail_late(team, here, "did not come", failure);
		ready = bench_interrupt_poll(&fd, 1, 50);
		if (ready < 0)
			return interrupted(failure);
		if (ready)
			admit(team, listener);
		else if (bench_has_ended(team->pid[0]))
			return fail_ended(team, 0, failure);
	}
}

static bool start_by_mpirun(struct bench_team *team, enum bench_peer peer,
			    struct bench_failure *failure)
{
	static const char *const unset[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK",
					    NULL};
	static const struct oh_unique_id no_id;
	struct bench_peer_start start;
	struct bench_spawn spawn = {
		.argv = start.argv, .unset = unset, .death_signal = SIGTERM};
	const char *set[sizeof(start.set) / sizeof(start.set[0]) + 1];
	char variable[128];
	size_t sets = 0;
	int listener = -1;

	team->by_mpirun = true;
	failure->exit_code = BENCH_UNUSABLE;
	if (!bench_peer_prepare(peer, team->frame->ranks,
				team->frame->processors, &start, failure->text,
				sizeof(failure->text)))
		goto err_end;
	listener = listen_somewhere(variable, sizeof(variable));
	if (listener < 0) {
		fail(failure, BENCH_UNUSABLE, "a socket for %s: %s", team->name,
		     strerror(errno));
		goto err_end;
	}
	for (; start.set[sets]; sets++)
		set[sets] = start.set[sets];
	set[sets++] = variable;
	set[sets] = NULL;
	spawn.set = set;
	if (!add_child(team, &spawn, failure) ||
	    !admit_all(team, listener, failure) ||
	    !set_up(team, &no_id, false, failure))
		goto err_close;
	close(listener);
	return true;
err_close:
	close(listener);
err_end:
	bench_team_end(team, false, NULL);
	return false;
}

bool bench_team_start_peer(const struct bench_frame *frame,
			   enum bench_peer peer, struct bench_team *team,
			   struct bench_failure *failure)
{
	const struct role role = {
		.subject = bench_peer_name(peer),
		.one_process = true,
		.set = bench_peer_setting(peer),
	};

	if (!prepare(frame, bench_peer_name(peer), team, failure))
		return false;
	team->is_peer = true;
	return bench_peer_is_on_device(peer)
		       ? start_role(team, &role, failure)
		       : start_by_mpirun(team, peer, failure);
}

static void ask_to_quit(struct bench_team *team)
{
	struct bench_command quit = {.kind = BENCH_QUIT};

	for (int i = 0; i < team->frame->ranks; i++) {
		if (team->socket[i] >= 0)
			bench_send(team->socket[i], &quit, sizeof(quit), -1);
	}
	for (int i = 0; i < team->pids; i++)
		bench_await_end(team->pid[i], 3000);
	hear(team, true);
}

static void kill_all(struct bench_team *team)
{
	pid_t group = team->pid[0];

	/* mpirun takes files of its ranks away if it is given the time */
	if (team->by_mpirun && group && !bench_has_ended(group)) {
		kill(group, SIGTERM);
		bench_await_end(group, 3000);
	}
	for (int i = 0; i < team->frame->ranks; i++) {
		if (team->rank_pidfd[i] >= 0)
			syscall(SYS_pidfd_send_signal, team->rank_pidfd[i],
				SIGKILL, NULL, 0);
	}
	for (int i = 0; i < team->pids; i++) {
		if (team->pid[i])
			kill(team->pid[i], SIGKILL);
	}
	/* what mpirun started beside the ranks; its number is still taken */
	if (group)
		kill(-group, SIGKILL);
}

/* How a process that was asked to quit has ended; reaps it. */
static bool ended_well(struct bench_team *team, int index,
		       struct bench_failure *failure)
{
	char how[64], who[32] = "";

	if (!team->is_peer && team->pids > 1)
		snprintf(who, sizeof(who), " rank %d", index);
	if (!bench_has_ended(team->pid[index]))
		return fail(failure, EXIT_DEAD, "%s%s does not end", team->name,
			    who);
	bench_reap(team->pid[index], how, sizeof(how));
	team->pid[index] = 0;
	if (!strcmp(how, "exited with 0"))
		return true;
	return fail(failure, EXIT_DEAD, "%s%s at the end: %s", team->name, who,
		    how);
}

bool bench_team_end(struct bench_team *team, bool politely,
		    struct bench_failure *failure)
{
	bool well = true;
	char ignored[64];

	if (!team->frame)
		return true;
	if (politely) {
		ask_to_quit(team);
		for (int i = 0; i < team->pids; i++)
			well &= ended_well(team, i, failure);
	}
	if (team->pids)
		kill_all(team);
	for (int i = 0; i < team->pids; i++) {
		if (team->pid[i])
			bench_reap(team->pid[i], ignored, sizeof(ignored));
		bench_talk_close(&team->talk[i]);
	}
	for (int i = 0; i < OH_MAX_RANKS; i++) {
		if (team->socket[i] >= 0)
			close(team->socket[i]);
		if (team->rank_pidfd[i] >= 0)
			close(team->rank_pidfd[i]);
	}
	bench_arena_close(&team->arena);
	team->frame = NULL;
	return well;
}
