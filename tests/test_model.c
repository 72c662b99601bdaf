/* SPDX-License-Identifier: MIT */
/*
 * Parameters and bytes of models from their config.json, against the totals
 * that their checkpoints have (the count of elements in the safetensors files
 * as Hugging Face shows it, or the model card), and configs that are damaged.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/model.h"
#include "model_published.h"
#include "tap.h"

static enum oh_status read_text(const char *text, struct model *model)
{
	return model_read("config.json", text, strlen(text), model);
}

static void try_published(const struct published *p)
{
	struct model model;
	enum oh_status status = read_text(p->config, &model);

	if (!tap_ok(!status && model.counted && model.known_family,
		    "%s: counted", p->name)) {
		tap_note("%s; %s", oh_last_error()->message,
			 status ? "" : model.remark);
		return;
	}
	if (!tap_ok(model.parameters_total == p->total, "%s: %.0f parameters",
		    p->name, p->total))
		tap_note("%.0f", model.parameters_total);
	if (p->active > 0 &&
	    !tap_ok(model.parameters_active == p->active,
		    "%s: %.0f of them are read", p->name, p->active))
		tap_note("%.0f", model.parameters_active);
}

/* A file of the tree, NUL at its end; NULL. */
static char *load(const char *path)
{
	const char *source = getenv("SOURCE");
	char name[512], *text;
	size_t used;
	FILE *file;

	snprintf(name, sizeof(name), "%s/tests/%s", source ? source : ".",
		 path);
	file = fopen(name, "r");
	text = file ? calloc(1, 65536) : NULL;
	used = text ? fread(text, 1, 65535, file) : 0;
	if (file)
		fclose(file);
	if (used)
		return text;
	free(text);
	return NULL;
}

static bool read_file(const char *path, struct model *model)
{
	char *text = load(path);
	bool fine = text && model_is_config(text, strlen(text)) &&
		    !read_text(text, model);

	free(text);
	return tap_ok(fine, "%s is read", path);
}

static bool is_near(double value, double due)
{
	return fabs(value - due) <= due / 1000;
}

static const struct model_part *part_of(const struct model *model,
					const char *name)
{
	for (int i = 0; i < model->part_count; i++)
		if (!strcmp(model->parts[i].name, name))
			return &model->parts[i];
	return NULL;
}

static void try_llama(void)
{
	struct model model;

	if (!read_file("reports/config-llama-31-8b-untied/input.txt", &model))
		return;
	tap_ok(model.parameters_total == 8030261248 && model.exact,
	       "Llama 3.1 8B: the checkpoint's total");
	tap_ok(model.parameters_active == 7504924672,
	       "the head is counted, the embedding table is not");
	/* 128256 * 4096 less and more */
	tap_ok(model.parameters_active_low == 6979588096 &&
		       model.parameters_active_high == 8030261248,
	       "what others quote: without a head, with the table");
	tap_ok(model.bytes_total == 16060522496, "two bytes each");
	tap_ok(!strcmp(model.file, "config.json"), "the file's name is kept");
	tap_ok(model.layers == 32 && model.hidden == 4096 &&
		       model.vocabulary == 128256 && !model.tied &&
		       !model.experts && model.activation_bytes == 2 &&
		       !strcmp(model.dtype, "bfloat16") &&
		       !model.quantization[0] && !model.remark[0],
	       "what else the file says");
}

static void try_gpt_oss(void)
{
	struct model model;

	if (!read_file("reports/config-gpt-oss-20b/input.txt", &model))
		return;
	tap_ok(model.parameters_total == 20914757184 && model.exact,
	       "gpt-oss-20b: biases and sinks are in the total");
	tap_ok(model.parameters_active == 3608307264 &&
		       model.parameters_active_low == 3029173824 &&
		       model.parameters_active_high == 4187440704,
	       "4 of 32 experts are active");
	/* metadata.total_size of openai/gpt-oss-20b's safetensors index:
	 * experts in 4 bits and a byte for each 32, all else in bf16 */
	tap_ok(model.bytes_total == 13761264768,
	       "the checkpoint's bytes, from mxfp4 experts");
	tap_ok(strstr(model.quantization, "mxfp4"), "\"%s\"",
	       model.quantization);
	tap_ok(model.experts == 32 && model.experts_per_token == 4 &&
		       model.activation_bytes == 2,
	       "experts by their other name, no dtype: 16 bits");
}

