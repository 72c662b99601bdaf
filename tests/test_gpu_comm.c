/* SPDX-License-Identifier: MIT */
/*
 * All-reduce on GPU memory through the public calls: the processor's bits at
 * every size, alignment, type, placement and number of ranks; streams, graphs,
 * rounds, epochs that wrap; and what is refused.
 *
 *	--long	more rows, also on real GPUs
 */
#include <stdlib.h>
#include <string.h>

#include "gpu_ranks.h"
#include "kernels/arguments.h"

#ifdef OH_TESTS_FAKE
#include "fakecuda.h"
#endif

#define ROOM ((size_t)4 << 20)

static const enum oh_dtype dtypes[] = {OH_F32, OH_F16, OH_BF16};

/* Every size class, at some alignments. */
static void exact(struct ranks_self *self)
{
	static const size_t counts[] = {
		1, 3, 8, 17, 128, 513, 4096, 4099, 16384, 40000, 65536, 200001};
	static const size_t places[] = {0, 16, 4, 6, 7};
	struct gpu_rank g;
	int n = 0;

	if (gpu_rank_begin(&g, self, ROOM))
		for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++)
			/* each type, and each place of the results */
			for (int t = 0; t < 9;
			     t += ranks_quick() ? 4 : 1, n++) {
				struct gpu_case test = {
					.count = counts[c],
					.dtype = dtypes[t % 3],
					.op = n % 4 ? OH_SUM : OH_AVG,
					/* each rank's own: one may run another
					 * kernel than the next */
					.send_at = places[(n + self->rank) % 5],
					.recv_at =
						places[t / 3 + self->rank % 2],
					.in_place = n % 5 == 0,
					.seed = self->seed + (uint64_t)n,
				};

				if (!gpu_rank_try(&g, &test, g.stream[0]))
					break;
			}
	gpu_rank_end(&g);
}

/* Many calls in a row, now on one stream, now on the other, without a look at
 * the results before the end. */
static void streams(struct ranks_self *self)
{
	enum {
		CALLS = 40,
		BYTES = 32768
	};
	struct gpu_case tests[CALLS];
	struct gpu_rank g;

	if (!gpu_rank_begin(&g, self, ROOM))
		goto out;
	for (int n = 0; n < CALLS; n++) {
		tests[n] = (struct gpu_case){
			.count = 1 +
				 (size_t)(self->seed * 7 + (uint64_t)n * 911) %
					 (BYTES / 4),
			.dtype = OH_F32,
			.send_at = (size_t)n * BYTES,
			.recv_at = (size_t)n * BYTES,
			.seed = self->seed + (uint64_t)n,
		};
		if (!gpu_rank_put(&g, &tests[n], g.stream[n / 3 % 2]) ||
		    /* the buffer on the host is used again */
		    !GPU_FINE(&g, cuStreamSynchronize(g.stream[n / 3 % 2])))
			goto out;
	}
	for (int n = 0; n < CALLS; n++)
		if (!ranks_fine(
			    self,
			    gpu_rank_call(&g, &tests[n], g.stream[n / 3 % 2]),
			    "oh_all_reduce"))
			goto out;
	for (int n = 0; n < CALLS; n++)
		if (!gpu_rank_right(&g, &tests[n], g.stream[n / 3 % 2]))
			break;
out:
	gpu_rank_end(&g);
}

/* A capture with a call in it that is thrown away. */
static bool capture_in_vain(struct gpu_rank *g, const struct gpu_case *test)
{
	CUstream stream;
	CUgraph graph;

	return GPU_FINE(g, cuStreamCreateWithPriority(
				   &stream, CU_STREAM_NON_BLOCKING, 0)) &&
	       GPU_FINE(g,
			cuStreamBeginCapture_v2(
				stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) &&
	       ranks_fine(g->self, gpu_rank_call(g, test, stream),
			  "captured in vain") &&
	       GPU_FINE(g, cuStreamEndCapture(stream, &graph)) &&
	       GPU_FINE(g, cuGraphDestroy(graph)) &&
	       GPU_FINE(g, cuStreamDestroy_v2(stream));
}

#ifdef OH_TESTS_FAKE
/* What the next node of a stream that is being captured will follow. */
static CUgraphNode last_node(struct gpu_rank *g, CUstream stream)
{
	CUstreamCaptureStatus status;
	const CUgraphNode *nodes = NULL;
	CUgraph graph;
	cuuint64_t id;
	size_t count = 0;

	GPU_FINE(g, cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph,
					      &nodes, &count));
	return count ? nodes[0] : NULL;
}

