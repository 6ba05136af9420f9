/*
 * breakdown.h - where the time of one rank's traced steps goes: time of compute and of each group's communication, how
 * much of that was exposed, and how much was waiting for the last peer. Means over the traced steps, in microseconds.
 *
 * The interval of a lane (runner.h) begins when its stream arrives at the batch and everything for which the batch
 * waits is done. It ends with the operation, so it includes waiting for peers. Clocks of different GPUs are never
 * compared. The split into transfer and waiting uses durations only: the members of a collective end together, so the
 * member with the shortest duration arrived last; its duration is the transfer, and the excess of the others is
 * waiting. Messages are treated in the same way: all calls that are connected by messages, directly or through other
 * calls (a shift along a pipeline, a halo exchange), share the shortest duration.
 */
#ifndef BB_PROXIES_RUN_BREAKDOWN_H
#define BB_PROXIES_RUN_BREAKDOWN_H

#include "proxies/run/runner.h"
#include "proxies/timeline/timeline.h"

struct bb_group_breakdown {
    double busy_us;     /* union of the intervals of its communication */
    double exposed_us;  /* part of busy_us during which no kernel ran */
    double transfer_us; /* sum of the transfers; NaN: not split */
    double waiting_us;  /* sum of the waits for the last peer; NaN: not split */
};

/* Plain data: ranks exchange it as bytes. */
struct bb_rank_breakdown {
    int steps;
    double step_us, compute_us, comm_us, exposed_us, idle_us;  /* as in overlap.h */
    double exposed_transfer_us, bubble_us, exposed_waiting_us; /* exposed_us by cause; NaN: not split */
    struct bb_group_breakdown groups[BB_MAX_GROUPS];
};

/* The times of the lanes in one traced step, from the common start. */
struct bb_traced_step {
    struct bb_timed_op *lanes; /* [runner.n_lanes] begin == end: nothing was launched */
    int64_t step_ns;
};

int bb_traced_step_init(struct bb_traced_step *t, const struct bb_runner *r) BB_MUST_CHECK;
void bb_traced_step_release(struct bb_traced_step *t);

/* bb_traced_step_read - reads the events of the traced step that has just ended; what: enum bb_issue of that step. */
int bb_traced_step_read(struct bb_traced_step *t, const struct bb_runner *r, unsigned what) BB_MUST_CHECK;

/* bb_rank_breakdown_add - adds a traced step to the means, after bb_rank_breakdown_split. Returns 0 or -BB_EFAIL. */
int bb_rank_breakdown_add(struct bb_rank_breakdown *f, const struct bb_runner *r,
                          const struct bb_traced_step *t) BB_MUST_CHECK;

/*
 * bb_rank_breakdown_split - sets the waiting time (wait_ns) of each lane and adds it to the means. Collective over the
 * world. Sets NaN instead if the durations of all ranks would take more than 64 MiB.
 */
int bb_rank_breakdown_split(struct bb_rank_breakdown *f, const struct bb_runner *r,
                            struct bb_traced_step *t) BB_MUST_CHECK;

/* bb_update_mean - updates a mean over n samples, in microseconds, with one more sample. */
void bb_update_mean(double *mean, int n, int64_t ns);

/* What a group transfers in one step on this rank, from the program alone. */
struct bb_group_traffic {
    size_t calls;     /* number of operations */
    double bytes;     /* payload, as in the plan */
    double bus_bytes; /* payload x bus factor; messages: maximum of sent and received */
    bool pairs;       /* has sends or receives */
};
void bb_count_group_traffic(const struct bb_layout *l, const struct bb_program *p,
                            struct bb_group_traffic work[BB_MAX_GROUPS]);

#endif