static void try_glm5(void)
{
	const struct model_part *latent, *indexer, *experts;
	struct model model;

	if (!read_file("cases/glm5-eight-rtx-pro-6000/config.json", &model))
		return;
	tap_ok(is_near(model.parameters_total, 743.9e9) &&
		       is_near(model.parameters_active, 40.8e9),
	       "GLM-5: 743.9 and 40.8 billion");
	/* as the model is offered for tuning: no MTP layer */
	tap_ok(model.parameters_total == 743911218432, "to the last one");
	latent = part_of(&model, "latent projections");
	indexer = part_of(&model, "indexer");
	experts = part_of(&model, "experts");
	/* 78 * 6144 * (2048 + 512 + 64) */
	tap_ok(latent && latent->replicated && latent->parameters == 1257504768,
	       "MLA's way down is on every rank");
	/* 78 * (2048 * 32 * 128 + 6144 * (128 + 32) + 2 * 128) */
	tap_ok(indexer && indexer->replicated &&
		       indexer->parameters == 731008512,
	       "so is the indexer");
	/* 75 layers of 256 experts of 3 * 6144 * 2048 */
	tap_ok(experts && !experts->replicated && experts->experts == 256 &&
		       experts->used == 8 &&
		       experts->parameters == 75.0 * 256 * 37748736,
	       "the experts are split");
}

/* Of one GPU: what is split by tp, what is not, and what a batch adds. */
static void try_active_bytes(void)
{
	const struct model_part *part;
	struct model model;
	double one, whole = 0;

	read_text("{" LLAMA_8B "}", &model);
	one = model_active_bytes(&model, 1, 1, 1);
	tap_ok(one == 2 * 7504924672.0, "one rank reads all that is active");
	part = part_of(&model, "norms");
	whole = part->parameters * 2;
	tap_ok(model_active_bytes(&model, 8, 1, 1) == (one - whole) / 8 + whole,
	       "eight ranks split all but the norms");
	tap_ok(model_active_bytes(&model, 8, 64, 1) ==
		       model_active_bytes(&model, 8, 1, 1),
	       "a dense model reads no more for a batch");
	tap_ok(model_active_bytes(&model, 1, 1, 0.25) == one / 4,
	       "a checkpoint of a quarter is read in a quarter");
	/* 8 heads of k and v on 16 ranks: two ranks hold the same head */
	part = part_of(&model, "key and value heads");
	tap_ok(model_active_bytes(&model, 16, 1, 1) ==
		       (one - whole) / 16 + whole + part->parameters * 2 / 16,
	       "more ranks than key and value heads repeat them");

	read_text("{\"model_type\":\"qwen3_moe\"," MOE_30B "}", &model);
	part = part_of(&model, "experts");
	one = model_active_bytes(&model, 1, 1, 1);
	whole = part->parameters * 2;
	/* 128 (1 - (1 - 8/128)^1) = 8 of 128; of two tokens
	 * 1 - (1 - 1/16)^2 = 31/256 of them */
	tap_ok(is_near(model_active_bytes(&model, 1, 2, 1) - one,
		       whole * (31.0 / 256 - 1.0 / 16)),
	       "two tokens read 15.5 of 128 experts");
	tap_ok(is_near(model_active_bytes(&model, 1, 1e6, 1),
		       2 * (model.parameters_total - 151936 * 2048.0)),
	       "a large batch reads them all");
}

/* What a quantization makes of the bytes of a part. */
struct quantized {
	const char *config; /* of quantization_config, on DeepSeek-V3 */
	const char *part;
	double bits;
	const char *name; /* begins so */
};

