/* SPDX-License-Identifier: MIT */
/*
 * Log lines: lower case, one line, `name value`. The level is checked before
 * anything is formatted, so a line that is switched off costs a load.
 */
#ifndef OH_BASE_LOG_H
#define OH_BASE_LOG_H

#include <stdbool.h>

#include "onehop/onehop.h"

bool oh__log_enabled(enum oh_log_level level);

__attribute__((format(printf, 2, 3), cold)) void
oh__log(enum oh_log_level level, const char *format, ...);

#endif
