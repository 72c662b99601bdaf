/* SPDX-License-Identifier: MIT */
/*
 * The families and what each makes of its keys. Traits and defaults are those
 * of the configuration and modeling classes in Hugging Face transformers 4.40
 * to 5.x; a default is used only where the class has one and files leave the
 * key out. What else is missing is named, and nothing is counted.
 */
#include "doctor/model_private.h"

#include <ctype.h>
#include <string.h>

#define LLAMA (MODEL_BIAS_KEY_QKVO | MODEL_MLP_BIAS_KEY)
#define QWEN3 (MODEL_QK_NORM | MODEL_BIAS_KEY_QKVO)
#define QWEN_HYBRID (QWEN3 | MODEL_GATED_DELTA)
#define QWEN_SHARED (MODEL_MOE | MODEL_SHARED_GATE)
#define DEEPSEEK (MODEL_MLA | MODEL_MOE)
#define DEEPSEEK3 (DEEPSEEK | MODEL_CORRECTION)
#define GLM4_MOE                                                               \
	(MODEL_BIAS_KEY_QKV | MODEL_QK_NORM_KEY | MODEL_MOE | MODEL_CORRECTION)
#define GEMMA (MODEL_TIED | MODEL_BIAS_KEY_QKVO)
#define NARROW_MOE (MODEL_MOE | MODEL_MOE_INTERMEDIATE)
#define LLAMA4                                                                 \
	(MODEL_BIAS_KEY_QKVO | NARROW_MOE | MODEL_SHARED_ALWAYS |              \
	 MODEL_MLP_ONLY_WIDTH)

/* the most that a number may be; far above any model */
#define MOST_WIDTH (1 << 22)
#define MOST_HEADS (1 << 16)
#define MOST_EXPERTS (1 << 16)
#define MOST_VOCABULARY (1 << 28)

