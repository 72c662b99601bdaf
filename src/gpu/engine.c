/* SPDX-License-Identifier: MIT */
/*
 * The set-up of the GPU ranks of a communicator, and its end. The ranks meet
 * between the steps: what one finds out the next step of all depends on.
 */
#include "gpu/engine.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/descriptor.h"
#include "gpu/check.h"
#include "gpu/watch.h"

/* Who has a GPU? All know it after this. */
static enum oh_status exchange_facts(struct oh__gpu *gpu,
				     const struct oh__gpu_options *options)
{
	struct oh__gpu_facts own = gpu->facts[gpu->rank];
	enum oh_status status = options->exchange(options->context, &own,
						  sizeof(own), gpu->facts);

	if (status)
		return status;
	gpu->on = gpu->ranks > 1;
	for (int i = 0; i < gpu->ranks; i++) {
		struct oh__gpu_facts *facts = &gpu->facts[i];

		facts->address[sizeof(facts->address) - 1] = '\0';
		facts->name[sizeof(facts->name) - 1] = '\0';
		facts->why_not[sizeof(facts->why_not) - 1] = '\0';
		if (facts->present || !gpu->on)
			continue;
		gpu->on = false;
		snprintf(gpu->why_not, sizeof(gpu->why_not),
			 "rank %d has no GPU here: %s", i, facts->why_not);
	}
	return OH_OK;
}

bool oh__gpu_share_context(const struct oh__gpu *gpu, int rank)
{
	const struct oh__gpu_facts *mine = &gpu->facts[gpu->rank];
	const struct oh__gpu_facts *theirs = &gpu->facts[rank];

	return rank != gpu->rank && oh__gpu_share_gpu(mine, theirs) &&
	       oh__gpu_share_process(mine, theirs);
}

/* Once for each rank that finds another one on its GPU before it. */
static void warn_of_shared_gpu(const struct oh__gpu *gpu)
{
	const struct oh__gpu_facts *facts = gpu->facts;
	int first = 0;

	while (!oh__gpu_share_gpu(&facts[first], &facts[gpu->rank]))
		first++;
	if (first == gpu->rank)
		return;
	oh__log(OH_LOG_WARN, "ranks %d and %d are on one GPU (%s): %s", first,
		gpu->rank, facts[gpu->rank].address,
		oh__gpu_share_context(gpu, first)
			? "as they are of one process, a kernel or a graph "
			  "that is launched there for the first time, and "
			  "freeing memory, may wait for a kernel that waits "
			  "for it, until the deadline; use a process for each"
			: "they take turns of milliseconds there; give each "
			  "rank a GPU of its own, by cudaSetDevice or "
			  "oh_comm_options.device");
}

/* One of the two wants it so: nothing is wrong with the way. */
static bool is_asked_for(const struct oh__gpu_row *rows, int from, int to)
{
	uint32_t tried = rows[from].way[to].tried;

	return tried == OH__GPU_FORBIDDEN || tried == OH__GPU_NOT_SHARED ||
	       rows[to].way[from].tried == OH__GPU_FORBIDDEN;
}

/* How many ways go through host memory, and one of them; one that nobody asked
 * for if there is any. */
static int find_pinned(const struct oh__gpu *gpu, int *from, int *to)
{
	bool found = false;
	int pinned = 0;

	*from = *to = 0;
	for (int i = 0; i < gpu->ranks; i++)
		for (int k = 0; k < gpu->ranks; k++) {
			if (oh__gpu_passes(gpu->rows, i, k))
				continue;
			pinned++;
			if (!found) {
				*from = i;
				*to = k;
				found = !is_asked_for(gpu->rows, i, k);
			}
		}
	return pinned;
}

/* By one rank for all. */
static void tell_of_pinned(const struct oh__gpu *gpu)
{
	char why[sizeof(((struct oh_route_peer *)0)->reason)];
	int from, to, pinned = find_pinned(gpu, &from, &to);

	oh__gpu_say_way(gpu->rows, from, to, why, sizeof(why));
	oh__log(is_asked_for(gpu->rows, from, to) ? OH_LOG_INFO : OH_LOG_WARN,
		"%d of %d ways between ranks go through host memory, that from "
		"rank %d to %d because %s; oh_comm_explain has all",
		pinned, gpu->ranks * (gpu->ranks - 1), from, to, why);
}

