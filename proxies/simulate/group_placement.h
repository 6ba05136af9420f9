/* group_placement.h - determines on which nodes, leaves and pods of a cluster the members of a group are placed. */
#ifndef BB_PROXIES_SIMULATE_GROUP_PLACEMENT_H
#define BB_PROXIES_SIMULATE_GROUP_PLACEMENT_H

#include "proxies/machine/fabric.h"
#include "proxies/step/layout.h"
#include "proxies/step/program.h"

/* For one member of a communicator: number of the communicator's members on the same leaf and in the same pod,
 * including this member. */
struct bb_tier_members {
    int ranks[BB_TIERS];
};

/*
 * bb_group_find_placement - determines the placement of one instance of a group.
 *   c             the cluster; NULL: *placement is zeroed
 *   placement     out: number of members per node; per leaf and pod only where uplinks are oversubscribed
 *   tier_members  out: [size] in the order of the members; NULL: not needed; unchanged if no uplinks are oversubscribed
 *   Returns       0 or -BB_EFAIL
 */
int bb_group_find_placement(const struct bb_layout *l, int group, int instance, const struct bb_cluster *c,
                            struct bb_node_placement *placement, struct bb_tier_members *tier_members) BB_MUST_CHECK;

/* bb_group_count_on_root_node - returns, for a gather or scatter in which `rank` takes part, the number of members
 * on the root's node. Returns 0 for all other collectives. */
int bb_group_count_on_root_node(const struct bb_layout *l, const struct bb_op *op, int rank,
                                const struct bb_cluster *c);

#endif
