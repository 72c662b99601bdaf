/* SPDX-License-Identifier: MIT */
#include "gpu_ranks.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cpu/reduce.h"
#include "kernels/image.h"

#ifdef OH_TESTS_FAKE
#include "fakekernels.h"

/* Four GPUs that reach each other, as new as those that a launch may overlap
 * on. */
static const char machine[] = "devices 4\npeer * * 1\n"
			      "device * attribute 75 9\n"
			      "device * attribute 76 0\n"
			      "device * attribute 16 132\n"
			      "device * attribute 102 1\n"
			      "device * attribute 103 1\n";

void gpu_ranks_start(char **argv)
{
	static char kernels[8192];

	fakecuda_start(argv);
	/* processes that are started later find it written */
	if (!getenv("ONEHOP_TEST_SCRIPTED")) {
		fakekernels_script(kernels, sizeof(kernels));
		fakecuda_play(machine, kernels);
		setenv("ONEHOP_TEST_SCRIPTED", "1", 1);
		/* that of its memory is cleared by this processor */
		setenv("ONEHOP_DEVICE_BYTES", "16M", 0);
	}
	fakecuda_run(fakekernels_run);
}

int gpu_ranks_end(int code)
{
	fakelibrary_end();
	return code;
}
#else
void gpu_ranks_start(char **argv)
{
	(void)argv;
	/* streams of ranks that share a GPU and a queue of its would wait for
	 * each other */
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

int gpu_ranks_end(int code)
{
	return code;
}
#endif

bool gpu_ranks_brief(int argc, char **argv)
{
#ifdef OH_TESTS_FAKE
	(void)argc;
	(void)argv;
	return false;
#else
	return argc < 2 || strcmp(argv[1], "--long");
#endif
}

int gpu_ranks_devices(void)
{
	const struct oh__cuda *cuda;
	int count = 0;

	if (oh__cuda_load(&cuda) || OH__CUDA(cuda->cuDeviceGetCount(&count)))
		return 0;
	return count;
}

const char *gpu_ranks_absent(void)
{
	if (!oh__kernels_image_bytes)
		return "built without nvcc";
	return gpu_ranks_devices() ? NULL : "there is no GPU";
}

static bool open_device(struct gpu_rank *g)
{
	return GPU_FINE(g, cuDeviceGet(&g->device, g->ordinal)) &&
	       GPU_FINE(g, cuDevicePrimaryCtxRetain(&g->context, g->device)) &&
	       GPU_FINE(g, cuCtxSetCurrent(g->context)) &&
	       GPU_FINE(g, cuStreamCreateWithPriority(
				   &g->stream[0], CU_STREAM_NON_BLOCKING, 0)) &&
	       GPU_FINE(g, cuStreamCreateWithPriority(
				   &g->stream[1], CU_STREAM_NON_BLOCKING, 0)) &&
	       GPU_FINE(g, cuMemAlloc_v2(&g->send, g->room)) &&
	       GPU_FINE(g, cuMemAlloc_v2(&g->recv, g->room));
}

bool gpu_rank_open(struct gpu_rank *g, struct ranks_self *self, int ordinal,
		   size_t room)
{
	int devices = gpu_ranks_devices();

	memset(g, 0, sizeof(*g));
	g->self = self;
	g->room = room;
	g->data = malloc(room);
	g->due = malloc(room);
	g->got = malloc(room);
	if (!ranks_check(self, devices && g->data && g->due && g->got,
			 "%d devices", devices) ||
	    !ranks_fine(self, oh__cuda_load(&g->cuda), "oh__cuda_load"))
		return false;
	g->ordinal = ordinal % devices;
	return open_device(g);
}

bool gpu_rank_begin(struct gpu_rank *g, struct ranks_self *self, size_t room)
{
	if (!gpu_rank_open(g, self, self->place, room))
		return false;
	g->comm = ranks_comm(self, 0);
	return g->comm != NULL;
}

void gpu_rank_end(struct gpu_rank *g)
{
	oh_comm_destroy(g->comm);
	for (int i = 0; i < GPU_STREAMS; i++)
		if (g->stream[i])
			g->cuda->cuStreamDestroy_v2(g->stream[i]);
	if (g->send)
		g->cuda->cuMemFree_v2(g->send);
	if (g->recv)
		g->cuda->cuMemFree_v2(g->recv);
	if (g->context) {
		g->cuda->cuCtxSetCurrent(NULL);
		g->cuda->cuDevicePrimaryCtxRelease_v2(g->device);
	}
	free(g->data);
	free(g->due);
	free(g->got);
}

size_t gpu_case_bytes(const struct gpu_case *test)
{
	return test->count * oh_dtype_bytes(test->dtype);
}

/* Bits of any kind: NaN, infinities, subnormals, what stands for nothing; and
 * -0 in the same places of all ranks, whose sum is -0. */
static void fill(unsigned char *data, size_t bytes, uint64_t seed)
{
	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t x = seed += 0x9e3779b97f4a7c15u;
		size_t left = bytes - i;

		x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
		x = (x ^ x >> 27) * 0x94d049bb133111ebu;
		x ^= x >> 31;
		if (x % 13 == 0)
			x = UINT64_MAX;
		if (i / 8 % 17 == 0)
			x = i / 8 % 2 ? 0x8000000080000000 : 0x8000800080008000;
		memcpy(data + i, &x, left < 8 ? left : 8);
	}
}

static uint64_t seed_of(const struct gpu_case *test, int rank)
{
	return (test->seed * 31 + (uint64_t)rank) * 0x2545f4914f6cdd1du;
}

