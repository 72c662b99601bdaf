/* SPDX-License-Identifier: MIT */
/* Decimal numbers as logs and metrics print them, whatever the locale. */
#ifndef OH_DOCTOR_DECIMAL_H
#define OH_DOCTOR_DECIMAL_H

#include <stddef.h>
#include <stdint.h>

/*
 * The number that text begins with: "57.5", "1e-05", "+Inf", "NaN". Returns
 * the bytes that it takes, 0 if there is none; *value is set only then. It is
 * within one unit of the last place.
 */
size_t decimal_read(const char *text, size_t bytes, double *value);

/* Digits alone; 0 too if the number does not fit. */
size_t decimal_read_count(const char *text, size_t bytes, uint64_t *value);

#endif
