/* SPDX-License-Identifier: MIT */
/* Holds our declarations of the CUDA driver against the vendor's header. */
#ifndef OH_TESTS_CUDA_HEADER_H
#define OH_TESTS_CUDA_HEADER_H

/*
 * The first name of src/vendor/cuda.def that differs from the cuda.h of this
 * build; NULL if none does. *why_not says why there is nothing to compare, and
 * is NULL otherwise.
 */
const char *cuda_header_differs(const char **why_not);

#endif
