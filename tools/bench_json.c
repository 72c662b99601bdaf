/* SPDX-License-Identifier: MIT */
/*
 * JSON, schema_version 1. Keys are only ever added; a number is a number, and
 * null means that it is not known. Of the environment it has the settings that
 * change how calls work.
 */
#include <jansson.h>
#include <stdlib.h>

#include "tools/bench_write.h"
#include "tools/stamp_json.h"
#include "tools/text_json.h"

static json_t *number_or_null(bool known, double value)
{
	return known ? json_real(value) : json_null();
}

static json_t *json_pinned(const struct bench_frame *frame)
{
	json_t *list;

	if (!frame->pinned)
		return json_null();
	list = json_array();
	for (int i = 0; i < frame->ranks; i++)
		json_array_append_new(list, json_integer(frame->cpu[i]));
	return list;
}

static json_t *json_peers(const struct bench_result *result)
{
	json_t *list = json_array();

	for (int i = 0; i < BENCH_PEER_COUNT; i++) {
		const struct bench_peer_state *peer = &result->peers[i];

		if (!peer->wanted)
			continue;
		json_array_append_new(
			list, json_pack("{s:s, s:b, s:o, s:o}", "name",
					bench_peer_name((enum bench_peer)i),
					"ran", peer->ran, "version",
					stamp_text(peer->version), "reason",
					stamp_text(peer->why)));
	}
	return list;
}

static json_t *json_copies(const struct bench_result *result)
{
	json_t *copies = json_array();

	for (size_t i = 0; i < result->floor_count; i++) {
		const struct bench_floor_row *floor = &result->floors[i];

		if (floor->copy_us > 0)
			json_array_append_new(
				copies, json_pack("{s:I, s:f}", "bytes",
						  (json_int_t)floor->bytes,
						  "us", floor->copy_us));
	}
	return copies;
}

/* Of a device: in the rounds of the first case of each size. */
static json_t *json_kernels(const struct bench_result *result)
{
	json_t *list = json_array();

	for (size_t i = 0; i < result->floor_count; i++) {
		const struct bench_floor_row *floor = &result->floors[i];

		if (floor->empty_us <= 0)
			continue;
		json_array_append_new(
			list,
			json_pack("{s:I, s:f, s:o}", "bytes",
				  (json_int_t)floor->bytes, "empty_kernel_us",
				  floor->empty_us, "flag_exchange_us",
				  number_or_null(floor->flag_us > 0,
						 floor->flag_us)));
	}
	return list;
}

static json_t *json_floors(const struct bench_result *result)
{
	return json_pack("{s:{s:o, s:o}, s:o, s:o, s:o}", "flag_exchange_us",
			 "before",
			 number_or_null(result->flag_before_us > 0,
					result->flag_before_us),
			 "after",
			 number_or_null(result->flag_after_us > 0,
					result->flag_after_us),
			 "copy", json_copies(result), "flag_place",
			 stamp_text(result->flag_place), "kernels",
			 json_kernels(result));
}

static json_t *json_gpus(const struct bench_gpus *gpus)
{
	json_t *list = json_array();

	for (int i = 0; i < gpus->count; i++)
		json_array_append_new(list, text_json(gpus->name[i]));
	return list;
}

static json_t *json_ways(const struct bench_result *result, int ranks)
{
	json_t *list = json_array();

	for (int i = 0; i < ranks; i++)
		for (int j = 0; j < ranks; j++) {
			const struct oh_route_peer *way = &result->ways[i][j];

			if (i != j)
				json_array_append_new(
					list,
					json_pack("{s:i, s:i, s:s, s:o}",
						  "from", i, "to", j,
						  "placement", way->placement,
						  "reason",
						  text_json(way->reason)));
		}
	return list;
}

static json_t *json_settings(bool device)
{
	enum oh__setting list[OH__SETTING_COUNT];
	int count = bench_settings_changed(device, list);
	json_t *object = json_object();

	for (int i = 0; i < count; i++)
		json_object_set_new(object, oh__setting_row(list[i])->name,
				    text_json(oh__setting_text(list[i])));
	return object;
}

