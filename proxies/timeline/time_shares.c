/* time_shares.c - computes a rank's step time by category: part (compute, exposed, idle, ...), training phase, group
 * and kind of operation (see time_shares.h). */
#include "proxies/timeline/time_shares.h"

#include "bootstrap/base/grow.h"

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

static int find_row(struct rows *rows, const char *by, const char *name, struct row **found)
{
    int rc;

    for (int i = 0; i < rows->n; i++)
        if (strcmp(rows->row[i].by, by) == 0 && strcmp(rows->row[i].name, name) == 0) {
            *found = &rows->row[i];
            return 0;
        }
    TRY(BB_GROW(rows->row, rows->n));
    *found = &rows->row[rows->n++];
    **found = (struct row){.by = by};
    snprintf((*found)->name, sizeof((*found)->name), "%s", name);
out:
    return rc;
}

static int add_to(struct rows *rows, const char *by, const char *name, const struct bb_timed_op *at)
{
    struct row *row;
    int rc = find_row(rows, by, name, &row);

    return rc ? rc : bb_spans_add(&row->spans, at->begin_ns, at->end_ns);
}

static const char *group_of(const struct bb_layout *l, const struct bb_op *op)
{
    return l->groups[l->comms[op->comm].group].name;
}

/* Adds the interval of an operation to one category. by: 0: its training phase; 1: its communication group (nothing
 * is added for compute); 2: its kind. */
static int add_op(struct rows *rows, int by, const struct bb_layout *l, const struct bb_op *op,
                  const struct bb_timed_op *at)
{
    char kind[64];

    if (by == 0)
        return add_to(rows, "phase", bb_phase_names[op->phase], at);
    if (by == 1)
        return bb_op_is_comm(op) ? add_to(rows, "group", group_of(l, op), at) : 0;
    snprintf(kind, sizeof(kind), "%s%s%.32s", bb_op_kind_name(op->kind, op->coll), bb_op_is_comm(op) ? " " : "",
             bb_op_is_comm(op) ? group_of(l, op) : "");
    return add_to(rows, "kind", kind, at);
}

static int add_share(struct bb_time_share **list, int *n, const char *by, const char *name, int64_t ns)
{
    int rc = BB_GROW(*list, *n);

    if (rc)
        return rc;
    (*list)[*n] = (struct bb_time_share){.by = by, .us = (double)ns / 1e3};
    snprintf((*list)[*n].name, sizeof((*list)[*n].name), "%s", name);
    (*n)++;
    return 0;
}

static int add_parts(const struct bb_program *p, const struct bb_timed_op *ops, int64_t step_ns,
                     struct bb_time_share **list, int *n)
{
    struct bb_spans compute = {0}, comm = {0};
    struct bb_overlap o;
    int rc = 0;

    for (size_t i = 0; i < p->n_ops; i++)
        TRY(bb_spans_add(bb_op_is_comm(&p->ops[i]) ? &comm : &compute, ops[i].begin_ns, ops[i].end_ns));
    bb_overlap_of(step_ns, &compute, &comm, &o);
    TRY(add_share(list, n, "part", "compute", o.compute_ns));
    TRY(add_share(list, n, "part", "communication", o.comm_ns));
    TRY(add_share(list, n, "part", "exposed", o.exposed_ns));
    TRY(add_share(list, n, "part", "idle", o.idle_ns));
out:
    bb_spans_release(&compute);
    bb_spans_release(&comm);
    return rc;
}

static int64_t length_of(struct bb_spans *s)
{
    int64_t sum = 0;

    bb_spans_join(s);
    for (size_t i = 0; i < s->n; i++)
        sum += s->at[i].end_ns - s->at[i].begin_ns;
    return sum;
}

int bb_time_shares(const struct bb_step *step, int rank, const struct bb_timed_op *ops, int64_t step_ns,
                   struct bb_time_share **list, int *n)
{
    const struct bb_program *p = bb_step_program(step, rank);
    struct rows rows = {0};
    int rc;

    *list = NULL;
    *n = 0;
    TRY(add_parts(p, ops, step_ns, list, n));
    for (int by = 0; by < 3; by++)
        for (size_t i = 0; i < p->n_ops; i++)
            TRY(add_op(&rows, by, &step->layout, &p->ops[i], &ops[i]));
    for (int i = 0; i < rows.n; i++)
        TRY(add_share(list, n, rows.row[i].by, rows.row[i].name, length_of(&rows.row[i].spans)));
out:
    for (int i = 0; i < rows.n; i++)
        bb_spans_release(&rows.row[i].spans);
    free(rows.row);
    if (rc) {
        free(*list);
        *list = NULL;
        *n = 0;
    }
    return rc;
}
