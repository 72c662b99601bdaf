/* SPDX-License-Identifier: MIT */
/*
 * What the readers of the host share. Every file is looked for under a root:
 * "" for this machine, or the directory of a captured one.
 */
#ifndef OH_MACHINE_LOCAL_HOST_H
#define OH_MACHINE_LOCAL_HOST_H

#include "machine/machine.h"

/* The beginning of a file of that name, without the blanks and line ends at its
 * end; false, and "", if there is none that can be read. */
__attribute__((format(printf, 4, 5))) bool
oh__host_read(const char *root, char *text, size_t bytes, const char *format,
	      ...);

/* ACS control of all bridges; is_guest: of a virtual machine, whose bridges
 * are not those that count. */
void oh__host_read_acs(struct oh__machine *machine, const char *root,
		       bool is_guest);

#endif
