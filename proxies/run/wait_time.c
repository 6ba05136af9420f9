/*
 * wait_time.c - separates waiting from transfer in the communication of a traced step (see breakdown.h). A call is one
 * NCCL call or group call on one stream. Every rank lists the collectives and message sides (sends or receives) of its
 * calls, called parts. Calls on different ranks that take part in the same collective, or exchange a message, are
 * connected. All calls that are connected directly or through other calls form a set (disjoint-set forest, union-find).
 * The shortest duration in a set is its transfer time, because the call that started last did not wait.
 */
#include "proxies/run/breakdown.h"

#include "bootstrap/base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A part of an NCCL call: a collective, or one side (send or receive) of a message. The fields comm, instance, from,
 * to and number together identify the collective or message, and are equal on all ranks that take part. ns: duration
 * of the call. */
struct part {
    int32_t comm, instance; /* comm: index in layout.comms, BB_NONE: unused element; instance: which communicator of
                               this name, for example which tensor-parallel group */
    int32_t from, to; /* sender and receiver of a message, as ranks in the communicator; BB_NONE for collectives */
    /* sequence number of the collective on its communicator, or of the message among those with the same communicator,
     * sender and receiver */
    int32_t number;
    int32_t lane;  /* index in runner.lanes of the call's operations on one stream */
    int32_t index; /* index in the concatenated lists of all ranks, before sorting */
    int32_t pad;   /* unused; ranks exchange the struct as bytes, so it has no uninitialized padding */
    int64_t ns;
};

/* Comparison for qsort: returns 0 if both parts belong to the same collective or message. The order of different
 * collectives and messages does not matter, so the identifying fields, the first ones of the struct, are compared as
 * bytes. */
static int by_identity(const void *a, const void *b)
{
    return memcmp(a, b, offsetof(struct part, lane));
}

/* ---- the calls of this rank ---- */

/* A message queue (sender, receiver, communicator). messages: number of its messages listed so far. */
struct channel {
    int comm, from, to, messages;
};

/* State while the parts (collectives and message sides) of this rank's NCCL calls are listed. */
struct listing {
    const struct bb_runner *r;
    const struct bb_traced_step *trace;
    struct part *list; /* [n] parts listed so far */
    int n;
    int32_t collectives[BB_MAX_COMMS]; /* number of collectives so far on each communicator */
    struct channel *channels;          /* [n_channels] message queues of the messages listed so far */
    int n_channels;
};

static struct channel *channel_of(struct listing *s, int comm, int from, int to)
{
    for (int i = 0; i < s->n_channels; i++)
        if (s->channels[i].comm == comm && s->channels[i].from == from && s->channels[i].to == to)
            return &s->channels[i];
    BB_GROW(s->channels, s->n_channels);
    s->channels[s->n_channels] = (struct channel){comm, from, to, 0};
    return &s->channels[s->n_channels++];
}

static void add_op(struct listing *s, int lane, const struct bb_op *op)
{
    const struct bb_layout *l = s->r->layout;
    const struct bb_timed_op *at = &s->trace->lanes[lane];
    int self = s->r->comms[op->comm].rank, peer = bb_runner_peer(s->r, op);
    struct part m = {.comm = op->comm,
                     .instance = bb_group_instance(l, l->comms[op->comm].group, s->r->world->rank),
                     .from = BB_NONE,
                     .to = BB_NONE,
                     .lane = lane,
                     .ns = at->end_ns - at->begin_ns};

    if (op->kind == BB_OP_COLLECTIVE) {
        m.number = s->collectives[op->comm]++;
    } else {
        m.from = op->kind == BB_OP_SEND ? self : peer;
        m.to = op->kind == BB_OP_SEND ? peer : self;
        /* the two sides of a rank's message to itself get different numbers here and are therefore not matched,
         * which does not change the result, because both sides have the same duration */
        m.number = channel_of(s, op->comm, m.from, m.to)->messages++;
    }
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
        if (op->kind == BB_OP_COLLECTIVE && batch->n > 1)
            s->collectives[op->comm]++;
        else
            add_op(s, lane, op);
    }
}

/* ---- sets of connected NCCL calls ---- */

/* The collectives and message sides (parts) of all ranks. parent[i]: parent of part i in the disjoint-set forest;
 * the root of a tree represents the set of parts in this tree. */
