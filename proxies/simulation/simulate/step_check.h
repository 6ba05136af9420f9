/*
 * step_check.h - checks of a step over all its ranks, performed before the step runs:
 *   1. Collectives: the members of each communicator call the same collectives in the same order, with the same
 *      kind, count, type, reduction and root.
 *   2. Messages: the k-th send from one rank to another on a communicator matches the k-th receive of the other rank,
 *      with the same count and type. The members of a communicator call the same alltoallvs in the same order.
 *   3. Deadlock: the step ends if each operation waits for its peers, the operations on one stream and on one
 *      communicator run one after another, and the operations of a group call progress together. A stricter check
 *      also serializes the streams of each rank in issue order, as with CUDA_LAUNCH_BLOCKING or with fewer hardware
 *      queues than streams.
 */
#ifndef BB_PROXIES_SIMULATION_SIMULATE_STEP_CHECK_H
#define BB_PROXIES_SIMULATION_SIMULATE_STEP_CHECK_H

#include "proxies/form/step/step.h"
#include "proxies/simulation/simulate/graph/faults.h"

struct bb_checks {
    bool matched;         /* collectives match (check 1 of the list above), and sends and receives match (check 2) */
    bool deadlock_free;   /* the step ends: no operation waits forever for its peers (check 3) */
    bool safe_serialised; /* the step ends even if the streams of each rank are serialized (stricter form of check 3) */
    /* One text per error. Mismatch: the ranks, the operation indices and the values on both ranks; deadlock: the
     * cycle of waiting ranks. */
    struct bb_faults mismatches, deadlock, serialised;
    int classes; /* number of classes of equivalent ranks, of which the checks execute one rank each */
};

/* bb_step_check - performs all checks. Returns 0, also if the step fails a check, or the error of bb_sim_init. The
 * caller releases *checks with bb_checks_release, which also accepts a zeroed object. */
int bb_step_check(const struct bb_step *step, struct bb_checks *checks) BB_MUST_CHECK;
void bb_checks_release(struct bb_checks *checks);

/*
 * bb_checks_report - prints each error of a proxy's step on one line of stderr. Returns -BB_EFAIL if operations do not match or the step
 * can deadlock. If the step can deadlock only with serialized streams, prints a warning and returns 0.
 */
int bb_checks_report(const char *proxy, const struct bb_checks *checks) BB_MUST_CHECK;

#endif
