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

uint32_t oh__life_lost(const int *fds, int ranks)
{
	struct pollfd polls[OH_MAX_RANKS];
	uint32_t lost = 0;

	for (int i = 0; i < ranks; i++)
		polls[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
	/* a signal may interrupt it: then nothing is known to be lost */
	if (poll(polls, (nfds_t)ranks, 0) <= 0)
		return 0;
	for (int i = 0; i < ranks; i++)
		if (polls[i].revents & (POLLIN | POLLHUP))
			lost |= 1u << i;
	return lost;
}
