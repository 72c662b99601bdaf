/* SPDX-License-Identifier: MIT */
/* What tests ask of a machine. */
#ifndef OH_TESTS_MACHINE_FACTS_H
#define OH_TESTS_MACHINE_FACTS_H

#include <stdlib.h>
#include <string.h>

#include "machine/machine.h"

static inline struct oh__machine *make_machine(void)
{
	struct oh__machine *machine = calloc(1, sizeof(*machine));

	if (!machine)
		exit(1);
	return machine;
}

static inline bool is_number(const struct oh__number *number, uint64_t value)
{
	return oh__known(number->from) && number->value == value;
}

static inline bool is_text(const struct oh__text *text, const char *value)
{
	return oh__known(text->from) && !strcmp(text->text, value);
}

static inline bool is_remarked(const struct oh__machine *machine,
			       const char *word)
{
	for (int i = 0; i < machine->remark_count; i++)
		if (strstr(machine->remarks[i].text, word))
			return true;
	return false;
}

#endif
