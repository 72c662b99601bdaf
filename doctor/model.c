/* SPDX-License-Identifier: MIT */
/*
 * Reads a config.json: finds the language model in it, gives its keys to the
 * family, and keeps what can be said where the family is not known. The text is
 * bounded in size and depth before it is parsed; numbers are read as doubles,
 * so a key that nobody asks for may be as large as it likes.
 */
#include "doctor/model_private.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* A config with the longest lists of modules has some 200 KB. */
#define MOST_BYTES (2u << 20)
#define MOST_DEPTH 64
#define MOST_HIDDEN (1 << 22)

void model_remark(struct model *model, const char *format, ...)
{
	size_t used = strlen(model->remark), room;
	va_list args;

	if (used && used + 1 < sizeof(model->remark)) {
		model->remark[used++] = ' ';
		model->remark[used] = '\0';
	}
	room = sizeof(model->remark) - used;
	va_start(args, format);
	if ((size_t)vsnprintf(model->remark + used, room, format, args) >= room)
		model->remark[used ? used - 1 : 0] = '\0';
	va_end(args);
}

/* Where in the text a key is: behind the name of the object that it is in. */
static size_t line_of(const struct model_keys *keys, const char *key)
{
	const char *end = keys->text + keys->bytes, *at = keys->text, *found;
	char quoted[64];
	size_t line = 1;

	for (int i = 0; i < 2; i++) {
		int used = snprintf(quoted, sizeof(quoted), "\"%s\"",
				    i ? key : keys->under);

		found = memmem(at, (size_t)(end - at), quoted, (size_t)used);
		if (found)
			at = found;
	}
	for (const char *c = keys->text; c < at; c++)
		line += *c == '\n';
	return line;
}

void model_fail(struct model_keys *keys, const char *key, const char *format,
		...)
{
	char text[256];
	va_list args;

	if (keys->status)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	keys->status = OH__FAIL(OH_ERR_INVALID, "%s:%zu: %s %s; check the file",
				keys->name, line_of(keys, key), key, text);
}

static const char *type_name(const json_t *value)
{
	static const char *const names[] = {
		[JSON_OBJECT] = "an object",	[JSON_ARRAY] = "a list",
		[JSON_STRING] = "a string",	[JSON_INTEGER] = "a number",
		[JSON_REAL] = "a number",	[JSON_TRUE] = "true or false",
		[JSON_FALSE] = "true or false", [JSON_NULL] = "null",
	};

	return names[json_typeof(value)];
}

bool model_number(struct model_keys *keys, const char *key, double most,
		  double *value)
{
	const json_t *item = json_object_get(keys->object, key);
	double number = json_number_value(item);

	if (!item || json_is_null(item) || keys->status)
		return false;
	if (!json_is_number(item))
		model_fail(keys, key, "is %s, a number is due",
			   type_name(item));
	else if (number != floor(number))
		model_fail(keys, key, "is %g, a whole number is due", number);
	else if (number < 0 || number > most)
		model_fail(keys, key, "is %.15g, 0 to %.15g are possible",
			   number, most);
	if (keys->status)
		return false;
	*value = number;
	return true;
}

bool model_bool(struct model_keys *keys, const char *key, bool *value)
{
	const json_t *item = json_object_get(keys->object, key);

	if (!item || json_is_null(item) || keys->status)
		return false;
	if (!json_is_boolean(item)) {
		model_fail(keys, key, "is %s, true or false is due",
			   type_name(item));
		return false;
	}
	*value = json_is_true(item);
	return true;
}

/* Text of a file for output: one line of plain characters. */
static void keep(char *to, size_t room, const char *text)
{
	size_t used = 0;

	for (; *text && used + 1 < room; text++)
		to[used++] = *text >= ' ' && *text < 127 ? *text : '?';
	to[used] = '\0';
}

static const char *string_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

/*
 * Makes JSON of what Python writes: Infinity and NaN become numbers of the same
 * length. Returns the deepest nesting of brackets; both are outside strings
 * only.
 */
