/*
 * perturbed_case.h - predicts the time of one operation and message size of bench with degraded GPUs, NICs or links, or
 * with jitter. The simulator of training steps (proxies/simulate) runs the operation as a step that contains nothing
 * else. A slow NIC therefore has the same effect on an operation as on a training step.
 *
 * With jitter, the time that each rank contributes to the operation varies randomly (conditions.h). The operation ends
 * when the slowest rank ends.
 */
#ifndef BB_PROXIES_BENCH_PLAN_PERTURBED_CASE_H
#define BB_PROXIES_BENCH_PLAN_PERTURBED_CASE_H

#include "collectives/measure/case.h"
#include "proxies/machine/cluster.h"
#include "proxies/simulate/matching/conditions.h"

/*
 * bb_perturbed_case_us - computes the time of one operation and message size, once per simulated execution with jitter.
 *   conditions  degraded GPUs, NICs and links (checked with bb_slow_validate before), and jitter
 *   us          [samples] out: times in microseconds; all equal without jitter
 *   Returns     0 or a negative error
 * Without any perturbation the time equals that of bb_case_time to the nanosecond, with one exception: if the number of
 * GPUs or NICs per node is not a power of two, messages of different hypercube steps may share NICs in this function,
 * while bb_case_time computes the shares of one step at a time.
 */
int bb_perturbed_case_us(const struct bb_cluster *cluster, const struct bb_conditions *conditions,
                         const struct bb_case *c, double *us, int samples) BB_MUST_CHECK;

/* bb_perturbed_case_max_ranks - returns the maximum number of ranks for which this collective can be simulated. It
 * is lower for alltoallv and hypercube, because the messages of each rank differ. */
int bb_perturbed_case_max_ranks(enum bb_coll_kind kind);

#endif
