/*
 * match.c - matches each send with its receive, collects the members of each collective, and reports operations that do
 * not match (the checks of collectives and of messages, see step_check.h). simulate.c executes the matched operations.
 */
#include "proxies/simulation/simulate/matching/match.h"

#include "bootstrap/base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- sends and receives ---- */

/* All sends from one rank to one peer, or all receives of the rank from this peer, in issue order. They may be
 * listed under two peer addresses: the absolute one and the one relative to the rank. */
struct messages {
    int *op;
    int n;
};

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static struct messages collect_messages(const struct bb_sim *m, int rank, int comm, int peer, bool sends)
{
    const struct bb_task_graph *s = &m->graphs[m->step->role_of[rank]];
    struct bb_channels_to channels = bb_channels_to(&m->step->layout, s, comm, rank, peer);
    struct messages out = {0};
    int parts = 0;

    for (int c; (c = bb_channels_to_next(&channels)) != BB_NONE;) {
        const struct bb_channel *channel = &s->channels[c];
        const int n = sends ? channel->n_sends : channel->n_recvs;

        for (int i = 0; i < n; i++) {
            BB_GROW(out.op, out.n);
            out.op[out.n++] = (sends ? channel->sends : channel->recvs)[i];
        }
        parts += n > 0;
    }
    if (parts > 1)
        qsort(out.op, (size_t)out.n, sizeof(int), by_number);
    return out;
}

static const struct bb_op *op_at(const struct bb_sim *m, int rank, int op)
{
    return &m->graphs[m->step->role_of[rank]].program->ops[op];
}

/* All messages from one rank to another on one communicator: the k-th send must match the k-th receive, with the
 * same count and data type. */
struct channel {
    int comm, from, to;
    const struct messages *sends, *recvs;
};

static void compare_channel(const struct bb_sim *m, const struct channel *ch, struct bb_faults *faults)
{
    const char *comm = m->step->layout.comms[ch->comm].name;
    int both = ch->sends->n < ch->recvs->n ? ch->sends->n : ch->recvs->n;

    for (int k = 0; k < both; k++) {
        const struct bb_op *s = op_at(m, ch->from, ch->sends->op[k]), *r = op_at(m, ch->to, ch->recvs->op[k]);

        if (s->count != r->count || s->dtype != r->dtype)
            bb_fault(faults,
                     "message %d from rank %d to rank %d on '%s': rank %d sends %zu %s (operation %d), rank %d "
                     "receives %zu %s (operation %d)",
                     k, ch->from, ch->to, comm, ch->from, s->count, bb_dtypes[s->dtype].name, ch->sends->op[k], ch->to,
                     r->count, bb_dtypes[r->dtype].name, ch->recvs->op[k]);
    }
    if (ch->sends->n > both)
        bb_fault(
            faults,
            "rank %d sends %d messages to rank %d on '%s', but the peer posts %d receives: operation %d of rank %d is "
            "the first send without a receive",
            ch->from, ch->sends->n, ch->to, comm, both, ch->sends->op[both], ch->from);
    if (ch->recvs->n > both)
        bb_fault(faults,
                 "rank %d receives %d messages from rank %d on '%s', but the peer posts %d sends: operation %d of rank "
                 "%d is the first receive without a send",
                 ch->to, ch->recvs->n, ch->from, comm, both, ch->recvs->op[both], ch->to);
}

static void match_messages(struct bb_sim *m, int class_id, const struct messages *mine, int peer,
                           const struct messages *theirs)
{
    const int their = m->classes.of[peer];

    for (int k = 0; k < mine->n && k < theirs->n; k++)
        m->sides[m->op_base[class_id] + mine->op[k]] =
            (struct bb_sim_side){peer, m->task_base[their] + bb_sim_task_graph(m, their)->task_of[theirs->op[k]]};
}

/* Matches all messages between the lowest rank of a class of equivalent ranks and a peer, in both directions. Each
 * mismatch is reported once: when the sending rank is visited or, if the peer sends nothing to this rank, when this
 * rank is visited. */
