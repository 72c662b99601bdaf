/* SPDX-License-Identifier: MIT */
#include "comm/liveness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "comm/descriptor.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434 /* the same number on all architectures */
#endif

enum oh_status oh__life_create(struct oh__life *life)
{
	int ends[2];
	int fd = oh__fd_raise((int)syscall(SYS_pidfd_open, getpid(), 0));

	if (fd >= 0) {
		life->fd = fd;
		life->keep = -1;
		return OH_OK;
	}
	oh__log(OH_LOG_INFO, "pidfd_open refused, errno %d, using a pipe",
		errno);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return OH__FAIL_CALL(OH_ERR_SYSTEM, "pipe2", errno,
				     "no descriptor to watch this process by");
	life->fd = oh__fd_raise(ends[0]);
	life->keep = oh__fd_raise(ends[1]);
	return OH_OK;
}

void oh__life_close(struct oh__life *life)
{
	oh__fd_close(&life->fd);
	oh__fd_close(&life->keep);
}

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif

/* Where poll takes not even one descriptor (RLIMIT_NOFILE lowered to 0): a
 * process that has ended takes no signal. Pipes tell nothing here. */
static uint32_t lost_by_signal(const int *fds, int ranks)
{
	uint32_t lost = 0;

	for (int i = 0; i < ranks; i++)
		if (fds[i] >= 0 &&
		    syscall(SYS_pidfd_send_signal, fds[i], 0, NULL, 0) < 0 &&
		    errno == ESRCH)
			lost |= 1u << i;
	return lost;
}

uint32_t oh__life_lost(const int *fds, int ranks)
{
	struct pollfd polls[OH_MAX_RANKS];
	uint32_t lost = 0;
	int ready;

	for (int i = 0; i < ranks; i++)
		polls[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
	ready = poll(polls, (nfds_t)ranks, 0);
	if (ready < 0 && errno == EINVAL)
		return lost_by_signal(fds, ranks);
	/* a signal may interrupt it: then nothing is known to be lost */
	if (ready <= 0)
		return 0;
	for (int i = 0; i < ranks; i++)
		if (polls[i].revents & (POLLIN | POLLHUP))
			lost |= 1u << i;
	return lost;
}
