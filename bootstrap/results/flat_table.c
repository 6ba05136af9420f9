/* flat_table.c - converts JSON rows to a CSV table. */
#include "bootstrap/results/flat_table.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/csv.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char *const omitted_keys[] = {"environment"};

static void put_field(json_t *flat, const char *path, json_t *value);

/* Adds the fields of an object to `flat`, an object that maps the path of a field to its value. Example: the field
 * "p50" of the object at path "time_us" has the path "time_us.p50". The path of the row itself is "". */
static void put_object(json_t *flat, const char *path, json_t *object)
{
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value)
    {
        char *inner = bb_format("%s%s%s", path, *path ? "." : "", key);

        put_field(flat, inner, value);
        free(inner);
    }
}

/* Returns the strings of a list as one string, separated by blanks; NULL if the list contains other values. */
static json_t *join_texts(const json_t *list)
{
    json_t *joined = json_string("");
    const json_t *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        json_t *before = joined;

        joined = json_is_string(one)
                     ? json_sprintf("%s%s%s", json_string_value(before), i ? " " : "", json_string_value(one))
                     : NULL;
        json_decref(before);
        if (!joined)
            break;
    }
    return joined;
}

/* Adds one value, unless it is NULL or the path already has a value: a field of the row takes precedence over an extra
 * field of the same name. */
static void put_cell(json_t *flat, const char *path, json_t *value)
{
    if (!json_object_get(flat, path))
        (void)!json_object_set(flat, path, value);
}

/* Adds the column or columns of the field at this path. */
static void put_field(json_t *flat, const char *path, json_t *value)
{
    const char *dot = strrchr(path, '.'), *key = dot ? dot + 1 : path;
    json_t *joined, *ends;

    for (size_t i = 0; i < sizeof(omitted_keys) / sizeof(*omitted_keys); i++)
        if (strcmp(path, omitted_keys[i]) == 0)
            return;
    if (strcmp(key, "ci95") == 0 || strcmp(key, "ci95_us") == 0) {
        /* A confidence interval has the columns path.low and path.high. If it is null, both values are null, so that
         * the columns do not depend on the values. */
        ends = json_pack("{s:O?, s:O?}", "low", json_array_get(value, 0), "high", json_array_get(value, 1));
        put_object(flat, path, ends);
        json_decref(ends);
    } else if (json_is_object(value)) {
        put_object(flat, path, value);
    } else if (json_is_array(value)) {
        joined = join_texts(value);
        put_cell(flat, path, joined);
        json_decref(joined);
    } else {
        put_cell(flat, path, value);
    }
}

/* Returns whether `name` is an object in another row. For example, "skew" is null in one row and an object in
 * another; then only the fields of the object are columns. */
static bool is_object_elsewhere(json_t *columns, const char *name)
{
    const size_t length = strlen(name);
    const char *other;
    json_t *value;

    json_object_foreach(columns, other, value)
    {
        if (strncmp(other, name, length) == 0 && other[length] == '.')
            return true;
    }
    return false;
}

/* Returns a list of the column names. columns: object whose keys are the paths of the fields of all rows. */
static json_t *column_names(json_t *columns)
{
    json_t *names = json_array(), *value;
    const char *name;

    json_object_foreach(columns, name, value)
    {
        if (!is_object_elsewhere(columns, name))
            json_array_append_new(names, json_string(name));
    }
    return names;
}

/* Returns the values of a row in the order of the columns; null for a column that the row does not have. */
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

/* Columns that identify the run of a document, and their paths in the document. */
static const struct {
    const char *name, *outer, *inner;
} identity[] = {{"command", "command", NULL},
                {"started", "started", NULL},
                {"host", "devices", "host"},
                {"ranks", "ranks", NULL},
                {"nodes", "nodes", NULL},
                {"busbar", "busbar", NULL},
                {"nccl.runtime", "nccl", "runtime"},
                {"cuda.runtime", "cuda", "runtime"},
                {"emulated", "emulated", NULL},
                {"shared_gpu", "shared_gpu", NULL}};

json_t *bb_flat_table_identity(const json_t *document)
{
    json_t *values = json_object();

    for (size_t i = 0; i < sizeof(identity) / sizeof(identity[0]); i++) {
        const json_t *value = json_object_get(document, identity[i].outer);
        json_t *joined = NULL;

        if (strcmp(identity[i].outer, "devices") == 0) /* the host of rank 0 */
            value = json_array_get(value, 0);
        if (identity[i].inner)
            value = json_object_get(value, identity[i].inner);
        else if (json_is_array(value))
            value = joined = join_texts(value);
        json_object_set(values, identity[i].name, value ? (json_t *)value : json_null());
        json_decref(joined);
    }
    return values;
}

void bb_flat_table_write(const json_t *rows, const json_t *document, FILE *out)
{
    json_t *table = json_array(), *columns = json_object(), *names, *row;
    json_t *extra = document ? bb_flat_table_identity(document) : NULL;
    size_t i;

    (void)!json_object_set(extra, "options", json_object_get(document, "options"));
    (void)!json_object_set(extra, "profiles", json_object_get(document, "profiles"));
    (void)!json_object_set(extra, "files", json_object_get(document, "files"));

    json_array_foreach(rows, i, row)
    {
        json_t *flat = json_object();

        put_object(flat, "", row);
        put_object(flat, "", extra);
        (void)!json_object_update_missing(columns, flat);
        json_array_append_new(table, flat);
    }
    put_object(columns, "", extra); /* a table without rows has the columns that identify the run */
    names = column_names(columns);
    json_array_foreach(table, i, row)
    {
        json_array_set_new(table, i, cells_of(row, names));
    }
    bb_csv_write(names, table, out);
    json_decref(names);
    json_decref(columns);
    json_decref(extra);
    json_decref(table);
}
