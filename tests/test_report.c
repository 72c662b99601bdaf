/* SPDX-License-Identifier: MIT */
/*
 * Matrices that people paste: one small machine in every form that terminals,
 * chat programs and log collectors give it, and damaged matrices and what is
 * said of them.
 */
#include "report_reader.h"
#include "tap.h"

/* Four GPUs, two a node: 0-1 PIX, 2-3 PHB, SYS between. */
#define FOUR                                                                   \
	"\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n" \
	"GPU0\t X \tPIX\tSYS\tSYS\t0-15\t0\t\tN/A\n"                           \
	"GPU1\tPIX\t X \tSYS\tSYS\t0-15\t0\t\tN/A\n"                           \
	"GPU2\tSYS\tSYS\t X \tPHB\t16-31\t1\t\tN/A\n"                          \
	"GPU3\tSYS\tSYS\tPHB\t X \t16-31\t1\t\tN/A\n"
/* What is read of it: links, then node and processors, row by row. */
#define FOUR_LINKS "X PIX SYS SYS|PIX X SYS SYS|SYS SYS X PHB|SYS SYS PHB X"
#define FOUR_READ FOUR_LINKS " 0(0-15) 0(0-15) 1(16-31) 1(16-31)"

#define TWO                                                                    \
	"\tGPU0\tGPU1\tCPU Affinity\n"                                         \
	"GPU0\t X \tNV4\t0-7\n"                                                \
	"GPU1\tNV4\t X \t0-7\n"

/* The machine as the strings above have it. */
static const char *describe(const struct oh__machine *machine)
{
	static char text[8192];
	size_t used = 0;
	char link[8];

	*text = '\0';
	for (int i = 0; i < machine->gpus; i++)
		for (int j = 0; j < machine->gpus; j++)
			used += (size_t)snprintf(
				text + used, sizeof(text) - used, "%s%s",
				j   ? " "
				: i ? "|"
				    : "",
				oh__link_text(&machine->link[i][j], link));
	for (int i = 0; i < machine->gpus; i++) {
		const struct oh__gpu *gpu = &machine->gpu[i];

		if (oh__known(gpu->numa_node.from))
			used += (size_t)snprintf(text + used,
						 sizeof(text) - used, " %d",
						 (int)gpu->numa_node.value);
		else
			used += (size_t)snprintf(text + used,
						 sizeof(text) - used, " ?");
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "(%s)", gpu->cpu_affinity.text);
	}
	return text;
}

static struct reading reading;

static void read_text(const char *text)
{
	read_report("report.txt", text, strlen(text), &reading);
}

struct form {
	const char *what, *text, *read;
	const char *remark; /* a part of the only remark; NULL: none */
};

