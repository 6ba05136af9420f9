/*
 * perturbed_case.h - predicts the time of one row of bench's table on a machine with slow parts or jitter. The
 * simulator of training steps (proxies/simulate) runs the operation as a step that contains nothing else. So a slow NIC
 * has the same effect on a row as on a training step.
 *
 * With jitter, the time that each rank contributes to the operation varies randomly (conditions.h). The operation ends
 * when the slowest rank ends.
 */
#ifndef BB_PROXIES_BENCH_PLAN_PERTURBED_CASE_H
#define BB_PROXIES_BENCH_PLAN_PERTURBED_CASE_H

#include "collectives/measure/case.h"
#include "proxies/machine/cluster.h"
#include "proxies/simulate/conditions.h"

/*
 * bb_perturbed_case_us - computes the time of each jitter sample of a row.
 *   conditions  slow parts, validated by bb_slow_validate, and jitter
 *   us          [samples] out: times; all equal without jitter
 *   Returns     0, or -BB_EFAIL after printing an error message: memory is exhausted
 * Without slow parts and jitter the time equals that of bb_case_time to the nanosecond, with one exception: if the GPUs
 * or the NICs per node are not a power of two, the rounds of a hypercube may overlap here.
 */
int bb_perturbed_case_us(const struct bb_cluster *cluster, const struct bb_conditions *conditions,
                         const struct bb_case *c, double *us, int samples) BB_MUST_CHECK;

/* bb_perturbed_case_max_ranks - maximum number of ranks for this collective. The limit is lower for alltoallv and
 * hypercube, in which each rank has different messages. */
int bb_perturbed_case_max_ranks(enum bb_coll_kind kind);

#endif
