/* SPDX-License-Identifier: MIT */
/* Where things are installed; the build writes it from paths.c.in. */
#ifndef OH_BENCH_PATHS_H
#define OH_BENCH_PATHS_H

extern const char bench_libexec_folder[];

#endif
