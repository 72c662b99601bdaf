/* SPDX-License-Identifier: MIT */
/*
 * The way of a communicator: options -> place -> segment and heap of this rank
 * -> rendezvous -> the others' mapped -> agreed -> tuned. Each step succeeds on
 * all ranks or fails on all with the same status: what fails before the
 * rendezvous is told there.
 */
#include "collective/communicator.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "collective/device.h"
#include "comm/descriptor.h"
#include "comm/launcher.h"
#include "gpu/layout.h"

/* All that a communicator is made from, read once. */
struct recipe {
	struct oh__meeting_place place;
	int rank, ranks;
	uint64_t rendezvous_ms, call_ms;
	uint64_t slot_bytes, heap_bytes, device_bytes, first_call;
	uint64_t device_share, algorithm, stores, tune, isa, spin;
	const int *device; /* as in the options */
	uint32_t forbidden[OH_MAX_RANKS]; /* ONEHOP_FORBID_PEER */
	struct oh__setting_table table; /* ONEHOP_DEVICE_TABLE */
};

/* Pairs that this communicator has not may be meant for another one. */
static enum oh_status read_forbidden(struct recipe *recipe)
{
	enum oh_status status =
		oh__setting_pairs(OH__SETTING_FORBID_PEER, recipe->forbidden);

	for (int i = 0; i < OH_MAX_RANKS && !status; i++) {
		/* "all" has a rank itself, too */
		if (recipe->forbidden[i] >> i & 1)
			continue;
		for (int k = i + 1; k < OH_MAX_RANKS; k++)
			if (k >= recipe->ranks && recipe->forbidden[i] >> k & 1)
				oh__log(OH_LOG_WARN,
					"ONEHOP_FORBID_PEER has %d-%d, but the "
					"ranks of this communicator are 0 to "
					"%d: that pair forbids nothing",
					i, k, recipe->ranks - 1);
	}
	return status;
}

static enum oh_status read_settings(struct recipe *recipe)
{
	uint64_t rendezvous_ms, call_ms;
	const struct {
		enum oh__setting setting;
		uint64_t *value;
	} wanted[] = {
		{OH__SETTING_RENDEZVOUS_TIMEOUT_MS, &rendezvous_ms},
		{OH__SETTING_CALL_TIMEOUT_MS, &call_ms},
		{OH__SETTING_SLOT_BYTES, &recipe->slot_bytes},
		{OH__SETTING_HEAP_BYTES, &recipe->heap_bytes},
		{OH__SETTING_DEVICE_BYTES, &recipe->device_bytes},
		{OH__SETTING_DEVICE_SHARE, &recipe->device_share},
		{OH__SETTING_FIRST_CALL, &recipe->first_call},
		{OH__SETTING_ALGORITHM, &recipe->algorithm},
		{OH__SETTING_STORES, &recipe->stores},
		{OH__SETTING_TUNE, &recipe->tune},
		{OH__SETTING_ISA, &recipe->isa},
		{OH__SETTING_SPIN, &recipe->spin},
	};
	enum oh_status status = oh__settings_check();

	oh__settings_warn_unknown();
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (!status)
			status = oh__setting_value(wanted[i].setting,
						   wanted[i].value);
	if (!status)
		status = oh__setting_table(OH__SETTING_DEVICE_TABLE,
					   &recipe->table);
	if (!status)
		status = read_forbidden(recipe);
	if (status)
		return status;
	/* what the caller has given goes first */
	if (!recipe->rendezvous_ms)
		recipe->rendezvous_ms = rendezvous_ms;
	if (!recipe->call_ms)
		recipe->call_ms = call_ms;
	return OH_OK;
}

static enum oh_status check_ranks(int rank, int ranks)
{
	if (ranks < 1 || ranks > OH_MAX_RANKS)
		return OH__FAIL(OH_ERR_INVALID, "ranks is %d, it takes 1 to %d",
				ranks, OH_MAX_RANKS);
	if (rank < 0 || rank >= ranks)
		return OH__FAIL(OH_ERR_INVALID, "rank is %d, ranks is %d", rank,
				ranks);
	return OH_OK;
}

