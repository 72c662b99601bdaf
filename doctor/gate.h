/* SPDX-License-Identifier: MIT */
/*
 * The rules by which an engine chooses its all-reduce: an ordered chain of
 * conditions, each with its answer and the evidence for it, and the first that
 * decides. An engine is a file of its own (gate_vllm.c, gate_nccl.c) with a row
 * in gate.c's table; it asks and answers through the functions below, which
 * keep the chain's rules:
 *
 * - a step asks a yes-or-no question whose "yes" lets the chain go on;
 * - the first "no" decides, steps behind it are kept as never reached, with
 *   what they would have said;
 * - an "unknown" before any "no" makes the verdict depend on it, with both
 *   outcomes; a later "no" that holds in either case decides still (the result
 *   is disabled whichever way the unknown goes), but the rule that is reported
 *   is unknown then if the unknown step would have disabled it first.
 */
#ifndef OH_DOCTOR_GATE_H
#define OH_DOCTOR_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "doctor/log.h"
#include "doctor/version.h"
#include "machine/machine.h"

#define GATE_STEPS 24
#define GATE_OVERRIDES 6
#define GATE_ASSUMED 8
#define GATE_PAIRS 512

enum gate_answer {
	GATE_UNKNOWN,
	GATE_YES,
	GATE_NO,
};

enum gate_verdict {
	GATE_DEPENDS,
	GATE_ENABLED,
	GATE_DISABLED,
};

/* Whose word on peer access an engine takes at its start. */
enum gate_peer_word {
	GATE_PEER_NOT_SAID,
	GATE_PEER_DRIVER,
	GATE_PEER_TEST, /* moves data once, and keeps the answer in a file */
	GATE_PEER_FILE, /* that file's, says the log */
};

struct gate_step {
	const char *id; /* the rule's name, stable: "pcie_more_than_two" */
	char question[128];
	enum gate_answer answer;
	char evidence[224]; /* what was seen */
	char origin[96]; /* where: "report.txt:12", "assumed" */
	/* where the rule was read: "vLLM 0.16 custom_all_reduce.py" */
	const char *source;
	bool reached;
	bool decides;
};

/* What opens the gate, or closes it, and what that risks. */
struct gate_override {
	char what[160];
	char risk[192];
};

struct gate {
	const char *engine; /* "vllm", "nccl" */
	struct version version; /* that the rules are for */
	bool version_assumed; /* the newest, nobody said which */
	bool version_estimated; /* a rule's first release is an estimate */
	const char *feature; /* "custom_all_reduce", "transport", ... */
	int tp;
	uint64_t bytes; /* of the message, 0: any */
	enum gate_verdict verdict;
	const char *rule; /* the deciding step's id; NULL if none decides */
	char log_line[320]; /* that the engine prints, "" if none */
	char summary[256]; /* one sentence for the person */
	enum gate_peer_word peer_word; /* of vLLM's "custom_all_reduce" */
	/* GATE_DEPENDS: what happens either way */
	char if_yes[192], if_no[192];
	int step_count, override_count, assumed_count;
	struct gate_step steps[GATE_STEPS];
	struct gate_override overrides[GATE_OVERRIDES];
	char assumed[GATE_ASSUMED][128];
	/* of NCCL's feature "transport": "P2P", "SHM", "mixed", "NET",
	 * "depends"; NULL else */
	const char *transport;
	/* of that too: the pairs' own, by rank */
	int pair_count;
	struct {
		uint8_t from, to;
		const char *transport;
		const char *why; /* the rule's name */
	} pairs[GATE_PAIRS];
};

/* What is asked. */
struct gate_question {
	const struct oh__machine *machine;
	/* the GPUs of the ranks, index in machine->gpu */
	int gpus[OH__GPUS];
	int tp; /* how many; at least 1 */
	uint64_t bytes; /* of one message; 0: not given */
	struct version version; /* of the engine; not known: the newest */
	const struct log_facts *log; /* NULL, or what a log says of settings */
	bool visible_uuids; /* CUDA_VISIBLE_DEVICES names UUIDs */
	/* any of the visible devices was named by this, or NULL */
	const char *visible_devices;
};

struct gate_engine {
	const char *name; /* what --engine takes */
	const char *summary;
	int count; /* of gates that it answers */
	/* fills gates[0..count) */
	void (*ask)(const struct gate_question *question, struct gate *gates);
};

/* Ends with a row whose name is NULL. */
extern const struct gate_engine gate_engines[];

/* NULL if there is none of that name. */
const struct gate_engine *gate_engine_named(const char *name);

/* For engines: a step at the end of the chain. question and evidence are
 * formatted by the caller; origin from oh__machine_origin, or "assumed". */
struct gate_step *gate_add(struct gate *gate, const char *id,
			   enum gate_answer answer, const char *source);
/* printf into a step's or gate's field of fixed size. */
#define GATE_SAY(field, ...) snprintf((field), sizeof(field), __VA_ARGS__)
void gate_assume(struct gate *gate, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void gate_override(struct gate *gate, const char *what, const char *risk);
/* Sets reached, decides, verdict and rule from the steps, by the rules above.
 * When every step says yes the verdict is enabled. */
void gate_decide(struct gate *gate);

/* The first step whose answer nobody knows; NULL: there is none. */
const char *gate_unknown_step(const struct gate *gate);

const char *gate_answer_name(enum gate_answer answer);
const char *gate_verdict_name(enum gate_verdict verdict);

#endif
