/* SPDX-License-Identifier: MIT */
/*
 * The board is a shared mapping: anonymous for threads, a memfd for processes,
 * which inherit it under its number. A rank writes its own place of the board
 * only; the parent reads it after the rank has ended, or at the deadline.
 */
#include "ranks.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOTES 6
#define NOTE_BYTES 400

extern char **environ;

/* What one rank has to say. */
struct place {
	atomic_int failures;
	atomic_int done;
	atomic_flag at_busy; /* a rank may have several threads */
	char at[160];
	char notes[NOTES][NOTE_BYTES];
};

struct ranks_board {
	int ranks;
	unsigned deadline_s;
	uint64_t seed, program_seed;
	char name[64], argument[256];
	struct oh_unique_id ids[RANKS_IDS];
	_Atomic uint64_t words[RANKS_WORDS];
	_Atomic uint64_t arrived; /* at ranks_barrier, all ranks and times */
	struct place places[OH_MAX_RANKS];
};

struct ranks_group {
	struct ranks_board *board;
	uint64_t deadline_ns;
	uint32_t dies;
	int fd;
	char text[320];
	pid_t pids[OH_MAX_RANKS];
	bool running[OH_MAX_RANKS];
};

static _Thread_local uint64_t deadline_now_ns; /* of the rank in this thread */
static uint64_t program_seed;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
}

_Noreturn static void bail(const char *what)
{
	printf("Bail out! %s: %s\n", what, strerror(errno));
	exit(1);
}

bool ranks_quick(void)
{
	const char *text = getenv("ONEHOP_TEST_QUICK");

	return text && *text && *text != '0';
}

#ifndef __has_feature
#define __has_feature(feature) 0 /* gcc has macros of its own */
#endif

bool ranks_sanitized(void)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) ||           \
	__has_feature(thread_sanitizer) || __has_feature(address_sanitizer) || \
	__has_feature(memory_sanitizer)
	return true;
#else
	return false;
#endif
}

uint64_t ranks_seed(void)
{
	const char *text = getenv("ONEHOP_TEST_SEED");

	if (program_seed)
		return program_seed;
	program_seed =
		text ? strtoull(text, NULL, 0) : ranks_mix(now_ns()) >> 32;
	program_seed += !program_seed;
	tap_note("ONEHOP_TEST_SEED=%llu", (unsigned long long)program_seed);
	return program_seed;
}

static unsigned deadline_of(const struct ranks_options *options)
{
	const char *text = getenv("ONEHOP_TEST_DEADLINE_S");
	unsigned seconds = options->deadline_s ? options->deadline_s : 60;

	if (text && atoi(text) > 0)
		return (unsigned)atoi(text);
	if (ranks_sanitized())
		seconds *= 4;
	/* valgrind, most likely */
	return ranks_quick() ? seconds * 4 : seconds;
}

static struct ranks_board *make_board(const struct ranks_case *test,
				      const struct ranks_options *options,
				      int *fd)
{
	static uint64_t runs;
	struct ranks_board *board;

	*fd = memfd_create("ranks", MFD_CLOEXEC);
	if (*fd < 0 || ftruncate(*fd, sizeof(*board)) < 0)
		bail("no memory for the board");
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED,
		     *fd, 0);
	if (board == MAP_FAILED)
		bail("cannot map the board");
	board->ranks = options->ranks;
	board->deadline_s = deadline_of(options);
	board->program_seed = ranks_seed();
	board->seed = ranks_mix(ranks_seed() + ++runs);
	snprintf(board->name, sizeof(board->name), "%s", test->name);
	snprintf(board->argument, sizeof(board->argument), "%s",
		 options->argument ? options->argument : "");
	for (int i = 0; i < RANKS_IDS; i++)
		if (oh_unique_id_create(&board->ids[i]))
			bail("oh_unique_id_create");
	return board;
}

static void make_text(char *text, size_t bytes, const char *kind,
		      const struct ranks_case *test,
		      const struct ranks_options *options)
{
	if (options->text)
		snprintf(text, bytes, "%s", options->text);
	else
		snprintf(text, bytes, "%s, %d %s%s%s", test->name,
			 options->ranks, kind, options->argument ? ", " : "",
			 options->argument ? options->argument : "");
}

static struct ranks_group *make_group(const struct ranks_case *test,
				      const struct ranks_options *options,
				      const char *kind)
{
	struct ranks_group *group = calloc(1, sizeof(*group));

	if (!group)
		bail("no memory");
	group->board = make_board(test, options, &group->fd);
	group->deadline_ns =
		now_ns() + group->board->deadline_s * 1000000000ull;
	group->dies = options->dies;
	make_text(group->text, sizeof(group->text), kind, test, options);
	return group;
}

static void run_rank(struct ranks_board *board, int rank, ranks_fn *run)
{
	struct ranks_self self = {
		.rank = rank,
		.ranks = board->ranks,
		.place = rank,
		.argument = board->argument,
		.seed = board->seed,
		.words = board->words,
		.board = board,
	};

	memcpy(self.ids, board->ids, sizeof(self.ids));
	deadline_now_ns = now_ns() + board->deadline_s * 1000000000ull;
	run(&self);
	atomic_store(&board->places[rank].done, 1);
}

