/* SPDX-License-Identifier: MIT */
/*
 * Floors take their turns in the rotation as if they were subjects; on the host
 * the processes of this library carry them, on a device a process of their own.
 */
#include "bench/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 5
#define FLAG_ITERATIONS 200 /* of a case */
#define COPY_ITERATIONS 200
#define FLAG_LONG 2000 /* before and after the run */

/* On a device: replays, and the calls of each. */
#define DEVICE_FLOOR_REPLAYS 100
#define DEVICE_FLOOR_CALLS 100
/* Untimed replays before the first turn of a subject, and before the others:
 * a GPU that rests lowers its clocks. */
#define WARM_FIRST_US 200000
#define WARM_US 20000

/* This library, its peers, and two floors. */
#define SLOTS (1 + BENCH_PEER_COUNT + 2)

struct slot {
	struct bench_team *team;
	enum bench_kind kind;
	struct bench_row *row; /* NULL for a floor */
	const char *name;
	int iterations;
	double *us; /* of each call, the slowest rank's */
	size_t used;
	uint64_t calls; /* the next call's number */
	bool off; /* refused */
};

struct run {
	const struct bench_plan *plan;
	const struct bench_watcher *watcher;
	struct bench_result *result;
	struct bench_team own;
	struct bench_team floor; /* of a device */
	struct bench_team peers[BENCH_PEER_COUNT];
	struct slot slots[SLOTS];
	size_t slot_count;
};

const char *bench_distance(const struct bench_frame *frame, double flag_us)
{
	if (frame->device || frame->ranks != 2 || frame->processors < 2)
		return "";
	if (flag_us < 0.15)
		return " (near)";
	return flag_us > 0.2 ? " (far)" : " (between)";
}

static void complain(struct run *run, const char *text)
{
	run->watcher->complain(run->watcher->context, text);
}

/* This ends the run: it is the reason, whatever went wrong before. */
static void give_up(struct run *run, int exit_code, const char *why)
{
	struct bench_result *result = run->result;

	result->exit_code = exit_code;
	snprintf(result->why, sizeof(result->why), "%s", why);
}

/* The run goes on, and the first reason for a bad end stays. */
static void spoil(struct run *run, int exit_code, const char *why)
{
	if (!run->result->exit_code)
		give_up(run, exit_code, why);
}

static void note_end(struct run *run, const struct bench_failure *failure)
{
	complain(run, failure->text);
	give_up(run, failure->exit_code, failure->text);
}

static void note_no_memory(struct run *run)
{
	complain(run, "out of memory");
	give_up(run, 3, "out of memory");
}

static void note_no_reader(struct run *run)
{
	/* who writes says so itself */
	give_up(run, 3, "the output cannot be written");
}

/*
 * The time of each call of a command. Host: the longest of the ranks' times.
 * Device: the shortest of a replay's, in ns, which is that of the rank that
 * started last, divided by its calls.
 */
static void gather(const struct slot *slot, int ranks,
		   const struct bench_command *command, double *us)
{
	struct bench_arena_head *head = slot->team->arena.head;
	const struct bench_frame *frame = slot->team->frame;
	double speed = frame->device ? 1e3 * command->calls
				     : frame->clock.ticks_per_us;

	for (uint32_t i = 0; i < command->iterations; i++) {
		uint64_t ticks[OH_MAX_RANKS];

		for (int rank = 0; rank < ranks; rank++)
			ticks[rank] = head->ticks[rank][i];
		us[i] = (double)bench_ticks_of(ticks, ranks, frame->device) /
			speed;
	}
}

static void note_wrong(struct run *run, struct slot *slot,
		       const struct bench_reply *replies)
{
	const struct bench_case *what = slot->row->what;
	bool reduces = what->collective == OH_ALL_REDUCE ||
		       what->collective == OH_REDUCE_SCATTER;
	char text[800];

	for (int rank = 0; rank < run->plan->frame.ranks; rank++) {
		if (!replies[rank].wrong)
			continue;
		if (!slot->row->wrong) {
			snprintf(text, sizeof(text),
				 "%s: wrong result of %s %s%s%s, %" PRIu64
				 " bytes, on rank %d: %s",
				 slot->name,
				 oh_collective_name(what->collective),
				 oh_dtype_name(what->dtype), reduces ? " " : "",
				 reduces ? oh_op_name(what->op) : "",
				 what->bytes, rank, replies[rank].text);
			complain(run, text);
		}
		slot->row->wrong += replies[rank].wrong;
		run->result->wrong += replies[rank].wrong;
		spoil(run, 1, "wrong results");
	}
}

