/* view.c - filters and sorts the table rows of a sweep's results. */
#include "bootstrap/sweep/view.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "bootstrap/cli/opts.h"
#include "bootstrap/cli/size_list.h"

#include <stdlib.h>
#include <string.h>

/* ---- conditions of --where ---- */

enum { WORD = 64, CONDITIONS = 16, NAMES = 256 };

/* Operators of --where. below, equal, above: whether the operator is true if the row's value is less than, equal to
 * or greater than the value in the condition. */
static const struct relation {
    const char *text;
    bool below, equal, above;
} relations[] = {
    {"<=", true, true, false}, {">=", false, true, true}, {"!=", true, false, true}, {"==", false, true, false},
    {"<", true, false, false}, {">", false, false, true}, {"=", false, true, false},
};
enum { N_RELATIONS = sizeof relations / sizeof *relations };

struct condition {
    char column[WORD], value[WORD];
    const struct relation *holds;
    bool is_number;
    double number;
};

struct conditions {
    struct condition one[CONDITIONS];
    int n;
};

static void remove_trailing_blanks(char *text)
{
    for (size_t n = strlen(text); n > 0 && text[n - 1] == ' '; n--)
        text[n - 1] = '\0';
}

static int add_condition(struct conditions *all, const char *word)
{
    struct condition c = {.holds = NULL};
    char relation[3];
    size_t bytes;

    if (all->n == CONDITIONS)
        return bb_err(BB_EUSAGE, "--where: too many conditions at '%s', expected at most %d", word, CONDITIONS);
    if (sscanf(word, " %63[^<>=!]%2[<>=!] %63[^\n]", c.column, relation, c.value) == 3)
        for (int i = 0; i < N_RELATIONS && !c.holds; i++)
            c.holds = strcmp(relation, relations[i].text) == 0 ? &relations[i] : NULL;
    remove_trailing_blanks(c.column);
    remove_trailing_blanks(c.value);
    if (!c.holds)
        return bb_err(BB_EUSAGE,
                      "--where: '%s' is not a condition, expected COLUMN, one of < <= > >= = != and a value, for "
                      "example ranks>=4",
                      word);
    c.is_number = bb_parse_double(c.value, &c.number) == 0;
    if (!c.is_number && bb_parse_bytes(c.value, &bytes) == 0) {
        c.is_number = true;
        c.number = (double)bytes;
    }
    if (!c.is_number && c.holds->below != c.holds->above)
        return bb_err(BB_EUSAGE, "--where: '%s' in '%s' is not a number; %s requires a number", c.value, word,
                      c.holds->text);
    all->one[all->n++] = c;
    return 0;
}

static int read_conditions(const char *text, struct conditions *all)
{
    char word[BB_LIST_WORD];
    int rc = 0;

    all->n = 0;
    while (rc == 0 && bb_list_next(&text, word))
        rc = add_condition(all, word);
    return rc;
}

static bool holds_for(const struct condition *c, const json_t *cell)
{
    char text[BB_SETTING_TEXT];
    double value = json_number_value(cell);

    if (!cell || json_is_null(cell))
        return false;
    if (c->is_number && json_is_number(cell))
        return value < c->number ? c->holds->below : value > c->number ? c->holds->above : c->holds->equal;
    if (c->holds->below != c->holds->above)
        return false;
    if (json_is_boolean(cell) && strcmp(c->value, json_is_true(cell) ? "true" : "false") == 0)
        return c->holds->equal;
    return strcmp(bb_setting_text(cell, text), c->value) == 0 ? c->holds->equal : c->holds->below;
}

/* ---- columns of --where and --sort ---- */

/* Returns whether the column name `given` in an option selects the column `shown` of the table: "step_us" is
 * selected by "step_us" and by its path "step_us.p50". */
static bool is_column(const char *shown, const char *given)
{
    size_t length = strlen(shown);

    return strncmp(shown, given, length) == 0 && (given[length] == '\0' || strcmp(given + length, ".p50") == 0);
}

