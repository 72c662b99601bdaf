/* SPDX-License-Identifier: MIT */
/*
 * Reads what people paste: any text that holds nvidia-smi topo -m, topo -p2p,
 * nvidia-smi -L or its table, collect_env of vLLM or SGLang, lspci's ACS lines,
 * a kernel command line. It is fed line by line and keeps little, so that any
 * length will do. A matrix that is cut, ragged or contradicts itself is an
 * error that names row and column; nothing is guessed. NIC columns that are
 * damaged beside an intact GPU block are left out with a remark.
 */
#ifndef OH_MACHINE_REPORT_H
#define OH_MACHINE_REPORT_H

#include "machine/machine.h"

struct oh__report;

/* name is the file's, for origins and errors. NULL without memory. */
struct oh__report *oh__report_create(const char *name);

/* One line without its end; any bytes. One that begins with "\r" is of the
 * same line as the one before. Errors are kept until the finish. */
void oh__report_feed(struct oh__report *report, const char *line, size_t bytes);

/*
 * Fills *machine; *found says whether the text held anything of a machine.
 * OH_ERR_INVALID for a damaged or contradictory matrix, OH_ERR_UNSUPPORTED for
 * one of ROCm, XPU or a machine without GPUs: oh_last_error names file, line
 * and cause. Frees the report.
 */
enum oh_status oh__report_finish(struct oh__report *report,
				 struct oh__machine *machine, bool *found);

#endif
