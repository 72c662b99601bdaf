/* SPDX-License-Identifier: MIT */
/*
 * Onehop: collectives between the ranks of one host.
 *
 * A communicator joins 2 to 16 ranks (1 works too) of one host; ranks are
 * processes, or threads of one process. Every call below is made by all ranks
 * of a communicator in the same order, with the same count, type, operation
 * and root; ranks that disagree get OH_ERR_MISMATCH.
 *
 * Threads: different communicators may be used from different threads at the
 * same time. One communicator takes one call at a time: a second call that
 * overlaps gets OH_ERR_BUSY. oh_comm_abort, oh_comm_health and
 * oh_comm_explain may be called from any thread at any time before
 * oh_comm_destroy.
 *
 * fork: a child has no part in its parent's communicators. Calls on them are
 * OH_ERR_INVALID there; oh_comm_destroy frees the child's copy and is not
 * noticed by the other ranks. exec: a rank that replaces its program without
 * oh_comm_destroy has not ended, the others wait for it until their deadline.
 * Threads: a call may need 48 KiB of stack, and is
 * no cancellation point.
 *
 * Errors: every function that can fail returns an enum oh_status and sets its
 * out-parameters only on OH_OK. oh_last_error tells what was seen.
 *
 * Results: the same bits on every rank, in every algorithm, at every size and
 * in every run. See "Arithmetic" at enum oh_op.
 */
#ifndef ONEHOP_ONEHOP_H
#define ONEHOP_ONEHOP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define OH_API __attribute__((visibility("default")))
#else
#define OH_API
#endif

/* The version of this header; oh_version() is that of the library. */
#define OH_VERSION_MAJOR 0
#define OH_VERSION_MINOR 1
#define OH_VERSION_PATCH 0

/* The largest number of ranks in one communicator. */
#define OH_MAX_RANKS 16

/*
 * Status codes: name, value, what is wrong, what to do. The values are part
 * of the binary interface and never change.
 */
#define OH_STATUS_LIST(X)                                                      \
	X(OH_OK, 0, "success", "nothing to do")                                \
	X(OH_ERR_INVALID, 1, "an argument is invalid",                         \
	  "correct the argument that the message names")                       \
	X(OH_ERR_SYSTEM, 2, "a system call failed",                            \
	  "see the call and the errno in the message")                         \
	X(OH_ERR_NO_MEMORY, 3, "memory could not be had",                      \
	  "free memory, raise the limit in the message, or lower "             \
	  "ONEHOP_SLOT_BYTES")                                                 \
	X(OH_ERR_TIMEOUT, 4, "a rank did not arrive before the deadline",      \
	  "look at the rank that the message names: stopped, or it "           \
	  "skipped a call")                                                    \
	X(OH_ERR_PEER_LOST, 5, "a rank has ended or left the communicator",    \
	  "look for the first failure of the rank that the message names, "    \
	  "then make a new communicator")                                      \
	X(OH_ERR_MISMATCH, 6, "the ranks disagree",                            \
	  "make all ranks pass the values that the message compares")          \
	X(OH_ERR_PROTOCOL, 7, "a message between the ranks is malformed",      \
	  "use one version of the library on all ranks, and find out who "     \
	  "else writes to the rendezvous socket")                              \
	X(OH_ERR_ABORTED, 8, "the communicator was aborted",                   \
	  "destroy it and make a new one")                                     \
	X(OH_ERR_UNSUPPORTED, 9, "this build or machine cannot do that",       \
	  "see the message for what is missing")                               \
	X(OH_ERR_SETTING, 10, "a setting in the environment is malformed",     \
	  "correct or unset the variable that the message names; "             \
	  "`onehop env` lists them all")                                       \
	X(OH_ERR_LAUNCHER, 11, "the environment names no rank",                \
	  "pass rank, ranks and id, or start the program with `onehop run`, "  \
	  "torchrun, mpirun or srun")                                          \
	X(OH_ERR_BUSY, 12, "another call is in flight on this communicator",   \
	  "wait for it, or use one communicator for each thread")

