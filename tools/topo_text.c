/* SPDX-License-Identifier: MIT */
/*
 * A machine for people: the matrix of links, what the driver says of peer
 * access, the tree of NUMA nodes, islands and switch groups, and the host. What
 * is not known is not written, but for links and peer access, whose absence is
 * news.
 */
#include <inttypes.h>
#include <string.h>

#include "tools/page.h"
#include "tools/topo_write.h"

#define WIDTH 80
#define LABEL 12 /* where texts begin behind their label */
/* Up to so many GPUs a cell has room to breathe. */
#define WIDE_GPUS 11

#define ORIGIN_BYTES (OH__TEXT_BYTES + 16)

typedef const char *cell_text(const struct oh__machine *machine, int aspect,
			      int from, int to, char text[8]);

static const char *link_cell(const struct oh__machine *machine, int aspect,
			     int from, int to, char text[8])
{
	return oh__link_text(&machine->link[from][to], text);
}

static const char *peer_cell(const struct oh__machine *machine, int aspect,
			     int from, int to, char text[8])
{
	const struct oh__peer *peer = &machine->peer[aspect][from][to];

	if (from == to)
		return "X";
	return oh__known(peer->from) ? oh__peer_status_text(peer->status) : "?";
}

/* 8 GPUs take 6 + 8 * 6 columns. */
static void put_matrix(const struct page *page,
		       const struct oh__machine *machine, cell_text *cell,
		       int aspect)
{
	bool wide = machine->gpus <= WIDE_GPUS;

	fprintf(page->out, "%6s", "");
	for (int i = 0; i < machine->gpus; i++)
		fprintf(page->out, wide ? "  GPU%-1d" : "%5d", i);
	for (int i = 0; i < machine->gpus; i++) {
		char text[16];

		snprintf(text, sizeof(text), "GPU%d", i);
		fprintf(page->out, "\n%-6s", text);
		for (int j = 0; j < machine->gpus; j++)
			fprintf(page->out, wide ? "%6s" : "%5s",
				cell(machine, aspect, i, j, text));
	}
	fputc('\n', page->out);
}

/* --- peer access --- */

/* The status that all pairs have, NULL if they differ. */
static const char *common_status(const struct oh__machine *machine, int aspect)
{
	const char *common = NULL;

	for (int i = 0; i < machine->gpus; i++) {
		for (int j = 0; j < machine->gpus; j++) {
			const char *text =
				peer_cell(machine, aspect, i, j, NULL);

			if (i == j)
				continue;
			if (common && strcmp(common, text))
				return NULL;
			common = text;
		}
	}
	return common;
}

static bool is_asked(const struct oh__machine *machine, int aspect)
{
	for (int i = 0; i < machine->gpus; i++)
		for (int j = 0; j < machine->gpus; j++)
			if (oh__known(machine->peer[aspect][i][j].from))
				return true;
	return false;
}

static void put_peers(const struct page *page,
		      const struct oh__machine *machine)
{
	bool asked = false;

	if (machine->gpus < 2)
		return;
	page_head(page, "Peer access, the driver's word");
	for (int i = 0; i < OH__PEER_ASPECTS; i++) {
		const char *name = topo_aspect_name((enum oh__peer_aspect)i);
		const char *common = common_status(machine, i);

		if (!is_asked(machine, i))
			continue;
		asked = true;
		if (common) {
			page_write(page, LABEL, PAGE_PLAIN, name,
				   "%s for every pair", common);
			continue;
		}
		page_write(page, LABEL, PAGE_PLAIN, name, "from row to column");
		put_matrix(page, machine, peer_cell, i);
	}
	if (!asked)
		page_write(page, 0, PAGE_PLAIN, "",
			   "not known: `nvidia-smi topo -p2p r` and `-p2p w` "
			   "tell it");
}

/* --- the tree --- */

/* Nodes in ascending order, those that are not known last. */
static uint64_t node_of(const struct oh__machine *machine, int gpu)
{
	const struct oh__number *node = &machine->gpu[gpu].numa_node;

	return oh__known(node->from) ? node->value : UINT64_MAX;
}

static bool next_node(const struct oh__machine *machine, bool first,
		      uint64_t *node)
{
	bool found = false;
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < machine->gpus; i++) {
		uint64_t value = node_of(machine, i);

		if ((!first && value <= *node) || (found && value > best))
			continue;
		found = true;
		best = value;
	}
	*node = best;
	return found;
}

static int group_of(const struct oh__groups *groups, int gpu)
{
	for (int i = 0; i < groups->count; i++)
		for (int j = 0; j < groups->size[i]; j++)
			if (groups->member[i][j] == gpu)
				return i;
	return -1;
}

