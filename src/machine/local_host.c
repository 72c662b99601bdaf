/* SPDX-License-Identifier: MIT */
/*
 * Reads what the host's files say: kernel, processor, driver, IOMMU, and what
 * sysfs knows of GPUs whose PCI address is known. A file that is missing, odd
 * or unreadable leaves its datum unknown. What another source has set before
 * stays. Nothing is executed, and nothing but regular files is opened, so that
 * no captured machine can make this wait.
 */
#include "machine/local.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/settings.h"
#include "machine/local_host.h"

/* The first processor's paragraph in /proc/cpuinfo takes some 3 KiB; a kernel
 * takes a command line of at most 4 KiB. */
#define FILE_BYTES 8192

struct host {
	struct oh__machine *machine;
	const char *root;
	bool is_guest; /* a virtual machine */
};

/* Files of /proc and /sys come in pieces and have no size beforehand. */
static size_t read_all(int fd, char *text, size_t bytes)
{
	size_t used = 0;

	while (used + 1 < bytes) {
		ssize_t got = read(fd, text + used, bytes - 1 - used);

		if (got <= 0)
			break;
		used += (size_t)got;
	}
	text[used] = '\0';
	return strlen(text);
}

bool oh__host_read(const char *root, char *text, size_t bytes,
		   const char *format, ...)
{
	char path[PATH_MAX];
	int used, more, fd;
	struct stat seen;
	size_t length;
	va_list args;

	*text = '\0';
	used = snprintf(path, sizeof(path), "%s", root);
	if (used < 0 || (size_t)used >= sizeof(path))
		return false;
	va_start(args, format);
	more = vsnprintf(path + used, sizeof(path) - (size_t)used, format,
			 args);
	va_end(args);
	if (more < 0 || (size_t)more >= sizeof(path) - (size_t)used)
		return false;
	/* not blocking: a pipe would wait for its other end */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	length = 0;
	if (!fstat(fd, &seen) && S_ISREG(seen.st_mode))
		length = read_all(fd, text, bytes);
	close(fd);
	while (length && isspace((unsigned char)text[length - 1]))
		text[--length] = '\0';
	return length > 0;
}

/* A source of that name under the root, as a person would look it up. */
static struct oh__from from_file(const struct host *host, const char *file,
				 uint32_t line)
{
	char name[OH__TEXT_BYTES];

	snprintf(name, sizeof(name), "%.64s%s", host->root, file);
	return (struct oh__from){oh__machine_source(host->machine, name), line};
}

static struct oh__from from_sysfs(const struct host *host)
{
	return from_file(host, "/sys", 0);
}

/* Keeps what is there: who came first knows better. */
static void set_text(struct oh__text *text, struct oh__from from,
		     const char *value, size_t bytes)
{
	if (bytes && !oh__known(text->from))
		oh__text_set(text, from, value, bytes);
}

/* The value of the first line "NAME : value", and that line's number. */
static const char *find_field(const char *text, const char *name,
			      size_t *length, uint32_t *line)
{
	size_t bytes = strlen(name);

	*line = 1;
	while (*text) {
		size_t end = strcspn(text, "\n");
		size_t colon = bytes;

		if (end > bytes && !strncmp(text, name, bytes)) {
			colon += strspn(text + bytes, " \t");
			if (text[colon] == ':') {
				colon++;
				colon += strspn(text + colon, " \t");
				*length = colon < end ? end - colon : 0;
				return text + colon;
			}
		}
		text += end + (text[end] == '\n');
		++*line;
	}
	return NULL;
}

/* Whether a word stands between blanks: "iommu=pt" is not in "xiommu=pt". */
static bool has_word(const char *text, size_t bytes, const char *word)
{
	size_t length = strlen(word);

	while (bytes) {
		size_t skip = 0, size = 0;

		while (skip < bytes && isspace((unsigned char)text[skip]))
			skip++;
		while (skip + size < bytes &&
		       !isspace((unsigned char)text[skip + size]))
			size++;
		if (size == length && !memcmp(text + skip, word, length))
			return true;
		text += skip + size;
		bytes -= skip + size;
	}
	return false;
}

/* The first processor stands for all: two kinds in one host are not met. */
static void read_processor(struct host *host)
{
	char text[FILE_BYTES];
	const char *value;
	uint32_t line;
	size_t bytes;

	if (!oh__host_read(host->root, text, sizeof(text), "/proc/cpuinfo"))
		return;
	value = find_field(text, "model name", &bytes, &line);
	if (value)
		set_text(&host->machine->host.cpu,
			 from_file(host, "/proc/cpuinfo", line), value, bytes);
	/* what CPUID says to a guest (x86; elsewhere there is no such word) */
	value = find_field(text, "flags", &bytes, &line);
	host->is_guest = value && has_word(value, bytes, "hypervisor");
}

