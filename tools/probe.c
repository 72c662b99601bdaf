/* SPDX-License-Identifier: MIT */
/*
 * `onehop probe`: options, and what to make of the outcome. Text goes to
 * stdout, JSON there or to a file; what is measured now to stderr, if it is a
 * terminal.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings.h"
#include "bench/sizes.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/output_file.h"
#include "tools/probe_write.h"

#define DEFAULT_BYTES (256ull << 20)
#define DEFAULT_TIMEOUT_S 20
#define NS_PER_S 1000000000ull

struct settings {
	struct probe_options options;
	struct probe_about about;
	bool json;
	const char *path; /* of the JSON; NULL: stdout */
};

static void print_help(void)
{
	printf("usage: onehop probe [OPTION...]\n"
	       "\n"
	       "Measures the ways between the GPUs of this machine: for each "
	       "ordered pair whether\n"
	       "stores arrive and loads are right, latency and bandwidth by "
	       "kernel store, kernel\n"
	       "load and copy engine, alone and with all pairs at once; and "
	       "each GPU's own memory\n"
	       "and the host's.\n"
	       "\n"
	       "  --quick            only the checks\n"
	       "  --bytes BYTES      of a transfer, 64K to 4G (K, M, G may "
	       "follow); default 256M.\n"
	       "                     A GPU needs twice that much memory\n"
	       "  --only LIST        these GPUs, as CUDA counts them here: "
	       "0,1\n"
	       "  --timeout SECONDS  until which a step must be over; default "
	       "20\n"
	       "  --json [FILE]      JSON to FILE beside the text, or to "
	       "stdout "
	       "instead of it\n"
	       "  -h, --help         print this text\n"
	       "\n"
	       "Exit code: 0, 1 if data came out wrong or a pair or a GPU has "
	       "a problem, 2 for\n"
	       "wrong options or a GPU that is not there, 3 if no GPU can be "
	       "used, a setting is\n"
	       "malformed or the output cannot be written, 77 if there is no "
	       "GPU or no kernel\n"
	       "for it in this build, 124 if one hangs.\n");
}

static int refuse(const char *option, const char *value, const char *takes)
{
	fprintf(stderr, "onehop probe: %s takes %s, not '%s'\n", option, takes,
		value);
	return EXIT_USAGE;
}

static int set_bytes(struct settings *settings, const char *value)
{
	uint64_t bytes;

	if (!bench_parse_size(value, &bytes) || bytes < PROBE_BYTES_MIN)
		return refuse("--bytes", value, "64K to 4G");
	settings->options.bytes =
		(bytes + PROBE_UNIT - 1) / PROBE_UNIT * PROBE_UNIT;
	return EXIT_FINE;
}

static int set_timeout(struct settings *settings, const char *value)
{
	uint64_t seconds;

	if (!bench_parse_number(value, 1, 3600, &seconds))
		return refuse("--timeout", value, "1 to 3600 seconds");
	settings->options.timeout_ns = seconds * NS_PER_S;
	return EXIT_FINE;
}

static int set_only(struct settings *settings, const char *value)
{
	static const char takes[] = "up to 16 numbers of GPUs, each once: 0,1";
	struct probe_options *options = &settings->options;
	const char *at = value;

	options->only_count = 0;
	do {
		size_t length = strcspn(at, ",");
		uint64_t ordinal;
		char word[8];

		snprintf(word, sizeof(word), "%.*s", (int)length, at);
		if (length >= sizeof(word) ||
		    options->only_count == PROBE_GPUS ||
		    !bench_parse_number(word, 0, 1023, &ordinal))
			return refuse("--only", value, takes);
		for (int i = 0; i < options->only_count; i++)
			if (options->only[i] == (int)ordinal)
				return refuse("--only", value, takes);
		options->only[options->only_count++] = (int)ordinal;
		at += length;
	} while (*at++ == ',');
	return EXIT_FINE;
}

/* --json FILE: the next word, if it is no flag. */
static void set_json(struct settings *settings, int argc, char **argv)
{
	const char *path = optarg;

	if (!path && optind < argc &&
	    (argv[optind][0] != '-' || !argv[optind][1]))
		path = argv[optind++];
	settings->json = true;
	settings->path = path && strcmp(path, "-") ? path : NULL;
}

