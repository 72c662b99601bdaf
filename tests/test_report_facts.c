/* SPDX-License-Identifier: MIT */
/*
 * What a report says beside the matrices: names and data of GPUs in every
 * print of nvidia-smi, the host's facts, variables, and texts of machines that
 * are refused. The longer pieces are what driver 580.159 prints on a machine
 * with two H200, shortened.
 */
#include <inttypes.h>

#include "report_reader.h"
#include "tap.h"

static struct reading reading;

static void read_text(const char *text)
{
	read_report("report.txt", text, strlen(text), &reading);
}

/* --- GPUs --- */

static void add_number(char *text, size_t bytes, const char *name,
		       const struct oh__number *number)
{
	size_t used = strlen(text);

	if (oh__known(number->from))
		snprintf(text + used, bytes - used, " %s=%" PRIu64, name,
			 number->value);
}

static void add_text(char *text, size_t bytes, const char *name,
		     const struct oh__text *value)
{
	size_t used = strlen(text);

	if (oh__known(value->from))
		snprintf(text + used, bytes - used, " %s=%s", name,
			 value->text);
}

/* What is known of a GPU, " name=value" each; memory in MiB. */
static const char *describe(const struct oh__gpu *gpu)
{
	static char text[1024];
	struct oh__number mib = gpu->memory_bytes;

	*text = '\0';
	mib.value >>= 20;
	add_text(text, sizeof(text), "name", &gpu->name);
	add_text(text, sizeof(text), "uuid", &gpu->uuid);
	add_text(text, sizeof(text), "pci", &gpu->pci);
	add_number(text, sizeof(text), "cap", &gpu->capability);
	add_number(text, sizeof(text), "mib", &mib);
	add_number(text, sizeof(text), "gen", &gpu->pcie_gen);
	add_number(text, sizeof(text), "genmax", &gpu->pcie_gen_max);
	add_number(text, sizeof(text), "width", &gpu->pcie_width);
	add_number(text, sizeof(text), "widthmax", &gpu->pcie_width_max);
	add_number(text, sizeof(text), "mig", &gpu->mig);
	return text;
}

struct list {
	const char *what, *text;
	int gpus;
	const char *first, *last; /* GPUs, as describe has them */
	int remarks;
};

#define TABLE_HEAD                                                             \
	"| GPU  Name                 Persistence-M | Bus-Id          Disp.A "  \
	"| "                                                                   \
	"Volatile Uncorr. ECC |\n"                                             \
	"| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage "  \
	"| "                                                                   \
	"GPU-Util  Compute M. |\n"                                             \
	"|                                         |                        "  \
	"| "                                                                   \
	"              MIG M. |\n"                                             \
	"|=========================================+========================+" \
	"======================|\n"
#define TABLE_LINE                                                             \
	"+-----------------------------------------+------------------------+" \
	"----------------------+\n"
#define TABLE_GPU(index, name, bus, mig)                                       \
	"|   " index "  " name "  On  |   " bus " Off |                 0 |\n" \
	"| N/A   34C    P0      96W /  700W |       0MiB / 143771MiB |      "  \
	"0% "                                                                  \
	"     Default |\n"                                                     \
	"|                                  |                        |       " \
	"      " mig " |\n" TABLE_LINE

#define QUERY_GPU(bus, name, gen, width, mig)                                  \
	"GPU " bus "\n"                                                        \
	"    Product Name                          : " name "\n"               \
	"    MIG Mode\n"                                                       \
	"        Current                           : " mig "\n"                \
	"        Pending                           : Enabled\n"                \
	"    PCI\n"                                                            \
	"        Bus Id                            : " bus "\n"                \
	"        GPU Link Info\n"                                              \
	"            PCIe Generation\n"                                        \
	"                Max                       : 5\n"                      \
	"                Current                   : " gen "\n"                \
	"                Device Max                : 5\n"                      \
	"            Link Width\n"                                             \
	"                Max                       : 16x\n"                    \
	"                Current                   : " width "\n"              \
	"    FB Memory Usage\n"                                                \
	"        Total                             : 24564 MiB\n"              \
	"    BAR1 Memory Usage\n"                                              \
	"        Total                             : 256 MiB\n"

