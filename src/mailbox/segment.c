/* SPDX-License-Identifier: MIT */
#include "mailbox/segment.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "comm/descriptor.h"

_Static_assert(sizeof(struct oh__arrival) == OH__LINE_PAIR,
	       "an arrival shares its line with nothing");
_Static_assert(sizeof(struct oh__facts) <= OH__FACTS_BYTES, "facts fit");

static size_t round_up(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

static void set_sizes(struct oh__mailbox *m,
		      const struct oh__mailbox_options *options)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t share = (options->slot_bytes + (size_t)options->ranks - 1) /
		       (size_t)options->ranks;

	m->rank = options->rank;
	m->ranks = options->ranks;
	m->page_bytes = page;
	m->slot_bytes = round_up(options->slot_bytes, page);
	/* a rank's slice, rounded up to lines */
	m->result_bytes = round_up(share + OH__LINE, page);
	m->heap_bytes = round_up(options->heap_bytes, page);
	m->segment_bytes = oh__slot_offset(m, 2);
	m->call = options->first_call;
	m->timeout_ns = options->timeout_ns;
	for (int i = 0; i < OH_MAX_RANKS; i++) {
		m->known[i] = options->first_call;
		m->life[i] = -1;
	}
}

static void fill_facts(const struct oh__mailbox *m, bool has_gpu,
		       uint8_t *bytes)
{
	struct oh__facts facts = {
		.slot_bytes = m->slot_bytes,
		.heap_bytes = m->heap_bytes,
		.protocol = OH__PROTOCOL,
		.has_gpu = has_gpu,
	};
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0) {
		facts.cpu_count = (uint32_t)CPU_COUNT(&set);
		for (int i = 0; i < (int)sizeof(facts.cpus) * 8; i++)
			if (i < CPU_SETSIZE && CPU_ISSET(i, &set))
				facts.cpus[i / 8] |= (uint8_t)(1u << i % 8);
	}
	memset(bytes, 0, OH__FACTS_BYTES);
	memcpy(bytes, &facts, sizeof(facts));
}

enum oh_status oh__mailbox_create(struct oh__mailbox *m,
				  const struct oh__mailbox_options *options,
				  int fds[OH__RANK_FDS],
				  uint8_t facts[OH__FACTS_BYTES])
{
	enum oh_status status;
	void *address;

	set_sizes(m, options);
	status = oh__memfd_create("onehop-mailbox", m->segment_bytes, &fds[0]);
	if (status)
		return status;
	status = oh__memfd_create("onehop-heap", m->heap_bytes, &fds[1]);
	if (status)
		goto err_segment;
	status = oh__memfd_map(fds[0], m->segment_bytes, 1, &address);
	if (status)
		goto err_heap;
	m->own = address;
	m->peer[m->rank] = address;
	status = oh__memfd_map(fds[1], m->heap_bytes, 1, &address);
	if (status)
		goto err_map;
	m->heap[m->rank] = address;
	atomic_store_explicit(&m->own->finished.word, m->call,
			      memory_order_relaxed);
	fill_facts(m, options->has_gpu, facts);
	return OH_OK;

err_map:
	oh__memfd_unmap(m->own, m->segment_bytes);
	m->own = NULL;
	m->peer[m->rank] = NULL;
err_heap:
	oh__fd_close(&fds[1]);
err_segment:
	oh__fd_close(&fds[0]);
	return status;
}

static enum oh_status check_facts(const struct oh__mailbox *m,
				  const struct oh__facts *facts, int rank)
{
	if (facts->protocol != OH__PROTOCOL)
		return OH__FAIL(OH_ERR_MISMATCH,
				"rank %d has mailbox protocol %u, this rank %u",
				rank, facts->protocol, OH__PROTOCOL);
	if (facts->slot_bytes != m->slot_bytes ||
	    facts->heap_bytes != m->heap_bytes)
		return OH__FAIL(OH_ERR_MISMATCH,
				"rank %d has slots of %llu bytes and a heap of "
				"%llu, this rank %zu and %zu",
				rank, (unsigned long long)facts->slot_bytes,
				(unsigned long long)facts->heap_bytes,
				m->slot_bytes, m->heap_bytes);
	return OH_OK;
}

static enum oh_status connect_peer(struct oh__mailbox *m,
				   struct oh__rendezvous *rendezvous, int rank)
{
	struct oh__facts facts;
	int *fds = rendezvous->fds[rank];
	enum oh_status status;
	void *address;

	memcpy(&facts, rendezvous->facts[rank], sizeof(facts));
	status = check_facts(m, &facts, rank);
	if (!status)
		status = oh__memfd_check(fds[0], m->segment_bytes, rank);
	if (!status)
		status = oh__memfd_check(fds[1], m->heap_bytes, rank);
	if (!status)
		status = oh__memfd_map(fds[0], m->segment_bytes, 0, &address);
	if (status)
		return status;
	m->peer[rank] = address;
	status = oh__memfd_map(fds[1], m->heap_bytes, 1, &address);
	if (status)
		return status;
	m->heap[rank] = address;
	m->life[rank] = fds[2];
	fds[2] = -1;
	oh__fd_close(&fds[0]);
	oh__fd_close(&fds[1]);
	return OH_OK;
}

enum oh_status oh__mailbox_connect(struct oh__mailbox *m,
				   struct oh__rendezvous *rendezvous)
{
	for (int i = 0; i < m->ranks; i++) {
		enum oh_status status;

		if (i == m->rank)
			continue;
		status = connect_peer(m, rendezvous, i);
		if (status)
			return status;
	}
	return OH_OK;
}

void oh__mailbox_destroy(struct oh__mailbox *m)
{
	for (int i = 0; i < m->ranks; i++) {
		oh__memfd_unmap((void *)(uintptr_t)m->peer[i],
				m->segment_bytes);
		oh__memfd_unmap(m->heap[i], m->heap_bytes);
		oh__fd_close(&m->life[i]);
	}
	memset(m->peer, 0, sizeof(m->peer));
	memset(m->heap, 0, sizeof(m->heap));
	m->own = NULL;
}

int oh__mailbox_processors(const struct oh__rendezvous *rendezvous)
{
	uint8_t all[sizeof(((struct oh__facts *)0)->cpus)] = {0};
	int count = 0;

	for (int i = 0; i < rendezvous->ranks; i++) {
		struct oh__facts facts;

		memcpy(&facts, rendezvous->facts[i], sizeof(facts));
		if (!facts.cpu_count)
			return 0;
		for (size_t k = 0; k < sizeof(all); k++)
			all[k] |= facts.cpus[k];
	}
	for (size_t k = 0; k < sizeof(all); k++)
		count += __builtin_popcount(all[k]);
	return count;
}

bool oh__mailbox_has_gpu(const struct oh__rendezvous *rendezvous)
{
	bool any = false;

	for (int i = 0; i < rendezvous->ranks; i++) {
		struct oh__facts facts;

		memcpy(&facts, rendezvous->facts[i], sizeof(facts));
		any |= facts.has_gpu;
	}
	return any;
}