static void check_order(struct gpu_rank *g)
{
	ranks_check(g->self,
		    fakecuda_follows(last_node(g, g->stream[1]),
				     last_node(g, g->stream[0])),
		    "the second call of a capture does not follow the first");
}
#else
static void check_order(struct gpu_rank *g)
{
	(void)g;
}
#endif

/* Two calls on two streams of one capture, the second behind the first only by
 * the library's own edge; between them calls in many other captures. */
static bool capture(struct gpu_rank *g, const struct gpu_case *tests,
		    CUgraph *graph)
{
	CUevent fork, join;
	bool fine;

	fine = GPU_FINE(g, cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING)) &&
	       GPU_FINE(g, cuEventCreate(&join, CU_EVENT_DISABLE_TIMING)) &&
	       GPU_FINE(g, cuStreamBeginCapture_v2(
				   g->stream[0],
				   CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) &&
	       GPU_FINE(g, cuEventRecord(fork, g->stream[0])) &&
	       GPU_FINE(g, cuStreamWaitEvent(g->stream[1], fork, 0)) &&
	       ranks_fine(g->self, gpu_rank_call(g, &tests[0], g->stream[0]),
			  "captured");
	for (int i = 0; i < 20 && fine; i++)
		fine = capture_in_vain(g, &tests[1]);
	fine = fine &&
	       ranks_fine(g->self, gpu_rank_call(g, &tests[1], g->stream[1]),
			  "captured on another stream");
	if (fine)
		check_order(g);
	return fine && GPU_FINE(g, cuEventRecord(join, g->stream[1])) &&
	       GPU_FINE(g, cuStreamWaitEvent(g->stream[0], join, 0)) &&
	       GPU_FINE(g, cuStreamEndCapture(g->stream[0], graph)) &&
	       GPU_FINE(g, cuEventDestroy_v2(fork)) &&
	       GPU_FINE(g, cuEventDestroy_v2(join));
}

/* Replays with new data, eager calls between them. */
static void graphs(struct ranks_self *self)
{
	struct gpu_case tests[3] = {
		{.count = 5000, .dtype = OH_BF16},
		{.count = 100,
		 .dtype = OH_F32,
		 .send_at = 65536,
		 .recv_at = 65536},
		{.count = 40000,
		 .dtype = OH_F16,
		 .send_at = 131072,
		 .recv_at = 131072},
	};
	CUgraphExec executable;
	CUgraph graph;
	struct gpu_rank g;

	if (!gpu_rank_begin(&g, self, ROOM) || !capture(&g, tests, &graph) ||
	    !GPU_FINE(&g, cuGraphInstantiateWithFlags(&executable, graph, 0)))
		goto out;
	for (int n = 0; n < 20; n++) {
		for (int i = 0; i < 3; i++) {
			tests[i].seed = self->seed + (uint64_t)(n * 3 + i);
			if (!gpu_rank_put(&g, &tests[i], g.stream[0]) ||
			    !GPU_FINE(&g, cuStreamSynchronize(g.stream[0])))
				goto out;
		}
		if (!GPU_FINE(&g, cuGraphLaunch(executable, g.stream[0])) ||
		    !ranks_fine(self, gpu_rank_call(&g, &tests[2], g.stream[0]),
				"eager"))
			goto out;
		for (int i = 0; i < 3; i++)
			if (!gpu_rank_right(&g, &tests[i], g.stream[0]))
				goto out;
	}
	g.cuda->cuGraphExecDestroy(executable);
	g.cuda->cuGraphDestroy(graph);
out:
	gpu_rank_end(&g);
}

/* Longer than any mailbox, with an end that fills no pack. */
static void rounds(struct ranks_self *self)
{
	struct gpu_case test = {.count = ((size_t)12 << 20) + 5,
				.dtype = OH_BF16,
				.seed = self->seed};
	struct gpu_rank g;

	if (gpu_rank_begin(&g, self, (size_t)28 << 20)) {
		gpu_rank_try(&g, &test, g.stream[0]);
		test.in_place = true;
		test.op = OH_AVG;
		gpu_rank_try(&g, &test, g.stream[1]);
	}
	gpu_rank_end(&g);
}