#define LINK_INFO(gen)                                                         \
	"        GPU Link Info\n"                                              \
	"            PCIe Generation\n"                                        \
	"                Max                       : 4\n"                      \
	"                Current                   : " gen "\n"                \
	"            Link Width\n"                                             \
	"                Max                       : 16x\n"                    \
	"                Current                   : 8x\n--\n"

#define PAIR                                                                   \
	"\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-7\n"                    \
	"GPU1\tPHB\t X \t0-7\n"

static const struct list lists[] = {
	{"nvidia-smi -L",
	 "GPU 0: NVIDIA H200 (UUID: GPU-61eba23a-966f-19bc-e8e1-0b1240c0cdc8)\n"
	 "GPU 1: NVIDIA H200 (UUID: "
	 "GPU-a5b92466-f429-70b6-0b18-6d83c99eb13a)\n",
	 2, " name=NVIDIA H200 uuid=GPU-61eba23a-966f-19bc-e8e1-0b1240c0cdc8",
	 " name=NVIDIA H200 uuid=GPU-a5b92466-f429-70b6-0b18-6d83c99eb13a", 0},
	{"nvidia-smi -L with MIG devices",
	 "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1)\n"
	 "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-2)\n"
	 "  MIG 1g.5gb      Device  0: (UUID: MIG-3)\n",
	 2, " name=NVIDIA A100-SXM4-40GB uuid=GPU-1",
	 " name=NVIDIA A100-SXM4-40GB uuid=GPU-2 mig=1", 0},
	{"collect_env",
	 "GPU models and configuration : \nGPU 0: Graphics Device\n"
	 "GPU 1: Graphics Device\n\nNvidia driver version        : 570.1.2\n",
	 2, " name=Graphics Device", " name=Graphics Device", 0},
	{"collect_env with MIG devices",
	 "GPU models and configuration: \nGPU 0: NVIDIA A100-SXM4-40GB\n"
	 "  MIG 1g.5gb      Device  0: \n\nNvidia driver version: 570.1.2\n",
	 1, " name=NVIDIA A100-SXM4-40GB mig=1",
	 " name=NVIDIA A100-SXM4-40GB mig=1", 0},
	{"collect_env with one GPU",
	 "GPU models and configuration: GPU 0: NVIDIA A10\n", 1,
	 " name=NVIDIA A10", " name=NVIDIA A10", 0},
	{"SGLang's check_env",
	 "CUDA available: True\nGPU 0,1,2,3: NVIDIA H100 80GB HBM3\n"
	 "GPU 0,1,2,3 Compute Capability: 9.0\n",
	 4, " name=NVIDIA H100 80GB HBM3 cap=90",
	 " name=NVIDIA H100 80GB HBM3 cap=90", 0},
	/* CUDA_VISIBLE_DEVICES hides GPUs from it, not from nvidia-smi */
	{"SGLang's check_env with fewer GPUs than the machine has",
	 "CUDA available: True\nGPU 0: NVIDIA L4\n"
	 "GPU 0 Compute Capability: 8.9\n" PAIR,
	 2, "", "", 1},
	{"SGLang's check_env with all GPUs",
	 "CUDA available: True\nGPU 0: NVIDIA L4\nGPU 1: NVIDIA A10\n" PAIR, 2,
	 " name=NVIDIA L4", " name=NVIDIA A10", 0},
	{"SGLang's check_env, two models",
	 "GPU 0,2: NVIDIA L4\nGPU 1: NVIDIA A10\n", 3, " name=NVIDIA L4",
	 " name=NVIDIA L4", 0},
	{"names with memory", "GPU 0: NVIDIA GeForce RTX 4090, 24564 MiB\n", 1,
	 " name=NVIDIA GeForce RTX 4090 mib=24564",
	 " name=NVIDIA GeForce RTX 4090 mib=24564", 0},
	{"what scripts make of nvidia-smi",
	 "- **CPU:** AMD Ryzen 9 5950X 16-Core Processor (32 threads)\n"
	 "- **GPU 0:** NVIDIA GeForce RTX 3090 | 24576 MiB | driver 595.71.05 "
	 "| VBIOS 94.02\n"
	 "  - **PCIe:** x4 lanes negotiated (GPU max x16, Gen up to 4) | bus "
	 "00000000:0A:00.0 and so on\n"
	 "\xe2\x80\xa2 GPU 1: NVIDIA GeForce RTX 3090 | 24576 MiB\n"
	 "  - **PCIe:** x16 lanes negotiated\n",
	 2,
	 " name=NVIDIA GeForce RTX 3090 pci=0000:0a:00.0 mib=24576 genmax=4 "
	 "width=4 widthmax=16",
	 " name=NVIDIA GeForce RTX 3090 mib=24576 width=16", 0},
	{"PCIe of no GPU, and prose",
	 "PCIe: x4 lanes negotiated\nGPU 0: NVIDIA L4\nPCIe: x8\n", 1,
	 " name=NVIDIA L4", " name=NVIDIA L4", 0},
	{"behind journald",
	 "Aug 06 02:11:09 host sh[12]: GPU 0: NVIDIA L4 (UUID: GPU-1)\n", 1,
	 " name=NVIDIA L4 uuid=GPU-1", " name=NVIDIA L4 uuid=GPU-1", 0},
	{"the table",
	 TABLE_LINE TABLE_HEAD TABLE_GPU("0", "NVIDIA H200       ",
					 "00000000:00:06.0", "Disabled")
		 TABLE_GPU("1", "NVIDIA H200       ", "00000000:C1:00.0",
			   "Enabled*") "| Processes:                           "
				       "                       |\n"
				       "|    0   N/A  N/A      1234      C   "
				       "python         1234MiB |\n",
	 2, " name=NVIDIA H200 pci=0000:00:06.0 mib=143771 mig=0",
	 " name=NVIDIA H200 pci=0000:c1:00.0 mib=143771 mig=1", 0},
	/* MIG of a model that has none is off; a name that is cut is none */
	{"the table of an old driver, the name cut",
	 TABLE_GPU("0", "NVIDIA GeForce ...", "00000000:01:00.0", "     N/A"),
	 1, " pci=0000:01:00.0 mib=143771 mig=0",
	 " pci=0000:01:00.0 mib=143771 mig=0", 0},
	{"the table with a cut name, and the name",
	 TABLE_GPU("0", "NVIDIA GeForce ...", "00000000:01:00.0",
		   "     N/A") "GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-1)\n",
	 1,
	 " name=NVIDIA GeForce RTX 3090 uuid=GPU-1 pci=0000:01:00.0 "
	 "mib=143771 mig=0",
	 NULL, 0},
	{"comma separated values",
	 "index, name, uuid, pci.bus_id, pcie.link.gen.current, "
	 "pcie.link.gen.max, pcie.link.width.current, pcie.link.width.max, "
	 "memory.total [MiB], compute_cap, mig.mode.current, driver_version\n"
	 "0, NVIDIA H200, GPU-61, 00000000:00:06.0, 1, 5, 8, 16, 143771 MiB, "
	 "9.0, Disabled, 580.159.04\n"
	 "1, NVIDIA H200, GPU-a5, 00000001:0A:07.0, 5, 5, 16, 16, 143771 MiB, "
	 "9.0, [N/A], 580.159.04\n",
	 2,
	 " name=NVIDIA H200 uuid=GPU-61 pci=0000:00:06.0 cap=90 mib=143771 "
	 "gen=1 genmax=5 width=8 widthmax=16 mig=0",
	 " name=NVIDIA H200 uuid=GPU-a5 pci=0001:0a:07.0 cap=90 mib=143771 "
	 "gen=5 genmax=5 width=16 widthmax=16 mig=0",
	 0},
	{"comma separated values without an index or units",
	 "name, memory.total [MiB], temperature.gpu\nNVIDIA L4, 23034, 31\n"
	 "NVIDIA L4, 23034, 30\nthat, is, all\n",
	 2, " name=NVIDIA L4 mib=23034", " name=NVIDIA L4 mib=23034", 0},
	{"names alone", "name\nNVIDIA L4\nNVIDIA L40S\nbye\n", 2,
	 " name=NVIDIA L4", " name=NVIDIA L40S", 0},
	{"comma separated values without a header",
	 "NVIDIA H200, 143771 MiB, 5\nNVIDIA H200, 143771 MiB, 5\n", 2,
	 " name=NVIDIA H200 mib=143771", " name=NVIDIA H200 mib=143771", 0},
	{"rows with an index do not count for rows without",
	 "0, NVIDIA H200, GPU-61\n1, NVIDIA H200, GPU-a5\n"
	 "NVIDIA H200, 143771 MiB\nNVIDIA H200, 143771 MiB\n",
	 2, " name=NVIDIA H200 uuid=GPU-61 mib=143771",
	 " name=NVIDIA H200 uuid=GPU-a5 mib=143771", 0},
	{"the same with an index and two memories",
	 "0, NVIDIA H200, 10 MiB, 143771 MiB, GPU-61\n", 1,
	 " name=NVIDIA H200 uuid=GPU-61", " name=NVIDIA H200 uuid=GPU-61", 0},
	{"nvidia-smi -q",
	 "Attached GPUs                             : 2\n" QUERY_GPU(
		 "00000000:01:00.0", "NVIDIA RTX 4000", "1", "8x", "N/A")
		 QUERY_GPU("00000000:41:00.0", "NVIDIA A30", "5", "16x",
			   "Enabled"),
	 2,
	 " name=NVIDIA RTX 4000 pci=0000:01:00.0 mib=24564 gen=1 genmax=5 "
	 "width=8 widthmax=16 mig=0",
	 " name=NVIDIA A30 pci=0000:41:00.0 mib=24564 gen=5 genmax=5 "
	 "width=16 widthmax=16 mig=1",
	 0},
	/* the table says which GPU the block is about */
	{"nvidia-smi -q of one GPU, known by its address",
	 TABLE_GPU("0", "NVIDIA L4", "00000000:01:00.0", "Disabled")
		 TABLE_GPU("1", "NVIDIA L4", "00000000:41:00.0", "Disabled")
			 QUERY_GPU("00000000:41:00.0", "NVIDIA L4", "4", "8x",
				   "Disabled"),
	 2, " name=NVIDIA L4 pci=0000:01:00.0 mib=143771 mig=0",
	 " name=NVIDIA L4 pci=0000:41:00.0 mib=143771 gen=4 genmax=5 width=8 "
	 "widthmax=16 mig=0",
	 0},
	{"nvidia-smi -q of one GPU, which is not known",
	 "Attached GPUs : 2\nGPU 0: NVIDIA L4\nGPU 1: NVIDIA L4\n" QUERY_GPU(
		 "00000000:41:00.0", "NVIDIA L4", "4", "8x", "Disabled"),
	 2, " name=NVIDIA L4", " name=NVIDIA L4", 1},
	{"link states alone, as many as GPUs",
	 PAIR LINK_INFO("1") LINK_INFO("4"), 2,
	 " gen=1 genmax=4 width=8 widthmax=16",
	 " gen=4 genmax=4 width=8 widthmax=16", 0},
	{"link states alone, fewer than GPUs", PAIR LINK_INFO("1"), 2, "", "",
	 1},
	{"lspci of a GPU that is known",
	 "index, pci.bus_id\n0, 00000000:01:00.0\n1, 00000000:C1:00.0\n\n"
	 "c1:00.0 VGA compatible controller: NVIDIA Corporation AD102 [x]\n"
	 "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1\n"
	 "\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x8 (downgraded)\n\n"
	 "01:00.1 Audio device: NVIDIA Corporation Device 22ba\n"
	 "\t\tLnkSta:\tSpeed 5GT/s, Width x4\n",
	 2, " pci=0000:01:00.0",
	 " pci=0000:c1:00.0 gen=1 genmax=4 width=8 widthmax=16", 0},
};

