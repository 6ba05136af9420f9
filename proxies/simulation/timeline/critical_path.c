/* critical_path.c - computes the critical path by a backward search in a timeline (see critical_path.h). */
#include "proxies/simulation/timeline/critical_path.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/key_index.h"
#include "bootstrap/results/table.h"

#include <stdlib.h>

/* The communication operations of one rank, listed by partner: communicator, kind and peer (struct partner). The k-th
 * send to a peer matches the k-th receive of this peer from the rank; the k-th collective on a communicator matches the
 * k-th collective of every other member. */
struct partners {
    struct bb_key_index index; /* maps a struct partner (communicator, kind, peer) to its index in `lists` */
    struct partner_ops {
        int *ops, n; /* [n] indices of the operations in the rank's program, in program order */
    } * lists;       /* [index.n] */
    int *
        position; /* [operations of the rank] k: the operation is the k-th one with its partner; NULL: not listed yet */
};

struct partner {
    int comm, kind, peer; /* peer: world rank of the peer of a send or receive, BB_NONE for a collective or
                             alltoallv; comm, kind: communicator and kind of the operation */
};

struct walk {
    const struct bb_timeline *t;
    struct bb_critical_path *path;
    struct partners *messages;    /* [ranks] the sends and receives of each rank, computed when the search first needs
                                     those of the rank */
    struct partners *collectives; /* [roles] the collectives and alltoallvs of each role (ranks with the same
                                     program), computed when the search first needs those of the role */
    int rank, op; /* current operation of the backward search: operation index `op` in the program of rank `rank` */
    int64_t now_ns;
};

static const struct bb_program *program_of(const struct walk *w, int rank)
{
    return bb_step_program(w->t->step, rank);
}

/* Returns the times of the rank's operations; NULL if the timeline contains no times for this rank. */
static const struct bb_timed_op *times_of(const struct walk *w, int rank)
{
    const int shown = w->path->shown_as[rank];

    return shown == BB_NONE ? NULL : w->t->ops[shown];
}

/* ---- matching operations of different ranks ---- */

static bool is_message(const struct bb_op *op)
{
    return op->kind == BB_OP_SEND || op->kind == BB_OP_RECV;
}

static struct partner partner_of(const struct walk *w, const struct bb_op *op, int rank)
{
    const int peer = is_message(op) ? bb_op_peer_rank(&w->t->step->layout, op, rank) : BB_NONE;

    return (struct partner){op->comm, (int)op->kind, peer};
}

/* Returns the partners of the rank's sends and receives (messages true) or of its collectives and alltoallvs
 * (false). */
static const struct partners *find_partners(struct walk *w, int rank, bool messages)
{
    struct partners *p = messages ? &w->messages[rank] : &w->collectives[w->t->step->role_of[rank]];
    const struct bb_program *program = program_of(w, rank);

    if (p->position)
        return p;
    p->index.key_bytes = sizeof(struct partner);
    BB_NEW(p->position, program->n_ops);
    for (size_t i = 0; i < program->n_ops; i++) {
        const struct bb_op *op = &program->ops[i];

        if (!bb_op_is_comm(op) || is_message(op) != messages)
            continue;
        const struct partner key = partner_of(w, op, rank);
        const int known = p->index.n, partner = bb_key_index_add(&p->index, &key);

        if (partner == known) {
            BB_GROW(p->lists, known);
            p->lists[partner] = (struct partner_ops){0};
        }
        struct partner_ops *list = &p->lists[partner];
        BB_GROW(list->ops, list->n);
        p->position[i] = list->n;
        list->ops[list->n++] = (int)i;
    }
    return p;
}

/* Returns the operation of rank `other` that matches operation `op` of the current rank w->rank; BB_NONE if no
 * operation matches. */
static int find_matching_op(struct walk *w, int op, int other)
{
    const struct bb_op *mine = &program_of(w, w->rank)->ops[op];
    const bool message = is_message(mine);
    const enum bb_op_kind theirs = !message ? mine->kind : mine->kind == BB_OP_SEND ? BB_OP_RECV : BB_OP_SEND;
    const struct partner there = {mine->comm, (int)theirs, message ? w->rank : BB_NONE};
    const int position = find_partners(w, w->rank, message)->position[op];
    const struct partners *others = find_partners(w, other, message);
    const int partner = bb_key_index_find(&others->index, &there);

    return partner >= 0 && position < others->lists[partner].n ? others->lists[partner].ops[position] : BB_NONE;
}

static void release_partners(struct partners *all, int n)
{
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < all[i].index.n; k++)
            free(all[i].lists[k].ops);
        free(all[i].lists);
        free(all[i].position);
        bb_key_index_release(&all[i].index);
    }
    free(all);
}