static const struct quantized quantized[] = {
	/* a 32-bit scale for 128 x 128 values */
	{"{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}",
	 "experts", 8 + 32.0 / 16384, "fp8, 8.002 bits"},
	{"{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}", "head",
	 16, "fp8"},
	{"{\"quant_method\":\"fp8\"}", "router", 16, "fp8"},
	{"{\"quant_method\":\"fp8\",\"modules_to_not_convert\":"
	 "[\"model.layers.0.self_attn\",\"lm_head\"]}",
	 "attention", 8 + 8.0 / 61, "fp8"},
	/* a 16-bit scale and a 4-bit zero for 128 values */
	{"{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":128}", "experts",
	 4 + 20.0 / 128, "awq, 4.156 bits"},
	{"{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":128,"
	 "\"modules_to_not_convert\":[\"self_attn\"]}",
	 "attention", 16, "awq"},
	{"{\"quant_method\":\"gptq\",\"bits\":8,\"group_size\":-1,\"lm_head\":"
	 "true}",
	 "head", 8, "gptq, 8 bits"},
	{"{\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true}", "mlp",
	 4.5, "bitsandbytes"},
	{"{\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true,"
	 "\"bnb_4bit_use_double_quant\":true}",
	 "mlp", 4 + 8.0 / 64 + 32.0 / 64 / 256, "bitsandbytes"},
	{"{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\"}", "experts",
	 4.5, "modelopt, 4.5 bits"},
	{"{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\","
	 "\"exclude_modules\":[\"model.layers.60.self_attn*\","
	 "\"model.layers.61*\"]}",
	 "attention", 4.5 + 11.5 / 61, "modelopt"},
	/* Kimi-K2-Thinking's: 4 bits in groups of 32, experts alone */
	{"{\"quant_method\":\"compressed-tensors\",\"config_groups\":{"
	 "\"group_0\":{\"targets\":[\"Linear\"],\"weights\":{\"num_bits\":4,"
	 "\"group_size\":32,\"type\":\"int\",\"symmetric\":true}}},"
	 "\"ignore\":[\"lm_head\",\"re:.*self_attn.*\",\"re:.*shared_experts."
	 "*\",\"re:.*mlp\\\\.(gate|up|gate_up|down)_proj.*\"]}",
	 "experts", 4.5, "compressed-tensors"},
	{"{\"quant_method\":\"compressed-tensors\",\"config_groups\":{"
	 "\"group_0\":{\"targets\":[\"Linear\"],\"weights\":{\"num_bits\":4,"
	 "\"group_size\":32,\"type\":\"int\",\"symmetric\":true}}},"
	 "\"ignore\":[\"lm_head\",\"re:.*self_attn.*\",\"re:.*shared_experts."
	 "*\",\"re:.*mlp\\\\.(gate|up|gate_up|down)_proj.*\"]}",
	 "mlp", 16, "compressed-tensors"},
	/* two groups: attention in 8 bits, experts in NVFP4 */
	{"{\"quant_method\":\"compressed-tensors\",\"config_groups\":{"
	 "\"a\":{\"targets\":[\"re:.*self_attn.*\"],\"weights\":{\"num_bits\":"
	 "8,\"type\":\"float\"}},\"b\":{\"targets\":[\"re:.*experts.*\"],"
	 "\"weights\":{\"num_bits\":4,\"group_size\":16,\"type\":\"float\"}}}}",
	 "attention", 8, "compressed-tensors, 4.5 bits"},
};

static void try_quantized(const struct quantized *q)
{
	const struct model_part *part;
	struct model model;
	char text[2048];

	snprintf(text, sizeof(text),
		 "{" DEEPSEEK_V3 ",\"quantization_config\":%s}", q->config);
	if (!tap_ok(!read_text(text, &model), "%.60s is read", q->config))
		return;
	part = part_of(&model, q->part);
	if (!tap_ok(part && fabs(8 * part->bytes_per_parameter - q->bits) <
				    1e-9,
		    "%s: %.4g bits", q->part, q->bits))
		tap_note("%.6f", part ? 8 * part->bytes_per_parameter : -1);
	if (!tap_ok(!strncmp(model.quantization, q->name, strlen(q->name)) &&
			    model.bytes_total == model.bytes_counted,
		    "told as %s", q->name))
		tap_note("\"%s\"", model.quantization);
}

