/* collect.c - reads the results of a study (a set of benchmark runs) and builds the rows of its table. Each table
 * row shows one element of the JSON array results[] of one run. */
#include "bootstrap/sweep/collect.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/cli/size_list.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Default columns for each result schema (such as busbar.bench/1), used if the study file has no key "columns". A
 * table contains only the columns for which at least one result has a value. */
static const struct {
    const char *command, *schema, *columns;
} default_columns[] = {
    {"bench", "busbar.bench/1",
     "collective,metric,step,what,name,direction,from,to,parts,bytes,dtype,op,root,placement,mode,"
     "max_ctas,group,time_us.p50,algbw_gbps,busbw_gbps,gbps,compute_alone_us.p50,comm_alone_us.p50,"
     "both_us.p50,overlap_efficiency,tflops,wrong,algorithm,protocol,channels"},
    {"proxy", "busbar.proxy/1",
     "proxy,step_us.p50,samples_per_s,scaling.images_per_s,breakdown.compute_us,breakdown.comm_us,"
     "breakdown.exposed_us,breakdown.idle_us,breakdown.overlap_fraction,overlap.overlap_efficiency,"
     "model_flop_utilisation,check.wrong"},
    {"proxy all", "busbar.proxies/1", "proxy,step_us.p50,breakdown.compute_us,breakdown.comm_us,breakdown.exposed_us"},
    {"plan", "busbar.plan/1",
     "proxy,predicted.step_us,predicted.breakdown.compute_us,predicted.breakdown.comm_us,"
     "predicted.breakdown.exposed_us"},
};

/* Keys that identify a measurement within results[] of a run. A column with relative_to contains ratios: the value
 * of a table row divided by the value of its reference row. The reference row is in the results of the run that
 * relative_to selects, and has the same values of all these keys. */
static const char *const identity[] = {"collective", "metric", "step",  "direction", "from",  "to",   "parts",
                                       "bytes",      "root",   "group", "placement", "cycle", "mode", "max_ctas"};

static int no_memory(void)
{
    return bb_err(BB_EFAIL, "out of memory for the table");
}

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

/* Returns the scalar at a path in `row`, an element of results[]. If the path does not exist there, returns the
 * scalar in `result`, the complete document of the run; NULL if neither contains a scalar at the path. */
static const json_t *cell_value(const json_t *result, const json_t *row, const char *path)
{
    const json_t *value = row ? follow_path(row, path) : NULL;

    value = value ? value : follow_path(result, path);
    return json_is_object(value) || json_is_array(value) || json_is_null(value) ? NULL : value;
}

static const json_t *rows_in(const json_t *result)
{
    const json_t *rows = json_object_get(result, "results");

    return json_is_array(rows) ? rows : NULL;
}

/* ---- choice of the columns ---- */

struct column {
    const char *name, *path;
    /* NULL: the column contains the value at `path`. Otherwise the column contains a ratio: the value at `path`
     * divided by the value of the reference run. relative_to is a JSON object (axis, such as "ranks" -> value) that
     * selects the reference run. */
    const json_t *relative_to;
};

/* The columns of the table that contain values of results. The columns of the axes (varied options, variables and
 * ranks) and of each run's state are not in this struct. Names from the study file are borrowed. */
struct table {
    struct column *column;
    size_t n;
    json_t *names; /* JSON list that owns the generated column names, such as "step_us" */
};

/* Returns whether any result with this schema has a value at the path. The path is looked up in the elements of
 * results[], or at the top level of a result without results[]. */
static bool any_result_has(const struct bb_gathered *g, const char *schema, const char *path)
{
    for (size_t i = 0; i < g->combinations->n; i++) {
        const json_t *result = g->found[i].result, *rows = rows_in(result);
        const char *result_schema = json_string_value(json_object_get(result, "schema"));
        bool has = !rows && cell_value(result, NULL, path);

        if (!result_schema || strcmp(result_schema, schema) != 0)
            continue;
        for (size_t r = 0; r < json_array_size(rows) && !has; r++)
            has = cell_value(NULL, json_array_get(rows, r), path);
        if (has)
            return true;
    }
    return false;
}

static int add_column(struct table *t, const char *name, const char *path, const json_t *relative_to)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->column[i].name, name) == 0)
            return 0;
    BB_GROW(t->column, t->n);
    t->column[t->n++] = (struct column){name, path, relative_to};
    return 0;
}

/* Stores a generated name for the lifetime of the table and returns the name; returns `otherwise` if memory is
 * exhausted. */
static const char *keep_name(struct table *t, json_t *name, const char *otherwise)
{
    return json_array_append_new(t->names, name) ? otherwise : json_string_value(name);
}

