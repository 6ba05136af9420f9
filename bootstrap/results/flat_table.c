/* flat_table.c - flattens JSON rows into a table. */
#include "bootstrap/results/flat_table.h"

#include "bootstrap/base/csv.h"

#include <stdlib.h>
#include <string.h>

enum { PATH_TEXT = 256 };

static const char *const omitted_keys[] = {"options", "environment"};

static void put_field(struct bb_flat_table *t, json_t *flat, const char *path, json_t *value);

/* Adds the fields of an object. The field "p50" of the object at path "time_us" has the path "time_us.p50"; the path
 * of the top level is "". */
static void put_object(struct bb_flat_table *t, json_t *flat, const char *path, const json_t *object)
{
    const char *key;
    json_t *value;
    char inner[PATH_TEXT];

    json_object_foreach((json_t *)object, key, value)
    {
        snprintf(inner, sizeof(inner), "%s%s%s", path, *path ? "." : "", key);
        put_field(t, flat, inner, value);
    }
}

static void put_cell(struct bb_flat_table *t, json_t *flat, const char *path, json_t *value)
{
    if (json_object_get(flat, path))
        return; /* keeps the first value of a name, so a field of the row takes precedence over an extra field of the
                   same name */
    if (!json_object_get(t->columns, path) && json_object_set_new(t->columns, path, json_true()))
        t->failed = true;
    if (json_object_set(flat, path, value))
        t->failed = true;
}

static bool is_interval(const char *path)
{
    const char *key = strrchr(path, '.');

    key = key ? key + 1 : path;
    return strcmp(key, "ci95") == 0 || strcmp(key, "ci95_us") == 0;
}

/* Adds the cells path.low and path.high of an interval. If the interval is null, both cells are null, so that the
 * columns do not depend on the values. */
static void put_interval(struct bb_flat_table *t, json_t *flat, const char *path, const json_t *pair)
{
    json_t *ends = json_pack("{s:O?, s:O?}", "low", json_array_get(pair, 0), "high", json_array_get(pair, 1));

    t->failed |= !ends;
    put_object(t, flat, path, ends);
    json_decref(ends);
}

static bool is_list_of_texts(const json_t *list)
{
    const json_t *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        if (!json_is_string(one))
            return false;
    }
    return true;
}

static void put_texts(struct bb_flat_table *t, json_t *flat, const char *path, const json_t *list)
{
    json_t *joined = json_string(""), *longer;
    const json_t *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        longer = json_sprintf("%s%s%s", json_string_value(joined), i ? " " : "", json_string_value(one));
        json_decref(joined);
        joined = longer;
        t->failed |= !longer;
    }
    put_cell(t, flat, path, joined);
    json_decref(joined);
}

static void put_field(struct bb_flat_table *t, json_t *flat, const char *path, json_t *value)
{
    for (size_t i = 0; i < sizeof(omitted_keys) / sizeof(*omitted_keys); i++)
        if (strcmp(path, omitted_keys[i]) == 0)
            return;
    if (is_interval(path))
        put_interval(t, flat, path, value);
    else if (json_is_object(value))
        put_object(t, flat, path, value);
    else if (!json_is_array(value))
        put_cell(t, flat, path, value);
    else if (is_list_of_texts(value))
        put_texts(t, flat, path, value);
}

void bb_flat_table_add(struct bb_flat_table *t, const json_t *row, const json_t *extra)
{
    json_t *flat = json_object();

    t->columns = t->columns ? t->columns : json_object();
    t->rows = t->rows ? t->rows : json_array();
    put_object(t, flat, "", row);
    put_object(t, flat, "", extra);
    if (json_array_append_new(t->rows, flat))
        t->failed = true;
}

/* Returns whether `name` is an object in another row. For example, "skew" is null in one row and an object in
 * another; then only the fields of the object are columns. */
static bool is_object_elsewhere(const json_t *columns, const char *name)
{
    const size_t length = strlen(name);
    const char *other;
    json_t *value;

    json_object_foreach((json_t *)columns, other, value)
    {
        if (strncmp(other, name, length) == 0 && other[length] == '.')
            return true;
    }
    return false;
}

static json_t *column_names(const struct bb_flat_table *t)
{
    json_t *names = json_array(), *value;
    const char *name;

    json_object_foreach(t->columns, name, value)
    {
        if (!is_object_elsewhere(t->columns, name))
            json_array_append_new(names, json_string(name));
    }
    return names;
}

static json_t *cells_of(const json_t *flat, const json_t *names)
{
    json_t *cells = json_array();
    const json_t *name;
    size_t i;

    json_array_foreach(names, i, name)
    {
        json_t *value = json_object_get(flat, json_string_value(name));

        json_array_append(cells, value ? value : json_null());
    }
    return cells;
}

int bb_flat_table_write(const struct bb_flat_table *t, FILE *out)
{
    json_t *names = column_names(t), *rows = json_array();
    const json_t *flat;
    size_t i;
    bool bad = t->failed || !names || !rows;

    json_array_foreach(t->rows, i, flat)
    {
        bad = json_array_append_new(rows, cells_of(flat, names)) || bad;
    }
    if (!bad)
        bb_csv_write(names, rows, out);
    json_decref(names);
    json_decref(rows);
    return bad ? bb_err(BB_EFAIL, "out of memory for the table") : 0;
}

void bb_flat_table_release(struct bb_flat_table *t)
{
    json_decref(t->columns);
    json_decref(t->rows);
    *t = (struct bb_flat_table){0};
}
