/*
 * places.h - what several GPUs may share of the machine, by one kind of place after another: NICs, then the uplinks of
 * leaves and of pods (fabric.h).
 */
#ifndef BB_PROXIES_MACHINE_PLACES_H
#define BB_PROXIES_MACHINE_PLACES_H

#include "proxies/machine/slow.h"

enum bb_place { BB_AT_NIC, BB_AT_LEAF, BB_AT_POD, BB_PLACES };

/* bb_place_is_shared - whether several GPUs use one of that kind, and are to be asked for, since it can be scarce. c:
 * NULL for no machine, which has none. */
bool bb_place_is_shared(const struct bb_cluster *c, enum bb_place what);
/* bb_place_of - which one a rank's GPU uses, over all nodes; _gbps: what it carries each way, of a machine some of which
 * is slow. */
int bb_place_of(const struct bb_cluster *c, enum bb_place what, int rank);
double bb_place_gbps(const struct bb_cluster *c, const struct bb_slow *slow, enum bb_place what, int rank);

static inline enum bb_tier bb_place_tier(enum bb_place what) /* not of a NIC */
{
    return what == BB_AT_LEAF ? BB_LEAF : BB_POD;
}

#endif