/* "gen 1 x8 of at most gen 4 x16", without what is the same or not known. */
static void describe_pcie(const struct oh__gpu *gpu, char *text, size_t bytes)
{
	const struct oh__number *now[] = {&gpu->pcie_gen, &gpu->pcie_width};
	const struct oh__number *most[] = {&gpu->pcie_gen_max,
					   &gpu->pcie_width_max};
	static const char *const names[] = {"gen ", "x"};
	const char *before = ", PCIe ";
	size_t used = 0;

	*text = '\0';
	for (int i = 0; i < 2 && used < bytes; i++) {
		if (!oh__known(now[i]->from))
			continue;
		used += (size_t)snprintf(text + used, bytes - used,
					 "%s%s%" PRIu64, before, names[i],
					 now[i]->value);
		before = " ";
	}
	before = used ? " of at most " : ", PCIe at most ";
	for (int i = 0; i < 2 && used < bytes; i++) {
		if (!oh__known(most[i]->from) ||
		    (oh__known(now[i]->from) &&
		     now[i]->value == most[i]->value))
			continue;
		used += (size_t)snprintf(text + used, bytes - used,
					 "%s%s%" PRIu64, before, names[i],
					 most[i]->value);
		before = " ";
	}
}

static void put_gpu(const struct page *page, const struct oh__machine *machine,
		    int index, int indent)
{
	const struct oh__gpu *gpu = &machine->gpu[index];
	char label[32], pcie[96], rest[96] = "", text[3 * OH__TEXT_BYTES + 64];
	size_t used = 0;

	snprintf(label, sizeof(label), "%*sGPU%d", indent, "", index);
	describe_pcie(gpu, pcie, sizeof(pcie));
	if (oh__known(gpu->memory_bytes.from))
		used += (size_t)snprintf(rest + used, sizeof(rest) - used,
					 ", %" PRIu64 " MiB",
					 gpu->memory_bytes.value >> 20);
	if (oh__known(gpu->capability.from))
		used += (size_t)snprintf(rest + used, sizeof(rest) - used,
					 ", compute capability %d.%d",
					 (int)(gpu->capability.value / 10),
					 (int)(gpu->capability.value % 10));
	if (oh__known(gpu->mig.from) && gpu->mig.value)
		snprintf(rest + used, sizeof(rest) - used, ", MIG");
	snprintf(text, sizeof(text), "%s%s%s%s%s",
		 oh__known(gpu->name.from) ? gpu->name.text : "",
		 oh__known(gpu->pci.from) ? ", " : "", gpu->pci.text, pcie,
		 rest);
	/* nothing may stand in front of the first comma */
	page_write(page, indent + 7, PAGE_PLAIN, label, "%s",
		   *text == ',' ? text + 2 : text);
}

/* What a GPU of the tree stands below. */
struct branch {
	uint64_t node;
	int island, group;
};

/* A line for each step that differs from that of the GPU above. */
static int put_branch(const struct page *page, const struct branch *now,
		      const struct branch *last)
{
	int indent = 2;

	if (now->island >= 0) {
		if (now->island != last->island)
			fprintf(page->out, "%*sisland %d\n", indent, "",
				now->island);
		indent += 2;
	}
	if (now->group >= 0) {
		if (now->group != last->group)
			fprintf(page->out, "%*sswitch group %d\n", indent, "",
				now->group);
		indent += 2;
	}
	return indent;
}

/* Does a switch group lie within one island of one node? NVLink may lead out of
 * it, and a tree cannot show that. */
static bool is_nested(const struct oh__machine *machine,
		      const struct oh__groups *islands,
		      const struct oh__groups *groups, int group)
{
	int first = groups->member[group][0];

	for (int i = 1; i < groups->size[group]; i++) {
		int gpu = groups->member[group][i];

		if (node_of(machine, gpu) != node_of(machine, first) ||
		    group_of(islands, gpu) != group_of(islands, first))
			return false;
	}
	return true;
}

static void put_node(const struct page *page, const struct oh__machine *machine,
		     uint64_t node)
{
	struct branch last = {node, -1, -1};
	struct oh__groups islands, groups;

	oh__machine_islands(machine, &islands);
	oh__machine_switch_groups(machine, &groups);
	/* island by island, whose members may cross in their numbers */
	for (int island = islands.count ? 0 : -1; island < islands.count;
	     island++) {
		for (int i = 0; i < machine->gpus; i++) {
			struct branch now = {node, island,
					     group_of(&groups, i)};

			if (node_of(machine, i) != node ||
			    group_of(&islands, i) != island)
				continue;
			if (now.group >= 0 &&
			    !is_nested(machine, &islands, &groups, now.group))
				now.group = -1;
			put_gpu(page, machine, i,
				put_branch(page, &now, &last));
			last = now;
		}
	}
}

static void put_tree(const struct page *page, const struct oh__machine *machine)
{
	uint64_t node = 0;

	page_head(page, "Tree");
	for (bool first = true; next_node(machine, first, &node);
	     first = false) {
		if (node == UINT64_MAX)
			fputs("NUMA node not known\n", page->out);
		else
			fprintf(page->out, "NUMA node %" PRIu64 "\n", node);
		put_node(page, machine, node);
		if (node == UINT64_MAX)
			break;
	}
}

/* --- the rest --- */

