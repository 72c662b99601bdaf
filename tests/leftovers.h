/* SPDX-License-Identifier: MIT */
/*
 * What a process holds: to be compared before and after, so that nothing of
 * the library is left behind. Mappings and names are counted by the library's
 * own names, for the C library and the sanitizers keep mappings of theirs.
 */
#ifndef OH_TESTS_LEFTOVERS_H
#define OH_TESTS_LEFTOVERS_H

#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A sanitizer's own malloc leaves the C library's unused, and that must not be
 * asked for the first time by two threads at once. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LEFTOVERS_HEAP 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||     \
	__has_feature(memory_sanitizer)
#define LEFTOVERS_HEAP 0
#endif
#endif
#ifndef LEFTOVERS_HEAP
#define LEFTOVERS_HEAP 1
#endif

struct leftovers {
	int fds; /* open descriptors */
	int maps; /* mappings of all kinds */
	int own_maps; /* those of memfds named onehop-... */
	int threads;
	int names; /* in /dev/shm, with onehop in them */
	size_t heap_bytes; /* in use, of malloc; 0 under a sanitizer */
};

static inline int leftovers_entries(const char *path, const char *part)
{
	DIR *directory = opendir(path);
	struct dirent *entry;
	int count = 0;

	if (!directory)
		return -1;
	while ((entry = readdir(directory)))
		if (entry->d_name[0] != '.' &&
		    (!part || strstr(entry->d_name, part)))
			count++;
	closedir(directory);
	return count;
}

static inline void *leftovers_nothing(void *argument)
{
	return argument;
}

/* With a process's first thread ThreadSanitizer starts one of its own, which
 * stays. */
static inline void leftovers_first_thread(void)
{
	pthread_t thread;

	if (!pthread_create(&thread, NULL, leftovers_nothing, NULL))
		pthread_join(thread, NULL);
}

static inline struct leftovers leftovers_now(void)
{
	struct leftovers now = {.maps = -1};
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];

	while (maps && fgets(line, sizeof(line), maps)) {
		now.maps++;
		now.own_maps += strstr(line, "memfd:onehop") != NULL;
	}
	if (maps)
		fclose(maps);
	/* less the one that reads the directory */
	now.fds = leftovers_entries("/proc/self/fd", NULL) - 1;
	now.threads = leftovers_entries("/proc/self/task", NULL);
	now.names = leftovers_entries("/dev/shm", "onehop");
#if LEFTOVERS_HEAP
	now.heap_bytes = mallinfo2().uordblks;
#endif
	return now;
}

static inline long leftovers_resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	long pages = 0;

	if (file && fscanf(file, "%*d %ld", &pages) != 1)
		pages = 0;
	if (file)
		fclose(file);
	return pages * sysconf(_SC_PAGESIZE);
}

/* Descriptors, own mappings, threads and names are as they were. */
static inline bool leftovers_none(const struct leftovers *before,
				  const struct leftovers *after)
{
	return after->fds == before->fds &&
	       after->own_maps == before->own_maps &&
	       after->threads == before->threads &&
	       after->names <= before->names;
}

static inline const char *leftovers_text(const struct leftovers *before,
					 const struct leftovers *after,
					 char text[256])
{
	snprintf(text, 256,
		 "fds %d to %d, own maps %d to %d, threads %d to %d, names %d "
		 "to %d, maps %d to %d",
		 before->fds, after->fds, before->own_maps, after->own_maps,
		 before->threads, after->threads, before->names, after->names,
		 before->maps, after->maps);
	return text;
}

#endif