static int prepare(char *text, size_t bytes)
{
	int depth = 0, most = 0;
	bool inside = false;

	for (size_t i = 0; i < bytes; i++) {
		if (inside && text[i] == '\\')
			i++;
		else if (text[i] == '"')
			inside = !inside;
		else if (!inside && (text[i] == '{' || text[i] == '['))
			depth++;
		else if (!inside && (text[i] == '}' || text[i] == ']'))
			depth--;
		else if (!inside && bytes - i >= 8 &&
			 !memcmp(text + i, "Infinity", 8))
			memcpy(text + i, "1e99    ", 8);
		else if (!inside && bytes - i >= 3 &&
			 !memcmp(text + i, "NaN", 3))
			memcpy(text + i, "0  ", 3);
		if (depth > most)
			most = depth;
	}
	return most;
}

static const char *skip_mark(const char *text, size_t *bytes)
{
	if (*bytes >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) {
		*bytes -= 3;
		return text + 3;
	}
	return text;
}

static enum oh_status parse_copy(const char *name, char *text, size_t bytes,
				 json_t **root)
{
	int depth = prepare(text, bytes);
	json_error_t error;
	char reason[160];

	if (depth > MOST_DEPTH)
		return OH__FAIL(OH_ERR_INVALID,
				"%s: brackets are nested %d deep; a "
				"config.json has at most %d",
				name, depth, MOST_DEPTH);
	*root = json_loadb(text, bytes,
			   JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL,
			   &error);
	if (*root)
		return OH_OK;
	keep(reason, sizeof(reason), error.text);
	return OH__FAIL(OH_ERR_INVALID,
			"%s:%d: not JSON: %s; give the whole file", name,
			error.line, reason);
}

static enum oh_status parse(const char *name, const char *text, size_t bytes,
			    json_t **root)
{
	const char *body = skip_mark(text, &bytes);
	enum oh_status status;
	char *copy;

	if (bytes > MOST_BYTES)
		return OH__FAIL(OH_ERR_INVALID,
				"%s: it is larger than %u bytes, the most that "
				"a config.json may have",
				name, MOST_BYTES);
	copy = malloc(bytes + 1);
	if (!copy)
		return OH__FAIL_CALL(OH_ERR_SYSTEM, "malloc", errno, "%s",
				     name);
	if (bytes)
		memcpy(copy, body, bytes);
	status = parse_copy(name, copy, bytes, root);
	free(copy);
	if (status || json_is_object(*root))
		return status;
	json_decref(*root);
	*root = NULL;
	return OH__FAIL(OH_ERR_INVALID,
			"%s: JSON, but no object; give the model's config.json",
			name);
}

static bool describes_model(const json_t *object)
{
	return json_object_get(object, "hidden_size") ||
	       json_object_get(object, "num_hidden_layers") ||
	       json_object_get(object, "model_type");
}

/* Models that see or hear keep their language model in an object of its own,
 * sometimes two levels down. */
static void find_decoder(struct model_keys *keys)
{
	static const char *const names[] = {"text_config", "language_config",
					    "llm_config", "thinker_config"};

	for (int level = 0; level < 3; level++) {
		const json_t *inner = NULL;

		for (size_t i = 0; i < 4 && !inner; i++) {
			inner = json_object_get(keys->object, names[i]);
			if (!json_is_object(inner) || !describes_model(inner))
				inner = NULL;
			else
				keys->under = names[i];
		}
		if (!inner)
			return;
		keys->object = inner;
	}
}

/* By the decoder's own model_type, the outer one's, or the class. */
static const struct model_family *
find_family(const json_t *root, const json_t *decoder, struct model *model)
{
	const char *type = string_of(decoder, "model_type");
	const char *outer = string_of(root, "model_type");
	const json_t *classes = json_object_get(root, "architectures");
	const char *class_name = json_string_value(json_array_get(classes, 0));
	const struct model_family *family = NULL;
	char inner[64];

	snprintf(inner, sizeof(inner), "%.40s_text", outer);
	keep(model->family, sizeof(model->family), *type ? type : outer);
	if (*type)
		family = model_family_named(type);
	else if (decoder != root)
		family = model_family_named(inner);
	if (!*type && !family)
		family = model_family_named(outer);
	if (!*type && !*outer && class_name)
		family = model_family_of_class(class_name);
	if (family)
		keep(model->family, sizeof(model->family), family->type);
	return family;
}

