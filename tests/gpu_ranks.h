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

/* The first thing in main, before ranks_main. */
void gpu_ranks_start(char **argv);
/* The last: gives tap_done's answer. */
int gpu_ranks_end(int code);
/* NULL, or why there is nothing to run on. */
const char *gpu_ranks_absent(void);
int gpu_ranks_devices(void);

/* Context, buffers and communicator of ids[0]; false if something failed, which
 * is noted. */
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
/* All three. */
bool gpu_rank_try(struct gpu_rank *rank, const struct gpu_case *test,
		  CUstream stream);

/* A driver's call that must succeed; a failure is noted. */
#define GPU_FINE(rank, call)                                                   \
	ranks_check((rank)->self, !OH__CUDA((rank)->cuda->call), "%s: %s",     \
		    #call, oh_last_error()->message)

#endif
