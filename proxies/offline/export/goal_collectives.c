/* goal_collectives.c - converts collectives to point-to-point messages for GOAL; see goal.h. */
#include "proxies/offline/export/goal.h"

#include "proxies/simulation/timeline/op_names.h"

/* A collective as seen by one rank. */
struct collective {
    const struct bb_layout *layout;
    const struct bb_op *op;
    /* group, instance: the communicator (group: index in layout->groups; instance: index among the sets of ranks of
     * this group); index: this rank's index in the communicator; n: number of ranks of the communicator */
    int group, instance, index, n;
    uint32_t before; /* index of the GOAL operation for which all messages of the collective wait */
};

/* Adds a send to, or a receive from, the rank with this index (modulo n) in the communicator. */
static uint32_t add_message(struct bb_goal *g, const struct collective *c, enum bb_goal_type type, int index,
                            uint64_t bytes, uint32_t before)
{
    const int peer = bb_group_member(c->layout, c->group, c->instance, (index % c->n + c->n) % c->n);

    return bb_goal_message(g, c->op, type, peer, bytes, before);
}

static uint32_t send_to(struct bb_goal *g, const struct collective *c, int index, uint64_t bytes, uint32_t before)
{
    return add_message(g, c, BB_GOAL_SEND, index, bytes, before);
}

static uint32_t receive_from(struct bb_goal *g, const struct collective *c, int index, uint64_t bytes, uint32_t before)
{
    return add_message(g, c, BB_GOAL_RECV, index, bytes, before);
}

/* Adds a join: a calculation of zero duration that starts after the operation `before`. The caller may make the join
 * wait for more operations; the join ends when all of them have ended. */
static uint32_t add_join(struct bb_goal *g, const struct collective *c, uint32_t before)
{
    return bb_goal_calc(g, c->op->stream, 0, before);
}

/*
 * Returns the size in bytes of fragment i (modulo n) of an array of `bytes` bytes that is split into n fragments. The
 * first bytes % n fragments have one byte more than the others.
 */
static uint64_t part_bytes(uint64_t bytes, int n, int i)
{
    const int part = (i % n + n) % n;

    return bytes / (uint64_t)n + ((uint64_t)part < bytes % (uint64_t)n);
}

/*
 * Adds the n - 1 steps of a ring algorithm (n: number of ranks) on one rank. In each step the rank sends to the next
 * rank the fragment that it received from the previous rank in the step before.
 *   bytes     size of the whole array
 *   first     index of the fragment that this rank sends in the first step
 *   received  index of the GOAL operation for which the first send and the first receive wait
 *   sent      in/out: index of the most recent send
 *   Returns   index of the final receive
 */
static uint32_t ring_round(struct bb_goal *g, const struct collective *c, uint64_t bytes, int first, uint32_t received,
                           uint32_t *sent)
{
    for (int s = 0; s < c->n - 1; s++) {
        const uint32_t last = received, sent_before = *sent;

        *sent = send_to(g, c, c->index + 1, part_bytes(bytes, c->n, first - s), last);
        bb_goal_wait_start(g, *sent, sent_before); /* starts the sends in order; without this dependency, sends that
                                                      are ready at the same time could start in any order */
        received = receive_from(g, c, c->index - 1, part_bytes(bytes, c->n, first - s - 1), last);
    }
    return received;
}

/* Adds the ring of an all_gather or reduce_scatter, or the two consecutive rings of an all_reduce. bytes: size of
 * the whole array for an all_reduce, size of one fragment (1 / n of the array) for an all_gather or reduce_scatter. */
static uint32_t expand_ring(struct bb_goal *g, const struct collective *c, uint64_t bytes)
{
    const bool all_reduce = c->op->coll == BB_ALL_REDUCE;
    const uint64_t whole = all_reduce ? bytes : bytes * (uint64_t)c->n;
    uint32_t sent = BB_GOAL_NOTHING, received = c->before, join;

    for (int r = 0; r < (all_reduce ? 2 : 1); r++)
        received = ring_round(g, c, whole, c->index + r, received, &sent);
    join = add_join(g, c, sent);
    bb_goal_wait(g, join, received);
    return join;
}

static uint32_t expand_alltoall(struct bb_goal *g, const struct collective *c, uint64_t bytes)
{
    const uint32_t join = add_join(g, c, BB_GOAL_NOTHING);

    for (int s = 1; s < c->n; s++) {
        bb_goal_wait(g, join, send_to(g, c, c->index + s, bytes, c->before));
        bb_goal_wait(g, join, receive_from(g, c, c->index - s, bytes, c->before));
    }
    return join;
}

