/* SPDX-License-Identifier: MIT */
/*
 * The machine model: origins, what a datum's setter makes of bytes, merging of
 * sources, a choice of GPUs, islands and the summary of peer access.
 */
#include <limits.h>
#include <stdlib.h>

#include "report_reader.h"
#include "tap.h"

static struct reading reading;

/* A machine from a matrix, a row of words each: "X PIX|PIX X", and a word of
 * nodes: "0011", "?" for one that is not known. */
static struct oh__machine *make(const char *name, const char *rows,
				const char *nodes)
{
	static struct oh__machine machine;
	char text[4096] = "", copy[2048], *row, *rest = copy;
	int gpus = (int)strlen(nodes);

	snprintf(copy, sizeof(copy), "%s", rows);
	for (int i = 0; i < gpus; i++)
		sprintf(text + strlen(text), " GPU%d", i);
	strcat(text, " CPU Affinity NUMA Affinity\n");
	for (int i = 0; (row = strsep(&rest, "|")) != NULL; i++)
		sprintf(text + strlen(text), "GPU%d %s 0-7 %s%c\n", i, row,
			nodes[i] == '?' ? "N/" : "",
			nodes[i] == '?' ? 'A' : nodes[i]);
	read_report(name, text, strlen(text), &reading);
	if (reading.status)
		tap_note("%s", reading.message);
	machine = reading.machine;
	return &machine;
}

/* "0 1|2" */
static const char *describe(const struct oh__groups *groups)
{
	static char text[1024];
	size_t used = 0;

	*text = '\0';
	for (int i = 0; i < groups->count; i++)
		for (int j = 0; j < groups->size[i]; j++)
			used += (size_t)snprintf(text + used,
						 sizeof(text) - used, "%s%d",
						 j   ? " "
						 : i ? "|"
						     : "",
						 groups->member[i][j]);
	return text;
}

static const struct {
	const char *what, *rows, *nodes, *islands, *switches;
} islands[] = {
	{"one GPU", "X", "0", "0", ""},
	{"a pair", "X PHB|PHB X", "00", "0 1", ""},
	{"a pair across nodes", "X SYS|SYS X", "01", "0|1", ""},
	{"NVLink for all", "X NV4 NV4|NV4 X NV4|NV4 NV4 X", "001", "0 1 2", ""},
	{"NVLink in a ring makes one island",
	 "X NV1 SYS NV1|NV1 X NV1 SYS|SYS NV1 X NV1|NV1 SYS NV1 X", "0011",
	 "0 1 2 3", ""},
	/* 0 and 2 are not near, but both near 1 */
	{"PIX chains", "X PIX SYS|PIX X PIX|SYS PIX X", "000", "0 1 2",
	 "0 1 2"},
	{"PXB, PHB and NODE are near, SYS is not",
	 "X PXB SYS SYS SYS|PXB X SYS SYS SYS|SYS SYS X PHB SYS|"
	 "SYS SYS PHB X NODE|SYS SYS SYS NODE X",
	 "00111", "0 1|2 3 4", ""},
	/* bridged pairs of one node stay apart */
	{"two bridges",
	 "X NV4 NODE NODE|NV4 X NODE NODE|NODE NODE X NV4|"
	 "NODE NODE NV4 X",
	 "0000", "0 1|2 3", ""},
	/* a bridge between 1 and 2; 0 and 3 have none and are near */
	{"one bridge, the others by PCIe",
	 "X NODE NODE PHB|NODE X NV4 NODE|NODE NV4 X NODE|PHB NODE NODE X",
	 "0000", "0 3|1 2", ""},
	/* the GPU without a bridge does not join those that have one */
	{"one bridge, one GPU without", "X NV4 PIX|NV4 X PIX|PIX PIX X", "000",
	 "0 1|2", "0 1 2"},
	{"all SYS: by node",
	 "X SYS SYS SYS|SYS X SYS SYS|SYS SYS X SYS|"
	 "SYS SYS SYS X",
	 "1010", "0 2|1 3", ""},
	{"all SYS, nodes not known", "X SYS SYS|SYS X SYS|SYS SYS X", "???",
	 "0|1|2", ""},
	{"all SYS, some nodes known",
	 "X SYS SYS SYS|SYS X SYS SYS|SYS SYS X SYS|SYS SYS SYS X", "0?0?",
	 "0 2|1|3", ""},
	/* not every pair is SYS: nodes do not count */
	{"one pair is near",
	 "X PHB SYS SYS|PHB X SYS SYS|SYS SYS X SYS|"
	 "SYS SYS SYS X",
	 "0000", "0 1|2|3", ""},
	{"switches",
	 "X PIX NODE NODE|PIX X NODE NODE|NODE NODE X PIX|"
	 "NODE NODE PIX X",
	 "0000", "0 1 2 3", "0 1|2 3"},
	{"members ascend, though the links cross",
	 "X SYS SYS PIX|SYS X PIX SYS|SYS PIX X SYS|PIX SYS SYS X", "0110",
	 "0 3|1 2", "0 3|1 2"},
};