/* What replies say beside times. */
static void note_replies(struct run *run, struct slot *slot,
			 const struct bench_reply *replies)
{
	struct bench_result *result = run->result;

	if (!slot->row)
		return;
	if (replies[0].outcome == BENCH_REFUSED) {
		slot->off = true;
		snprintf(slot->row->why, sizeof(slot->row->why), "%.*s",
			 (int)sizeof(slot->row->why) - 1, replies[0].text);
		return;
	}
	snprintf(slot->row->path, sizeof(slot->row->path), "%s",
		 replies[0].path);
	snprintf(slot->row->reducer, sizeof(slot->row->reducer), "%.*s",
		 (int)sizeof(slot->row->reducer) - 1, replies[0].about);
	snprintf(slot->row->stores, sizeof(slot->row->stores), "%.*s",
		 (int)sizeof(slot->row->stores) - 1, replies[0].stores);
	if (!*result->reducer)
		memcpy(result->reducer, slot->row->reducer,
		       sizeof(result->reducer));
	note_wrong(run, slot, replies);
}

/* Of a turn whose untimed replays nobody has counted. */
static uint64_t warm_ticks(const struct run *run, const struct slot *slot,
			   const struct bench_case *what)
{
	double us = slot->used ? WARM_US : WARM_FIRST_US;

	return what->warmups < 0
		       ? (uint64_t)(us * run->plan->frame.clock.ticks_per_us)
		       : 0;
}

static struct bench_command command_of(const struct run *run,
				       const struct slot *slot,
				       const struct bench_case *what,
				       uint32_t iterations)
{
	struct bench_command command = {
		.kind = slot->kind,
		.collective = what->collective,
		.dtype = what->dtype,
		.op = what->op,
		.root = (uint32_t)what->root,
		.iterations = iterations,
		.warmups = (uint32_t)what->warmups,
		.count = what->count,
		.first_call = slot->calls,
		.calls = (uint32_t)what->calls,
		.buffers = what->buffers,
	};

	if (run->plan->frame.device)
		command.warm_ticks = warm_ticks(run, slot, what);
	if (what->warmups < 0)
		command.warmups = 0;
	if (slot->row) {
		if (run->plan->check)
			command.check = slot->used ? BENCH_CHECK_SOME
						   : BENCH_CHECK_FIRST;
		return command;
	}
	/* floors move bytes; f32 is quick to write */
	command.collective = OH_ALL_REDUCE;
	command.dtype = what->bytes % 4 ? OH_U8 : OH_F32;
	command.op = OH_SUM;
	if (run->plan->frame.device)
		command.calls = DEVICE_FLOOR_CALLS;
	command.count = what->bytes / (what->bytes % 4 ? 1 : 4);
	return command;
}

/* One turn of one subject. */
static bool take_turn(struct run *run, struct slot *slot,
		      const struct bench_case *what, uint32_t iterations,
		      struct bench_failure *failure)
{
	struct bench_command command = command_of(run, slot, what, iterations);
	struct bench_reply replies[OH_MAX_RANKS];

	if (!bench_team_order(slot->team, &command, replies, failure))
		return false;
	note_replies(run, slot, replies);
	if (slot->off)
		return true;
	gather(slot, run->plan->frame.ranks, &command, slot->us + slot->used);
	slot->used += iterations;
	/* on a device inputs are written in three passes */
	slot->calls += run->plan->frame.device
			       ? 3 * command.buffers
			       : command.iterations + command.warmups;
	return true;
}

/* A peer that failed is ended, and the run goes on without it: two floors are
 * of one team. */