static const char *sorted_column(const char *sort)
{
    return sort + (*sort == '-');
}

static int check_column(const json_t *names, const char *option, const char *given)
{
    const char *words[NAMES], *key;
    char kind[48];
    size_t n = 0;

    for (; n < NAMES && n < json_array_size(names); n++) {
        words[n] = json_string_value(json_array_get(names, n));
        if (is_column(words[n], given))
            return 0;
    }
    for (size_t i = 0; i < n; i++) {
        key = strrchr(words[i], '.');
        if (key && strcmp(key + 1, given) == 0)
            return bb_err(BB_EUSAGE, "unknown column for %s: '%s', did you mean '%s'?", option, given, words[i]);
    }
    snprintf(kind, sizeof kind, "column for %s:", option);
    return bb_reject_unknown(kind, given, words, n);
}

/* Checks the names of columns in "charts" of the study. */
static int check_charts(const struct bb_study *study, const json_t *names)
{
    const json_t *charts = json_object_get(study->root, "charts");
    char context[1000];
    const char *key;
    json_t *value, *name;
    size_t i, k;
    int rc = 0;

    snprintf(context, sizeof(context), "%s: ", study->path);
    bb_err_context(context);
    for (i = 0; i < json_array_size(charts); i++)
        json_object_foreach(json_array_get(charts, i), key, value)
        {
            if (json_is_string(value) && rc == 0)
                rc = check_column(names, "charts", json_string_value(value));
            json_array_foreach(value, k, name)
            {
                if (rc == 0)
                    rc = check_column(names, "charts", json_string_value(name));
            }
        }
    bb_err_context(NULL);
    return rc;
}

int bb_view_check(const struct bb_sweep_view *v, const struct bb_study *study, const struct bb_sweep_runs *combinations)
{
    json_t *names = bb_sweep_columns(study, combinations);
    struct conditions all;
    int rc;

    TRY(read_conditions(v->where, &all));
    for (int i = 0; i < all.n; i++)
        TRY(check_column(names, "--where", all.one[i].column));
    if (v->sort)
        TRY(check_column(names, "--sort", sorted_column(v->sort)));
    TRY(check_charts(study, names));
out:
    json_decref(names);
    return rc;
}

static int find_column(const struct bb_gathered *g, const char *option, const char *given, size_t *column)
{
    for (*column = 0; *column < json_array_size(g->columns); ++*column)
        if (is_column(json_string_value(json_array_get(g->columns, *column)), given))
            return 0;
    return bb_err(BB_EUSAGE, "%s: no result has '%s'; try: --gather %s COLUMN, with a column of the table", option,
                  given, option);
}

/* ---- filtering and sorting of rows ---- */

static int keep_rows(struct bb_gathered *g, const struct condition *c)
{
    json_t *kept, *row;
    size_t column, i;
    int rc = find_column(g, "--where", c->column, &column);

    if (rc)
        return rc;
    kept = json_array();
    json_array_foreach(g->rows, i, row)
    {
        if (holds_for(c, json_array_get(row, column)))
            json_array_append(kept, row);
    }
    json_decref(g->rows);
    g->rows = kept;
    return 0;
}

/* Sets left_out. The first cells of a row are the settings of its combination. */
static void leave_out_combinations(struct bb_gathered *g)
{
    BB_NEW(g->left_out, g->combinations->n);
    for (size_t i = 0; i < g->combinations->n; i++) {
        const json_t *settings = g->combinations->one[i].settings;
        json_t *row, *values;
        size_t r;

        g->left_out[i] = true;
        json_array_foreach(g->rows, r, row)
        {
            bool is_own = true;
            const char *axis;
            size_t cell = 0;

            json_object_foreach(g->combinations->axes, axis, values)
            {
                const json_t *value = json_object_get(settings, axis), *own = json_array_get(row, cell++);

                is_own &= value ? json_equal(value, own) : json_is_null(own);
            }
            g->left_out[i] &= !is_own;
        }
    }
}

