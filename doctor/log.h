/* SPDX-License-Identifier: MIT */
/*
 * What the logs of vLLM, SGLang and NCCL say of the all-reduce: fed line by
 * line, in constant memory, with ranks interleaved and whatever prefix docker,
 * journald, Kubernetes or a terminal put before a line. Each fact keeps the
 * line that it was first seen in. Of several starts of an engine the last that
 * came to the all-reduce counts.
 */
#ifndef OH_DOCTOR_LOG_H
#define OH_DOCTOR_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "doctor/version.h"
#include "onehop/onehop.h"

#define LOG_TEXT 192
#define LOG_GROUPS 8 /* of backend lists */
#define LOG_BACKENDS 12
#define LOG_PAIRS 64
#define LOG_RANKS 64 /* that are told apart */
#define LOG_WORLD 65536 /* the most that a log may say */

enum log_engine {
	LOG_NONE, /* no line of an engine or of NCCL */
	LOG_VLLM,
	LOG_SGLANG,
	LOG_NCCL, /* NCCL's lines alone */
};

/* The engine's own kernel. */
enum log_custom {
	LOG_CUSTOM_UNKNOWN,
	LOG_CUSTOM_ENABLED,
	LOG_CUSTOM_DISABLED, /* custom_rule says why, "" if no line did */
	LOG_CUSTOM_SETUP_FAILED,
};

enum log_transport {
	LOG_TRANSPORT_UNKNOWN,
	LOG_TRANSPORT_P2P,
	LOG_TRANSPORT_SHM,
	LOG_TRANSPORT_NET,
	LOG_TRANSPORT_MIXED,
};

enum log_symm_mem {
	LOG_SYMM_UNKNOWN,
	LOG_SYMM_ENABLED,
	LOG_SYMM_CAPABILITY, /* the device's capability is not in the table */
	LOG_SYMM_NO_MULTICAST,
	LOG_SYMM_WORLD_SIZE,
	LOG_SYMM_FAILED,
};

enum log_bool {
	LOG_NOT_SAID,
	LOG_NO,
	LOG_YES,
};

/* A line of NCCL: "0[0] -> 1[1] via P2P/CUMEM/read". */
struct log_pair {
	int from, to;
	char via[32];
};

struct log_facts {
	/* the file's name, for evidence; set by who feeds the reader */
	char file[LOG_TEXT];
	enum log_engine engine;
	struct version version; /* the engine's */
	struct version nccl;
	enum log_custom custom;
	char custom_rule[32]; /* a name of the gate: pcie_more_than_two, ... */
	char custom_generation[8]; /* SGLang: "v1", "v2" */
	uint64_t disabled_warnings; /* lines that say it is disabled */
	/* of the engine: seen by number, or as many as it says; 0: neither */
	uint64_t ranks;
	uint64_t tensor_parallel_size; /* 0: not said */
	enum log_symm_mem symm_mem;
	char symm_mem_capability[8]; /* "12.0" */
	enum log_bool rms_fusion; /* fuse_allreduce_rms */
	enum log_bool disable_custom; /* disable_custom_all_reduce */
	enum log_bool enforce_eager;
	enum log_transport transport;
	int pair_count; /* distinct pairs; further ones are not kept */
	struct log_pair pairs[LOG_PAIRS];
	int group_count;
	struct {
		char group[32]; /* "tp:0" */
		int count;
		char backend[LOG_BACKENDS][24];
	} groups[LOG_GROUPS];
	char visible_devices[LOG_TEXT]; /* CUDA_VISIBLE_DEVICES, if shown */
	char p2p_cache_action[12]; /* "read" or "generate" */
	char p2p_cache_file[LOG_TEXT]; /* without its directory */
	char model[LOG_TEXT];
	char quantization[24];
	char dtype[16];
	/* NCCL_PROTO=LL, NCCL_P2P_DISABLE=1, ...: "set by environment" */
	char nccl_settings[8][64];
	int nccl_setting_count;
	bool p2p_refused; /* "Could not enable P2P", "P2P is disabled between"
			   */
	bool shm_full; /* no space left in /dev/shm */
	bool uuid_in_visible; /* int() failed on a UUID */
	/* a rate that the engine printed last: tokens/s; 0: none */
	double generation_tokens_per_second;
	uint64_t generation_running; /* requests at that line; 0: not said */
	/* speculative decoding: what a step yields on average; 0: not said */
	double tokens_per_step;
	/* SGLang v2's "All Reduce config" */
	bool v2_seen;
	double v2_symmetric_memory_mb, v2_local_buffer_mb;
	bool v2_multicast, v2_pull;
	/* the lines of the facts above, for evidence; 0: not seen */
	struct {
		uint64_t version, nccl, custom, symm_mem, rms_fusion, transport,
			tensor_parallel_size, backends, p2p_cache, shm_full,
			p2p_refused, rate, tokens_per_step, disable_custom;
	} line;
	/* the first line that decided custom, without prefix and colour */
	char custom_text[LOG_TEXT];
};

struct log_reader;

struct log_reader *log_reader_create(void);
/* One line without its end; any bytes. One that begins with "\r" is of the
 * same line as the one before. */
void log_reader_feed(struct log_reader *reader, const char *line, size_t bytes);
/* facts->engine is LOG_NONE if nothing was of a log. Frees the reader. */
void log_reader_finish(struct log_reader *reader, struct log_facts *facts);

/*
 * Fills what "into" does not know from another file's facts. OH_ERR_INVALID if
 * they are of different engines or runs: the message says where they differ.
 */
enum oh_status log_merge(struct log_facts *into, const struct log_facts *more);

const char *log_engine_name(enum log_engine engine); /* NULL for none */
const char *log_transport_name(enum log_transport transport); /* likewise */
const char *log_symm_mem_name(enum log_symm_mem symm_mem); /* likewise */

#endif