static const struct model_family families[] = {
	{"llama", LLAMA, 0, 0, 4096, 32, 32, 11008, 32000},
	{"granite", LLAMA, 0, 0, 0, 0, 0, 0, 0},
	{"smollm3", LLAMA | MODEL_TIED, 0, 0, 0, 0, 0, 0, 0},
	{"olmo2", MODEL_BIAS_KEY_QKVO | MODEL_QK_NORM_WIDE, 0, 0, 0, 0, 0, 0,
	 0},
	{"olmo3", MODEL_BIAS_KEY_QKVO | MODEL_QK_NORM_WIDE, 0, 0, 0, 0, 0, 0,
	 0},
	{"mistral", 0, 0, 8, 4096, 32, 32, 14336, 32000},
	{"ministral", 0, 0, 8, 0, 0, 0, 0, 0},
	{"ministral3", 0, 0, 8, 0, 0, 0, 0, 0},
	{"mixtral", NARROW_MOE, 0, 8, 0, 0, 0, 0, 0},
	{"qwen2", MODEL_BIAS_QKV, 0, 0, 0, 0, 0, 0, 0},
	{"qwen2_vl", MODEL_BIAS_QKV, 0, 0, 0, 0, 0, 0, 0},
	{"qwen2_vl_text", MODEL_BIAS_QKV, 0, 0, 0, 0, 0, 0, 0},
	{"qwen2_5_vl", MODEL_BIAS_QKV, 0, 0, 0, 0, 0, 0, 0},
	{"qwen2_5_vl_text", MODEL_BIAS_QKV, 0, 0, 0, 0, 0, 0, 0},
	{"qwen2_moe", MODEL_BIAS_QKV | QWEN_SHARED, 0, 0, 0, 0, 0, 0, 0},
	{"qwen3", QWEN3, 128, 0, 0, 0, 0, 0, 0},
	{"qwen3_vl_text", QWEN3, 128, 0, 0, 0, 0, 0, 0},
	{"qwen3_moe", QWEN3 | MODEL_MOE, 0, 0, 0, 0, 0, 0, 0},
	{"qwen3_vl_moe_text", QWEN3 | MODEL_MOE, 0, 0, 0, 0, 0, 0, 0},
	{"qwen3_omni_moe_text", QWEN3 | MODEL_MOE, 0, 0, 0, 0, 0, 0, 0},
	{"qwen3_next", QWEN_HYBRID | QWEN_SHARED, 256, 2, 0, 0, 0, 0, 0},
	{"qwen3_5", QWEN_HYBRID, 256, 4, 0, 0, 0, 0, 0},
	{"qwen3_5_text", QWEN_HYBRID, 256, 4, 0, 0, 0, 0, 0},
	{"qwen3_5_moe", QWEN_HYBRID | QWEN_SHARED, 256, 2, 0, 0, 0, 0, 0},
	{"qwen3_5_moe_text", QWEN_HYBRID | QWEN_SHARED, 256, 2, 0, 0, 0, 0, 0},
	{"deepseek_v2", DEEPSEEK, 0, 0, 0, 0, 0, 0, 0},
	{"deepseek_v3", DEEPSEEK3, 0, 0, 0, 0, 0, 0, 0},
	{"deepseek_v32", DEEPSEEK3 | MODEL_INDEXER, 0, 0, 0, 0, 0, 0, 0},
	{"kimi_k2", DEEPSEEK3, 0, 0, 0, 0, 0, 0, 0},
	{"glm", MODEL_BIAS_KEY_QKV, 128, 2, 0, 0, 0, 0, 0},
	{"glm4", MODEL_BIAS_KEY_QKV | MODEL_FOUR_NORMS, 128, 2, 0, 0, 0, 0, 0},
	{"glm4v_text", MODEL_BIAS_KEY_QKV | MODEL_FOUR_NORMS, 128, 2, 0, 0, 0,
	 0, 0},
	{"glm4_moe", GLM4_MOE, 128, 8, 0, 0, 0, 0, 0},
	{"glm4v_moe_text", GLM4_MOE, 128, 8, 0, 0, 0, 0, 0},
	{"glm4_moe_lite", DEEPSEEK3, 0, 0, 0, 0, 0, 0, 0},
	{"glm_moe_dsa", DEEPSEEK3 | MODEL_INDEXER, 0, 0, 0, 0, 0, 0, 0},
	{"gpt_oss", MODEL_GPT_OSS | MODEL_BIAS_KEY_QKVO | NARROW_MOE, 64, 8, 0,
	 0, 0, 0, 0},
	{"gemma", GEMMA, 256, 16, 0, 0, 0, 0, 0},
	{"gemma2", GEMMA | MODEL_FOUR_NORMS, 256, 4, 0, 0, 0, 0, 0},
	{"gemma3_text", GEMMA | MODEL_FOUR_NORMS | MODEL_QK_NORM, 256, 4, 2304,
	 26, 8, 9216, 262208},
	{"seed_oss", MODEL_BIAS_KEY_QKV, 128, 0, 0, 0, 0, 0, 0},
	{"phi3", 0, 0, 0, 0, 0, 0, 0, 0},
	{"llama4_text", LLAMA4, 128, 8, 5120, 48, 40, 8192, 202048},
	{"minimax_m2", NARROW_MOE | MODEL_CORRECTION | MODEL_QK_NORM_WIDE, 128,
	 8, 0, 0, 0, 0, 0},
};

#define FAMILIES (sizeof(families) / sizeof(families[0]))

const struct model_family *model_family_named(const char *type)
{
	for (size_t i = 0; i < FAMILIES; i++)
		if (!strcmp(families[i].type, type))
			return &families[i];
	return NULL;
}

/* "Qwen3MoeForCausalLM" is "qwen3_moe" without its underscores. */
static bool is_class(const char *class_name, const char *type)
{
	for (; *type; type++) {
		if (*type == '_')
			continue;
		if (tolower((unsigned char)*class_name) != *type)
			return false;
		class_name++;
	}
	return !strncmp(class_name, "For", 3);
}

const struct model_family *model_family_of_class(const char *class_name)
{
	for (size_t i = 0; i < FAMILIES; i++)
		if (is_class(class_name, families[i].type))
			return &families[i];
	return NULL;
}

/* The reading of one shape. */
struct reading {
	struct model_keys *keys;
	struct model_shape *shape;
	struct model *model;
	bool complete;
};

/* fallback 0: the key has to be there, and not be 0. */
static void need(struct reading *reading, const char *key, double most,
		 double fallback, double *value)
{
	struct model *model = reading->model;

	if (model_number(reading->keys, key, most, value)) {
		if (*value <= 0)
			model_fail(reading->keys, key, "is 0");
		return;
	}
	*value = fallback;
	if (reading->keys->status || !reading->complete)
		return;
	if (fallback > 0) {
		model->exact = false;
		model_remark(model, "%s is not in the file, %s has %.0f.", key,
			     model->family, fallback);
		return;
	}
	reading->complete = false;
	model_remark(model, "%s is missing: parameters cannot be counted.",
		     key);
}

