/* collect_table.c - prints the table of a study as text, CSV and JSON. */
#include "bootstrap/base/alloc.h"
#include "bootstrap/base/csv.h"
#include "bootstrap/base/environment.h"
#include "bootstrap/cli/report_header.h"
#include "bootstrap/sweep/collect.h"

#include <stdlib.h>
#include <string.h>

/* ---- table cells ---- */

/* Formats a cell: a real number with 6 significant digits, a text unchanged, null as "-". */
static const char *cell_text(const json_t *value, char text[BB_SETTING_TEXT])
{
    if (json_is_real(value))
        snprintf(text, BB_SETTING_TEXT, "%.6g", json_real_value(value));
    else
        bb_setting_text(value, text);
    return text;
}

static const json_t *cell_at(const struct bb_gathered *g, size_t row, size_t column)
{
    return json_array_get(json_array_get(g->rows, row), column);
}

/* ---- units of the text table ---- */

/*
 * Units of the text table. The unit of a column is the first element of this list whose `suffix` is in the column's
 * name and whose `from` is at most the largest value of the column. The values of the column are then divided by `per`.
 * The values of a column without a unit are printed as in the JSON. Times are thus printed in us below 10 ms, in ms
 * below 10 s, and otherwise in s.
 */
static const struct unit {
    const char *suffix, *name;
    double from, per;
} units[] = {
    {"_us", "s", 1e7, 1e6},
    {"_us", "ms", 1e4, 1e3},
    {"_bytes", "GiB", 1073741824.0, 1073741824.0},
    {"_bytes", "MiB", 1048576.0, 1048576.0},
};

/* Returns whether a column's name has the suffix at its end or before a dot: "step_us" and "breakdown.step_us.max"
 * have "_us". Returns false for names with blanks, such as "step_us.p50 over ranks=1", because those columns contain
 * ratios. */
static bool has_suffix(const char *name, const char *suffix)
{
    const char *at = strstr(name, suffix);

    return at && !strchr(name, ' ') && (at[strlen(suffix)] == '\0' || at[strlen(suffix)] == '.');
}

/* Returns the unit in which a column is printed; NULL: the values are printed as in the JSON. */
static const struct unit *unit_of(const struct bb_gathered *g, size_t column)
{
    const char *name = json_string_value(json_array_get(g->columns, column));
    double largest = 0;

    for (size_t r = 0; r < json_array_size(g->rows); r++)
        if (json_number_value(cell_at(g, r, column)) > largest)
            largest = json_number_value(cell_at(g, r, column));
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (has_suffix(name, units[i].suffix) && largest >= units[i].from)
            return &units[i];
    return NULL;
}

static const char *scaled_text(const struct unit *unit, const json_t *value, char text[BB_SETTING_TEXT])
{
    if (!unit || !json_is_number(value))
        return cell_text(value, text);
    snprintf(text, BB_SETTING_TEXT, "%.6g", json_number_value(value) / unit->per);
    return text;
}

enum { TITLE_TEXT = 480 };

/* Formats a column title: "step_us" or "step_us (ms)". --sort and the study file use the name without the unit. */
static const char *title_of(const struct bb_gathered *g, size_t column, const struct unit *unit, char text[TITLE_TEXT])
{
    const char *name = json_string_value(json_array_get(g->columns, column));

    snprintf(text, TITLE_TEXT, unit ? "%s (%s)" : "%s", name, unit ? unit->name : "");
    return text;
}

/* ---- text output ---- */

/* Returns whether a column is shown in the text table. If "columns" is not in the study and a column of texts has
 * the same text in all rows (at least two), the text is printed once above the table instead. The columns of the
 * axes and of the state are always shown. */
static bool is_shown(const struct bb_gathered *g, size_t column)
{
    const json_t *first = cell_at(g, 0, column);
    size_t n_columns = json_array_size(g->columns);

    if (json_object_get(g->study->root, "columns") || column < json_object_size(g->combinations->axes) ||
        column + 1 == n_columns || json_array_size(g->rows) < 2 || !json_is_string(first))
        return true;
    for (size_t r = 1; r < json_array_size(g->rows); r++)
        if (!json_equal(first, cell_at(g, r, column)))
            return true;
    return false;
}

static size_t width_of(const struct bb_gathered *g, size_t column, const struct unit *unit)
{
    char text[BB_SETTING_TEXT], title[TITLE_TEXT];
    size_t width = strlen(title_of(g, column, unit, title));

    for (size_t r = 0; r < json_array_size(g->rows); r++) {
        size_t length = strlen(scaled_text(unit, cell_at(g, r, column), text));

        width = length > width ? length : width;
    }
    return width;
}