/* Of a device, NULL on host memory. */
static json_t *json_device(const struct bench_about *about,
			   const struct bench_frame *frame,
			   const struct bench_result *result)
{
	const char *forbidden = bench_forbidden(frame);

	if (!frame->device)
		return json_null();
	return json_pack("{s:o, s:o, s:s, s:s, s:s, s:o, s:b, s:o, s:f}",
			 "gpus", json_gpus(&about->gpus), "driver_version",
			 stamp_text(about->gpus.driver), "cuda_version",
			 about->gpus.cuda, "method",
			 frame->graph ? "graph" : "eager", "time",
			 "a replay's time of the rank that started last, "
			 "divided by its calls",
			 "forbid_peer", stamp_text(forbidden ? forbidden : ""),
			 "gpus_are_shared", frame->ranks > frame->gpus, "ways",
			 json_ways(result, frame->ranks), "create_ms",
			 result->create_ms);
}

static json_t *json_us(const struct bench_row *row)
{
	if (!row->measured)
		return json_null();
	return json_pack("{s:f, s:f, s:f}", "min", row->us.min, "p50",
			 row->us.p50, "p99", row->us.p99);
}

static json_t *json_row(const struct bench_row *row)
{
	const struct bench_case *what = row->what;
	bool checked = row->measured && row->checked;
	json_t *object = json_pack(
		"{s:s, s:I, s:I, s:s, s:o, s:o, s:s, s:o}", "collective",
		oh_collective_name(what->collective), "bytes",
		(json_int_t)what->bytes, "count", (json_int_t)what->count,
		"dtype", oh_dtype_name(what->dtype), "op",
		bench_reduces(what->collective)
			? json_string(oh_op_name(what->op))
			: json_null(),
		"root",
		what->collective == OH_BROADCAST ? json_integer(what->root)
						 : json_null(),
		"subject", row->subject, "path", stamp_text(row->path));
	json_t *rest = json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:i, s:o, s:o, s:o}",
		"reducer", stamp_text(row->reducer), "stores",
		stamp_text(row->stores), "us", json_us(row), "algbw_gb_s",
		number_or_null(row->measured, row->algbw), "busbw_gb_s",
		number_or_null(row->measured, row->busbw), "wrong",
		checked ? json_integer((json_int_t)row->wrong) : json_null(),
		"iterations", what->iterations, "calls_per_iteration",
		what->calls, "flag_exchange_us",
		number_or_null(row->flag_us > 0, row->flag_us), "ratio",
		number_or_null(row->measured && row->ratio > 0, row->ratio),
		"refused", stamp_text(row->why));

	if (object && rest)
		json_object_update(object, rest);
	json_decref(rest);
	return object;
}

static json_t *json_rows(const struct bench_result *result)
{
	json_t *list = json_array();

	for (size_t i = 0; i < result->row_count; i++)
		json_array_append_new(list, json_row(&result->rows[i]));
	return list;
}

static char *with_line_end(char *text)
{
	char *line = NULL;

	if (text && asprintf(&line, "%s\n", text) < 0)
		line = NULL;
	free(text);
	return line;
}

char *bench_json(const struct bench_about *about, const struct bench_plan *plan,
		 const struct bench_result *result)
{
	const struct bench_frame *frame = &plan->frame;
	json_t *root = json_pack(
		"{s:i, s:s, s:o, s:o, s:o, s:i, s:s, s:b, s:s, s:b, s:b}",
		"schema_version", 1, "version", oh_version(), "commit",
		stamp_commit(), "end_time", stamp_time(), "machine",
		stamp_machine(&about->machine), "ranks", frame->ranks, "memory",
		about->memory, "in_place", frame->in_place, "alloc",
		frame->comm_alloc ? "comm" : "any", "threads", frame->threads,
		"check", plan->check);
	char *text = NULL;

	if (!root)
		return NULL;
	if (!json_object_set_new(root, "pinned_cpus", json_pinned(frame)) &&
	    !json_object_set_new(root, "processors_usable",
				 json_integer(frame->processors)) &&
	    !json_object_set_new(root, "device",
				 json_device(about, frame, result)) &&
	    !json_object_set_new(root, "settings",
				 json_settings(frame->device)) &&
	    !json_object_set_new(root, "reducer",
				 stamp_text(result->reducer)) &&
	    !json_object_set_new(root, "arguments",
				 stamp_words(about->argc, about->argv)) &&
	    !json_object_set_new(root, "peers", json_peers(result)) &&
	    !json_object_set_new(root, "floors", json_floors(result)) &&
	    !json_object_set_new(root, "rows", json_rows(result)) &&
	    !json_object_set_new(root, "complete",
				 json_boolean(result->complete)) &&
	    !json_object_set_new(root, "exit_code",
				 json_integer(result->exit_code)))
		text = json_dumps(root,
				  JSON_INDENT(2) | JSON_REAL_PRECISION(6));
	json_decref(root);
	return with_line_end(text);
}
