/* SPDX-License-Identifier: MIT */
/*
 * A rank of an MPI as a subject. Built once for each MPI and started by that
 * MPI's mpirun; the socket's name comes in the environment. The rank pins
 * itself before MPI_Init, as the ranks of this library do.
 *
 * MPI has no bf16: its transport is then combined with an operation of ours.
 * f16, averages and counts beyond int are refused rather than approximated.
 */
#include <limits.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <signal.h>
#include <stddef.h>

#include "bench/clones.h"
#include "bench/worker.h"

/* One MPI rank is one process; so what belongs to it is global. */
static MPI_Datatype type;
static MPI_Op op;
static MPI_Op bf16_ops[OH_OP_COUNT];
static int my_rank, my_ranks;

static inline float widen(uint16_t bits)
{
	uint32_t wide = (uint32_t)bits << 16;
	float value;

	memcpy(&value, &wide, sizeof(value));
	return value;
}

/* To nearest, ties to even; the data has no NaN. */
static inline uint16_t narrow(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#define BF16_OP(name, expression)                                              \
	BENCH_CLONES static void name##_loop(const uint16_t *in,               \
					     uint16_t *out, int length)        \
	{                                                                      \
		for (int i = 0; i < length; i++) {                             \
			float a = widen(in[i]), b = widen(out[i]);             \
                                                                               \
			out[i] = narrow(expression);                           \
		}                                                              \
	}                                                                      \
	static void name(void *in, void *out, int *length, MPI_Datatype *what) \
	{                                                                      \
		name##_loop(in, out, *length);                                 \
	}

BF16_OP(bf16_sum, a + b)
BF16_OP(bf16_prod, a *b)
BF16_OP(bf16_min, a < b ? a : b)
BF16_OP(bf16_max, a > b ? a : b)

static bool refuse(struct bench_reply *reply, const char *text)
{
	reply->outcome = BENCH_REFUSED;
	snprintf(reply->text, sizeof(reply->text), "%s", text);
	return false;
}

/* "Open MPI v4.1.4, package: ..." or "MPICH Version:\t4.0.2\n..." */
static void write_version(char *about, size_t room)
{
	char text[MPI_MAX_LIBRARY_VERSION_STRING];
	size_t used = 0;
	int length;

	MPI_Get_library_version(text, &length);
	text[strcspn(text, ",\n")] = '\0';
	for (const char *at = text; *at && used + 1 < room; at++) {
		if (!strncmp(at, " Version:", 9)) {
			at += 8;
			continue;
		}
		about[used++] = (char)(*at == '\t' ? ' ' : *at);
	}
	about[used] = '\0';
}

static bool mpi_open(const struct bench_setup *setup, void **state,
		     struct bench_reply *reply)
{
	MPI_Init(NULL, NULL);
	MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
	MPI_Comm_size(MPI_COMM_WORLD, &my_ranks);
	if (my_rank != setup->rank || my_ranks != setup->ranks) {
		reply->outcome = BENCH_FAILED;
		snprintf(reply->text, sizeof(reply->text),
			 "MPI_Init made this rank %d of %d instead of %d of %d",
			 my_rank, my_ranks, setup->rank, setup->ranks);
		return false;
	}
	MPI_Op_create(bf16_sum, 1, &bf16_ops[OH_SUM]);
	MPI_Op_create(bf16_prod, 1, &bf16_ops[OH_PROD]);
	MPI_Op_create(bf16_min, 1, &bf16_ops[OH_MIN]);
	MPI_Op_create(bf16_max, 1, &bf16_ops[OH_MAX]);
	write_version(reply->about, sizeof(reply->about));
	*state = NULL;
	return true;
}

static void mpi_close(void *state)
{
	MPI_Finalize();
}

static const void *send_of(const struct bench_call *call)
{
	return call->in_place ? MPI_IN_PLACE : call->send;
}

static int all_reduce(const struct bench_call *call)
{
	return MPI_Allreduce(send_of(call), call->recv, (int)call->count, type,
			     op, MPI_COMM_WORLD);
}

static int reduce_scatter(const struct bench_call *call)
{
	return MPI_Reduce_scatter_block(send_of(call), call->recv,
					(int)call->count, type, op,
					MPI_COMM_WORLD);
}

static int all_gather(const struct bench_call *call)
{
	return MPI_Allgather(send_of(call), (int)call->count, type, call->recv,
			     (int)call->count, type, MPI_COMM_WORLD);
}

