/* SPDX-License-Identifier: MIT */
/* From tools/meson.build: the commit that this was built from. */
#ifndef OH_TOOLS_COMMIT_H
#define OH_TOOLS_COMMIT_H

/* "98160db0fa71", with "-dirty" if files differed; "unknown" outside of git. */
extern const char commit_name[];

#endif
