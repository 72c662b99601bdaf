/* SPDX-License-Identifier: MIT */
/* This library as a subject. */
#ifndef OH_BENCH_SUBJECT_ONEHOP_H
#define OH_BENCH_SUBJECT_ONEHOP_H

#include "bench/subject.h"

extern const struct bench_subject bench_subject_onehop;

#endif
