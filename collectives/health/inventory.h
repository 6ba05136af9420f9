/*
 * inventory.h - the stage inventory of `busbar health`: what differs between the nodes, and error counters of the GPUs.
 */
#ifndef BB_COLLECTIVES_HEALTH_INVENTORY_H
#define BB_COLLECTIVES_HEALTH_INVENTORY_H

#include "collectives/health/verdict.h"
#include "collectives/session/session.h"

/*
 * bb_health_inventory - add a finding for each difference and each counter above its limit. Collective over all ranks.
 *   gpu_of   [size] index of each rank's GPU on its node
 *   Returns  0, or a negative error code after printing an error
 */
int bb_health_inventory(struct bb_health *h, struct bb_session *s, const int *gpu_of) BB_MUST_CHECK;

#endif
