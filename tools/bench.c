/* SPDX-License-Identifier: MIT */
/*
 * `onehop bench`: from flags to a plan, from a run to its writers. With
 * --worker it is a rank of such a run (bench/worker.h).
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/interrupt.h"
#include "bench/run.h"
#include "bench/subject_onehop.h"
#include "bench/worker.h"
#include "tools/bench_file.h"
#include "tools/bench_options.h"
#include "tools/bench_write.h"
#include "tools/binding.h"
#include "tools/command.h"

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

/* Where the buffers are: the ways to run. */
struct frame_kind {
	const char *key, *text;
	/* false with the reason */
	bool (*can_run)(char *reason, size_t room);
	void (*run)(const struct bench_plan *plan,
		    const struct bench_watcher *watcher,
		    struct bench_result *result);
};

static bool host_can_run(char *reason, size_t room)
{
	return true;
}

static const struct frame_kind frame_kinds[] = {
	{"host", "host memory, ranks on processors", host_can_run, bench_run},
};

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
	if (show->text)
		bench_text_head(show->text, &show->about, plan, result);
	if (show->text)
		fflush(show->text);
	return is_wanted(show);
}

static bool on_rows(void *context, const struct bench_row *rows, size_t count)
{
	struct show *show = context;

	clear_progress(show);
	if (show->text)
		bench_text_rows(show->text, show->plan, rows, count);
	return is_wanted(show);
}

static void on_complaint(void *context, const char *text)
{
	clear_progress(context);
	fprintf(stderr, "onehop bench: %s\n", text);
}

struct thread {
	pthread_t id;
	int socket, code;
};

static void *serve_thread(void *argument)
{
	struct thread *thread = argument;

	thread->code =
		bench_worker_serve(&bench_subject_onehop, thread->socket, -1);
	return NULL;
}

/* A rank, or a process of rank threads: "7" or "7,9". */
static int serve(const char *list)
{
	struct thread threads[OH_MAX_RANKS] = {0};
	int count = 0, code = 0;

	for (const char *at = list; *at && count < OH_MAX_RANKS;) {
		char *end;

		threads[count].socket = (int)strtol(at, &end, 10);
		if (end == at)
			break;
		count++;
		at = end + (*end == ',');
	}
	if (count == 1)
		return bench_worker_serve(&bench_subject_onehop,
					  threads[0].socket, -1);
	for (int i = 0; i < count; i++) {
		if (pthread_create(&threads[i].id, NULL, serve_thread,
				   &threads[i]))
			_exit(EXIT_ENVIRONMENT);
	}
	for (int i = 0; i < count; i++) {
		pthread_join(threads[i].id, NULL);
		code |= threads[i].code;
	}
	return code;
}

static void fill_frame(const struct bench_options *options,
		       struct bench_frame *frame)
{
	frame->processors = binding_processors();
	frame->ranks = options->ranks;
	if (!frame->ranks)
		frame->ranks = frame->processors < 2 ? 2 : frame->processors;
	if (frame->ranks > OH_MAX_RANKS)
		frame->ranks = OH_MAX_RANKS;
	frame->pinned =
		options->pin && binding_choose(frame->ranks, frame->cpu);
	frame->threads = options->threads;
	frame->in_place = options->in_place;
	frame->comm_alloc = options->comm_alloc;
	frame->timeout_s = options->timeout_s;
	bench_clock_open(&frame->clock);
}

static bool make_plan(const struct bench_options *options,
		      struct bench_plan *plan)
{
	struct bench_frame *frame = &plan->frame;

	memset(plan, 0, sizeof(*plan));
	fill_frame(options, frame);
	plan->check = options->check;
	memcpy(plan->peer, options->peer, sizeof(plan->peer));
	if (!bench_options_cases(options, frame->ranks,
				 frame->ranks > frame->processors, &plan->cases,
				 &plan->case_count))
		return false;
	for (int i = 0; i < BENCH_PEER_COUNT; i++)
		frame->fits |= plan->peer[i];
	frame->buffer_bytes = BENCH_LEAST_BYTES;
	for (size_t i = 0; i < plan->case_count; i++) {
		if (plan->cases[i].bytes > frame->buffer_bytes)
			frame->buffer_bytes = plan->cases[i].bytes;
	}
	frame->mailbox_bytes = frame->buffer_bytes;
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

	if (!fine)
		fprintf(stderr, "onehop bench: out of memory\n");
	else if (sink->path)
		fine = bench_file_write(sink->path, text);
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
	if (show->text)
		bench_text_tail(show->text, show->plan, result);
}

static bool sinks_are_writable(const struct bench_options *options)
{
	return (!options->json.path || bench_file_probe(options->json.path)) &&
	       (!options->csv.path || bench_file_probe(options->csv.path));
}

static int run(const struct bench_options *options,
	       const struct bench_plan *plan, struct show *show)
{
	struct bench_watcher watcher = {.context = show,
					.turn = on_turn,
					.started = on_started,
					.rows = on_rows,
					.complain = on_complaint};
	const struct frame_kind *kind = &frame_kinds[0];
	struct bench_result result;
	char reason[256];
	int code;

	for (size_t i = 0; i < sizeof(frame_kinds) / sizeof(*kind); i++) {
		if (!strcmp(frame_kinds[i].key, options->memory))
			kind = &frame_kinds[i];
	}
	if (!kind->can_run(reason, sizeof(reason))) {
		fprintf(stderr, "onehop bench: %s: %s\n", kind->text, reason);
		return EXIT_NOTHING;
	}
	kind->run(plan, &watcher, &result);
	clear_progress(show);
	/* after a signal files stay as they were */
	if (result.exit_code <= 128 && result.version[0])
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
	int code = EXIT_ENVIRONMENT;

	if (!bench_options_parse(argc, argv, &options))
		return EXIT_USAGE;
	if (options.worker)
		return serve(options.worker);
	if (options.help) {
		bench_options_help(stdout);
		return EXIT_FINE;
	}
	if (!make_plan(&options, &plan))
		return EXIT_USAGE;
	show.about.memory = options.memory;
	show.about.argc = argc - 1;
	show.about.argv = argv + 1;
	bench_machine_read(&show.about.machine);
	show.terminal = isatty(STDERR_FILENO);
	if (!(options.json.wanted && !options.json.path) &&
	    !(options.csv.wanted && !options.csv.path))
		show.text = stdout;
	show.files = options.json.path || options.csv.path;
	/* the end of the text's reader is not theirs */
	/* beyond a limit of file sizes an error, not the end */
	signal(SIGXFSZ, SIG_IGN);
	if (show.files)
		signal(SIGPIPE, SIG_IGN);
	if (!bench_interrupt_open())
		perror("onehop bench: signals");
	else if (memory_suffices(&plan, &show.about.machine) &&
		 sinks_are_writable(&options))
		code = run(&options, &plan, &show);
	free(plan.cases);
	return code;
}
