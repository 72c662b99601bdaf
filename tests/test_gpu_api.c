/* SPDX-License-Identifier: MIT */
/*
 * The public interface on GPU memory beside the calls themselves: one thread
 * that owns several GPUs, managed memory, and what is explained of a call's
 * way.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu_ranks.h"

#define ROOM ((size_t)1 << 20)
#define MOST 4

struct queued {
	pthread_t thread;
	struct gpu_rank *rank;
	const struct gpu_case *test;
	enum oh_status status;
};

static void *queue_one(void *context)
{
	struct queued *q = context;

	q->rank->cuda->cuCtxSetCurrent(q->rank->context);
	q->status = gpu_rank_call(q->rank, q->test, q->rank->stream[0]);
	return NULL;
}

/* The calls of all ranks; on the fake, whose kernels run as they are queued,
 * each in a thread. */
static bool queue_all(struct gpu_rank *g, int ranks,
		      const struct gpu_case *test)
{
	struct queued q[MOST];
	bool good = true;

	for (int i = 0; i < ranks; i++) {
		q[i] = (struct queued){.rank = &g[i], .test = test};
#ifdef OH_TESTS_FAKE
		good &= !pthread_create(&q[i].thread, NULL, queue_one, &q[i]);
	}
	for (int i = 0; i < ranks && good; i++) {
		pthread_join(q[i].thread, NULL);
#else
		queue_one(&q[i]);
#endif
		good &= !q[i].status;
	}
	return good;
}

/* Of one rank a call copies, the bits of a NaN too. */
static void try_copy(struct gpu_rank *g)
{
	struct gpu_case test = {
		.count = 500, .dtype = OH_BF16, .seed = g->self->seed};

	if (gpu_rank_put(g, &test, g->stream[0]) &&
	    ranks_fine(g->self, gpu_rank_call(g, &test, g->stream[0]),
		       "oh_all_reduce") &&
	    GPU_FINE(g, cuStreamSynchronize(g->stream[0])) &&
	    GPU_FINE(g, cuMemcpyDtoHAsync_v2(g->got, g->recv, 1000,
					     g->stream[0])) &&
	    GPU_FINE(g, cuStreamSynchronize(g->stream[0])))
		ranks_check(g->self, !memcmp(g->got, g->data, 1000),
			    "other bits");
}

static void try_sizes(struct gpu_rank *g, int ranks)
{
	static const size_t counts[] = {1, 500, 7000, 60000};

	for (int n = 0; n < 4; n++) {
		struct gpu_case test = {.count = counts[n],
					.dtype = OH_BF16,
					.seed = g->self->seed + (uint64_t)n};
		bool good = true;

		for (int i = 0; i < ranks; i++) {
			g[i].cuda->cuCtxSetCurrent(g[i].context);
			good &= gpu_rank_put(&g[i], &test, g[i].stream[0]);
		}
		good = good && queue_all(g, ranks, &test);
		for (int i = 0; i < ranks && good; i++) {
			g[i].cuda->cuCtxSetCurrent(g[i].context);
			good &= gpu_rank_right(&g[i], &test, g[i].stream[0]);
		}
		ranks_check(g->self, good, "%zu elements", counts[n]);
	}
}

static void one_thread(struct ranks_self *self)
{
	int ranks = atoi(self->argument), device[MOST];
	struct oh_comm *comms[MOST] = {NULL};
	struct ranks_self part[MOST];
	struct gpu_rank g[MOST];
	bool good = true;

	for (int i = 0; i < ranks; i++) {
		part[i] = *self;
		part[i].rank = i;
		part[i].ranks = ranks;
		good &= gpu_rank_open(&g[i], &part[i], i, ROOM);
		device[i] = g[i].ordinal;
	}
	if (good && ranks_fine(self, oh_comm_create_all(ranks, device, comms),
			       "oh_comm_create_all")) {
		for (int i = 0; i < ranks; i++)
			g[i].comm = comms[i];
		if (ranks == 1)
			try_copy(g);
		else
			try_sizes(g, ranks);
	}
	for (int i = 0; i < ranks; i++)
		gpu_rank_end(&g[i]);
}

