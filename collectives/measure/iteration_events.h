/*
 * iteration_events.h - the time of each iteration (one operation, or several in one NCCL group) of a sample, measured
 * with CUDA events between the iterations, without blocking the host. Recording an event takes time on the stream, so
 * only the last sample of a measurement has events.
 */
#ifndef BB_COLLECTIVES_MEASURE_ITERATION_EVENTS_H
#define BB_COLLECTIVES_MEASURE_ITERATION_EVENTS_H

#include "bootstrap/base/stats.h"
#include "bootstrap/world/world.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>

struct bb_iteration_events {
    cudaEvent_t *event; /* [n + 1] CUDA events: event[0] before the first iteration, event[i] after iteration i */
    /* Times of the iterations in microseconds, by buffer placement (0: out of place, 1: in place).
     * us: [n] times of this rank; bb_iteration_events_metrics sets them to the maximum over the ranks.
     * all_us: [rank * n + iteration] times of all ranks of the job */
    double *us[2], *all_us[2];
    int n, skip; /* n: number of iterations; skip: number of iterations at the beginning that the metrics omit */
    bool on;     /* true: bb_iteration_events_record records events */
};

/* Metrics of the iterations of a measurement. The time of an iteration is the maximum over the ranks of the group. */
struct bb_iteration_metrics {
    struct bb_stats us;
    double variation; /* standard deviation / mean of the iterations' times */
};

/* bb_coefficient_of_variation - return the standard deviation / mean of n times; 0 if the mean is 0. */
double bb_coefficient_of_variation(const double *us, int n);

/*
 * bb_iteration_events_init    - create events for n iterations.
 * bb_iteration_events_release - destroy the events. Accepts a partly initialized struct.
 */
int bb_iteration_events_init(struct bb_iteration_events *m, int n, int skip, int ranks) BB_MUST_CHECK;
void bb_iteration_events_release(struct bb_iteration_events *m);

/* bb_iteration_events_record - record event i on the stream if `on` is set. m may be NULL: no effect. */
int bb_iteration_events_record(struct bb_iteration_events *m, size_t i, cudaStream_t stream) BB_MUST_CHECK;

/* bb_iteration_events_read - compute the times us[placement] of the iterations from the events, all of which must have
 * completed. */
int bb_iteration_events_read(struct bb_iteration_events *m, int placement) BB_MUST_CHECK;

/*
 * bb_iteration_events_metrics - compute the metrics of us[placement] over all ranks r whose groups[r] equals the group
 * of this rank; groups NULL: over all ranks. Collective over all ranks of the job.
 */
int bb_iteration_events_metrics(struct bb_iteration_events *m, int placement, struct bb_world *w, const int *groups,
                                struct bb_iteration_metrics *f) BB_MUST_CHECK;

#endif
