// SPDX-License-Identifier: MIT
/*
 * The rig of kernel_rig.h on emulated GPUs: a rank's calls wait in a row, and
 * rig_wait lets all ranks' kernels run beside each other to their ends.
 */
#include "emulated.h"

#include "kernels/all_reduce.cuh"
#include "kernels/check.cuh"
#include "kernels/flagged.cuh"
#include "kernels/release.cuh"
#include "kernels/staged.cuh"

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>

#define _Static_assert static_assert
extern "C" {
#include "kernel_rig.h"
}

namespace
{
/* In which a row of calls is through, or hangs: a kernel that is given seconds
 * to wait in leaves by itself. */
constexpr uint64_t PATIENCE_TURNS = 20 * 1000 * 1000;

typedef void kernel(const struct oh__kernel_arguments &c);

/* [algorithm]; NULL: there is none of it */
template <class T, int RANKS, bool FAST> kernel *const *kernels_of()
{
	static kernel *const all[RIG_ALGORITHMS] = {
		one_shot<T, RANKS, FAST>,
		two_shot<T, RANKS, FAST>,
		flagged<T, RANKS, FAST>,
		RANKS == 2 ? staged<T, FAST> : two_staged<T, RANKS, FAST>,
	};

	return all;
}

template <class T> kernel *const *find(int ranks, bool fast)
{
	if (ranks == 2)
		return fast ? kernels_of<T, 2, true>()
			    : kernels_of<T, 2, false>();
	if (ranks == 3)
		return fast ? kernels_of<T, 3, true>()
			    : kernels_of<T, 3, false>();
	if (ranks == 4)
		return fast ? kernels_of<T, 4, true>()
			    : kernels_of<T, 4, false>();
	if (ranks > 8)
		return kernels_of<T, OH__KERNEL_RANKS, false>();
	return fast ? kernels_of<T, 8, true>() : kernels_of<T, 8, false>();
}

kernel *find_kernel(const struct rig *rig, int index,
		    const struct rig_call *call)
{
	bool fast = rig_is_fast(rig, index, call);

	if (call->dtype == OH_F16)
		return find<f16>(rig->ranks, fast)[call->algorithm];
	if (call->dtype == OH_BF16)
		return find<bf16>(rig->ranks, fast)[call->algorithm];
	return find<f32>(rig->ranks, fast)[call->algorithm];
}

struct call {
	kernel *run;
	struct oh__kernel_arguments arguments;
};

struct memory {
	std::vector<uint32_t> mailbox, epochs;
	std::vector<unsigned char> send, recv;
	std::deque<call> calls;
	std::deque<emulated::launch *> running;
};

std::unique_ptr<memory> ranks[OH__KERNEL_RANKS];
struct oh__kernel_watch watch[OH__KERNEL_RANKS];
struct oh__check_result checks[OH__KERNEL_RANKS][OH__KERNEL_RANKS];

/* Does the call store there? Into what its packs fill of a half; with flags
 * into all of a half, of which it blanks a word; flags of chunks lie behind. */
bool is_astray(const struct oh__kernel_arguments &c, uintptr_t to)
{
	const size_t region =
		(uintptr_t)c.in[0] - (uintptr_t)ranks[c.rank]->mailbox.data();
	const bool chunks = region >= RIG_STAGED_AT;
	const bool flagged = region >= RIG_FLAGGED_AT && !chunks;
	const size_t half = c.half, packs = flagged ? half : c.packs;

	for (uint32_t k = 0; k < 2 * c.ranks; k++) {
		const uintptr_t slot =
			(uintptr_t)(k % 2 ? c.in[k / 2] : c.out[k / 2]);
		const size_t pack = (to - slot) / OH__PACK_BYTES;

		if (to < slot)
			continue;
		if (pack < (flagged ? 2 : 4) * half && pack % half < packs)
			return false;
		if (chunks && pack >= c.flags &&
		    pack < c.flags + 4 * (size_t)c.flags_half)
			return false;
	}
	return true;
}

/* Kernels start beside the one before them. */
void start_next(const struct rig *rig, memory &m)
{
	while (m.running.size() < 2 && !m.calls.empty()) {
		const call &next = m.calls.front();

		m.running.push_back(emulated::start(
			[next] { next.run(next.arguments); }, next.arguments,
			rig->blocks, rig->threads,
			m.running.empty() ? nullptr : m.running.back()));
		m.calls.pop_front();
	}
}

/* A turn of every rank; false: none has anything to do. */
bool go_on(const struct rig *rig)
{
	bool busy = false;

	for (int i = 0; i < rig->ranks; i++) {
		memory &m = *ranks[i];

		start_next(rig, m);
		busy |= !m.running.empty();
		/* ranks drift apart */
		if (m.running.empty() || !emulated::draw(4))
			continue;
		if (m.running.size() > 1)
			emulated::go_on(m.running.back());
		if (!emulated::go_on(m.running.front()))
			continue;
		emulated::end(m.running.front());
		m.running.pop_front();
		if (!m.running.empty())
			m.running.front()->before = nullptr;
	}
	return busy;
}

/* What hangs is left where it is. */
bool give_up()
{
	for (std::unique_ptr<memory> &m : ranks) {
		if (!m)
			continue;
		m->calls.clear();
		m->running.clear();
	}
	printf("# kernels do not end\n");
	return false;
}

/* A kernel that is no all-reduce, to its end; ranks' kernels run beside it. */
bool run_beside(const struct rig *rig, const std::function<void()> &run,
		uint32_t blocks, uint32_t threads)
{
	const struct oh__kernel_arguments none = {};
	emulated::launch *l =
		emulated::start(run, none, blocks, threads, nullptr);

	for (uint64_t end = emulated::turns + PATIENCE_TURNS;
	     !emulated::go_on(l); go_on(rig))
		if (emulated::turns > end)
			return give_up();
	emulated::end(l);
	return true;
}
} // namespace

