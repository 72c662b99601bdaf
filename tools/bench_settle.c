/* SPDX-License-Identifier: MIT */
/* After all flags are known: do they go together, and what was left unsaid. */
#include <inttypes.h>
#include <string.h>

#include "base/settings.h"
#include "collective/device.h"
#include "tools/bench_options.h"
#include "tools/output_file.h"

static bool complain(const char *text)
{
	fprintf(stderr, "onehop bench: %s\n", text);
	return false;
}

/* Those of a kind that have kernels, bit i: enum value i; with the others'
 * values one that has. */
static unsigned collectives_there(void)
{
	unsigned there = 0;

	for (int i = 0; i < OH_COLLECTIVE_COUNT; i++)
		if (oh__device_has((enum oh_collective)i, OH_F32, OH_SUM))
			there |= 1u << i;
	return there;
}

static unsigned dtypes_there(void)
{
	unsigned there = 0;

	for (int i = 0; i < OH_DTYPE_COUNT; i++)
		if (oh__device_has(OH_ALL_REDUCE, (enum oh_dtype)i, OH_SUM))
			there |= 1u << i;
	return there;
}

static unsigned ops_there(void)
{
	unsigned there = 0;

	for (int i = 0; i < OH_OP_COUNT; i++)
		if (oh__device_has(OH_ALL_REDUCE, OH_F32, (enum oh_op)i))
			there |= 1u << i;
	return there;
}

/* All of a kind are those that there are. */
static void narrow(unsigned *set, int count, unsigned there)
{
	if (*set == (1u << count) - 1)
		*set &= there;
}

static void narrow_to_device(struct bench_options *options)
{
	narrow(&options->collectives, OH_COLLECTIVE_COUNT, collectives_there());
	narrow(&options->dtypes, OH_DTYPE_COUNT, dtypes_there());
	narrow(&options->ops, OH_OP_COUNT, ops_there());
}

static const char *collective_text(int i)
{
	return oh_collective_name((enum oh_collective)i);
}

static const char *dtype_text(int i)
{
	return oh_dtype_name((enum oh_dtype)i);
}

static const char *op_text(int i)
{
	return oh_op_name((enum oh_op)i);
}

/* Of a flag's set nothing is missing on GPU memory; else what is there. */
static bool is_there(const char *flag, unsigned set, unsigned there,
		     const char *(*name)(int))
{
	const char *between = "";

	if (!(set & ~there))
		return true;
	fprintf(stderr,
		"onehop bench: %s: %s does not work on GPU memory so far, "
		"only ",
		flag, name(__builtin_ctz(set & ~there)));
	for (; there; there &= there - 1) {
		fprintf(stderr, "%s%s", between, name(__builtin_ctz(there)));
		between = ", ";
	}
	fputc('\n', stderr);
	return false;
}

static bool device_has(const struct bench_options *options)
{
	return is_there("--collective", options->collectives,
			collectives_there(), collective_text) &&
	       is_there("--dtype", options->dtypes, dtypes_there(),
			dtype_text) &&
	       is_there("--op", options->ops, ops_there(), op_text);
}

/* What GPU memory has not. */
static bool device_agrees(const struct bench_options *options)
{
	if (!device_has(options))
		return false;
	if (options->root)
		return complain("-r: all_reduce has no root, and on GPU memory "
				"there is nothing else so far");
	if (options->in_place > 0)
		return complain("--in-place: not with --memory device, where "
				"a replay makes many calls: each would sum the "
				"result of another");
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

static bool sinks_agree(const struct bench_sink *json,
			const struct bench_sink *csv)
{
	if (!json->wanted || !csv->wanted || !json->path != !csv->path)
		return true;
	if (!json->path)
		return complain("--json and --csv: both would go to stdout; "
				"name a file for one of them");
	if (output_file_same(json->path, csv->path))
		return complain("--json and --csv: both would be the same "
				"file; name another for one of them");
	return true;
}

static bool options_agree(const struct bench_options *options)
{
	bool range = options->first || options->last || options->factor ||
		     options->step;

	if (options->sizes.count && range)
		return complain("--sizes: not together with -b, -e, -f, -i");
	if (options->graph && options->eager)
		return complain("--graph: not together with --eager");
	if (options->both_places)
		return complain("--in-place: not together with --out-of-place");
	if (options->factor && options->step)
		return complain("-i: not together with -f");
	if (options->device_flag && !options->device) {
		fprintf(stderr, "onehop bench: %s: only with --memory device\n",
			options->device_flag);
		return false;
	}
	if (options->device && !device_agrees(options))
		return false;
	return sinks_agree(&options->json, &options->csv);
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
	if (options->device)
		narrow_to_device(options);
	if (!options_agree(options) || !peers_agree(options))
		return false;
	fill_defaults(options);
	return fill_sizes(options);
}

/* "all" fits any number. A pair is told once, from its smaller rank. */
bool bench_options_pairs_fit(const struct bench_options *options, int ranks)
{
	const char *text = options->forbid_peer;
	uint32_t pairs[OH_MAX_RANKS];

	if (!text || !strcmp(text, "all") || !oh__parse_pairs(text, pairs))
		return true;
	for (int i = 0; i < OH_MAX_RANKS; i++) {
		uint32_t beyond = pairs[i] & ~0u << (i > ranks ? i : ranks);

		if (!beyond)
			continue;
		fprintf(stderr,
			"onehop bench: --forbid-peer: %d-%d is no pair of the "
			"%d ranks\n",
			i, __builtin_ctz(beyond), ranks);
		return false;
	}
	return true;
}