/*
 * Position of a rank in a binomial tree. root: index of the root in the communicator; v: the rank's index minus that of
 * the root, modulo the number of ranks n; low: the lowest set bit of v or, for the root (v = 0), the smallest power of
 * two that is at least n. The parent of v is v - low. The children of v are v + b for each power of two b < low with v
 * + b < n.
 */
struct tree_position {
    int root, v, low;
};

static struct tree_position find_tree_position(const struct collective *c)
{
    struct tree_position at = {.root = bb_op_peer(c->op, c->index, c->n), .low = 1};

    at.v = ((c->index - at.root) % c->n + c->n) % c->n;
    while (at.v == 0 ? at.low < c->n : !(at.v & at.low))
        at.low *= 2;
    return at;
}

/* Adds this rank's messages of a broadcast: a receive from the parent in the tree, then sends to the children, in
 * descending order of their distance in rank numbers. */
static uint32_t expand_broadcast(struct bb_goal *g, const struct collective *c, uint64_t bytes)
{
    const struct tree_position at = find_tree_position(c);
    uint32_t has = c->before, join;

    if (at.v > 0)
        has = receive_from(g, c, at.root + at.v - at.low, bytes, has);
    join = add_join(g, c, has);
    for (int bit = at.low / 2; bit >= 1; bit /= 2)
        if (at.v + bit < c->n)
            bb_goal_wait(g, join, send_to(g, c, at.root + at.v + bit, bytes, has));
    return join;
}

static uint32_t expand_reduce(struct bb_goal *g, const struct collective *c, uint64_t bytes)
{
    const struct tree_position at = find_tree_position(c);
    const uint32_t has = add_join(g, c, c->before);

    for (int bit = 1; bit < at.low; bit *= 2)
        if (at.v + bit < c->n)
            bb_goal_wait(g, has, receive_from(g, c, at.root + at.v + bit, bytes, c->before));
    return at.v == 0 ? has : send_to(g, c, at.root + at.v - at.low, bytes, has);
}

/* Adds this rank's messages of a gather or scatter in which the root and every other rank exchange one message
 * directly. */
static uint32_t expand_star(struct bb_goal *g, const struct collective *c, uint64_t bytes)
{
    const int root = bb_op_peer(c->op, c->index, c->n);
    const enum bb_goal_type type = (c->index == root) == (c->op->coll == BB_GATHER) ? BB_GOAL_RECV : BB_GOAL_SEND;
    const uint32_t join = add_join(g, c, BB_GOAL_NOTHING);

    if (c->index != root)
        bb_goal_wait(g, join, add_message(g, c, type, root, bytes, c->before));
    for (int s = 1; s < c->n && c->index == root; s++)
        bb_goal_wait(g, join, add_message(g, c, type, root + s, bytes, c->before));
    return join;
}

/* [collective] function that adds the messages of the collective on one rank; NULL: the GOAL export does not support
 * it. */
static uint32_t (*const expand[BB_COLL_KIND_COUNT])(struct bb_goal *g, const struct collective *c, uint64_t bytes) = {
    [BB_ALL_REDUCE] = expand_ring,     [BB_ALL_GATHER] = expand_ring, [BB_REDUCE_SCATTER] = expand_ring,
    [BB_ALLTOALL] = expand_alltoall,   [BB_REDUCE] = expand_reduce,   [BB_GATHER] = expand_star,
    [BB_BROADCAST] = expand_broadcast, [BB_SCATTER] = expand_star,
};

bool bb_goal_supports(const struct bb_layout *l, const struct bb_op *op)
{
    return expand[op->coll] || bb_op_group_size(l, op) == 1;
}

uint32_t bb_goal_collective(struct bb_goal *g, const struct bb_layout *l, const struct bb_op *op, int rank,
                            uint32_t before)
{
    const int group = l->comms[op->comm].group;
    const struct collective c = {.layout = l,
                                 .op = op,
                                 .group = group,
                                 .instance = bb_group_instance(l, group, rank),
                                 .index = bb_group_index(l, group, rank),
                                 .n = l->groups[group].size,
                                 .before = before};

    return c.n == 1 ? add_join(g, &c, before)
                    : expand[op->coll](g, &c, (uint64_t)op->count * bb_dtypes[op->dtype].bytes);
}
