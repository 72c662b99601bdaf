/* SPDX-License-Identifier: MIT */
/* Flags of nccl-tests that `onehop bench` has not, and what to do instead. */
#ifndef OH_TOOLS_BENCH_ABSENT_H
#define OH_TOOLS_BENCH_ABSENT_H

/* "-g", "-g8", "--ngpus", "--ngpus=8": a sentence; NULL for any other word. */
const char *bench_absent_advice(const char *word);

#endif