/* Returns whether a column contains numbers, which are aligned to the right; texts are aligned to the left. The
 * first value that is not null decides. */
static bool is_numeric(const struct bb_gathered *g, size_t column)
{
    for (size_t r = 0; r < json_array_size(g->rows); r++)
        if (!json_is_null(cell_at(g, r, column)))
            return json_is_number(cell_at(g, r, column));
    return true;
}

struct shape {
    size_t width;
    bool numeric, shown;
    const struct unit *unit;
};

static void print_cell(const struct shape *s, const char *text, bool last, FILE *out)
{
    fprintf(out, "  %*s", s->numeric || last ? (s->numeric ? (int)s->width : 0) : -(int)s->width, text);
}

static void print_constant_columns(const struct bb_gathered *g, const struct shape *shape, FILE *out)
{
    char text[BB_SETTING_TEXT];
    bool first = true;

    for (size_t c = 0; c < json_array_size(g->columns); c++) {
        if (shape[c].shown)
            continue;
        fprintf(out, "%s%s %s", first ? "# in every row: " : ", ", json_string_value(json_array_get(g->columns, c)),
                cell_text(cell_at(g, 0, c), text));
        first = false;
    }
    fputs(first ? "" : "\n", out);
}

static void print_table(const struct bb_gathered *g, const struct shape *shape, FILE *out)
{
    size_t n = json_array_size(g->columns);
    char text[BB_SETTING_TEXT], title[TITLE_TEXT];

    fputs("#\n#", out);
    for (size_t c = 0; c < n; c++)
        if (shape[c].shown)
            print_cell(&shape[c], title_of(g, c, shape[c].unit, title), c + 1 == n, out);
    fputc('\n', out);
    for (size_t r = 0; r < json_array_size(g->rows); r++) {
        fputc(' ', out);
        for (size_t c = 0; c < n; c++)
            if (shape[c].shown)
                print_cell(&shape[c], scaled_text(shape[c].unit, cell_at(g, r, c), text), c + 1 == n, out);
        fputc('\n', out);
    }
}

static void print_reason(const struct bb_gathered *g, size_t i, const json_t *previous, FILE *out)
{
    const struct bb_sweep_found *f = &g->found[i];
    char text[1024];
    json_t *line;
    size_t l;

    fprintf(out, "# %s: ", bb_settings_text(&g->combinations->one[i], text, sizeof(text)));
    if (f->exit_status == 0)
        fputs("exit status 0, but the result file is missing or incomplete (written on another host?)", out);
    else
        fprintf(out, f->exit_status == 124 ? "timeout (exit status %d)" : "exit status %d", f->exit_status);
    if (previous && json_equal(f->errors, previous)) {
        fputs(", same error\n", out);
        return;
    }
    fputc('\n', out);
    json_array_foreach(f->errors, l, line)
    {
        fprintf(out, "#   %s\n", json_string_value(line));
    }
}

static void print_failed(const struct bb_gathered *g, FILE *out)
{
    const json_t *previous = NULL;

    for (size_t i = 0; i < g->combinations->n; i++) {
        if (g->found[i].state != BB_SWEEP_FAILED)
            continue;
        if (!previous)
            fputs("#\n", out);
        print_reason(g, i, previous, out);
        previous = g->found[i].errors;
    }
}

static void print_head(const struct bb_gathered *g, FILE *out)
{
    const char *about = json_string_value(json_object_get(g->study->root, "about"));
    size_t n = g->combinations->n;

    fprintf(out, "# %s%s%s\n", g->study->name, about ? ": " : "", about ? about : "");
    fprintf(out, "# %zu combination%s: %zu complete, %zu failed, %zu to do\n", n, n == 1 ? "" : "s",
            g->count[BB_SWEEP_COMPLETE], g->count[BB_SWEEP_FAILED], g->count[BB_SWEEP_TO_DO]);
    if (g->not_shown)
        fprintf(out, "# shown: %zu of %zu rows\n", json_array_size(g->rows), json_array_size(g->rows) + g->not_shown);
    if (g->emulated)
        bb_print_emulated_note(out, "", "");
    if (g->shared_gpu)
        fputs("# several ranks share one GPU: times are meaningless for a machine with one GPU per rank\n", out);
}

