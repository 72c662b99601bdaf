/* SPDX-License-Identifier: MIT */
/*
 * NVML as tests want it: a shared module that takes the place of
 * libnvidia-ml.so.1 and that the real loader loads. It plays what stands in the
 * file that FAKENVML_SCRIPT names, read again at each first nvmlInit_v2:
 *
 *   gpus N                      driver TEXT             cuda NUMBER
 *   gpu I KEY VALUE             name, uuid, pci, or a key of number_keys below
 *   ancestor I J LEVEL          both ways
 *   peer ASPECT I J STATUS      one way, ASPECT in NVML's numbers
 *   link I L gpu J | switch | at PCI | blind PCI | off
 *   error FUNCTION CODE [GPU]   every time
 *   fail K CODE                 the K-th call, whichever it is
 *
 * I, J and L may be "*". What is not said is not supported, as on a GPU that
 * lacks it. "blind" is an end that names no type. fakenvml_calls and
 * fakenvml_users are for the tests.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vendor/nvml.h"

#define GPUS 40
#define LINKS 18
#define ERRORS 64
#define TEXT 96
#define ANY (-1)
#define UNSET (-1)

#define OH_NVML(need, result, name, parameters) result name parameters;
#include "vendor/nvml.def"

unsigned fakenvml_calls, fakenvml_users;

static const char *const number_keys[] = {"capability", "memory", "gen",
					  "gen_max",	"width",  "width_max",
					  "mig",	"nodes"};
enum number {
	CAPABILITY,
	MEMORY,
	GEN,
	GEN_MAX,
	WIDTH,
	WIDTH_MAX,
	MIG,
	NODES,
	NUMBERS
};

struct end {
	bool active;
	int type;
	char pci[TEXT];
};

struct nvmlDevice_st {
	char name[TEXT], uuid[TEXT], pci[TEXT];
	long long number[NUMBERS];
	int ancestor[GPUS];
	int peer[4][GPUS];
	struct end link[LINKS];
	int links; /* 0: it has no NVLink */
};

static struct nvmlDevice_st gpus[GPUS];
static int gpu_count, cuda;
static char driver[TEXT];
static struct {
	char function[TEXT];
	nvmlReturn_t code;
	int gpu;
} errors[ERRORS];
static int error_count;
static unsigned fail_at;
static nvmlReturn_t fail_code;

/* "*" or a number below the limit. */
static bool matches(const char *text, int index)
{
	return !strcmp(text, "*") || atoi(text) == index;
}

static void script_gpu(const char *which, const char *key, const char *value)
{
	for (int i = 0; i < GPUS; i++) {
		struct nvmlDevice_st *gpu = &gpus[i];

		if (!matches(which, i))
			continue;
		if (!strcmp(key, "name"))
			snprintf(gpu->name, sizeof(gpu->name), "%s", value);
		if (!strcmp(key, "uuid"))
			snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", value);
		if (!strcmp(key, "pci"))
			snprintf(gpu->pci, sizeof(gpu->pci), "%s", value);
		for (int k = 0; k < NUMBERS; k++)
			if (!strcmp(key, number_keys[k]))
				gpu->number[k] = strtoll(value, NULL, 0);
	}
}

static void script_pair(int aspect, const char *one, const char *other,
			int value)
{
	for (int i = 0; i < GPUS; i++)
		for (int j = 0; j < GPUS; j++) {
			if (!matches(one, i) || !matches(other, j))
				continue;
			if (aspect >= 0) {
				gpus[i].peer[aspect & 3][j] = value;
				continue;
			}
			gpus[i].ancestor[j] = value;
			gpus[j].ancestor[i] = value;
		}
}

static void set_end(struct end *end, const char *kind, const char *where)
{
	char pci[TEXT];

	snprintf(pci, sizeof(pci), "%s",
		 strcmp(kind, "gpu") ? where : gpus[atoi(where) % GPUS].pci);
	*end = (struct end){.active = strcmp(kind, "off"),
			    .type = NVML_NVLINK_DEVICE_TYPE_GPU};
	memcpy(end->pci, pci, sizeof(pci));
	if (!strcmp(kind, "switch"))
		end->type = NVML_NVLINK_DEVICE_TYPE_SWITCH;
	if (!strcmp(kind, "blind"))
		end->type = NVML_NVLINK_DEVICE_TYPE_UNKNOWN;
}

static void script_link(const char *which, const char *link, const char *kind,
			const char *where)
{
	for (int i = 0; i < GPUS; i++)
		for (int l = 0; l < LINKS; l++) {
			if (!matches(which, i) || !matches(link, l))
				continue;
			set_end(&gpus[i].link[l], kind, where);
			gpus[i].links = LINKS;
		}
}

