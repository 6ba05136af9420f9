/* collect.c - reads the results of a study (a set of benchmark runs) and builds the rows of its table. Each table
 * row shows one element of the JSON array results[] of one run. */
#include "bootstrap/sweep/collect.h"

#include "bootstrap/base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Default columns for each result schema (such as busbar.bench/1), used if the study file has no key "columns". A
 * table contains only the columns for which at least one result has a value. */
static const struct default_columns {
    const char *command, *schema;
    const char *const *paths; /* JSON paths of the values, ends with NULL */
} default_columns[] = {
    {"bench", "busbar.bench/1",
     (const char *const[]){"collective",
                           "metric",
                           "step",
                           "what",
                           "name",
                           "direction",
                           "from",
                           "to",
                           "parts",
                           "bytes",
                           "dtype",
                           "op",
                           "root",
                           "placement",
                           "mode",
                           "max_ctas",
                           "group",
                           "time_us.p50",
                           "algbw_gbps",
                           "busbw_gbps",
                           "gbps",
                           "compute_alone_us.p50",
                           "comm_alone_us.p50",
                           "both_us.p50",
                           "overlap_efficiency",
                           "tflops",
                           "wrong",
                           "algorithm",
                           "protocol",
                           "channels",
                           NULL}},
    {"proxy", "busbar.proxy/1",
     (const char *const[]){"proxy", "step_us.p50", "samples_per_s", "scaling.images_per_s", "breakdown.compute_us",
                           "breakdown.comm_us", "breakdown.exposed_us", "breakdown.idle_us",
                           "breakdown.overlap_fraction", "overlap.overlap_efficiency", "model_flop_utilisation",
                           "check.wrong", NULL}},
    {"proxy all", "busbar.proxies/1",
     (const char *const[]){"proxy", "step_us.p50", "breakdown.compute_us", "breakdown.comm_us", "breakdown.exposed_us",
                           NULL}},
    {"plan", "busbar.plan/1",
     (const char *const[]){"proxy", "predicted.step_us", "predicted.breakdown.compute_us",
                           "predicted.breakdown.comm_us", "predicted.breakdown.exposed_us", NULL}},
};
enum { N_DEFAULTS = sizeof(default_columns) / sizeof(default_columns[0]) };

/* Keys that identify a measurement within results[] of a run. A column with relative_to contains ratios: the value
 * of a table row divided by the value of its reference row. The reference row is in the results of the run that
 * relative_to selects, and has the same values of all these keys. */
static const char *const identity[] = {"collective", "metric", "step",  "direction", "from",  "to",   "parts",
                                       "bytes",      "root",   "group", "placement", "cycle", "mode", "max_ctas"};

/* ---- values of results ---- */

/* Returns the value at a path such as "step_us.p50" or "groups.0.bytes", borrowed; NULL if the path does not exist. */
static const json_t *follow_path(const json_t *from, const char *path)
{
    char key[128];

    while (from && *path) {
        size_t length = strcspn(path, ".");

        snprintf(key, sizeof(key), "%.*s", (int)length, path);
        from = json_is_array(from) ? json_array_get(from, (size_t)atol(key)) : json_object_get(from, key);
        path += length + (path[length] == '.');
    }
    return from;
}

/* Returns whether a JSON value can be shown in a table cell: text, number, Boolean and, if null_counts, also null. */
static bool is_cell(const json_t *value, bool null_counts)
{
    return value && !json_is_object(value) && !json_is_array(value) && (null_counts || !json_is_null(value));
}

/* Returns the scalar at a path in `row`, an element of results[]. If the path does not exist there, returns the
 * scalar in `result`, the complete document of the run; NULL if neither contains a scalar at the path. */
static const json_t *cell_value(const json_t *result, const json_t *row, const char *path)
{
    const json_t *value = row ? follow_path(row, path) : NULL;

    value = value ? value : follow_path(result, path);
    return is_cell(value, false) ? value : NULL;
}

