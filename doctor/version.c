/* SPDX-License-Identifier: MIT */
/*
 * Versions by their first three numbers. What follows them (rc, post, a local
 * build's name) is kept for people and does not count: a build on the way to a
 * release mostly has its rules already.
 */
#include "doctor/version.h"

#include <limits.h>
#include <string.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* What a version is written with; the first other character ends it. */
static bool is_written(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z') || (c && strchr(".+-_", c));
}

/* The number at *at, which moves behind it; the largest int if it is more. */
static int read_part(const char **at)
{
	int part = 0;

	for (; is_digit(**at); (*at)++) {
		int digit = **at - '0';

		if (part > (INT_MAX - digit) / 10)
			part = INT_MAX;
		else
			part = part * 10 + digit;
	}
	return part;
}

bool version_parse(const char *text, struct version *version)
{
	struct version parsed = {.known = true};
	const char *at;
	size_t length = 0;

	memset(version, 0, sizeof(*version));
	while (*text == ' ' || *text == '\t')
		text++;
	if (*text == 'v' || *text == 'V')
		text++;
	if (!is_digit(*text))
		return false;
	at = text;
	parsed.part[0] = read_part(&at);
	for (int i = 1; i < 3 && at[0] == '.' && is_digit(at[1]); i++) {
		at++;
		parsed.part[i] = read_part(&at);
	}
	while (length < sizeof(parsed.text) - 1 && is_written(text[length]))
		length++;
	/* a sentence's full stop, or the empty patch of "2.28." */
	while (length && text[length - 1] == '.')
		length--;
	memcpy(parsed.text, text, length);
	*version = parsed;
	return true;
}

int version_compare(const struct version *a, const struct version *b)
{
	for (int i = 0; i < 3; i++)
		if (a->part[i] != b->part[i])
			return a->part[i] < b->part[i] ? -1 : 1;
	return 0;
}

bool version_at_least(const struct version *version, const char *least)
{
	struct version bound;

	if (!version->known)
		return true;
	version_parse(least, &bound);
	return version_compare(version, &bound) >= 0;
}