static const struct form forms[] = {
	{"as nvidia-smi prints it", FOUR, FOUR_READ, NULL},
	{"the header underlined",
	 "\t\x1b[4mGPU0\tGPU1\tCPU Affinity\x1b[0m\n"
	 "GPU0\t X \tNV4\t0-7\nGPU1\tNV4\t X \t0-7\n",
	 "X NV4|NV4 X ?(0-7) ?(0-7)", NULL},
	{"the escapes without their first byte",
	 "\t[4mGPU0\tGPU1\tCPU Affinity[0m\n"
	 "GPU0\t X \tNV4\t0-7\nGPU1\tNV4\t X \t0-7\n",
	 "X NV4|NV4 X ?(0-7) ?(0-7)", NULL},
	{"the escapes spelt out",
	 "\t\\x1b[4mGPU0\tGPU1\tCPU Affinity\\u001b[0m\n"
	 "GPU0\t X \tNV4\t^[[1m0-7^[[0m\nGPU1\tNV4\t X \t0-7\n",
	 "X NV4|NV4 X ?(0-7) ?(0-7)", NULL},
	{"carriage returns",
	 "\tGPU0\tGPU1\tCPU Affinity\r\n"
	 "GPU0\t X \tNV4\t0-7\r\nGPU1\tNV4\t X \t0-7\r\n",
	 "X NV4|NV4 X ?(0-7) ?(0-7)", NULL},
	/* a tab goes on to the next column that divides by 8 */
	{"tabs as blanks",
	 "        GPU0    GPU1    CPU Affinity    NUMA Affinity   GPU NUMA ID\n"
	 "GPU0     X      PHB     0-15    0               N/A\n"
	 "GPU1    PHB      X      0-15    0               N/A\n",
	 "X PHB|PHB X 0(0-15) 0(0-15)", NULL},
	{"one blank between",
	 "GPU0 GPU1 CPU Affinity NUMA Affinity GPU NUMA ID\n"
	 "GPU0 X PHB 0-15 3 N/A\nGPU1 PHB X 0-15 3 N/A\n",
	 "X PHB|PHB X 3(0-15) 3(0-15)", NULL},
	{"a quotation", "> \tGPU0\tGPU1\n> GPU0\t X \tNV4\n> GPU1\tNV4\t X \n",
	 "X NV4|NV4 X ?() ?()", NULL},
	{"docker compose in front",
	 "vllm-1  | \tGPU0\tGPU1\nvllm-1  | GPU0\t X \tNV4\n"
	 "vllm-1  | GPU1\tNV4\t X \n",
	 "X NV4|NV4 X ?() ?()", NULL},
	{"journald in front",
	 "Aug 06 02:11:09 host vllm[12]: \tGPU0\tGPU1\n"
	 "Aug 06 02:11:09 host vllm[12]: GPU0\t X \tNV4\n"
	 "Aug 06 02:11:09 host vllm[12]: GPU1\tNV4\t X \n",
	 "X NV4|NV4 X ?() ?()", NULL},
	{"Kubernetes in front",
	 "2026-08-06T02:11:09.1Z stdout F \tGPU0\tGPU1\n"
	 "2026-08-06T02:11:09.1Z stdout F GPU0\t X \tNV4\n"
	 "2026-08-06T02:11:09.1Z stdout F GPU1\tNV4\t X \n",
	 "X NV4|NV4 X ?() ?()", NULL},
	{"line numbers in front",
	 "  1\t\tGPU0\tGPU1\n  2\tGPU0\t X \tNV4\n  3\tGPU1\tNV4\t X \n",
	 "X NV4|NV4 X ?() ?()", NULL},
	{"a code fence and prose around",
	 "My GPUs (GPU0 is in slot 1):\n```\n" TWO "```\nGPU0 hangs first.\n",
	 "X NV4|NV4 X ?(0-7) ?(0-7)", NULL},
	{"a table in Markdown",
	 "| | GPU0 | GPU1 | CPU Affinity |\n|---|---|---|---|\n"
	 "| GPU0 | X | NV4 | 0-7 |\n| GPU1 | NV4 | X | 0-7 |\n",
	 "X NV4|NV4 X ?(0-7) ?(0-7)", NULL},
	{"a table in Markdown with bold cells and short names",
	 "| | GPU0 | GPU1 | CPU | NUMA |\n|---|:-:|:-:|---|---|\n"
	 "| **GPU0** | X | **NV4** | `0-7` | 1 |\n"
	 "| **GPU1** | **NV4** | X | `0-7` | 1 |\n",
	 "X NV4|NV4 X 1(0-7) 1(0-7)", NULL},
	{"a short name alone is no header",
	 "GPU0 GPU1 CPU\nis what I watched.\n" TWO, "X NV4|NV4 X ?(0-7) ?(0-7)",
	 NULL},
	{"HTML",
	 "<pre>&#9;GPU0&nbsp;&nbsp;GPU1<br>\nGPU0&#9;X&#9;NV4<br>\n"
	 "&gt; GPU1&#9;NV4&#9;X</pre>\n",
	 "X NV4|NV4 X ?() ?()", NULL},
	{"blanks that do not break",
	 "\xc2\xa0\xc2\xa0GPU0\xc2\xa0GPU1\nGPU0\xc2\xa0X\xc2\xa0NV4\n"
	 "GPU1\xc2\xa0NV4\xc2\xa0X\n",
	 "X NV4|NV4 X ?() ?()", NULL},
	{"empty lines between",
	 "\tGPU0\tGPU1\n\nGPU0\t X \tNV4\n\n\n"
	 "GPU1\tNV4\t X \n",
	 "X NV4|NV4 X ?() ?()", NULL},
	{"log lines between",
	 "\tGPU0\tGPU1\nINFO 08-06 02:11:09 starting\nGPU0\t X \tNV4\n"
	 "(Worker pid=3) INFO using GPU0 for rank 0\nGPU1\tNV4\t X \n",
	 "X NV4|NV4 X ?() ?()", NULL},
	{"NIC columns and rows",
	 "\tGPU0\tGPU1\tmlx5_0\tNIC1\tbond0\tCPU Affinity\tNUMA Affinity\n"
	 "GPU0\t X \tPXB\tPIX\tSYS\tSYS\t0-7\t2\n"
	 "GPU1\tPXB\t X \tPIX\tSYS\tSYS\t0-7\t2\n"
	 "mlx5_0\tPIX\tPIX\t X \tSYS\tSYS\n"
	 "NIC1\tSYS\tSYS\tSYS\t X \tSYS\n"
	 "bond0\tSYS\tSYS\tSYS\tSYS\t X \n",
	 "X PXB|PXB X 2(0-7) 2(0-7)", NULL},
	{"the words of old drivers",
	 "\tGPU0\tGPU1\tGPU2\tCPU Affinity\nGPU0\t X \tPSB\tSOC\t0-7\n"
	 "GPU1\tPSB\t X \tSOC\t0-7\nGPU2\tSOC\tSOC\t X \t8-15\n",
	 "X PIX SYS|PIX X SYS|SYS SYS X ?(0-7) ?(0-7) ?(8-15)", NULL},
	{"no affinity columns",
	 "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tPHB\tSYS\nGPU1\tPHB\t X \tSYS\n"
	 "GPU2\tSYS\tSYS\t X \n",
	 "X PHB SYS|PHB X SYS|SYS SYS X ?() ?() ?()", NULL},
	{"ranges of nodes stay unknown",
	 "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\n"
	 "GPU0\t X \tPHB\t0-63\t0-1\nGPU1\tPHB\t X \t0-63\tN/A\n",
	 "X PHB|PHB X ?(0-63) ?(0-63)", NULL},
	/* tabs keep empty cells: the last N/A is that of GPU NUMA ID */
	{"empty affinity cells between tabs",
	 "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
	 "GPU0\t X \tPHB\t\t1\t\tN/A\nGPU1\tPHB\t X \t\t\t\tN/A\n",
	 "X PHB|PHB X 1() ?()", NULL},
	/* a 4 under GPU NUMA ID is no node of the processor */
	{"empty affinity cells as blanks",
	 "       GPU0   GPU1   CPU Affinity  NUMA Affinity  GPU NUMA ID\n"
	 "GPU0    X     PHB    0-71                         4\n"
	 "GPU1   PHB     X                   1\n",
	 "X PHB|PHB X ?(0-71) 1()", NULL},
	{"one word for three columns is not assigned",
	 "GPU0 GPU1 CPU Affinity NUMA Affinity GPU NUMA ID\n"
	 "GPU0 X PHB 0\nGPU1 PHB X 0\n",
	 "X PHB|PHB X ?() ?()", NULL},
	{"columns and rows in another order",
	 "\tGPU2\tGPU0\tGPU1\nGPU1\tSYS\tPIX\t X \nGPU2\t X \tNODE\tSYS\n"
	 "GPU0\tNODE\t X \tPIX\n",
	 "X PIX NODE|PIX X SYS|NODE SYS X ?() ?() ?()", NULL},
	{"the same matrix twice", FOUR "Legend:\n" FOUR, FOUR_READ, NULL},
	{"a row quoted further down",
	 FOUR "Legend:\nWhat about\n> GPU2 SYS SYS X PHB 16-31 1\n", FOUR_READ,
	 NULL},
	{"topo -mp, which shows no NVLinks, behind topo -m",
	 "nvidia-smi topo -m\n" TWO "nvidia-smi topo -mp\n"
	 "\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n",
	 "X NV4|NV4 X ?(0-7) ?(0-7)", "topo -mp"},
	{"one GPU", "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-7\t0\n",
	 "X 0(0-7)", NULL},
	{"glued NIC columns",
	 "\tGPU0\tGPU1\tNIC0NIC1\tCPU Affinity\nGPU0\t X \tPIX\tNODEPXB\t0-7\n"
	 "GPU1\tPIX\t X \tSYS\tSYS\t0-7\n",
	 "X PIX|PIX X ?(0-7) ?(0-7)", "(NIC0NIC1)"},
	{"glued GPU columns",
	 "\tGPU0GPU1\tGPU2\nGPU0\t X \tPIXSYS\nGPU1\tPIX\t X \tSYS\n"
	 "GPU2\tSYSSYS\t X \n",
	 "X PIX SYS|PIX X SYS|SYS SYS X ?() ?() ?()", "(GPU0GPU1)"},
	{"glued names of affinity columns",
	 "\tGPU0\tGPU1CPU AffinityNUMA Affinity\nGPU0\t X \tPIX\t0-7\t0\n"
	 "GPU1\tPIX\t X \t0-7\t0\n",
	 "X PIX|PIX X 0(0-7) 0(0-7)", "glued"},
	{"labels glued to their cells",
	 "GPU0GPU1GPU2CPU Affinity\nGPU0XPIXSYS\nGPU1PIXXSYS\n"
	 "GPU2SYSSYSX\n",
	 "X PIX SYS|PIX X SYS|SYS SYS X ?() ?() ?()", "glued"},
	{"bars between affinity cells of a line without tabs",
	 "   GPU0 GPU1 CPU Affinity NUMA Affinity GPU NUMA ID\n"
	 "GPU0 X PHB | 0-7 |\nGPU1 PHB X || |0-7\n",
	 "X PHB|PHB X ?(0-7) ?()", NULL},
	/* "0N/A" are two words */
	{"a node glued to what is behind it",
	 "        GPU0    GPU1    CPU Affinity NUMA Affinity   GPU NUMA ID\n"
	 "GPU0     X      PIX     0-7  0N/A\n"
	 "GPU1    PIX      X      8-15 1N/A\n",
	 "X PIX|PIX X 0(0-7) 1(8-15)", NULL},
	/* 168-223 and 1, or 168-2231 */
	{"processors glued to their node",
	 "        GPU0    GPU1    CPU Affinity NUMA Affinity   GPU NUMA ID\n"
	 "GPU0     X      PIX     56-111,168-2231               N/A\n"
	 "GPU1    PIX      X      56-111,168-2231               N/A\n",
	 "X PIX|PIX X ?() ?()", "affinity columns"},
	{"NIC cells that are cut",
	 "\tGPU0\tGPU1\tNIC0\tNIC1\tNIC2\nGPU0\t X \tPIX\tSYS\n"
	 "GPU1\tPIX\t X \tSYS\tSYS\tSYS\n",
	 "X PIX|PIX X ?() ?()", "NIC columns"},
	{"affinity columns that do not fit",
	 "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-7\t0\tN/A\n"
	 "GPU1\tPIX\t X \t0-7\t0\tN/A\n",
	 "X PIX|PIX X ?() ?()", "affinity columns"},
	{"lines broken within words",
	 "        GPU0    GPU1    GPU2    GPU3    CPU Affi\n"
	 "nity    NUMA Affinity\n"
	 "GPU0     X      PIX     SYS     SYS     0-15    \n0\n"
	 "GPU1    PIX      X      SYS     SY\nS     0-15    0\n"
	 "GPU2    SYS     S\nYS      X      PHB     16-31   1\n"
	 "GPU3    SYS     SYS     PHB      X      16-3\n1   1\n",
	 FOUR_READ, NULL},
	{"broken behind the label",
	 "GPU0 GPU1 CPU Affinity\nGPU0\nX NV4 0-7\nGPU1 NV4 X 0-7\n",
	 "X NV4|NV4 X ?(0-7) ?(0-7)", NULL},
	{"lines broken between words",
	 "GPU0 GPU1 GPU2\nGPU3 CPU Affinity\nNUMA Affinity\n"
	 "GPU0 X PIX SYS\nSYS 0-15 0\nGPU1 PIX X\nSYS SYS\n0-15 0\n"
	 "GPU2 SYS SYS X PHB 16-31\n1\nGPU3 SYS SYS PHB X 16-31 1\n",
	 FOUR_READ, NULL},
	{"broken behind the digits of GPU1 and NV1",
	 "GPU0 GPU1 GPU2 GPU3 GPU4 GPU5 GPU6 GPU7 GPU8 GPU9 GPU1\n0\n"
	 "GPU0 X NV18 NV18 NV18 NV18 NV18 NV18 NV18 NV18 NV1\n8 NV18\n"
	 "GPU1 NV18 X NV18 NV18 NV18 NV18 NV18 NV18 NV18 NV18 NV18\n"
	 "GPU2 NV18 NV18 X NV18 NV18 NV18 NV18 NV18 NV18 NV18 NV18\n"
	 "GPU3 NV18 NV18 NV18 X NV18 NV18 NV18 NV18 NV18 NV18 NV18\n"
	 "GPU4 NV18 NV18 NV18 NV18 X NV18 NV18 NV18 NV18 NV18 NV18\n"
	 "GPU5 NV18 NV18 NV18 NV18 NV18 X NV18 NV18 NV18 NV18 NV18\n"
	 "GPU6 NV18 NV18 NV18 NV18 NV18 NV18 X NV18 NV18 NV18 NV18\n"
	 "GPU7 NV18 NV18 NV18 NV18 NV18 NV18 NV18 X NV18 NV18 NV18\n"
	 "GPU8 NV18 NV18 NV18 NV18 NV18 NV18 NV18 NV18 X NV18 NV18\n"
	 "GPU9 NV18 NV18 NV18 NV18 NV18 NV18 NV18 NV18 NV18 X NV18\n"
	 "GPU10 NV18 NV18 NV18 NV18 NV18 NV18 NV18 NV18 NV18 NV18 X\n",
	 NULL, NULL},
};