static const json_t *rows_in(const json_t *result)
{
    const json_t *rows = json_object_get(result, "results");

    return json_is_array(rows) ? rows : NULL;
}

/* ---- choice of the columns ---- */

struct column {
    char *name; /* owned */
    const char *path;
    /* JSON object (axis, such as "ranks" -> value) that selects a reference run: the column contains the ratio of the
     * run's value at `path` to that of the reference run. NULL: the column contains the value at `path` */
    const json_t *relative_to;
};

/* Columns that contain values from the results. The table also has columns for the axes (varied options, variables and
 * ranks) and for the state of each run, which are not in this struct. */
struct table {
    struct column *column;
    size_t n;
};

/* Returns whether a result has a scalar at the path in an element of results[] or, if there is no results[], at its top
 * level. user_column: the path is from "columns" in the study file. Such a path may also be at the top level of a
 * result with results[], and null counts as a scalar, because a path that leads to null is spelled correctly. */
static bool has_value(const json_t *result, const char *path, bool user_column)
{
    const json_t *rows = rows_in(result), *row;
    size_t i;

    if ((!rows || user_column) && is_cell(follow_path(result, path), user_column))
        return true;
    json_array_foreach(rows, i, row)
    {
        if (is_cell(follow_path(row, path), user_column))
            return true;
    }
    return false;
}

static bool any_result_has(const struct bb_gathered *g, const char *schema, const char *path)
{
    for (size_t i = 0; i < g->combinations->n; i++) {
        const json_t *result = g->found[i].result;
        const char *result_schema = json_string_value(json_object_get(result, "schema"));

        if (result_schema && strcmp(result_schema, schema) == 0 && has_value(result, path, false))
            return true;
    }
    return false;
}

/* Adds a column, unless a column with the same name exists. Takes ownership of `name`. */
static void add_column(struct table *t, char *name, const char *path, const json_t *relative_to)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->column[i].name, name) == 0) {
            free(name);
            return;
        }
    BB_GROW(t->column, t->n);
    t->column[t->n++] = (struct column){name, path, relative_to};
}

/* Returns the column name for the path of a value, owned by the caller: "step_us" for "step_us.p50"; other paths are
 * unchanged. */
static char *short_name(const char *path)
{
    size_t length = strlen(path);
    bool is_median = length > 4 && strcmp(path + length - 4, ".p50") == 0;

    return bb_format("%.*s", (int)(is_median ? length - 4 : length), path);
}

/* Returns the name of a column with relative_to, for example "step_us.p50 over ranks=1", owned by the caller. */
static char *relative_name(const char *path, const json_t *relative_to)
{
    char text[400], value_text[BB_SETTING_TEXT];
    const char *axis;
    json_t *value;
    size_t used = (size_t)snprintf(text, sizeof(text), "%.100s over", path);

    json_object_foreach((json_t *)relative_to, axis, value)
    {
        if (used < sizeof(text))
            used += (size_t)snprintf(text + used, sizeof(text) - used, " %.80s=%.80s", axis,
                                     bb_setting_text(value, value_text));
    }
    return bb_copy_text(text);
}

/* Warns if no result has a scalar at a column's path, which is probably misspelled. Prints no warning while results
 * are missing. */
static void warn_if_empty(const struct bb_gathered *g, const char *path)
{
    for (size_t i = 0; i < g->combinations->n; i++)
        if (!g->found[i].result || has_value(g->found[i].result, path, true))
            return;
    bb_warn("%s: no result has '%s', so that column is empty", g->study->path, path);
}

static const char *path_of(const json_t *column)
{
    return json_string_value(json_is_string(column) ? column : json_object_get(column, "value"));
}

