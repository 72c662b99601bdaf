/* SPDX-License-Identifier: MIT */
/*
 * Facts about the ranks of a question. A pair counts once for NVLink; for peer
 * access it counts in both directions, as the driver answers for each.
 */
#include "doctor/gate_facts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "doctor/hardware.h"

#define ORIGIN_FILE 70 /* of a file's name */

/* What the pairs of a question say together. */
struct tally {
	int yes, no, unknown, implied;
	int first[2]; /* ranks of the first pair that says no */
	struct oh__from from; /* of that, or of any yes */
	enum oh__peer_status status;
};

void gate_said_assumed(struct gate_said *said, enum gate_answer answer,
		       const char *evidence)
{
	said->answer = answer;
	GATE_SAY(said->evidence, "%s", evidence);
	GATE_SAY(said->origin, "assumed");
}

void gate_log_origin(const struct log_facts *log, uint64_t line,
		     char origin[96])
{
	const char *file = *log->file ? log->file : "log";
	size_t length = strlen(file);

	/* of a long path the end tells more than the beginning */
	if (length > ORIGIN_FILE)
		file += length - ORIGIN_FILE;
	if (line)
		snprintf(origin, 96, "%.70s:%llu", file,
			 (unsigned long long)line);
	else
		snprintf(origin, 96, "%.70s", file);
}

void gate_said_logged(struct gate_said *said, enum gate_answer answer,
		      const struct log_facts *log, uint64_t line,
		      const char *format, ...)
{
	va_list args;

	said->answer = answer;
	va_start(args, format);
	vsnprintf(said->evidence, sizeof(said->evidence), format, args);
	va_end(args);
	gate_log_origin(log, line, said->origin);
}

int gate_gpu(const struct gate_question *question, int rank)
{
	int gpus = question->machine->gpus;

	/* ranks that the machine has no GPU for are on no list */
	if (rank < 0 || rank >= OH__GPUS || question->tp > gpus ||
	    question->gpus[rank] < 0 || question->gpus[rank] >= gpus)
		return -1;
	return question->gpus[rank];
}

enum gate_answer gate_pair_nvlink(const struct gate_question *question, int i,
				  int k, struct oh__from *from)
{
	const struct oh__machine *machine = question->machine;
	int a = gate_gpu(question, i), b = gate_gpu(question, k);
	const struct oh__peer *peer;
	const struct oh__link *link;

	if (a < 0 || b < 0)
		return GATE_UNKNOWN;
	peer = &machine->peer[OH__PEER_NVLINK][a][b];
	link = &machine->link[a][b];
	if (oh__known(peer->from) && peer->status != OH__PEER_U) {
		*from = peer->from;
		return peer->status == OH__PEER_OK ? GATE_YES : GATE_NO;
	}
	if (!oh__known(link->from) || link->kind == OH__LINK_UNKNOWN)
		return GATE_UNKNOWN;
	*from = link->from;
	return link->kind == OH__LINK_NV ? GATE_YES : GATE_NO;
}

/* The driver's word on reads and writes in one direction. */
static enum gate_answer peer_said(const struct oh__machine *machine, int a,
				  int b, enum oh__peer_status *status,
				  struct oh__from *from)
{
	static const enum oh__peer_aspect aspects[] = {OH__PEER_READ,
						       OH__PEER_WRITE};
	enum gate_answer answer = GATE_UNKNOWN;

	for (size_t i = 0; i < sizeof(aspects) / sizeof(*aspects); i++) {
		const struct oh__peer *peer = &machine->peer[aspects[i]][a][b];

		if (!oh__known(peer->from) || peer->status == OH__PEER_U)
			continue;
		*status = peer->status;
		*from = peer->from;
		if (peer->status != OH__PEER_OK)
			return GATE_NO;
		answer = GATE_YES;
	}
	return answer;
}

enum gate_answer gate_pair_peer(const struct gate_question *question, int i,
				int k, enum oh__peer_status *status,
				struct oh__from *from)
{
	const struct oh__machine *machine = question->machine;
	int a = gate_gpu(question, i), b = gate_gpu(question, k);
	enum gate_answer there, back;

