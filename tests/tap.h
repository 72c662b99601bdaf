/* SPDX-License-Identifier: MIT */
/*
 * Test Anything Protocol, version 13, for test programs in C: tap_ok prints a
 * line for each check, tap_done the plan at the end. A program that cannot run
 * here calls tap_skip_all. Threads may call tap_ok at the same time.
 */
#ifndef OH_TESTS_TAP_H
#define OH_TESTS_TAP_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_int tap_count, tap_failures;

/* One check. Returns ok, so that a failure can be explained by tap_note. */
__attribute__((format(printf, 2, 3))) static inline bool
tap_ok(bool ok, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (!ok)
		tap_failures++;
	printf("%sok %d - %s\n", ok ? "" : "not ", ++tap_count, text);
	fflush(stdout);
	return ok;
}

/* A line for the reader. */
__attribute__((format(printf, 1, 2))) static inline void
tap_note(const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	printf("# %s\n", text);
	fflush(stdout);
}

/* One check that cannot be made here. */
static inline void tap_skip(const char *what, const char *reason)
{
	printf("ok %d - %s # SKIP %s\n", ++tap_count, what, reason);
	fflush(stdout);
}

_Noreturn static inline void tap_skip_all(const char *reason)
{
	printf("1..0 # SKIP %s\n", reason);
	exit(0);
}

/* The end of main: the plan and the exit status. */
static inline int tap_done(void)
{
	printf("1..%d\n", tap_count);
	return tap_failures ? 1 : 0;
}

#endif
