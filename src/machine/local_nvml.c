/* SPDX-License-Identifier: MIT */
/*
 * Reads GPUs and their pairs through NVML. Only a failure to initialise and to
 * count is an error; any other call that fails leaves its datum unknown.
 * NVML_ERROR_NOT_SUPPORTED is an answer and says nothing more; any other
 * failure leaves a remark, one for each function, for a machine on which one
 * fails tends to fail it for all GPUs. nvmlInit_v2 and nvmlShutdown are paired,
 * so that another user of NVML in this process keeps it.
 */
#include "machine/local.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "vendor/library.h"
#include "vendor/nvml.h"

/* Of one GPU; NVML 12.2 says 18. The driver refuses those past its own. */
#define LINKS 64
/* Sets of NUMA nodes, in bits: as many as a kernel can have. */
#define NODES 1024
#define BITS (8 * sizeof(unsigned long))
#define REMARKED 24

struct reader {
	const struct oh__nvml *nvml;
	struct oh__machine *machine;
	struct oh__from from;
	nvmlDevice_t device[OH__GPUS]; /* NULL: it cannot be asked */
	bool lost[OH__GPUS];
	/* functions of which a remark has been made */
	const char *remarked[REMARKED];
	int remarked_count;
};

/* Where the active NVLinks of a GPU end. */
struct ends {
	bool known;
	uint32_t at_switch;
	uint32_t at_gpu[OH__GPUS];
};

/* NVML's own words where it has some. A missing function is explained here, for
 * what NVML says of one ("Function Not Found") sounds as if it had been asked.
 */
static const char *explain(const struct reader *reader, nvmlReturn_t result)
{
	const char *text = NULL;

	if (result == NVML_ERROR_FUNCTION_NOT_FOUND)
		return "this driver's NVML does not have it";
	text = reader->nvml->nvmlErrorString(result);
	return text ? text : "no reason given";
}

/* Whether a function has had its remark; it has from then on. */
static bool is_remarked(struct reader *reader, const char *function)
{
	for (int i = 0; i < reader->remarked_count; i++)
		if (!strcmp(reader->remarked[i], function))
			return true;
	if (reader->remarked_count < REMARKED)
		reader->remarked[reader->remarked_count++] = function;
	return false;
}

/* Whether a call gave an answer. A GPU that has fallen off the bus is asked
 * no more. gpu is -1 for calls that concern none. */
static bool answered(struct reader *reader, int gpu, const char *function,
		     nvmlReturn_t result)
{
	char subject[24] = "";

	if (result == NVML_SUCCESS)
		return true;
	if (gpu >= 0)
		snprintf(subject, sizeof(subject), " of GPU %d", gpu);
	if (gpu >= 0 && result == NVML_ERROR_GPU_IS_LOST) {
		if (!reader->lost[gpu])
			oh__machine_remark(reader->machine, reader->from,
					   "GPU %d does not answer: %s", gpu,
					   explain(reader, result));
		reader->lost[gpu] = true;
		reader->device[gpu] = NULL;
	} else if (result != NVML_ERROR_NOT_SUPPORTED &&
		   !is_remarked(reader, function)) {
		oh__machine_remark(reader->machine, reader->from,
				   "%s%s: %s (%u)", function, subject,
				   explain(reader, result), result);
	}
	return false;
}

/* Calls a function of the table and says whether it answered; one that the
 * library lacks does not. */
#define ASK(reader, gpu, function, ...)                                        \
	answered((reader), (gpu), #function,                                   \
		 (reader)->nvml->function                                      \
			 ? (reader)->nvml->function(__VA_ARGS__)               \
			 : NVML_ERROR_FUNCTION_NOT_FOUND)

/* Sets a text that NVML has written; it ends it unless it misbehaves. */
static void set_text(struct reader *reader, struct oh__text *text,
		     const char *value, size_t bytes)
{
	oh__text_set(text, reader->from, value, strnlen(value, bytes));
}