static void try_form(const struct form *form)
{
	const struct oh__machine *machine = &reading.machine;

	read_text(form->text);
	if (!tap_ok(!reading.status && reading.found, "%s: is read",
		    form->what)) {
		tap_note("%s", reading.message);
		return;
	}
	if (form->read && !tap_ok(!strcmp(describe(machine), form->read),
				  "%s: rightly", form->what)) {
		tap_note("read     %s", describe(machine));
		tap_note("expected %s", form->read);
	}
	if (!tap_ok(machine->remark_count == (form->remark ? 1 : 0) &&
			    (!form->remark ||
			     strstr(machine->remarks[0].text, form->remark)),
		    "%s: %s", form->what,
		    form->remark ? "with a remark" : "without a remark"))
		tap_note("%d: %s", machine->remark_count,
			 machine->remarks[0].text);
}

struct damage {
	const char *what, *text;
	/* what the error must name */
	const char *names[4];
};

static const struct damage damages[] = {
	{"rows are missing at the end",
	 "\tGPU0\tGPU1\tGPU2\tGPU3\nGPU0\t X \tPIX\tSYS\tSYS\n",
	 {"report.txt:1:", "4 GPU columns", "GPU1 to GPU3"}},
	{"a row is missing in the middle",
	 "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tPIX\tSYS\nGPU2\tSYS\tSYS\t X \n",
	 {"missing: GPU1"}},
	{"nothing but a header",
	 "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\n",
	 {"0 rows", "GPU0 to GPU1"}},
	{"no header",
	 "GPU0\t X \tPIX\t0-7\nGPU1\tPIX\t X \t0-7\n",
	 {"report.txt:1:", "GPU0", "no header"}},
	{"a row of another matrix further down",
	 FOUR "Legend:\nWhat about\n> GPU2 SYS SYS X PIX 16-31 1\n",
	 {"report.txt:8:", "row GPU2", "no header"}},
	{"a shorter row further down",
	 FOUR "Legend:\n> GPU2 SYS SYS X\n",
	 {"report.txt:7:", "row GPU2", "no header"}},
	{"a row with too few cells, the last row",
	 "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tPIX\tSYS\nGPU1\tPIX\t X \tSYS\n"
	 "GPU2\tSYS\tSYS\n",
	 {"report.txt:4:", "row GPU2", "column GPU2", "2 of 3"}},
	{"a row with too few cells, rows behind it",
	 "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tPIX\nGPU1\tPIX\t X \tSYS\n"
	 "GPU2\tSYS\tSYS\t X \n",
	 {"report.txt:2:", "row GPU0", "column GPU2"}},
	{"a row with too few cells and an affinity",
	 "\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\n"
	 "GPU0\t X \tPIX\t0-7\t0\nGPU1\tPIX\t X \tSYS\t0-7\t0\n"
	 "GPU2\tSYS\tSYS\t X \t0-7\t0\n",
	 {"report.txt:2:", "row GPU0", "column GPU2", "'0-7'"}},
	{"a row with too many cells",
	 "\tGPU0\tGPU1\nGPU0\t X \tPIX\tSYS\nGPU1\tPIX\t X \n",
	 {"report.txt:2:", "row GPU0", "3 cells", "GPU1"}},
	{"a cell too many beside NIC columns",
	 "\tGPU0\tGPU1\tGPU2\tNIC0\nGPU0\t X \tPIX\tSYS\tSYS\n"
	 "GPU1\tPIX\tPIX\t X \tSYS\tSYS\nGPU2\tSYS\tSYS\t X \tSYS\n",
	 {"row GPU1", "column GPU1", "lost or doubled"}},
	{"a cell too few beside NIC columns",
	 "\tGPU0\tGPU1\tGPU2\tNIC0\nGPU0\t X \tPIX\tSYS\tSYS\n"
	 "GPU1\tPIX\t X \tSYS\tSYS\nGPU2\tSYS\t X \tPIX\n",
	 {"row GPU2", "column GPU1", "lost or doubled"}},
	{"an unknown word",
	 "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tPIX\tSYS\nGPU1\tPIX\t X \tFAR\n"
	 "GPU2\tSYS\tFAR\t X \n",
	 {"report.txt:3:", "row GPU1", "column GPU2", "'FAR'"}},
	{"an unknown word first",
	 "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tPIX\tSYS\nGPU1\tFAR\t X \tSYS\n"
	 "GPU2\tSYS\tSYS\t X \n",
	 {"row GPU1", "column GPU0", "'FAR'"}},
	{"a word that is cut",
	 "\tGPU0\tGPU1\nGPU0\t X \tNOD\nGPU1\tNODE\t X \n",
	 {"row GPU0", "column GPU1", "'NOD'"}},
	{"NV without a number",
	 "\tGPU0\tGPU1\nGPU0\t X \tNV\nGPU1\tNV4\t X \n",
	 {"row GPU0", "column GPU1", "'NV'"}},
	{"more NVLinks than there can be",
	 "\tGPU0\tGPU1\nGPU0\t X \tNV180\nGPU1\tNV18\t X \n",
	 {"row GPU0", "column GPU1", "'NV180'"}},
	{"links that differ by direction",
	 "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tPIX\tSYS\nGPU1\tPHB\t X \tSYS\n"
	 "GPU2\tSYS\tSYS\t X \n",
	 {"row GPU1, column GPU0 says PHB", "row GPU0, column GPU1 says PIX",
	  "report.txt:3:", "line 2"}},
	{"numbers of NVLinks that differ by direction",
	 "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV2\t X \n",
	 {"says NV2", "says NV4"}},
	{"a link on the diagonal",
	 "\tGPU0\tGPU1\nGPU0\tPIX\tPIX\nGPU1\tPIX\t X \n",
	 {"row GPU0", "column GPU0", "'PIX'"}},
	{"X beside the diagonal",
	 "\tGPU0\tGPU1\nGPU0\t X \t X \nGPU1\tPIX\t X \n",
	 {"row GPU0", "column GPU1", "'X'"}},
	{"a column twice",
	 "\tGPU0\tGPU0\nGPU0\t X \tPIX\nGPU0\tPIX\t X \n",
	 {"column GPU0", "twice"}},
	{"columns of a part of the machine",
	 "\tGPU4\tGPU5\nGPU4\t X \tPIX\nGPU5\tPIX\t X \n",
	 {"column GPU0", "missing"}},
	{"a column is missing",
	 "\tGPU0\tGPU2\nGPU0\t X \tPIX\nGPU2\tPIX\t X \n",
	 {"column GPU1", "missing"}},
	{"a row without a column",
	 "\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\t X \nGPU2\tSYS\tX\n",
	 {"row GPU2", "no column"}},
	{"a row twice, in two ways",
	 "\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU0\t X \tPHB\nGPU1\tPIX\t X \n",
	 {"row GPU0", "line 2"}},
	{"two matrices that contradict each other",
	 TWO "Legend:\n\n\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\t X \n",
	 {"report.txt:7:", "row GPU0, column GPU1 says PIX", "line 2", "NV4"}},
	{"two matrices of different size", TWO FOUR, {"4 GPUs", "line 2", "2"}},
	{"two peer matrices that contradict each other",
	 "topo -p2p r\n\tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tOK\tX\n"
	 "topo -p2p r\n\tGPU0\tGPU1\nGPU0\tX\tNS\nGPU1\tOK\tX\n",
	 {"row GPU0, column GPU1 says NS", "line 3", "OK"}},
	{"a peer status among links",
	 "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tPIX\tSYS\nGPU1\tPIX\t X \tOK\n"
	 "GPU2\tSYS\tOK\t X \n",
	 {"row GPU1", "column GPU2", "'OK'", "matrix of links"}},
	{"a peer matrix that is cut",
	 "topo -p2p r\n\tGPU0\tGPU1\tGPU2\n GPU0\tX\tOK\tOK\n"
	 " GPU1\tOK\tX\tOK\n",
	 {"missing: GPU2"}},
	{"broken in two ways that both make a row",
	 "GPU0 GPU1\nGPU0 X NV1\n2\nGPU1 NV12 X\n",
	 {"row GPU1, column GPU0 says NV12", "says NV1"}},
	{"a list of fewer GPUs than the matrix has",
	 "GPU 0: NVIDIA L4\nGPU 1: NVIDIA L4\nGPU 2: NVIDIA L4\n" FOUR,
	 {"report.txt:3:", "3", "4"}},
	{"a list of more GPUs than the matrix has",
	 TWO "GPU 0: NVIDIA L4\nGPU 1: NVIDIA L4\nGPU 2: NVIDIA L4\n",
	 {"list", "GPU2"}},
};

