/*
 * step_measure.h - measures a step program: the step time, its division into compute and communication, and the time
 * that communication costs.
 *
 *   timed steps    run only the program. The time of a step is that of its slowest rank. cudaProfilerStart and
 *                  cudaProfilerStop enclose only these steps, for profilers that record this range
 *   traced steps   are separate steps with events around every operation, because recording takes time (breakdown.h)
 *   graph          optional: steps replayed as one CUDA graph, after at least one untimed replay
 *   start barrier  optional: steps that start when all operations have been issued on all ranks
 *   alone          for programs with compute and communication: steps with compute alone and with communication alone,
 *                  timed and traced. Their step times give the overlap efficiency (overlap.h) and the cost of
 *                  communication
 */
#ifndef BB_PROXIES_RUN_STEP_MEASURE_H
#define BB_PROXIES_RUN_STEP_MEASURE_H

#include "bootstrap/base/progress.h"
#include "bootstrap/base/stats.h"
#include "proxies/run/breakdown.h"
#include "proxies/run/step_issue.h"
#include "proxies/step/step.h"

struct bb_measure_plan {
    int warmup, steps, traced_steps;
    bool alone;         /* also run steps with only compute and steps with only communication */
    bool graph;         /* also time steps replayed as a CUDA graph */
    bool start_barrier; /* also time steps with a start barrier */
};

/* Results, equal on all ranks unless noted. Arrays of [ranks] are indexed by world rank. */
struct bb_measured {
    int ranks, steps, traced_steps;
    double *step_us;          /* [steps] time of the slowest rank in each step */
    struct bb_stats step;     /* statistics of step_us */
    struct bb_stats issue;    /* host time to issue a step, slowest rank of each step */
    struct bb_stats reaction; /* time until the host reacts to the common start, slowest rank of each step */
    bool has_graph;           /* true: graph_step, graph_issue and capture_ms are set */
    struct bb_stats graph_step, graph_issue; /* same as step and issue, for the CUDA graph */
    double capture_ms;                       /* host time to capture and instantiate the graph, slowest rank */
    bool start_barrier; /* true: the start_barrier_step and start_barrier_issue statistics are set */
    struct bb_stats start_barrier_step, start_barrier_issue; /* same as step and issue, with a start barrier */
    struct bb_rank_breakdown *traced;          /* [ranks] means of the traced steps; NULL without traced steps */
    struct bb_stats traced_step, traced_issue; /* same as step and issue, for the traced steps */
    struct bb_traced_step last; /* only this rank: times of the final traced step of the whole program; zeroed
                                   without traced steps */
    double start_sync_us;       /* only this rank: bb_step_time.start_sync_us of the final traced step */
    bool alone; /* true: steps with compute or communication alone were run, and the fields below are set */
    double compute_alone_us, comm_alone_us; /* median step times with only compute and with only communication,
                                               slowest rank of each step */
    struct bb_rank_breakdown *compute_alone, *comm_alone; /* [ranks] means of the traced steps with only compute and
                                                             only communication; NULL without traced steps */
};

/* bb_step_measure - runs all steps of the plan and stores their times in m. All ranks call this together. The caller
 * releases m with bb_measured_release, also after an error. */
int bb_step_measure(struct bb_runner *r, const struct bb_measure_plan *plan, struct bb_progress *progress,
                    struct bb_measured *m) BB_MUST_CHECK;
void bb_measured_release(struct bb_measured *m);

/* bb_measure_steps - runs n additional steps of the whole program. All ranks call this together. step_us: out, [n]
 * time of the slowest rank in each step. */
int bb_measure_steps(struct bb_runner *r, const char *name, int n, struct bb_progress *progress,
                     double *step_us) BB_MUST_CHECK;

/* bb_slowest_rank - returns the rank with the longest traced step among the ranks of a role, that is, with the same
 * program (BB_NONE: among all ranks). Returns BB_NONE without traced steps. */
int bb_slowest_rank(const struct bb_measured *m, const struct bb_step *step, int role);

#endif
