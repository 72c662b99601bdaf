/* SPDX-License-Identifier: MIT */
/* First fit over a list of blocks: engines allocate a few buffers, once. */
#include "mailbox/heap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"

static struct oh__heap_block *new_block(size_t offset, size_t bytes,
					struct oh__heap_block *next)
{
	struct oh__heap_block *block = malloc(sizeof(*block));

	if (block)
		*block = (struct oh__heap_block){offset, bytes, false, next};
	return block;
}

enum oh_status oh__heap_create(struct oh__heap *heap,
			       const struct oh__mailbox *m)
{
	heap->blocks = new_block(0, m->heap_bytes, NULL);
	if (!heap->blocks)
		return OH__FAIL(OH_ERR_NO_MEMORY, "no memory for the heap");
	heap->base = m->heap[m->rank];
	heap->page_bytes = m->page_bytes;
	pthread_mutex_init(&heap->lock, NULL);
	return OH_OK;
}

void oh__heap_destroy(struct oh__heap *heap)
{
	if (!heap->blocks)
		return;
	while (heap->blocks) {
		struct oh__heap_block *next = heap->blocks->next;

		free(heap->blocks);
		heap->blocks = next;
	}
	pthread_mutex_destroy(&heap->lock);
}

static size_t largest_free(const struct oh__heap *heap)
{
	size_t largest = 0;

	for (struct oh__heap_block *b = heap->blocks; b; b = b->next)
		if (!b->used && b->bytes > largest)
			largest = b->bytes;
	return largest;
}

/* Takes the front of a free block. */
static bool take(struct oh__heap_block *block, size_t bytes)
{
	if (block->bytes > bytes) {
		struct oh__heap_block *rest =
			new_block(block->offset + bytes, block->bytes - bytes,
				  block->next);

		if (!rest)
			return false;
		block->next = rest;
		block->bytes = bytes;
	}
	block->used = true;
	return true;
}

enum oh_status oh__heap_alloc(struct oh__heap *heap, size_t bytes,
			      void **pointer)
{
	size_t unit = heap->page_bytes;
	struct oh__heap_block *block;
	enum oh_status status = OH_OK;
	size_t want;

	want = bytes ? (bytes + unit - 1) / unit * unit : unit;
	if (want < bytes)
		want = SIZE_MAX; /* no block has so many */
	pthread_mutex_lock(&heap->lock);
	for (block = heap->blocks; block; block = block->next)
		if (!block->used && block->bytes >= want)
			break;
	if (!block)
		status = OH__FAIL(OH_ERR_NO_MEMORY,
				  "%zu bytes asked of the heap, the largest "
				  "free piece has %zu: raise ONEHOP_HEAP_BYTES",
				  bytes, largest_free(heap));
	else if (!take(block, want))
		status = OH__FAIL(OH_ERR_NO_MEMORY, "no memory for the heap");
	else
		*pointer = heap->base + block->offset;
	pthread_mutex_unlock(&heap->lock);
	return status;
}

/* Joins a block with its successor if both are free. */
static void join_next(struct oh__heap_block *block)
{
	struct oh__heap_block *next = block->next;

	if (block->used || !next || next->used)
		return;
	block->bytes += next->bytes;
	block->next = next->next;
	free(next);
}

enum oh_status oh__heap_free(struct oh__heap *heap, void *pointer)
{
	struct oh__heap_block *block, *before = NULL;
	enum oh_status status = OH_OK;
	size_t offset = (size_t)((uint8_t *)pointer - heap->base);

	pthread_mutex_lock(&heap->lock);
	for (block = heap->blocks; block; before = block, block = block->next)
		if (block->used && block->offset == offset)
			break;
	if (!block) {
		status = OH__FAIL(OH_ERR_INVALID,
				  "%p is not memory of oh_comm_alloc on this "
				  "communicator",
				  pointer);
	} else {
		/* frees the pages; they read as zero from now on */
		if (madvise(heap->base + offset, block->bytes, MADV_REMOVE) < 0)
			memset(heap->base + offset, 0, block->bytes);
		block->used = false;
		join_next(block);
		if (before)
			join_next(before);
	}
	pthread_mutex_unlock(&heap->lock);
	return status;
}
