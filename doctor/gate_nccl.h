/* SPDX-License-Identifier: MIT */
/* NCCL's gates, for the table of engines. */
#ifndef OH_DOCTOR_GATE_NCCL_H
#define OH_DOCTOR_GATE_NCCL_H

#include "doctor/gate.h"

#define GATE_NCCL_COUNT 1 /* "transport" */

void gate_nccl_ask(const struct gate_question *question, struct gate *gates);

#endif