static void refusals(struct ranks_self *self)
{
	int devices[2] = {0, 99};
	struct oh_comm *comms[2] = {NULL, NULL};

	ranks_check(self,
		    oh_comm_create_all(0, NULL, comms) == OH_ERR_INVALID &&
			    oh_comm_create_all(17, NULL, comms) ==
				    OH_ERR_INVALID &&
			    oh_comm_create_all(2, NULL, NULL) == OH_ERR_INVALID,
		    "arguments that mean nothing");
	ranks_check(self,
		    oh_comm_create_all(2, devices, comms) == OH_ERR_INVALID &&
			    !comms[0] && !comms[1],
		    "a device that is not there");
	ranks_check(self, strstr(oh_last_error()->message, "device is 99"),
		    "the message is: %s", oh_last_error()->message);
}

static struct oh_route explained(struct gpu_rank *g,
				 enum oh_collective collective, size_t bytes,
				 enum oh_dtype dtype)
{
	struct oh_route route = {.size = sizeof(route),
				 .memory = OH_MEMORY_DEVICE};

	ranks_fine(g->self,
		   oh_comm_explain(g->comm, collective, bytes, dtype, OH_SUM,
				   &route),
		   "oh_comm_explain");
	return route;
}

/* What a caller gets who was built before there were GPU ranks. */
static void explain_to_old(struct gpu_rank *g)
{
	struct oh_route route = {.size = offsetof(struct oh_route, memory)};

	ranks_fine(g->self,
		   oh_comm_explain(g->comm, OH_ALL_REDUCE, 64, OH_F32, OH_SUM,
				   &route),
		   "oh_comm_explain");
	ranks_check(g->self,
		    !strcmp(route.placement, "shm") && !route.peer_count,
		    "an old caller is told of %s", route.placement);
	route.size = sizeof(route);
	route.memory = (enum oh_memory)2;
	ranks_check(g->self,
		    oh_comm_explain(g->comm, OH_ALL_REDUCE, 64, OH_F32, OH_SUM,
				    &route) == OH_ERR_INVALID,
		    "a memory that is none");
}

/* Whether kernels are placed early, or why not. An own GPU of 9.0 and up has
 * code of its own. */
static void explained_place(struct gpu_rank *g, const struct oh_route *route)
{
	const char *due = ", placed while the kernel before works";
	int major = 0;

	GPU_FINE(g,
		 cuDeviceGetAttribute(
			 &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
			 g->device));
	if (major < 9)
		due = "code made for less than 9.0";
	else if (gpu_ranks_devices() == 1)
		due = ": ranks share this GPU";
	else if (!strcmp(route->placement, "pinned") &&
		 !strcmp(route->algorithm, "one-shot"))
		due = ": host memory is emptied";
	ranks_check(g->self, strstr(route->row, due), "%s", route->row);
}

