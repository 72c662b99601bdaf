/* SPDX-License-Identifier: MIT */
/*
 * How NVML is loaded, and what is made of each way in which it can fail. The
 * module that plays it is fakenvml.c. No failure of one call may change what
 * another one says: it is compared with a reading in which nothing failed.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fakenvml.h"
#include "machine/local.h"
#include "nvml_header.h"
#include "tap.h"
#include "vendor_check.h"
#include "vendor/library.h"
#include "vendor/nvml.h"

/* Two pairs of bridged GPUs, all that NVML can say of them. */
static const char script[] =
	"gpus 4\n"
	"driver 590.48.01\n"
	"cuda 13010\n"
	"gpu * name NVIDIA RTX A6000\n"
	"gpu * uuid GPU-00000000-0000-0000-0000-000000000000\n"
	"gpu 0 pci 00000000:01:00.0\n"
	"gpu 1 pci 00000000:02:00.0\n"
	"gpu 2 pci 00000000:81:00.0\n"
	"gpu 3 pci 00000000:82:00.0\n"
	"gpu * capability 86\n"
	"gpu * memory 51527024640\n"
	"gpu * gen 1\n"
	"gpu * gen_max 4\n"
	"gpu * width 16\n"
	"gpu * width_max 16\n"
	"gpu * mig 0\n"
	"gpu * nodes 1\n"
	"ancestor * * 40\n"
	"peer 0 * * 0\n"
	"peer 1 * * 0\n"
	"peer 2 * * 5\n"
	"peer 3 * * 5\n"
	"link * * off\n"
	"link 0 0 gpu 1\n"
	"link 1 0 gpu 0\n"
	"link 2 0 gpu 3\n"
	"link 3 0 gpu 2\n";

/* The loader by itself, with the fake as a library like any other. */

struct two {
	void (*first)(void);
	void (*second)(void);
};

#define UNTOUCHED ((void (*)(void))0x10)

static enum oh_status load_two(const char *file, const char *second,
			       bool required, struct two *table)
{
	const struct oh__symbol symbols[] = {
		{"nvmlShutdown", offsetof(struct two, first), true},
		{second, offsetof(struct two, second), required},
	};
	const struct oh__library library = {file, "install it", symbols, 2};

	*table = (struct two){UNTOUCHED, UNTOUCHED};
	loudest = OH_LOG_OFF;
	return oh__library_load(&library, table);
}

static bool is_untouched(const struct two *table)
{
	return table->first == UNTOUCHED && table->second == UNTOUCHED;
}

static void try_loader(void)
{
	const char *nvml = "libnvidia-ml.so.1";
	char garbage[PATH_MAX];
	struct two table;
	FILE *file;

	tap_ok(load_two("libonehop-absent.so.9", "any", true, &table) ==
			       OH_ERR_UNSUPPORTED &&
		       is_untouched(&table),
	       "a library that is absent is unsupported");
	tap_ok(is_said("libonehop-absent.so.9") && loudest >= OH_LOG_INFO,
	       "the error names it, and nothing is logged above info");

	snprintf(garbage, sizeof(garbage), "%s/libgarbage.so",
		 fakelibrary_directory());
	file = fopen(garbage, "w");
	fputs("no library", file);
	fclose(file);
	tap_ok(load_two(garbage, "any", true, &table) == OH_ERR_SYSTEM &&
		       is_untouched(&table) && is_said("libgarbage.so") &&
		       loudest == OH_LOG_ERROR,
	       "a file that is no library is an error that names it");

	tap_ok(load_two(nvml, "nvmlNoSuch", true, &table) == OH_ERR_SYSTEM &&
		       is_untouched(&table),
	       "a required symbol that is missing is an error");
	tap_ok(is_said("nvmlNoSuch") && is_said(nvml) && is_said("/tmp/"),
	       "the error names the symbol and the file that was found");
	tap_ok(!load_two(nvml, "nvmlNoSuch", false, &table) &&
		       table.first != UNTOUCHED && table.first && !table.second,
	       "an optional one that is missing is NULL");
	tap_ok(!load_two(nvml, "nvmlInit_v2", true, &table) && table.second &&
		       table.second != table.first,
	       "symbols that are there are found");
}

