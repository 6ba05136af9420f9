/* collect.c - reads the results of a study (a set of benchmark runs) and builds the rows of its table. Each table
 * row shows one element of the JSON array results[] of one run. */
#include "bootstrap/sweep/collect.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "bootstrap/results/flat_table.h"
#include "bootstrap/start/program_folder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const bench_paths[] = {"collective",
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
                                          NULL};

/* Default columns for each result schema (such as busbar.bench/1), used if the study file has no key "columns". A
 * table contains only the columns for which at least one result has a value. */
static const struct default_columns {
    const char *command, *schema;
    const char *const *paths; /* JSON paths of the values, ends with NULL */
} default_columns[] = {
    {"bench", "busbar.bench/1", bench_paths},
    {"proxy", "busbar.proxy/1",
     (const char *const[]){"proxy", "step_us.p50", "samples_per_s", "tokens_per_s", "scaling.images_per_s",
                           "breakdown.compute_us", "breakdown.comm_us", "breakdown.exposed_us", "breakdown.idle_us",
                           "breakdown.overlap_fraction", "overlap.overlap_efficiency", "model_flop_utilisation",
                           "check.wrong", NULL}},
    {"proxy all", "busbar.proxies/1",
     (const char *const[]){"proxy", "step_us.p50", "breakdown.compute_us", "breakdown.comm_us", "breakdown.exposed_us",
                           NULL}},
    {"plan", "busbar.plan/1",
     (const char *const[]){"proxy", "predicted.step_us", "predicted.tokens_per_s", "predicted.tflops_per_gpu",
                           "predicted.model_flop_utilisation", "predicted.model_flop_utilisation_causal",
                           "predicted.breakdown.compute_us", "predicted.breakdown.comm_us",
                           "predicted.breakdown.exposed_us", "predicted.compute.software", "predicted.compute.added",
                           "predicted.memory.needed_bytes", "predicted.memory.fits", "predicted.memory.tight",
                           "predicted.training.days", "predicted.training.gpu_hours",
                           "predicted.training.with_failures.days", "predicted.training.with_failures.goodput", NULL}},
    {"plan COLLECTIVE", "busbar.plan/1", bench_paths},
    {"health", "busbar.health/1", (const char *const[]){"stage", "test", "median", "expected", "unit", NULL}},
};
enum { N_DEFAULTS = sizeof(default_columns) / sizeof(default_columns[0]) };

/* Keys that identify a measurement within results[] of a run. A column with relative_to contains ratios: the value
 * of a table row divided by the value of its reference row. The reference row is in the results of the run that
 * relative_to selects, and has the same values of all these keys. The results of another program have no schema and
 * only its metrics: of these keys, those that only one of the two rows has are then ignored. */
static const char *const identity[] = {"collective", "metric", "step",  "direction", "from",  "to",   "parts",
                                       "bytes",      "root",   "group", "placement", "cycle", "mode", "max_ctas"};

/* ---- values of results ---- */

/* Returns the array of a result whose elements are rows of the table: results[], but without "columns" in the study, for
 * which results[] is described, tests[] of busbar health, whose results[] has a value of each GPU. */
static const json_t *rows_of(const struct bb_study *study, const json_t *result)
{
    const char *schema = json_string_value(json_object_get(result, "schema"));
    const bool is_health = schema && strcmp(schema, "busbar.health/1") == 0;

    return json_object_get(result, is_health && !json_object_get(study->root, "columns") ? "tests" : "results");
}

/* Returns whether a value is a list of texts, as of an option given several times (--set). */
static bool is_texts(const json_t *value)
{
    const json_t *item;
    size_t i;

    json_array_foreach(value, i, item)
    {
        if (!json_is_string(item))
            return false;
    }
    return json_array_size(value) > 0;
}

/* Returns whether a JSON value can be shown in a table cell: text or a list of texts, number, Boolean and, if null_counts, also
 * null. */
static bool is_cell(const json_t *value, bool null_counts)
{
    return value && !json_is_object(value) && (!json_is_array(value) || is_texts(value)) &&
           (null_counts || !json_is_null(value));
}

