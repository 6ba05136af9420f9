/*
 * iteration_events.h - the time of each iteration of a sample, from CUDA events between the iterations; the host does
 * not wait. An event record takes time on the stream, so only the last sample of a row has events.
 */
#ifndef BB_COLLECTIVES_MEASURE_ITERATION_EVENTS_H
#define BB_COLLECTIVES_MEASURE_ITERATION_EVENTS_H

#include "bootstrap/base/stats.h"
#include "bootstrap/world/world.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>

struct bb_iteration_events {
    cudaEvent_t *event;                /* [n + 1] events before, between and after the iterations */
    double *us;                        /* [n] times of this rank, microseconds */
    double *all_us;                    /* [ranks * n] times of all ranks */
    double *row_us[2], *row_all_us[2]; /* copies of us and all_us, out of place and in place */
    int n, skip;                       /* number of iterations; number of leading iterations that the metrics omit */
    int ranks;
    bool on; /* events are recorded for the iterations that are issued now */
};

/* Metrics of the iterations of a row. The time of an iteration is the maximum over the ranks of the group. */
struct bb_iteration_metrics {
    struct bb_stats us;
    double variation; /* standard deviation / mean */
};

/* bb_iteration_events_init - create events for n iterations. Release accepts a partly initialised struct. */
int bb_iteration_events_init(struct bb_iteration_events *m, int n, int skip, int ranks) BB_MUST_CHECK;
void bb_iteration_events_release(struct bb_iteration_events *m);

/* bb_iteration_events_record - record event i on the stream if `on` is set; m may be NULL. */
int bb_iteration_events_record(struct bb_iteration_events *m, size_t i, cudaStream_t stream) BB_MUST_CHECK;

/* bb_iteration_events_read - compute the times between the events, which must have completed. */
int bb_iteration_events_read(struct bb_iteration_events *m) BB_MUST_CHECK;

/* bb_iteration_events_keep - copy us and all_us to the row's placement: 0 out of place, 1 in place. */
void bb_iteration_events_keep(struct bb_iteration_events *m, int placement);

/*
 * bb_iteration_events_metrics - compute the metrics over the ranks r with groups[r] equal to this rank's group (NULL:
 * all ranks). Collective over all ranks of the world.
 */
int bb_iteration_events_metrics(struct bb_iteration_events *m, struct bb_world *w, const int *groups,
                                struct bb_iteration_metrics *f) BB_MUST_CHECK;

#endif
