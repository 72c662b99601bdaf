/* SPDX-License-Identifier: MIT */
/*
 * Three ranks of the benchmark's peer NCCL as threads, on GPUs in another
 * order, with the fakes of NCCL and of the driver.
 */
#ifndef OH_TESTS_NCCL_TEAM_H
#define OH_TESTS_NCCL_TEAM_H

#include <pthread.h>

#include "bench/nccl_job.h"
#include "fakenccl.h"
#include "tap.h"

#define RANKS 3
#define BYTES 4096
#define NEVER 60000 /* ms: longer than a test may take */

static const int devices[RANKS] = {2, 0, 1};
static const struct oh__cuda *cuda; /* NULL until the test loads it */

struct member;

/* What a rank does between joining and leaving. */
typedef enum oh_status act_fn(struct member *member);

struct member {
	struct bench_nccl *job;
	int rank;
	act_fn *act;
	pthread_barrier_t *barrier; /* of all ranks */
	pthread_t thread;
	bool over;
	enum oh_status joined, acted;
	struct oh_error record; /* of joining or acting */
};

struct team {
	struct bench_nccl *job;
	pthread_barrier_t barrier;
	struct member member[RANKS];
};

static inline void *run_member(void *argument)
{
	struct member *member = argument;

	member->joined = bench_nccl_join(member->job, member->rank);
	if (!member->joined && member->act)
		member->acted = member->act(member);
	member->record = *oh_last_error();
	bench_nccl_leave(member->job, member->rank);
	__atomic_store_n(&member->over, true, __ATOMIC_RELEASE);
	return NULL;
}

static inline bool is_over(const struct member *member)
{
	return __atomic_load_n(&member->over, __ATOMIC_ACQUIRE);
}

static inline struct bench_nccl_setup setup_of(enum bench_nccl_kind kind)
{
	struct bench_nccl_setup setup = {
		.kind = kind,
		.ranks = RANKS,
		.bytes = BYTES,
		.timeout_ms = NEVER,
	};

	memcpy(setup.device, devices, sizeof(devices));
	return setup;
}

/* What the fakes play from now on; the driver's is read again. */
static inline void play(const char *driver, const char *nccl)
{
	fakecuda_play("devices 3\n", driver);
	fakenccl_play("", nccl);
	if (cuda)
		cuda->cuInit(0);
}

static inline bool team_open(struct team *team,
			     const struct bench_nccl_setup *setup, act_fn *act)
{
	memset(team, 0, sizeof(*team));
	if (setup->kind == BENCH_NCCL_SHM)
		setenv("NCCL_P2P_DISABLE", "1", 1);
	if (bench_nccl_open(setup, &team->job))
		return tap_ok(false, "%s opens", bench_nccl_name(setup->kind));
	unsetenv("NCCL_P2P_DISABLE");
	pthread_barrier_init(&team->barrier, NULL, RANKS);
	for (int i = 0; i < RANKS; i++) {
		team->member[i].job = team->job;
		team->member[i].rank = i;
		team->member[i].act = act;
		team->member[i].barrier = &team->barrier;
	}
	return true;
}

static inline void member_start(struct member *member)
{
	pthread_create(&member->thread, NULL, run_member, member);
}

static inline void member_end(struct member *member)
{
	pthread_join(member->thread, NULL);
}

static inline void team_close(struct team *team)
{
	bench_nccl_close(team->job);
	pthread_barrier_destroy(&team->barrier);
}

static inline bool run_team(struct team *team,
			    const struct bench_nccl_setup *setup, act_fn *act)
{
	if (!team_open(team, setup, act))
		return false;
	for (int i = 0; i < RANKS; i++)
		member_start(&team->member[i]);
	for (int i = 0; i < RANKS; i++)
		member_end(&team->member[i]);
	team_close(team);
	return true;
}

static inline bool is_clean(void)
{
	return !fakenccl_live(NULL) && !fakecuda_live(NULL);
}

static inline bool all_joined(const struct team *team, enum oh_status status)
{
	bool all = true;

	for (int i = 0; i < RANKS; i++)
		all = all && team->member[i].joined == status;
	return all;
}

#endif