void ranks_main(int argc, char **argv, const struct ranks_case *cases)
{
	struct ranks_board *board;
	int rank;

	if (argc != 4 || strcmp(argv[1], "--ranks"))
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	rank = atoi(argv[3]);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED,
		     atoi(argv[2]), 0);
	if (board == MAP_FAILED)
		bail("cannot map the board");
	close(atoi(argv[2]));
	program_seed = board->program_seed;
	for (; cases->name; cases++)
		if (!strcmp(cases->name, board->name)) {
			run_rank(board, rank, cases->run);
			exit(0);
		}
	errno = ENOENT;
	bail(board->name);
}

bool ranks_check(struct ranks_self *self, bool holds, const char *format, ...)
{
	struct place *place = &self->board->places[self->place];
	int number;
	va_list args;

	if (holds)
		return true;
	/* several threads may speak for one rank */
	number = atomic_fetch_add(&place->failures, 1);
	if (number < NOTES) {
		va_start(args, format);
		vsnprintf(place->notes[number], NOTE_BYTES, format, args);
		va_end(args);
	}
	return false;
}

int ranks_failures(const struct ranks_self *self)
{
	return atomic_load(&self->board->places[self->place].failures);
}

bool ranks_fine(struct ranks_self *self, enum oh_status status,
		const char *what)
{
	return ranks_check(self, status == OH_OK, "%s: %s: %s", what,
			   oh_status_name(status), oh_last_error()->message);
}

void ranks_at(struct ranks_self *self, const char *format, ...)
{
	struct place *place = &self->board->places[self->place];
	va_list args;

	if (atomic_flag_test_and_set(&place->at_busy))
		return;
	va_start(args, format);
	vsnprintf(place->at, sizeof(place->at), format, args);
	va_end(args);
	atomic_flag_clear(&place->at_busy);
}

struct oh_comm *ranks_comm(struct ranks_self *self, int k)
{
	struct oh_comm_options options = {
		.size = sizeof(options),
		.id = &self->ids[k],
		.rank = self->rank,
		.ranks = self->ranks,
		.rendezvous_timeout_ms = self->board->deadline_s * 750,
		/* before the deadline, so that its message is seen */
		.call_timeout_ms = self->board->deadline_s * 750,
	};
	struct oh_comm *comm = NULL;

	ranks_at(self, "oh_comm_create of id %d", k);
	ranks_fine(self, oh_comm_create(&options, &comm), "oh_comm_create");
	return comm;
}

void ranks_put_id(_Atomic uint64_t *words, const struct oh_unique_id *id)
{
	uint64_t plain[RANKS_ID_WORDS];

	memcpy(plain, id, sizeof(plain));
	for (int i = 0; i < RANKS_ID_WORDS; i++)
		atomic_store(&words[i], plain[i]);
}

struct oh_unique_id ranks_get_id(_Atomic uint64_t *words)
{
	uint64_t plain[RANKS_ID_WORDS];
	struct oh_unique_id id;

	for (int i = 0; i < RANKS_ID_WORDS; i++)
		plain[i] = atomic_load(&words[i]);
	memcpy(&id, plain, sizeof(id));
	return id;
}

bool ranks_await(_Atomic uint64_t *word, uint64_t value)
{
	/* the parent has no deadline of its own here: one of a minute */
	uint64_t until =
		deadline_now_ns ? deadline_now_ns : now_ns() + 60000000000ull;

	while (atomic_load(word) < value) {
		if (now_ns() > until)
			return false;
		nap();
	}
	return true;
}

bool ranks_barrier(struct ranks_self *self)
{
	uint64_t ranks = (uint64_t)self->board->ranks;
	uint64_t ticket = atomic_fetch_add(&self->board->arrived, 1);

	/* the end of the round that the ticket belongs to */
	return ranks_await(&self->board->arrived, (ticket / ranks + 1) * ranks);
}

/* Threads. */

struct thread {
	struct ranks_board *board;
	int rank;
	ranks_fn *run;
	pthread_t thread;
};

static struct ranks_board *watched; /* by the alarm */

static void *run_thread(void *argument)
{
	struct thread *thread = argument;

	run_rank(thread->board, thread->rank, thread->run);
	return NULL;
}

static void say(const char *text)
{
	ssize_t written = write(STDOUT_FILENO, text, strlen(text));

	(void)written;
}

/* The threads cannot be killed one by one: the process ends. */
static void on_alarm(int signal)
{
	say("not ok - a run passed its deadline\n");
	for (int i = 0; i < watched->ranks; i++) {
		struct place *place = &watched->places[i];

		say(atomic_load(&place->done) ? "# a rank has ended: "
					      : "# a rank still runs: ");
		say(place->at);
		say("\n");
		for (int n = 0; n < NOTES && place->notes[n][0]; n++) {
			say("#   ");
			say(place->notes[n]);
			say("\n");
		}
	}
	say("Bail out! deadline\n");
	_exit(1);
}

