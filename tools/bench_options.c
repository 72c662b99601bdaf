/* SPDX-License-Identifier: MIT */
/*
 * One row a flag. Names are those of nccl-tests where it has the flag; a row's
 * "takes" is both the help's and the error message's account of the value.
 */
#include "tools/bench_options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "tools/bench_absent.h"
#include "tools/bench_names.h"
#include "tools/flags.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum arity {
	NOTHING,
	VALUE,
	MAYBE, /* a value if the next word is none of the flags */
};

struct flag {
	const char *names[4];
	enum arity arity;
	const char *metavar, *takes, *help;
	/* value is NULL for NOTHING, and for MAYBE without one */
	bool (*set)(struct bench_options *options, const char *value);
};

static bool set_first(struct bench_options *options, const char *value)
{
	return bench_parse_size(value, &options->first);
}

static bool set_last(struct bench_options *options, const char *value)
{
	return bench_parse_size(value, &options->last);
}

static bool set_step(struct bench_options *options, const char *value)
{
	return bench_parse_size(value, &options->step);
}

static bool set_factor(struct bench_options *options, const char *value)
{
	return bench_parse_number(value, 2, 1024, &options->factor);
}

static bool set_sizes(struct bench_options *options, const char *value)
{
	return bench_parse_sizes(value, &options->sizes);
}

static bool set_int(const char *value, uint64_t low, uint64_t high, int *out)
{
	uint64_t number;

	if (!bench_parse_number(value, low, high, &number))
		return false;
	*out = (int)number;
	return true;
}

static bool set_iterations(struct bench_options *options, const char *value)
{
	return set_int(value, 1, 1000000, &options->iterations);
}

static bool set_warmups(struct bench_options *options, const char *value)
{
	return set_int(value, 0, 10000, &options->warmups);
}

static bool set_check(struct bench_options *options, const char *value)
{
	int number;

	if (!set_int(value, 0, 1, &number))
		return false;
	options->check = number;
	return true;
}

static bool set_no_check(struct bench_options *options, const char *value)
{
	options->check = false;
	return true;
}

static bool set_root(struct bench_options *options, const char *value)
{
	return set_int(value, 0, OH_MAX_RANKS - 1, &options->root);
}

static bool set_ranks(struct bench_options *options, const char *value)
{
	return set_int(value, 1, OH_MAX_RANKS, &options->ranks);
}

static bool set_timeout(struct bench_options *options, const char *value)
{
	return set_int(value, 1, 86400, &options->timeout_s);
}

static bool set_in_place(struct bench_options *options, const char *value)
{
	options->both_places |= options->in_place == 0;
	options->in_place = 1;
	return true;
}

static bool set_out_of_place(struct bench_options *options, const char *value)
{
	options->both_places |= options->in_place == 1;
	options->in_place = 0;
	return true;
}

static bool set_alloc(struct bench_options *options, const char *value)
{
	options->comm_alloc = !strcmp(value, "comm");
	return options->comm_alloc || !strcmp(value, "any");
}

static bool set_memory(struct bench_options *options, const char *value)
{
	options->memory = value;
	options->device = !strcmp(value, "device");
	return options->device || !strcmp(value, "host");
}

/* What means nothing on host memory. */
static bool set_graph(struct bench_options *options, const char *value)
{
	options->device_flag = "--graph";
	options->graph = true;
	return true;
}

static bool set_eager(struct bench_options *options, const char *value)
{
	options->device_flag = "--eager";
	options->eager = true;
	return true;
}

static bool set_calls(struct bench_options *options, const char *value)
{
	options->device_flag = "--calls";
	return set_int(value, 1, 10000, &options->calls);
}

static bool set_forbid_peer(struct bench_options *options, const char *value)
{
	uint32_t pairs[OH_MAX_RANKS];

	options->device_flag = "--forbid-peer";
	options->forbid_peer = value;
	return oh__parse_pairs(value, pairs);
}

static bool set_threads(struct bench_options *options, const char *value)
{
	options->threads = true;
	return true;
}

static bool set_no_pin(struct bench_options *options, const char *value)
{
	options->pin = false;
	return true;
}

static bool set_sink(struct bench_sink *sink, const char *value)
{
	sink->wanted = true;
	sink->path = value && strcmp(value, "-") ? value : NULL;
	return !value || *value;
}

