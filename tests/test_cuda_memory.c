/* SPDX-License-Identifier: MIT */
/*
 * Memory of the CUDA driver's fake, as the library uses it: who may reach what,
 * what two processes share, and what a pointer is said to be.
 */
#include <spawn.h>
#include <sys/wait.h>

#include "fakecuda.h"
#include "tap.h"

#define BYTES ((size_t)2 << 20) /* the fake's granularity */
#define SHARED_FD 50
#define FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

extern char **environ;

/* 0 and 1 reach each other, 2 reaches 0 and 0 not it; 3 has 4 MB. */
static const char script[] = "devices 4\n"
			     "peer 0 1 1\n"
			     "peer 1 0 1\n"
			     "peer 2 0 1\n"
			     "device 3 memory 4194304\n";

static const struct oh__cuda *cuda;

static unsigned char *host(CUdeviceptr pointer)
{
	return (unsigned char *)(uintptr_t)pointer;
}

/* Makes a device's context the current one. */
static bool enter(CUdevice device)
{
	CUcontext context;

	return !cuda->cuDevicePrimaryCtxRetain(&context, device) &&
	       !cuda->cuCtxSetCurrent(context);
}

static void leave(CUdevice device)
{
	cuda->cuCtxSetCurrent(NULL);
	cuda->cuDevicePrimaryCtxRelease_v2(device);
}

static CUresult create(CUmemGenericAllocationHandle *handle, CUdevice device,
		       size_t bytes)
{
	const CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = FD,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, device},
	};

	return cuda->cuMemCreate(handle, bytes, &properties, 0);
}

static CUresult allow(CUdeviceptr pointer, CUdevice device)
{
	const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device},
					CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	return cuda->cuMemSetAccess(pointer, BYTES, &access, 1);
}

/* Addresses of a handle, which is released: the mapping keeps the memory. */
static CUdeviceptr map(CUmemGenericAllocationHandle handle)
{
	CUdeviceptr pointer = 0;

	if (cuda->cuMemAddressReserve(&pointer, BYTES, 0, 0, 0) ||
	    cuda->cuMemMap(pointer, BYTES, 0, handle, 0) ||
	    cuda->cuMemRelease(handle))
		return 0;
	return pointer;
}

static void unmap(CUdeviceptr pointer)
{
	cuda->cuMemUnmap(pointer, BYTES);
	cuda->cuMemAddressFree(pointer, BYTES);
}

static void try_memory(void)
{
	CUdeviceptr pointer = 0, other = 0;
	size_t before, after, total;
	unsigned words[4] = {1, 2, 3, 4};

	enter(0);
	cuda->cuMemGetInfo_v2(&before, &total);
	tap_ok(!cuda->cuMemAlloc_v2(&pointer, 100) && pointer &&
		       fakecuda_live("memory") == 1 &&
		       !cuda->cuMemGetInfo_v2(&after, &total) &&
		       before - after == 100 && total == (size_t)1 << 34,
	       "memory is counted");
	tap_ok(!cuda->cuMemcpyHtoD_v2(pointer, words, 16) &&
		       !cuda->cuMemcpyDtoDAsync_v2(pointer + 16, pointer, 16,
						   NULL) &&
		       !cuda->cuMemsetD32Async(pointer + 16, 9, 2, NULL) &&
		       !cuda->cuMemsetD8Async(pointer, 0, 4, NULL) &&
		       !cuda->cuMemcpyDtoH_v2(words, pointer + 16, 16) &&
		       words[0] == 9 && words[1] == 9 && words[2] == 3 &&
		       words[3] == 4 && host(pointer)[0] == 0 &&
		       host(pointer)[4] == 2,
	       "copies and fills are done");
	tap_ok(cuda->cuMemsetD32Async(pointer + 2, 9, 1, NULL) ==
			       CUDA_ERROR_INVALID_VALUE &&
		       cuda->cuMemsetD8Async(pointer, 9, 101, NULL) ==
			       CUDA_ERROR_INVALID_VALUE &&
		       cuda->cuMemcpyHtoD_v2(pointer + 99, words, 2) ==
			       CUDA_ERROR_INVALID_VALUE,
	       "nothing is written beyond it, nor askew");
	tap_ok(cuda->cuMemFree_v2(pointer + 1) == CUDA_ERROR_INVALID_VALUE &&
		       !cuda->cuMemFree_v2(pointer) &&
		       cuda->cuMemFree_v2(pointer) == CUDA_ERROR_INVALID_VALUE,
	       "it is freed once, by its beginning");
	leave(0);
	enter(3);
	tap_ok(!cuda->cuMemAlloc_v2(&pointer, 3 << 20) &&
		       cuda->cuMemAlloc_v2(&other, (1 << 20) + 1) ==
			       CUDA_ERROR_OUT_OF_MEMORY &&
		       !other && !cuda->cuMemFree_v2(pointer),
	       "a device has no more than it has");
	tap_ok(OH__CUDA(cuda->cuMemAlloc_v2(&other, 5 << 20)) ==
		       OH_ERR_NO_MEMORY,
	       "which is its own status");
	leave(3);
	tap_ok(cuda->cuMemAlloc_v2(&other, 1) == CUDA_ERROR_INVALID_CONTEXT &&
		       !fakecuda_live(NULL),
	       "without a context there is no memory");
}

