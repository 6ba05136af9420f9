/*
 * shared_resources.h - what several GPUs may share of the machine, by one kind of place after another: NICs, then the uplinks of
 * leaves and of pods (fabric.h).
 */
#ifndef BB_PROXIES_MACHINE_SHARED_RESOURCES_H
#define BB_PROXIES_MACHINE_SHARED_RESOURCES_H

#include "proxies/machine/slow.h"

enum bb_resource_kind { BB_RESOURCE_NIC, BB_RESOURCE_LEAF, BB_RESOURCE_POD, BB_RESOURCE_KINDS };

/* bb_resource_can_limit - whether several GPUs use one of that kind, and are to be asked for, since it can be scarce. c:
 * NULL for no machine, which has none. */
bool bb_resource_can_limit(const struct bb_cluster *c, enum bb_resource_kind what);
/* bb_resource_index - which one a rank's GPU uses, over all nodes; _gbps: what it carries each way, of a machine that may be
 * slow there. */
int bb_resource_index(const struct bb_cluster *c, enum bb_resource_kind what, int rank);
double bb_resource_gbps(const struct bb_cluster *c, const struct bb_slow *slow, enum bb_resource_kind what, int rank);

static inline enum bb_tier bb_resource_tier(enum bb_resource_kind what) /* not of a NIC */
{
    return what == BB_RESOURCE_LEAF ? BB_LEAF : BB_POD;
}

#endif