	*status = OH__PEER_NOT_ASKED;
	if (a < 0 || b < 0)
		return GATE_UNKNOWN;
	for (int side = 0; side < 2; side++) {
		const struct oh__number *mig = &machine->gpu[side ? b : a].mig;

		if (oh__known(mig->from) && mig->value) {
			*from = mig->from;
			return GATE_NO;
		}
	}
	there = peer_said(machine, a, b, status, from);
	if (there == GATE_NO)
		return GATE_NO;
	back = peer_said(machine, b, a, status, from);
	if (back != GATE_UNKNOWN)
		return back;
	if (there != GATE_UNKNOWN)
		return there;
	if (machine->link[a][b].kind != OH__LINK_NV)
		return GATE_UNKNOWN;
	*from = machine->link[a][b].from;
	return GATE_YES;
}

static void count(struct tally *tally, enum gate_answer answer, int i, int k,
		  struct oh__from from)
{
	if (answer == GATE_NO && !tally->no++) {
		tally->first[0] = i;
		tally->first[1] = k;
		tally->from = from;
	}
	if (answer == GATE_YES && !tally->yes++ && !tally->no)
		tally->from = from;
	tally->unknown += answer == GATE_UNKNOWN;
}

static enum gate_answer together(const struct tally *tally)
{
	return tally->no ? GATE_NO : tally->unknown ? GATE_UNKNOWN : GATE_YES;
}

static void say_origin(const struct gate_question *question,
		       struct oh__from from, char origin[96])
{
	oh__machine_origin(question->machine, from, origin, 96);
}

/* Pairs of these ranks; 0 if their GPUs are not known. */
static int pairs(const struct gate_question *question)
{
	return question->tp * (question->tp - 1) / 2;
}

/* Of two ranks it is "the pair", of more "all 6 pairs". */
static void say_all(struct gate_said *said, int count, const char *before,
		    const char *verb, const char *behind)
{
	if (count == 1)
		GATE_SAY(said->evidence, "%sthe pair%s%s", before,
			 *verb ? " has" : "", behind);
	else
		GATE_SAY(said->evidence, "%sall %d pairs%s%s", before, count,
			 verb, behind);
}

void gate_pairs_nvlink(const struct gate_question *question,
		       struct gate_said *said)
{
	struct tally tally = {0};
	char kind[8];
	int ranks = gate_gpu(question, 0) < 0 ? 0 : question->tp;

	said->answer = GATE_UNKNOWN;
	GATE_SAY(said->origin, "unknown");
	if (!ranks) {
		GATE_SAY(said->evidence, "the GPUs' links were not given");
		return;
	}
	for (int i = 0; i < ranks; i++)
		for (int k = i + 1; k < ranks; k++) {
			struct oh__from from = {0};

			count(&tally, gate_pair_nvlink(question, i, k, &from),
			      i, k, from);
		}
	said->answer = together(&tally);
	say_origin(question, tally.from, said->origin);
	if (said->answer == GATE_YES)
		say_all(said, tally.yes, "", " have", " NVLink");
	else if (said->answer == GATE_UNKNOWN)
		GATE_SAY(said->evidence,
			 "the links of %d of %d pairs were not given",
			 tally.unknown, pairs(question));
	else {
		int a = gate_gpu(question, tally.first[0]);
		int b = gate_gpu(question, tally.first[1]);

		oh__link_text(&question->machine->link[a][b], kind);
		GATE_SAY(
			said->evidence,
			"no NVLink in %d of %d pairs; the first is GPU%d-GPU%d "
			"(%s)",
			tally.no, pairs(question), a, b, kind);
	}
}

/* "GPU0-GPU1 is CNS (chipset not supported)" */
static void say_refused(const struct gate_question *question,
			const struct tally *tally, struct gate_said *said)
{
	int a = gate_gpu(question, tally->first[0]);
	int b = gate_gpu(question, tally->first[1]);

	if (tally->status == OH__PEER_NOT_ASKED)
		GATE_SAY(
			said->evidence,
			"GPU%d or GPU%d is in MIG mode: instances do not reach "
			"each other's memory",
			a, b);
	else
		GATE_SAY(said->evidence,
			 "the driver refuses %d of %d pairs; the first is "
			 "GPU%d-GPU%d (%s)",
			 tally->no, pairs(question), a, b,
			 oh__peer_status_text(tally->status));
}

void gate_pairs_peer(const struct gate_question *question,
		     struct gate_said *said)
{
	struct tally tally = {0};
	int ranks = gate_gpu(question, 0) < 0 ? 0 : question->tp;

