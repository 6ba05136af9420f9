/*
 * inventory.h - the stage inventory of `busbar health`: what differs between the nodes, or from an earlier
 * run, and error counters of the GPUs.
 */
#ifndef BB_COLLECTIVES_HEALTH_INVENTORY_H
#define BB_COLLECTIVES_HEALTH_INVENTORY_H

#include "collectives/health/verdict/verdict.h"
#include "collectives/session/session.h"

/*
 * bb_health_inventory - add a finding for each difference and each counter above its limit. Collective over all ranks.
 *   gpu_of   [size] index of each rank's GPU on its node
 *   baseline an earlier result, whose items of the same host, or else its usual ones, are compared, too; differences
 *            are warnings, except fewer GPUs (h->node_gpus). NULL: none; set on rank 0 only, because warnings change no
 *            measurement
 *   list     out: appended are the entries of `inventory` of the results; NULL on other ranks than 0
 *   first    out: the counters of this rank, which the caller frees
 *   Returns  0, or a negative error code after printing an error
 * bb_health_growth - read the counters again and add a warning for each that has grown since. Collective over all
 *   ranks.
 *   list     the entries that bb_health_inventory appended; what has grown is added
 *   Returns  as bb_health_inventory
 * bb_health_expected_gpus - return the number of GPUs that a node should have, if it has fewer by the profile, the
 *          baseline or the other nodes, or CUDA finds no GPU for one of its ranks, so that a GPU may be lost; otherwise
 *          0
 *   level    out: a warning if only the recognised profile has more, and nodes are also built with this number
 * bb_health_check_gpus - return 0, or -BB_EUSAGE after an error line about ranks without a GPU, or CUDA_VISIBLE_DEVICES
 *          with a GPU, that the nodes never had
 */
int bb_health_expected_gpus(const struct bb_health *h, const struct bb_session *s, int node,
                            enum bb_health_level *level);
int bb_health_check_gpus(const struct bb_health *h, const struct bb_session *s) BB_MUST_CHECK;
struct bb_health_inventory;                    /* contains no pointers */
extern const size_t bb_health_inventory_bytes; /* its size */
int bb_health_inventory(struct bb_health *h, struct bb_session *s, const int *gpu_of, const json_t *baseline,
                        json_t *list, struct bb_health_inventory **first) BB_MUST_CHECK;
int bb_health_growth(struct bb_health *h, struct bb_session *s, const int *gpu_of,
                     const struct bb_health_inventory *first, json_t *list) BB_MUST_CHECK;

#endif
