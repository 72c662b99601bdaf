/* SPDX-License-Identifier: MIT */
/*
 * What the host's files say: captured machines, made up here under a directory
 * of their own, with files as kernels write them and as they should not be.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fakenvml.h"
#include "machine/local.h"
#include "machine_facts.h"
#include "tap.h"

static const char *make_root(void)
{
	static char root[PATH_MAX];
	static int count;

	snprintf(root, sizeof(root), "%s/root%d", fakelibrary_directory(),
		 ++count);
	if (mkdir(root, 0700))
		exit(1);
	return root;
}

/* All directories on the way to a file. */
static void make_way(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
}

static void put_bytes(const char *root, const char *name, const void *bytes,
		      size_t count)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	make_way(path);
	file = fopen(path, "w");
	if (!file || fwrite(bytes, 1, count, file) != count)
		exit(1);
	fclose(file);
}

static void put(const char *root, const char *name, const char *text)
{
	put_bytes(root, name, text, strlen(text));
}

/* A machine with GPUs at 0000:01:00.0, 0000:02:00.0 and so on. */
static struct oh__machine *read_host(const char *root, int gpus)
{
	struct oh__machine *machine = make_machine();
	struct oh__from from = {oh__machine_source(machine, "test"), 0};

	machine->gpus = gpus;
	for (int i = 0; i < gpus; i++) {
		char address[32];

		snprintf(address, sizeof(address), "0000:%02x:00.0", i + 1);
		oh__text_set(&machine->gpu[i].pci, from, address,
			     strlen(address));
	}
	oh__machine_read_host(machine, root);
	return machine;
}

static const char cpuinfo[] =
	"processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\n"
	"model\t\t: 2\nmodel name\t: AMD EPYC 9335 32-Core Processor\n"
	"flags\t\t: fpu vme de hypervisorless\nbogomips\t: 6000.00\n\n";
static const char guest_cpuinfo[] = "processor\t: 0\nmodel name\t: Some CPU\n"
				    "flags\t\t: fpu vme hypervisor lahf_lm\n";

static void try_host(void)
{
	const char *root = make_root();
	struct oh__machine *machine;
	char origin[OH__TEXT_BYTES], line[600];

	put(root, "proc/sys/kernel/osrelease", "6.8.0-60-generic\n");
	put(root, "proc/cpuinfo", cpuinfo);
	put(root, "proc/driver/nvidia/version",
	    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "
	    "590.48.01  Release Build  (dvs)\nGCC version:  gcc 12.2.0\n");
	memset(line, 'a', sizeof(line));
	memcpy(line, "BOOT_IMAGE=/vmlinuz ", 20);
	memcpy(line + 580, " iommu=pt quiet\n", 17);
	put(root, "proc/cmdline", line);
	machine = read_host(root, 1);
	tap_ok(is_text(&machine->host.kernel, "6.8.0-60-generic"),
	       "the kernel's release");
	tap_ok(is_text(&machine->host.cpu, "AMD EPYC 9335 32-Core Processor"),
	       "the processor");
	oh__machine_origin(machine, machine->host.cpu.from, origin,
			   sizeof(origin));
	tap_ok(strstr(origin, "/proc/cpuinfo:5") &&
		       !strncmp(origin, "/tmp/", 5),
	       "its origin names root, file and line");
	tap_ok(is_text(&machine->host.driver, "590.48.01"), "the driver");
	tap_ok(oh__known(machine->host.command_line.from) &&
		       strlen(machine->host.command_line.text) ==
			       OH__TEXT_BYTES - 1,
	       "a long command line is cut");
	tap_ok(machine->host.iommu.mode == OH__IOMMU_PASSTHROUGH,
	       "but read to its end");
	tap_ok(!oh__known(machine->host.acs_redirect.from) &&
		       !oh__known(machine->gpu[0].numa_node.from) &&
		       !oh__known(machine->gpu[0].pcie_gen.from) &&
		       !oh__known(machine->gpu[0].cpu_affinity.from),
	       "what has no file is unknown");
	free(machine);
}

