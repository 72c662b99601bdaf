/* SPDX-License-Identifier: MIT */
/*
 * NCCL as the benchmark's peer. However a rank fails, the others learn of it,
 * and nothing is left of any.
 */
#include <stdint.h>

#include "nccl_team.h"
#include "vendor_check.h"

#define SOON 50 /* ms */

/* Before anything is loaded, then what is refused. */

static void try_environment(void)
{
	static const struct {
		const char *value; /* NULL: unset */
		enum oh_status status[BENCH_NCCL_KINDS];
	} rows[] = {
		{NULL, {OH_OK, OH_OK, OH_ERR_SETTING}},
		{"0", {OH_OK, OH_OK, OH_ERR_SETTING}},
		{"", {OH_OK, OH_OK, OH_ERR_SETTING}},
		{"2", {OH_OK, OH_OK, OH_ERR_SETTING}},
		{"1", {OH_ERR_SETTING, OH_ERR_SETTING, OH_OK}},
		{"0x1", {OH_ERR_SETTING, OH_ERR_SETTING, OH_OK}},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		bool good = true;

		unsetenv("NCCL_P2P_DISABLE");
		if (rows[i].value)
			setenv("NCCL_P2P_DISABLE", rows[i].value, 1);
		for (int k = 0; k < BENCH_NCCL_KINDS; k++) {
			enum oh_status status =
				bench_nccl_check((enum bench_nccl_kind)k);

			good = good && status == rows[i].status[k] &&
			       (!status || (is_said("NCCL_P2P_DISABLE") &&
					    is_said(bench_nccl_name(k))));
		}
		tap_ok(good, "NCCL_P2P_DISABLE %s%s",
		       rows[i].value ? "is " : "is unset",
		       rows[i].value ? rows[i].value : "");
	}
	unsetenv("NCCL_P2P_DISABLE");
}

static void try_refused(const struct bench_nccl_setup *setup,
			enum oh_status expected, const char *word,
			const char *what)
{
	struct bench_nccl *job = NULL;
	enum oh_status status = bench_nccl_open(setup, &job);

	if (!tap_ok(status == expected && !job && is_said(word), "%s", what))
		tap_note("%d: %s", (int)status, oh_last_error()->message);
}

static void try_setups(void)
{
	struct bench_nccl_setup setup = setup_of(BENCH_NCCL_DEFAULT);

	setup.file = "/libnccl-absent.so";
	loudest = OH_LOG_OFF;
	try_refused(&setup, OH_ERR_UNSUPPORTED, "/libnccl-absent.so",
		    "no NCCL where it is said to be");
	tap_ok(!loudest || loudest >= OH_LOG_INFO, "which is no error");
	setup = setup_of(BENCH_NCCL_DEFAULT);
	setup.ranks = 0;
	try_refused(&setup, OH_ERR_INVALID, "0 ranks", "no ranks");
	setup.ranks = OH_MAX_RANKS + 1;
	try_refused(&setup, OH_ERR_INVALID, "17 ranks", "too many ranks");
	setup = setup_of(BENCH_NCCL_DEFAULT);
	setup.bytes = 0;
	try_refused(&setup, OH_ERR_INVALID, "0 bytes", "no memory");
	setup = setup_of(BENCH_NCCL_DEFAULT);
	setup.device[2] = setup.device[1];
	try_refused(&setup, OH_ERR_UNSUPPORTED, "both on GPU 0",
		    "two ranks on one GPU");
	setup = setup_of(BENCH_NCCL_SHM);
	try_refused(&setup, OH_ERR_SETTING, "NCCL_P2P_DISABLE=1",
		    "peers where there must be none");
	play("", "error ncclGetVersion 3\n");
	setup = setup_of(BENCH_NCCL_DEFAULT);
	try_refused(&setup, OH_ERR_SYSTEM,
		    "ncclGetVersion failed, code 3 ncclInternalError",
		    "an NCCL that does not tell its version");
	play("", "error ncclGetUniqueId 2\n");
	try_refused(&setup, OH_ERR_SYSTEM,
		    "ncclGetUniqueId failed, code 2 ncclSystemError",
		    "an NCCL that makes no id");
	bench_nccl_close(NULL);
}

