/* SPDX-License-Identifier: MIT */
/*
 * The record of the last failure in a thread. The first function that knows a
 * cause calls OH__FAIL or OH__FAIL_CALL, which keeps it, logs it, and gives
 * the status back; callers above only return that status.
 */
#ifndef OH_BASE_ERROR_H
#define OH_BASE_ERROR_H

#include "onehop/onehop.h"

/* A failure seen by the library itself. */
#define OH__FAIL(status, ...)                                                  \
	oh__error_set((status), "", 0, __FILE__, __LINE__, __VA_ARGS__)

/* A failed system call: its text and its errno. */
#define OH__FAIL_CALL(status, call, code, ...)                                 \
	oh__error_set((status), (call), (code), __FILE__, __LINE__, __VA_ARGS__)

__attribute__((format(printf, 6, 7), cold)) enum oh_status
oh__error_set(enum oh_status status, const char *call, int code,
	      const char *file, int line, const char *format, ...);

/*
 * A vendor's call that failed: its function, the code, and the vendor's name
 * and text for it, which stay where they are; NULL where it has none.
 */
__attribute__((cold)) enum oh_status
oh__error_set_vendor(enum oh_status status, const char *call, int code,
		     const char *code_name, const char *text, const char *file,
		     int line);

/* Makes what oh_last_error pointed to earlier the last error again. */
void oh__error_restore(const struct oh_error *saved);

#endif
