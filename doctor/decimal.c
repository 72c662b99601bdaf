/* SPDX-License-Identifier: MIT */
/*
 * Reads decimal numbers without the locale, and without a copy: at most 19
 * digits count, which hold every number that a double prints as, the others
 * only move the point. Powers of ten up to 27 are exact in a long double.
 */
#include "doctor/decimal.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* More than this above or below a double's range ends as infinity or zero. */
#define EXPONENT_MOST 5000
#define DIGITS_MOST 19

struct digits {
	uint64_t value;
	int count; /* in value, leading zeros apart */
	int exponent;
	bool any;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static void take_digit(struct digits *digits, char c, bool fraction)
{
	digits->any = true;
	if (digits->count == DIGITS_MOST) {
		digits->exponent += !fraction;
		return;
	}
	digits->value = digits->value * 10 + (uint64_t)(c - '0');
	digits->count += digits->value > 0;
	digits->exponent -= fraction;
}

/* The exponent behind a mantissa; what only looks like one takes no bytes. */
static size_t read_exponent(const char *text, size_t bytes, int *exponent)
{
	size_t at = 1;
	bool negative;
	int value = 0;

	if (bytes < 2 || (text[0] | 0x20) != 'e')
		return 0;
	negative = text[at] == '-';
	at += text[at] == '-' || text[at] == '+';
	if (at == bytes || !is_digit(text[at]))
		return 0;
	for (; at < bytes && is_digit(text[at]); at++)
		if (value < EXPONENT_MOST)
			value = value * 10 + text[at] - '0';
	*exponent += negative ? -value : value;
	return at;
}

static double scaled(uint64_t mantissa, int exponent)
{
	long double value = (long double)mantissa, ten = 10;
	unsigned left;

	if (exponent > EXPONENT_MOST)
		exponent = EXPONENT_MOST;
	if (exponent < -EXPONENT_MOST)
		exponent = -EXPONENT_MOST;
	/* squares of ten, from the lowest bit of the exponent on */
	for (left = (unsigned)(exponent < 0 ? -exponent : exponent);
	     left && mantissa; left >>= 1, ten *= ten)
		if (left & 1)
			value = exponent < 0 ? value / ten : value * ten;
	return (double)value;
}

static size_t read_word(const char *text, size_t bytes, double *value)
{
	static const struct {
		const char *word;
		double value;
	} words[] = {{"infinity", INFINITY}, {"inf", INFINITY}, {"nan", NAN}};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		size_t length = strlen(words[i].word), same = 0;

		while (same < length && same < bytes &&
		       (text[same] | 0x20) == words[i].word[same])
			same++;
		if (same < length)
			continue;
		*value = words[i].value;
		return length;
	}
	return 0;
}

size_t decimal_read(const char *text, size_t bytes, double *value)
{
	struct digits digits = {0, 0, 0, false};
	size_t at = bytes && (text[0] == '-' || text[0] == '+'), used;
	bool negative = at && text[0] == '-', fraction = false;
	double number;

	for (; at < bytes; at++) {
		if (text[at] == '.' && !fraction)
			fraction = true;
		else if (is_digit(text[at]))
			take_digit(&digits, text[at], fraction);
		else
			break;
	}
	if (digits.any) {
		at += read_exponent(text + at, bytes - at, &digits.exponent);
		number = scaled(digits.value, digits.exponent);
	} else {
		at -= fraction;
		used = read_word(text + at, bytes - at, &number);
		if (!used)
			return 0;
		at += used;
	}
	*value = negative ? -number : number;
	return at;
}

size_t decimal_read_count(const char *text, size_t bytes, uint64_t *value)
{
	uint64_t number = 0;
	size_t at = 0;

	for (; at < bytes && is_digit(text[at]); at++)
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(text[at] - '0'),
					   &number))
			return 0;
	if (at)
		*value = number;
	return at;
}