static void try_versions(void)
{
	static const struct {
		const char *script, *version;
	} rows[] = {
		{"version 22809\n", "2.28.9"},
		{"version 23100\n", "2.31.0"},
		/* until 2.8 the code was another one */
		{"version 2708\n", "2.7.8"},
		{"version 20901\n", "2.9.1"},
	};
	const struct bench_nccl_setup setup = setup_of(BENCH_NCCL_DEFAULT);
	struct bench_nccl *job;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		play("", rows[i].script);
		if (!tap_ok(!bench_nccl_open(&setup, &job), "it opens"))
			continue;
		tap_ok(!strcmp(bench_nccl_version(job), rows[i].version),
		       "version %s", rows[i].version);
		/* who has not joined may leave */
		bench_nccl_leave(job, 1);
		bench_nccl_close(job);
	}
}

/* What the ranks have while they are joined. */

struct counts {
	unsigned windows, nccl_memory, cuda_memory;
};

static const struct counts counts[BENCH_NCCL_KINDS] = {
	[BENCH_NCCL_DEFAULT] = {0, 0, RANKS},
	/* the fake takes its memory of the driver's */
	[BENCH_NCCL_SYMM] = {RANKS, RANKS, RANKS},
	[BENCH_NCCL_SHM] = {0, 0, RANKS},
};
static const struct counts *wanted;

static bool counts_are_wanted(void)
{
	return fakenccl_live("communicator") == RANKS &&
	       fakenccl_live("window") == wanted->windows &&
	       fakenccl_live("memory") == wanted->nccl_memory &&
	       fakecuda_live("memory") == wanted->cuda_memory &&
	       fakecuda_live("context") == RANKS;
}

/* On its own GPU, with all of its bytes. */
static bool memory_is_sound(const struct member *member)
{
	CUpointer_attribute attributes[] = {
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE,
	};
	CUdeviceptr memory = bench_nccl_memory(member->job, member->rank);
	CUdevice device = -1, current = -1;
	size_t bytes = 0;
	void *values[] = {&device, &bytes};

	return !cuda->cuPointerGetAttributes(2, attributes, values, memory) &&
	       bytes >= BYTES && device == devices[member->rank] &&
	       !cuda->cuCtxGetDevice(&current) && current == device;
}

static enum oh_status act_look(struct member *member)
{
	bool good;

	pthread_barrier_wait(member->barrier);
	good = counts_are_wanted() && memory_is_sound(member);
	pthread_barrier_wait(member->barrier);
	return good ? OH_OK : OH_ERR_INVALID;
}

static void try_kind(enum bench_nccl_kind kind)
{
	const struct bench_nccl_setup setup = setup_of(kind);
	struct team team;
	bool good = true;

	play("", "");
	loudest = OH_LOG_OFF;
	wanted = &counts[kind];
	if (!run_team(&team, &setup, act_look))
		return;
	for (int i = 0; i < RANKS; i++)
		good = good && !team.member[i].joined && !team.member[i].acted;
	tap_ok(good, "%s: each rank has what it needs, on its GPU",
	       bench_nccl_name(kind));
	tap_ok(is_clean() && fakenccl_calls("ncclCommDestroy") == RANKS &&
		       !fakenccl_calls("ncclCommAbort") &&
		       fakenccl_calls("ncclCommWindowDeregister") ==
			       wanted->windows &&
		       loudest != OH_LOG_ERROR,
	       "%s: all is given back in good order", bench_nccl_name(kind));
}

/* Calls. */

static const struct bench_nccl_call one_call = {
	.send = 64, .recv = 1024, .count = 100, .dtype = OH_F32, .op = OH_SUM};

/* All types and operations, and one in place. */
static enum oh_status act_call_all(struct member *member)
{
	struct bench_nccl_call call = one_call;
	enum oh_status status = OH_OK;

	if (member->rank)
		return OH_OK;
	for (int t = 0; t < OH_DTYPE_COUNT; t++)
		for (int o = 0; o < OH_OP_COUNT; o++) {
			call.dtype = (enum oh_dtype)t;
			call.op = (enum oh_op)o;
			if (!status)
				status = bench_nccl_enqueue(member->job, 0,
							    &call, NULL);
		}
	/* all of the memory, and the end of it */
	call = (struct bench_nccl_call){0, 0, BYTES, OH_U8, OH_SUM};
	if (!status)
		status = bench_nccl_enqueue(member->job, 0, &call, NULL);
	call = (struct bench_nccl_call){0, BYTES - 4, 4, OH_U8, OH_SUM};
	if (!status)
		status = bench_nccl_enqueue(member->job, 0, &call, NULL);
	return status;
}

