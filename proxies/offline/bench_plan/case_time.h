/* case_time.h - predicts the time of one operation and message size of bench on a cluster, optionally with degraded
 * NICs or links and with jitter (conditions.h). */
#ifndef BB_PROXIES_OFFLINE_BENCH_PLAN_CASE_TIME_H
#define BB_PROXIES_OFFLINE_BENCH_PLAN_CASE_TIME_H

#include "collectives/measure/case.h"
#include "proxies/simulation/machine/cluster.h"
#include "proxies/simulation/simulate/matching/conditions.h"

#define BB_CHOICE_TEXT 24
#define BB_SLOW_RANKS  (1 << 20) /* maximum number of ranks with degraded NICs or links */

/* The algorithm and protocol that NCCL is expected to choose, spelled as in bench ("TREE", "LL"); "" if unknown. The
 * choice does not depend on degraded NICs or links. */
struct bb_case_choice {
    char algorithm[BB_CHOICE_TEXT], protocol[BB_CHOICE_TEXT];
    int variant; /* index in the cluster's variants; -1: unknown */
};

/*
 * bb_case_time_us - computes the time from the simultaneous call on all ranks to the end on the last rank, once per
 * simulated execution with jitter. This is what `bench` measures with operations that are enqueued before they begin
 * (--mode stream). Rank r is on node r / gpus_per_node. With jitter, the time that each rank contributes to the
 * operation varies randomly, and the operation ends when the slowest rank ends.
 *   conditions  degraded NICs and links (checked with bb_slow_validate before), and jitter
 *   us          [samples] out: times in microseconds; all equal without jitter
 *   choice      out
 *   Returns     0 or a negative error
 */
int bb_case_time_us(const struct bb_cluster *cluster, const struct bb_conditions *conditions, const struct bb_case *c,
                    double *us, int samples, struct bb_case_choice *choice) BB_MUST_CHECK;

#endif