static void script_error(const char *function, const char *code,
			 const char *gpu)
{
	if (error_count == ERRORS)
		return;
	snprintf(errors[error_count].function,
		 sizeof(errors[error_count].function), "%s", function);
	errors[error_count].code = (nvmlReturn_t)atoi(code);
	errors[error_count++].gpu = *gpu ? atoi(gpu) : ANY;
}

static void script_line(const char *line)
{
	char word[5][TEXT] = {""};
	int rest = 0;

	sscanf(line, "%95s %95s %95s %95s %95s", word[0], word[1], word[2],
	       word[3], word[4]);
	if (!strcmp(word[0], "gpus"))
		gpu_count = atoi(word[1]) % (GPUS + 1);
	else if (!strcmp(word[0], "driver"))
		snprintf(driver, sizeof(driver), "%s", word[1]);
	else if (!strcmp(word[0], "cuda"))
		cuda = atoi(word[1]);
	else if (!strcmp(word[0], "gpu") &&
		 (sscanf(line, "%*s %*s %*s %n", &rest), rest))
		script_gpu(word[1], word[2], line + rest);
	else if (!strcmp(word[0], "ancestor"))
		script_pair(ANY, word[1], word[2], atoi(word[3]));
	else if (!strcmp(word[0], "peer"))
		script_pair(atoi(word[1]), word[2], word[3], atoi(word[4]));
	else if (!strcmp(word[0], "link"))
		script_link(word[1], word[2], word[3], word[4]);
	else if (!strcmp(word[0], "error"))
		script_error(word[1], word[2], word[3]);
	else if (!strcmp(word[0], "fail")) {
		fail_at = (unsigned)atoi(word[1]);
		fail_code = (nvmlReturn_t)atoi(word[2]);
	}
}

static void forget(void)
{
	memset(gpus, 0, sizeof(gpus));
	for (int i = 0; i < GPUS; i++) {
		memset(gpus[i].number, 0xff, sizeof(gpus[i].number));
		memset(gpus[i].ancestor, 0xff, sizeof(gpus[i].ancestor));
		memset(gpus[i].peer, 0xff, sizeof(gpus[i].peer));
	}
	*driver = '\0';
	gpu_count = cuda = error_count = 0;
	fail_at = fakenvml_calls = 0;
}

static void read_script(void)
{
	const char *path = getenv("FAKENVML_SCRIPT");
	FILE *file = path ? fopen(path, "r") : NULL;
	char line[256];

	forget();
	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		script_line(line);
	}
	if (file)
		fclose(file);
}

/* Counts a call, and says how it fails, if it does. */
static nvmlReturn_t enter(const char *function, nvmlDevice_t device)
{
	int gpu = device ? (int)(device - gpus) : ANY;

	fakenvml_calls++;
	if (fakenvml_calls == fail_at)
		return fail_code;
	for (int i = 0; i < error_count; i++)
		if (!strcmp(errors[i].function, function) &&
		    (errors[i].gpu == ANY || errors[i].gpu == gpu))
			return errors[i].code;
	if (!fakenvml_users && strcmp(function, "nvmlInit_v2") &&
	    strcmp(function, "nvmlShutdown"))
		return NVML_ERROR_UNINITIALIZED;
	return NVML_SUCCESS;
}

#define ENTER(device)                                                          \
	do {                                                                   \
		nvmlReturn_t failure = enter(__func__, device);                \
		if (failure)                                                   \
			return failure;                                        \
	} while (0)

