/*
 * step_measure.h - measures a step program: its time, where the time goes, and what its communication costs.
 *
 *   timed steps    only the program; the time of a step is that of its slowest rank. Only these steps are between
 *                  cudaProfilerStart and cudaProfilerStop, for profilers that record that range
 *   traced steps   separate, since recording takes time: events around every operation (breakdown.h)
 *   graph          optional: the same steps replayed as one CUDA graph, after launches that are not timed
 *   start barrier  optional: the same steps, held until all operations are issued on all ranks
 *   alone          if there is compute and communication: the program with compute alone and with communication alone,
 *                  timed and traced, to measure the overlap independently and to find what communication costs
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
    bool alone;         /* also run compute and communication alone */
    bool graph;         /* also time the step as a CUDA graph */
    bool start_barrier; /* also time the step with a start barrier */
};

/* Equal on all ranks after the measurement. Arrays [ranks] are indexed by world rank. */
struct bb_measured {
    int ranks, steps, traced_steps;
    double *step_us;          /* [steps] slowest rank of each step */
    struct bb_stats step;     /* of step_us */
    struct bb_stats issue;    /* host time to issue a step; slowest rank of each step */
    struct bb_stats reaction; /* time until the host reacts to the common start; slowest rank of each step */
    bool has_graph;           /* the next three fields are set */
    struct bb_stats graph_step, graph_issue;                 /* as step and issue, for the CUDA graph */
    double capture_ms;                                       /* host: capture and instantiation; slowest rank */
    bool start_barrier;                                      /* the next two fields are set */
    struct bb_stats start_barrier_step, start_barrier_issue; /* as step and issue, with a start barrier */
    struct bb_rank_breakdown *traced;                        /* [ranks] NULL without traced steps */
    struct bb_stats traced_step, traced_issue;               /* as step and issue, for the traced steps */
    struct bb_traced_step last;             /* this rank: newest traced step of the whole program; empty without one */
    double start_sync_us;                   /* this rank: bb_step_time.start_sync_us of that step */
    bool alone;                             /* the remaining fields are set */
    double compute_alone_us, comm_alone_us; /* medians; slowest rank of each step */
    struct bb_rank_breakdown *compute_alone, *comm_alone; /* [ranks] traced; NULL without traced steps */
};

/* bb_step_measure - runs all series of the plan; collective over the world. The caller releases m, also after an
 * error. */
int bb_step_measure(struct bb_runner *r, const struct bb_measure_plan *plan, struct bb_progress *progress,
                    struct bb_measured *m) BB_MUST_CHECK;
void bb_measured_release(struct bb_measured *m);

/* bb_measure_steps - runs n more steps of the whole program; collective. step_us: out, [n] slowest rank of each
 * step. */
int bb_measure_steps(struct bb_runner *r, const char *name, int n, struct bb_progress *progress,
                     double *step_us) BB_MUST_CHECK;

/* bb_slowest_rank - the rank with the longest traced step among those of a role (BB_NONE: all roles); BB_NONE
 * without traced steps. */
int bb_slowest_rank(const struct bb_measured *m, const struct bb_step *step, int role);

#endif