static void try_unknown_quantization(void)
{
	struct model model;

	read_text("{" DEEPSEEK_V3 ",\"quantization_config\":"
		  "{\"quant_method\":\"hqq\",\"nbits\":4}}",
		  &model);
	tap_ok(model.counted && model.bytes_total == 0 &&
		       model.bytes_counted == 2 * model.parameters_total,
	       "a quantization that is not known gives no bytes");
	tap_ok(!strcmp(model.quantization, "hqq") &&
		       strstr(model.remark, "--checkpoint-bytes"),
	       "it says what would give them");
	read_text("{" LLAMA_8B ",\"torch_dtype\":\"float32\"}", &model);
	tap_ok(model.bytes_total == 4 * 8030261248.0 &&
		       model.activation_bytes == 2,
	       "float32 is stored in four bytes and run in two");
}

static const char *config_of(const char *name)
{
	for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++)
		if (!strcmp(published[i].name, name))
			return published[i].config;
	return "";
}

static void try_remarks(void)
{
	struct model model;

	read_text("{" DEEPSEEK_V3 "}", &model);
	tap_ok(strstr(model.remark, "multi-token prediction") && model.exact,
	       "layers for multi-token prediction are named, not counted");
	read_text(config_of("Gemma 3 27B, nested"), &model);
	tap_ok(strstr(model.remark, "vocab_size is not in the file") &&
		       strstr(model.remark, "Vision") && !model.exact &&
		       model.vocabulary == 262208 &&
		       !strcmp(model.family, "gemma3_text"),
	       "a nested config's default is named: %s", model.remark);
	read_text("{\"model_type\":\"newton\",\"hidden_size\":1024,"
		  "\"num_hidden_layers\":12,\"vocab_size\":50000}",
		  &model);
	tap_ok(!model.known_family && !model.counted && model.layers == 12 &&
		       model.hidden == 1024 && model.vocabulary == 50000 &&
		       strstr(model.remark, "newton") &&
		       model.parameters_total == 0,
	       "an unknown family gives its keys and no count");
	tap_ok(model_active_bytes(&model, 8, 1, 1) == 0, "nor bytes");
	tap_ok(!read_text("{\"model_type\":\"mamba2\",\"hidden_size\":64,"
			  "\"num_hidden_layers\":2,\"time_step_limit\":"
			  "[0.0,Infinity,-Infinity,NaN]}",
			  &model) &&
		       model.layers == 2,
	       "numbers as Python writes them");
	tap_ok(!read_text("{\"model_type\":\"\\\"Infinity NaN\","
			  "\"hidden_size\":64,\"num_hidden_layers\":2}",
			  &model) &&
		       !strcmp(model.family, "\"Infinity NaN"),
	       "but not inside a string: %s", model.family);
	read_text("{\"model_type\":\"gpt2\",\"n_embd\":768,\"n_layer\":12}",
		  &model);
	tap_ok(model.layers == 12 && model.hidden == 768,
	       "older names of the same keys");
	read_text("{\"model_type\":\"llama\",\"hidden_size\":64,"
		  "\"num_hidden_layers\":2,\"num_attention_heads\":4}",
		  &model);
	tap_ok(model.known_family && !model.counted &&
		       strstr(model.remark, "vocab_size is missing"),
	       "a known family with a key missing: %s", model.remark);
	read_text("{\"model_type\":\"a\\u001b[31m\\u00e4\",\"hidden_size\":1,"
		  "\"num_hidden_layers\":1}",
		  &model);
	tap_ok(!strcmp(model.family, "a?[31m??"),
	       "what a terminal could obey is taken out");
}