static void try_damage(const struct damage *damage)
{
	bool named = true;

	read_text(damage->text);
	for (int i = 0; i < 4 && damage->names[i]; i++)
		named &= strstr(reading.message, damage->names[i]) != NULL;
	tap_ok(reading.status == OH_ERR_INVALID, "%s: is an error",
	       damage->what);
	if (!tap_ok(named, "%s: is named", damage->what))
		tap_note("%s", reading.message);
}

/* Peer statuses of all aspects: "r X OK|OK X". */
static const char *describe_peers(const struct oh__machine *machine)
{
	static char text[4096];
	size_t used = 0;

	*text = '\0';
	for (int aspect = 0; aspect < OH__PEER_ASPECTS; aspect++) {
		if (!oh__known(machine->peer[aspect][0][1].from))
			continue;
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "%s%c", used ? " " : "",
					 "rwna"[aspect]);
		for (int i = 0; i < machine->gpus; i++)
			for (int j = 0; j < machine->gpus; j++)
				used += (size_t)snprintf(
					text + used, sizeof(text) - used,
					"%s%s",
					j   ? " "
					: i ? "|"
					    : ":",
					oh__peer_status_text(
						machine->peer[aspect][i][j]
							.status));
	}
	return text;
}

#define PEERS(a, b) "\tGPU0\tGPU1\t\n GPU0\tX\t" a "\t\n GPU1\t" b "\tX\t\n"

