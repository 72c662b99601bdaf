/* SPDX-License-Identifier: MIT */
/*
 * A model's size from its Hugging Face config.json: how many parameters there
 * are, which of them one token reads, and how a tensor-parallel engine splits
 * them. A family that is not known gives what its keys say and says what they
 * do not.
 */
#ifndef OH_DOCTOR_MODEL_H
#define OH_DOCTOR_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "onehop/onehop.h"

#define MODEL_PARTS 16

/* Tensors that are split and read alike, over all layers. */
struct model_part {
	const char *name; /* "attention", "experts", ... */
	double parameters; /* in all */
	/* of one expert that is one of experts, used of which a token reads;
	 * 0 experts: all are read by every token */
	double experts, used;
	bool replicated; /* every rank holds and reads all of it */
	/* no more ranks than this share it (key and value heads); 0: any */
	double shares;
	bool not_read; /* the embedding table: a row of it only */
	double bytes_per_parameter; /* as stored: 2 for bf16, 0.53125 mxfp4 */
};

struct model {
	char file[192]; /* for evidence; as given to model_read */
	char family[48]; /* model_type */
	bool known_family;
	/* the counts are those of the checkpoint, but for what remark names */
	bool exact;
	char remark[256]; /* what cannot be said, "" if nothing */
	uint64_t layers, hidden, vocabulary; /* 0: not said */
	/* layers whose output is summed over the ranks once, not twice */
	uint64_t layers_of_one_sum;
	bool sums_unknown; /* layers differ, and the file does not say how */
	uint64_t experts, experts_per_token; /* 0: dense */
	bool tied; /* the output head is the embedding table */
	bool counted; /* parameters are known */
	double parameters_total, parameters_active;
	/* the head left out, and the table counted: what others may quote */
	double parameters_active_low, parameters_active_high;
	double bytes_total; /* of the weights as stored, 0: not known */
	/* the sum over the parts; where the quantization is not known its parts
	 * are taken as 16 bits, to be scaled by a checkpoint's size */
	double bytes_counted;
	char dtype[16]; /* activations: "bfloat16" */
	int activation_bytes; /* of one value: 2 */
	char quantization[48]; /* "experts mxfp4, ...", "" if none */
	int part_count;
	struct model_part parts[MODEL_PARTS];
};

/* text is the whole file. OH_ERR_INVALID: no JSON object, or none of a model
 * (oh_last_error says what is missing and where). */
enum oh_status model_read(const char *name, const char *text, size_t bytes,
			  struct model *model);

/* Does a JSON text look like a model's config? */
bool model_is_config(const char *text, size_t bytes);

/*
 * Bytes of weights that one GPU reads for one step of a batch: split tensors by
 * tp, replicated ones in full, experts E(1-(1-k/E)^batch) of a layer. scale is
 * bytes in the checkpoint by bytes as counted, 1 if it is not known.
 */
double model_active_bytes(const struct model *model, int tp, double batch,
			  double scale);

#endif
