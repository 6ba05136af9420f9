/* time_shares.c - computes a rank's step time by category: part (compute, exposed, idle, ...), training phase, group
 * and kind of operation (see time_shares.h). */
#include "proxies/simulation/timeline/time_shares.h"

#include "bootstrap/base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* A category of the step time (for example the phase "backward"). The length of the union of the intervals in `spans`
 * is added to share.us at the end. */
struct row {
    struct bb_time_share share;
    struct bb_spans spans;
};

struct rows {
    struct row *row;
    int n;
};

/* Returns the row of a category; adds the row if it is new. */
static struct row *row_of(struct rows *rows, const char *by, const char *name)
{
    struct row *row;

    for (int i = 0; i < rows->n; i++)
        if (strcmp(rows->row[i].share.by, by) == 0 && strcmp(rows->row[i].share.name, name) == 0)
            return &rows->row[i];
    BB_GROW(rows->row, rows->n);
    row = &rows->row[rows->n++];
    *row = (struct row){.share.by = by};
    snprintf(row->share.name, sizeof(row->share.name), "%s", name);
    return row;
}

static void add_parts(struct rows *rows, const struct bb_program *p, const struct bb_timed_op *ops, int64_t step_ns)
{
    struct bb_spans compute = {0}, comm = {0};
    struct bb_overlap o;

    for (size_t i = 0; i < p->n_ops; i++)
        bb_spans_add(bb_op_is_comm(&p->ops[i]) ? &comm : &compute, ops[i].begin_ns, ops[i].end_ns);
    bb_overlap_of(step_ns, &compute, &comm, &o);
    row_of(rows, "part", "compute")->share.us = (double)o.compute_ns / 1e3;
    row_of(rows, "part", "communication")->share.us = (double)o.comm_ns / 1e3;
    row_of(rows, "part", "exposed")->share.us = (double)o.exposed_ns / 1e3;
    row_of(rows, "part", "idle")->share.us = (double)o.idle_ns / 1e3;
    bb_spans_release(&compute);
    bb_spans_release(&comm);
}

/* Adds the interval of each operation to its category. by: "phase" (training phase), "group" (communication group;
 * nothing is added for compute) or "kind". */
static void add_ops(struct rows *rows, const char *by, const struct bb_layout *l, const struct bb_program *p,
                    const struct bb_timed_op *ops)
{
    for (size_t i = 0; i < p->n_ops; i++) {
        const struct bb_op *op = &p->ops[i];
        const char *group = bb_op_is_comm(op) ? l->groups[l->comms[op->comm].group].name : "";
        const char *name = bb_phase_names[op->phase];
        char kind[64];

        if (strcmp(by, "kind") == 0) {
            snprintf(kind, sizeof(kind), "%s%s%.32s", bb_op_kind_name(op->kind, op->coll), *group ? " " : "", group);
            name = kind;
        } else if (strcmp(by, "group") == 0) {
            name = group;
        }
        if (*name)
            bb_spans_add(&row_of(rows, by, name)->spans, ops[i].begin_ns, ops[i].end_ns);
    }
}

void bb_time_shares(const struct bb_step *step, int rank, const struct bb_timed_op *ops, int64_t step_ns,
                    struct bb_time_share **list, int *n)
{
    static const char *const categories[] = {"phase", "group", "kind"};
    const struct bb_program *p = bb_step_program(step, rank);
    struct rows rows = {0};

    add_parts(&rows, p, ops, step_ns);
    for (int i = 0; i < 3; i++)
        add_ops(&rows, categories[i], &step->layout, p, ops);
    *n = rows.n;
    BB_NEW(*list, rows.n);
    for (int i = 0; i < rows.n; i++) {
        (*list)[i] = rows.row[i].share;
        (*list)[i].us += (double)bb_spans_length(&rows.row[i].spans) / 1e3;
        bb_spans_release(&rows.row[i].spans);
    }
    free(rows.row);
}
