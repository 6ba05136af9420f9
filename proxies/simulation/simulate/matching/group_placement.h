/* group_placement.h - determines on which nodes, leaf switches and pods of a cluster the members of a communicator
 * are placed. */
#ifndef BB_PROXIES_SIMULATION_SIMULATE_MATCHING_GROUP_PLACEMENT_H
#define BB_PROXIES_SIMULATION_SIMULATE_MATCHING_GROUP_PLACEMENT_H

#include "proxies/form/step/layout.h"
#include "proxies/form/step/program.h"
#include "proxies/simulation/machine/fabric.h"

/* For one member of a communicator: number of members, including this one, whose nodes are on the same leaf switch
 * ([BB_LEAF]) and in the same pod ([BB_POD]); and on the same node and NIC. */
struct bb_tier_members {
    int ranks[BB_TIERS];
    struct bb_nic_members nic;
};

/*
 * bb_group_find_placement - determines the placement of the members of one communicator.
 *   group, instance  which communicator: the instance-th of a group, for example the third tensor-parallel group
 *   c                the cluster; NULL: *placement is zeroed
 *   placement        out: number of members per node; per leaf and pod only where uplinks are oversubscribed
 *   tier_members     out: [number of members]; NULL: not needed; ranks[]: unchanged if no uplinks are oversubscribed
 */
void bb_group_find_placement(const struct bb_layout *l, int group, int instance, const struct bb_cluster *c,
                             struct bb_node_placement *placement, struct bb_tier_members *tier_members);

/* bb_group_find_root - for a gather or scatter in which `rank` takes part, sets the members of the call on the root's node,
 * including the root, and those on slow paths. All other collectives: 0. */
void bb_group_find_root(const struct bb_layout *l, const struct bb_op *op, int rank, const struct bb_cluster *c,
                        struct bb_collective *call);

#endif
