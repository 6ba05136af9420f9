/*
 * published.h - the error of predicted collectives and kernels against measurements that others published, by kind:
 * operation, GPU generation, and for collectives whether the ranks are on one node, or else the transport.
 */
#ifndef BB_PROXIES_OFFLINE_BENCH_PLAN_PUBLISHED_H
#define BB_PROXIES_OFFLINE_BENCH_PLAN_PUBLISHED_H

#include "proxies/simulation/machine/cluster.h"

/*
 * bb_published_text - write the error of predictions of a kind, or that no measurement of this kind is published.
 *   what   name of the collective, or section of plan compute
 *   nodes  number of nodes of a collective; 0: kernels
 */
#define BB_PUBLISHED_TEXT 720
void bb_published_text(const struct bb_cluster *c, const char *what, int nodes, char text[BB_PUBLISHED_TEXT]);

/* bb_published_has_transport - returns whether a collective between nodes with these GPUs and this transport is published. */
bool bb_published_has_transport(const struct bb_cluster *c);

/* bb_collective_accuracy_text - the same for a collective. For a calibrated profile: the errors of the sizes or collectives
 * that its calibration left out, the sizes that were measured, and what is extrapolated: other sizes, other ranks.
 *   smallest, largest  predicted message sizes in bytes
 *   is_used            as in bb_cluster_unmeasured: the error of variants that were not measured is unknown */
void bb_collective_accuracy_text(const struct bb_cluster *c, enum bb_coll_kind kind, int ranks, size_t smallest,
                                 size_t largest, bool (*is_used)[2], char text[BB_PUBLISHED_TEXT]);

#endif
