/* SPDX-License-Identifier: MIT */
/* How `onehop doctor` shows a diagnosis. */
#ifndef OH_TOOLS_DOCTOR_WRITE_H
#define OH_TOOLS_DOCTOR_WRITE_H

#include <stdbool.h>
#include <stdio.h>

#include "doctor/diagnosis.h"

/* At most 100 columns; colour if the caller found a terminal. */
void doctor_write_text(const struct diagnosis *diagnosis, bool colour,
		       FILE *out);

/* JSON, schema_version 1; false with errno set if it could not be written. */
bool doctor_write_json(const struct diagnosis *diagnosis, FILE *out);

#endif