const char *rig_open(struct rig *rig)
{
	const char *given = getenv("ONEHOP_TEST_SEED");

	memset(rig, 0, sizeof(*rig));
	rig->watch = watch;
	rig->checks = checks;
	emulated::is_astray = is_astray;
	emulated::seed =
		given ? strtoull(given, nullptr, 10) : (uint64_t)time(nullptr);
	printf("# ONEHOP_TEST_SEED=%llu\n", (unsigned long long)emulated::seed);
	return nullptr;
}

void rig_close(struct rig *rig)
{
}

bool rig_begin(struct rig *rig, int count, enum rig_placement placement,
	       unsigned blocks, unsigned threads)
{
	rig->ranks = count;
	rig->placement = placement;
	rig->blocks = blocks;
	rig->threads = threads;
	memset(watch, 0, sizeof(watch));
	emulated::set_clock();
	for (int i = 0; i < count; i++) {
		ranks[i] = std::make_unique<memory>();
		ranks[i]->mailbox.assign(RIG_MAILBOX_BYTES / 4, 0);
		std::fill_n(ranks[i]->mailbox.begin(), RIG_FLAGGED_AT / 4,
			    OH__WORD_EMPTY);
		ranks[i]->epochs.assign(RIG_EPOCH_BYTES / 4, 0);
		ranks[i]->send.resize(RIG_BUFFER_BYTES);
		ranks[i]->recv.resize(RIG_BUFFER_BYTES);
		rig->rank[i].mailbox =
			(CUdeviceptr)(uintptr_t)ranks[i]->mailbox.data();
		rig->rank[i].epoch =
			(CUdeviceptr)(uintptr_t)ranks[i]->epochs.data();
		rig->rank[i].send =
			(CUdeviceptr)(uintptr_t)ranks[i]->send.data();
		rig->rank[i].recv =
			(CUdeviceptr)(uintptr_t)ranks[i]->recv.data();
	}
	return true;
}

void rig_end(struct rig *rig)
{
	for (int i = 0; i < rig->ranks; i++)
		ranks[i].reset();
}

bool rig_launch(struct rig *rig, const struct rig_call *call)
{
	for (int i = 0; i < rig->ranks; i++) {
		struct oh__kernel_arguments arguments;

		if (call->absent >> i & 1)
			continue;
		rig_fill_arguments(rig, i, call, &arguments);
		ranks[i]->calls.push_back(
			{find_kernel(rig, i, call), arguments});
	}
	/* those that wait for others look around before these come */
	for (int turns = call->absent ? 500 : 0; turns && go_on(rig); turns--)
		;
	return true;
}

bool rig_launch_nothing(struct rig *rig, const struct rig_call *call)
{
	for (int i = 0; i < rig->ranks; i++) {
		struct oh__kernel_arguments nothing = {};

		nothing.epoch = (uint32_t *)rig->rank[i].epoch;
		ranks[i]->calls.push_back({find_kernel(rig, i, call), nothing});
	}
	return true;
}

bool rig_release(struct rig *rig, int index, const struct rig_call *call,
		 uint32_t gone)
{
	for (int k = -1; k < rig->ranks; k++) {
		struct oh__release_arguments c;

		if ((k < 0 || gone >> k & 1) &&
		    (rig_fill_release(rig, index, call, k, &c),
		     !run_beside(
			     rig, [c] { release(c); }, 2, OH__RELEASE_THREADS)))
			return false;
	}
	return true;
}

bool rig_check(struct rig *rig, uint32_t nonce, uint32_t skipped)
{
	for (int n = 0; n < 2 * rig->ranks; n++) {
		struct oh__check_arguments c;

		rig_fill_check(rig, n % rig->ranks, nonce, skipped, &c);
		if (!run_beside(
			    rig,
			    [c, rig, n] {
				    n < rig->ranks ? check_write(c)
						   : check_read(c);
			    },
			    (uint32_t)rig->ranks, OH__CHECK_THREADS))
			return false;
	}
	return true;
}

bool rig_is_busy(struct rig *rig)
{
	for (int i = 0; i < rig->ranks; i++)
		if (!ranks[i]->calls.empty() || !ranks[i]->running.empty())
			return true;
	return false;
}

bool rig_wait(struct rig *rig)
{
	uint64_t end = emulated::turns + PATIENCE_TURNS;

	while (go_on(rig))
		if (emulated::turns > end)
			return give_up();
	if (emulated::astray)
		printf("# %lu words were stored outside of their slots\n",
		       emulated::astray);
	return !emulated::astray;
}

uint64_t rig_now_ns(void)
{
	return emulated::turns * 1000;
}

bool rig_put(struct rig *rig, int rank, size_t at, const void *data,
	     size_t bytes)
{
	memcpy(ranks[rank]->send.data() + at, data, bytes);
	return true;
}

bool rig_get(struct rig *rig, int rank, const struct rig_call *call, void *data)
{
	memcpy(data, (const void *)rig_result(rig, rank, call), call->bytes);
	return true;
}

bool rig_set_epochs(struct rig *rig, uint32_t epoch)
{
	rig_wait(rig);
	/* as after a long while */
	emulated::set_clock();
	for (int i = 0; i < rig->ranks; i++)
		std::fill(ranks[i]->epochs.begin(), ranks[i]->epochs.end(),
			  epoch);
	return true;
}
