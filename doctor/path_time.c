/* SPDX-License-Identifier: MIT */
/*
 * The table. A row is what different people saw on different machines of that
 * kind, so it is wide; nothing is interpolated, and where nobody measured there
 * is no row. Figures are microseconds of one call inside a CUDA graph, rounded.
 */
#include "doctor/path_time.h"

#include <stddef.h>
#include <string.h>

#define KIB 1024u
#define MANY 16

#define NCCL_PCIE "NCCL over PCIe"
#define NCCL_NVLINK "NCCL over NVLink"
#define CUSTOM_NVLINK "the engine's own kernel over NVLink"
#define CUSTOM_PCIE "the engine's own kernel over PCIe"
#define PEER_PCIE "one-shot stores to peers over PCIe, one socket"
#define FAR_PCIE "one-shot stores to peers over PCIe, across sockets"

/* Onehop's own kernels were measured on two and four H200; other cards have
 * figures of what works alike. */
#define OWN_NVLINK "Onehop over NVLink"
#define OWN_PINNED "Onehop through pinned host memory"
#define OWN_PAGE " (docs/measurements/gpu.md)"
#define COMPARABLE "kernels of the same kind: "

static const struct path_time table[] = {
	{"nccl", NCCL_PCIE, PATH_PCIE, 2, 2, 1, 64 * KIB, 8, 39,
	 "2x 4090 8.3 at 2 KB (open-gpu-kernel-modules issue 45) to 2x 5070 Ti "
	 "39 at 10 KB (sglang PR 39605)"},
	{"nccl", NCCL_PCIE, PATH_PCIE, 2, 2, 64 * KIB + 1, 256 * KIB, 15, 41,
	 "2x H200 without peer access: 15.4 at 64 KB, 40.8 at 256 KB"},
	{"nccl", NCCL_PCIE, PATH_PCIE, 3, 4, 1, 16 * KIB, 13, 33,
	 "4x RTX PRO 6000: 13.2 on one socket to 32.3 behind switches "
	 "(rtx6kpro), 4x V100 22.3 (sglang-V100 PR 2)"},
	{"nccl", NCCL_PCIE, PATH_PCIE, 3, 4, 16 * KIB + 1, 64 * KIB, 15, 34,
	 "4x RTX PRO 6000: 15.4 to 33.3 (rtx6kpro, one outlier of 71 left "
	 "out), 4x 4090 25.8"},
	{"nccl", NCCL_PCIE, PATH_PCIE, 3, 4, 64 * KIB + 1, 256 * KIB, 24, 67,
	 "4x RTX PRO 6000 24.7 (rtx6kpro) to 4x 4090 66.3 "
	 "(open-gpu-kernel-modules PR 22)"},
	{"nccl", NCCL_PCIE, PATH_PCIE, 5, 8, 1, 16 * KIB, 17, 57,
	 "8x RTX PRO 6000 at 4 to 16 KB: 17.3 under one root to 57.6 on two "
	 "sockets (rtx6kpro)"},
	{"nccl", NCCL_PCIE, PATH_PCIE, 5, 8, 16 * KIB + 1, 64 * KIB, 18, 96,
	 "8x RTX PRO 6000 18.1 at 64 KB (rtx6kpro) to 8x A800 95.8 at 32 KB "
	 "(vllm issue 50576)"},
	{"nccl", NCCL_PCIE, PATH_PCIE, 5, 8, 64 * KIB + 1, 256 * KIB, 25, 170,
	 "8x RTX PRO 6000 25.0 (rtx6kpro) to 8x A800 169 (vllm issue 50576)"},
	{"nccl", NCCL_PCIE, PATH_PCIE, 9, MANY, 1, 128 * KIB, 36, 40,
	 "16x RTX PRO 6000, 14 to 115 KB: 36.1 to 39.7 (b12x PR 139)"},
	{"nccl", NCCL_NVLINK, PATH_NVLINK, 2, 2, 1, 64 * KIB, 5.7, 13,
	 "2x H200 5.8 to 6.9 from C; PyTorch adds 6"},
	{"nccl", NCCL_NVLINK, PATH_NVLINK, 2, 2, 64 * KIB + 1, 256 * KIB, 6.9,
	 15, "2x H200 6.9 to 8.5 from C; PyTorch adds 6"},
	{"nccl", NCCL_NVLINK, PATH_NVLINK, 3, 4, 1, 64 * KIB, 8.5, 17,
	 "4x H200: 8.5 from C to 16.7 through PyTorch"},
	{"nccl", NCCL_NVLINK, PATH_NVLINK, 3, 4, 64 * KIB + 1, 256 * KIB, 10.8,
	 18, "4x H200: 10.8 from C to 17.3 through PyTorch"},
	{"nccl", NCCL_NVLINK, PATH_NVLINK, 5, 8, 1, 64 * KIB, 8.7, 29,
	 "8x GB200 8.7 (NCCL 2.31 samples), 8x H100 16.8 (sglang PR 22734), "
	 "B300 29 (vllm PR 37756)"},
	{"nccl", NCCL_NVLINK, PATH_NVLINK, 5, 8, 64 * KIB + 1, 256 * KIB, 14,
	 29, "8x GB200 14 (NCCL 2.31 samples) to B300 29 (vllm PR 37756)"},
	{"custom", CUSTOM_NVLINK, PATH_NVLINK, 2, 2, 1, 64 * KIB, 1.7, 4.1,
	 "2x H200: SGLang's 1.7 to 2.3, vLLM's 3.7 to 4.0"},
	{"custom", CUSTOM_NVLINK, PATH_NVLINK, 2, 2, 64 * KIB + 1, 256 * KIB,
	 2.2, 4.6, "2x H200: SGLang's 2.3 to 2.8, vLLM's 4.0 to 4.6"},
	{"custom", CUSTOM_NVLINK, PATH_NVLINK, 3, 4, 1, 64 * KIB, 1.9, 4.7,
	 "4x H200: SGLang's 1.9 to 2.8, vLLM's 3.8 to 4.7"},
	{"custom", CUSTOM_NVLINK, PATH_NVLINK, 3, 4, 64 * KIB + 1, 256 * KIB,
	 2.8, 6.6, "4x H200: SGLang's 2.8 to 4.8, vLLM's 4.7 to 6.6"},
	{"custom", CUSTOM_NVLINK, PATH_NVLINK, 5, 8, 1, 64 * KIB, 5.7, 12,
	 "8x H100: SGLang's first 5.7 to 7.8, vLLM's 10.1 to 11.8 (sglang PR "
	 "2904)"},
	{"custom", CUSTOM_NVLINK, PATH_NVLINK, 5, 8, 64 * KIB + 1, 256 * KIB,
	 7.8, 25, "8x H100: 7.8 to 24.1 (sglang PR 2904)"},
	/* vLLM's kernel at two PCIe ranks: nobody printed a figure */
	{"custom", CUSTOM_PCIE, PATH_PCIE, 2, 2, 1, 16 * KIB, 4, 11.6,
	 COMPARABLE
	 "4.1 (flashinfer PR 5023, two ranks) to 11.6 (rtx6kpro, four ranks)"},
	{"custom", CUSTOM_PCIE, PATH_PCIE, 2, 2, 16 * KIB + 1, 64 * KIB, 4.7,
	 24.6,
	 COMPARABLE
	 "4.8 (flashinfer PR 5023, two ranks) to 24.6 (rtx6kpro, four ranks)"},
	{"onehop_peer", PEER_PCIE, PATH_PCIE, 2, 2, 1, 16 * KIB, 4, 11.6,
	 COMPARABLE
	 "4.1 (flashinfer PR 5023, two ranks) to 11.6 (rtx6kpro, four ranks)"},
	{"onehop_peer", PEER_PCIE, PATH_PCIE, 3, 4, 1, 16 * KIB, 4, 11.6,
	 COMPARABLE
	 "4x V100 4.0 to 7.2 (sglang-V100 PR 2), 4x RTX PRO 6000 6.1 to 11.6 "
	 "(rtx6kpro)"},
	{"onehop_peer", PEER_PCIE, PATH_PCIE, 3, 4, 16 * KIB + 1, 64 * KIB, 7.2,
	 24.6, COMPARABLE "4x RTX PRO 6000 7.7 to 24.6 (rtx6kpro)"},
	{"onehop_peer", PEER_PCIE, PATH_PCIE, 3, 4, 64 * KIB + 1, 128 * KIB,
	 11.8, 44.5,
	 COMPARABLE
	 "4x RTX PRO 6000 11.8 to 40.1 (rtx6kpro), 4x V100 44.5 (sglang-V100 "
	 "PR 2)"},
	{"onehop_peer", PEER_PCIE, PATH_PCIE, 5, 8, 1, 8 * KIB, 7.5, 9.2,
	 COMPARABLE "8x RTX PRO 6000 Max-Q 7.5 to 9.2 (rtx6kpro)"},
	{"onehop_peer", PEER_PCIE, PATH_PCIE, 5, 8, 8 * KIB + 1, 16 * KIB, 9.2,
	 11.8,
	 COMPARABLE
	 "8x RTX PRO 6000 9.2 at 8 KB (rtx6kpro), 10.0 to 11.8 at 12 to 14 KB "
	 "(b12x)"},
	{"onehop_peer", PEER_PCIE, PATH_PCIE, 5, 8, 16 * KIB + 1, 64 * KIB,
	 11.8, 25.9,
	 COMPARABLE "8x RTX PRO 6000 11.8 at 14 KB, 25.9 at 64 KB (rtx6kpro)"},
	{"onehop_peer", PEER_PCIE, PATH_PCIE, 9, MANY, 1, 16 * KIB, 18, 20.6,
	 COMPARABLE "16x RTX PRO 6000 18.0 to 20.5 at 14 KB (b12x PR 139)"},
	{"onehop_peer_far", FAR_PCIE, PATH_PCIE, 5, 8, 4 * KIB, 16 * KIB, 30.6,
	 64.3,
	 COMPARABLE
	 "8x A800 in two islands 45 (vllm issue 50576), 8x RTX PRO 6000 whose "
	 "posted writes collapse 30.6 to 64.3 (rtx6kpro)"},
	{"onehop_peer", OWN_NVLINK, PATH_NVLINK, 2, 2, 1, 64 * KIB, 1.3, 2,
	 "2x H200: 1.48 to 1.91; 1.34 on another host" OWN_PAGE},
	{"onehop_peer", OWN_NVLINK, PATH_NVLINK, 2, 2, 64 * KIB + 1, 256 * KIB,
	 1.8, 2.6, "2x H200: 1.91 at 64 KB, 2.51 at 256 KB" OWN_PAGE},
	{"onehop_peer", OWN_NVLINK, PATH_NVLINK, 3, 4, 1, 64 * KIB, 1.5, 2.5,
	 "4x H200: 1.52 to 2.44" OWN_PAGE},
	{"onehop_peer", OWN_NVLINK, PATH_NVLINK, 3, 4, 64 * KIB + 1, 256 * KIB,
	 2.4, 3.9, "4x H200: 2.44 at 64 KB, 3.80 at 256 KB" OWN_PAGE},
	{"onehop_pinned", OWN_PINNED, PATH_PCIE, 2, 2, 1, 16 * KIB, 2.2, 4.1,
	 "2x H200, peers forbidden: 2.30 to 2.93 up to 8 KB, 4.05 at 32 "
	 "KB" OWN_PAGE},
	{"onehop_pinned", OWN_PINNED, PATH_PCIE, 2, 2, 16 * KIB + 1, 64 * KIB,
	 2.8, 5.2,
	 "2x H200, peers forbidden: 2.93 at 8 KB, 5.14 at 64 KB" OWN_PAGE},
	{"onehop_pinned", OWN_PINNED, PATH_PCIE, 2, 2, 64 * KIB + 1, 256 * KIB,
	 4.9, 13.2,
	 "2x H200, peers forbidden: 5.14 at 64 KB, 13.2 at 256 KB" OWN_PAGE},
	{"onehop_pinned", OWN_PINNED, PATH_PCIE, 3, 4, 1, 16 * KIB, 2.7, 7.2,
	 "4x H200, peers forbidden: 2.77 to 4.28 up to 8 KB, 7.17 at 32 "
	 "KB" OWN_PAGE},
	{"onehop_pinned", OWN_PINNED, PATH_PCIE, 3, 4, 16 * KIB + 1, 64 * KIB,
	 4.2, 9.5,
	 "4x H200, peers forbidden: 4.28 at 8 KB, 9.40 at 64 KB" OWN_PAGE},
	{"onehop_pinned", OWN_PINNED, PATH_PCIE, 3, 4, 64 * KIB + 1, 256 * KIB,
	 9.4, 22.9,
	 "4x H200, peers forbidden: 9.40 at 64 KB, 22.8 at 256 KB" OWN_PAGE},
};

int path_times(enum path_link link, int ranks, uint64_t bytes,
	       const struct path_time **rows, int most)
{
	int count = 0;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const struct path_time *row = &table[i];

		if (count < most && row->link == link &&
		    ranks >= row->ranks_low && ranks <= row->ranks_high &&
		    bytes >= row->bytes_low && bytes <= row->bytes_high)
			rows[count++] = row;
	}
	if (count < most)
		rows[count] = NULL;
	return count;
}
