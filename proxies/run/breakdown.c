/* breakdown.c - computes the busy, exposed, transfer and waiting times of breakdown.h from the CUDA events of traced
 * steps. */
#include "proxies/run/breakdown.h"

#include "cuda/device/stream.h"
#include "proxies/run/step_issue.h"

#include <math.h>
#include <stdlib.h>

/* ---- traffic of each group ---- */

void bb_count_group_traffic(const struct bb_layout *l, const struct bb_program *p,
                            struct bb_group_traffic work[BB_MAX_GROUPS])
{
    double sent[BB_MAX_GROUPS] = {0}, received[BB_MAX_GROUPS] = {0};

    for (int g = 0; g < BB_MAX_GROUPS; g++)
        work[g] = (struct bb_group_traffic){0};
    for (size_t i = 0; i < p->n_ops; i++) {
        const struct bb_op *op = &p->ops[i];

        if (!bb_op_is_comm(op))
            continue;
        int g = l->comms[op->comm].group, n = bb_op_group_size(l, op);
        double bytes = (double)bb_op_payload_bytes(op, n);

        work[g].calls++;
        work[g].bytes += bytes;
        if (op->kind == BB_OP_COLLECTIVE)
            work[g].bus_bytes += bytes * bb_colls[op->coll].bus_factor(n);
        sent[g] += op->kind == BB_OP_SEND ? bytes : 0;
        received[g] += op->kind == BB_OP_RECV ? bytes : 0;
    }
    for (int g = 0; g < l->n_groups; g++)
        work[g].bus_bytes += fmax(sent[g], received[g]);
}

/* ---- CUDA event times of a traced step ---- */

void bb_traced_step_release(struct bb_traced_step *t)
{
    free(t->lanes);
    *t = (struct bb_traced_step){0};
}

static int since_begin(const struct bb_runner *r, cudaEvent_t event, int64_t *ns)
{
    double us;
    int rc = bb_event_difference_us(r->begin, event, &us);

    *ns = rc ? 0 : llround(us * 1e3);
    return rc;
}

/* Reads the CUDA events of the lanes (operations that one host call launches on one stream) that the step launched.
 * what: enum bb_issue flags of the step: launch compute, communication, or both. */
static int read_events(struct bb_traced_step *t, const struct bb_runner *r, unsigned what)
{
    int rc;

    TRY(since_begin(r, r->end, &t->step_ns));
    for (int i = 0; i < r->n_lanes; i++) {
        const struct bb_lane *lane = &r->lanes[i];
        const struct bb_op *op = &r->program->ops[r->batches[lane->batch].first];

        t->lanes[i] = (struct bb_timed_op){0};
        if (!(what & (bb_op_is_comm(op) ? BB_ISSUE_COMM : BB_ISSUE_COMPUTE)) || !bb_op_launches(op))
            continue;
        TRY(since_begin(r, lane->begin, &t->lanes[i].begin_ns));
        TRY(since_begin(r, lane->end, &t->lanes[i].end_ns));
    }
out:
    return rc;
}

/* ---- time intervals of communication groups, of transfers and of pipeline messages ---- */

/* Time intervals of a traced step on one rank. Each interval is that of a lane: the operations that one host call
 * launches on one stream. */
struct intervals {
    struct bb_spans compute, comm;
    struct bb_spans groups[BB_MAX_GROUPS]; /* communication of each group (for example "tp") */
    struct bb_spans transfers;             /* transfers of all communication, which begin after the wait for peers */
    struct bb_spans stages;                /* messages between pipeline stages, including the wait */
};

static void list_intervals(struct intervals *s, const struct bb_runner *r, const struct bb_traced_step *t)
{
    for (int i = 0; i < r->n_lanes; i++) {
        const struct bb_timed_op *at = &t->lanes[i];
        const int c = r->lanes[i].comm;

        bb_spans_add(c == BB_NONE ? &s->compute : &s->comm, at->begin_ns, at->end_ns);
        if (c == BB_NONE)
            continue;
        bb_spans_add(&s->groups[r->layout->comms[c].group], at->begin_ns, at->end_ns);
        bb_spans_add(&s->transfers, at->begin_ns + at->wait_ns, at->end_ns);
        if (r->layout->comms[c].between_stages)
            bb_spans_add(&s->stages, at->begin_ns, at->end_ns);
    }
}

void bb_update_mean(double *mean, int n, int64_t ns)
{
    *mean += ((double)ns / 1e3 - *mean) / (n + 1);
}

int bb_rank_breakdown_add(struct bb_rank_breakdown *f, const struct bb_runner *r, struct bb_traced_step *t,
                          unsigned what)
{
    struct intervals s = {0};
    struct bb_exposure e;
    struct bb_overlap o;
    int rc;

    TRY(read_events(t, r, what));
    TRY(bb_rank_breakdown_split(f, r, t));
    list_intervals(&s, r, t);
    for (int g = 0; g < r->layout->n_groups; g++) {
        bb_overlap_of(t->step_ns, &s.compute, &s.groups[g], &o);
        bb_update_mean(&f->groups[g].busy_us, f->steps, o.comm_ns);
        bb_update_mean(&f->groups[g].exposed_us, f->steps, o.exposed_ns);
        bb_spans_release(&s.groups[g]);
    }
    bb_overlap_of(t->step_ns, &s.compute, &s.comm, &o);
    bb_update_mean(&f->step_us, f->steps, o.step_ns);
    bb_update_mean(&f->compute_us, f->steps, o.compute_ns);
    bb_update_mean(&f->comm_us, f->steps, o.comm_ns);
    bb_update_mean(&f->exposed_us, f->steps, o.exposed_ns);
    bb_update_mean(&f->idle_us, f->steps, o.idle_ns);
    bb_exposure_of(&s.compute, &s.comm, &s.transfers, &s.stages, &e);
    bb_update_mean(&f->exposed_transfer_us, f->steps, e.transfer_ns);
    bb_update_mean(&f->bubble_us, f->steps, e.bubble_ns);
    bb_update_mean(&f->exposed_waiting_us, f->steps, e.waiting_ns);
    f->steps++;
    bb_spans_release(&s.compute);
    bb_spans_release(&s.comm);
    bb_spans_release(&s.transfers);
    bb_spans_release(&s.stages);
out:
    return rc;
}