/* The first of the names that is there. */
static bool any_number(struct model_keys *keys, const char *const *names,
		       double most, double *value)
{
	for (; *names; names++)
		if (model_number(keys, *names, most, value))
			return true;
	return false;
}

static const json_t *list(const struct model_keys *keys, const char *key)
{
	const json_t *value = json_object_get(keys->object, key);

	return json_is_array(value) ? value : NULL;
}

/* How often a word is in a list of words. */
static double count_words(const json_t *words, const char *word)
{
	const json_t *item;
	double count = 0;
	size_t i;

	json_array_foreach(words, i, item)
	{
		const char *text = json_string_value(item);

		if (text && !strcmp(text, word))
			count++;
	}
	return count;
}

/* Marks the layers that a list of numbers names; others are left out. */
static void mark(const json_t *numbers, bool *layers, size_t count, bool as)
{
	const json_t *item;
	size_t i;

	json_array_foreach(numbers, i, item)
	{
		double layer = json_number_value(item);

		if (json_is_number(item) && layer >= 0 && layer < (double)count)
			layers[(size_t)layer] = as;
	}
}

/* moe_layer_freq as a list has 0 or 1 for each layer. */
static void mark_frequencies(const json_t *numbers, bool *layers, size_t count)
{
	for (size_t i = 0; i < count && i < json_array_size(numbers); i++)
		layers[i] = json_number_value(json_array_get(numbers, i)) > 0;
}

/*
 * Which layers have experts. The keys belong to different families and never
 * meet: first_k_dense_replace and moe_layer_freq (DeepSeek, GLM),
 * decoder_sparse_step and mlp_only_layers (Qwen), moe_layers and
 * interleave_moe_layer_step (Llama 4), mlp_layer_types (newer GLM).
 */
static double count_moe_layers(struct model_keys *keys, size_t layers)
{
	double first = 0, every = 1, step = 1, interleave = 1, count = 0;
	bool moe[MODEL_LAYERS];

	if (list(keys, "mlp_layer_types"))
		return count_words(list(keys, "mlp_layer_types"), "sparse");
	model_number(keys, "first_k_dense_replace", MODEL_LAYERS, &first);
	if (!list(keys, "moe_layer_freq"))
		model_number(keys, "moe_layer_freq", MODEL_LAYERS, &every);
	model_number(keys, "decoder_sparse_step", MODEL_LAYERS, &step);
	model_number(keys, "interleave_moe_layer_step", MODEL_LAYERS,
		     &interleave);
	for (size_t i = 0; i < layers; i++)
		moe[i] = i >= (size_t)first && every >= 1 && step >= 1 &&
			 interleave >= 1 && i % (size_t)every == 0 &&
			 (i + 1) % (size_t)step == 0 &&
			 (i + 1) % (size_t)interleave == 0;
	mark_frequencies(list(keys, "moe_layer_freq"), moe, layers);
	mark(list(keys, "mlp_only_layers"), moe, layers, false);
	if (list(keys, "moe_layers")) {
		memset(moe, 0, sizeof(moe));
		mark(list(keys, "moe_layers"), moe, layers, true);
	}
	for (size_t i = 0; i < layers; i++)
		count += moe[i];
	return count;
}