static bool is_translated(const struct fakenccl_collective *seen, int dtype,
			  int op)
{
	static const ncclDataType_t types[] = {
		ncclFloat64, ncclFloat32, ncclFloat16, ncclBfloat16, ncclInt64,
		ncclUint64,  ncclInt32,	  ncclUint32,  ncclInt8,     ncclUint8};
	static const ncclRedOp_t ops[] = {ncclSum, ncclProd, ncclMin, ncclMax,
					  ncclAvg};
	const char *send = seen->send;

	return !strcmp(seen->function, "ncclAllReduce") && !seen->rank &&
	       seen->device == devices[0] && seen->type == types[dtype] &&
	       seen->op == ops[op] && seen->count == one_call.count &&
	       (const char *)seen->recv - send == 1024 - 64;
}

static void try_calls(void)
{
	const struct bench_nccl_setup setup = setup_of(BENCH_NCCL_DEFAULT);
	const struct fakenccl_collective *seen;
	struct team team;
	unsigned count, wrong = 0;

	play("", "");
	if (!run_team(&team, &setup, act_call_all))
		return;
	seen = fakenccl_collectives(&count);
	tap_ok(!team.member[0].acted && count == 10 * 5 + 2,
	       "%u calls of all types and operations", count);
	for (int i = 0; i < 50; i++)
		wrong += !is_translated(&seen[i], i / 5, i % 5);
	tap_ok(!wrong, "each is what was asked for, where it was asked for");
	tap_ok(seen[50].count == BYTES && seen[50].send == seen[50].recv,
	       "in place");
}

/* On a stream, in a capture, and again by a graph. */

static bool recv_is(const struct member *member, const unsigned char *want)
{
	unsigned char seen[400];

	return !cuda->cuMemcpyDtoH_v2(
		       seen,
		       bench_nccl_memory(member->job, member->rank) + 1024,
		       sizeof(seen)) &&
	       !memcmp(seen, want, sizeof(seen));
}

static bool send(const struct member *member, const unsigned char *data)
{
	return !cuda->cuMemcpyHtoD_v2(
		bench_nccl_memory(member->job, member->rank) + 64, data, 400);
}

static bool capture(const struct member *member, CUstream stream,
		    CUgraphExec *executable)
{
	CUgraph graph = NULL;
	bool good;

	good = !cuda->cuStreamBeginCapture_v2(
		       stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) &&
	       !bench_nccl_enqueue(member->job, member->rank, &one_call,
				   stream) &&
	       !cuda->cuStreamEndCapture(stream, &graph) &&
	       !cuda->cuGraphInstantiateWithFlags(executable, graph, 0);
	return !cuda->cuGraphDestroy(graph) && good;
}

static enum oh_status act_capture(struct member *member)
{
	unsigned char one[400], other[400];
	CUgraphExec executable = NULL;
	CUstream stream = NULL;
	bool good;

	memset(one, 1 + member->rank, sizeof(one));
	memset(other, 101 + member->rank, sizeof(other));
	good = !cuda->cuStreamCreateWithPriority(&stream,
						 CU_STREAM_NON_BLOCKING, 0) &&
	       send(member, one) &&
	       !bench_nccl_enqueue(member->job, member->rank, &one_call,
				   stream) &&
	       recv_is(member, one) && send(member, other) &&
	       capture(member, stream, &executable) && recv_is(member, one) &&
	       !cuda->cuGraphLaunch(executable, stream) &&
	       recv_is(member, other) &&
	       !bench_nccl_health(member->job, member->rank);
	cuda->cuGraphExecDestroy(executable);
	cuda->cuStreamDestroy_v2(stream);
	return good ? OH_OK : OH_ERR_INVALID;
}