/* The words of -p2p; "?" stands on the diagonal, which is not asked. */
static const struct form peer_forms[] = {
	{"-p2p r", "$ nvidia-smi topo -p2p r\n" PEERS("OK", "OK"),
	 "r:? OK|OK ?", NULL},
	{"-p2p w, n, a",
	 "nvidia-smi topo -p2p w\n" PEERS(
		 "CNS",
		 "GNS") "Legend:\n"
			"  OK   = Status Ok\n"
			"root@host:~# nvidia-smi topo -p2p n\n" PEERS(
				"NS",
				"TNS") "nvidia-smi topo -p2p a\n" PEERS("DR",
									"U"),
	 "w:? CNS|GNS ? n:? NS|TNS ? a:? DR|U ?", NULL},
	{"-p2p rw", "nvidia-smi topo -p2p rw\n" PEERS("GNS", "OK"),
	 "r:? GNS|OK ? w:? GNS|OK ?", NULL},
	{"-p2p p is not about what is kept",
	 "nvidia-smi topo -p2p p\n" PEERS("NS", "NS"), "", NULL},
	{"without a command", PEERS("OK", "OK"), "", "without its command"},
	{"the second without a command",
	 "nvidia-smi topo -p2p r\n" PEERS("OK", "OK") "and then\n" PEERS("NS",
									 "NS"),
	 "r:? OK|OK ?", "without its command"},
	{"two commands in a line",
	 "nvidia-smi topo -p2p r; nvidia-smi topo -p2p w\n" PEERS("OK", "OK")
		 PEERS("NS", "NS"),
	 "r:? OK|OK ? w:? NS|NS ?", NULL},
	{"two commands in two lines",
	 "nvidia-smi topo -p2p r\nnvidia-smi topo -p2p n\n" PEERS("OK", "OK")
		 PEERS("NS", "NS"),
	 "r:? OK|OK ? n:? NS|NS ?", NULL},
	{"a command that failed, then another",
	 "nvidia-smi topo -p2p r\nsegmentation fault\n"
	 "nvidia-smi topo -p2p n\n" PEERS("NS", "NS"),
	 "n:? NS|NS ?", NULL},
	{"links in between",
	 "nvidia-smi topo -m && nvidia-smi topo -p2p r\n" TWO PEERS("OK", "OK"),
	 "r:? OK|OK ?", NULL},
};