/* Returns the value at a path; of statistics, which have "p50", the median: the heading of "step_us.p50" is "step_us". */
static json_t *value_at(const json_t *from, const char *path)
{
    json_t *value = bb_sweep_follow(from, path), *median = json_object_get(value, "p50");

    return median ? median : value;
}

/* Returns the scalar at a path in `row`, an element of results[]. If the path does not exist there, returns the
 * scalar in `result`, the complete document of the run; NULL if neither contains a scalar at the path. */
static const json_t *cell_value(const json_t *result, const json_t *row, const char *path)
{
    const json_t *value = row ? value_at(row, path) : NULL;

    value = value ? value : value_at(result, path);
    return is_cell(value, false) ? value : NULL;
}

/* ---- choice of the columns ---- */

static bool has_name(const json_t *names, const char *name)
{
    for (size_t i = 0; i < json_array_size(names); i++)
        if (strcmp(json_string_value(json_array_get(names, i)), name) == 0)
            return true;
    return false;
}

/* Returns whether a result has a scalar at the path in an element of results[] or, if there is no results[], at its top
 * level. user_column: the path is from "columns" in the study file. Such a path may also be at the top level of a
 * result with results[]. null_counts: whether null is a scalar. */
static bool has_value(const struct bb_gathered *g, const json_t *result, const char *path, bool user_column,
                      bool null_counts)
{
    const json_t *rows = rows_of(g->study, result), *row;
    size_t i;

    if ((!json_is_array(rows) || user_column) && is_cell(value_at(result, path), null_counts))
        return true;
    json_array_foreach(rows, i, row)
    {
        if (is_cell(value_at(row, path), null_counts))
            return true;
    }
    return false;
}

static bool any_result_has(const struct bb_gathered *g, const char *schema, const char *path)
{
    for (size_t i = 0; i < g->combinations->n; i++) {
        const json_t *result = g->found[i].result;
        const char *result_schema = json_string_value(json_object_get(result, "schema"));

        if (result_schema && strcmp(result_schema, schema) == 0 && has_value(g, result, path, false, false))
            return true;
    }
    return false;
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
    char *name, value_text[BB_SETTING_TEXT];
    size_t bytes;
    FILE *text = bb_open_text(&name, &bytes);
    const char *axis;
    json_t *value;

    fprintf(text, "%s over", path);
    json_object_foreach((json_t *)relative_to, axis, value)
    {
        fprintf(text, " %s=%s", axis, bb_setting_text(value, value_text));
    }
    bb_close_text(text, &name);
    return name;
}

/* Returns a list of the scalars in the object that should contain the last key of `path`, for example "; 'predicted'
 * contains step_us tokens_per_s", owned by the caller; "" if the result has no such object. */
static char *list_siblings(const json_t *result, const char *path)
{
    const char *dot = strrchr(path, '.'), *key;
    char *parent = bb_format("%.*s", (int)(dot ? dot - path : 0), path), *list;
    json_t *object = dot ? bb_sweep_follow(result, parent) : NULL, *value;
    size_t bytes;
    FILE *text = bb_open_text(&list, &bytes);

    if (json_is_object(object))
        fprintf(text, "; '%s' contains", parent);
    json_object_foreach(object, key, value)
    {
        if (is_cell(value, true))
            fprintf(text, " %s", key);
    }
    bb_close_text(text, &list);
    free(parent);
    return list;
}

/* How a key of a result may differ from the last key of a column's path. */
enum match {
    SAME,
    SHORT,     /* "mfu" for model_flop_utilisation, "memory" for a number in an object */
    BEGINNING, /* "tokens_per_s_per_gpu" for tokens_per_s */
    SIMILAR
};

enum { MIN_BEGINNING = 6 };

/* Returns whether `key` consists of the initials of the words of `name`. */
static bool is_initials(const char *key, const char *name)
{
    while (*key && *key == *name) {
        const char *end = strchr(name, '_');

        name = end ? end + 1 : "";
        key++;
    }
    return !*key && !*name;
}

/* Returns the name of the first number in an object; NULL: none. */
static const char *first_number(const json_t *object)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)object, name, value)
    {
        if (json_is_number(value))
            return name;
    }
    return NULL;
}

