/* collect_table.c - prints the table of a study as text, CSV and JSON. */
#include "bootstrap/base/alloc.h"
#include "bootstrap/base/csv.h"
#include "bootstrap/base/environment.h"
#include "bootstrap/cli/report_header.h"
#include "bootstrap/results/results.h"
#include "bootstrap/sweep/collect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- table cells ---- */

static const json_t *cell_at(const struct bb_gathered *g, size_t row, size_t column)
{
    return json_array_get(json_array_get(g->rows, row), column);
}

/* Formats a cell: a real number with 6 significant digits, or more for its integer part; a text unchanged, null as
 * "-". The unit is that of the column's name, as in the JSON. */
static const char *cell_text(const json_t *value, char text[BB_SETTING_TEXT])
{
    const double size = fabs(json_real_value(value));

    if (json_is_real(value))
        snprintf(text, BB_SETTING_TEXT, size >= 1e6 && size < 1e15 ? "%.0f" : "%.6g", json_real_value(value));
    else
        bb_setting_text(value, text);
    return text;
}

/* ---- text output ---- */

/* How a column of the text table is printed. */
struct shape {
    const char *title;
    bool is_constant; /* the column is not in the table: its text, the same in all rows, is printed above the table */
    bool is_numeric;  /* numbers are aligned to the right, texts to the left */
    int width;        /* number of characters; negative: aligned to the left */
};

/* Returns whether a column may be printed once above the table: a column of texts, if "columns" is not in the study and
 * the table has several rows. The columns of the axes and of the state are always in the table. */
static bool may_be_constant(const struct bb_gathered *g, size_t column)
{
    return !json_object_get(g->study->root, "columns") && column >= json_object_size(g->combinations->axes) &&
           column + 1 < json_array_size(g->columns) && json_array_size(g->rows) >= 2 &&
           json_is_string(cell_at(g, 0, column));
}

/* Determines how a column is printed. Its first value that is not null decides whether it contains numbers. */
static struct shape shape_column(const struct bb_gathered *g, size_t column)
{
    const size_t n_rows = json_array_size(g->rows);
    struct shape s = {.title = json_string_value(json_array_get(g->columns, column)),
                      .is_constant = may_be_constant(g, column),
                      .is_numeric = true};
    char text[BB_SETTING_TEXT];
    size_t width;

    for (size_t r = n_rows; r-- > 0;) {
        const json_t *cell = cell_at(g, r, column);

        s.is_constant = s.is_constant && json_equal(cell, cell_at(g, 0, column));
        s.is_numeric = json_is_null(cell) ? s.is_numeric : json_is_number(cell);
    }
    width = strlen(s.title);
    for (size_t r = 0; r < n_rows; r++) {
        size_t length = strlen(cell_text(cell_at(g, r, column), text));

        width = length > width ? length : width;
    }
    s.width = s.is_numeric ? (int)width : -(int)width;
    if (column + 1 == json_array_size(g->columns) && !s.is_numeric)
        s.width = 0; /* no blanks at the end of the line */
    return s;
}

static void print_constant_columns(const struct bb_gathered *g, const struct shape *shape, FILE *out)
{
    char text[BB_SETTING_TEXT];
    bool first = true;

    for (size_t c = 0; c < json_array_size(g->columns); c++) {
        if (!shape[c].is_constant)
            continue;
        fprintf(out, "%s%s %s", first ? "# in every row: " : ", ", json_string_value(json_array_get(g->columns, c)),
                cell_text(cell_at(g, 0, c), text));
        first = false;
    }
    fputs(first ? "" : "\n", out);
}

static void print_table(const struct bb_gathered *g, const struct shape *shape, size_t n_rows, FILE *out)
{
    size_t n = json_array_size(g->columns);
    char text[BB_SETTING_TEXT];

    fputs("#\n#", out);
    for (size_t c = 0; c < n; c++)
        if (!shape[c].is_constant)
            fprintf(out, "  %*s", shape[c].width, shape[c].title);
    fputc('\n', out);
    for (size_t r = 0; r < n_rows; r++) {
        fputc(' ', out);
        for (size_t c = 0; c < n; c++)
            if (!shape[c].is_constant)
                fprintf(out, "  %*s", shape[c].width, cell_text(cell_at(g, r, c), text));
        fputc('\n', out);
    }
}

static bool is_left_out(const struct bb_gathered *g, size_t i)
{
    return g->left_out && g->left_out[i];
}

/* Returns the number of combinations after combination `i` that failed in the same way; 0 if an earlier one did, so that
 * *is_first is false. */
static size_t count_same_failures(const struct bb_gathered *g, size_t i, bool *is_first)
{
    size_t n = 0;

    *is_first = true;
    for (size_t k = 0; k < g->combinations->n && *is_first; k++)
        if (k != i && !is_left_out(g, k) && bb_sweep_is_same_failure(&g->found[k], &g->found[i])) {
            *is_first = k > i;
            n++;
        }
    return *is_first ? n : 0;
}

/* Without --full, the text has at most 25 lines: up to HEAD of the head, up to FAILED of failures and those of a last one, and
 * the first rows. */
enum { LINES = 25, HEAD = 9, FAILED = 4 };

/* Prints the first failed combination of each kind with the last lines of its stderr, and the number of others. full: all
 * kinds. Returns the number of lines. */