static void explained_ways(struct ranks_self *self)
{
	const char *placement = self->argument;
	bool pinned = !strcmp(placement, "pinned");
	struct oh_route small, large, none;
	int other = !self->rank;
	struct gpu_rank g;

	if (gpu_rank_begin(&g, self, ROOM)) {
		small = explained(&g, OH_ALL_REDUCE, 64, OH_BF16);
		large = explained(&g, OH_ALL_REDUCE, 100 << 20, OH_F32);
		ranks_check(self,
			    !strcmp(small.placement, placement) &&
				    small.peer_count == 2 &&
				    !strcmp(small.peers[other].placement,
					    placement) &&
				    !strcmp(small.peers[self->rank].placement,
					    "self"),
			    "placed %s, %s to the other", small.placement,
			    small.peers[other].placement);
		ranks_check(self,
			    strstr(small.peers[other].reason,
				   pinned ? "ONEHOP_FORBID_PEER" : "arrived"),
			    "because: %s", small.peers[other].reason);
		ranks_check(self,
			    strstr(small.evidence,
				   getenv("ONEHOP_DEVICE_TABLE")
					   ? "is from ONEHOP_DEVICE_TABLE"
					   : "is from a sweep on two H200"),
			    "%s", small.evidence);
		ranks_check(self,
			    small.rounds == 1 && large.rounds > 1 &&
				    strcmp(small.algorithm, large.algorithm) &&
				    strstr(small.row, small.algorithm) &&
				    small.alternative_count,
			    "%s, %s", small.row, large.row);
		explained_place(&g, &small);
		none = explained(&g, OH_ALL_GATHER, 64, OH_BF16);
		ranks_check(self,
			    !strcmp(none.algorithm, "none") &&
				    strstr(none.row, "only all-reduce"),
			    "%s: %s", none.algorithm, none.row);
		none = explained(&g, OH_ALL_REDUCE, 64, OH_I32);
		ranks_check(self,
			    !strcmp(none.algorithm, "none") &&
				    strstr(none.row, "i32"),
			    "%s: %s", none.algorithm, none.row);
		explain_to_old(&g);
	}
	gpu_rank_end(&g);
}

/* Memory that a GPU and the processor use by the same address; what the driver
 * allocates is left to the end of the process. */
static void managed(struct ranks_self *self)
{
	struct gpu_case test = {
		.count = 3000, .dtype = OH_BF16, .seed = self->seed};
	CUresult (*allocate)(CUdeviceptr * pointer, size_t bytes,
			     unsigned flags);
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	void *symbol = dlsym(driver, "cuMemAllocManaged");
	CUdeviceptr memory = 0;
	struct gpu_rank g;

	memcpy(&allocate, &symbol, sizeof(symbol));
	if (gpu_rank_begin(&g, self, ROOM) &&
	    ranks_check(self, symbol && !allocate(&memory, ROOM, 1),
			"no memory")) {
		CUdeviceptr send = g.send, recv = g.recv;

		g.send = memory;
		gpu_rank_try(&g, &test, g.stream[0]);
		g.send = send;
		g.recv = memory;
		gpu_rank_try(&g, &test, g.stream[0]);
		test.in_place = true;
		gpu_rank_try(&g, &test, g.stream[0]);
		g.recv = recv;
	}
	gpu_rank_end(&g);
}

/* Each process sees one GPU, and calls it 0. */
static void visible(struct ranks_self *self)
{
	struct gpu_case test = {
		.count = 5000, .dtype = OH_BF16, .seed = self->seed};
	int devices = atoi(self->argument);
	struct gpu_rank g;
	char text[16];

	snprintf(text, sizeof(text), "%d", self->rank % devices);
	setenv("CUDA_VISIBLE_DEVICES", text, 1);
	if (gpu_rank_open(&g, self, 0, ROOM)) {
		g.comm = ranks_comm(self, 0);
		if (g.comm)
			gpu_rank_try(&g, &test, g.stream[0]);
	}
	gpu_rank_end(&g);
}

/* The level at which the log says what goes through host memory. */
static void note_level(enum oh_log_level level, const char *line, void *context)
{
	if (strstr(line, "2 of 2 ways between ranks"))
		*(enum oh_log_level *)context = level;
}

/* One rank alone forbids what both have then. */
static void forbidden_by_one(struct ranks_self *self)
{
	struct gpu_case test = {
		.count = 5000, .dtype = OH_BF16, .seed = self->seed};
	enum oh_log_level level = OH_LOG_OFF;
	struct gpu_rank g;

	oh_set_log(OH_LOG_INFO, note_level, &level);
	if (self->rank == 1)
		setenv("ONEHOP_FORBID_PEER", "0-1", 1);
	if (gpu_rank_begin(&g, self, ROOM))
		gpu_rank_try(&g, &test, g.stream[0]);
	if (self->rank == 0)
		ranks_check(self, level == OH_LOG_INFO, "said at level %d",
			    (int)level);
	gpu_rank_end(&g);
	oh_set_log(OH_LOG_OFF, NULL, NULL);
}

