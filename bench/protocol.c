/* SPDX-License-Identifier: MIT */
/* A message is taken whole and at its exact size, or not at all; a descriptor
 * that came with a refused one is closed. */
#include "bench/protocol.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

bool bench_send(int socket, const void *message, size_t bytes, int pass_fd)
{
	union control control = {0};
	struct msghdr header = {0};
	struct iovec part;
	ssize_t sent;

	/* sendmsg only reads it */
	part.iov_base = (void *)(uintptr_t)message;
	part.iov_len = bytes;
	header.msg_iov = &part;
	header.msg_iovlen = 1;
	if (pass_fd >= 0) {
		struct cmsghdr *item;

		header.msg_control = control.bytes;
		header.msg_controllen = sizeof(control.bytes);
		item = CMSG_FIRSTHDR(&header);
		item->cmsg_level = SOL_SOCKET;
		item->cmsg_type = SCM_RIGHTS;
		item->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(item), &pass_fd, sizeof(int));
	}
	do
		sent = sendmsg(socket, &header, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent == (ssize_t)bytes;
}

static int descriptor_of(struct msghdr *header)
{
	int fd = -1;

	for (struct cmsghdr *item = CMSG_FIRSTHDR(header); item;
	     item = CMSG_NXTHDR(header, item)) {
		if (item->cmsg_level == SOL_SOCKET &&
		    item->cmsg_type == SCM_RIGHTS &&
		    item->cmsg_len == CMSG_LEN(sizeof(int)))
			memcpy(&fd, CMSG_DATA(item), sizeof(int));
	}
	return fd;
}

bool bench_receive(int socket, void *message, size_t bytes, int *passed_fd)
{
	union control control = {0};
	struct iovec part = {.iov_base = message, .iov_len = bytes};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
	ssize_t got;
	int fd;

	if (passed_fd) {
		header.msg_control = control.bytes;
		header.msg_controllen = sizeof(control.bytes);
	}
	do
		got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	fd = got < 0 ? -1 : descriptor_of(&header);
	if (got == (ssize_t)bytes && !(header.msg_flags & MSG_TRUNC)) {
		if (passed_fd)
			*passed_fd = fd;
		return true;
	}
	if (fd >= 0)
		close(fd);
	if (got >= 0)
		errno = got ? EPROTO : ECONNRESET;
	return false;
}

bool bench_same_user(int socket)
{
	struct ucred who;
	socklen_t size = sizeof(who);

	return !getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) &&
	       who.uid == geteuid();
}
