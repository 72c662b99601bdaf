/* SPDX-License-Identifier: MIT */
#include "gpu/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "comm/descriptor.h"

/* linux/mempolicy.h; the page goes elsewhere only if the node is full */
#define POLICY_PREFERRED 1

/* What is smaller, or ends in between, shares a page with other memory of the
 * process; a handle of CUDA IPC opens whole pages. */
#define IPC_PAGE ((size_t)2 << 20)

static CUmemAllocationProp properties_of(const struct oh__gpu_device *device,
					 bool exports)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes =
			exports ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
				: CU_MEM_HANDLE_TYPE_NONE,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, device->device},
	};
}

/* An address range for a handle, open to this device. On failure nothing of
 * it is left; the handle is the caller's. */
static CUresult map(const struct oh__gpu_device *device,
		    CUmemGenericAllocationHandle handle, size_t bytes,
		    CUdeviceptr *address)
{
	const struct oh__cuda *cuda = device->cuda;
	CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device->device},
				  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr at;
	CUresult code = cuda->cuMemAddressReserve(&at, bytes, 0, 0, 0);

	if (code)
		return code;
	code = cuda->cuMemMap(at, bytes, 0, handle, 0);
	if (!code) {
		code = cuda->cuMemSetAccess(at, bytes, &access, 1);
		if (!code) {
			*address = at;
			return CUDA_SUCCESS;
		}
		cuda->cuMemUnmap(at, bytes);
	}
	cuda->cuMemAddressFree(at, bytes);
	return code;
}

