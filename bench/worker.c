/* SPDX-License-Identifier: MIT */
/*
 * Between commands a rank blocks in a read. The end of the parent must also
 * reach it inside a call that waits for ever, so the socket raises SIGIO and
 * the handler ends the process when the other side is gone.
 */
#include "bench/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/arena.h"
#include "bench/clock.h"
#include "bench/floor.h"
#include "bench/job.h"

struct worker {
	const struct bench_subject *subject;
	void *state;
	int socket;
	struct bench_setup setup;
	struct bench_arena arena;
	struct bench_waiter waiter;
	struct bench_floor floor;
	struct bench_region send, recv;
};

static int watched[OH_MAX_RANKS];
static atomic_int watched_count;

static void on_io(int number)
{
	int saved = errno, count = atomic_load(&watched_count);

	for (int i = 0; i < count && i < OH_MAX_RANKS; i++) {
		struct pollfd look = {.fd = watched[i], .events = POLLRDHUP};

		if (poll(&look, 1, 0) > 0 &&
		    look.revents & (POLLRDHUP | POLLHUP | POLLERR))
			_exit(1);
	}
	errno = saved;
}

static bool watch(int socket)
{
	struct sigaction action = {.sa_handler = on_io, .sa_flags = SA_RESTART};
	int index, flags = fcntl(socket, F_GETFL);

	sigemptyset(&action.sa_mask);
	/* the slot before the count; the handler reads them the other way */
	index = atomic_load(&watched_count);
	do {
		if (index >= OH_MAX_RANKS)
			return false;
		watched[index] = socket;
	} while (!atomic_compare_exchange_weak(&watched_count, &index,
					       index + 1));
	return flags >= 0 && !sigaction(SIGIO, &action, NULL) &&
	       !fcntl(socket, F_SETOWN, getpid()) &&
	       !fcntl(socket, F_SETFL, flags | O_ASYNC);
}

__attribute__((format(printf, 2, 3))) static void
fail(struct bench_reply *reply, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	reply->outcome = BENCH_FAILED;
	vsnprintf(reply->text, sizeof(reply->text), format, args);
	va_end(args);
}

static bool region_alloc(struct worker *worker, struct bench_region *region,
			 struct bench_reply *reply)
{
	size_t bytes = ((size_t)worker->setup.buffer_bytes +
			2 * BENCH_GUARD_BYTES + 63) &
		       ~(size_t)63;
	const struct bench_subject *subject = worker->subject;

	if (worker->setup.comm_alloc && subject->alloc) {
		region->memory = subject->alloc(worker->state, bytes, reply);
		if (!region->memory)
			return false;
	} else {
		region->memory = aligned_alloc(64, bytes);
		if (!region->memory) {
			fail(reply, "%zu bytes for a buffer: %s", bytes,
			     strerror(errno));
			return false;
		}
	}
	region->data = (char *)region->memory + BENCH_GUARD_BYTES;
	return true;
}

/* The subject's own memory goes with it. */
static void regions_free(struct worker *worker)
{
	if (worker->setup.comm_alloc && worker->subject->alloc)
		return;
	free(worker->send.memory);
	if (worker->recv.memory != worker->send.memory)
		free(worker->recv.memory);
}

static bool pin(const struct bench_setup *setup, struct bench_reply *reply)
{
	cpu_set_t set;

	if (setup->cpu < 0)
		return true;
	CPU_ZERO(&set);
	CPU_SET((size_t)setup->cpu, &set);
	if (!sched_setaffinity(0, sizeof(set), &set))
		return true;
	fail(reply, "pinning to processor %d: %s", setup->cpu, strerror(errno));
	return false;
}

static bool set_up(struct worker *worker, int arena_fd,
		   struct bench_reply *reply)
{
	struct bench_setup *setup = &worker->setup;

	if (!bench_arena_map(arena_fd, (size_t)setup->mailbox_bytes,
			     &worker->arena)) {
		fail(reply, "mapping the benchmark's shared memory: %s",
		     strerror(errno));
		return false;
	}
	if (!pin(setup, reply))
		return false;
	if (!worker->subject->open(setup, &worker->state, reply))
		return false;
	if (!region_alloc(worker, &worker->send, reply))
		return false;
	worker->recv = worker->send;
	if (!setup->in_place && !region_alloc(worker, &worker->recv, reply))
		return false;
	worker->waiter = (struct bench_waiter){
		.ranks = setup->ranks,
		.tsc = setup->tsc,
		.crowded = setup->crowded,
		.lead_ticks = setup->lead_ticks,
		.poke = worker->subject->poke,
		.state = worker->state,
	};
	worker->floor = (struct bench_floor){
		.arena = &worker->arena,
		.rank = setup->rank,
		.ranks = setup->ranks,
		.crowded = setup->crowded,
	};
	return true;
}

/* Spins to the start, calls, stops the time. */
static int timed_call(const struct worker *worker, const struct bench_job *job,
		      bench_call_fn *function, uint64_t start, uint64_t *ticks)
{
	bool tsc = worker->setup.tsc, crowded = worker->setup.crowded;
	uint64_t end;
	int code;

	while (bench_ticks(tsc) < start) {
		if (crowded)
			sched_yield();
	}
	code = function(&job->call);
	end = bench_ticks_after(tsc);
	*ticks = end - start;
	return code;
}

static bench_call_fn *floor_function(struct worker *worker,
				     struct bench_job *job)
{
	job->call.state = &worker->floor;
	worker->floor.bytes = job->call.count * job->element;
	return job->command->kind == BENCH_FLOOR_FLAG ? bench_floor_flag
						      : bench_floor_copy;
}

