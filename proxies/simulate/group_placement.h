/* group_placement.h - on which nodes, leaves and pods of a cluster's fabric the members of a group are. */
#ifndef BB_PROXIES_SIMULATE_GROUP_PLACEMENT_H
#define BB_PROXIES_SIMULATE_GROUP_PLACEMENT_H

#include "proxies/machine/fabric.h"
#include "proxies/step/layout.h"
#include "proxies/step/program.h"

/* For one member: number of members of its communicator on the same leaf, and in the same pod. */
struct bb_tier_members {
    int ranks[BB_TIERS];
};

/*
 * bb_group_find_placement - the placement of an instance of a group.
 *   c             NULL: no machine, *placement is zeroed
 *   placement     out: its members per node; leaves and pods only where uplinks are oversubscribed
 *   tier_members  out: [size] in the order of the members; may be NULL; untouched where no uplink is oversubscribed
 *   Returns       0 or -BB_EFAIL
 */
int bb_group_find_placement(const struct bb_layout *l, int group, int instance, const struct bb_cluster *c,
                            struct bb_node_placement *placement, struct bb_tier_members *tier_members) BB_MUST_CHECK;

/* bb_group_count_on_root_node - for a rooted collective (gather, scatter) of `rank`: number of members on the root's
 * node. 0 for all other collectives. */
int bb_group_count_on_root_node(const struct bb_layout *l, const struct bb_op *op, int rank,
                                const struct bb_cluster *c);

#endif
