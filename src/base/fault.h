/* SPDX-License-Identifier: MIT */
/*
 * Faults that the tests bring back to prove that they would be noticed, and
 * random delays between the steps of the protocol. Only the test build of the
 * library (-DOH_FAULTS) has them; everywhere else both are constants and cost
 * nothing.
 */
#ifndef OH_BASE_FAULT_H
#define OH_BASE_FAULT_H

#include <stdbool.h>

enum oh__fault {
	OH__FAULT_NONE,
	OH__FAULT_SINGLE_HALF, /* every call uses half 0 */
	OH__FAULT_NO_CREDIT, /* a half is rewritten without asking */
	OH__FAULT_FLAG_FIRST, /* the flag is stored before the data */
	OH__FAULT_NO_REDUCED_WAIT, /* slices are fetched unasked */
	OH__FAULT_NO_SCRUB, /* a stale reduced flag stays */
	OH__FAULT_NO_SIGNATURE, /* mismatched calls look alike */
	OH__FAULT_COUNT,
};

#ifdef OH_FAULTS

/* Set by a test, in every process. */
extern enum oh__fault oh__fault_now;
/* The longest delay in ns at each step, 0 for none. */
extern unsigned oh__fault_delay_ns;

static inline bool oh__fault(enum oh__fault fault)
{
	return oh__fault_now == fault;
}

void oh__fault_delay(void);

#else

static inline bool oh__fault(enum oh__fault fault)
{
	return false;
}

static inline void oh__fault_delay(void)
{
}

#endif

#endif