static bool survive(struct run *run, struct slot *slot,
		    const struct bench_failure *failure)
{
	complain(run, failure->text);
	bench_team_end(slot->team, false, NULL);
	if (!slot->team->is_peer || failure->exit_code > 128) {
		give_up(run, failure->exit_code, failure->text);
		return false;
	}
	spoil(run, failure->exit_code, failure->text);
	for (size_t i = 0; i < run->slot_count; i++)
		if (run->slots[i].team == slot->team)
			run->slots[i].off = true;
	if (slot->row)
		snprintf(slot->row->why, sizeof(slot->row->why), "failed");
	return true;
}

static uint32_t share(int iterations, int round, int rounds)
{
	int64_t all = iterations;

	return (uint32_t)(all * (round + 1) / rounds - all * round / rounds);
}

static bool run_rounds(struct run *run, size_t index)
{
	const struct bench_case *what = &run->plan->cases[index];
	struct bench_failure failure;
	int rounds = ROUNDS;

	while (what->iterations / rounds >= BENCH_ROUND_MAX)
		rounds++;
	for (int round = 0; round < rounds; round++) {
		for (size_t i = 0; i < run->slot_count; i++) {
			size_t at = (i + (size_t)round) % run->slot_count;
			struct slot *slot = &run->slots[at];
			uint32_t part = share(slot->iterations, round, rounds);

			if (slot->off || !part)
				continue;
			run->watcher->turn(run->watcher->context, index,
					   slot->name);
			if (!take_turn(run, slot, what, part, &failure) &&
			    !survive(run, slot, &failure))
				return false;
		}
	}
	return true;
}

static bool add_slot(struct run *run, struct bench_team *team,
		     enum bench_kind kind, const char *name, int iterations,
		     const struct bench_case *what)
{
	struct slot *slot = &run->slots[run->slot_count];
	struct bench_result *result = run->result;

	*slot = (struct slot){.team = team,
			      .kind = kind,
			      .name = name,
			      .iterations = iterations};
	slot->us = calloc((size_t)iterations, sizeof(*slot->us));
	if (!slot->us) {
		note_no_memory(run);
		return false;
	}
	if (kind == BENCH_CALLS) {
		slot->row = &result->rows[result->row_count++];
		slot->row->what = what;
		slot->row->subject = name;
		slot->row->checked = run->plan->check;
	}
	run->slot_count++;
	return true;
}

static bool size_is_new(const struct bench_result *result, uint64_t bytes)
{
	for (size_t i = 0; i < result->floor_count; i++) {
		if (result->floors[i].bytes == bytes)
			return false;
	}
	return true;
}

static bool add_floors(struct run *run, const struct bench_case *what)
{
	bool device = run->plan->frame.device;
	struct bench_team *team = device ? &run->floor : &run->own;
	int n = what->iterations;
	int flags = n < FLAG_ITERATIONS ? n : FLAG_ITERATIONS;
	int others = n < COPY_ITERATIONS ? n : COPY_ITERATIONS;

	if (device && flags > DEVICE_FLOOR_REPLAYS)
		flags = others = DEVICE_FLOOR_REPLAYS;
	/* one that was ended has no frame */
	if (!team->frame)
		return true;
	if (!add_slot(run, team, BENCH_FLOOR_FLAG, "flag", flags, what))
		return false;
	if (!size_is_new(run->result, what->bytes))
		return true;
	return device ? add_slot(run, team, BENCH_FLOOR_EMPTY, "empty", others,
				 what)
		      : add_slot(run, team, BENCH_FLOOR_COPY, "copy", others,
				 what);
}

static bool open_slots(struct run *run, const struct bench_case *what)
{
	int n = what->iterations;

	run->slot_count = 0;
	if (!add_slot(run, &run->own, BENCH_CALLS, "onehop", n, what))
		return false;
	for (int i = 0; i < BENCH_PEER_COUNT; i++) {
		/* ended ones have no frame */
		if (run->peers[i].frame &&
		    !add_slot(run, &run->peers[i], BENCH_CALLS,
			      run->peers[i].name, n, what))
			return false;
	}
	return add_floors(run, what);
}

static void close_slots(struct run *run)
{
	for (size_t i = 0; i < run->slot_count; i++)
		free(run->slots[i].us);
	run->slot_count = 0;
}

