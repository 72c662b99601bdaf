/* SPDX-License-Identifier: MIT */
/*
 * On the fake driver alone: what a call on GPU memory asks the driver for, so
 * that none allocates or waits; which kernels are placed early; a capture that
 * another thread voids, and a GPU that hangs. And where host memory lies.
 */
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fakecuda.h"
#include "gpu/memory.h"
#include "gpu_ranks.h"

#define ROOM ((size_t)1 << 16)

/* With these the watching threads begin, at some time behind the creation. */
static bool is_watchers(const char *function)
{
	return !strcmp(function, "cuCtxPushCurrent_v2") ||
	       !strcmp(function, "cuThreadExchangeStreamCaptureMode");
}

/* What all ranks' calls asked the driver for since the last look: names, and
 * how often each of them a call, "name name*2 name*38/40". */
static void note_asked(struct ranks_self *self, int calls, char *text,
		       size_t room)
{
	static const char *const functions[] = {
#define OH_CUDA(need, result, name, parameters) #name,
#include "vendor/cuda.def"
	};
	static unsigned before[sizeof(functions) / sizeof(*functions)];
	unsigned each = (unsigned)(self->ranks * calls);
	size_t used = 0;

	*text = '\0';
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		unsigned now = fakecuda_calls(functions[i]);
		unsigned asked = now - before[i];

		before[i] = now;
		if (!asked || used >= room || is_watchers(functions[i]))
			continue;
		used += (size_t)snprintf(text + used, room - used, "%s%s",
					 used ? " " : "", functions[i]);
		if (asked != each && used < room)
			used += (size_t)snprintf(
				text + used, room - used,
				asked % each ? "*%u/%u" : "*%u",
				asked % each ? asked : asked / each, each);
	}
}

/* A call while another thread voids the capture: no harm, and none that
 * counts. */
