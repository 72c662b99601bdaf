/* SPDX-License-Identifier: MIT */
/*
 * `onehop probe` on the fake driver with the kernels' stand-ins: what is
 * measured, what is said of pairs that are refused or broken, of a GPU that
 * hangs, and of each call of the driver that fails.
 */
#include <jansson.h>

#include "fakekernels.h"
#include "probe/probe.h"
#include "tap.h"
#include "tools/probe_write.h"

#define ALL_PEERS "peer * * 1\n"
#define CHECK_WORDS 16384u

static const struct oh__cuda *cuda;
static struct probe probe;
static char quick[] = "--quick", broken[] = "\xff";
static char *flags[] = {quick, broken};
static const struct probe_about about = {
	.machine = {.kernel = "Linux 6.1.0 x86_64"},
	.driver = "580.95.05",
	.argc = 2,
	.argv = flags,
};
static struct probe_finding findings[PROBE_FINDINGS];
static int found;
static enum oh_status status;
static unsigned live; /* objects of the driver before a run */

static struct probe_options usual(void)
{
	return (struct probe_options){
		.bytes = PROBE_UNIT,
		.timeout_ns = 20ull * 1000000000,
	};
}

static void play(int devices, const char *more)
{
	static char script[32768];
	size_t used;

	snprintf(script, sizeof(script), "devices %d\n", devices);
	used = strlen(script);
	fakekernels_script(script + used, sizeof(script) - used);
	fakecuda_play(script, more);
	cuda->cuInit(0);
}

static void measure(const struct probe_options *options)
{
	live = fakecuda_live(NULL);
	status = probe_run(options, &probe);
	found = status ? 0 : probe_find(&probe, findings);
}

static bool is_nothing_left(void)
{
	return fakecuda_live(NULL) == live;
}

static bool is_told(const char *part)
{
	for (int i = 0; i < found; i++)
		if (strstr(findings[i].title, part) ||
		    strstr(findings[i].evidence, part) ||
		    strstr(findings[i].advice, part))
			return true;
	return false;
}

static void note_findings(void)
{
	tap_note("status %d, %d findings", (int)status, found);
	for (int i = 0; i < found; i++)
		tap_note("%s | %s | %s", findings[i].title,
			 findings[i].evidence, findings[i].advice);
}

static bool are_known(const struct probe_figure *figures, int count)
{
	for (int i = 0; i < count; i++)
		if (!figures[i].known || !(figures[i].median > 0) ||
		    !(figures[i].best > 0))
			return false;
	return true;
}

static bool is_right(const struct probe_count *count, uint64_t words)
{
	return count->words >= words && !count->wrong;
}

static bool is_gpu_whole(const struct probe_gpu *gpu)
{
	return !gpu->problem.trouble && *gpu->name && *gpu->address &&
	       are_known(&gpu->latency, 1) && are_known(gpu->own, PROBE_WAYS) &&
	       are_known(gpu->host, PROBE_WAYS) &&
	       are_known(&gpu->host_copy_back, 1) &&
	       are_known(&gpu->host_flag, 1) && are_known(&gpu->host_load, 1) &&
	       is_right(&gpu->count, PROBE_UNIT / 4 * 7);
}

/* Everything of a pair was measured, and more than the check was looked at. */
static bool is_pair_whole(const struct probe_pair *pair)
{
	for (int way = 0; way < PROBE_WAYS; way++)
		if (!is_right(&pair->count[way], way == PROBE_COPY
							 ? CHECK_WORDS
							 : CHECK_WORDS + 1))
			return false;
	return !pair->problem.trouble && pair->says == 1 &&
	       pair->atomics == 1 && pair->rank == 0 &&
	       are_known(&pair->latency[0][0], PROBE_PHASES * PROBE_WAYS) &&
	       are_known(&pair->rate[0][0], PROBE_PHASES * PROBE_WAYS) &&
	       are_known(&pair->host_latency, 1);
}

static bool is_whole(int gpus)
{
	if (status || probe.gpus != gpus || probe.late)
		return false;
	for (int i = 0; i < gpus; i++) {
		if (!is_gpu_whole(&probe.gpu[i]))
			return false;
		for (int j = 0; j < gpus; j++)
			if (i != j && !is_pair_whole(&probe.pair[i][j]))
				return false;
	}
	return true;
}

/* The writers. */

/* Where it was measured, and how; a byte that is no text is U+FFFD. */
static bool is_stamped(json_t *root)
{
	const char *driver, *kernel, *version, *word, *mended, *end;
	json_t *cuda_version;

	return !json_unpack(root, "{s:s, s:s, s:{s:s}, s:{s:s, s:o}, s:[s, s]}",
			    "version", &version, "end_time", &end, "machine",
			    "kernel", &kernel, "device", "driver_version",
			    &driver, "cuda_version", &cuda_version, "arguments",
			    &word, &mended) &&
	       !strcmp(kernel, about.machine.kernel) &&
	       !strcmp(driver, about.driver) &&
	       !strcmp(version, oh_version()) &&
	       (probe.cuda ? !strcmp(json_string_value(cuda_version), "12.0")
			   : json_is_null(cuda_version)) &&
	       strlen(end) == 20 && !strcmp(word, quick) &&
	       !strcmp(mended, "\xef\xbf\xbd");
}

