/* SPDX-License-Identifier: MIT */
/*
 * A row for each flag of nccl-tests that has no counterpart of its name, or
 * none at all. onehop-bench(1) lists the same; a test holds the two together.
 */
#include "tools/bench_absent.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define NO_GPU "not needed here: nothing runs on a GPU"

static const struct {
	const char *name, *longer, *advice;
} absent[] = {
	{"-g", "--ngpus", "use --ranks N"},
	{"-t", "--nthreads", "use --ranks N, and --threads for threads"},
	{"-m", "--agg_iters", "not needed here: each call is timed by itself"},
	{"-N", "--run_cycles", "use -n N for more calls"},
	{"-p", "--parallel_init", "not needed here: ranks start side by side"},
	{"-z", "--blocking", "not needed here: every call blocks"},
	{"-a", "--average",
	 "not needed here: times are those of the slowest rank"},
	{"-C", "--report_cputime",
	 "not needed here: ranks compute in the call, its time is theirs"},
	{"-S", "--report_timestamps", "use --json, it has the time of the end"},
	{"-R", "--local_register", "use --alloc comm"},
	{"-F", "--output_file", "use --csv FILE or --json FILE"},
	{"-y", "--stream_null", NO_GPU},
	{"-G", "--cudagraph", NO_GPU},
	{"-x", "--cta_policy", NO_GPU},
	{"-D", "--device_implementation", NO_GPU},
	{"-V", "--device_cta_count", NO_GPU},
	{"-M", "--memory_report", NO_GPU},
};

static bool is_named(const char *word, const char *name)
{
	size_t length = strlen(name);

	if (strncmp(word, name, length) != 0)
		return false;
	return !word[length] || word[length] == '=' ||
	       (length == 2 && isdigit((unsigned char)word[length]));
}

const char *bench_absent_advice(const char *word)
{
	for (size_t i = 0; i < COUNT(absent); i++) {
		if (is_named(word, absent[i].name) ||
		    is_named(word, absent[i].longer))
			return absent[i].advice;
	}
	return NULL;
}
