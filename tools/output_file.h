/* SPDX-License-Identifier: MIT */
/*
 * Output files that are whole or not there: written beside their place and
 * renamed. Devices, pipes and mount points are written to directly, a link is
 * followed. Who may not write to a file may not replace it; owner and mode
 * stay.
 */
#ifndef OH_TOOLS_OUTPUT_FILE_H
#define OH_TOOLS_OUTPUT_FILE_H

#include <stdbool.h>

/* Would one take the other's place? Not on a device or pipe. */
bool output_file_same(const char *path, const char *other);

/* No file, and so not to be replaced by one: writing may wait for a reader. */
bool output_file_is_special(const char *path);

/* Can it be written later? false after a message on stderr. */
bool output_file_probe(const char *who, const char *path);

/* false after a message on stderr; what was there before is then unharmed,
 * unless it is a mount point. */
bool output_file_write(const char *who, const char *path, const char *text);

#endif
