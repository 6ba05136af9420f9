/* breakdown.c - computes the busy, exposed, transfer and waiting times of breakdown.h from the CUDA events of traced
 * steps. */
#include "proxies/runner/run/breakdown.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/key_index.h"
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
        bb_intervals_add(&s, r->layout, &r->program->ops[r->batches[r->lanes[i].batch].first], r->lanes[i].comm,
                         &t->lanes[i]);
    for (int g = 0; g < r->layout->n_groups; g++) {
        bb_overlap_of(t->step_ns, &s.compute, &s.groups[g], &o);
        bb_update_mean(&f->groups[g].busy_us, f->steps, o.comm_ns);
        bb_update_mean(&f->groups[g].exposed_us, f->steps, o.exposed_ns);
        if (!isnan(f->groups[g].transfer_us))
            bb_update_mean(&f->groups[g].waiting_us, f->steps, bb_spans_length(&s.waits[g]));
    }
    bb_overlap_of(t->step_ns, &s.compute, &s.comm, &o);
    bb_update_mean(&f->step_us, f->steps, o.step_ns);
    bb_update_mean(&f->work_us, f->steps, bb_spans_length(&s.work));
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

/* ---- waiting and transfer ---- */

/*
 * This section separates waiting from transfer in the communication of a traced step. A call is one
 * NCCL call or group call on one stream. Every rank lists the collectives and message sides (sends or receives) of its
 * calls, called parts. Calls on different ranks that take part in the same collective, or exchange a message, are
 * connected. All calls that are connected directly or through other calls form a set (disjoint-set forest, union-find).
 * The shortest duration in a set is its transfer time, because the call that started last did not wait.
 */

/* Identifies a collective or message; equal on all ranks that take part. */
struct identity {
    int32_t comm, instance; /* comm: index in layout.comms, BB_NONE: unused element; instance: which communicator of
                               this name, for example which tensor-parallel group */
    int32_t from, to; /* sender and receiver of a message, as ranks in the communicator; BB_NONE for collectives */
    /* sequence number of the collective on its communicator, or of the message among those with the same communicator,
     * sender and receiver */
    int32_t number;
};

/* A part of an NCCL call: a collective, or one side (send or receive) of a message. Ranks exchange the struct as bytes;
 * it has no padding. */
struct part {
    struct identity id;
    int32_t lane; /* index in runner.lanes of the call's operations on one stream */
    int64_t ns;   /* duration of the call */
};

/* ---- the calls of this rank ---- */

/* State while the parts (collectives and message sides) of this rank's NCCL calls are listed. */
struct listing {
    const struct bb_runner *r;
    const struct bb_traced_step *trace;
    struct part *list; /* [n] parts listed so far */
    int n;
    struct bb_key_index series; /* keys: struct identity with number 0 */
    int32_t *counts;            /* [series.n] number of collectives or messages of each series so far */
};

/* Sets the sequence number of a collective or message. */
static void set_number(struct listing *s, struct identity *id)
{
    const int known = s->series.n, k = bb_key_index_add(&s->series, id);

    if (k == known) {
        BB_GROW(s->counts, known);
        s->counts[k] = 0;
    }
    id->number = s->counts[k]++;
}

/* listed: false: the operation only takes its sequence number. */
static void add_op(struct listing *s, int lane, const struct bb_op *op, bool listed)
{
    const struct bb_layout *l = s->r->layout;
    const struct bb_timed_op *at = &s->trace->lanes[lane];
    int self = s->r->comms[op->comm].rank, peer = bb_runner_peer(s->r, op);
    struct part m = {.id = {.comm = op->comm,
                            .instance = bb_group_instance(l, l->comms[op->comm].group, s->r->world->rank),
                            .from = BB_NONE,
                            .to = BB_NONE},
                     .lane = lane,
                     .ns = at->end_ns - at->begin_ns};

    if (op->kind != BB_OP_COLLECTIVE) {
        m.id.from = op->kind == BB_OP_SEND ? self : peer;
        m.id.to = op->kind == BB_OP_SEND ? peer : self;
    }
    /* the two sides of a rank's message to itself get different numbers here and are therefore not matched, which does
     * not change the result, because both sides have the same duration */
    set_number(s, &m.id);
    if (listed)
        s->list[s->n++] = m;
}

/* Adds the collective or the message sides of one NCCL call to the list. lane: index in runner.lanes of the call's
 * operations on one stream. A collective inside a group call is not added, because it has no duration of its own; it
 * only increments the sequence number of its communicator's collectives. */
static void add_lane(struct listing *s, int lane)
{
    const struct bb_batch *batch = &s->r->batches[s->r->lanes[lane].batch];

    for (int i = batch->first; i < batch->first + batch->n; i++) {
        const struct bb_op *op = &s->r->program->ops[i];

        if (!bb_op_is_comm(op) || op->stream != s->r->lanes[lane].stream)
            continue;
        add_op(s, lane, op, op->kind != BB_OP_COLLECTIVE || batch->n == 1);
    }
}

/* ---- sets of connected NCCL calls ---- */

/* The collectives and message sides (parts) of all ranks. parent[i]: parent of part i in the disjoint-set forest;
 * the root of a tree represents the set of parts in this tree. */
struct call_sets {
    struct part *parts;
    int *parent, n;
    int64_t *min_ns; /* [n] shortest duration in a set, stored at the index of its root; other elements are unused */
    int *last;       /* [n] the part of a set with this duration, whose rank arrived last; stored as min_ns */
};

