/* SPDX-License-Identifier: MIT */
/*
 * The table fits 80 columns while it has one subject on host memory; with peers
 * there is a column more for the subject and one for the ratio of the medians,
 * and the paths of GPU memory are longer.
 */
#include "tools/bench_write.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

bool bench_reduces(enum oh_collective collective)
{
	return collective == OH_ALL_REDUCE || collective == OH_REDUCE_SCATTER;
}

static bool has_peers(const struct bench_plan *plan)
{
	for (int i = 0; i < BENCH_PEER_COUNT; i++) {
		if (plan->peer[i])
			return true;
	}
	return false;
}

/* Three or four digits that count, in at most six characters. */
static const char *number(double value, char *text, size_t room)
{
	int digits = value < 99.995 ? 2 : value < 999.95 ? 1 : 0;

	snprintf(text, room, "%.*f", digits, value);
	return text;
}

static void head_machine(FILE *out, const struct bench_about *about)
{
	const struct bench_machine *machine = &about->machine;

	fprintf(out,
		"# machine   %s, %d cores, %d processors, %d NUMA node%s\n",
		*machine->cpu ? machine->cpu : "unknown processor",
		machine->cores, machine->processors, machine->numa_nodes,
		machine->numa_nodes == 1 ? "" : "s");
	fprintf(out, "# kernel    %s, load %.2f%s\n", machine->kernel,
		machine->load,
		machine->load > 0.5 ? ": others use the processors too" : "");
}

static void head_ranks(FILE *out, const struct bench_frame *frame)
{
	fprintf(out, "# ranks     %d as %s", frame->ranks,
		frame->threads ? "threads of one process" : "processes");
	if (frame->pinned) {
		fprintf(out, ", on processors");
		for (int i = 0; i < frame->ranks; i++)
			fprintf(out, " %d", frame->cpu[i]);
		fputc('\n', out);
		return;
	}
	fprintf(out, ", not pinned, %d processors\n", frame->processors);
	if (frame->ranks > frame->processors)
		fprintf(out,
			"#           more ranks than processors: the times "
			"of a rank include others' time\n");
}

/* "NVIDIA H200", or the names in turn if they differ. */
static void head_gpus(FILE *out, const struct bench_gpus *gpus)
{
	bool alike = true;

	fprintf(out, "# GPUs      %d: ", gpus->count);
	for (int i = 1; i < gpus->count; i++)
		alike = alike && !strcmp(gpus->name[i], gpus->name[0]);
	for (int i = 0; i < (alike ? 1 : gpus->count); i++)
		fprintf(out, "%s%s", i ? ", " : "", gpus->name[i]);
	fprintf(out, "; driver %s, CUDA %s\n",
		*gpus->driver ? gpus->driver : "unknown", gpus->cuda);
}

static void head_device_ranks(FILE *out, const struct bench_frame *frame)
{
	const char *forbidden = bench_forbidden(frame);

	fprintf(out, "# ranks     %d as %s, on GPU", frame->ranks,
		frame->threads ? "threads of one process" : "processes");
	for (int i = 0; i < frame->ranks; i++)
		fprintf(out, " %d", i % frame->gpus);
	fputc('\n', out);
	if (frame->ranks > frame->gpus)
		fprintf(out,
			"#           ranks share GPUs: the times are those "
			"of sharing, not of the way\n");
	if (forbidden)
		fprintf(out, "#           peers are forbidden: %s\n",
			forbidden);
}

/* Pairs of ranks that are told one by one; JSON has all. */
#define PAIRS_SHOWN 8

/* The reason that all pairs have to meet in host memory; NULL if they have not,
 * or some pair does not. */
static const char *
common_reason(const struct oh_route_peer ways[OH_MAX_RANKS][OH_MAX_RANKS],
	      int ranks)
{
	for (int i = 0; i < ranks; i++)
		for (int j = 0; j < ranks; j++) {
			const struct oh_route_peer *way = &ways[i][j];

			if (i != j && (strcmp(way->placement, "pinned") ||
				       strcmp(way->reason, ways[0][1].reason)))
				return NULL;
		}
	return ranks > 1 ? ways[0][1].reason : NULL;
}

