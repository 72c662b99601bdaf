/* SPDX-License-Identifier: MIT */
/*
 * A machine as a graph: islands are clusters, lines are drawn between GPUs
 * whose way is nearer than SYS, thick for NVLink. Names come from files that
 * anybody may have written, so quotes and backslashes are escaped.
 */
#include "tools/topo_write.h"

static void put_escaped(const char *text, FILE *out)
{
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc(*text, out);
	}
}

static void put_gpu(const struct oh__machine *machine, int index, FILE *out)
{
	const struct oh__gpu *gpu = &machine->gpu[index];

	fprintf(out, "    gpu%d [label=\"GPU%d", index, index);
	if (oh__known(gpu->name.from)) {
		fputs("\\n", out);
		put_escaped(gpu->name.text, out);
	}
	if (oh__known(gpu->pci.from)) {
		fputs("\\n", out);
		put_escaped(gpu->pci.text, out);
	}
	fputs("\"];\n", out);
}

static void put_islands(const struct oh__machine *machine, FILE *out)
{
	struct oh__groups islands;

	oh__machine_islands(machine, &islands);
	/* nothing is known of the links: GPUs without clusters */
	for (int i = 0; !islands.count && i < machine->gpus; i++)
		put_gpu(machine, i, out);
	for (int i = 0; i < islands.count; i++) {
		fprintf(out,
			"  subgraph cluster_%d {\n    label=\"island %d\";\n",
			i, i);
		for (int j = 0; j < islands.size[i]; j++)
			put_gpu(machine, islands.member[i][j], out);
		fputs("  }\n", out);
	}
}

static void put_link(const struct oh__machine *machine, int a, int b, FILE *out)
{
	static const char *const styles[] = {
		[OH__LINK_NV] = "penwidth=3",	  [OH__LINK_PIX] = "penwidth=2",
		[OH__LINK_PXB] = "penwidth=2",	  [OH__LINK_PHB] = "penwidth=1",
		[OH__LINK_NODE] = "style=dashed",
	};
	const struct oh__link *link = &machine->link[a][b];
	char text[8];

	if (!oh__known(link->from) || link->kind < OH__LINK_NV ||
	    link->kind > OH__LINK_NODE)
		return;
	fprintf(out, "  gpu%d -- gpu%d [label=\"%s\", %s];\n", a, b,
		oh__link_text(link, text), styles[link->kind]);
}

void topo_write_dot(const struct oh__machine *machine, FILE *out)
{
	fputs("graph machine {\n  node [shape=box];\n", out);
	put_islands(machine, out);
	for (int i = 0; i < machine->gpus; i++)
		for (int j = i + 1; j < machine->gpus; j++)
			put_link(machine, i, j, out);
	fputs("}\n", out);
}
