/*
 * time_shares.h - computes how much of one rank's step time belongs to each part (compute, communication, exposed
 * communication, idle), to each training phase, to each group and to each kind of operation. Measured and predicted
 * steps use the same function, so that they can be compared.
 *
 * Each value is the length of a union of intervals. The interval of an operation begins when its stream arrives at the
 * operation, so it includes waiting for peers. Phases, groups and kinds overlap in time, so their values do not add up
 * to the step.
 */
#ifndef BB_PROXIES_SIMULATION_TIMELINE_TIME_SHARES_H
#define BB_PROXIES_SIMULATION_TIMELINE_TIME_SHARES_H

#include "proxies/simulation/timeline/timeline.h"

struct bb_time_share {
    const char *by; /* category of `name`: "part" (compute, exposed, idle, ...), "phase", "group" or "kind" */
    char name[64];  /* what the time belongs to, for example "exposed" (part), "backward" (phase), "dp" (group),
                       "all_reduce dp" (kind) */
    double us;
};

/*
 * bb_time_shares - computes one rank's step time by category.
 *   ops      [operations of the rank's program] their begin and end times
 *   list, n  out: the values; all calls for the same program return the same categories in the same order
 *   Owner    the caller frees *list
 */
void bb_time_shares(const struct bb_step *step, int rank, const struct bb_timed_op *ops, int64_t step_ns,
                    struct bb_time_share **list, int *n);

#endif
