/* SPDX-License-Identifier: MIT */
/* Versions of engines as they print them: "0.16.0rc2.dev313+g662205d34",
 * "v0.6.6.post1", "2.28.9", "latest". */
#ifndef OH_DOCTOR_VERSION_H
#define OH_DOCTOR_VERSION_H

#include <stdbool.h>

struct version {
	bool known;
	int part[3]; /* major, minor, patch */
	char text[64]; /* as it was given, without a leading v */
};

/* false (and not known) if the text does not begin with a number. */
bool version_parse(const char *text, struct version *version);

/* Below, equal, above 0 by the three parts; what follows them is ignored. */
int version_compare(const struct version *a, const struct version *b);

/* Is it at least "0.10"? An unknown version is the newest. */
bool version_at_least(const struct version *version, const char *least);

#endif