/* Why ranks do not meet in GPU memory. */
static void
head_ways(FILE *out, int ranks,
	  const struct oh_route_peer ways[OH_MAX_RANKS][OH_MAX_RANKS])
{
	const char *reason = common_reason(ways, ranks);
	int pairs = 0;

	if (reason) {
		fprintf(out, "# ways      all pairs pinned: %s\n", reason);
		return;
	}
	for (int i = 0; i < ranks; i++)
		for (int j = 0; j < ranks; j++) {
			const struct oh_route_peer *way = &ways[i][j];

			if (i == j || !strcmp(way->placement, "vram-dst") ||
			    pairs++ >= PAIRS_SHOWN)
				continue;
			fprintf(out, "# %-9s %d->%d %s: %s\n",
				pairs == 1 ? "ways" : "", i, j, way->placement,
				way->reason);
		}
	if (pairs > PAIRS_SHOWN)
		fprintf(out, "#           and %d pairs more, see --json\n",
			pairs - PAIRS_SHOWN);
}

static void head_settings(FILE *out, bool device)
{
	enum oh__setting list[OH__SETTING_COUNT];
	int count = bench_settings_changed(device, list);

	for (int i = 0; i < count; i++)
		fprintf(out, "# %-9s %s=%s\n", i ? "" : "settings",
			oh__setting_row(list[i])->name,
			oh__setting_text(list[i]));
}

struct span {
	int least, most;
};

static void widen(struct span *span, int number)
{
	if (number < span->least)
		span->least = number;
	if (number > span->most)
		span->most = number;
}

/* "100", or "20 to 100": rows differ. */
static const char *span_text(struct span span, char *text, size_t room)
{
	if (span.least == span.most)
		snprintf(text, room, "%d", span.least);
	else
		snprintf(text, room, "%d to %d", span.least, span.most);
	return text;
}

static void head_device(FILE *out, const struct bench_about *about,
			const struct bench_plan *plan)
{
	struct span buffers = {INT_MAX, 0}, calls = buffers, replays = buffers;
	char a[32], b[32];

	for (size_t i = 0; i < plan->case_count; i++) {
		widen(&buffers, (int)plan->cases[i].buffers);
		widen(&calls, plan->cases[i].calls);
		widen(&replays, plan->cases[i].iterations);
	}
	head_gpus(out, &about->gpus);
	head_device_ranks(out, &plan->frame);
	fprintf(out, "# memory    device, out of place, %s buffers in turn\n",
		span_text(buffers, a, sizeof(a)));
	fprintf(out,
		"# method    %s: %s calls a replay, %s replays; a time is that "
		"of the rank\n"
		"#           that started last, divided by the calls\n",
		plan->frame.graph ? "graph" : "eager",
		span_text(calls, a, sizeof(a)),
		span_text(replays, b, sizeof(b)));
}

static void head_host(FILE *out, const struct bench_about *about,
		      const struct bench_plan *plan)
{
	const struct bench_frame *frame = &plan->frame;

	head_ranks(out, frame);
	fprintf(out, "# memory    %s, %s, buffers of %s\n", about->memory,
		frame->in_place ? "in place" : "out of place",
		frame->comm_alloc ? "oh_comm_alloc" : "malloc");
}

static void head_check(FILE *out, const struct bench_plan *plan)
{
	if (!plan->check)
		fprintf(out, "# check     OFF\n");
	else if (plan->frame.device)
		fprintf(out,
			"# check     on: every element, with new data three "
			"times a round\n");
	else
		fprintf(out, "# check     on: the first and each round's last "
			     "call whole, "
			     "others in 4 places\n");
}

