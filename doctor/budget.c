/* SPDX-License-Identifier: MIT */
/*
 * The arithmetic, in the order in which one figure needs another. A figure that
 * cannot be said has an empty source, and nothing is derived from it.
 *
 * What decides (shares of the time of a token, and of the memory's peak):
 *	memory_bandwidth	60 % of the peak or more is reached; under 40 %
 *				it is ruled out
 *	communication		the least that the calls of today's path take is
 *				half of a token or more; ruled out if the most
 *				they take is under 15 %
 *	launch			the engine runs without CUDA graphs and what
 *				neither calls nor memory explain is half of a
 *				token or more, and three times the memory's time
 *	host			needs a profile: no input of the doctor shows it
 * Between the bounds the evidence is not enough, and the budget says what is
 * missing. A rate above the peak, or calls that outlast the token, contradict
 * an input: they decide nothing. Nor do shares of a token's time where
 * speculative decoding makes several tokens of one step.
 */
#include "doctor/budget.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MEMORY_BOUND 0.60
#define MEMORY_FREE 0.40
#define CALLS_BOUND 0.50
#define CALLS_FREE 0.15
#define LAUNCH_REST 0.50
#define LAUNCH_MEMORIES 3
/* measured rates and peaks are rounded */
#define ABOVE_PEAK 1.05
/* tokens of a step, above which they are not taken for one */
#define SPECULATES 1.05
/* of today's path, in a graph: ranks and bytes */
#define TIME_A_CALL                                                            \
	"onehop bench --memory device --ranks %d --sizes %.0f --peer nccl"

static bool known(const struct figure *figure)
{
	return figure->source[0];
}

/* A value that is no finite number stays unknown. */
__attribute__((format(printf, 3, 4))) static void
say(struct figure *figure, double value, const char *format, ...)
{
	va_list args;

	if (!isfinite(value))
		return;
	figure->value = value;
	va_start(args, format);
	vsnprintf(figure->source, sizeof(figure->source), format, args);
	va_end(args);
}

static bool given(double option)
{
	return option > 0 && isfinite(option);
}

static void add_model(const struct budget_question *q, struct budget *b)
{
	const struct model *model = q->model;

	if (!model)
		return;
	say(&b->layers, (double)model->layers, "config: num_hidden_layers");
	say(&b->hidden_size, (double)model->hidden, "config: hidden_size");
	if (!model->counted)
		return;
	say(&b->parameters_total, model->parameters_total,
	    "counted from the config's %s, the tensors of %" PRIu64 " layers",
	    model->family, model->layers);
	say(&b->parameters_active, model->parameters_active,
	    "counted likewise: what a token reads, the output head with it, "
	    "the embedding table without%s",
	    model->experts ? ", experts as routed" : "");
}

/* Two sums a layer, unless the model says otherwise. */
static void say_layers(const struct model *model, struct budget *b)
{
	double once = (double)model->layers_of_one_sum;

	if (model->sums_unknown)
		return;
	if (once > 0)
		say(&b->all_reduces_per_token, 2 * b->layers.value - once,
		    "one for each of %.0f layers of %s", once, model->family);
	else if (model->known_family)
		say(&b->all_reduces_per_token, 2 * b->layers.value,
		    "two for each of %.0f layers: behind attention and behind "
		    "the MLP",
		    b->layers.value);
	else
		say(&b->all_reduces_per_token, 2 * b->layers.value,
		    "assumed: two for each of %.0f layers, as in most "
		    "families; this one is not known",
		    b->layers.value);
}

static void add_calls(const struct budget_question *q, struct budget *b)
{
	if (!known(&b->layers))
		return;
	if (q->tp == 1) {
		say(&b->all_reduces_per_token, 0, "one rank: nothing to sum");
		say(&b->embedding_all_reduces, 0, "one rank: nothing to sum");
		return;
	}
	say_layers(q->model, b);
	say(&b->embedding_all_reduces, 1,
	    "one more for the embedding, which is split by vocabulary; not in "
	    "the figure above");
}

/* A log's dtype is what the engine really runs. */
static double activation_bytes(const struct budget_question *q,
			       const char **source)
{
	const char *dtype = q->log ? q->log->dtype : "";

	*source = "log";
	if (strstr(dtype, "float32"))
		return 4;
	if (strstr(dtype, "float16"))
		return 2;
	*source = q->model->dtype[0] ? "config" : "assumed";
	return q->model->activation_bytes;
}

