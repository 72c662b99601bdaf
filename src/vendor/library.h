/* SPDX-License-Identifier: MIT */
/*
 * Opens a vendor's shared library at run time and fills a table of function
 * pointers from a list of symbols. A library is opened once and stays in the
 * process for good (RTLD_NODELETE): drivers start threads and keep state that
 * unmapping would pull from under them. Its symbols stay local, so that what it
 * exports meets nothing else of the process.
 */
#ifndef OH_VENDOR_LIBRARY_H
#define OH_VENDOR_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "onehop/onehop.h"

#define OH__DRIVER_REMEDY                                                      \
	"install NVIDIA's driver, or give the container its GPUs (docker run " \
	"--gpus all)"

struct oh__symbol {
	const char *name; /* as exported, with its version: "nvmlInit_v2" */
	size_t offset; /* of its pointer in the table */
	bool required;
};

struct oh__library {
	const char *file; /* the soname: "libnvidia-ml.so.1" */
	const char *remedy; /* what to do where it is absent */
	const struct oh__symbol *symbols;
	size_t count;
};

/*
 * Fills the pointers of table, which is only written on OH_OK; an optional
 * symbol that the library lacks is NULL there. OH_ERR_UNSUPPORTED: there is no
 * such file (absent is a state: nothing is logged above info). OH_ERR_SYSTEM:
 * the file is there and cannot be loaded, or lacks a required symbol.
 */
enum oh_status oh__library_load(const struct oh__library *library, void *table);

/*
 * The function's name in "cuda->cuInit(0)", from the list: a record keeps a
 * pointer, and its reader wants no arguments. The text itself if no word of it
 * is a function of the list.
 */
const char *oh__library_function_of(const struct oh__library *library,
				    const char *text);

/* A symbol of a library that the process has loaded already; NULL if it has
 * not, or if there is none of that name. Loads nothing. */
void *oh__library_find_loaded(const char *file, const char *symbol);

/*
 * Something of a vendor is absent: OH_ERR_UNSUPPORTED, which oh_last_error
 * tells, but logged as info, for it is no fault.
 */
__attribute__((format(printf, 1, 2), cold)) enum oh_status
oh__vendor_absent(const char *format, ...);

#endif