static void head_peers(FILE *out, const struct bench_plan *plan,
		       const struct bench_result *result)
{
	for (int i = 0; i < BENCH_PEER_COUNT; i++) {
		if (result->peers[i].ran)
			fprintf(out, "# peer      %s: %s\n",
				bench_peer_name((enum bench_peer)i),
				result->peers[i].version);
		else if (plan->peer[i])
			fprintf(out, "# peer      %s: not run\n",
				bench_peer_name((enum bench_peer)i));
	}
	if (!has_peers(plan) || plan->frame.threads == plan->frame.device)
		return;
	fprintf(out, "#           peers' ranks are %s\n",
		plan->frame.device ? "threads of one process" : "processes");
}

/* What an exchange of flags took, in words. */
static const char *flag_text(const struct bench_frame *frame, double us,
			     char *text, size_t room)
{
	if (us > 0)
		snprintf(text, room, "%.2f us%s", us,
			 bench_distance(frame, us));
	else
		snprintf(text, room, "not measured%s",
			 frame->device && frame->ranks > frame->gpus
				 ? ": ranks share GPUs"
				 : "");
	return text;
}

/* Of the column of paths. */
static int path_width(const struct bench_frame *frame)
{
	/* "pinned/one-shot with flags" */
	return frame->device ? 26 : 13;
}

static void head_floor(FILE *out, const struct bench_frame *frame,
		       const struct bench_result *result)
{
	char flag[48];

	fprintf(out, "# floor     exchange of flags %s",
		flag_text(frame, result->flag_before_us, flag, sizeof(flag)));
	if (*result->flag_place)
		fprintf(out, " through %s", result->flag_place);
	fputc('\n', out);
}

static void head_columns(FILE *out, const struct bench_frame *frame, bool peers)
{
	fprintf(out, "#%7s %8s %-4s %-4s ", "bytes", "count", "type", "op");
	if (peers)
		fprintf(out, "%-10s ", "subject");
	fprintf(out, "%-*s %6s %6s %6s %5s %5s %5s", path_width(frame), "path",
		"min us", "p50 us", "p99 us", "algbw", "busbw", "wrong");
	fprintf(out, peers ? " %6s\n" : "\n", "ratio");
}

void bench_text_head(FILE *out, const struct bench_about *about,
		     const struct bench_plan *plan,
		     const struct bench_result *result)
{
	const struct bench_frame *frame = &plan->frame;

	if (frame->device)
		fprintf(out, "# onehop    %s\n", result->version);
	else
		fprintf(out, "# onehop    %s, reductions in %s\n",
			result->version, result->reducer);
	head_machine(out, about);
	if (frame->device)
		head_device(out, about, plan);
	else
		head_host(out, about, plan);
	if (frame->device)
		head_ways(out, frame->ranks, result->ways);
	if (frame->device)
		fprintf(out, "# created   in %.0f ms\n", result->create_ms);
	head_settings(out, frame->device);
	head_check(out, plan);
	head_peers(out, plan, result);
	head_floor(out, frame, result);
	head_columns(out, frame, has_peers(plan));
}

static void text_row(FILE *out, const struct bench_frame *frame,
		     const struct bench_row *row, bool peers)
{
	const struct bench_case *what = row->what;
	char a[32], b[32], c[32], d[32], e[32], f[32], wrong[32] = "n/a";

	fprintf(out, "%8" PRIu64 " %8zu %-4s %-4s ", what->bytes, what->count,
		oh_dtype_name(what->dtype),
		bench_reduces(what->collective) ? oh_op_name(what->op) : "-");
	if (peers)
		fprintf(out, "%-10s ", row->subject);
	if (!row->measured) {
		fprintf(out, "%s\n", row->why);
		return;
	}
	if (row->checked)
		snprintf(wrong, sizeof(wrong), "%" PRIu64, row->wrong);
	fprintf(out, "%-*s %6s %6s %6s %5s %5s %5s", path_width(frame),
		*row->path ? row->path : "-", number(row->us.min, a, sizeof(a)),
		number(row->us.p50, b, sizeof(b)),
		number(row->us.p99, c, sizeof(c)),
		number(row->algbw, d, sizeof(d)),
		number(row->busbw, e, sizeof(e)), wrong);
	if (peers)
		fprintf(out, " %6s", number(row->ratio, f, sizeof(f)));
	fputc('\n', out);
}

