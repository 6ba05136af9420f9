/* pair_uplinks.c - what pairs share: slow leaves and fabrics, see pairs.h. */
#include "collectives/health/verdict/pairs.h"

#include "bootstrap/base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <sys/param.h>

#define SLOW_AT_ONCE BB_HEALTH_UNSTEADY

bool bb_pairs_leaves(const struct bb_at_once *leaf, int a, int b)
{
    return (a >= leaf->first && a <= leaf->last) != (b >= leaf->first && b <= leaf->last);
}

/* Returns the value of a GPU of a pair in a round / its reference; NaN: none, or an end or the path is slow. */
static double ratio_of_gpu(const struct bb_pairs *p, int round, int a, int g)
{
    const int b = p->partner[round * p->h->nodes + a];
    const double reference = bb_pairs_reference(p, g);

    if (b < 0 || bb_pairs_has_finding(p->h, BB_HEALTH_A_PATH, a, b) || bb_pairs_level(p, a, g) != BB_HEALTH_OK ||
        bb_pairs_level(p, b, g) != BB_HEALTH_OK)
        return NAN;
    return bb_health_without_noise(
               p->values[(size_t)round * bb_health_count_values(p->h) + (size_t)(a * p->h->gpus + g)], reference,
               &p->all) /
           reference;
}

/* Sets the lowest ratio of the GPUs of all pairs in all rounds. Returns the lowest bandwidth of a round / its
 * expectation. n: out: number of slow pairs. share: out: mean share of the pairs of that round; NULL: not needed */
static double ratios_at_once(const struct bb_pairs *p, double *ratio, int *n, double *share)
{
    const int nodes = p->h->nodes;
    double lowest = 1;

    *n = 0;
    for (int k = 0; k < p->rounds; k++) {
        const int *partner = p->partner + (size_t)k * (size_t)nodes;
        double sum = 0, expected = 0;
        int measured = 0;

        for (int a = 0; a < nodes; a++) {
            double r = NAN;

            for (int g = 0; g < p->h->gpus; g++)
                r = fmin(r, ratio_of_gpu(p, k, a, g));
            ratio[k * nodes + a] = r;
            if (isnan(r))
                continue;
            *n += r < SLOW_AT_ONCE && a < partner[a];
            sum += r * bb_pairs_share(p, NULL, a, partner[a]);
            expected += bb_pairs_share(p, NULL, a, partner[a]);
            measured++;
        }
        if (measured == 0 || sum / expected >= lowest)
            continue;
        lowest = sum / expected;
        if (share)
            *share = expected / measured;
    }
    return lowest;
}

/* Returns the only GPU index whose pairs are slow at the slow leaf; -1: there are several. */
static int gpu_of_leaf(const struct bb_pairs *p)
{
    int gpu = -1, n = 0;

    for (int g = 0; g < p->h->gpus; g++) {
        bool slow = false;

        for (int i = 0; i < p->rounds * p->h->nodes; i++)
            slow = slow || (bb_pairs_leaves(&p->leaf, i % p->h->nodes, p->partner[i]) &&
                            ratio_of_gpu(p, i / p->h->nodes, i % p->h->nodes, g) < SLOW_AT_ONCE);
        gpu = slow ? g : gpu;
        n += slow;
    }
    return n == 1 && p->h->gpus > 1 ? gpu : -1;
}

/* Adds a finding about what pairs share. reached: value / expectation of pairs with this share of their rate */
static void add_shared(struct bb_pairs *p, enum bb_health_part part, double reached, double share)
{
    const double alone = p->h->expected[BB_HEALTH_PAIRS];
    struct bb_health_finding f =
        bb_pairs_finding(p, part, -1, -1, share * reached * (isnan(alone) ? p->all.median : alone));

    if (part == BB_HEALTH_A_LEAF) {
        f.node = p->leaf.first;
        f.other = p->leaf.last;
        f.gpu = gpu_of_leaf(p);
    }
    f.expected *= share;
    f.median *= share;
    f.level = bb_health_judge(reached);
    if (f.level != BB_HEALTH_OK)
        bb_health_add(p->h, &f);
}

