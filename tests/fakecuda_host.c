/* SPDX-License-Identifier: MIT */
/*
 * The host's memory in the CUDA driver's fake, what is known of a pointer, and
 * copies and fills, which are really done. Devices may touch what is theirs,
 * what was mapped for them, and registered memory of the host.
 */
#include <stdint.h>
#include <sys/mman.h>

#include "fakecuda_private.h"

/* The host's memory. */

static CUresult host_alloc(void **pointer, size_t bytes)
{
	void *base;

	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED || !fake_range_new(HOST, base, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	*pointer = base;
	return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
	ENTER(UNSAFE);
	return flags > 7 ? CUDA_ERROR_INVALID_VALUE
			 : host_alloc(pointer, bytes);
}

CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes,
			   unsigned int flags)
{
	ENTER(UNSAFE);
	void *base = NULL;
	CUresult code = flags == 1 ? host_alloc(&base, bytes)
				   : CUDA_ERROR_INVALID_VALUE;

	if (!code)
		fake_range_at(HOST, base)->managed = true;
	*pointer = (CUdeviceptr)(uintptr_t)base;
	return code;
}

CUresult cuMemFreeHost(void *pointer)
{
	ENTER(UNSAFE);
	struct range *range = fake_range_at(HOST, pointer);

	if (!range)
		return CUDA_ERROR_INVALID_VALUE;
	munmap(range->base, range->bytes);
	fake_object_end(range);
	return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned int flags)
{
	ENTER(UNSAFE);
	if (!pointer || !bytes || flags > 15)
		return CUDA_ERROR_INVALID_VALUE;
	if (fake_range_find(HOST_RANGES, pointer, bytes))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	return fake_range_new(REGISTRATION, pointer, bytes)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemHostUnregister(void *pointer)
{
	ENTER(UNSAFE);
	struct range *range = fake_range_at(REGISTRATION, pointer);

	if (!range)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	fake_object_end(range);
	return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer, void *host,
				      unsigned int flags)
{
	ENTER(CURRENT);
	if (flags || !fake_range_find(HOST_RANGES, host, 1))
		return CUDA_ERROR_INVALID_VALUE;
	*pointer = (uintptr_t)host;
	return CUDA_SUCCESS;
}

/* What is known of a pointer. */

static void give(void *value, const void *from, size_t bytes)
{
	memcpy(value, from, bytes);
}

static CUdevice ordinal_of(const struct range *range)
{
	if (!range)
		return CU_DEVICE_INVALID;
	if (range->block)
		return fake_ordinal_of(range->block->device);
	return range->object.context ? range->object.context->ordinal
				     : CU_DEVICE_INVALID;
}

/* A pointer of nobody is no error: all is zero, and no device. */
static CUresult give_attribute(const struct range *range, char *pointer,
			       CUpointer_attribute attribute, void *value)
{
	const CUmemorytype type = range && range->block ? CU_MEMORYTYPE_DEVICE
							: CU_MEMORYTYPE_HOST;
	const CUdevice ordinal = ordinal_of(range);
	void *const nothing = NULL, *const base = range ? range->base : NULL;
	void *const self = range ? pointer : NULL;

	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		/* mappings have none */
		give(value,
		     range && range->object.kind != MAPPING
			     ? (const void *)&range->object.context
			     : &nothing,
		     sizeof(void *));
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		give(value, &(CUmemorytype){range ? type : 0}, sizeof(type));
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		give(value, &self, sizeof(void *));
		break;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		give(value, type == CU_MEMORYTYPE_HOST ? &self : &nothing,
		     sizeof(void *));
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		give(value, &ordinal, sizeof(ordinal));
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		give(value, &base, sizeof(void *));
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		give(value, &(size_t){range ? range->bytes : 0},
		     sizeof(size_t));
		break;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		give(value, &(bool){range != NULL}, sizeof(bool));
		break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		give(value, &(unsigned){range && range->managed},
		     sizeof(unsigned));
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult cuPointerGetAttributes(unsigned int count,
				CUpointer_attribute *attributes, void **values,
				CUdeviceptr pointer)
{
	ENTER(INIT);
	const struct range *range = fake_range_find(DEVICE_RANGES | HOST_RANGES,
						    fake_address(pointer), 1);

	for (unsigned i = 0; i < count && !failure; i++)
		failure = give_attribute(range, fake_address(pointer),
					 attributes[i], values[i]);
	return failure;
}

/* Copies and fills. */

/* Whether a context's device may touch all of it. */
static bool is_reached(CUcontext context, CUdeviceptr pointer, size_t bytes)
{
	const char *at = fake_address(pointer), *end = at + bytes;

	while (at < end) {
		const struct range *range =
			fake_range_find(DEVICE_RANGES | HOST_RANGES, at, 1);

		if (!range || (range->object.kind == MAPPING &&
			       !(range->reached >> context->device & 1)))
			return false;
		at = range->base + range->bytes;
	}
	return true;
}

static CUresult copy(CUstream handle, CUdeviceptr to, CUdeviceptr from,
		     size_t bytes)
{
	struct fake_work work = {.type = COPY,
				 .to = fake_address(to),
				 .from = fake_address(from),
				 .bytes = bytes};
	CUresult failure;
	CUstream stream = fake_stream_of(handle, &failure);

	return stream ? fake_submit(stream, &work) : failure;
}

static bool is_mine(CUstream handle, CUdeviceptr pointer, size_t bytes)
{
	CUresult failure;
	CUstream stream = fake_stream_of(handle, &failure);

	/* a bad stream is told by whoever uses it next */
	return !stream ||
	       is_reached(fake_stream_context(stream), pointer, bytes);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
	ENTER(UNSAFE);
	if (!is_mine(NULL, to, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return copy(NULL, to, (uintptr_t)from, bytes);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
	ENTER(UNSAFE);
	if (!is_mine(NULL, from, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return copy(NULL, (uintptr_t)to, from, bytes);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
			      CUstream stream)
{
	ENTER(CURRENT);
	if (!is_mine(stream, to, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return copy(stream, to, (uintptr_t)from, bytes);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes,
			      CUstream stream)
{
	ENTER(CURRENT);
	if (!is_mine(stream, from, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return copy(stream, (uintptr_t)to, from, bytes);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
			      CUstream stream)
{
	ENTER(CURRENT);
	if (!is_mine(stream, to, bytes) || !is_mine(stream, from, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return copy(stream, to, from, bytes);
}

static CUresult fill(CUstream handle, CUdeviceptr to, unsigned value,
		     size_t width, size_t count)
{
	struct fake_work work = {.type = FILL,
				 .to = fake_address(to),
				 .value = value,
				 .width = width,
				 .bytes = count * width};
	CUresult failure;
	CUstream stream = fake_stream_of(handle, &failure);

	if (stream && (to % width || !is_mine(handle, to, work.bytes)))
		return CUDA_ERROR_INVALID_VALUE;
	return stream ? fake_submit(stream, &work) : failure;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
			 CUstream stream)
{
	ENTER(CURRENT);
	return fill(stream, to, value, 1, count);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count,
			  CUstream stream)
{
	ENTER(CURRENT);
	return fill(stream, to, value, 4, count);
}