static bool is_match(const char *key, const char *name, enum match match)
{
    return match == SIMILAR     ? bb_nearest_word(key, &name, 1) != NULL
           : match == BEGINNING ? strlen(name) >= MIN_BEGINNING && bb_begins_with(key, name)
           : match == SHORT     ? strlen(key) > 1 && is_initials(key, name)
                                : strcmp(key, name) == 0;
}

/* Returns the path of the first scalar that matches `key`, owned by the caller; NULL: none. prefix: path of the object,
 * with a dot at its end */
static char *find_key(const json_t *object, const char *prefix, const char *key, enum match match)
{
    char *found = NULL;
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)object, name, value)
    {
        const char *number = match == SHORT && strcmp(key, name) == 0 ? first_number(value) : NULL;
        char *inner = found ? NULL : bb_format("%s%s.", prefix, name);

        if (inner && number)
            found = bb_format("%s%s", inner, number);
        else if (inner && json_is_object(value))
            found = find_key(value, inner, key, match);
        else if (inner && is_cell(value, true) && is_match(key, name, match))
            found = bb_format("%s%s", prefix, name);
        free(inner);
    }
    return found;
}

/* Returns the path of a scalar of which the last key of `path` may be the name, owned by the caller; NULL: none. results: list of
 * results */
static char *suggest_path(const json_t *results, const char *path)
{
    static const char *const parts[][2] = {{"predicted", "predicted."}, {"results.0", ""}, {"", ""}}; /* path, prefix */
    const char *dot = strrchr(path, '.'), *key = dot ? dot + 1 : path;
    const json_t *result;
    char *found = NULL;
    size_t i;

    for (int o = 0; o < 12;
         o++) /* the same name, a short one and a beginning in each part, then a similar one in each */
        json_array_foreach(results, i, result)
        {
            const char *const *part = parts[o < 9 ? o / 3 : o - 9];

            if (!found)
                found = find_key(bb_sweep_follow(result, part[0]), part[1], key, o < 9 ? (enum match)(o % 3) : SIMILAR);
        }
    return found;
}

/* Returns what may be meant by a path that leads to no scalar, for example "; 'predicted' contains step_us; try: predicted.step_us",
 * owned by the caller. */
static char *advice_for(const json_t *results, const char *path)
{
    char *near = suggest_path(results, path), *siblings = bb_copy_text(""), *advice;

    for (size_t i = json_array_size(results);
         i-- > 0 && !*siblings;) { /* plans of steps are the last kind in their schema */
        free(siblings);
        siblings = list_siblings(json_array_get(results, i), path);
    }
    advice = bb_format("%s%s%s", siblings, near ? "; try: " : "", near ? near : "");
    free(siblings);
    free(near);
    return advice;
}

/* Warns if no result has a value at a column's path: the path is probably misspelled, or the value null. Prints no warning while
 * combinations have not run, or if none is complete. */
static void warn_if_empty(const struct bb_gathered *g, const char *path)
{
    json_t *complete = NULL;
    bool is_null = false;
    char *advice;

    for (size_t i = 0; i < g->combinations->n; i++) {
        const struct bb_sweep_found *f = &g->found[i];

        if (f->state == BB_SWEEP_TO_DO || (f->result && has_value(g, f->result, path, true, false)))
            return;
        is_null |= f->result && has_value(g, f->result, path, true, true);
        complete = f->state == BB_SWEEP_COMPLETE ? f->result : complete;
    }
    if (!complete)
        return;
    complete = json_pack("[O]", complete);
    advice = is_null ? NULL : advice_for(complete, path);
    bb_warn(is_null ? "%s: no result has a value of '%s' (null), so that column is empty%s"
                    : "%s: no result has '%s', so that column is empty%s",
            g->study->path, path, is_null ? "" : advice);
    free(advice);
    json_decref(complete);
}

/* Adds a column to the object of list_columns(), unless a column with the same name exists. name: NULL: derived from
 * the path; relative_to: NULL: none. */