/* "590.48.01" in "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64
 * 590.48.01  Release Build": the first word of digits and points alone. */
static const char *find_version(const char *text, size_t *bytes)
{
	while (*text && *text != '\n') {
		size_t size = strcspn(text, " \t\n");
		size_t digits = strspn(text, "0123456789.");

		if (size && size == digits && memchr(text, '.', size) &&
		    isdigit((unsigned char)*text)) {
			*bytes = size;
			return text;
		}
		text += size;
		text += strspn(text, " \t");
	}
	return NULL;
}

/* The driver's version is here also when its NVML cannot be loaded. */
static void read_kernel(struct host *host)
{
	static const char release[] = "/proc/sys/kernel/osrelease",
			  version[] = "/proc/driver/nvidia/version";
	struct oh__host *facts = &host->machine->host;
	char text[FILE_BYTES];
	const char *driver;
	size_t bytes;

	if (oh__host_read(host->root, text, sizeof(text), "%s", release))
		set_text(&facts->kernel, from_file(host, release, 1), text,
			 strlen(text));
	if (oh__known(facts->driver.from) ||
	    !oh__host_read(host->root, text, sizeof(text), "%s", version))
		return;
	driver = find_version(text, &bytes);
	if (driver)
		set_text(&facts->driver, from_file(host, version, 1), driver,
			 bytes);
}

/* Addresses come from NVML or from a text that somebody pasted: what is none
 * must not become part of a path. */
static bool is_address(const struct oh__text *pci)
{
	return oh__known(pci->from) && *pci->text &&
	       !pci->text[strspn(pci->text, "0123456789abcdef:.")];
}

/* How groups of devices reach memory: counts of groups. */
struct groups {
	int seen;
	int translated, passthrough;
	int gpus_translated, gpus_passthrough;
};

/* Whether a group holds a GPU. The link is not followed: a copy of /sys may
 * have kept it without what it points to. */
static bool has_gpu(const struct host *host, const char *group)
{
	const struct oh__machine *machine = host->machine;
	char path[PATH_MAX];
	struct stat seen;

	for (int i = 0; i < machine->gpus; i++) {
		if (!is_address(&machine->gpu[i].pci))
			continue;
		snprintf(path, sizeof(path),
			 "%s/sys/kernel/iommu_groups/%s/devices/%s", host->root,
			 group, machine->gpu[i].pci.text);
		if (!lstat(path, &seen))
			return true;
	}
	return false;
}

/* Words of the kernel's iommu_group_show_type; "blocked" and "unmanaged" are
 * for drivers like vfio and say nothing of GPUs that the driver has. */
static void count_group(const struct host *host, const char *group,
			struct groups *groups)
{
	bool translated, passthrough, gpu;
	char type[32];

	groups->seen++;
	if (!oh__host_read(host->root, type, sizeof(type),
			   "/sys/kernel/iommu_groups/%s/type", group))
		return;
	translated = !strcmp(type, "DMA") || !strcmp(type, "DMA-FQ");
	passthrough = !strcmp(type, "identity");
	gpu = has_gpu(host, group);
	groups->translated += translated;
	groups->passthrough += passthrough;
	groups->gpus_translated += gpu && translated;
	groups->gpus_passthrough += gpu && passthrough;
}

/* False if there is no such directory: a kernel without IOMMU support, or a
 * container that hides it. */
static bool count_groups(const struct host *host, struct groups *groups)
{
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *directory;

	snprintf(path, sizeof(path), "%s/sys/kernel/iommu_groups", host->root);
	directory = opendir(path);
	if (!directory)
		return false;
	while ((entry = readdir(directory)))
		if (isdigit((unsigned char)entry->d_name[0]))
			count_group(host, entry->d_name, groups);
	closedir(directory);
	return true;
}

/* The GPUs' groups decide; all groups, where they agree and no GPU's is known;
 * none at all means that no IOMMU is on. */
static enum oh__iommu judge_groups(const struct groups *groups)
{
	if (groups->gpus_translated)
		return OH__IOMMU_TRANSLATED;
	if (groups->gpus_passthrough)
		return OH__IOMMU_PASSTHROUGH;
	if (!groups->seen)
		return OH__IOMMU_OFF;
	if (groups->translated && !groups->passthrough)
		return OH__IOMMU_TRANSLATED;
	if (groups->passthrough && !groups->translated)
		return OH__IOMMU_PASSTHROUGH;
	return OH__IOMMU_UNKNOWN;
}

