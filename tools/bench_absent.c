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

#define KERNELS                                                                \
	"not needed here: Onehop chooses its kernels, and NCCL as its own "    \
	"variables say"

static const struct {
	const char *name, *longer, *advice;
} absent[] = {
	{"-g", "--ngpus", "use --ranks N"},
	{"-t", "--nthreads", "use --ranks N, and --threads for threads"},
	{"-m", "--agg_iters",
	 "use --calls N on GPU memory; on host memory each call is timed by "
	 "itself"},
	{"-N", "--run_cycles", "use -n N for more calls"},
	{"-p", "--parallel_init", "not needed here: ranks start side by side"},
	{"-z", "--blocking",
	 "not needed here: on host memory every call blocks, on GPU memory "
	 "none"},
	{"-a", "--average",
	 "not needed here: times are those of the slowest rank, on GPU memory "
	 "of the one that started last"},
	{"-C", "--report_cputime",
	 "not needed here: ranks compute in the call, its time is theirs"},
	{"-S", "--report_timestamps", "use --json, it has the time of the end"},
	{"-R", "--local_register", "use --alloc comm"},
	{"-F", "--output_file", "use --csv FILE or --json FILE"},
	{"-y", "--stream_null",
	 "not needed here: a rank on a GPU has a stream of its own"},
	{"-G", "--cudagraph",
	 "use --memory device, where graphs are the default, and --calls N"},
	{"-x", "--cta_policy", KERNELS},
	{"-D", "--device_implementation", KERNELS},
	{"-V", "--device_cta_count", KERNELS},
	{"-M", "--memory_report",
	 "not needed here: see ONEHOP_DEVICE_BYTES in onehop(1)"},
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
