/* SPDX-License-Identifier: MIT */
/*
 * The command's main: finds the row of the subcommand and runs it. An unknown
 * name is answered with the nearest one.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "onehop/onehop.h"
#include "tools/command.h"

static int run_help(int argc, char **argv);
static int run_version(int argc, char **argv);

static const struct command commands[] = {
	{"doctor", "say why tensor-parallel inference is slow, and what to do",
	 command_doctor},
	{"topo", "show GPUs, their links and islands", command_topo},
	{"probe", "measure the ways between the GPUs of this machine",
	 command_probe},
	{"bench", "time the collectives on this machine", command_bench},
	{"run", "start a program on several ranks of this host", command_run},
	{"env", "show the settings in the environment", command_env},
	{"help", "list the subcommands, or tell about one", run_help},
	{"version", "print the version", run_version},
};
#define COMMANDS (sizeof(commands) / sizeof(*commands))

static void print_help(FILE *file)
{
	fprintf(file, "onehop: find out why tensor-parallel inference is slow "
		      "on a machine\n\n"
		      "usage: onehop SUBCOMMAND [ARGUMENT...]\n\n");
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(file, "  %-12s%s\n", commands[i].name,
			commands[i].summary);
	fprintf(file, "\n  %-12s%s\n", "-h, --help", "print this text");
	fprintf(file, "  %-12s%s\n", "--version", "print the version");
	fprintf(file, "\nSee also: onehop help SUBCOMMAND, man onehop.\n");
}

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < COMMANDS; i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

static int least(int a, int b, int c)
{
	int low = a < b ? a : b;

	return low < c ? low : c;
}

/* How many letters must be changed, added or taken away; a name longer than
 * any subcommand's is cut. */
static int distance(const char *a, const char *b)
{
	int row[17];
	int length = (int)strnlen(b, 16);

	for (int j = 0; j <= length; j++)
		row[j] = j;
	for (int i = 1; i <= 16 && a[i - 1]; i++) {
		int diagonal = row[0];

		row[0] = i;
		for (int j = 1; j <= length; j++) {
			int up = row[j];

			row[j] = least(up + 1, row[j - 1] + 1,
				       diagonal + (a[i - 1] != b[j - 1]));
			diagonal = up;
		}
	}
	return row[length];
}

static int unknown(const char *name)
{
	const char *nearest = NULL;
	int best = 3; /* more than two changes is another word */

	for (size_t i = 0; i < COMMANDS; i++) {
		int changes = distance(name, commands[i].name);

		if (changes < best) {
			best = changes;
			nearest = commands[i].name;
		}
	}
	fprintf(stderr, "onehop: there is no subcommand '%s'; ", name);
	if (nearest)
		fprintf(stderr, "did you mean '%s'?\n", nearest);
	else
		fprintf(stderr, "`onehop help` lists them\n");
	return EXIT_USAGE;
}

static bool is_help(const char *word)
{
	return !strcmp(word, "-h") || !strcmp(word, "--help");
}

static int unexpected(const char *command, const char *word)
{
	fprintf(stderr, "onehop %s: '%s' is not expected\n", command, word);
	return EXIT_USAGE;
}

static int run_version(int argc, char **argv)
{
	if (argc > 1 && is_help(argv[1])) {
		printf("usage: onehop version\n\nPrints the version.\n");
		return EXIT_FINE;
	}
	if (argc > 1)
		return unexpected("version", argv[1]);
	printf("onehop %s\n", oh_version());
	return EXIT_FINE;
}

static int run_help(int argc, char **argv)
{
	const struct command *command;
	char help[] = "--help";

	if (argc < 2) {
		print_help(stdout);
		return EXIT_FINE;
	}
	if (argc > 2)
		return unexpected("help", argv[2]);
	if (is_help(argv[1])) {
		printf("usage: onehop help [SUBCOMMAND]\n\n"
		       "Lists the subcommands, or tells about one.\n");
		return EXIT_FINE;
	}
	command = find(argv[1]);
	if (!command)
		return unknown(argv[1]);
	return command->run(2, (char *[]){argv[1], help, NULL});
}

static int dispatch(int argc, char **argv)
{
	const struct command *command;

	if (argc < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	if (is_help(argv[1]))
		return run_help(1, argv);
	if (!strcmp(argv[1], "--version"))
		return run_version(1, argv);
	command = find(argv[1]);
	return command ? command->run(argc - 1, argv + 1) : unknown(argv[1]);
}

/* 0 to 2 must be open, or a pipe or a socket would take their
 * places. Writing to one that was not stays an error. */
static void open_standard(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	int code;

	open_standard();
	code = dispatch(argc, argv);
	if (fflush(stdout) || ferror(stdout)) {
		perror("onehop: writing to stdout failed");
		return code ? code : EXIT_ENVIRONMENT;
	}
	return code;
}
