/* SPDX-License-Identifier: MIT */
/*
 * How NCCL is loaded, what becomes of its errors, and that each function of the
 * table works and can fail. The module that plays NCCL is fakenccl.c; other
 * libraries take its place in processes of their own.
 */
#include <pthread.h>
#include <stdint.h>

#include "fakenccl.h"
#include "nccl_header.h"
#include "tap.h"
#include "vendor_check.h"

#define INSTALLED "/usr/local/cuda/lib/libnccl.so.2"

static bool is_message(const char *text)
{
	return !strcmp(oh_last_error()->message, text);
}

static bool is_absent(const char *file)
{
	const struct oh__nccl *nccl = NULL;

	loudest = OH_LOG_OFF;
	return oh__nccl_load(file, &nccl) == OH_ERR_UNSUPPORTED && !nccl &&
	       (!loudest || loudest >= OH_LOG_INFO);
}

/* Loading. */

static void *load_in_thread(void *result)
{
	const struct oh__nccl **nccl = result;

	if (oh__nccl_load(NULL, nccl))
		*nccl = NULL;
	return NULL;
}

static const struct oh__nccl *try_threads(void)
{
	enum {
		THREADS = 8
	};
	const struct oh__nccl *nccl[THREADS] = {NULL}, *later = NULL;
	pthread_t threads[THREADS];
	bool same = true;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, load_in_thread, &nccl[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < THREADS; i++)
		same = same && nccl[i] && nccl[i] == nccl[0];
	tap_ok(same, "threads that load it at once get the same table");
	if (!nccl[0])
		return NULL;
#define OH_NCCL(need, result, name, parameters)                                \
	same = same && nccl[0]->name != NULL;
#include "vendor/nccl.def"
	tap_ok(same, "all functions are there");
	tap_ok(!oh__nccl_load("/libnccl-absent.so", &later) && later == nccl[0],
	       "whoever names another file then gets the one that is loaded");
	return nccl[0];
}

static void try_before(void)
{
	tap_ok(oh__nccl_fail(1, "ncclAllReduce", __FILE__, 1) ==
			       OH_ERR_SYSTEM &&
		       is_message("ncclAllReduce failed, code 1 "
				  "ncclUnhandledCudaError"),
	       "without a table an error has its code and name only");
	tap_ok(is_absent("/libnccl-absent.so") &&
		       is_said("/libnccl-absent.so is not installed"),
	       "a file that is not there is no NCCL, and no error");
}

/* Errors. */

static void try_errors(const struct oh__nccl *nccl)
{
	const struct oh_error *record = oh_last_error();
	const struct oh__nccl *const *table = &nccl;
	int line, version = 0;

	fakenccl_play("", "last Cuda failure 1 'invalid'\\nsecond line\n");
	loudest = OH_LOG_OFF;
	tap_ok(OH__NCCL(nccl->ncclGetVersion(&version)) == OH_OK &&
		       version == 22809 && loudest == OH_LOG_OFF,
	       "a call that succeeds is ok and silent");
	line = __LINE__ + 1;
	tap_ok(OH__NCCL((*table)->ncclCommAbort(NULL)) == OH_ERR_SYSTEM &&
		       record->status == OH_ERR_SYSTEM,
	       "one that fails is a system error");
	tap_ok(!strcmp(record->call, "ncclCommAbort") && record->code == 4 &&
		       !strcmp(record->code_name, "ncclInvalidArgument"),
	       "the record has the function, the code and its name");
	tap_ok(is_message("ncclCommAbort failed, code 4 ncclInvalidArgument "
			  "(fake text 4: Cuda failure 1 'invalid')"),
	       "the message says all, with the first line of NCCL's last");
	tap_ok(strstr(record->file, "test_nccl.c") && record->line == line &&
		       loudest == OH_LOG_ERROR,
	       "the place is recorded, and it is logged as an error");
	oh__nccl_fail(ncclInProgress, "ncclCommDestroy", __FILE__, 1);
	tap_ok(is_message("ncclCommDestroy failed, code 7 ncclInProgress "
			  "(Cuda failure 1 'invalid')"),
	       "a code for which NCCL has no text");
	fakenccl_play("", "");
	nccl->ncclGetVersion(&version);
	oh__nccl_fail(ncclSystemError, "ncclCommDestroy", __FILE__, 1);
	tap_ok(is_message("ncclCommDestroy failed, code 2 ncclSystemError "
			  "(fake text 2)"),
	       "NCCL has said nothing");
	oh__nccl_fail(777, "(nccl) text", __FILE__, 1);
	tap_ok(is_message("(nccl) text failed, code 777") &&
		       !strcmp(record->code_name, ""),
	       "a code without a name, of what is no call of the table");
}

/* Every function, once well and once badly: one rank on one GPU. */

