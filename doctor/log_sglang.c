/* SPDX-License-Identifier: MIT */
/*
 * What SGLang prints of its start and its all-reduce: settings, its second
 * kernel (CustomAllReduceV2), rates. Its first kernel prints vLLM's sentences
 * and is read there.
 */
#include <string.h>

#include "doctor/decimal.h"
#include "doctor/log_private.h"

#define STAMP_MOST 64
#define REASON_MOST 160

static void take_sglang(struct log_reader *reader, const struct log_row *row,
			const struct log_hit *hit)
{
	log_is_of(reader, LOG_SGLANG, true);
	log_take_rank_line(reader, row, hit);
}

/* "server_args=ServerArgs(tp_size=8, ...", "server_args={'tp_size': 2, ..." */
static void take_arguments(struct log_reader *reader, const struct log_row *row,
			   const struct log_hit *hit)
{
	(void)row;
	if (!log_is_at(hit, hit->after, "ServerArgs(") &&
	    !log_is_at(hit, hit->after, "{"))
		return;
	log_start(reader);
	log_is_of(reader, LOG_SGLANG, true);
	log_settings(reader, hit, LOG_CONFIG);
}

static void take_installed(struct log_reader *reader, const struct log_row *row,
			   const struct log_hit *hit)
{
	(void)row;
	log_version(reader, LOG_SGLANG, hit, hit->after, LOG_HINT);
}

static void take_nccl(struct log_reader *reader, const struct log_row *row,
		      const struct log_hit *hit)
{
	struct log_facts *facts = &log_run(reader)->facts;

	take_sglang(reader, row, hit);
	if (!log_outweighs(reader, LOG_KEY_NCCL, LOG_ARGUMENT))
		return;
	log_read_version(hit, hit->after, &facts->nccl);
	facts->line.nccl = log_line(reader);
}

static void take_v2_disabled(struct log_reader *reader,
			     const struct log_row *row,
			     const struct log_hit *hit)
{
	log_is_of(reader, LOG_SGLANG, true);
	log_take_disabled(reader, row, hit);
}

static void take_v2(struct log_reader *reader, const struct log_row *row,
		    const struct log_hit *hit)
{
	take_sglang(reader, row, hit);
	log_generation(reader, "v2");
	log_custom_enabled(reader, hit, hit->at);
}

static double megabytes(const struct log_hit *hit, const char *name)
{
	size_t at = log_find(hit, name, REASON_MOST);
	double value = 0;

	if (at)
		decimal_read(hit->line + at, hit->bytes - at, &value);
	return value;
}

static bool says_true(const struct log_hit *hit, const char *name)
{
	size_t at = log_find(hit, name, REASON_MOST);

	return at && log_is_at(hit, at, "True");
}

/* "All Reduce config: symmetric_memory = 20.01 MB, local_buffer = 2.00 MB,
 * multicast = False, pull = True": only a kernel that is on prints it. */
static void take_v2_config(struct log_reader *reader, const struct log_row *row,
			   const struct log_hit *hit)
{
	struct log_facts *facts = &log_run(reader)->facts;

	take_v2(reader, row, hit);
	facts->v2_seen = true;
	facts->v2_symmetric_memory_mb = megabytes(hit, "symmetric_memory = ");
	facts->v2_local_buffer_mb = megabytes(hit, "local_buffer = ");
	facts->v2_multicast = says_true(hit, "multicast = ");
	facts->v2_pull = says_true(hit, " pull = ");
}

static void take_failed(struct log_reader *reader, const struct log_row *row,
			const struct log_hit *hit)
{
	take_sglang(reader, row, hit);
	log_custom_failed(reader, hit, hit->at);
}

/* "Decode batch, #running-req: 1, ..., gen throughput (token/s): 123.4" */
static void take_rate(struct log_reader *reader, const struct log_row *row,
		      const struct log_hit *hit)
{
	size_t at = log_find_before(hit, "#running-req: ", LOG_NEAR);
	uint64_t running = UINT64_MAX;
	double rate;

	take_sglang(reader, row, hit);
	if (!decimal_read(hit->line + hit->after, hit->bytes - hit->after,
			  &rate))
		return;
	if (!at)
		at = log_find(hit, "#running-req: ", REASON_MOST);
	if (at)
		decimal_read_count(hit->line + at, hit->bytes - at, &running);
	log_rate(reader, rate, running);
}

/* "accept len: 2.90", in a line of a decode batch */
static void take_accepted(struct log_reader *reader, const struct log_row *row,
			  const struct log_hit *hit)
{
	(void)row;
	if (log_find_before(hit, "#running-req: ", LOG_NEAR))
		log_accepted(reader, hit);
}

const struct log_row log_sglang_rows[] = {
	{"server_args=", take_arguments, 0},
	{"sglang: ", take_installed, 0},
	{"sglang is using nccl==", take_nccl, 0},
	{"Init torch distributed", take_sglang, 0},
	/* before 0.3.1 or so */
	{"Init nccl begin", take_sglang, 0},
	{"Load weight begin", take_sglang, 0},
	{"Scheduler hit an exception", take_sglang, 0},
	{"CustomAllReduceV2 is disabled", take_v2_disabled, 2},
	{"CustomAllreduce is disabled", take_v2_disabled, 1},
	{"[AR] Using CustomAllReduceV2", take_v2, 0},
	{"Custom allreduce v2 initialized", take_v2, 0},
	{"All Reduce config: ", take_v2_config, 0},
	{"Setup Custom allreduce failed with ", take_failed, 0},
	{"] Decode batch", take_sglang, 0},
	{"gen throughput (token/s): ", take_rate, 0},
	{" accept len: ", take_accepted, 0},
	{NULL, NULL, 0},
};