static void *load_in_thread(void *result)
{
	const struct oh__nvml **nvml = result;

	if (oh__nvml_load(nvml))
		*nvml = NULL;
	return NULL;
}

static void try_threads(void)
{
	enum {
		THREADS = 8
	};
	const struct oh__nvml *nvml[THREADS] = {NULL};
	pthread_t threads[THREADS];
	bool same = true;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, load_in_thread, &nvml[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < THREADS; i++)
		same = same && nvml[i] && nvml[i] == nvml[0];
	tap_ok(same, "threads that load it at once get the same table");
	if (!nvml[0])
		return;
#define OH_NVML(need, result, name, parameters)                                \
	same = same && nvml[0]->name != NULL;
#include "vendor/nvml.def"
	tap_ok(same, "all functions are there");
}

/* What a reading knows and how it compares with one without failures. */

struct comparison {
	int known, wrong;
};

static void compare(struct comparison *comparison, struct oh__from from,
		    bool same)
{
	comparison->known += oh__known(from);
	comparison->wrong += oh__known(from) && !same;
}

static void compare_number(struct comparison *comparison,
			   const struct oh__number *one,
			   const struct oh__number *other)
{
	compare(comparison, one->from, one->value == other->value);
}

static void compare_text(struct comparison *comparison,
			 const struct oh__text *one,
			 const struct oh__text *other)
{
	compare(comparison, one->from, !strcmp(one->text, other->text));
}

static void compare_gpu(struct comparison *comparison,
			const struct oh__gpu *one, const struct oh__gpu *other)
{
	compare_text(comparison, &one->name, &other->name);
	compare_text(comparison, &one->uuid, &other->uuid);
	compare_text(comparison, &one->pci, &other->pci);
	compare_number(comparison, &one->capability, &other->capability);
	compare_number(comparison, &one->memory_bytes, &other->memory_bytes);
	compare_number(comparison, &one->numa_node, &other->numa_node);
	compare_number(comparison, &one->pcie_gen, &other->pcie_gen);
	compare_number(comparison, &one->pcie_gen_max, &other->pcie_gen_max);
	compare_number(comparison, &one->pcie_width, &other->pcie_width);
	compare_number(comparison, &one->pcie_width_max,
		       &other->pcie_width_max);
	compare_number(comparison, &one->mig, &other->mig);
}

static struct comparison compare_machines(const struct oh__machine *one,
					  const struct oh__machine *other)
{
	struct comparison comparison = {0};

	compare_text(&comparison, &one->host.driver, &other->host.driver);
	compare_text(&comparison, &one->host.cuda, &other->host.cuda);
	for (int i = 0; i < one->gpus; i++) {
		compare_gpu(&comparison, &one->gpu[i], &other->gpu[i]);
		for (int j = 0; j < one->gpus; j++) {
			compare(&comparison, one->link[i][j].from,
				one->link[i][j].kind ==
						other->link[i][j].kind &&
					one->link[i][j].nvlinks ==
						other->link[i][j].nvlinks);
			for (int a = 0; a < OH__PEER_ASPECTS; a++)
				compare(&comparison, one->peer[a][i][j].from,
					one->peer[a][i][j].status ==
						other->peer[a][i][j].status);
		}
	}
	return comparison;
}

static struct oh__machine *read_machine(const char *more,
					enum oh_status *status)
{
	struct oh__machine *machine = calloc(1, sizeof(*machine));

	if (!machine)
		exit(1);
	fakenvml_play(script, more);
	loudest = OH_LOG_OFF;
	*status = oh__machine_read_nvml(machine);
	return machine;
}

static bool is_remarked(const struct oh__machine *machine, const char *word)
{
	for (int i = 0; i < machine->remark_count; i++)
		if (strstr(machine->remarks[i].text, word))
			return true;
	return false;
}

/* nvmlInit_v2 and nvmlDeviceGetCount_v2 decide; nvmlShutdown's own failure
 * concerns nobody, and nvmlErrorString has no status to fail with. */
