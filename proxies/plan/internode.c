/*
 * internode.c - count inter-node traffic; see internode.h. The bytes that each role (ranks with the same program) sends
 * in one step are first summed per group (collectives) and per peer (sends). The bytes of a group's collectives are
 * then added once for each communicator of the group (for example each tensor-parallel group), using the sums of the
 * communicator's first rank.
 */
#include "proxies/plan/internode.h"

#include "bootstrap/base/alloc.h"
#include "proxies/simulate/graph/rank_classes.h"

#include <stdlib.h>
#include <string.h>

/* Inter-node traffic of a group's collectives in one step, from the program of one of the group's ranks. */
struct volume {
    double ring;  /* bytes sent over each link between two nodes by collectives that use a ring */
    double chain; /* bytes sent over each link between two nodes by collectives that use a chain */
    double pair;  /* bytes sent by each rank to each other rank, by all other collectives */
};

struct message {
    int comm, peer;
    enum bb_peer_kind kind;
    double bytes;
};

struct role {
    struct volume volumes[BB_MAX_GROUPS];
    struct message *messages; /* one element per communicator and peer: total bytes that the role sends to this peer
                                 in one step */
    int n_messages;
    int next; /* index in messages[] at which the next search for a peer begins: the element after the previous
                 match, because programs send to their peers in the same order repeatedly */
};

struct counting {
    const struct bb_step *step;
    struct bb_internode *internode;
    struct role *roles; /* [step->n_roles] traffic of each role (ranks with the same program) */
    double *out;        /* [nodes] bytes that each node sends to other nodes */
    /* members: [nodes] number of ranks of the current communicator on each node. seen: [nodes] number of the latest
     * communicator (argument `mark` of count_nodes) that has ranks on the node; other elements of `members` are stale */
    int *members, *seen;
    int gpus_per_node;
};

/* ---- bytes that each role sends, per group and per peer ---- */

static struct message *find_message(struct role *role, const struct bb_op *op)
{
    for (int k = 0; k < role->n_messages; k++) {
        const int i = (role->next + k) % role->n_messages;

        if (role->messages[i].comm == op->comm && role->messages[i].peer == op->peer &&
            role->messages[i].kind == op->peer_kind) {
            role->next = i + 1;
            return &role->messages[i];
        }
    }
    BB_GROW(role->messages, role->n_messages);
    role->messages[role->n_messages] = (struct message){op->comm, op->peer, op->peer_kind, 0};
    return &role->messages[role->n_messages++];
}

/*
 * Add a collective of n ranks to the sums. Collectives with NCCL algorithms (BB_COLL_ESTIMATED) use a ring, or a chain
 * if they have a root. In all other collectives, every rank sends to every other rank.
 */
static void add_collective(struct volume *volume, const struct bb_op *op, int n)
{
    const struct bb_coll *coll = &bb_colls[op->coll];
    double whole = (double)bb_op_payload_bytes(op, n);

    if (!(coll->flags & BB_COLL_ESTIMATED))
        volume->pair += whole / n;
    else if (coll->flags & BB_COLL_ROOTED)
        volume->chain += whole;
    else
        volume->ring += coll->bus_factor(n) * whole;
}

static void add_send(struct role *role, const struct bb_op *op)
{
    find_message(role, op)->bytes += (double)bb_op_payload_bytes(op, 1);
}

static void add_alltoallv(struct role *role, const struct bb_op *op)
{
    struct bb_op message = {.kind = BB_OP_SEND, .comm = op->comm, .dtype = op->dtype, .peer_kind = BB_PEER_ABSOLUTE};

    for (message.peer = 0; message.peer < op->table->n; message.peer++) {
        message.count = bb_alltoallv_sends(op, message.peer);
        if (message.count)
            add_send(role, &message);
    }
}

static void add_program(const struct bb_layout *l, const struct bb_program *p, struct role *role)
{
    for (size_t i = 0; i < p->n_ops; i++) {
        const struct bb_op *op = &p->ops[i];

        if (op->kind == BB_OP_COLLECTIVE)
            add_collective(&role->volumes[l->comms[op->comm].group], op, bb_comm_size(l, op->comm));
        else if (op->kind == BB_OP_SEND)
            add_send(role, op);
        else if (op->kind == BB_OP_ALLTOALLV)
            add_alltoallv(role, op);
    }
}

