/*
 * perturbed_case.h - predicted time of one row of bench's table with slow parts or jitter. The operation becomes a step
 * of its own and is predicted by the simulator (proxies/simulate), so that a slow NIC costs the same in a row and in a
 * training step.
 *
 * With jitter, each rank's contribution has its own random duration (conditions.h); the operation takes as long as the
 * longest contribution.
 */
#ifndef BB_PROXIES_BENCH_PLAN_PERTURBED_CASE_H
#define BB_PROXIES_BENCH_PLAN_PERTURBED_CASE_H

#include "collectives/measure/case.h"
#include "proxies/machine/cluster.h"
#include "proxies/simulate/conditions.h"

/*
 * bb_perturbed_case_us - predict the samples of a row.
 *   conditions  validated by bb_slow_validate
 *   us          [samples] out: time of each jitter sample; all equal without jitter
 *   Returns     0, or -BB_EFAIL without memory, after printing one line
 * Without perturbation the result equals bb_case_time to the nanosecond, except for a hypercube where GPUs or NICs per
 * node are no power of two: its rounds may then overlap.
 */
int bb_perturbed_case_us(const struct bb_cluster *cluster, const struct bb_conditions *conditions,
                         const struct bb_case *c, double *us, int samples) BB_MUST_CHECK;

/* bb_perturbed_case_max_ranks - the most ranks for this collective; fewer where each rank has messages of its own. */
int bb_perturbed_case_max_ranks(enum bb_coll_kind kind);

#endif