static bool set_json(struct bench_options *options, const char *value)
{
	return set_sink(&options->json, value);
}

static bool set_csv(struct bench_options *options, const char *value)
{
	return set_sink(&options->csv, value);
}

static bool set_worker(struct bench_options *options, const char *value)
{
	options->worker = value;
	return true;
}

static bool set_help(struct bench_options *options, const char *value)
{
	options->help = true;
	return true;
}

static bool set_dtypes(struct bench_options *options, const char *value)
{
	return bench_names_dtypes(value, &options->dtypes);
}

static bool set_ops(struct bench_options *options, const char *value)
{
	return bench_names_ops(value, &options->ops);
}

static bool set_collectives(struct bench_options *options, const char *value)
{
	return bench_names_collectives(value, &options->collectives);
}

/* "all" are those of the memory, which may be named later. */
static bool set_peers(struct bench_options *options, const char *value)
{
	options->all_peers = !strcmp(value, "all");
	return bench_names_peers(value, &options->peers);
}

#define A_SIZE "digits with an optional K, M or G (binary), 1 to 4G"

static const struct flag flags[] = {
	{{"--collective"},
	 VALUE,
	 "NAME",
	 "all_reduce, reduce_scatter, all_gather, broadcast, a list of them, "
	 "or all",
	 "what to call (all_reduce)",
	 set_collectives},
	{{"-b", "--minbytes"},
	 VALUE,
	 "SIZE",
	 A_SIZE,
	 "smallest size (64)",
	 set_first},
	{{"-e", "--maxbytes"},
	 VALUE,
	 "SIZE",
	 A_SIZE,
	 "largest size (1M; on GPU memory 4M)",
	 set_last},
	{{"-f", "--stepfactor"},
	 VALUE,
	 "N",
	 "a number from 2 to 1024",
	 "from size to size, a factor (4)",
	 set_factor},
	{{"-i", "--stepbytes"},
	 VALUE,
	 "SIZE",
	 A_SIZE,
	 "from size to size, a step instead",
	 set_step},
	{{"--sizes"},
	 VALUE,
	 "SIZE,...",
	 "a list of sizes such as 8K,64K, each 1 to 4G",
	 "these sizes instead of -b, -e, -f and -i",
	 set_sizes},
	{{"-d", "--dtype", "--datatype"},
	 VALUE,
	 "TYPE",
	 "f64, f32, f16, bf16, i64, u64, i32, u32, i8, u8, the names of "
	 "nccl-tests, a list of them, or all",
	 "element type (f32; on GPU memory bf16)",
	 set_dtypes},
	{{"-o", "--op"},
	 VALUE,
	 "OP",
	 "sum, prod, min, max, avg, a list of them, or all",
	 "operation (sum)",
	 set_ops},
	{{"-r", "--root"},
	 VALUE,
	 "RANK",
	 "a rank, 0 to 15",
	 "root of broadcast (0)",
	 set_root},
	{{"--in-place"},
	 NOTHING,
	 "",
	 "",
	 "one buffer for both sides (default on host memory; not on GPU "
	 "memory)",
	 set_in_place},
	{{"--out-of-place"},
	 NOTHING,
	 "",
	 "",
	 "a buffer for each side (default on GPU memory)",
	 set_out_of_place},
	{{"-n", "--iters", "--iterations"},
	 VALUE,
	 "N",
	 "a number from 1 to 1000000",
	 "timed calls of a row (2000 to 12, fewer the larger the size); on GPU "
	 "memory timed replays (1000 to 20; at most 20 where ranks share GPUs)",
	 set_iterations},
	{{"-w", "--warmup", "--warmup_iters"},
	 VALUE,
	 "N",
	 "a number from 0 to 10000",
	 "untimed calls before each round of timed ones (10 to 2); on GPU "
	 "memory untimed replays (for 0.2 s, then for 0.02 s)",
	 set_warmups},
	{{"-c", "--check"},
	 VALUE,
	 "0|1",
	 "0 or 1",
	 "check the results (1)",
	 set_check},
	{{"--no-check"}, NOTHING, "", "", "the same as -c 0", set_no_check},
	{{"--ranks"},
	 VALUE,
	 "N",
	 "a number from 1 to 16",
	 "ranks (a rank for each processor that may be used, or for each GPU, "
	 "2 to 16)",
	 set_ranks},
	{{"--threads"},
	 NOTHING,
	 "",
	 "",
	 "ranks are threads of one process",
	 set_threads},
	{{"--no-pin"},
	 NOTHING,
	 "",
	 "",
	 "leave the ranks to the scheduler",
	 set_no_pin},
	{{"--memory"},
	 VALUE,
	 "KIND",
	 "host or device",
	 "where the buffers are (host); device: GPU memory, all_reduce only",
	 set_memory},
	{{"--graph"},
	 NOTHING,
	 "",
	 "",
	 "GPU memory: calls are captured into a graph and replayed (default)",
	 set_graph},
	{{"--eager"},
	 NOTHING,
	 "",
	 "",
	 "GPU memory: calls are queued one by one",
	 set_eager},
	{{"--calls"},
	 VALUE,
	 "N",
	 "a number from 1 to 10000",
	 "GPU memory: calls of a replay (100 to 1M, then 20, then 5)",
	 set_calls},
	{{"--forbid-peer"},
	 VALUE,
	 "LIST",
	 "pairs of ranks such as 0-1,2-3, or all",
	 "GPU memory: these pairs of ranks meet in host memory",
	 set_forbid_peer},
	{{"--alloc"},
	 VALUE,
	 "any|comm",
	 "any or comm",
	 "any: malloc's memory (default); comm: buffers of oh_comm_alloc, "
	 "which large calls use where they are (path direct); small ones are "
	 "staged; peers always have malloc's",
	 set_alloc},
	{{"--peer"},
	 VALUE,
	 "NAME",
	 "openmpi, openmpi-sm, mpich, on GPU memory nccl, nccl-symm, nccl-shm, "
	 "a "
	 "list of them, or all",
	 "compare with these, a row for each",
	 set_peers},
	{{"-T", "--timeout"},
	 VALUE,
	 "S",
	 "seconds, 1 to 86400",
	 "deadline of each round of calls and of each start (120)",
	 set_timeout},
	{{"-J", "--json"}, MAYBE, "[FILE]", "a file", "write JSON", set_json},
	{{"--csv"}, MAYBE, "[FILE]", "a file", "write CSV", set_csv},
	{{"-h", "--help"}, NOTHING, "", "", "print this", set_help},
	/* the command starts itself with it; no help */
	{{"--worker"}, VALUE, "", "descriptors", NULL, set_worker},
};