static void try_odd_files(void)
{
	const char *root = make_root();
	struct oh__machine *machine;
	char path[PATH_MAX];

	put(root, "proc/driver/nvidia/version",
	    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n");
	put_bytes(root, "proc/cpuinfo", "model name\t:\0\0\0\0\nmodel name : x",
		  30);
	put(root, "proc/cmdline", " \n\n");
	snprintf(path, sizeof(path), "%s/proc/sys/kernel/osrelease", root);
	make_way(path);
	if (mkfifo(path, 0600))
		exit(1);
	machine = read_host(root, 2);
	tap_ok(is_text(&machine->host.driver, "550.54.15"),
	       "the driver, as the other module writes it");
	tap_ok(!oh__known(machine->host.cpu.from) &&
		       !oh__known(machine->host.command_line.from),
	       "empty values are unknown");
	tap_ok(!oh__known(machine->host.kernel.from),
	       "a pipe is not waited for");
	free(machine);

	machine = read_host(make_root(), 2);
	tap_ok(!oh__known(machine->host.kernel.from) &&
		       !oh__known(machine->host.iommu.from) &&
		       !machine->remark_count && machine->source_count == 2,
	       "an empty root says nothing");
	free(machine);
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	machine = read_host(path, 2);
	tap_ok(machine->source_count == 1, "nor does one that is too long");
	free(machine);
}

/* Groups: name of the GPUs' one, or NULL; file's text or NULL. */
static const struct {
	const char *what;
	bool directory;
	const char *gpus, *others, *line;
	bool guest;
	enum oh__iommu mode;
} iommus[] = {
	{"translated", true, "DMA", "DMA", "", false, OH__IOMMU_TRANSLATED},
	{"translated, flushed late", true, "DMA-FQ\n", NULL, "iommu=pt", false,
	 OH__IOMMU_TRANSLATED},
	{"passthrough", true, "identity\n", "DMA-FQ", "", false,
	 OH__IOMMU_PASSTHROUGH},
	{"no groups", true, NULL, NULL, "", false, OH__IOMMU_OFF},
	{"other groups that agree", true, NULL, "DMA", "", false,
	 OH__IOMMU_TRANSLATED},
	{"a word that is not known", true, "blocked", NULL, "", false,
	 OH__IOMMU_UNKNOWN},
	{"nothing", false, NULL, NULL, "quiet", false, OH__IOMMU_UNKNOWN},
	{"intel_iommu=on alone", false, NULL, NULL, "intel_iommu=on", false,
	 OH__IOMMU_UNKNOWN},
	{"iommu=pt", false, NULL, NULL, "intel_iommu=on iommu=pt", false,
	 OH__IOMMU_PASSTHROUGH},
	{"iommu.passthrough=1", false, NULL, NULL, "a iommu.passthrough=1 b",
	 false, OH__IOMMU_PASSTHROUGH},
	{"amd_iommu=off", false, NULL, NULL, "amd_iommu=off", false,
	 OH__IOMMU_OFF},
	{"a word that begins alike", false, NULL, NULL, "xiommu=pt iommu=ptx",
	 false, OH__IOMMU_UNKNOWN},
	{"a guest's own", true, "DMA", NULL, "", true, OH__IOMMU_TRANSLATED},
	{"a guest without", true, NULL, NULL, "", true, OH__IOMMU_UNKNOWN},
	{"a guest's passthrough", true, "identity", NULL, "", true,
	 OH__IOMMU_UNKNOWN},
};

static void try_iommus(void)
{
	for (size_t i = 0; i < sizeof(iommus) / sizeof(*iommus); i++) {
		const char *root = make_root();
		struct oh__machine *machine;

		put(root, "proc/cpuinfo",
		    iommus[i].guest ? guest_cpuinfo : cpuinfo);
		put(root, "proc/cmdline", iommus[i].line);
		if (iommus[i].directory)
			put(root, "sys/kernel/iommu_groups/.hidden", "");
		if (iommus[i].gpus) {
			put(root, "sys/kernel/iommu_groups/17/type",
			    iommus[i].gpus);
			put(root,
			    "sys/kernel/iommu_groups/17/devices/0000:02:00.0",
			    "");
		}
		if (iommus[i].others)
			put(root, "sys/kernel/iommu_groups/3/type",
			    iommus[i].others);
		machine = read_host(root, 2);
		tap_ok(machine->host.iommu.mode == iommus[i].mode &&
			       oh__known(machine->host.iommu.from) ==
				       (iommus[i].mode != OH__IOMMU_UNKNOWN),
		       "iommu: %s", iommus[i].what);
		tap_ok(is_remarked(machine, "virtual machine") ==
			       (iommus[i].guest &&
				iommus[i].mode == OH__IOMMU_UNKNOWN),
		       "iommu: %s: told if the host hides it", iommus[i].what);
		free(machine);
	}
}

static const struct {
	const char *speed, *width;
	uint64_t gen, lanes; /* 0: unknown */
} links[] = {
	{"2.5 GT/s PCIe", "1", 1, 1},
	{"5.0 GT/s PCIe", "2", 2, 2},
	{"5 GT/s", "4", 2, 4},
	{"8.0 GT/s PCIe", "8", 3, 8},
	{"8 GT/s", "16", 3, 16},
	{"16.0 GT/s PCIe", "16", 4, 16},
	{"32.0 GT/s PCIe", "16", 5, 16},
	{"64.0 GT/s PCIe", "16", 6, 16},
	{"Unknown", "0", 0, 0},
	{"Unknown speed", "255", 0, 0},
	{"80 GT/s", "63", 0, 0},
	{"", "-1", 0, 0},
	{"16", "16 lanes", 0, 0},
	{"99999999999999999999 GT/s", "99999999999999999999", 0, 0},
};

static void try_links(void)
{
	for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++) {
		const char *root = make_root();
		char line[64];
		const struct oh__gpu *gpu;
		struct oh__machine *machine;

		snprintf(line, sizeof(line), "%s\n", links[i].speed);
		put(root, "sys/bus/pci/devices/0000:01:00.0/current_link_speed",
		    line);
		snprintf(line, sizeof(line), "%s\n", links[i].width);
		put(root, "sys/bus/pci/devices/0000:01:00.0/max_link_width",
		    line);
		machine = read_host(root, 1);
		gpu = machine->gpu;
		tap_ok(oh__known(gpu->pcie_gen.from) == (links[i].gen != 0) &&
			       gpu->pcie_gen.value == links[i].gen &&
			       !oh__known(gpu->pcie_gen_max.from),
		       "link: speed '%.14s'", links[i].speed);
		tap_ok(oh__known(gpu->pcie_width_max.from) ==
				       (links[i].lanes != 0) &&
			       gpu->pcie_width_max.value == links[i].lanes &&
			       !oh__known(gpu->pcie_width.from),
		       "link: width '%.14s'", links[i].width);
		free(machine);
	}
}

