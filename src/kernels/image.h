/* SPDX-License-Identifier: MIT */
/*
 * The kernels of all GPUs in one image (a fatbin: machine code for each
 * architecture, PTX for later ones), made by nvcc when the library is built. A
 * build without nvcc has none, and its GPU ranks say so.
 */
#ifndef OH_KERNELS_IMAGE_H
#define OH_KERNELS_IMAGE_H

#include <stddef.h>
#include <stdint.h>

/* Aligned as a driver wants it. */
extern const uint64_t oh__kernels_image[];
/* 0 if there is none. */
extern const size_t oh__kernels_image_bytes;

#endif
