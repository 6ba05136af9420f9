/* alltoallv_time.h - how long an alltoallv takes by itself: every rank's messages are one exchange. */
#ifndef BB_PROXIES_BENCH_PLAN_ALLTOALLV_TIME_H
#define BB_PROXIES_BENCH_PLAN_ALLTOALLV_TIME_H

#include "collectives/measure/case.h"
#include "proxies/machine/cluster.h"

/* bb_alltoallv_time_ns - all ranks come at once, rank r on node r / gpus_per_node. Who is on one NIC, leaf or pod with
 * others has its max-min fair part of it for as long as they send. Returns 0 or -BB_EFAIL (no memory). */
int bb_alltoallv_time_ns(const struct bb_cluster *cluster, const struct bb_case *c, int64_t *ns) BB_MUST_CHECK;

#endif
