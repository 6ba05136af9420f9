/* alltoallv_time.h - predicts the time of an alltoallv without concurrent operations. All messages of a rank form
 * one exchange (exchanges.h). */
#ifndef BB_PROXIES_BENCH_PLAN_ALLTOALLV_TIME_H
#define BB_PROXIES_BENCH_PLAN_ALLTOALLV_TIME_H

#include "collectives/measure/case.h"
#include "proxies/machine/cluster.h"

/*
 * bb_alltoallv_time_ns - computes the time from the simultaneous call on all ranks to the end of the last message. Rank
 * r is on node r / gpus_per_node. Ranks get max-min fair shares of NICs and uplinks (exchanges.h).
 *   ns  out: the time in nanoseconds
 */
void bb_alltoallv_time_ns(const struct bb_cluster *cluster, const struct bb_case *c, int64_t *ns);

#endif
