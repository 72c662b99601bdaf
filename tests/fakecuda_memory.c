/* SPDX-License-Identifier: MIT */
/*
 * The memory of the CUDA driver's fake. A device's memory is a memfd whose
 * name bears the device's number, so that other processes can map it and know
 * whose it is. An address of a device is the same address of the host. A
 * mapping that a device may not reach cannot be touched by the host either.
 */
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>

#include "fakecuda_private.h"

/* Without gaps: a checker minds those that are sent. */
struct ipc {
	char magic[8];
	size_t bytes;
	int pid, fd, device, unused;
};

#define MAGIC "fakeipc"
/* The first range of these kinds with a byte of [start, start + bytes). */
struct range *fake_range_find(unsigned kinds, const char *start, size_t bytes)
{
	for (struct object *at = fake_objects(); at; at = at->next) {
		struct range *range = (struct range *)at;

		if (kinds >> at->kind & 1 &&
		    start < range->base + range->bytes &&
		    range->base < start + bytes)
			return range;
	}
	return NULL;
}

/* A range by its beginning. */
struct range *fake_range_at(enum kind kind, const void *base)
{
	struct range *range = fake_range_find(1u << kind, base, 1);

	return range && range->base == base ? range : NULL;
}

struct range *fake_range_new(enum kind kind, void *base, size_t bytes)
{
	struct range *range = fake_object_new(kind, sizeof(*range));

	if (range) {
		range->base = base;
		range->bytes = bytes;
	}
	return range;
}

/* Blocks. */

static void block_put(struct block *block)
{
	if (--block->users)
		return;
	if (!block->imported)
		fake_devices[block->device].used -= block->bytes;
	close(block->fd);
	fake_object_end(block);
}

static struct block *block_new(int device, int fd, size_t bytes)
{
	struct block *block = fake_object_new(HANDLE, sizeof(*block));

	if (!block) {
		close(fd);
		return NULL;
	}
	block->device = device;
	block->fd = fd;
	block->bytes = bytes;
	block->users = 1;
	return block;
}

static struct block *block_make(int device, size_t bytes)
{
	struct fake_device *owner = &fake_devices[device];
	struct block *block;
	char name[32];
	int fd;

	if (bytes > owner->memory - owner->used)
		return NULL;
	snprintf(name, sizeof(name), "fakecuda-%d", device);
	fd = memfd_create(name, MFD_CLOEXEC);
	if (fd < 0)
		return NULL;
	if (ftruncate(fd, (off_t)bytes)) {
		close(fd);
		return NULL;
	}
	block = block_new(device, fd, bytes);
	if (block)
		owner->used += bytes;
	return block;
}

/* Another process's block; takes fd over. NULL if it is none. */
static struct block *block_import(int fd)
{
	char path[64], name[64] = "";
	struct block *block;
	off_t bytes = lseek(fd, 0, SEEK_END);
	int device = -1;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (readlink(path, name, sizeof(name) - 1) < 0 || bytes <= 0 ||
	    sscanf(name, "/memfd:fakecuda-%d", &device) != 1 || device < 0 ||
	    device >= DEVICES) {
		close(fd);
		return NULL;
	}
	block = block_new(device, fd, (size_t)bytes);
	if (block)
		block->imported = true;
	return block;
}

/* Whether one device reaches another one's memory. */
static bool reaches(int device, int owner)
{
	return device == owner || fake_devices[device].peer[owner];
}

/* Atomics wherever there is a way; all ways are alike. */
CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute,
				 CUdevice device, CUdevice peer)
{
	ENTER(INIT);
	int one = fake_device_of(device), other = fake_device_of(peer);

	if (one < 0 || other < 0 || one == other)
		return CUDA_ERROR_INVALID_DEVICE;
	*value = attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED &&
		 reaches(one, other);
	return CUDA_SUCCESS;
}

/* Kernels reach all that is mapped here; so it is only a question. */
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	ENTER(CURRENT);
	if (!fake_object_is(peer, CONTEXT) || peer == fake_current() || flags)
		return CUDA_ERROR_INVALID_CONTEXT;
	return reaches(fake_current()->device, peer->device)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

