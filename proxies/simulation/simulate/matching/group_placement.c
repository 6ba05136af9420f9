/* group_placement.c - finds the nodes, leaves and pods of a communicator's members (see group_placement.h). Members
 * are in rank order, so members on the same leaf or in the same pod are consecutive. */
#include "proxies/simulation/simulate/matching/group_placement.h"

#include "bootstrap/base/alloc.h"
#include "proxies/form/step/step.h"

#include <stdlib.h>

static void count_tier_members(const struct bb_cluster *c, enum bb_tier tier, const int *ranks, int n,
                               struct bb_tier_members *tier_members)
{
    for (int first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && !bb_fabric_takes_uplinks(c, tier, ranks[first], ranks[end]);)
            end++;
        for (int i = first; i < end; i++)
            tier_members[i].ranks[tier] = end - first;
    }
}

/* Replaces a list of ranks by the list of their nodes. ranks: in: [n] ranks in ascending order; out: nodes in
 * ascending order, each once. Returns the number of nodes. */
static int find_nodes(const struct bb_cluster *c, int *ranks, int n)
{
    int nodes = 0;

    for (int i = 0; i < n; i++) {
        const int node = ranks[i] / c->gpus_per_node;

        if (nodes == 0 || ranks[nodes - 1] != node)
            ranks[nodes++] = node;
    }
    return nodes;
}

void bb_group_find_placement(const struct bb_layout *l, int group, int instance, const struct bb_cluster *c,
                             struct bb_node_placement *placement, struct bb_tier_members *tier_members)
{
    const int n = l->groups[group].size;
    int *ranks;

    *placement = (struct bb_node_placement){0};
    if (!c)
        return;
    BB_NEW(ranks, n);
    for (int i = 0; i < n; i++)
        ranks[i] = bb_group_member(l, group, instance, i);
    bb_cluster_placement_of_ranks(c, ranks, n, placement);
    for (int i = 0; tier_members && i < n; i++)
        tier_members[i].nic = bb_cluster_nic_members(c, ranks, n, i);
    if (!bb_fabric_has_oversubscribed_tier(c))
        goto out;
    for (int tier = 0; tier_members && tier < BB_TIERS; tier++)
        count_tier_members(c, (enum bb_tier)tier, ranks, n, tier_members);
    bb_fabric_placement_of_nodes(c, ranks, find_nodes(c, ranks, n), placement);
out:
    free(ranks);
}

void bb_group_find_root(const struct bb_layout *l, const struct bb_op *op, int rank, const struct bb_cluster *c,
                        struct bb_collective *call)
{
    const unsigned flags = bb_colls[op->coll].flags;
    const int group = l->comms[op->comm].group, instance = bb_group_instance(l, group, rank);
    int root, previous = -1;

    if (!(flags & BB_COLL_ROOTED) || ((flags & BB_COLL_ESTIMATED) && c->fabric.n_slow_paths == 0))
        return;
    root = bb_op_peer_rank(l, op, rank) / c->gpus_per_node;
    for (int i = 0; i < l->groups[group].size; i++) {
        const int node = bb_group_member(l, group, instance, i) / c->gpus_per_node;

        if (flags & BB_COLL_ESTIMATED) {
            call->root_number += node != previous && node < root;
            previous = node;
            continue;
        }
        call->members_on_root_node += node == root;
        call->members_on_slow_paths += bb_fabric_slow_member(c, call->kind, node, root);
    }
}
