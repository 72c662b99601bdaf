/* SPDX-License-Identifier: MIT */
/*
 * A rank's GPU: the device that the caller named or has current, its primary
 * context, the kernels, and what the other ranks are told of it. Everything is
 * loaded when it is opened: a kernel that is loaded at its first launch would
 * wait for another rank's kernel on the same GPU, which waits for it.
 */
#ifndef OH_GPU_DEVICE_H
#define OH_GPU_DEVICE_H

#include "gpu/layout.h"
#include "vendor/cuda.h"

/* How a rank's memory goes to other processes: the choices of
 * ONEHOP_DEVICE_SHARE, in their order. */
enum oh__gpu_share {
	OH__GPU_SHARE_AUTO,
	OH__GPU_SHARE_DESCRIPTOR,
	OH__GPU_SHARE_IPC, /* CUDA IPC */
	OH__GPU_SHARE_NONE,
};

/* What the ranks tell each other; fixed in size, no pointers. */
struct oh__gpu_facts {
	uint32_t present; /* 0: host memory only, see why_not */
	int32_t ordinal; /* as its process counts */
	uint8_t uuid[16]; /* of the GPU, or of the MIG instance */
	char address[16]; /* "0000:3b:00.0" */
	char name[48];
	uint32_t major, minor, multiprocessors;
	uint32_t nonce; /* rank 0's serves the checks of all */
	uint32_t share; /* enum oh__gpu_share, never auto */
	uint8_t process[16]; /* random, the same for the ranks of a process */
	char why_not[160];
};

/* Do they use one GPU; are they of one process? */
bool oh__gpu_share_gpu(const struct oh__gpu_facts *one,
		       const struct oh__gpu_facts *other);
bool oh__gpu_share_process(const struct oh__gpu_facts *one,
			   const struct oh__gpu_facts *other);

enum oh__gpu_dtype {
	OH__GPU_F32,
	OH__GPU_F16,
	OH__GPU_BF16,
	OH__GPU_DTYPES,
};

struct oh__gpu_device {
	const struct oh__cuda *cuda; /* NULL: there is none */
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUstream stream; /* the library's own: set-up, and ending waits */
	/* for anything; for aligned whole packs. NULL where there is none for
	 * this number of ranks */
	CUfunction any[OH__GPU_ALGORITHMS][OH__GPU_DTYPES];
	CUfunction fast[OH__GPU_ALGORITHMS][OH__GPU_DTYPES];
	CUfunction check_write, check_read, release;
	/* the least capability, times 10, that code of theirs is made for: on a
	 * newer card it may be less than the card's */
	int made_for;
	bool hangs; /* it did not finish in time: nothing of it is freed */
};

/* Does this rank want calls on GPU memory: has the caller named a device, or is
 * a CUDA context current in this thread? */
bool oh__gpu_is_wanted(const int *wanted);

/*
 * wanted: the ordinal that the caller named; NULL: the device of the context
 * that is current in this thread, none if none is. Without one facts say why
 * and the status is OH_OK; one that was named and cannot be used is an error.
 */
enum oh_status oh__gpu_device_open(struct oh__gpu_device *device,
				   const int *wanted, int ranks,
				   struct oh__gpu_facts *facts);
void oh__gpu_device_close(struct oh__gpu_device *device);

/* How this device's memory is shared when that is wanted; never auto. */
enum oh__gpu_share oh__gpu_share_of(const struct oh__gpu_device *device,
				    enum oh__gpu_share wanted);

/*
 * Makes the context current for this thread, and undoes that. In between the
 * thread may call what another thread's capture of a graph forbids; mode keeps
 * what it was before.
 */
enum oh_status oh__gpu_enter(const struct oh__gpu_device *device,
			     CUstreamCaptureMode *mode);
void oh__gpu_leave(const struct oh__gpu_device *device,
		   CUstreamCaptureMode *mode);

/* Waits for what the library's own stream was given, at most until then, or
 * for OH__AGREE_MS: OH_ERR_TIMEOUT after that. what: for the message, "the
 * check of
 * ...". */
enum oh_status oh__gpu_wait(struct oh__gpu_device *device, uint64_t deadline_ns,
			    const char *what);

/* The number of a type among those that kernels have; -1 for others. */
int oh__gpu_dtype_of(enum oh_dtype dtype);

#endif