static void try_nodes(void)
{
	const char *root = make_root();
	struct oh__machine *machine;
	struct oh__from from;

	put(root, "sys/bus/pci/devices/0000:01:00.0/numa_node", "1\n");
	put(root, "sys/bus/pci/devices/0000:01:00.0/local_cpulist",
	    "32-63,96-127\n");
	put(root, "sys/bus/pci/devices/0000:02:00.0/numa_node", "-1\n");
	put(root, "sys/bus/pci/devices/0000:02:00.0/current_link_width", "4");
	put(root, "sys/bus/pci/devices/0000:02:00.0/max_link_width", "16");
	put(root, "proc/driver/nvidia/version", "NVRM 1.2.3 x\n");
	machine = read_host(root, 2);
	tap_ok(is_number(&machine->gpu[0].numa_node, 1) &&
		       is_text(&machine->gpu[0].cpu_affinity, "32-63,96-127"),
	       "a GPU's node and processors");
	tap_ok(!oh__known(machine->gpu[1].numa_node.from),
	       "-1 is no node, and not node 0");
	tap_ok(is_number(&machine->gpu[1].pcie_width, 4) &&
		       is_number(&machine->gpu[1].pcie_width_max, 16),
	       "a narrow link, now and at most");
	free(machine);

	/* what NVML has said stays */
	machine = make_machine();
	fakenvml_play("gpus 1\ndriver 5.6.7\ngpu 0 pci 00000000:02:00.0\n",
		      "gpu 0 width 8\ngpu 0 nodes 8\n");
	tap_ok(!oh__machine_read_nvml(machine), "NVML is read");
	from = machine->gpu[0].pcie_width.from;
	oh__machine_read_host(machine, root);
	tap_ok(is_number(&machine->gpu[0].pcie_width, 8) &&
		       machine->gpu[0].pcie_width.from.source == from.source &&
		       is_number(&machine->gpu[0].pcie_width_max, 16) &&
		       is_number(&machine->gpu[0].numa_node, 3) &&
		       is_text(&machine->host.driver, "5.6.7"),
	       "the host adds only what NVML does not say");
	free(machine);
}

