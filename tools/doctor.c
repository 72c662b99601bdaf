/* SPDX-License-Identifier: MIT */
/*
 * `onehop doctor`: reads the files of a case, or this machine, and says which
 * all-reduce path the engine takes, by which rule, what that costs, and what to
 * do.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "bench/sizes.h"
#include "doctor/diagnosis.h"
#include "tools/command.h"
#include "tools/doctor_write.h"
#include "tools/flags.h"

struct options {
	struct diagnosis_options about;
	char engine[32];
	bool json;
	bool here;
};

static void print_help(void)
{
	printf("usage: onehop doctor [OPTION...] [FILE...]\n"
	       "\n"
	       "Says which all-reduce path an inference engine takes, by which "
	       "rule, what it\n"
	       "costs per token, and what to do. Each FILE is known by its "
	       "content: a text with\n"
	       "nvidia-smi topo -m, a log of vLLM, SGLang or NCCL, their "
	       "/metrics, a model's\n"
	       "config.json; - is standard input. Without files: this "
	       "machine. What onehop\n"
	       "probe and onehop bench print is not read.\n"
	       "\n"
	       "  --here                     this machine, beside the files\n"
	       "  --tp N                     tensor-parallel size (the log's, "
	       "or all GPUs)\n"
	       "  --engine NAME[@VERSION]    whose rules: vllm@0.16 (the "
	       "log's, or vllm)\n"
	       "  --visible-devices LIST     as CUDA_VISIBLE_DEVICES\n"
	       "  --bytes SIZE               of one message; K, M, G are "
	       "binary\n"
	       "  --tokens-per-second X      measured, of one sequence\n"
	       "  --batch B                  sequences decoded at once (1)\n"
	       "  --active-bytes X           weights read for a token, all "
	       "GPUs together\n"
	       "  --checkpoint-bytes X       size of the weights on disk\n"
	       "  --peak-gb-s X              memory bandwidth of one GPU, "
	       "10^9 bytes/s\n"
	       "  --claimed-gb-s X           what somebody believes it to be\n"
	       "  --json                     JSON to standard output\n"
	       "  -h, --help                 print this text\n"
	       "\n"
	       "Exit code: 0 nothing is wrong, 1 something was found, 2 bad "
	       "input, 3 this\n"
	       "machine cannot be looked at or the output not written, 77 no "
	       "GPU can be seen\n"
	       "here and no file was given.\n");
}

static bool parse_tp(const char *text, int *tp)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (*text && !*end && !errno && value >= 1 && value <= OH__GPUS) {
		*tp = (int)value;
		return true;
	}
	fprintf(stderr,
		"onehop doctor: --tp is '%s', it takes a whole number from 1 "
		"to %d\n",
		text, OH__GPUS);
	return false;
}

static bool parse_engine(char *text, struct options *options)
{
	char *at = strchr(text, '@');
	size_t bytes = at ? (size_t)(at - text) : strlen(text);

	if (!bytes || bytes >= sizeof(options->engine) || (at && !at[1])) {
		fprintf(stderr,
			"onehop doctor: --engine is '%s', it takes a name, or "
			"a name and a version: vllm@0.16\n",
			text);
		return false;
	}
	memcpy(options->engine, text, bytes);
	options->engine[bytes] = '\0';
	options->about.engine = options->engine;
	options->about.version = at ? at + 1 : NULL;
	return true;
}

static bool parse_bytes(const char *text, uint64_t *bytes)
{
	if (bench_parse_size(text, bytes))
		return true;
	fprintf(stderr,
		"onehop doctor: --bytes is '%s', it takes a size, such as "
		"12288 "
		"or 12K\n",
		text);
	return false;
}

/* The flags that take a figure, and between what it makes sense: beyond, what
 * is computed from it has more digits than a line has room. */