static void match_with_class(struct bb_sim *m, int class_id, int comm, int peer, struct bb_faults *faults)
{
    int rank = m->classes.rank[class_id];
    struct messages sends = collect_messages(m, rank, comm, peer, true);
    struct messages recvs = collect_messages(m, rank, comm, peer, false);
    struct messages their_sends = collect_messages(m, peer, comm, rank, true);
    struct messages their_recvs = collect_messages(m, peer, comm, rank, false);

    match_messages(m, class_id, &sends, peer, &their_recvs);
    match_messages(m, class_id, &recvs, peer, &their_sends);
    if (sends.n > 0)
        compare_channel(m, &(struct channel){comm, rank, peer, &sends, &their_recvs}, faults);
    if (their_sends.n == 0)
        compare_channel(m, &(struct channel){comm, peer, rank, &their_sends, &recvs}, faults);
    free(sends.op);
    free(recvs.op);
    free(their_sends.op);
    free(their_recvs.op);
}

/* Returns whether `channel` is the first of the peer addresses (bb_task_graph.channels) by which `rank` addresses
 * this peer. */
static bool is_first(const struct bb_sim *m, const struct bb_task_graph *s, int channel, int rank, int peer)
{
    struct bb_channels_to channels = bb_channels_to(&m->step->layout, s, s->channels[channel].comm, rank, peer);

    for (int c; (c = bb_channels_to_next(&channels)) != BB_NONE;)
        if (c < channel)
            return false;
    return true;
}

static void match_class(struct bb_sim *m, int class_id, struct bb_faults *faults)
{
    const struct bb_layout *l = &m->step->layout;
    const struct bb_task_graph *s = bb_sim_task_graph(m, class_id);
    int rank = m->classes.rank[class_id];

    for (int c = 0; c < s->n_channels; c++) {
        int peer = bb_channel_rank(l, &s->channels[c], rank);

        if (is_first(m, s, c, rank, peer))
            match_with_class(m, class_id, s->channels[c].comm, peer, faults);
    }
}

/* ---- collectives and alltoallvs ---- */

/* Writes to `text` all properties on which the members of a collective or alltoallv must agree, for example "all_reduce
 * of 5 float sum", "broadcast of 5 float with root 0" or "alltoallv by table 3, rows of 7168 bfloat16". The table
 * number is the index in step->tables. */
static const char *call_text(const struct bb_sim *m, const struct bb_op *op, int rank, char text[128])
{
    const struct bb_layout *l = &m->step->layout;
    const char *dtype = bb_dtypes[op->dtype].name;
    const struct bb_coll *coll = &bb_colls[op->coll];
    int length, table = 0;

    if (op->kind == BB_OP_ALLTOALLV) {
        while (table < m->step->n_tables && m->step->tables[table] != op->table)
            table++;
        snprintf(text, 128, "alltoallv by %stable %d, rows of %zu %s", op->reversed ? "transposed " : "", table,
                 op->count, dtype);
        return text;
    }
    length = snprintf(text, 128, "%s of %zu %s", coll->name, op->count, dtype);
    if (coll->flags & BB_COLL_REDUCES)
        length += snprintf(text + length, 128 - (size_t)length, " %s", bb_redops[op->redop].name);
    if (coll->flags & BB_COLL_ROOTED)
        snprintf(text + length, 128 - (size_t)length, " with root %d",
                 bb_op_peer(op, bb_comm_index(l, op->comm, rank), bb_comm_size(l, op->comm)));
    return text;
}

/* Returns whether the calls of two ranks agree in the properties of call_text. */
static bool calls_match(const struct bb_layout *l, const struct bb_op *a, int rank_a, const struct bb_op *b, int rank_b)
{
    const unsigned flags = bb_colls[a->coll].flags;
    const int size = bb_comm_size(l, a->comm);

    if (a->count != b->count || a->dtype != b->dtype)
        return false;
    if (a->kind == BB_OP_ALLTOALLV)
        return a->table == b->table && a->reversed == b->reversed;
    return a->coll == b->coll && (!(flags & BB_COLL_REDUCES) || a->redop == b->redop) &&
           (!(flags & BB_COLL_ROOTED) || bb_op_peer(a, bb_comm_index(l, a->comm, rank_a), size) ==
                                             bb_op_peer(b, bb_comm_index(l, b->comm, rank_b), size));
}

/* Compares the collectives (kind BB_OP_COLLECTIVE) or alltoallvs (BB_OP_ALLTOALLV) of `rank` with those of `first`, the
 * first member of the same communicator, and reports each difference. Also reports an alltoallv that uses another
 * rank's row of the table of send counts. */