/* A rank without a GPU: the others are told why there is no way. */
static void one_without(struct ranks_self *self)
{
	struct gpu_rank g;
	struct oh_route route;

	if (self->rank == 0) {
		if (gpu_rank_begin(&g, self, ROOM)) {
			route = explained(&g, OH_ALL_REDUCE, 64, OH_BF16);
			ranks_check(
				self,
				!strcmp(route.algorithm, "none") &&
					strstr(route.row, "rank 1") &&
					strstr(route.row, "no CUDA context"),
				"%s: %s", route.algorithm, route.row);
		}
		gpu_rank_end(&g);
	} else {
		oh_comm_destroy(ranks_comm(self, 0));
	}
}

/* What a call in a stream that cannot be is, and that it did not count. */
static void refused_stream(struct gpu_rank *g, CUstream stream,
			   const char *what)
{
	struct gpu_case test = {.count = 100, .dtype = OH_F32};
	enum oh_status status = gpu_rank_call(g, &test, stream);

	ranks_check(g->self, status == OH_ERR_INVALID, "%s: %s", what,
		    oh_status_name(status));
}

/* A call behind one in the default stream, which must not be asked for now. */
static void refused_after_default(struct gpu_rank *g)
{
	CUstream stream;
	CUgraph graph;

	GPU_FINE(g, cuStreamCreateWithPriority(&stream, CU_STREAM_DEFAULT, 0));
	GPU_FINE(g, cuStreamBeginCapture_v2(
			    stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	refused_stream(g, g->stream[0],
		       "behind the default one, of which another is captured");
	GPU_FINE(g, cuStreamEndCapture(stream, &graph));
	GPU_FINE(g, cuGraphDestroy(graph));
	g->cuda->cuStreamDestroy_v2(stream);
}

/* Streams of which nothing good can come: rank 0 tries them alone, and is not a
 * call ahead of the other then. */
static void streams(struct ranks_self *self)
{
	struct gpu_case test = {
		.count = 3000, .dtype = OH_BF16, .seed = self->seed};
	CUcontext other;
	CUstream stream;
	CUgraph graph;
	CUdevice device;
	struct gpu_rank g;

	if (gpu_rank_begin(&g, self, ROOM) &&
	    gpu_rank_try(&g, &test, g.stream[0]) && self->rank == 0) {
		GPU_FINE(&g, cuStreamBeginCapture_v2(
				     g.stream[0],
				     CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
		refused_stream(&g, g.stream[1], "the last one's is captured");
		GPU_FINE(&g, cuStreamEndCapture(g.stream[0], &graph));
		GPU_FINE(&g, cuGraphDestroy(graph));
		GPU_FINE(&g, cuStreamCreateWithPriority(&stream,
							CU_STREAM_DEFAULT, 0));
		GPU_FINE(&g,
			 cuStreamBeginCapture_v2(
				 stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
		refused_stream(&g, NULL,
			       "the default one, of which another is "
			       "captured");
		GPU_FINE(&g, cuStreamEndCapture(stream, &graph));
		GPU_FINE(&g, cuGraphDestroy(graph));
		g.cuda->cuStreamDestroy_v2(stream);
#ifdef OH_TESTS_FAKE
		/* a driver follows it */
		refused_stream(&g, (CUstream)&g, "no stream");
#endif
		if (gpu_ranks_devices() > 1) {
			device = (g.ordinal + 1) % gpu_ranks_devices();
			GPU_FINE(&g, cuDevicePrimaryCtxRetain(&other, device));
			GPU_FINE(&g, cuCtxSetCurrent(other));
			GPU_FINE(&g,
				 cuStreamCreateWithPriority(
					 &stream, CU_STREAM_NON_BLOCKING, 0));
			refused_stream(&g, stream, "another GPU's");
			GPU_FINE(&g, cuStreamBeginCapture_v2(
					     stream,
					     CU_STREAM_CAPTURE_MODE_RELAXED));
			refused_stream(&g, stream, "another GPU's, captured");
			GPU_FINE(&g, cuStreamEndCapture(stream, &graph));
			GPU_FINE(&g, cuGraphDestroy(graph));
			g.cuda->cuStreamDestroy_v2(stream);
			g.cuda->cuDevicePrimaryCtxRelease_v2(device);
			GPU_FINE(&g, cuCtxSetCurrent(g.context));
		}
	}
	if (g.comm) {
		ranks_barrier(self);
		gpu_rank_try(&g, &test, g.stream[1]);
		gpu_rank_try(&g, &test, NULL);
		if (self->rank == 0)
			refused_after_default(&g);
		ranks_barrier(self);
		gpu_rank_try(&g, &test, g.stream[1]);
	}
	gpu_rank_end(&g);
}

static int threads(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[128];
	int count = 0;

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "Threads: %d", &count);
	if (file)
		fclose(file);
	return count;
}

/* A child that frees its copy takes nothing from its parent. */
static void forked(struct ranks_self *self)
{
	struct gpu_case test = {
		.count = 3000, .dtype = OH_BF16, .seed = self->seed};
	struct gpu_rank g;
	int before, status = 1;
	pid_t child;

	if (gpu_rank_begin(&g, self, ROOM)) {
		before = threads();
		child = fork();
		if (!child) {
			oh_comm_destroy(g.comm);
			_exit(0);
		}
		waitpid(child, &status, 0);
		usleep(100000);
		ranks_check(self, !status && threads() == before,
			    "the child ended with %x; %d threads, %d before",
			    (unsigned)status, threads(), before);
		gpu_rank_try(&g, &test, g.stream[0]);
	}
	gpu_rank_end(&g);
}

static const struct ranks_case cases[] = {
	{"one_thread", one_thread},
	{"refusals", refusals},
	{"explained", explained_ways},
	{"one_without", one_without},
	{"visible", visible},
	{"streams", streams},
	{"forked", forked},
	{"forbidden_by_one", forbidden_by_one},
	{"managed", managed},
	{NULL, NULL},
};

static void run(int index, int ranks, const char *argument, const char *text)
{
	struct ranks_options options = {
		.ranks = ranks, .argument = argument, .text = text};

	ranks_processes(&cases[index], &options);
}

int main(int argc, char **argv)
{
	char devices[16];

	gpu_ranks_main(argc, argv, cases);
	run(0, 1, "1", "one thread, a rank");
	run(0, 1, "2", "one thread, two ranks");
	run(0, 1, "4", "one thread, four ranks");
	run(2, 2, "vram-dst", "peers' memory is explained");
	setenv("ONEHOP_FORBID_PEER", "all", 1);
	run(0, 1, "2", "one thread, two ranks, peers forbidden");
	run(2, 2, "pinned", "host memory is explained");
	unsetenv("ONEHOP_FORBID_PEER");
	run(3, 2, "", "a rank without a GPU is explained");
	setenv("ONEHOP_DEVICE_TABLE", "8K:one-shot:1x64:0,1M:two-shot:8x64:0",
	       1);
	run(2, 2, "vram-dst", "a table that is given is explained");
	setenv("ONEHOP_FORBID_PEER", "all", 1);
	run(2, 2, "pinned", "the same in host memory");
	unsetenv("ONEHOP_FORBID_PEER");
	unsetenv("ONEHOP_DEVICE_TABLE");
	run(7, 2, "", "what one rank forbids is no warning");
	run(8, 2, "", "managed memory is a GPU's");
	snprintf(devices, sizeof(devices), "%d", gpu_ranks_devices());
	run(4, 3, devices, "each process sees one GPU");
	run(6, 2, "", "a forked child frees its copy");
	setenv("ONEHOP_LOG", "off", 1);
	run(5, 2, "", "streams that cannot be are refused, and do not count");
	run(1, 1, "", "create_all refuses");
	return gpu_ranks_end(tap_done());
}
