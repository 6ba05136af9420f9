/* group_placement.h - where the members of a group lie in a cluster's fabric. Nothing, and at no cost, where no uplink is
 * scarce. */
#ifndef BB_PROXIES_SIMULATE_GROUP_PLACEMENT_H
#define BB_PROXIES_SIMULATE_GROUP_PLACEMENT_H

#include "proxies/machine/fabric.h"
#include "proxies/step/layout.h"
#include "proxies/step/program.h"

/* Of a member: how many of its communicator are on its leaf, or in its pod. */
struct bb_tier_members {
    int ranks[BB_TIERS];
};

/* bb_group_find_placement - of an instance. near: [size], its members' in order; NULL: not asked. c: NULL for no machine. */
int bb_group_find_placement(const struct bb_layout *l, int group, int instance, const struct bb_cluster *c,
                    struct bb_node_placement *placement, struct bb_tier_members *tier_members) BB_MUST_CHECK;

/* bb_group_count_on_root_node - of the communicator of a rank that gathers or scatters: its members on the node of the root.
 * 0 of other collectives. */
int bb_group_count_on_root_node(const struct bb_layout *l, const struct bb_op *op, int rank, const struct bb_cluster *c);

#endif