static bool is_json(void)
{
	char *text = NULL;
	size_t bytes = 0, pairs = (size_t)probe.gpus * (size_t)probe.gpus;
	FILE *file = open_memstream(&text, &bytes);
	bool written = probe_write_json(&probe, &about, file);
	json_t *root;
	bool good;

	fclose(file);
	root = json_loads(text, 0, NULL);
	free(text);
	pairs -= (size_t)probe.gpus;
	good = written && root && is_stamped(root) &&
	       json_integer_value(json_object_get(root, "schema_version")) ==
		       1 &&
	       json_array_size(json_object_get(root, "gpus")) ==
		       (size_t)probe.gpus &&
	       json_array_size(json_object_get(root, "pairs")) == pairs &&
	       json_array_size(json_object_get(root, "findings")) ==
		       (size_t)found;
	json_decref(root);
	return good;
}

/* No line is too long, and part is in it. */
static bool is_text(const char *part)
{
	char *text = NULL;
	size_t bytes = 0, longest = 0;
	FILE *file = open_memstream(&text, &bytes);
	bool good;

	probe_write_text(&probe, &about, false, file);
	fclose(file);
	for (const char *line = text; *line;) {
		size_t length = strcspn(line, "\n");

		longest = length > longest ? length : longest;
		line += length + (line[length] == '\n');
	}
	good = longest <= 100 && strstr(text, part);
	if (!good)
		printf("# longest line %zu\n%s", longest, text);
	free(text);
	return good;
}

static void try_good(void)
{
	struct probe_options options = usual();

	for (int gpus = 1; gpus <= 4; gpus++) {
		play(gpus, ALL_PEERS);
		measure(&options);
		if (!tap_ok(is_whole(gpus) && !found, "%d GPUs", gpus))
			note_findings();
		tap_ok(is_nothing_left(), "nothing is left");
		tap_ok(is_json() && is_text("Findings"), "both are written");
	}
}

static void try_some(void)
{
	struct probe_options options = usual();

	play(4, ALL_PEERS);
	options.quick = true;
	measure(&options);
	tap_ok(!status && !found &&
		       is_right(&probe.pair[3][0].count[PROBE_STORE],
				CHECK_WORDS) &&
		       !probe.pair[3][0].rate[0][PROBE_STORE].known,
	       "only the check");
	tap_ok(is_json() && is_text("3->0"), "is written");
	options = usual();
	options.only_count = 2;
	options.only[0] = 3;
	options.only[1] = 1;
	measure(&options);
	tap_ok(is_whole(2) && probe.gpu[0].ordinal == 3 &&
		       probe.gpu[1].ordinal == 1,
	       "two of four");
	tap_ok(is_text("3->1"), "have their own numbers");
	options.only[0] = 4;
	measure(&options);
	tap_ok(status == OH_ERR_INVALID &&
		       strstr(oh_last_error()->message, "there is no GPU 4"),
	       "a GPU that is not there");
}

static void try_refused(void)
{
	struct probe_options options = usual();
	const struct probe_pair *pair = &probe.pair[0][1];

	play(3, ALL_PEERS "peer 0 1 0\n");
	measure(&options);
	tap_ok(pair->problem.trouble == PROBE_REFUSED && !pair->says &&
		       pair->problem.code == 101 && found == 1 &&
		       is_told("pair 0->1: the driver refuses peer access ("
			       "cuMemSetAccess, CUDA error 101 "
			       "CUDA_ERROR_INVALID_DEVICE)") &&
		       is_told("cuDeviceCanAccessPeer says no") &&
		       is_told("meet in host memory"),
	       "a pair that the driver refuses");
	tap_ok(pair->host_latency.known && !pair->latency[0][PROBE_LOAD].known,
	       "still meets in host memory");
	pair = &probe.pair[1][0];
	tap_ok(!pair->problem.trouble && !pair->latency[0][PROBE_STORE].known &&
		       pair->rate[PROBE_TOGETHER][PROBE_STORE].known,
	       "the other way works, but for an answer");
	tap_ok(is_pair_whole(&probe.pair[2][1]) && is_json() &&
		       is_text("refused"),
	       "the others are measured");
	play(3, "device * name NVIDIA GeForce RTX 4090\n");
	measure(&options);
	tap_ok(found == 1 && is_told("every pair: the driver refuses") &&
		       is_told("to this model"),
	       "a refusal of all is one finding");
	if (!tap_ok(is_gpu_whole(&probe.gpu[2]), "the GPUs are measured"))
		note_findings();
	tap_ok(is_text("2->1") && is_nothing_left(), "nothing is left");
}

