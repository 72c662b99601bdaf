/* SPDX-License-Identifier: MIT */
/*
 * How findings are looked for: a row each, in files by what they look at. A
 * look function fills the finding and returns true, or leaves it and returns
 * false; it names the evidence with its origin and promises nothing that was
 * not measured.
 */
#ifndef OH_DOCTOR_FINDINGS_H
#define OH_DOCTOR_FINDINGS_H

#include <stdio.h>
#include <string.h>

#include "doctor/diagnosis.h"
#include "doctor/gate_facts.h"

struct finding_row {
	const char *id;
	bool (*look)(const struct diagnosis *d, struct finding *finding);
};

/* Each ends with a row whose id is NULL. */
extern const struct finding_row findings_of_gates[];
extern const struct finding_row findings_of_machine[];
extern const struct finding_row findings_of_run[];

/* A row of findings_of_gates, in a file of its own. */
bool finding_look_pcie_pair(const struct diagnosis *d, struct finding *finding);

/* printf into a field of a finding. */
#define FINDING_SAY(field, ...) snprintf((field), sizeof(field), __VA_ARGS__)

/* The ranks as a question of their own; tp is 0 if their number or GPUs are
 * not known. */
void finding_question(const struct diagnosis *d,
		      struct gate_question *question);

const struct gate_step *finding_step(const struct gate *gate, const char *id);

/* The rule that keeps the engine's own kernel out, by its rules or, where they
 * cannot tell, by the log; NULL if none does. */
const char *finding_rule(const struct diagnosis *d);
/* "the step's evidence (its origin)", or the log's line. */
void finding_rule_evidence(const struct diagnosis *d, const char *rule,
			   char *text, size_t bytes);
/* Is the engine's own kernel in use, by its log or by its rules? */
bool finding_custom_enabled(const struct diagnosis *d);

/* "Every all-reduce goes to NCCL", or where else by the dispatch. */
const char *finding_goes(const struct diagnosis *d, char text[112]);

/* "vLLM" or "SGLang" */
const char *finding_engine(const struct diagnosis *d);
/* The engine's folder in ~/.cache: "vllm", "sglang" */
const char *finding_cache(const struct diagnosis *d);
/* "vllm.log:12" */
void finding_log_origin(const struct diagnosis *d, uint64_t line,
			char origin[96]);
/* "report.txt:12" */
void finding_origin(const struct diagnosis *d, struct oh__from from, char *text,
		    size_t bytes);
/* Has every pair of ranks (or of GPUs, without ranks) NVLink? */
bool finding_all_nvlink(const struct diagnosis *d);
/* Is ACS redirecting or the IOMMU translating, by what was given? */
bool finding_peers_at_risk(const struct diagnosis *d);
/* Would NCCL_P2P_LEVEL=SYS take NCCL from host memory to peers' memory, where
 * the driver says OK for the pairs? */
bool finding_level_helps(const struct diagnosis *d);
/* "156 all-reduces a token at 17 to 57 us each: 2.7 to 8.9 ms of 17.4 ms (15 to
 * 51 %)", "" if that is not known. */
void finding_share(const struct diagnosis *d, const char *path, char *text,
		   size_t bytes);

#endif
