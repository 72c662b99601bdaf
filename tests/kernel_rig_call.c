/* SPDX-License-Identifier: MIT */
/* A call of the rig, whatever it runs on. */
#include <string.h>

#include "kernel_rig.h"

/* Where the epochs of each algorithm begin; those that share slots share them.
 */
static const CUdeviceptr epochs_at[RIG_ALGORITHMS] = {
	[RIG_FLAGGED] = RIG_EPOCH_BYTES / 2,
	[RIG_STAGED] = RIG_EPOCH_BYTES / 4 * 3,
};

CUdeviceptr rig_result(const struct rig *rig, int index,
		       const struct rig_call *call)
{
	const struct rig_rank *rank = &rig->rank[index];

	return call->in_place >> index & 1 ? rank->send + call->send_at
					   : rank->recv + call->recv_at;
}

bool rig_is_fast(const struct rig *rig, int index, const struct rig_call *call)
{
	bool own = rig->ranks <= 4 || rig->ranks == 8;

	return own && !(call->general >> index & 1) && !call->average &&
	       !(call->bytes % OH__PACK_BYTES) &&
	       !(call->send_at % OH__PACK_BYTES) &&
	       !(rig_result(rig, index, call) % OH__PACK_BYTES);
}

/* From's slot in to's mailbox. */
static void *slot_of(const struct rig *rig, const struct rig_call *call,
		     int from, int to)
{
	CUdeviceptr base = rig->rank[to].mailbox;

	if (call->algorithm == RIG_FLAGGED)
		return (void *)(base + RIG_FLAGGED_AT +
				(size_t)from * 2 * RIG_HALF_BYTES);
	if (call->algorithm == RIG_STAGED)
		return (void *)(base + RIG_STAGED_AT +
				(size_t)from * RIG_STAGED_SLOT_BYTES);
	return (void *)(base + (size_t)from * RIG_SLOT_BYTES);
}

void rig_fill_arguments(const struct rig *rig, int index,
			const struct rig_call *call,
			struct oh__kernel_arguments *a)
{
	const struct rig_rank *rank = &rig->rank[index];
	uint32_t chunk = rig->threads / 2;

	memset(a, 0, sizeof(*a));
	a->send = (const void *)(rank->send + call->send_at);
	a->recv = (void *)rig_result(rig, index, call);
	a->bytes = call->bytes;
	a->packs = (uint32_t)((call->bytes + 15) / 16);
	a->part = (a->packs + (uint32_t)rig->ranks - 1) / (uint32_t)rig->ranks;
	a->half = (uint32_t)(call->half_bytes ? call->half_bytes
					      : RIG_HALF_BYTES) /
		  OH__PACK_BYTES;
	a->flags = 4 * RIG_HALF_BYTES / OH__PACK_BYTES;
	a->flags_half = (a->half + chunk - 1) / chunk;
	a->rank = (uint32_t)index;
	a->ranks = (uint32_t)rig->ranks;
	a->average = call->average;
	a->timeout = call->timeout ? call->timeout : 5000;
	a->epoch = (uint32_t *)(rank->epoch + epochs_at[call->algorithm]);
	a->watch = &rig->watch[index];
	for (int k = 0; k < rig->ranks; k++) {
		a->in[k] = slot_of(rig, call, k, index);
		a->out[k] = slot_of(rig, call, index, k);
	}
}

void rig_fill_release(const struct rig *rig, int index,
		      const struct rig_call *call, int from,
		      struct oh__release_arguments *a)
{
	/* chunks have their flags behind them; all else is data, or both */
	size_t first = call->algorithm == RIG_STAGED ? 4 * RIG_HALF_BYTES : 0;
	size_t end = call->algorithm == RIG_STAGED    ? RIG_STAGED_SLOT_BYTES
		     : call->algorithm == RIG_FLAGGED ? 2 * RIG_HALF_BYTES
						      : RIG_SLOT_BYTES;

	memset(a, 0, sizeof(*a));
	a->epoch = (uint32_t *)rig->rank[index].epoch;
	a->epochs = RIG_EPOCH_BYTES / 4;
	if (from < 0)
		return;
	a->slot = (uint32_t *)((char *)slot_of(rig, call, from, index) + first);
	a->words = (end - first) / 4;
	a->flagged = call->algorithm >= RIG_FLAGGED;
}

void rig_fill_check(const struct rig *rig, int index, uint32_t nonce,
		    uint32_t skipped, struct oh__check_arguments *a)
{
	memset(a, 0, sizeof(*a));
	a->rank = (uint32_t)index;
	a->nonce = nonce;
	a->own = (void *)rig->rank[index].mailbox;
	a->result = rig->checks[index];
	for (int k = 0; k < rig->ranks; k++)
		if (k == index || !(skipped >> index & 1))
			a->peer[k] = (void *)rig->rank[k].mailbox;
}
