/* shared_resources.c - indices and rates of NICs, slow paths, and leaf and pod uplinks (see shared_resources.h). */
#include "proxies/simulation/machine/shared_resources.h"

#include "proxies/simulation/machine/fabric.h"

bool bb_resource_can_limit(const struct bb_cluster *c, enum bb_resource_kind what)
{
    if (!c || !c->has_sharing)
        return false;
    if (what == BB_RESOURCE_PATH)
        return c->fabric.n_slow_paths > 0 && bb_cluster_gpus_share_nics(c);
    return what == BB_RESOURCE_NIC ? bb_cluster_gpus_share_nics(c)
                                   : bb_fabric_is_oversubscribed(c, bb_resource_tier(what));
}

int bb_resource_index(const struct bb_cluster *c, enum bb_resource_kind what, int rank)
{
    return what == BB_RESOURCE_NIC || what == BB_RESOURCE_PATH ? bb_cluster_rank_nic(c, rank)
                                                               : bb_fabric_switch(c, bb_resource_tier(what), rank);
}

double bb_resource_gbps(const struct bb_cluster *c, const struct bb_slow *slow, enum bb_resource_kind what, int rank)
{
    static const struct bb_slow none;

    if (what == BB_RESOURCE_NIC)
        return bb_slow_nics_gbps(slow, c, rank);
    if (what == BB_RESOURCE_PATH)
        return bb_slow_nics_gbps(&none, c, rank);
    return bb_fabric_uplink_gbps(c, bb_resource_tier(what)) *
           (what == BB_RESOURCE_LEAF ? bb_slow_leaf_factor(slow, c, rank) : 1);
}