static void try_function(const char *name, const struct oh__machine *all)
{
	bool decides = !strcmp(name, "nvmlInit_v2") ||
		       !strcmp(name, "nvmlDeviceGetCount_v2");
	bool keeps = !strcmp(name, "nvmlShutdown") ||
		     !strcmp(name, "nvmlErrorString") ||
		     /* the address then says where a link ends */
		     !strcmp(name, "nvmlDeviceGetNvLinkRemoteDeviceType");
	struct comparison before = compare_machines(all, all), after;
	struct oh__machine *machine;
	enum oh_status status;
	char more[128];

	snprintf(more, sizeof(more), "error %s 999\n", name);
	machine = read_machine(more, &status);
	after = compare_machines(machine, all);
	if (decides)
		tap_ok(status == OH_ERR_SYSTEM && !machine->gpus &&
			       !machine->source_count && is_said(name),
		       "%s fails: an error that names it, and no machine",
		       name);
	else if (keeps)
		tap_ok(!status && after.known == before.known && !after.wrong,
		       "%s fails: nothing is missed", name);
	else
		tap_ok(!status && after.known < before.known && !after.wrong &&
			       is_remarked(machine, name) &&
			       machine->remark_count == 1,
		       "%s fails: its data are unknown, with one remark, and "
		       "the rest is as it was",
		       name);
	tap_ok(fakenvml_count("fakenvml_users") == 0,
	       "%s fails: NVML is shut down", name);
	free(machine);
}

static void try_unsupported(const char *name, const struct oh__machine *all)
{
	struct comparison after;
	struct oh__machine *machine;
	enum oh_status status;
	char more[128];

	if (strncmp(name, "nvmlDeviceGet", 13) ||
	    !strcmp(name, "nvmlDeviceGetCount_v2"))
		return;
	snprintf(more, sizeof(more), "error %s 3\n", name);
	machine = read_machine(more, &status);
	after = compare_machines(machine, all);
	/* without NVLinks, the way is that by PCIe */
	if (!strcmp(name, "nvmlDeviceGetNvLinkState"))
		after.wrong -= 4;
	tap_ok(!status && !after.wrong && !machine->remark_count,
	       "%s is not supported: no remark", name);
	free(machine);
}

/* The k-th of all calls fails, and every later k. A lost GPU (15) is told
 * once and asked no more. */
static void try_each_call(const struct oh__machine *all, nvmlReturn_t code)
{
	struct comparison after;
	enum oh_status status;
	unsigned calls, wrong = 0, open = 0, statuses = 0, talk = 0;

	free(read_machine("", &status));
	calls = fakenvml_count("fakenvml_calls");
	tap_ok(!status && calls > 100, "a reading takes %u calls", calls);
	for (unsigned k = 1; k < calls; k++) {
		struct oh__machine *machine;
		char more[64];

		snprintf(more, sizeof(more), "fail %u %u\n", k, code);
		machine = read_machine(more, &status);
		after = compare_machines(machine, all);
		wrong += after.wrong != 0;
		/* init, then the count */
		statuses += (status != OH_OK) != (k <= 2);
		open += fakenvml_count("fakenvml_users") != 0;
		talk += machine->remark_count > 1;
		free(machine);
	}
	tap_ok(!statuses, "code %u: only the first two calls decide", code);
	tap_ok(!wrong, "code %u: no call that fails changes other data", code);
	tap_ok(!open, "code %u: NVML is shut down each time", code);
	tap_ok(!talk, "code %u: at most one remark", code);
}

static void try_absent(const char *what, const char *more)
{
	enum oh_status status;
	struct oh__machine *machine = read_machine(more, &status);

	tap_ok(status == OH_ERR_UNSUPPORTED && loudest >= OH_LOG_INFO &&
		       !machine->gpus && *oh_last_error()->message &&
		       oh_last_error()->status == OH_ERR_UNSUPPORTED,
	       "%s is no GPU, and no error in the log", what);
	tap_ok(fakenvml_count("fakenvml_users") == 0, "%s: NVML is shut down",
	       what);
	free(machine);
}