static bool same(const char *name, const char *text, size_t length)
{
	return strlen(name) == length && !memcmp(name, text, length);
}

/* Is word this flag, or "name=value" of it? *value is what follows '='. */
static bool is_flag(const struct flag *flag, const char *word,
		    const char **value)
{
	size_t length = strcspn(word, "=");

	for (size_t i = 0; i < COUNT(flag->names) && flag->names[i]; i++) {
		if (!same(flag->names[i], word, length))
			continue;
		*value = word[length] ? word + length + 1 : NULL;
		return true;
	}
	return false;
}

static const struct flag *find_flag(const char *word, const char **value)
{
	for (size_t i = 0; i < COUNT(flags); i++) {
		if (is_flag(&flags[i], word, value))
			return &flags[i];
	}
	return NULL;
}

/* "-n10": a short name with its value attached, as getopt takes it. */
static const struct flag *find_attached(const char *word, const char **value)
{
	const char name[] = {word[0], word[0] ? word[1] : '\0', '\0'};
	const struct flag *flag;

	if (name[0] != '-' || !name[1] || name[1] == '-' || !word[2])
		return NULL;
	flag = find_flag(name, value);
	if (!flag || flag->arity == NOTHING)
		return NULL;
	*value = word + 2;
	return flag;
}

static bool refuse(const char *word, int length, const char *value,
		   const char *takes)
{
	if (value)
		fprintf(stderr,
			"onehop bench: %.*s: '%s' is none of what it "
			"takes: %s\n",
			length, word, value, takes);
	else
		fprintf(stderr,
			"onehop bench: %s: a value is missing; it "
			"takes %s\n",
			word, takes);
	return false;
}

static bool refuse_unknown(const char *word)
{
	const char *advice = bench_absent_advice(word);

	if (advice)
		fprintf(stderr,
			"onehop bench: '%s' is a flag of nccl-tests only: "
			"%s\n",
			word, advice);
	else
		flags_say_unknown("bench", word);
	return false;
}