static void add_column(json_t *columns, const char *name, const char *path, json_t *relative_to)
{
    char *derived = relative_to ? relative_name(path, relative_to) : short_name(path);

    name = name ? name : derived;
    if (!json_object_get(columns, name))
        json_object_set_new(columns, name, json_pack("{s:s, s:O*}", "value", path, "relative_to", relative_to));
    free(derived);
}

/* Returns whether a result has rows in place and out of place, which the table must distinguish. */
static bool has_both_placements(const struct bb_gathered *g)
{
    for (size_t i = 0; g && i < g->combinations->n; i++) {
        const json_t *rows = json_object_get(g->found[i].result, "results"), *row;
        size_t r;

        json_array_foreach(rows, r, row)
        {
            const json_t *placement = json_object_get(row, "placement");

            if (placement && !json_equal(placement, json_object_get(json_array_get(rows, 0), "placement")))
                return true;
        }
    }
    return false;
}

/* Assumptions that `plan` makes by itself. The table shows them if they differ, because rows then differ by more than the
 * axes. */
static const char *const assumptions[] = {"predicted.compute.software", "predicted.compute.added"};

static bool differs(const struct bb_gathered *g, const char *path)
{
    const json_t *first = NULL;

    for (size_t i = 0; i < g->combinations->n; i++) {
        const json_t *value = bb_sweep_follow(g->found[i].result, path);

        first = first ? first : value;
        if (value && !json_equal(value, first))
            return true;
    }
    return false;
}

/* Adds a column for each metric of a program, unless a column or an axis has its name. */
static void add_metrics(json_t *columns, const struct bb_sweep_runs *combinations, const struct bb_sweep_run *run)
{
    const char *name;
    json_t *pattern;

    json_object_foreach(run->metrics, name, pattern)
    {
        if (!json_object_get(combinations->axes, name))
            add_column(columns, NULL, name, NULL);
    }
}

/* Returns whether a combination runs the command of these columns, so that its result may have them: the first words are
 * equal. */
static bool may_have(const struct bb_sweep_runs *combinations, const struct default_columns *d)
{
    const size_t length = strcspn(d->command, " ");

    for (size_t i = 0; i < combinations->n; i++) {
        const struct bb_sweep_run *run = &combinations->one[i];

        if (!run->is_program && run->words.n > 0 && strlen(run->words.word[0]) == length &&
            strncmp(run->words.word[0], d->command, length) == 0)
            return true;
    }
    return false;
}

/*
 * Returns the columns of values from the results, owned by the caller: a JSON object that maps the name of a column, in
 * the order of the table, to {"value": its JSON path, "relative_to": as in the study file}. The table also has columns
 * for the axes and for the state of each run. g: the results; NULL: none are known, so the object contains all default
 * columns of the commands.
 */
static json_t *list_columns(const struct bb_study *study, const struct bb_sweep_runs *combinations,
                            const struct bb_gathered *g)
{
    const json_t *own = json_object_get(study->root, "columns"), *column;
    json_t *columns = json_object();
    size_t i;

    if (own && has_both_placements(g))
        add_column(columns, NULL, "placement", NULL);
    json_array_foreach(own, i, column)
    {
        const char *path = json_string_value(json_is_string(column) ? column : json_object_get(column, "value"));

        if (json_is_string(column) && json_object_get(combinations->axes, path))
            continue; /* the table has a column for the axis */
        if (g)
            warn_if_empty(g, path);
        add_column(columns, json_string_value(json_object_get(column, "name")), path,
                   json_object_get(column, "relative_to"));
    }
    for (size_t a = 0; own && g && a < sizeof assumptions / sizeof *assumptions; a++)
        if (differs(g, assumptions[a]))
            add_column(columns, NULL, assumptions[a], NULL);
    for (const struct default_columns *d = default_columns; !own && d < default_columns + N_DEFAULTS; d++)
        for (const char *const *path = d->paths; *path; path++)
            if (!json_object_get(combinations->axes, *path) &&
                (g ? any_result_has(g, d->schema, *path) : may_have(combinations, d)))
                add_column(columns, NULL, *path, NULL);
    for (size_t run = 0; !own && run < combinations->n; run++)
        add_metrics(columns, combinations, &combinations->one[run]);
    return columns;
}

