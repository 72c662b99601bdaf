/* SPDX-License-Identifier: MIT */
/*
 * Puts what two sources know of one machine together. First all that both know
 * is compared and nothing is changed; then what is unknown is filled in. The
 * first machine's word stays where a difference is no contradiction (a link's
 * width changes with the load). Sources are numbered anew, for each machine
 * counts its own.
 */
#include "machine/machine.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

struct merge {
	struct oh__machine *into;
	const struct oh__machine *more;
	uint32_t source[OH__SOURCES + 1]; /* of more, as into counts them */
};

/* Enough for a name, a colon and a line. */
#define ORIGIN_BYTES (OH__TEXT_BYTES + 16)

/* Any datum that shows a machine's GPUs; they have no origin of their own. */
static struct oh__from origin_of_gpus(const struct oh__machine *machine)
{
	struct oh__from from = {.source = machine->source_count ? 1 : 0};

	if (oh__known(machine->link[0][0].from))
		return machine->link[0][0].from;
	if (oh__known(machine->gpu[0].name.from))
		return machine->gpu[0].name.from;
	if (oh__known(machine->gpu[0].uuid.from))
		return machine->gpu[0].uuid.from;
	return from;
}

static enum oh_status disagree(const struct merge *merge, const char *what,
			       const char *mine, struct oh__from mine_from,
			       const char *theirs, struct oh__from theirs_from)
{
	char a[ORIGIN_BYTES], b[ORIGIN_BYTES];

	oh__machine_origin(merge->into, mine_from, a, sizeof(a));
	oh__machine_origin(merge->more, theirs_from, b, sizeof(b));
	return OH__FAIL(OH_ERR_MISMATCH,
			"%s: %s says %.60s, %s says %.60s; give texts of one "
			"machine and one boot only",
			what, a, mine, b, theirs);
}

static enum oh_status compare_counts(const struct merge *merge)
{
	char mine[24], theirs[24];

	if (!merge->into->gpus || !merge->more->gpus ||
	    merge->into->gpus == merge->more->gpus)
		return OH_OK;
	snprintf(mine, sizeof(mine), "%d", merge->into->gpus);
	snprintf(theirs, sizeof(theirs), "%d", merge->more->gpus);
	return disagree(merge, "the number of GPUs differs", mine,
			origin_of_gpus(merge->into), theirs,
			origin_of_gpus(merge->more));
}

/* Older drivers leave the maker's name out. */
static const char *name_of_model(const char *name)
{
	return strncmp(name, "NVIDIA ", 7) ? name : name + 7;
}

static enum oh_status compare_names(const struct merge *merge)
{
	for (int i = 0; i < merge->more->gpus; i++) {
		const struct oh__text *mine = &merge->into->gpu[i].name;
		const struct oh__text *theirs = &merge->more->gpu[i].name;
		char what[48];

		if (!oh__known(mine->from) || !oh__known(theirs->from) ||
		    !strcmp(name_of_model(mine->text),
			    name_of_model(theirs->text)))
			continue;
		snprintf(what, sizeof(what), "the name of GPU%d differs", i);
		return disagree(merge, what, mine->text, mine->from,
				theirs->text, theirs->from);
	}
	return OH_OK;
}

static enum oh_status compare_link(const struct merge *merge, int from, int to)
{
	const struct oh__link *mine = &merge->into->link[from][to];
	const struct oh__link *theirs = &merge->more->link[from][to];
	char what[64], a[8], b[8];

	if (!oh__known(mine->from) || !oh__known(theirs->from) ||
	    (mine->kind == theirs->kind && mine->nvlinks == theirs->nvlinks))
		return OH_OK;
	snprintf(what, sizeof(what), "the link GPU%d-GPU%d differs", from, to);
	return disagree(merge, what, oh__link_text(mine, a), mine->from,
			oh__link_text(theirs, b), theirs->from);
}

static enum oh_status compare_peer(const struct merge *merge, int aspect,
				   int from, int to)
{
	static const char *const names[] = {"read", "write", "NVLink",
					    "atomics"};
	const struct oh__peer *mine = &merge->into->peer[aspect][from][to];
	const struct oh__peer *theirs = &merge->more->peer[aspect][from][to];
	char what[80];

	if (!oh__known(mine->from) || !oh__known(theirs->from) ||
	    mine->status == theirs->status)
		return OH_OK;
	snprintf(what, sizeof(what), "the peer status GPU%d-GPU%d (%s) differs",
		 from, to, names[aspect]);
	return disagree(merge, what, oh__peer_status_text(mine->status),
			mine->from, oh__peer_status_text(theirs->status),
			theirs->from);
}

static enum oh_status compare_pair(const struct merge *merge, int from, int to)
{
	enum oh_status status = compare_link(merge, from, to);

	for (int aspect = 0; !status && aspect < OH__PEER_ASPECTS; aspect++)
		status = compare_peer(merge, aspect, from, to);
	return status;
}

static enum oh_status compare(const struct merge *merge)
{
	enum oh_status status = compare_counts(merge);