/* What the command line asks for. Without any of these words the kernel's
 * configuration decides, so nothing is concluded from none; nor from
 * intel_iommu=on alone, after which it still decides how. From the kernel's
 * Documentation/admin-guide/kernel-parameters.txt. */
static const struct {
	const char *word;
	enum oh__iommu mode;
} iommu_words[] = {
	{"iommu=off", OH__IOMMU_OFF},
	{"intel_iommu=off", OH__IOMMU_OFF},
	{"amd_iommu=off", OH__IOMMU_OFF},
	{"iommu=pt", OH__IOMMU_PASSTHROUGH},
	{"iommu.passthrough=1", OH__IOMMU_PASSTHROUGH},
	{"iommu=nopt", OH__IOMMU_TRANSLATED},
	{"iommu.passthrough=0", OH__IOMMU_TRANSLATED},
};

static enum oh__iommu judge_words(const char *line)
{
	for (size_t i = 0; i < sizeof(iommu_words) / sizeof(*iommu_words); i++)
		if (has_word(line, strlen(line), iommu_words[i].word))
			return iommu_words[i].mode;
	return OH__IOMMU_UNKNOWN;
}

/*
 * In a virtual machine only a translating IOMMU of its own is sure: off and
 * passthrough are said of the guest, while the host's IOMMU is on for every
 * device that it hands out.
 */
static void set_iommu(struct host *host, struct oh__from from,
		      enum oh__iommu mode)
{
	struct oh__host *facts = &host->machine->host;

	if (mode == OH__IOMMU_UNKNOWN || oh__known(facts->iommu.from))
		return;
	if (host->is_guest && mode != OH__IOMMU_TRANSLATED) {
		oh__machine_remark(host->machine, from,
				   "a virtual machine: its host's IOMMU and "
				   "ACS cannot be seen from here");
		return;
	}
	facts->iommu.from = from;
	facts->iommu.mode = mode;
}

/* What is in force is asked first, then what was asked for. */
static void read_iommu(struct host *host)
{
	static const char file[] = "/proc/cmdline";
	struct groups groups = {0};
	char line[FILE_BYTES];

	if (oh__host_read(host->root, line, sizeof(line), "%s", file))
		set_text(&host->machine->host.command_line,
			 from_file(host, file, 1), line, strlen(line));
	if (count_groups(host, &groups))
		set_iommu(host, from_sysfs(host), judge_groups(&groups));
	else
		set_iommu(host, from_file(host, file, 1), judge_words(line));
}

/* An attribute that the kernel shows of a PCI device. */
static bool read_device(const struct host *host, const char *address,
			const char *file, char text[OH__TEXT_BYTES])
{
	return oh__host_read(host->root, text, OH__TEXT_BYTES,
			     "/sys/bus/pci/devices/%s/%s", address, file);
}

/* "16.0 GT/s PCIe", "16 GT/s" and so on; older kernels write no decimals. */
static uint64_t generation(const char *speed)
{
	static const char *const speeds[] = {"2.5", "5", "8", "16", "32", "64"};

	for (size_t i = 0; i < sizeof(speeds) / sizeof(*speeds); i++) {
		size_t length = strlen(speeds[i]);

		if (strncmp(speed, speeds[i], length))
			continue;
		if (!strncmp(speed + length, ".0", 2))
			length += 2;
		if (!strncmp(speed + length, " GT/s", 5))
			return i + 1;
	}
	return 0;
}

/* What is no width (0, or 63 and 255 where a guest sees none) gives 0. */
static uint64_t width(const char *text)
{
	uint64_t value;

	return oh__parse_number(text, &value) && value <= 32 ? value : 0;
}

/* NVML knows what the GPU can in this slot, sysfs what it could in any: so
 * sysfs only fills in. */
static void set_link(const struct host *host, struct oh__number *number,
		     const char *address, const char *file,
		     uint64_t (*parse)(const char *text))
{
	char text[OH__TEXT_BYTES];
	uint64_t value;

	if (oh__known(number->from) || !read_device(host, address, file, text))
		return;
	value = parse(text);
	if (value)
		oh__number_set(number, from_sysfs(host), value);
}

/* What sysfs knows of a GPU: documented in the kernel's
 * Documentation/ABI/testing/sysfs-bus-pci. */
static void read_gpu(const struct host *host, struct oh__gpu *gpu)
{
	const char *address = gpu->pci.text;
	char text[OH__TEXT_BYTES];
	uint64_t node;

	/* "-1": the firmware does not say */
	if (!oh__known(gpu->numa_node.from) &&
	    read_device(host, address, "numa_node", text) &&
	    oh__parse_number(text, &node))
		oh__number_set(&gpu->numa_node, from_sysfs(host), node);
	if (read_device(host, address, "local_cpulist", text))
		set_text(&gpu->cpu_affinity, from_sysfs(host), text,
			 strlen(text));
	set_link(host, &gpu->pcie_gen, address, "current_link_speed",
		 generation);
	set_link(host, &gpu->pcie_gen_max, address, "max_link_speed",
		 generation);
	set_link(host, &gpu->pcie_width, address, "current_link_width", width);
	set_link(host, &gpu->pcie_width_max, address, "max_link_width", width);
}