static void try_lacking(void)
{
	struct probe_options options = usual();

	options.bytes = 64u << 20;
	play(2, ALL_PEERS "device 1 memory 100000000\n");
	measure(&options);
	if (!tap_ok(found == 1 &&
			    is_told("GPU 1: memory failed (cuMemCreate") &&
			    is_told("--bytes less") &&
			    probe.pair[0][1].problem.trouble == PROBE_UNTRIED &&
			    !probe.gpu[0].problem.trouble,
		    "a GPU whose memory is taken"))
		note_findings();
	tap_ok(is_json() && is_text("untried") && is_nothing_left(),
	       "nothing is left");
	play(1, "error cuModuleLoadData 209\n");
	measure(&options);
	tap_ok(found == 1 && is_told("CUDA_ERROR_NO_BINARY_FOR_GPU"),
	       "a GPU without kernels");
}

/* Something is said of the failure, or it changed nothing that counts. */
static bool is_explained(int gpus)
{
	if (status)
		return *oh_last_error()->message;
	for (int i = 0; i < found; i++)
		if (!strstr(findings[i].title, "CUDA error 999"))
			return false;
	if (found)
		return true;
	/* what the driver says of a pair; what is undone at the end */
	for (int i = 0; i < gpus; i++)
		for (int j = 0; j < gpus; j++) {
			struct probe_pair *pair = &probe.pair[i][j];

			pair->says = pair->atomics = 1;
			pair->rank = 0;
		}
	return is_whole(gpus);
}

static void try_each_failure(int gpus)
{
	struct probe_options options = usual();
	unsigned calls, wrong = 0, tried = 0;
	char line[80];

	play(gpus, ALL_PEERS);
	measure(&options);
	calls = fakecuda_calls(NULL);
	/* all of the beginning, then some: they repeat */
	for (unsigned k = 2; k <= calls; k += k < 400 ? 1 : 7, tried++) {
		snprintf(line, sizeof(line), ALL_PEERS "fail %u 999\n", k);
		play(gpus, line);
		measure(&options);
		if (is_explained(gpus) && is_json() && is_text("Findings"))
			continue;
		tap_note("call %u", k);
		note_findings();
		wrong++;
	}
	tap_ok(!wrong, "each of %u calls of %u fails", tried, calls);
}

static void try_broken(void)
{
	struct probe_options options = usual();
	const struct probe_pair *pair = &probe.pair[1][2];

	fakekernels_lose(1, 2);
	play(3, ALL_PEERS);
	measure(&options);
	if (!tap_ok(pair->problem.trouble == PROBE_WRONG && found == 1 &&
			    pair->count[PROBE_STORE].wrong == CHECK_WORDS &&
			    !pair->count[PROBE_LOAD].wrong &&
			    is_told("pair 1->2: data arrives wrong") &&
			    is_told("store: 16384 of 16384 words wrong") &&
			    is_told("IOMMU"),
		    "stores that do not arrive"))
		note_findings();
	tap_ok(pair->host_latency.known && !pair->rate[0][PROBE_STORE].known,
	       "nothing more is tried there but host memory");
	tap_ok(is_pair_whole(&probe.pair[0][1]), "the others are measured");
	tap_ok(is_json() && is_text("wrong") && is_nothing_left(),
	       "nothing is left");
}

/* A GPU that loses what it stores into its own memory: whoever loads from there
 * finds it wrong. */
static void try_wrong_loads(void)
{
	struct probe_options options = usual();
	const struct probe_pair *pair = &probe.pair[1][0];

	fakekernels_lose(0, 0);
	play(2, ALL_PEERS);
	measure(&options);
	if (!tap_ok(pair->problem.trouble == PROBE_WRONG &&
			    pair->count[PROBE_LOAD].wrong == CHECK_WORDS &&
			    !pair->count[PROBE_STORE].wrong &&
			    is_told("pair 1->0: data arrives wrong"),
		    "loads that are wrong"))
		note_findings();
	tap_ok(probe.gpu[0].problem.trouble == PROBE_WRONG &&
		       is_told("GPU 0: data arrives wrong") &&
		       !probe.gpu[1].problem.trouble,
	       "a GPU whose own memory is");
}

/* The last: what hangs is left as it is. */
static void try_late(void)
{
	struct probe_options options = usual();
	unsigned calls;

	options.timeout_ns = 50000000;
	play(2, ALL_PEERS "error cuStreamQuery 600\n");
	measure(&options);
	calls = fakecuda_calls("cuMemUnmap");
	if (!tap_ok(!status && probe.late && found == 1 && !calls &&
			    is_told("not finished in time") &&
			    is_told("GPU hangs"),
		    "a GPU that hangs"))
		note_findings();
	tap_ok(is_json() && is_text("late"), "is written");
}

int main(int argc, char **argv)
{
	fakecuda_start(argv);
	fakecuda_play("devices 1\n", "");
	if (oh__cuda_load(&cuda)) {
		printf("Bail out! no driver\n");
		return 1;
	}
	oh_set_log(OH_LOG_OFF, NULL, NULL);
	fakecuda_run(fakekernels_run);
	try_good();
	try_some();
	try_refused();
	try_lacking();
	try_each_failure(1);
	try_each_failure(2);
	try_broken();
	try_wrong_loads();
	try_late();
	fakelibrary_end();
	return tap_done();
}
