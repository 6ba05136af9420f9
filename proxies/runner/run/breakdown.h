/*
 * breakdown.h - computes, from the traced steps of one rank, the time of compute and the time of communication: for
 * each group, the busy time, the exposed time (no compute kernel runs) and the time spent waiting for peers. All values
 * are means over the traced steps, in microseconds.
 *
 * Times are measured per lane: the operations that one host call (kernel launch, NCCL call or NCCL group call) launches
 * on one stream. The interval of a lane begins when its stream reaches these operations and the streams that they
 * depend on have reached the required point; it ends with the operations, so it includes waiting for peers. Waiting and
 * transfer are separated by durations only. The one comparison between ranks, the end of another stage's pipeline work
 * (overlap.h), uses times since the all_reduce that starts the step, which ends on all ranks within microseconds. The members of a collective
 * end together, so the member with the shortest duration was the last to enter the collective. This shortest duration
 * is the transfer time, and the excess of each other member is its waiting time. Messages are treated in the same way:
 * all NCCL calls connected by messages, directly or through other calls (for example in a shift along a pipeline or a
 * halo exchange), share the shortest duration as transfer time.
 */
#ifndef BB_PROXIES_RUNNER_RUN_BREAKDOWN_H
#define BB_PROXIES_RUNNER_RUN_BREAKDOWN_H

#include "proxies/runner/run/runner.h"
#include "proxies/simulation/timeline/timeline.h"

struct bb_group_breakdown {
    double busy_us; /* time in which communication of the group is in progress (length of the union of its intervals) */
    double exposed_us;       /* the time, included in busy_us, during which no compute kernel runs */
    double transfer_us;      /* sum of the transfer times (durations without waiting) of the group's operations; NaN:
                           unknown */
    double waiting_us;       /* time during which operations of the group wait for their last peer; NaN: unknown */
    double waited_for_share; /* the share of the calls' waiting for which the rank waited_for is the cause, 0 to 1 */
    int waited_for;          /* the rank for which this rank waits longest; BB_NONE: it does not wait */
};

/* Plain data without pointers, because ranks send it to each other as bytes. All times are means over the traced
 * steps. */
struct bb_rank_breakdown {
    int steps;
    /* times of one rank, as defined in overlap.h: step, compute, communication, communication without compute,
     * neither of the two */
    double step_us, compute_us, comm_us, exposed_us, idle_us;
    /* exposed_us (communication without compute) by cause: data transfer, pipeline bubble, waiting for other peers;
     * NaN: unknown */
    double exposed_transfer_us, bubble_us, exposed_waiting_us;
    double work_us;      /* forward and backward kernels and exposed transfers (bb_intervals.work) */
    double imbalance_us; /* part of bubble_us (bb_stage_imbalance); set in the report, because it needs all ranks */
    struct bb_group_breakdown groups[BB_MAX_GROUPS];
};

/* The times of one traced step on this rank, in ns from the end of the all_reduce that synchronizes all ranks before
 * the step. */
struct bb_traced_step {
    struct bb_timed_op *lanes; /* [runner.n_lanes] begin and end of each lane (operations that one host call launches
                                  on one stream); begin == end: nothing was launched */
    int64_t step_ns;
    int64_t *waited_ns;   /* [groups][ranks] time for which this rank has waited for each rank in all traced steps */
    double start_sync_us; /* bb_step_time.start_sync_us of the step */
};

/*
 * bb_rank_breakdown_add - reads the CUDA events of a traced step that has ended into t->lanes and t->step_ns, and adds
 * the step's times to the means. All ranks call this together.
 *   t     in and out: t->lanes and t->waited_ns (zeroed before the first step) are allocated by the caller
 *   what  the enum bb_issue flags with which the step ran
 */
int bb_rank_breakdown_add(struct bb_rank_breakdown *f, const struct bb_runner *r, struct bb_traced_step *t,
                          unsigned what) BB_MUST_CHECK;

/*
 * bb_rank_breakdown_split - separates waiting from transfer in one traced step: sets the waiting times
 * (wait_ns) in t->lanes, and adds the transfer and waiting times to the means and the waiting times to t->waited_ns.
 * All ranks call this together. If sending the durations of all ranks to each other would need more than 64 MiB, the
 * means of transfer, waiting and pipeline bubble become NaN.
 */
int bb_rank_breakdown_split(struct bb_rank_breakdown *f, const struct bb_runner *r,
                            struct bb_traced_step *t) BB_MUST_CHECK;

/* bb_update_mean - adds the value ns (in nanoseconds) to *mean, the mean of n earlier values in microseconds. */
void bb_update_mean(double *mean, int n, int64_t ns);

#endif
