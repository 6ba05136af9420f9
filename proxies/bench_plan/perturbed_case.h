/*
 * perturbed_case.h - how long one row of bench's table takes on a machine that is not even: the operation as a step of its
 * own, predicted as every other step is (proxies/simulate), so that a slow NIC costs both the same.
 *
 * With jitter each rank's part of the operation lasts a time of its own (conditions.h), and the operation as long as the
 * longest of them.
 */
#ifndef BB_PROXIES_BENCH_PLAN_PERTURBED_CASE_H
#define BB_PROXIES_BENCH_PLAN_PERTURBED_CASE_H

#include "collectives/measure/case.h"
#include "proxies/machine/cluster.h"
#include "proxies/simulate/conditions.h"

/* bb_perturbed_case_us - us[samples]: of each sample of the jitter, in their order; without jitter all are the same. What
 * is slow must be there (bb_slow_validate); at full rates it is what case_time.h says, to the nanosecond, or nearly: where
 * the GPUs of a node or its NICs are no power of two, rounds of a hypercube may run into each other. -BB_EFAIL: no
 * memory (said). */
int bb_perturbed_case_us(const struct bb_cluster *cluster, const struct bb_conditions *conditions, const struct bb_case *c,
                      double *us, int samples) BB_MUST_CHECK;

/* bb_perturbed_case_max_ranks - the most ranks that such a row can have: fewer where each rank's messages are its own. */
int bb_perturbed_case_max_ranks(enum bb_coll_kind kind);

#endif
