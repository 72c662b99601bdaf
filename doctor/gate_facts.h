/* SPDX-License-Identifier: MIT */
/*
 * What a question's machine and log say, as answers with evidence and origin:
 * the facts that more than one engine's rules look at. Unknown stays unknown.
 */
#ifndef OH_DOCTOR_GATE_FACTS_H
#define OH_DOCTOR_GATE_FACTS_H

#include "doctor/gate.h"

/* An answer before it becomes a step. */
struct gate_said {
	enum gate_answer answer;
	char evidence[224];
	char origin[96];
};

/* An answer that nobody gave evidence for. */
void gate_said_assumed(struct gate_said *said, enum gate_answer answer,
		       const char *evidence);
/* "vllm.log:12"; without the line where that is 0. */
void gate_log_origin(const struct log_facts *log, uint64_t line,
		     char origin[96]);
/* An answer by a line of the log. */
__attribute__((format(printf, 5, 6))) void
gate_said_logged(struct gate_said *said, enum gate_answer answer,
		 const struct log_facts *log, uint64_t line, const char *format,
		 ...);

/* The GPU of a rank in question->machine, or -1. */
int gate_gpu(const struct gate_question *question, int rank);

/* What one pair of ranks says of NVLink, and of reads and writes to each
 * other's memory; from is where it is said. */
enum gate_answer gate_pair_nvlink(const struct gate_question *question, int i,
				  int k, struct oh__from *from);
/* status: the driver's word that decided, or OH__PEER_NOT_ASKED. */
enum gate_answer gate_pair_peer(const struct gate_question *question, int i,
				int k, enum oh__peer_status *status,
				struct oh__from *from);

/* Of all pairs of ranks: yes if each says so, no if any says no. */
void gate_pairs_nvlink(const struct gate_question *question,
		       struct gate_said *said);
void gate_pairs_peer(const struct gate_question *question,
		     struct gate_said *said);

/* NAME=VALUE by the machine's variables or the log's settings; false if
 * nobody says. The value is cut to what fits. */
bool gate_setting(const struct gate_question *question, const char *name,
		  char value[48], char origin[96]);
/* "1", "true", "yes", "on" in any case. */
bool gate_is_true(const char *value);

/* 10 * major + minor of the ranks' GPUs by NVML, the log or their name; 0:
 * not known. */
int gate_capability(const struct gate_question *question, char origin[96]);

/* The processor's maker by its name. */
enum gate_answer gate_cpu_is_amd(const struct gate_question *question,
				 char origin[96]);

#endif
