/* SPDX-License-Identifier: MIT */
/*
 * `onehop run`: starts a program on N ranks of this host and ends with the
 * first failure.
 *
 * Each rank leads a process group of its own, so that what it starts ends with
 * it. A rank that has ended is left unreaped until all have: its number, which
 * is its group's too, cannot be given to a stranger meanwhile. Nobody is left
 * behind when this process is killed: the ranks have a parent-death signal,
 * and a guard (run_guard.h) ends their groups.
 *
 * Signals come through a descriptor; nothing runs in a handler, and nothing
 * but poll blocks.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/settings.h"
#include "onehop/onehop.h"
#include "tools/binding.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/run_guard.h"
#include "tools/run_relay.h"

/* From SIGTERM to SIGKILL. */
#define GRACE_NS (2000 * OH__NS_PER_MS)
#define NEVER UINT64_MAX
/* What a shell gives for a program that died by a signal. */
#define EXIT_SIGNAL 128
#define ID_DIGITS (2 * sizeof(((struct oh_unique_id *)NULL)->bytes))

struct options {
	int ranks;
	uint64_t timeout_s; /* 0: none */
	bool bind;
	bool prefix;
	char **program;
};

struct rank {
	pid_t pid; /* also the number of its process group */
	bool ended; /* and not yet reaped */
};

struct run {
	const struct options *options;
	struct rank ranks[OH_MAX_RANKS];
	int started, running;
	char id[ID_DIGITS + 1];
	int cpu[OH_MAX_RANKS];
	bool bound;
	pid_t launcher;
	sigset_t callers_mask; /* given back to the ranks */
	int signals;
	struct run_guard guard;
	struct relay relay;
	bool ending;
	int code; /* the first cause's, once ending */
	uint64_t deadline_ns;
	uint64_t kill_ns; /* when what is ending is killed */
};

static void print_help(void)
{
	printf("usage: onehop run -n N [OPTION...] [--] PROGRAM [ARGUMENT...]\n"
	       "\n"
	       "Starts PROGRAM on N ranks of this host, with ONEHOP_RANK,\n"
	       "ONEHOP_RANKS and ONEHOP_ID set. Standard input is /dev/null.\n"
	       "When a rank fails the others are ended: SIGTERM, and SIGKILL\n"
	       "after 2 s. The exit code is that of the first rank that "
	       "failed,\n"
	       "128 + the signal if it died by one.\n"
	       "\n"
	       "  -n N           the number of ranks, 1 to %d\n"
	       "  --cpu-bind     pin each rank to a processor of its own\n"
	       "  --timeout S    end all ranks after S seconds, exit code 124\n"
	       "  --no-prefix    pass output on as it is, without \"[rank] \"\n"
	       "  -h, --help     print this text\n",
	       OH_MAX_RANKS);
}

static bool parse_in(const char *text, uint64_t high, const char *flag,
		     uint64_t *value)
{
	if (oh__parse_number(text, value) && *value >= 1 && *value <= high)
		return true;
	fprintf(stderr,
		"onehop run: %s is '%s', it takes a whole number from 1 to "
		"%llu\n",
		flag, text, (unsigned long long)high);
	return false;
}

static int check_options(int argc, char **argv, struct options *options)
{
	if (!options->ranks) {
		fprintf(stderr, "onehop run: -n is missing; `onehop run "
				"--help` shows how\n");
		return EXIT_USAGE;
	}
	if (optind == argc) {
		fprintf(stderr, "onehop run: the program is missing\n");
		return EXIT_USAGE;
	}
	options->program = argv + optind;
	return EXIT_FINE;
}

