/* SPDX-License-Identifier: MIT */
/*
 * The CUDA driver (libcuda.so.1), loaded at run time. The declarations are our
 * own: building needs no header of the vendor. They bear the vendor's names, so
 * that one list (cuda.def) can be held against a real cuda.h by a test; hence
 * this header and that one never meet in one file.
 */
#ifndef OH_VENDOR_CUDA_H
#define OH_VENDOR_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "onehop/onehop.h"

/* An enum of small values is an unsigned int in the vendor's binary
 * interface; the values stand in cuda.def. */
typedef unsigned int CUresult;
typedef unsigned int CUdevice_attribute;
typedef unsigned int CUdevice_P2PAttribute;
typedef unsigned int CUfunction_attribute;
typedef unsigned int CUpointer_attribute;
typedef unsigned int CUlaunchAttributeID;
typedef unsigned int CUlaunchMemSyncDomain;
typedef unsigned int CUstreamCaptureMode;
typedef unsigned int CUstreamCaptureStatus;
typedef unsigned int CUmemorytype;
typedef unsigned int CUmemAllocationType;
typedef unsigned int CUmemAllocationHandleType;
typedef unsigned int CUmemLocationType;
typedef unsigned int CUmemAccess_flags;
typedef unsigned int CUmemAllocationGranularity_flags;

typedef uint64_t cuuint64_t;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;

/* The default streams by name; NULL is the first of them here. */
#define CU_STREAM_LEGACY ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)

typedef struct CUuuid_st {
	char bytes[16];
} CUuuid;

typedef struct CUipcMemHandle_st {
	char reserved[64];
} CUipcMemHandle;

typedef struct CUgraphEdgeData_st {
	unsigned char from_port, to_port, type, reserved[5];
} CUgraphEdgeData;

/* Those members that are used. */
typedef union CUlaunchAttributeValue_union {
	char pad[64];
	int cooperative;
	struct {
		unsigned int x, y, z;
	} clusterDim;
	int programmaticStreamSerializationAllowed;
	struct {
		CUevent event;
		int flags;
		int triggerAtBlockStart;
	} programmaticEvent;
	int priority;
	CUlaunchMemSyncDomain memSyncDomain;
} CUlaunchAttributeValue;

typedef struct CUlaunchAttribute_st {
	CUlaunchAttributeID id;
	char pad[8 - sizeof(CUlaunchAttributeID)];
	CUlaunchAttributeValue value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig_st {
	unsigned int gridDimX, gridDimY, gridDimZ;
	unsigned int blockDimX, blockDimY, blockDimZ;
	unsigned int sharedMemBytes;
	CUstream hStream;
	CUlaunchAttribute *attrs;
	unsigned int numAttrs;
} CUlaunchConfig;

typedef struct CUmemLocation_st {
	CUmemLocationType type;
	int id;
} CUmemLocation;

typedef struct CUmemAllocationProp_st {
	CUmemAllocationType type;
	CUmemAllocationHandleType requestedHandleTypes;
	CUmemLocation location;
	void *win32HandleMetaData;
	struct {
		unsigned char compressionType;
		unsigned char gpuDirectRDMACapable;
		unsigned short usage;
		unsigned char reserved[4];
	} allocFlags;
} CUmemAllocationProp;

typedef struct CUmemAccessDesc_st {
	CUmemLocation location;
	CUmemAccess_flags flags;
} CUmemAccessDesc;

enum oh__cuda_constant {
#define OH_CUDA_CONSTANT(name, value) name = (value),
#include "vendor/cuda.def"
};

#define OH_CUDA_SIZE(type, bytes)                                              \
	_Static_assert(sizeof(type) == (bytes), #type);
#define OH_CUDA_MEMBER(type, member, offset)                                   \
	_Static_assert(offsetof(type, member) == (offset), #type);
#include "vendor/cuda.def"

/* NULL where the driver lacks an optional one. */
struct oh__cuda {
#define OH_CUDA(need, result, name, parameters) result(*name) parameters;
#include "vendor/cuda.def"
};

/*
 * The table of an initialised driver (cuInit), the same for the whole process
 * and for good. OH_ERR_UNSUPPORTED without a driver or without a GPU that may
 * be used (nothing is logged above info); OH_ERR_SYSTEM if the driver cannot be
 * loaded or does not start. A failure is not kept. A process that forks after
 * this has no driver in the child. Thread: any.
 */
enum oh_status oh__cuda_load(const struct oh__cuda **cuda);

/*
 * Has the process loaded a driver and started it (cuInit)? Does neither. If so,
 * *context is what is current in this thread, NULL for none.
 */
bool oh__cuda_started(CUcontext *context);

/*
 * A call of the table, such as OH__CUDA(cuda->cuMemFree_v2(pointer)), as a
 * status: OH_OK, OH_ERR_NO_MEMORY for want of memory, else OH_ERR_SYSTEM. A
 * failure is logged, and recorded with the function's name and the driver's
 * code. Where a failure is an answer (CUDA_ERROR_NOT_READY, what is only
 * tried), call the table itself; oh__cuda_fail makes an error of it later.
 */
#define OH__CUDA(call) oh__cuda_check((call), #call, __FILE__, __LINE__)

/* text: the call as written, or the function's name. */
__attribute__((cold)) enum oh_status
oh__cuda_fail(CUresult code, const char *text, const char *file, int line);

static inline enum oh_status oh__cuda_check(CUresult code, const char *text,
					    const char *file, int line)
{
	if (__builtin_expect(code == CUDA_SUCCESS, 1))
		return OH_OK;
	return oh__cuda_fail(code, text, file, line);
}

#endif