static int broadcast(const struct bench_call *call)
{
	return MPI_Bcast(call->recv, (int)call->count, type, call->root,
			 MPI_COMM_WORLD);
}

static MPI_Datatype type_of(enum oh_dtype dtype)
{
	switch (dtype) {
	case OH_F64:
		return MPI_DOUBLE;
	case OH_F32:
		return MPI_FLOAT;
	case OH_F16:
	case OH_BF16:
		return MPI_UINT16_T;
	case OH_I64:
		return MPI_INT64_T;
	case OH_U64:
		return MPI_UINT64_T;
	case OH_I32:
		return MPI_INT32_T;
	case OH_U32:
		return MPI_UINT32_T;
	case OH_I8:
		return MPI_INT8_T;
	case OH_U8:
		return MPI_UINT8_T;
	}
	return MPI_DATATYPE_NULL;
}

static bool choose_op(enum oh_dtype dtype, enum oh_op wanted,
		      struct bench_reply *reply)
{
	const MPI_Op ops[] = {
		[OH_SUM] = MPI_SUM,
		[OH_PROD] = MPI_PROD,
		[OH_MIN] = MPI_MIN,
		[OH_MAX] = MPI_MAX,
	};

	if (wanted == OH_AVG)
		return refuse(reply, "MPI has no average");
	if (dtype == OH_F16)
		return refuse(reply, "MPI has no f16");
	op = dtype == OH_BF16 ? bf16_ops[wanted] : ops[wanted];
	return true;
}

/* MPI's in-place buffers differ from onehop.h's in two calls. */
static void place(enum oh_collective collective, struct bench_call *call)
{
	/* the result is at the start of the one buffer, which is send */
	if (collective == OH_REDUCE_SCATTER && call->in_place)
		call->recv = (void *)(uintptr_t)call->send;
	/* one buffer on each rank: what the root sends, others receive */
	if (collective == OH_BROADCAST && my_rank == call->root)
		call->recv = (void *)(uintptr_t)call->send;
}

static bench_call_fn *mpi_prepare(enum oh_collective collective,
				  struct bench_call *call,
				  struct bench_reply *reply)
{
	static bench_call_fn *const functions[OH_COLLECTIVE_COUNT] = {
		[OH_ALL_REDUCE] = all_reduce,
		[OH_REDUCE_SCATTER] = reduce_scatter,
		[OH_ALL_GATHER] = all_gather,
		[OH_BROADCAST] = broadcast,
	};
	bool reduces =
		collective == OH_ALL_REDUCE || collective == OH_REDUCE_SCATTER;

	if (call->count > INT_MAX) {
		refuse(reply, "MPI counts elements in an int");
		return NULL;
	}
	if (reduces && !choose_op(call->dtype, call->op, reply))
		return NULL;
	type = type_of(call->dtype);
	place(collective, call);
	return functions[collective];
}

/* MPI's default handler ends the process before this is reached. */
static void mpi_explain(enum oh_collective collective, int code,
			struct bench_reply *reply)
{
	char text[MPI_MAX_ERROR_STRING];
	int length;

	MPI_Error_string(code, text, &length);
	reply->outcome = BENCH_FAILED;
	snprintf(reply->text, sizeof(reply->text), "%s", text);
}

static void mpi_poke(void *state)
{
	int flag;

	MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag,
		   MPI_STATUS_IGNORE);
}

static const struct bench_subject subject_mpi = {
	.open = mpi_open,
	.close = mpi_close,
	.prepare = mpi_prepare,
	.explain = mpi_explain,
	.poke = mpi_poke,
};

static int connect_to_parent(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *name = getenv(BENCH_SOCKET_VARIABLE);
	size_t length = name ? strlen(name) : 0;
	int fd;

	if (!length || length >= sizeof(address.sun_path)) {
		fprintf(stderr, "this program is started by `onehop bench "
				"--peer`\n");
		return -1;
	}
	memcpy(address.sun_path + 1, name, length);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0 ||
	    connect(fd, (struct sockaddr *)&address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				length))) {
		perror("connecting to the benchmark");
		return -1;
	}
	return fd;
}

int main(void)
{
	const char *rank = getenv("OMPI_COMM_WORLD_RANK");
	int fd;

	if (!rank)
		rank = getenv("PMI_RANK");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = connect_to_parent();
	if (fd < 0 || !rank)
		return 2;
	return bench_worker_serve(&subject_mpi, fd, atoi(rank));
}