/* What a function returns. Thread: any. */
enum oh_status {
#define OH_STATUS_ENUM(name, value, text, remedy) name = value,
	OH_STATUS_LIST(OH_STATUS_ENUM)
#undef OH_STATUS_ENUM
};

/*
 * Element types. All arithmetic on f16 and bf16 is done in f32 and rounded
 * once, to nearest, ties to even.
 */
enum oh_dtype {
	OH_F64 = 0,
	OH_F32 = 1,
	OH_F16 = 2, /* IEEE binary16 */
	OH_BF16 = 3, /* the upper half of a binary32 */
	OH_I64 = 4,
	OH_U64 = 5,
	OH_I32 = 6,
	OH_U32 = 7,
	OH_I8 = 8,
	OH_U8 = 9,
};
#define OH_DTYPE_COUNT 10

/*
 * Operations. Arithmetic: ranks are combined in rank order, 0 first, in f32
 * (f64: in f64); integers wrap as C unsigned arithmetic does.
 * - A result that is NaN is the canonical one: 0x7fffffff (f32), 0x7fff (f16
 *   and bf16), 0x7fffffffffffffff (f64).
 * - OH_MIN and OH_MAX ignore NaN unless all inputs are NaN, and order -0 below
 *   +0 (IEEE 754-2019 minimumNumber and maximumNumber).
 * - OH_AVG divides the sum by the number of ranks before the one rounding;
 *   integers: the wrapped sum is divided and truncated towards zero.
 * - Subnormals are kept: flush-to-zero and denormals-are-zero are cleared for
 *   the time of a call and restored after it.
 */
enum oh_op {
	OH_SUM = 0,
	OH_PROD = 1,
	OH_MIN = 2,
	OH_MAX = 3,
	OH_AVG = 4,
};
#define OH_OP_COUNT 5

/* For oh_comm_explain. */
enum oh_collective {
	OH_ALL_REDUCE = 0,
	OH_REDUCE_SCATTER = 1,
	OH_ALL_GATHER = 2,
	OH_BROADCAST = 3,
};
#define OH_COLLECTIVE_COUNT 4

/* A communicator. Made by oh_comm_create, ended by oh_comm_destroy. */
struct oh_comm;

/*
 * What the ranks of one communicator share before they meet: make it on one
 * rank, hand it to the others by any means (MPI_Bcast, a store, a file that
 * only this user may read). It holds a secret: who has it may join. One id
 * serves one communicator.
 */
struct oh_unique_id {
	unsigned char bytes[128];
};

/*
 * Fills *id from the kernel's random source. Thread: any. Errors:
 * OH_ERR_INVALID (NULL), OH_ERR_SYSTEM (no random source).
 */
OH_API enum oh_status oh_unique_id_create(struct oh_unique_id *id);

/*
 * How to make a communicator. Set all to zero, then size, then what is
 * wanted: zero is the default everywhere. Fields may be added at the end;
 * size says which ones the caller knows, and fields that this version does not
 * know are ignored.
 */
struct oh_comm_options {
	size_t size; /* sizeof(struct oh_comm_options) */
	/*
	 * The id, the rank (0 to ranks-1) and the number of ranks. With id
	 * NULL all three come from the environment, of the first of these that
	 * is complete: Onehop's own (ONEHOP_RANK, ONEHOP_RANKS, ONEHOP_ID, as
	 * `onehop run` sets them), torchrun, Open MPI, MPICH/Hydra, Slurm.
	 * Such an environment but Onehop's own carries no secret; then the
	 * ranks meet at an abstract socket named by uid and job, and only
	 * processes of the same user are let in.
	 */
	const struct oh_unique_id *id;
	int rank;
	int ranks;
	/* Until when all ranks must have come, in ms. 0: 60000, or
	 * ONEHOP_RENDEZVOUS_TIMEOUT_MS. Rank 0 then tells for 2 s more why it
	 * has failed. */
	uint32_t rendezvous_timeout_ms;
	/* Until when a call must be over, in ms from its start. 0: 600000, or
	 * ONEHOP_CALL_TIMEOUT_MS. */
	uint32_t call_timeout_ms;
	/*
	 * The GPU on whose memory this rank calls, as the CUDA driver counts
	 * in this process. NULL: that of the CUDA context which is current in
	 * the thread; without one, host memory only. Calls on host memory work
	 * either way, those on GPU memory if every rank has a GPU.
	 */
	const int *device;
};

