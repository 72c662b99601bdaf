/* SPDX-License-Identifier: MIT */
/*
 * Times tables of ONEHOP_DEVICE_TABLE, one after the other in one process, for
 * scripts/sweep_gpus.py: a process for each would take seconds. Ranks are
 * threads, each with a GPU. A line of stdin is "peers TABLE" or "pinned TABLE";
 * the answer is a line of JSON: p50 and p99 in us at each size over replays of
 * a graph, and how many elements came out wrong; or an error, also where ranks
 * do not meet in that memory.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/settings.h"
#include "bench/stats.h"
#include "vendor/cuda.h"

#define BUFFERS 7
#define SIZES 24
#define UNTIMED 10
#define REPLAYS 80

static struct rank {
	CUcontext context;
	CUstream stream;
	CUevent begin, end;
	CUdeviceptr send, recv;
	CUgraph graph;
	CUgraphExec executable;
	struct oh_comm *comm;
	uint16_t *got; /* a side, of bf16 */
	float ms[SIZES][REPLAYS];
	uint64_t wrong;
	enum oh_status status;
	char why[600];
} rank[OH_MAX_RANKS];

static const struct oh__cuda *cuda;
static int ranks;
static uint64_t sizes[SIZES], most;
static int size_count;
static uint16_t *due; /* of every rank, a side */
static pthread_barrier_t barrier;

static void must(enum oh_status status)
{
	if (!status)
		return;
	fprintf(stderr, "sweep_gpus: %s\n", oh_last_error()->message);
	exit(1);
}

#define CUDA(call) must(OH__CUDA(cuda->call))

static uint16_t bf16_of(float number)
{
	uint32_t bits;

	memcpy(&bits, &number, sizeof(bits));
	return (uint16_t)(bits >> 16);
}

/* Small whole numbers: their sum is exact. */
static float value(int i, size_t index)
{
	return (float)((index * 7 + (size_t)i * 3) % 13);
}

static void fill_due(void)
{
	for (size_t k = 0; k < BUFFERS * most / 2; k++) {
		float sum = 0;

		for (int i = 0; i < ranks; i++)
			sum += value(i, k);
		due[k] = bf16_of(sum);
	}
}

static void open_rank(int i)
{
	struct rank *r = &rank[i];
	CUdevice device;

	CUDA(cuDeviceGet(&device, i));
	CUDA(cuDevicePrimaryCtxRetain(&r->context, device));
	CUDA(cuCtxSetCurrent(r->context));
	CUDA(cuStreamCreateWithPriority(&r->stream, CU_STREAM_NON_BLOCKING, 0));
	CUDA(cuEventCreate(&r->begin, CU_EVENT_DEFAULT));
	CUDA(cuEventCreate(&r->end, CU_EVENT_DEFAULT));
	CUDA(cuMemAlloc_v2(&r->send, BUFFERS * most));
	CUDA(cuMemAlloc_v2(&r->recv, BUFFERS * most));
	r->got = malloc(BUFFERS * most);
	if (!r->got)
		exit(1);
	for (size_t k = 0; k < BUFFERS * most / 2; k++)
		r->got[k] = bf16_of(value(i, k));
	CUDA(cuMemcpyHtoD_v2(r->send, r->got, BUFFERS * most));
}

/* Calls of a replay: enough that its launch does not count. */
static int calls_of(uint64_t bytes)
{
	return bytes > 1u << 20 ? 20 : 100;
}

static enum oh_status capture(struct rank *r, uint64_t bytes)
{
	enum oh_status ended,
		status = OH__CUDA(cuda->cuStreamBeginCapture_v2(
			r->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));

	if (status)
		return status;
	for (int n = 0; n < calls_of(bytes) && !status; n++) {
		size_t at = (size_t)(n % BUFFERS) * bytes;

		status = oh_all_reduce(r->comm, (const void *)(r->send + at),
				       (void *)(r->recv + at), bytes / 2,
				       OH_BF16, OH_SUM, r->stream);
	}
	ended = OH__CUDA(cuda->cuStreamEndCapture(r->stream, &r->graph));
	if (!status)
		status = ended;
	if (!status)
		status = OH__CUDA(cuda->cuGraphInstantiateWithFlags(
			&r->executable, r->graph, 0));
	return status;
}