static enum oh_status read_environment(struct recipe *recipe)
{
	struct oh__launch launch;
	enum oh_status status = oh__launch_from_environment(&launch);

	if (status)
		return status;
	recipe->place = launch.place;
	recipe->rank = launch.rank;
	recipe->ranks = launch.ranks;
	oh__log(OH_LOG_INFO, "launcher %s rank %d ranks %d", launch.launcher,
		launch.rank, launch.ranks);
	return OH_OK;
}

/* The bytes of whole fields: a size may end within one, or in the padding. */
static size_t whole_fields(size_t size)
{
	static const size_t ends[] = {
		sizeof(struct oh_comm_options),
		offsetof(struct oh_comm_options, device),
		offsetof(struct oh_comm_options, call_timeout_ms),
	};

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		if (size >= ends[i])
			return ends[i];
	return offsetof(struct oh_comm_options, rendezvous_timeout_ms);
}

/* Who the ranks are and where they meet: with that a failure can be told. */
static enum oh_status read_place(const struct oh_comm_options *given,
				 struct recipe *recipe)
{
	struct oh_comm_options options = {.size = sizeof(options)};
	enum oh_status status = OH_OK;

	if (given) {
		if (given->size <
		    offsetof(struct oh_comm_options, rendezvous_timeout_ms))
			return OH__FAIL(OH_ERR_INVALID,
					"options->size is %zu, set it to "
					"sizeof(struct oh_comm_options)",
					given->size);
		memcpy(&options, given, whole_fields(given->size));
	}
	recipe->rendezvous_ms = options.rendezvous_timeout_ms;
	recipe->call_ms = options.call_timeout_ms;
	recipe->device = options.device;
	if (options.id) {
		recipe->rank = options.rank;
		recipe->ranks = options.ranks;
		status = oh__meeting_place_of_id(options.id, &recipe->place);
	} else if (options.ranks || options.rank) {
		return OH__FAIL(OH_ERR_INVALID,
				"options->id is NULL and rank is %d of %d: "
				"without an id all three come from the "
				"environment",
				options.rank, options.ranks);
	} else {
		status = read_environment(recipe);
	}
	return status ? status : check_ranks(recipe->rank, recipe->ranks);
}

static enum oh_status pick_reducer(const struct recipe *recipe,
				   const struct oh__cpu_reducer **reducer)
{
	/* the choices of ONEHOP_ISA after auto */
	static const char *const names[] = {NULL,     "plain",	    "avx2",
					    "avx512", "avx512bf16", "neon"};
	const struct oh__cpu_reducer *named;

	if (!recipe->isa) {
		*reducer = oh__cpu_reducer_best();
		return OH_OK;
	}
	named = oh__cpu_reducer_named(names[recipe->isa]);
	if (!named || !named->usable())
		return OH__FAIL(OH_ERR_UNSUPPORTED,
				"ONEHOP_ISA is %s, which this %s cannot run",
				names[recipe->isa],
				named ? "processor" : "build");
	*reducer = named;
	return OH_OK;
}

static enum oh_status meet(struct oh_comm *comm, const struct recipe *recipe,
			   const uint8_t *facts, const int *fds,
			   struct oh__rendezvous *rendezvous)
{
	const uint64_t layouts = oh__gpu_layout_hash(
		recipe->ranks, &recipe->table, recipe->device_bytes);
	const struct oh__agree agree[] = {
		{"ONEHOP_SLOT_BYTES", recipe->slot_bytes},
		{"ONEHOP_HEAP_BYTES", recipe->heap_bytes},
		{"ONEHOP_DEVICE_BYTES", recipe->device_bytes},
		{"ONEHOP_DEVICE_SHARE", recipe->device_share},
		{"the sizes and kernels of calls on GPU memory (a hash), which "
		 "ONEHOP_DEVICE_TABLE or the library's build decides",
		 layouts},
		{"ONEHOP_FIRST_CALL", recipe->first_call},
		{"ONEHOP_ALGORITHM", recipe->algorithm},
		{"ONEHOP_STORES", recipe->stores},
		{"ONEHOP_TUNE", recipe->tune},
	};
	struct oh__rendezvous_options options = {
		.place = &recipe->place,
		.rank = recipe->rank,
		.ranks = recipe->ranks,
		.deadline_ns =
			oh__now_ns() + recipe->rendezvous_ms * OH__NS_PER_MS,
		.agree = agree,
		.agree_count = sizeof(agree) / sizeof(agree[0]),
		.facts = facts,
		.fds = fds,
	};
	enum oh_status status = oh__rendezvous_meet(&options, rendezvous);

