/*
 * time_shares.h - where the time of one rank's step goes, by what one may ask for: parts (compute, communication,
 * exposed, idle), phases, groups, and kinds of operations. Pure; of run and of predicted steps alike, so that one can
 * stand beside the other.
 *
 * Each is the length of a union of intervals, from where a stream has come to an operation to its end: waiting for
 * others is in it. Phases, groups and kinds overlap each other, so they do not add up to the step.
 */
#ifndef BB_PROXIES_TIMELINE_TIME_SHARES_H
#define BB_PROXIES_TIMELINE_TIME_SHARES_H

#include "proxies/timeline/timeline.h"

struct bb_time_share {
    const char *by; /* "part", "phase", "group", "kind"                 */
    char name[64];  /* "exposed", "backward", "dp", "all_reduce dp"     */
    double us;
};

/* bb_time_shares - *list of *n, to be freed by the caller: the same rows in the same order for all times of one
 * program. ops: of the rank's program. 0 or -BB_EFAIL. */
int bb_time_shares(const struct bb_step *step, int rank, const struct bb_timed_op *ops, int64_t step_ns,
                   struct bb_time_share **list, int *n) BB_MUST_CHECK;

#endif
