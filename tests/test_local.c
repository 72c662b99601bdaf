/* SPDX-License-Identifier: MIT */
/*
 * What is read of this machine: GPUs and their pairs through NVML, which
 * fakenvml.c plays, and variables. With --show it prints what it reads of the
 * machine it runs on, the host's files too, to be compared with nvidia-smi.
 */
#include <stdlib.h>
#include <string.h>

#include "fakenvml.h"
#include "machine/local.h"
#include "machine_facts.h"
#include "tap.h"

static const char *const kinds[] = {
	[OH__LINK_UNKNOWN] = "?", [OH__LINK_SELF] = "X",
	[OH__LINK_NV] = "NV",	  [OH__LINK_PIX] = "PIX",
	[OH__LINK_PXB] = "PXB",	  [OH__LINK_PHB] = "PHB",
	[OH__LINK_NODE] = "NODE", [OH__LINK_SYS] = "SYS",
};
static const char *const statuses[] = {
	[OH__PEER_NOT_ASKED] = "?", [OH__PEER_OK] = "OK",
	[OH__PEER_CNS] = "CNS",	    [OH__PEER_GNS] = "GNS",
	[OH__PEER_TNS] = "TNS",	    [OH__PEER_DR] = "DR",
	[OH__PEER_NS] = "NS",	    [OH__PEER_U] = "U",
};

/* NVML */

static struct oh__machine *read_nvml(const char *script, const char *more)
{
	struct oh__machine *machine = make_machine();

	fakenvml_play(script, more);
	if (oh__machine_read_nvml(machine))
		tap_note("%s", oh_last_error()->message);
	return machine;
}

/* The matrix as "X NV4 ...; ..." */
static const char *write_links(const struct oh__machine *machine)
{
	static char text[4096];
	size_t used = 0;

	*text = '\0';
	for (int i = 0; i < machine->gpus; i++)
		for (int j = 0; j < machine->gpus && used < 4000; j++) {
			const struct oh__link *link = &machine->link[i][j];
			char count[16] = "";

			if (link->kind == OH__LINK_NV)
				snprintf(count, sizeof(count), "%u",
					 link->nvlinks);
			used += (size_t)snprintf(
				text + used, sizeof(text) - used, "%s%s%s",
				kinds[oh__known(link->from) ? link->kind : 0],
				count,
				j + 1 < machine->gpus	? " "
				: i + 1 < machine->gpus ? "; "
							: "");
		}
	return text;
}

static const char four[] = "gpus 4\n"
			   "gpu 0 pci 00000000:01:00.0\n"
			   "gpu 1 pci 00000000:41:00.0\n"
			   "gpu 2 pci 00000000:81:00.0\n"
			   "gpu 3 pci 00000000:C1:00.0\n"
			   "ancestor * * 50\n";

/* Scripts after four[], and the matrix that nvidia-smi would print. */
static const struct {
	const char *what, *script, *links;
} matrices[] = {
	{"each level has its name",
	 "ancestor 0 1 0\nancestor 0 2 10\nancestor 0 3 20\n"
	 "ancestor 1 2 30\nancestor 1 3 40\n",
	 "X PIX PIX PXB; PIX X PHB NODE; PIX PHB X SYS; PXB NODE SYS X"},
	{"a level without a name is unknown", "ancestor 0 1 45\n",
	 "X ? SYS SYS; ? X SYS SYS; SYS SYS X SYS; SYS SYS SYS X"},
	{"GPUs that have NVLink, and use none", "link * * off\n",
	 "X SYS SYS SYS; SYS X SYS SYS; SYS SYS X SYS; SYS SYS SYS X"},
	{"through switches: all that are active", "link * * switch\n",
	 "X NV18 NV18 NV18; NV18 X NV18 NV18; NV18 NV18 X NV18; "
	 "NV18 NV18 NV18 X"},
	{"through switches: the lesser of both ends",
	 "link * * switch\nlink 1 5 off\nlink 3 6 off\nlink 3 7 off\n",
	 "X NV17 NV18 NV16; NV17 X NV17 NV16; NV18 NV17 X NV16; "
	 "NV16 NV16 NV16 X"},
	{"one GPU without switches is reached by PCIe",
	 "link * * switch\nlink 2 * off\n",
	 "X NV18 SYS NV18; NV18 X SYS NV18; SYS SYS X SYS; NV18 NV18 SYS X"},
	{"two bridges",
	 "link * * off\n"
	 "link 0 0 gpu 1\nlink 0 1 gpu 1\nlink 1 0 gpu 0\nlink 1 1 gpu 0\n"
	 "link 2 3 gpu 3\nlink 3 3 gpu 2\n",
	 "X NV2 SYS SYS; NV2 X SYS SYS; SYS SYS X NV1; SYS SYS NV1 X"},
	{"ends of no type: by address; none or ones: a switch",
	 "link * * off\n"
	 "link 0 0 blind 00000000:41:00.0\nlink 1 0 blind 00000000:01:00.0\n"
	 "link 2 0 blind\nlink 3 0 blind FFFFFFFF:FFFF:FF.0\n",
	 "X NV1 SYS SYS; NV1 X SYS SYS; SYS SYS X NV1; SYS SYS NV1 X"},
	{"a GPU that this container does not see counts nowhere",
	 "link * * off\nlink 0 0 at 00000000:E1:00.0\nlink 0 1 gpu 1\n"
	 "link 1 1 gpu 0\n",
	 "X NV1 SYS SYS; NV1 X SYS SYS; SYS SYS X SYS; SYS SYS SYS X"},
	{"a link whose state fails leaves its GPU's pairs unknown",
	 "link * * off\nerror nvmlDeviceGetNvLinkState 999 1\n",
	 "X ? SYS SYS; ? X ? ?; SYS ? X SYS; SYS ? SYS X"},
	{"ends that disagree: the lesser, with a remark",
	 "link * * off\nlink 0 0 gpu 1\nlink 0 1 gpu 1\nlink 1 0 gpu 0\n",
	 "X NV1 SYS SYS; NV1 X SYS SYS; SYS SYS X SYS; SYS SYS SYS X"},
};

