/* SPDX-License-Identifier: MIT */
/*
 * JSON has no text but UTF-8, and what comes from outside is any bytes: names
 * of files, what a driver says, the environment, what was cut in the middle of
 * a letter.
 */
#ifndef OH_TOOLS_TEXT_JSON_H
#define OH_TOOLS_TEXT_JSON_H

#include <jansson.h>

/* Each byte that is no UTF-8 is U+FFFD. A new reference; NULL without memory.
 */
json_t *text_json(const char *text);

#endif
