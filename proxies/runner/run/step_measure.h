/*
 * step_measure.h - measures a step program: the step time, its division into compute and communication, and the time
 * that communication costs.
 *
 *   timed steps    run only the program. The time of a step is that of its slowest rank. cudaProfilerStart and
 *                  cudaProfilerStop enclose only these steps, for profilers that record this range
 *   traced steps   record CUDA events around every operation (breakdown.h). They are separate from the timed steps
 *   because
 *                  recording takes time
 *   graph          optional: steps replayed as one CUDA graph, after at least one untimed replay
 *   start barrier  optional: steps that start on the GPU when all ranks have issued all operations
 *   alone          for programs with compute and communication: timed and traced steps with compute alone, and with
 *                  communication alone. Their step times give the overlap efficiency (overlap.h) and the cost of
 *                  communication
 */
#ifndef BB_PROXIES_RUNNER_RUN_STEP_MEASURE_H
#define BB_PROXIES_RUNNER_RUN_STEP_MEASURE_H

#include "bootstrap/base/stats.h"
#include "bootstrap/cli/progress.h"
#include "proxies/form/step/step.h"
#include "proxies/runner/run/breakdown.h"
#include "proxies/runner/run/step_issue.h"

struct bb_measure_plan {
    int warmup, steps, traced_steps;
    bool alone;         /* also run steps with only compute and steps with only communication */
    bool graph;         /* also time steps replayed as a CUDA graph */
    bool start_barrier; /* also time steps with a start barrier */
};

/* Statistics of steps, each of the slowest rank in each step; step.n is 0 if no such steps were run. */
struct bb_step_stats {
    struct bb_stats step;     /* step time */
    struct bb_stats issue;    /* host time to enqueue all operations of a step */
    struct bb_stats reaction; /* GPU time from the end of the all_reduce that starts a step on all ranks until the
                                 host has observed it */
};

/* Results, equal on all ranks unless noted. Arrays of [ranks] are indexed by world rank. */
struct bb_measured {
    int ranks, steps, traced_steps;
    struct bb_step_stats timed;
    struct bb_step_stats graph;         /* steps replayed as a CUDA graph */
    struct bb_step_stats start_barrier; /* steps with a start barrier */
    struct bb_step_stats tracing;       /* the traced steps */
    double capture_ms;                  /* host time in ms to capture and instantiate the CUDA graph, slowest rank */
    struct bb_rank_breakdown *traced;   /* [ranks] breakdown of each rank's step time, means over the traced steps;
                                         NULL without traced steps */
    struct bb_traced_step last; /* times of the final traced step of the whole program on this rank (differs between
                                   ranks); zeroed without traced steps */
    bool alone; /* true: steps with compute or communication alone were run, and the fields below are set */
    double compute_alone_us, comm_alone_us; /* median step times with only compute and with only communication
                                               launched, each of the slowest rank in each step */
    /* [ranks] breakdown of each rank's traced steps with only compute and with only communication launched; NULL
     * without traced steps */
    struct bb_rank_breakdown *compute_alone, *comm_alone;
};

/* bb_step_measure - runs all steps of the plan and stores their times in m. All ranks call this together. The caller
 * releases m with bb_measured_release, also after an error. */
int bb_step_measure(struct bb_runner *r, const struct bb_measure_plan *plan, struct bb_progress *progress,
                    struct bb_measured *m) BB_MUST_CHECK;
void bb_measured_release(struct bb_measured *m);

/* bb_measure_steps - runs n more timed steps of the whole program. All ranks call this together. step_us: out, [n]
 * time of the slowest rank in each step. */
int bb_measure_steps(struct bb_runner *r, const char *name, int n, struct bb_progress *progress,
                     double *step_us) BB_MUST_CHECK;

/* bb_slowest_rank - returns the limiting rank (bb_limiting_rank) of the traced steps among the ranks of a role, that is,
 * with the same program (BB_NONE: among all ranks). Returns BB_NONE without traced steps. */
int bb_slowest_rank(const struct bb_measured *m, const struct bb_step *step, int role);

#endif