	for (int i = 0; i < ranks; i++)
		for (int k = i + 1; k < ranks; k++) {
			enum oh__peer_status status;
			struct oh__from from = {0};
			enum gate_answer answer =
				gate_pair_peer(question, i, k, &status, &from);

			if (answer == GATE_NO && !tally.no)
				tally.status = status;
			tally.implied += answer == GATE_YES &&
					 status == OH__PEER_NOT_ASKED;
			count(&tally, answer, i, k, from);
		}
	said->answer = ranks ? together(&tally) : GATE_UNKNOWN;
	say_origin(question, tally.from, said->origin);
	if (said->answer == GATE_NO)
		say_refused(question, &tally, said);
	else if (said->answer == GATE_UNKNOWN)
		GATE_SAY(said->evidence,
			 "the driver's peer status was not given for %d of %d "
			 "pairs (nvidia-smi topo -p2p r)",
			 ranks ? tally.unknown : pairs(question),
			 pairs(question));
	else if (ranks < 2)
		gate_said_assumed(said, GATE_YES, "one rank has no pair");
	else if (tally.implied == tally.yes)
		gate_said_assumed(said, GATE_YES,
				  "NVLink between all pairs implies peer "
				  "access; the driver's word was not given");
	else
		say_all(said, tally.yes, "the driver says OK for ", "", "");
}

bool gate_setting(const struct gate_question *question, const char *name,
		  char value[48], char origin[96])
{
	const struct oh__variable *variable =
		oh__machine_variable(question->machine, name);
	const struct log_facts *log = question->log;
	size_t length = strlen(name);

	for (int i = 0; log && i < log->nccl_setting_count; i++) {
		const char *setting = log->nccl_settings[i];

		if (strncmp(setting, name, length) != 0 ||
		    setting[length] != '=')
			continue;
		snprintf(value, 48, "%.47s", setting + length + 1);
		gate_log_origin(log, 0, origin);
		return true;
	}
	if (!variable)
		return false;
	snprintf(value, 48, "%.47s", variable->value);
	oh__machine_origin(question->machine, variable->from, origin, 96);
	return true;
}

bool gate_is_true(const char *value)
{
	static const char *const words[] = {"1", "true", "yes", "on"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcasecmp(value, words[i]))
			return true;
	return false;
}

int gate_capability(const struct gate_question *question, char origin[96])
{
	int gpu = gate_gpu(question, 0);
	const struct log_facts *log = question->log;
	const struct hardware *hardware = NULL;
	int major, minor;

	if (gpu >= 0) {
		const struct oh__gpu *first = &question->machine->gpu[gpu];

		if (oh__known(first->capability.from)) {
			say_origin(question, first->capability.from, origin);
			return (int)first->capability.value;
		}
		if (oh__known(first->name.from))
			hardware = hardware_named(first->name.text);
		if (hardware && hardware->capability) {
			say_origin(question, first->name.from, origin);
			return hardware->capability;
		}
	}
	if (log &&
	    sscanf(log->symm_mem_capability, "%3d.%1d", &major, &minor) == 2) {
		gate_log_origin(log, log->line.symm_mem, origin);
		return major * 10 + minor;
	}
	snprintf(origin, 96, "unknown");
	return 0;
}

enum gate_answer gate_cpu_is_amd(const struct gate_question *question,
				 char origin[96])
{
	static const struct {
		const char *word;
		enum gate_answer answer;
	} makers[] = {
		{"AMD", GATE_YES},     {"EPYC", GATE_YES},
		{"Ryzen", GATE_YES},   {"Threadripper", GATE_YES},
		{"Intel", GATE_NO},    {"Xeon", GATE_NO},
		{"Neoverse", GATE_NO}, {"Cortex", GATE_NO},
		{"Grace", GATE_NO},    {"Ampere", GATE_NO},
		{"POWER", GATE_NO},
	};
	const struct oh__text *cpu = &question->machine->host.cpu;

	say_origin(question, cpu->from, origin);
	for (size_t i = 0; i < sizeof(makers) / sizeof(*makers); i++)
		if (oh__known(cpu->from) && strstr(cpu->text, makers[i].word))
			return makers[i].answer;
	return GATE_UNKNOWN;
}
