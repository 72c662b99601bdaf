/* SPDX-License-Identifier: MIT */
/* Any bytes become JSON text; letters of UTF-8 stay what they are. */
#include <string.h>

#include "tap.h"
#include "tools/text_json.h"

#define BAD "\xef\xbf\xbd" /* U+FFFD */

static const struct {
	const char *what, *text, *due;
} rows[] = {
	{"nothing", "", ""},
	{"ASCII", "H200 \"a\"\n", "H200 \"a\"\n"},
	{"letters of two, three and four bytes",
	 "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
	 "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"},
	{"a byte that is none", "Bad\xff GPU", "Bad" BAD " GPU"},
	{"beside letters", "\xc3\xa4\xff\xc3\xa4", "\xc3\xa4" BAD "\xc3\xa4"},
	{"the second byte of a letter", "a\x80z", "a" BAD "z"},
	{"a letter that is cut", "a\xe2\x82", "a" BAD BAD},
	{"a longer form", "\xc0\x80", BAD BAD},
	{"a surrogate", "\xed\xa0\x80", BAD BAD BAD},
	{"beyond the last letter", "\xf4\x90\x80\x80", BAD BAD BAD BAD},
};

int main(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		json_t *json = text_json(rows[i].text);

		tap_ok(json && !strcmp(json_string_value(json), rows[i].due),
		       "%s", rows[i].what);
		json_decref(json);
	}
	return tap_done();
}