static void try_list(const struct list *list)
{
	const struct oh__machine *machine = &reading.machine;
	int last = list->gpus - 1;

	read_text(list->text);
	if (!tap_ok(!reading.status && reading.found &&
			    machine->gpus == list->gpus,
		    "%s: %d GPUs", list->what, list->gpus)) {
		tap_note("%s", reading.message);
		return;
	}
	if (!tap_ok(!strcmp(describe(&machine->gpu[0]), list->first),
		    "%s: the first", list->what))
		tap_note("%s", describe(&machine->gpu[0]));
	if (list->last &&
	    !tap_ok(!strcmp(describe(&machine->gpu[last]), list->last),
		    "%s: the last", list->what))
		tap_note("%s", describe(&machine->gpu[last]));
	tap_ok(machine->remark_count == list->remarks, "%s: %d remarks",
	       list->what, list->remarks);
}

/* --- the host --- */

static const char *describe_host(const struct oh__host *host)
{
	static const char *const modes[] = {"unknown", "off", "passthrough",
					    "translated"};
	static char text[1024];

	*text = '\0';
	add_text(text, sizeof(text), "driver", &host->driver);
	add_text(text, sizeof(text), "cuda", &host->cuda);
	add_text(text, sizeof(text), "cpu", &host->cpu);
	add_text(text, sizeof(text), "kernel", &host->kernel);
	add_text(text, sizeof(text), "command_line", &host->command_line);
	if (oh__known(host->iommu.from)) {
		strcat(text, " iommu=");
		strcat(text, modes[host->iommu.mode]);
	}
	add_number(text, sizeof(text), "acs", &host->acs_redirect);
	add_text(text, sizeof(text), "vllm", &host->vllm);
	add_text(text, sizeof(text), "sglang", &host->sglang);
	add_text(text, sizeof(text), "nccl", &host->nccl);
	add_text(text, sizeof(text), "torch", &host->torch);
	return text;
}

