/*
 * transformer_model.h - a model as its file in profiles/models describes it: shapes, tensors by formula, and its own
 * totals, which are checked against the formulas whenever it is read, so that no size can drift.
 *
 * Family "pipeline_transformer": layers of three kinds. The first also holds the embeddings, the last also the head;
 * all between are equal. Tensors stand in the order in which the original program reduces them one by one.
 */
#ifndef BB_PROXIES_MODELS_TRANSFORMER_MODEL_H
#define BB_PROXIES_MODELS_TRANSFORMER_MODEL_H

#include "bootstrap/base/err.h"

#include <jansson.h>
#include <stddef.h>

enum bb_layer_kind { BB_LAYER_INNER, BB_LAYER_FIRST, BB_LAYER_LAST, BB_LAYER_KINDS };

struct bb_tensor {
    const char *name; /* lives as long as the model */
    size_t count;     /* elements                   */
};

struct bb_model_layer {
    struct bb_tensor *tensors;
    int n;
    size_t count; /* their sum */
};

struct bb_model {
    const char *name, *description;
    int layers, stages, micro_batches; /* the defaults                                                  */
    int micro_batch, sequence;         /* samples of one micro-batch, tokens of one sample              */
    int hidden, ffn, heads;            /* of a layer                                                    */
    size_t message;                    /* elements from stage to stage, activations and gradients alike */
    double forward_flops;              /* of one layer and one micro-batch                              */
    struct bb_model_layer layer[BB_LAYER_KINDS];
    json_t *root; /* keeps the texts */
};

/* bb_model_load - by name (profiles/models) or path; see bb_profile_load. Unreadable or with a total that its formulas
 * don't give: said, -BB_EUSAGE. release is fine on a half-read one. */
int bb_model_load(const char *name_or_path, struct bb_model *model) BB_MUST_CHECK;
void bb_model_release(struct bb_model *model);

/* bb_model_parameters - of the whole model with that many layers (2 or more). */
double bb_model_parameters(const struct bb_model *model, int layers);

#endif