static void try_handles(void)
{
	CUmemGenericAllocationHandle handle = 0, plain = 0;
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
	};
	CUdeviceptr pointer = 0;
	size_t unit = 0;
	int fd = -1;

	tap_ok(!cuda->cuMemGetAllocationGranularity(
		       &unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) &&
		       unit == BYTES &&
		       create(&handle, 0, BYTES - 4096) ==
			       CUDA_ERROR_INVALID_VALUE &&
		       create(&handle, 4, BYTES) == CUDA_ERROR_INVALID_DEVICE,
	       "handles are granular, and a device's");
	tap_ok(!cuda->cuMemCreate(&plain, BYTES, &properties, 0) &&
		       cuda->cuMemExportToShareableHandle(&fd, plain, FD, 0) ==
			       CUDA_ERROR_INVALID_VALUE &&
		       !cuda->cuMemRelease(plain),
	       "one that was not made for it is not exported");
	create(&handle, 0, BYTES);
	cuda->cuMemAddressReserve(&pointer, BYTES, 1 << 24, 0, 0);
	tap_ok(pointer && pointer % (1 << 24) == 0, "addresses are aligned");
	tap_ok(cuda->cuMemMap(pointer, BYTES / 2, 0, handle, 0) ==
			       CUDA_ERROR_INVALID_VALUE &&
		       cuda->cuMemMap(pointer + BYTES, BYTES, 0, handle, 0) ==
			       CUDA_ERROR_INVALID_VALUE &&
		       !cuda->cuMemMap(pointer, BYTES, 0, handle, 0) &&
		       cuda->cuMemMap(pointer, BYTES, 0, handle, 0) ==
			       CUDA_ERROR_INVALID_VALUE,
	       "a handle is mapped as a whole, where room was reserved");
	tap_ok(cuda->cuMemAddressFree(pointer, BYTES) ==
			       CUDA_ERROR_INVALID_VALUE &&
		       !cuda->cuMemRelease(handle) &&
		       cuda->cuMemRelease(handle) == CUDA_ERROR_INVALID_VALUE &&
		       !fakecuda_live("handle") &&
		       fakecuda_live("mapping") == 1,
	       "addresses in use stay, a handle may go before its mapping");
	enter(0);
	tap_ok(cuda->cuMemsetD8Async(pointer, 1, 1, NULL) ==
			       CUDA_ERROR_INVALID_VALUE &&
		       !allow(pointer, 0) &&
		       !cuda->cuMemsetD8Async(pointer, 1, BYTES, NULL) &&
		       host(pointer)[BYTES - 1] == 1,
	       "a mapping is touched after access was given");
	leave(0);
	enter(1);
	tap_ok(cuda->cuMemsetD8Async(pointer, 2, 1, NULL) ==
			       CUDA_ERROR_INVALID_VALUE &&
		       !allow(pointer, 1) &&
		       !cuda->cuMemsetD8Async(pointer, 2, 1, NULL) &&
		       host(pointer)[0] == 2,
	       "by each device after its own");
	leave(1);
	tap_ok(allow(pointer, 2) == CUDA_SUCCESS &&
		       allow(pointer, 3) == CUDA_ERROR_INVALID_DEVICE,
	       "a device that is no peer gets none");
	unmap(pointer);
	tap_ok(!fakecuda_live(NULL), "nothing is left");
}