static void add_message(const struct budget_question *q, struct budget *b)
{
	const char *source;
	double bytes;

	if (given(q->message_bytes)) {
		say(&b->message_bytes_per_token, q->message_bytes, "as given");
		return;
	}
	if (!known(&b->hidden_size))
		return;
	bytes = activation_bytes(q, &source);
	say(&b->message_bytes_per_token,
	    b->hidden_size.value * bytes * b->batch.value,
	    "%.0f values of %.0f bytes (dtype: %s), batch %.0f",
	    b->hidden_size.value, bytes, source, b->batch.value);
}

/* The engine's own average is over all its sequences. */
static bool log_has_rate(const struct budget_question *q)
{
	return q->log && given(q->log->generation_tokens_per_second) &&
	       q->log->generation_running > 0;
}

static bool metrics_have_rate(const struct budget_question *q)
{
	return q->metrics && q->metrics->tokens > 0 &&
	       given(q->metrics->mean_ms);
}

/* A rate of tokens is not one of steps then; the time between outputs, which
 * the metrics have, is. */
static bool speculates(const struct budget_question *q)
{
	return q->log && q->log->tokens_per_step > SPECULATES &&
	       (given(q->tokens_per_second) ||
		(!metrics_have_rate(q) && log_has_rate(q)));
}

static void add_rate(const struct budget_question *q, struct budget *b)
{
	if (given(q->tokens_per_second))
		say(&b->tokens_per_second, q->tokens_per_second,
		    "as given, taken as the rate of one sequence");
	else if (metrics_have_rate(q))
		say(&b->tokens_per_second, 1000 / q->metrics->mean_ms,
		    "metrics: mean of %s over %" PRIu64 " tokens",
		    q->metrics->metric, q->metrics->tokens);
	else if (log_has_rate(q))
		say(&b->tokens_per_second,
		    q->log->generation_tokens_per_second /
			    (double)q->log->generation_running,
		    "log, line %" PRIu64 ": %.4g tokens/s by %" PRIu64
		    " running requests",
		    q->log->line.rate, q->log->generation_tokens_per_second,
		    q->log->generation_running);
	if (!known(&b->tokens_per_second))
		return;
	say(&b->ms_per_token, 1000 / b->tokens_per_second.value,
	    "1000 / tokens per second");
	if (known(&b->layers) && b->layers.value > 0)
		say(&b->us_per_layer,
		    1000 * b->ms_per_token.value / b->layers.value,
		    "time of a token / %.0f layers", b->layers.value);
	if (known(&b->all_reduces_per_token))
		say(&b->all_reduces_per_second,
		    b->tokens_per_second.value * b->all_reduces_per_token.value,
		    "tokens per second x all-reduces a token");
}

static void add_batch(const struct budget_question *q, struct budget *b)
{
	bool other_rate = given(q->tokens_per_second) || metrics_have_rate(q);

	if (given(q->batch))
		say(&b->batch, q->batch, "as given");
	else if (!other_rate && log_has_rate(q))
		say(&b->batch, (double)q->log->generation_running,
		    "log, line %" PRIu64 ": running requests",
		    q->log->line.rate);
	else if (q->metrics && q->metrics->running > 1)
		say(&b->batch, 1,
		    "assumed; %.0f requests ran when the metrics were taken: "
		    "see --batch",
		    q->metrics->running);
	else
		say(&b->batch, 1, "assumed: one sequence");
}

/* A log that names a quantization that the config has not: the engine reads
 * other weights than the ones that were counted. */
static bool other_weights(const struct budget_question *q)
{
	const char *log = q->log ? q->log->quantization : "";

	return *log && strcasecmp(log, "none") && !q->model->quantization[0];
}

static void add_counted_bytes(const struct budget_question *q, struct budget *b)
{
	const struct model *model = q->model;
	double scale = 1, bytes;

	if (!model || !model->counted || model->bytes_counted <= 0)
		return;
	if (given(q->checkpoint_bytes))
		scale = q->checkpoint_bytes / model->bytes_counted;
	else if (model->bytes_total <= 0 || other_weights(q))
		return;
	bytes = model_active_bytes(model, q->tp, b->batch.value, scale);
	if (scale == 1)
		say(&b->active_bytes_per_gpu, bytes,
		    "counted: split tensors / %d, replicated ones in full, %s",
		    q->tp,
		    model->quantization[0] ? model->quantization
					   : "not quantized");
	else
		say(&b->active_bytes_per_gpu, bytes,
		    "counted: split tensors / %d, replicated ones in full, "
		    "scaled to a checkpoint of %.4g GB",
		    q->tp, q->checkpoint_bytes / 1e9);
}

