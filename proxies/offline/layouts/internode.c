/*
 * internode.c - count inter-node traffic; see internode.h. The bytes of each rank come from the traffic table
 * (traffic.h). Messages are counted for each rank. The collectives of a group are first summed per role, and counted
 * once for each communicator of the group (for example each tensor-parallel group), using the sums of the
 * communicator's first rank.
 */
#include "proxies/offline/layouts/internode.h"

#include "bootstrap/base/alloc.h"
#include "proxies/offline/plan/traffic.h"
#include "proxies/simulation/simulate/graph/rank_classes.h"

#include <math.h>
#include <stdlib.h>

/* Inter-node traffic of a group's collectives in one step, from the traffic of one of the group's ranks. */
struct volume {
    double ring;  /* bytes sent over each link between two nodes by collectives that use a ring */
    double chain; /* bytes sent over each link between two nodes by collectives that use a chain */
    double pair;  /* bytes sent by each rank to each other rank, by all other collectives */
};

struct counting {
    const struct bb_step *step;
    struct bb_internode *internode;
    int *role_of;                            /* [ranks] index of the rank's role in the traffic table */
    struct volume (*volumes)[BB_MAX_GROUPS]; /* [roles of the traffic table] sums of the collectives of each group */
    double *out;                             /* [nodes] bytes that each node sends to other nodes */
    /* members: [nodes] number of ranks of the current communicator on each node. seen: [nodes] number of the latest
     * communicator (argument `mark` of count_nodes) that has ranks on the node; other elements of `members` are
     * stale */
    int *members, *seen;
    int gpus_per_node;
};

/*
 * Add the calls of a collective to the sums. Collectives with NCCL algorithms (BB_COLL_ESTIMATED) use a ring, or a
 * chain if they have a root. In all other collectives, every rank sends to every other rank.
 */
static void add_collective(struct volume *volume, const struct bb_traffic_row *row)
{
    const struct bb_coll *coll = &bb_colls[row->coll];

    if (!(coll->flags & BB_COLL_ESTIMATED))
        volume->pair += (double)row->bytes / row->group_size;
    else if (coll->flags & BB_COLL_ROOTED)
        volume->chain += (double)row->bytes;
    else
        volume->ring += coll->bus_factor(row->group_size) * (double)row->bytes;
}

/* ---- bytes that each node sends to other nodes ---- */

static void add_outgoing(struct counting *c, int node, int group, double bytes)
{
    c->out[node] += bytes;
    c->internode->bytes += bytes;
    c->internode->group[group] += bytes;
}

static void count_sends(struct counting *c, const struct bb_traffic_row *row, int rank)
{
    const struct bb_layout *l = &c->step->layout;
    const int instance = bb_group_instance(l, row->group, rank), index = bb_group_index(l, row->group, rank);
    const double bytes = (double)row->bytes / (double)row->calls;

    for (int i = 0; i < row->n_peers; i++) {
        const int peer = (index + row->peers[i].offset % row->group_size + row->group_size) % row->group_size;

        if (!bb_same_node(c->gpus_per_node, bb_group_member(l, row->group, instance, peer), rank))
            add_outgoing(c, rank / c->gpus_per_node, row->group, bytes * (double)row->peers[i].calls);
    }
}

static void count_role(struct counting *c, const struct bb_traffic *traffic, int number)
{
    const struct bb_traffic_role *role = &traffic->roles[number];

    for (int i = 0; i < role->n_rows; i++)
        if (role->rows[i].kind == BB_OP_COLLECTIVE)
            add_collective(&c->volumes[number][role->rows[i].group], &role->rows[i]);
    for (int k = 0; k < role->n_ranks; k++) {
        c->role_of[role->ranks[k]] = number;
        for (int i = 0; i < role->n_rows; i++)
            if (role->rows[i].kind == BB_OP_SEND)
                count_sends(c, &role->rows[i], role->ranks[k]);
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
    const struct volume *volume = &c->volumes[c->role_of[first]][group];

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

void bb_internode_count(const struct bb_step *step, int gpus_per_node, struct bb_internode *internode)
{
    const struct bb_layout *l = &step->layout;
    struct counting c = {.step = step, .internode = internode, .gpus_per_node = gpus_per_node};
    const int nodes = (l->ranks - 1) / gpus_per_node + 1;
    struct bb_traffic traffic;
    int mark = 0;

    *internode = (struct bb_internode){.nodes = nodes};
    bb_traffic_init(&traffic, step, false);
    BB_NEW(c.role_of, l->ranks);
    BB_NEW(c.volumes, traffic.n);
    BB_NEW(c.out, nodes);
    BB_NEW(c.members, nodes);
    BB_NEW(c.seen, nodes);
    for (int r = 0; r < traffic.n; r++)
        count_role(&c, &traffic, r);
    for (int g = 0; g < l->n_groups; g++)
        for (int i = 0; i < l->groups[g].instances; i++)
            count_instance(&c, g, i, ++mark);
    for (int node = 0; node < nodes; node++)
        internode->busiest = fmax(internode->busiest, c.out[node]);
    bb_traffic_release(&traffic);
    free(c.role_of);
    free(c.volumes);
    free(c.out);
    free(c.members);
    free(c.seen);
}