static void compare_calls(const struct bb_sim *m, int comm, enum bb_op_kind kind, int first, int rank,
                          struct bb_faults *faults)
{
    const bool collectives = kind == BB_OP_COLLECTIVE;
    const struct bb_layout *l = &m->step->layout;
    const struct bb_task_graph *a = &m->graphs[m->step->role_of[first]], *b = &m->graphs[m->step->role_of[rank]];
    const int n_a = (collectives ? a->n_collectives : a->n_alltoallvs)[comm];
    const int n_b = (collectives ? b->n_collectives : b->n_alltoallvs)[comm], both = n_a < n_b ? n_a : n_b;
    const char *name = l->comms[comm].name;
    char text_a[128], text_b[128];

    for (int k = 0; k < both; k++) {
        const int op_a = a->tasks[(collectives ? a->collectives : a->alltoallvs)[comm][k]].first;
        const int op_b = b->tasks[(collectives ? b->collectives : b->alltoallvs)[comm][k]].first;
        const struct bb_op *of_a = &a->program->ops[op_a], *of_b = &b->program->ops[op_b];

        if (!calls_match(l, of_a, first, of_b, rank))
            bb_fault(faults, "%s %d on '%s': rank %d has %s (operation %d), rank %d has %s (operation %d)",
                     collectives ? "collective" : "alltoallv", k, name, first, call_text(m, of_a, first, text_a), op_a,
                     rank, call_text(m, of_b, rank, text_b), op_b);
        if (!collectives && of_b->peer != bb_comm_index(l, comm, rank))
            bb_fault(faults,
                     "alltoallv %d on '%s': rank %d has index %d but uses the table row of index %d (operation %d)", k,
                     name, rank, bb_comm_index(l, comm, rank), of_b->peer, op_b);
    }
    if (n_a != n_b && !collectives)
        bb_fault(faults, "rank %d has %d alltoallv operations on '%s', rank %d has %d", first, n_a, name, rank, n_b);
    if (n_a != n_b && collectives) {
        const struct bb_task_graph *more = n_a > n_b ? a : b;
        const int op = more->tasks[more->collectives[comm][both]].first, of_rank = n_a > n_b ? first : rank;

        bb_fault(faults,
                 "rank %d has %d collectives on '%s', rank %d has %d: %s (operation %d of rank %d) has no match", first,
                 n_a, name, rank, n_b, call_text(m, &more->program->ops[op], of_rank, text_a), op, of_rank);
    }
}

/* Describes in *inst the communicator that contains `rank`, and appends one member per class of equivalent ranks to
 * m->members. seen: in, out: [classes] 1 + index of the latest communicator for which a member of the class was
 * appended; 0: none. */
static void collect_members(struct bb_sim *m, int comm, int rank, int *seen, struct bb_sim_instance *inst)
{
    const struct bb_layout *l = &m->step->layout;
    int group = l->comms[comm].group, instance = bb_group_instance(l, group, rank), size = l->groups[group].size;
    struct bb_tier_members *tier_members;

    *inst = (struct bb_sim_instance){.comm = comm, .size = size, .first = m->n_members};
    inst->nodes = bb_group_nodes(l, group, instance, m->cluster ? m->cluster->gpus_per_node : 0);
    BB_NEW(tier_members, size);
    bb_group_find_placement(l, group, instance, m->cluster, &inst->placement, tier_members);
    for (int i = 0; i < size; i++) {
        int member = bb_group_member(l, group, instance, i), class_id = m->classes.of[member];

        if (seen[class_id] == m->n_instances + 1)
            continue;
        seen[class_id] = m->n_instances + 1;
        BB_GROW(m->members, m->n_members);
        m->members[m->n_members++] = (struct bb_member){class_id, member, tier_members[i]};
        inst->n++;
    }
    free(tier_members);
}

/* Lists the communicators of this name that run collectives, with their members, and compares the collectives of the
 * members. */
static void list_sim_instances(struct bb_sim *m, int comm, struct bb_faults *faults)
{
    const int n_comms = m->step->layout.n_comms;
    int *seen;

    BB_NEW(seen, m->classes.n);
    for (int c = 0; c < m->classes.n; c++) {
        struct bb_sim_instance *inst;

        if (m->instance_of[c * n_comms + comm] != BB_NONE || bb_sim_task_graph(m, c)->n_collectives[comm] == 0)
            continue;
        BB_GROW(m->instances, m->n_instances);
        inst = &m->instances[m->n_instances];
        collect_members(m, comm, m->classes.rank[c], seen, inst);
        for (int i = 0; i < inst->n; i++) {
            const struct bb_member *member = &m->members[inst->first + i];
            const int n = bb_sim_task_graph(m, member->class_id)->n_collectives[comm];

            m->instance_of[member->class_id * n_comms + comm] = m->n_instances;
            inst->collectives = n > inst->collectives ? n : inst->collectives;
            if (i > 0)
                compare_calls(m, comm, BB_OP_COLLECTIVE, m->members[inst->first].rank, member->rank, faults);
        }
        inst->base = m->n_collectives;
        m->n_collectives += inst->collectives;
        m->n_instances++;
    }
    free(seen);
}

