/* waiting.c - the table of waiting times by role and group (see waiting.h). */
#include "proxies/simulation/timeline/waiting.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "bootstrap/results/table.h"

#include <math.h>
#include <stdlib.h>

#define ROW(name)    BB_SHOWS(struct bb_wait_row, name)
#define ROW_US(name) BB_SHOWS(struct bb_wait_row, name), .form = BB_FORM_TIME
#define WAITING                                                                                                        \
    {"role", "waiting for peers", "", 18, 0, ROW(role), .form = BB_FORM_LEFT},                                         \
        {"group", "group", "", 6, 0, ROW(group), .form = BB_FORM_LEFT}, {"ranks", "ranks", "", 6, 0, ROW(ranks)},      \
        {"median_us", "median", NULL, 12, 0, ROW_US(median_us)},                                                       \
        {"most_us", "longest wait", NULL, 15, 0, ROW_US(most_us)},                                                     \
    {                                                                                                                  \
        "most_rank", "rank that waits", "", 16, 0, ROW(most_rank)                                                      \
    }
static const struct bb_field predicted_fields[] = {WAITING, {0}};
static const struct bb_field measured_fields[] = {
    WAITING,
    {"waited_for", "for rank", "", 9, 0, ROW(waited_for)},
    {"waited_for_us", "of it", NULL, 11, 0, ROW_US(waited_for_us)},
    {0},
};

static const struct bb_field *fields_of(const struct bb_wait_table *w)
{
    return w->measured ? measured_fields : predicted_fields;
}

void bb_wait_table_add(struct bb_wait_table *w, const struct bb_wait_role *role, bb_waiting_us *waiting_us,
                       const void *arg)
{
    const struct bb_layout *l = role->layout;
    struct bb_group_traffic traffic[BB_MAX_GROUPS];
    struct bb_stats stats;
    double *us;

    BB_NEW(us, role->n);
    bb_count_group_traffic(l, role->program, traffic);
    for (int g = 0; g < l->n_groups; g++) {
        struct bb_wait_row row = {role->name, l->groups[g].name, .group_index = g, .ranks = role->n,
                                  .waited_for = BB_NONE};

        if (traffic[g].calls == 0 || l->groups[g].size < 2)
            continue;
        for (int i = 0; i < role->n; i++) {
            us[i] = waiting_us(arg, role->ranks[i], g);
            row.most_rank = i == 0 || us[i] > row.most_us ? role->ranks[i] : row.most_rank;
            row.most_us = fmax(us[i], row.most_us);
        }
        if (isnan(us[0]))
            continue;
        bb_stats_compute(us, (size_t)role->n, &stats);
        row.median_us = stats.p50;
        BB_GROW(w->rows, w->n);
        w->rows[w->n++] = row;
    }
    free(us);
}

void bb_wait_table_release(struct bb_wait_table *w)
{
    free(w->rows);
    *w = (struct bb_wait_table){0};
}

static bool is_long(const struct bb_wait_row *row, double step_us)
{
    return row->most_us > 0 && row->most_us >= 1e-3 * step_us;
}

void bb_wait_table_print(const struct bb_wait_table *w, double step_us, const struct bb_time_unit *unit,
                         const char *prefix, FILE *out)
{
    const struct bb_field *fields = fields_of(w);
    struct bb_line line = {.out = out, .start = prefix, .gap = " ", .time = unit};
    int n = 0;

    for (int i = 0; i < w->n; i++)
        n += is_long(&w->rows[i], step_us);
    if (n == 0)
        return;
    bb_line_heading(&line, fields, false);
    bb_line_end(&line);
    line.start = "  ";
    for (int i = 0; i < w->n; i++) {
        if (!is_long(&w->rows[i], step_us))
            continue;
        bb_line_row(&line, fields, &w->rows[i]);
        bb_line_end(&line);
    }
}

void bb_wait_table_json(const struct bb_wait_table *w, json_t *object)
{
    static const char *const causes[] = {"idle", "kernels", "transfers"};
    const bool known = w->n > 0 && w->late_rank != BB_NONE, cause = known && w->late_cause < BB_LATE_CAUSES;

    json_object_set_new(object, "waiting", bb_table_list(fields_of(w), w->rows, (size_t)w->n, sizeof(*w->rows)));
    if (!w->measured)
        return;
    json_object_set_new(object, "late_rank", known ? json_integer(w->late_rank) : json_null());
    json_object_set_new(object, "late_node", known ? json_integer(w->late_node) : json_null());
    json_object_set_new(object, "late_cause", cause ? json_string(causes[w->late_cause]) : json_null());
    json_object_set_new(object, "late_us", cause ? json_real(w->late_us) : json_null());
}
