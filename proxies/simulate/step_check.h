/*
 * step_check.h - what every step must pass, for all its ranks together, before it is run:
 *   1. each communicator's collectives are the same on all its members: order, kind, count, type, operation, root;
 *   2. the k-th send of a rank to another on a communicator meets the k-th receive there, with the same count and type;
 *   3. it ends: executed with rendezvous, operations of one stream and of one communicator one after another, what one
 *      group call holds together. A stricter answer says whether it still ends when the streams of each rank are
 *      serialised in issue order (as with launch blocking, or fewer hardware queues than streams).
 */
#ifndef BB_PROXIES_SIMULATE_STEP_CHECK_H
#define BB_PROXIES_SIMULATE_STEP_CHECK_H

#include "proxies/simulate/graph/faults.h"
#include "proxies/step/step.h"

struct bb_checks {
    bool matched;         /* 1 and 2 */
    bool deadlock_free;   /* 3       */
    bool safe_serialised; /* 3, strict */
    /* Lines for people: rank, operation index and both values; of a deadlock the circle of ranks that wait. */
    struct bb_faults mismatches, deadlock, serialised;
    int classes; /* ranks that had to be executed, one of each class */
};

/* bb_step_check - returns 0 with the answers, or -BB_EFAIL (no memory). release is fine on a zeroed one. */
int bb_step_check(const struct bb_step *step, struct bb_checks *checks) BB_MUST_CHECK;
void bb_checks_release(struct bb_checks *checks);

/*
 * bb_checks_report - a line on stderr for each fault. -BB_EFAIL when the step does not match or can deadlock; one that
 * is only unsafe when serialised passes with a warning.
 */
int bb_checks_report(const struct bb_checks *checks) BB_MUST_CHECK;

#endif
