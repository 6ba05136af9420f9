/* model.c - reads the files of profiles/models: shapes become variables, formulas become counts, totals are compared. */
#include "proxies/model.h"

#include "proxies/formula.h"
#include "proxies/profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SHAPES 32

static const char *const layer_keys[BB_LAYER_KINDS] = {
    [BB_LAYER_INNER] = "inner", [BB_LAYER_FIRST] = "first", [BB_LAYER_LAST] = "last"};

struct shapes {
    struct bb_variable vars[MOST_SHAPES];
    int n;
};

static int read_shapes(const json_t *root, const char *where, struct shapes *shapes)
{
    json_t *object, *value;
    const char *key;
    int rc = bb_profile_object(root, "shape", where, &object);

    if (rc)
        return rc;
    json_object_foreach(object, key, value)
    {
        if (shapes->n == MOST_SHAPES || !json_is_integer(value) || json_integer_value(value) < 1)
            return bb_err(BB_EUSAGE, "%s: shape '%s' must be a whole number above 0 (at most %d shapes)", where, key,
                          MOST_SHAPES);
        shapes->vars[shapes->n++] = (struct bb_variable){key, json_number_value(value)};
    }
    return 0;
}

static int shape(const struct shapes *shapes, const char *name, const char *where, int *out)
{
    for (int v = 0; v < shapes->n; v++)
        if (strcmp(shapes->vars[v].name, name) == 0) {
            *out = (int)shapes->vars[v].value;
            return 0;
        }
    return bb_err(BB_EUSAGE, "%s: shape '%s' is missing", where, name);
}

/* The count that a formula gives: whole, above 0, exact in a double. */
static int count_of(const char *formula, const struct shapes *shapes, const char *where, size_t *count)
{
    double value;
    int rc = bb_formula(formula, shapes->vars, shapes->n, where, &value);

    if (rc)
        return rc;
    if (!(value >= 1 && value <= 0x1p53) || value != floor(value))
        return bb_err(BB_EUSAGE, "%s: '%s' gives %g, expected a whole number above 0", where, formula, value);
    *count = (size_t)value;
    return 0;
}

static int read_layer(const json_t *list, const struct shapes *shapes, const char *where, struct bb_model_layer *layer)
{
    const char *name, *formula;
    json_error_t error;
    int rc;

    layer->tensors = calloc(json_array_size(list) + 1, sizeof(*layer->tensors));
    if (!layer->tensors)
        return bb_err(BB_EFAIL, "out of memory for the tensors of a layer");
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (json_unpack_ex(json_array_get(list, i), &error, JSON_STRICT, "[ss]", &name, &formula))
            return bb_err(BB_EUSAGE, "%s: tensor %zu: %s, expected [\"name\", \"formula\"]", where, i, error.text);
        layer->tensors[i].name = name;
        rc = count_of(formula, shapes, where, &layer->tensors[i].count);
        if (rc)
            return rc;
        layer->count += layer->tensors[i].count;
        layer->n++;
    }
    return layer->n > 0 ? 0 : bb_err(BB_EUSAGE, "%s: a layer without tensors", where);
}

static int same_total(const char *where, const char *what, double given, double derived)
{
    if (given == derived)
        return 0;
    return bb_err(BB_EUSAGE, "%s: the total of '%s' is given as %.0f, its formulas make %.0f", where, what, given,
                  derived);
}

static int check_total(const json_t *totals, const char *key, const char *where, double derived)
{
    double given;
    int rc = bb_profile_number(totals, key, where, 0, &given);

    return rc ? rc : same_total(where, key, given, derived);
}

static int check_totals(const json_t *root, const char *where, const struct bb_model *model)
{
    json_t *totals, *parameters, *value;
    const char *layers;
    int rc;

    TRY(bb_profile_object(root, "totals", where, &totals));
    TRY(check_total(totals, "message", where, (double)model->message));
    for (int k = 0; k < BB_LAYER_KINDS; k++)
        TRY(check_total(totals, layer_keys[k], where, (double)model->layer[k].count));
    TRY(bb_profile_object(totals, "parameters", where, &parameters));
    json_object_foreach(parameters, layers, value)
        TRY(same_total(where, layers, json_number_value(value), bb_model_parameters(model, atoi(layers))));
out:
    return rc;
}

static int read_defaults(const json_t *root, const char *where, struct bb_model *model)
{
    double layers, stages, micro_batches;
    json_t *defaults;
    int rc;

    TRY(bb_profile_object(root, "defaults", where, &defaults));
    TRY(bb_profile_number(defaults, "layers", where, 2, &layers));
    TRY(bb_profile_number(defaults, "stages", where, 2, &stages));
    TRY(bb_profile_number(defaults, "micro_batches", where, 1, &micro_batches));
    model->layers = (int)layers;
    model->stages = (int)stages;
    model->micro_batches = (int)micro_batches;
out:
    return rc;
}

static int read_sizes(const json_t *root, const char *where, const struct shapes *shapes, struct bb_model *model)
{
    const char *message, *flops;
    json_t *tensors;
    int rc;

    TRY(shape(shapes, "micro_batch", where, &model->micro_batch));
    TRY(shape(shapes, "sequence", where, &model->sequence));
    TRY(bb_profile_string(root, "message", where, &message));
    TRY(count_of(message, shapes, where, &model->message));
    TRY(bb_profile_string(root, "forward_flops", where, &flops));
    TRY(bb_formula(flops, shapes->vars, shapes->n, where, &model->forward_flops));
    TRY(bb_profile_object(root, "tensors", where, &tensors));
    for (int k = 0; k < BB_LAYER_KINDS; k++)
        TRY(read_layer(json_object_get(tensors, layer_keys[k]), shapes, where, &model->layer[k]));
out:
    return rc;
}

int bb_model_load(const char *word, struct bb_model *model)
{
    struct shapes shapes = {.n = 0};
    const char *source;
    int rc;

    *model = (struct bb_model){0};
    TRY(bb_profile_load("models", word, &model->root));
    TRY(bb_profile_string(model->root, "name", word, &model->name));
    TRY(bb_profile_string(model->root, "description", word, &model->description));
    TRY(bb_profile_string(model->root, "source", word, &source));
    TRY(read_defaults(model->root, word, model));
    TRY(read_shapes(model->root, word, &shapes));
    TRY(read_sizes(model->root, word, &shapes, model));
    TRY(check_totals(model->root, word, model));
out:
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