/* The driver and what CUDA it takes: for the whole machine. */
static void read_system(struct reader *reader)
{
	struct oh__host *host = &reader->machine->host;
	char text[OH__TEXT_BYTES] = "";
	int version = 0;

	if (ASK(reader, -1, nvmlSystemGetDriverVersion, text, sizeof(text)))
		set_text(reader, &host->driver, text, sizeof(text));
	if (ASK(reader, -1, nvmlSystemGetCudaDriverVersion_v2, &version)) {
		/* 1000 * major + 10 * minor */
		snprintf(text, sizeof(text), "%d.%d", version / 1000,
			 version % 1000 / 10);
		set_text(reader, &host->cuda, text, sizeof(text));
	}
}

/* As the kernel writes it: "0000:c1:00.0"; NVML counts no functions. */
static void write_address(const nvmlPciInfo_t *pci, char text[OH__TEXT_BYTES])
{
	snprintf(text, OH__TEXT_BYTES, "%04x:%02x:%02x.0", pci->domain,
		 pci->bus, pci->device);
}

/* What a GPU is. A value that cannot be (capability 0) is none. */
static void read_identity(struct reader *reader, int i)
{
	struct oh__gpu *gpu = &reader->machine->gpu[i];
	nvmlDevice_t device = reader->device[i];
	char text[OH__TEXT_BYTES] = "";
	nvmlMemory_t memory = {0};
	nvmlPciInfo_t pci = {0};
	int major = 0, minor = 0;

	if (ASK(reader, i, nvmlDeviceGetName, device, text, sizeof(text)))
		set_text(reader, &gpu->name, text, sizeof(text));
	if (ASK(reader, i, nvmlDeviceGetUUID, device, text, sizeof(text)))
		set_text(reader, &gpu->uuid, text, sizeof(text));
	if (ASK(reader, i, nvmlDeviceGetPciInfo_v3, device, &pci)) {
		write_address(&pci, text);
		set_text(reader, &gpu->pci, text, sizeof(text));
	}
	if (ASK(reader, i, nvmlDeviceGetCudaComputeCapability, device, &major,
		&minor) &&
	    major > 0 && minor >= 0)
		oh__number_set(&gpu->capability, reader->from,
			       (uint64_t)(10 * major + minor));
	if (ASK(reader, i, nvmlDeviceGetMemoryInfo, device, &memory))
		oh__number_set(&gpu->memory_bytes, reader->from, memory.total);
}

/* The node next to the GPU, if there is one such. Not nvmlDeviceGetNumaNodeId:
 * that is the node which a GPU's own memory makes, on Grace Hopper. */
static void read_node(struct reader *reader, int i)
{
	unsigned long nodes[NODES / BITS] = {0};
	unsigned node = 0, count = 0;

	if (!ASK(reader, i, nvmlDeviceGetMemoryAffinity, reader->device[i],
		 NODES / BITS, nodes, NVML_AFFINITY_SCOPE_NODE))
		return;
	for (unsigned bit = 0; bit < NODES; bit++) {
		if (!(nodes[bit / BITS] >> bit % BITS & 1))
			continue;
		node = bit;
		count++;
	}
	if (count == 1)
		oh__number_set(&reader->machine->gpu[i].numa_node, reader->from,
			       node);
}

/* How a GPU is now; an idle one lets its link go down to generation 1. */
static void read_state(struct reader *reader, int i)
{
	struct oh__gpu *gpu = &reader->machine->gpu[i];
	nvmlDevice_t device = reader->device[i];
	unsigned value = 0, pending = 0;

	if (ASK(reader, i, nvmlDeviceGetCurrPcieLinkGeneration, device, &value))
		oh__number_set(&gpu->pcie_gen, reader->from, value);
	/* what GPU and slot can do together */
	if (ASK(reader, i, nvmlDeviceGetMaxPcieLinkGeneration, device, &value))
		oh__number_set(&gpu->pcie_gen_max, reader->from, value);
	if (ASK(reader, i, nvmlDeviceGetCurrPcieLinkWidth, device, &value))
		oh__number_set(&gpu->pcie_width, reader->from, value);
	if (ASK(reader, i, nvmlDeviceGetMaxPcieLinkWidth, device, &value))
		oh__number_set(&gpu->pcie_width_max, reader->from, value);
	if (ASK(reader, i, nvmlDeviceGetMigMode, device, &value, &pending))
		oh__number_set(&gpu->mig, reader->from, value);
}

