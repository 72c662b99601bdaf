/* SPDX-License-Identifier: MIT */
/*
 * From flags to cases: every collective, type, operation and size that was
 * asked for, in this order, each once.
 */
#include <stdlib.h>

#include "bench/device_data.h"
#include "tools/bench_options.h"

static void fill_calls(const struct bench_options *options, bool crowded,
		       struct bench_case *what)
{
	what->calls = 1;
	what->iterations =
		options->iterations
			? options->iterations
			: bench_default_iterations(what->bytes, crowded);
	what->warmups = options->warmups >= 0
				? options->warmups
				: bench_default_warmups(what->bytes);
}

static void fill_replays(const struct bench_options *options, bool crowded,
			 struct bench_case *what)
{
	what->calls = options->calls
			      ? options->calls
			      : bench_default_calls(what->bytes, crowded);
	what->iterations =
		options->iterations
			? options->iterations
			: bench_default_replays(what->bytes, crowded);
	what->warmups = options->warmups;
	what->buffers = bench_device_buffers(what->bytes);
	/* each is taken, and their number stays odd */
	while (what->buffers > (uint32_t)what->calls)
		what->buffers -= 2;
}

static void fill_case(const struct bench_options *options, int ranks,
		      bool crowded, uint64_t bytes, struct bench_case *what)
{
	bool spread = what->collective == OH_REDUCE_SCATTER ||
		      what->collective == OH_ALL_GATHER;
	size_t unit =
		oh_dtype_bytes(what->dtype) * (size_t)(spread ? ranks : 1);

	what->root = options->root;
	what->count = (size_t)bytes / unit;
	if (!what->count)
		what->count = 1;
	what->bytes = what->count * unit;
	if (options->device)
		fill_replays(options, crowded, what);
	else
		fill_calls(options, crowded, what);
}

/* All sizes of one kind; sizes that round to the same bytes once. */
static size_t add_sizes(const struct bench_options *options, int ranks,
			bool crowded, struct bench_case kind,
			struct bench_case *cases)
{
	size_t count = 0;

	for (size_t i = 0; i < options->sizes.count; i++) {
		fill_case(options, ranks, crowded, options->sizes.bytes[i],
			  &kind);
		if (count && cases[count - 1].bytes == kind.bytes)
			continue;
		cases[count++] = kind;
	}
	return count;
}

bool bench_options_cases(const struct bench_options *options, int ranks,
			 bool crowded, struct bench_case **cases, size_t *count)
{
	size_t most = options->sizes.count * OH_COLLECTIVE_COUNT *
		      OH_DTYPE_COUNT * OH_OP_COUNT;
	struct bench_case *all = calloc(most, sizeof(*all));
	size_t used = 0;

	if (options->root >= ranks) {
		free(all);
		fprintf(stderr,
			"onehop bench: -r: %d is no rank, there are %d\n",
			options->root, ranks);
		return false;
	}
	if (!all) {
		fprintf(stderr, "onehop bench: out of memory\n");
		return false;
	}
	for (int i = 0; i < OH_COLLECTIVE_COUNT * OH_DTYPE_COUNT * OH_OP_COUNT;
	     i++) {
		struct bench_case kind = {
			.collective = (enum oh_collective)(i / OH_OP_COUNT /
							   OH_DTYPE_COUNT),
			.dtype = (enum oh_dtype)(i / OH_OP_COUNT %
						 OH_DTYPE_COUNT),
			.op = (enum oh_op)(i % OH_OP_COUNT),
		};
		bool reduces = kind.collective == OH_ALL_REDUCE ||
			       kind.collective == OH_REDUCE_SCATTER;
		/* an operation means nothing to the others: once each */
		unsigned ops = reduces ? options->ops : 1u << OH_SUM;

		if (options->collectives >> kind.collective & 1 &&
		    options->dtypes >> kind.dtype & 1 && ops >> kind.op & 1)
			used += add_sizes(options, ranks, crowded, kind,
					  all + used);
	}
	*cases = all;
	*count = used;
	return true;
}
