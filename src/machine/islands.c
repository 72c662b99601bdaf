/* SPDX-License-Identifier: MIT */
/*
 * Which GPUs are near each other, told from the links alone. Groups are the
 * components of a relation: a GPU joins a group if it is near any member, for
 * bridges and switches chain. Only what is known joins; an unknown link joins
 * nothing.
 */
#include "machine/machine.h"

#include <string.h>

typedef bool near_test(const struct oh__machine *machine, int a, int b);

/* Either direction will do where a source gave only one. */
static enum oh__link_kind kind_of(const struct oh__machine *machine, int a,
				  int b)
{
	const struct oh__link *link = &machine->link[a][b];

	if (!oh__known(link->from))
		link = &machine->link[b][a];
	return oh__known(link->from) ? link->kind : OH__LINK_UNKNOWN;
}

static bool near_by_nvlink(const struct oh__machine *machine, int a, int b)
{
	return kind_of(machine, a, b) == OH__LINK_NV;
}

static bool near_by_pix(const struct oh__machine *machine, int a, int b)
{
	return kind_of(machine, a, b) == OH__LINK_PIX;
}

static bool near_by_pcie(const struct oh__machine *machine, int a, int b)
{
	enum oh__link_kind kind = kind_of(machine, a, b);

	return kind >= OH__LINK_PIX && kind <= OH__LINK_NODE;
}

static bool near_by_numa(const struct oh__machine *machine, int a, int b)
{
	const struct oh__number *node_a = &machine->gpu[a].numa_node;
	const struct oh__number *node_b = &machine->gpu[b].numa_node;

	return oh__known(node_a->from) && oh__known(node_b->from) &&
	       node_a->value == node_b->value;
}

/* Whoever is near a group's member is one; "near" is asked until no GPU is
 * added. label[i] is the lowest GPU of i's group. Only GPUs of which "among"
 * says so take part. */
static void find_components(const struct oh__machine *machine,
			    const bool *among, near_test *near, int *label)
{
	bool changed = true;

	for (int i = 0; i < machine->gpus; i++)
		label[i] = i;
	while (changed) {
		changed = false;
		for (int i = 0; i < machine->gpus; i++)
			for (int j = 0; j < machine->gpus; j++)
				if (i != j && among[i] && among[j] &&
				    label[j] < label[i] &&
				    near(machine, i, j)) {
					label[i] = label[j];
					changed = true;
				}
	}
}

/* Groups in the order of their lowest members, of "least" GPUs and more. */
static void list_groups(const struct oh__machine *machine, const int *label,
			int least, struct oh__groups *groups)
{
	memset(groups, 0, sizeof(*groups));
	for (int i = 0; i < machine->gpus; i++) {
		int *member = groups->member[groups->count];
		int size = 0;

		for (int j = i; j < machine->gpus; j++)
			if (label[j] == i)
				member[size++] = j;
		if (size >= least && size > 0) {
			groups->size[groups->count] = size;
			groups->count++;
		}
	}
}

/* Every pair of these GPUs is known to be SYS. */
static bool all_sys(const struct oh__machine *machine, const bool *among)
{
	for (int i = 0; i < machine->gpus; i++)
		for (int j = 0; j < machine->gpus; j++)
			if (i != j && among[i] && among[j] &&
			    kind_of(machine, i, j) != OH__LINK_SYS)
				return false;
	return true;
}

static bool any_link(const struct oh__machine *machine)
{
	for (int i = 0; i < machine->gpus; i++)
		for (int j = 0; j < machine->gpus; j++)
			if (i != j &&
			    kind_of(machine, i, j) != OH__LINK_UNKNOWN)
				return true;
	/* a machine of one GPU has no link that could be unknown */
	return machine->gpus == 1;
}

void oh__machine_islands(const struct oh__machine *machine,
			 struct oh__groups *islands)
{
	bool all[OH__GPUS], rest[OH__GPUS];
	int label[OH__GPUS], label_rest[OH__GPUS];

	memset(islands, 0, sizeof(*islands));
	if (!any_link(machine))
		return;
	memset(all, true, sizeof(all));
	find_components(machine, all, near_by_nvlink, label);
	memcpy(rest, all, sizeof(rest));
	for (int i = 0; i < machine->gpus; i++)
		for (int j = 0; j < machine->gpus; j++)
			if (i != j && near_by_nvlink(machine, i, j))
				rest[i] = false;
	find_components(machine, rest,
			all_sys(machine, rest) ? near_by_numa : near_by_pcie,
			label_rest);
	for (int i = 0; i < machine->gpus; i++)
		if (rest[i])
			label[i] = label_rest[i];
	list_groups(machine, label, 1, islands);
}

void oh__machine_switch_groups(const struct oh__machine *machine,
			       struct oh__groups *groups)
{
	bool all[OH__GPUS];
	int label[OH__GPUS];

	memset(all, true, sizeof(all));
	find_components(machine, all, near_by_pix, label);
	list_groups(machine, label, 2, groups);
}

/* OH__PEER_OK if reads and writes, as far as they were asked, are. */
static enum oh__peer_status peer_of_pair(const struct oh__machine *machine,
					 int from, int to)
{
	enum oh__peer_status worst = OH__PEER_NOT_ASKED;

	for (int aspect = OH__PEER_READ; aspect <= OH__PEER_WRITE; aspect++) {
		const struct oh__peer *peer = &machine->peer[aspect][from][to];

		if (oh__known(peer->from) && peer->status > worst)
			worst = peer->status;
	}
	return worst;
}

enum oh__peer_summary oh__machine_peers(const struct oh__machine *machine)
{
	int pairs = machine->gpus * (machine->gpus - 1), ok = 0;

	if (machine->gpus < 2)
		return OH__PEERS_UNKNOWN;
	for (int i = 0; i < machine->gpus; i++) {
		for (int j = 0; j < machine->gpus; j++) {
			enum oh__peer_status status;

			if (i == j)
				continue;
			status = peer_of_pair(machine, i, j);
			if (status == OH__PEER_NOT_ASKED)
				return OH__PEERS_UNKNOWN;
			ok += status == OH__PEER_OK;
		}
	}
	if (ok == pairs)
		return OH__PEERS_ALL;
	return ok ? OH__PEERS_SOME : OH__PEERS_NONE;
}
