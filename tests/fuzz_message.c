/* SPDX-License-Identifier: MIT */
/*
 * A target for libFuzzer, built on request only (clang):
 *
 *	meson compile -C build fuzz_message && build/tests/fuzz_message
 *-runs=1000000
 *
 * The first byte says how many descriptors go along, the rest is the record.
 * What comes out must be whole or nothing, and no descriptor may be lost.
 * Checksums are made right in every second input, for no fuzzer finds them.
 * A share gets the same record as if rank 0 had sent it.
 */
#include <fcntl.h>
#include <stdlib.h>

#include "forge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static int lowest_free(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(fd);
	return fd;
}

static void receive(int socket)
{
	struct oh__incoming incoming;
	enum oh_status status =
		oh__message_receive(socket, "the fuzzer", &incoming);

	if (status && incoming.fd_count)
		abort();
	if (!status && incoming.message.header.type == OH__MESSAGE_VERDICT)
		oh__meeting_take_verdict(&incoming.message.body.verdict);
	if (!status)
		oh__incoming_close(&incoming);
}

/* Rank 1 of 3 gets it from rank 0, which then ends. */
static void share(int socket)
{
	struct oh__rendezvous rendezvous = {
		.rank = 1, .ranks = 3, .sockets = {socket}};
	const int fds[OH__SHARE_FDS] = {socket, -1, -1, socket};
	int taken[OH_MAX_RANKS][OH__SHARE_FDS];

	/* nobody says that all have theirs */
	if (!oh__rendezvous_share(&rendezvous, OH_OK, fds, taken))
		abort();
	for (int i = 0; i < OH_MAX_RANKS; i++)
		for (int k = 0; k < OH__SHARE_FDS; k++)
			if (taken[i][k] != -1)
				abort();
}

/* Sends the record and an end. */
static void pass(const struct oh__message *message, size_t bytes, int fd_count,
		 void (*take)(int socket))
{
	int fds[FORGE_FDS], ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		abort();
	for (int i = 0; i < FORGE_FDS; i++)
		fds[i] = ends[0];
	forge_send(ends[0], message, bytes, fds, fd_count);
	shutdown(ends[0], SHUT_WR);
	take(ends[1]);
	/* what was not received would be lost with the socket */
	receive(ends[1]);
	close(ends[0]);
	close(ends[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	/* room for records that are too long */
	static struct oh__message messages[2];
	struct oh__message *message = &messages[0];
	size_t most = sizeof(message->body);
	int free_before;

	if (bytes < 1 || bytes - 1 > sizeof(messages))
		return 0;
	setenv("ONEHOP_LOG", "off", 0);
	memset(messages, 0, sizeof(messages));
	memcpy(messages, data + 1, bytes - 1);
	if (data[0] & 1)
		message->header.check = oh__checksum(
			&message->body, message->header.bytes < most
						? message->header.bytes
						: most);
	free_before = lowest_free();
	pass(messages, bytes - 1, data[0] >> 1, receive);
	pass(messages, bytes - 1, data[0] >> 1, share);
	if (lowest_free() != free_before)
		abort();
	return 0;
}
