/* breakdown.c - computes the busy, exposed, transfer and waiting times of breakdown.h from the CUDA events of traced
 * steps. */
#include "proxies/runner/run/breakdown.h"

#include "bootstrap/base/alloc.h"
#include "cuda/device/stream.h"
#include "proxies/runner/run/step_issue.h"

#include <math.h>
#include <stdlib.h>

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

void bb_update_mean(double *mean, int n, int64_t ns)
{
    *mean += ((double)ns / 1e3 - *mean) / (n + 1);
}

/* Sends the end of this rank's last forward or backward kernel to all ranks, and prepares the intervals of this rank. */
static int exchange_pipeline_ends(struct bb_intervals *s, const struct bb_runner *r, const struct bb_traced_step *t)
{
    int64_t own_ns = 0, *end_ns; /* [ranks] */
    int rc;

    BB_NEW(end_ns, r->world->size);
    for (int i = 0; i < r->n_lanes; i++)
        own_ns = bb_pipeline_end(own_ns, &r->program->ops[r->batches[r->lanes[i].batch].first], &t->lanes[i]);
    TRY(bb_world_allgather(r->world, &own_ns, end_ns, sizeof(own_ns)));
    bb_intervals_set_pipeline(s, r->layout, r->world->rank, end_ns, NULL);
out:
    free(end_ns);
    return rc;
}

int bb_rank_breakdown_add(struct bb_rank_breakdown *f, const struct bb_runner *r, struct bb_traced_step *t,
                          unsigned what)
{
    struct bb_intervals s = {0};
    struct bb_exposure e;
    struct bb_overlap o;
    int rc;

    TRY(read_events(t, r, what));
    TRY(bb_rank_breakdown_split(f, r, t));
    TRY(exchange_pipeline_ends(&s, r, t));
    for (int i = 0; i < r->n_lanes; i++)
        bb_intervals_add(&s, r->layout, r->lanes[i].comm, &t->lanes[i]);
    for (int g = 0; g < r->layout->n_groups; g++) {
        bb_overlap_of(t->step_ns, &s.compute, &s.groups[g], &o);
        bb_update_mean(&f->groups[g].busy_us, f->steps, o.comm_ns);
        bb_update_mean(&f->groups[g].exposed_us, f->steps, o.exposed_ns);
        if (!isnan(f->groups[g].transfer_us))
            bb_update_mean(&f->groups[g].waiting_us, f->steps, bb_spans_length(&s.waits[g]));
    }
    bb_overlap_of(t->step_ns, &s.compute, &s.comm, &o);
    bb_update_mean(&f->step_us, f->steps, o.step_ns);
    bb_update_mean(&f->compute_us, f->steps, o.compute_ns);
    bb_update_mean(&f->comm_us, f->steps, o.comm_ns);
    bb_update_mean(&f->exposed_us, f->steps, o.exposed_ns);
    bb_update_mean(&f->idle_us, f->steps, o.idle_ns);
    e = bb_exposure_of(&s);
    bb_update_mean(&f->exposed_transfer_us, f->steps, e.transfer_ns);
    bb_update_mean(&f->bubble_us, f->steps, e.bubble_ns);
    bb_update_mean(&f->exposed_waiting_us, f->steps, e.waiting_ns);
    f->steps++;
out:
    bb_intervals_release(&s);
    return rc;
}
