/* SPDX-License-Identifier: MIT */
/*
 * `onehop topo`: GPUs, their links and islands, of texts that people paste or
 * of this machine. Files are read as streams, whatever their length, and put
 * together; one that holds nothing of a machine is an error.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "doctor/lines.h"
#include "machine/local.h"
#include "machine/report.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/topo_write.h"

#define PIECE_BYTES (1 << 16)

enum format {
	FORMAT_TEXT,
	FORMAT_JSON,
	FORMAT_DOT,
};

/* Too big for the stack. */
struct topo {
	enum format format;
	struct oh__machine machine, read;
	struct lines lines;
	char piece[PIECE_BYTES];
};

static void print_help(void)
{
	printf("usage: onehop topo [OPTION...] [FILE...]\n"
	       "\n"
	       "Shows GPUs, their links, peer access and islands: of the "
	       "FILEs, which are texts\n"
	       "that hold what nvidia-smi topo -m, -p2p, -L, collect_env or "
	       "lspci print (- is\n"
	       "standard input), or of this machine. Several files are put "
	       "together.\n"
	       "\n"
	       "  --json        JSON instead of text\n"
	       "  --dot         a graph for Graphviz instead of text; not "
	       "both\n"
	       "  -h, --help    print this text\n"
	       "\n"
	       "Exit code: 0, 2 for wrong options and for a file that is "
	       "damaged or of a machine\n"
	       "without NVIDIA GPUs, 3 if NVML fails or the output cannot be "
	       "written, 77 without\n"
	       "a file on a machine that has none.\n");
}

/* EXIT_FINE, or what to exit with; -1 after --help. */
static int read_options(int argc, char **argv, enum format *format)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"dot", no_argument, NULL, 'd'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	bool json = false, dot = false;
	int option;

	optind = 0; /* scan anew */
	while ((option = flags_next("topo", argc, argv, "h", options, NULL)) !=
	       -1) {
		switch (option) {
		case 'j':
			json = true;
			break;
		case 'd':
			dot = true;
			break;
		case 'h':
			print_help();
			return -1;
		default:
			return EXIT_USAGE;
		}
	}
	if (json && dot) {
		fprintf(stderr,
			"onehop topo: --json: not together with --dot\n");
		return EXIT_USAGE;
	}
	*format = json ? FORMAT_JSON : dot ? FORMAT_DOT : FORMAT_TEXT;
	return EXIT_FINE;
}

static void take_line(void *context, const char *line, size_t bytes)
{
	oh__report_feed(context, line, bytes);
}

static enum oh_status read_stream(struct topo *topo, int fd, const char *name,
				  struct oh__report *report)
{
	lines_begin(&topo->lines, take_line, report);
	for (;;) {
		ssize_t got = read(fd, topo->piece, sizeof(topo->piece));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return OH__FAIL_CALL(OH_ERR_SYSTEM, "read", errno,
					     "%s cannot be read", name);
		if (!got)
			break;
		lines_feed(&topo->lines, topo->piece, (size_t)got);
	}
	lines_end(&topo->lines);
	return OH_OK;
}

static enum oh_status read_report(struct topo *topo, int fd, const char *name)
{
	struct oh__report *report = oh__report_create(name);
	enum oh_status status, stream;
	bool found = false;

	if (!report)
		return OH__FAIL(OH_ERR_NO_MEMORY, "%s: no memory for it", name);
	stream = read_stream(topo, fd, name, report);
	if (stream) {
		/* what was read of it is of no use; the first error counts */
		struct oh_error saved = *oh_last_error();

		oh__report_finish(report, &topo->read, &found);
		oh__error_restore(&saved);
		return stream;
	}
	status = oh__report_finish(report, &topo->read, &found);
	if (status)
		return status;
	if (!found)
		return OH__FAIL(OH_ERR_INVALID,
				"%s: nothing of a machine is in it; give what "
				"`nvidia-smi topo -m` prints",
				name);
	return oh__machine_merge(&topo->machine, &topo->read);
}

static enum oh_status read_file(struct topo *topo, const char *file)
{
	enum oh_status status;
	int fd;

	if (!strcmp(file, "-"))
		return read_report(topo, STDIN_FILENO, "standard input");
	fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return OH__FAIL_CALL(OH_ERR_SYSTEM, "open", errno,
				     "%s cannot be read", file);
	status = read_report(topo, fd, file);
	close(fd);
	return status;
}

static int fail(int code)
{
	fprintf(stderr, "onehop topo: %s\n", oh_last_error()->message);
	return code;
}

static int read_files(struct topo *topo, int count, char **files)
{
	for (int i = 0; i < count; i++)
		if (read_file(topo, files[i]))
			return fail(EXIT_USAGE);
	if (topo->machine.gpus)
		return EXIT_FINE;
	fprintf(stderr,
		"onehop topo: no GPU is named in what was given; give what "
		"`nvidia-smi topo -m` prints\n");
	return EXIT_USAGE;
}

static int read_this_machine(struct topo *topo)
{
	enum oh_status status = oh__machine_read_nvml(&topo->machine);

	if (status == OH_ERR_UNSUPPORTED) {
		fprintf(stderr,
			"onehop topo: no NVIDIA GPU can be seen here (%s); "
			"give a file, or run it where the GPUs are\n",
			oh_last_error()->message);
		return EXIT_NOTHING;
	}
	if (status)
		return fail(EXIT_ENVIRONMENT);
	oh__machine_read_host(&topo->machine, "");
	oh__machine_read_variables(&topo->machine);
	return EXIT_FINE;
}

static bool wants_colour(void)
{
	const char *no = getenv("NO_COLOR");

	return isatty(STDOUT_FILENO) && !(no && *no);
}

static int show(const struct topo *topo)
{
	switch (topo->format) {
	case FORMAT_JSON:
		return topo_write_json(&topo->machine, stdout)
			       ? EXIT_FINE
			       : EXIT_ENVIRONMENT;
	case FORMAT_DOT:
		topo_write_dot(&topo->machine, stdout);
		return EXIT_FINE;
	default:
		topo_write_text(&topo->machine, wants_colour(), stdout);
		return EXIT_FINE;
	}
}

int command_topo(int argc, char **argv)
{
	enum format format;
	struct topo *topo;
	int code = read_options(argc, argv, &format);

	if (code)
		return code < 0 ? EXIT_FINE : code;
	topo = calloc(1, sizeof(*topo));
	if (!topo) {
		fprintf(stderr, "onehop topo: no memory\n");
		return EXIT_ENVIRONMENT;
	}
	topo->format = format;
	/* what is wrong is said here, once */
	if (!getenv("ONEHOP_LOG"))
		oh_set_log(OH_LOG_OFF, NULL, NULL);
	code = optind < argc ? read_files(topo, argc - optind, argv + optind)
			     : read_this_machine(topo);
	if (!code)
		code = show(topo);
	free(topo);
	return code;
}