#define ACS_ON                                                                 \
	"\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ "              \
	"UpstreamFwd+\n"
#define ACS_OFF                                                                \
	"\t\tACSCtl:\tSrcValid- TransBlk- ReqRedir- CmpltRedir- "              \
	"UpstreamFwd-\n"
#define ACS_CAN                                                                \
	"\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ "              \
	"UpstreamFwd+\n"

static const struct {
	const char *text, *read;
} hosts[] = {
	{"Nvidia driver version: 590.48.01\n", " driver=590.48.01"},
	{"Nvidia driver version        : 570.86.15\n", " driver=570.86.15"},
	{"CUDA Driver Version: 550.90.07\n", " driver=550.90.07"},
	{"| NVIDIA-SMI 580.159.04             Driver Version: 580.159.04     "
	 "CUDA Version: 13.0     |\n",
	 " driver=580.159.04 cuda=13.0"},
	{"Driver Version                     : 580.159.04\n"
	 "CUDA Version                       : 13.0\n",
	 " driver=580.159.04 cuda=13.0"},
	{"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  "
	 "Release Build  (root@)  \n",
	 " driver=580.159.04"},
	{"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun\n",
	 " driver=535.54.03"},
	{"Model name:                           AMD EPYC 9335 32-Core "
	 "Processor\n",
	 " cpu=AMD EPYC 9335 32-Core Processor"},
	{"model name\t: Intel(R) Xeon(R) Platinum 8480C\n",
	 " cpu=Intel(R) Xeon(R) Platinum 8480C"},
	{"Linux host 6.8.0-45-generic #45-Ubuntu SMP x86_64 GNU/Linux\n",
	 " kernel=6.8.0-45-generic"},
	{"[    0.000000] Linux version 6.8.0-45-generic (gcc) #45-Ubuntu\n",
	 " kernel=6.8.0-45-generic"},
	{"Python platform: Linux-6.8.0-45-generic-x86_64-with-glibc2.35\n",
	 " kernel=6.8.0-45-generic"},
	{"Python platform  : "
	 "Linux-5.14.0-503.el9.x86_64-x86_64-with-glibc2.34\n",
	 " kernel=5.14.0-503.el9.x86_64"},
	{"BOOT_IMAGE=/vmlinuz root=/dev/sda ro iommu=pt\n",
	 " command_line=BOOT_IMAGE=/vmlinuz root=/dev/sda ro iommu=pt "
	 "iommu=passthrough"},
	{"[    0.1] Kernel command line: ro quiet amd_iommu=off\n",
	 " command_line=ro quiet amd_iommu=off iommu=off"},
	{"$ cat /proc/cmdline\nconsole=ttyS0 intel_iommu=on iommu=pt\n",
	 " command_line=console=ttyS0 intel_iommu=on iommu=pt "
	 "iommu=passthrough"},
	{"$ cat /proc/cmdline\nno such file\n", ""},
	/* what is off has no mode */
	{"Command line: iommu=pt intel_iommu=off\n",
	 " command_line=iommu=pt intel_iommu=off iommu=off"},
	/* on: the mode is the kernel's choice */
	{"Command line: intel_iommu=on\n", " command_line=intel_iommu=on"},
	{"Command line: amd_iommu=on iommu=ptx\n",
	 " command_line=amd_iommu=on iommu=ptx"},
	{"Command line: iommu.passthrough=0\n",
	 " command_line=iommu.passthrough=0 iommu=translated"},
	{"[    1.2] iommu: Default domain type: Translated (set via kernel)\n",
	 " iommu=translated"},
	{"Aug 06 02:11:09 host kernel: iommu: Default domain type: "
	 "Passthrough\n",
	 " iommu=passthrough"},
	/* the kernel's word counts, wherever it stands */
	{"Command line: iommu=pt\niommu: Default domain type: Translated\n",
	 " command_line=iommu=pt iommu=translated"},
	/* an IOMMU that refuses an address is one that translates */
	{"[ 12.3] AMD-Vi: Event logged [IO_PAGE_FAULT device=07:00.0]\n",
	 " iommu=translated"},
	{"Sep 21 09:59:59 host kernel: nvidia 0000:07:00.0: AMD-Vi: Event "
	 "logged [IO_PAGE_FAULT domain=0x0003 address=0x80000040]\n",
	 " iommu=translated"},
	{"DMAR: [DMA Write NO_PASID] Request device [17:00.0] fault addr "
	 "0x3a\n",
	 " iommu=translated"},
	{"iommu: Default domain type: Passthrough\n"
	 "DMAR: [DMA Read] Request device [17:00.0] fault addr 0x3a\n",
	 " iommu=passthrough"},
	{"DMAR: DRHD: handling fault status reg 2\n", ""},
	{"- **CPU:** AMD EPYC 7302P\n- **Kernel:** 6.17.0-29-generic\n"
	 "- **GPU 0:** NVIDIA L4 | 23034 MiB | driver 595.71.05 | x\n",
	 " driver=595.71.05 cpu=AMD EPYC 7302P kernel=6.17.0-29-generic"},
	{"CPU: 3 PID: 1234 Comm: python3\nKernel: unknown\n", ""},
	{"iommu: Default domain type: Translated\nCommand line: iommu=pt\n",
	 " command_line=iommu=pt iommu=translated"},
	{"DMAR: IOMMU enabled\n", ""},
	{ACS_ON, " acs=1"},
	{ACS_OFF ACS_OFF, " acs=0"},
	{ACS_CAN, ""},
	{"c0:01.1 PCI bridge: AMD\n" ACS_CAN ACS_ON
	 "\nc1:00.0 PCI bridge: x\n" ACS_OFF "\nc2:00.0 PCI bridge: x\n" ACS_ON,
	 " acs=2"},
	/* not a bridge: nothing goes through it */
	{"c1:00.0 Ethernet controller: x\n" ACS_ON, ""},
	{"ACSCtl: SrcValid+ ReqRedir- CmpltRedir+\n", " acs=1"},
	{"vLLM Version: 0.7.3\n", " vllm=0.7.3"},
	{"vLLM Version                 : 0.16.0rc2.dev313+g662205d34 (git sha: "
	 "662205d34)\n",
	 " vllm=0.16.0rc2.dev313+g662205d34"},
	{"sglang: 0.4.6.post1\nPyTorch: 2.6.0+cu124\n",
	 " sglang=0.4.6.post1 torch=2.6.0+cu124"},
	{"[pip3] nvidia-nccl-cu12==2.27.3\n[pip3] torch==2.8.0\n"
	 "[pip3] torchvision==0.23.0\n",
	 " nccl=2.27.3 torch=2.8.0"},
	{"[conda] nvidia-nccl-cu12          2.21.5           pypi_0    pypi\n",
	 " nccl=2.21.5"},
	{"PyTorch version: 2.6.0+cu124\n[pip3] torch==2.6.0\n",
	 " torch=2.6.0+cu124"},
};

