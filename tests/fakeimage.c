/* SPDX-License-Identifier: MIT */
/* What the fake driver is given in place of kernels: a build without nvcc then
 * behaves like one with it. */
#include "kernels/image.h"

const uint64_t oh__kernels_image[1] = {1};
const size_t oh__kernels_image_bytes = sizeof(oh__kernels_image);