static void append_keys(json_t *names, json_t *object)
{
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value)
    {
        json_array_append_new(names, json_string(key));
    }
}

/* Returns the names of all columns of the table, owned by the caller: the axes, the columns of values, the state. */
static json_t *name_columns(const struct bb_sweep_runs *combinations, json_t *columns)
{
    json_t *names = json_array();

    append_keys(names, combinations->axes);
    append_keys(names, columns);
    json_array_append_new(names, json_string("state"));
    return names;
}

json_t *bb_sweep_columns(const struct bb_study *study, const struct bb_sweep_runs *combinations)
{
    json_t *columns = list_columns(study, combinations, NULL), *names = name_columns(combinations, columns);

    json_decref(columns);
    return names;
}

/* ---- check of the columns before the runs, with the JSON Schemas of the results ---- */

/* Returns a result with all fields of a schema, owned by the caller: lists have one element, maps are empty, texts null. */
static json_t *sample_of(const json_t *defs, const json_t *schema)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref")), *name;
    const json_t *any = json_object_get(schema, "anyOf"), *items = json_object_get(schema, "items"), *types;
    json_t *fields = json_object_get(schema, "properties"), *sample, *field;

    if (ref || any)
        return sample_of(defs, ref ? json_object_get(defs, strrchr(ref, '/') + 1) : json_array_get(any, 0));
    if (items)
        return json_pack("[o]", sample_of(defs, items));
    sample = json_object();
    json_object_foreach(fields, name, field)
    {
        json_object_set_new(sample, name, sample_of(defs, field));
    }
    types = json_object_get(schema, "type");
    name = json_string_value(json_is_array(types) ? json_array_get(types, 0) : types);
    if (name && strcmp(name, "object") == 0)
        return sample;
    json_decref(sample);
    return name && (strcmp(name, "number") == 0 || strcmp(name, "integer") == 0) ? json_integer(0) : json_null();
}

/* Returns whether a path leads to a scalar, or into a map. */
static bool leads_to_cell(const json_t *sample, const char *path)
{
    char key[128];

    while (sample && *path && !(json_is_object(sample) && json_object_size(sample) == 0)) {
        const size_t length = strcspn(path, ".");

        if (json_is_number(sample) && strcmp(path, "p50") == 0)
            return true;
        snprintf(key, sizeof key, "%.*s", (int)length, path);
        sample = json_is_array(sample) ? json_array_get(sample, 0) : json_object_get(sample, key);
        path += length + (path[length] == '.');
    }
    return sample && (is_cell(sample, true) || *path || json_object_get(sample, "p50"));
}

/* Adds a sample of each kind of results of a schema; none if the schemas are not installed. */
static void add_samples(json_t *samples, const char *schema)
{
    char *name = bb_format("schemas/%.*s-1.json", (int)strcspn(schema, "/"), schema), *path = bb_program_file(name);
    json_t *root = path ? json_load_file(path, 0, NULL) : NULL;
    const json_t *kind;
    size_t k;

    json_array_foreach(json_object_get(root, "anyOf"), k, kind)
        json_array_append_new(samples, sample_of(json_object_get(root, "$defs"), kind));
    json_decref(root);
    free(path);
    free(name);
}

static int check_column(const struct bb_study *study, const json_t *samples, const char *path)
{
    const json_t *sample;
    char *advice;
    size_t i;
    int rc;

    json_array_foreach(samples, i, sample)
    {
        if (leads_to_cell(sample, path) || leads_to_cell(bb_sweep_follow(sample, "results.0"), path))
            return 0;
    }
    advice = advice_for(samples, path);
    rc = bb_err(BB_EUSAGE, "%s: columns: no result can have '%s'%s", study->path, path,
                *advice ? advice : "; try: busbar list columns");
    free(advice);
    return rc;
}