struct ranks_group *ranks_run_threads(const struct ranks_case *test,
				      const struct ranks_options *options)
{
	struct ranks_group *group = make_group(test, options, "threads");
	struct thread threads[OH_MAX_RANKS];

	watched = group->board;
	signal(SIGALRM, on_alarm);
	alarm(watched->deadline_s);
	for (int i = 0; i < options->ranks; i++) {
		threads[i] = (struct thread){watched, i, test->run, 0};
		errno = pthread_create(&threads[i].thread, NULL, run_thread,
				       &threads[i]);
		if (errno)
			bail("pthread_create");
	}
	for (int i = 0; i < options->ranks; i++)
		pthread_join(threads[i].thread, NULL);
	alarm(0);
	return group;
}

/* Processes. */

static pid_t spawn(const char *program, int fd, int rank)
{
	posix_spawn_file_actions_t actions;
	char fd_text[16], rank_text[16], option[] = "--ranks";
	char path[4096];
	char *argv[] = {path, option, fd_text, rank_text, NULL};
	pid_t pid;

	snprintf(path, sizeof(path), "%s", program);
	snprintf(fd_text, sizeof(fd_text), "%d", fd);
	snprintf(rank_text, sizeof(rank_text), "%d", rank);
	posix_spawn_file_actions_init(&actions);
	/* onto itself: clears close-on-exec in the child */
	posix_spawn_file_actions_adddup2(&actions, fd, fd);
	errno = posix_spawn(&pid, path, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (errno)
		bail("posix_spawn");
	return pid;
}

struct ranks_group *ranks_start(const struct ranks_case *test,
				const struct ranks_options *options)
{
	struct ranks_group *group = make_group(test, options, "processes");
	char program[4096];
	/* valgrind answers this for the program that it runs */
	ssize_t length =
		readlink("/proc/self/exe", program, sizeof(program) - 1);

	if (length < 0)
		bail("/proc/self/exe");
	program[length] = '\0';
	for (int i = 0; i < options->ranks; i++) {
		group->pids[i] = spawn(program, group->fd, i);
		group->running[i] = true;
	}
	return group;
}

pid_t ranks_pid(const struct ranks_group *group, int rank)
{
	return group->pids[rank];
}

_Atomic uint64_t *ranks_words(struct ranks_group *group)
{
	return group->board->words;
}

/* A rank's process has ended: as it should? */
static void judge_end(struct ranks_group *group, int rank, int state)
{
	struct ranks_self self = {.place = rank, .board = group->board};
	const struct place *place = &group->board->places[rank];
	bool done = atomic_load(&place->done);

	group->running[rank] = false;
	if (group->dies >> rank & 1) {
		ranks_check(&self, !done,
			    "returned, but was to end before that");
		return;
	}
	if (WIFSIGNALED(state))
		ranks_check(&self, false, "ended by signal %d (%s) at: %s",
			    WTERMSIG(state), strsignal(WTERMSIG(state)),
			    place->at);
	else
		ranks_check(
			&self, done && !WEXITSTATUS(state),
			"exited with status %d, %s, at: %s", WEXITSTATUS(state),
			done ? "after it had returned" : "early", place->at);
}

static bool reap(struct ranks_group *group)
{
	bool any = false;

	for (int i = 0; i < group->board->ranks; i++) {
		int state;

		if (!group->running[i])
			continue;
		if (waitpid(group->pids[i], &state, WNOHANG) == group->pids[i])
			judge_end(group, i, state);
		any |= group->running[i];
	}
	return any;
}

int ranks_wait(struct ranks_group *group)
{
	int failures = 0;

	while (reap(group)) {
		if (now_ns() < group->deadline_ns) {
			nap();
			continue;
		}
		for (int i = 0; i < group->board->ranks; i++) {
			struct ranks_self self = {.place = i,
						  .board = group->board};

			if (!group->running[i])
				continue;
			ranks_check(&self, false,
				    "killed at the deadline of %u s, at: %s",
				    group->board->deadline_s,
				    group->board->places[i].at);
			kill(group->pids[i], SIGKILL);
			waitpid(group->pids[i], NULL, 0);
			group->running[i] = false;
		}
	}
	for (int i = 0; i < group->board->ranks; i++)
		failures += group->board->places[i].failures;
	return failures;
}

void ranks_notes(const struct ranks_group *group)
{
	for (int i = 0; i < group->board->ranks; i++) {
		const struct place *place = &group->board->places[i];

		for (int n = 0; n < NOTES && n < place->failures; n++)
			tap_note("rank %d: %s", i, place->notes[n]);
		if (place->failures > NOTES)
			tap_note("rank %d: %d failures in all", i,
				 place->failures);
	}
}

const char *ranks_text(const struct ranks_group *group)
{
	return group->text;
}

void ranks_free(struct ranks_group *group)
{
	if (!group)
		return;
	for (int i = 0; i < group->board->ranks; i++)
		if (group->running[i]) {
			kill(group->pids[i], SIGKILL);
			waitpid(group->pids[i], NULL, 0);
		}
	close(group->fd);
	munmap(group->board, sizeof(*group->board));
	free(group);
}
