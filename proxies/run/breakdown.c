/* breakdown.c - computes the busy, exposed, transfer and waiting times of breakdown.h from the CUDA events of traced
 * steps. */
#include "proxies/run/breakdown.h"

#include "cuda/device/stream.h"
#include "proxies/run/step_issue.h"

#include <math.h>
#include <stdlib.h>

static int group_of(const struct bb_layout *l, int comm)
{
    return l->comms[comm].group;
}

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
        int g = group_of(l, op->comm), n = bb_op_group_size(l, op);
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

/* Returns whether a step launches any operation of `lane` (operations that one host call launches on one stream).
 * what: enum bb_issue flags of the step: launch compute, communication, or both. */
static bool lane_ran(const struct bb_runner *r, const struct bb_lane *lane, unsigned what)
{
    const struct bb_op *op = &r->program->ops[r->batches[lane->batch].first];

    if (bb_op_is_comm(op))
        return what & BB_ISSUE_COMM;
    return (what & BB_ISSUE_COMPUTE) && bb_op_launches(op);
}

int bb_traced_step_read(struct bb_traced_step *t, const struct bb_runner *r, unsigned what)
{
    int rc;

    TRY(since_begin(r, r->end, &t->step_ns));
    for (int i = 0; i < r->n_lanes; i++) {
        t->lanes[i] = (struct bb_timed_op){0};
        if (!lane_ran(r, &r->lanes[i], what))
            continue;
        TRY(since_begin(r, r->lanes[i].begin, &t->lanes[i].begin_ns));
        TRY(since_begin(r, r->lanes[i].end, &t->lanes[i].end_ns));
    }
out:
    return rc;
}

/* ---- time intervals of communication groups, of transfers and of pipeline messages ---- */

/* Stores in `out` the time intervals of all communication of `group` (for example "tp"); if `group` is BB_NONE,
 * those of all compute operations. Each interval is that of a lane: the operations that one host call launches on
 * one stream. */
static void spans_of(const struct bb_runner *r, const struct bb_traced_step *t, int group, struct bb_spans *out)
{
    bb_spans_clear(out);
    for (int i = 0; i < r->n_lanes; i++) {
        int comm = r->lanes[i].comm, own = comm == BB_NONE ? BB_NONE : group_of(r->layout, comm);

        if (own == group)
            bb_spans_add(out, t->lanes[i].begin_ns, t->lanes[i].end_ns);
    }
}

/* Adds to `transfers` the transfer intervals of all communication, which begin after the wait for peers. Adds to
 * `stages` the intervals, including the wait, of all messages between pipeline stages. */
static void spans_by_cause(const struct bb_runner *r, const struct bb_traced_step *t, struct bb_spans *transfers,
                           struct bb_spans *stages)
{
    for (int i = 0; i < r->n_lanes; i++) {
        const struct bb_timed_op *at = &t->lanes[i];

        if (r->lanes[i].comm == BB_NONE)
            continue;
        bb_spans_add(transfers, at->begin_ns + at->wait_ns, at->end_ns);
        if (r->layout->comms[r->lanes[i].comm].between_stages)
            bb_spans_add(stages, at->begin_ns, at->end_ns);
    }
}

void bb_update_mean(double *mean, int n, int64_t ns)
{
    *mean += ((double)ns / 1e3 - *mean) / (n + 1);
}

void bb_rank_breakdown_add(struct bb_rank_breakdown *f, const struct bb_runner *r, const struct bb_traced_step *t)
{
    struct bb_spans compute = {0}, comm = {0}, one = {0}, transfers = {0}, stages = {0};
    struct bb_exposure e;
    struct bb_overlap o;

    spans_of(r, t, BB_NONE, &compute);
    for (int g = 0; g < r->layout->n_groups; g++) {
        spans_of(r, t, g, &one);
        bb_spans_add_all(&comm, &one);
        bb_overlap_of(t->step_ns, &compute, &one, &o);
        bb_update_mean(&f->groups[g].busy_us, f->steps, o.comm_ns);
        bb_update_mean(&f->groups[g].exposed_us, f->steps, o.exposed_ns);
    }
    bb_overlap_of(t->step_ns, &compute, &comm, &o);
    bb_update_mean(&f->step_us, f->steps, o.step_ns);
    bb_update_mean(&f->compute_us, f->steps, o.compute_ns);
    bb_update_mean(&f->comm_us, f->steps, o.comm_ns);
    bb_update_mean(&f->exposed_us, f->steps, o.exposed_ns);
    bb_update_mean(&f->idle_us, f->steps, o.idle_ns);
    spans_by_cause(r, t, &transfers, &stages);
    bb_exposure_of(&compute, &comm, &transfers, &stages, &e);
    bb_update_mean(&f->exposed_transfer_us, f->steps, e.transfer_ns);
    bb_update_mean(&f->bubble_us, f->steps, e.bubble_ns);
    bb_update_mean(&f->exposed_waiting_us, f->steps, e.waiting_ns);
    f->steps++;
    bb_spans_release(&transfers);
    bb_spans_release(&stages);
    bb_spans_release(&compute);
    bb_spans_release(&comm);
    bb_spans_release(&one);
}
