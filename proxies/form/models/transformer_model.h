/*
 * transformer_model.h - a transformer, read from its file in profiles/models. The file contains shapes, formulas for
 * the sizes of the tensors, and totals. The totals are compared with the results of the formulas whenever the file is
 * loaded.
 *
 * The model family "pipeline_transformer" has three kinds of layers. The first layer also contains the embeddings, the
 * last layer also contains the output head, and all inner layers are equal. Tensors are listed in the order in which
 * the published program that the proxy reproduces reduces their gradients.
 */
#ifndef BB_PROXIES_FORM_MODELS_TRANSFORMER_MODEL_H
#define BB_PROXIES_FORM_MODELS_TRANSFORMER_MODEL_H

#include "bootstrap/base/err.h"

#include <jansson.h>
#include <stddef.h>

enum bb_layer_kind { BB_LAYER_INNER, BB_LAYER_FIRST, BB_LAYER_LAST, BB_LAYER_KINDS };

struct bb_tensor {
    const char *name; /* valid until the model is released */
    size_t count;     /* number of elements */
};

struct bb_model_layer {
    struct bb_tensor *tensors;
    int n;
    size_t count; /* total number of elements of these tensors */
};

struct bb_model {
    const char *name, *description;
    int layers, stages, micro_batches; /* default values of the command line options --layers, --stages and
                                          --micro-batches */
    int micro_batch, sequence;         /* samples per micro-batch; tokens per sample */
    int hidden, ffn, heads;            /* hidden size, hidden size of the MLP, attention heads */
    size_t message;       /* number of elements of one message between pipeline stages: activations or gradients of one
                       micro-batch */
    double forward_flops; /* FLOP of the forward pass of one layer for one micro-batch */
    struct bb_model_layer layer[BB_LAYER_KINDS];
    json_t *root; /* parsed JSON of the file, which owns the strings above */
};

/*
 * bb_model_load - loads a model by name (profiles/models) or path (see bb_profile_load).
 *   Returns  0, or -BB_EUSAGE after printing an error message: the file cannot be read, or a total differs from the
 *            result of the formulas
 *   Owner    the caller calls bb_model_release, which also accepts a partly loaded model
 */
int bb_model_load(const char *name_or_path, struct bb_model *model) BB_MUST_CHECK;
void bb_model_release(struct bb_model *model);

/* bb_model_parameters - returns the number of parameters of the whole model with `layers` layers (at least 2). */
double bb_model_parameters(const struct bb_model *model, int layers);

#endif
