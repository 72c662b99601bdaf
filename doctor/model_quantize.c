/* SPDX-License-Identifier: MIT */
/*
 * What a quantization_config makes of each part: bytes per parameter with the
 * scales that go along. Lists of modules that stay as they are are matched by
 * words, since they come as names, globs and regular expressions; an entry that
 * names a layer holds for that layer only. A method that is not in the table
 * leaves the bytes unknown.
 */
#include "doctor/model_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parts as bits; those that a method takes unless something is said. */
enum {
	EMBEDDING = 1 << 0,
	ATTENTION = 1 << 1,
	KV = 1 << 2,
	LATENT = 1 << 3,
	INDEXER = 1 << 4,
	LINEAR = 1 << 5,
	MLP = 1 << 6,
	SHARED = 1 << 7,
	EXPERTS = 1 << 8,
	HEAD = 1 << 9,
	ROUTER = 1 << 10,
	ALL_ATTENTION = ATTENTION | KV | LATENT | INDEXER,
	ALL_MLP = MLP | SHARED | EXPERTS,
	PROJECTIONS = ALL_ATTENTION | LINEAR | ALL_MLP,
};

static const struct {
	const char *name; /* of the part */
	uint32_t part;
} parts[] = {
	{"embedding", EMBEDDING},
	{"attention", ATTENTION},
	{"key and value heads", KV},
	{"latent projections", LATENT},
	{"indexer", INDEXER},
	{"linear attention", LINEAR},
	{"mlp", MLP},
	{"shared experts", SHARED},
	{"experts", EXPERTS},
	{"head", HEAD},
	{"router", ROUTER},
};

/* The first word that is in a module's name says which parts it means. */
static const struct {
	const char *word;
	uint32_t parts;
} words[] = {
	/* not counted */
	{"vis", 0},
	{"projector", 0},
	{"audio", 0},
	{"mtp", 0},
	/* too small to tell */
	{"norm", 0},
	{"conv1d", 0},
	{"in_proj_a", 0},
	{"in_proj_b", 0},
	{"weights_proj", 0},
	{"shared_expert_gate", ROUTER},
	{"shared_expert", SHARED},
	{"experts", EXPERTS},
	{"mlp.gate_", MLP},
	{"mlp.up_", MLP},
	{"mlp.down_", MLP},
	{"mlp.(gate", MLP},
	{"mlp.gate", ROUTER},
	{"moe.gate", ROUTER},
	{"router", ROUTER},
	{"indexer", INDEXER},
	{"kv_a_", LATENT},
	{"q_a_", LATENT},
	{"qkv_proj", ATTENTION | KV},
	{"k_proj", KV},
	{"v_proj", KV},
	{"q_proj", ATTENTION},
	{"o_proj", ATTENTION},
	{"q_b_proj", ATTENTION},
	{"kv_b_proj", ATTENTION},
	{"linear_attn", LINEAR},
	{"attn", ALL_ATTENTION},
	{"attention", ALL_ATTENTION},
	{"lm_head", HEAD},
	{"embed", EMBEDDING},
	{"feed_forward", ALL_MLP},
	{"mlp", ALL_MLP},
	{"gate", ROUTER},
	{"Linear", PROJECTIONS},
};

#define PARTS (sizeof(parts) / sizeof(parts[0]))
#define WORDS (sizeof(words) / sizeof(words[0]))

/* Bytes of a part's parameters as far as the config is read. */
struct bytes {
	double as_is; /* of a value that is not quantized */
	double of[PARTS];
	bool known;
	size_t layers;
};

/* Regular expressions escape what globs and names do not: "mlp\.gate". */
static void plain(char *to, size_t room, const char *from)
{
	size_t used = 0;

	for (; *from && used + 1 < room; from++)
		if (*from != '\\')
			to[used++] = *from;
	to[used] = '\0';
}

static uint32_t parts_of(const char *module)
{
	for (size_t i = 0; i < WORDS; i++)
		if (strstr(module, words[i].word))
			return words[i].parts;
	return 0;
}

/* "layers.12." gives 12; -1: all layers; -2: one that is not counted. */
static long layer_of(const char *module, size_t layers)
{
	const char *at = strstr(module, "layers.");
	char *end;
	long layer;

	if (!at || at[7] < '0' || at[7] > '9')
		return -1;
	layer = strtol(at + 7, &end, 10);
	return layer >= 0 && (size_t)layer < layers ? layer : -2;
}

/* Which layers of which parts a list leaves as they are. */
struct kept {
	bool all[PARTS];
	bool layer[PARTS][MODEL_LAYERS];
};