static void add_peak(const struct budget_question *q, struct budget *b)
{
	const struct hardware *hardware = hardware_named(q->gpu_name);

	if (given(q->peak_gb_s))
		say(&b->gpu_peak_gb_s, q->peak_gb_s, "as given");
	else if (hardware)
		say(&b->gpu_peak_gb_s, hardware->memory_gb_s, "%s: %s%s%s",
		    hardware->name, hardware->source,
		    q->gpu_name_origin ? "; its name from " : "",
		    q->gpu_name_origin ? q->gpu_name_origin : "");
	if (given(q->claimed_gb_s))
		say(&b->claimed_gb_s, q->claimed_gb_s, "as given");
}

static void add_memory(const struct budget_question *q, struct budget *b)
{
	double achieved;

	if (q->tp > 0 && given(q->active_bytes))
		say(&b->active_bytes_per_gpu, q->active_bytes / q->tp,
		    "%.4g GB as given / %d rank%s", q->active_bytes / 1e9,
		    q->tp, q->tp == 1 ? "" : "s");
	else if (q->tp > 0)
		add_counted_bytes(q, b);
	if (!known(&b->active_bytes_per_gpu))
		return;
	if (known(&b->gpu_peak_gb_s))
		say(&b->memory_ms_per_token,
		    b->active_bytes_per_gpu.value / b->gpu_peak_gb_s.value /
			    1e6,
		    "active bytes at the peak: no token can be faster");
	if (!known(&b->tokens_per_second))
		return;
	achieved = b->active_bytes_per_gpu.value * b->tokens_per_second.value /
		   1e9;
	say(&b->achieved_gb_s_per_gpu, achieved,
	    "weights read x tokens per second");
	if (known(&b->gpu_peak_gb_s))
		say(&b->utilisation_of_peak, achieved / b->gpu_peak_gb_s.value,
		    "achieved / peak");
	if (known(&b->claimed_gb_s))
		say(&b->utilisation_of_claimed_bandwidth,
		    achieved / b->claimed_gb_s.value, "achieved / believed");
}

static void add_paths(const struct budget_question *q, struct budget *b)
{
	const struct path_time *rows[BUDGET_PATHS];
	double calls = b->all_reduces_per_token.value;

	if (!q->link_known || q->tp < 2 ||
	    !known(&b->message_bytes_per_token) ||
	    !known(&b->all_reduces_per_token))
		return;
	if (b->message_bytes_per_token.value > 1e15)
		return;
	b->path_count = path_times(q->link, q->tp,
				   (uint64_t)b->message_bytes_per_token.value,
				   rows, BUDGET_PATHS);
	for (int i = 0; i < b->path_count; i++) {
		struct budget_path *path = &b->paths[i];

		path->time = rows[i];
		path->now = q->path_now && !strcmp(rows[i]->path, q->path_now);
		path->low_ms = calls * rows[i]->low_us / 1000;
		path->high_ms = calls * rows[i]->high_us / 1000;
		if (!known(&b->ms_per_token))
			continue;
		path->low_share = path->low_ms / b->ms_per_token.value;
		path->high_share = path->high_ms / b->ms_per_token.value;
		path->low_left_ms =
			fmax(b->ms_per_token.value - path->high_ms, 0);
		path->high_left_ms =
			fmax(b->ms_per_token.value - path->low_ms, 0);
	}
}

static const struct budget_path *path_now(const struct budget *b)
{
	for (int i = 0; i < b->path_count; i++)
		if (b->paths[i].now)
			return &b->paths[i];
	return NULL;
}

/*
 * Another path leaves what is not communication as it is. How much that is
 * depends on what the calls take today: anything in their range, but never so
 * much that less than the memory's time is left.
 */
static void add_expectations(struct budget *b)
{
	const struct budget_path *now = path_now(b);
	double token = b->ms_per_token.value, most, least;

	if (!now || !known(&b->ms_per_token) || now->low_share > 1 ||
	    b->utilisation_of_peak.value > ABOVE_PEAK)
		return;
	most = fmin(now->high_ms, token - b->memory_ms_per_token.value);
	most = fmax(most, 0);
	least = fmin(now->low_ms, most);
	for (int i = 0; i < b->path_count; i++) {
		struct budget_path *path = &b->paths[i];

		if (path == now)
			continue;
		path->low_tokens_per_second =
			1000 / (token - least + path->high_ms);
		path->high_tokens_per_second =
			1000 / (token - most + path->low_ms);
	}
}