struct call_sets {
    struct part *parts;
    int *parent, n;
    int64_t *min_ns; /* [n] shortest duration in a set, stored at the index of its root; other elements are unused */
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
 * collective or message, which are adjacent after sorting. Then computes the shortest duration of each set.
 * of_a_rank: number of elements, including unused ones, in the list of each rank. */
static void join_parts(struct call_sets *m, int of_a_rank)
{
    struct part *p = m->parts;

    for (int i = 0; i < m->n; i++) {
        p[i].index = m->parent[i] = i;
        if (i % of_a_rank > 0 && p[i].comm != BB_NONE && p[i].lane == p[i - 1].lane)
            unite(m, i, i - 1);
    }
    qsort(p, (size_t)m->n, sizeof(*p), by_identity);
    for (int i = 1; i < m->n; i++)
        if (p[i].comm != BB_NONE && by_identity(&p[i], &p[i - 1]) == 0)
            unite(m, p[i].index, p[i - 1].index);
    for (int i = 0; i < m->n; i++)
        m->min_ns[i] = INT64_MAX;
    for (int i = 0; i < m->n; i++) {
        int64_t *transfer_ns = &m->min_ns[find_root(m, p[i].index)];

        *transfer_ns = p[i].ns < *transfer_ns ? p[i].ns : *transfer_ns;
    }
}

/* ---- waiting and transfer times ---- */

/* Sets the waiting times of this rank in t->lanes and adds the transfer and waiting times of each group to the means
 * in f. mine: [n] collectives and message sides of this rank, which begin at index `first` of the concatenated lists
 * of all ranks. */
static void split_waiting(struct bb_rank_breakdown *f, const struct bb_runner *r, struct bb_traced_step *t,
                          struct call_sets *m, const struct part *mine, int n, int first)
{
    int64_t transfer[BB_MAX_GROUPS] = {0}, waiting[BB_MAX_GROUPS] = {0};

    for (int i = 0; i < n; i++) {
        int g = r->layout->comms[mine[i].comm].group;
        int64_t transfer_ns = m->min_ns[find_root(m, first + i)];

        if (i > 0 && mine[i].lane == mine[i - 1].lane)
            continue;
        t->lanes[mine[i].lane].wait_ns = mine[i].ns - transfer_ns;
        transfer[g] += transfer_ns;
        waiting[g] += mine[i].ns - transfer_ns;
    }
    for (int g = 0; g < r->layout->n_groups; g++) {
        bb_update_mean(&f->groups[g].transfer_us, f->steps, transfer[g]);
        bb_update_mean(&f->groups[g].waiting_us, f->steps, waiting[g]);
    }
}

static void mark_unknown(struct bb_rank_breakdown *f)
{
    for (int g = 0; g < BB_MAX_GROUPS; g++)
        f->groups[g].transfer_us = f->groups[g].waiting_us = NAN;
    f->exposed_transfer_us = f->bubble_us = f->exposed_waiting_us = NAN;
}

/* Determines max_parts, the maximum over all ranks of the number of collectives and message sides, because all ranks
 * must exchange the same number of bytes. mine: this number on this rank. */
static int find_max_parts(const struct bb_runner *r, int mine, int *max_parts)
{
    double of_all = mine;
    int rc = bb_world_max(r->world, &of_all, 1);

    *max_parts = (int)of_all;
    return rc;
}

int bb_rank_breakdown_split(struct bb_rank_breakdown *f, const struct bb_runner *r, struct bb_traced_step *t)
{
    struct listing s = {.r = r, .trace = t};
    struct part *mine = NULL;
    struct call_sets m = {0};
    int rc, max_parts;

    BB_NEW(s.list, r->program->n_ops);
    for (int i = 0; i < r->n_lanes; i++)
        add_lane(&s, i);
    TRY(find_max_parts(r, s.n, &max_parts));
    if ((size_t)max_parts * (size_t)r->world->size * sizeof(*mine) > 64 << 20) {
        mark_unknown(f);
        goto out;
    }
    m.n = max_parts * r->world->size;
    BB_NEW(m.parts, m.n);
    BB_NEW(m.parent, m.n);
    BB_NEW(m.min_ns, m.n);
    BB_NEW(mine, max_parts);
    for (int i = 0; i < max_parts; i++)
        mine[i] = i < s.n ? s.list[i] : (struct part){.comm = BB_NONE};
    if (max_parts > 0) {
        TRY(bb_world_allgather(r->world, mine, m.parts, (size_t)max_parts * sizeof(*mine)));
        join_parts(&m, max_parts);
    }
    split_waiting(f, r, t, &m, mine, s.n, r->world->rank * max_parts);
out:
    free(s.list);
    free(s.channels);
    free(mine);
    free(m.parts);
    free(m.parent);
    free(m.min_ns);
    return rc;
}
