/* SPDX-License-Identifier: MIT */
/*
 * Reads the machine's tree with hwloc. hwloc may be told to read another
 * machine's (HWLOC_SYNTHETIC, HWLOC_XMLFILE); that one is not cut down to what
 * this process may use, so tests can show any shape of machine.
 */
#include "tools/binding.h"

#include <errno.h>
#include <hwloc.h>
#include <sched.h>
#include <stddef.h>

/* The kernel's largest NR_CPUS is 8192. */
#define CPUS 8192

static hwloc_topology_t load_tree(void)
{
	hwloc_topology_t tree;

	if (hwloc_topology_init(&tree))
		return NULL;
	if (hwloc_topology_load(tree)) {
		hwloc_topology_destroy(tree);
		return NULL;
	}
	return tree;
}

/* What may be used of the tree; NULL if it cannot be had. */
static hwloc_bitmap_t allowed(hwloc_topology_t tree)
{
	hwloc_bitmap_t set =
		hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(tree));
	cpu_set_t mine[CPUS / CPU_SETSIZE];

	if (!set || !hwloc_topology_is_thissystem(tree))
		return set;
	if (sched_getaffinity(0, sizeof(mine), mine)) {
		hwloc_bitmap_free(set);
		return NULL;
	}
	for (int cpu = 0; cpu < CPUS; cpu++)
		if (!CPU_ISSET_S((size_t)cpu, sizeof(mine), mine))
			hwloc_bitmap_clr(set, (unsigned)cpu);
	return set;
}

/* The processor that is number skip among those of core that are in set; -1
 * if there are not so many. */
static int nth_processor(hwloc_obj_t core, hwloc_const_bitmap_t set, int skip)
{
	int cpu = -1;

	while ((cpu = hwloc_bitmap_next(core->cpuset, cpu)) >= 0)
		if (hwloc_bitmap_isset(set, (unsigned)cpu) && !skip--)
			return cpu;
	return -1;
}

static bool choose(hwloc_topology_t tree, hwloc_const_bitmap_t set, int ranks,
		   int *cpu)
{
	/* machines that show no cores have their processors counted as such */
	int depth = hwloc_get_type_or_below_depth(tree, HWLOC_OBJ_CORE);
	int processors = hwloc_bitmap_weight(set);
	int cores = (int)hwloc_get_nbobjs_by_depth(tree, depth);
	int found = 0;

	if (ranks > processors)
		return false;
	for (int thread = 0; thread < processors && found < ranks; thread++) {
		for (int i = 0; i < cores && found < ranks; i++) {
			hwloc_obj_t core = hwloc_get_obj_by_depth(tree, depth,
								  (unsigned)i);
			int chosen = nth_processor(core, set, thread);

			if (chosen >= 0)
				cpu[found++] = chosen;
		}
	}
	return found == ranks;
}

int binding_processors(void)
{
	cpu_set_t mine[CPUS / CPU_SETSIZE];

	if (sched_getaffinity(0, sizeof(mine), mine))
		return 1;
	return CPU_COUNT_S(sizeof(mine), mine);
}

bool binding_choose(int ranks, int *cpu)
{
	hwloc_topology_t tree = load_tree();
	hwloc_bitmap_t set = NULL;
	bool chosen = false;

	if (!tree)
		return false;
	set = allowed(tree);
	if (set)
		chosen = choose(tree, set, ranks, cpu);
	hwloc_bitmap_free(set);
	hwloc_topology_destroy(tree);
	return chosen;
}

bool binding_pin(int cpu)
{
	cpu_set_t set[CPUS / CPU_SETSIZE];

	if (cpu < 0 || cpu >= CPUS) {
		errno = EINVAL;
		return false;
	}
	CPU_ZERO_S(sizeof(set), set);
	CPU_SET_S((size_t)cpu, sizeof(set), set);
	return !sched_setaffinity(0, sizeof(set), set);
}