/* Host memory goes the host's way on the same communicator. */
static void both(struct ranks_self *self)
{
	struct gpu_case test = {
		.count = 1000, .dtype = OH_F32, .seed = self->seed};
	struct gpu_rank g;
	float one = 1;

	if (gpu_rank_begin(&g, self, ROOM))
		for (int n = 0; n < 5; n++) {
			if (!gpu_rank_try(&g, &test, g.stream[0]) ||
			    !ranks_fine(self,
					oh_all_reduce(g.comm, &one, &one, 1,
						      OH_F32, OH_MAX, NULL),
					"on the host"))
				break;
			test.seed++;
		}
	gpu_rank_end(&g);
}

static void refuse(struct gpu_rank *g, const char *what, enum oh_status due,
		   const void *send, void *recv, enum oh_dtype dtype,
		   enum oh_op op)
{
	enum oh_status status =
		oh_all_reduce(g->comm, send, recv, 16, dtype, op, g->stream[0]);

	ranks_check(g->self, status == due, "%s: %s, not %s (%s)", what,
		    oh_status_name(status), oh_status_name(due),
		    oh_last_error()->message);
}

static void refused(struct ranks_self *self)
{
	struct gpu_case test = {
		.count = 64, .dtype = OH_F32, .seed = self->seed};
	struct gpu_rank g;
	float host[16] = {0};

	if (!gpu_rank_begin(&g, self, ROOM))
		goto out;
	refuse(&g, "host to GPU", OH_ERR_INVALID, host, (void *)g.recv, OH_F32,
	       OH_SUM);
	refuse(&g, "GPU to host", OH_ERR_INVALID, (void *)g.send, host, OH_F32,
	       OH_SUM);
	refuse(&g, "host with a stream", OH_ERR_INVALID, host, host, OH_F32,
	       OH_SUM);
	refuse(&g, "a type to come", OH_ERR_UNSUPPORTED, (void *)g.send,
	       (void *)g.recv, OH_I32, OH_SUM);
	refuse(&g, "an operation to come", OH_ERR_UNSUPPORTED, (void *)g.send,
	       (void *)g.recv, OH_F32, OH_MAX);
	/* none of them has spoiled anything */
	gpu_rank_try(&g, &test, g.stream[0]);
out:
	gpu_rank_end(&g);
}

/* Memory of a GPU that the communicator was not made for. */
static void other_gpu(struct ranks_self *self)
{
	struct gpu_rank g;
	CUdeviceptr memory = 0;
	CUcontext context;
	CUdevice device;

	if (gpu_rank_begin(&g, self, ROOM) &&
	    GPU_FINE(&g, cuDeviceGet(&device,
				     (g.ordinal + 1) % gpu_ranks_devices())) &&
	    GPU_FINE(&g, cuDevicePrimaryCtxRetain(&context, device)) &&
	    GPU_FINE(&g, cuCtxSetCurrent(context)) &&
	    GPU_FINE(&g, cuMemAlloc_v2(&memory, 4096))) {
		for (int n = 0; n < 3; n++) {
			void *send = (void *)(n == 1 ? g.send : memory);
			void *recv = (void *)(n == 2 ? g.recv : memory);

			refuse(&g, "another GPU's", OH_ERR_INVALID, send, recv,
			       OH_F32, OH_SUM);
			ranks_check(self,
				    strstr(oh_last_error()->message,
					   n == 1 ? "recv is memory of device"
						  : "send is memory of device"),
				    "%s", oh_last_error()->message);
		}
		g.cuda->cuMemFree_v2(memory);
		g.cuda->cuDevicePrimaryCtxRelease_v2(device);
		g.cuda->cuCtxSetCurrent(g.context);
	}
	gpu_rank_end(&g);
}