/* "0 1 2 3 | 4 5 6 7" */
static void put_groups(const struct page *page, const char *label,
		       const struct oh__groups *groups)
{
	char text[512] = "";
	size_t used = 0;

	for (int i = 0; i < groups->count; i++)
		for (int j = 0; j < groups->size[i] && used < sizeof(text); j++)
			used += (size_t)snprintf(text + used,
						 sizeof(text) - used, "%s%d",
						 j   ? " "
						 : i ? " | "
						     : "",
						 groups->member[i][j]);
	if (groups->count)
		page_write(page, LABEL + 4, PAGE_PLAIN, label, "%s", text);
}

static void put_islands(const struct page *page,
			const struct oh__machine *machine)
{
	struct oh__groups islands, groups;

	oh__machine_islands(machine, &islands);
	oh__machine_switch_groups(machine, &groups);
	page_head(page, "Islands");
	put_groups(page, "islands", &islands);
	put_groups(page, "switch groups", &groups);
	if (!islands.count)
		page_write(page, 0, PAGE_PLAIN, "",
			   "not known without the links");
}

static void put_text(const struct page *page, const struct oh__machine *machine,
		     const char *label, const struct oh__text *text)
{
	char origin[ORIGIN_BYTES];

	if (oh__known(text->from))
		page_write(page, LABEL, PAGE_PLAIN, label, "%s (%s)",
			   text->text,
			   oh__machine_origin(machine, text->from, origin,
					      sizeof(origin)));
}

static bool knows_host(const struct oh__machine *machine)
{
	const struct oh__host *host = &machine->host;
	const struct oh__from from[] = {
		host->driver.from,	 host->cuda.from,
		host->cpu.from,		 host->kernel.from,
		host->command_line.from, host->iommu.from,
		host->acs_redirect.from, host->vllm.from,
		host->sglang.from,	 host->nccl.from,
		host->torch.from,
	};

	for (size_t i = 0; i < sizeof(from) / sizeof(*from); i++)
		if (oh__known(from[i]))
			return true;
	return machine->variable_count > 0;
}

static void put_host(const struct page *page, const struct oh__machine *machine)
{
	const struct oh__host *host = &machine->host;
	char origin[ORIGIN_BYTES];

	if (!knows_host(machine))
		return;
	page_head(page, "Host");
	put_text(page, machine, "driver", &host->driver);
	put_text(page, machine, "CUDA", &host->cuda);
	put_text(page, machine, "processor", &host->cpu);
	put_text(page, machine, "kernel", &host->kernel);
	put_text(page, machine, "boot", &host->command_line);
	if (oh__known(host->iommu.from))
		page_write(page, LABEL, PAGE_PLAIN, "IOMMU", "%s (%s)",
			   topo_iommu_name(host->iommu.mode),
			   oh__machine_origin(machine, host->iommu.from, origin,
					      sizeof(origin)));
	if (oh__known(host->acs_redirect.from))
		page_write(page, LABEL, PAGE_PLAIN, "ACS",
			   "%" PRIu64 " bridge%s redirect%s peer traffic (%s)",
			   host->acs_redirect.value,
			   host->acs_redirect.value == 1 ? "" : "s",
			   host->acs_redirect.value == 1 ? "s" : "",
			   oh__machine_origin(machine, host->acs_redirect.from,
					      origin, sizeof(origin)));
	put_text(page, machine, "vLLM", &host->vllm);
	put_text(page, machine, "SGLang", &host->sglang);
	put_text(page, machine, "NCCL", &host->nccl);
	put_text(page, machine, "PyTorch", &host->torch);
	for (int i = 0; i < machine->variable_count; i++)
		page_write(page, LABEL, PAGE_PLAIN, "variable", "%s=%s",
			   machine->variables[i].name,
			   machine->variables[i].value);
}

static void put_remarks(const struct page *page,
			const struct oh__machine *machine)
{
	if (machine->remark_count)
		page_head(page, "Remarks");
	for (int i = 0; i < machine->remark_count; i++) {
		const struct oh__remark *remark = &machine->remarks[i];
		char origin[ORIGIN_BYTES];

		oh__machine_origin(machine, remark->from, origin,
				   sizeof(origin));
		page_write(page, 2, PAGE_PLAIN, "", "%s: %s", origin,
			   remark->text);
	}
}

static bool any_link(const struct oh__machine *machine)
{
	for (int i = 0; i < machine->gpus; i++)
		for (int j = 0; j < machine->gpus; j++)
			if (oh__known(machine->link[i][j].from))
				return true;
	return false;
}

void topo_write_text(const struct oh__machine *machine, bool colour, FILE *out)
{
	struct page page = {out, WIDTH, colour};
	char origin[ORIGIN_BYTES];

	fprintf(out, "%d GPU%s\n", machine->gpus,
		machine->gpus == 1 ? "" : "s");
	page_head(&page, "Links");
	if (any_link(machine)) {
		put_matrix(&page, machine, link_cell, 0);
		page_write(&page, 0, PAGE_DIM, "", "from %s",
			   oh__machine_origin(machine, machine->link[0][0].from,
					      origin, sizeof(origin)));
	} else {
		page_write(&page, 0, PAGE_PLAIN, "",
			   "not known: `nvidia-smi topo -m` tells them");
	}
	put_peers(&page, machine);
	put_tree(&page, machine);
	put_islands(&page, machine);
	put_host(&page, machine);
	put_remarks(&page, machine);
}