/* Somebody else in the process has NVML open. */
static void try_other_user(void)
{
	const struct oh__nvml *nvml;
	struct oh__machine *machine;
	enum oh_status status;

	fakenvml_play(script, "");
	if (oh__nvml_load(&nvml) || nvml->nvmlInit_v2())
		return;
	machine = read_machine("", &status);
	tap_ok(!status && machine->gpus == 4 &&
		       fakenvml_count("fakenvml_users") == 1,
	       "another user's NVML stays open");
	nvml->nvmlShutdown();
	free(machine);
}

static void try_failures(void)
{
	enum oh_status status;
	struct oh__machine *all = read_machine("", &status);

	/* 2 of the host; 4 times 11 of a GPU, 4 links, 3 peers of 4 aspects */
	tap_ok(!status && compare_machines(all, all).known ==
				  2 + 4 * (11 + 4 + 3 * 4),
	       "without a failure all is known");
	tap_ok(!all->remark_count, "and nothing is remarked");
#define OH_NVML(need, result, name, parameters) try_function(#name, all);
#include "vendor/nvml.def"
#define OH_NVML(need, result, name, parameters) try_unsupported(#name, all);
#include "vendor/nvml.def"
	try_each_call(all, NVML_ERROR_UNKNOWN);
	try_each_call(all, NVML_ERROR_GPU_IS_LOST);
	try_each_call(all, 998); /* has no text */
	free(all);
	try_absent("a driver that is not loaded", "error nvmlInit_v2 9\n");
	try_absent("a driver without its library", "error nvmlInit_v2 12\n");
	try_absent("a count of 0", "gpus 0\n");
	try_other_user();
}

/* Other libraries take NVML's place in processes of their own. */

static int child_broken(void)
{
	const struct oh__nvml *nvml = NULL;
	enum oh_status status;
	struct oh__machine *machine;
	bool good;

	if (oh__nvml_load(&nvml) != OH_ERR_SYSTEM || nvml ||
	    !is_said("nvmlDeviceGetCount_v2"))
		return 1;
	machine = read_machine("", &status);
	good = status == OH_ERR_SYSTEM && !machine->gpus;
	free(machine);
	return good ? 0 : 2;
}

static int child_old(void)
{
	const struct oh__nvml *nvml = NULL;
	enum oh_status status;
	struct oh__machine *machine;
	bool good;

	if (oh__nvml_load(&nvml) || nvml->nvmlDeviceGetNvLinkRemoteDeviceType)
		return 1;
	machine = read_machine("", &status);
	good = !status && machine->link[0][1].kind == OH__LINK_NV &&
	       machine->link[0][1].nvlinks == 1 &&
	       machine->link[0][2].kind == OH__LINK_NODE;
	free(machine);
	return good ? 0 : 2;
}

static int child_none(void)
{
	const struct oh__nvml *nvml = NULL;

	if (!oh__nvml_load(&nvml))
		return 77;
	return oh_last_error()->status == OH_ERR_UNSUPPORTED && !nvml &&
			       loudest >= OH_LOG_INFO &&
			       is_said("libnvidia-ml.so.1")
		       ? 0
		       : 1;
}

static const struct vendor_child children[] = {
	{"broken", child_broken, "fakenvml_broken.so",
	 "NVML without a function that is needed is an error", ""},
	{"old", child_old, "fakenvml_old.so",
	 "without one that is not, NVLinks are found by address", ""},
	{"none", child_none, NULL, "without NVML: unsupported, no error",
	 "this machine has it"},
	{NULL, NULL, NULL, NULL, NULL}};

int main(int argc, char **argv)
{
	const char *differs, *why_not;

	fakenvml_start(argv);
	oh_set_log(OH_LOG_DEBUG, note_level, NULL);
	if (argc > 1)
		return vendor_child(children, argv[1]);
	try_loader();
	try_threads();
	try_failures();
	differs = nvml_header_differs(&why_not);
	vendor_try_header(differs, why_not);
	vendor_try_children(children, fakenvml.file);
	fakelibrary_end();
	return tap_done();
}