void bb_gathered_text(const struct bb_gathered *g, FILE *out)
{
    size_t n = json_array_size(g->columns);
    struct shape *shape;

    BB_NEW(shape, n);
    for (size_t c = 0; c < n; c++) {
        const struct unit *unit = unit_of(g, c);

        shape[c] = (struct shape){width_of(g, c, unit), is_numeric(g, c), is_shown(g, c), unit};
    }
    print_head(g, out);
    print_constant_columns(g, shape, out);
    print_table(g, shape, out);
    print_failed(g, out);
    free(shape);
}

/* ---- CSV output ---- */

void bb_gathered_csv(const struct bb_gathered *g, FILE *out)
{
    bb_csv_write(g->columns, g->rows, out);
}

/* ---- JSON output ---- */

static json_t *words_json(const struct bb_argv *a)
{
    json_t *list = json_array();

    for (size_t i = 0; i < a->n; i++)
        json_array_append_new(list, json_string(a->word[i]));
    return list;
}

static json_t *environment_json(const struct bb_argv *a)
{
    json_t *object = json_object();

    for (size_t i = 0; i < a->n; i++) {
        char *name = bb_copy_text(a->word[i]), *value = name;

        strsep(&value, "=");
        json_object_set_new(object, name, value ? json_string(bb_environment_value(name, value)) : json_null());
        free(name);
    }
    return object;
}

/* Replaces the values of environment variables by "set" if result files must not contain their values
 * (environment.h). The value of a variable is a list if the variable is an axis. */
static void mask_values(json_t *environment)
{
    const char *name;
    json_t *value, *one;
    void *next;
    size_t i;

    json_object_foreach_safe(environment, next, name, value)
    {
        if (strcmp(bb_environment_value(name, ""), "") == 0)
            continue;
        json_array_foreach(value, i, one)
        {
            if (!json_is_null(one))
                json_array_set_new(value, i, json_string("set"));
        }
        if (!json_is_array(value) && !json_is_null(value))
            json_object_set_new(environment, name, json_string("set"));
    }
}

/* Masks the values of every key "environment" in the study: at its top level, in the alternatives of "choices" and
 * in the elements of "cases". Returns the study. */
static json_t *mask_environments(json_t *study)
{
    const char *key;
    json_t *value;
    size_t i;

    json_object_foreach(study, key, value)
    {
        if (strcmp(key, "environment") == 0)
            mask_values(value);
        else
            mask_environments(value);
    }
    json_array_foreach(study, i, value)
    {
        mask_environments(value);
    }
    return study;
}

static json_t *combination_json(const struct bb_gathered *g, size_t i)
{
    const struct bb_sweep_run *c = &g->combinations->one[i];
    const struct bb_sweep_found *f = &g->found[i];
    json_t *exit_status = f->exit_status < 0 ? json_null() : json_integer(f->exit_status);

    return json_pack(
        "{s:s, s:O, s:o, s:o, s:o, s:i, s:s, s:o, s:o, s:o, s:o}", "id", c->id, "settings", c->settings, "command",
        words_json(&c->words), "environment", environment_json(&c->environment), "launch_arguments",
        words_json(&c->launch_arguments), "ranks", c->ranks, "state", bb_sweep_state_names[f->state], "exit_status",
        exit_status, "seconds", f->seconds >= 0 ? json_real(f->seconds) : json_null(), "stderr",
        f->errors ? json_incref(f->errors) : json_array(), "result", f->result ? json_incref(f->result) : json_null());
}

json_t *bb_gathered_json(const struct bb_gathered *g)
{
    const json_t *about = json_object_get(g->study->root, "about");
    json_t *list = json_array();

    for (size_t i = 0; i < g->combinations->n; i++)
        json_array_append_new(list, combination_json(g, i));
    return json_pack("{s:s, s:s, s:s, s:O, s:o, s:O, s:o, s:O, s:O, s:{s:I, s:I, s:I}, s:b, s:b}", "schema",
                     "busbar.sweep/1", "busbar", BUSBAR_VERSION, "name", g->study->name, "about",
                     about ? about : json_null(), "study", mask_environments(json_deep_copy(g->study->root)), "axes",
                     g->combinations->axes, "combinations", list, "columns", g->columns, "rows", g->rows, "counts",
                     "complete", (json_int_t)g->count[BB_SWEEP_COMPLETE], "failed",
                     (json_int_t)g->count[BB_SWEEP_FAILED], "to_do", (json_int_t)g->count[BB_SWEEP_TO_DO], "emulated",
                     g->emulated, "shared_gpu", g->shared_gpu);
}