	if (!status)
		status = compare_names(merge);
	for (int i = 0; !status && i < merge->more->gpus; i++)
		for (int j = 0; !status && j < merge->more->gpus; j++)
			status = compare_pair(merge, i, j);
	return status;
}

/* A datum's origin in the numbers of "into". */
static struct oh__from moved(const struct merge *merge, struct oh__from from)
{
	if (from.source > OH__SOURCES)
		from.source = OH__SOURCES;
	from.source = merge->source[from.source];
	return from;
}

static void take_number(const struct merge *merge, struct oh__number *mine,
			const struct oh__number *theirs)
{
	if (oh__known(mine->from) || !oh__known(theirs->from))
		return;
	*mine = *theirs;
	mine->from = moved(merge, theirs->from);
}

static void take_text(const struct merge *merge, struct oh__text *mine,
		      const struct oh__text *theirs)
{
	if (oh__known(mine->from) || !oh__known(theirs->from))
		return;
	*mine = *theirs;
	mine->from = moved(merge, theirs->from);
}

static void take_gpu(const struct merge *merge, struct oh__gpu *mine,
		     const struct oh__gpu *theirs)
{
	take_text(merge, &mine->name, &theirs->name);
	take_text(merge, &mine->uuid, &theirs->uuid);
	take_text(merge, &mine->pci, &theirs->pci);
	take_number(merge, &mine->capability, &theirs->capability);
	take_number(merge, &mine->memory_bytes, &theirs->memory_bytes);
	take_number(merge, &mine->numa_node, &theirs->numa_node);
	take_text(merge, &mine->cpu_affinity, &theirs->cpu_affinity);
	take_number(merge, &mine->pcie_gen, &theirs->pcie_gen);
	take_number(merge, &mine->pcie_gen_max, &theirs->pcie_gen_max);
	take_number(merge, &mine->pcie_width, &theirs->pcie_width);
	take_number(merge, &mine->pcie_width_max, &theirs->pcie_width_max);
	take_number(merge, &mine->mig, &theirs->mig);
}

static void take_pair(const struct merge *merge, int from, int to)
{
	struct oh__link *link = &merge->into->link[from][to];

	if (!oh__known(link->from)) {
		*link = merge->more->link[from][to];
		link->from = moved(merge, link->from);
	}
	for (int aspect = 0; aspect < OH__PEER_ASPECTS; aspect++) {
		struct oh__peer *peer = &merge->into->peer[aspect][from][to];

		if (oh__known(peer->from))
			continue;
		*peer = merge->more->peer[aspect][from][to];
		peer->from = moved(merge, peer->from);
	}
}

static void take_host(const struct merge *merge, struct oh__host *mine,
		      const struct oh__host *theirs)
{
	take_text(merge, &mine->driver, &theirs->driver);
	take_text(merge, &mine->cuda, &theirs->cuda);
	take_text(merge, &mine->cpu, &theirs->cpu);
	take_text(merge, &mine->kernel, &theirs->kernel);
	take_text(merge, &mine->command_line, &theirs->command_line);
	if (!oh__known(mine->iommu.from)) {
		mine->iommu = theirs->iommu;
		mine->iommu.from = moved(merge, theirs->iommu.from);
	}
	take_number(merge, &mine->acs_redirect, &theirs->acs_redirect);
	take_text(merge, &mine->vllm, &theirs->vllm);
	take_text(merge, &mine->sglang, &theirs->sglang);
	take_text(merge, &mine->nccl, &theirs->nccl);
	take_text(merge, &mine->torch, &theirs->torch);
}

static void take_variables(const struct merge *merge)
{
	struct oh__machine *into = merge->into;

	for (int i = 0; i < merge->more->variable_count; i++) {
		const struct oh__variable *theirs = &merge->more->variables[i];
		struct oh__variable *mine;

		if (into->variable_count == OH__VARIABLES ||
		    oh__machine_variable(into, theirs->name))
			continue;
		mine = &into->variables[into->variable_count++];
		*mine = *theirs;
		mine->from = moved(merge, theirs->from);
	}
}

static void take_remarks(const struct merge *merge)
{
	for (int i = 0; i < merge->more->remark_count; i++) {
		const struct oh__remark *remark = &merge->more->remarks[i];

		oh__machine_remark(merge->into, moved(merge, remark->from),
				   "%s", remark->text);
	}
}

enum oh_status oh__machine_merge(struct oh__machine *machine,
				 const struct oh__machine *more)
{
	struct merge merge = {.into = machine, .more = more};
	enum oh_status status = compare(&merge);

	if (status)
		return status;
	for (int i = 0; i < more->source_count; i++)
		merge.source[i + 1] =
			oh__machine_source(machine, more->sources[i]);
	if (!machine->gpus)
		machine->gpus = more->gpus;
	for (int i = 0; i < more->gpus; i++) {
		take_gpu(&merge, &machine->gpu[i], &more->gpu[i]);
		for (int j = 0; j < more->gpus; j++)
			take_pair(&merge, i, j);
	}
	take_host(&merge, &machine->host, &more->host);
	take_variables(&merge);
	take_remarks(&merge);
	return OH_OK;
}