/* ---- the rank that arrives last ---- */

struct last_arrival {
    int rank, op;
    int64_t begin_ns;
    bool unknown; /* true: the times of at least one rank that takes part in the operation are unknown */
};

static void consider_participant(struct walk *w, int op, int other, struct last_arrival *last)
{
    const struct bb_timed_op *times = times_of(w, other);
    const int found = times && other != w->rank ? find_matching_op(w, op, other) : BB_NONE;

    if (other == w->rank)
        return;
    if (found == BB_NONE)
        last->unknown = true;
    else if (times[found].begin_ns > last->begin_ns)
        *last = (struct last_arrival){other, found, times[found].begin_ns, last->unknown};
}

/* Updates *last, the latest arrival found so far at communication operation `op`, with the arrivals of all ranks
 * that take part in it. */
static void consider_participants(struct walk *w, int op, struct last_arrival *last)
{
    const struct bb_layout *l = &w->t->step->layout;
    const struct bb_op *mine = &program_of(w, w->rank)->ops[op];
    const int group = l->comms[mine->comm].group, instance = bb_group_instance(l, group, w->rank);

    if (is_message(mine))
        consider_participant(w, op, bb_op_peer_rank(l, mine, w->rank), last);
    else
        for (int i = 0; i < l->groups[group].size; i++)
            if (mine->kind == BB_OP_COLLECTIVE || bb_alltoallv_exchanges_with(mine, i))
                consider_participant(w, op, bb_group_member(l, group, instance, i), last);
}

/* Finds the operations [*first, *end) of the NCCL group call that contains `op`. The operations of a group call on
 * one communicator begin and end together; the range may include operations on other communicators. */
static void find_call(const struct bb_program *p, int op, int *first, int *end)
{
    const int call = p->ops[op].call;

    for (*first = op; call != BB_NONE && *first > 0 && p->ops[*first - 1].call == call; (*first)--)
        continue;
    for (*end = op + 1; call != BB_NONE && *end < (int)p->n_ops && p->ops[*end].call == call; (*end)++)
        continue;
}

static struct last_arrival find_last_arrival(struct walk *w)
{
    const struct bb_program *p = program_of(w, w->rank);
    struct last_arrival last = {w->rank, w->op, times_of(w, w->rank)[w->op].begin_ns, false};
    int first, end;

    find_call(p, w->op, &first, &end);
    for (int i = first; i < end; i++)
        if (bb_op_is_comm(&p->ops[i]) && p->ops[i].comm == p->ops[w->op].comm)
            consider_participants(w, i, &last);
    return last;
}

/* ---- predecessors of an operation on its stream and communicator ---- */

/* Replaces *best by `candidate` if the latter ends later; BB_NONE: no operation. */
static void keep_later(const struct bb_timed_op *times, int candidate, int *best)
{
    if (candidate != BB_NONE && (*best == BB_NONE || times[candidate].end_ns > times[*best].end_ns))
        *best = candidate;
}

/* Returns the index of the last operation before index `first` that uses the same stream as `op` (of_stream true) or
 * the same communicator (of_stream false); BB_NONE if there is none. */
static int last_before(const struct bb_program *p, int first, const struct bb_op *op, bool of_stream)
{
    for (int i = first; i-- > 0;)
        if (of_stream ? p->ops[i].stream == op->stream : p->ops[i].comm == op->comm)
            return i;
    return BB_NONE;
}

/* Returns the predecessor, of the single operation or group call that contains w->op, with the latest end; BB_NONE
 * if there is no predecessor. */
static int find_predecessor(const struct walk *w)
{
    const struct bb_program *p = program_of(w, w->rank);
    const struct bb_timed_op *times = times_of(w, w->rank);
    int first, end, best = BB_NONE;

    find_call(p, w->op, &first, &end);
    for (int i = first; i < end; i++) {
        const struct bb_op *op = &p->ops[i];

        if (op->comm != p->ops[w->op].comm)
            continue;
        for (int k = op->first_wait; k < op->first_wait + op->waits; k++)
            keep_later(times, p->wait_list[k], &best);
        keep_later(times, last_before(p, first, op, true), &best);
        if (op->comm != BB_NONE)
            keep_later(times, last_before(p, first, op, false), &best);
    }
    return best;
}

/* ---- traversal from the end of the step back to its start ---- */

/* Adds the time from `ns` to w->now_ns to the category `part` (compute, transfer, waiting or host) of the critical
 * path and sets w->now_ns to `ns`. Does nothing if `ns` is after w->now_ns, because measured times may be slightly
 * out of order. */
static void attribute_back_to(struct walk *w, enum bb_critical_part part, int64_t ns)
{
    const int64_t to = ns < 0 ? 0 : ns;

    if (to >= w->now_ns)
        return;
    w->path->ns[part] += w->now_ns - to;
    w->now_ns = to;
}