int bb_sweep_check_columns(const struct bb_study *study, const struct bb_sweep_runs *combinations)
{
    json_t *columns = list_columns(study, combinations, NULL), *samples = json_array(), *column;
    bool checks = json_object_get(study->root, "columns") != NULL;
    const char *name;
    int rc = 0;

    for (size_t i = 0; i < combinations->n; i++)
        checks = checks && !combinations->one[i].is_program; /* whose results may have any field */
    for (const struct default_columns *d = default_columns; checks && d < default_columns + N_DEFAULTS; d++)
        if (may_have(combinations, d))
            add_samples(samples, d->schema);
    json_object_foreach(columns, name, column)
    {
        if (rc == 0 && json_array_size(samples) > 0)
            rc = check_column(study, samples, json_string_value(json_object_get(column, "value")));
    }
    json_decref(columns);
    json_decref(samples);
    return rc;
}

json_t *bb_list_columns(void)
{
    json_t *rows = json_array();

    for (const struct default_columns *d = default_columns; d < default_columns + N_DEFAULTS; d++)
        for (const char *const *path = d->paths; *path; path++)
            json_array_append_new(rows, json_pack("{s:s, s:s}", "command", d->command, "column", *path));
    return rows;
}

/* ---- cells, and ratios to a reference row ---- */