struct world {
	const struct oh__nccl *nccl;
	CUcontext context;
	ncclComm_t comm;
	ncclWindow_t window;
	void *memory;
};

#define TRY(call)                                                              \
	do {                                                                   \
		ncclResult_t code_ = (call);                                   \
		if (code_)                                                     \
			return code_;                                          \
	} while (0)

static ncclResult_t build(struct world *w)
{
	const struct oh__nccl *nccl = w->nccl;
	ncclUniqueId id;
	ncclComm_t other;
	ncclResult_t found;
	int version;

	TRY(nccl->ncclGetVersion(&version));
	TRY(nccl->ncclCommInitAll(&other, 1, NULL));
	/* an end that fails is made once more */
	found = nccl->ncclCommDestroy(other);
	if (found) {
		nccl->ncclCommDestroy(other);
		return found;
	}
	TRY(nccl->ncclGetUniqueId(&id));
	TRY(nccl->ncclCommInitRank(&w->comm, 1, id, 0));
	TRY(nccl->ncclCommGetAsyncError(w->comm, &found));
	TRY(nccl->ncclMemAlloc(&w->memory, 4096));
	TRY(nccl->ncclCommWindowRegister(w->comm, w->memory, 4096, &w->window,
					 NCCL_WIN_COLL_SYMMETRIC));
	return found;
}

static ncclResult_t work(struct world *w)
{
	const struct oh__nccl *nccl = w->nccl;
	char *memory = w->memory;
	ncclResult_t code;

	TRY(nccl->ncclGroupStart());
	TRY(nccl->ncclAllReduce(memory, memory + 64, 4, ncclFloat32, ncclSum,
				w->comm, NULL));
	TRY(nccl->ncclReduceScatter(memory, memory + 64, 4, ncclFloat32,
				    ncclSum, w->comm, NULL));
	TRY(nccl->ncclAllGather(memory, memory + 64, 4, ncclFloat32, w->comm,
				NULL));
	TRY(nccl->ncclBroadcast(memory, memory + 64, 4, ncclFloat32, 0, w->comm,
				NULL));
	code = nccl->ncclGroupEnd();
	return code;
}

#define UNDO(call)                                                             \
	do {                                                                   \
		ncclResult_t code_ = (call);                                   \
		if (code_ && !first)                                           \
			first = code_;                                         \
		if (code_)                                                     \
			(void)(call);                                          \
	} while (0)

static ncclResult_t end(struct world *w)
{
	const struct oh__nccl *nccl = w->nccl;
	ncclResult_t first = ncclSuccess;

	if (w->window)
		UNDO(nccl->ncclCommWindowDeregister(w->comm, w->window));
	if (w->memory)
		UNDO(nccl->ncclMemFree(w->memory));
	if (w->comm)
		UNDO(nccl->ncclCommAbort(w->comm));
	return first;
}

static ncclResult_t play_world(const struct oh__nccl *nccl, const char *more)
{
	struct world world = {.nccl = nccl};
	ncclResult_t code, last;

	fakenccl_play("", more);
	code = build(&world);
	if (!code)
		code = work(&world);
	last = end(&world);
	return code ? code : last;
}

/* The two with texts have no code to fail with; errors above call them. */
static void try_function(const struct oh__nccl *nccl, const char *name)
{
	bool texts = !strcmp(name, "ncclGetErrorString") ||
		     !strcmp(name, "ncclGetLastError");
	char more[128];
	ncclResult_t code;

	if (texts)
		return;
	if (!fakenccl_calls(name)) {
		tap_ok(false, "%s is called", name);
		return;
	}
	/* a code that none of them gives by itself */
	snprintf(more, sizeof(more), "error %s 3 1\n", name);
	code = play_world(nccl, more);
	tap_ok(code == ncclInternalError && !fakenccl_live(NULL),
	       "%s fails as told, and nothing is left", name);
	/* the counts of the next check */
	play_world(nccl, "");
}

static void try_each_call(const struct oh__nccl *nccl)
{
	unsigned calls, wrong = 0, left = 0;

	play_world(nccl, "");
	calls = fakenccl_calls(NULL);
	for (unsigned k = 1; k <= calls; k++) {
		char more[64];
		ncclResult_t code;

		snprintf(more, sizeof(more), "fail %u 3\n", k);
		code = play_world(nccl, more);
		left += fakenccl_live(NULL);
		wrong += code != ncclInternalError;
	}
	/* one of each function but the two with texts */
	tap_ok(calls == 17 && !wrong, "each of %u calls fails as told", calls);
	tap_ok(!left, "and nothing is left after any");
}

static void try_functions(const struct oh__nccl *nccl)
{
	ncclResult_t code = play_world(nccl, "");

	tap_ok(!code && !fakenccl_live(NULL),
	       "without a failure all works, and nothing is left");
	if (code)
		tap_note("code %u", code);
#define OH_NCCL(need, result, name, parameters) try_function(nccl, #name);
#include "vendor/nccl.def"
	try_each_call(nccl);
}