static void try_islands(void)
{
	struct oh__machine *machine;
	struct oh__groups groups;

	for (size_t i = 0; i < sizeof(islands) / sizeof(*islands); i++) {
		machine = make("m", islands[i].rows, islands[i].nodes);
		oh__machine_islands(machine, &groups);
		if (!tap_ok(!strcmp(describe(&groups), islands[i].islands),
			    "islands: %s", islands[i].what))
			tap_note("%s", describe(&groups));
		oh__machine_switch_groups(machine, &groups);
		if (!tap_ok(!strcmp(describe(&groups), islands[i].switches),
			    "switch groups: %s", islands[i].what))
			tap_note("%s", describe(&groups));
	}
	machine = make("m", "X SYS|SYS X", "00");
	memset(machine->link, 0, sizeof(machine->link));
	oh__machine_islands(machine, &groups);
	tap_ok(!groups.count, "no island where no link is known");
	machine->link[0][1] = (struct oh__link){{1, 1}, OH__LINK_PIX, 0};
	oh__machine_islands(machine, &groups);
	tap_ok(!strcmp(describe(&groups), "0 1"),
	       "a link that is known in one direction only");
	machine->gpus = 0;
	oh__machine_islands(machine, &groups);
	tap_ok(!groups.count, "no island without GPUs");
}

/* Statuses of reads and writes, "?" for not asked. */
static const struct {
	enum oh__peer_status read[2], write[2];
	enum oh__peer_summary summary;
} summaries[] = {
	{{0, 0}, {0, 0}, OH__PEERS_UNKNOWN},
	{{OH__PEER_OK, OH__PEER_OK}, {0, 0}, OH__PEERS_ALL},
	{{0, 0}, {OH__PEER_OK, OH__PEER_OK}, OH__PEERS_ALL},
	{{OH__PEER_OK, OH__PEER_OK}, {OH__PEER_OK, OH__PEER_OK}, OH__PEERS_ALL},
	{{OH__PEER_OK, OH__PEER_NS}, {0, 0}, OH__PEERS_SOME},
	{{OH__PEER_OK, OH__PEER_OK},
	 {OH__PEER_OK, OH__PEER_CNS},
	 OH__PEERS_SOME},
	{{OH__PEER_OK, OH__PEER_OK},
	 {OH__PEER_NS, OH__PEER_NS},
	 OH__PEERS_NONE},
	{{OH__PEER_GNS, OH__PEER_GNS}, {0, 0}, OH__PEERS_NONE},
	{{OH__PEER_U, OH__PEER_OK}, {0, 0}, OH__PEERS_SOME},
	{{OH__PEER_OK, 0}, {0, 0}, OH__PEERS_UNKNOWN},
	/* one asked by reads, the other by writes: both have an answer */
	{{OH__PEER_OK, 0}, {0, OH__PEER_OK}, OH__PEERS_ALL},
};

static void set_peer(struct oh__machine *machine, int aspect, int from,
		     enum oh__peer_status status)
{
	struct oh__peer *peer = &machine->peer[aspect][from][!from];

	peer->from.source = status ? 1 : 0;
	peer->status = status;
}

static void try_peers(void)
{
	for (size_t i = 0; i < sizeof(summaries) / sizeof(*summaries); i++) {
		struct oh__machine *machine = make("m", "X PIX|PIX X", "00");

		for (int from = 0; from < 2; from++) {
			set_peer(machine, OH__PEER_READ, from,
				 summaries[i].read[from]);
			set_peer(machine, OH__PEER_WRITE, from,
				 summaries[i].write[from]);
			/* NVLink and atomics are not what is asked for */
			set_peer(machine, OH__PEER_NVLINK, from, OH__PEER_NS);
		}
		tap_ok(oh__machine_peers(machine) == summaries[i].summary,
		       "peer access, row %zu", i);
	}
	tap_ok(oh__machine_peers(make("m", "X", "0")) == OH__PEERS_UNKNOWN,
	       "one GPU has no peer");
}