/* Maps a whole block anywhere; takes the block over. */
static CUresult map_whole(enum kind kind, struct block *block,
			  CUdeviceptr *pointer)
{
	struct range *range = NULL;
	void *base = mmap(NULL, block->bytes, PROT_READ | PROT_WRITE,
			  MAP_SHARED, block->fd, 0);

	if (base != MAP_FAILED)
		range = fake_range_new(kind, base, block->bytes);
	if (!range) {
		block_put(block);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	range->block = block;
	block->object.kind = BLOCK;
	*pointer = (uintptr_t)base;
	return CUDA_SUCCESS;
}

static void unmap_whole(struct range *range)
{
	munmap(range->base, range->bytes);
	block_put(range->block);
	fake_object_end(range);
}

/* cuMemAlloc and what belongs to it. */

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	ENTER(CURRENT);
	const struct fake_device *device =
		&fake_devices[fake_current()->device];

	*total = device->memory;
	*free_bytes = device->memory - device->used;
	return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
	ENTER(UNSAFE);
	struct block *block;

	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	block = block_make(fake_current()->device, bytes);
	return block ? map_whole(MEMORY, block, pointer)
		     : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFree_v2(CUdeviceptr pointer)
{
	ENTER(UNSAFE);
	struct range *range = fake_range_at(MEMORY, fake_address(pointer));

	if (!range)
		return CUDA_ERROR_INVALID_VALUE;
	unmap_whole(range);
	return CUDA_SUCCESS;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer)
{
	ENTER(CURRENT);
	struct range *range = fake_range_at(MEMORY, fake_address(pointer));
	struct ipc ipc = {.magic = MAGIC, .pid = (int)getpid()};

	if (!range)
		return CUDA_ERROR_INVALID_VALUE;
	ipc.fd = range->block->fd;
	ipc.device = range->block->device;
	ipc.bytes = range->bytes;
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &ipc, sizeof(ipc));
	return CUDA_SUCCESS;
}