static void call_voided(struct gpu_rank *g, const struct gpu_case *test)
{
	struct oh_health health = {.size = sizeof(health)};
	enum oh_status status;
	CUgraph graph = NULL;

	GPU_FINE(g, cuStreamBeginCapture_v2(
			    g->stream[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	status = gpu_rank_call(g, test, g->stream[0]);
	oh_comm_health(g->comm, &health);
	ranks_check(g->self, status == OH_ERR_INVALID && !health.status,
		    "%s (%s), health %s", oh_status_name(status),
		    oh_last_error()->message, oh_status_name(health.status));
	g->cuda->cuStreamEndCapture(g->stream[0], &graph);
	ranks_barrier(g->self);
}

/* On all ranks, then on one. */
static void voided(struct ranks_self *self)
{
	struct gpu_case test = {
		.count = 3000, .dtype = OH_BF16, .seed = self->seed};
	struct gpu_rank g;

	if (gpu_rank_begin(&g, self, ROOM)) {
		call_voided(&g, &test);
		gpu_rank_try(&g, &test, g.stream[1]);
		if (self->rank == 0)
			call_voided(&g, &test);
		else
			ranks_barrier(self);
		test.count = 100;
		gpu_rank_try(&g, &test, g.stream[1]);
		test.count = 3000;
		gpu_rank_try(&g, &test, g.stream[1]);
		/* the watching threads compare */
		nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
		gpu_rank_try(&g, &test, g.stream[1]);
	}
	gpu_rank_end(&g);
}

/* One rank uses a driver that has not all that a communicator needs: calls on
 * host memory work, on all ranks. */
static void lacking(struct ranks_self *self)
{
	CUresult (*init)(unsigned flags);
	CUresult (*retain)(CUcontext * context, CUdevice device);
	CUresult (*enter)(CUcontext context);
	struct oh_comm *comm;
	CUcontext context;
	int32_t one = 1;

	fakecuda_find("cuInit", &init);
	fakecuda_find("cuDevicePrimaryCtxRetain", &retain);
	fakecuda_find("cuCtxSetCurrent", &enter);
	if (self->rank == 0)
		ranks_check(self,
			    !init(0) && !retain(&context, 0) && !enter(context),
			    "no context");
	comm = ranks_comm(self, 0);
	if (comm &&
	    ranks_fine(self,
		       oh_all_reduce(comm, &one, &one, 1, OH_I32, OH_SUM, NULL),
		       "oh_all_reduce"))
		ranks_check(self, one == self->ranks, "the sum is %d", one);
	oh_comm_destroy(comm);
}

/* So many calls of all ranks, alternating between so many streams. */
static void ask(struct gpu_rank *g, int calls, int streams, const char *due)
{
	const struct gpu_case test = {.count = 1000, .dtype = OH_F32};
	char text[1024];

	ranks_barrier(g->self);
	if (g->self->rank == 0)
		note_asked(g->self, 1, text, sizeof(text));
	ranks_barrier(g->self);
	for (int n = 0; n < calls; n++)
		ranks_fine(g->self,
			   gpu_rank_call(g, &test, g->stream[n % streams]),
			   "a call");
	ranks_barrier(g->self);
	if (g->self->rank == 0) {
		note_asked(g->self, calls, text, sizeof(text));
		ranks_check(g->self, !strcmp(text, due), "%d calls: %s", calls,
			    text);
	}
	ranks_barrier(g->self);
}

/* A call allocates nothing and waits for nothing, and calls on several streams
 * follow one another. */
static void asked(struct ranks_self *self)
{
	CUstream stream;
	struct gpu_rank g;

	if (gpu_rank_begin(&g, self, ROOM)) {
		ask(&g, 1, 1,
		    "cuCtxGetCurrent cuLaunchKernelEx cuStreamGetCtx "
		    "cuStreamIsCapturing cuPointerGetAttributes*2");
		ask(&g, 20, 1,
		    "cuCtxGetCurrent cuLaunchKernelEx cuStreamGetCtx "
		    "cuStreamIsCapturing cuPointerGetAttributes*2");
		/* all but the first of each rank follow one on another stream
		 */
		ask(&g, 20, 2,
		    "cuCtxGetCurrent cuLaunchKernelEx cuStreamWaitEvent*38/40 "
		    "cuStreamGetCtx cuStreamIsCapturing*78/40 "
		    "cuEventRecord*38/40 cuPointerGetAttributes*2");
		/* one name, and a stream of each thread: always an event */
		stream = g.stream[0];
		g.stream[0] = CU_STREAM_PER_THREAD;
		ask(&g, 20, 1,
		    "cuCtxGetCurrent cuLaunchKernelEx cuStreamWaitEvent "
		    "cuStreamGetCtx cuStreamIsCapturing*42/40 "
		    "cuEventRecord*42/40 cuPointerGetAttributes*2");
		g.stream[0] = stream;
		GPU_FINE(&g, cuStreamBeginCapture_v2(
				     g.stream[0],
				     CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
		ranks_barrier(self);
		ask(&g, 20, 1,
		    "cuCtxGetCurrent cuLaunchKernelEx cuStreamGetCtx "
		    "cuStreamIsCapturing*2 cuStreamGetCaptureInfo_v3*2 "
		    "cuPointerGetAttributes*2");
	}
	gpu_rank_end(&g);
}

/* Attributes of the calls' launches: programmatic launch where the kernels know
 * how to wait, which is explained; and room for as many blocks as may wait at
 * once. "COUNT", how many attributes are due. */
static void placed_early(struct ranks_self *self)
{
	const struct gpu_case test = {.count = 1000, .dtype = OH_F32};
	bool early = !strcmp(self->argument, "1");
	struct oh_route route = {.size = sizeof(route),
				 .memory = OH_MEMORY_DEVICE};
	const struct fakecuda_launch *log;
	unsigned count;
	struct gpu_rank g;

	if (gpu_rank_begin(&g, self, ROOM)) {
		gpu_rank_try(&g, &test, g.stream[0]);
		log = fakecuda_launches(&count);
		ranks_check(self, count && log[count - 1].attributes == early,
			    "%u launches, the last with %u attributes", count,
			    count ? log[count - 1].attributes : 0);
		/* four of them to a multiprocessor, one less is to be had */
		ranks_check(self,
			    count && log[count - 1].grid[0] ==
					     (132 * 4 - 1) / (early ? 3u : 2u),
			    "%u blocks", count ? log[count - 1].grid[0] : 0);
		ranks_fine(self,
			   oh_comm_explain(g.comm, OH_ALL_REDUCE, 4000, OH_F32,
					   OH_SUM, &route),
			   "oh_comm_explain");
		ranks_check(self,
			    strstr(route.row, early ? ", placed while"
						    : "for less than 9.0"),
			    "%s", route.row);
	}
	gpu_rank_end(&g);
}

/* A GPU that does not finish what a communicator begins with: an error at the
 * deadline, and nothing is freed, which would wait for it. */
static void hung(struct ranks_self *self)
{
	struct oh_comm_options options = {
		.size = sizeof(options),
		.id = &self->ids[0],
		.rank = self->rank,
		.ranks = self->ranks,
		.rendezvous_timeout_ms = 2000,
	};
	static const char *const frees[] = {"cuMemFree_v2", "cuMemFreeHost",
					    "cuMemUnmap", "cuModuleUnload",
					    "cuStreamDestroy_v2"};
	struct oh_comm *comm = NULL;
	struct gpu_rank g;

	if (gpu_rank_open(&g, self, self->place, ROOM)) {
		enum oh_status status;

		ranks_barrier(self);
		status = oh_comm_create(&options, &comm);
		ranks_check(self, status == OH_ERR_TIMEOUT, "%s: %s",
			    oh_status_name(status), oh_last_error()->message);
		for (size_t i = 0; i < sizeof(frees) / sizeof(*frees); i++)
			ranks_check(self, !fakecuda_calls(frees[i]),
				    "%s is called", frees[i]);
	}
	gpu_rank_end(&g);
}

/* Where the kernel will put the page. */
static bool is_near(void *page, int policy, unsigned long nodes)
{
	unsigned long mask[16] = {0};
	int mode = -1;

	return !syscall(SYS_get_mempolicy, &mode, mask, sizeof(mask) * 8, page,
			MPOL_F_ADDR) &&
	       mode == policy && mask[0] == nodes;
}

static void test_nodes(void)
{
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED || !is_near(pages, MPOL_DEFAULT, 0)) {
		tap_skip("memory near a node", "the system does not say");
		return;
	}
	oh__gpu_place_near(pages, bytes, 0);
	tap_ok(is_near(pages, MPOL_PREFERRED, 1) &&
		       is_near(pages + bytes, MPOL_DEFAULT, 0),
	       "memory near a node");
	oh__gpu_place_near(pages + bytes, bytes, -1);
	oh__gpu_place_near(pages + bytes, bytes, 1024);
	tap_ok(is_near(pages + bytes, MPOL_DEFAULT, 0) &&
		       oh__gpu_node_of("0000:ZZ:00.0") == -1,
	       "and where none is known");
	munmap(pages, 2 * bytes);
}

static const struct ranks_case cases[] = {
	{"asked", asked}, {"voided", voided},	{"placed_early", placed_early},
	{"hung", hung},	  {"lacking", lacking}, {NULL, NULL},
};

/* Each process reads the script when it starts. */
static void play(int index, const char *line, const char *argument,
		 const char *text)
{
	const char *script = fakecuda_script();
	struct ranks_options options = {
		.ranks = 2, .argument = argument, .text = text};

	fakecuda_play(script, line);
	ranks_processes(&cases[index], &options);
	fakecuda_play(script, "");
}

int main(int argc, char **argv)
{
	struct ranks_options options = {
		.ranks = 2, .text = "what calls ask the driver for"};

	gpu_ranks_start(argv);
	ranks_main(argc, argv, cases);
	setenv("ONEHOP_LOG", "off", 1);
	ranks_threads(&cases[0], &options);
	play(1, "void-captures", NULL, "another thread voids the capture");
	setenv("ONEHOP_DEVICE_TABLE", "8M:one-shot:1000x512:0", 1);
	play(2, "", "1", "kernels are placed early");
	play(2, "ptx 75", "0", "not those made for other cards");
	play(2, "ptx 75 oh__two_shot_f16_2", "0", "not if one is");
	unsetenv("ONEHOP_DEVICE_TABLE");
	play(3, "error cuStreamQuery 600", NULL, "a GPU that hangs");
	fakelibrary_place("fakecuda_broken.so", fakecuda.file);
	play(4, "", NULL, "a driver that lacks a function, on host memory");
	fakelibrary_place(fakecuda.module, fakecuda.file);
	test_nodes();
	return gpu_ranks_end(tap_done());
}
