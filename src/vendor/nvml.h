/* SPDX-License-Identifier: MIT */
/*
 * NVML (libnvidia-ml.so.1), loaded at run time. The declarations are our own:
 * building needs no header of the vendor. They bear the vendor's names, so that
 * one list (nvml.def) can be held against a real nvml.h by a test; hence this
 * header and that one never meet in one file.
 */
#ifndef OH_VENDOR_NVML_H
#define OH_VENDOR_NVML_H

#include <stddef.h>

#include "onehop/onehop.h"

/* An enum of small values is an unsigned int in the vendor's binary
 * interface; the values stand in nvml.def. */
typedef unsigned int nvmlReturn_t;
typedef unsigned int nvmlEnableState_t;
typedef unsigned int nvmlGpuTopologyLevel_t;
typedef unsigned int nvmlGpuP2PCapsIndex_t;
typedef unsigned int nvmlGpuP2PStatus_t;
typedef unsigned int nvmlIntNvLinkDeviceType_t;
typedef unsigned int nvmlAffinityScope_t;
typedef struct nvmlDevice_st *nvmlDevice_t;

/* Since version 3 of nvmlDeviceGetPciInfo, version 2 of the remote one. */
typedef struct nvmlPciInfo_st {
	char busIdLegacy[16];
	unsigned int domain, bus, device;
	unsigned int pciDeviceId, pciSubSystemId;
	char busId[32]; /* "00000000:C1:00.0" */
} nvmlPciInfo_t;

/* Bytes; version 1, in which what the driver keeps counts as used. */
typedef struct nvmlMemory_st {
	unsigned long long total, free, used;
} nvmlMemory_t;

enum oh__nvml_constant {
#define OH_NVML_CONSTANT(name, value) name = (value),
#include "vendor/nvml.def"
};

#define OH_NVML_SIZE(type, bytes)                                              \
	_Static_assert(sizeof(type) == (bytes), #type);
#define OH_NVML_MEMBER(type, member, offset)                                   \
	_Static_assert(offsetof(type, member) == (offset), #type);
#include "vendor/nvml.def"

/* NULL where the driver's NVML lacks an optional one. */
struct oh__nvml {
#define OH_NVML(need, result, name, parameters) result(*name) parameters;
#include "vendor/nvml.def"
};

/*
 * The table, the same for the whole process and for good. NVML itself is
 * neither initialised nor shut down here: whoever asks it something pairs
 * nvmlInit_v2 with nvmlShutdown, which NVML counts, so that other users in the
 * process keep theirs. OH_ERR_UNSUPPORTED without NVML (nothing is logged above
 * info), OH_ERR_SYSTEM if it cannot be loaded. Thread: any.
 */
enum oh_status oh__nvml_load(const struct oh__nvml **nvml);

#endif
