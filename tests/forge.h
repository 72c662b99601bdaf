/* SPDX-License-Identifier: MIT */
/*
 * The rendezvous without its good manners: messages made, damaged and sent by
 * hand. A genuine hello is captured from oh_comm_create by a fake rank 0 at a
 * place of its own, and changed from there.
 */
#ifndef OH_TESTS_FORGE_H
#define OH_TESTS_FORGE_H

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "comm/meeting.h"

#define FORGE_HEADER_BYTES offsetof(struct oh__message, body)
#define FORGE_FDS 253 /* SCM_MAX_FD of the kernel */

static inline struct oh__meeting_place
forge_place(const struct oh_unique_id *id)
{
	struct oh__meeting_place place;

	if (oh__meeting_place_of_id(id, &place))
		abort();
	return place;
}

static inline int forge_socket(void)
{
	return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
}

/* The socket of a fake rank 0. */
static inline int forge_listen(const struct oh__meeting_place *place)
{
	struct sockaddr_un address;
	socklen_t length = oh__meeting_address(place, &address);
	int fd = forge_socket();

	if (bind(fd, (struct sockaddr *)&address, length) || listen(fd, 64))
		abort();
	return fd;
}

/* Tries for some 10 s; -1 if nobody listens. */
static inline int forge_connect(const struct oh__meeting_place *place)
{
	struct sockaddr_un address;
	socklen_t length = oh__meeting_address(place, &address);

	for (int i = 0; i < 10000; i++) {
		int fd = forge_socket();

		if (connect(fd, (struct sockaddr *)&address, length) == 0)
			return fd;
		close(fd);
		usleep(1000);
	}
	return -1;
}

/* Sends bytes as they are, with descriptors. */
static inline ssize_t forge_send(int socket, const void *bytes, size_t count,
				 const int *fds, int fd_count)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FORGE_FDS * sizeof(int))];
	} control;
	struct iovec part = {(void *)(uintptr_t)bytes, count};
	struct msghdr record = {.msg_iov = &part, .msg_iovlen = 1};

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
	return sendmsg(socket, &record, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* The checksum of a changed body. */
static inline void forge_check(struct oh__message *message)
{
	message->header.check =
		oh__checksum(&message->body, message->header.bytes);
}

static inline ssize_t forge_send_message(int socket,
					 const struct oh__message *message,
					 const int *fds, int fd_count)
{
	return forge_send(socket, message,
			  FORGE_HEADER_BYTES + message->header.bytes, fds,
			  fd_count);
}

/* Waits for a verdict; false if the other end closes without one. */
static inline bool forge_answer(int socket, struct oh__verdict *verdict)
{
	struct pollfd one = {.fd = socket, .events = POLLIN};
	struct oh__incoming incoming;

	while (poll(&one, 1, 20000) < 0 && errno == EINTR)
		;
	if (oh__message_receive(socket, "rank 0", &incoming))
		return false;
	oh__incoming_close(&incoming);
	*verdict = incoming.message.body.verdict;
	return incoming.message.header.type == OH__MESSAGE_VERDICT;
}

struct forge_model {
	struct oh_unique_id id;
	int rank, ranks;
};

static inline void *forge_model_run(void *argument)
{
	struct forge_model *model = argument;
	struct oh_comm_options options = {
		.size = sizeof(options),
		.id = &model->id,
		.rank = model->rank,
		.ranks = model->ranks,
		.rendezvous_timeout_ms = 20000,
	};
	struct oh_comm *comm;

	/* the fake rank 0 hangs up on it */
	if (!oh_comm_create(&options, &comm))
		abort();
	return NULL;
}

/* The hello that rank would send with place's secret; its descriptors are the
 * caller's to close. */
static inline void forge_hello(const struct oh__meeting_place *place, int rank,
			       int ranks, struct oh__incoming *hello)
{
	struct forge_model model = {.rank = rank, .ranks = ranks};
	struct pollfd one = {.events = POLLIN};
	struct oh__meeting_place there;
	pthread_t thread;
	int listener;

	memset(hello, 0, sizeof(*hello));
	if (oh_unique_id_create(&model.id))
		abort();
	there = forge_place(&model.id);
	listener = forge_listen(&there);
	pthread_create(&thread, NULL, forge_model_run, &model);
	one.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (poll(&one, 1, 20000) != 1 ||
	    oh__message_receive(one.fd, "the model", hello))
		abort();
	close(one.fd);
	close(listener);
	pthread_join(thread, NULL);
	memcpy(hello->message.body.hello.secret, place->secret,
	       OH__SECRET_BYTES);
	forge_check(&hello->message);
}

#endif
