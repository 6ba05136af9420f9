/* sampled.c - simulates the best layouts several times with random jitter on every rank, and sorts them by their
 * median step time. */
#include "bootstrap/cli/progress.h"
#include "proxies/offline/layouts/layouts.h"
#include "proxies/simulation/simulate/predict.h"
#include "proxies/workloads/registry/registry.h"

#include <stdlib.h>

static int sample_row(const struct bb_layout_search *search, const struct bb_conditions *conditions,
                      struct bb_layout_row *row)
{
    struct bb_proxy_config as = bb_layouts_config(search->config, &row->choice);
    struct bb_jittered steps = {0};
    struct bb_step step = {0};
    int rc;

    TRY(bb_step_build(&step, search->proxy, &as));
    TRY(bb_predict_jitter(&step, search->cluster, conditions, search->samples, NULL, &steps));
    row->p50_ns = bb_jittered_at(&steps, 50);
    row->p95_ns = bb_jittered_at(&steps, 95);
out:
    bb_jittered_release(&steps);
    bb_step_release(&step);
    return rc;
}

/* qsort comparator: orders layouts by median step time with jitter and the penalty; for equal medians, by the step time
 * without jitter. */
static int by_median(const void *a, const void *b)
{
    const struct bb_layout_row *x = a, *y = b;

    if (x->p50_ns * (1 + x->penalty) != y->p50_ns * (1 + y->penalty))
        return x->p50_ns * (1 + x->penalty) < y->p50_ns * (1 + y->penalty) ? -1 : 1;
    if (bb_layouts_ranked_ns(x) != bb_layouts_ranked_ns(y))
        return bb_layouts_ranked_ns(x) < bb_layouts_ranked_ns(y) ? -1 : 1;
    return x->number - y->number;
}

int bb_layouts_sample(const struct bb_layout_search *search, const struct bb_conditions *conditions,
                      struct bb_layouts *found)
{
    const int n = found->n < search->top ? found->n : search->top;
    struct bb_progress progress;
    double all = 0, max = 0;
    int rc;

    bb_progress_init(&progress, 0, search->quiet);
    for (int i = 0; i < n; i++) {
        all += found->rows[i].operations;
        max = found->rows[i].operations > max ? found->rows[i].operations : max;
    }
    TRY(bb_predict_validate_jitter(search->config->ranks, search->config->ranks, max, search->samples));
    bb_progress_expect(&progress, all);
    for (int i = 0; i < n; i++) {
        TRY(sample_row(search, conditions, &found->rows[i]));
        bb_progress_advance(&progress, found->rows[i].operations);
    }
    qsort(found->rows, (size_t)n, sizeof(*found->rows), by_median);
out:
    bb_progress_end(&progress);
    return rc;
}