static void mark(struct walk *w)
{
    w->path->marked[w->path->shown_as[w->rank]][w->op] = true;
    BB_GROW(w->path->ops, w->path->n);
    w->path->ops[w->path->n++] = (struct bb_critical_op){w->rank, w->op};
}

/* Adds the time of the current operation (w->op of rank w->rank) to the categories of the critical path. The search
 * continues at the begin of this operation or, if it waited for another rank, at the begin of the matching operation
 * of the rank that arrived last. */
static void attribute_op(struct walk *w)
{
    const struct bb_timed_op at = times_of(w, w->rank)[w->op];
    struct last_arrival last;

    attribute_back_to(w, BB_CRITICAL_HOST, at.end_ns);
    mark(w);
    if (!bb_op_is_comm(&program_of(w, w->rank)->ops[w->op])) {
        attribute_back_to(w, BB_CRITICAL_COMPUTE, at.begin_ns);
        return;
    }
    last = find_last_arrival(w);
    if (last.unknown && at.begin_ns + at.wait_ns > last.begin_ns) {
        attribute_back_to(w, BB_CRITICAL_TRANSFER, at.begin_ns + at.wait_ns);
        attribute_back_to(w, BB_CRITICAL_WAITING, last.begin_ns);
    }
    attribute_back_to(w, BB_CRITICAL_TRANSFER, last.begin_ns);
    if (last.rank == w->rank)
        return;
    w->rank = last.rank;
    w->op = last.op;
    mark(w);
}

static void find_start(struct walk *w)
{
    const struct bb_timeline *t = w->t;
    const struct bb_program *p;
    int slowest = 0;

    for (int i = 1; i < t->n; i++)
        slowest = t->step_ns[i] > t->step_ns[slowest] ? i : slowest;
    w->rank = t->ranks[slowest];
    w->now_ns = t->step_ns[slowest];
    w->op = BB_NONE;
    p = program_of(w, w->rank);
    for (int i = 0; i < (int)p->n_ops; i++)
        keep_later(t->ops[slowest], i, &w->op);
    w->path->rank = w->rank;
}

static void prepare(struct walk *w, const int *times_from)
{
    const int ranks = w->t->step->layout.ranks;
    struct bb_critical_path *path = w->path;

    path->n_shown = w->t->n;
    BB_NEW(path->shown_as, ranks);
    BB_NEW(path->marked, w->t->n);
    BB_NEW(w->messages, ranks);
    BB_NEW(w->collectives, w->t->step->n_roles);
    for (int r = 0; r < ranks; r++)
        path->shown_as[r] = times_from ? times_from[r] : BB_NONE;
    for (int i = 0; i < w->t->n; i++) {
        if (!times_from)
            path->shown_as[w->t->ranks[i]] = i;
        BB_NEW(path->marked[i], program_of(w, w->t->ranks[i])->n_ops);
    }
}

void bb_critical_path_init(struct bb_critical_path *path, const struct bb_timeline *t, const int *times_from)
{
    struct walk w = {.t = t, .path = path};

    *path = (struct bb_critical_path){0};
    prepare(&w, times_from);
    for (find_start(&w); w.op != BB_NONE; w.op = find_predecessor(&w))
        attribute_op(&w);
    attribute_back_to(&w, BB_CRITICAL_HOST, 0);
    release_partners(w.messages, t->step->layout.ranks);
    release_partners(w.collectives, t->step->n_roles);
}

void bb_critical_path_release(struct bb_critical_path *path)
{
    for (int i = 0; i < path->n_shown; i++)
        free(path->marked[i]);
    free(path->marked);
    free(path->shown_as);
    free(path->ops);
    *path = (struct bb_critical_path){0};
}

bool bb_critical_path_has(const struct bb_critical_path *path, int rank, int op)
{
    return path && path->shown_as[rank] != BB_NONE && path->marked[path->shown_as[rank]][op];
}

#define PART_NS(part) BB_SHOWS_NS(struct bb_critical_path, ns[part])
static const struct bb_field fields[] = {
    {"rank", BB_SHOWS(struct bb_critical_path, rank)},
    {"operations", BB_SHOWS(struct bb_critical_path, n)},
    {"compute_us", PART_NS(BB_CRITICAL_COMPUTE)},
    {"transfer_us", PART_NS(BB_CRITICAL_TRANSFER)},
    {"waiting_us", PART_NS(BB_CRITICAL_WAITING)},
    {"host_us", PART_NS(BB_CRITICAL_HOST)},
    {0},
};

json_t *bb_critical_path_json(const struct bb_critical_path *path)
{
    return bb_table_object(fields, path);
}