static void read_experts(struct reading *reading)
{
	static const char *const counts[] = {
		"n_routed_experts", "num_local_experts", "num_experts", NULL};
	static const char *const uses[] = {"num_experts_per_tok",
					   "experts_per_token", NULL};
	struct model_keys *keys = reading->keys;
	struct model_shape *s = reading->shape;
	uint32_t traits = s->family->traits;
	double shared = 0;

	any_number(keys, counts, MOST_EXPERTS, &s->experts);
	any_number(keys, uses, MOST_EXPERTS, &s->used);
	if (!(traits & MODEL_MOE) || s->experts < 1) {
		if (s->experts > 1 && reading->complete) {
			reading->complete = false;
			model_remark(reading->model,
				     "%s has no experts but the file has: not "
				     "counted.",
				     s->family->type);
		}
		s->experts = s->used = 0;
		return;
	}
	if (s->used < 1 || s->used > s->experts)
		model_fail(keys, "num_experts_per_tok",
			   "is %.0f of %.0f experts", s->used, s->experts);
	if (traits & MODEL_MOE_INTERMEDIATE)
		need(reading, "intermediate_size", MOST_WIDTH,
		     *keys->under ? s->family->intermediate : 0,
		     &s->expert_width);
	else
		need(reading, "moe_intermediate_size", MOST_WIDTH, 0,
		     &s->expert_width);
	model_number(keys, "n_shared_experts", MOST_EXPERTS, &shared);
	s->shared_width = shared * s->expert_width;
	if (traits & MODEL_SHARED_ALWAYS)
		s->shared_width = s->expert_width;
	model_number(keys, "shared_expert_intermediate_size", MOST_WIDTH,
		     &s->shared_width);
	s->moe_layers = count_moe_layers(keys, (size_t)s->layers);
	if (s->moe_layers > s->layers)
		model_fail(keys, "mlp_layer_types", "has more than %.0f layers",
			   s->layers);
}

/* index_topk_freq: only every so many layers, from an offset on, look for
 * themselves; the others take what the last one found. */
static double indexer_layers(struct model_keys *keys, double layers)
{
	const json_t *pattern =
		json_object_get(keys->object, "index_topk_pattern");
	double every = 1, offset = 2, count = 0;

	if (list(keys, "indexer_types"))
		return count_words(list(keys, "indexer_types"), "full");
	if (json_is_string(pattern)) {
		for (const char *c = json_string_value(pattern); *c; c++)
			count += *c == 'F';
		return count;
	}
	model_number(keys, "index_topk_freq", MODEL_LAYERS, &every);
	model_number(keys, "index_skip_topk_offset", MODEL_LAYERS, &offset);
	for (double i = 0; i < layers; i++) {
		double after = i - offset + 1;

		if (every < 1 || after <= 0 ||
		    (uint64_t)after % (uint64_t)every == 0)
			count++;
	}
	return count;
}

static void read_mla(struct reading *reading)
{
	struct model_keys *keys = reading->keys;
	struct model_shape *s = reading->shape;
	const json_t *query = json_object_get(keys->object, "q_lora_rank");

	/* null: the queries come straight from the hidden state */
	if (!query)
		need(reading, "q_lora_rank", MOST_WIDTH, 0, &s->q_rank);
	model_number(keys, "q_lora_rank", MOST_WIDTH, &s->q_rank);
	need(reading, "kv_lora_rank", MOST_WIDTH, 0, &s->kv_rank);
	need(reading, "qk_nope_head_dim", MOST_WIDTH, 0, &s->nope);
	need(reading, "qk_rope_head_dim", MOST_WIDTH, 0, &s->rope);
	need(reading, "v_head_dim", MOST_WIDTH, 0, &s->value);
	if (!(s->family->traits & MODEL_INDEXER))
		return;
	need(reading, "index_n_heads", MOST_HEADS, 0, &s->index_heads);
	need(reading, "index_head_dim", MOST_WIDTH, 0, &s->index_dim);
	s->index_layers = indexer_layers(keys, s->layers);
	if (s->index_layers < s->layers && reading->complete)
		model_remark(reading->model,
			     "%.0f of %.0f layers have an indexer.",
			     s->index_layers, s->layers);
	if (s->index_layers > s->layers)
		model_fail(keys, "indexer_types", "has more than %.0f layers",
			   s->layers);
}

/* Qwen's hybrids: three linear layers, then a full one, unless a list says
 * which is which. */
static void read_linear(struct reading *reading)
{
	struct model_keys *keys = reading->keys;
	struct model_shape *s = reading->shape;
	const json_t *types = list(keys, "layer_types");
	double every = 4;

	if (!(s->family->traits & MODEL_GATED_DELTA))
		return;
	model_number(keys, "full_attention_interval", MODEL_LAYERS, &every);
	s->linear_layers = s->layers;
	if (every >= 1)
		s->linear_layers -= (double)(uint64_t)(s->layers / every);
	if (types)
		s->linear_layers = count_words(types, "linear_attention");
	if (types && (double)json_array_size(types) != s->layers)
		model_fail(keys, "layer_types",
			   "has %zu entries for %.0f layers",
			   json_array_size(types), s->layers);
	need(reading, "linear_num_key_heads", MOST_HEADS, 0, &s->key_heads);
	need(reading, "linear_key_head_dim", MOST_WIDTH, 0, &s->key_dim);
	need(reading, "linear_num_value_heads", MOST_HEADS, 0, &s->value_heads);
	need(reading, "linear_value_head_dim", MOST_WIDTH, 0, &s->value_dim);
	s->kernel = 4;
	model_number(keys, "linear_conv_kernel_dim", MOST_WIDTH, &s->kernel);
}

