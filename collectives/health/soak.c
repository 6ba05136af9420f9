/* soak.c - see soak.h. */
#include "collectives/health/soak.h"

#include "bootstrap/base/alloc.h"

#include <math.h>
#include <stdlib.h>

/* State of one test: [nodes * gpus] values. */
struct series {
    struct bb_health *h;
    struct bb_soak *soak;
    int *partner;
    double *first, *now, *lowest, *lowest_s;
};

static size_t count_gpus(const struct bb_health *h)
{
    return (size_t)h->nodes * (size_t)h->gpus;
}

static int measure_round(struct series *s, double at_s)
{
    struct bb_soak *soak = s->soak;
    int rc;

    TRY(s->h->measure(s->h->arg, soak->test, s->partner, s->now));
    soak->last = bb_health_median(s->now, count_gpus(s->h));
    soak->last_s = at_s;
    if (soak->rounds++ == 0)
        soak->first = soak->last;
    for (size_t i = 0; i < count_gpus(s->h); i++) {
        if (soak->rounds == 1)
            s->first[i] = s->lowest[i] = s->now[i];
        if (s->now[i] < s->lowest[i]) {
            s->lowest[i] = s->now[i];
            s->lowest_s[i] = at_s;
        }
    }
out:
    return rc;
}

/* Removes the findings of the rounds before. */
static void drop_findings(struct bb_health *h, enum bb_health_test test)
{
    const size_t n = h->n;

    h->n = 0;
    for (size_t i = 0; i < n; i++)
        if (h->findings[i].soak_s <= 0 || h->findings[i].test != test)
            h->findings[h->n++] = h->findings[i];
}

/* Adds the findings of a test, and sets its worst value. All GPUs have the same value in a test of the whole job. */
static void judge_test(struct series *s)
{
    const bool is_whole = bb_health_tests[s->soak->test].part == BB_HEALTH_ALL;

    drop_findings(s->h, s->soak->test);
    s->soak->worst = NAN;
    for (size_t i = 0; i < count_gpus(s->h); i++) {
        const double part = s->lowest[i] / s->first[i];
        struct bb_health_finding f = {.test = s->soak->test,
                                      .part = bb_health_tests[s->soak->test].part,
                                      .level = bb_health_judge(part),
                                      .node = is_whole ? -1 : (int)i / s->h->gpus,
                                      .other = -1,
                                      .gpu = is_whole ? -1 : (int)i % s->h->gpus,
                                      .value = s->lowest[i],
                                      .expected = s->first[i],
                                      .median = NAN,
                                      .tries = s->soak->rounds,
                                      .soak_s = fmax(s->lowest_s[i], 1e-9)};

        if (isnan(part))
            continue;
        if (!(s->soak->worst <= part)) {
            s->soak->worst = part;
            s->soak->worst_value = s->lowest[i];
            s->soak->worst_s = s->lowest_s[i];
            s->soak->node = f.node;
            s->soak->gpu = f.gpu;
        }
        if (f.level != BB_HEALTH_OK)
            bb_health_add(s->h, &f);
        if (is_whole)
            return;
    }
}

static void start_series(struct series *s, struct bb_health *h, struct bb_soak *soak, enum bb_health_test test)
{
    const size_t n = count_gpus(h);

    *soak = (struct bb_soak){.test = test};
    *s = (struct series){.h = h, .soak = soak};
    BB_NEW(s->partner, h->nodes);
    for (int node = 0; node < h->nodes; node++)
        s->partner[node] = bb_health_node_level(h, node) == BB_HEALTH_FAIL ? -1 : 0;
    BB_NEW(s->first, n);
    BB_NEW(s->now, n);
    BB_NEW(s->lowest, n);
    BB_NEW(s->lowest_s, n);
}

static void end_series(struct series *s)
{
    free(s->partner);
    free(s->first);
    free(s->now);
    free(s->lowest);
    free(s->lowest_s);
}

int bb_soak_run(struct bb_health *h, double seconds, bb_soak_clock *clock, struct bb_soak soak[BB_SOAK_TESTS])
{
    const bool has_peers = bb_health_active(h) * h->gpus > 1;
    struct series all[BB_SOAK_TESTS];
    double start_s, now_s;
    int rc;

    h->is_soak = true;
    start_series(&all[0], h, &soak[0], BB_HEALTH_GEMM);
    start_series(&all[1], h, &soak[1], BB_HEALTH_WHOLE);
    TRY(clock(h->arg, &start_s));
    now_s = start_s;
    for (int round = 0; round < 2 || now_s - start_s < seconds; round++)
        for (int i = 0; i < BB_SOAK_TESTS; i++) {
            TRY(clock(h->arg, &now_s));
            if (i > 0 && !has_peers)
                continue;
            TRY(measure_round(&all[i], now_s - start_s));
            judge_test(&all[i]);
        }
    bb_health_sort(h);
out:
    for (int i = 0; i < BB_SOAK_TESTS; i++)
        end_series(&all[i]);
    h->is_soak = false;
    return rc;
}
