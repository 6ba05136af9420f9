/*
 * step_check.h - checks that every step must pass, over all its ranks together, before it runs:
 *   1. Collectives: the members of each communicator call the same collectives with the same order, kind, count, type,
 *      reduction and root.
 *   2. Messages: the k-th send of a rank to another on a communicator matches the k-th receive there, with the same
 *   count
 *      and type.
 *   3. Deadlock: the step ends when each operation waits for its peers, operations of one stream and of one
 *   communicator
 *      run one after another, and the operations of a group call progress together. A stricter variant serialises the
 *      streams of each rank in issue order (as with CUDA_LAUNCH_BLOCKING, or fewer hardware queues than streams).
 */
#ifndef BB_PROXIES_SIMULATE_STEP_CHECK_H
#define BB_PROXIES_SIMULATE_STEP_CHECK_H

#include "proxies/simulate/graph/faults.h"
#include "proxies/step/step.h"

struct bb_checks {
    bool matched;         /* checks 1 and 2 */
    bool deadlock_free;   /* check 3 */
    bool safe_serialised; /* check 3, streams serialised */
    /* Lines of text with rank, operation index and both values; for a deadlock the cycle of waiting ranks. */
    struct bb_faults mismatches, deadlock, serialised;
    int classes; /* number of rank classes, each executed once */
};

/* bb_step_check - runs all checks. Returns 0 with the results, or -BB_EFAIL (out of memory). bb_checks_release also
 * accepts a zeroed object. */
int bb_step_check(const struct bb_step *step, struct bb_checks *checks) BB_MUST_CHECK;
void bb_checks_release(struct bb_checks *checks);

/*
 * bb_checks_report - prints a line on stderr for each fault. Returns -BB_EFAIL if the step does not match or can
 * deadlock; a step that is only unsafe when serialised gives a warning and 0.
 */
int bb_checks_report(const struct bb_checks *checks) BB_MUST_CHECK;

#endif