static size_t print_failed(const struct bb_gathered *g, bool full, FILE *out)
{
    size_t lines = 0, hidden = 0;
    bool is_first;
    char text[1024];

    for (size_t i = 0; i < g->combinations->n; i++) {
        const struct bb_sweep_found *f = &g->found[i];
        const size_t more = count_same_failures(g, i, &is_first);

        if ((f->state != BB_SWEEP_FAILED && f->state != BB_SWEEP_BELOW) || !is_first || is_left_out(g, i))
            continue;
        if (lines > FAILED && !full) {
            hidden++;
            continue;
        }
        fprintf(out, "%s# %s: ", lines ? "" : "#\n", bb_settings_text(&g->combinations->one[i], text, sizeof(text)));
        if (f->exit_status == 0)
            fputs(g->combinations->one[i].is_program
                      ? "exit status 0, but not all metrics were found"
                      : "exit status 0, but the result file is missing or incomplete (written on another host?)",
                  out);
        else
            fprintf(out, f->exit_status == 124 ? "timeout (exit status %d)" : "exit status %d", f->exit_status);
        if (more > 0)
            fprintf(out, ", and %zu more with the same error", more);
        fputc('\n', out);
        lines += (lines == 0) + 1;
        for (size_t l = 0; l < json_array_size(f->errors); l++) {
            const char *error = json_string_value(json_array_get(f->errors, l));

            if (full || !bb_sweep_has_error(f->errors, l, error))
                lines += fprintf(out, "#   %s\n", error) > 0;
        }
    }
    if (hidden > 0)
        fprintf(out, "# %zu other kind%s of failures: --full\n", hidden, bb_plural(hidden));
    return lines + (hidden > 0);
}

static void print_head(const struct bb_gathered *g, size_t n_rows, FILE *out)
{
    const char *about = json_string_value(json_object_get(g->study->root, "about"));
    size_t n = g->combinations->n;

    fprintf(out, "# %s%s%s\n", g->study->name, about ? ": " : "", about ? about : "");
    fprintf(out, "# %zu combination%s: %zu complete, %zu failed, %zu to do", n, bb_plural(n),
            g->count[BB_SWEEP_COMPLETE], g->count[BB_SWEEP_FAILED], g->count[BB_SWEEP_TO_DO]);
    if (g->count[BB_SWEEP_BELOW])
        fprintf(out, ", %zu below threshold", g->count[BB_SWEEP_BELOW]);
    fputc('\n', out);
    if (g->not_shown || n_rows < json_array_size(g->rows))
        fprintf(out, "# shown: %zu of %zu rows%s\n", n_rows, json_array_size(g->rows) + g->not_shown,
                n_rows < json_array_size(g->rows) ? "; all: --full" : "");
    if (g->emulated)
        bb_print_emulated_note(out, g->some_measured ? "some results: " : "", "");
    if (g->shows_mfu && g->fewer_bits)
        fputs("# MFU: of the peak of the GEMMs with the fewest bits (--gemm-precision)\n", out);
    if (g->shared_gpu)
        fputs("# several ranks share one GPU: times are meaningless for a machine with one GPU per rank\n", out);
}

void bb_gathered_text(const struct bb_gathered *g, bool full, FILE *out)
{
    size_t n = json_array_size(g->columns), n_rows = json_array_size(g->rows), bytes;
    struct shape *shape;
    char *failed;
    FILE *text = bb_open_text(&failed, &bytes);
    const size_t left = LINES - HEAD - print_failed(g, full, text);

    BB_NEW(shape, n);
    for (size_t c = 0; c < n; c++)
        shape[c] = shape_column(g, c);
    n_rows = !full && n_rows > left ? left : n_rows;
    bb_close_text(text, &failed);
    print_head(g, n_rows, out);
    print_constant_columns(g, shape, out);
    print_table(g, shape, n_rows, out);
    fputs(failed, out);
    free(failed);
    free(shape);
}

/* ---- CSV and JSON output ---- */

void bb_gathered_csv(const struct bb_gathered *g, FILE *out)
{
    json_t *names = json_copy(g->columns);

    json_array_extend(names, g->identity);
    bb_csv_write(names, g->rows, out);
    json_decref(names);
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
        bb_json_words((int)c->words.n, c->words.word), "environment", environment_json(&c->environment),
        "launch_arguments", bb_json_words((int)c->launch_arguments.n, c->launch_arguments.word), "ranks", c->ranks,
        "state", bb_sweep_state_names[f->state], "exit_status", exit_status, "seconds",
        f->seconds >= 0 ? json_real(f->seconds) : json_null(), "stderr",
        f->errors ? json_incref(f->errors) : json_array(), "result", f->result ? json_incref(f->result) : json_null());
}

json_t *bb_gathered_json(const struct bb_gathered *g)
{
    const json_t *about = json_object_get(g->study->root, "about");
    json_t *list = json_array();

    for (size_t i = 0; i < g->combinations->n; i++)
        json_array_append_new(list, combination_json(g, i));
    return json_pack(
        "{s:s, s:s, s:s, s:O, s:o, s:O, s:o, s:O, s:O, s:{s:I, s:I, s:I, s:I}, s:b, s:b}", "schema", "busbar.sweep/1",
        "busbar", BUSBAR_VERSION, "name", g->study->name, "about", about ? about : json_null(), "study",
        mask_environments(json_deep_copy(g->study->root)), "axes", g->combinations->axes, "combinations", list,
        "columns", g->columns, "rows", g->rows, "counts", "complete", (json_int_t)g->count[BB_SWEEP_COMPLETE], "failed",
        (json_int_t)g->count[BB_SWEEP_FAILED], "to_do", (json_int_t)g->count[BB_SWEEP_TO_DO], "below_threshold",
        (json_int_t)g->count[BB_SWEEP_BELOW], "emulated", g->emulated, "shared_gpu", g->shared_gpu);
}