static void list_alltoallv_peers(struct bb_sim *m, int class_id, int comm, struct bb_faults *faults)
{
    const struct bb_layout *l = &m->step->layout;
    const int rank = m->classes.rank[class_id], group = l->comms[comm].group;
    const int instance = bb_group_instance(l, group, rank);

    m->first_peer_of[class_id * l->n_comms + comm] = m->n_peers;
    compare_calls(m, comm, BB_OP_ALLTOALLV, bb_group_member(l, group, instance, 0), rank, faults);
    for (int index = 0; index < l->groups[group].size; index++) {
        const int peer = bb_group_member(l, group, instance, index);

        BB_GROW(m->peers, m->n_peers);
        m->peers[m->n_peers++] = (struct bb_alltoallv_peer){m->classes.of[peer], peer};
    }
}

/* ---- initialization and release ---- */

static void allocate_arrays(struct bb_sim *m)
{
    const int n = m->classes.n, n_comms = m->step->layout.n_comms;
    size_t cells = (size_t)n * (size_t)n_comms, ops;

    BB_NEW(m->graph_of, n);
    BB_NEW(m->op_base, n);
    BB_NEW(m->task_base, n);
    BB_NEW(m->instance_of, cells);
    BB_NEW(m->first_peer_of, cells);
    for (int c = 0; c < n; c++) {
        m->graph_of[c] = &m->graphs[m->step->role_of[m->classes.rank[c]]];
        m->op_base[c + 1] = m->op_base[c] + (int)bb_sim_task_graph(m, c)->program->n_ops;
        m->task_base[c + 1] = m->task_base[c] + bb_sim_task_graph(m, c)->n_tasks;
    }
    ops = (size_t)m->op_base[n];
    BB_NEW(m->sides, ops);
    for (size_t i = 0; i < ops; i++)
        m->sides[i] = (struct bb_sim_side){BB_NONE, BB_NONE};
    for (size_t i = 0; i < cells; i++)
        m->instance_of[i] = m->first_peer_of[i] = BB_NONE;
}

int bb_sim_init(struct bb_sim *m, const struct bb_step *step, const struct bb_cluster *cluster,
                const struct bb_conditions *conditions, struct bb_faults *faults)
{
    int rc;

    *m = (struct bb_sim){.step = step, .cluster = cluster};
    if (conditions)
        m->conditions = *conditions;
    if (cluster && m->conditions.slow.n > 0) {
        m->marked = *cluster;
        bb_slow_degrade_fabric(&m->conditions.slow, &m->marked);
        m->cluster = &m->marked;
    }
    BB_NEW(m->graphs, step->n_roles);
    for (int r = 0; r < step->n_roles; r++)
        bb_task_graph_init(&m->graphs[r], &step->roles[r].program);
    TRY(bb_sim_find_classes(m, faults));
    allocate_arrays(m);
    for (int c = 0; c < m->classes.n; c++) {
        match_class(m, c, faults);
        for (int comm = 0; comm < step->layout.n_comms; comm++)
            if (m->graph_of[c]->n_alltoallvs[comm] > 0)
                list_alltoallv_peers(m, c, comm, faults);
    }
    for (int comm = 0; comm < step->layout.n_comms; comm++)
        list_sim_instances(m, comm, faults);
    return 0;
out:
    bb_sim_release(m);
    return rc;
}

void bb_sim_release(struct bb_sim *m)
{
    for (int r = 0; m->graphs && r < m->step->n_roles; r++)
        bb_task_graph_release(&m->graphs[r]);
    bb_rank_classes_release(&m->classes);
    free(m->graphs);
    free(m->graph_of);
    free(m->op_base);
    free(m->task_base);
    free(m->sides);
    free(m->instance_of);
    free(m->instances);
    free(m->members);
    free(m->first_peer_of);
    free(m->peers);
    *m = (struct bb_sim){0};
}