/* Returns the name of a column of the study file, owned by the caller: "name", or a name derived from the path. */
static char *user_column_name(const json_t *column)
{
    const char *name = json_string_value(json_object_get(column, "name"));
    const json_t *relative_to = json_object_get(column, "relative_to");

    if (name)
        return bb_copy_text(name);
    return relative_to ? relative_name(path_of(column), relative_to) : short_name(path_of(column));
}

static void add_user_column(const struct bb_gathered *g, struct table *t, const json_t *column)
{
    warn_if_empty(g, path_of(column));
    add_column(t, user_column_name(column), path_of(column), json_object_get(column, "relative_to"));
}

static void choose_columns(const struct bb_gathered *g, struct table *t)
{
    const json_t *own = json_object_get(g->study->root, "columns"), *column;
    size_t i;

    json_array_foreach(own, i, column)
    {
        add_user_column(g, t, column);
    }
    for (const struct default_columns *d = default_columns; !own && d < default_columns + N_DEFAULTS; d++)
        for (const char *const *path = d->paths; *path; path++)
            if (any_result_has(g, d->schema, *path) && !json_object_get(g->combinations->axes, *path))
                add_column(t, short_name(*path), *path, NULL);
}

/* ---- names of all possible columns ---- */

static void add_name(json_t *names, char *name)
{
    json_array_append_new(names, json_string(name));
    free(name);
}

static void add_axes(json_t *names, const struct bb_sweep_runs *combinations)
{
    const char *axis;
    json_t *values;

    json_object_foreach(combinations->axes, axis, values)
    {
        json_array_append_new(names, json_string(axis));
    }
}

json_t *bb_sweep_columns(const struct bb_study *study, const struct bb_sweep_runs *combinations)
{
    const json_t *own = json_object_get(study->root, "columns"), *column;
    json_t *names = json_array();
    size_t i;

    add_axes(names, combinations);
    json_array_foreach(own, i, column)
    {
        add_name(names, user_column_name(column));
    }
    for (const struct default_columns *d = default_columns; !own && d < default_columns + N_DEFAULTS; d++)
        for (const char *const *path = d->paths; *path; path++)
            add_name(names, short_name(*path));
    json_array_append_new(names, json_string("state"));
    return names;
}

int bb_list_columns(FILE *out)
{
    for (const struct default_columns *d = default_columns; d < default_columns + N_DEFAULTS; d++)
        for (const char *const *path = d->paths; *path; path++)
            fprintf(out, "  %-10s %s\n", d->command, *path);
    fprintf(out,
            "  %-10s axes of the study, state, and the JSON path of any value in the result\n"
            "  %-10s (bootstrap/results/README.md); a trailing .p50 may be omitted\n",
            "sweep", "");
    return 0;
}

/* ---- ratios to a reference row ---- */

static bool same_measurement(const json_t *a, const json_t *b)
{
    for (size_t i = 0; i < sizeof(identity) / sizeof(identity[0]); i++) {
        const json_t *left = json_object_get(a, identity[i]), *right = json_object_get(b, identity[i]);

        if ((left || right) && (!left || !right || !json_equal(left, right)))
            return false;
    }
    return true;
}

/* Returns the result of the run with which the run of combination `i` is compared: its settings are equal, except
 * that the axes in relative_to have the values given in relative_to. NULL if there is no such run or no result of
 * it. */
static const json_t *reference_of(const struct bb_gathered *g, size_t i, const json_t *relative_to)
{
    json_t *wanted = json_deep_copy(g->combinations->one[i].settings);
    const json_t *found = NULL;

    json_object_update(wanted, (json_t *)relative_to);
    for (size_t k = 0; k < g->combinations->n && !found; k++)
        if (json_equal(g->combinations->one[k].settings, wanted))
            found = g->found[k].result;
    json_decref(wanted);
    return found;
}

