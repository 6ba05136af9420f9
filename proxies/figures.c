/* figures.c - from the events of traced steps to the figures of figures.h. */
#include "proxies/figures.h"

#include "cuda/check.h"

#include <math.h>
#include <stdlib.h>

static int group_of(const struct bb_layout *l, int comm)
{
    return l->comms[comm].group;
}

/* ---- what the groups move ------------------------------------------------------------------------------------------
 */

void bb_group_works(const struct bb_layout *l, const struct bb_program *p, struct bb_group_work work[BB_MAX_GROUPS])
{
    double sent[BB_MAX_GROUPS] = {0}, received[BB_MAX_GROUPS] = {0};

    for (int g = 0; g < BB_MAX_GROUPS; g++)
        work[g] = (struct bb_group_work){0};
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
        else
            work[g].pairs = true;
        sent[g] += op->kind == BB_OP_SEND ? bytes : 0;
        received[g] += op->kind == BB_OP_RECV ? bytes : 0;
    }
    for (int g = 0; g < l->n_groups; g++)
        work[g].bus_bytes += fmax(sent[g], received[g]);
}

/* ---- reading a traced step ------------------------------------------------------------------------------------------
 */

int bb_trace_init(struct bb_trace *t, const struct bb_runner *r)
{
    *t = (struct bb_trace){.lanes = calloc((size_t)r->n_lanes + 1, sizeof(*t->lanes))};
    return t->lanes ? 0 : bb_err(BB_EFAIL, "no memory for the trace of %d calls", r->n_batches);
}

void bb_trace_release(struct bb_trace *t)
{
    free(t->lanes);
    *t = (struct bb_trace){0};
}

static int since_begin(const struct bb_runner *r, cudaEvent_t event, int64_t *ns)
{
    float ms;
    int rc = BB_CUDA(cudaEventElapsedTime(&ms, r->begin, event));

    *ns = rc ? 0 : llround((double)ms * 1e6);
    return rc;
}

/* Whether the lane launched anything in a step issued with `what`. */
static bool ran(const struct bb_runner *r, const struct bb_lane *lane, unsigned what)
{
    const struct bb_op *op = &r->program->ops[r->batches[lane->batch].first];

    if (bb_op_is_comm(op))
        return what & BB_ISSUE_COMM;
    return (what & BB_ISSUE_COMPUTE) && bb_op_launches(op);
}

int bb_trace_read(struct bb_trace *t, const struct bb_runner *r, unsigned what)
{
    int rc;

    TRY(since_begin(r, r->end, &t->step_ns));
    for (int i = 0; i < r->n_lanes; i++) {
        t->lanes[i] = (struct bb_span){0};
        if (!ran(r, &r->lanes[i], what))
            continue;
        TRY(since_begin(r, r->lanes[i].begin, &t->lanes[i].begin_ns));
        TRY(since_begin(r, r->lanes[i].end, &t->lanes[i].end_ns));
    }
out:
    return rc;
}

/* ---- unions
 * ----------------------------------------------------------------------------------------------------------- */

/* The intervals of one group (BB_NONE: compute). */
static int spans_of(const struct bb_runner *r, const struct bb_trace *t, int group, struct bb_spans *out)
{
    int rc = 0;

    bb_spans_clear(out);
    for (int i = 0; i < r->n_lanes; i++) {
        int comm = r->lanes[i].comm, own = comm == BB_NONE ? BB_NONE : group_of(r->layout, comm);

        if (own == group)
            TRY(bb_spans_add(out, t->lanes[i].begin_ns, t->lanes[i].end_ns));
    }
out:
    return rc;
}

static int join_groups(struct bb_spans *all, const struct bb_spans *one)
{
    int rc = 0;

    for (size_t i = 0; i < one->n; i++)
        TRY(bb_spans_add(all, one->at[i].begin_ns, one->at[i].end_ns));
out:
    return rc;
}

/* mean over n + 1 samples from the mean over n */
static void fold(double *mean, int n, int64_t ns)
{
    *mean += ((double)ns / 1e3 - *mean) / (n + 1);
}

int bb_rank_figures_add(struct bb_rank_figures *f, const struct bb_runner *r, const struct bb_trace *t)
{
    struct bb_spans compute = {0}, comm = {0}, one = {0};
    struct bb_overlap o;
    int rc;

    TRY(spans_of(r, t, BB_NONE, &compute));
    for (int g = 0; g < r->layout->n_groups; g++) {
        TRY(spans_of(r, t, g, &one));
        TRY(join_groups(&comm, &one));
        bb_overlap_of(t->step_ns, &compute, &one, &o);
        fold(&f->groups[g].busy_us, f->steps, o.comm_ns);
        fold(&f->groups[g].exposed_us, f->steps, o.exposed_ns);
    }
    bb_overlap_of(t->step_ns, &compute, &comm, &o);
    fold(&f->step_us, f->steps, o.step_ns);
    fold(&f->compute_us, f->steps, o.compute_ns);
    fold(&f->comm_us, f->steps, o.comm_ns);
    fold(&f->exposed_us, f->steps, o.exposed_ns);
    fold(&f->idle_us, f->steps, o.idle_ns);
    f->steps++;
out:
    bb_spans_release(&compute);
    bb_spans_release(&comm);
    bb_spans_release(&one);
    return rc;
}

