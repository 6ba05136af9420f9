/* at_once.c - see at_once.h. */
#include "collectives/health/verdict/at_once.h"

#include "bootstrap/base/alloc.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

struct rounds {
    const int *partner;
    const double *ratio;
    int rounds, nodes;
    double limit;
};

/* Returns whether a node has a partner in any round. */
static bool takes_part(const struct rounds *r, int node)
{
    for (int k = 0; k < r->rounds; k++)
        if (r->partner[k * r->nodes + node] >= 0)
            return true;
    return false;
}

/* Adds the next node to the range: its pairs with other nodes are counted, and those with nodes of the range no more.
 * slow, fast: [rounds] number of pairs. Returns how well the range explains the slow pairs. */
static double add_node(const struct rounds *r, struct bb_at_once *range, int node, int *slow, int *fast)
{
    double score = 0;

    range->slow = 0;
    range->last = node;
    for (int k = 0; k < r->rounds; k++) {
        const int at = k * r->nodes + node, other = r->partner[at];
        const int sign = other >= range->first && other < node ? -1 : 1;
        const double ratio = other < 0 ? NAN : r->ratio[sign < 0 ? k * r->nodes + other : at];

        if (ratio < r->limit)
            slow[k] += sign;
        else if (ratio >= r->limit)
            fast[k] += sign;
        range->slow += slow[k];
        score += slow[k] > 0 ? slow[k] - fast[k] : -0.25 * fast[k];
    }
    return score;
}

/* Returns the ratio of a node of the range with its partner in a round; NaN: none, or the partner is in the range. */
static double ratio_outside(const struct rounds *r, const struct bb_at_once *range, int round, int node)
{
    const int at = round * r->nodes + node, other = r->partner[at];

    return other < 0 || (other >= range->first && other <= range->last) ? NAN : r->ratio[at];
}

/* Sets the number of slow pairs of the range that are about as slow as the others of their round. */
static void count_even(const struct rounds *r, struct bb_at_once *range)
{
    for (int k = 0; k < r->rounds; k++) {
        double fastest = 0;

        for (int node = range->first; node <= range->last; node++) {
            const double ratio = ratio_outside(r, range, k, node);

            fastest = ratio < r->limit ? fmax(fastest, ratio) : fastest;
        }
        for (int node = range->first; node <= range->last; node++) {
            const double ratio = ratio_outside(r, range, k, node);

            range->even += ratio < r->limit && ratio >= BB_HEALTH_EVEN * fastest;
        }
    }
}

/* Sets the number of slow pairs of the range, the lowest of their ratios, and the number of fast ones in rounds with no
 * fewer pairs than a round with slow ones, in which they share the link with as many. */
static void count_pairs(const struct rounds *r, struct bb_at_once *range)
{
    int fewest = r->nodes;
    int *slow, *fast;

    BB_NEW(slow, r->rounds);
    BB_NEW(fast, r->rounds);
    range->ratio = NAN;
    for (int k = 0; k < r->rounds; k++)
        for (int node = range->first; node <= range->last; node++) {
            const double ratio = ratio_outside(r, range, k, node); /* NaN is neither slow nor fast */

            slow[k] += ratio < r->limit;
            fast[k] += ratio >= r->limit;
            range->ratio = fmin(range->ratio, ratio);
        }
    for (int k = 0; k < r->rounds; k++)
        fewest = slow[k] > 0 ? MIN(fewest, slow[k] + fast[k]) : fewest;
    for (int k = 0; k < r->rounds; k++)
        range->fast += slow[k] + fast[k] >= fewest ? fast[k] : 0;
    free(fast);
    free(slow);
}

struct bb_at_once bb_at_once_find(const int *partner, const double *ratio, int rounds, int nodes, double limit,
                                  int leaf)
{
    const struct rounds r = {partner, ratio, rounds, nodes, limit};
    struct bb_at_once best = {.first = -1, .last = -1, .ratio = NAN};
    double most = 0;
    int active = 0, *counts;

    BB_NEW(counts, 2 * (size_t)rounds);
    for (int node = 0; node < nodes; node++)
        active += takes_part(&r, node);
    for (int first = 0; first < nodes; first += leaf) {
        struct bb_at_once range = {.first = first};
        int size = 0;

        memset(counts, 0, 2 * (size_t)rounds * sizeof *counts);
        for (int node = first; node < nodes && 2 * size < active && (leaf > 1 || takes_part(&r, first)); node++) {
            const double score = add_node(&r, &range, node, counts, counts + rounds);

            size += takes_part(&r, node);
            if (((node + 1) % leaf == 0 || node + 1 == nodes) && size > 1 && 2 * size <= active && score > most) {
                best = range;
                most = score;
            }
        }
    }
    free(counts);
    if (best.first >= 0) {
        count_pairs(&r, &best);
        count_even(&r, &best);
    }
    return best;
}