/* An address from elsewhere may be anything, and leads nowhere else. */
static void try_odd_address(void)
{
	const char *root = make_root(), *odd = "../../../../numa";
	struct oh__machine *machine = make_machine();

	put(root, "numa/numa_node", "1\n");
	put(root, "sys/bus/pci/devices/x", "");
	machine->gpus = 1;
	oh__text_set(&machine->gpu[0].pci,
		     (struct oh__from){oh__machine_source(machine, "test"), 0},
		     odd, strlen(odd));
	oh__machine_read_host(machine, root);
	tap_ok(!oh__known(machine->gpu[0].numa_node.from),
	       "an address that is none is not looked up");
	free(machine);
}

/* PCI configuration space: a bridge of PCI Express whose capabilities are
 * express at 0x40, error reporting at 0x100 and ACS at 0x140. */
static unsigned char space[4096];

static void make_bridge(unsigned control)
{
	memset(space, 0, sizeof(space));
	space[0x00] = 0x22; /* vendor 1022 */
	space[0x01] = 0x10;
	space[0x06] = 0x10; /* it has capabilities */
	space[0x0e] = 0x81; /* bridge, one of several functions */
	space[0x34] = 0x40;
	space[0x40] = 0x10; /* express, the last */
	/* id, version and next, lowest byte first: 1, 1, 0x140 */
	memcpy(space + 0x100, "\x01\x00\x01\x14", 4);
	/* 0xd, 1, the last */
	memcpy(space + 0x140, "\x0d\x00\x01\x00", 4);
	space[0x146] = (unsigned char)control;
}

static void put_space(const char *root, const char *address, size_t bytes)
{
	char name[64];

	snprintf(name, sizeof(name), "sys/bus/pci/devices/%s/config", address);
	put_bytes(root, name, space, bytes);
}

/* How ACS comes out: a number, or -1 for unknown. */
static void expect_acs(const char *root, const char *what, int due,
		       bool remarked)
{
	struct oh__machine *machine = read_host(root, 0);
	const struct oh__number *acs = &machine->host.acs_redirect;

	if (!tap_ok(oh__known(acs->from) == (due >= 0) &&
			    (due < 0 || acs->value == (uint64_t)due),
		    "acs: %s", what))
		tap_note("%s %llu", oh__known(acs->from) ? "known" : "unknown",
			 (unsigned long long)acs->value);
	tap_ok(is_remarked(machine, "ACS control is not known") == remarked,
	       "acs: %s: %s", what, remarked ? "told" : "nothing to tell");
	free(machine);
}