/* Lines that look like facts and are none. */
static const char *const no_facts[] = {
	"INFO 08-06 02:11:09 [x.py:1] Nvidia driver version is new",
	"Using the Nvidia driver version: latest",
	"Model name: meta-llama/Llama-3-8B",
	"GPU 0: memory 12 GiB used",
	"GPU 0: out of memory",
	"GPU 0: NVIDIA driver crashed",
	"GPU 0: NVIDIA H100 is hot.",
	"GPU 1, GPU 2: fine",
	"I set NCCL_P2P_DISABLE=1 and it works",
	"NCCL_P2P_DISABLE=1 vllm serve model",
	"PATH=/usr/bin",
	"VLLM_API_KEY=secret",
	"HF_TOKEN=secret",
	"name, age\nBob, 3",
	"torchvision==0.23.0",
	"Linux is an operating system",
	"vLLM Version: N/A",
	"01:00.0 is the address",
	"| 0 | NVIDIA H100 | fine |",
	"MIG 1g.5gb Device 0: (UUID: MIG-1)",
	"NVIDIA announces the H200, and more",
	"ROCM used to build PyTorch: N/A",
	"ROCM Version                 : Could not collect",
	"  CUDA Archs: Not Set; ROCm: Disabled; Neuron: Disabled",
	"rocm-smi: command not found",
};