/* One GPU by NVML's index, which counts in the order of PCI addresses. After
 * the GPU is found lost, the rest is not asked. */
static void read_gpu(struct reader *reader, int i)
{
	nvmlDevice_t device = NULL;

	/* its place is kept: position is nvidia-smi's index */
	if (!ASK(reader, i, nvmlDeviceGetHandleByIndex_v2, (unsigned)i,
		 &device))
		return;
	reader->device[i] = device;
	read_identity(reader, i);
	if (reader->device[i])
		read_node(reader, i);
	if (reader->device[i])
		read_state(reader, i);
}

enum {
	NO_GPU = -1,
	ANY_GPU = -2
};

/* The GPU of that address; any that has none may be the one. */
static int find_gpu(const struct oh__machine *machine, const char *address)
{
	int found = NO_GPU;

	for (int i = 0; i < machine->gpus; i++) {
		if (!oh__known(machine->gpu[i].pci.from))
			found = ANY_GPU;
		else if (!strcmp(machine->gpu[i].pci.text, address))
			return i;
	}
	return found;
}

/* In a virtual machine the far end of a link to a switch has no address:
 * nothing, or all ones. */
static bool is_hidden(const nvmlPciInfo_t *pci)
{
	return !pci->busId[0] ||
	       !strncasecmp(pci->busId, "fffffff", sizeof("fffffff") - 1);
}

/* Says where an active link ends; false if that cannot be known. A GPU or
 * another device that is not ours to see counts nowhere. */
static bool count_end(struct reader *reader, int i, unsigned link,
		      struct ends *ends)
{
	const struct oh__nvml *nvml = reader->nvml;
	nvmlDevice_t device = reader->device[i];
	nvmlIntNvLinkDeviceType_t type = NVML_NVLINK_DEVICE_TYPE_UNKNOWN;
	char address[OH__TEXT_BYTES];
	nvmlPciInfo_t pci = {0};
	int gpu;

	/* without an answer the address has to do */
	if (!nvml->nvmlDeviceGetNvLinkRemoteDeviceType ||
	    nvml->nvmlDeviceGetNvLinkRemoteDeviceType(device, link, &type))
		type = NVML_NVLINK_DEVICE_TYPE_UNKNOWN;
	if (type == NVML_NVLINK_DEVICE_TYPE_SWITCH) {
		ends->at_switch++;
		return true;
	}
	if (!ASK(reader, i, nvmlDeviceGetNvLinkRemotePciInfo_v2, device, link,
		 &pci))
		return false;
	if (type == NVML_NVLINK_DEVICE_TYPE_UNKNOWN && is_hidden(&pci)) {
		ends->at_switch++;
		return true;
	}
	write_address(&pci, address);
	gpu = find_gpu(reader->machine, address);
	if (gpu >= 0)
		ends->at_gpu[gpu]++;
	else if (gpu == NO_GPU && type == NVML_NVLINK_DEVICE_TYPE_UNKNOWN)
		oh__machine_remark(reader->machine, reader->from,
				   "NVLink %u of GPU %d ends at %s, which is "
				   "no GPU seen here; it is not counted",
				   link, i, address);
	return gpu != ANY_GPU;
}

/*
 * The NVLinks of a GPU. A GPU without any says "not supported"; an index past
 * the last link is an invalid argument.
 */
static void read_ends(struct reader *reader, int i, struct ends *ends)
{
	const struct oh__nvml *nvml = reader->nvml;

	for (unsigned link = 0; link < LINKS; link++) {
		nvmlReturn_t result = NVML_ERROR_FUNCTION_NOT_FOUND;
		nvmlEnableState_t active = 0;

		if (!reader->device[i])
			return;
		if (nvml->nvmlDeviceGetNvLinkState)
			result = nvml->nvmlDeviceGetNvLinkState(
				reader->device[i], link, &active);
		if (result == NVML_ERROR_INVALID_ARGUMENT)
			break;
		if (result == NVML_ERROR_NOT_SUPPORTED)
			continue;
		if (!answered(reader, i, "nvmlDeviceGetNvLinkState", result))
			return;
		if (active == NVML_FEATURE_ENABLED &&
		    !count_end(reader, i, link, ends))
			return;
	}
	ends->known = true;
}