/* One rank has no context when it makes its communicator. */
static void one_without(struct ranks_self *self)
{
	struct gpu_rank g;
	struct oh_comm *other;

	if (!gpu_rank_begin(&g, self, ROOM))
		goto out;
	if (self->rank == 1)
		g.cuda->cuCtxSetCurrent(NULL);
	other = ranks_comm(self, 1);
	g.cuda->cuCtxSetCurrent(g.context);
	if (other) {
		enum oh_status status =
			oh_all_reduce(other, (void *)g.send, (void *)g.recv, 16,
				      OH_F32, OH_SUM, g.stream[0]);

		ranks_check(self,
			    (status == OH_ERR_UNSUPPORTED) &&
				    strstr(oh_last_error()->message, "rank 1"),
			    "%s: %s", oh_status_name(status),
			    oh_last_error()->message);
	}
	oh_comm_destroy(other);
out:
	gpu_rank_end(&g);
}

/* "PLACEMENT WORDS": where this rank's data goes to the next one, with words
 * of the reason; and calls of every class. */
static void placed(struct ranks_self *self)
{
	static const size_t counts[] = {16, 3000, 20000, 400000};
	struct oh_route route = {.size = sizeof(route),
				 .memory = OH_MEMORY_DEVICE};
	const struct oh_route_peer *next =
		&route.peers[(self->rank + 1) % self->ranks];
	const char *words = strchr(self->argument, ' ') + 1;
	struct gpu_rank g;

	if (!gpu_rank_begin(&g, self, ROOM) ||
	    !ranks_fine(self,
			oh_comm_explain(g.comm, OH_ALL_REDUCE, 64, OH_BF16,
					OH_SUM, &route),
			"oh_comm_explain"))
		goto out;
	ranks_check(self,
		    !strncmp(self->argument, next->placement,
			     strlen(next->placement)) &&
			    strstr(next->reason, words),
		    "%s because %s", next->placement, next->reason);
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		struct gpu_case test = {.count = counts[i],
					.dtype = OH_BF16,
					.seed = self->seed + i};

		if (!gpu_rank_try(&g, &test, g.stream[0]))
			break;
	}
out:
	gpu_rank_end(&g);
}

#ifdef OH_TESTS_FAKE
/* Two ranks: where 0 stores for 1, and 1 for 0. */
static void one_way(struct ranks_self *self)
{
	struct oh_route route = {.size = sizeof(route),
				 .memory = OH_MEMORY_DEVICE};
	struct gpu_case test = {
		.count = 3000, .dtype = OH_BF16, .seed = self->seed};
	const struct oh_route_peer *other = &route.peers[!self->rank];
	char place[2][16];
	struct gpu_rank g;

	if (sscanf(self->argument, "%15s %15s", place[0], place[1]) != 2)
		abort();
	if (gpu_rank_begin(&g, self, ROOM) &&
	    ranks_fine(self,
		       oh_comm_explain(g.comm, OH_ALL_REDUCE, 64, OH_BF16,
				       OH_SUM, &route),
		       "oh_comm_explain")) {
		ranks_check(self, !strcmp(other->placement, place[self->rank]),
			    "%s because %s", other->placement, other->reason);
		gpu_rank_try(&g, &test, g.stream[0]);
	}
	gpu_rank_end(&g);
}

/* No way is left from one rank to the other. */
static void no_way(struct ranks_self *self)
{
	struct oh_comm_options options = {.size = sizeof(options),
					  .id = &self->ids[1],
					  .rank = self->rank,
					  .ranks = self->ranks};
	struct oh_comm *comm = NULL;
	enum oh_status status;
	struct gpu_rank g;

	if (gpu_rank_open(&g, self, self->place, ROOM)) {
		status = oh_comm_create(&options, &comm);
		ranks_check(self, status == OH_ERR_SYSTEM && !comm, "%s: %s",
			    oh_status_name(status), oh_last_error()->message);
		oh_comm_destroy(comm);
	}
	gpu_rank_end(&g);
}
#endif

/* Rank 1 would share in another way than the others. */
static void shares_differ(struct ranks_self *self)
{
	struct oh_comm_options options = {.size = sizeof(options),
					  .id = &self->ids[1],
					  .rank = self->rank,
					  .ranks = self->ranks};
	struct oh_comm *comm = NULL;
	enum oh_status status;

	setenv("ONEHOP_DEVICE_SHARE", self->rank == 1 ? "ipc" : "auto", 1);
	status = oh_comm_create(&options, &comm);
	ranks_check(
		self,
		status == OH_ERR_MISMATCH &&
			strstr(oh_last_error()->message, "ONEHOP_DEVICE_SHARE"),
		"%s: %s", oh_status_name(status), oh_last_error()->message);
	oh_comm_destroy(comm);
}

