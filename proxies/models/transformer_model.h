/*
 * transformer_model.h - a transformer as described by its file in profiles/models: shapes, tensors by formulas, and
 * totals, which are compared with the formulas at every load.
 *
 * Family "pipeline_transformer": three kinds of layers. The first layer also contains the embeddings, the last layer
 * also the output head; all inner layers are equal. Tensors are in the order in which the original program reduces them
 * one by one.
 */
#ifndef BB_PROXIES_MODELS_TRANSFORMER_MODEL_H
#define BB_PROXIES_MODELS_TRANSFORMER_MODEL_H

#include "bootstrap/base/err.h"

#include <jansson.h>
#include <stddef.h>

enum bb_layer_kind { BB_LAYER_INNER, BB_LAYER_FIRST, BB_LAYER_LAST, BB_LAYER_KINDS };

struct bb_tensor {
    const char *name; /* valid as long as the model */
    size_t count;     /* elements                   */
};

struct bb_model_layer {
    struct bb_tensor *tensors;
    int n;
    size_t count; /* elements of these tensors */
};

struct bb_model {
    const char *name, *description;
    int layers, stages, micro_batches; /* defaults for the options */
    int micro_batch, sequence;         /* samples per micro-batch; tokens per sample */
    int hidden, ffn, heads;            /* sizes of a layer */
    size_t message;                    /* elements sent between stages, for activations and for gradients */
    double forward_flops;              /* of one layer and one micro-batch */
    struct bb_model_layer layer[BB_LAYER_KINDS];
    json_t *root; /* owns the texts */
};

/*
 * bb_model_load - load a model by name (profiles/models) or path (see bb_profile_load).
 *   Returns  0, or -BB_EUSAGE after printing one line: unreadable, or a total differs from its formulas
 *   Owner    the caller calls bb_model_release, which also accepts a partly loaded model
 */
int bb_model_load(const char *name_or_path, struct bb_model *model) BB_MUST_CHECK;
void bb_model_release(struct bb_model *model);

/* bb_model_parameters - parameters of the whole model with this number of layers (2 or more). */
double bb_model_parameters(const struct bb_model *model, int layers);

#endif
