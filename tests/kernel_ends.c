/* SPDX-License-Identifier: MIT */
#include "kernel_ends.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"

/* A wait of this deadline, a minute, is ended by something else. */
#define NEVER_TICKS 60000

/* What a kernel that must not wait does by mistake depends on the clock: of the
 * emulated one's beginnings three of four show it, and 12 miss one in 2^24. */
#ifdef RIG_EMULATED
#define CLOCKS 12
#else
#define CLOCKS 1
#endif

bool ends_is_late(const struct rig *rig, int rank)
{
	static const struct oh__kernel_watch none;

	return memcmp(&rig->watch[rank], &none, sizeof(none));
}

void ends_look_around(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

/* Without rank 1, for whom the others wait. */
static struct rig_call endless_call(enum rig_algorithm algorithm)
{
	return (struct rig_call){
		.algorithm = algorithm,
		.dtype = OH_F32,
		.bytes = 4096,
		.timeout = NEVER_TICKS,
		.absent = 2,
	};
}

bool ends_is_dead_quick(struct rig *rig, enum rig_algorithm algorithm)
{
	struct rig_call call = endless_call(algorithm);
	uint64_t start = rig_now_ns();

	/* three calls: each half is used again */
	for (int n = 0; n < CLOCKS; n++)
		if (!rig_set_epochs(rig, OH__EPOCH_DEAD) ||
		    !rig_launch(rig, &call) || !rig_launch(rig, &call) ||
		    !rig_launch(rig, &call) || !rig_wait(rig))
			return false;
	return rig_now_ns() - start < NEVER_TICKS / 2 * OH__NS_PER_MS;
}

static bool is_any_late(const struct rig *rig)
{
	bool late = false;

	for (int i = 0; i < rig->ranks; i++)
		late |= ends_is_late(rig, i);
	return late;
}

static bool is_one_released(struct rig *rig, enum rig_algorithm algorithm)
{
	struct rig_call call = endless_call(algorithm);
	bool right = rig_launch(rig, &call);

	ends_look_around();
	right = right && rig_is_busy(rig) && !is_any_late(rig);
	for (int i = 0; i < rig->ranks && right; i++)
		right = i == 1 || rig_release(rig, i, &call, 2);
	right = right && rig_wait(rig) && !is_any_late(rig);
	for (int n = 0; n < 3 && right; n++)
		right = rig_launch(rig, &call);
	return right && rig_wait(rig);
}

bool ends_is_release_right(struct rig *rig, enum rig_algorithm algorithm)
{
	uint64_t start = rig_now_ns();
	int ranks = rig->ranks;

	for (int n = 0; n < CLOCKS; n++) {
		if (!is_one_released(rig, algorithm))
			return false;
		rig_end(rig);
		if (!rig_begin(rig, ranks, rig->placement, rig->blocks,
			       rig->threads))
			return false;
	}
	return rig_now_ns() - start < NEVER_TICKS / 2 * OH__NS_PER_MS;
}

/* Words that a rank should have found from each, and did not. */
static bool is_check(const struct rig *rig, int reader, uint32_t nonce,
		     int silent, uint32_t wrong)
{
	bool right = true;

	for (int k = 0; k < rig->ranks; k++) {
		const struct oh__check_result *result = &rig->checks[reader][k];
		bool is_silent = k == silent && k != reader;

		right &= result->nonce == nonce &&
			 result->wrong_stored == (is_silent ? wrong : 0);
	}
	return right;
}

bool ends_is_check_right(struct rig *rig)
{
	static const uint32_t nonces[] = {0x1234567, 0x89abcdef};
	bool right = rig_check(rig, nonces[0], 0);

	for (int i = 0; i < rig->ranks; i++)
		right = right && is_check(rig, i, nonces[0], -1, 0);
	/* what rank 1 stored before is nothing now */
	right = right && rig_check(rig, nonces[1], 2);
	for (int i = 0; i < rig->ranks; i++)
		right = right &&
			is_check(rig, i, nonces[1], 1, OH__CHECK_WORDS);
	return right;
}
