/* case_time.h - how long one row of bench's table takes on a cluster that one does not have. */
#ifndef BB_PROXIES_BENCH_PLAN_CASE_TIME_H
#define BB_PROXIES_BENCH_PLAN_CASE_TIME_H

#include "collectives/measure/case.h"
#include "proxies/machine/cluster.h"

#define BB_CHOICE_TEXT 24

/* What the model says of a case. algorithm, protocol: those that it takes NCCL to choose, in the words
 * of bench ("TREE", "LL"); "" where it tells none. */
struct bb_case_time {
    int64_t ns;
    char algorithm[BB_CHOICE_TEXT], protocol[BB_CHOICE_TEXT];
};

/*
 * bb_case_time - from the common arrival of all ranks to the end on the last of them: what `bench` measures of
 * operations that were enqueued before they begin (--mode stream). rank r is on node r / gpus_per_node. Collectives
 * of NCCL's own have the cost of profiles/clusters/README.md; alltoallv, sendrecv and hypercube are exchanges of
 * messages, as bench makes them. Returns 0 or -BB_EFAIL (no memory).
 */
int bb_case_time(const struct bb_cluster *cluster, const struct bb_case *c, struct bb_case_time *time) BB_MUST_CHECK;

#endif
