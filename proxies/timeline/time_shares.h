/*
 * time_shares.h - where the time of one rank's step goes: by part (compute, communication, exposed, idle), phase, group
 * and kind of operation. The same rows for measured and for predicted steps, so that both can be compared.
 *
 * Each value is the length of a union of intervals, from the arrival of the stream at an operation to its end, waiting
 * included. Phases, groups and kinds overlap, so they do not add up to the step.
 */
#ifndef BB_PROXIES_TIMELINE_TIME_SHARES_H
#define BB_PROXIES_TIMELINE_TIME_SHARES_H

#include "proxies/timeline/timeline.h"

struct bb_time_share {
    const char *by; /* "part", "phase", "group", "kind"                 */
    char name[64];  /* "exposed", "backward", "dp", "all_reduce dp"     */
    double us;
};

/*
 * bb_time_shares - computes the shares.
 *   ops      [operations of the rank's program] their times
 *   list, n  out: the rows; every call for the same program gives the same rows in the same order
 *   Returns  0 or -BB_EFAIL
 *   Owner    the caller frees *list
 */
int bb_time_shares(const struct bb_step *step, int rank, const struct bb_timed_op *ops, int64_t step_ns,
                   struct bb_time_share **list, int *n) BB_MUST_CHECK;

#endif
