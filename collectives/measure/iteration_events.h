/*
 * iteration_events.h - the time of each iteration of a sample: CUDA events at the borders between them, on the stream
 * and without the host waiting. Recording is work on the stream, so only the last sample of a row carries marks.
 */
#ifndef BB_COLLECTIVES_MEASURE_ITERATION_EVENTS_H
#define BB_COLLECTIVES_MEASURE_ITERATION_EVENTS_H

#include "bootstrap/base/stats.h"
#include "bootstrap/world/world.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>

struct bb_iteration_events {
    cudaEvent_t *event;                /* [n + 1] borders                                     */
    double *us;                        /* [n] this rank's iterations                          */
    double *all_us;                    /* [ranks * n]                                         */
    double *row_us[2], *row_all_us[2]; /* us and all_us of a row's placement, out of place and in place */
    int n, skip;                       /* iterations; leading ones that the figures leave out */
    int ranks;
    bool on; /* the iterations that are issued now are marked       */
};

/* What the iterations of a row were like; of each iteration the slowest rank of the group counts. */
struct bb_iteration_metrics {
    struct bb_stats us;
    double variation; /* standard deviation / mean */
};

/* Release works on a half-made one. */
int bb_iteration_events_init(struct bb_iteration_events *m, int n, int skip, int ranks) BB_MUST_CHECK;
void bb_iteration_events_release(struct bb_iteration_events *m);

/* bb_iteration_events_record - border number i on the stream, when marks are on; m may be NULL. */
int bb_iteration_events_record(struct bb_iteration_events *m, size_t i, cudaStream_t stream) BB_MUST_CHECK;

/* bb_iteration_events_read - the times between the borders, which have passed. */
int bb_iteration_events_read(struct bb_iteration_events *m) BB_MUST_CHECK;

/* bb_iteration_events_keep - us and all_us as they are now are those of the row's placement, 0 or 1. */
void bb_iteration_events_keep(struct bb_iteration_events *m, int placement);

/*
 * bb_iteration_events_metrics - over the ranks r with groups[r] equal to this rank's (NULL: all). All ranks of the world
 * call it.
 */
int bb_iteration_events_metrics(struct bb_iteration_events *m, struct bb_world *w, const int *groups,
                                struct bb_iteration_metrics *f) BB_MUST_CHECK;

#endif