static enum oh_status replay(struct rank *r, float *ms)
{
	enum oh_status status =
		OH__CUDA(cuda->cuEventRecord(r->begin, r->stream));

	if (!status)
		status =
			OH__CUDA(cuda->cuGraphLaunch(r->executable, r->stream));
	if (!status)
		status = OH__CUDA(cuda->cuEventRecord(r->end, r->stream));
	if (!status)
		status = OH__CUDA(cuda->cuStreamSynchronize(r->stream));
	if (!status)
		status = OH__CUDA(
			cuda->cuEventElapsedTime(ms, r->begin, r->end));
	return status;
}

static enum oh_status count_wrong(struct rank *r, uint64_t bytes)
{
	struct oh_health health = {.size = sizeof(health)};
	enum oh_status status = oh_comm_health(r->comm, &health);

	if (!status && health.status)
		status = OH__FAIL(health.status, "calls have failed: %s",
				  oh_status_text(health.status));
	if (!status)
		status = OH__CUDA(cuda->cuMemcpyDtoH_v2(r->got, r->recv,
							BUFFERS * bytes));
	for (size_t k = 0; k < BUFFERS * bytes / 2 && !status; k++)
		r->wrong += r->got[k] != due[k];
	return status;
}

/* A rank that has failed goes on meeting the others. */
static enum oh_status time_size(struct rank *r, int size)
{
	uint64_t bytes = sizes[size];
	enum oh_status status = OH__CUDA(cuda->cuCtxSetCurrent(r->context));

	if (!status)
		status = OH__CUDA(cuda->cuMemsetD8Async(
			r->recv, 0xff, BUFFERS * bytes, r->stream));
	if (!status)
		status = OH__CUDA(cuda->cuStreamSynchronize(r->stream));
	if (!status)
		status = capture(r, bytes);
	for (int n = -UNTIMED; n < REPLAYS; n++) {
		float ignored;

		pthread_barrier_wait(&barrier);
		if (!status)
			status = replay(r, n < 0 ? &ignored : &r->ms[size][n]);
	}
	if (r->executable)
		cuda->cuGraphExecDestroy(r->executable);
	if (r->graph)
		cuda->cuGraphDestroy(r->graph);
	r->executable = NULL;
	r->graph = NULL;
	return status ? status : count_wrong(r, bytes);
}

static void *run_rank(void *context)
{
	struct rank *r = context;

	r->wrong = 0;
	r->status = OH_OK;
	for (int k = 0; k < size_count; k++) {
		enum oh_status status = time_size(r, k);

		if (!r->status && status) {
			r->status = status;
			snprintf(r->why, sizeof(r->why), "%s",
				 oh_last_error()->message);
		}
	}
	return NULL;
}

/* A replay's time is that of the rank that started last. */
static void conclude(int size, struct bench_times *times)
{
	double us[REPLAYS];

	for (int n = 0; n < REPLAYS; n++) {
		us[n] = (double)rank[0].ms[size][n];
		for (int i = 1; i < ranks; i++)
			if ((double)rank[i].ms[size][n] < us[n])
				us[n] = (double)rank[i].ms[size][n];
		us[n] *= 1e3 / calls_of(sizes[size]);
	}
	*times = bench_times_of(us, REPLAYS);
}

/*
 * NULL, or why some pair of ranks does not meet in that memory: times of a
 * table for another one would mean nothing. The library only warns.
 */
static const char *find_detour(struct oh_comm *const *comms, const char *place)
{
	static char why[400];

	for (int i = 0; i < ranks; i++) {
		struct oh_route route = {.size = sizeof(route),
					 .memory = OH_MEMORY_DEVICE};

		if (oh_comm_explain(comms[i], OH_ALL_REDUCE, sizes[0], OH_BF16,
				    OH_SUM, &route))
			return oh_last_error()->message;
		for (int j = 0; j < ranks; j++) {
			const struct oh_route_peer *peer = &route.peers[j];

			if (i == j || !strcmp(peer->placement, place))
				continue;
			snprintf(why, sizeof(why),
				 "not timed, the way from rank %d to %d is %s "
				 "and not %s: %s",
				 i, j, peer->placement, place, peer->reason);
			return why;
		}
	}
	return NULL;
}