static CUresult try_export(const struct oh__gpu_device *device)
{
	const struct oh__cuda *cuda = device->cuda;
	CUmemAllocationProp properties = properties_of(device, true);
	CUmemGenericAllocationHandle handle;
	int fd = -1;
	size_t page;
	CUresult code = cuda->cuMemGetAllocationGranularity(
		&page, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);

	if (!code)
		code = cuda->cuMemCreate(&handle, page, &properties, 0);
	if (code)
		return code;
	code = cuda->cuMemExportToShareableHandle(
		&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	cuda->cuMemRelease(handle);
	oh__fd_close(&fd);
	return code;
}

bool oh__gpu_memory_exports(const struct oh__gpu_device *device)
{
	CUresult code = try_export(device);

	/* without memory the mailbox fails likewise, and says so */
	if (!code || code == CUDA_ERROR_OUT_OF_MEMORY)
		return true;
	oh__log(OH_LOG_INFO,
		"no memory of the GPU as a descriptor (CUDA error %d): it is "
		"shared by CUDA IPC",
		(int)code);
	return false;
}

static enum oh_status make_vram(struct oh__gpu_memory *m,
				const struct oh__gpu_device *device,
				bool exports, int *fd)
{
	const struct oh__cuda *cuda = device->cuda;
	CUmemAllocationProp properties = properties_of(device, exports);
	enum oh_status status;
	size_t page;
	CUresult code;

	status = OH__CUDA(cuda->cuMemGetAllocationGranularity(
		&page, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	if (status)
		return status;
	m->bytes = (m->bytes + page - 1) / page * page;
	status = OH__CUDA(cuda->cuMemCreate(&m->handle[m->rank], m->bytes,
					    &properties, 0));
	if (status)
		return status;
	code = map(device, m->handle[m->rank], m->bytes, &m->vram[m->rank]);
	if (code)
		return oh__cuda_fail(code, "cuMemMap", __FILE__, __LINE__);
	if (exports)
		status = OH__CUDA(cuda->cuMemExportToShareableHandle(
			fd, m->handle[m->rank],
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	if (status || !exports)
		return status;
	*fd = oh__fd_raise(*fd);
	if (*fd < 0)
		return OH__FAIL_CALL(OH_ERR_SYSTEM, "fcntl(F_DUPFD_CLOEXEC)",
				     errno, "no descriptor for a mailbox");
	return OH_OK;
}

/* Memory that CUDA IPC can open. */
static enum oh_status make_plain(struct oh__gpu_memory *m,
				 const struct oh__gpu_device *device)
{
	m->bytes = (m->bytes + IPC_PAGE - 1) / IPC_PAGE * IPC_PAGE;
	return OH__CUDA(
		device->cuda->cuMemAlloc_v2(&m->vram[m->rank], m->bytes));
}

enum oh_status oh__gpu_memory_create(struct oh__gpu_memory *m,
				     const struct oh__gpu_device *device,
				     const struct oh__gpu_facts *facts,
				     size_t bytes, size_t pinned_bytes,
				     int fds[2])
{
	enum oh_status status;

	m->bytes = bytes;
	m->pinned_bytes = pinned_bytes;
	fds[0] = fds[1] = -1;
	if (facts->share == OH__GPU_SHARE_IPC)
		status = make_plain(m, device);
	else
		status = make_vram(m, device,
				   facts->share == OH__GPU_SHARE_DESCRIPTOR,
				   &fds[0]);
	if (!status)
		status = oh__memfd_create("onehop-pinned", pinned_bytes,
					  &m->pinned_fd);
	fds[1] = m->pinned_fd;
	return status;
}

struct oh__gpu_offer oh__gpu_memory_offer(const struct oh__gpu_memory *m,
					  const struct oh__gpu_device *device)
{
	struct oh__gpu_offer offer;

	memset(&offer, 0, sizeof(offer));
	offer.code = (int32_t)device->cuda->cuIpcGetMemHandle(&offer.handle,
							      m->vram[m->rank]);
	return offer;
}

CUresult oh__gpu_memory_open(struct oh__gpu_memory *m,
			     const struct oh__gpu_device *device, int peer,
			     const CUipcMemHandle *handle)
{
	CUdeviceptr address;
	CUresult code = device->cuda->cuIpcOpenMemHandle_v2(
		&address, *handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);

	if (!code)
		m->vram[peer] = address;
	return code;
}

CUresult oh__gpu_memory_import(struct oh__gpu_memory *m,
			       const struct oh__gpu_device *device, int peer,
			       int fd)
{
	const struct oh__cuda *cuda = device->cuda;
	CUresult code = cuda->cuMemImportFromShareableHandle(
		&m->handle[peer], (void *)(uintptr_t)fd,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);

	if (code)
		return code;
	code = map(device, m->handle[peer], m->bytes, &m->vram[peer]);
	if (code) {
		cuda->cuMemRelease(m->handle[peer]);
		m->handle[peer] = 0;
	}
	return code;
}

int oh__gpu_node_of(const char *address)
{
	char path[80], text[16] = "";
	int node = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node",
		 address);
	for (char *at = path; *at; at++)
		if (*at >= 'A' && *at <= 'F')
			*at = (char)(*at - 'A' + 'a');
	file = fopen(path, "re");
	if (!file)
		return -1;
	if (fgets(text, sizeof(text), file))
		sscanf(text, "%d", &node);
	fclose(file);
	return node;
}

void oh__gpu_place_near(void *address, size_t bytes, int node)
{
	unsigned long nodes[16] = {0};

	if (node < 0 || node >= (int)sizeof(nodes) * 8)
		return;
	nodes[node / 64] = 1ul << node % 64;
	if (syscall(SYS_mbind, address, bytes, POLICY_PREFERRED, nodes,
		    sizeof(nodes) * 8, 0))
		oh__log(OH_LOG_INFO, "mbind node %d errno %d", node, errno);
}

enum oh_status oh__gpu_memory_pin(struct oh__gpu_memory *m,
				  const struct oh__gpu_device *device, int peer,
				  int fd, const struct oh__gpu_facts *facts)
{
	const struct oh__cuda *cuda = device->cuda;
	enum oh_status status = oh__memfd_check(fd, m->pinned_bytes, peer);
	void *address;

	if (!status)
		status = oh__memfd_map(fd, m->pinned_bytes, 1, &address);
	if (status)
		return status;
	if (peer == m->rank) {
		oh__gpu_place_near(address, m->pinned_bytes,
				   oh__gpu_node_of(facts->address));
		memset(address, 0xff, m->pinned_bytes);
	}
	status = OH__CUDA(cuda->cuMemHostRegister_v2(
		address, m->pinned_bytes,
		CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
	if (status) {
		oh__memfd_unmap(address, m->pinned_bytes);
		return status;
	}
	m->host[peer] = address;
	return OH__CUDA(cuda->cuMemHostGetDevicePointer_v2(&m->pinned[peer],
							   address, 0));
}

/* Gives a mailbox in GPU memory back, as it was come by. */
static void drop(const struct oh__gpu_memory *m, const struct oh__cuda *cuda,
		 int i)
{
	if (m->handle[i]) {
		if (m->vram[i]) {
			cuda->cuMemUnmap(m->vram[i], m->bytes);
			cuda->cuMemAddressFree(m->vram[i], m->bytes);
		}
		cuda->cuMemRelease(m->handle[i]);
	} else if (m->vram[i] && i == m->rank) {
		cuda->cuMemFree_v2(m->vram[i]);
	} else if (m->vram[i]) {
		cuda->cuIpcCloseMemHandle(m->vram[i]);
	}
}

void oh__gpu_memory_destroy(struct oh__gpu_memory *m,
			    const struct oh__gpu_device *device)
{
	const struct oh__cuda *cuda = device->cuda;

	for (int i = 0; i < OH_MAX_RANKS; i++) {
		drop(m, cuda, i);
		if (m->host[i]) {
			cuda->cuMemHostUnregister(m->host[i]);
			oh__memfd_unmap(m->host[i], m->pinned_bytes);
		}
	}
	oh__fd_close(&m->pinned_fd);
	memset(m, 0, sizeof(*m));
	m->pinned_fd = -1;
}
