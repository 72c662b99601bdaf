/* SPDX-License-Identifier: MIT */
/*
 * `onehop bench`: from flags to a plan, from a run to its writers. With
 * --worker it is a rank of such a run (bench/ranks.h).
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/device_data.h"
#include "bench/interrupt.h"
#include "bench/ranks.h"
#include "bench/run.h"
#include "tools/bench_options.h"
#include "tools/bench_write.h"
#include "tools/binding.h"
#include "tools/command.h"
#include "tools/output_file.h"

/* What the watcher's functions share. */
struct show {
	const struct bench_plan *plan;
	struct bench_about about;
	FILE *text; /* NULL: stdout is for JSON or CSV */
	bool terminal; /* progress may be shown */
	bool shown; /* a line of progress stands there */
	bool files; /* are written even if nobody reads the text */
	uint64_t begin_ns, last_ns;
};

/* Where the buffers are. */
struct memory_kind {
	const char *key, *text;
	/* Finds what is needed; OH_ERR_UNSUPPORTED: it is not there. */
	enum oh_status (*find)(struct bench_about *about, char *reason,
			       size_t room);
};

static enum oh_status find_nothing(struct bench_about *about, char *reason,
				   size_t room)
{
	return OH_OK;
}

static enum oh_status find_gpus(struct bench_about *about, char *reason,
				size_t room)
{
	return bench_gpus_find(&about->gpus, reason, room);
}

static const struct memory_kind memory_kinds[] = {
	{"host", "host memory", find_nothing},
	{"device", "GPU memory", find_gpus},
};

/* EXIT_FINE, or what it ends with after a message. */
static int find_memory(const struct bench_options *options,
		       struct bench_about *about)
{
	const struct memory_kind *kind = memory_kinds;
	enum oh_status status;
	char reason[600];

	while (strcmp(kind->key, options->memory) != 0)
		kind++;
	status = kind->find(about, reason, sizeof(reason));
	if (!status)
		return EXIT_FINE;
	fprintf(stderr, "onehop bench: %s: %s\n", kind->text, reason);
	return status == OH_ERR_UNSUPPORTED ? EXIT_NOTHING : EXIT_ENVIRONMENT;
}

static void clear_progress(struct show *show)
{
	if (show->shown)
		fputs("\r\033[K", stderr);
	show->shown = false;
}

/* From the third second on, at most ten times a second. */
static void on_turn(void *context, size_t index, const char *subject)
{
	struct show *show = context;
	const struct bench_case *what = &show->plan->cases[index];
	uint64_t now;

	if (!show->terminal)
		return;
	now = bench_now_ns();
	if (now - show->begin_ns < 2000000000 ||
	    now - show->last_ns < 100000000)
		return;
	show->last_ns = now;
	show->shown = true;
	fprintf(stderr, "\r\033[K%zu/%zu %s %s %" PRIu64 " bytes: %s",
		index + 1, show->plan->case_count,
		oh_collective_name(what->collective),
		oh_dtype_name(what->dtype), what->bytes, subject);
}

/* Does anybody see what is measured? */
static bool is_wanted(const struct show *show)
{
	return !show->text || show->files || !ferror(show->text);
}

static bool on_started(void *context, const struct bench_plan *plan,
		       const struct bench_result *result)
{
	struct show *show = context;

	clear_progress(show);
	if (show->text) {
		bench_interrupt_at_once(true);
		bench_text_head(show->text, &show->about, plan, result);
		fflush(show->text);
		bench_interrupt_at_once(false);
	}
	return is_wanted(show);
}

static bool on_rows(void *context, const struct bench_row *rows, size_t count)
{
	struct show *show = context;

	clear_progress(show);
	if (show->text) {
		bench_interrupt_at_once(true);
		bench_text_rows(show->text, show->plan, rows, count);
		bench_interrupt_at_once(false);
	}
	return is_wanted(show);
}

static void on_complaint(void *context, const char *text)
{
	clear_progress(context);
	fprintf(stderr, "onehop bench: %s\n", text);
}

static int choose_ranks(const struct bench_options *options, int places)
{
	int ranks = options->ranks;

	if (!ranks)
		ranks = places < 2 ? 2 : places;
	return ranks > OH_MAX_RANKS ? OH_MAX_RANKS : ranks;
}

static void fill_frame(const struct bench_options *options,
		       const struct bench_gpus *gpus, struct bench_frame *frame)
{
	frame->processors = binding_processors();
	frame->device = options->device;
	frame->graph = options->device && !options->eager;
	frame->gpus = gpus->count;
	frame->forbid_peer = options->forbid_peer;
	frame->ranks = choose_ranks(
		options, options->device ? gpus->count : frame->processors);
	/* a rank on a GPU waits for it, and NCCL starts threads of its own */
	frame->pinned = options->pin && !options->device &&
			binding_choose(frame->ranks, frame->cpu);
	frame->threads = options->threads;
	frame->in_place = options->in_place;
	frame->comm_alloc = options->comm_alloc;
	frame->timeout_s = options->timeout_s;
	bench_clock_open(&frame->clock);
}

/* What a case needs on each side of a rank. */
static uint64_t side_of(const struct bench_case *what)
{
	return what->buffers ? bench_device_side(what->bytes, what->buffers)
			     : what->bytes;
}

static void fill_sides(struct bench_plan *plan)
{
	struct bench_frame *frame = &plan->frame;

	frame->buffer_bytes = frame->device
				      ? bench_device_side(BENCH_LEAST_BYTES, 1)
				      : BENCH_LEAST_BYTES;
	for (size_t i = 0; i < plan->case_count; i++) {
		uint64_t side = side_of(&plan->cases[i]);

		if (side > frame->buffer_bytes)
			frame->buffer_bytes = side;
	}
	frame->mailbox_bytes =
		frame->device ? BENCH_LEAST_BYTES : frame->buffer_bytes;
}

