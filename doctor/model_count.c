/* SPDX-License-Identifier: MIT */
/*
 * Counts the parameters of a decoder from its shape, part by part: what an
 * engine splits over the ranks, what it keeps whole on each, what a token reads
 * and what only lies there. The formulas are those of the families' model code
 * in Hugging Face transformers; which parts are replicated is vLLM's rule
 * (ReplicatedLinear: MLA's down-projections, the indexer, the router).
 */
#include "doctor/model_private.h"

static struct model_part *add(struct model *model, const char *name,
			      double parameters)
{
	struct model_part *part;

	if (parameters <= 0 || model->part_count == MODEL_PARTS)
		return NULL;
	part = &model->parts[model->part_count++];
	part->name = name;
	part->parameters = parameters;
	return part;
}

static void add_replicated(struct model *model, const char *name,
			   double parameters)
{
	struct model_part *part = add(model, name, parameters);

	if (part)
		part->replicated = true;
}

/* Projections down to the ranks, then up to the heads; q_rank 0: no such step
 * for the queries. */
static void count_mla(const struct model_shape *s, struct model *model)
{
	double query = s->q_rank > 0 ? s->q_rank : s->hidden;
	double up = query * s->heads * (s->nope + s->rope) +
		    s->kv_rank * s->heads * (s->nope + s->value) +
		    s->heads * s->value * s->hidden;
	double down = s->hidden * (s->q_rank + s->kv_rank + s->rope);
	double norms = s->q_rank + s->kv_rank;
	double biases = s->attention_bias
				? s->q_rank + s->kv_rank + s->rope + s->hidden
				: 0;

	add(model, "attention", s->layers * up);
	add_replicated(model, "latent projections", s->layers * down);
	add_replicated(model, "attention norms", s->layers * (norms + biases));
}

/* wq_b, wk, weights_proj, and a LayerNorm of weight and bias. */
static void count_indexer(const struct model_shape *s, struct model *model)
{
	double of_layer = s->q_rank * s->index_heads * s->index_dim +
			  s->hidden * (s->index_dim + s->index_heads) +
			  2 * s->index_dim;

	add_replicated(model, "indexer", s->index_layers * of_layer);
}

static double attention_biases(const struct model_shape *s)
{
	uint32_t traits = s->family->traits;
	double qkv = (s->heads + 2 * s->kv_heads) * s->head_dim;

	if (traits & MODEL_GPT_OSS) /* sinks too */
		return (s->attention_bias ? qkv + s->hidden : 0) + s->heads;
	if (s->attention_bias && traits & MODEL_BIAS_KEY_QKVO)
		return qkv + s->hidden;
	if (s->attention_bias)
		return qkv;
	return 0;
}

static void count_attention(const struct model_shape *s, struct model *model)
{
	double layers = s->layers - s->linear_layers;
	double wide = s->heads * s->head_dim;
	double kv = 2 * s->kv_heads * s->head_dim;
	/* the gate of gated attention is a second half of q */
	bool gated = s->family->traits & MODEL_GATED_DELTA;
	struct model_part *part;
	double norms = 0;

	add(model, "attention", layers * s->hidden * wide * (gated ? 3 : 2));
	part = add(model, "key and value heads", layers * s->hidden * kv);
	if (part)
		part->shares = s->kv_heads;
	add(model, "attention biases", layers * attention_biases(s));
	if (s->family->traits & MODEL_QK_NORM_WIDE)
		norms = wide + kv / 2;
	else
		norms = 2 * s->head_dim;
	if (s->qk_norm)
		add_replicated(model, "attention norms", layers * norms);
}

/* Gated DeltaNet: q, k, v and z, b and a, a short convolution over q, k and v,
 * dt_bias and A_log, a norm, the way out. */
static void count_linear(const struct model_shape *s, struct model *model)
{
	double keys = s->key_heads * s->key_dim;
	double values = s->value_heads * s->value_dim;
	double of_layer = s->hidden * (2 * keys + 2 * values) +
			  s->hidden * 2 * s->value_heads +
			  (2 * keys + values) * s->kernel + 2 * s->value_heads +
			  s->value_dim + values * s->hidden;

	add(model, "linear attention", s->linear_layers * of_layer);
}

static void count_experts(const struct model_shape *s, struct model *model)
{
	uint32_t traits = s->family->traits;
	bool oss = traits & MODEL_GPT_OSS;
	double expert = 3 * s->hidden * s->expert_width;
	double router = s->experts * s->hidden;
	struct model_part *part;

	if (oss || traits & MODEL_CORRECTION)
		router += s->experts;
	if (s->shared_width > 0 && traits & MODEL_SHARED_GATE)
		router += s->hidden;
	add_replicated(model, "router", s->moe_layers * router);
	add(model, "shared experts",
	    s->moe_layers * 3 * s->hidden * s->shared_width);
	part = add(model, "experts", s->moe_layers * s->experts * expert);
	if (part) {
		part->experts = s->experts;
		part->used = s->used;
	}
	expert = 2 * s->expert_width + s->hidden;
	part = oss ? add(model, "expert biases",
			 s->moe_layers * s->experts * expert)
		   : NULL;
	if (part) {
		part->experts = s->experts;
		part->used = s->used;
	}
}

static void count_mlp(const struct model_shape *s, struct model *model)
{
	double layers = s->layers - s->moe_layers;
	double biases = s->mlp_bias ? 2 * s->intermediate + s->hidden : 0;

	add(model, "mlp", layers * 3 * s->hidden * s->intermediate);
	add(model, "mlp biases", layers * biases);
}

/* The head is read whole for each token, of the embedding table one row. */
static void count_vocabulary(const struct model_shape *s, struct model *model)
{
	double table = s->vocabulary * s->hidden;
	struct model_part *part;

	if (s->tied) {
		add(model, "embedding and head", table);
		return;
	}
	part = add(model, "embedding", table);
	if (part)
		part->not_read = true;
	add(model, "head", table);
}

static void sum(const struct model_shape *s, struct model *model)
{
	double head = s->vocabulary * s->hidden;

	for (int i = 0; i < model->part_count; i++) {
		const struct model_part *part = &model->parts[i];
		double read = part->not_read ? 0 : part->parameters;

		if (part->experts > 0)
			read *= part->used / part->experts;
		model->parameters_total += part->parameters;
		model->parameters_active += read;
	}
	model->parameters_active_low = model->parameters_active - head;
	model->parameters_active_high =
		model->parameters_active + (s->tied ? 0 : head);
}

void model_count(const struct model_shape *s, struct model *model)
{
	int norms = s->family->traits & MODEL_FOUR_NORMS ? 4 : 2;

	count_vocabulary(s, model);
	if (s->family->traits & MODEL_MLA)
		count_mla(s, model);
	else
		count_attention(s, model);
	count_indexer(s, model);
	count_linear(s, model);
	count_mlp(s, model);
	count_experts(s, model);
	add_replicated(model, "norms", (norms * s->layers + 1) * s->hidden);
	sum(s, model);
	model->counted = true;
	model->tied = s->tied;
	model->experts = (uint64_t)s->experts;
	model->experts_per_token = (uint64_t)s->used;
}