/* Returns the column name for the path of a value: "step_us" for "step_us.p50"; other paths are unchanged. */
static const char *short_name(struct table *t, const char *path)
{
    size_t length = strlen(path);

    if (length < 5 || strcmp(path + length - 4, ".p50") != 0)
        return path;
    return keep_name(t, json_stringn(path, length - 4), path);
}

struct default_column_reader {
    const struct bb_gathered *g;
    struct table *t;
    const char *schema;
};

static int add_default_column(void *arg, const char *word)
{
    const struct default_column_reader *u = arg;
    const char *path;

    if (!any_result_has(u->g, u->schema, word) || json_object_get(u->g->combinations->axes, word))
        return 0;
    path = keep_name(u->t, json_string(word), NULL);
    return path ? add_column(u->t, short_name(u->t, path), path, NULL) : no_memory();
}

/* Returns the name of a column with relative_to, for example "step_us.p50 over ranks=1". */
static const char *relative_name(struct table *t, const char *path, const json_t *relative_to)
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
    return keep_name(t, json_string(text), path);
}

static bool is_cell(const json_t *value)
{
    return value && !json_is_object(value) && !json_is_array(value);
}

/* Warns if no result has a scalar at a column's path, which is probably misspelled. Prints no warning while results
 * are missing. */
static void warn_if_empty(const struct bb_gathered *g, const char *path)
{
    bool found = false;

    for (size_t i = 0; i < g->combinations->n; i++) {
        const json_t *result = g->found[i].result, *rows = rows_in(result);

        found = found || is_cell(follow_path(result, path)) || !result;
        for (size_t r = 0; r < json_array_size(rows) && !found; r++)
            found = is_cell(follow_path(json_array_get(rows, r), path));
    }
    if (!found)
        bb_warn("%s: no result has '%s', so that column is empty", g->study->path, path);
}

static int add_user_column(const struct bb_gathered *g, struct table *t, const json_t *column)
{
    const char *path = json_string_value(json_is_string(column) ? column : json_object_get(column, "value"));
    const char *name = json_string_value(json_object_get(column, "name"));
    const json_t *relative_to = json_object_get(column, "relative_to");

    warn_if_empty(g, path);
    if (!name)
        name = relative_to ? relative_name(t, path, relative_to) : short_name(t, path);
    return add_column(t, name, path, relative_to);
}

static int choose_columns(const struct bb_gathered *g, struct table *t)
{
    const json_t *own = json_object_get(g->study->root, "columns");
    int rc;

    t->names = json_array();
    TRY(t->names ? 0 : no_memory());
    for (size_t i = 0; i < json_array_size(own); i++)
        TRY(add_user_column(g, t, json_array_get(own, i)));
    for (size_t u = 0; !own && u < sizeof(default_columns) / sizeof(default_columns[0]); u++) {
        struct default_column_reader reader = {g, t, default_columns[u].schema};

        TRY(bb_list_each(default_columns[u].columns, add_default_column, &reader));
    }
out:
    return rc;
}

/* ---- names of all possible columns ---- */

static int add_name(void *arg, const char *word)
{
    size_t length = strlen(word);
    bool median = length > 4 && strcmp(word + length - 4, ".p50") == 0;

    return json_array_append_new(arg, json_stringn(word, median ? length - 4 : length)) ? no_memory() : 0;
}

json_t *bb_sweep_columns(const struct bb_study *study, const struct bb_sweep_runs *combinations)
{
    const json_t *own = json_object_get(study->root, "columns");
    json_t *names = json_array(), *value;
    const char *axis;
    size_t i;
    int rc = names ? 0 : -BB_EFAIL;

    TRY(rc);
    json_object_foreach(combinations->axes, axis, value)
    {
        TRY(add_name(names, axis));
    }
    json_array_foreach(own, i, value)
    {
        const char *name = json_string_value(json_object_get(value, "name"));
        const char *path = json_string_value(json_is_string(value) ? value : json_object_get(value, "value"));

        TRY(add_name(names, name ? name : path));
    }
    for (size_t u = 0; !own && u < sizeof(default_columns) / sizeof(default_columns[0]); u++)
        TRY(bb_list_each(default_columns[u].columns, add_name, names));
    TRY(add_name(names, "state"));
    return names;
out:
    json_decref(names);
    return NULL;
}

struct column_printer {
    const char *command;
    FILE *out;
};

static int print_column(void *arg, const char *word)
{
    const struct column_printer *p = arg;

    fprintf(p->out, "  %-10s %s\n", p->command, word);
    return 0;
}