static void read_heads(struct reading *reading, double heads)
{
	struct model_keys *keys = reading->keys;
	struct model_shape *s = reading->shape;

	need(reading, "num_attention_heads", MOST_HEADS, heads, &s->heads);
	if (keys->status || !reading->complete)
		return;
	s->kv_heads = s->family->kv_heads > 0 ? s->family->kv_heads : s->heads;
	if (json_is_null(json_object_get(keys->object, "num_key_value_heads")))
		s->kv_heads = s->heads;
	model_number(keys, "num_key_value_heads", MOST_HEADS, &s->kv_heads);
	s->head_dim = s->family->head_dim;
	model_number(keys, "head_dim", MOST_WIDTH, &s->head_dim);
	if (s->family->traits & MODEL_MLA)
		return;
	if (s->kv_heads < 1 || s->kv_heads > s->heads)
		model_fail(keys, "num_key_value_heads",
			   "is %.0f of %.0f attention heads", s->kv_heads,
			   s->heads);
	if (s->head_dim > 0)
		return;
	s->head_dim = s->hidden / s->heads;
	if (s->head_dim != (double)(uint64_t)s->head_dim)
		model_fail(keys, "num_attention_heads",
			   "%.0f heads do not divide hidden_size %.0f, and "
			   "there is no head_dim",
			   s->heads, s->hidden);
}

static void read_switches(struct reading *reading)
{
	struct model_keys *keys = reading->keys;
	struct model_shape *s = reading->shape;
	uint32_t traits = s->family->traits;

	s->attention_bias = traits & MODEL_GPT_OSS;
	if (traits & (MODEL_BIAS_KEY_QKVO | MODEL_BIAS_KEY_QKV | MODEL_MLA))
		model_bool(keys, "attention_bias", &s->attention_bias);
	if (traits & MODEL_BIAS_QKV) {
		s->attention_bias = true;
		model_bool(keys, "qkv_bias", &s->attention_bias);
	}
	if (traits & MODEL_MLP_BIAS_KEY)
		model_bool(keys, "mlp_bias", &s->mlp_bias);
	s->qk_norm = traits & (MODEL_QK_NORM | MODEL_QK_NORM_WIDE);
	if (traits & MODEL_QK_NORM_KEY)
		model_bool(keys, "use_qk_norm", &s->qk_norm);
}

bool model_shape_read(struct model_keys *keys,
		      const struct model_family *family,
		      struct model_shape *shape, struct model *model)
{
	static const char *const mtp[] = {"num_nextn_predict_layers",
					  "mtp_num_hidden_layers", NULL};
	/* only a nested config leaves its family's sizes out */
	static const struct model_family none;
	const struct model_family *sizes = *keys->under ? family : &none;
	struct reading reading = {keys, shape, model, true};

	memset(shape, 0, sizeof(*shape));
	shape->family = family;
	need(&reading, "num_hidden_layers", MODEL_LAYERS, sizes->layers,
	     &shape->layers);
	need(&reading, "hidden_size", MOST_WIDTH, sizes->hidden,
	     &shape->hidden);
	need(&reading, "vocab_size", MOST_VOCABULARY, sizes->vocabulary,
	     &shape->vocabulary);
	read_heads(&reading, sizes->heads);
	if (keys->status || !reading.complete)
		return false;
	read_switches(&reading);
	if (family->traits & MODEL_MLA)
		read_mla(&reading);
	read_linear(&reading);
	read_experts(&reading);
	if (keys->status || !reading.complete)
		return false;
	if (shape->moe_layers < shape->layers)
		need(&reading,
		     family->traits & MODEL_MLP_ONLY_WIDTH
			     ? "intermediate_size_mlp"
			     : "intermediate_size",
		     MOST_WIDTH, sizes->intermediate, &shape->intermediate);
	any_number(keys, mtp, MODEL_LAYERS, &shape->mtp_layers);
	return !keys->status && reading.complete;
}
