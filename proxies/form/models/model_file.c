/* model_file.c - reads the files of profiles/models (see model_file.h). */
#include "proxies/form/models/model_file.h"

#include <math.h>
#include <string.h>

static int read_shapes(struct bb_model_file *s)
{
    json_t *object, *value;
    const char *key;
    int rc = bb_json_object_at(s->root, "shape", s->where, &object);

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

int bb_model_file_load(struct bb_model_file *s, const char *name_or_path, const char **family)
{
    int rc;

    *s = (struct bb_model_file){.where = name_or_path};
    TRY(bb_profile_load("models", name_or_path, &s->root));
    TRY(bb_json_text_at(s->root, "family", name_or_path, family));
out:
    return rc;
}

int bb_model_file_begin(struct bb_model_file *s)
{
    static const char *const keys[] = {"name", "description", "source"};
    const char *text;
    int rc;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        TRY(bb_json_text_at(s->root, keys[i], s->where, &text));
    rc = read_shapes(s);
out:
    return rc;
}

int bb_model_file_open(struct bb_model_file *s, const char *name_or_path, const char *family)
{
    const char *found;
    int rc;

    TRY(bb_model_file_load(s, name_or_path, &found));
    if (strcmp(found, family) != 0)
        return bb_err(BB_EUSAGE, "%s: is a model of family '%s', expected '%s'", name_or_path, found, family);
    rc = bb_model_file_begin(s);
out:
    return rc;
}

void bb_model_file_close(struct bb_model_file *s)
{
    json_decref(s->root);
    *s = (struct bb_model_file){0};
}

static const struct bb_variable *find_variable(const struct bb_model_file *s, const char *name)
{
    for (int v = 0; v < s->n_vars; v++)
        if (strcmp(s->vars[v].name, name) == 0)
            return &s->vars[v];
    return NULL;
}

int bb_model_file_set(struct bb_model_file *s, const char *name, double value)
{
    const struct bb_variable *known = find_variable(s, name);

    if (!known && s->n_vars == BB_MODEL_FILE_VARIABLES)
        return bb_err(BB_EUSAGE,
                      "%s: no space for the variable '%s': formulas have at most %d variables (keys of 'shape')",
                      s->where, name, BB_MODEL_FILE_VARIABLES);
    s->vars[known ? known - s->vars : s->n_vars++] = (struct bb_variable){name, value};
    return 0;
}

int bb_model_file_shape(const struct bb_model_file *s, const char *name, int *value)
{
    const struct bb_variable *known = find_variable(s, name);

    if (!known)
        return bb_err(BB_EUSAGE, "%s: shape '%s' is missing", s->where, name);
    *value = (int)known->value;
    return 0;
}

int bb_model_file_count(const struct bb_model_file *s, const char *formula, size_t *count)
{
    double value;
    int rc = bb_formula(formula, s->vars, s->n_vars, s->where, &value);

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
    int rc = bb_json_text_at(object, key, s->where, &formula);

    return rc ? rc : bb_formula(formula, s->vars, s->n_vars, s->where, value);
}

int bb_model_file_count_at(const struct bb_model_file *s, const json_t *object, const char *key, size_t *count)
{
    const char *formula;
    int rc = bb_json_text_at(object, key, s->where, &formula);

    return rc ? rc : bb_model_file_count(s, formula, count);
}

int bb_model_file_count_in(const struct bb_model_file *s, const json_t *list, const char *key, int i, size_t *count)
{
    const char *formula = json_string_value(json_array_get(list, (size_t)i));

    if (!formula)
        return bb_err(BB_EUSAGE, "%s: element %d of '%s' must be a formula as text", s->where, i, key);
    return bb_model_file_count(s, formula, count);
}

int bb_model_file_named_in(const struct bb_model_file *s, const json_t *list, const char *key, int i, const char **name,
                           size_t *count)
{
    const char *formula;

    if (json_unpack_ex(json_array_get(list, (size_t)i), NULL, JSON_STRICT, "[ss]", name, &formula))
        return bb_err(BB_EUSAGE, "%s: element %d of '%s' must be [\"name\", \"formula\"]", s->where, i, key);
    return bb_model_file_count(s, formula, count);
}

static int read_field(const struct bb_model_file *s, const json_t *object, const struct bb_json_field *f, void *into)
{
    void *at = (char *)into + f->offset;
    const char *key;
    int rc;

    if (f->kind < BB_JSON_KINDS)
        return bb_json_read_field(object, s->where, f, into);
    if (f->kind == BB_MODEL_SHAPE)
        return bb_model_file_shape(s, f->key, at);
    TRY(bb_json_find_parent(object, s->where, f->key, &object, &key));
    rc = f->kind == BB_MODEL_COUNT ? bb_model_file_count_at(s, object, key, at)
                                   : bb_model_file_number_at(s, object, key, at);
out:
    return rc;
}

int bb_model_file_read(const struct bb_model_file *s, const json_t *object, const struct bb_json_field *fields,
                       void *into)
{
    int rc = 0;

    for (; fields->key && rc == 0; fields++)
        rc = read_field(s, object, fields, into);
    return rc;
}
