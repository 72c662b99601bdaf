/* SPDX-License-Identifier: MIT */
/*
 * Between the files that read a model: the object of the decoder inside a
 * config.json (model.c), what its family makes of the keys (model_family.c),
 * the count of parameters (model_count.c) and the bytes of each
 * (model_quantize.c). Numbers are doubles: each is a whole number below 2^53,
 * products cannot wrap.
 */
#ifndef OH_DOCTOR_MODEL_PRIVATE_H
#define OH_DOCTOR_MODEL_PRIVATE_H

#include <jansson.h>

#include "doctor/model.h"

#define MODEL_LAYERS 4096

/* Traits of a family, beyond a llama's. */
enum {
	MODEL_TIED = 1 << 0, /* unless the key says no */
	/* attention_bias gives q, k, v and o one; q, k and v; always q, k, v */
	MODEL_BIAS_KEY_QKVO = 1 << 1,
	MODEL_BIAS_KEY_QKV = 1 << 2,
	MODEL_BIAS_QKV = 1 << 3,
	/* norms of q and k: a head wide; if use_qk_norm; all heads wide */
	MODEL_QK_NORM = 1 << 4,
	MODEL_QK_NORM_KEY = 1 << 5,
	MODEL_QK_NORM_WIDE = 1 << 6,
	MODEL_FOUR_NORMS = 1 << 7, /* a layer; others have two */
	MODEL_MLA = 1 << 8,
	MODEL_INDEXER = 1 << 9, /* sparse attention's */
	MODEL_MOE = 1 << 10,
	/* the experts' width is intermediate_size */
	MODEL_MOE_INTERMEDIATE = 1 << 11,
	MODEL_CORRECTION = 1 << 12, /* a number per expert in the router */
	MODEL_SHARED_GATE = 1 << 13,
	MODEL_SHARED_ALWAYS = 1 << 14, /* one, as wide as an expert */
	/* per-head sinks, biases of router, experts and attention */
	MODEL_GPT_OSS = 1 << 15,
	MODEL_GATED_DELTA = 1 << 16, /* linear layers, a gate in the others */
	MODEL_MLP_BIAS_KEY = 1 << 17,
	MODEL_MLP_ONLY_WIDTH = 1 << 18, /* intermediate_size_mlp: dense ones */
};

/* Defaults that its configuration class has; 0: none, the key must be there. */
struct model_family {
	const char *type; /* model_type */
	uint32_t traits;
	double head_dim; /* 0: hidden / heads */
	double kv_heads; /* 0: as many as heads */
	/* those below only in a nested config, where files leave them out */
	double hidden, layers, heads, intermediate, vocabulary;
};

/* What a config says; 0 where it says nothing. */
struct model_shape {
	const struct model_family *family;
	double hidden, layers, heads, kv_heads, head_dim, intermediate,
		vocabulary;
	bool tied, attention_bias, mlp_bias, qk_norm;
	/* MLA */
	double q_rank, kv_rank, nope, rope, value;
	double index_heads, index_dim, index_layers;
	/* experts; width of one, of all shared ones together, of dense layers
	 */
	double experts, used, expert_width, shared_width, moe_layers;
	/* linear attention */
	double linear_layers, key_heads, key_dim, value_heads, value_dim,
		kernel;
	double mtp_layers;
};

/* Reads keys of one object; the first that is wrong sets status. */
struct model_keys {
	const char *name; /* of the file */
	const char *text; /* for the line of a key */
	size_t bytes;
	const char *under; /* "text_config", "" */
	const json_t *object;
	enum oh_status status;
};

/* A whole number of 0..most; false if it is absent or null. Both leave value
 * as it is, and so does an error. */
bool model_number(struct model_keys *keys, const char *key, double most,
		  double *value);
bool model_bool(struct model_keys *keys, const char *key, bool *value);
/* Keeps the first failure: "config.json:12: num_hidden_layers: ..." */
void model_fail(struct model_keys *keys, const char *key, const char *format,
		...) __attribute__((format(printf, 3, 4)));

/* By model_type; NULL if it is not known. */
const struct model_family *model_family_named(const char *type);
/* By a class of architectures: "Qwen3MoeForCausalLM". */
const struct model_family *model_family_of_class(const char *class_name);

/* Fills the shape. false: a key that the count needs is missing, named in the
 * model's remark. keys->status is an error's. */
bool model_shape_read(struct model_keys *keys,
		      const struct model_family *family,
		      struct model_shape *shape, struct model *model);

/* Parts, totals. */
void model_count(const struct model_shape *shape, struct model *model);

/* Bytes of each part, from quantization_config (NULL: none) and dtype. */
void model_quantize(const json_t *quantization, double dtype_bytes,
		    struct model *model);

/* Appends a sentence to the remark, if there is room for it. */
void model_remark(struct model *model, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
