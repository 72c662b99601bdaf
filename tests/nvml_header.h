/* SPDX-License-Identifier: MIT */
/* Holds our declarations of NVML against the vendor's header. */
#ifndef OH_TESTS_NVML_HEADER_H
#define OH_TESTS_NVML_HEADER_H

/*
 * The first name of src/vendor/nvml.def that differs from the nvml.h of this
 * build; NULL if none does. *why_not says why there is nothing to compare, and
 * is NULL otherwise.
 */
const char *nvml_header_differs(const char **why_not);

#endif
