/* SPDX-License-Identifier: MIT */
/*
 * NCCL's own lines, under any engine or alone: which way each pair of ranks
 * goes, what the environment set, what the driver refused. "Using network
 * Socket" is printed on one host too and says nothing of a pair.
 */
#include <string.h>

#include "doctor/decimal.h"
#include "doctor/log_private.h"

/* "host:pid:tid [0] " and a file's name before "NCCL" */
#define STAMP_MOST 160
#define RANKS_MOST 65536

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The number that ends before end, at *begin; false if there is none. */
static bool number_before(const struct log_hit *hit, size_t end, size_t *begin,
			  uint64_t *value)
{
	*begin = end;
	while (*begin && end - *begin < 20 && is_digit(hit->line[*begin - 1]))
		(*begin)--;
	return decimal_read_count(hit->line + *begin, end - *begin, value) > 0;
}

/* "host:pid:tid [device] NCCL INFO ", the only certain sign of NCCL: prose
 * names it too. */
static bool read_stamp(const struct log_hit *hit, uint64_t *pid,
		       uint64_t *device)
{
	size_t at = log_find_before(hit, " [", STAMP_MOST), begin;
	uint64_t thread;

	if (at < 3 || !decimal_read_count(hit->line + at, hit->at - at, device))
		return false;
	return number_before(hit, at - 2, &begin, &thread) && begin &&
	       hit->line[begin - 1] == ':' &&
	       number_before(hit, begin - 1, &begin, pid) && begin &&
	       hit->line[begin - 1] == ':';
}

static void take_stamp(struct log_reader *reader, const struct log_row *row,
		       const struct log_hit *hit)
{
	uint64_t pid, device;

	(void)row;
	if (!read_stamp(hit, &pid, &device))
		return;
	log_is_of(reader, LOG_NCCL, false);
	log_seen(reader, LOG_NCCL_PID, pid);
	log_seen(reader, LOG_NCCL_DEVICE, device);
}

/*
 * "NCCL version 2.7.8+cuda11.1" as a line, or behind NCCL INFO; in PyTorch's
 * error text without the CUDA part; ncclras has "compiled with CUDA 13.0". In
 * prose something else follows.
 */
static void take_version(struct log_reader *reader, const struct log_row *row,
			 const struct log_hit *hit)
{
	struct log_facts *facts = &log_run(reader)->facts;
	bool error = log_find_before(hit, "NCCL error in", LOG_NEAR) > 0;
	bool info = log_find_before(hit, "NCCL INFO ", STAMP_MOST) ||
		    log_find(hit, " NCCL INFO ", STAMP_MOST);
	struct version version = {0};
	char text[sizeof(version.text)], *cuda;
	size_t end;

	(void)row;
	log_copy(text, sizeof(text), hit, hit->after, ".+");
	end = hit->after + strlen(text);
	cuda = strstr(text, "+cuda");
	info |= log_is_at(hit, end, " compiled with CUDA ");
	while (end < hit->bytes && ((unsigned char)hit->line[end] <= ' ' ||
				    strchr("`'\"", hit->line[end])))
		end++;
	if (!error && !info &&
	    (!cuda || (end < hit->bytes && !log_is_at(hit, end, "\\n"))))
		return;
	if (cuda)
		*cuda = '\0';
	if (!version_parse(text, &version))
		return;
	if (!error)
		log_is_of(reader, LOG_NCCL, false);
	if (!log_outweighs(reader, LOG_KEY_NCCL, LOG_HINT))
		return;
	facts->nccl = version;
	facts->line.nccl = log_line(reader);
}

/* A rank before end: "3", "3[3]", "0[1a000]"; where it begins goes to *begin.
 */
static bool rank_before(const struct log_hit *hit, size_t end, size_t *begin,
			int *rank)
{
	uint64_t value;

	if (end && hit->line[end - 1] == ']') {
		size_t least = end > 24 ? end - 24 : 0;

		while (end > least && hit->line[end - 1] != '[')
			end--;
		if (end == least)
			return false;
		end--;
	}
	if (!number_before(hit, end, begin, &value) || value >= RANKS_MOST)
		return false;
	*rank = (int)value;
	return true;
}

/* "3[3] -> 0[0] via", "1[1] -> 3[1] [receive] via" */
static bool read_pair(const struct log_hit *hit, int *from, int *to)
{
	static const char *const ways[] = {" [send]", " [receive]"};
	static const char arrow[] = " -> ";
	size_t end = hit->at, length = strlen(arrow);

	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		size_t way = strlen(ways[i]);

		if (end > way && log_is_at(hit, end - way, ways[i]))
			end -= way;
	}
	return rank_before(hit, end, &end, to) && end > length &&
	       log_is_at(hit, end - length, arrow) &&
	       rank_before(hit, end - length, &end, from);
}

