/* SPDX-License-Identifier: MIT */
/*
 * Which clock: the counter is taken if the processor says that it never
 * changes speed or stops, and the kernel, which watches it, still offers it.
 */
#include "bench/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)

static bool file_has_word(const char *path, const char *word)
{
	FILE *file = fopen(path, "re");
	size_t length = strlen(word), room = 0;
	char *line = NULL;
	bool found = false;

	if (!file)
		return false;
	while (!found && getline(&line, &room, file) > 0) {
		for (const char *at = line; (at = strstr(at, word));
		     at += length) {
			char before = at == line ? ' ' : at[-1];

			if (strchr(" \t", before) &&
			    strchr(" \t\n", at[length])) {
				found = true;
				break;
			}
		}
	}
	free(line);
	fclose(file);
	return found;
}

static bool counter_is_steady(void)
{
	return file_has_word("/proc/cpuinfo", "constant_tsc") &&
	       file_has_word("/proc/cpuinfo", "nonstop_tsc") &&
	       file_has_word("/sys/devices/system/clocksource/clocksource0/"
			     "available_clocksource",
			     "tsc");
}

#else

static bool counter_is_steady(void)
{
	return false;
}

#endif

void bench_clock_open(struct bench_clock *clock)
{
	struct timespec pause = {.tv_nsec = 20000000};
	uint64_t ns, ticks;

	clock->tsc = counter_is_steady();
	clock->ticks_per_us = 1000;
	if (!clock->tsc)
		return;
	ns = bench_now_ns();
	ticks = bench_ticks(true);
	nanosleep(&pause, NULL);
	ns = bench_now_ns() - ns;
	ticks = bench_ticks(true) - ticks;
	clock->ticks_per_us = (double)ticks * 1000 / (double)ns;
}
