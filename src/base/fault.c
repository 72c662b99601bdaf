/* SPDX-License-Identifier: MIT */
/* The state behind fault.h; linked into the test build only. */
#include "base/fault.h"

#include <stdint.h>
#include <unistd.h>

#include "base/clock.h"

enum oh__fault oh__fault_now;
unsigned oh__fault_delay_ns;

/* Xorshift of Marsaglia (2003), seeded by process and thread. */
static uint64_t next_random(void)
{
	static _Thread_local uint64_t state;

	if (!state)
		state = oh__now_ns() ^ (uint64_t)getpid() << 32 ^
			(uintptr_t)&state;
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

void oh__fault_delay(void)
{
	uint64_t random, until;

	if (!oh__fault_delay_ns)
		return;
	random = next_random();
	if (random & 3) /* three steps of four are not delayed */
		return;
	until = oh__now_ns() + (random >> 8) % oh__fault_delay_ns;
	while (oh__now_ns() < until)
		;
}