static void keep_pair(struct log_facts *facts, int from, int to,
		      const struct log_hit *hit)
{
	struct log_pair *pair = &facts->pairs[facts->pair_count];
	size_t length;

	for (int i = 0; i < facts->pair_count; i++)
		if (facts->pairs[i].from == from && facts->pairs[i].to == to)
			return;
	if (facts->pair_count == LOG_PAIRS)
		return;
	pair->from = from;
	pair->to = to;
	/* the words of old releases have blanks */
	log_copy(pair->via, sizeof(pair->via), hit, hit->at + strlen(" via "),
		 "/-()[]");
	length = strlen(pair->via);
	if (log_is_at(hit, hit->at, " via direct shared memory"))
		memcpy(pair->via, "direct shared memory",
		       sizeof("direct shared memory"));
	else if (log_is_at(hit, hit->at + strlen(" via ") + length, " pointer"))
		log_copy(pair->via, sizeof(pair->via), hit,
			 hit->at + strlen(" via "), "/-() ");
	facts->pair_count++;
}

static void take_pair(struct log_reader *reader, const struct log_row *row,
		      const struct log_hit *hit)
{
	struct log_run *run = log_run(reader);
	int from, to;

	if (!read_pair(hit, &from, &to))
		return;
	log_is_of(reader, LOG_NCCL, false);
	run->begun = true;
	run->transports |= (uint8_t)(1 << row->value);
	if (!run->facts.line.transport)
		run->facts.line.transport = log_line(reader);
	keep_pair(&run->facts, from, to, hit);
}

/* "NCCL_P2P_LEVEL set by environment to PHB." What has to do with the way
 * inside a host is kept; of the network there would be many. */
static void take_setting(struct log_reader *reader, const struct log_row *row,
			 const struct log_hit *hit)
{
	static const char *const skipped[] = {"NCCL_IB_", "NCCL_SOCKET_",
					      "NCCL_DEBUG", "NCCL_NET_"};
	struct log_facts *facts = &log_run(reader)->facts;
	size_t at = log_find_before(hit, "NCCL_", 64), name = hit->at - at;
	char text[sizeof(facts->nccl_settings[0])];
	size_t used;

	(void)row;
	if (!at || name + sizeof("NCCL_=") > sizeof(text))
		return;
	at -= strlen("NCCL_");
	for (size_t i = 0; i < sizeof(skipped) / sizeof(*skipped); i++)
		if (log_is_at(hit, at, skipped[i]))
			return;
	used = hit->at - at;
	memcpy(text, hit->line + at, used);
	text[used++] = '=';
	log_copy(text + used, sizeof(text) - used, hit, hit->after,
		 ".,:;/^@%+-=");
	used += strlen(text + used);
	if (text[used - 1] == '.')
		text[used - 1] = '\0';
	for (int i = 0; i < facts->nccl_setting_count; i++)
		if (!strcmp(facts->nccl_settings[i], text))
			return;
	if (facts->nccl_setting_count ==
	    (int)(sizeof(facts->nccl_settings) / sizeof(text)))
		return;
	memcpy(facts->nccl_settings[facts->nccl_setting_count++], text,
	       sizeof(text));
}

static void take_refused(struct log_reader *reader, const struct log_row *row,
			 const struct log_hit *hit)
{
	struct log_facts *facts = &log_run(reader)->facts;

	(void)row, (void)hit;
	facts->p2p_refused = true;
	if (!facts->line.p2p_refused)
		facts->line.p2p_refused = log_line(reader);
}

/* A full disk prints the same words: the line must be of shared memory. The
 * names are NCCL's (posix_fallocate, shm.h), PyTorch's and Python's. */
static void take_full(struct log_reader *reader, const struct log_row *row,
		      const struct log_hit *hit)
{
	static const char *const signs[] = {
		"shm", "posix_fallocate", "</torch_", "/psm_", "shared memory"};
	struct log_facts *facts = &log_run(reader)->facts;
	bool sign = false;

	(void)row;
	if (facts->shm_full)
		return;
	for (size_t i = 0; i < sizeof(signs) / sizeof(*signs) && !sign; i++)
		sign = log_find_before(hit, signs[i], LOG_NEAR) ||
		       log_find(hit, signs[i], STAMP_MOST);
	if (!sign)
		return;
	facts->shm_full = true;
	facts->line.shm_full = log_line(reader);
}

/* "comm 0x3e41c5e0 rank 0 nranks 2 cudaDev 0 ..." */
static void take_world(struct log_reader *reader, const struct log_row *row,
		       const struct log_hit *hit)
{
	(void)row;
	if (log_find_before(hit, "NCCL INFO ", STAMP_MOST))
		log_world(reader, hit);
}

const struct log_row log_nccl_rows[] = {
	{"NCCL INFO ", take_stamp, 0},
	{"NCCL WARN ", take_stamp, 0},
	{"NCCL version ", take_version, 0},
	{" nranks ", take_world, 0},
	{" nRanks ", take_world, 0},
	{" via P2P/", take_pair, LOG_TRANSPORT_P2P},
	{" via SHM/", take_pair, LOG_TRANSPORT_SHM},
	{" via direct shared memory", take_pair, LOG_TRANSPORT_SHM},
	{" via NET/", take_pair, LOG_TRANSPORT_NET},
	{" set by environment to ", take_setting, 0},
	{"Could not enable P2P between", take_refused, 0},
	{"P2P is disabled between", take_refused, 0},
	{"peer access is not supported between", take_refused, 0},
	{"No space left on device", take_full, 0},
	{NULL, NULL, 0},
};
