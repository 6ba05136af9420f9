/* iteration_events.c - see iteration_events.h. */
#include "collectives/measure/iteration_events.h"

#include "bootstrap/base/alloc.h"
#include "cuda/device/check.h"
#include "cuda/device/stream.h"

#include <math.h>
#include <stdlib.h>

int bb_iteration_events_init(struct bb_iteration_events *m, int n, int skip, int ranks)
{
    int rc = 0;

    *m = (struct bb_iteration_events){.n = n, .skip = skip};
    BB_NEW(m->event, n + 1);
    for (int place = 0; place < 2; place++) {
        BB_NEW(m->us[place], n);
        BB_NEW(m->all_us[place], (size_t)n * (size_t)ranks);
    }
    for (int i = 0; i <= n && rc == 0; i++)
        rc = BB_CUDA(cudaEventCreate(&m->event[i]));
    return rc;
}

void bb_iteration_events_release(struct bb_iteration_events *m)
{
    for (int i = 0; m->event && i <= m->n; i++)
        bb_event_destroy(m->event[i]);
    free(m->event);
    for (int place = 0; place < 2; place++) {
        free(m->us[place]);
        free(m->all_us[place]);
    }
    *m = (struct bb_iteration_events){0};
}

int bb_iteration_events_record(struct bb_iteration_events *m, size_t i, cudaStream_t stream)
{
    return m && m->on ? BB_CUDA(cudaEventRecord(m->event[i], stream)) : 0;
}

int bb_iteration_events_read(struct bb_iteration_events *m, int placement)
{
    int rc = 0;

    for (int i = 0; i < m->n; i++)
        TRY(bb_event_us(m->event[i], m->event[i + 1], &m->us[placement][i]));
out:
    return rc;
}

double bb_coefficient_of_variation(const double *us, int n)
{
    double mean = 0, squares = 0;

    for (int i = 0; i < n; i++)
        mean += us[i] / n;
    for (int i = 0; i < n; i++)
        squares += (us[i] - mean) * (us[i] - mean) / n;
    return mean > 0 ? sqrt(squares) / mean : 0;
}

int bb_iteration_events_metrics(struct bb_iteration_events *m, int placement, struct bb_world *w, const int *groups,
                                struct bb_iteration_metrics *f)
{
    double *us = m->us[placement], *all_us = m->all_us[placement];
    size_t n = (size_t)m->n;
    int rc;

    TRY(bb_world_allgather(w, us, all_us, n * sizeof *us));
    for (size_t r = 0; r < (size_t)w->size; r++)
        for (size_t i = 0; i < n && (!groups || groups[r] == groups[w->rank]); i++)
            us[i] = fmax(us[i], all_us[r * n + i]);
    bb_stats_compute(us + m->skip, n - (size_t)m->skip, &f->us);
    f->variation = bb_coefficient_of_variation(us + m->skip, m->n - m->skip);
out:
    return rc;
}