static double number_of(const json_t *value)
{
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static json_t *relative_value(const struct bb_gathered *g, size_t i, const json_t *row, const struct column *c)
{
    const json_t *reference = reference_of(g, i, c->relative_to), *rows = rows_in(reference), *other = NULL;
    double ratio;

    for (size_t r = 0; r < json_array_size(rows) && !other; r++)
        if (same_measurement(row, json_array_get(rows, r)))
            other = json_array_get(rows, r);
    if (!reference || (row && !other))
        return json_null();
    ratio = number_of(cell_value(g->found[i].result, row, c->path)) / number_of(cell_value(reference, other, c->path));
    return isfinite(ratio) ? json_real(ratio) : json_null();
}

/* ---- rows of the table ---- */

static const char *state_text(const struct bb_sweep_found *f, char text[32])
{
    snprintf(text, 32, "to do");
    if (f->state == BB_SWEEP_COMPLETE)
        snprintf(text, 32, "ok");
    if (f->state == BB_SWEEP_FAILED)
        snprintf(text, 32, f->exit_status == 124 ? "timeout" : "failed (%d)", f->exit_status);
    return text;
}

static json_t *make_cell(const struct bb_gathered *g, size_t i, const json_t *row, const struct column *column)
{
    json_t *value;

    if (column->relative_to)
        return relative_value(g, i, row, column);
    value = (json_t *)cell_value(g->found[i].result, row, column->path);
    return value ? json_incref(value) : json_null();
}

/* Adds a table row for combination `i`. row: element of results[] in its result; NULL: there is no such element. */
static void add_row(struct bb_gathered *g, const struct table *t, size_t i, const json_t *row)
{
    json_t *cells = json_array(), *values;
    const char *axis;
    char text[32];

    json_object_foreach(g->combinations->axes, axis, values)
    {
        json_t *value = json_object_get(g->combinations->one[i].settings, axis);

        json_array_append_new(cells, value ? json_incref(value) : json_null());
    }
    for (size_t c = 0; c < t->n; c++)
        json_array_append_new(cells, make_cell(g, i, row, &t->column[c]));
    json_array_append_new(cells, json_string(state_text(&g->found[i], text)));
    json_array_append_new(g->rows, cells);
}

static void add_rows(struct bb_gathered *g, const struct table *t, size_t i)
{
    const json_t *rows = rows_in(g->found[i].result), *row;
    size_t r;

    if (json_array_size(rows) == 0)
        add_row(g, t, i, NULL);
    json_array_foreach(rows, r, row)
    {
        add_row(g, t, i, row);
    }
}

static void build_table(struct bb_gathered *g)
{
    struct table t = {0};

    choose_columns(g, &t);
    add_axes(g->columns, g->combinations);
    for (size_t c = 0; c < t.n; c++)
        json_array_append_new(g->columns, json_string(t.column[c].name));
    json_array_append_new(g->columns, json_string("state"));
    for (size_t i = 0; i < g->combinations->n; i++)
        add_rows(g, &t, i);
    for (size_t c = 0; c < t.n; c++)
        free(t.column[c].name);
    free(t.column);
}

void bb_gather(struct bb_gathered *g, const struct bb_study *study, const struct bb_sweep_runs *combinations,
               const char *dir)
{
    *g = (struct bb_gathered){
        .study = study, .combinations = combinations, .columns = json_array(), .rows = json_array()};
    BB_NEW(g->found, combinations->n);
    for (size_t i = 0; i < combinations->n; i++) {
        struct bb_sweep_found *f = &g->found[i];

        bb_sweep_load_state(dir, &combinations->one[i], f);
        g->count[f->state]++;
        g->emulated |= json_is_true(json_object_get(f->result, "emulated"));
        g->shared_gpu |= json_is_true(json_object_get(f->result, "shared_gpu"));
    }
    build_table(g);
}

void bb_gathered_release(struct bb_gathered *g)
{
    for (size_t i = 0; i < g->combinations->n; i++)
        bb_sweep_found_release(&g->found[i]);
    free(g->found);
    json_decref(g->columns);
    json_decref(g->rows);
}