static const struct figure_flag {
	const char *name;
	size_t offset;
	double low, high;
	const char *takes;
} figure_flags[] = {
	{"tokens-per-second",
	 offsetof(struct diagnosis_options, tokens_per_second), 1e-3, 1e6,
	 "0.001 to 1e6, such as 57.5"},
	{"batch", offsetof(struct diagnosis_options, batch), 1e-3, 1e6,
	 "0.001 to 1e6, such as 8"},
	{"active-bytes", offsetof(struct diagnosis_options, active_bytes), 1,
	 1e15, "1 to 1e15, such as 28e9"},
	{"checkpoint-bytes",
	 offsetof(struct diagnosis_options, checkpoint_bytes), 1, 1e15,
	 "1 to 1e15, such as 402e9"},
	{"peak-gb-s", offsetof(struct diagnosis_options, peak_gb_s), 1e-3, 1e6,
	 "0.001 to 1e6, such as 1792"},
	{"claimed-gb-s", offsetof(struct diagnosis_options, claimed_gb_s), 1e-3,
	 1e6, "0.001 to 1e6, such as 1500"},
};

static bool parse_within(const struct figure_flag *flag, const char *text,
			 double *value)
{
	char *end;

	errno = 0;
	*value = strtod(text, &end);
	/* not a number is in no range */
	if (*text && !*end && !errno && *value >= flag->low &&
	    *value <= flag->high)
		return true;
	fprintf(stderr,
		"onehop doctor: --%s is '%s', it takes a number from %s\n",
		flag->name, text, flag->takes);
	return false;
}

static bool parse_figure(const char *name, const char *text,
			 struct options *options)
{
	for (size_t i = 0; i < sizeof(figure_flags) / sizeof(*figure_flags);
	     i++) {
		char *field = (char *)&options->about + figure_flags[i].offset;
		double value;

		if (strcmp(name, figure_flags[i].name) != 0)
			continue;
		if (!parse_within(&figure_flags[i], text, &value))
			return false;
		memcpy(field, &value, sizeof(value));
		return true;
	}
	return false;
}

