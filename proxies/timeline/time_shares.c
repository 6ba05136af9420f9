/* time_shares.c - computes a rank's step time by category: part (compute, exposed, idle, ...), training phase, group
 * and kind of operation (see time_shares.h). */
#include "proxies/timeline/time_shares.h"

#include "bootstrap/base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* A category of the step time (for example the phase "backward") and the intervals of its operations collected so
 * far. */
struct row {
    const char *by;
    char name[64];
    struct bb_spans spans;
};

struct rows {
    struct row *row;
    int n;
};

static void find_row(struct rows *rows, const char *by, const char *name, struct row **found)
{
    for (int i = 0; i < rows->n; i++)
        if (strcmp(rows->row[i].by, by) == 0 && strcmp(rows->row[i].name, name) == 0) {
            *found = &rows->row[i];
            return;
        }
    BB_GROW(rows->row, rows->n);
    *found = &rows->row[rows->n++];
    **found = (struct row){.by = by};
    snprintf((*found)->name, sizeof((*found)->name), "%s", name);
}

static void add_to(struct rows *rows, const char *by, const char *name, const struct bb_timed_op *at)
{
    struct row *row;

    find_row(rows, by, name, &row);
    bb_spans_add(&row->spans, at->begin_ns, at->end_ns);
}

static const char *group_of(const struct bb_layout *l, const struct bb_op *op)
{
    return l->groups[l->comms[op->comm].group].name;
}

/* Adds the interval of an operation to one category. by: 0: its training phase; 1: its communication group (nothing
 * is added for compute); 2: its kind. */
static void add_op(struct rows *rows, int by, const struct bb_layout *l, const struct bb_op *op,
                   const struct bb_timed_op *at)
{
    char kind[64];

    if (by == 0) {
        add_to(rows, "phase", bb_phase_names[op->phase], at);
        return;
    }
    if (by == 1) {
        if (bb_op_is_comm(op))
            add_to(rows, "group", group_of(l, op), at);
        return;
    }
    snprintf(kind, sizeof(kind), "%s%s%.32s", bb_op_kind_name(op->kind, op->coll), bb_op_is_comm(op) ? " " : "",
             bb_op_is_comm(op) ? group_of(l, op) : "");
    add_to(rows, "kind", kind, at);
}

static void add_share(struct bb_time_share **list, int *n, const char *by, const char *name, int64_t ns)
{
    BB_GROW(*list, *n);
    (*list)[*n] = (struct bb_time_share){.by = by, .us = (double)ns / 1e3};
    snprintf((*list)[*n].name, sizeof((*list)[*n].name), "%s", name);
    (*n)++;
}

static void add_parts(const struct bb_program *p, const struct bb_timed_op *ops, int64_t step_ns,
                      struct bb_time_share **list, int *n)
{
    struct bb_spans compute = {0}, comm = {0};
    struct bb_overlap o;

    for (size_t i = 0; i < p->n_ops; i++)
        bb_spans_add(bb_op_is_comm(&p->ops[i]) ? &comm : &compute, ops[i].begin_ns, ops[i].end_ns);
    bb_overlap_of(step_ns, &compute, &comm, &o);
    add_share(list, n, "part", "compute", o.compute_ns);
    add_share(list, n, "part", "communication", o.comm_ns);
    add_share(list, n, "part", "exposed", o.exposed_ns);
    add_share(list, n, "part", "idle", o.idle_ns);
    bb_spans_release(&compute);
    bb_spans_release(&comm);
}

static int64_t length_of(struct bb_spans *s)
{
    int64_t sum = 0;

    bb_spans_join(s);
    for (size_t i = 0; i < s->n; i++)
        sum += s->at[i].end_ns - s->at[i].begin_ns;
    return sum;
}

void bb_time_shares(const struct bb_step *step, int rank, const struct bb_timed_op *ops, int64_t step_ns,
                    struct bb_time_share **list, int *n)
{
    const struct bb_program *p = bb_step_program(step, rank);
    struct rows rows = {0};

    *list = NULL;
    *n = 0;
    add_parts(p, ops, step_ns, list, n);
    for (int by = 0; by < 3; by++)
        for (size_t i = 0; i < p->n_ops; i++)
            add_op(&rows, by, &step->layout, &p->ops[i], &ops[i]);
    for (int i = 0; i < rows.n; i++)
        add_share(list, n, rows.row[i].by, rows.row[i].name, length_of(&rows.row[i].spans));
    for (int i = 0; i < rows.n; i++)
        bb_spans_release(&rows.row[i].spans);
    free(rows.row);
}