static void keep(struct kept *kept, const char *module, size_t layers)
{
	uint32_t which = parts_of(module);
	long layer = layer_of(module, layers);

	for (size_t i = 0; i < PARTS; i++) {
		if (!(parts[i].part & which))
			continue;
		if (layer == -1)
			kept->all[i] = true;
		else if (layer >= 0)
			kept->layer[i][layer] = true;
	}
}

static double share_kept(const struct kept *kept, size_t part, size_t layers)
{
	double count = 0;

	if (kept->all[part])
		return 1;
	for (size_t i = 0; i < layers; i++)
		count += kept->layer[part][i];
	return layers ? count / (double)layers : 0;
}

static void set(struct bytes *bytes, uint32_t which, double value)
{
	for (size_t i = 0; i < PARTS; i++)
		if (parts[i].part & which)
			bytes->of[i] = value;
}

static void leave(struct bytes *bytes, const json_t *list)
{
	struct kept kept = {0};
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		char module[128];

		if (!json_is_string(item))
			continue;
		plain(module, sizeof(module), json_string_value(item));
		keep(&kept, module, bytes->layers);
	}
	for (i = 0; i < PARTS; i++) {
		double share = share_kept(&kept, i, bytes->layers);

		bytes->of[i] =
			share * bytes->as_is + (1 - share) * bytes->of[i];
	}
}

static double number_of(const json_t *object, const char *key, double otherwise)
{
	const json_t *value = json_object_get(object, key);

	return json_is_number(value) ? json_number_value(value) : otherwise;
}

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

/* bits of a value, and a scale of so many bytes for each group of values */
static double packed(double bits, double group, double scale)
{
	if (bits < 1 || bits > 32)
		return 0;
	return bits / 8 + (group >= 1 ? scale / group : 0);
}

/* AWQ, GPTQ and AutoRound: a 16-bit scale and a packed zero for each group. */
static void grouped(const json_t *config, struct bytes *bytes)
{
	double bits = number_of(config, "bits", number_of(config, "w_bit", 0));
	double group = number_of(config, "group_size",
				 number_of(config, "q_group_size", 0));
	double value = packed(bits, group, 2 + bits / 8);

	bytes->known = value > 0;
	set(bytes, PROJECTIONS, value);
	if (json_is_true(json_object_get(config, "lm_head")))
		set(bytes, HEAD, value);
	leave(bytes, json_object_get(config, "modules_to_not_convert"));
}

/* One byte, a 32-bit scale for each block or none worth counting. */
static void fp8(const json_t *config, struct bytes *bytes)
{
	const json_t *block = json_object_get(config, "weight_block_size");
	double rows = json_number_value(json_array_get(block, 0));
	double columns = json_number_value(json_array_get(block, 1));

	set(bytes, PROJECTIONS, packed(8, rows * columns, 4));
	leave(bytes, json_object_get(config, "modules_to_not_convert"));
	leave(bytes, json_object_get(config, "ignored_layers"));
}

/* 4 bits and a scale of 8 for each 32 values, of the experts alone. */
static void mxfp4(const json_t *config, struct bytes *bytes)
{
	set(bytes, EXPERTS, packed(4, 32, 1));
	leave(bytes, json_object_get(config, "modules_to_not_convert"));
}

/* NF4 has a 32-bit scale for each 64 values; quantized twice it takes 8 bits
 * and another 32 for each 256 of them. */
static void bitsandbytes(const json_t *config, struct bytes *bytes)
{
	double four = packed(4, 64, 4);

	if (json_is_true(json_object_get(config, "bnb_4bit_use_double_quant")))
		four = packed(4, 64, 1 + 4.0 / 256);
	if (json_is_true(json_object_get(config, "load_in_4bit")))
		set(bytes, PROJECTIONS, four);
	else if (json_is_true(json_object_get(config, "load_in_8bit")))
		set(bytes, PROJECTIONS, 1);
	else
		bytes->known = false;
	leave(bytes, json_object_get(config, "llm_int8_skip_modules"));
}

/* Compressed-tensors' groups: what they target, and how wide that gets. */
static void group(const json_t *entry, struct bytes *bytes)
{
	const json_t *weights = json_object_get(entry, "weights");
	const json_t *targets = json_object_get(entry, "targets"), *item;
	double bits = number_of(weights, "num_bits", 0);
	double size = number_of(weights, "group_size", 0);
	bool is_float = !strcmp(text_of(weights, "type"), "float");
	double scale = is_float && bits <= 4 ? 1 : 2, value;
	size_t i;

	if (json_is_false(json_object_get(weights, "symmetric")))
		scale += bits / 8;
	value = packed(bits, size, scale);
	if (value <= 0) {
		bytes->known = false;
		return;
	}
	if (!json_is_array(targets))
		set(bytes, PROJECTIONS, value);
	json_array_foreach(targets, i, item)
	{
		char module[128];

		if (!json_is_string(item))
			continue;
		plain(module, sizeof(module), json_string_value(item));
		set(bytes, parts_of(module), value);
	}
}