void bench_text_rows(FILE *out, const struct bench_plan *plan,
		     const struct bench_row *rows, size_t count)
{
	const struct bench_case *what = rows[0].what;

	if (what == plan->cases || what[-1].collective != what->collective)
		fprintf(out, "# %s\n", oh_collective_name(what->collective));
	for (size_t i = 0; i < count; i++)
		text_row(out, &plan->frame, &rows[i], has_peers(plan));
	fflush(out);
}

static void tail_flags(FILE *out, const struct bench_frame *frame,
		       const struct bench_result *result)
{
	double before = result->flag_before_us, after = result->flag_after_us;
	bool moved = after > 0 && strcmp(bench_distance(frame, before),
					 bench_distance(frame, after)) != 0;
	char a[48], b[48];

	fprintf(out, "# exchange of flags %s before, %s after%s\n",
		flag_text(frame, before, a, sizeof(a)),
		flag_text(frame, after, b, sizeof(b)),
		moved ? ": the machine moved, measure again" : "");
}

/* "12", or whose they are: "12 of nccl, 3 of nccl-shm". */
static void put_wrong(FILE *out, const struct bench_plan *plan,
		      const struct bench_result *result)
{
	const char *comma = "";

	if (!has_peers(plan)) {
		fprintf(out, "%" PRIu64, result->wrong);
		return;
	}
	for (int peer = -1; peer < BENCH_PEER_COUNT; peer++) {
		const char *name =
			peer < 0 ? "onehop"
				 : bench_peer_name((enum bench_peer)peer);
		uint64_t wrong = 0;

		for (size_t i = 0; i < result->row_count; i++)
			if (!strcmp(result->rows[i].subject, name))
				wrong += result->rows[i].wrong;
		if (!wrong)
			continue;
		fprintf(out, "%s%" PRIu64 " of %s", comma, wrong, name);
		comma = ", ";
	}
}

/* The last line and the exit code say the same. */
static void tail_verdict(FILE *out, const struct bench_plan *plan,
			 const struct bench_result *result)
{
	if (result->wrong) {
		fprintf(out, "# wrong elements: ");
		put_wrong(out, plan, result);
		fprintf(out, " FAILED\n");
	}
	if (!result->complete || (result->exit_code && !result->wrong))
		fprintf(out, "# %s %.*s\n",
			result->complete ? "complete, but" : "not complete:",
			(int)strcspn(result->why, "\n"), result->why);
	else if (!plan->check)
		fprintf(out, "# wrong elements: not checked\n");
	else if (!result->wrong)
		fprintf(out, "# wrong elements: 0 OK\n");
}

void bench_text_tail(FILE *out, const struct bench_plan *plan,
		     const struct bench_result *result)
{
	bool device = plan->frame.device;
	const char *title = device ? "empty us" : "memcpy us";
	char flag[32], other[32];

	if (result->floor_count)
		fprintf(out, "# floors: %7s flags us %s\n", "bytes", title);
	for (size_t i = 0; i < result->floor_count; i++) {
		const struct bench_floor_row *floor = &result->floors[i];

		fprintf(out, "#         %7" PRIu64 " %8s %*s\n", floor->bytes,
			number(floor->flag_us, flag, sizeof(flag)),
			(int)strlen(title),
			number(device ? floor->empty_us : floor->copy_us, other,
			       sizeof(other)));
	}
	if (result->flag_before_us > 0)
		tail_flags(out, &plan->frame, result);
	tail_verdict(out, plan, result);
}