	if (status)
		return status;
	status = oh__mailbox_connect(&comm->mailbox, rendezvous);
	if (!status)
		status = oh__heap_create(&comm->heap, &comm->mailbox);
	status = oh__rendezvous_agree(rendezvous, status);
	if (!status) {
		int processors = oh__mailbox_processors(rendezvous);

		comm->crowded = processors && recipe->ranks > processors;
		comm->mailbox.spin_short =
			recipe->spin ? recipe->spin == 2 : comm->crowded;
	}
	return status;
}

static enum oh_status tune(struct oh_comm *comm, const struct recipe *recipe)
{
	comm->table_options = (struct oh__table_options){
		.ranks = recipe->ranks,
		.crowded = comm->crowded,
		.slot_bytes = comm->mailbox.slot_bytes,
		.algorithm = recipe->algorithm,
		.stores = recipe->stores,
	};

	if (!recipe->tune)
		comm->table_reason = "ONEHOP_TUNE is off";
	else if (recipe->ranks == 1)
		comm->table_reason = "there is one rank";
	else if (comm->crowded)
		comm->table_reason = "there are more ranks than processors";
	return oh__tune(comm, !comm->table_reason);
}

static enum oh_status connect_gpu(struct oh_comm *comm,
				  const struct recipe *recipe,
				  struct oh__rendezvous *rendezvous)
{
	struct oh__gpu_options options = {
		.device = recipe->device,
		.budget_bytes = recipe->device_bytes,
		.table = &recipe->table,
		.share = (enum oh__gpu_share)recipe->device_share,
		.first_epoch = (uint32_t)recipe->first_call & ~OH__EPOCH_DEAD,
		.forbidden = recipe->forbidden,
		.call_timeout_ns = recipe->call_ms * OH__NS_PER_MS,
		.deadline_ns =
			oh__now_ns() + recipe->rendezvous_ms * OH__NS_PER_MS,
	};

	return oh__device_connect(comm, &options, rendezvous);
}

/* What the ranks do together once they have met. A rank that stops now is late
 * for the rendezvous. */
static enum oh_status settle(struct oh_comm *comm, const struct recipe *recipe,
			     struct oh__rendezvous *rendezvous)
{
	enum oh_status status;

	comm->mailbox.timeout_ns = recipe->rendezvous_ms * OH__NS_PER_MS;
	status = tune(comm, recipe);
	if (!status)
		status = connect_gpu(comm, recipe, rendezvous);
	comm->mailbox.timeout_ns = recipe->call_ms * OH__NS_PER_MS;
	comm->mailbox.before = comm->mailbox.call;
	return status;
}

/* Undoes all that has been done so far. */
static void dissolve(struct oh_comm *comm)
{
	if (!comm->in_owner || *comm->in_owner)
		oh__gpu_destroy(&comm->gpu);
	else
		oh__gpu_forget(&comm->gpu);
	oh__heap_destroy(&comm->heap);
	oh__mailbox_destroy(&comm->mailbox);
	oh__life_close(&comm->life);
	if (comm->in_owner)
		munmap(comm->in_owner, sizeof(*comm->in_owner));
	free(comm);
}

