/*
 * shared_resources.h - network resources that several GPUs may share: NICs, slow paths between nodes, and the uplinks of
 * leaves and pods (fabric.h). The transfers of one NIC over slow paths share a rate: BB_RESOURCE_PATH counts their bytes /
 * the remaining fraction of the path (bb_link_load.slow_out, bb_cost.path_bytes) against the full rate of the NIC. Several
 * slow paths of one NIC count as one.
 */
#ifndef BB_PROXIES_SIMULATION_MACHINE_SHARED_RESOURCES_H
#define BB_PROXIES_SIMULATION_MACHINE_SHARED_RESOURCES_H

#include "proxies/simulation/machine/slow.h"

enum bb_resource_kind { BB_RESOURCE_NIC, BB_RESOURCE_PATH, BB_RESOURCE_LEAF, BB_RESOURCE_POD, BB_RESOURCE_KINDS };

/* bb_resource_can_limit - returns whether resources of this kind can be a bottleneck because several GPUs share
 * them. Requires a profile with "sharing". Returns false if c is NULL. */
bool bb_resource_can_limit(const struct bb_cluster *c, enum bb_resource_kind what);
/*
 * bb_resource_index - returns the global index of the NIC (also for slow paths), leaf or pod that a rank's GPU uses.
 * bb_resource_gbps - returns the rate of this NIC, or of the uplinks of this leaf or pod, per direction in 1e9 bytes/s,
 * reduced if `slow` lists the NIC or leaf.
 */
int bb_resource_index(const struct bb_cluster *c, enum bb_resource_kind what, int rank);
double bb_resource_gbps(const struct bb_cluster *c, const struct bb_slow *slow, enum bb_resource_kind what, int rank);

static inline enum bb_tier bb_resource_tier(enum bb_resource_kind what) /* what: leaf or pod */
{
    return what == BB_RESOURCE_LEAF ? BB_LEAF : BB_POD;
}

#endif