/* The first line of a text, for the name of a test. */
static const char *first_line(const char *text)
{
	static char line[64];

	snprintf(line, sizeof(line), "%.*s", (int)strcspn(text, "\n"), text);
	for (char *at = line; *at; at++)
		*at = *at == '\t' || *at == '#' ? ' ' : *at;
	return line;
}

static void try_hosts(void)
{
	for (size_t i = 0; i < sizeof(hosts) / sizeof(*hosts); i++) {
		const char *got;

		read_text(hosts[i].text);
		got = describe_host(&reading.machine.host);
		if (!tap_ok(!reading.status && !strcmp(got, hosts[i].read) &&
				    reading.found == (*hosts[i].read != '\0'),
			    "%zu: %s", i, first_line(hosts[i].text)))
			tap_note("%s%s", reading.message, got);
	}
	for (size_t i = 0; i < sizeof(no_facts) / sizeof(*no_facts); i++) {
		read_text(no_facts[i]);
		if (!tap_ok(!reading.status && !reading.found &&
				    !reading.machine.gpus &&
				    !reading.machine.variable_count &&
				    !*describe_host(&reading.machine.host),
			    "no fact: %s", first_line(no_facts[i])))
			tap_note("%s%d %s", reading.message,
				 reading.machine.gpus,
				 describe_host(&reading.machine.host));
	}
}