static const char *run_ranks(struct oh_comm *const *comms, uint64_t *wrong)
{
	pthread_t thread[OH_MAX_RANKS];
	const char *why = NULL;

	for (int i = 0; i < ranks; i++) {
		rank[i].comm = comms[i];
		if (pthread_create(&thread[i], NULL, run_rank, &rank[i])) {
			/* those that run meet nobody */
			fprintf(stderr, "sweep_gpus: no thread\n");
			exit(1);
		}
	}
	for (int i = 0; i < ranks; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < ranks; i++) {
		*wrong += rank[i].wrong;
		if (rank[i].status && !why)
			why = rank[i].why;
	}
	return why;
}

/* NULL, or what has failed. */
static const char *time_all(const char *place, struct bench_times times[SIZES],
			    uint64_t *wrong)
{
	struct oh_comm *comms[OH_MAX_RANKS];
	const char *why;

	*wrong = 0;
	if (oh_comm_create_all(ranks, NULL, comms))
		return oh_last_error()->message;
	why = find_detour(comms, place);
	if (!why)
		why = run_ranks(comms, wrong);
	for (int i = 0; i < ranks; i++)
		oh_comm_destroy(comms[i]);
	if (why)
		return why;
	for (int k = 0; k < size_count; k++)
		conclude(k, &times[k]);
	return NULL;
}

/* No quotes or control characters, whatever is said. */
static void print_error(const char *why)
{
	printf("{\"error\": \"");
	for (const char *at = why; *at; at++)
		putchar(*at == '"' || *at == '\\' || *at < ' ' ? '\'' : *at);
	printf("\"}\n");
}

static void print_times(const struct bench_times times[SIZES], uint64_t wrong)
{
	for (int k = 0; k < size_count; k++)
		printf("%s[%.5f, %.5f]", k ? ", " : "{\"us\": [", times[k].p50,
		       times[k].p99);
	printf("], \"wrong\": %llu}\n", (unsigned long long)wrong);
}

static bool obey(char *line)
{
	struct bench_times times[SIZES];
	char *table = strchr(line, ' ');
	const char *why;
	uint64_t wrong;
	bool pinned;

	if (!table)
		return false;
	*table++ = '\0';
	table[strcspn(table, "\n")] = '\0';
	pinned = !strcmp(line, "pinned");
	if (!pinned && strcmp(line, "peers") != 0)
		return false;
	setenv("ONEHOP_DEVICE_TABLE", table, 1);
	setenv("ONEHOP_FORBID_PEER", pinned ? "all" : "", 1);
	why = time_all(pinned ? "pinned" : "vram-dst", times, &wrong);
	if (why)
		print_error(why);
	else
		print_times(times, wrong);
	fflush(stdout);
	return true;
}

static bool take_sizes(char *text)
{
	for (char *field; (field = strsep(&text, ","));) {
		uint64_t bytes;

		if (size_count == SIZES || !oh__parse_bytes(field, &bytes) ||
		    !bytes || bytes % 2 || bytes > 64u << 20)
			return false;
		sizes[size_count++] = bytes;
		if (bytes > most)
			most = bytes;
	}
	return size_count > 0;
}

int main(int argc, char **argv)
{
	char line[4096];
	uint64_t number;
	int devices = 0;

	if (argc != 3 || !oh__parse_number(argv[1], &number) || number < 2 ||
	    number > OH_MAX_RANKS || !take_sizes(argv[2])) {
		fprintf(stderr, "usage: sweep_gpus RANKS SIZE,...\n");
		return 2;
	}
	ranks = (int)number;
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	must(oh__cuda_load(&cuda));
	CUDA(cuInit(0));
	CUDA(cuDeviceGetCount(&devices));
	if (devices < ranks) {
		fprintf(stderr, "sweep_gpus: %d ranks, %d GPUs\n", ranks,
			devices);
		return 77;
	}
	due = malloc(BUFFERS * most);
	if (!due || pthread_barrier_init(&barrier, NULL, (unsigned)ranks))
		return 1;
	fill_due();
	for (int i = 0; i < ranks; i++)
		open_rank(i);
	while (fgets(line, sizeof(line), stdin))
		if (!obey(line)) {
			fprintf(stderr,
				"sweep_gpus: a line is peers TABLE, or pinned "
				"TABLE\n");
			return 2;
		}
	return 0;
}
