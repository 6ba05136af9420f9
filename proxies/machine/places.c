/* places.c - see places.h. */
#include "proxies/machine/places.h"

#include "proxies/machine/fabric.h"

bool bb_place_is_shared(const struct bb_cluster *c, enum bb_place what)
{
    if (!c || !c->shares)
        return false;
    return what == BB_AT_NIC ? bb_cluster_gpus_share_nics(c) : bb_fabric_is_scarce(c, bb_place_tier(what));
}

int bb_place_of(const struct bb_cluster *c, enum bb_place what, int rank)
{
    return what == BB_AT_NIC ? bb_cluster_rank_nic(c, rank) : bb_fabric_place(c, bb_place_tier(what), rank);
}

double bb_place_gbps(const struct bb_cluster *c, const struct bb_slow *slow, enum bb_place what, int rank)
{
    if (what == BB_AT_NIC)
        return bb_slow_nics_gbps(slow, c, rank);
    return bb_fabric_uplink_gbps(c, bb_place_tier(what)) * (what == BB_AT_LEAF ? bb_slow_leaf_part(slow, c, rank) : 1);
}