static void finish_row(struct run *run, struct slot *slot, double flag_us)
{
	struct bench_row *row = slot->row, *own = run->slots[0].row;
	const struct bench_case *what = row->what;

	row->flag_us = flag_us;
	row->measured = !slot->off;
	if (!row->measured)
		return;
	row->us = bench_times_of(slot->us, slot->used);
	row->algbw = bench_algbw(what->bytes, row->us.p50);
	row->busbw = bench_busbw(what->collective, run->plan->frame.ranks,
				 what->bytes, row->us.p50);
	if (own->measured && own->us.p50 > 0)
		row->ratio = row->us.p50 / own->us.p50;
}

/* The medians of a case's floors; what is kept of them is a row for each size.
 * Gives the exchange of flags. */
static double finish_floors(struct run *run)
{
	struct bench_result *result = run->result;
	struct bench_floor_row *floor = &result->floors[result->floor_count];
	struct bench_floor_row now = {.bytes = run->slots[0].row->what->bytes};
	bool kept = false;

	for (size_t i = 0; i < run->slot_count; i++) {
		struct slot *slot = &run->slots[i];
		double us;

		if (slot->row || slot->off)
			continue;
		us = bench_times_of(slot->us, slot->used).p50;
		if (slot->kind == BENCH_FLOOR_FLAG)
			now.flag_us = us;
		else if (slot->kind == BENCH_FLOOR_COPY)
			now.copy_us = us;
		else
			now.empty_us = us;
		kept |= slot->kind != BENCH_FLOOR_FLAG;
	}
	if (kept) {
		*floor = now;
		result->floor_count++;
	}
	return now.flag_us;
}

/* false: nobody wants more. */
static bool finish_case(struct run *run)
{
	double flag_us = finish_floors(run);
	size_t rows = 0;

	for (size_t i = 0; i < run->slot_count; i++) {
		if (run->slots[i].row) {
			finish_row(run, &run->slots[i], flag_us);
			rows++;
		}
	}
	if (run->watcher->rows(run->watcher->context, run->slots[0].row, rows))
		return true;
	note_no_reader(run);
	return false;
}

static bool run_case(struct run *run, size_t index)
{
	size_t rows_before = run->result->row_count;
	bool fine = open_slots(run, &run->plan->cases[index]) &&
		    run_rounds(run, index);

	if (fine)
		fine = finish_case(run);
	else
		run->result->row_count = rows_before;
	close_slots(run);
	return fine;
}

static uint32_t long_exchange(const struct bench_frame *frame)
{
	if (frame->device)
		return DEVICE_FLOOR_REPLAYS;
	return frame->ranks > frame->processors ? FLAG_LONG / 20 : FLAG_LONG;
}

/* The median of a longer exchange of flags. */
static bool measure_flag(struct run *run, double *us)
{
	const struct bench_frame *frame = &run->plan->frame;
	struct bench_team *team = frame->device ? &run->floor : &run->own;
	struct bench_case what = {.bytes = BENCH_LEAST_BYTES,
				  .warmups = frame->device ? -1 : 20,
				  .buffers = 1};
	struct bench_failure failure;
	uint32_t n = long_exchange(frame);
	bool fine;

	run->slot_count = 0;
	if (!team->frame)
		return true;
	if (!add_slot(run, team, BENCH_FLOOR_FLAG, "flag", (int)n, &what))
		return false;
	fine = take_turn(run, &run->slots[0], &what, n, &failure);
	if (fine)
		*us = bench_times_of(run->slots[0].us, n).p50;
	else
		fine = survive(run, &run->slots[0], &failure);
	close_slots(run);
	return fine;
}

/* A team that the run can do without did not start; false: a signal came. */
static bool do_without(struct run *run, const struct bench_failure *failure)
{
	complain(run, failure->text);
	if (failure->exit_code <= 128)
		return true;
	give_up(run, failure->exit_code, failure->text);
	return false;
}

