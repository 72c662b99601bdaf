/* SPDX-License-Identifier: MIT */
/*
 * The command's table: a subcommand is a row of name, summary and function.
 * argv[0] of the function is the subcommand's name. What it returns is the
 * exit code. Data goes to stdout, talk to stderr.
 */
#ifndef OH_TOOLS_COMMAND_H
#define OH_TOOLS_COMMAND_H

enum exit_code {
	EXIT_FINE = 0,
	EXIT_PROBLEM = 1, /* a problem was found */
	EXIT_USAGE = 2, /* usage or bad input */
	EXIT_ENVIRONMENT = 3, /* the environment is unusable */
	EXIT_NOTHING = 77, /* nothing to do here; reserved */
	EXIT_DEADLINE = 124,
};

struct command {
	const char *name;
	const char *summary;
	int (*run)(int argc, char **argv);
};

int command_bench(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_env(int argc, char **argv);
int command_probe(int argc, char **argv);
int command_run(int argc, char **argv);
int command_topo(int argc, char **argv);

#endif