/*
 * Makes a communicator; all ranks call it. Blocks until all have come or the
 * rendezvous deadline has passed. It succeeds on all or fails on all with the
 * same status: a rank that fails before the ranks meet (its settings, its
 * limits) says so to the others for two seconds; whoever comes later, or comes
 * without a usable id, rank or number of ranks, gets or causes
 * OH_ERR_TIMEOUT. A rank that is stopped while the ranks set up is waited for
 * until the deadline, or five seconds, and five more by those that wait for
 * rank 0. NULL options: all from the environment. Thread: any, several at once
 * for different communicators or ranks.
 *
 * Ranks of one process need a GPU each. On one GPU they share a context, where
 * the first launch of a kernel or of a graph (the driver's own kernels for
 * copies, too), cudaFree and cudaFreeHost may wait for a kernel that waits for
 * them, until the deadline; a warning says so. Ranks of different processes may
 * share a GPU; they take turns of milliseconds.
 *
 * Memory: for each rank a segment of about twice ONEHOP_SLOT_BYTES (4M),
 * touched as it is used, and address space of ONEHOP_HEAP_BYTES (16G) for
 * oh_comm_alloc. With GPUs, up to ONEHOP_DEVICE_BYTES (64M) of GPU memory for
 * each rank, and as much host memory where a pair of ranks has no peer access.
 * onehop(1) lists all settings.
 *
 * Errors: OH_ERR_INVALID, OH_ERR_LAUNCHER, OH_ERR_SETTING, OH_ERR_TIMEOUT (a
 * rank never came), OH_ERR_MISMATCH (size, a rank twice, version, settings
 * that must agree), OH_ERR_PROTOCOL, OH_ERR_PEER_LOST, OH_ERR_NO_MEMORY,
 * OH_ERR_UNSUPPORTED (a device, and no driver or no kernels for it; the uid of
 * those that a user namespace does not map), OH_ERR_SYSTEM.
 */
OH_API enum oh_status oh_comm_create(const struct oh_comm_options *options,
				     struct oh_comm **comm);

/*
 * For one thread that owns several GPUs: makes a communicator for each of
 * count ranks (1 to OH_MAX_RANKS), rank i on devices[i], NULL: on device i.
 * Two ranks had better not share a device (see above). comms gets count of
 * them, or none. Each takes the calls of its rank: on GPU memory this thread
 * makes them one after the other, rank by rank. On host memory a call waits for
 * the other ranks, so there each needs a thread of its own. Blocks as
 * oh_comm_create does, whose errors it has.
 */
OH_API enum oh_status oh_comm_create_all(int count, const int *devices,
					 struct oh_comm **comms);

/*
 * Ends a communicator and frees all that belongs to it, memory of
 * oh_comm_alloc included. Not collective; works in every state; NULL is fine.
 * No call may be in flight on it (oh_comm_abort ends one); on GPU memory: the
 * streams of its calls have been waited for, and no graph with a call of it is
 * launched again. Thread: any, while no other one uses it.
 */
OH_API void oh_comm_destroy(struct oh_comm *comm);

/*
 * Ends a waiting call, here and on the other ranks, with OH_ERR_ABORTED. The
 * communicator stays in that state. Thread: any. Errors: OH_ERR_INVALID (NULL).
 */
OH_API enum oh_status oh_comm_abort(struct oh_comm *comm);

/* The caller's rank and the number of ranks; -1 for NULL. Thread: any. */
OH_API int oh_comm_rank(const struct oh_comm *comm);
OH_API int oh_comm_ranks(const struct oh_comm *comm);

/* The state of a communicator. */
struct oh_health {
	size_t size; /* sizeof(struct oh_health), set by the caller */
	/* OH_OK, or what every call now returns. What has failed on another
	 * rank shows once a call of this one has missed that rank. */
	enum oh_status status;
	/* the rank that caused it, -1 if none is known; for OH_ERR_MISMATCH
	 * a rank that differs from this one */
	int culprit;
	uint64_t calls; /* rounds finished on host memory since it was made */
	/* bit i: the process of rank i has ended, and not after it had
	 * destroyed a communicator on which nothing had failed */
	uint32_t lost_ranks;
};