static void leave_ignored(const json_t *config, struct bytes *bytes)
{
	leave(bytes, json_object_get(config, "ignore"));
	leave(bytes, json_object_get(config, "exclude_modules"));
}

static void compressed_tensors(const json_t *config, struct bytes *bytes)
{
	json_t *groups = json_object_get(config, "config_groups"), *entry;
	const char *key;

	bytes->known = json_object_size(groups) > 0;
	json_object_foreach(groups, key, entry)
	{
		group(entry, bytes);
	}
	leave_ignored(config, bytes);
}

static void modelopt(const json_t *config, struct bytes *bytes)
{
	const char *algorithm = text_of(config, "quant_algo");

	if (json_object_size(json_object_get(config, "config_groups"))) {
		compressed_tensors(config, bytes);
		return;
	}
	if (strstr(algorithm, "NVFP4"))
		set(bytes, PROJECTIONS, packed(4, 16, 1));
	else if (!strncmp(algorithm, "FP8", 3))
		set(bytes, PROJECTIONS, 1);
	else
		bytes->known = false;
	leave_ignored(config, bytes);
}

static const struct {
	const char *method;
	void (*read)(const json_t *config, struct bytes *bytes);
} methods[] = {
	{"auto-round", grouped},
	{"awq", grouped},
	{"bitsandbytes", bitsandbytes},
	{"compressed-tensors", compressed_tensors},
	{"fbgemm_fp8", fp8},
	{"fp8", fp8},
	{"gptq", grouped},
	{"modelopt", modelopt},
	{"modelopt_fp4", modelopt},
	{"mxfp4", mxfp4},
};

static void read_method(const json_t *config, struct bytes *bytes)
{
	const char *method = text_of(config, "quant_method");
	size_t count = sizeof(methods) / sizeof(methods[0]);

	for (size_t i = 0; i < count; i++)
		if (!strcmp(method, methods[i].method)) {
			methods[i].read(config, bytes);
			return;
		}
	/* older 4-bit checkpoints say what they are by their keys alone */
	if (!*method && json_object_get(config, "load_in_4bit"))
		bitsandbytes(config, bytes);
	else
		bytes->known = false;
}

/* The widest part by its bits, for people. */
static void describe(const json_t *config, const struct bytes *bytes,
		     struct model *model)
{
	const char *method = text_of(config, "quant_method");
	double least = bytes->as_is;
	char name[20];
	size_t used = 0;

	if (!*method)
		method = "of unnamed method";
	for (; method[used] && used + 1 < sizeof(name); used++)
		name[used] = method[used] > ' ' && method[used] < 127
				     ? method[used]
				     : ' ';
	name[used] = '\0';
	for (size_t i = 0; i < PARTS; i++)
		if (bytes->of[i] < least)
			least = bytes->of[i];
	if (!bytes->known)
		snprintf(model->quantization, sizeof(model->quantization), "%s",
			 name);
	else
		snprintf(model->quantization, sizeof(model->quantization),
			 "%s%s, %.4g bits",
			 strcmp(method, "mxfp4") ? "" : "experts ", name,
			 8 * least);
}

void model_quantize(const json_t *quantization, double dtype_bytes,
		    struct model *model)
{
	struct bytes bytes = {
		.as_is = dtype_bytes,
		.known = true,
		.layers = (size_t)model->layers,
	};

	set(&bytes, ~0u, dtype_bytes);
	if (quantization) {
		read_method(quantization, &bytes);
		describe(quantization, &bytes, model);
	}
	if (!bytes.known) {
		set(&bytes, ~0u, dtype_bytes);
		model_remark(model,
			     "Bytes of quantization %s are not known; "
			     "--checkpoint-bytes gives them.",
			     model->quantization);
	}
	for (int i = 0; i < model->part_count; i++) {
		struct model_part *part = &model->parts[i];

		part->bytes_per_parameter = dtype_bytes;
		for (size_t k = 0; k < PARTS; k++)
			if (!strcmp(parts[k].name, part->name))
				part->bytes_per_parameter = bytes.of[k];
		model->bytes_counted +=
			part->parameters * part->bytes_per_parameter;
	}
	if (bytes.known)
		model->bytes_total = model->bytes_counted;
}