bool gpu_rank_put(struct gpu_rank *g, const struct gpu_case *test,
		  CUstream stream)
{
	CUdeviceptr to = test->in_place ? g->recv + test->recv_at
					: g->send + test->send_at;
	size_t bytes = gpu_case_bytes(test);

	fill(g->data, bytes, seed_of(test, g->self->rank));
	return GPU_FINE(g, cuMemcpyHtoDAsync_v2(to, g->data, bytes, stream));
}

enum oh_status gpu_rank_call(struct gpu_rank *g, const struct gpu_case *test,
			     CUstream stream)
{
	CUdeviceptr send = test->in_place ? g->recv + test->recv_at
					  : g->send + test->send_at;

	return oh_all_reduce(g->comm, (void *)send,
			     (void *)(g->recv + test->recv_at), test->count,
			     test->dtype, test->op, stream);
}

static bool expect(struct gpu_rank *g, const struct gpu_case *test)
{
	size_t bytes = gpu_case_bytes(test);
	unsigned char *all = malloc(bytes * (size_t)g->self->ranks + 1);
	struct oh__cpu_reduce_job job = {
		.srcs = g->self->ranks,
		.dsts = 1,
		.nt_from = 1,
		.count = test->count,
	};

	if (!all)
		return false;
	for (int i = 0; i < g->self->ranks; i++) {
		job.src[i] = all + (size_t)i * bytes;
		fill(all + (size_t)i * bytes, bytes, seed_of(test, i));
	}
	job.dst[0] = g->due;
	oh__cpu_reducer_named("plain")->reduce[test->dtype][test->op](&job);
	free(all);
	return true;
}

bool gpu_rank_same(struct gpu_rank *g, const struct gpu_case *test,
		   CUstream stream)
{
	size_t bytes = gpu_case_bytes(test);

	/* not before: a copy that waits in the driver for this rank's kernel
	 * may keep another rank of the process from starting its own */
	return GPU_FINE(g, cuStreamSynchronize(stream)) &&
	       GPU_FINE(g, cuMemcpyDtoHAsync_v2(g->got, g->recv + test->recv_at,
						bytes, stream)) &&
	       GPU_FINE(g, cuStreamSynchronize(stream)) && expect(g, test) &&
	       !memcmp(g->got, g->due, bytes);
}

bool gpu_rank_right(struct gpu_rank *g, const struct gpu_case *test,
		    CUstream stream)
{
	return ranks_check(g->self, gpu_rank_same(g, test, stream),
			   "wrong bits: %zu %s %s at %zu and %zu", test->count,
			   oh_dtype_name(test->dtype), oh_op_name(test->op),
			   test->send_at, test->recv_at);
}

bool gpu_rank_drain(struct gpu_rank *g, CUstream stream, unsigned ms)
{
	CUresult code = CUDA_ERROR_NOT_READY;

	for (unsigned i = 0; code == CUDA_ERROR_NOT_READY && i < ms; i++) {
		code = g->cuda->cuStreamQuery(stream);
		if (code == CUDA_ERROR_NOT_READY)
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return ranks_check(g->self, code == CUDA_SUCCESS,
			   "a stream that is to be idle within %u ms says %d",
			   ms, (int)code);
}

struct gpu_holds gpu_rank_holds(struct gpu_rank *g)
{
	struct gpu_holds now = {.host = leftovers_now(),
				.resident_bytes = leftovers_resident_bytes()};
	size_t left = 0, total = 0;

	GPU_FINE(g, cuMemGetInfo_v2(&left, &total));
	now.device_bytes = total - left;
#ifdef OH_TESTS_FAKE
	now.objects = fakecuda_live(NULL);
#endif
	return now;
}

/* Less than a mailbox, and what a driver's and the C library's caches take; a
 * driver opens files and starts threads as it needs them. */
#define DEVICE_SLACK ((size_t)16 << 20)
#define RESIDENT_SLACK (16l << 20)
#ifdef OH_TESTS_FAKE
#define FEW 0
#else
#define FEW 3
#endif

bool gpu_rank_check_growth(struct gpu_rank *g, const struct gpu_holds *before,
			   const struct gpu_holds *after)
{
	const struct leftovers *one = &before->host, *other = &after->host;
	char text[256];

	ranks_check(g->self,
		    other->fds <= one->fds + FEW &&
			    other->threads <= one->threads + FEW &&
			    other->own_maps <= one->own_maps &&
			    other->names <= one->names,
		    "growth: %s", leftovers_text(one, other, text));
	ranks_check(g->self,
		    after->device_bytes <= before->device_bytes + DEVICE_SLACK,
		    "GPU memory: %zu bytes to %zu", before->device_bytes,
		    after->device_bytes);
	ranks_check(g->self, after->objects <= before->objects,
		    "the driver's objects: %u to %u", before->objects,
		    after->objects);
	/* a checker's own memory grows */
	if (!ranks_sanitized() && !ranks_quick())
		ranks_check(g->self,
			    after->resident_bytes <=
				    before->resident_bytes + RESIDENT_SLACK,
			    "resident: %ld bytes to %ld",
			    before->resident_bytes, after->resident_bytes);
	return !ranks_failures(g->self);
}

bool gpu_rank_try(struct gpu_rank *g, const struct gpu_case *test,
		  CUstream stream)
{
	return gpu_rank_put(g, test, stream) &&
	       ranks_fine(g->self, gpu_rank_call(g, test, stream),
			  "oh_all_reduce") &&
	       gpu_rank_right(g, test, stream);
}
