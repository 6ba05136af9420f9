/* alltoallv_time.h - predicted time of an alltoallv that runs alone; the messages of each rank are one exchange. */
#ifndef BB_PROXIES_BENCH_PLAN_ALLTOALLV_TIME_H
#define BB_PROXIES_BENCH_PLAN_ALLTOALLV_TIME_H

#include "collectives/measure/case.h"
#include "proxies/machine/cluster.h"

/*
 * bb_alltoallv_time_ns - time until the last message ends, when all ranks arrive together. Rank r is on node
 * r / gpus_per_node. Ranks share NICs, leaves and pods max-min fairly (exchanges.h).
 *   ns       out
 *   Returns  0, or -BB_EFAIL without memory
 */
int bb_alltoallv_time_ns(const struct bb_cluster *cluster, const struct bb_case *c, int64_t *ns) BB_MUST_CHECK;

#endif
