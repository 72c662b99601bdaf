/* SPDX-License-Identifier: MIT */
/*
 * The mailboxes' memory: this rank's in GPU memory, as the other GPUs map it,
 * and in host memory, for the pairs that have no other way. Both are the
 * library's own; nothing of the caller's is handed out.
 *
 * GPU memory travels as a descriptor (the driver's VMM) or as a handle of CUDA
 * IPC. Either way who has mapped it keeps it alive: the end of its owner faults
 * nobody, and owners are destroyed before or after those who have opened it
 * (of CUDA IPC the driver promises only the latter; test_gpu_fail tries both).
 * Inside a process CUDA IPC would leave a bare address, which nothing keeps
 * alive: its ranks meet in host memory then. Host memory is a sealed memfd that
 * each side registers with its own driver; its pages lie near the reader.
 */
#ifndef OH_GPU_MEMORY_H
#define OH_GPU_MEMORY_H

#include "gpu/device.h"

struct oh__gpu_memory {
	int rank;
	size_t bytes; /* of each rank's GPU mailbox, whole pages */
	size_t pinned_bytes;
	/* 0: of CUDA IPC */
	CUmemGenericAllocationHandle handle[OH_MAX_RANKS];
	CUdeviceptr vram[OH_MAX_RANKS]; /* 0: not mapped here */
	void *host[OH_MAX_RANKS]; /* as the processor sees it; NULL */
	CUdeviceptr pinned[OH_MAX_RANKS]; /* as this GPU sees it; 0 */
	int pinned_fd; /* this rank's own, -1 after it is handed out */
};

/* Does the driver hand memory out as a descriptor? Its attributes may say so,
 * and a sandbox may not let it. The context is current, here and below. */
bool oh__gpu_memory_exports(const struct oh__gpu_device *device);

/*
 * This rank's mailbox in GPU memory, and its memfd. fds gets what the others
 * need: the GPU memory (-1 if it is not shared by descriptor: facts->share),
 * then the memfd, which stays this room's.
 */
enum oh_status oh__gpu_memory_create(struct oh__gpu_memory *memory,
				     const struct oh__gpu_device *device,
				     const struct oh__gpu_facts *facts,
				     size_t bytes, size_t pinned_bytes,
				     int fds[2]);

/* What ranks that share by CUDA IPC tell the others. */
struct oh__gpu_offer {
	CUipcMemHandle handle; /* if the code is 0 */
	int32_t code; /* the driver's, if it gives no handle */
};

struct oh__gpu_offer oh__gpu_memory_offer(const struct oh__gpu_memory *memory,
					  const struct oh__gpu_device *device);

/* Maps a peer's GPU memory for this device, by its descriptor, which stays the
 * caller's, or its handle. A refusal is an answer, and is given back as the
 * driver's code. */
CUresult oh__gpu_memory_import(struct oh__gpu_memory *memory,
			       const struct oh__gpu_device *device, int peer,
			       int fd);
CUresult oh__gpu_memory_open(struct oh__gpu_memory *memory,
			     const struct oh__gpu_device *device, int peer,
			     const CUipcMemHandle *handle);

/* Maps and registers a rank's host memory; of this rank's own the pages are
 * placed and emptied. */
enum oh_status oh__gpu_memory_pin(struct oh__gpu_memory *memory,
				  const struct oh__gpu_device *device, int peer,
				  int fd, const struct oh__gpu_facts *facts);

/* Works in every state, also when the driver does not any more. */
void oh__gpu_memory_destroy(struct oh__gpu_memory *memory,
			    const struct oh__gpu_device *device);

/* The NUMA node of the PCI device, as the driver writes its address; -1 if the
 * system does not say. */
int oh__gpu_node_of(const char *address);

/* New pages of the range on the node; without it, and with -1, they lie where
 * the thread runs that touches them first. */
void oh__gpu_place_near(void *address, size_t bytes, int node);

#endif