nvmlReturn_t nvmlInit_v2(void)
{
	if (!fakenvml_users)
		read_script();
	ENTER(NULL);
	fakenvml_users++;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlShutdown(void)
{
	/* also when it is told to fail: scripts are read with no user left */
	fakenvml_users -= fakenvml_users > 0;
	ENTER(NULL);
	return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
	static char text[32];

	snprintf(text, sizeof(text), "fake error %u", result);
	return result == 998 ? NULL : text;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	ENTER(NULL);
	*count = (unsigned)gpu_count;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index,
					   nvmlDevice_t *device)
{
	if (index >= (unsigned)gpu_count)
		return NVML_ERROR_INVALID_ARGUMENT;
	ENTER(&gpus[index]);
	*device = &gpus[index];
	return NVML_SUCCESS;
}

static nvmlReturn_t give_text(const char *text, char *to, unsigned int length)
{
	if (!*text)
		return NVML_ERROR_NOT_SUPPORTED;
	if (strlen(text) >= length)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(to, text);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	ENTER(NULL);
	return give_text(driver, version, length);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	ENTER(NULL);
	*version = cuda;
	return cuda ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name,
			       unsigned int length)
{
	ENTER(device);
	return give_text(device->name, name, length);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid,
			       unsigned int length)
{
	ENTER(device);
	return give_text(device->uuid, uuid, length);
}

/* An address that is no address gives all ones, as a guest sees them. */
static nvmlReturn_t give_pci(const char *address, nvmlPciInfo_t *pci)
{
	memset(pci, 0xa5, sizeof(*pci));
	if (sscanf(address, "%x:%x:%x", &pci->domain, &pci->bus,
		   &pci->device) != 3)
		pci->domain = pci->bus = pci->device = ~0u;
	snprintf(pci->busId, sizeof(pci->busId), "%.31s", address);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	ENTER(device);
	if (!*device->pci)
		return NVML_ERROR_NOT_SUPPORTED;
	return give_pci(device->pci, pci);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major,
						int *minor)
{
	ENTER(device);
	*major = (int)device->number[CAPABILITY] / 10;
	*minor = (int)device->number[CAPABILITY] % 10;
	return device->number[CAPABILITY] == UNSET ? NVML_ERROR_NOT_SUPPORTED
						   : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	ENTER(device);
	memset(memory, 0xa5, sizeof(*memory));
	memory->total = (unsigned long long)device->number[MEMORY];
	return device->number[MEMORY] == UNSET ? NVML_ERROR_NOT_SUPPORTED
					       : NVML_SUCCESS;
}

static nvmlReturn_t give_number(nvmlDevice_t device, enum number key,
				unsigned int *value)
{
	if (device->number[key] == UNSET)
		return NVML_ERROR_NOT_SUPPORTED;
	*value = (unsigned int)device->number[key];
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device,
						 unsigned int *generation)
{
	ENTER(device);
	return give_number(device, GEN, generation);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device,
						unsigned int *generation)
{
	ENTER(device);
	return give_number(device, GEN_MAX, generation);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device,
					    unsigned int *width)
{
	ENTER(device);
	return give_number(device, WIDTH, width);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device,
					   unsigned int *width)
{
	ENTER(device);
	return give_number(device, WIDTH_MAX, width);
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current,
				  unsigned int *pending)
{
	ENTER(device);
	*pending = 0;
	return give_number(device, MIG, current);
}

/* "nodes" is a set of up to 63 of them. */
nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int size,
					 unsigned long *nodes,
					 nvmlAffinityScope_t scope)
{
	ENTER(device);
	if (!size || scope != NVML_AFFINITY_SCOPE_NODE)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (device->number[NODES] == UNSET)
		return NVML_ERROR_NOT_SUPPORTED;
	memset(nodes, 0, size * sizeof(*nodes));
	nodes[0] = (unsigned long)device->number[NODES];
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one,
						 nvmlDevice_t other,
						 nvmlGpuTopologyLevel_t *level)
{
	ENTER(one);
	if (one->ancestor[other - gpus] == UNSET)
		return NVML_ERROR_NOT_SUPPORTED;
	*level = (unsigned)one->ancestor[other - gpus];
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other,
				    nvmlGpuP2PCapsIndex_t aspect,
				    nvmlGpuP2PStatus_t *status)
{
	ENTER(one);
	if (aspect > NVML_P2P_CAPS_INDEX_ATOMICS)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (one->peer[aspect][other - gpus] == UNSET)
		return NVML_ERROR_NOT_SUPPORTED;
	*status = (unsigned)one->peer[aspect][other - gpus];
	return NVML_SUCCESS;
}

static nvmlReturn_t find_link(nvmlDevice_t device, unsigned int link)
{
	if (!device->links)
		return NVML_ERROR_NOT_SUPPORTED;
	return link < (unsigned)device->links ? NVML_SUCCESS
					      : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
				      nvmlEnableState_t *active)
{
	nvmlReturn_t result = find_link(device, link);

	ENTER(device);
	if (!result)
		*active = device->link[link].active;
	return result;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device,
						 unsigned int link,
						 nvmlPciInfo_t *pci)
{
	nvmlReturn_t result = find_link(device, link);

	ENTER(device);
	return result ? result : give_pci(device->link[link].pci, pci);
}

nvmlReturn_t
nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
				    nvmlIntNvLinkDeviceType_t *type)
{
	nvmlReturn_t result = find_link(device, link);

	ENTER(device);
	if (!result)
		*type = (unsigned)device->link[link].type;
	return result;
}