/* ---- bytes that each node sends to other nodes ---- */

static void add_outgoing(struct counting *c, int node, int group, double bytes)
{
    c->out[node] += bytes;
    c->internode->bytes += bytes;
    c->internode->group[group] += bytes;
}

static void count_messages(struct counting *c, int rank)
{
    const struct bb_layout *l = &c->step->layout;
    const struct role *role = &c->roles[c->step->role_of[rank]];

    for (int i = 0; i < role->n_messages; i++) {
        const struct message *m = &role->messages[i];
        const struct bb_op op = {.comm = m->comm, .peer = m->peer, .peer_kind = m->kind};

        if (!bb_same_node(c->gpus_per_node, bb_op_peer_rank(l, &op, rank), rank))
            add_outgoing(c, rank / c->gpus_per_node, l->comms[m->comm].group, m->bytes);
    }
}

/*
 * Count the members of one communicator (instance `instance` of `group`) on each node, in c->members. Returns the
 * number of nodes that have members.
 *   mark  a number that differs between all calls; stored in c->seen for each node with members
 */
static int count_nodes(struct counting *c, int group, int instance, int mark)
{
    const struct bb_layout *l = &c->step->layout;
    int nodes = 0;

    for (int m = 0; m < l->groups[group].size; m++) {
        int node = bb_group_member(l, group, instance, m) / c->gpus_per_node;

        if (c->seen[node] != mark) {
            c->seen[node] = mark;
            c->members[node] = 0;
            nodes++;
        }
        c->members[node]++;
    }
    return nodes;
}

static void count_instance(struct counting *c, int group, int instance, int mark)
{
    const struct bb_layout *l = &c->step->layout;
    int first = bb_group_member(l, group, instance, 0), n = l->groups[group].size, nodes;
    const struct volume *volume = &c->roles[c->step->role_of[first]].volumes[group];

    if (volume->ring + volume->chain + volume->pair <= 0)
        return;
    nodes = count_nodes(c, group, instance, mark);
    for (int m = 0; nodes > 1 && m < n; m++) {
        int node = bb_group_member(l, group, instance, m) / c->gpus_per_node, here = c->members[node];

        if (here == 0)
            continue; /* an earlier member on this node has already added the node's traffic */
        add_outgoing(c, node, group, volume->ring + (double)here * (n - here) * volume->pair);
        if (m > 0)
            add_outgoing(c, node, group, volume->chain); /* a chain over k nodes has k - 1 links between nodes, so no
                                                            link is counted for the first node */
        c->members[node] = 0;
    }
}

static void count_all(struct counting *c)
{
    const struct bb_layout *l = &c->step->layout;
    int mark = 0;

    for (int rank = 0; rank < l->ranks; rank++)
        count_messages(c, rank);
    for (int g = 0; g < l->n_groups; g++)
        for (int i = 0; i < l->groups[g].instances; i++)
            count_instance(c, g, i, ++mark);
    for (int node = 0; node < c->internode->nodes; node++)
        if (c->out[node] > c->internode->busiest)
            c->internode->busiest = c->out[node];
}

void bb_internode_count(const struct bb_step *step, int gpus_per_node, struct bb_internode *internode)
{
    struct counting c = {.step = step, .internode = internode, .gpus_per_node = gpus_per_node};
    size_t nodes = ((size_t)step->layout.ranks + (size_t)gpus_per_node - 1) / (size_t)gpus_per_node;

    *internode = (struct bb_internode){.nodes = (int)nodes};
    BB_NEW(c.roles, step->n_roles);
    BB_NEW(c.out, nodes);
    BB_NEW(c.members, nodes);
    BB_NEW(c.seen, nodes);
    for (int r = 0; r < step->n_roles; r++)
        add_program(&step->layout, &step->roles[r].program, &c.roles[r]);
    count_all(&c);
    for (int r = 0; r < step->n_roles; r++)
        free(c.roles[r].messages);
    free(c.roles);
    free(c.out);
    free(c.members);
    free(c.seen);
}