static void try_host(void)
{
	char *memory = aligned_alloc(4096, 8192);
	CUdeviceptr pointer = 0;
	void *pinned = NULL;

	enter(0);
	tap_ok(cuda->cuMemHostGetDevicePointer_v2(&pointer, memory, 0) ==
			       CUDA_ERROR_INVALID_VALUE &&
		       !cuda->cuMemHostRegister_v2(
			       memory, 8192, CU_MEMHOSTREGISTER_PORTABLE) &&
		       cuda->cuMemHostRegister_v2(memory + 4096, 4096, 0) ==
			       CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED &&
		       !cuda->cuMemHostGetDevicePointer_v2(&pointer, memory + 5,
							   0) &&
		       host(pointer) == (unsigned char *)memory + 5,
	       "memory of the host is registered once, then devices see it");
	tap_ok(!cuda->cuMemsetD8Async(pointer, 7, 3, NULL) && memory[7] == 7,
	       "and write it");
	tap_ok(!cuda->cuMemHostUnregister(memory) &&
		       cuda->cuMemHostUnregister(memory) ==
			       CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED &&
		       cuda->cuMemsetD8Async(pointer, 7, 3, NULL) ==
			       CUDA_ERROR_INVALID_VALUE,
	       "until it is not");
	tap_ok(!cuda->cuMemHostAlloc(&pinned, 64, CU_MEMHOSTALLOC_DEVICEMAP) &&
		       !cuda->cuMemHostGetDevicePointer_v2(&pointer, pinned,
							   0) &&
		       fakecuda_live("host") == 1 &&
		       !cuda->cuMemFreeHost(pinned) &&
		       cuda->cuMemFreeHost(pinned) == CUDA_ERROR_INVALID_VALUE,
	       "pinned memory needs no registering");
	leave(0);
	free(memory);
	tap_ok(!fakecuda_live(NULL), "nothing is left");
}

struct described {
	CUmemorytype type;
	int ordinal;
	CUcontext context;
	CUdeviceptr start;
	size_t bytes;
};

static struct described describe(CUdeviceptr pointer)
{
	CUpointer_attribute attributes[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_CONTEXT,
		CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE,
	};
	struct described it;
	void *values[] = {&it.type, &it.ordinal, &it.context, &it.start,
			  &it.bytes};

	memset(&it, 0xa5, sizeof(it));
	cuda->cuPointerGetAttributes(5, attributes, values, pointer);
	return it;
}

static void try_pointers(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr memory = 0, mapped;
	struct described it;
	void *pinned = NULL;
	char nothing;

	enter(1);
	cuda->cuMemAlloc_v2(&memory, 256);
	it = describe(memory + 255);
	tap_ok(it.type == CU_MEMORYTYPE_DEVICE && it.ordinal == 1 &&
		       it.context && it.start == memory && it.bytes == 256,
	       "a device's memory is known by any address in it");
	tap_ok(!describe(memory - 1).type && !describe(memory + 4096).type,
	       "and by none beside it");
	create(&handle, 0, BYTES);
	mapped = map(handle);
	it = describe(mapped + 1);
	tap_ok(it.type == CU_MEMORYTYPE_DEVICE && it.ordinal == 0 &&
		       !it.context,
	       "a mapping is the owner's and of no context");
	cuda->cuMemHostAlloc(&pinned, 256, 0);
	it = describe((uintptr_t)pinned);
	tap_ok(it.type == CU_MEMORYTYPE_HOST && it.ordinal == 1 && it.context,
	       "pinned memory is the host's");
	it = describe((uintptr_t)&nothing);
	tap_ok(!it.type && it.ordinal == CU_DEVICE_INVALID && !it.context &&
		       !it.bytes,
	       "any other pointer is nobody's, and no error");
	unmap(mapped);
	cuda->cuMemFree_v2(memory);
	cuda->cuMemFreeHost(pinned);
	leave(1);
	tap_ok(!fakecuda_live(NULL), "nothing is left");
}

/* Two processes. The other one is a fresh one: a process in which a driver is
 * loaded is never forked. It reads 1, writes 2, and says what failed. */

static int use(CUdeviceptr pointer)
{
	if (!pointer || host(pointer)[5] != 1)
		return 3;
	return cuda->cuMemsetD8Async(pointer + 5, 2, 1, NULL) ? 4 : 0;
}

static int child_import(CUdevice device)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr pointer;
	CUresult code;

	if (cuda->cuMemImportFromShareableHandle(
		    &handle, (void *)(intptr_t)SHARED_FD, FD))
		return 2;
	pointer = map(handle);
	code = allow(pointer, device);
	if (code)
		return (int)code;
	code = (CUresult)use(pointer);
	unmap(pointer);
	return (int)code;
}

