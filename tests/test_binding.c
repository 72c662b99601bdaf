/* SPDX-License-Identifier: MIT */
/*
 * Which processors ranks are given: on machines made up by hwloc, whose order
 * can be told beforehand, and on this one.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "onehop/onehop.h"
#include "tap.h"
#include "tools/binding.h"

#define UNTOUCHED (-7)

struct machine {
	const char *description; /* for hwloc */
	const char *what;
	int ranks;
	bool fits;
	int expected[OH_MAX_RANKS];
};

static const struct machine machines[] = {
	{"core:4 pu:2", "one rank: the first core", 1, true, {0}},
	{"core:4 pu:2", "a rank for each core", 4, true, {0, 2, 4, 6}},
	{"core:4 pu:2",
	 "then the cores' second threads",
	 8,
	 true,
	 {0, 2, 4, 6, 1, 3, 5, 7}},
	{"core:4 pu:2", "more ranks than processors", 9, false, {0}},
	/* as the kernel counts on most: first threads 0-3, second ones 4-7 */
	{"pack:2 core:2 pu:2(indexes=0,4,1,5,2,6,3,7)",
	 "two packages, threads counted last",
	 6,
	 true,
	 {0, 1, 2, 3, 4, 5}},
	{"pack:2 numa:1 core:2 pu:1(indexes=0,2,1,3)",
	 "the order of the tree, not of the numbers",
	 4,
	 true,
	 {0, 2, 1, 3}},
	{"pu:3", "a machine that shows no cores", 3, true, {0, 1, 2}},
};

static void try_machine(const struct machine *machine)
{
	int cpu[OH_MAX_RANKS];
	bool fits, same = true;

	for (int i = 0; i < OH_MAX_RANKS; i++)
		cpu[i] = UNTOUCHED;
	setenv("HWLOC_SYNTHETIC", machine->description, 1);
	fits = binding_choose(machine->ranks, cpu);
	unsetenv("HWLOC_SYNTHETIC");
	tap_ok(fits == machine->fits, "%s: %s", machine->what,
	       machine->fits ? "fits" : "does not fit");
	for (int i = 0; i < OH_MAX_RANKS; i++) {
		bool written = machine->fits && i < machine->ranks;

		if (cpu[i] == (written ? machine->expected[i] : UNTOUCHED))
			continue;
		same = false;
		tap_note("rank %d is on %d", i, cpu[i]);
	}
	tap_ok(same, "%s: on these processors, and no more", machine->what);
}

static void try_this_one(void)
{
	int count = binding_processors();
	int ranks = count < OH_MAX_RANKS ? count : OH_MAX_RANKS;
	int cpu[OH_MAX_RANKS];
	cpu_set_t mine, seen;

	CPU_ZERO(&seen);
	sched_getaffinity(0, sizeof(mine), &mine);
	tap_ok(count == CPU_COUNT(&mine), "%d processors may be used", count);
	if (!tap_ok(binding_choose(ranks, cpu), "%d ranks fit here", ranks))
		return;
	for (int i = 0; i < ranks; i++)
		if (CPU_ISSET(cpu[i], &mine))
			CPU_SET(cpu[i], &seen);
	tap_ok(CPU_COUNT(&seen) == ranks, "each has one that may be used");

	tap_ok(binding_pin(cpu[ranks - 1]), "a thread is pinned");
	tap_ok(sched_getcpu() == cpu[ranks - 1], "and runs there");
	tap_ok(binding_processors() == 1, "one processor may now be used");
	tap_ok(!binding_choose(2, cpu), "two ranks do not fit");
	tap_ok(binding_choose(1, cpu) && cpu[0] == sched_getcpu(),
	       "one does, where it is");
	tap_ok(!binding_pin(-1), "processor -1 does not exist");
	tap_ok(!binding_pin(1 << 20), "nor does number 2^20");
	sched_setaffinity(0, sizeof(mine), &mine);
}

int main(void)
{
	for (size_t i = 0; i < sizeof(machines) / sizeof(*machines); i++)
		try_machine(&machines[i]);
	try_this_one();
	return tap_done();
}