/* EXIT_FINE, or what to exit with; -1 after --help. */
static int read_options(int argc, char **argv, struct options *options)
{
	static const struct option longs[] = {
		{"cpu-bind", no_argument, NULL, 'b'},
		{"timeout", required_argument, NULL, 't'},
		{"no-prefix", no_argument, NULL, 'p'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	uint64_t value;
	int option;

	*options = (struct options){.prefix = true};
	optind = 0; /* scan anew */
	while ((option = flags_next("run", argc, argv, "+n:h", longs, NULL)) !=
	       -1) {
		switch (option) {
		case 'n':
			if (!parse_in(optarg, OH_MAX_RANKS, "-n", &value))
				return EXIT_USAGE;
			options->ranks = (int)value;
			break;
		case 't':
			if (!parse_in(optarg, 86400, "--timeout",
				      &options->timeout_s))
				return EXIT_USAGE;
			break;
		case 'b':
			options->bind = true;
			break;
		case 'p':
			options->prefix = false;
			break;
		case 'h':
			print_help();
			return -1;
		default:
			return EXIT_USAGE;
		}
	}
	return check_options(argc, argv, options);
}

static void signal_all(const struct run *run, int number)
{
	for (int i = 0; i < run->started; i++) {
		kill(-run->ranks[i].pid, number);
		/* a stopped process sees nothing but SIGKILL */
		kill(-run->ranks[i].pid, SIGCONT);
	}
}

/* The first cause gives the exit code. */
static void end_all(struct run *run, int code, int number)
{
	if (run->ending)
		return;
	run->ending = true;
	run->code = code;
	run->deadline_ns = NEVER;
	run->kill_ns = oh__now_ns() + GRACE_NS;
	signal_all(run, number);
}

static bool set_environment(const struct run *run, int rank)
{
	char number[16], ranks[16];

	snprintf(number, sizeof(number), "%d", rank);
	snprintf(ranks, sizeof(ranks), "%d", run->options->ranks);
	return !setenv("ONEHOP_RANK", number, 1) &&
	       !setenv("ONEHOP_RANKS", ranks, 1) &&
	       !setenv("ONEHOP_ID", run->id, 1);
}

static bool connect_output(const int *outputs)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	/* ENOENT would say that there is no program */
	if (null < 0 && errno == ENOENT)
		errno = ENODEV;
	return null >= 0 && dup2(null, STDIN_FILENO) >= 0 &&
	       (outputs[0] < 0 || dup2(outputs[0], STDOUT_FILENO) >= 0) &&
	       (outputs[1] < 0 || dup2(outputs[1], STDERR_FILENO) >= 0);
}

static void pin(const struct run *run, int rank)
{
	if (run->bound && !binding_pin(run->cpu[rank]))
		fprintf(stderr,
			"onehop run: rank %d is not bound to processor %d: "
			"%s\n",
			rank, run->cpu[rank], strerror(errno));
}

/* Becomes the program, or writes errno to report. */
static _Noreturn void become_rank(const struct run *run, int rank,
				  const int *outputs, int report)
{
	int code;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* the launcher may have died before that was set */
	if (getppid() != run->launcher)
		_exit(EXIT_ENVIRONMENT);
	if (run_guard_add(&run->guard, getpid()) && connect_output(outputs) &&
	    set_environment(run, rank)) {
		pin(run, rank);
		sigprocmask(SIG_SETMASK, &run->callers_mask, NULL);
		execvp(run->options->program[0], run->options->program);
	}
	code = errno;
	if (write(report, &code, sizeof(code)) < 0)
		_exit(EXIT_ENVIRONMENT);
	_exit(EXIT_ENVIRONMENT);
}

static bool open_outputs(struct run *run, int rank, int *outputs)
{
	outputs[0] = outputs[1] = -1;
	if (!run->options->prefix)
		return true;
	outputs[0] = relay_add(&run->relay, rank, RELAY_STDOUT);
	if (outputs[0] < 0)
		return false;
	outputs[1] = relay_add(&run->relay, rank, RELAY_STDERR);
	return outputs[1] >= 0;
}

static void close_outputs(const int *outputs)
{
	for (int i = 0; i < 2; i++)
		if (outputs[i] >= 0)
			close(outputs[i]);
}

/* 0, or the errno that kept the rank from becoming the program. */
static int fork_rank(struct run *run, int rank, const int *outputs)
{
	int report[2], code = 0;
	pid_t pid;

	if (pipe2(report, O_CLOEXEC))
		return errno;
	pid = fork();
	if (!pid)
		become_rank(run, rank, outputs, report[1]);
	if (pid < 0)
		code = errno;
	close(report[1]);
	/* the end without a number: the program has begun */
	if (pid > 0 && read(report[0], &code, sizeof(code)) < 0)
		code = errno;
	close(report[0]);
	if (pid > 0 && code)
		waitpid(pid, NULL, 0);
	if (!code) {
		run->ranks[rank].pid = pid;
		run->started++;
		run->running++;
	}
	return code;
}

static void start_rank(struct run *run, int rank)
{
	const char *program = run->options->program[0];
	int outputs[2];
	int code = open_outputs(run, rank, outputs)
			   ? fork_rank(run, rank, outputs)
			   : errno;

	close_outputs(outputs);
	if (!code)
		return;
	if (code == ENOENT)
		relay_say(&run->relay,
			  "onehop run: program '%.200s' was not found; give "
			  "its path, or a name that PATH finds",
			  program);
	else
		relay_say(&run->relay,
			  "onehop run: rank %d cannot start '%.200s': %s", rank,
			  program, strerror(code));
	end_all(run, EXIT_ENVIRONMENT, SIGTERM);
}

/* Who has ended may be why another one fails: " (rank 1 had ended with 0
 * before)". While nobody has failed, all that have ended did so with 0. */
static void tell_ended(const struct run *run, int rank, char *text, size_t room)
{
	char list[64] = "";
	size_t used = 0;
	int count = 0;

	*text = '\0';
	for (int i = 0; i < run->started; i++) {
		if (i == rank || !run->ranks[i].ended)
			continue;
		used += (size_t)snprintf(list + used, sizeof(list) - used,
					 " %d", i);
		count++;
	}
	if (count)
		snprintf(text, room, " (rank%s%s had ended with 0 before)",
			 count > 1 ? "s" : "", list);
}

static void note_failure(struct run *run, int rank, const siginfo_t *info)
{
	int code = info->si_status;
	const char *others = run->running ? ", ending the others" : "";
	char ended[128];

	tell_ended(run, rank, ended, sizeof(ended));

	if (info->si_code == CLD_EXITED) {
		relay_say(&run->relay,
			  "onehop run: rank %d exited with code %d%s%s", rank,
			  code, others, ended);
	} else {
		const char *name = sigabbrev_np(code);

		relay_say(&run->relay,
			  "onehop run: rank %d died by signal %d (SIG%s)%s%s",
			  rank, code, name ? name : "?", others, ended);
		code += EXIT_SIGNAL;
	}
	end_all(run, code, SIGTERM);
}

static void look_at_rank(struct run *run, int rank)
{
	siginfo_t info = {0};

	if (run->ranks[rank].ended ||
	    waitid(P_PID, (id_t)run->ranks[rank].pid, &info,
		   WEXITED | WNOHANG | WNOWAIT) ||
	    !info.si_pid)
		return;
	run->ranks[rank].ended = true;
	run->running--;
	if ((info.si_code != CLD_EXITED || info.si_status) && !run->ending)
		note_failure(run, rank, &info);
}

/* Ctrl-Z: the ranks stop with this process and go on with it. The time does not
 * count against --timeout. */
static void stop_with_ranks(struct run *run)
{
	uint64_t start = oh__now_ns(), stopped;

	for (int i = 0; i < run->started; i++)
		kill(-run->ranks[i].pid, SIGSTOP);
	kill(getpid(), SIGSTOP);
	for (int i = 0; i < run->started; i++)
		kill(-run->ranks[i].pid, SIGCONT);
	stopped = oh__now_ns() - start;
	if (run->deadline_ns != NEVER)
		run->deadline_ns += stopped;
	if (run->kill_ns != NEVER)
		run->kill_ns += stopped;
}

/* Several ends may come as one signal; it names the first. */
static void look_at_ranks(struct run *run, pid_t first)
{
	for (int i = 0; i < run->started; i++)
		if (run->ranks[i].pid == first)
			look_at_rank(run, i);
	for (int i = 0; i < run->started; i++)
		look_at_rank(run, i);
}

static void take_signal(struct run *run)
{
	struct signalfd_siginfo info;

	if (read(run->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	if (info.ssi_signo == SIGCHLD) {
		look_at_ranks(run, (pid_t)info.ssi_pid);
	} else if (info.ssi_signo == SIGTSTP) {
		stop_with_ranks(run);
	} else if (!run->ending && run->running) {
		end_all(run, EXIT_SIGNAL + (int)info.ssi_signo,
			(int)info.ssi_signo);
	} else {
		/* somebody is in a hurry */
		signal_all(run, SIGKILL);
		if (!run->running)
			relay_drop(&run->relay);
	}
}

static void check_deadlines(struct run *run)
{
	uint64_t now = oh__now_ns();
	char list[64] = "";
	size_t used = 0;

	if (now >= run->kill_ns) {
		run->kill_ns = NEVER;
		signal_all(run, SIGKILL);
	}
	if (now < run->deadline_ns || !run->running)
		return;
	for (int i = 0; i < run->started; i++)
		if (!run->ranks[i].ended)
			used += (size_t)snprintf(list + used,
						 sizeof(list) - used, " %d", i);
	relay_say(&run->relay,
		  "onehop run: %llu s are over and these ranks have not ended, "
		  "ending them:%s",
		  (unsigned long long)run->options->timeout_s, list);
	end_all(run, EXIT_DEADLINE, SIGTERM);
}

/* Nobody reads what the ranks print. */
static void check_output(struct run *run)
{
	int lost = run->relay.sinks[RELAY_STDOUT].lost;

	if (!lost || run->ending)
		return;
	if (lost == EPIPE) {
		end_all(run, EXIT_SIGNAL + SIGPIPE, SIGTERM);
		return;
	}
	relay_say(&run->relay, "onehop run: writing to stdout failed: %s",
		  strerror(lost));
	end_all(run, EXIT_ENVIRONMENT, SIGTERM);
}

static void wait_and_serve(struct run *run)
{
	struct pollfd polls[1 + RELAY_POLLS];
	uint64_t until = run->kill_ns < run->deadline_ns ? run->kill_ns
							 : run->deadline_ns;
	int ready;

	polls[0].fd = run->signals;
	polls[0].events = POLLIN;
	relay_prepare(&run->relay, polls + 1);
	ready = poll(polls, 1 + relay_polls(&run->relay),
		     until == NEVER ? -1 : oh__ms_until(until));
	if (ready > 0) {
		if (polls[0].revents)
			take_signal(run);
		relay_serve(&run->relay, polls + 1);
		check_output(run);
	}
	check_deadlines(run);
}

/* All ranks have ended: what they left in their groups ends too. */
static void clear_up(struct run *run)
{
	signal_all(run, SIGKILL);
	relay_end_streams(&run->relay);
	for (int i = 0; i < run->started; i++)
		waitpid(run->ranks[i].pid, NULL, 0);
	run->started = 0;
	run_guard_stop(&run->guard);
	run->kill_ns = run->deadline_ns = NEVER;
}

static int run_to_end(struct run *run)
{
	if (run->options->timeout_s)
		run->deadline_ns = oh__now_ns() + run->options->timeout_s *
							  1000 * OH__NS_PER_MS;
	for (int i = 0; i < run->options->ranks && !run->ending; i++)
		start_rank(run, i);
	while (run->running)
		wait_and_serve(run);
	clear_up(run);
	while (relay_is_pending(&run->relay))
		wait_and_serve(run);
	return run->code;
}

/* Takes the signals that end or stop this process, but not one that the caller
 * wants ignored (nohup). SIGPIPE is blocked so that a write gives EPIPE. */
static bool take_signals(struct run *run)
{
	static const int taken[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
	sigset_t watched, blocked;

	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&watched);
	sigaddset(&watched, SIGCHLD);
	for (size_t i = 0; i < sizeof(taken) / sizeof(*taken); i++) {
		struct sigaction action;

		if (!sigaction(taken[i], NULL, &action) &&
		    action.sa_handler != SIG_IGN)
			sigaddset(&watched, taken[i]);
	}
	blocked = watched;
	sigaddset(&blocked, SIGPIPE);
	if (sigprocmask(SIG_BLOCK, &blocked, &run->callers_mask))
		return false;
	run->signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
	return run->signals >= 0;
}

static bool make_id(struct run *run)
{
	struct oh_unique_id id;

	if (oh_unique_id_create(&id)) {
		fprintf(stderr, "onehop run: %s\n", oh_last_error()->message);
		return false;
	}
	for (size_t i = 0; i < sizeof(id.bytes); i++)
		snprintf(run->id + 2 * i, 3, "%02x", id.bytes[i]);
	return true;
}

static void choose_processors(struct run *run)
{
	if (!run->options->bind)
		return;
	run->bound = binding_choose(run->options->ranks, run->cpu);
	if (!run->bound)
		fprintf(stderr,
			"onehop run: the ranks are not bound: %d ranks, %d "
			"processors\n",
			run->options->ranks, binding_processors());
}

int command_run(int argc, char **argv)
{
	struct options options;
	struct run run = {.options = &options,
			  .launcher = getpid(),
			  .deadline_ns = NEVER,
			  .kill_ns = NEVER};
	int code = read_options(argc, argv, &options);

	if (code)
		return code < 0 ? EXIT_FINE : code;
	if (!make_id(&run))
		return EXIT_ENVIRONMENT;
	choose_processors(&run);
	if (!take_signals(&run) || !run_guard_start(&run.guard)) {
		perror("onehop run: cannot begin");
		return EXIT_ENVIRONMENT;
	}
	relay_init(&run.relay);
	code = run_to_end(&run);
	relay_free(&run.relay);
	close(run.signals);
	return code;
}