static bool writes_input(const struct bench_job *job)
{
	return job->command->kind == BENCH_CALLS ||
	       (job->command->kind == BENCH_FLOOR_COPY && !job->rank);
}

static bool one_call(struct worker *worker, struct bench_job *job,
		     bench_call_fn *function, uint32_t index,
		     struct bench_reply *reply)
{
	const struct bench_command *command = job->command;
	uint32_t calls = command->warmups + command->iterations;
	bool all = index + 1 == calls ||
		   (!index && command->check == BENCH_CHECK_FIRST);
	uint64_t start, ticks;
	int code;

	if (writes_input(job))
		bench_job_write(job, command->first_call + index);
	if (!bench_arena_meet(&worker->arena, &worker->waiter, &start)) {
		reply->outcome = BENCH_GAVE_UP;
		return false;
	}
	code = timed_call(worker, job, function, start, &ticks);
	if (code) {
		worker->subject->explain(job->collective, code, reply);
		bench_arena_abort(&worker->arena);
		return false;
	}
	if (index >= command->warmups)
		worker->arena.head->ticks[job->rank][index - command->warmups] =
			ticks;
	if (command->check != BENCH_CHECK_OFF)
		bench_job_check(job, all, reply->text, sizeof(reply->text));
	return true;
}

static bool command_is_sound(const struct worker *worker,
			     const struct bench_command *command,
			     struct bench_reply *reply)
{
	uint64_t needs, has = worker->setup.buffer_bytes;

	if (command->iterations > BENCH_ROUND_MAX || !command->count ||
	    command->collective >= OH_COLLECTIVE_COUNT ||
	    command->dtype >= OH_DTYPE_COUNT || command->op >= OH_OP_COUNT) {
		fail(reply, "a command that makes no sense");
		return false;
	}
	/* a count that is larger than the buffer might overflow */
	needs = command->count > has
			? command->count
			: bench_larger_side(
				  (enum oh_collective)command->collective,
				  worker->setup.ranks, (size_t)command->count,
				  oh_dtype_bytes(
					  (enum oh_dtype)command->dtype));
	if (needs <= has)
		return true;
	fail(reply,
	     "the command needs buffers of %" PRIu64
	     " bytes, the setup has %" PRIu64,
	     needs, has);
	return false;
}

static void obey(struct worker *worker, const struct bench_command *command,
		 struct bench_reply *reply)
{
	bench_call_fn *function;
	struct bench_job job;
	uint64_t ignored;

	if (!command_is_sound(worker, command, reply))
		return;
	bench_job_open(command, &worker->setup, worker->state, &worker->send,
		       &worker->recv, &job);
	if (command->kind == BENCH_CALLS)
		function = worker->subject->prepare(job.collective, &job.call,
						    reply);
	else
		function = floor_function(worker, &job);
	if (!function)
		return;
	for (uint32_t i = 0; i < command->warmups + command->iterations; i++) {
		if (!one_call(worker, &job, function, i, reply))
			return;
	}
	/* together, as a rank that blocks in a read helps nobody on */
	if (!bench_arena_meet(&worker->arena, &worker->waiter, &ignored)) {
		reply->outcome = BENCH_GAVE_UP;
		return;
	}
	if (command->check != BENCH_CHECK_OFF)
		bench_job_check_guards(&job, reply->text, sizeof(reply->text));
	reply->wrong = job.wrong;
}

static int serve(struct worker *worker)
{
	for (;;) {
		struct bench_command command;
		struct bench_reply reply = {.outcome = BENCH_DONE};

		if (!bench_receive(worker->socket, &command, sizeof(command),
				   NULL))
			return 1;
		if (command.kind == BENCH_QUIT) {
			worker->subject->close(worker->state);
			regions_free(worker);
			bench_arena_close(&worker->arena);
			return 0;
		}
		obey(worker, &command, &reply);
		if (!bench_send(worker->socket, &reply, sizeof(reply), -1))
			return 1;
	}
}

static bool receive_setup(struct worker *worker, int *arena_fd)
{
	struct bench_setup *setup = &worker->setup;

	*arena_fd = -1;
	if (!bench_receive(worker->socket, setup, sizeof(*setup), arena_fd) ||
	    setup->magic != BENCH_MAGIC || setup->protocol != BENCH_PROTOCOL) {
		fprintf(stderr, "no setup from the benchmark, or one of "
				"another version\n");
		return false;
	}
	return *arena_fd >= 0 && setup->ranks >= 1 &&
	       setup->ranks <= OH_MAX_RANKS && setup->rank >= 0 &&
	       setup->rank < setup->ranks;
}

int bench_worker_serve(const struct bench_subject *subject, int socket,
		       int rank)
{
	struct bench_hello hello = {BENCH_MAGIC, BENCH_PROTOCOL, rank};
	struct worker worker = {.subject = subject, .socket = socket};
	struct bench_reply reply = {.outcome = BENCH_DONE};
	int arena_fd;
	bool open;

	if (!watch(socket) || !bench_same_user(socket) ||
	    !bench_send(socket, &hello, sizeof(hello), -1) ||
	    !receive_setup(&worker, &arena_fd))
		return 1;
	open = set_up(&worker, arena_fd, &reply);
	close(arena_fd);
	if (!bench_send(socket, &reply, sizeof(reply), -1) || !open)
		return 1;
	return serve(&worker);
}