static bool same_measurement(const json_t *a, const json_t *b, bool ignore_missing)
{
    for (size_t i = 0; i < sizeof(identity) / sizeof(identity[0]); i++) {
        const json_t *left = json_object_get(a, identity[i]), *right = json_object_get(b, identity[i]);

        if (left && right ? !json_equal(left, right) : (left || right) && !ignore_missing)
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

/* Returns the number at a path (cell_value), NaN if there is none. */
static double number_at(const json_t *result, const json_t *row, const char *path)
{
    const json_t *value = cell_value(result, row, path);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* Returns the texts of a list as one: a cell has one value. */
static json_t *join_texts(const json_t *list)
{
    const json_t *item;
    json_t *joined;
    size_t i, bytes;
    char *text;
    FILE *out = bb_open_text(&text, &bytes);

    json_array_foreach(list, i, item)
    {
        fprintf(out, "%s%s", i ? " " : "", json_string_value(item));
    }
    bb_close_text(out, &text);
    joined = json_string(text);
    free(text);
    return joined;
}

/* Returns a new reference to the cell of `value`, null if `value` is NULL. */
static json_t *copy_cell(const json_t *value)
{
    return json_is_array(value) ? join_texts(value) : value ? json_incref((json_t *)value) : json_null();
}

/* Returns the cell of a column for combination `i`: the value at the column's path or, for a column with relative_to,
 * its ratio to the value of the reference row. row: element of results[]; NULL: the result has none. */
static json_t *value_cell(const struct bb_gathered *g, size_t i, const json_t *row, const json_t *column)
{
    const json_t *relative_to = json_object_get(column, "relative_to"), *result = g->found[i].result, *other = NULL;
    const json_t *reference = relative_to ? reference_of(g, i, relative_to) : NULL;
    const json_t *rows = json_object_get(reference, "results");
    const char *path = json_string_value(json_object_get(column, "value"));
    const bool is_program = !json_object_get(result, "schema") || !json_object_get(reference, "schema");
    size_t matches = 0;
    double ratio;

    if (!relative_to)
        return copy_cell(cell_value(result, row, path));
    for (size_t r = 0; r < json_array_size(rows); r++)
        if (same_measurement(row, json_array_get(rows, r), is_program) && matches++ == 0)
            other = json_array_get(rows, r);
    if (!reference || (row && !other) || (is_program && matches > 1))
        return json_null();
    ratio = number_at(result, row, path) / number_at(reference, other, path);
    return isfinite(ratio) ? json_real(ratio) : json_null();
}

/* ---- rows of the table ---- */

bool bb_is_misfit(const struct bb_gathered *g, const json_t *row)
{
    const char *state = json_string_value(json_array_get(row, json_array_size(g->columns) - 1));

    return state && strcmp(state, bb_sweep_misfit) == 0;
}

static json_t *state_cell(const struct bb_sweep_found *f)
{
    if (f->state == BB_SWEEP_FAILED)
        return f->exit_status == 124 ? json_string("timeout") : json_sprintf("failed (%d)", f->exit_status);
    if (f->misfit || f->state == BB_SWEEP_COMPLETE)
        return json_string(f->misfit ? bb_sweep_misfit : "ok");
    return json_string(bb_sweep_state_names[f->state]);
}

/* Adds a table row for combination `i`. row: element of results[] in its result; NULL: there is no such element. */
static void add_row(struct bb_gathered *g, json_t *columns, size_t i, const json_t *row)
{
    json_t *cells = json_array(), *values, *column;
    const char *name;

    json_object_foreach(g->combinations->axes, name, values)
    {
        json_array_append_new(cells, copy_cell(json_object_get(g->combinations->one[i].settings, name)));
    }
    json_object_foreach(columns, name, column)
    {
        json_array_append_new(cells, value_cell(g, i, row, column));
    }
    json_array_append_new(cells, state_cell(&g->found[i]));
    json_array_append_new(g->rows, cells);
}

/* Sets the order of the combinations in the table: plans that do not fit are last. */
static void set_order(struct bb_gathered *g)
{
    size_t n = 0;

    BB_NEW(g->order, g->combinations->n);
    for (int misfit = 0; misfit <= 1; misfit++)
        for (size_t i = 0; i < g->combinations->n; i++)
            if (g->found[i].misfit == misfit)
                g->order[n++] = i;
}

static void build_table(struct bb_gathered *g)
{
    json_t *columns = list_columns(g->study, g->combinations, g), *column;
    const char *name;

    json_object_foreach(columns, name, column)
    {
        g->shows_mfu |= strstr(json_string_value(json_object_get(column, "value")), "model_flop_utilisation") != NULL;
    }
    g->columns = name_columns(g->combinations, columns);
    for (size_t k = 0; k < g->combinations->n; k++) {
        const size_t i = g->order[k];
        const json_t *rows = rows_of(g->study, g->found[i].result), *row;
        size_t r;

        if (json_array_size(rows) == 0)
            add_row(g, columns, i, NULL);
        json_array_foreach(rows, r, row)
        {
            add_row(g, columns, i, row);
        }
    }
    json_decref(columns);
}

void bb_gather(struct bb_gathered *g, const struct bb_study *study, const struct bb_sweep_runs *combinations,
               const char *dir)
{
    *g = (struct bb_gathered){.study = study, .combinations = combinations, .rows = json_array()};
    BB_NEW(g->found, combinations->n);
    for (size_t i = 0; i < combinations->n; i++) {
        struct bb_sweep_found *f = &g->found[i];

        bb_sweep_load_state(dir, &combinations->one[i], f);
        g->count[f->state]++;
        g->emulated |= json_is_true(json_object_get(f->result, "emulated"));
        g->some_measured |= f->result && !json_is_true(json_object_get(f->result, "emulated"));
        g->shared_gpu |= json_is_true(json_object_get(f->result, "shared_gpu"));
        g->fewer_bits |= f->result && json_is_string(bb_sweep_follow(f->result, "predicted.compute.gemm_precision"));
    }
    set_order(g);
    build_table(g);
}

void bb_gathered_identify(struct bb_gathered *g)
{
    json_t *none = bb_flat_table_identity(NULL), *value;
    const char *name;
    size_t next = 0, i;

    g->identity = json_array();
    json_object_foreach(none, name, value)
    {
        if (!has_name(g->columns, name))
            json_array_append_new(g->identity, json_string(name));
    }
    json_decref(none);
    for (size_t k = 0; k < g->combinations->n; k++) {
        const json_t *result = g->found[g->order[k]].result;
        const size_t n = json_array_size(rows_of(g->study, result));
        json_t *identity = bb_flat_table_identity(result);

        for (size_t end = next + (n > 0 ? n : 1); next < end; next++)
            json_array_foreach(g->identity, i, value)
            {
                json_array_append(json_array_get(g->rows, next), json_object_get(identity, json_string_value(value)));
            }
        json_decref(identity);
    }
}

void bb_gathered_release(struct bb_gathered *g)
{
    for (size_t i = 0; i < g->combinations->n; i++)
        bb_sweep_found_release(&g->found[i]);
    free(g->found);
    free(g->order);
    free(g->left_out);
    json_decref(g->columns);
    json_decref(g->rows);
    json_decref(g->identity);
}
