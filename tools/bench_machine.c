/* SPDX-License-Identifier: MIT */
/* From /proc and /sys; what is not there stays unknown. */
#include "tools/bench_machine.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The rest of the first line that begins with key, without blanks and ':'. */
static bool find_line(const char *path, const char *key, char *text,
		      size_t room)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;
	bool found = false;

	while (file && !found && getline(&line, &size, file) > 0) {
		const char *rest = line + strlen(key);

		if (strncmp(line, key, strlen(key)))
			continue;
		rest += strspn(rest, " \t:");
		snprintf(text, room, "%.*s", (int)strcspn(rest, "\n"), rest);
		found = true;
	}
	free(line);
	if (file)
		fclose(file);
	return found;
}

static int read_number(const char *path)
{
	char text[32];

	return find_line(path, "", text, sizeof(text)) ? atoi(text) : -1;
}

/* "0-3,8": how many. */
static int count_list(const char *path)
{
	char text[256], *at = text;
	int count = 0;

	if (!find_line(path, "", text, sizeof(text)))
		return 0;
	while (*at) {
		long first = strtol(at, &at, 10), last = first;

		if (*at == '-')
			last = strtol(at + 1, &at, 10);
		count += (int)(last - first) + 1;
		if (*at != ',')
			break;
		at++;
	}
	return count;
}

/* A core is counted with the first of its processors. */
static int count_cores(void)
{
	long processors = sysconf(_SC_NPROCESSORS_CONF);
	int cores = 0;

	for (long i = 0; i < processors; i++) {
		char path[96];

		snprintf(path, sizeof(path),
			 "/sys/devices/system/cpu/cpu%ld/topology/"
			 "thread_siblings_list",
			 i);
		if (read_number(path) == i)
			cores++;
	}
	return cores;
}

void bench_machine_read(struct bench_machine *machine)
{
	struct utsname name;
	char text[64];

	memset(machine, 0, sizeof(*machine));
	if (!find_line("/proc/cpuinfo", "model name", machine->cpu,
		       sizeof(machine->cpu)))
		find_line("/proc/device-tree/model", "", machine->cpu,
			  sizeof(machine->cpu));
	if (!uname(&name))
		snprintf(machine->kernel, sizeof(machine->kernel),
			 "%.40s %.60s %.40s", name.sysname, name.release,
			 name.machine);
	machine->processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
	machine->cores = count_cores();
	if (getloadavg(&machine->load, 1) != 1)
		machine->load = 0;
	machine->numa_nodes = count_list("/sys/devices/system/node/online");
	if (find_line("/proc/meminfo", "MemAvailable", text, sizeof(text)))
		machine->available_bytes = strtoull(text, NULL, 10) << 10;
}