static void rule_out(const struct budget_question *q, struct budget *b)
{
	const struct budget_path *now = path_now(b);
	double reached = b->utilisation_of_peak.value;
	char *memory = b->not_bound_why[BUDGET_MEMORY_BANDWIDTH];
	char *calls = b->not_bound_why[BUDGET_COMMUNICATION];
	size_t room = sizeof(b->not_bound_why[0]);

	if (known(&b->utilisation_of_peak) && reached < MEMORY_FREE) {
		b->not_bound_by |= 1u << BUDGET_MEMORY_BANDWIDTH;
		snprintf(memory, room,
			 "%.4g of %.4g GB/s per GPU is %.0f %% of the peak, "
			 "under %.0f %%",
			 b->achieved_gb_s_per_gpu.value, b->gpu_peak_gb_s.value,
			 100 * reached, 100 * MEMORY_FREE);
	}
	if (q->tp == 1 && b->any) {
		b->not_bound_by |= 1u << BUDGET_COMMUNICATION;
		snprintf(calls, room, "there is one rank");
	} else if (now && known(&b->ms_per_token) &&
		   now->high_share < CALLS_FREE) {
		b->not_bound_by |= 1u << BUDGET_COMMUNICATION;
		snprintf(calls, room,
			 "%s takes %.1f %% of a token at most, under %.0f %%",
			 now->time->title, 100 * now->high_share,
			 100 * CALLS_FREE);
	}
}

/* What neither the calls nor the memory can have taken, in ms of a token. */
static double unexplained(const struct budget *b)
{
	const struct budget_path *now = path_now(b);

	return b->ms_per_token.value - (now ? now->high_ms : 0) -
	       b->memory_ms_per_token.value / MEMORY_BOUND;
}

static bool is_launch(const struct budget_question *q, const struct budget *b)
{
	bool calls_known = path_now(b) || q->tp == 1;

	return q->log && q->log->enforce_eager == LOG_YES && calls_known &&
	       known(&b->ms_per_token) && known(&b->memory_ms_per_token) &&
	       unexplained(b) >= LAUNCH_REST * b->ms_per_token.value &&
	       unexplained(b) >= LAUNCH_MEMORIES * b->memory_ms_per_token.value;
}

/* Which input is missing, the first in the order of what needs what. */
static const char *missing(const struct budget_question *q,
			   const struct budget *b)
{
	if (!known(&b->tokens_per_second))
		return "no rate: give --tokens-per-second, the engine's "
		       "/metrics, or a log with its throughput";
	if (q->tp < 1)
		return "the tensor-parallel size is not known: give --tp or "
		       "the engine's log";
	if (!known(&b->active_bytes_per_gpu) && !known(&b->layers))
		return "no model: give its config.json, or --active-bytes";
	if (!known(&b->active_bytes_per_gpu))
		return "the bytes that a token reads are not known: give "
		       "--checkpoint-bytes or --active-bytes";
	if (!known(&b->gpu_peak_gb_s))
		return "the memory's peak is not known: give --peak-gb-s or a "
		       "report that names the GPU";
	if (q->tp > 1 && !known(&b->layers))
		return "the number of layers is not known: give config.json";
	if (q->tp > 1 && !q->link_known)
		return "how the GPUs are linked is not known: give "
		       "nvidia-smi topo -m";
	return NULL;
}

static void explain_unknown(const struct budget_question *q, struct budget *b)
{
	const struct budget_path *now = path_now(b);
	const char *input = missing(q, b);
	size_t room = sizeof(b->verdict_why);
	char share[32];

	if (known(&b->utilisation_of_peak) &&
	    b->utilisation_of_peak.value > ABOVE_PEAK)
		snprintf(b->verdict_why, room,
			 "%.0f %% of the memory's peak is impossible: the "
			 "active bytes, the rate or the peak is wrong "
			 "(speculative decoding makes several tokens of one "
			 "read)",
			 100 * b->utilisation_of_peak.value);
	else if (now && known(&b->ms_per_token) && now->low_share > 1)
		snprintf(b->verdict_why, room,
			 "%s would take longer than the whole token: its calls "
			 "are faster here than anybody measured, or fewer. "
			 "Time one call: " TIME_A_CALL,
			 now->time->title, q->tp,
			 b->message_bytes_per_token.value);
	else if (input)
		snprintf(b->verdict_why, room, "%s", input);
	else if (now && b->not_bound_by >> BUDGET_COMMUNICATION & 1)
		snprintf(
			b->verdict_why, room,
			"%s takes %s of a token, memory explains %.0f %%; what "
			"takes the rest shows in a profile of one decode step "
			"(nsys)",
			now->time->title,
			budget_percent(now->low_share, now->high_share, share),
			100 * b->utilisation_of_peak.value);
	else if (now)
		snprintf(b->verdict_why, room,
			 "%s takes %s of a token (%.3g to %.3g us a call); "
			 "nobody measured it here. Profile one decode step "
			 "(nsys), or time one call: " TIME_A_CALL,
			 now->time->title,
			 budget_percent(now->low_share, now->high_share, share),
			 now->time->low_us, now->time->high_us, q->tp,
			 b->message_bytes_per_token.value);
	else if (q->tp == 1)
		snprintf(b->verdict_why, room,
			 "memory explains %.0f %% of the time of a token; "
			 "what takes the rest shows in a profile of one "
			 "decode step (nsys)",
			 100 * b->utilisation_of_peak.value);
	else
		snprintf(b->verdict_why, room,
			 "%s: profile one decode step (nsys), or run with "
			 "NCCL_DEBUG=INFO and time one call: " TIME_A_CALL,
			 q->path_now ? "nobody measured today's path at this "
				       "size and number of ranks"
				     : "which path the all-reduce takes is "
				       "not known",
			 q->tp, b->message_bytes_per_token.value);
}

