/* transformer_model.c - reads the files of profiles/models: shapes become variables, formulas become counts, totals are
 * compared.
 */
#include "proxies/models/transformer_model.h"

#include "proxies/models/model_file.h"

#include <stdlib.h>

static const char *const layer_keys[BB_LAYER_KINDS] = {
    [BB_LAYER_INNER] = "inner", [BB_LAYER_FIRST] = "first", [BB_LAYER_LAST] = "last"};

static int read_layer(const struct bb_model_file *sheet, const json_t *list, struct bb_model_layer *layer)
{
    const char *name, *formula;
    json_error_t error;
    int rc;

    layer->tensors = calloc(json_array_size(list) + 1, sizeof(*layer->tensors));
    if (!layer->tensors)
        return bb_err(BB_EFAIL, "out of memory for the tensors of a layer");
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (json_unpack_ex(json_array_get(list, i), &error, JSON_STRICT, "[ss]", &name, &formula))
            return bb_err(BB_EUSAGE, "%s: tensor %zu: %s, expected [\"name\", \"formula\"]", sheet->where, i,
                          error.text);
        layer->tensors[i].name = name;
        rc = bb_model_file_count(sheet, formula, &layer->tensors[i].count);
        if (rc)
            return rc;
        layer->count += layer->tensors[i].count;
        layer->n++;
    }
    return layer->n > 0 ? 0 : bb_err(BB_EUSAGE, "%s: a layer without tensors", sheet->where);
}

static int check_totals(const struct bb_model_file *sheet, const struct bb_model *model)
{
    json_t *totals, *parameters, *value;
    const char *layers;
    int rc;

    TRY(bb_profile_object(sheet->root, "totals", sheet->where, &totals));
    TRY(bb_model_file_total(sheet, totals, "message", (double)model->message));
    for (int k = 0; k < BB_LAYER_KINDS; k++)
        TRY(bb_model_file_total(sheet, totals, layer_keys[k], (double)model->layer[k].count));
    TRY(bb_profile_object(totals, "parameters", sheet->where, &parameters));
    json_object_foreach(parameters, layers, value)
        TRY(bb_model_file_same(sheet, layers, json_number_value(value), bb_model_parameters(model, atoi(layers))));
out:
    return rc;
}

static int read_defaults(const struct bb_model_file *sheet, struct bb_model *model)
{
    double layers, stages, micro_batches;
    json_t *defaults;
    int rc;

    TRY(bb_profile_object(sheet->root, "defaults", sheet->where, &defaults));
    TRY(bb_profile_number(defaults, "layers", sheet->where, 2, &layers));
    TRY(bb_profile_number(defaults, "stages", sheet->where, 2, &stages));
    TRY(bb_profile_number(defaults, "micro_batches", sheet->where, 1, &micro_batches));
    model->layers = (int)layers;
    model->stages = (int)stages;
    model->micro_batches = (int)micro_batches;
out:
    return rc;
}

static int read_sizes(const struct bb_model_file *sheet, struct bb_model *model)
{
    json_t *tensors;
    int rc;

    TRY(bb_model_file_shape(sheet, "micro_batch", &model->micro_batch));
    TRY(bb_model_file_shape(sheet, "h", &model->hidden));
    TRY(bb_model_file_shape(sheet, "ffn", &model->ffn));
    TRY(bb_model_file_shape(sheet, "heads", &model->heads));
    TRY(bb_model_file_shape(sheet, "sequence", &model->sequence));
    TRY(bb_model_file_count_at(sheet, sheet->root, "message", &model->message));
    TRY(bb_model_file_number_at(sheet, sheet->root, "forward_flops", &model->forward_flops));
    TRY(bb_profile_object(sheet->root, "tensors", sheet->where, &tensors));
    for (int k = 0; k < BB_LAYER_KINDS; k++)
        TRY(read_layer(sheet, json_object_get(tensors, layer_keys[k]), &model->layer[k]));
out:
    return rc;
}

int bb_model_load(const char *word, struct bb_model *model)
{
    struct bb_model_file sheet;
    int rc;

    *model = (struct bb_model){0};
    TRY(bb_model_file_open(&sheet, word, "pipeline_transformer"));
    TRY(bb_profile_string(sheet.root, "name", word, &model->name));
    TRY(bb_profile_string(sheet.root, "description", word, &model->description));
    TRY(read_defaults(&sheet, model));
    TRY(read_sizes(&sheet, model));
    TRY(check_totals(&sheet, model));
out:
    model->root = sheet.root; /* the model keeps the texts */
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
