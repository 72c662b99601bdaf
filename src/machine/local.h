/* SPDX-License-Identifier: MIT */
/*
 * This machine: NVML for GPUs and their pairs, and the host's files and libpci
 * for the rest. Each source works alone; what one cannot read stays unknown.
 */
#ifndef OH_MACHINE_LOCAL_H
#define OH_MACHINE_LOCAL_H

#include "machine/machine.h"

/*
 * GPUs, links and peer status by NVML. OH_ERR_UNSUPPORTED if there is no NVML
 * or no GPU (absent is a state: nothing is logged above info), OH_ERR_SYSTEM if
 * NVML is there and fails.
 */
enum oh_status oh__machine_read_nvml(struct oh__machine *machine);

/*
 * The host: kernel, command line, processor, driver, IOMMU mode, ACS control of
 * bridges, and for each GPU that is known by its PCI address the NUMA node and
 * the link's width and generation where NVML did not say: read NVML into the
 * same machine first. root is "" or the directory of a captured machine, under
 * which every file is looked for, libpci's too. What is known stays.
 */
void oh__machine_read_host(struct oh__machine *machine, const char *root);

/* Those variables of this process that change what engines and NCCL do. */
void oh__machine_read_variables(struct oh__machine *machine);

#endif
