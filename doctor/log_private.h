/* SPDX-License-Identifier: MIT */
/*
 * What the files of the log reader share. An engine's file is a table of
 * literals, each with the function that takes it: log.c looks for all of them
 * in one pass over a line, wherever they stand, so that no prefix has to be
 * known and glued lines are read like whole ones.
 *
 * A function may look around its literal, but only a bounded way: otherwise a
 * line of literals alone would cost the square of its length.
 */
#ifndef OH_DOCTOR_LOG_PRIVATE_H
#define OH_DOCTOR_LOG_PRIVATE_H

#include "doctor/log.h"

/* How far from a literal its values are looked for. */
#define LOG_NEAR 512
/* The least length of a literal: that many bytes of it are looked up. */
#define LOG_STEM 8

/* Who a value comes from: the stronger replaces, equals do not. */
enum log_strength {
	LOG_HINT = 1, /* a setting that stands anywhere */
	LOG_ARGUMENT, /* the arguments that the engine repeats */
	LOG_CONFIG, /* what it says that it uses */
};

enum log_key {
	LOG_KEY_TP,
	LOG_KEY_MODEL,
	LOG_KEY_QUANTIZATION,
	LOG_KEY_DTYPE,
	LOG_KEY_EAGER,
	LOG_KEY_DISABLE_CUSTOM,
	LOG_KEY_FUSION,
	LOG_KEY_NCCL,
	LOG_KEY_VISIBLE,
	LOG_KEYS,
};

/* What tells workers apart; of these the reader counts distinct ones. */
enum log_identity {
	LOG_WORKER_PID, /* vLLM: "(Worker_TP0 pid=7)" */
	LOG_WORKER_RANK, /* vLLM: "rank=1 local_rank=1" */
	LOG_TP_RANK, /* SGLang: "TP0]" */
	LOG_NCCL_PID, /* NCCL: "host:pid:tid [0]" */
	LOG_NCCL_DEVICE, /* and its device, for one process with several */
	LOG_IDENTITIES,
};

/* All that a start of the engine said; a new start begins anew. */
struct log_run {
	struct log_facts facts;
	bool begun; /* something was said that a new start makes void */
	bool tp_listed; /* the list of the tensor-parallel group was seen */
	bool fusion_ran; /* fusion is known from what was done, not set */
	bool v0_workers, driver; /* vLLM before V1: the driver has no prefix */
	uint64_t world; /* ranks of the largest group that was named */
	struct log_version {
		struct version version;
		uint64_t line;
		uint8_t strength;
	} versions[LOG_NCCL + 1];
	uint8_t strength[LOG_KEYS];
	uint8_t transports; /* bits of enum log_transport */
	int id_count[LOG_IDENTITIES];
	uint64_t ids[LOG_IDENTITIES][LOG_RANKS];
};

struct log_reader;

/* A literal in a line. */
struct log_hit {
	const char *line;
	size_t bytes;
	size_t at, after; /* of the literal */
};

struct log_row {
	const char *text; /* LOG_STEM bytes or more */
	void (*take)(struct log_reader *reader, const struct log_row *row,
		     const struct log_hit *hit);
	int value; /* for the function */
};

/* Each ends with a row whose text is NULL. */
extern const struct log_row log_vllm_rows[];
extern const struct log_row log_sglang_rows[];
extern const struct log_row log_nccl_rows[];

/* The facts of this start, and the line being read. */
struct log_run *log_run(struct log_reader *reader);
uint64_t log_line(const struct log_reader *reader);

/* Says that the line is of an engine. Certain: no other prints it. */
void log_is_of(struct log_reader *reader, enum log_engine engine, bool certain);

/* A start of the engine: the facts of an earlier one are put aside. */
void log_start(struct log_reader *reader);

/* true once for a line: for what reads all of it. */
bool log_once(struct log_reader *reader);

/* A worker's prefix stood before in this line; mark says that it does now. */
bool log_prefixed(struct log_reader *reader, bool mark);

void log_seen(struct log_reader *reader, enum log_identity kind, uint64_t id);

/* "world_size=4", "nranks 8": the number behind the literal. */
void log_world(struct log_reader *reader, const struct log_hit *hit);

/* Does this source's word count? It is noted as the one that does, then. */
bool log_outweighs(struct log_reader *reader, enum log_key key,
		   enum log_strength strength);

/* Takes the settings of a dump "name=value, 'name': value" behind hit. */
void log_settings(struct log_reader *reader, const struct log_hit *hit,
		  enum log_strength strength);
/* The one setting whose name is the literal. */
void log_setting(struct log_reader *reader, enum log_key key,
		 const struct log_hit *hit, enum log_strength strength);

/* The engine's kernel: what a line says of it, by the sentence from from. */
void log_custom_enabled(struct log_reader *reader, const struct log_hit *hit,
			size_t from);
void log_custom_disabled(struct log_reader *reader, const struct log_hit *hit,
			 const char *rule);
void log_custom_failed(struct log_reader *reader, const struct log_hit *hit,
		       size_t from);
/* The tensor-parallel group's list of backends. */
void log_custom_listed(struct log_reader *reader, const struct log_hit *hit,
		       size_t from, bool custom);
void log_generation(struct log_reader *reader, const char *generation);

/* A rate; running is UINT64_MAX if the line does not say. */
void log_rate(struct log_reader *reader, double tokens_per_second,
	      uint64_t running);

/* Tokens of a step of speculative decoding: the number behind the literal. */
void log_accepted(struct log_reader *reader, const struct log_hit *hit);

/* Where text ends behind the literal, within reach bytes; 0: it is not there.
 */
size_t log_find(const struct log_hit *hit, const char *text, size_t reach);
/* Where the last text before the literal ends; 0 likewise. */
size_t log_find_before(const struct log_hit *hit, const char *text,
		       size_t reach);
bool log_is_at(const struct log_hit *hit, size_t at, const char *text);

/* Copies the bytes from at on that are letters, digits or of also. */
void log_copy(char *to, size_t size, const struct log_hit *hit, size_t at,
	      const char *also);
/* Copies a sentence: to the line's end, without what a wrapper added. */
void log_copy_sentence(char *to, size_t size, const struct log_hit *hit,
		       size_t at);
void log_read_version(const struct log_hit *hit, size_t at,
		      struct version *version);

/* An engine's version at at; false if there is none. */
bool log_version(struct log_reader *reader, enum log_engine engine,
		 const struct log_hit *hit, size_t at,
		 enum log_strength strength);

/* log_vllm.c, for SGLang too, whose first kernel came from there: a line that
 * each rank prints for itself, and "... is disabled because", whose row's
 * value is the kernel's generation. */
void log_take_rank_line(struct log_reader *reader, const struct log_row *row,
			const struct log_hit *hit);
void log_take_disabled(struct log_reader *reader, const struct log_row *row,
		       const struct log_hit *hit);

#endif
