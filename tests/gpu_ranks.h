/* SPDX-License-Identifier: MIT */
/*
 * A rank on GPU memory, for tests through the public calls: its device (dealt
 * out over those that are there, so that several ranks share one), two streams,
 * two buffers, and data whose sum every rank can work out for itself. The same
 * tests run on real GPUs, and, built with OH_TESTS_FAKE, on the fake driver
 * with the kernels' stand-ins.
 */
#ifndef OH_TESTS_GPU_RANKS_H
#define OH_TESTS_GPU_RANKS_H

#include "leftovers.h"
#include "ranks.h"
#include "vendor/cuda.h"

#define GPU_STREAMS 2

struct gpu_rank {
	struct ranks_self *self;
	const struct oh__cuda *cuda;
	int ordinal;
	CUdevice device;
	CUcontext context;
	CUstream stream[GPU_STREAMS];
	size_t room; /* of each buffer */
	CUdeviceptr send, recv;
	unsigned char *data, *due, *got; /* on the host, as long */
	struct oh_comm *comm;
};

/* Before ranks_main. */
void gpu_ranks_start(char **argv);
/* The last: gives tap_done's answer. */
int gpu_ranks_end(int code);
/* NULL, or why there is nothing to run on. */
const char *gpu_ranks_absent(void);
/* The first thing in main: all three. */
static inline void gpu_ranks_main(int argc, char **argv,
				  const struct ranks_case *cases)
{
	const char *absent;

	gpu_ranks_start(argv);
	ranks_main(argc, argv, cases);
	absent = gpu_ranks_absent();
	if (absent)
		tap_skip_all(absent);
}

int gpu_ranks_devices(void);
/* Are some rows left out? On real GPUs, where processes take seconds to start,
 * without --long. */
bool gpu_ranks_brief(int argc, char **argv);

/* Context, streams and buffers on that device of those that are there; false if
 * something failed, which is noted. */
bool gpu_rank_open(struct gpu_rank *rank, struct ranks_self *self, int ordinal,
		   size_t room);
/* The same, and the communicator of ids[0]. */
bool gpu_rank_begin(struct gpu_rank *rank, struct ranks_self *self,
		    size_t room);
void gpu_rank_end(struct gpu_rank *rank);

/* A call, and what it is due to give. */
struct gpu_case {
	size_t count;
	enum oh_dtype dtype;
	enum oh_op op;
	size_t send_at, recv_at; /* bytes into the buffers */
	bool in_place; /* recv_at in both */
	uint64_t seed; /* of the data; with it all ranks know all data */
};

size_t gpu_case_bytes(const struct gpu_case *test);
/* Puts this rank's data into its buffer, in the stream's order. */
bool gpu_rank_put(struct gpu_rank *rank, const struct gpu_case *test,
		  CUstream stream);
enum oh_status gpu_rank_call(struct gpu_rank *rank, const struct gpu_case *test,
			     CUstream stream);
/* Waits for the stream; are the bits those of the processor's engine? */
bool gpu_rank_right(struct gpu_rank *rank, const struct gpu_case *test,
		    CUstream stream);
/* The same, and no failure if they are not. */
bool gpu_rank_same(struct gpu_rank *rank, const struct gpu_case *test,
		   CUstream stream);
/* Waits until the stream is idle, for so long; a failure after that. */
bool gpu_rank_drain(struct gpu_rank *rank, CUstream stream, unsigned ms);
/* All three. */
bool gpu_rank_try(struct gpu_rank *rank, const struct gpu_case *test,
		  CUstream stream);

/* What a rank's process and its GPU hold, while nothing of it is at work. */
struct gpu_holds {
	struct leftovers host;
	long resident_bytes;
	size_t device_bytes; /* taken on the GPU, by all its users */
	unsigned objects; /* of the fake driver, which are alive */
};

struct gpu_holds gpu_rank_holds(struct gpu_rank *rank);
/* Nothing is more than it was, but for some slack of caches. */
bool gpu_rank_check_growth(struct gpu_rank *rank,
			   const struct gpu_holds *before,
			   const struct gpu_holds *after);

/* A driver's call that must succeed; a failure is noted. */
#define GPU_FINE(rank, call)                                                   \
	ranks_check((rank)->self, !OH__CUDA((rank)->cuda->call), "%s: %s",     \
		    #call, oh_last_error()->message)

#endif
