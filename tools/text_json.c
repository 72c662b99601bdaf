/* SPDX-License-Identifier: MIT */
#include "tools/text_json.h"

#include <stdlib.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* The bytes of the letter that text begins with; 0: it is none. Who writes the
 * JSON says what a letter is. */
static size_t letter_bytes(const char *text)
{
	for (size_t bytes = 1; bytes <= 4 && text[bytes - 1]; bytes++) {
		json_t *letter = json_stringn(text, bytes);

		if (letter) {
			json_decref(letter);
			return bytes;
		}
	}
	return 0;
}

json_t *text_json(const char *text)
{
	json_t *json = json_string(text);
	char *mended, *end;

	if (json)
		return json;
	end = mended = malloc(strlen(text) * strlen(REPLACEMENT) + 1);
	if (!mended)
		return NULL;
	while (*text) {
		size_t bytes = letter_bytes(text);

		end = bytes ? mempcpy(end, text, bytes)
			    : stpcpy(end, REPLACEMENT);
		text += bytes ? bytes : 1;
	}
	*end = '\0';
	json = json_string(mended);
	free(mended);
	return json;
}
