/*
 * memory_series.h - the GPU memory that a rank holds over the time of a step, by use (parameters, gradients, optimizer,
 * activations, communication), for traces.
 *
 * For proxies with formulas for the memory of real training (bb_role.training_bytes), the series contain this memory:
 * activations change when kernels store and release them (bb_op.stores, bb_op.releases), and all other uses are
 * constant. The activations are scaled such that their maximum is the peak that the plan prints. The factor is 1,
 * except for schedules with several model chunks per stage, where the plan's formula uses the mean of the chunks. For
 * all other proxies, the series contain the bytes of the proxy's buffers, which are constant.
 */
#ifndef BB_PROXIES_SIMULATION_TIMELINE_MEMORY_SERIES_H
#define BB_PROXIES_SIMULATION_TIMELINE_MEMORY_SERIES_H

#include "proxies/simulation/timeline/timeline.h"

struct bb_memory_point {
    int64_t ns;
    double bytes[BB_USES]; /* bytes held from this time on */
};

struct bb_memory_series {
    const char *name;               /* "training memory", or "buffers" of the proxy */
    struct bb_memory_point *points; /* [n] ascending, n > 0; the first at time 0 */
    int n;
};

/* bb_memory_series_init - computes the series of the i-th rank of the timeline. The caller releases it. */
void bb_memory_series_init(struct bb_memory_series *m, const struct bb_timeline *t, int i);
void bb_memory_series_release(struct bb_memory_series *m);

#endif