/* What the standard keys say even of a family that is not known. */
static void read_basics(struct model_keys *keys, struct model *model)
{
	static const char *const hidden[] = {"hidden_size", "n_embd", "d_model",
					     "dim"};
	static const char *const layers[] = {"num_hidden_layers", "n_layer",
					     "num_layers", "n_layers"};
	double number;

	for (size_t i = 0; i < 4 && !model->hidden; i++) {
		number = 0;
		if (model_number(keys, hidden[i], MOST_HIDDEN, &number))
			model->hidden = (uint64_t)number;
	}
	for (size_t i = 0; i < 4 && !model->layers; i++) {
		number = 0;
		if (model_number(keys, layers[i], MODEL_LAYERS, &number))
			model->layers = (uint64_t)number;
	}
	number = 0;
	if (model_number(keys, "vocab_size", 1 << 28, &number))
		model->vocabulary = (uint64_t)number;
}

/* Bytes of one stored value. Engines run a float32 checkpoint in 16 bits unless
 * they are told otherwise, so activations have 2 bytes there too. */
static double read_dtype(const json_t *root, const json_t *decoder,
			 struct model *model)
{
	static const char *const keys[] = {"dtype", "torch_dtype"};
	const char *text = "";

	for (int i = 0; i < 4 && !*text; i++)
		text = string_of(i < 2 ? decoder : root, keys[i % 2]);
	if (!strncmp(text, "torch.", 6))
		text += 6;
	keep(model->dtype, sizeof(model->dtype), text);
	model->activation_bytes = 2;
	if (!strcmp(text, "float32") || !strcmp(text, "float"))
		return 4;
	return 2;
}

static void read_tied(struct model_keys *keys, const json_t *root,
		      struct model_shape *shape)
{
	struct model_keys outer = *keys;

	shape->tied = shape->family->traits & MODEL_TIED;
	if (model_bool(keys, "tie_word_embeddings", &shape->tied))
		return;
	outer.object = root;
	outer.under = "";
	model_bool(&outer, "tie_word_embeddings", &shape->tied);
	if (!keys->status)
		keys->status = outer.status;
}

/* The parts of the checkpoint that are no part of the count. */
static void remark_rest(const json_t *root, const struct model_shape *shape,
			struct model *model)
{
	if (json_is_object(json_object_get(root, "vision_config")) ||
	    json_is_object(json_object_get(root, "audio_config")))
		model_remark(model, "Vision and audio parts are not counted.");
	if (shape->mtp_layers > 0)
		model_remark(model,
			     "%.0f layer%s for multi-token prediction %s not "
			     "counted.",
			     shape->mtp_layers,
			     shape->mtp_layers > 1 ? "s" : "",
			     shape->mtp_layers > 1 ? "are" : "is");
}

static void read_known(struct model_keys *keys, const json_t *root,
		       const struct model_family *family, double dtype_bytes,
		       struct model *model)
{
	const json_t *quantization =
		json_object_get(keys->object, "quantization_config");
	struct model_shape shape;
	bool complete;

	model->exact = true;
	complete = model_shape_read(keys, family, &shape, model);
	if (keys->status)
		return;
	model->layers = (uint64_t)shape.layers;
	model->hidden = (uint64_t)shape.hidden;
	model->vocabulary = (uint64_t)shape.vocabulary;
	if (!complete) {
		model->exact = false;
		return;
	}
	read_tied(keys, root, &shape);
	if (keys->status)
		return;
	model_count(&shape, model);
	if (!json_is_object(quantization))
		quantization = json_object_get(root, "quantization_config");
	model_quantize(json_is_object(quantization) ? quantization : NULL,
		       dtype_bytes, model);
	remark_rest(root, &shape, model);
}

/*
 * Families that are not counted but whose layers are known: a mixer alone is
 * one layer (Mamba, Nemotron-H), or attention and MLP stand side by side and
 * share a sum (vLLM's falcon.py). A searched architecture leaves parts out.
 */
