/* SPDX-License-Identifier: MIT */
/*
 * A machine as JSON: {"gpus", "links", "peer", "driver_says_peer", "islands",
 * "switch_groups", "host", "variables", "remarks", "origins"}. Unknown is null;
 * switch_groups is left out where there are none.
 */
#ifndef OH_TOOLS_MACHINE_JSON_H
#define OH_TOOLS_MACHINE_JSON_H

#include <jansson.h>

#include "machine/machine.h"

/* A new reference; NULL without memory. */
json_t *machine_json(const struct oh__machine *machine);

#endif
