/* SPDX-License-Identifier: MIT */
/*
 * `onehop probe`: what the ways between the GPUs of this machine, and between
 * each and its memory and the host's, really do: whether what is stored
 * arrives, how long a word takes, how much goes through. One process sees all
 * GPUs, and maps them as a communicator maps mailboxes that it shares as
 * descriptors, with nothing to hand over.
 *
 * Plain data, filled by probe_run and read by the writers. What was not
 * measured is not known, which is never 0; the trouble of its pair or GPU says
 * why. Big: keep it off the stack.
 */
#ifndef OH_PROBE_PROBE_H
#define OH_PROBE_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/arguments.h"
#include "onehop/onehop.h"

#define PROBE_GPUS OH__KERNEL_RANKS

/* Who moves the bytes, always the first GPU of a pair. */
enum probe_way {
	PROBE_STORE, /* a kernel stores into the other's memory */
	PROBE_LOAD, /* a kernel loads from it */
	PROBE_COPY, /* a copy engine writes into it */
	PROBE_WAYS,
};
const char *probe_way_name(enum probe_way way); /* "store" */

enum probe_phase {
	PROBE_ALONE,
	PROBE_TOGETHER, /* all pairs at once */
	PROBE_PHASES,
};

/* Of several times: microseconds or GB/s. */
struct probe_figure {
	bool known;
	double median, best;
};

/* Words that were looked at, and that were not what they should be. */
struct probe_count {
	uint64_t words, wrong;
};

enum probe_trouble {
	PROBE_FINE,
	PROBE_UNTRIED, /* a GPU of the pair has a problem of its own */
	PROBE_REFUSED, /* the driver lets the GPU not reach the other's memory
			*/
	PROBE_WRONG, /* data came out wrong */
	PROBE_SILENT, /* a flag did not come, though data does */
	PROBE_FAILED, /* a call of the driver failed */
	PROBE_LATE, /* the GPU did not finish in time */
};

/* The first thing that went wrong; after it nothing more is tried. */
struct probe_problem {
	enum probe_trouble trouble;
	int code; /* the driver's, 0 for none */
	char code_name[48]; /* "" where the driver has no name for it */
	const char *call; /* "cuMemMap", NULL for none */
	const char *step; /* "loads", what was tried */
};

struct probe_pair {
	struct probe_problem problem;
	/* the driver's words: 1, 0, -1 unknown; the rank is relative */
	int says, atomics, rank;
	struct probe_count count[PROBE_WAYS];
	/* us: a flag, half of its way to and fro; a load that waits for the one
	 * before; a copy of 16 bytes among others */
	struct probe_figure latency[PROBE_PHASES][PROBE_WAYS];
	struct probe_figure host_latency; /* the flag through host memory */
	struct probe_figure rate[PROBE_PHASES][PROBE_WAYS]; /* GB/s */
};

struct probe_gpu {
	struct probe_problem problem;
	int ordinal; /* as CUDA counts here */
	char address[16]; /* "0000:3b:00.0" */
	char name[64];
	int capability; /* 10 * major + minor */
	int multiprocessors;
	int node; /* NUMA, -1 unknown; of its host memory too if known */
	struct probe_count count; /* own and host memory */
	struct probe_figure latency; /* us, of a load from its own memory */
	struct probe_figure own[PROBE_WAYS]; /* GB/s, copy: of bytes copied */
	/* its host memory: a flag to the processor and back, half; a load; GB/s
	 * by kernel, and by copy engine to the host and from it */
	struct probe_figure host_flag, host_load;
	struct probe_figure host[PROBE_WAYS], host_copy_back;
};

struct probe_options {
	uint64_t bytes; /* of a transfer, a multiple of PROBE_UNIT */
	bool quick; /* the driver's words and the check of stores and loads */
	int only[PROBE_GPUS], only_count; /* ordinals; 0: all */
	uint64_t timeout_ns; /* of each step */
	/* what is measured now, for people; NULL */
	void (*progress)(void *context, const char *what);
	void *context;
};

#define PROBE_UNIT 65536u
#define PROBE_BYTES_MIN PROBE_UNIT
/* host memory that is measured is not longer than this */
#define PROBE_HOST_BYTES (64u << 20)

struct probe {
	int cuda; /* the driver's version of CUDA: 13000; 0: unknown */
	int gpus, left_out; /* that are there beyond PROBE_GPUS */
	uint64_t bytes, host_bytes, together_bytes; /* of a transfer */
	bool quick;
	bool late; /* a GPU hangs: the driver must not be called any more */
	struct probe_gpu gpu[PROBE_GPUS];
	struct probe_pair pair[PROBE_GPUS][PROBE_GPUS]; /* from, to */
};

/*
 * OH_OK also where pairs or GPUs have problems. OH_ERR_UNSUPPORTED without a
 * driver, a GPU or kernels; OH_ERR_INVALID if a GPU is named that is not
 * there; OH_ERR_SYSTEM if the driver does not start.
 */
enum oh_status probe_run(const struct probe_options *options,
			 struct probe *probe);

#endif
