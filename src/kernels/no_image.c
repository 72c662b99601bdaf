/* SPDX-License-Identifier: MIT */
#include "kernels/image.h"

const uint64_t oh__kernels_image[1] = {0};
const size_t oh__kernels_image_bytes = 0;