static void try_matrices(void)
{
	for (size_t i = 0; i < sizeof(matrices) / sizeof(*matrices); i++) {
		struct oh__machine *machine =
			read_nvml(four, matrices[i].script);

		if (!tap_ok(!strcmp(write_links(machine), matrices[i].links),
			    "links: %s", matrices[i].what)) {
			tap_note("%s", write_links(machine));
			for (int k = 0; k < machine->remark_count; k++)
				tap_note("%s", machine->remarks[k].text);
		}
		free(machine);
	}
}

static void try_link_remarks(void)
{
	struct oh__machine *machine;

	machine = read_nvml(four, matrices[10].script);
	tap_ok(is_remarked(machine, "GPU 0 has 2 NVLinks to GPU 1"),
	       "ends that disagree are told");
	free(machine);
	machine = read_nvml(four, "link * * off\n"
				  "link 0 0 blind 00000000:E1:00.0\n");
	tap_ok(is_remarked(machine, "NVLink 0 of GPU 0 ends at 0000:e1:00.0"),
	       "an end that is no GPU here is told");
	free(machine);
	machine = read_nvml(four, "gpu 3 pci\nlink * * off\n"
				  "link 0 0 at 00000000:C1:00.0\n");
	tap_ok(!oh__known(machine->link[0][1].from) &&
		       !oh__known(machine->link[0][3].from) &&
		       oh__known(machine->link[1][2].from),
	       "an end that may be a GPU without address: unknown");
	free(machine);
}

static void try_peers(void)
{
	/* NVML's 0 to 6, one in each of the first GPU's pairs */
	struct oh__machine *machine = read_nvml(
		"gpus 9\npeer 0 * * 0\npeer 1 0 1 1\npeer 1 0 2 2\n"
		"peer 1 0 3 3\npeer 1 0 4 4\npeer 1 0 5 5\npeer 1 0 6 6\n",
		"peer 1 0 7 7\npeer 1 8 0 5\npeer 2 1 0 0\npeer 3 0 1 0\n");
	const enum oh__peer_status due[] = {
		OH__PEER_NOT_ASKED, OH__PEER_CNS,      OH__PEER_GNS,
		OH__PEER_TNS,	    OH__PEER_DR,       OH__PEER_NS,
		OH__PEER_U,	    OH__PEER_NOT_ASKED};
	struct oh__peer(*peer)[OH__GPUS][OH__GPUS] = machine->peer;
	bool same = true;

	for (int j = 0; j < 8; j++)
		same = same && peer[OH__PEER_WRITE][0][j].status == due[j] &&
		       oh__known(peer[OH__PEER_WRITE][0][j].from) ==
			       (due[j] != OH__PEER_NOT_ASKED);
	tap_ok(same, "each peer status has its letters");
	tap_ok(is_remarked(machine, "peer status 7 of GPU 0 to GPU 7"),
	       "one without letters is told, and unknown");
	tap_ok(peer[OH__PEER_READ][3][4].status == OH__PEER_OK &&
		       peer[OH__PEER_READ][4][3].status == OH__PEER_OK &&
		       !oh__known(peer[OH__PEER_READ][3][3].from),
	       "pairs are asked both ways, and no GPU of itself");
	tap_ok(peer[OH__PEER_WRITE][8][0].status == OH__PEER_NS &&
		       !oh__known(peer[OH__PEER_WRITE][0][8].from),
	       "what holds one way is not said of the other");
	tap_ok(peer[OH__PEER_NVLINK][1][0].status == OH__PEER_OK &&
		       !oh__known(peer[OH__PEER_NVLINK][0][1].from) &&
		       peer[OH__PEER_ATOMICS][0][1].status == OH__PEER_OK,
	       "NVLink and atomics are apart");
	free(machine);
}