static void judge(const struct budget_question *q, struct budget *b)
{
	const struct budget_path *now = path_now(b);
	double reached = b->utilisation_of_peak.value;
	size_t room = sizeof(b->verdict_why);

	if (speculates(q)) {
		snprintf(b->verdict_why, room,
			 "speculative decoding makes %.3g tokens of one step "
			 "(log, line %" PRIu64 "), so a step takes longer than "
			 "a token, and the shares above are not those of a "
			 "step. The engine's /metrics count steps, or give "
			 "--tokens-per-second of a run without it",
			 q->log->tokens_per_step, q->log->line.tokens_per_step);
		return;
	}
	if (known(&b->utilisation_of_peak) && reached >= MEMORY_BOUND &&
	    reached <= ABOVE_PEAK) {
		b->verdict = BUDGET_MEMORY_BANDWIDTH;
		snprintf(b->verdict_why, room,
			 "%.4g of %.4g GB/s per GPU is %.0f %% of the peak",
			 b->achieved_gb_s_per_gpu.value, b->gpu_peak_gb_s.value,
			 100 * reached);
	} else if (now && now->low_share >= CALLS_BOUND &&
		   now->low_share <= 1) {
		b->verdict = BUDGET_COMMUNICATION;
		snprintf(b->verdict_why, room,
			 "%s takes %.0f %% of a token even at the %.3g us a "
			 "call that the fastest machine of this kind needs",
			 now->time->title, 100 * now->low_share,
			 now->time->low_us);
	} else if (is_launch(q, b)) {
		b->verdict = BUDGET_LAUNCH;
		snprintf(b->verdict_why, room,
			 "the engine runs without CUDA graphs (enforce_eager), "
			 "and %.0f %% of a token (%.4g us a layer) is neither "
			 "communication nor memory",
			 100 * unexplained(b) / b->ms_per_token.value,
			 1000 * unexplained(b) / fmax(b->layers.value, 1));
	} else {
		explain_unknown(q, b);
	}
}

void budget_make(const struct budget_question *question, struct budget *budget)
{
	memset(budget, 0, sizeof(*budget));
	add_model(question, budget);
	add_calls(question, budget);
	add_batch(question, budget);
	add_message(question, budget);
	add_rate(question, budget);
	add_peak(question, budget);
	add_memory(question, budget);
	add_paths(question, budget);
	if (!speculates(question))
		add_expectations(budget);
	budget->any = known(&budget->layers) ||
		      known(&budget->tokens_per_second) ||
		      known(&budget->active_bytes_per_gpu);
	if (!speculates(question))
		rule_out(question, budget);
	judge(question, budget);
}

const char *budget_percent(double low, double high, char text[32])
{
	char first[12], last[12];

	snprintf(first, sizeof(first), "%.0f", 100 * low);
	snprintf(last, sizeof(last), "%.0f", 100 * high);
	if (!strcmp(first, last))
		snprintf(text, 32, "%s %%", last);
	else
		snprintf(text, 32, "%s to %s %%", first, last);
	return text;
}

const char *budget_verdict_name(enum budget_verdict verdict)
{
	static const char *const names[] = {
		[BUDGET_NOT_ENOUGH_EVIDENCE] = "not_enough_evidence",
		[BUDGET_COMMUNICATION] = "communication",
		[BUDGET_MEMORY_BANDWIDTH] = "memory_bandwidth",
		[BUDGET_LAUNCH] = "launch",
	};

	return names[verdict];
}