static void try_setters(void)
{
	static struct oh__machine machine;
	struct oh__from from = {1, 12};
	struct oh__text text;
	char name[OH__TEXT_BYTES * 2], origin[200];

	oh__text_set(&text, from, "a\x1b[31m\tb\n\x7f\xc3\xa4", 12);
	tap_ok(!strcmp(text.text, "a [31m b  ??"),
	       "control characters and others are replaced: '%s'", text.text);
	memset(name, 'x', sizeof(name));
	oh__text_set(&text, from, name, sizeof(name));
	tap_ok(strlen(text.text) == OH__TEXT_BYTES - 1, "a text is cut");
	oh__text_set(&text, from, "ab", 1);
	tap_ok(!strcmp(text.text, "a"), "a shorter one leaves nothing behind");

	tap_ok(oh__machine_source(&machine, "a.txt") == 1 &&
		       oh__machine_source(&machine, "NVML") == 2 &&
		       oh__machine_source(&machine, "a.txt") == 1 &&
		       machine.source_count == 2,
	       "sources are counted from 1, each once");
	tap_ok(!strcmp(oh__machine_origin(&machine, from, origin,
					  sizeof(origin)),
		       "a.txt:12"),
	       "a file's origin has a line");
	tap_ok(!strcmp(oh__machine_origin(&machine, (struct oh__from){2, 0},
					  origin, sizeof(origin)),
		       "NVML"),
	       "that of NVML has none");
	tap_ok(!strcmp(oh__machine_origin(&machine, (struct oh__from){0, 3},
					  origin, sizeof(origin)),
		       "unknown") &&
		       !strcmp(oh__machine_origin(&machine,
						  (struct oh__from){9, 0},
						  origin, sizeof(origin)),
			       "unknown"),
	       "a datum without a source is unknown");
	for (int i = 0; i < OH__SOURCES + 5; i++) {
		snprintf(name, sizeof(name), "source %d", i);
		oh__machine_source(&machine, name);
	}
	tap_ok(machine.source_count == OH__SOURCES &&
		       oh__machine_source(&machine, "one more") == OH__SOURCES,
	       "too many sources share the last place");
	for (int i = 0; i < OH__REMARKS + 5; i++)
		oh__machine_remark(&machine, from, "remark %d\n", i);
	tap_ok(machine.remark_count == OH__REMARKS &&
		       !strcmp(machine.remarks[3].text, "remark 3 "),
	       "remarks are printable, and too many are dropped");
}

static void try_texts(void)
{
	static const char *const links[] = {"?",   "X",	  "NV4",  "PIX",
					    "PXB", "PHB", "NODE", "SYS"};
	static const char *const peers[] = {"?",   "OK", "CNS", "GNS",
					    "TNS", "DR", "NS",	"U"};
	char text[8];

	for (int kind = 0; kind <= OH__LINK_SYS; kind++) {
		struct oh__link link = {{1, 0}, (enum oh__link_kind)kind, 4};

		tap_ok(!strcmp(oh__link_text(&link, text), links[kind]),
		       "link %s", links[kind]);
	}
	tap_ok(!strcmp(oh__link_text(
			       &(struct oh__link){{0, 0}, OH__LINK_SYS, 0},
			       text),
		       "?"),
	       "a link without a source");
	tap_ok(!strcmp(oh__link_text(&(struct oh__link){{1, 0},
							OH__LINK_NV,
							UINT_MAX},
				     text),
		       "NV67295"),
	       "a number of any size fits");
	for (int status = 0; status <= OH__PEER_U; status++)
		tap_ok(!strcmp(oh__peer_status_text(
				       (enum oh__peer_status)status),
			       peers[status]),
		       "status %s", peers[status]);
}

static void try_pick(void)
{
	static struct oh__machine picked;
	struct oh__machine *machine =
		make("m", "X PIX SYS|PIX X NODE|SYS NODE X", "012");
	int gpus[] = {2, 7, 0, -1};
	char a[8], b[8];

	machine->peer[OH__PEER_WRITE][2][0] =
		(struct oh__peer){{1, 5}, OH__PEER_CNS};
	oh__machine_pick(machine, gpus, 4, &picked);
	tap_ok(picked.gpus == 2, "GPUs that are there are picked");
	tap_ok(picked.gpu[0].numa_node.value == 2 &&
		       picked.gpu[1].numa_node.value == 0,
	       "in the order of the list");
	tap_ok(!strcmp(oh__link_text(&picked.link[0][1], a), "SYS") &&
		       !strcmp(oh__link_text(&picked.link[1][1], b), "X"),
	       "with their links");
	tap_ok(picked.peer[OH__PEER_WRITE][0][1].status == OH__PEER_CNS &&
		       !oh__known(picked.peer[OH__PEER_WRITE][1][0].from),
	       "and their peer statuses");
	tap_ok(picked.source_count == 1 && !oh__known(picked.link[0][2].from),
	       "and nothing else");
}

static struct oh__machine *read_into(struct oh__machine *machine,
				     const char *name, const char *text)
{
	read_report(name, text, strlen(text), &reading);
	if (reading.status)
		tap_note("%s", reading.message);
	*machine = reading.machine;
	return machine;
}

#define MATRIX "GPU0 GPU1\nGPU0 X PIX\nGPU1 PIX X\n"
#define READS "topo -p2p r\nGPU0 GPU1\nGPU0 X OK\nGPU1 NS X\n"