static bool start_peers(struct run *run)
{
	struct bench_failure failure;

	for (int i = 0; i < BENCH_PEER_COUNT; i++) {
		struct bench_peer_state *state = &run->result->peers[i];

		state->wanted = run->plan->peer[i];
		if (!state->wanted)
			continue;
		run->watcher->turn(run->watcher->context, 0,
				   bench_peer_name((enum bench_peer)i));
		state->ran = bench_team_start_peer(&run->plan->frame,
						   (enum bench_peer)i,
						   &run->peers[i], &failure);
		if (state->ran) {
			snprintf(state->version, sizeof(state->version), "%s",
				 run->peers[i].version);
			continue;
		}
		memcpy(state->why, failure.text, sizeof(state->why));
		if (!do_without(run, &failure))
			return false;
	}
	return true;
}

/* Between ranks that share a GPU there is no way whose floor could be told. */
static bool start_floor(struct run *run)
{
	struct bench_failure failure;
	const struct bench_frame *frame = &run->plan->frame;
	bool by_host = bench_team_ways(&run->own, run->result->ways);

	run->result->create_ms = bench_team_create_ms(&run->own);
	if (frame->ranks > frame->gpus)
		return true;
	if (!bench_team_start_floor(frame, by_host, &run->floor, &failure))
		return do_without(run, &failure);
	memcpy(run->result->flag_place, run->floor.version,
	       sizeof(run->result->flag_place));
	return true;
}

/* false if the run is over: this library does not start, or a signal came. */
static bool start(struct run *run)
{
	const struct bench_frame *frame = &run->plan->frame;
	struct bench_result *result = run->result;
	struct bench_failure failure;

	if (!bench_team_start_own(frame, &run->own, &failure)) {
		note_end(run, &failure);
		return false;
	}
	snprintf(result->version, sizeof(result->version), "%s",
		 run->own.version);
	return start_peers(run) && (!frame->device || start_floor(run));
}

static bool allocate(struct run *run)
{
	size_t cases = run->plan->case_count;
	struct bench_result *result = run->result;

	result->rows =
		calloc(cases * (1 + BENCH_PEER_COUNT), sizeof(*result->rows));
	/* one more: finish_case has a look at the next */
	result->floors = calloc(cases + 1, sizeof(*result->floors));
	if (result->rows && result->floors)
		return true;
	note_no_memory(run);
	return false;
}

/* The reduction code is known once a case is looked at: one untimed call. */
static bool try_first(struct run *run)
{
	struct bench_case what = run->plan->cases[0];
	struct bench_failure failure;
	struct bench_row row = {.what = &what};
	struct slot slot = {.team = &run->own, .row = &row, .name = "onehop"};

	what.warmups = 1;
	if (take_turn(run, &slot, &what, 0, &failure))
		return true;
	note_end(run, &failure);
	return false;
}

static void finish(struct run *run, bool politely)
{
	struct bench_failure failure;

	if (!bench_team_end(&run->own, politely, &failure)) {
		complain(run, failure.text);
		spoil(run, failure.exit_code, failure.text);
	}
	/* how others end is their own affair */
	if (!bench_team_end(&run->floor, politely, &failure))
		complain(run, failure.text);
	for (int i = 0; i < BENCH_PEER_COUNT; i++) {
		if (!bench_team_end(&run->peers[i], politely, &failure))
			complain(run, failure.text);
	}
	bench_reap_orphans();
}

/* The head is written when all subjects are open and the first case is
 * known. */
static bool announce(struct run *run)
{
	if (run->watcher->started(run->watcher->context, run->plan,
				  run->result))
		return true;
	note_no_reader(run);
	return false;
}

void bench_run(const struct bench_plan *plan,
	       const struct bench_watcher *watcher, struct bench_result *result)
{
	struct run run = {.plan = plan, .watcher = watcher, .result = result};
	bool fine;

	memset(result, 0, sizeof(*result));
	bench_adopt_orphans();
	fine = allocate(&run) && start(&run) && try_first(&run) &&
	       measure_flag(&run, &result->flag_before_us) && announce(&run);
	for (size_t i = 0; fine && i < plan->case_count; i++)
		fine = run_case(&run, i);
	fine = fine && measure_flag(&run, &result->flag_after_us);
	result->complete = fine;
	finish(&run, fine);
}

void bench_result_free(struct bench_result *result)
{
	free(result->rows);
	free(result->floors);
	result->rows = NULL;
	result->floors = NULL;
}
