/* bisection.c - the test of pairs across halves of the cluster: see findings.h, pairs.h. */
#include "collectives/health/verdict/pairs.h"

#include <math.h>
#include <string.h>
#include <sys/param.h>

const char *const bb_health_cuts[BB_HEALTH_CUTS] = {"first half with second half",
                                                    "first half with reversed second half", "odd with even quarters"};

/* Returns the partner of the i-th of n nodes in the other half, by bb_health_cuts; -1: none. */
static int across(int cut, int i, int n)
{
    const int half = n / 2, quarter = MAX(1, n / 4);
    const int other = cut == 0               ? i < half ? i + half : i - half
                      : cut == 1             ? n - 1 - i
                      : i / quarter % 2 == 0 ? i + quarter
                                             : i - quarter;

    return other < n && other != i && i < n ? other : -1;
}

/* Medians of the pairs of a cut; `ratio`, `judged` and `expected` are those of the slowest pair if the stage pairs does
 * not judge it. */
struct cut {
    int index;
    double ratio;            /* value / the expectation while all pairs run */
    double judged, expected; /* the two */
    double value, lowest, share, shares[2];
};

/* Drops the pairs in one of several NVLink domains: they do not use the network between the halves. */
static void drop_inside(struct bb_pairs *p)
{
    for (int a = 0; a < p->h->nodes; a++) {
        const int b = p->partner[a];

        if (b < 0 || !bb_pairs_is_inside(p, a, b))
            continue;
        for (int g = 0; g < p->h->gpus; g++)
            p->values[a * p->h->gpus + g] = NAN;
        if (b < a)
            p->partner[a] = p->partner[b] = -1;
    }
}

static int measure_cut(struct bb_pairs *p, int cut, double unloaded, struct cut *c)
{
    struct bb_health *h = p->h;
    const int even = p->n - p->n % 2,
              idle = (p->n - 1) * cut / (BB_HEALTH_CUTS - 1); /* of an odd number: each cut has another */
    size_t n = 0;
    int rc;

    for (int node = 0; node < h->nodes; node++)
        p->partner[node] = -1;
    for (int i = 0; i < even; i++) {
        const int other = across(cut, i, even), skipped = even < p->n ? idle : p->n;

        p->partner[p->node[i + (i >= skipped)]] = other < 0 ? -1 : p->node[other + (other >= skipped)];
    }
    TRY(h->measure(h->arg, BB_HEALTH_BISECTION, p->partner, p->values));
    drop_inside(p);
    c->value = c->judged = bb_health_median(p->values, bb_health_count_values(h));
    for (int a = 0; a < h->nodes; a++)
        for (int g = 0; g < h->gpus && p->partner[a] > a; g++) {
            p->retried[n] = bb_pairs_share(p, p->partner, a, p->partner[a]);
            p->best[n] = p->values[a * h->gpus + g] / (unloaded * p->retried[n]);
            n++;
        }
    c->lowest = NAN;
    for (size_t i = 0; i < bb_health_count_values(h); i++)
        c->lowest = fmin(c->lowest, p->values[i]);
    c->index = cut;
    c->share = bb_health_middle(p->retried, n);
    bb_pairs_set_shares(h, BB_HEALTH_BISECTION, p->retried, n);
    memcpy(c->shares, h->shares[BB_HEALTH_BISECTION], sizeof c->shares);
    c->ratio = n > 0 ? bb_health_middle(p->best, n) : INFINITY;
    c->expected = c->share * unloaded;
    for (size_t i = 0; i < n && h->skip[BB_HEALTH_PAIRS]; i++)
        if (p->best[i] < c->ratio) {
            c->ratio = p->best[i];
            c->expected = p->retried[i] * unloaded;
            c->judged = c->ratio * c->expected;
        }
out:
    return rc;
}

/* Measures all cuts. counts: out: if one is slow, the one that is slowest for its expectation, else the one with the
 * lowest value */
static int measure_cuts(struct bb_pairs *p, double unloaded, struct cut *counts)
{
    struct cut slowest = {.ratio = INFINITY, .value = NAN, .share = 1}, lowest = slowest, cut;
    int rc = 0;

    for (int i = 0; i < BB_HEALTH_CUTS; i++) {
        TRY(measure_cut(p, i, unloaded, &cut));
        slowest = cut.ratio >= slowest.ratio ? slowest : cut; /* NaN: nothing is expected */
        lowest = isnan(lowest.value) || cut.value < lowest.value ? cut : lowest;
    }
    *counts = bb_health_judge(slowest.ratio) != BB_HEALTH_OK ? slowest : lowest;
    counts->ratio = slowest.ratio;
out:
    return rc;
}

int bb_health_test_bisection(struct bb_health *h)
{
    const double unloaded = isnan(h->expected[BB_HEALTH_BISECTION])
                                ? h->median[BB_HEALTH_PAIRS] / h->share[BB_HEALTH_PAIRS]
                                : h->expected[BB_HEALTH_BISECTION];
    struct bb_pairs p = {.h = h};
    struct bb_health_finding f = bb_health_finding_of(h, BB_HEALTH_BISECTION, &(struct bb_health_peers){0}, NAN);
    struct cut best = {.ratio = 0}, counts;
    int rc = 0;

    bb_pairs_start(&p, 0);
    for (int try = 0; try < 2 && (try == 0 || f.level != BB_HEALTH_OK); try++) {
        h->attempt = try + 1;
        TRY(measure_cuts(&p, unloaded, &counts));
        best = counts.ratio <= best.ratio ? best : counts;
        f.level = bb_health_judge(best.ratio);
    }
    h->median[BB_HEALTH_BISECTION] = best.value;
    h->lowest[BB_HEALTH_BISECTION] = best.lowest;
    f.value = best.judged;
    h->share[BB_HEALTH_BISECTION] = best.share;
    memcpy(h->shares[BB_HEALTH_BISECTION], best.shares, sizeof best.shares);
    h->cut = best.index;
    f.expected = best.expected;
    f.tries = BB_HEALTH_CUTS;
    if (f.level != BB_HEALTH_OK && !bb_health_is_explained(h, &f))
        bb_health_add(h, &f);
out:
    bb_pairs_end(&p);
    return rc;
}
