/* transformer_model.c - reads models of family "pipeline_transformer" (see transformer_model.h). */
#include "proxies/form/models/transformer_model.h"

#include "bootstrap/base/alloc.h"
#include "proxies/form/models/model_file.h"

#include <stdlib.h>

#define MAX_TENSORS 1024 /* maximum number of tensors per layer */

static const char *const layer_keys[BB_LAYER_KINDS] = {
    [BB_LAYER_INNER] = "inner", [BB_LAYER_FIRST] = "first", [BB_LAYER_LAST] = "last"};

#define AT(member) offsetof(struct bb_model, member)
#define MAX_COUNT  1e9 /* maximum number of layers, of stages and of micro-batches */

static const struct bb_json_field fields[] = {
    BB_FIELD("name", BB_JSON_TEXT, AT(name)),
    BB_FIELD("description", BB_JSON_TEXT, AT(description)),
    BB_FIELD("defaults.layers", BB_JSON_WHOLE, AT(layers), .min = 2, .max = MAX_COUNT),
    BB_FIELD("defaults.stages", BB_JSON_WHOLE, AT(stages), .min = 2, .max = MAX_COUNT),
    BB_FIELD("defaults.micro_batches", BB_JSON_WHOLE, AT(micro_batches), .min = 1, .max = MAX_COUNT),
    BB_FIELD("micro_batch", BB_MODEL_SHAPE, AT(micro_batch)),
    BB_FIELD("h", BB_MODEL_SHAPE, AT(hidden)),
    BB_FIELD("ffn", BB_MODEL_SHAPE, AT(ffn)),
    BB_FIELD("heads", BB_MODEL_SHAPE, AT(heads)),
    BB_FIELD("sequence", BB_MODEL_SHAPE, AT(sequence)),
    BB_FIELD("message", BB_MODEL_COUNT, AT(message)),
    BB_FIELD("forward_flops", BB_MODEL_FORMULA, AT(forward_flops)),
    BB_FIELD("totals.message", BB_JSON_COUNT_TOTAL, AT(message)),
    {0}};

static const struct bb_json_field layer_totals[] = {
    BB_FIELD("totals.inner", BB_JSON_COUNT_TOTAL, AT(layer[BB_LAYER_INNER].count)),
    BB_FIELD("totals.first", BB_JSON_COUNT_TOTAL, AT(layer[BB_LAYER_FIRST].count)),
    BB_FIELD("totals.last", BB_JSON_COUNT_TOTAL, AT(layer[BB_LAYER_LAST].count)),
    {0}};

static int read_layer(const struct bb_model_file *file, const json_t *tensors, const char *key,
                      struct bb_model_layer *layer)
{
    const json_t *list;
    int n, rc;

    TRY(bb_json_list_at(tensors, key, file->where, -MAX_TENSORS, &list, &n));
    BB_NEW(layer->tensors, n);
    for (; layer->n < n; layer->n++) {
        struct bb_tensor *t = &layer->tensors[layer->n];

        TRY(bb_model_file_named_in(file, list, key, layer->n, &t->name, &t->count));
        layer->count += t->count;
    }
out:
    return rc;
}

static int read_layers(const struct bb_model_file *file, struct bb_model *model)
{
    json_t *tensors, *parameters, *value;
    const json_t *totals;
    const char *layers;
    int rc;

    TRY(bb_json_object_at(file->root, "tensors", file->where, &tensors));
    for (int k = 0; k < BB_LAYER_KINDS; k++)
        TRY(read_layer(file, tensors, layer_keys[k], &model->layer[k]));
    TRY(bb_json_read(file->root, file->where, layer_totals, model));
    totals = json_object_get(file->root, "totals");
    TRY(bb_json_object_at(totals, "parameters", file->where, &parameters));
    json_object_foreach(parameters, layers, value) TRY(
        bb_json_check_total(file->where, layers, json_number_value(value), bb_model_parameters(model, atoi(layers))));
out:
    return rc;
}

int bb_model_load(const char *name_or_path, struct bb_model *model)
{
    struct bb_model_file file;
    int rc;

    *model = (struct bb_model){0};
    TRY(bb_model_file_open(&file, name_or_path, "pipeline_transformer"));
    TRY(bb_model_file_read(&file, file.root, fields, model));
    TRY(read_layers(&file, model));
out:
    model->root = file.root; /* set even after an error, because bb_model_release releases root */
    if (rc)
        bb_model_release(model);
    return rc;
}

void bb_model_release(struct bb_model *model)
{
    for (int k = 0; k < BB_LAYER_KINDS; k++)
        free(model->layer[k].tensors);
    json_decref(model->root);
    *model = (struct bb_model){0};
}

double bb_model_parameters(const struct bb_model *model, int layers)
{
    return (double)model->layer[BB_LAYER_FIRST].count + (double)model->layer[BB_LAYER_LAST].count +
           (double)model->layer[BB_LAYER_INNER].count * (layers - 2);
}
