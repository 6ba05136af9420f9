/*
 * step_measure.h - what is measured of a step program: its time, where the time goes, and what its communication costs.
 *
 *   timed steps    nothing but the program; a step's time is that of its slowest rank. They alone lie between
 *                  cudaProfilerStart and cudaProfilerStop, for profilers that are told to take only that range
 *   traced steps   separate, since recording costs: events around every operation (breakdown.h)
 *   as a graph     where asked for: the same steps replayed as one CUDA graph, after launches that are not timed
 *   gated          where asked for: the same steps, each begun when all of it is issued on all ranks
 *   alone          where there is compute and communication: the same program with compute alone, with communication
 *                  alone, timed and traced, for the second, independent overlap figure and for what communication costs
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
    bool alone;         /* run compute and communication alone as well */
    bool graph;         /* time the step as a CUDA graph as well       */
    bool start_barrier; /* time it from behind a gate as well          */
};

/* Equal on all ranks once measured. Arrays [ranks] by world rank. */
struct bb_measured {
    int ranks, steps, traced_steps;
    double *step_us;          /* [steps] of the slowest rank of each step                               */
    struct bb_stats step;     /* of step_us                                                             */
    struct bb_stats issue;    /* host time to issue a step, on the slowest rank of each step            */
    struct bb_stats reaction; /* of the host to the common start, on the slowest rank of each step         */
    bool has_graph;             /* these three are there:                                                 */
    struct bb_stats graph_step, graph_issue; /* as step and issue, the step replayed as one CUDA graph */
    double capture_ms;  /* host: capturing it and making it ready, slowest rank                   */
    bool start_barrier; /* these two are there:                                                   */
    struct bb_stats start_barrier_step,
        start_barrier_issue;          /* as step and issue, of steps begun when all of them was issued   */
    struct bb_rank_breakdown *traced; /* [ranks] NULL without traced steps                                      */
    struct bb_stats traced_step, traced_issue; /* as step and issue, of the traced steps of the whole program  */
    struct bb_traced_step last; /* own: the newest traced step of the whole program; empty without one     */
    double start_sync_us;             /* own: bb_step_time.beat_us of that step                                 */
    bool alone;                 /* the rest is there                                                      */
    double compute_alone_us, comm_alone_us;               /* medians of the slowest rank of each step       */
    struct bb_rank_breakdown *compute_alone, *comm_alone; /* [ranks] traced; NULL without traced steps      */
};

/* bb_step_measure - collective over the world. m is to be released, also after an error. */
int bb_step_measure(struct bb_runner *r, const struct bb_measure_plan *plan, struct bb_progress *progress,
                    struct bb_measured *m) BB_MUST_CHECK;
void bb_measured_release(struct bb_measured *m);

/* bb_measure_steps - n more steps of the whole program; step_us [n] the slowest rank's of each. Collective. */
int bb_measure_steps(struct bb_runner *r, const char *name, int n, struct bb_progress *progress,
                     double *step_us) BB_MUST_CHECK;

/* bb_slowest_rank - the rank with the longest traced step among those of a role (BB_NONE: all); BB_NONE without any. */
int bb_slowest_rank(const struct bb_measured *m, const struct bb_step *step, int role);

#endif