static int child_ipc(const char *hex)
{
	CUdeviceptr pointer = 0;
	CUipcMemHandle handle;
	CUresult code;

	for (size_t i = 0; i < sizeof(handle.reserved); i++) {
		unsigned byte = 0;

		sscanf(hex + 2 * i, "%2x", &byte);
		handle.reserved[i] = (char)byte;
	}
	if (cuda->cuIpcOpenMemHandle_v2(&pointer, handle, 0) !=
	    CUDA_ERROR_INVALID_VALUE)
		return 2;
	code = cuda->cuIpcOpenMemHandle_v2(&pointer, handle,
					   CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	if (code)
		return (int)code;
	code = (CUresult)use(pointer);
	return code ? (int)code : (int)cuda->cuIpcCloseMemHandle(pointer);
}

/* How, the device, a handle. */
static int child(char **argv)
{
	CUdevice device = atoi(argv[2]);
	int status;

	if (!enter(device))
		return 1;
	status = strcmp(argv[1], "import") ? child_ipc(argv[3])
					   : child_import(device);
	leave(device);
	return status || !fakecuda_live(NULL) ? status : 5;
}

static int run_child(const char *how, int device, int fd, const char *handle)
{
	char program[] = "test_cuda_memory", self[PATH_MAX], words[3][160];
	char *argv[] = {program, words[0], words[1], words[2], NULL};
	posix_spawn_file_actions_t actions;
	int status = -1;
	pid_t pid;

	fakelibrary_self(self);
	snprintf(words[0], sizeof(words[0]), "%s", how);
	snprintf(words[1], sizeof(words[1]), "%d", device);
	snprintf(words[2], sizeof(words[2]), "%s", handle);
	fflush(stdout);
	posix_spawn_file_actions_init(&actions);
	if (fd >= 0)
		posix_spawn_file_actions_adddup2(&actions, fd, SHARED_FD);
	if (!posix_spawn(&pid, self, &actions, NULL, argv, environ))
		waitpid(pid, &status, 0);
	posix_spawn_file_actions_destroy(&actions);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void try_shared_handles(void)
{
	CUmemGenericAllocationHandle handle, again;
	CUdeviceptr pointer;
	int fd = -1, status;

	create(&handle, 0, BYTES);
	cuda->cuMemExportToShareableHandle(&fd, handle, FD, 0);
	pointer = map(handle);
	allow(pointer, 0);
	host(pointer)[5] = 1;
	status = run_child("import", 1, fd, "");
	tap_ok(!status && host(pointer)[5] == 2,
	       "a peer in another process reads and writes it (%d)", status);
	status = run_child("import", 3, fd, "");
	tap_ok(status == CUDA_ERROR_INVALID_DEVICE && host(pointer)[5] == 2,
	       "a device that is no peer is denied it (%d)", status);
	host(pointer)[5] = 1;
	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	status = run_child("import", 0, fd, "");
	unsetenv("CUDA_VISIBLE_DEVICES");
	tap_ok(!status && host(pointer)[5] == 2,
	       "one that does not see the owner has the same right (%d)",
	       status);
	host(pointer)[5] = 1;
	unmap(pointer);
	tap_ok(!fakecuda_live(NULL) && run_child("import", 1, fd, "") == 0,
	       "the memory lives as long as a descriptor");
	tap_ok(!cuda->cuMemImportFromShareableHandle(
		       &again, (void *)(intptr_t)fd, FD) &&
		       (pointer = map(again)) != 0 && !allow(pointer, 2) &&
		       host(pointer)[5] == 2,
	       "and is imported here with what the other one wrote");
	unmap(pointer);
	close(fd);
	tap_ok(cuda->cuMemImportFromShareableHandle(&again, (void *)1, FD) ==
			       CUDA_ERROR_INVALID_VALUE &&
		       !fakecuda_live(NULL),
	       "any other descriptor is refused");
}

static void try_ipc(void)
{
	CUdeviceptr pointer = 0;
	CUipcMemHandle handle;
	char hex[2 * sizeof(handle) + 1];
	int status;

	enter(0);
	cuda->cuMemAlloc_v2(&pointer, 4096);
	tap_ok(cuda->cuIpcGetMemHandle(&handle, pointer + 1) ==
			       CUDA_ERROR_INVALID_VALUE &&
		       !cuda->cuIpcGetMemHandle(&handle, pointer),
	       "a handle is of whole memory");
	for (size_t i = 0; i < sizeof(handle.reserved); i++)
		snprintf(hex + 2 * i, 3, "%02x",
			 (unsigned char)handle.reserved[i]);
	host(pointer)[5] = 1;
	status = run_child("ipc", 1, -1, hex);
	tap_ok(!status && host(pointer)[5] == 2,
	       "a peer in another process opens it (%d)", status);
	status = run_child("ipc", 3, -1, hex);
	tap_ok(status == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
	       "a device that is no peer does not (%d)", status);
	cuda->cuMemFree_v2(pointer);
	leave(0);
	tap_ok(!fakecuda_live(NULL), "nothing is left");
}

int main(int argc, char **argv)
{
	fakecuda_start(argv);
	oh_set_log(OH_LOG_OFF, NULL, NULL);
	if (argc == 1)
		fakecuda_play(script, "");
	if (oh__cuda_load(&cuda)) {
		printf("Bail out! the fake cannot be loaded\n");
		return 1;
	}
	if (argc > 3)
		return child(argv);
	try_memory();
	try_handles();
	try_host();
	try_pointers();
	try_shared_handles();
	try_ipc();
	fakelibrary_end();
	return tap_done();
}
