/* SPDX-License-Identifier: MIT */
/* The handler writes a byte to a pipe, so no signal falls between a look at
 * the flag and a poll. */
#include "bench/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "bench/protocol.h"

static volatile sig_atomic_t seen, at_once;
static int ends[2] = {-1, -1};

static void on_signal(int number)
{
	int saved = errno;

	if (seen || at_once || write(ends[1], "", 1) != 1)
		_exit(128 + number);
	seen = number;
	errno = saved;
}

bool bench_interrupt_open(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action = {.sa_handler = on_signal,
				   .sa_flags = SA_RESTART};

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return false;
	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct sigaction old;

		/* nohup and shells without job control ignore some */
		if (sigaction(signals[i], NULL, &old))
			return false;
		if (old.sa_handler == SIG_IGN)
			continue;
		if (sigaction(signals[i], &action, NULL))
			return false;
	}
	return true;
}

void bench_interrupt_at_once(bool wanted)
{
	at_once = wanted;
	/* it came before: the handler did not know */
	if (wanted && seen)
		_exit(128 + seen);
}

int bench_interrupt_seen(void)
{
	return seen;
}

int bench_interrupt_poll(struct pollfd *fds, int count, int ms)
{
	struct pollfd all[2 * OH_MAX_RANKS + 2];
	int ready;

	memcpy(all, fds, sizeof(*fds) * (size_t)count);
	all[count] = (struct pollfd){.fd = ends[0], .events = POLLIN};
	do
		ready = poll(all, (nfds_t)count + 1, ms);
	while (ready < 0 && errno == EINTR && !seen);
	if (seen)
		return -1;
	memcpy(fds, all, sizeof(*fds) * (size_t)count);
	return ready;
}