/* --- variables --- */

static const struct {
	const char *line, *name, *value;
} variables[] = {
	{"CUDA_VISIBLE_DEVICES=0,1", "CUDA_VISIBLE_DEVICES", "0,1"},
	{"CUDA_VISIBLE_DEVICES=", "CUDA_VISIBLE_DEVICES", ""},
	{"export NCCL_P2P_DISABLE=1", "NCCL_P2P_DISABLE", "1"},
	{"  - NCCL_P2P_LEVEL=SYS", "NCCL_P2P_LEVEL", "SYS"},
	{"CUDA_VISIBLE_DEVICES=\"1,0\"", "CUDA_VISIBLE_DEVICES", "1,0"},
	{"declare -x VLLM_SKIP_P2P_CHECK='0'", "VLLM_SKIP_P2P_CHECK", "0"},
	{"    -e VLLM_USE_NCCL_SYMM_MEM=1 \\", "VLLM_USE_NCCL_SYMM_MEM", "1"},
	{"NCCL_DEBUG=INFO\nNCCL_DEBUG=WARN", "NCCL_DEBUG", "INFO"},
};

static void try_variables(void)
{
	char text[OH__VARIABLES * 2 * 32];
	size_t used = 0;

	for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++) {
		const struct oh__variable *variable;

		read_text(variables[i].line);
		variable = oh__machine_variable(&reading.machine,
						variables[i].name);
		if (!tap_ok(!reading.status && reading.found && variable &&
				    reading.machine.variable_count == 1 &&
				    !strcmp(variable->value,
					    variables[i].value) &&
				    variable->from.line == 1,
			    "variable: %s", first_line(variables[i].line)))
			tap_note("%d '%s'", reading.machine.variable_count,
				 variable ? variable->value : "none");
	}
	for (int i = 0; i < OH__VARIABLES * 2; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "NCCL_%d=%d\n", i, i);
	read_text(text);
	tap_ok(!reading.status &&
		       reading.machine.variable_count == OH__VARIABLES,
	       "more variables than are kept");
}

/* --- errors --- */