static bool make_plan(const struct bench_options *options,
		      const struct bench_gpus *gpus, struct bench_plan *plan)
{
	struct bench_frame *frame = &plan->frame;
	int places;

	memset(plan, 0, sizeof(*plan));
	fill_frame(options, gpus, frame);
	if (!bench_options_pairs_fit(options, frame->ranks))
		return false;
	places = frame->device ? frame->gpus : frame->processors;
	plan->check = options->check;
	memcpy(plan->peer, options->peer, sizeof(plan->peer));
	if (!bench_options_cases(options, frame->ranks, frame->ranks > places,
				 &plan->cases, &plan->case_count))
		return false;
	for (int i = 0; i < BENCH_PEER_COUNT; i++)
		frame->fits |= plan->peer[i];
	fill_sides(plan);
	return true;
}

/* Buffers of all subjects and the floor's mailbox, against what is free. */
static bool memory_suffices(const struct bench_plan *plan,
			    const struct bench_machine *machine)
{
	const struct bench_frame *frame = &plan->frame;
	uint64_t subjects = 1, need;

	for (int i = 0; i < BENCH_PEER_COUNT; i++)
		subjects += plan->peer[i];
	need = frame->buffer_bytes *
		       (uint64_t)(frame->ranks * (frame->in_place ? 1 : 2)) *
		       subjects +
	       frame->mailbox_bytes;
	if (!machine->available_bytes || need <= machine->available_bytes)
		return true;
	fprintf(stderr,
		"onehop bench: buffers need %" PRIu64 " MiB and %" PRIu64
		" MiB of memory are available: lower -e, --ranks or the number "
		"of peers\n",
		need >> 20, machine->available_bytes >> 20);
	return false;
}

static bool write_sink(const struct bench_sink *sink, char *text)
{
	bool fine = text != NULL;

	bench_interrupt_at_once(!sink->path ||
				output_file_is_special(sink->path));
	if (!fine)
		fprintf(stderr, "onehop bench: out of memory\n");
	else if (sink->path)
		fine = output_file_write("onehop bench", sink->path, text);
	else
		fputs(text, stdout);
	free(text);
	return fine;
}

/* The table's last line comes last, as it tells how all ended. */
static void write_all(const struct bench_options *options, struct show *show,
		      struct bench_result *result)
{
	bool fine = true;

	if (options->json.wanted)
		fine &= write_sink(
			&options->json,
			bench_json(&show->about, show->plan, result));
	if (options->csv.wanted)
		fine &= write_sink(&options->csv,
				   bench_csv(show->plan, result));
	if (!fine && !result->exit_code) {
		result->exit_code = EXIT_ENVIRONMENT;
		snprintf(result->why, sizeof(result->why),
			 "the output cannot be written");
	}
	/* until stdout is flushed, at the very end */
	bench_interrupt_at_once(true);
	if (show->text)
		bench_text_tail(show->text, show->plan, result);
}

static bool sinks_are_writable(const struct bench_options *options)
{
	const char *paths[] = {options->json.path, options->csv.path};

	for (int i = 0; i < 2; i++)
		if (paths[i] && !output_file_probe("onehop bench", paths[i]))
			return false;
	return true;
}

static int run(const struct bench_options *options,
	       const struct bench_plan *plan, struct show *show)
{
	struct bench_watcher watcher = {.context = show,
					.turn = on_turn,
					.started = on_started,
					.rows = on_rows,
					.complain = on_complaint};
	struct bench_result result;
	int code;

	bench_run(plan, &watcher, &result);
	clear_progress(show);
	/* after a signal files stay as they were */
	if (!bench_interrupt_seen() && result.version[0])
		write_all(options, show, &result);
	code = result.exit_code;
	bench_result_free(&result);
	return code;
}

int command_bench(int argc, char **argv)
{
	struct bench_options options;
	struct bench_plan plan;
	struct show show = {.plan = &plan, .begin_ns = bench_now_ns()};
	int code;

	if (!bench_options_parse(argc, argv, &options))
		return EXIT_USAGE;
	if (options.worker)
		return bench_ranks_serve(options.worker);
	if (options.help) {
		bench_options_help(stdout);
		return EXIT_FINE;
	}
	if (!bench_settings_check(options.forbid_peer != NULL) ||
	    !sinks_are_writable(&options))
		return EXIT_ENVIRONMENT;
	code = find_memory(&options, &show.about);
	if (code)
		return code;
	if (!make_plan(&options, &show.about.gpus, &plan))
		return EXIT_USAGE;
	code = EXIT_ENVIRONMENT;
	show.about.memory = options.memory;
	show.about.argc = argc - 1;
	show.about.argv = argv + 1;
	bench_machine_read(&show.about.machine);
	show.terminal = isatty(STDERR_FILENO);
	if (!(options.json.wanted && !options.json.path) &&
	    !(options.csv.wanted && !options.csv.path))
		show.text = stdout;
	show.files = options.json.path || options.csv.path;
	/* beyond a limit of file sizes an error, not the end */
	signal(SIGXFSZ, SIG_IGN);
	/* the end of the text's reader is not theirs */
	if (show.files)
		signal(SIGPIPE, SIG_IGN);
	if (!bench_interrupt_open())
		perror("onehop bench: signals");
	else if (memory_suffices(&plan, &show.about.machine))
		code = run(&options, &plan, &show);
	free(plan.cases);
	return code;
}
