/* SPDX-License-Identifier: MIT */
/* After all flags are known: do they go together, and what was left unsaid. */
#include <inttypes.h>

#include "tools/bench_options.h"

static bool complain(const char *text)
{
	fprintf(stderr, "onehop bench: %s\n", text);
	return false;
}

/* Types and operations that have kernels; a list may hold others, too, whose
 * rows say that they are refused. */
#define DEVICE_DTYPES (1u << OH_F32 | 1u << OH_F16 | 1u << OH_BF16)
#define DEVICE_OPS (1u << OH_SUM | 1u << OH_AVG)

/* What GPU memory has not. */
static bool device_agrees(const struct bench_options *options)
{
	if (options->collectives != 1u << OH_ALL_REDUCE)
		return complain("--collective: on GPU memory there is "
				"all_reduce only so far");
	if (options->root)
		return complain("-r: all_reduce has no root, and on GPU memory "
				"there is nothing else so far");
	if (options->in_place > 0)
		return complain("--in-place: not with --memory device, where "
				"a replay makes many calls: each would sum the "
				"result of another");
	if (options->dtypes && !(options->dtypes & DEVICE_DTYPES))
		return complain("--dtype: on GPU memory there are f32, f16 and "
				"bf16 only so far");
	if (options->ops && !(options->ops & DEVICE_OPS))
		return complain("--op: on GPU memory there are sum and avg "
				"only so far");
	if (options->comm_alloc)
		return complain("--alloc comm: oh_comm_alloc gives host "
				"memory; not with --memory device");
	return true;
}

/* Names the first peer that works on the other memory. */
static bool peers_agree(const struct bench_options *options)
{
	for (int i = 0; i < BENCH_PEER_COUNT; i++) {
		bool device = bench_peer_is_on_device((enum bench_peer)i);

		if (!(options->peers >> i & 1) || options->all_peers ||
		    device == options->device)
			continue;
		fprintf(stderr,
			"onehop bench: --peer: %s works on %s memory: it wants "
			"--memory %s\n",
			bench_peer_name((enum bench_peer)i),
			device ? "GPU" : "host", device ? "device" : "host");
		return false;
	}
	return true;
}

static bool options_agree(const struct bench_options *options)
{
	bool range = options->first || options->last || options->factor ||
		     options->step;

	if (options->sizes.count && range)
		return complain("--sizes: not together with -b, -e, -f, -i");
	if (options->factor && options->step)
		return complain("-i: not together with -f");
	if (options->device_flag && !options->device) {
		fprintf(stderr, "onehop bench: %s: only with --memory device\n",
			options->device_flag);
		return false;
	}
	if (options->device && !device_agrees(options))
		return false;
	if (options->json.wanted && !options->json.path &&
	    options->csv.wanted && !options->csv.path)
		return complain("--json and --csv: both would go to stdout; "
				"name a file for one of them");
	return true;
}

static bool fill_sizes(struct bench_options *options)
{
	uint64_t first = options->first ? options->first : 64;
	uint64_t last = options->last	  ? options->last
			: options->device ? 4 << 20
					  : 1 << 20;

	if (options->sizes.count)
		return true;
	if (!options->first && first > last)
		first = last;
	if (!options->last && last < first)
		last = first;
	if (first > last) {
		fprintf(stderr,
			"onehop bench: -b: %" PRIu64
			" is larger than the %" PRIu64 " of -e\n",
			first, last);
		return false;
	}
	if (!bench_sizes_range(first, last,
			       options->factor ? options->factor : 4,
			       options->step, &options->sizes))
		return complain("-i: more than 4096 sizes; take a larger step");
	return true;
}

/* Those that depend on the memory. */
static void fill_defaults(struct bench_options *options)
{
	if (options->in_place < 0)
		options->in_place = !options->device;
	if (!options->dtypes)
		options->dtypes = 1u << (options->device ? OH_BF16 : OH_F32);
	for (int i = 0; i < BENCH_PEER_COUNT; i++)
		options->peer[i] =
			options->peers >> i & 1 &&
			bench_peer_is_on_device((enum bench_peer)i) ==
				options->device;
}

bool bench_options_settle(struct bench_options *options)
{
	if (!options_agree(options) || !peers_agree(options))
		return false;
	fill_defaults(options);
	return fill_sizes(options);
}
