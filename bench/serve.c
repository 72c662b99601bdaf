/* SPDX-License-Identifier: MIT */
/*
 * Between commands a rank blocks in a read. The end of the parent must also
 * reach it inside a call that waits for ever, so the socket raises SIGIO and
 * the handler ends the process when the other side is gone.
 */
#include "bench/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

void bench_reply_fail(struct bench_reply *reply, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	reply->outcome = BENCH_FAILED;
	vsnprintf(reply->text, sizeof(reply->text), format, args);
	va_end(args);
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
	bench_reply_fail(reply, "pinning to processor %d: %s", setup->cpu,
			 strerror(errno));
	return false;
}

static bool receive_setup(int socket, struct bench_setup *setup, int *arena_fd)
{
	*arena_fd = -1;
	if (!bench_receive(socket, setup, sizeof(*setup), arena_fd) ||
	    setup->magic != BENCH_MAGIC || setup->protocol != BENCH_PROTOCOL) {
		fprintf(stderr, "no setup from the benchmark, or one of "
				"another version\n");
		return false;
	}
	return *arena_fd >= 0 && setup->ranks >= 1 &&
	       setup->ranks <= OH_MAX_RANKS && setup->rank >= 0 &&
	       setup->rank < setup->ranks;
}

static int obey_all(const struct bench_service *service, void *context,
		    int socket)
{
	for (;;) {
		struct bench_command command;
		struct bench_reply reply = {.outcome = BENCH_DONE};

		if (!bench_receive(socket, &command, sizeof(command), NULL))
			return 1;
		if (command.kind == BENCH_QUIT) {
			service->close(context);
			return 0;
		}
		service->obey(context, &command, &reply);
		if (!bench_send(socket, &reply, sizeof(reply), -1))
			return 1;
	}
}

int bench_serve(const struct bench_service *service, void *context, int socket,
		int rank)
{
	struct bench_hello hello = {BENCH_MAGIC, BENCH_PROTOCOL, rank};
	struct bench_reply reply = {.outcome = BENCH_DONE};
	struct bench_setup setup;
	struct bench_arena arena = {.fd = -1};
	int arena_fd, code = 1;
	bool open;

	if (!watch(socket) || !bench_same_user(socket) ||
	    !bench_send(socket, &hello, sizeof(hello), -1) ||
	    !receive_setup(socket, &setup, &arena_fd))
		return 1;
	open = bench_arena_map(arena_fd, (size_t)setup.mailbox_bytes, &arena);
	if (!open)
		bench_reply_fail(&reply,
				 "mapping the benchmark's shared memory: %s",
				 strerror(errno));
	close(arena_fd);
	open = open && pin(&setup, &reply) &&
	       service->open(context, &setup, &arena, &reply);
	if (bench_send(socket, &reply, sizeof(reply), -1) && open)
		code = obey_all(service, context, socket);
	bench_arena_close(&arena);
	return code;
}