/* ---- waiting and transfer of collectives
 * ------------------------------------------------------------------------------- */

/* One collective of a traced step: which one of its instance it was (all members count alike), and how long it took. */
struct timed {
    int32_t comm, instance, turn; /* comm BB_NONE: filler                                                          */
    int32_t pad;
    int64_t ns;
};

static int by_collective(const void *a, const void *b)
{
    const struct timed *x = a, *y = b;

    if (x->comm != y->comm)
        return x->comm < y->comm ? -1 : 1;
    if (x->instance != y->instance)
        return x->instance < y->instance ? -1 : 1;
    if (x->turn != y->turn)
        return x->turn < y->turn ? -1 : 1;
    return (x->ns > y->ns) - (x->ns < y->ns);
}

/* Calls of a single collective; those inside NCCL groups have no time of their own. */
static int own_collectives(const struct bb_runner *r, const struct bb_trace *t, struct timed *out)
{
    int32_t turns[BB_MAX_COMMS] = {0};
    int n = 0;

    for (int i = 0; i < r->n_lanes; i++) {
        const struct bb_batch *batch = &r->batches[r->lanes[i].batch];
        const struct bb_op *op = &r->program->ops[batch->first];

        if (op->kind != BB_OP_COLLECTIVE || batch->n != 1)
            continue;
        out[n++] =
            (struct timed){.comm = op->comm,
                           .instance = bb_group_instance(r->layout, group_of(r->layout, op->comm), r->world->rank),
                           .turn = turns[op->comm]++,
                           .ns = t->lanes[i].end_ns - t->lanes[i].begin_ns};
    }
    return n;
}

static void split_group(struct bb_rank_figures *f, int n_groups, const int64_t *transfer, const int64_t *waiting)
{
    for (int g = 0; g < n_groups; g++) {
        fold(&f->groups[g].transfer_us, f->steps, transfer[g]);
        fold(&f->groups[g].waiting_us, f->steps, waiting[g]);
    }
}

/* all[n] sorted: the first entry of a collective is its shortest time. */
static void split(struct bb_rank_figures *f, const struct bb_runner *r, const struct timed *mine, int n_mine,
                  const struct timed *all, size_t n)
{
    int64_t transfer[BB_MAX_GROUPS] = {0}, waiting[BB_MAX_GROUPS] = {0};

    for (int i = 0; i < n_mine; i++) {
        struct timed key = mine[i];
        size_t low = 0, high = n;

        key.ns = INT64_MIN;
        while (low < high) { /* the first entry not below the key */
            size_t middle = (low + high) / 2;

            if (by_collective(&all[middle], &key) < 0)
                low = middle + 1;
            else
                high = middle;
        }
        int g = group_of(r->layout, mine[i].comm);
        transfer[g] += all[low].ns;
        waiting[g] += mine[i].ns - all[low].ns;
    }
    split_group(f, r->layout->n_groups, transfer, waiting);
}

static void no_split(struct bb_rank_figures *f)
{
    for (int g = 0; g < BB_MAX_GROUPS; g++)
        f->groups[g].transfer_us = f->groups[g].waiting_us = NAN;
}

/* The most collectives that a rank of the world has, so that all send the same number of bytes. */
static int most_collectives(const struct bb_runner *r, int mine, int *most)
{
    int *all = calloc((size_t)r->world->size, sizeof(*all));
    int rc = all ? bb_world_allgather(r->world, &mine, all, sizeof(mine)) : bb_err(BB_EFAIL, "no memory for a trace");

    *most = 0;
    for (int i = 0; rc == 0 && i < r->world->size; i++)
        *most = all[i] > *most ? all[i] : *most;
    free(all);
    return rc;
}

int bb_rank_figures_split(struct bb_rank_figures *f, const struct bb_runner *r, const struct bb_trace *t)
{
    struct timed *mine = calloc((size_t)r->n_lanes + 1, sizeof(*mine)), *room, *all = NULL;
    int rc, most = 0, n = mine ? own_collectives(r, t, mine) : 0;
    size_t total;

    TRY(mine ? most_collectives(r, n, &most) : bb_err(BB_EFAIL, "no memory for a trace"));
    total = (size_t)most * (size_t)r->world->size;
    if (total * sizeof(*all) > 64 << 20) {
        no_split(f);
        goto out;
    }
    all = calloc(total + 1, sizeof(*all));
    room = realloc(mine, ((size_t)most + 1) * sizeof(*mine));
    mine = room ? room : mine;
    TRY(all && room ? 0 : bb_err(BB_EFAIL, "no memory for a trace of %zu collectives", total));
    for (int i = n; i < most; i++)
        mine[i] = (struct timed){.comm = BB_NONE};
    if (most > 0)
        TRY(bb_world_allgather(r->world, mine, all, (size_t)most * sizeof(*mine)));
    qsort(all, total, sizeof(*all), by_collective);
    split(f, r, mine, n, all, total);
out:
    free(mine);
    free(all);
    return rc;
}