static int find_root(struct call_sets *m, int i)
{
    while (m->parent[i] != i)
        i = m->parent[i] = m->parent[m->parent[i]];
    return i;
}

static void unite(struct call_sets *m, int i, int j)
{
    m->parent[find_root(m, i)] = find_root(m, j);
}

/* Unites the parts of each NCCL call, which are adjacent in the list of their rank, and the parts of the same
 * collective or message. Then computes the shortest duration of each set.
 * of_a_rank: number of elements, including unused ones, in the list of each rank. */
static void join_parts(struct call_sets *m, int of_a_rank)
{
    struct bb_key_index ids = {.key_bytes = sizeof(struct identity)};
    const struct part *p = m->parts;
    int *first; /* [ids.n] first part of each collective or message */

    BB_NEW(first, m->n);
    for (int i = 0; i < m->n; i++) {
        const int known = ids.n, k = p[i].id.comm == BB_NONE ? BB_NONE : bb_key_index_add(&ids, &p[i].id);

        m->parent[i] = i;
        m->min_ns[i] = INT64_MAX;
        if (k == known)
            first[k] = i;
        if (k != BB_NONE)
            unite(m, i, first[k]);
        if (k != BB_NONE && i % of_a_rank > 0 && p[i].lane == p[i - 1].lane)
            unite(m, i, i - 1);
    }
    for (int i = 0; i < m->n; i++) {
        const int root = find_root(m, i);

        if (p[i].ns < m->min_ns[root]) {
            m->min_ns[root] = p[i].ns;
            m->last[root] = i;
        }
    }
    bb_key_index_release(&ids);
    free(first);
}

/* ---- waiting and transfer times ---- */

/* Sets for which rank this rank has waited longest in the calls of group g of all traced steps. */
static void find_waited_for(struct bb_group_breakdown *g, const int64_t *waited_ns, int ranks)
{
    int64_t total_ns = 0;
    int most = 0;

    for (int r = 0; r < ranks; r++) {
        most = waited_ns[r] > waited_ns[most] ? r : most;
        total_ns += waited_ns[r];
    }
    g->waited_for = total_ns > 0 ? most : BB_NONE;
    g->waited_for_share = total_ns > 0 ? (double)waited_ns[most] / (double)total_ns : 0;
}

/* Sets the waiting times of this rank in t->lanes and adds the transfer and waiting times of each group to the means
 * in f. mine: [n] collectives and message sides of this rank; of_a_rank: as in join_parts. */
static void split_waiting(struct bb_rank_breakdown *f, const struct bb_runner *r, struct bb_traced_step *t,
                          struct call_sets *m, const struct part *mine, int n, int of_a_rank)
{
    const int ranks = r->world->size, first = r->world->rank * of_a_rank;
    int64_t transfer[BB_MAX_GROUPS] = {0};

    for (int i = 0; i < n; i++) {
        int g = r->layout->comms[mine[i].id.comm].group;
        const int root = find_root(m, first + i);
        int64_t transfer_ns = m->min_ns[root];

        if (i > 0 && mine[i].lane == mine[i - 1].lane)
            continue;
        t->lanes[mine[i].lane].wait_ns = mine[i].ns - transfer_ns;
        transfer[g] += transfer_ns;
        t->waited_ns[g * ranks + m->last[root] / of_a_rank] += mine[i].ns - transfer_ns;
    }
    for (int g = 0; g < r->layout->n_groups; g++) {
        bb_update_mean(&f->groups[g].transfer_us, f->steps, transfer[g]);
        find_waited_for(&f->groups[g], &t->waited_ns[g * ranks], ranks);
    }
}

int bb_rank_breakdown_split(struct bb_rank_breakdown *f, const struct bb_runner *r, struct bb_traced_step *t)
{
    struct listing s = {.r = r, .trace = t, .series.key_bytes = sizeof(struct identity)};
    struct call_sets m = {0};
    double most; /* maximum number of parts over all ranks: all ranks must exchange the same number of bytes */
    int rc, n;

    BB_NEW(s.list, r->program->n_ops);
    for (int i = 0; i < r->n_lanes; i++)
        add_lane(&s, i);
    most = s.n;
    TRY(bb_world_max(r->world, &most, 1));
    n = (int)most;
    if ((size_t)n * (size_t)r->world->size * sizeof(*s.list) > 64 << 20) {
        for (int g = 0; g < BB_MAX_GROUPS; g++)
            f->groups[g].transfer_us = f->groups[g].waiting_us = NAN;
        f->exposed_transfer_us = f->bubble_us = f->exposed_waiting_us = NAN;
        goto out;
    }
    m.n = n * r->world->size;
    BB_NEW(m.parts, m.n);
    BB_NEW(m.parent, m.n);
    BB_NEW(m.min_ns, m.n);
    BB_NEW(m.last, m.n);
    s.list = bb_resize(s.list, (size_t)n + 1, sizeof(*s.list));
    for (int i = s.n; i < n; i++)
        s.list[i] = (struct part){.id.comm = BB_NONE};
    if (n > 0) {
        TRY(bb_world_allgather(r->world, s.list, m.parts, (size_t)n * sizeof(*s.list)));
        join_parts(&m, n);
    }
    split_waiting(f, r, t, &m, s.list, s.n, n);
out:
    free(s.list);
    free(s.counts);
    bb_key_index_release(&s.series);
    free(m.parts);
    free(m.parent);
    free(m.min_ns);
    free(m.last);
    return rc;
}
