/* SPDX-License-Identifier: MIT */
/*
 * More bytes than 32 bits count, on real GPUs: many times the same block, which
 * divides no power of two, and due is the sum of a call on one block. Takes 9
 * GB of one GPU.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu_ranks.h"

#define BYTES (((size_t)4 << 30) + 70000006)
#define BLOCK ((size_t)40000006)

static bool fill(struct gpu_rank *g, CUdeviceptr all)
{
	CUstream stream = g->stream[0];
	bool fine =
		GPU_FINE(g, cuMemcpyDtoDAsync_v2(all, g->send, BLOCK, stream));

	for (size_t done = BLOCK; done < BYTES && fine; done *= 2) {
		size_t left = BYTES - done;

		fine = GPU_FINE(g, cuMemcpyDtoDAsync_v2(
					   all + done, all,
					   left < done ? left : done, stream));
	}
	return fine;
}

/* Each block is what the call on one block gave. */
static bool compare(struct gpu_rank *g, CUdeviceptr all)
{
	bool right = true;

	for (size_t at = 0; at < BYTES && right; at += BLOCK) {
		size_t left = BYTES - at, bytes = left < BLOCK ? left : BLOCK;

		right = GPU_FINE(g,
				 cuMemcpyDtoHAsync_v2(g->got, all + at, bytes,
						      g->stream[0])) &&
			GPU_FINE(g, cuStreamSynchronize(g->stream[0])) &&
			ranks_check(g->self, !memcmp(g->got, g->due, bytes),
				    "wrong bits from byte %zu on", at);
	}
	return right;
}

static void huge(struct ranks_self *self)
{
	struct gpu_case block = {
		.count = BLOCK / 2, .dtype = OH_BF16, .seed = self->seed};
	CUdeviceptr all = 0;
	struct gpu_rank g;

	if (gpu_rank_begin(&g, self, BLOCK) &&
	    gpu_rank_try(&g, &block, g.stream[0]) &&
	    GPU_FINE(&g, cuMemAlloc_v2(&all, BYTES)) && fill(&g, all) &&
	    ranks_fine(self,
		       oh_all_reduce(g.comm, (void *)all, (void *)all,
				     BYTES / 2, OH_BF16, OH_SUM, g.stream[0]),
		       "oh_all_reduce") &&
	    gpu_rank_drain(&g, g.stream[0], 60000))
		compare(&g, all);
	if (all)
		g.cuda->cuMemFree_v2(all);
	gpu_rank_end(&g);
}

static const struct ranks_case cases[] = {{"huge", huge}, {NULL, NULL}};

int main(int argc, char **argv)
{
	struct ranks_options options = {.ranks = 2, .text = "peers' memory"};

	gpu_ranks_main(argc, argv, cases);
	ranks_processes(&cases[0], &options);
	setenv("ONEHOP_FORBID_PEER", "all", 1);
	options.text = "host memory";
	ranks_processes(&cases[0], &options);
	return gpu_ranks_end(tap_done());
}