/* The process that made it cannot open it, nor a device that is no peer. */
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle,
			       unsigned int flags)
{
	ENTER(CURRENT);
	struct block *block;
	struct ipc ipc;
	char path[64];
	int fd;

	memcpy(&ipc, &handle, sizeof(ipc));
	if (memcmp(ipc.magic, MAGIC, sizeof(MAGIC)) ||
	    flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return CUDA_ERROR_INVALID_VALUE;
	if (ipc.pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", ipc.pid, ipc.fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	block = fd < 0 ? NULL : block_import(fd);
	if (!block)
		return CUDA_ERROR_INVALID_VALUE;
	if (!reaches(fake_current()->device, block->device)) {
		block_put(block);
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	}
	return map_whole(IPC, block, pointer);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer)
{
	ENTER(CURRENT);
	struct range *range = fake_range_at(IPC, fake_address(pointer));

	if (!range)
		return CUDA_ERROR_INVALID_VALUE;
	unmap_whole(range);
	return CUDA_SUCCESS;
}

/* Handles, addresses and mappings. */

static CUresult check_properties(const CUmemAllocationProp *properties)
{
	if (properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (properties->requestedHandleTypes &
	    ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	return fake_device_of(properties->location.id) < 0
		       ? CUDA_ERROR_INVALID_DEVICE
		       : CUDA_SUCCESS;
}

static bool is_granular(unsigned long long value)
{
	return value % fake_granularity == 0;
}

CUresult cuMemGetAllocationGranularity(size_t *bytes,
				       const CUmemAllocationProp *properties,
				       CUmemAllocationGranularity_flags option)
{
	ENTER(INIT);
	CUresult wrong = check_properties(properties);

	if (option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
		return CUDA_ERROR_INVALID_VALUE;
	if (!wrong)
		*bytes = fake_granularity;
	return wrong;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
		     const CUmemAllocationProp *properties,
		     unsigned long long flags)
{
	ENTER(INIT);
	CUresult wrong = check_properties(properties);
	struct block *block;

	if (wrong)
		return wrong;
	if (flags || !bytes || !is_granular(bytes))
		return CUDA_ERROR_INVALID_VALUE;
	block = block_make(fake_device_of(properties->location.id), bytes);
	if (!block)
		return CUDA_ERROR_OUT_OF_MEMORY;
	block->types = properties->requestedHandleTypes;
	*handle = (uintptr_t)block;
	return CUDA_SUCCESS;
}

static struct block *block_of(CUmemGenericAllocationHandle handle)
{
	struct block *block = (struct block *)(uintptr_t)handle;

	return fake_object_is(block, HANDLE) ? block : NULL;
}

/* Mappings keep the memory, nobody has its handle any more. */
CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	ENTER(INIT);
	struct block *block = block_of(handle);

	if (!block)
		return CUDA_ERROR_INVALID_VALUE;
	block->object.kind = BLOCK;
	block_put(block);
	return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void *shareable,
				      CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType type,
				      unsigned long long flags)
{
	ENTER(INIT);
	struct block *block = block_of(handle);
	int fd;

	if (!block || flags ||
	    type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !(block->types & type))
		return CUDA_ERROR_INVALID_VALUE;
	fd = fcntl(block->fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	memcpy(shareable, &fd, sizeof(fd));
	return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
					void *shareable,
					CUmemAllocationHandleType type)
{
	ENTER(INIT);
	struct block *block;
	int fd;

	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	/* the caller keeps its own */
	fd = fcntl((int)(intptr_t)shareable, F_DUPFD_CLOEXEC, 3);
	block = fd < 0 ? NULL : block_import(fd);
	if (!block)
		return CUDA_ERROR_INVALID_VALUE;
	block->types = type;
	*handle = (uintptr_t)block;
	return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes,
			     size_t alignment, CUdeviceptr wanted,
			     unsigned long long flags)
{
	ENTER(INIT);
	size_t unit =
		alignment > fake_granularity ? alignment : fake_granularity;
	char *all, *base;

	if (flags || !bytes || !is_granular(bytes) ||
	    (alignment & (alignment - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	all = mmap(NULL, bytes + unit, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (all == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	base = all + (unit - (uintptr_t)all % unit) % unit;
	if (base > all)
		munmap(all, (size_t)(base - all));
	munmap(base + bytes, unit - (size_t)(base - all));
	if (!fake_range_new(RESERVATION, base, bytes)) {
		munmap(base, bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*pointer = (uintptr_t)base;
	return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes)
{
	ENTER(INIT);
	struct range *range = fake_range_at(RESERVATION, fake_address(pointer));

	if (!range || range->bytes != bytes ||
	    fake_range_find(1u << MAPPING, range->base, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	munmap(range->base, bytes);
	fake_object_end(range);
	return CUDA_SUCCESS;
}

/* Whole handles only, as the driver has it. */
CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset,
		  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	ENTER(INIT);
	struct block *block = block_of(handle);
	char *base = fake_address(pointer);
	struct range *space = fake_range_find(1u << RESERVATION, base, 1),
		     *range;

	if (!block || flags || offset || bytes != block->bytes || !space ||
	    !is_granular(pointer) ||
	    bytes > (size_t)(space->base + space->bytes - base) ||
	    fake_range_find(1u << MAPPING, base, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (mmap(base, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, block->fd,
		 0) == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range = fake_range_new(MAPPING, base, bytes);
	if (!range)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range->block = block;
	block->users++;
	return CUDA_SUCCESS;
}

/* Calls with every mapping in a range; false unless they fill it. */
static bool each_mapping(char *base, size_t bytes,
			 void (*act)(struct range *range, void *context),
			 void *context)
{
	while (bytes) {
		struct range *range = fake_range_at(MAPPING, base);

		if (!range || range->bytes > bytes)
			return false;
		base += range->bytes;
		bytes -= range->bytes;
		if (act)
			act(range, context);
	}
	return true;
}

static void unmap(struct range *range, void *context)
{
	mmap(range->base, range->bytes, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	block_put(range->block);
	fake_object_end(range);
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes)
{
	ENTER(INIT);
	if (!bytes || !each_mapping(fake_address(pointer), bytes, NULL, NULL))
		return CUDA_ERROR_INVALID_VALUE;
	each_mapping(fake_address(pointer), bytes, unmap, NULL);
	return CUDA_SUCCESS;
}

struct wish {
	const CUmemAccessDesc *access;
	size_t count;
	bool refused;
};

static void check_reach(struct range *range, void *context)
{
	struct wish *wish = context;

	for (size_t i = 0; i < wish->count; i++)
		if (wish->access[i].flags &&
		    !reaches(fake_device_of(wish->access[i].location.id),
			     range->block->device))
			wish->refused = true;
}

static void set_reach(struct range *range, void *context)
{
	const struct wish *wish = context;

	for (size_t i = 0; i < wish->count; i++) {
		int device = fake_device_of(wish->access[i].location.id);

		range->reached &= ~(1u << device);
		if (wish->access[i].flags)
			range->reached |= 1u << device;
	}
	mprotect(range->base, range->bytes,
		 range->reached ? PROT_READ | PROT_WRITE : PROT_NONE);
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes,
			const CUmemAccessDesc *access, size_t count)
{
	ENTER(INIT);
	struct wish wish = {access, count, false};

	for (size_t i = 0; i < count; i++) {
		if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
			return CUDA_ERROR_INVALID_VALUE;
		if (fake_device_of(access[i].location.id) < 0)
			return CUDA_ERROR_INVALID_DEVICE;
	}
	if (!bytes || !count ||
	    !each_mapping(fake_address(pointer), bytes, check_reach, &wish))
		return CUDA_ERROR_INVALID_VALUE;
	if (wish.refused)
		return CUDA_ERROR_INVALID_DEVICE;
	each_mapping(fake_address(pointer), bytes, set_reach, &wish);
	return CUDA_SUCCESS;
}
