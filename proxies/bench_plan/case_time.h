/* case_time.h - predicts the time of one operation and message size of bench on a cluster, without degraded GPUs,
 * NICs or links and without jitter. */
#ifndef BB_PROXIES_BENCH_PLAN_CASE_TIME_H
#define BB_PROXIES_BENCH_PLAN_CASE_TIME_H

#include "collectives/measure/case.h"
#include "proxies/machine/cluster.h"

#define BB_CHOICE_TEXT 24

/* Prediction for one operation and message size. algorithm, protocol: the algorithm and protocol that NCCL is
 * expected to choose, spelled as in bench ("TREE", "LL"); "" if unknown. */
struct bb_case_time {
    int64_t ns;
    char algorithm[BB_CHOICE_TEXT], protocol[BB_CHOICE_TEXT];
};

/*
 * bb_case_time - computes the time from the simultaneous call on all ranks to the end on the last rank. This is what
 * `bench` measures with operations that are enqueued before they begin (--mode stream). Rank r is on node r /
 * gpus_per_node. NCCL's collectives use the cost model of profiles/clusters/README.md; alltoallv, sendrecv and
 * hypercube are computed as sends and receives, as in bench.
 *   time  out: the prediction
 */
void bb_case_time(const struct bb_cluster *cluster, const struct bb_case *c, struct bb_case_time *time);

#endif