static const struct ranks_case cases[] = {
	{"exact", exact},
	{"streams", streams},
	{"graphs", graphs},
	{"rounds", rounds},
	{"both", both},
	{"refused", refused},
	{"other_gpu", other_gpu},
	{"one_without", one_without},
	{"placed", placed},
	{"shares_differ", shares_differ},
#ifdef OH_TESTS_FAKE
	{"one_way", one_way},
	{"no_way", no_way},
#endif
	{NULL, NULL},
};

static void run(const char *name, int ranks, bool processes, const char *text)
{
	struct ranks_options options = {
		.ranks = ranks, .argument = text, .text = text};
	char line[128];

	snprintf(line, sizeof(line), "%s, %d %s%s%s", name, ranks,
		 processes ? "processes" : "threads", text ? ", " : "",
		 text ? text : "");
	options.text = line;
	for (const struct ranks_case *c = cases; c->name; c++)
		if (!strcmp(c->name, name)) {
			if (processes)
				ranks_processes(c, &options);
			else
				ranks_threads(c, &options);
		}
}

/* Every graph that some pairs of four can make, but for their names, and of so
 * many ranks that it is another one for them. */
static void test_placements(void)
{
	static const struct {
		const char *forbidden;
		int graphs, processes; /* 0: none */
	} rows[] = {
		{"0-1", 3, 3},
		{"0-1,2-3", 4, 0},
		{"0-1,0-2", 0, 0},
		{"0-1,0-2,1-2", 0, 0},
		{"0-1,0-2,0-3", 3, 0},
		{"0-1,1-2,2-3", 0, 0},
		{"0-1,1-2,2-3,0-3", 0, 0},
		{"0-1,0-2,1-2,2-3", 0, 0},
		{"0-1,0-2,0-3,1-2,1-3", 0, 0},
		{"all", 3, 2},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		setenv("ONEHOP_FORBID_PEER", rows[i].forbidden, 1);
		run("exact", 4, false, rows[i].forbidden);
		if (rows[i].graphs)
			run("graphs", rows[i].graphs, false, rows[i].forbidden);
		if (rows[i].processes)
			run("exact", rows[i].processes, true,
			    rows[i].forbidden);
	}
	run("rounds", 2, false, "all");
	run("streams", 4, false, "all");
	unsetenv("ONEHOP_FORBID_PEER");
}

static void place(const char *share, int ranks, bool processes,
		  const char *placement)
{
	char text[160];
	struct ranks_options options = {
		.ranks = ranks, .argument = placement, .text = text};

	setenv("ONEHOP_DEVICE_SHARE", share, 1);
	snprintf(text, sizeof(text), "shared by %s, %d %s: %s", share, ranks,
		 processes ? "processes" : "threads", placement);
	for (const struct ranks_case *c = cases; c->name; c++)
		if (c->run == placed && processes)
			ranks_processes(c, &options);
		else if (c->run == placed)
			ranks_threads(c, &options);
	unsetenv("ONEHOP_DEVICE_SHARE");
}

#ifdef OH_TESTS_FAKE
/* Drivers that lack something or refuse it; the processes read the script. */
static void test_drivers(void)
{
	static const struct {
		const char *share, *line, *placement;
	} rows[] = {
		{"ipc", "error cuIpcGetMemHandle 801",
		 "pinned cuIpcGetMemHandle was refused (CUDA error 801)"},
		{"ipc", "error cuIpcOpenMemHandle_v2 208",
		 "pinned (CUDA error 208): an older communicator"},
		{"ipc", "error cuIpcOpenMemHandle_v2 1",
		 "pinned (CUDA error 1): it takes processes of one PID"},
		{"ipc", "peer * * 0", "pinned (CUDA error 217): see peer"},
		{"auto", "device * attribute 103 0",
		 "vram-dst through CUDA IPC"},
		{"auto", "device 1 attribute 103 0", "vram-dst arrived"},
		{"auto", "error cuMemExportToShareableHandle 801",
		 "vram-dst through CUDA IPC"},
		{"auto", "error cuMemCreate 801", "vram-dst through CUDA IPC"},
		{"descriptor", "device * attribute 103 0",
		 "pinned hands out no memory of its GPU as a descriptor"},
		{"descriptor", "", "vram-dst stores were tried"},
	};
	const char *script = fakecuda_script();

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		tap_note("%s", rows[i].line);
		fakecuda_play(script, rows[i].line);
		/* in a hurry now two, now four */
		for (int ranks = 2; ranks <= 4; ranks += 2)
			if (!ranks_quick() || i % 2 == (ranks > 2))
				place(rows[i].share, ranks, true,
				      rows[i].placement);
	}
	fakecuda_play(script, "");
	/* before CUDA 12.3 a capture is asked in another way */
	fakelibrary_place("fakecuda_old.so", fakecuda.file);
	run("graphs", 2, true, "an old driver");
	fakelibrary_place(fakecuda.module, fakecuda.file);
}