static void try_acs_values(void)
{
	const char *root = make_root();

	make_bridge(0);
	put_space(root, "0000:00:01.0", sizeof(space));
	expect_acs(root, "no bits", 0, false);
	make_bridge(0x73); /* all but redirect */
	put_space(root, "0000:00:02.0", sizeof(space));
	expect_acs(root, "other bits", 0, false);
	make_bridge(0x04);
	put_space(root, "0000:00:03.0", sizeof(space));
	expect_acs(root, "requests redirected", 1, false);
	make_bridge(0x08);
	put_space(root, "10000:00:03.0", sizeof(space));
	expect_acs(root, "completions redirected", 2, false);
	/* the same registers in what is no bridge */
	make_bridge(0x0c);
	space[0x0e] = 0;
	put_space(root, "0000:41:00.0", sizeof(space));
	expect_acs(root, "devices do not count", 2, false);
	put_space(root, "0000:00:03.0", 64);
	expect_acs(root, "devices do not count, short", 1, false);
}

static void try_acs_kinds(void)
{
	const char *root = make_root();

	make_bridge(0x0c);
	space[0x06] = 0;
	put_space(root, "0000:00:01.0", sizeof(space));
	expect_acs(root, "a bridge without capabilities", 0, false);
	make_bridge(0x0c);
	space[0x40] = 0x05;
	put_space(root, "0000:00:01.0", 256);
	expect_acs(root, "a bridge of conventional PCI", 0, false);
	make_bridge(0x0c);
	space[0x140] = 0x0e;
	put_space(root, "0000:00:01.0", sizeof(space));
	expect_acs(root, "a bridge without ACS", 0, false);
	make_bridge(0x0c);
	memcpy(space + 0x140, "\x01\x00\x01\x10", 4);
	put_space(root, "0000:00:01.0", sizeof(space));
	expect_acs(root, "capabilities that go round", 0, false);
	put(root, "proc/cpuinfo", guest_cpuinfo);
	expect_acs(root, "a guest's bridges that do not redirect", -1, false);
	make_bridge(0x0c);
	put_space(root, "0000:00:01.0", sizeof(space));
	expect_acs(root, "a guest's bridges that do", 1, false);
}

static void try_acs_unreadable(void)
{
	const char *root = make_root();

	expect_acs(root, "no devices", -1, false);
	make_bridge(0);
	put_space(root, "0000:00:01.0", 64);
	expect_acs(root, "64 bytes, as users see", -1, true);
	put_space(root, "0000:00:01.0", 256);
	expect_acs(root, "no extended space", -1, true);
	put_space(root, "0000:00:01.0", 0x142);
	expect_acs(root, "cut before the register", -1, true);
	memset(space + 0x100, 0xff, 0xf00);
	put_space(root, "0000:00:01.0", sizeof(space));
	expect_acs(root, "ones for extended space", -1, true);
	memset(space, 0xff, sizeof(space));
	put_space(root, "0000:00:01.0", sizeof(space));
	expect_acs(root, "ones for all, as a device that is off", -1, true);
	put_space(root, "0000:00:01.0", 0);
	expect_acs(root, "empty", -1, true);
	make_bridge(0);
	put_space(root, "0000:00:02.0", sizeof(space));
	expect_acs(root, "one that can be read and does not", -1, true);
	make_bridge(0x0c);
	put_space(root, "0000:00:03.0", sizeof(space));
	expect_acs(root, "one that can be read and does", 1, true);
	/* libpci gives up on such a name, and must not end the process */
	put(root, "sys/bus/pci/devices/no-address/config", "");
	expect_acs(root, "a name that is no address", -1, false);
}

int main(int argc, char **argv)
{
	fakenvml_start(argv);
	oh_set_log(OH_LOG_OFF, NULL, NULL);
	try_host();
	try_odd_files();
	try_iommus();
	try_links();
	try_nodes();
	try_odd_address();
	try_acs_values();
	try_acs_kinds();
	try_acs_unreadable();
	fakelibrary_end();
	return tap_done();
}
