/* SPDX-License-Identifier: MIT */
/* GPU memory for the buffers that are measured. */
#ifndef OH_BENCH_DEVICE_MEMORY_H
#define OH_BENCH_DEVICE_MEMORY_H

#include <stddef.h>

#include "vendor/cuda.h"

/* On the current context; where there is too little it says how much. */
enum oh_status bench_device_alloc(const struct oh__cuda *cuda, size_t bytes,
				  CUdeviceptr *memory);

#endif