/*
 * Looks at the communicator and at the processes of its ranks; does not wait.
 * What calls return is in health->status, not in what this returns. Thread:
 * any. Errors: OH_ERR_INVALID (NULL, or a size that is none).
 */
OH_API enum oh_status oh_comm_health(struct oh_comm *comm,
				     struct oh_health *health);

/*
 * Memory that all ranks of the host map, so that nothing has to be copied. Not
 * collective; each rank takes what it likes from its own heap
 * (ONEHOP_HEAP_BYTES of address space, pages are used as they are touched).
 * Calls of 4 KiB and more use it where it is; smaller ones are copied. Aligned
 * to 4096 bytes, zero-filled, valid until oh_comm_free or oh_comm_destroy. A
 * call may use any part of it, at any alignment. bytes 0 gives a pointer that
 * may be freed. Every process of the communicator can write to it. Thread: any.
 *
 * Errors: OH_ERR_INVALID, OH_ERR_NO_MEMORY (the heap is used up; the message
 * says how much of it is left).
 */
OH_API enum oh_status oh_comm_alloc(struct oh_comm *comm, size_t bytes,
				    void **pointer);

/* Gives memory of oh_comm_alloc back; NULL is fine. Thread: any. Errors:
 * OH_ERR_INVALID (not a pointer that oh_comm_alloc returned). */
OH_API enum oh_status oh_comm_free(struct oh_comm *comm, void *pointer);

/*
 * Collectives.
 *
 * count is in elements of dtype. Buffers may have any alignment. In place: send
 * == recv (all-reduce, broadcast), send == recv + rank * count elements
 * (all-gather), recv == send
 * + rank * count elements (reduce-scatter); any other overlap is
 * OH_ERR_INVALID. count 0 succeeds, waits for nobody and is no call to the
 * others: a rank that passes 0 while others do not is one call behind from then
 * on, which may go unnoticed while the calls look alike.
 *
 * Host memory: stream must be NULL; a call returns when the result is there and
 * the send buffer may be changed.
 *
 * GPU memory, told by the pointers (of the communicator's device, or managed),
 * both of them: so far all-reduce of f32, f16 and bf16 with sum and avg, and
 * of one rank, where a call copies the bits, everything. A communicator that
 * was made before CUDA was started, without a device in its options, takes
 * every pointer for host memory. stream is a CUstream (a cudaStream_t is one)
 * of the device's primary context, NULL its legacy default stream. A call is
 * queued like a kernel and waits for nothing on the host; it may be captured
 * into a graph. No memory is registered and none allocated. Fastest are sums,
 * whole multiples of 16 bytes, buffers on 16 bytes, and 2, 3, 4 or 8 ranks.
 * - Order: the calls of a communicator run one after the other, on all ranks
 *   in the same order. Calls on several streams, and in one capture, are put
 *   in order by the library: so a stream of a call lives until the next call
 *   on another stream or until the communicator is destroyed, and while it is
 *   being captured a call outside of the capture on another stream is
 *   OH_ERR_INVALID. Eight captures may be under way at a time. Between the
 *   replay of a graph and anything else the caller sees to the order, as to
 *   that of replays among each other: two that overlap on one rank give wrong
 *   results.
 * - A call is captured on all ranks or on none, also into a graph that is
 *   thrown away, and all replay the same graphs in the same order. What is
 *   called is compared between the ranks (bytes, type, operation), what is
 *   replayed is not.
 * - Two communicators may be at work at once on a GPU, in any order on each
 *   rank, if their streams have hardware queues of their own
 *   (CUDA_DEVICE_MAX_CONNECTIONS). A driver promises that to nobody, least of
 *   all to the branches of graphs: one order on all ranks is safe. Of more,
 *   calls above 64 KB need the same order on all ranks: their kernels fill a
 *   GPU, and would wait for each other until the deadline. So do two of which
 *   one has more than four ranks and the other fewer, and those beside which a
 *   kernel of the caller's that was let in early (programmatic dependent
 *   launch) fills a GPU while it waits.
 * - oh_comm_create and oh_comm_destroy may wait for all kernels that run on the
 *   device, calls of other communicators too: so they stand in one order with
 *   those on all ranks.
 * - Ranks of one process on one GPU, and one thread that calls for several
 *   ranks: each rank has a stream of its own, and between the calls of the
 *   ranks nothing waits for the GPU (cudaFree, a synchronisation).
 * - A failure of a call that is queued already shows in oh_comm_health and in
 *   later calls, some 20 ms after it was noticed: a rank that was lost, that
 *   calls something else, that has destroyed its communicator before, or that
 *   does not come before the deadline, by the GPU's clock, some 10 ms late and
 *   3 days at most. (A rank that has sent its data, and then does not send a
 *   result that it owes, is blamed a quarter of the deadline later.) Until then
 *   recv holds anything; but once its stream is idle oh_comm_health says that a
 *   kernel of this rank has waited in vain, by OH_ERR_TIMEOUT with culprit -1
 *   until the cause is known.
 *   Kernels that wait end by themselves, and the GPU can be used as before.
 * - Host calls of a rank beside its GPU calls need the same order on all
 *   ranks, too, but do not wait for those.
 * - A captured call brings programmatic edges into the graph, for which
 *   cudaGraphGetEdges and its like have newer forms.
 *
 * Errors: OH_ERR_INVALID, OH_ERR_UNSUPPORTED, OH_ERR_MISMATCH, OH_ERR_TIMEOUT,
 * OH_ERR_PEER_LOST, OH_ERR_ABORTED, OH_ERR_BUSY; on GPU memory, of the driver,
 * OH_ERR_SYSTEM and OH_ERR_NO_MEMORY. After any of them but OH_ERR_INVALID,
 * OH_ERR_UNSUPPORTED and OH_ERR_BUSY the communicator is broken: recv holds
 * anything (memory of oh_comm_alloc may be written until the others have
 * noticed), every later call returns the same, and it can only be destroyed.
 */

