/* SPDX-License-Identifier: MIT */
#include "tools/flags.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void flags_say_unknown(const char *command, const char *word)
{
	fprintf(stderr,
		"onehop %s: '%s' is not known; `onehop %s --help` lists the "
		"flags\n",
		command, word, command);
}

/* The word that getopt_long looks at next; NULL if no flag comes. Words that
 * are no flags are passed over, unless shorts begins with '+'. */
static const char *next_word(int argc, char **argv, const char *shorts)
{
	for (int i = optind > 1 ? optind : 1; i < argc; i++) {
		if (argv[i][0] == '-' && argv[i][1])
			return argv[i];
		if (*shorts == '+' || getenv("POSIXLY_CORRECT"))
			return NULL;
	}
	return NULL;
}

static const struct option *find_long(const struct option *longs,
				      const char *word)
{
	size_t length = strcspn(word + 2, "=");

	for (; longs->name; longs++)
		if (strlen(longs->name) == length &&
		    !memcmp(longs->name, word + 2, length))
			return longs;
	return NULL;
}

/* Of a word that getopt_long has refused. */
static void say_why(const char *command, const char *word, bool known)
{
	if (!known)
		flags_say_unknown(command, word);
	else if (word[1] == '-' && strchr(word, '='))
		fprintf(stderr, "onehop %s: %s: a flag without a value\n",
			command, word);
	else
		fprintf(stderr,
			"onehop %s: %s: a value is missing; `onehop %s --help` "
			"says what it takes\n",
			command, word, command);
}

int flags_next(const char *command, int argc, char **argv, const char *shorts,
	       const struct option *longs, int *index)
{
	const char *word = next_word(argc, argv, shorts);
	bool is_long = word && word[1] == '-' && word[2];
	bool known = is_long ? find_long(longs, word) != NULL
			     : word && word[1] != ':' && word[1] != '+' &&
				       strchr(shorts, word[1]);
	int option;

	if (is_long && !known) {
		flags_say_unknown(command, word);
		return '?';
	}
	opterr = 0; /* what it would say is said here */
	option = getopt_long(argc, argv, shorts, longs, index);
	if (option == '?')
		say_why(command, word ? word : "", known);
	return option;
}
