/* waiting.c - the table of waiting times by role and group (see waiting.h). */
#include "proxies/simulation/timeline/waiting.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "bootstrap/results/table.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_ROWS = 8 }; /* printed rows; of more rows, only the worst role of each group is printed */

#define ROW(name)    BB_SHOWS(struct bb_wait_row, name)
#define ROW_US(name) BB_SHOWS(struct bb_wait_row, name), .form = BB_FORM_TIME
static const struct bb_field fields[] = {
    {"role", "waiting for peers", "", 18, 0, ROW(role), .form = BB_FORM_LEFT},
    {"group", "group", "", 6, 0, ROW(group), .form = BB_FORM_LEFT},
    {"ranks", "ranks", "", 6, 0, ROW(ranks)},
    {"median_us", "median", NULL, 12, 0, ROW_US(median_us)},
    {"most_us", "most", NULL, 12, 0, ROW_US(most_us)},
    {"most_rank", "by rank", "", 8, 0, ROW(most_rank)},
    {"waited_for", "mostly for", "", 11, 0, ROW(waited_for)},
    {"waited_for_us", "namely", NULL, 12, 0, ROW_US(waited_for_us)},
    {0},
};

struct bb_wait_row *bb_wait_table_add(struct bb_wait_table *w, const struct bb_layout *l, int group, const char *role,
                                      const int *ranks, const double *us, int n)
{
    struct bb_wait_row row = {
        .role = role, .group = l->groups[group].name, .group_index = group, .most_us = -1, .waited_for = BB_NONE};
    struct bb_stats stats;
    double *known;

    BB_NEW(known, n);
    for (int i = 0; i < n; i++) {
        if (isnan(us[i]))
            continue;
        known[row.ranks++] = us[i];
        row.most_rank = us[i] > row.most_us ? ranks[i] : row.most_rank;
        row.most_us = fmax(row.most_us, us[i]);
    }
    bb_stats_compute(known, (size_t)row.ranks, &stats);
    row.median_us = stats.p50;
    free(known);
    if (row.ranks == 0 || l->groups[group].size < 2)
        return NULL;
    BB_GROW(w->rows, w->n);
    w->rows[w->n] = row;
    return &w->rows[w->n++];
}

void bb_wait_table_release(struct bb_wait_table *w)
{
    free(w->rows);
    *w = (struct bb_wait_table){0};
}

static bool is_long(const struct bb_wait_row *row, double step_us)
{
    return row->most_us >= 1e-3 * step_us && row->waited_for != BB_NONE;
}

static bool is_longest_of_group(const struct bb_wait_table *w, const struct bb_wait_row *row)
{
    for (int i = 0; i < w->n; i++)
        if (w->rows[i].group_index == row->group_index && w->rows[i].most_us > row->most_us)
            return false;
    return true;
}

void bb_wait_table_print(const struct bb_wait_table *w, double step_us, const char *prefix, FILE *out)
{
    const struct bb_time_unit unit = bb_time_unit(step_us);
    struct bb_line line = {.out = out, .start = prefix, .gap = " ", .time = &unit};
    int n = 0;

    for (int i = 0; i < w->n; i++)
        n += is_long(&w->rows[i], step_us);
    if (n == 0)
        return;
    bb_line_heading(&line, fields, false);
    fputs(n > MAX_ROWS ? "  (worst role of each group)" : "", out);
    bb_line_end(&line);
    line.start = "  ";
    for (int i = 0; i < w->n; i++) {
        if (!is_long(&w->rows[i], step_us) || (n > MAX_ROWS && !is_longest_of_group(w, &w->rows[i])))
            continue;
        bb_line_row(&line, fields, &w->rows[i]);
        bb_line_end(&line);
    }
}

json_t *bb_wait_table_json(const struct bb_wait_table *w)
{
    return bb_table_list(fields, w->rows, (size_t)w->n, sizeof(*w->rows));
}