/* Families that are not counted, whose layers are known all the same. */
static void try_sums(void)
{
#define UNCOUNTED(keys) "{\"hidden_size\":64,\"num_hidden_layers\":52," keys "}"
	static const struct {
		const char *config;
		uint64_t once;
		bool unknown;
	} rows[] = {
		{UNCOUNTED("\"model_type\":\"cohere\""), 0, false},
		{UNCOUNTED("\"model_type\":\"nemotron_h\""), 52, false},
		{UNCOUNTED("\"model_type\":\"mamba2\""), 52, false},
		/* parallel_attn is true unless the file says no */
		{UNCOUNTED("\"model_type\":\"falcon\""), 52, false},
		{UNCOUNTED("\"model_type\":\"falcon\",\"parallel_attn\":"
			   "false"),
		 0, false},
		{UNCOUNTED("\"model_type\":\"falcon\",\"parallel_attn\":"
			   "false,\"new_decoder_architecture\":true"),
		 52, false},
		{UNCOUNTED("\"model_type\":\"gptx\",\"parallel_attn\":true"), 0,
		 false},
		{UNCOUNTED("\"model_type\":\"nemotron-nas\","
			   "\"block_configs\":[{}]"),
		 0, true},
		{"{" LLAMA_8B ",\"parallel_attn\":true}", 0, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct model model;

		tap_ok(!read_text(rows[i].config, &model) &&
			       model.layers_of_one_sum == rows[i].once &&
			       model.sums_unknown == rows[i].unknown,
		       "%s: %llu layers sum once", model.family,
		       (unsigned long long)rows[i].once);
	}
}

/* DSA whose layers share what one of them found. */
static void try_shared_indexers(void)
{
	static const char *const keys[] = {
		"\"index_topk_freq\":4",
		"\"index_topk_pattern\":\"FFFSSSFSSSFS\"",
		"\"indexer_types\":[\"full\",\"full\",\"full\",\"shared\","
		"\"shared\",\"shared\",\"full\",\"shared\",\"shared\","
		"\"shared\",\"full\",\"shared\"]",
	};
	const struct model_part *indexer;
	struct model model;
	char text[2048];

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		snprintf(text, sizeof(text),
			 "{\"model_type\":\"glm_moe_dsa\",\"hidden_size\":64,"
			 "\"num_hidden_layers\":12,\"vocab_size\":1000,"
			 "\"num_attention_heads\":4,\"intermediate_size\":128,"
			 "\"moe_intermediate_size\":32,\"n_routed_experts\":8,"
			 "\"num_experts_per_tok\":2,\"q_lora_rank\":16,"
			 "\"kv_lora_rank\":8,\"qk_nope_head_dim\":8,"
			 "\"qk_rope_head_dim\":4,\"v_head_dim\":8,"
			 "\"index_n_heads\":2,\"index_head_dim\":4,%s}",
			 keys[i]);
		read_text(text, &model);
		indexer = part_of(&model, "indexer");
		/* from an offset of 2 on every fourth, and the two before:
		 * layers 0, 1, 5, 9; the lists have five. Each has
		 * 16 * 2 * 4 + 64 * (4 + 2) + 2 * 4 */
		if (!tap_ok(indexer &&
				    indexer->parameters == (i ? 5 : 4) * 520.0,
			    "%.24s", keys[i]))
			tap_note("%.0f %s", indexer ? indexer->parameters : -1,
				 model.remark);
	}
}

/* Configs that must be refused, and the words that the message must have. */
struct refused {
	const char *text;
	const char *why;
};

