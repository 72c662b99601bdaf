/* SPDX-License-Identifier: MIT */
/*
 * What data sheets say of GPUs, by the name that NVML prints. Editions of one
 * chip differ and have rows of their own.
 */
#ifndef OH_DOCTOR_HARDWARE_H
#define OH_DOCTOR_HARDWARE_H

#include <stdbool.h>

struct hardware {
	const char *name; /* the part of NVML's name that tells it */
	double memory_gb_s; /* peak of its memory */
	int capability; /* 10 * major + minor */
	bool geforce; /* the driver refuses PCIe peer access */
	const char *source;
};

/* The most specific row, or NULL. */
const struct hardware *hardware_named(const char *name);

#endif