/* How many ranks share this rank's GPU, itself too. */
static uint32_t sharers(const struct oh__gpu *gpu)
{
	uint32_t count = 0;

	for (int i = 0; i < gpu->ranks; i++)
		count += oh__gpu_share_gpu(&gpu->facts[gpu->rank],
					   &gpu->facts[i]);
	return count;
}

static enum oh_status
allocate(struct oh__gpu *gpu, const struct oh__gpu_options *options, int fds[2])
{
	const struct oh__cuda *cuda = gpu->device.cuda;
	struct oh__gpu_layout pinned;
	enum oh_status status;
	uint64_t bytes;

	if (!oh__gpu_layout_make(&gpu->layout, gpu->ranks, false,
				 options->table, options->budget_bytes) ||
	    !oh__gpu_layout_make(&pinned, gpu->ranks, true, options->table,
				 options->budget_bytes))
		return OH__FAIL(OH_ERR_SETTING,
				"ONEHOP_DEVICE_BYTES is %llu, too little for "
				"%d ranks",
				(unsigned long long)options->budget_bytes,
				gpu->ranks);
	/* which of the two serves is known after the check */
	bytes = gpu->layout.bytes > pinned.bytes ? gpu->layout.bytes
						 : pinned.bytes;
	status = oh__gpu_memory_create(&gpu->memory, &gpu->device,
				       &gpu->facts[gpu->rank], bytes,
				       pinned.bytes, fds);
	if (!status)
		status = OH__CUDA(cuda->cuMemAlloc_v2(
			&gpu->epochs, (size_t)OH__GPU_CLASSES *
					      OH__GPU_CLASS_EPOCHS *
					      sizeof(uint32_t)));
	if (!status)
		status = OH__CUDA(cuda->cuMemHostAlloc(
			(void **)&gpu->host, sizeof(*gpu->host),
			CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	if (status)
		return status;
	memset(gpu->host, 0, sizeof(*gpu->host));
	status = OH__CUDA(cuda->cuMemHostGetDevicePointer_v2(&gpu->host_device,
							     gpu->host, 0));
	if (!status)
		status = OH__CUDA(cuda->cuEventCreate(&gpu->order.event,
						      CU_EVENT_DISABLE_TIMING));
	return status;
}

static enum oh_status set_epochs(struct oh__gpu *gpu, uint32_t epoch)
{
	return OH__CUDA(gpu->device.cuda->cuMemsetD32Async(
		gpu->epochs, epoch,
		(size_t)OH__GPU_CLASSES * OH__GPU_CLASS_EPOCHS,
		gpu->device.stream));
}

/* Runs every kernel once on nothing: whatever a driver leaves for the first
 * launch is done. No mailbox is touched. */
static enum oh_status load_kernels(struct oh__gpu *gpu)
{
	const struct oh__gpu_device *device = &gpu->device;
	struct oh__kernel_arguments nothing = {
		.epoch = (uint32_t *)gpu->epochs,
	};
	struct oh__release_arguments no_release = {.epochs = 0};
	void *parameters[] = {&nothing}, *others[] = {&no_release};
	CUlaunchConfig config = {
		.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 32,
		.blockDimY = 1,
		.blockDimZ = 1,
		.hStream = device->stream,
	};
	enum oh_status status = OH__CUDA(device->cuda->cuLaunchKernelEx(
		&config, device->release, others, NULL));

	for (int i = 0; i < 2 * OH__GPU_ALGORITHMS * OH__GPU_DTYPES; i++) {
		int a = i / 2 / OH__GPU_DTYPES, t = i / 2 % OH__GPU_DTYPES;
		CUfunction kernel =
			i % 2 ? device->fast[a][t] : device->any[a][t];

		if (!status && kernel)
			status = OH__CUDA(device->cuda->cuLaunchKernelEx(
				&config, kernel, parameters, NULL));
	}
	return status;
}

static enum oh_status prepare(struct oh__gpu *gpu,
			      const struct oh__gpu_options *options, int fds[2])
{
	enum oh_status status = allocate(gpu, options, fds);

	if (!status)
		status = load_kernels(gpu);
	if (!status)
		status = set_epochs(gpu, options->first_epoch);
	if (!status)
		status = OH__CUDA(gpu->device.cuda->cuMemsetD32Async(
			gpu->memory.vram[gpu->rank], OH__WORD_EMPTY,
			gpu->memory.bytes / sizeof(uint32_t),
			gpu->device.stream));
	if (!status)
		status = oh__gpu_wait(&gpu->device, options->deadline_ns,
				      "the set-up of its mailbox");
	return status;
}

/* All know from the facts whether there is anything to hand round. */
static enum oh_status exchange_offers(struct oh__gpu *gpu,
				      const struct oh__gpu_options *options,
				      struct oh__gpu_offer *offers)
{
	struct oh__gpu_offer own;
	bool any = false;

	for (int i = 0; i < gpu->ranks; i++)
		any |= gpu->facts[i].share == OH__GPU_SHARE_IPC;
	if (!any)
		return OH_OK;
	memset(&own, 0, sizeof(own));
	if (gpu->facts[gpu->rank].share == OH__GPU_SHARE_IPC)
		own = oh__gpu_memory_offer(&gpu->memory, &gpu->device);
	return options->exchange(options->context, &own, sizeof(own), offers);
}

static void open_offer(struct oh__gpu *gpu, int peer,
		       const struct oh__gpu_offer *offer)
{
	struct oh__gpu_way *way = &gpu->rows[gpu->rank].way[peer];

	if (oh__gpu_share_process(&gpu->facts[gpu->rank], &gpu->facts[peer])) {
		way->tried = OH__GPU_SAME_PROCESS;
	} else if (offer->code) {
		way->code = offer->code;
		way->tried = OH__GPU_NO_HANDLE;
	} else {
		CUresult code = oh__gpu_memory_open(&gpu->memory, &gpu->device,
						    peer, &offer->handle);

		way->code = (int32_t)code;
		way->tried = code ? OH__GPU_NOT_OPENED : OH__GPU_OPENED;
	}
}

/* Maps what may be mapped; a refusal is noted. */
static void import(struct oh__gpu *gpu, const struct oh__gpu_options *options,
		   int taken[OH_MAX_RANKS][OH__SHARE_FDS],
		   const struct oh__gpu_offer *offers)
{
	struct oh__gpu_row *row = &gpu->rows[gpu->rank];

	for (int i = 0; i < gpu->ranks; i++) {
		struct oh__gpu_way *way = &row->way[i];

		if (i == gpu->rank) {
			way->tried = OH__GPU_SELF;
		} else if (options->forbidden[gpu->rank] >> i & 1) {
			way->tried = OH__GPU_FORBIDDEN;
		} else if (options->share == OH__GPU_SHARE_NONE) {
			way->tried = OH__GPU_NOT_SHARED;
		} else if (gpu->facts[i].share == OH__GPU_SHARE_IPC) {
			open_offer(gpu, i, &offers[i]);
		} else if (taken[i][0] < 0) {
			way->tried = OH__GPU_NOT_EXPORTED;
		} else {
			CUresult code = oh__gpu_memory_import(
				&gpu->memory, &gpu->device, i, taken[i][0]);

			way->code = (int32_t)code;
			way->tried = code ? OH__GPU_NOT_MAPPED : OH__GPU_MAPPED;
		}
		oh__fd_close(&taken[i][0]);
	}
}

/* The two steps of a check, all ranks together. */
static enum oh_status check(struct oh__gpu *gpu,
			    const struct oh__gpu_options *options,
			    struct oh__rendezvous *rendezvous,
			    const CUdeviceptr *memory, uint32_t nonce,
			    struct oh__gpu_row *row)
{
	struct oh__gpu_areas areas = {.own = memory[gpu->rank], .nonce = nonce};
	enum oh_status status = OH_OK;

	for (int i = 0; i < gpu->ranks; i++)
		areas.peer[i] = i == gpu->rank ? 0 : memory[i];
	if (areas.own)
		status = oh__gpu_check_write(gpu, &areas, options->deadline_ns);
	status = oh__rendezvous_agree(rendezvous, status);
	if (status)
		return status;
	if (areas.own)
		status = oh__gpu_check_read(gpu, &areas, options->deadline_ns,
					    row);
	return oh__rendezvous_agree(rendezvous, status);
}

static enum oh_status check_peers(struct oh__gpu *gpu,
				  const struct oh__gpu_options *options,
				  struct oh__rendezvous *rendezvous)
{
	struct oh__gpu_row own;
	enum oh_status status =
		check(gpu, options, rendezvous, gpu->memory.vram,
		      gpu->facts[0].nonce, &gpu->rows[gpu->rank]);

	if (status)
		return status;
	own = gpu->rows[gpu->rank];
	status = options->exchange(options->context, &own, sizeof(own),
				   gpu->rows);
	for (int i = 0; i < gpu->ranks; i++)
		for (int k = 0; k < gpu->ranks; k++)
			gpu->any_pinned |= !oh__gpu_passes(gpu->rows, i, k);
	if (!status && gpu->any_pinned && gpu->rank == 0)
		tell_of_pinned(gpu);
	return status;
}

/* Host memory for the pairs that need it: the own for who writes to it, the
 * others' to write to. */
static enum oh_status pin(struct oh__gpu *gpu,
			  int taken[OH_MAX_RANKS][OH__SHARE_FDS])
{
	int rank = gpu->rank;
	enum oh_status status =
		oh__gpu_memory_pin(&gpu->memory, &gpu->device, rank,
				   gpu->memory.pinned_fd, &gpu->facts[rank]);

	for (int i = 0; i < gpu->ranks && !status; i++)
		if (i != rank && !oh__gpu_passes(gpu->rows, rank, i))
			status = oh__gpu_memory_pin(&gpu->memory, &gpu->device,
						    i, taken[i][1],
						    &gpu->facts[i]);
	return status;
}

/* Host memory that does not pass has no other way behind it. */
static enum oh_status judge_pinned(const struct oh__gpu *gpu,
				   const struct oh__gpu_row *found)
{
	for (int i = 0; i < gpu->ranks; i++)
		if (found->way[i].wrong_stored &&
		    !oh__gpu_passes(gpu->rows, i, gpu->rank))
			return OH__FAIL(
				OH_ERR_SYSTEM,
				"of %d words that rank %d stored through host "
				"memory, rank %d read %u wrong",
				OH__CHECK_WORDS, i, gpu->rank,
				found->way[i].wrong_stored);
	return OH_OK;
}

static enum oh_status check_pinned(struct oh__gpu *gpu,
				   const struct oh__gpu_options *options,
				   struct oh__rendezvous *rendezvous,
				   int taken[OH_MAX_RANKS][OH__SHARE_FDS])
{
	struct oh__gpu_row found;
	enum oh_status status =
		oh__rendezvous_agree(rendezvous, pin(gpu, taken));

	memset(&found, 0, sizeof(found));
	if (!status)
		status = check(gpu, options, rendezvous, gpu->memory.pinned,
			       gpu->facts[0].nonce + 1, &found);
	if (!status)
		status = oh__rendezvous_agree(rendezvous,
					      judge_pinned(gpu, &found));
	return status;
}

/* Regions of classes with flags begin as zeros, the rest as nothing. */
static enum oh_status blank(struct oh__gpu *gpu)
{
	const struct oh__cuda *cuda = gpu->device.cuda;
	enum oh_status status = OH_OK;

	for (int c = 0; c < gpu->layout.classes && !status; c++) {
		const struct oh__gpu_class *class = &gpu->layout.class[c];
		uint64_t bytes = class->slot_bytes * (uint64_t)gpu->ranks;
		void *host = gpu->memory.host[gpu->rank];

		if (!class->flags_bytes)
			continue;
		if (host)
			memset((char *)host + class->offset, 0, bytes);
		status = OH__CUDA(cuda->cuMemsetD32Async(
			gpu->memory.vram[gpu->rank] + class->offset, 0,
			bytes / sizeof(uint32_t), gpu->device.stream));
	}
	return status;
}

/* How many blocks of the class the GPU holds at a time, whichever of its
 * kernels they run. */
static enum oh_status room_of(const struct oh__gpu *gpu,
			      const struct oh__gpu_class *class, uint32_t *room)
{
	const struct oh__gpu_device *device = &gpu->device;
	enum oh_status status = OH_OK;
	int least = INT_MAX, blocks;

	for (int i = 0; i < 2 * OH__GPU_DTYPES && !status; i++) {
		CUfunction kernel =
			i % 2 ? device->fast[class->algorithm][i / 2]
			      : device->any[class->algorithm][i / 2];

		if (!kernel)
			continue;
		status = OH__CUDA(
			device->cuda
				->cuOccupancyMaxActiveBlocksPerMultiprocessor(
					&blocks, kernel, (int)class->threads,
					0));
		if (!status && blocks < least)
			least = blocks;
	}
	*room = (uint32_t)(least < 1 ? 1 : least) *
		gpu->facts[gpu->rank].multiprocessors;
	return status;
}

/* Why all kernels wait for the kernel before to end; NULL if some may be placed
 * while it works. */
static const char *why_all_wait(const struct oh__gpu *gpu, uint32_t ranks)
{
	if (gpu->device.made_for < 90)
		return "the driver runs code made for less than 9.0 here";
	return ranks > 1 ? "ranks share this GPU" : NULL;
}

/* The same of a class's kernels, where others do not. */
static const char *why_it_waits(const struct oh__gpu *gpu,
				const struct oh__gpu_class *class)
{
	/* it is emptied by stores that only a kernel's end puts in order; flags
	 * need no emptying */
	if (gpu->any_pinned && (class->algorithm == OH__GPU_ONE_SHOT ||
				class->algorithm == OH__GPU_TWO_SHOT))
		return "host memory is emptied in order only by its end";
	return NULL;
}

/*
 * A kernel waits for other ranks' kernels, so those must find room beside
 * whatever waits on their GPU. Room for two of one size: another rank's or
 * communicator's of as many ranks runs beside it, in whatever order the ranks
 * start them. Room for three where the next call's kernel may be placed beside
 * its own: of every class, as the next call may be of any. One block is left to
 * what ends the waits.
 */
static enum oh_status set_grids(struct oh__gpu *gpu)
{
	const struct oh__gpu_facts *facts = &gpu->facts[gpu->rank];
	uint32_t ranks = sharers(gpu), room;
	const char *all_wait = why_all_wait(gpu, ranks);
	enum oh_status status = OH_OK;

	for (int c = 0; c < gpu->layout.classes && !status; c++) {
		const struct oh__gpu_class *class = &gpu->layout.class[c];
		uint32_t most = OH__GPU_CLASS_EPOCHS * 32 / class->threads;
		struct oh__gpu_grid *grid = &gpu->grid[c];
		uint32_t fit;

		status = room_of(gpu, class, &room);
		fit = (room - 1) / (all_wait ? 2 * ranks : 3);
		grid->blocks =
			class->blocks ? class->blocks : facts->multiprocessors;
		if (most > fit)
			most = fit;
		if (grid->blocks > most)
			grid->blocks = most ? most : 1;
		grid->waits = all_wait ? all_wait : why_it_waits(gpu, class);
	}
	return status;
}

static enum oh_status build(struct oh__gpu *gpu,
			    const struct oh__gpu_options *options,
			    struct oh__rendezvous *rendezvous,
			    enum oh_status status,
			    int taken[OH_MAX_RANKS][OH__SHARE_FDS])
{
	int fds[OH__SHARE_FDS] = {-1, -1, -1, -1};
	struct oh__gpu_offer offers[OH_MAX_RANKS];

	memset(offers, 0, sizeof(offers));
	warn_of_shared_gpu(gpu);
	if (!status)
		status = prepare(gpu, options, fds);
	status = oh__rendezvous_share(rendezvous, status, fds, taken);
	oh__fd_close(&fds[0]);
	if (!status)
		status = exchange_offers(gpu, options, offers);
	if (status)
		return status;
	import(gpu, options, taken, offers);
	status = check_peers(gpu, options, rendezvous);
	if (!status && gpu->any_pinned)
		status = check_pinned(gpu, options, rendezvous, taken);
	if (status)
		return status;
	oh__gpu_layout_make(&gpu->layout, gpu->ranks, gpu->any_pinned,
			    options->table, options->budget_bytes);
	status = blank(gpu);
	if (!status)
		status = oh__gpu_wait(&gpu->device, options->deadline_ns,
				      "the set-up of its mailbox");
	oh__fd_close(&gpu->memory.pinned_fd);
	if (!status)
		status = set_grids(gpu);
	if (!status)
		status = oh__gpu_watch_start(gpu);
	return oh__rendezvous_agree(rendezvous, status);
}

/* How this rank's memory is shared, among its facts. */
static enum oh_status choose_share(struct oh__gpu *gpu,
				   enum oh__gpu_share wanted)
{
	uint32_t *share = &gpu->facts[gpu->rank].share;
	CUstreamCaptureMode mode;
	enum oh_status status;

	*share = oh__gpu_share_of(&gpu->device, wanted);
	if (wanted != OH__GPU_SHARE_AUTO ||
	    *share != OH__GPU_SHARE_DESCRIPTOR || gpu->ranks == 1)
		return OH_OK;
	status = oh__gpu_enter(&gpu->device, &mode);
	if (status)
		return status;
	if (!oh__gpu_memory_exports(&gpu->device))
		*share = OH__GPU_SHARE_IPC;
	oh__gpu_leave(&gpu->device, &mode);
	return OH_OK;
}

enum oh_status oh__gpu_connect(struct oh__gpu *gpu,
			       const struct oh__gpu_options *options,
			       struct oh__rendezvous *rendezvous)
{
	int taken[OH_MAX_RANKS][OH__SHARE_FDS];
	CUstreamCaptureMode mode;
	enum oh_status status;

	memset(gpu, 0, sizeof(*gpu));
	memset(taken, -1, sizeof(taken));
	gpu->memory.pinned_fd = gpu->wake = -1;
	gpu->mailbox = options->mailbox;
	gpu->timeout_ns = options->call_timeout_ns;
	gpu->rank = options->mailbox->rank;
	gpu->ranks = options->mailbox->ranks;
	gpu->memory.rank = gpu->rank;
	if (!oh__mailbox_has_gpu(rendezvous)) {
		snprintf(gpu->why_not, sizeof(gpu->why_not),
			 "no rank had a CUDA context or named a device when "
			 "the communicator was made");
		return OH_OK;
	}
	status = oh__gpu_device_open(&gpu->device, options->device, gpu->ranks,
				     &gpu->facts[gpu->rank]);
	gpu->facts[gpu->rank].nonce = (uint32_t)oh__now_ns();
	if (!status && gpu->facts[gpu->rank].present)
		status = choose_share(gpu, options->share);
	status = oh__rendezvous_agree(rendezvous, status);
	if (!status)
		status = exchange_facts(gpu, options);
	/* of one rank the device is all that is needed */
	if (!status && gpu->ranks == 1)
		return OH_OK;
	if (!status && gpu->on) {
		enum oh_status entered = oh__gpu_enter(&gpu->device, &mode);

		/* the others are told if this rank cannot go on */
		status = build(gpu, options, rendezvous, entered, taken);
		if (!entered)
			oh__gpu_leave(&gpu->device, &mode);
		for (int i = 0; i < OH_MAX_RANKS; i++)
			for (int k = 0; k < OH__SHARE_FDS; k++)
				oh__fd_close(&taken[i][k]);
	}
	if (status || !gpu->on)
		oh__gpu_destroy(gpu);
	return status;
}

void oh__gpu_destroy(struct oh__gpu *gpu)
{
	const struct oh__cuda *cuda = gpu->device.cuda;
	CUstreamCaptureMode mode;

	gpu->on = false;
	if (!cuda)
		return;
	oh__gpu_watch_end(gpu);
	/* freeing waits for kernels: rather leave it all than hang, too */
	if (gpu->device.hangs)
		oh__fd_close(&gpu->memory.pinned_fd);
	if (!gpu->device.hangs && !oh__gpu_enter(&gpu->device, &mode)) {
		if (gpu->order.event)
			cuda->cuEventDestroy_v2(gpu->order.event);
		if (gpu->host)
			cuda->cuMemFreeHost(gpu->host);
		if (gpu->epochs)
			cuda->cuMemFree_v2(gpu->epochs);
		oh__gpu_memory_destroy(&gpu->memory, &gpu->device);
		oh__gpu_leave(&gpu->device, &mode);
	}
	oh__gpu_device_close(&gpu->device);
	gpu->host = NULL;
}

void oh__gpu_forget(struct oh__gpu *gpu)
{
	struct oh__gpu_memory *m = &gpu->memory;

	if (!gpu->device.cuda)
		return;
	for (int i = 0; i < OH_MAX_RANKS; i++)
		if (m->host[i])
			oh__memfd_unmap(m->host[i], m->pinned_bytes);
	oh__fd_close(&m->pinned_fd);
	oh__fd_close(&gpu->wake);
}
