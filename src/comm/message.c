/* SPDX-License-Identifier: MIT */
#include "comm/message.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "comm/descriptor.h"

#define MAGIC 0x4d50484fu /* "OHPM" */
#define HEADER_BYTES offsetof(struct oh__message, body)

union control_room {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(OH__MESSAGE_FDS * sizeof(int))];
};

static size_t body_bytes(unsigned type)
{
	switch (type) {
	case OH__MESSAGE_HELLO:
		return sizeof(struct oh__hello);
	case OH__MESSAGE_WELCOME:
		return sizeof(struct oh__welcome);
	case OH__MESSAGE_VERDICT:
		return sizeof(struct oh__verdict);
	case OH__MESSAGE_DECLINE:
		return sizeof(struct oh__decline);
	case OH__MESSAGE_SHARE:
		return sizeof(struct oh__share);
	}
	return 0;
}

/*
 * The kernel limits the descriptors that a user has in flight
 * (ETOOMANYREFS, unix(7)): when many communicators are made at once the
 * others' are taken out again soon.
 */
static ssize_t send_record(int socket, const struct msghdr *record)
{
	struct timespec pause = {.tv_nsec = 1000000};
	int retries = 2000;

	for (;;) {
		ssize_t sent = sendmsg(socket, record, MSG_NOSIGNAL);

		if (sent >= 0 || (errno != EINTR && errno != ETOOMANYREFS) ||
		    !retries--)
			return sent;
		if (errno == ETOOMANYREFS)
			nanosleep(&pause, NULL);
	}
}

enum oh_status oh__message_send(int socket, struct oh__message *message,
				enum oh__message_type type, const int *fds,
				int fd_count)
{
	size_t bytes = body_bytes(type);
	union control_room control;
	struct iovec part = {message, HEADER_BYTES + bytes};
	struct msghdr record = {.msg_iov = &part, .msg_iovlen = 1};
	ssize_t sent;

	message->header.magic = MAGIC;
	message->header.protocol = OH__PROTOCOL;
	message->header.type = (uint16_t)type;
	message->header.bytes = (uint32_t)bytes;
	message->header.check = oh__checksum(&message->body, bytes);
	if (fd_count) {
		size_t fd_bytes = (size_t)fd_count * sizeof(int);
		struct cmsghdr *head;

		memset(&control, 0, sizeof(control));
		record.msg_control = &control;
		record.msg_controllen = CMSG_SPACE(fd_bytes);
		head = CMSG_FIRSTHDR(&record);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(fd_bytes);
		memcpy(CMSG_DATA(head), fds, fd_bytes);
	}
	sent = send_record(socket, &record);
	if (sent == (ssize_t)part.iov_len)
		return OH_OK;
	if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
		return OH_ERR_PEER_LOST;
	return OH__FAIL_CALL(OH_ERR_SYSTEM, "sendmsg", sent < 0 ? errno : EIO,
			     "cannot send a rendezvous message of %zu bytes "
			     "with %d descriptors",
			     part.iov_len, fd_count);
}

void oh__incoming_close(struct oh__incoming *incoming)
{
	for (int i = 0; i < incoming->fd_count; i++)
		oh__fd_close(&incoming->fds[i]);
	incoming->fd_count = 0;
}

/* Takes every descriptor of the record, so that none is leaked. */
static void take_descriptors(struct msghdr *record,
			     struct oh__incoming *incoming)
{
	struct cmsghdr *head;

	for (head = CMSG_FIRSTHDR(record); head;
	     head = CMSG_NXTHDR(record, head)) {
		size_t count;

		if (head->cmsg_level != SOL_SOCKET ||
		    head->cmsg_type != SCM_RIGHTS)
			continue;
		count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(head) + i * sizeof(int),
			       sizeof(fd));
			fd = oh__fd_raise(fd);
			if (fd < 0) /* no room to raise it: as if cut off */
				record->msg_flags |= MSG_CTRUNC;
			else if (incoming->fd_count < OH__MESSAGE_FDS)
				incoming->fds[incoming->fd_count++] = fd;
			else
				close(fd);
		}
	}
}

/*
 * The kernel hands out as many descriptors as there is room for, here or in
 * the process's table, and says that there were more.
 */
static enum oh_status check_descriptors(int fd_count, int flags,
					const char *who)
{
	if (!(flags & MSG_CTRUNC))
		return OH_OK;
	if (fd_count >= OH__MESSAGE_FDS)
		return OH__FAIL(OH_ERR_PROTOCOL,
				"%s sent more than %d descriptors", who,
				OH__MESSAGE_FDS);
	return OH__FAIL_CALL(OH_ERR_SYSTEM, "recvmsg", EMFILE,
			     "no room for the descriptors that %s sent, raise "
			     "the limit of open files (ulimit -n)",
			     who);
}

static enum oh_status check_record(const struct oh__message *message,
				   size_t got, int flags, const char *who)
{
	size_t bytes;

	if (got < HEADER_BYTES || message->header.magic != MAGIC)
		return OH__FAIL(OH_ERR_PROTOCOL,
				"%s sent %zu bytes that are not a message of "
				"this library",
				who, got);
	if (message->header.protocol != OH__PROTOCOL)
		return OH__FAIL(OH_ERR_MISMATCH,
				"%s speaks rendezvous protocol %u, this rank "
				"%u: the ranks run different versions of the "
				"library",
				who, message->header.protocol, OH__PROTOCOL);
	bytes = body_bytes(message->header.type);
	if (flags & MSG_TRUNC || !bytes || message->header.bytes != bytes ||
	    got != HEADER_BYTES + bytes)
		return OH__FAIL(OH_ERR_PROTOCOL,
				"%s sent a message of type %u with %zu bytes, "
				"expected %zu",
				who, message->header.type, got,
				bytes ? HEADER_BYTES + bytes : 0);
	if (message->header.check != oh__checksum(&message->body, bytes))
		return OH__FAIL(OH_ERR_PROTOCOL,
				"%s sent a message of type %u whose checksum "
				"is wrong",
				who, message->header.type);
	return OH_OK;
}

/*
 * An end that is closed before all was read there resets the connection, and
 * that is told once before what it had sent: its last words may follow.
 */
static ssize_t receive_record(int socket, struct msghdr *record)
{
	int resets = 0;

	for (;;) {
		ssize_t got = recvmsg(socket, record,
				      MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

		if (got >= 0 ||
		    (errno != EINTR && (errno != ECONNRESET || resets++)))
			return got;
	}
}

enum oh_status oh__message_receive(int socket, const char *who,
				   struct oh__incoming *incoming)
{
	struct oh__message *message = &incoming->message;
	union control_room control;
	struct iovec part = {message, sizeof(*message)};
	struct msghdr record = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	enum oh_status status;
	ssize_t got;

	incoming->fd_count = 0;
	incoming->bytes = 0;
	got = receive_record(socket, &record);
	if (got < 0 && errno == ECONNRESET)
		return OH_ERR_PEER_LOST;
	if (got < 0)
		return OH__FAIL_CALL(OH_ERR_SYSTEM, "recvmsg", errno,
				     "cannot receive from %s", who);
	take_descriptors(&record, incoming);
	if (!got && !incoming->fd_count)
		return OH_ERR_PEER_LOST;
	if ((size_t)got >= HEADER_BYTES && message->header.magic == MAGIC)
		incoming->bytes = (size_t)got - HEADER_BYTES;
	status = check_record(message, (size_t)got, record.msg_flags, who);
	if (!status)
		status = check_descriptors(incoming->fd_count, record.msg_flags,
					   who);
	if (status)
		oh__incoming_close(incoming);
	return status;
}
