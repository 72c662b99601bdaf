/* SPDX-License-Identifier: MIT */
/* Holds our declarations of NCCL against the vendor's header. */
#ifndef OH_TESTS_NCCL_HEADER_H
#define OH_TESTS_NCCL_HEADER_H

/*
 * The first name of src/vendor/nccl.def that differs from the nccl.h of this
 * build; NULL if none does. *why_not says why there is nothing to compare, and
 * is NULL otherwise.
 */
const char *nccl_header_differs(const char **why_not);

#endif
