/* SPDX-License-Identifier: MIT */
/*
 * The arena is a file of memory whose size is sealed, so that no process can
 * make another's access fault. Its memory-order argument stands in arena.h.
 */
#include "bench/arena.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/clock.h"

/* Polls before a waiting rank first gives its processor away: some 50 us. */
#define POLLS 1000

static size_t head_bytes(void)
{
	return (sizeof(struct bench_arena_head) + 4095) & ~(size_t)4095;
}

bool bench_arena_map(int fd, size_t mailbox_bytes, struct bench_arena *arena)
{
	size_t bytes = head_bytes() + mailbox_bytes;
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED)
		return false;
	arena->head = memory;
	arena->mailbox = (char *)memory + head_bytes();
	arena->mailbox_bytes = mailbox_bytes;
	arena->fd = -1;
	return true;
}

bool bench_arena_create(size_t mailbox_bytes, struct bench_arena *arena)
{
	size_t bytes = head_bytes() + mailbox_bytes;
	int fd = memfd_create("onehop-bench", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return false;
	/* pages come as they are touched; nobody can cut them off */
	if (ftruncate(fd, (off_t)bytes) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ||
	    !bench_arena_map(fd, mailbox_bytes, arena)) {
		close(fd);
		return false;
	}
	arena->fd = fd;
	return true;
}

void bench_arena_close(struct bench_arena *arena)
{
	if (!arena->head)
		return;
	munmap(arena->head, head_bytes() + arena->mailbox_bytes);
	if (arena->fd >= 0)
		close(arena->fd);
	arena->head = NULL;
}

void bench_arena_abort(struct bench_arena *arena)
{
	/* relaxed: it carries nothing, the waiters only leave */
	atomic_store_explicit(&arena->head->aborted, 1, memory_order_relaxed);
}

static bool is_aborted(struct bench_arena_head *head)
{
	return atomic_load_explicit(&head->aborted, memory_order_relaxed);
}

/* Waits until the generation is no longer old. */
static bool await_change(struct bench_arena_head *head,
			 const struct bench_waiter *waiter, unsigned old)
{
	unsigned polls = waiter->crowded ? 1 : POLLS;

	for (unsigned i = 1;; i++) {
		/* pairs with the last rank's store in bench_arena_meet */
		if (atomic_load_explicit(&head->generation,
					 memory_order_acquire) != old)
			return true;
		if (i < polls) {
			bench_relax();
			continue;
		}
		if (is_aborted(head))
			return false;
		/* some libraries finish another rank's call only from inside
		 * one of their own */
		if (waiter->poke && i % 64 == 0)
			waiter->poke(waiter->state);
		sched_yield();
	}
}

bool bench_arena_meet(struct bench_arena *arena,
		      const struct bench_waiter *waiter, uint64_t *start)
{
	struct bench_arena_head *head = arena->head;
	unsigned ranks = (unsigned)waiter->ranks;
	/* relaxed: it cannot change before this rank has arrived */
	unsigned old =
		atomic_load_explicit(&head->generation, memory_order_relaxed);

	if (is_aborted(head))
		return false;
	/* acquire-release: gathers what all others did before they came */
	if (atomic_fetch_add_explicit(&head->arrived, 1, memory_order_acq_rel) +
		    1 ==
	    ranks) {
		atomic_store_explicit(&head->arrived, 0, memory_order_relaxed);
		head->start = bench_ticks(waiter->tsc) + waiter->lead_ticks;
		/* release: pairs with the load in await_change */
		atomic_store_explicit(&head->generation, old + 1,
				      memory_order_release);
	} else if (!await_change(head, waiter, old)) {
		return false;
	}
	*start = head->start;
	return true;
}