static const struct refused refused[] = {
	{"", "not JSON"},
	{"{\"model_type\":\"llama\",", "config.json:1: not JSON"},
	{"{\n\"a\":1,\n\"a\":2}", "config.json:3: not JSON: duplicate"},
	{"[1,2]", "no object"},
	{"{}", "hidden_size is missing"},
	{"{\"model_type\":\"llama\"}", "is missing"},
	{"{\"hidden_size\":1}", "num_hidden_layers is missing"},
	{"{\"a\":1e999}", "not JSON"},
	{"{\n\"model_type\":\"llama\",\n\"num_hidden_layers\":\"32\"}",
	 "config.json:3: num_hidden_layers is a string, a number is due"},
	{"{\"model_type\":\"llama\",\"num_hidden_layers\":-1}",
	 "num_hidden_layers is -1"},
	{"{\"model_type\":\"llama\",\"num_hidden_layers\":0,\"hidden_size\":1}",
	 "num_hidden_layers is 0"},
	{"{\"model_type\":\"llama\",\"num_hidden_layers\":1e300}", "possible"},
	{"{\"model_type\":\"llama\",\"num_hidden_layers\":1.5}", "whole"},
	{"{\"model_type\":\"llama\",\"num_hidden_layers\":[1]}", "a list"},
	{"{\"model_type\":\"llama\",\"num_hidden_layers\":true}",
	 "true or false"},
	{"{" LLAMA_8B ",\"tie_word_embeddings\":\"yes\"}",
	 "tie_word_embeddings is a string"},
	{"{\"model_type\":\"llama\",\"hidden_size\":100,\"vocab_size\":10,"
	 "\"num_hidden_layers\":2,\"num_attention_heads\":3}",
	 "do not divide"},
	{"{\"model_type\":\"llama\",\"hidden_size\":64,\"vocab_size\":10,"
	 "\"num_hidden_layers\":2,\"num_attention_heads\":4,"
	 "\"num_key_value_heads\":8}",
	 "num_key_value_heads is 8 of 4"},
	{"{\"model_type\":\"qwen3_moe\",\"hidden_size\":64,\"vocab_size\":10,"
	 "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_experts\":8,"
	 "\"num_experts_per_tok\":9,\"moe_intermediate_size\":8}",
	 "9 of 8 experts"},
	{"{\"model_type\":\"x\",\n\"vision_config\":{\"hidden_size\":8},\n"
	 "\"text_config\":{\"model_type\":\"llama\",\n\"hidden_size\":{}}}",
	 "config.json:4: hidden_size is an object"},
};

static void try_refused(const struct refused *r)
{
	struct model model, before;
	enum oh_status status;
	bool said;

	memset(&model, 0x5a, sizeof(model));
	before = model;
	status = read_text(r->text, &model);
	said = strstr(oh_last_error()->message, r->why);
	if (!tap_ok(status == OH_ERR_INVALID && said &&
			    strstr(oh_last_error()->message, "config.json"),
		    "refused: %s", r->why))
		tap_note("%d: %s", status, oh_last_error()->message);
	tap_ok(!memcmp(&before, &model, sizeof(model)),
	       "and the model is left as it was");
}

static void try_large(void)
{
	size_t bytes = (2u << 20) + 1;
	char *text = malloc(bytes);
	struct model model;

	memset(text, ' ', bytes);
	memcpy(text, "{\"model_type\":1}", 16);
	tap_ok(model_read("config.json", text, bytes, &model) ==
			       OH_ERR_INVALID &&
		       strstr(oh_last_error()->message,
			      "larger than 2097152 bytes"),
	       "a text above 2 MB is refused");
	memset(text, '[', 70);
	memset(text + 70, ']', 70);
	tap_ok(model_read("config.json", text, 140, &model) == OH_ERR_INVALID &&
		       strstr(oh_last_error()->message, "nested 70 deep"),
	       "so is one that is nested too deep");
	free(text);
}

static void try_recognition(void)
{
	static const struct {
		const char *text;
		bool is;
	} texts[] = {
		{" \n{\"model_type\": \"x\"}", true},
		{"\xef\xbb\xbf{\"hidden_size\": 1", true},
		{"{\"architectures\": []}", true},
		{"{\"temperature\": 0.7}", false},
		{"[\"model_type\"]", false},
		{"INFO {\"model_type\": \"x\"}", false},
		{"", false},
		{"  ", false},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		tap_ok(model_is_config(texts[i].text, strlen(texts[i].text)) ==
			       texts[i].is,
		       "text %zu %s a config", i,
		       texts[i].is ? "is" : "is not");
}

int main(void)
{
	setenv("ONEHOP_LOG", "off", 0);
	for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++)
		try_published(&published[i]);
	try_llama();
	try_gpt_oss();
	try_glm5();
	try_active_bytes();
	for (size_t i = 0; i < sizeof(quantized) / sizeof(quantized[0]); i++)
		try_quantized(&quantized[i]);
	try_unknown_quantization();
	try_remarks();
	try_sums();
	try_shared_indexers();
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		try_refused(&refused[i]);
	try_large();
	try_recognition();
	return tap_done();
}