/* A child of fork must not speak for its parent's rank. */
static enum oh_status mark_owner(struct oh_comm *comm)
{
	size_t bytes = sizeof(*comm->in_owner);
	void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return OH__FAIL_CALL(OH_ERR_NO_MEMORY, "mmap", errno,
				     "no memory for a communicator (see ulimit "
				     "-v)");
	comm->in_owner = page;
	*comm->in_owner = 1;
	if (madvise(page, bytes, MADV_WIPEONFORK) < 0)
		oh__log(OH_LOG_INFO,
			"madvise(MADV_WIPEONFORK) errno %d, a "
			"forked child is not told apart",
			errno);
	return OH_OK;
}

enum oh_status oh__comm_check(const struct oh_comm *comm)
{
	if (!comm)
		return OH__FAIL(OH_ERR_INVALID, "comm is NULL");
	if (!*comm->in_owner)
		return OH__FAIL(OH_ERR_INVALID,
				"the communicator belongs to the process that "
				"this one was forked from: make one after the "
				"fork");
	return OH_OK;
}

/* This rank has failed before it could meet the others. */
static enum oh_status decline(const struct recipe *recipe,
			      enum oh_status status)
{
	return oh__rendezvous_decline(&recipe->place, recipe->rank,
				      recipe->ranks, status);
}

/* All that this rank brings to the rendezvous. */
static enum oh_status prepare(struct oh_comm *comm, const struct recipe *recipe,
			      uint8_t *facts, int *fds)
{
	struct oh__mailbox_options options = {
		.rank = recipe->rank,
		.ranks = recipe->ranks,
		.slot_bytes = recipe->slot_bytes,
		.heap_bytes = recipe->heap_bytes,
		.first_call = recipe->first_call,
		.timeout_ns = recipe->call_ms * OH__NS_PER_MS,
		.has_gpu = oh__gpu_is_wanted(recipe->device),
	};
	enum oh_status status = pick_reducer(recipe, &comm->cpu.reducer);

	if (!status)
		status = mark_owner(comm);
	if (!status)
		status = oh__life_create(&comm->life);
	if (!status)
		status = oh__mailbox_create(&comm->mailbox, &options, fds,
					    facts);
	fds[2] = comm->life.fd;
	return status;
}

static enum oh_status build(struct oh_comm *comm, const struct recipe *recipe,
			    bool *met)
{
	uint8_t facts[OH__FACTS_BYTES];
	int fds[OH__RANK_FDS] = {-1, -1, -1};
	struct oh__rendezvous rendezvous;
	enum oh_status status = prepare(comm, recipe, facts, fds);

	if (!status) {
		status = meet(comm, recipe, facts, fds, &rendezvous);
		*met = rendezvous.reached;
	}
	oh__fd_close(&fds[0]);
	oh__fd_close(&fds[1]);
	/* the others have their own copies by now */
	if (comm->life.keep >= 0)
		oh__fd_close(&comm->life.fd);
	if (!status)
		status = settle(comm, recipe, &rendezvous);
	if (*met)
		oh__rendezvous_close(&rendezvous);
	/* a rank that believes in success, as it was told before something went
	 * wrong, learns of it when it waits for this one */
	if (status && comm->mailbox.own)
		oh__mailbox_fail(&comm->mailbox, status, recipe->rank);
	return status;
}

static void log_made(const struct oh_comm *comm)
{
	char table[96];

	if (comm->table_reason)
		snprintf(table, sizeof(table), "not measured (%s)",
			 comm->table_reason);
	else
		snprintf(table, sizeof(table), "measured, a hand-shake %u ns",
			 comm->table.handshake_ns);
	oh__log(OH_LOG_INFO,
		"communicator of rank %d of %d: reducer %s, table %s",
		comm->mailbox.rank, comm->mailbox.ranks,
		comm->cpu.reducer->name, table);
}

static enum oh_status create(const struct recipe *recipe, struct oh_comm **comm)
{
	struct oh_comm *made = calloc(1, sizeof(*made));
	enum oh_status status;
	bool met = false;