static void try_gpus(void)
{
	struct oh__machine *machine = read_nvml(
		"gpus 3\ndriver 590.48.01\ncuda 13010\n"
		"gpu * name NVIDIA H200 NVL\ngpu 0 uuid GPU-11\n"
		"gpu 0 pci 00000000:0A:00.0\ngpu 1 pci 00010000:E1:1F.0\n"
		"gpu * capability 90\ngpu * memory 150754820096\n",
		"gpu 0 gen 1\ngpu 0 gen_max 5\ngpu 0 width 8\n"
		"gpu 0 width_max 16\ngpu 0 mig 1\ngpu 1 mig 0\n"
		"gpu 0 nodes 1\ngpu 1 nodes 0x8000000000000\n"
		"gpu 2 nodes 3\nerror nvmlDeviceGetHandleByIndex_v2 4 2\n");
	const struct oh__gpu *gpu = machine->gpu;

	tap_ok(machine->gpus == 3 && is_text(&gpu[0].name, "NVIDIA H200 NVL") &&
		       is_text(&gpu[0].uuid, "GPU-11"),
	       "names and UUIDs are read");
	tap_ok(is_text(&gpu[0].pci, "0000:0a:00.0") &&
		       is_text(&gpu[1].pci, "10000:e1:1f.0"),
	       "addresses are written as the kernel does");
	tap_ok(is_number(&gpu[1].capability, 90) &&
		       is_number(&gpu[1].memory_bytes, 150754820096),
	       "capability and memory are read");
	tap_ok(is_number(&gpu[0].pcie_gen, 1) &&
		       is_number(&gpu[0].pcie_gen_max, 5) &&
		       is_number(&gpu[0].pcie_width, 8) &&
		       is_number(&gpu[0].pcie_width_max, 16) &&
		       !oh__known(gpu[1].pcie_gen.from) &&
		       !oh__known(gpu[1].pcie_width_max.from),
	       "the PCIe link is read, and unknown where it is not said");
	tap_ok(is_number(&gpu[0].mig, 1) && is_number(&gpu[1].mig, 0),
	       "MIG on and off");
	tap_ok(is_number(&gpu[0].numa_node, 0) &&
		       is_number(&gpu[1].numa_node, 51),
	       "NUMA nodes 0 and 51");
	tap_ok(!oh__known(gpu[2].name.from) &&
		       oh__known(machine->link[2][2].from) &&
		       is_remarked(machine, "of GPU 2: fake error 4"),
	       "a GPU that may not be asked keeps its place, with a remark");
	tap_ok(is_text(&machine->host.driver, "590.48.01") &&
		       is_text(&machine->host.cuda, "13.1"),
	       "driver and CUDA version are read");
	free(machine);

	machine = read_nvml("gpus 40\ngpu * nodes 3\n", "");
	tap_ok(machine->gpus == OH__GPUS && is_remarked(machine, "40 GPUs") &&
		       !oh__known(machine->gpu[1].numa_node.from),
	       "GPUs beyond the model's are left out; two nodes are none");
	free(machine);
}

/* Environment */

static void try_variables(void)
{
	struct oh__machine *machine = make_machine();
	const struct oh__variable *one = machine->variables;
	char origin[OH__TEXT_BYTES];
	int before;

	oh__machine_read_variables(machine);
	before = machine->variable_count;
	memset(machine, 0, sizeof(*machine));
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	setenv("NCCL_P2P_LEVEL", "SYS\n\x1b[31m", 1);
	setenv("VLLM_API_KEY", "secret", 1);
	setenv("NCCL_P2P_LEVEL_OF_MINE", "secret", 1);
	oh__machine_read_variables(machine);
	tap_ok(machine->variable_count >= before + 2 - before &&
		       !strcmp(one[0].name, "CUDA_VISIBLE_DEVICES") &&
		       !*one[0].value,
	       "an empty variable is one");
	for (int i = 0; i < machine->variable_count; i++) {
		if (!strcmp(machine->variables[i].name, "NCCL_P2P_LEVEL"))
			one = &machine->variables[i];
		if (!strcmp(machine->variables[i].value, "secret"))
			before = -1;
	}
	tap_ok(!strcmp(one->value, "SYS  [31m"),
	       "control characters become blanks");
	tap_ok(before >= 0, "no other variable is read");
	oh__machine_origin(machine, one->from, origin, sizeof(origin));
	tap_ok(!strcmp(origin, "environment"), "they are the environment's");
	free(machine);
}

