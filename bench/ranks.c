/* SPDX-License-Identifier: MIT */
#include "bench/ranks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/device_worker.h"
#include "bench/launch.h"
#include "bench/subject_onehop.h"
#include "bench/worker.h"

struct thread {
	pthread_t id;
	const struct bench_device_subject *device; /* NULL: host memory */
	int socket, code;
};

const struct bench_device_subject *bench_device_subject_named(const char *name)
{
	static const struct bench_device_subject *const subjects[] = {
		&bench_device_onehop,  &bench_device_floor,
		&bench_device_nccl[0], &bench_device_nccl[1],
		&bench_device_nccl[2],
	};

	for (size_t i = 0; i < sizeof(subjects) / sizeof(*subjects); i++) {
		if (!strcmp(subjects[i]->name, name))
			return subjects[i];
	}
	return NULL;
}

static void *serve(void *argument)
{
	struct thread *thread = argument;

	thread->code =
		thread->device
			? bench_device_serve(thread->device, thread->socket)
			: bench_worker_serve(&bench_subject_onehop,
					     thread->socket, -1);
	return NULL;
}

/* A rank alone stays in the process's first thread. */
static int serve_all(struct thread *threads, int count)
{
	int code = 0;

	if (count == 1) {
		serve(&threads[0]);
		return threads[0].code;
	}
	for (int i = 0; i < count; i++) {
		int error = pthread_create(&threads[i].id, NULL, serve,
					   &threads[i]);

		if (error) {
			fprintf(stderr, "a thread for rank %d: %s\n", i,
				strerror(error));
			_exit(BENCH_UNUSABLE);
		}
	}
	for (int i = 0; i < count; i++) {
		pthread_join(threads[i].id, NULL);
		code |= threads[i].code;
	}
	return code;
}

int bench_ranks_serve(const char *list)
{
	struct thread threads[OH_MAX_RANKS] = {0};
	const struct bench_device_subject *device;
	const char *at = strchr(list, ':');
	char name[16];
	int count = 0;

	if (!at)
		return BENCH_UNUSABLE;
	snprintf(name, sizeof(name), "%.*s", (int)(at - list), list);
	device = bench_device_subject_named(name);
	if (!device && strcmp(name, "host") != 0)
		return BENCH_UNUSABLE;
	for (at++; *at && count < OH_MAX_RANKS;) {
		char *end;

		threads[count].device = device;
		threads[count].socket = (int)strtol(at, &end, 10);
		if (end == at)
			break;
		count++;
		at = end + (*end == ',');
	}
	return count ? serve_all(threads, count) : BENCH_UNUSABLE;
}