static void try_capture(enum bench_nccl_kind kind)
{
	const struct bench_nccl_setup setup = setup_of(kind);
	struct team team;
	bool good = true;

	play("", "");
	if (!run_team(&team, &setup, act_capture))
		return;
	for (int i = 0; i < RANKS; i++)
		good = good && !team.member[i].joined && !team.member[i].acted;
	tap_ok(good && is_clean(),
	       "%s: called on a stream, captured, and replayed",
	       bench_nccl_name(kind));
}

/* Calls that fail: one of rank 1; the others leave after it. */

static const struct bench_nccl_call *bad_call;

static enum oh_status act_bad_call(struct member *member)
{
	enum oh_status status = OH_OK;

	if (member->rank == 1)
		status = bench_nccl_enqueue(member->job, 1, bad_call, NULL);
	pthread_barrier_wait(member->barrier);
	return status;
}

static enum oh_status act_health(struct member *member)
{
	enum oh_status status = bench_nccl_health(member->job, member->rank);

	pthread_barrier_wait(member->barrier);
	return status;
}

static void try_failing_act(act_fn *act, const char *script,
			    enum oh_status expected, const char *word,
			    const char *what)
{
	const struct bench_nccl_setup setup = setup_of(BENCH_NCCL_SYMM);
	const struct member *culprit;
	struct team team;

	play("", script);
	if (!run_team(&team, &setup, act))
		return;
	culprit = &team.member[1];
	if (!tap_ok(culprit->acted == expected &&
			    strstr(culprit->record.message, word) &&
			    !team.member[0].acted && !team.member[2].acted,
		    "%s", what))
		tap_note("%s", culprit->record.message);
	tap_ok(is_clean() && fakenccl_calls("ncclCommAbort") == RANKS &&
		       !fakenccl_calls("ncclCommDestroy") &&
		       !fakenccl_calls("ncclCommWindowDeregister"),
	       "%s: all ranks abort, and nothing is left", what);
}