/* recv[i] = op over ranks of send[i], i < count. */
OH_API enum oh_status oh_all_reduce(struct oh_comm *comm, const void *send,
				    void *recv, size_t count,
				    enum oh_dtype dtype, enum oh_op op,
				    void *stream);

/*
 * send has ranks * count elements; rank r gets in recv the count elements
 * from r * count on, combined over the ranks.
 */
OH_API enum oh_status oh_reduce_scatter(struct oh_comm *comm, const void *send,
					void *recv, size_t count,
					enum oh_dtype dtype, enum oh_op op,
					void *stream);

/*
 * recv has ranks * count elements; rank r's count elements of send stand from
 * r * count on, on every rank.
 */
OH_API enum oh_status oh_all_gather(struct oh_comm *comm, const void *send,
				    void *recv, size_t count,
				    enum oh_dtype dtype, void *stream);

/* recv = root's send, on every rank. send is read on the root only. */
OH_API enum oh_status oh_broadcast(struct oh_comm *comm, const void *send,
				   void *recv, size_t count,
				   enum oh_dtype dtype, int root, void *stream);

/* One way that a call could have gone, and why it did not. */
struct oh_route_alternative {
	char name[32]; /* "one-shot" */
	char reason[224];
};

#define OH_ROUTE_ALTERNATIVES 8

/* Where the buffers of a call are. */
enum oh_memory {
	OH_MEMORY_HOST = 0,
	OH_MEMORY_DEVICE = 1, /* of this rank's GPU */
};

/* How what this rank sends comes to another rank's GPU, and why so. */
struct oh_route_peer {
	/* "vram-dst": its memory, stored into directly; "pinned": host memory;
	 * "self" */
	char placement[16];
	char reason[240];
};

/*
 * The way of a call, filled by oh_comm_explain. The caller sets size and
 * memory; set the rest to zero.
 */
