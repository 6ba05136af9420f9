/* model_file.c - reading the files of profiles/models (see model_file.h). */
#include "proxies/models/model_file.h"

#include <math.h>
#include <string.h>

static int read_shapes(struct bb_model_file *s)
{
    json_t *object, *value;
    const char *key;
    int rc = bb_profile_object(s->root, "shape", s->where, &object);

    if (rc)
        return rc;
    json_object_foreach(object, key, value)
    {
        if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > 1000000000)
            return bb_err(BB_EUSAGE, "%s: shape '%s' must be a whole number from 1 to 1000000000", s->where, key);
        TRY(bb_model_file_set(s, key, json_number_value(value)));
    }
out:
    return rc;
}

int bb_model_file_open(struct bb_model_file *s, const char *word, const char *family)
{
    const char *found, *text;
    int rc;

    *s = (struct bb_model_file){.where = word};
    TRY(bb_profile_load("models", word, &s->root));
    TRY(bb_profile_string(s->root, "name", word, &text));
    TRY(bb_profile_string(s->root, "description", word, &text));
    TRY(bb_profile_string(s->root, "source", word, &text));
    TRY(bb_profile_string(s->root, "family", word, &found));
    if (strcmp(found, family) != 0)
        rc = bb_err(BB_EUSAGE, "%s: a model of family '%s', expected '%s'", word, found, family);
    else
        rc = read_shapes(s);
out:
    return rc;
}

void bb_model_file_close(struct bb_model_file *s)
{
    json_decref(s->root);
    *s = (struct bb_model_file){0};
}

static const struct bb_variable *variable(const struct bb_model_file *s, const char *name)
{
    for (int v = 0; v < s->n_vars; v++)
        if (strcmp(s->vars[v].name, name) == 0)
            return &s->vars[v];
    return NULL;
}

int bb_model_file_set(struct bb_model_file *s, const char *name, double value)
{
    const struct bb_variable *known = variable(s, name);

    if (!known && s->n_vars == BB_MODEL_FILE_VARIABLES)
        return bb_err(BB_EUSAGE, "%s: more than %d shapes", s->where, BB_MODEL_FILE_VARIABLES);
    s->vars[known ? known - s->vars : s->n_vars++] = (struct bb_variable){name, value};
    return 0;
}

int bb_model_file_shape(const struct bb_model_file *s, const char *name, int *value)
{
    const struct bb_variable *known = variable(s, name);

    if (!known)
        return bb_err(BB_EUSAGE, "%s: shape '%s' is missing", s->where, name);
    *value = (int)known->value;
    return 0;
}

int bb_model_file_formula(const struct bb_model_file *s, const char *formula, double *value)
{
    return bb_formula(formula, s->vars, s->n_vars, s->where, value);
}

int bb_model_file_count(const struct bb_model_file *s, const char *formula, size_t *count)
{
    double value;
    int rc = bb_model_file_formula(s, formula, &value);

    if (rc)
        return rc;
    if (!(value >= 1 && value <= 0x1p53) || value != floor(value))
        return bb_err(BB_EUSAGE, "%s: '%s' gives %g, expected a whole number above 0", s->where, formula, value);
    *count = (size_t)value;
    return 0;
}

int bb_model_file_number_at(const struct bb_model_file *s, const json_t *object, const char *key, double *value)
{
    const char *formula;
    int rc = bb_profile_string(object, key, s->where, &formula);

    return rc ? rc : bb_model_file_formula(s, formula, value);
}

int bb_model_file_count_at(const struct bb_model_file *s, const json_t *object, const char *key, size_t *count)
{
    const char *formula;
    int rc = bb_profile_string(object, key, s->where, &formula);

    return rc ? rc : bb_model_file_count(s, formula, count);
}

int bb_model_file_list(const struct bb_model_file *s, const json_t *object, const char *key, int n, const json_t **list,
                       int *n_found)
{
    int found;

    *list = json_object_get(object, key);
    if (!json_is_array(*list))
        return bb_err(BB_EUSAGE, "%s: '%s' is missing or no list", s->where, key);
    found = (int)json_array_size(*list);
    if (n >= 0 ? found != n : found < 1 || found > -n)
        return bb_err(BB_EUSAGE, "%s: '%s' has %d elements, expected %s%d", s->where, key, found, n < 0 ? "1 to " : "",
                      n < 0 ? -n : n);
    if (n_found)
        *n_found = found;
    return 0;
}

int bb_model_file_numbers(const struct bb_model_file *s, const json_t *object, const char *key, int n, double *numbers)
{
    const json_t *list, *value;
    int rc = bb_model_file_list(s, object, key, n, &list, NULL);

    for (int i = 0; rc == 0 && i < n; i++) {
        value = json_array_get(list, (size_t)i);
        numbers[i] = json_number_value(value);
        if (!json_is_number(value) || numbers[i] < 0)
            rc = bb_err(BB_EUSAGE, "%s: element %d of '%s' is no number from 0", s->where, i, key);
    }
    return rc;
}

int bb_model_file_same(const struct bb_model_file *s, const char *what, double given, double derived)
{
    if (given == derived)
        return 0;
    return bb_err(BB_EUSAGE, "%s: the total of '%s' is given as %.0f, its formulas make %.0f", s->where, what, given,
                  derived);
}

int bb_model_file_total(const struct bb_model_file *s, const json_t *totals, const char *key, double derived)
{
    double given;
    int rc = bb_profile_number(totals, key, s->where, 0, &given);

    return rc ? rc : bb_model_file_same(s, key, given, derived);
}

int bb_model_file_totals(const struct bb_model_file *s, const json_t *totals, const char *key, const size_t *derived,
                         int n)
{
    const json_t *list;
    int rc = bb_model_file_list(s, totals, key, n, &list, NULL);

    for (int i = 0; rc == 0 && i < n; i++)
        rc = bb_model_file_same(s, key, json_number_value(json_array_get(list, (size_t)i)), (double)derived[i]);
    return rc;
}
