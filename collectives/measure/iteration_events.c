/* iteration_events.c - see iteration_events.h. */
#include "collectives/measure/iteration_events.h"

#include "bootstrap/base/alloc.h"
#include "cuda/device/check.h"
#include "cuda/device/stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int bb_iteration_events_init(struct bb_iteration_events *m, int n, int skip, int ranks)
{
    int rc = 0;

    *m = (struct bb_iteration_events){.n = n, .skip = skip, .ranks = ranks};
    BB_NEW(m->event, n + 1);
    BB_NEW(m->us, n);
    BB_NEW(m->all_us, (size_t)n * (size_t)ranks);
    for (int place = 0; place < 2; place++) {
        BB_NEW(m->row_us[place], n);
        BB_NEW(m->row_all_us[place], (size_t)n * (size_t)ranks);
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
        free(m->row_us[place]);
        free(m->row_all_us[place]);
    }
    free(m->us);
    free(m->all_us);
    *m = (struct bb_iteration_events){0};
}

int bb_iteration_events_record(struct bb_iteration_events *m, size_t i, cudaStream_t stream)
{
    return m && m->on ? BB_CUDA(cudaEventRecord(m->event[i], stream)) : 0;
}

int bb_iteration_events_read(struct bb_iteration_events *m)
{
    int rc = 0;

    for (int i = 0; i < m->n; i++)
        TRY(bb_event_us(m->event[i], m->event[i + 1], &m->us[i]));
out:
    return rc;
}

void bb_iteration_events_keep(struct bb_iteration_events *m, int placement)
{
    memcpy(m->row_us[placement], m->us, (size_t)m->n * sizeof *m->us);
    memcpy(m->row_all_us[placement], m->all_us, (size_t)m->n * (size_t)m->ranks * sizeof *m->us);
}

static double coefficient_of_variation(const double *us, int n)
{
    double mean = 0, squares = 0;

    for (int i = 0; i < n; i++)
        mean += us[i] / n;
    for (int i = 0; i < n; i++)
        squares += (us[i] - mean) * (us[i] - mean) / n;
    return mean > 0 ? sqrt(squares) / mean : 0;
}

int bb_iteration_events_metrics(struct bb_iteration_events *m, struct bb_world *w, const int *groups,
                                struct bb_iteration_metrics *f)
{
    size_t n = (size_t)m->n;
    int rc;

    TRY(bb_world_allgather(w, m->us, m->all_us, n * sizeof *m->us));
    for (size_t r = 0; r < (size_t)w->size; r++)
        for (size_t i = 0; i < n && (!groups || groups[r] == groups[w->rank]); i++)
            m->us[i] = fmax(m->us[i], m->all_us[r * n + i]);
    bb_stats_compute(m->us + m->skip, n - (size_t)m->skip, &f->us);
    f->variation = coefficient_of_variation(m->us + m->skip, m->n - m->skip);
out:
    return rc;
}
