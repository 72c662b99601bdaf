/* SPDX-License-Identifier: MIT */
/*
 * All that the doctor knows of a case, and what it concludes: inputs are read
 * (input.c), the engine's gates asked, the budget made, and findings follow.
 * The command prints it; nothing here prints.
 */
#ifndef OH_DOCTOR_DIAGNOSIS_H
#define OH_DOCTOR_DIAGNOSIS_H

#include "doctor/budget.h"
#include "doctor/gate.h"
#include "doctor/log.h"
#include "doctor/metrics.h"
#include "doctor/model.h"
#include "doctor/summary.h"
#include "machine/machine.h"
#include "machine/visible.h"

#define DIAGNOSIS_INPUTS 32
#define DIAGNOSIS_GATES 16
#define DIAGNOSIS_FINDINGS 32

/* What an input was taken for; a text may be several. */
enum input_kind {
	INPUT_TOPO, /* a report of a machine */
	INPUT_LOG,
	INPUT_METRICS,
	INPUT_CONFIG,
	INPUT_MACHINE, /* this machine */
	INPUT_UNKNOWN, /* nothing in it was recognised */
};

struct input {
	const char *file;
	enum input_kind kind;
	bool is_output; /* unknown, and what onehop itself prints */
};

enum finding_severity {
	FINDING_INFO, /* good to know; does not count as a problem */
	FINDING_WARNING,
	FINDING_PROBLEM,
};

struct finding {
	const char *id; /* stable: "gate_pcie_more_than_two" */
	enum finding_severity severity;
	char title[160];
	char evidence[320]; /* with its origin */
	char consequence[256];
	char remedy[384];
};

/* As the command line has them; zero or NULL: not given. */
struct diagnosis_options {
	int tp;
	const char *engine; /* "vllm" */
	const char *version; /* "0.16" */
	const char *visible_devices;
	uint64_t bytes; /* of a message */
	double tokens_per_second, batch, active_bytes, checkpoint_bytes,
		peak_gb_s, claimed_gb_s;
};

struct diagnosis {
	struct diagnosis_options options;
	int input_count;
	struct input inputs[DIAGNOSIS_INPUTS];
	int warning_count; /* of what was left out of files that were read */
	char warnings[2 * DIAGNOSIS_INPUTS][256];
	bool has_machine, has_log, has_metrics, has_model;
	struct oh__machine machine;
	struct log_facts log;
	struct metrics metrics;
	struct model model;
	struct oh__visible visible;
	int tp; /* 0: not known */
	char tp_source[96];
	int gate_count;
	struct gate gates[DIAGNOSIS_GATES];
	struct budget budget;
	int finding_count;
	struct finding findings[DIAGNOSIS_FINDINGS]; /* worst first */
	struct summary_line summary[SUMMARY_LINES];
};

/*
 * Reads files ("-" is standard input) into the diagnosis. OH_ERR_INVALID for
 * one that is damaged or contradicts another, or if none is of a known kind;
 * OH_ERR_UNSUPPORTED for a machine of another vendor; OH_ERR_SYSTEM for one
 * that cannot be read: oh_last_error says which and why.
 */
enum oh_status diagnosis_read(struct diagnosis *diagnosis, char **files,
			      int count);

/* This machine instead. OH_ERR_UNSUPPORTED: it has no GPU. */
enum oh_status diagnosis_read_this_machine(struct diagnosis *diagnosis);

/* Asks the gates, makes the budget, collects the findings. OH_ERR_INVALID for
 * options that do not fit the case. */
enum oh_status diagnosis_conclude(struct diagnosis *diagnosis);

/* findings.c: fills diagnosis->findings from all the rest. */
void findings_collect(struct diagnosis *diagnosis);

const char *input_kind_name(enum input_kind kind);
const char *finding_severity_name(enum finding_severity severity);

/* The chain of a feature, "dispatch"; NULL: none was asked. */
const struct gate *diagnosis_gate(const struct diagnosis *d,
				  const char *feature);

#endif