static const struct {
	const char *text;
	enum oh_status status;
	const char *says;
} refused[] = {
	{"GPU 0: NVIDIA L4\nGPU 0: NVIDIA A10\n", OH_ERR_INVALID,
	 "report.txt:2: a GPU is called 'NVIDIA A10' here and 'NVIDIA L4' in "
	 "line 1"},
	{"GPU 32: NVIDIA L4\n", OH_ERR_INVALID, "report.txt:1: GPU 32"},
	{"index, name\n99999999999999999999, NVIDIA L4\n", OH_OK, ""},
	{"GPU 0,1,40: NVIDIA L4\n", OH_ERR_INVALID, "GPU 40"},
	{"==== ROCm System Management Interface ====\nGPU[0] : x\n",
	 OH_ERR_UNSUPPORTED,
	 "report.txt:1: output of rocm-smi: this is about "
	 "AMD GPUs"},
	{"       GPU0   GPU1\n=== Weight between two GPUs ===\n",
	 OH_ERR_UNSUPPORTED, "rocm-smi --showtopo"},
	{"       GPU0   GPU1\nGPU0   0      XGMI\nGPU1   XGMI   0\n",
	 OH_ERR_UNSUPPORTED, "report.txt:2: rocm-smi --showtopo"},
	{"GPU[0]\t\t: (Topology) Numa Node: 0\n", OH_ERR_UNSUPPORTED, "AMD"},
	{"ACCESS TABLE:\n             0000:0c:00.0\n0000:0c:00.0 ENABLED\n",
	 OH_ERR_UNSUPPORTED, "amd-smi topology"},
	{"GPU models and configuration: AMD Instinct MI300X (gfx942)\n",
	 OH_ERR_UNSUPPORTED, "AMD"},
	{"ROCM used to build PyTorch: 6.2.41133\n", OH_ERR_UNSUPPORTED,
	 "PyTorch built for ROCm"},
	{"PyTorch version: 2.6.0+rocm6.2.4\n", OH_ERR_UNSUPPORTED, "ROCm"},
	{"         GPU 0/0  GPU 1/0  CPU Affinity\n"
	 "GPU 0/0  S        XL16     0-23,48-71\n",
	 OH_ERR_UNSUPPORTED, "xpu-smi topology -m: this is about Intel"},
	{"| 0         | Device Name: x                        |\n"
	 "Device Name: Intel(R) Data Center GPU Max 1550\n",
	 OH_ERR_UNSUPPORTED, "Intel"},
	{"No devices were found\n", OH_ERR_UNSUPPORTED, "no NVIDIA GPU"},
	{"GPU models and configuration: No CUDA\nModel name: Intel Xeon\n",
	 OH_ERR_UNSUPPORTED, "report.txt:1: collect_env saw no CUDA"},
	{"Is CUDA available: False\n", OH_ERR_UNSUPPORTED, "no CUDA"},
	/* beside NVIDIA's GPUs hints are no more than that */
	{"ROCM used to build PyTorch: 6.2\n" PAIR, OH_OK, ""},
	{"ROCM used to build PyTorch: N/A\nHIP runtime version: N/A\n" PAIR,
	 OH_OK, ""},
};

static void try_refused(void)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		read_text(refused[i].text);
		if (!tap_ok(reading.status == refused[i].status &&
				    strstr(reading.message, refused[i].says),
			    "%s: %s", refused[i].status ? "refused" : "read",
			    first_line(refused[i].text)))
			tap_note("%d %s", reading.status, reading.message);
	}
}

/* Names that only look different: older drivers leave the maker out. */
static void try_origins(void)
{
	char text[160];

	read_text("GPU 0: NVIDIA L4\n\nGPU 0: L4\n"
		  "Nvidia driver version: 550.1.1\n");
	tap_ok(!reading.status && reading.machine.gpus == 1,
	       "a name with and without its maker");
	tap_ok(!strcmp(oh__machine_origin(&reading.machine,
					  reading.machine.host.driver.from,
					  text, sizeof(text)),
		       "report.txt:4"),
	       "a fact's origin is its line");
	read_text("GPU 0: NVIDIA \x1b[31mL4\x07\xff (UUID: GPU-1)\n");
	tap_ok(!reading.machine.gpus ||
		       !strpbrk(reading.machine.gpu[0].name.text,
				"\x1b\x07\xff"),
	       "names are printable");
}

int main(void)
{
	oh_set_log(OH_LOG_OFF, NULL, NULL);
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		try_list(&lists[i]);
	try_hosts();
	try_variables();
	try_refused();
	try_origins();
	return tap_done();
}
