/* SPDX-License-Identifier: MIT */
/*
 * A diagnosis in three lines, each a label and a sentence that fits a line of
 * 100 columns in the usual cases: what the engine does, what that costs, and
 * what to do next.
 */
#ifndef OH_DOCTOR_SUMMARY_H
#define OH_DOCTOR_SUMMARY_H

#define SUMMARY_LINES 3

enum summary_tone {
	SUMMARY_PLAIN,
	SUMMARY_GOOD,
	SUMMARY_BAD,
	SUMMARY_DOUBT,
};

struct summary_line {
	enum summary_tone tone;
	const char *label; /* at most 11 letters */
	char text[320];
};

struct diagnosis;

/* From all the rest of the diagnosis. */
void summary_make(const struct diagnosis *diagnosis,
		  struct summary_line lines[SUMMARY_LINES]);

#endif