/* Takes the flag at argv[*at], and its value; *at is then on the last word. */
static bool take(int argc, char **argv, int *at, struct bench_options *options)
{
	const char *word = argv[*at], *value = NULL;
	const struct flag *flag = find_flag(word, &value);
	const char *next = *at + 1 < argc ? argv[*at + 1] : NULL;
	int length = (int)strcspn(word, "="); /* of its name */

	if (!flag) {
		flag = find_attached(word, &value);
		length = 2;
	}
	if (!flag)
		return refuse_unknown(word);
	if (flag->arity == NOTHING && value) {
		fprintf(stderr, "onehop bench: %s: a flag without a value\n",
			word);
		return false;
	}
	if (!value && next &&
	    (flag->arity == VALUE ||
	     (flag->arity == MAYBE && (next[0] != '-' || !next[1])))) {
		value = next;
		++*at;
	}
	if (flag->arity == VALUE && !value)
		return refuse(word, length, NULL, flag->takes);
	if (!flag->set(options, value))
		return refuse(word, length, value, flag->takes);
	return true;
}

bool bench_options_parse(int argc, char **argv, struct bench_options *options)
{
	memset(options, 0, sizeof(*options));
	options->memory = "host";
	options->warmups = -1;
	options->check = true;
	options->in_place = -1;
	options->pin = true;
	options->collectives = 1u << OH_ALL_REDUCE;
	options->ops = 1u << OH_SUM;
	options->timeout_s = 120;
	for (int i = 1; i < argc; i++) {
		if (!take(argc, argv, &i, options))
			return false;
	}
	return bench_options_settle(options);
}

/* text in lines from column 26 on, up to column 78. */
static void print_wrapped(FILE *out, const char *text)
{
	int column = 26;

	while (*text) {
		int length = (int)strcspn(text, " ");

		if (column > 26 && column + 1 + length > 78) {
			fprintf(out, "\n%26s", "");
			column = 26;
		} else if (column > 26) {
			fputc(' ', out);
			column++;
		}
		fprintf(out, "%.*s", length, text);
		column += length;
		text += length;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

static void print_flag(FILE *out, const struct flag *flag)
{
	char left[64];
	size_t used = 0;

	for (size_t i = 0; i < COUNT(flag->names) && flag->names[i]; i++) {
		/* aliases beyond a short and a long name go unsaid */
		if (i == 2)
			break;
		used += (size_t)snprintf(left + used, sizeof(left) - used,
					 "%s%s", i ? ", " : "", flag->names[i]);
	}
	snprintf(left + used, sizeof(left) - used, " %s", flag->metavar);
	fprintf(out, "  %-23s ", left);
	if (strlen(left) > 23)
		fprintf(out, "\n%26s", "");
	print_wrapped(out, flag->help);
	if (flag->arity == VALUE && strlen(flag->takes) > 24) {
		fprintf(out, "%26s", "");
		print_wrapped(out, flag->takes);
	}
}

void bench_options_help(FILE *out)
{
	fputs("usage: onehop bench [FLAG...]\n"
	      "\n"
	      "Times collectives between ranks of this host and checks what "
	      "they return.\n"
	      "\n",
	      out);
	for (size_t i = 0; i < COUNT(flags); i++) {
		if (flags[i].help)
			print_flag(out, &flags[i]);
	}
	fputs("\n"
	      "bytes is the size: of reduce_scatter and all_gather the larger "
	      "side, as in\n"
	      "nccl-tests; count is what the call is given. us are from a "
	      "common start to the\n"
	      "return on the slowest rank; on GPU memory a replay's time on "
	      "the rank that\n"
	      "started last, divided by its calls. algbw is bytes / p50 in "
	      "GB/s "
	      "(decimal); busbw is\n"
	      "algbw times 2(n-1)/n for all_reduce, (n-1)/n for "
	      "reduce_scatter and all_gather,\n"
	      "1 for broadcast.\n"
	      "\n"
	      "exit code: 0 fine; 1 wrong results or a rank that failed; 2 "
	      "usage; 3 the\n"
	      "environment is unusable or the output cannot be written; 77 no "
	      "GPU, or no\n"
	      "kernels for it; 124 deadline; 129 SIGHUP; 130 SIGINT; 131 "
	      "SIGQUIT; 143 SIGTERM\n",
	      out);
}