static void try_peers(const struct form *form)
{
	const struct oh__machine *machine = &reading.machine;

	read_text(form->text);
	if (!tap_ok(!reading.status && reading.found && machine->gpus == 2 &&
			    !strcmp(describe_peers(machine), form->read),
		    "%s: is read", form->what))
		tap_note("%s%s", reading.message, describe_peers(machine));
	tap_ok(machine->remark_count == (form->remark ? 1 : 0) &&
		       (!form->remark ||
			strstr(machine->remarks[0].text, form->remark)),
	       "%s: %s", form->what,
	       form->remark ? "with a remark" : "without a remark");
}

/* Every line of these begins with a line of nvidia-smi's that is no fact. */
static void try_nothing(void)
{
	static const char *const texts[] = {
		"",
		"\n\n",
		"Legend:\n\n  X    = Self\n  NV#  = Connection\n",
		"GPU0 and GPU1 are connected\n",
		"GPU0 GPU1 are the fast ones\nGPU0 is at 100 %\n",
		"     GPU0   GPU1\nGPU0 12.5   33.1\nGPU1 33.0   12.4\n",
		"NIC Legend:\n\n  NIC0: mlx5_0\n",
		"see nvidia-smi topo -m\n",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		read_text(texts[i]);
		if (!tap_ok(!reading.status && !reading.found &&
				    !reading.machine.gpus,
			    "nothing of a machine (%zu)", i))
			tap_note("%s: %s", texts[i], reading.message);
	}
}

