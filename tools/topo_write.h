/* SPDX-License-Identifier: MIT */
/* How `onehop topo` shows a machine. */
#ifndef OH_TOOLS_TOPO_WRITE_H
#define OH_TOOLS_TOPO_WRITE_H

#include <stdbool.h>
#include <stdio.h>

#include "machine/machine.h"

/* 80 columns for eight GPUs and fewer. */
void topo_write_text(const struct oh__machine *machine, bool colour, FILE *out);
/* JSON, schema_version 1; false if it could not be written. */
bool topo_write_json(const struct oh__machine *machine, FILE *out);
/* A graph for Graphviz: islands are clusters, SYS is not drawn. */
void topo_write_dot(const struct oh__machine *machine, FILE *out);

/* "unknown", "none", "some", "all" */
const char *topo_peers_name(enum oh__peer_summary summary);
/* "off", "passthrough", "translated" */
const char *topo_iommu_name(enum oh__iommu mode);
/* "read", "write", "nvlink", "atomics" */
const char *topo_aspect_name(enum oh__peer_aspect aspect);

#endif