static void try_merge(void)
{
	static struct oh__machine into, more, empty;
	char text[200];

	read_into(&into, "a",
		  MATRIX "Nvidia driver version: 1.2\n"
			 "NCCL_DEBUG=INFO\n");
	read_into(&more, "b",
		  "GPU 0: NVIDIA L4\nGPU 1: NVIDIA L4\n" READS
		  "Nvidia driver version: 3.4\nModel name: Intel Xeon\n"
		  "NCCL_DEBUG=WARN\nNCCL_P2P_DISABLE=1\n" MATRIX);
	tap_ok(oh__machine_merge(&into, &more) == OH_OK && into.gpus == 2,
	       "two sources are merged");
	tap_ok(!strcmp(into.gpu[1].name.text, "NVIDIA L4") &&
		       !strcmp(oh__machine_origin(&into, into.gpu[1].name.from,
						  text, sizeof(text)),
			       "b:2"),
	       "what was not known comes with its origin");
	tap_ok(!strcmp(into.host.driver.text, "1.2") &&
		       !strcmp(oh__machine_origin(&into, into.host.driver.from,
						  text, sizeof(text)),
			       "a:4"),
	       "what was known stays");
	tap_ok(into.peer[OH__PEER_READ][1][0].status == OH__PEER_NS &&
		       into.peer[OH__PEER_READ][0][1].from.source == 2 &&
		       into.link[0][1].from.source == 1,
	       "pairs too");
	tap_ok(into.variable_count == 2 &&
		       !strcmp(oh__machine_variable(&into, "NCCL_DEBUG")->value,
			       "INFO") &&
		       !strcmp(oh__machine_variable(&into, "NCCL_P2P_DISABLE")
				       ->value,
			       "1") &&
		       !oh__machine_variable(&into, "NCCL"),
	       "variables too");
	tap_ok(!strcmp(into.host.cpu.text, "Intel Xeon"), "the host too");
	tap_ok(oh__machine_merge(&empty, &into) == OH_OK &&
		       !memcmp(&empty, &into, sizeof(empty)),
	       "merged into nothing it is the same");
}

static const struct {
	const char *what, *mine, *theirs;
	const char *says[3];
} conflicts[] = {
	{"a link",
	 MATRIX,
	 "GPU0 GPU1\nGPU0 X SYS\nGPU1 SYS X\n",
	 {"GPU0-GPU1", "a:2 says PIX", "b:2 says SYS"}},
	{"a number of NVLinks",
	 "GPU0 GPU1\nGPU0 X NV4\nGPU1 NV4 X\n",
	 "GPU0 GPU1\nGPU0 X NV2\nGPU1 NV2 X\n",
	 {"GPU0-GPU1", "NV4", "NV2"}},
	{"a peer status",
	 READS,
	 "topo -p2p r\nGPU0 GPU1\nGPU0 X OK\nGPU1 OK X\n",
	 {"GPU1-GPU0 (read)", "a:4 says NS", "b:4 says OK"}},
	{"a name",
	 "GPU 0: NVIDIA L4\n",
	 "\nGPU 0: NVIDIA L40\n",
	 {"GPU0", "a:1 says NVIDIA L4", "b:2 says NVIDIA L40"}},
	{"the number of GPUs",
	 MATRIX,
	 "\nGPU 0: NVIDIA L4\n",
	 {"number", "a:2 says 2", "b:2 says 1"}},
};

static void try_conflicts(void)
{
	static struct oh__machine into, more, before;

	for (size_t i = 0; i < sizeof(conflicts) / sizeof(*conflicts); i++) {
		const char *message = oh_last_error()->message;
		bool named = true;

		read_into(&into, "a", conflicts[i].mine);
		read_into(&more, "b", conflicts[i].theirs);
		before = into;
		tap_ok(oh__machine_merge(&into, &more) == OH_ERR_MISMATCH,
		       "%s that differs is an error", conflicts[i].what);
		for (int j = 0; j < 3; j++)
			named &= strstr(message, conflicts[i].says[j]) != NULL;
		tap_ok(named, "it is named: %s", message);
		tap_ok(!memcmp(&into, &before, sizeof(into)),
		       "nothing is changed");
	}
	/* the maker's name is no difference */
	read_into(&into, "a", "GPU 0: NVIDIA L4\n");
	read_into(&more, "b", "GPU 0: L4 (UUID: GPU-1)\n");
	tap_ok(oh__machine_merge(&into, &more) == OH_OK &&
		       !strcmp(into.gpu[0].uuid.text, "GPU-1"),
	       "a name without its maker is the same");
}

int main(void)
{
	oh_set_log(OH_LOG_OFF, NULL, NULL);
	try_islands();
	try_peers();
	try_setters();
	try_texts();
	try_pick();
	try_merge();
	try_conflicts();
	return tap_done();
}
