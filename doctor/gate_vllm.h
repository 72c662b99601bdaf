/* SPDX-License-Identifier: MIT */
/*
 * vLLM's gates, and what their files share: which version has what, and a
 * chain as a table of rules. Each gate of GATE_VLLM_COUNT is filled by the
 * file of its feature; later ones look at earlier ones.
 */
#ifndef OH_DOCTOR_GATE_VLLM_H
#define OH_DOCTOR_GATE_VLLM_H

#include "doctor/gate.h"
#include "doctor/gate_facts.h"

/* The order in which they are given back. */
enum vllm_feature {
	VLLM_CUSTOM_ALL_REDUCE,
	VLLM_SYMM_MEM,
	VLLM_RMS_FUSION,
	VLLM_FLASHINFER,
	VLLM_NCCL_SYMM_MEM,
	VLLM_PCIE_IPC,
	VLLM_DISPATCH,
	GATE_VLLM_COUNT
};

void gate_vllm_ask(const struct gate_question *question, struct gate *gates);

/* What came or went with a release; gate_vllm.c has the releases. */
enum vllm_since {
	VLLM_ALWAYS,
	VLLM_SKIP_VARIABLE, /* VLLM_SKIP_P2P_CHECK exists */
	VLLM_SKIP_DEFAULT, /* and is 1 unless set */
	VLLM_QUICK_REDUCE,
	VLLM_HAS_SYMM_MEM,
	VLLM_SYMM_MEM_DEFAULT,
	VLLM_HAS_NCCL_SYMM,
	VLLM_HAS_FUSION,
	VLLM_FUSION_DEFAULT, /* by optimisation level */
	VLLM_HAS_FLASHINFER,
	VLLM_CAPABILITY_103, /* tables have a row for 10.3 */
	VLLM_VISIBLE_UUIDS, /* CUDA_VISIBLE_DEVICES may hold UUIDs */
	VLLM_BACKEND_LIST, /* prints the backends in their order */
	VLLM_SIXTEEN_RANKS, /* in the list of world sizes */
	VLLM_FLASHINFER_DEFAULT,
	VLLM_HAS_PCIE_IPC,
	VLLM_NEVER,
};

/* Does the gate's version have it? Marks the gate where that is an estimate. */
bool vllm_has(struct gate *gate, enum vllm_since since);

/* The first release that has it, for people. */
const char *vllm_release(enum vllm_since since, bool *exact);

/* What the rules of one question look at. */
struct vllm_case {
	const struct gate_question *question;
	struct gate *gates; /* all of vLLM's */
	struct gate *gate; /* the one that is being filled */
};

struct vllm_rule {
	const char *id;
	const char *question;
	/* the releases that have the condition: [since, until) */
	enum vllm_since since, until;
	void (*ask)(const struct vllm_case *at, struct gate_said *said);
	const char *source;
};

/* Adds the rules that the version has, in order, and decides. */
void vllm_chain(const struct vllm_case *at, const struct vllm_rule *rules,
		size_t count);

/* Says no if batch invariance is set: it leaves NCCL's path alone. */
bool vllm_batch_invariant(const struct vllm_case *at, struct gate_said *said);

/* An environment variable that switches a path on: what a report says of it,
 * or its default. */
void vllm_switch(const struct vllm_case *at, const char *variable,
		 bool standard, struct gate_said *said);

/* Is a row of a table for these there? Bytes, 0 if not. */
struct vllm_size_row {
	int capability;
	enum vllm_since since;
	struct {
		int ranks;
		uint64_t bytes;
	} at[5];
};
uint64_t vllm_size(struct gate *gate, const struct vllm_size_row *rows,
		   size_t count, int capability, int ranks);
/* any row of that capability? */
bool vllm_has_capability(struct gate *gate, const struct vllm_size_row *rows,
			 size_t count, int capability);

/* The log, if it is of this engine, version and number of ranks. */
const struct log_facts *vllm_log(const struct vllm_case *at);

/* Was it one of the conditions of a single call that closed the gate? */
bool vllm_closed_per_call(const struct gate *gate);

/* "NCCL" for "PYNCCL", and so on: the dispatch's rules for people. */
const char *vllm_path_words(const char *name);

/* The gates' files. */
void vllm_ask_custom(const struct vllm_case *at);
void vllm_ask_symm_mem(const struct vllm_case *at);
void vllm_ask_rms_fusion(const struct vllm_case *at);
void vllm_ask_flashinfer(const struct vllm_case *at);
void vllm_ask_nccl_symm_mem(const struct vllm_case *at);
void vllm_ask_pcie_ipc(const struct vllm_case *at);
void vllm_ask_dispatch(const struct vllm_case *at);

#endif