/* What the driver promises, and what arrives. */
static void test_lost(void)
{
	static const struct {
		const char *lost, *line, *name, *due;
	} rows[] = {
		{"0 1", "", "one_way", "pinned vram-dst"},
		{"1 0", "", "one_way", "vram-dst pinned"},
		/* who cannot store can be stored to, and looks */
		{"0 1", "peer 1 0 0", "one_way", "pinned pinned"},
		{"2 3", "peer 1 0 0", "one_way", "vram-dst pinned"},
		{"0 1 everywhere", "", "no_way", "0 to 1"},
		{"0 1 everywhere", "peer 1 0 0", "no_way", "0 to 1, 1 to none"},
		{"1 0 everywhere", "peer 1 0 0", "no_way", "1 to 0, 1 to none"},
	};
	const char *script = fakecuda_script();

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		tap_note("lost: %s; %s", rows[i].lost, rows[i].line);
		fakecuda_play(script, rows[i].line);
		setenv("FAKEKERNELS_LOSE", rows[i].lost, 1);
		run(rows[i].name, 2, true, rows[i].due);
	}
	unsetenv("FAKEKERNELS_LOSE");
	fakecuda_play(script, "");
}
#else
static void test_drivers(void)
{
}

static void test_lost(void)
{
}
#endif

/* CUDA IPC in the place of descriptors, and neither. */
static void test_shares(bool brief)
{
	place("ipc", 2, true, "vram-dst through CUDA IPC");
	place("ipc", 4, true, "vram-dst through CUDA IPC");
	place("ipc", 2, false, "pinned of one process");
	place("none", 2, true, "pinned ONEHOP_DEVICE_SHARE is none");
	run("shares_differ", 3, true, NULL);
	setenv("ONEHOP_DEVICE_SHARE", "ipc", 1);
	run("exact", 3, true, "CUDA IPC");
	run("graphs", 2, true, "CUDA IPC");
	if (!brief) {
		run("exact", 2, true, "CUDA IPC");
		run("exact", 8, true, "CUDA IPC");
		run("streams", 2, true, "CUDA IPC");
		run("rounds", 2, true, "CUDA IPC");
	}
	setenv("ONEHOP_FORBID_PEER", "0-1", 1);
	run("exact", 4, true, "CUDA IPC but for a pair");
	unsetenv("ONEHOP_FORBID_PEER");
	unsetenv("ONEHOP_DEVICE_SHARE");
	test_drivers();
	test_lost();
}

int main(int argc, char **argv)
{
	static const int numbers[] = {2, 3, 4, 5, 6, 7, 8, 16};

	gpu_ranks_main(argc, argv, cases);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (!ranks_quick() || numbers[i] <= 3 || numbers[i] == 16)
			run("exact", numbers[i], false, NULL);
	run("exact", 2, true, NULL);
	run("exact", 4, true, NULL);
	run("streams", 2, false, NULL);
	run("streams", 4, true, NULL);
	run("graphs", 2, false, NULL);
	run("graphs", 4, true, NULL);
	run("rounds", 2, false, NULL);
	run("rounds", 3, true, NULL);
	run("both", 3, false, NULL);
	run("refused", 2, false, NULL);
	run("one_without", 2, false, NULL);
	if (gpu_ranks_devices() > 1)
		run("other_gpu", 2, false, NULL);
	test_placements();
	test_shares(gpu_ranks_brief(argc, argv));
	setenv("ONEHOP_FIRST_CALL", "2147483640", 1);
	run("streams", 2, false, "epochs that wrap");
	unsetenv("ONEHOP_FIRST_CALL");
	return gpu_ranks_end(tap_done());
}