struct oh_route {
	size_t size; /* sizeof(struct oh_route) */
	/* "one-shot", "two-shot"; on GPU memory also "one-shot with flags",
	 * "one-shot in chunks", "two-shot in chunks"; "copy" with one rank;
	 * "none" if the call would fail, and row says why */
	char algorithm[32];
	/* the same when a rank's buffers are memory of oh_comm_alloc. "direct":
	 * they are used where they are; an all-reduce works as two-shot then */
	char algorithm_direct[32];
	/* "shm"; on GPU memory that of all pairs of ranks, "mixed" if they
	 * differ, "self" with one rank */
	char placement[32];
	char stores[32]; /* "vector", "string" or "non-temporal" */
	char reducer[32]; /* "avx512", ...: the reduction code; "cuda" */
	char order[32]; /* order of summation: "flat" */
	char row[224]; /* the table row that chose it */
	char evidence[224]; /* what was measured when the table was made */
	uint64_t rounds; /* how many rounds the call takes */
	uint32_t alternative_count;
	struct oh_route_alternative alternatives[OH_ROUTE_ALTERNATIVES];
	enum oh_memory memory; /* set by the caller */
	uint32_t peer_count; /* the number of ranks; 0 on host memory */
	struct oh_route_peer peers[OH_MAX_RANKS];
};

/*
 * Which path a call on bytes bytes would take and why not the others. bytes is
 * count times the element's size (else OH_ERR_INVALID), as given to the call
 * (for all-gather and reduce-scatter: one rank's part). Not collective. op is
 * ignored for all-gather and broadcast. Thread: any. Errors: OH_ERR_INVALID
 * (also NULL, a size or a memory that is none, an unknown collective, type or
 * operation).
 */
OH_API enum oh_status oh_comm_explain(struct oh_comm *comm,
				      enum oh_collective collective,
				      size_t bytes, enum oh_dtype dtype,
				      enum oh_op op, struct oh_route *route);

/* The record of the last failure in this thread. */
struct oh_error {
	enum oh_status status;
	const char *call; /* what failed: "memfd_create", "" if nothing did */
	int code; /* the errno or vendor code of call, 0 if none */
	const char *code_name; /* "EMFILE", "" if none */
	const char *file; /* where in the library */
	int line;
	/* what is wrong, and the evidence; oh_status_remedy(status) says what
	 * to do */
	char message[512];
};

/*
 * The last error of the calling thread, never NULL; status OH_OK if there was
 * none. The failure has also been logged at OH_LOG_ERROR, by default to stderr.
 * A successful call leaves it as it is. Valid until the thread's next
 * failure or end.
 */
OH_API const struct oh_error *oh_last_error(void);

/* Static texts; for an unknown value "unknown". Thread: any. */
OH_API const char *oh_status_name(enum oh_status status);
OH_API const char *oh_status_text(enum oh_status status);
OH_API const char *oh_status_remedy(enum oh_status status);
OH_API const char *oh_dtype_name(enum oh_dtype dtype); /* "bf16" */
OH_API const char *oh_op_name(enum oh_op op); /* "sum" */
OH_API const char *oh_collective_name(enum oh_collective collective);

/* Bytes of one element, 0 for an unknown type. Thread: any. */
OH_API size_t oh_dtype_bytes(enum oh_dtype dtype);

/* What is told: this and what is graver. */
enum oh_log_level {
	OH_LOG_OFF = 0,
	OH_LOG_ERROR = 1,
	OH_LOG_WARN = 2,
	OH_LOG_INFO = 3,
	OH_LOG_DEBUG = 4,
};

/*
 * Takes one line without a line end. Called from any thread, also from
 * several at once; must not call into the library.
 */
typedef void oh_log_sink(enum oh_log_level level, const char *line,
			 void *context);

/*
 * Sets how much is logged and where. sink NULL: stderr, without a SIGPIPE where
 * its reader has gone. Until it is called the
 * level is ONEHOP_LOG's (off, error, warn, info, debug; default warn).
 * Thread: any.
 */
OH_API void oh_set_log(enum oh_log_level level, oh_log_sink *sink,
		       void *context);

/* "0.1.0". Thread: any. */
OH_API const char *oh_version(void);

#ifdef __cplusplus
}
#endif

#endif