int bb_list_columns(FILE *out)
{
    int rc = 0;

    for (size_t u = 0; u < sizeof(default_columns) / sizeof(default_columns[0]); u++) {
        struct column_printer printer = {default_columns[u].command, out};

        TRY(bb_list_each(default_columns[u].columns, print_column, &printer));
    }
    fprintf(out,
            "  %-10s axes of the study, state, and the JSON path of any value in the result\n"
            "  %-10s (bootstrap/results/README.md); a trailing .p50 may be omitted\n",
            "sweep", "");
out:
    return rc;
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

static int add_row(struct bb_gathered *g, const struct table *t, size_t i, const json_t *row)
{
    json_t *cells = json_array(), *values;
    const char *axis;
    char text[32];

    json_object_foreach(g->combinations->axes, axis, values)
    {
        json_t *value = json_object_get(g->combinations->one[i].settings, axis);

        json_array_append_new(cells, value ? json_incref(value) : json_null());
    }
    for (size_t c = 0; c < t->n; c++) {
        const struct column *column = &t->column[c];
        const json_t *value = cell_value(g->found[i].result, row, column->path);

        json_array_append_new(cells, column->relative_to ? relative_value(g, i, row, column)
                                     : value             ? json_incref((json_t *)value)
                                                         : json_null());
    }
    json_array_append_new(cells, json_string(state_text(&g->found[i], text)));
    g->row_of[json_array_size(g->rows)] = i;
    return json_array_append_new(g->rows, cells) ? no_memory() : 0;
}

static int add_rows(struct bb_gathered *g, const struct table *t, size_t i)
{
    const json_t *rows = rows_in(g->found[i].result);
    int rc = 0;

    if (json_array_size(rows) == 0)
        return add_row(g, t, i, NULL);
    for (size_t r = 0; r < json_array_size(rows) && rc == 0; r++)
        rc = add_row(g, t, i, json_array_get(rows, r));
    return rc;
}

static void name_columns(struct bb_gathered *g, const struct table *t)
{
    const char *axis;
    json_t *values;

    json_object_foreach(g->combinations->axes, axis, values)
    {
        json_array_append_new(g->columns, json_string(axis));
    }
    for (size_t c = 0; c < t->n; c++)
        json_array_append_new(g->columns, json_string(t->column[c].name));
    json_array_append_new(g->columns, json_string("state"));
}

static int build_table(struct bb_gathered *g)
{
    struct table t = {0};
    size_t max_rows = 1;
    int rc;

    for (size_t i = 0; i < g->combinations->n; i++)
        max_rows += 1 + json_array_size(rows_in(g->found[i].result));
    g->columns = json_array();
    g->rows = json_array();
    g->row_of = calloc(max_rows, sizeof(*g->row_of));
    TRY(g->columns && g->rows && g->row_of ? 0 : no_memory());
    TRY(choose_columns(g, &t));
    name_columns(g, &t);
    for (size_t i = 0; i < g->combinations->n; i++)
        TRY(add_rows(g, &t, i));
out:
    free(t.column);
    json_decref(t.names);
    return rc;
}

int bb_gather(struct bb_gathered *g, const struct bb_study *study, const struct bb_sweep_runs *combinations,
              const char *dir)
{
    size_t n = combinations->n;

    *g = (struct bb_gathered){.study = study, .combinations = combinations};
    g->found = calloc(n + 1, sizeof(*g->found));
    g->errors = calloc(n + 1, sizeof(*g->errors));
    if (!g->found || !g->errors)
        return no_memory();
    for (size_t i = 0; i < n; i++) {
        struct bb_sweep_found *f = &g->found[i];

        if (bb_sweep_load_state(dir, &combinations->one[i], f))
            return -BB_EFAIL;
        g->count[f->state]++;
        g->emulated |= json_is_true(json_object_get(f->result, "emulated"));
        g->shared_gpu |= json_is_true(json_object_get(f->result, "shared_gpu"));
        if (f->state == BB_SWEEP_FAILED)
            g->errors[i] = bb_sweep_last_lines(dir, &combinations->one[i]);
    }
    return build_table(g);
}

void bb_gathered_release(struct bb_gathered *g)
{
    for (size_t i = 0; g->combinations && i < g->combinations->n; i++) {
        if (g->found)
            bb_sweep_found_release(&g->found[i]);
        if (g->errors)
            json_decref(g->errors[i]);
    }
    free(g->found);
    free(g->errors);
    free(g->row_of);
    json_decref(g->columns);
    json_decref(g->rows);
    *g = (struct bb_gathered){0};
}
