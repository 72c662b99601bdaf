/* SPDX-License-Identifier: MIT */
/*
 * The memory of oh_comm_alloc: one address range a rank, mapped by all, of
 * which each rank hands out its own. Bookkeeping is private to the rank; the
 * others see offsets only, and check them. Freed pages go back to the system
 * and read as zero again.
 */
#ifndef OH_MAILBOX_HEAP_H
#define OH_MAILBOX_HEAP_H

#include <pthread.h>

#include "mailbox/segment.h"

/* A piece of the heap, in order of offset; together they cover it. */
struct oh__heap_block {
	size_t offset, bytes;
	bool used;
	struct oh__heap_block *next;
};

struct oh__heap {
	pthread_mutex_t lock;
	uint8_t *base;
	size_t page_bytes;
	struct oh__heap_block *blocks;
};

enum oh_status oh__heap_create(struct oh__heap *heap,
			       const struct oh__mailbox *m);
void oh__heap_destroy(struct oh__heap *heap);
enum oh_status oh__heap_alloc(struct oh__heap *heap, size_t bytes,
			      void **pointer);
enum oh_status oh__heap_free(struct oh__heap *heap, void *pointer);

/* 1 + the offset of [pointer, pointer + bytes) in this rank's heap; 0 if it is
 * not in it. */
static inline uint64_t oh__heap_offset(const struct oh__mailbox *m,
				       const void *pointer, size_t bytes)
{
	uintptr_t base = (uintptr_t)m->heap[m->rank];
	uintptr_t at = (uintptr_t)pointer;

	if (at < base || at - base > m->heap_bytes ||
	    bytes > m->heap_bytes - (at - base))
		return 0;
	return at - base + 1;
}

/* Where a peer's offset + 1 lies in this rank's mapping of its heap; NULL if
 * it does not hold bytes bytes. */
static inline uint8_t *oh__peer_heap(const struct oh__mailbox *m, int rank,
				     uint64_t offset, size_t bytes)
{
	if (!offset || offset - 1 > m->heap_bytes ||
	    bytes > m->heap_bytes - (offset - 1))
		return NULL;
	return m->heap[rank] + (offset - 1);
}

#endif
