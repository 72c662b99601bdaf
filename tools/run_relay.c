/* SPDX-License-Identifier: MIT */
/* Pipes in, two descriptors out; see run_relay.h for the rules. */
#include "tools/run_relay.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_BYTES 65536
/* A pipe holds 1 MiB unless root allows more; what still prints after this
 * many reads has left its rank's process group and is not waited for. */
#define MOST_LAST_READS 64

/* What poll says does not hold for a write: a terminal takes a few bytes and
 * blocks for more, and a pipe that is both sinks has no room left after the
 * first. So it gets an own open file, as a flag would be seen by all who share
 * this one. */
static int open_sink(int fd)
{
	struct stat status;
	char path[32];
	int own = -1;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (isatty(fd) || (!fstat(fd, &status) && S_ISFIFO(status.st_mode)))
		own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return own >= 0 ? own : fd;
}

void relay_init(struct relay *relay)
{
	memset(relay, 0, sizeof(*relay));
	relay->sinks[RELAY_STDOUT].fd = open_sink(STDOUT_FILENO);
	relay->sinks[RELAY_STDERR].fd = open_sink(STDERR_FILENO);
}

void relay_free(struct relay *relay)
{
	for (int i = 0; i < relay->count; i++) {
		if (relay->streams[i].fd >= 0)
			close(relay->streams[i].fd);
		free(relay->streams[i].line);
	}
	for (int i = 0; i < RELAY_SINKS; i++)
		free(relay->sinks[i].data);
}

int relay_add(struct relay *relay, int rank, enum relay_which which)
{
	struct relay_stream *stream = &relay->streams[relay->count];
	int ends[2];

	stream->line = malloc(LINE_BYTES);
	if (!stream->line)
		return -1;
	if (pipe2(ends, O_CLOEXEC)) {
		free(stream->line);
		return -1;
	}
	/* the ends are separate: the rank's stays a blocking one */
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	stream->fd = ends[0];
	stream->rank = rank;
	stream->sink = &relay->sinks[which];
	stream->used = 0;
	relay->count++;
	return ends[1];
}

static void sink_append(struct relay_sink *sink, const char *data, size_t bytes)
{
	if (sink->lost)
		return;
	if (sink->used + bytes > sink->room) {
		size_t room = 2 * (sink->used + bytes);
		char *grown = realloc(sink->data, room);

		if (!grown) {
			sink->lost = ENOMEM;
			return;
		}
		sink->data = grown;
		sink->room = room;
	}
	memcpy(sink->data + sink->used, data, bytes);
	sink->used += bytes;
}

/* A line, or a piece of one, that a stream has sent. */
static void put(struct relay_stream *stream, const char *data, size_t bytes)
{
	struct relay_sink *sink = stream->sink;
	char prefix[16];

	if (sink->open && sink->open != stream) {
		sink_append(sink, "\n", 1);
		sink->open = NULL;
	}
	if (!sink->open) {
		int length =
			snprintf(prefix, sizeof(prefix), "[%d] ", stream->rank);

		sink_append(sink, prefix, (size_t)length);
	}
	sink_append(sink, data, bytes);
	sink->open = data[bytes - 1] == '\n' ? NULL : stream;
}

static void put_complete_lines(struct relay_stream *stream)
{
	const char *at = stream->line, *newline;
	size_t left = stream->used;

	while ((newline = memchr(at, '\n', left))) {
		size_t bytes = (size_t)(newline - at) + 1;

		put(stream, at, bytes);
		at += bytes;
		left -= bytes;
	}
	if (left == LINE_BYTES) {
		put(stream, at, left);
		left = 0;
	}
	memmove(stream->line, at, left);
	stream->used = left;
}

static void end_stream(struct relay_stream *stream)
{
	struct relay_sink *sink = stream->sink;

	if (stream->used)
		put(stream, stream->line, stream->used);
	stream->used = 0;
	if (sink->open == stream) {
		sink_append(sink, "\n", 1);
		sink->open = NULL;
	}
	close(stream->fd);
	stream->fd = -1;
}