/* As nvidia-smi counts them: links straight to the other GPU; through
 * switches, all of which are joined, as many as both have. */
static uint32_t count_nvlinks(struct reader *reader, const struct ends *ends,
			      int i, int j)
{
	uint32_t there = ends[i].at_gpu[j], back = ends[j].at_gpu[i];
	uint32_t direct = there < back ? there : back;
	uint32_t one = ends[i].at_switch, other = ends[j].at_switch;

	if (there != back)
		oh__machine_remark(reader->machine, reader->from,
				   "GPU %d has %u NVLinks to GPU %d, and that "
				   "one %u back; the smaller number counts",
				   i, there, j, back);
	return direct + (one < other ? one : other);
}

/* nvidia-smi's words for NVML's levels, as its legend explains them. */
static const struct {
	nvmlGpuTopologyLevel_t level;
	enum oh__link_kind kind;
} levels[] = {
	/* two GPUs of one board, as K80 had: behind its one bridge */
	{NVML_TOPOLOGY_INTERNAL, OH__LINK_PIX},
	{NVML_TOPOLOGY_SINGLE, OH__LINK_PIX},
	{NVML_TOPOLOGY_MULTIPLE, OH__LINK_PXB},
	{NVML_TOPOLOGY_HOSTBRIDGE, OH__LINK_PHB},
	{NVML_TOPOLOGY_NODE, OH__LINK_NODE},
	{NVML_TOPOLOGY_SYSTEM, OH__LINK_SYS},
};

/* The way by PCIe. */
static enum oh__link_kind read_ancestor(struct reader *reader, int i, int j)
{
	nvmlGpuTopologyLevel_t level = NVML_TOPOLOGY_SYSTEM;

	if (!ASK(reader, i, nvmlDeviceGetTopologyCommonAncestor,
		 reader->device[i], reader->device[j], &level))
		return OH__LINK_UNKNOWN;
	for (size_t k = 0; k < sizeof(levels) / sizeof(*levels); k++)
		if (levels[k].level == level)
			return levels[k].kind;
	oh__machine_remark(reader->machine, reader->from,
			   "GPU %d and GPU %d are at topology level %u, which "
			   "is not known here",
			   i, j, level);
	return OH__LINK_UNKNOWN;
}

/* A pair whose NVLinks are not known has no known way: by PCIe it would look
 * further apart than it may be. */
static void read_link(struct reader *reader, const struct ends *ends, int i,
		      int j)
{
	struct oh__machine *machine = reader->machine;
	struct oh__link link = {.from = reader->from};

	if (!ends[i].known || !ends[j].known)
		return;
	link.nvlinks = count_nvlinks(reader, ends, i, j);
	if (link.nvlinks)
		link.kind = OH__LINK_NV;
	else if (reader->device[i] && reader->device[j])
		link.kind = read_ancestor(reader, i, j);
	if (link.kind == OH__LINK_UNKNOWN)
		return;
	machine->link[i][j] = link;
	machine->link[j][i] = link;
}

/* All pairs; a pair is the same seen from either end, so it is asked once. */
static void read_links(struct reader *reader)
{
	struct oh__machine *machine = reader->machine;
	struct ends ends[OH__GPUS];

	memset(ends, 0, sizeof(ends));
	for (int i = 0; i < machine->gpus; i++)
		read_ends(reader, i, &ends[i]);
	for (int i = 0; i < machine->gpus; i++) {
		machine->link[i][i].from = reader->from;
		machine->link[i][i].kind = OH__LINK_SELF;
		for (int j = i + 1; j < machine->gpus; j++)
			read_link(reader, ends, i, j);
	}
}

/* Both tables are in the order of nvidia-smi topo -p2p's legend. */
static const nvmlGpuP2PCapsIndex_t aspects[OH__PEER_ASPECTS] = {
	[OH__PEER_READ] = NVML_P2P_CAPS_INDEX_READ,
	[OH__PEER_WRITE] = NVML_P2P_CAPS_INDEX_WRITE,
	[OH__PEER_NVLINK] = NVML_P2P_CAPS_INDEX_NVLINK,
	[OH__PEER_ATOMICS] = NVML_P2P_CAPS_INDEX_ATOMICS,
};