void oh__machine_read_host(struct oh__machine *machine, const char *root)
{
	struct host host = {.machine = machine, .root = root ? root : ""};

	/* beyond, no path fits */
	if (strlen(host.root) > PATH_MAX / 2)
		return;
	read_kernel(&host);
	read_processor(&host);
	for (int i = 0; i < machine->gpus; i++)
		if (is_address(&machine->gpu[i].pci))
			read_gpu(&host, &machine->gpu[i]);
	read_iommu(&host);
	oh__host_read_acs(machine, host.root, host.is_guest);
}

/*
 * Variables that change which way an all-reduce goes, or which GPUs take part.
 * A list, for the environment also holds secrets (VLLM_API_KEY). NCCL's from
 * its documentation of environment variables, vLLM's from vllm/envs.py,
 * SGLang's from sglang/srt/environ.py, GGML's from ggml-cuda.
 */
static const char *const variables[] = {
	"CUDA_VISIBLE_DEVICES",
	"CUDA_DEVICE_ORDER",
	/* where peers' memory lives, and how NCCL reaches it */
	"NCCL_P2P_DISABLE",
	"NCCL_P2P_LEVEL",
	"NCCL_P2P_DIRECT_DISABLE",
	"NCCL_P2P_READ_ENABLE",
	"NCCL_P2P_USE_CUDA_MEMCPY",
	"NCCL_IGNORE_DISABLED_P2P",
	"NCCL_SHM_DISABLE",
	"NCCL_SHM_USE_CUDA_MEMCPY",
	"NCCL_CUMEM_ENABLE",
	"NCCL_CUMEM_HOST_ENABLE",
	"NCCL_NET_DISABLE_INTRA",
	"NCCL_TOPO_FILE",
	/* which of its algorithms it takes */
	"NCCL_ALGO",
	"NCCL_PROTO",
	"NCCL_NVLS_ENABLE",
	"NCCL_WIN_ENABLE",
	"NCCL_MIN_NCHANNELS",
	"NCCL_MAX_NCHANNELS",
	/* vLLM */
	"VLLM_SKIP_P2P_CHECK",
	"VLLM_CACHE_ROOT", /* where it keeps what it found out of peers */
	"VLLM_BATCH_INVARIANT",
	"VLLM_ALLREDUCE_USE_SYMM_MEM",
	"VLLM_USE_NCCL_SYMM_MEM",
	"VLLM_ALLREDUCE_USE_FLASHINFER",
	"VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC",
	"VLLM_FLASHINFER_ALLREDUCE_BACKEND",
	"VLLM_CUSTOM_ALLREDUCE_ALGO",
	"VLLM_ENABLE_PCIE_ALLREDUCE",
	"VLLM_DISABLE_PYNCCL",
	"VLLM_NCCL_SO_PATH",
	/* SGLang */
	"SGLANG_SKIP_P2P_CHECK",
	"SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2",
	"SGLANG_USE_1STAGE_ALLREDUCE",
	"SGLANG_USE_JIT_ALL_REDUCE",
	"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE",
	"SGLANG_DISABLE_PYNCCL",
	/* llama.cpp */
	"GGML_CUDA_P2P",
	"GGML_CUDA_ALLREDUCE",
	/* expandable_segments: memory that cannot be shared by cudaIpc */
	"PYTORCH_CUDA_ALLOC_CONF",
};

/* An empty value is one: CUDA_VISIBLE_DEVICES= hides every GPU. */
void oh__machine_read_variables(struct oh__machine *machine)
{
	struct oh__from from = {0};

	for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++) {
		const char *value = getenv(variables[i]);
		struct oh__variable *variable;
		struct oh__text text = {0};

		if (!value)
			continue;
		from.source = oh__machine_source(machine, "environment");
		if (machine->variable_count == OH__VARIABLES) {
			oh__machine_remark(machine, from,
					   "too many variables are set: %s and "
					   "those after it are left out",
					   variables[i]);
			return;
		}
		oh__text_set(&text, from, value, strlen(value));
		variable = &machine->variables[machine->variable_count++];
		variable->from = from;
		snprintf(variable->name, sizeof(variable->name), "%s",
			 variables[i]);
		memcpy(variable->value, text.text, sizeof(variable->value));
	}
}