/* UTF-16, as PowerShell writes it: each letter is followed by a NUL. */
static void try_utf16(void)
{
	static char wide[sizeof(TWO) * 2 + 2];
	size_t used = 2;

	memcpy(wide, "\xff\xfe", 2);
	for (const char *letter = TWO; *letter; letter++, used += 2)
		wide[used] = *letter;
	read_report("report.txt", wide, used, &reading);
	if (!tap_ok(!reading.status && reading.found &&
			    !strcmp(describe(&reading.machine),
				    "X NV4|NV4 X ?(0-7) ?(0-7)"),
		    "UTF-16 is read"))
		tap_note("%s", reading.message);
}

/* As many GPUs as are read, and one more. */
static void try_size(int gpus)
{
	static char text[OH__GPUS * OH__GPUS * 8];
	size_t used = 0;

	for (int i = 0; i < gpus; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "\tGPU%d", i);
	for (int i = 0; i < gpus; i++) {
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "\nGPU%d", i);
		for (int j = 0; j < gpus; j++)
			used += (size_t)snprintf(text + used,
						 sizeof(text) - used, "\t%s",
						 i == j ? "X" : "NV18");
	}
	read_text(text);
	if (gpus <= OH__GPUS)
		tap_ok(!reading.status && reading.machine.gpus == gpus,
		       "%d GPUs are read", gpus);
	else
		tap_ok(reading.status == OH_ERR_INVALID &&
			       strstr(reading.message, "33 GPUs") &&
			       strstr(reading.message, "32"),
		       "%d GPUs are refused: %s", gpus, reading.message);
}