/* EXIT_FINE, or what to exit with; -1 after --help. */
static int read_options(int argc, char **argv, struct options *options)
{
	static const struct option longs[] = {
		{"tp", required_argument, NULL, 't'},
		{"engine", required_argument, NULL, 'e'},
		{"visible-devices", required_argument, NULL, 'v'},
		{"bytes", required_argument, NULL, 'b'},
		{"tokens-per-second", required_argument, NULL, 'f'},
		{"batch", required_argument, NULL, 'f'},
		{"active-bytes", required_argument, NULL, 'f'},
		{"checkpoint-bytes", required_argument, NULL, 'f'},
		{"peak-gb-s", required_argument, NULL, 'f'},
		{"claimed-gb-s", required_argument, NULL, 'f'},
		{"here", no_argument, NULL, 'w'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	bool fine = true;
	int option, index = 0;

	optind = 0;
	while (fine && (option = flags_next("doctor", argc, argv, "h", longs,
					    &index)) != -1) {
		switch (option) {
		case 't':
			fine = parse_tp(optarg, &options->about.tp);
			break;
		case 'e':
			fine = parse_engine(optarg, options);
			break;
		case 'v':
			options->about.visible_devices = optarg;
			break;
		case 'b':
			fine = parse_bytes(optarg, &options->about.bytes);
			break;
		case 'f':
			fine = parse_figure(longs[index].name, optarg, options);
			break;
		case 'w':
			options->here = true;
			break;
		case 'j':
			options->json = true;
			break;
		case 'h':
			print_help();
			return -1;
		default:
			fine = false;
		}
	}
	return fine ? EXIT_FINE : EXIT_USAGE;
}

static bool use_colour(void)
{
	const char *no = getenv("NO_COLOR");

	return isatty(STDOUT_FILENO) && !(no && *no);
}

static int fail(enum oh_status status)
{
	fprintf(stderr, "onehop doctor: %s\n", oh_last_error()->message);
	return status == OH_ERR_NO_MEMORY ? EXIT_ENVIRONMENT : EXIT_USAGE;
}

static int fail_here(enum oh_status status, bool asked)
{
	const char *why = oh_last_error()->message;

	if (status != OH_ERR_UNSUPPORTED) {
		fprintf(stderr, "onehop doctor: %s\n", why);
		return status == OH_ERR_MISMATCH ? EXIT_USAGE
						 : EXIT_ENVIRONMENT;
	}
	fprintf(stderr, "onehop doctor: no NVIDIA GPU can be seen here (%s)\n",
		why);
	if (asked)
		return EXIT_ENVIRONMENT;
	fprintf(stderr,
		"onehop doctor: give files; `onehop doctor --help` says "
		"which\n");
	return EXIT_NOTHING;
}

/* What is piped in is read only if "-" asks for it: a pipe may stay open for
 * ever. */
static void hint_at_input(void)
{
	struct stat about;

	if (!fstat(STDIN_FILENO, &about) && S_ISFIFO(about.st_mode))
		fprintf(stderr, "onehop doctor: this machine is looked at; - "
				"reads standard input instead\n");
}

static void warn_of_unknown(const struct diagnosis *diagnosis)
{
	for (int i = 0; i < diagnosis->input_count; i++)
		if (diagnosis->inputs[i].kind == INPUT_UNKNOWN)
			fprintf(stderr,
				"onehop doctor: not read: %s: nothing in it "
				"was recognised; --help says what is\n",
				diagnosis->inputs[i].file);
}

static void say_warnings(const struct diagnosis *diagnosis)
{
	for (int i = 0; i < diagnosis->warning_count; i++)
		fprintf(stderr, "onehop doctor: %s\n", diagnosis->warnings[i]);
}

static bool found_something(const struct diagnosis *diagnosis)
{
	for (int i = 0; i < diagnosis->finding_count; i++)
		if (diagnosis->findings[i].severity > FINDING_INFO)
			return true;
	return false;
}

static int diagnose(const struct options *options, char **files, int count,
		    struct diagnosis *diagnosis)
{
	enum oh_status status;

	diagnosis->options = options->about;
	status = diagnosis_read(diagnosis, files, count);
	say_warnings(diagnosis);
	if (status)
		return fail(status);
	warn_of_unknown(diagnosis);
	if (!count)
		hint_at_input();
	if (!count || options->here)
		status = diagnosis_read_this_machine(diagnosis);
	if (status)
		return fail_here(status, options->here && count);
	status = diagnosis_conclude(diagnosis);
	if (status)
		return fail(status);
	if (!options->json) {
		doctor_write_text(diagnosis, use_colour(), stdout);
	} else if (!doctor_write_json(diagnosis, stdout) && !ferror(stdout)) {
		fprintf(stderr, "onehop doctor: no memory for JSON\n");
		return EXIT_ENVIRONMENT;
	}
	/* main says why */
	if (fflush(stdout) || ferror(stdout))
		return EXIT_ENVIRONMENT;
	return found_something(diagnosis) ? EXIT_PROBLEM : EXIT_FINE;
}

int command_doctor(int argc, char **argv)
{
	struct options options = {0};
	struct diagnosis *diagnosis;
	int code = read_options(argc, argv, &options);

	if (code)
		return code < 0 ? EXIT_FINE : code;
	diagnosis = calloc(1, sizeof(*diagnosis));
	if (!diagnosis) {
		perror("onehop doctor");
		return EXIT_ENVIRONMENT;
	}
	/* what is wrong is said here, once */
	if (!getenv("ONEHOP_LOG"))
		oh_set_log(OH_LOG_OFF, NULL, NULL);
	code = diagnose(&options, argv + optind, argc - optind, diagnosis);
	free(diagnosis);
	return code;
}