/* EXIT_FINE, or what to exit with; -1 after --help. */
static int read_options(int argc, char **argv, struct settings *settings)
{
	static const struct option options[] = {
		{"quick", no_argument, NULL, 'q'},
		{"bytes", required_argument, NULL, 'b'},
		{"only", required_argument, NULL, 'o'},
		{"timeout", required_argument, NULL, 't'},
		{"json", optional_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option, code = EXIT_FINE;

	optind = 0; /* scan anew */
	while (!code && (option = flags_next("probe", argc, argv, "h", options,
					     NULL)) != -1) {
		switch (option) {
		case 'q':
			settings->options.quick = true;
			break;
		case 'b':
			code = set_bytes(settings, optarg);
			break;
		case 'o':
			code = set_only(settings, optarg);
			break;
		case 't':
			code = set_timeout(settings, optarg);
			break;
		case 'j':
			set_json(settings, argc, argv);
			break;
		case 'h':
			print_help();
			return -1;
		default:
			return EXIT_USAGE;
		}
	}
	if (!code && optind < argc) {
		fprintf(stderr, "onehop probe: '%s' is not expected\n",
			argv[optind]);
		return EXIT_USAGE;
	}
	return code;
}

static void show_progress(void *context, const char *what)
{
	(void)context;
	fprintf(stderr, "\r\x1b[K%s", what);
	fflush(stderr);
}

static int explain(enum oh_status status)
{
	const char *message = oh_last_error()->message;

	if (status != OH_ERR_UNSUPPORTED) {
		fprintf(stderr, "onehop probe: %s\n", message);
		return status == OH_ERR_INVALID ? EXIT_USAGE : EXIT_ENVIRONMENT;
	}
	fprintf(stderr, "onehop probe: no GPU can be measured here: %s\n",
		message);
	return EXIT_NOTHING;
}

static bool wants_colour(void)
{
	const char *no = getenv("NO_COLOR");

	return isatty(STDOUT_FILENO) && !(no && *no);
}

static int show_json(const struct settings *settings, const struct probe *probe)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	bool fine = out && probe_write_json(probe, &settings->about, out);

	fine = out && !fclose(out) && fine;
	if (!fine)
		fprintf(stderr, "onehop probe: no memory\n");
	else if (settings->path)
		fine = output_file_write("onehop probe", settings->path, text);
	else
		fputs(text, stdout);
	free(text);
	return fine ? EXIT_FINE : EXIT_ENVIRONMENT;
}

static int show(const struct settings *settings, const struct probe *probe)
{
	if (!settings->json || settings->path)
		probe_write_text(probe, &settings->about, wants_colour(),
				 stdout);
	return settings->json ? show_json(settings, probe) : EXIT_FINE;
}

static int judge(const struct probe *probe)
{
	struct probe_finding findings[PROBE_FINDINGS];
	int failed = 0;

	for (int i = 0; i < probe->gpus; i++)
		failed += probe->gpu[i].problem.trouble == PROBE_FAILED;
	if (probe->late)
		return EXIT_DEADLINE;
	if (failed == probe->gpus)
		return EXIT_ENVIRONMENT;
	return probe_find(probe, findings) ? EXIT_PROBLEM : EXIT_FINE;
}

static int measure(const struct settings *settings, struct probe *probe)
{
	enum oh_status status = probe_run(&settings->options, probe);
	int code;

	if (settings->options.progress)
		fprintf(stderr, "\r\x1b[K");
	if (status)
		return explain(status);
	code = show(settings, probe);
	if (!code)
		code = judge(probe);
	if (!probe->late)
		return code;
	/* at exit the driver would wait for the GPU that hangs */
	fflush(NULL);
	_exit(code);
}

int command_probe(int argc, char **argv)
{
	struct settings settings = {
		.options = {.bytes = DEFAULT_BYTES,
			    .timeout_ns = DEFAULT_TIMEOUT_S * NS_PER_S},
	};
	struct probe *probe;
	int code = read_options(argc, argv, &settings);

	if (code)
		return code < 0 ? EXIT_FINE : code;
	/* what is wrong is said here, once */
	if (!getenv("ONEHOP_LOG"))
		oh_set_log(OH_LOG_OFF, NULL, NULL);
	/* of a communicator, and yet never ignored */
	if (oh__settings_check())
		return explain(oh_last_error()->status);
	/* what is there stays until there is something to put in its place */
	if (settings.path && !output_file_probe("onehop probe", settings.path))
		return EXIT_ENVIRONMENT;
	/* beyond a limit of file sizes an error, not the end */
	signal(SIGXFSZ, SIG_IGN);
	if (isatty(STDERR_FILENO))
		settings.options.progress = show_progress;
	settings.about.argc = argc - 1;
	settings.about.argv = argv + 1;
	bench_machine_read(&settings.about.machine);
	bench_driver_version(settings.about.driver,
			     sizeof(settings.about.driver));
	probe = calloc(1, sizeof(*probe));
	code = EXIT_ENVIRONMENT;
	if (probe)
		code = measure(&settings, probe);
	else
		fprintf(stderr, "onehop probe: no memory\n");
	free(probe);
	return code;
}