/* Returns whether pairs are slow, at least two and the part 1 / `parts`, of those with both ends outside the leaf. */
static bool are_slow_outside(const struct bb_pairs *p, const double *ratio, int parts)
{
    int slow = 0, n = 0;

    for (int i = 0; i < p->rounds * p->h->nodes; i++) {
        const int a = i % p->h->nodes, b = p->partner[i];
        const bool is_outside = (a < p->leaf.first || a > p->leaf.last) && (b < p->leaf.first || b > p->leaf.last);

        if (b < a || !is_outside || isnan(ratio[i]))
            continue;
        slow += ratio[i] < SLOW_AT_ONCE;
        n++;
    }
    return slow > 1 && parts * slow > n;
}

/* Returns the share of the slowest pair of the slow leaf. ratio: [rounds][nodes] */
static double share_of_slowest(const struct bb_pairs *p, const double *ratio)
{
    const int nodes = p->h->nodes;

    for (int i = 0; i < p->rounds * nodes; i++)
        if (bb_pairs_leaves(&p->leaf, i % nodes, p->partner[i]) && ratio[i] == p->leaf.ratio)
            return bb_pairs_share(p, NULL, i % nodes, p->partner[i]);
    return 1;
}

void bb_pairs_find_leaf(struct bb_pairs *p)
{
    double *ratio;
    bool is_half;
    int n;

    BB_NEW(ratio, (size_t)p->rounds * (size_t)p->h->nodes);
    ratios_at_once(p, ratio, &n, NULL);
    p->most_slow = p->n > 3 && are_slow_outside(p, ratio, 2); /* no leaf yet; of three nodes, one pair runs */
    p->leaf = bb_at_once_find(p->partner, ratio, p->rounds, p->h->nodes, SLOW_AT_ONCE, MAX(1, p->h->tiers[0].nodes));
    is_half = 2 * (p->leaf.last - p->leaf.first + 1) >= p->n; /* then all pairs of the other half leave theirs, too */
    if (!(p->leaf.slow >= 3 && p->leaf.slow >= 3 * p->leaf.fast && (p->leaf.slow > 3 || p->leaf.fast == 0) &&
          4 * p->leaf.even >= 3 * p->leaf.slow && (p->h->tiers[0].nodes > 0 || !are_slow_outside(p, ratio, 4)) &&
          (is_half ? p->leaf.slow == n : 3 * p->leaf.slow >= 2 * n)))
        p->leaf.first = p->leaf.last = -1;
    free(ratio);
}

void bb_pairs_add_leaf(struct bb_pairs *p)
{
    const int nodes = p->h->nodes;
    double *ratio;
    int n;

    if (p->leaf.first < 0)
        return;
    BB_NEW(ratio, (size_t)p->rounds * (size_t)nodes);
    ratios_at_once(p, ratio, &n, NULL);
    p->leaf.ratio = NAN;
    for (int i = 0; i < p->rounds * nodes; i++)
        if (bb_pairs_leaves(&p->leaf, i % nodes, p->partner[i]))
            p->leaf.ratio = fmin(p->leaf.ratio, ratio[i]);
    add_shared(p, BB_HEALTH_A_LEAF, p->leaf.ratio, share_of_slowest(p, ratio));
    free(ratio);
}

void bb_pairs_find_fabric(struct bb_pairs *p)
{
    double *ratio, share = 1, reached;
    int n;

    BB_NEW(ratio, (size_t)p->rounds * (size_t)p->h->nodes);
    reached = ratios_at_once(p, ratio, &n, &share);
    add_shared(p, BB_HEALTH_FABRIC, reached, share);
    free(ratio);
}