static void try_failing_acts(void)
{
	static const struct {
		struct bench_nccl_call call;
		const char *word;
	} rows[] = {
		{{0, 0, 1, (enum oh_dtype)10, OH_SUM}, "type 10"},
		{{0, 0, 1, OH_F32, (enum oh_op)5}, "operation 5"},
		{{0, 0, BYTES / 4 + 1, OH_F32, OH_SUM}, "1025 elements"},
		{{4, 0, BYTES / 4, OH_F32, OH_SUM}, "from byte 4"},
		{{0, 4, BYTES / 4, OH_F32, OH_SUM}, "to byte 4"},
		{{(size_t)-4, 0, 1, OH_F32, OH_SUM}, "rank 1 has 4096 bytes"},
		{{0, 0, (size_t)1 << 62, OH_F32, OH_SUM}, "elements"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		bad_call = &rows[i].call;
		try_failing_act(act_bad_call, "", OH_ERR_INVALID, rows[i].word,
				rows[i].word);
	}
	bad_call = &one_call;
	try_failing_act(act_bad_call, "rank 1 ncclAllReduce 5\n", OH_ERR_SYSTEM,
			"ncclAllReduce failed, code 5 ncclInvalidUsage (fake "
			"text 5)",
			"a call that NCCL refuses");
	try_failing_act(act_health, "async 1 6\n", OH_ERR_SYSTEM,
			"ncclCommGetAsyncError failed, code 6 ncclRemoteError",
			"a failure in the background");
	try_failing_act(act_health, "rank 1 ncclCommGetAsyncError 3\n",
			OH_ERR_SYSTEM, "code 3", "one that cannot be seen");
}

/* Ranks that do not join. */

/* One has its own error, the others have that of the one. */
static bool all_tell(const struct team *team, const char *word)
{
	char prefix[16];
	int own = 0, others = 0;

	for (int i = 0; i < RANKS; i++) {
		const char *message = team->member[i].record.message;

		others +=
			!strncmp(message, "rank ", 5) && strstr(message, word);
		own += !strncmp(message, word, strlen(word));
		snprintf(prefix, sizeof(prefix), "rank %d: ", i);
		/* nobody tells of itself as of another */
		others -= !strncmp(message, prefix, strlen(prefix));
	}
	return own == 1 && others == RANKS - 1;
}

static void try_local_failure(enum bench_nccl_kind kind, const char *driver,
			      const char *nccl, enum oh_status status,
			      const char *word)
{
	const struct bench_nccl_setup setup = setup_of(kind);
	struct team team;

	play(driver, nccl);
	if (!run_team(&team, &setup, NULL))
		return;
	if (!tap_ok(all_joined(&team, status) && all_tell(&team, word),
		    "%s: no rank joins, each says why", word))
		for (int i = 0; i < RANKS; i++)
			tap_note("%d %s", (int)team.member[i].joined,
				 team.member[i].record.message);
	tap_ok(!fakenccl_calls("ncclCommInitRank") && is_clean(),
	       "%s: none enters NCCL, and nothing is left", word);
}

static void try_local_failures(void)
{
	try_local_failure(BENCH_NCCL_DEFAULT, "error cuMemAlloc_v2 2 2\n", "",
			  OH_ERR_NO_MEMORY, "cuMemAlloc_v2 failed, code 2");
	try_local_failure(BENCH_NCCL_DEFAULT, "error cuDeviceGet 101 3\n", "",
			  OH_ERR_SYSTEM, "cuDeviceGet failed, code 101");
	try_local_failure(
		BENCH_NCCL_SHM, "error cuDevicePrimaryCtxRetain 46 1\n", "",
		OH_ERR_SYSTEM, "cuDevicePrimaryCtxRetain failed, code 46");
	try_local_failure(BENCH_NCCL_SYMM, "error cuCtxPushCurrent_v2 201 2\n",
			  "", OH_ERR_SYSTEM,
			  "cuCtxPushCurrent_v2 failed, code 201");
	try_local_failure(BENCH_NCCL_SYMM, "", "error ncclMemAlloc 1 2\n",
			  OH_ERR_SYSTEM,
			  "ncclMemAlloc failed, code 1 "
			  "ncclUnhandledCudaError (fake text 1)");
}

/* A driver's call that fails, each of those before NCCL: cuInit is the first,
 * then four of each rank. */
static void try_each_call(void)
{
	const struct bench_nccl_setup setup = setup_of(BENCH_NCCL_DEFAULT);
	unsigned wrong = 0, left = 0, entered = 0;

	for (unsigned k = 2; k <= 1 + 4 * RANKS; k++) {
		struct team team;
		char more[64];

		snprintf(more, sizeof(more), "fail %u 719\n", k);
		play(more, "");
		if (!run_team(&team, &setup, NULL))
			return;
		wrong += !all_joined(&team, OH_ERR_SYSTEM);
		entered += fakenccl_calls("ncclCommInitRank");
		left += !is_clean();
	}
	tap_ok(!wrong && !entered && !left,
	       "each call before NCCL fails: all ranks learn of it, nothing is "
	       "left");
}

static void try_no_windows(void)
{
	const struct bench_nccl_setup setup = setup_of(BENCH_NCCL_SYMM);
	struct team team;

	play("", "windows 0\n");
	loudest = OH_LOG_OFF;
	if (!run_team(&team, &setup, NULL))
		return;
	tap_ok(all_joined(&team, OH_ERR_UNSUPPORTED) &&
		       loudest >= OH_LOG_INFO &&
		       strstr(team.member[0].record.message,
			      "NCCL 2.28.9 makes no symmetric window"),
	       "where NCCL gives no window nothing else is measured for it");
	tap_ok(is_clean() && !fakenccl_calls("ncclCommWindowDeregister"),
	       "no window: nothing is left");
}

/*
 * Rank 1 fails where NCCL waits for it: the others are in there as long as NCCL
 * likes, but rank 1 returns, and says why.
 */
static void try_inside(const char *function)
{
	const struct bench_nccl_setup setup = setup_of(BENCH_NCCL_SYMM);
	struct team team;
	char script[64], word[64];
	bool waits;

	snprintf(script, sizeof(script), "rank 1 %s 2\n", function);
	snprintf(word, sizeof(word), "%s failed, code 2 ncclSystemError",
		 function);
	play("", script);
	if (!team_open(&team, &setup, NULL))
		return;
	for (int i = 0; i < RANKS; i++)
		member_start(&team.member[i]);
	member_end(&team.member[1]);
	waits = !is_over(&team.member[0]) && !is_over(&team.member[2]);
	tap_ok(waits && team.member[1].joined == OH_ERR_SYSTEM &&
		       !strncmp(team.member[1].record.message, word,
				strlen(word)),
	       "%s fails of one rank: that one returns", function);
	fakenccl_release();
	member_end(&team.member[0]);
	member_end(&team.member[2]);
	tap_ok(all_joined(&team, OH_ERR_SYSTEM) && is_clean(),
	       "%s: when NCCL lets go of the others they fail, too", function);
	team_close(&team);
}

/* Rank 1 never comes: rank 0 waits, and rank 2 comes when that is over. */
static void try_late(void)
{
	struct bench_nccl_setup setup = setup_of(BENCH_NCCL_DEFAULT);
	struct team team;

	play("", "");
	setup.timeout_ms = SOON;
	if (!team_open(&team, &setup, NULL))
		return;
	for (int i = 0; i < RANKS; i += 2) {
		member_start(&team.member[i]);
		member_end(&team.member[i]);
	}
	tap_ok(team.member[0].joined == OH_ERR_TIMEOUT &&
		       !strncmp(team.member[0].record.message,
				"rank 1 of NCCL has not come within 50 ms", 40),
	       "a rank that never comes is waited for until the deadline");
	tap_ok(team.member[2].joined == OH_ERR_TIMEOUT &&
		       !strncmp(team.member[2].record.message,
				"rank 0: rank 1 of NCCL has not come", 35) &&
		       is_clean(),
	       "who comes after that is told so");
	team_close(&team);
}

/* In a thread without an error so far, which gives up for rank 1. */
static void *try_giving_up(void *unused)
{
	const struct bench_nccl_setup setup = setup_of(BENCH_NCCL_DEFAULT);
	struct team team;
	bool good = true;

	play("", "");
	if (!team_open(&team, &setup, NULL))
		return unused;
	for (int i = 0; i < RANKS; i += 2)
		member_start(&team.member[i]);
	bench_nccl_give_up(team.job, 1);
	for (int i = 0; i < RANKS; i += 2) {
		member_end(&team.member[i]);
		good = good && team.member[i].joined == OH_ERR_ABORTED &&
		       !strcmp(team.member[i].record.message,
			       "rank 1: rank 1 does not join NCCL");
	}
	tap_ok(good && is_clean(),
	       "a rank that gives up ends the others' waiting");
	team_close(&team);
	return unused;
}

static void try_absent_ranks(void)
{
	pthread_t thread;

	try_late();
	pthread_create(&thread, NULL, try_giving_up, NULL);
	pthread_join(thread, NULL);
}

/* An NCCL from before windows, in a process of its own. */

static int child_old(void)
{
	struct bench_nccl_setup setup = setup_of(BENCH_NCCL_SYMM);
	struct bench_nccl *job = NULL;

	play("", "version 22602\n");
	loudest = OH_LOG_OFF;
	if (bench_nccl_open(&setup, &job) != OH_ERR_UNSUPPORTED || job ||
	    !is_said("NCCL 2.26.2 has no symmetric windows") ||
	    loudest < OH_LOG_INFO)
		return 1;
	setup.kind = BENCH_NCCL_DEFAULT;
	if (bench_nccl_open(&setup, &job))
		return 2;
	bench_nccl_close(job);
	return 0;
}

static void try_old(void)
{
	int status;

	fakelibrary_place("fakenccl_old.so", fakenccl.file);
	status = vendor_spawn("old");
	tap_ok(status == 0,
	       "an NCCL without windows is none for nccl-symm (%d)", status);
}

int main(int argc, char **argv)
{
	fakecuda_start(argv);
	fakenccl_start(argv);
	oh_set_log(OH_LOG_DEBUG, note_level, NULL);
	if (argc > 1)
		return child_old();
	play("", "");
	try_environment();
	try_setups();
	if (!tap_ok(!oh__cuda_load(&cuda), "the driver's fake is there"))
		return tap_done();
	try_versions();
	for (int i = 0; i < BENCH_NCCL_KINDS; i++) {
		try_kind((enum bench_nccl_kind)i);
		try_capture((enum bench_nccl_kind)i);
	}
	try_calls();
	try_failing_acts();
	try_local_failures();
	try_each_call();
	try_no_windows();
	try_inside("ncclCommInitRank");
	try_inside("ncclCommWindowRegister");
	try_absent_ranks();
	try_old();
	fakelibrary_end();
	return tap_done();
}