/* Other libraries in NCCL's place. */

static int child_broken(void)
{
	const struct oh__nccl *nccl = NULL;

	return oh__nccl_load(NULL, &nccl) == OH_ERR_SYSTEM && !nccl &&
			       is_said("ncclCommInitRank") &&
			       loudest == OH_LOG_ERROR
		       ? 0
		       : 1;
}

static int child_garbage(void)
{
	const struct oh__nccl *nccl = NULL;

	return oh__nccl_load(NULL, &nccl) == OH_ERR_SYSTEM && !nccl &&
			       is_said("libnccl.so.2 cannot be loaded")
		       ? 0
		       : 1;
}

/* Its errors are told without what it cannot say. */
static int child_old(void)
{
	const struct oh__nccl *nccl = NULL;

	if (oh__nccl_load(NULL, &nccl) || nccl->ncclCommWindowRegister ||
	    nccl->ncclGetLastError || !nccl->ncclMemAlloc)
		return 1;
	oh__nccl_fail(ncclInvalidUsage, "ncclMemFree", __FILE__, 1);
	return is_message("ncclMemFree failed, code 5 ncclInvalidUsage (fake "
			  "text 5)")
		       ? 0
		       : 2;
}

static int child_none(void)
{
	if (dlopen("libnccl.so.2", RTLD_NOW))
		return 77;
	return is_absent(NULL) && is_said("libnccl.so.2 is not installed") ? 0
									   : 1;
}

/* Where no loader looks; its version shows which one it is. */
static int child_path(void)
{
	const struct oh__nccl *nccl;
	char path[PATH_MAX];
	int version = 0;

	fakenccl_play("version 2304\n", "");
	snprintf(path, sizeof(path), "%s/elsewhere.so",
		 fakelibrary_directory());
	return !oh__nccl_load(path, &nccl) && !nccl->ncclGetVersion(&version) &&
			       version == 2304
		       ? 0
		       : 1;
}

/* What is exported, and what is said, by one that is installed. */
static int child_installed(void)
{
	const struct oh__nccl *nccl;
	int version = 0;

	if (access(INSTALLED, R_OK))
		return 77;
	if (oh__nccl_load(INSTALLED, &nccl) || nccl->ncclGetVersion(&version))
		return 1;
	tap_note("NCCL %d", version);
#define OH_NCCL(need, result, name, parameters)                                \
	if (version >= 22700 && !nccl->name)                                   \
		return 2;
#include "vendor/nccl.def"
	OH__NCCL(nccl->ncclCommInitAll(NULL, -1, NULL));
	return is_said("ncclCommInitAll failed, code ") && version > 20000 &&
			       strchr(oh_last_error()->message, '(')
		       ? 0
		       : 3;
}

static const struct vendor_child children[] = {
	{"broken", child_broken, "fakenccl_broken.so",
	 "an NCCL without a function that is needed is an error", ""},
	{"garbage", child_garbage, "test_nccl.p",
	 "a library that is none is an error that names it", ""},
	{"old", child_old, "fakenccl_old.so",
	 "one without newer functions has NULL for them", ""},
	{"none", child_none, NULL, "without NCCL: unsupported, no error",
	 "the loader finds an NCCL here"},
	{"path", child_path, NULL, "one is found by its path", ""},
	{"installed", child_installed, NULL,
	 "an installed NCCL exports every name, and explains its errors",
	 "there is no " INSTALLED},
	{NULL, NULL, NULL, NULL, NULL}};

/* The fake takes its memory, and its device, of the driver's. */
static bool start_driver(void)
{
	const struct oh__cuda *cuda;
	CUcontext context;

	fakecuda_play("devices 1\n", "");
	return !oh__cuda_load(&cuda) &&
	       !cuda->cuDevicePrimaryCtxRetain(&context, 0) &&
	       !cuda->cuCtxSetCurrent(context);
}

int main(int argc, char **argv)
{
	const char *differs, *why_not;
	const struct oh__nccl *nccl;

	fakecuda_start(argv);
	fakenccl_start(argv);
	oh_set_log(OH_LOG_DEBUG, note_level, NULL);
	if (argc > 1)
		return vendor_child(children, argv[1]);
	differs = nccl_header_differs(&why_not);
	vendor_try_header(differs, why_not);
	try_before();
	nccl = try_threads();
	tap_ok(start_driver(), "the driver's fake starts");
	if (nccl) {
		try_errors(nccl);
		try_functions(nccl);
	}
	fakelibrary_place(fakenccl.module, "elsewhere.so");
	vendor_try_children(children, fakenccl.file);
	fakelibrary_end();
	return tap_done();
}