/* This machine */

static void show_text(const char *what, const struct oh__machine *machine,
		      const struct oh__text *text)
{
	char origin[OH__TEXT_BYTES];

	printf("%-16s %s  (%s)\n", what,
	       oh__known(text->from) ? text->text : "?",
	       oh__machine_origin(machine, text->from, origin, sizeof(origin)));
}

static void show_number(const char *what, const struct oh__machine *machine,
			const struct oh__number *number)
{
	char origin[OH__TEXT_BYTES];

	if (!oh__known(number->from))
		printf("  %-14s ?\n", what);
	else
		printf("  %-14s %llu  (%s)\n", what,
		       (unsigned long long)number->value,
		       oh__machine_origin(machine, number->from, origin,
					  sizeof(origin)));
}

static void show_gpu(const struct oh__machine *machine, int i)
{
	const struct oh__gpu *gpu = &machine->gpu[i];

	printf("GPU %d\n", i);
	show_text("  name", machine, &gpu->name);
	show_text("  uuid", machine, &gpu->uuid);
	show_text("  pci", machine, &gpu->pci);
	show_number("capability", machine, &gpu->capability);
	show_number("memory bytes", machine, &gpu->memory_bytes);
	show_number("numa node", machine, &gpu->numa_node);
	show_text("  cpu affinity", machine, &gpu->cpu_affinity);
	show_number("pcie gen", machine, &gpu->pcie_gen);
	show_number("pcie gen max", machine, &gpu->pcie_gen_max);
	show_number("pcie width", machine, &gpu->pcie_width);
	show_number("pcie width max", machine, &gpu->pcie_width_max);
	show_number("mig", machine, &gpu->mig);
}

static void show_host(const struct oh__machine *machine)
{
	static const char *const modes[] = {"?", "off", "passthrough",
					    "translated"};
	const struct oh__host *host = &machine->host;

	show_text("driver", machine, &host->driver);
	show_text("cuda", machine, &host->cuda);
	show_text("cpu", machine, &host->cpu);
	show_text("kernel", machine, &host->kernel);
	show_text("command line", machine, &host->command_line);
	printf("%-16s %s\n", "iommu",
	       modes[oh__known(host->iommu.from) ? host->iommu.mode : 0]);
	printf("host\n");
	show_number("acs redirect", machine, &host->acs_redirect);
	for (int i = 0; i < machine->variable_count; i++)
		printf("variable         %s=%s\n", machine->variables[i].name,
		       machine->variables[i].value);
	for (int i = 0; i < machine->remark_count; i++)
		printf("remark           %s\n", machine->remarks[i].text);
}

static void show_pairs(const struct oh__machine *machine)
{
	static const char letters[] = "rwna";

	printf("topo -m\n%s\n", write_links(machine));
	for (int aspect = 0; aspect < OH__PEER_ASPECTS; aspect++) {
		printf("topo -p2p %c\n", letters[aspect]);
		for (int i = 0; i < machine->gpus; i++) {
			for (int j = 0; j < machine->gpus; j++)
				printf(" %s",
				       i == j ? "X"
					      : statuses[machine
								 ->peer[aspect]
								       [i][j]
								 .status]);
			printf("\n");
		}
	}
}

static int show(void)
{
	struct oh__machine *machine = make_machine();
	enum oh_status status = oh__machine_read_nvml(machine);

	printf("NVML             %s%s%s\n", oh_status_name(status),
	       status ? ": " : "", status ? oh_last_error()->message : "");
	oh__machine_read_host(machine, "");
	oh__machine_read_variables(machine);
	for (int i = 0; i < machine->gpus; i++)
		show_gpu(machine, i);
	show_pairs(machine);
	show_host(machine);
	free(machine);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "--show"))
		return show();
	fakenvml_start(argv);
	oh_set_log(OH_LOG_OFF, NULL, NULL);
	try_matrices();
	try_link_remarks();
	try_peers();
	try_gpus();
	try_variables();
	fakelibrary_end();
	return tap_done();
}
