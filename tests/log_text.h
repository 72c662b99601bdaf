/* SPDX-License-Identifier: MIT */
/* For the tests of the log reader: texts are read as a file's lines are. */
#ifndef OH_TESTS_LOG_TEXT_H
#define OH_TESTS_LOG_TEXT_H

#include <string.h>

#include "doctor/log.h"

static inline void feed_text(struct log_reader *reader, const char *text)
{
	while (*text) {
		size_t bytes = strcspn(text, "\n");

		log_reader_feed(reader, text, bytes);
		text += bytes + (text[bytes] == '\n');
	}
}

static inline struct log_facts read_text(const char *text)
{
	struct log_reader *reader = log_reader_create();
	struct log_facts facts;

	feed_text(reader, text);
	log_reader_finish(reader, &facts);
	return facts;
}

/* NULL and "" are the same: not said. */
static inline bool same_text(const char *a, const char *b)
{
	return !strcmp(a ? a : "", b ? b : "");
}

/* The name that the answer has: a rule, "enabled", "setup_failed", null. */
static inline const char *custom_name(const struct log_facts *facts)
{
	switch (facts->custom) {
	case LOG_CUSTOM_ENABLED:
		return "enabled";
	case LOG_CUSTOM_SETUP_FAILED:
		return "setup_failed";
	case LOG_CUSTOM_DISABLED:
		return facts->custom_rule;
	default:
		return NULL;
	}
}

#endif