/* An open row and a header wait for their other parts, but not for ever: a
 * million lines behind them cost no more than others. */
static void try_waiting(void)
{
	static const char row[] = "GPU0 GPU1 GPU2\nGPU0 X PIX\n";
	static const char header[] = "GPU0 GPU1 GPU2 GPU3 GPU4\n";
	size_t bytes = 4 << 20;
	char *text = malloc(bytes);

	for (size_t i = 0; i < bytes; i++)
		text[i] = i % 2 ? '\n' : 'a';
	memcpy(text, row, sizeof(row) - 1);
	read_report("report.txt", text, bytes, &reading);
	tap_ok(reading.status == OH_ERR_INVALID &&
		       strstr(reading.message, "report.txt:2: row GPU0"),
	       "a row that never goes on: %s", reading.message);
	for (size_t i = 0; i < bytes; i++)
		text[i] = i % 2 ? '\n' : 'a';
	memcpy(text, header, sizeof(header) - 1);
	read_report("report.txt", text, bytes, &reading);
	tap_ok(!reading.status && !reading.found,
	       "a header that never goes on is none");
	free(text);
}

/* A line of any length, and lines without number. */
static void try_long(void)
{
	size_t bytes = 1 << 20;
	char *text = malloc(bytes + sizeof(TWO));

	memset(text, 'G', bytes);
	text[bytes - 1] = '\n';
	memcpy(text + bytes, TWO, sizeof(TWO));
	read_text(text);
	tap_ok(!reading.status && reading.machine.gpus == 2 &&
		       reading.machine.link[0][1].from.line == 3,
	       "a line of a megabyte is passed over");
	memset(text, '\n', bytes);
	read_text(text);
	tap_ok(!reading.status &&
		       reading.machine.link[0][1].from.line == bytes + 2,
	       "lines are counted");
	free(text);
}

int main(void)
{
	oh_set_log(OH_LOG_OFF, NULL, NULL);
	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
		try_form(&forms[i]);
	for (size_t i = 0; i < sizeof(damages) / sizeof(*damages); i++)
		try_damage(&damages[i]);
	for (size_t i = 0; i < sizeof(peer_forms) / sizeof(*peer_forms); i++)
		try_peers(&peer_forms[i]);
	try_nothing();
	try_utf16();
	try_size(OH__GPUS);
	try_size(OH__GPUS + 1);
	try_long();
	try_waiting();
	return tap_done();
}