static const enum oh__peer_status statuses[] = {
	[NVML_P2P_STATUS_OK] = OH__PEER_OK,
	[NVML_P2P_STATUS_CHIPSET_NOT_SUPPORED] = OH__PEER_CNS,
	[NVML_P2P_STATUS_GPU_NOT_SUPPORTED] = OH__PEER_GNS,
	[NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED] = OH__PEER_TNS,
	[NVML_P2P_STATUS_DISABLED_BY_REGKEY] = OH__PEER_DR,
	[NVML_P2P_STATUS_NOT_SUPPORTED] = OH__PEER_NS,
	[NVML_P2P_STATUS_UNKNOWN] = OH__PEER_U,
};

/* One way of a pair: reads one way and not the other are seen in the field. */
static void read_peer(struct reader *reader, int i, int j)
{
	for (int aspect = 0; aspect < OH__PEER_ASPECTS; aspect++) {
		struct oh__peer *peer = &reader->machine->peer[aspect][i][j];
		nvmlGpuP2PStatus_t status = NVML_P2P_STATUS_UNKNOWN;

		if (!reader->device[i] || !reader->device[j])
			return;
		if (!ASK(reader, i, nvmlDeviceGetP2PStatus, reader->device[i],
			 reader->device[j], aspects[aspect], &status))
			continue;
		if (status >= sizeof(statuses) / sizeof(*statuses)) {
			oh__machine_remark(reader->machine, reader->from,
					   "peer status %u of GPU %d to GPU %d "
					   "is not known here",
					   status, i, j);
			continue;
		}
		peer->from = reader->from;
		peer->status = statuses[status];
	}
}

/* All, for a machine with at least one GPU. */
static void read_all(struct reader *reader, unsigned count)
{
	struct oh__machine *machine = reader->machine;

	reader->from.source = oh__machine_source(machine, "NVML");
	machine->gpus = count < OH__GPUS ? (int)count : OH__GPUS;
	if (count > OH__GPUS)
		oh__machine_remark(machine, reader->from,
				   "%u GPUs; those from %d on are left out",
				   count, OH__GPUS);
	read_system(reader);
	for (int i = 0; i < machine->gpus; i++)
		read_gpu(reader, i);
	read_links(reader);
	for (int i = 0; i < machine->gpus; i++)
		for (int j = 0; j < machine->gpus; j++)
			if (i != j)
				read_peer(reader, i, j);
}

/* NVML without a kernel driver is left by toolkits and images on machines
 * without GPUs: as good as none. */
static enum oh_status initialise(const struct oh__nvml *nvml)
{
	nvmlReturn_t result = nvml->nvmlInit_v2();
	const char *text;

	if (result == NVML_SUCCESS)
		return OH_OK;
	text = nvml->nvmlErrorString(result);
	if (!text)
		text = "no reason given";
	if (result == NVML_ERROR_DRIVER_NOT_LOADED ||
	    result == NVML_ERROR_LIBRARY_NOT_FOUND)
		return oh__vendor_absent("NVML is here, the driver's kernel "
					 "module is not: nvmlInit_v2 says %s "
					 "(%u)",
					 text, result);
	return OH__FAIL(OH_ERR_SYSTEM,
			"nvmlInit_v2 failed: %s (%u); nvidia-smi should fail "
			"in the same way, so mend the driver first",
			text, result);
}

enum oh_status oh__machine_read_nvml(struct oh__machine *machine)
{
	struct reader reader = {.machine = machine};
	enum oh_status status;
	nvmlReturn_t result;
	unsigned count = 0;

	status = oh__nvml_load(&reader.nvml);
	if (status)
		return status;
	status = initialise(reader.nvml);
	if (status)
		return status;
	result = reader.nvml->nvmlDeviceGetCount_v2(&count);
	if (result)
		status = OH__FAIL(OH_ERR_SYSTEM,
				  "nvmlDeviceGetCount_v2 failed: %s (%u)",
				  explain(&reader, result), result);
	else if (!count)
		status = oh__vendor_absent("the NVIDIA driver is loaded and "
					   "sees no GPU");
	else
		read_all(&reader, count);
	reader.nvml->nvmlShutdown();
	return status;
}