static void read_sums(struct model_keys *keys, struct model *model)
{
	static const char *const single[] = {"nemotron_h", "mamba", "mamba2",
					     "falcon_mamba"};
	bool once = !strcmp(model->family, "falcon"), newer = false;

	model_bool(keys, "parallel_attn", &once);
	model_bool(keys, "new_decoder_architecture", &newer);
	once = !strcmp(model->family, "falcon") && (once || newer);
	for (size_t i = 0; i < sizeof(single) / sizeof(*single); i++)
		once |= !strcmp(model->family, single[i]);
	if (once)
		model->layers_of_one_sum = model->layers;
	model->sums_unknown = json_object_get(keys->object, "block_configs");
}

static void read_unknown(struct model *model)
{
	if (model->family[0])
		model_remark(model,
			     "%s is no family that this program can count: "
			     "parameters and memory traffic are not known; "
			     "--active-bytes gives them.",
			     model->family);
	else
		model_remark(model, "no model_type: parameters and memory "
				    "traffic are not known; --active-bytes "
				    "gives them.");
}

static enum oh_status read_root(const char *name, const char *text,
				size_t bytes, const json_t *root,
				struct model *model)
{
	struct model_keys keys = {
		.name = name,
		.text = text,
		.bytes = bytes,
		.under = "",
		.object = root,
	};
	const struct model_family *family;
	double dtype_bytes;

	find_decoder(&keys);
	family = find_family(root, keys.object, model);
	dtype_bytes = read_dtype(root, keys.object, model);
	read_basics(&keys, model);
	model->known_family = family;
	if (!keys.status && family)
		read_known(&keys, root, family, dtype_bytes, model);
	else if (!keys.status)
		read_unknown(model);
	if (!keys.status && !family)
		read_sums(&keys, model);
	if (keys.status)
		return keys.status;
	if (!model->hidden || !model->layers)
		return OH__FAIL(OH_ERR_INVALID,
				"%s: no model: %s is missing; give the "
				"config.json of a decoder",
				name,
				model->hidden ? "num_hidden_layers"
					      : "hidden_size");
	return OH_OK;
}

enum oh_status model_read(const char *name, const char *text, size_t bytes,
			  struct model *model)
{
	enum oh_status status;
	struct model read;
	json_t *root = NULL;

	memset(&read, 0, sizeof(read));
	status = parse(name, text, bytes, &root);
	if (status)
		return status;
	status = read_root(name, text, bytes, root, &read);
	json_decref(root);
	if (status)
		return status;
	snprintf(read.file, sizeof(read.file), "%s", name);
	*model = read;
	return OH_OK;
}

bool model_is_config(const char *text, size_t bytes)
{
	static const char *const keys[] = {"\"model_type\"", "\"hidden_size\"",
					   "\"architectures\"",
					   "\"num_hidden_layers\""};

	text = skip_mark(text, &bytes);
	while (bytes && strchr(" \t\r\n", *text) && *text) {
		text++;
		bytes--;
	}
	if (!bytes || *text != '{')
		return false;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (memmem(text, bytes, keys[i], strlen(keys[i])))
			return true;
	return false;
}

/* The part of its parameters that a rank holds. */
static double share_of(const struct model_part *part, int tp)
{
	double ranks = tp > 0 ? tp : 1;

	if (part->replicated)
		return 1;
	if (part->shares > 0 && part->shares < ranks)
		ranks = part->shares;
	return 1 / ranks;
}

double model_active_bytes(const struct model *model, int tp, double batch,
			  double scale)
{
	double bytes = 0;

	for (int i = 0; i < model->part_count; i++) {
		const struct model_part *part = &model->parts[i];
		double read = part->parameters * part->bytes_per_parameter;

		if (part->not_read)
			continue;
		/* the chance that some of the batch goes to an expert */
		if (part->experts > 0)
			read *= 1 - pow(1 - part->used / part->experts, batch);
		bytes += read * share_of(part, tp);
	}
	return bytes * scale;
}