/* Reads once; false if there was nothing to be had for now. */
static bool read_stream(struct relay_stream *stream)
{
	ssize_t got = read(stream->fd, stream->line + stream->used,
			   LINE_BYTES - stream->used);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (got <= 0) {
		end_stream(stream);
		return false;
	}
	stream->used += (size_t)got;
	put_complete_lines(stream);
	return true;
}

static void write_sink(struct relay_sink *sink)
{
	struct pollfd now = {sink->fd, POLLOUT, 0};
	size_t left = sink->used - sink->sent;
	ssize_t put;

	/* a pipe of another user's is not opened again */
	if (poll(&now, 1, 0) <= 0)
		return;
	put = write(sink->fd, sink->data + sink->sent,
		    left < PIPE_BUF ? left : PIPE_BUF);
	if (put < 0) {
		if (errno != EAGAIN && errno != EINTR)
			sink->lost = errno;
		return;
	}
	sink->sent += (size_t)put;
	if (sink->sent == sink->used)
		sink->sent = sink->used = 0;
}

static bool is_unsent(const struct relay_sink *sink)
{
	return sink->used && !sink->lost;
}

void relay_prepare(const struct relay *relay, struct pollfd *polls)
{
	for (int i = 0; i < RELAY_SINKS; i++) {
		const struct relay_sink *sink = &relay->sinks[i];

		polls[i].fd = is_unsent(sink) ? sink->fd : -1;
		polls[i].events = POLLOUT;
	}
	for (int i = 0; i < RELAY_STREAMS; i++) {
		const struct relay_stream *stream = &relay->streams[i];
		bool wanted = i < relay->count && !is_unsent(stream->sink);

		polls[RELAY_SINKS + i].fd = wanted ? stream->fd : -1;
		polls[RELAY_SINKS + i].events = POLLIN;
	}
}

nfds_t relay_polls(const struct relay *relay)
{
	return (nfds_t)(RELAY_SINKS + relay->count);
}

void relay_serve(struct relay *relay, const struct pollfd *polls)
{
	int first = relay->turn;

	for (int i = 0; i < RELAY_SINKS; i++)
		if (polls[i].fd >= 0 && polls[i].revents)
			write_sink(&relay->sinks[i]);
	for (int i = 0; i < relay->count; i++) {
		int index = (first + i) % relay->count;
		struct relay_stream *stream = &relay->streams[index];
		const struct pollfd *poll = &polls[RELAY_SINKS + index];

		if (poll->fd < 0 || !poll->revents || is_unsent(stream->sink))
			continue;
		read_stream(stream);
		relay->turn = index + 1;
	}
}

void relay_end_streams(struct relay *relay)
{
	for (int i = 0; i < relay->count; i++) {
		struct relay_stream *stream = &relay->streams[i];

		if (stream->fd < 0)
			continue;
		for (int n = 0; n < MOST_LAST_READS; n++)
			if (!read_stream(stream))
				break;
		if (stream->fd >= 0)
			end_stream(stream);
	}
}

bool relay_is_pending(const struct relay *relay)
{
	return is_unsent(&relay->sinks[RELAY_STDOUT]) ||
	       is_unsent(&relay->sinks[RELAY_STDERR]);
}

void relay_drop(struct relay *relay)
{
	for (int i = 0; i < RELAY_SINKS; i++)
		relay->sinks[i].used = relay->sinks[i].sent = 0;
}

void relay_say(struct relay *relay, const char *format, ...)
{
	struct relay_sink *sink = &relay->sinks[RELAY_STDERR];
	char line[512];
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	if (length < 0)
		return;
	if (length > (int)sizeof(line) - 2)
		length = (int)sizeof(line) - 2;
	line[length] = '\n';
	if (sink->open)
		sink_append(sink, "\n", 1);
	sink->open = NULL;
	sink_append(sink, line, (size_t)length + 1);
}