	if (!made)
		return decline(recipe,
			       OH__FAIL(OH_ERR_NO_MEMORY,
					"no memory for a communicator"));
	made->life = (struct oh__life){-1, -1};
	made->cpu.mailbox = &made->mailbox;
	atomic_flag_clear(&made->busy);
	for (int i = 0; i < OH_MAX_RANKS; i++)
		made->mailbox.life[i] = -1;
	status = build(made, recipe, &met);
	if (status) {
		/* first: declining needs a descriptor */
		dissolve(made);
		return met ? status : decline(recipe, status);
	}
	log_made(made);
	*comm = made;
	return OH_OK;
}

enum oh_status oh_comm_create(const struct oh_comm_options *options,
			      struct oh_comm **comm)
{
	struct recipe recipe;
	enum oh_status status;
	int cancel;

	if (!comm)
		return OH__FAIL(OH_ERR_INVALID, "comm is NULL");
	cancel = oh__cancel_off();
	memset(&recipe, 0, sizeof(recipe));
	status = read_place(options, &recipe);
	if (!status) {
		status = read_settings(&recipe);
		status = status ? decline(&recipe, status)
				: create(&recipe, comm);
	}
	oh__cancel_restore(cancel);
	return status;
}

void oh_comm_destroy(struct oh_comm *comm)
{
	int cancel;

	if (!comm)
		return;
	cancel = oh__cancel_off();
	/* a forked child frees its copy and says nothing for the rank */
	if (*comm->in_owner)
		oh__mailbox_leave(&comm->mailbox);
	dissolve(comm);
	oh__cancel_restore(cancel);
}

enum oh_status oh_comm_abort(struct oh_comm *comm)
{
	enum oh_status status = oh__comm_check(comm);

	if (status)
		return status;
	oh__mailbox_fail(&comm->mailbox, OH_ERR_ABORTED, comm->mailbox.rank);
	atomic_store_explicit(&comm->mailbox.abort, true, memory_order_release);
	return OH_OK;
}

int oh_comm_rank(const struct oh_comm *comm)
{
	return comm ? comm->mailbox.rank : -1;
}

int oh_comm_ranks(const struct oh_comm *comm)
{
	return comm ? comm->mailbox.ranks : -1;
}

enum oh_status oh_comm_health(struct oh_comm *comm, struct oh_health *health)
{
	struct oh_health now = {.size = sizeof(now), .culprit = -1};
	enum oh_status status = oh__comm_check(comm);
	struct oh__mailbox *m;
	uint64_t failure;
	size_t size;
	int cancel;

	if (status)
		return status;
	if (!health)
		return OH__FAIL(OH_ERR_INVALID, "health is NULL");
	size = health->size;
	if (size < sizeof(size) || size > sizeof(now))
		return OH__FAIL(OH_ERR_INVALID,
				"health->size is %zu, set it to sizeof(struct "
				"oh_health)",
				size);
	m = &comm->mailbox;
	failure = atomic_load_explicit(&m->failure, memory_order_acquire);
	if (failure) {
		now.status = (enum oh_status)oh__state_status(failure);
		now.culprit = oh__state_culprit(failure);
	} else if (oh__gpu_gave_up(&comm->gpu)) {
		now.status = OH_ERR_TIMEOUT;
	}
	now.calls = atomic_load_explicit(&m->own->finished.word,
					 memory_order_relaxed) -
		    m->before;
	/* in this order: a rank leaves, then it ends */
	cancel = oh__cancel_off();
	now.lost_ranks = oh__life_lost(m->life, m->ranks);
	oh__cancel_restore(cancel);
	now.lost_ranks &= ~oh__ranks_left(m);
	now.size = size;
	memcpy(health, &now, size);
	return OH_OK;
}

enum oh_status oh_comm_alloc(struct oh_comm *comm, size_t bytes, void **pointer)
{
	enum oh_status status = oh__comm_check(comm);

	if (status)
		return status;
	if (!pointer)
		return OH__FAIL(OH_ERR_INVALID, "pointer is NULL");
	return oh__heap_alloc(&comm->heap, bytes, pointer);
}

enum oh_status oh_comm_free(struct oh_comm *comm, void *pointer)
{
	enum oh_status status = oh__comm_check(comm);

	if (status || !pointer)
		return status;
	return oh__heap_free(&comm->heap, pointer);
}