/* A table row and its value in the column of --sort. */
struct key {
    json_t *row;
    const json_t *cell; /* value of the row in that column */
    bool misfit;        /* the row is a plan that does not fit */
    bool descending;
    size_t index; /* position of the row before sorting; makes the sort stable */
};

/* Returns the order of the kinds of table cells for --sort: 0 number or truth value, 1 text, 2 no value. */
static int kind_of(const json_t *cell)
{
    return json_is_number(cell) || json_is_boolean(cell) ? 0 : json_is_string(cell) ? 1 : 2;
}

static double number_of(const json_t *cell)
{
    return json_is_boolean(cell) ? json_boolean_value(cell) : json_number_value(cell);
}

static int compare_keys(const void *left, const void *right)
{
    const struct key *a = left, *b = right;
    int kind = kind_of(a->cell), order = 0;

    if (a->misfit != b->misfit)
        return a->misfit - b->misfit;
    if (kind != kind_of(b->cell))
        return kind - kind_of(b->cell);
    if (kind == 0)
        order = (number_of(a->cell) > number_of(b->cell)) - (number_of(a->cell) < number_of(b->cell));
    else if (kind == 1)
        order = strcmp(json_string_value(a->cell), json_string_value(b->cell));
    if (order == 0)
        return (a->index > b->index) - (a->index < b->index);
    return a->descending ? -order : order;
}

/* Returns whether a row has a value in the column, or no combination is complete yet. */
static bool may_sort(const struct bb_gathered *g, size_t column)
{
    bool complete = false;
    json_t *row;
    size_t i;

    json_array_foreach(g->rows, i, row)
    {
        if (kind_of(json_array_get(row, column)) < 2)
            return true;
    }
    for (i = 0; i < g->combinations->n; i++)
        complete |= g->found[i].state == BB_SWEEP_COMPLETE;
    return !complete;
}

/* Rejects the column of --sort if all of its cells are empty: the first rows would be no answer. */
static int check_sorted(const struct bb_gathered *g, const char *sort)
{
    size_t column;
    int rc = find_column(g, "--sort", sorted_column(sort), &column);

    return rc || may_sort(g, column) ? rc
                                     : bb_err(BB_EUSAGE,
                                              "--sort: no result has '%s'; try: --gather --sort COLUMN, with a column "
                                              "of the table that is not empty",
                                              sorted_column(sort));
}

static int sort_rows(struct bb_gathered *g, const char *sort)
{
    json_t *sorted, *row;
    struct key *keys;
    size_t column, i;
    int rc = find_column(g, "--sort", sorted_column(sort), &column);

    if (rc)
        return rc;
    sorted = json_array();
    BB_NEW(keys, json_array_size(g->rows));
    json_array_foreach(g->rows, i, row)
    {
        keys[i] = (struct key){row, json_array_get(row, column), bb_is_misfit(g, row), *sort == '-', i};
    }
    qsort(keys, json_array_size(g->rows), sizeof *keys, compare_keys);
    for (i = 0; i < json_array_size(g->rows); i++)
        json_array_append(sorted, keys[i].row);
    json_decref(g->rows);
    g->rows = sorted;
    free(keys);
    return 0;
}

int bb_view_apply(const struct bb_sweep_view *v, struct bb_gathered *g)
{
    size_t n = json_array_size(g->rows);
    struct conditions all;
    int rc;

    TRY(read_conditions(v->where, &all));
    if (v->sort)
        TRY(check_sorted(g, v->sort));
    for (int i = 0; i < all.n; i++)
        TRY(keep_rows(g, &all.one[i]));
    if (all.n > 0)
        leave_out_combinations(g);
    if (v->sort)
        TRY(sort_rows(g, v->sort));
    while (v->top > 0 && json_array_size(g->rows) > (size_t)v->top)
        json_array_remove(g->rows, json_array_size(g->rows) - 1);
    g->not_shown = n - json_array_size(g->rows);
out:
    return rc;
}
