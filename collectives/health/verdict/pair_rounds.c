/* pair_rounds.c - measures pairs of nodes: see pairs.h. */
#include "collectives/health/verdict/pairs.h"

#include "bootstrap/base/alloc.h"
#include "collectives/p2p/pair_schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Scales the values of pairs of nodes to a pair alone, and updates the best value of each GPU. A loaded uplink hides a
 * slow NIC, and NVLink does without it: only the measurements with the least load on the uplinks count. shares:
 * [nodes * gpus] or NULL: out */
static void take_values(struct bb_pairs *p, const int *partner, double *values, double *shares)
{
    const int gpus = p->h->gpus;

    for (int n = 0; n < p->h->nodes; n++) {
        const bool inside = partner[n] >= 0 && bb_pairs_is_inside(p, n, partner[n]);
        const double share = partner[n] < 0 ? NAN : bb_pairs_share(p, partner, n, false);
        const double weight = partner[n] < 0 ? NAN : inside ? 0 : share / bb_pairs_share(p, partner, n, true);

        for (int at = n * gpus; at < (n + 1) * gpus; at++) {
            values[at] /= inside ? bb_pairs_nvlink_factor(p) : 1;
            if (!isnan(values[at])) /* fmin and fmax ignore NaN: an unmeasured value would become the expectation */
                values[at] = fmax(values[at], fmin(values[at] / share, p->h->expected[BB_HEALTH_PAIRS]));
            if (shares)
                shares[at] = inside ? NAN : share;
            if (weight >= p->weight[n])
                p->best[at] = weight > p->weight[n] ? values[at] : fmax(p->best[at], values[at]);
        }
        p->weight[n] = fmax(p->weight[n], weight);
    }
}

/* Measures pairs again; attempt: above 1 */
static int measure_pairs(struct bb_pairs *p, int attempt)
{
    int rc;

    p->h->attempt = attempt;
    rc = p->h->measure(p->h->arg, BB_HEALTH_PAIRS, p->again, p->retried);
    take_values(p, p->again, p->retried, NULL);
    return rc;
}

/* Keeps the measurement of suspects, whose pairs may be new ones. */
static void keep_retried(struct bb_pairs *p)
{
    const size_t nodes = (size_t)p->h->nodes, size = bb_health_count_values(p->h);

    memcpy(p->partner + (size_t)p->kept * nodes, p->again, nodes * sizeof *p->again);
    memcpy(p->values + (size_t)p->kept++ * size, p->retried, size * sizeof *p->retried);
}

int bb_pairs_measure_alone(struct bb_pairs *p, int a, int b, int attempt)
{
    for (int n = 0; n < p->h->nodes; n++)
        p->again[n] = n == a ? b : n == b ? a : -1;
    return measure_pairs(p, attempt);
}

/* Orders the nodes so that round 0 of the circle method pairs neighbours of a leaf, and round 1 the other neighbours:
 * both rounds together are a ring, with the last player at its end, which stands for the idle node of an odd number.
 * Nodes whose neighbours are in other leaves are at the end of the ring, too. */
static void order_nodes(struct bb_pairs *p)
{
    const int leaf = p->h->tiers[0].nodes > 1 ? p->h->tiers[0].nodes : p->h->nodes;
    const int last = bb_health_all_rounds(p->n); /* the last player; odd */

    for (int i = 0, next = 0, left = p->n; i < p->n; i++) {
        const bool is_pair = next % 2 == 1 || (i + 1 < p->n && p->node[i] / leaf == p->node[i + 1] / leaf);
        const int place = last - (is_pair ? next++ : --left); /* before the last player in the ring 0 1 -1 2 -2 .. */

        p->order[place == 0 ? last : place % 2 == 0 ? place / 2 : (last - place / 2) % last] = p->node[i];
    }
}

void bb_pairs_start(struct bb_pairs *p, int rounds)
{
    const struct bb_health *h = p->h;
    const size_t size = bb_health_count_values(h), most = (size_t)rounds + BB_HEALTH_TRIES + BB_HEALTH_ALONE_MAX;

    p->rounds = p->kept = rounds;
    BB_NEW(p->node, h->nodes);
    for (int n = 0; n < h->nodes; n++)
        if (bb_health_is_active(h, n))
            p->node[p->n++] = n;
    p->has_domains = bb_health_has_domains(h);
    BB_NEW(p->order, p->n);
    order_nodes(p);
    BB_NEW(p->partner, most * (size_t)h->nodes);
    BB_NEW(p->values, most * size);
    BB_NEW(p->best, size);
    BB_NEW(p->weight, h->nodes);
    BB_NEW(p->untested, size);
    BB_NEW(p->excused, size);
    BB_NEW(p->again, h->nodes);
    BB_NEW(p->retried, size);
    BB_NEW(p->rail, h->gpus);
    for (size_t i = 0; i < size; i++)
        p->best[i] = NAN;
}

void bb_pairs_end(struct bb_pairs *p)
{
    free(p->node);
    free(p->order);
    free(p->partner);
    free(p->values);
    free(p->best);
    free(p->weight);
    free(p->untested);
    free(p->excused);
    free(p->again);
    free(p->retried);
    free(p->rail);
}

/* Sets the partners of a round of the circle method, so that no pair is measured twice. The first round pairs
 * neighbours of a leaf, which are fast with each other if what is slow is not their NICs, but the uplinks of their
 * leaf, and the last one the other neighbours, so that all paths of a ring over the nodes (of an odd number: all but
 * one) are measured. The rounds between them are distant from these and from each other, so that nodes of a leaf have
 * few partners in it. */
static void choose_partners(const struct bb_pairs *p, int round, int *partner)
{
    const struct bb_pair_schedule schedule = {.ranks = p->n};
    const int between = bb_health_all_rounds(p->n) - 2, at = 2 * round - 1;

    if (round > 0)
        round = round == p->rounds - 1 ? 1 : 2 + at * between / (2 * (p->rounds - 2));
    for (int n = 0; n < p->h->nodes; n++)
        partner[n] = -1;
    for (int i = 0; i < p->n; i++) {
        const int other = bb_pair_schedule_partner(&schedule, round, i);

        partner[p->order[i]] = other < 0 ? -1 : p->order[other];
    }
}

/* Sets the medians and the lowest value of all rounds. measured, shares: [rounds][nodes * gpus]; NaN share: a pair in
 * one of several domains */
static void set_medians(struct bb_pairs *p, double *measured, const double *shares)
{
    const size_t n = bb_health_count_values(p->h) * (size_t)p->rounds;
    double *inside;
    bool no_nics; /* they connected no pair */
    struct bb_health *h = p->h;

    BB_NEW(inside, n);
    for (size_t i = 0; i < n; i++) {
        inside[i] = isnan(shares[i]) ? measured[i] : NAN;
        measured[i] = isnan(shares[i]) ? NAN : measured[i];
    }
    h->inside_median = bb_health_median(inside, n);
    h->median[BB_HEALTH_PAIRS] = bb_health_median(measured, n);
    h->share[BB_HEALTH_PAIRS] = bb_health_median(shares, n);
    no_nics = isnan(h->median[BB_HEALTH_PAIRS]);
    if (no_nics) {
        h->median[BB_HEALTH_PAIRS] = bb_health_median(p->values, n);
        h->share[BB_HEALTH_PAIRS] = 1;
    }
    h->lowest[BB_HEALTH_PAIRS] = NAN;
    for (size_t i = 0; i < n; i++) /* fmin ignores NaN */
        h->lowest[BB_HEALTH_PAIRS] = fmin(h->lowest[BB_HEALTH_PAIRS], no_nics ? p->values[i] : measured[i]);
    bb_pairs_set_shares(h, BB_HEALTH_PAIRS, shares, n);
    free(inside);
}

/* Returns the median of the pairs that NICs connect, alone. measured: [rounds][nodes * gpus] */
static double median_between(const struct bb_pairs *p, const double *measured)
{
    const size_t size = bb_health_count_values(p->h), n = size * (size_t)p->rounds;
    double *values, median;

    BB_NEW(values, n);
    for (size_t i = 0; i < n; i++) {
        const int *partner = p->partner + i / size * (size_t)p->h->nodes, a = (int)(i % size) / p->h->gpus;
        const bool is_between = partner[a] >= 0 && !bb_pairs_is_inside(p, a, partner[a]);

        values[i] = is_between ? measured[i] / bb_pairs_share(p, partner, a, false) : NAN;
    }
    median = bb_health_median(values, n);
    free(values);
    return median;
}

int bb_pairs_measure_rounds(struct bb_pairs *p)
{
    const size_t size = bb_health_count_values(p->h), n = size * (size_t)p->rounds;
    double *shares, *measured;
    int rc = 0;

    BB_NEW(shares, n);
    BB_NEW(measured, n);
    p->h->attempt = 1;
    for (int k = 0; k < p->rounds; k++) {
        int *partner = p->partner + (size_t)k * (size_t)p->h->nodes;

        choose_partners(p, k, partner);
        TRY(p->h->measure(p->h->arg, BB_HEALTH_PAIRS, partner, measured + (size_t)k * size));
    }
    p->between = median_between(p, measured);
    memcpy(p->values, measured, n * sizeof *measured);
    for (int k = 0; k < p->rounds; k++)
        take_values(p, p->partner + (size_t)k * (size_t)p->h->nodes, p->values + (size_t)k * size,
                    shares + (size_t)k * size);
    p->all = bb_health_reference_peers(p->values, n, p->h->expected[BB_HEALTH_PAIRS]);
    set_medians(p, measured, shares);
out:
    free(measured);
    free(shares);
    return rc;
}

/* Returns a node that is no suspect and has no partner yet, a different one for each try; -1: there is none. */
static int find_partner(const struct bb_pairs *p, int i, int try)
{
    for (int k = 0; k < p->n; k++) {
        const int other = p->node[(i + k * (k + 1) / 2 + 7 * try) % p->n];

        if (p->again[other] < 0 && !bb_pairs_is_suspect(p, other) && bb_pairs_is_of_best(p, p->node[i], other))
            return other;
    }
    return -1;
}

int bb_pairs_retry_suspects(struct bb_pairs *p)
{
    int rc = 0;

    for (int try = 1; try < BB_HEALTH_TRIES && rc == 0; try++) {
        bool found = false;

        for (int n = 0; n < p->h->nodes; n++)
            p->again[n] = -1;
        for (int i = 0; i < p->n; i++) {
            const int node = p->node[i], other = bb_pairs_is_suspect(p, node) ? find_partner(p, i, try) : -1;

            if (other < 0)
                continue;
            p->again[other] = node;
            p->again[node] = other;
            found = true;
        }
        if (!found)
            return 0;
        rc = measure_pairs(p, try + 1);
        keep_retried(p);
    }
    return rc;
}

int bb_pairs_retry_alone(struct bb_pairs *p)
{
    int rc = 0, n = 0;

    for (int i = 0; i < p->n; i++)
        n += bb_pairs_is_suspect(p, p->node[i]);
    for (int i = 0; i < p->n && n > 1 && n <= BB_HEALTH_ALONE_MAX && rc == 0; i++) {
        const int node = p->node[i];
        int other;

        if (!bb_pairs_is_suspect(p, node))
            continue;
        for (int k = 0; k < p->h->nodes; k++)
            p->again[k] = -1;
        other = find_partner(p, i, 0);
        if (other < 0)
            continue;
        rc = bb_pairs_measure_alone(p, node, other, BB_HEALTH_TRIES + 1);
        keep_retried(p);
        p->is_shared |= !bb_pairs_is_suspect(p, node);
    }
    return rc;
}
    for (size_t i = 0; i < n; i++) /* a slow network is slow for NICs only */
        measured[i] = isnan(shares[i]) ? NAN : p->values[i];
    p->all = bb_health_reference_peers(measured, n, p->h->expected[BB_HEALTH_PAIRS]);
    if (p->all.n == 0)
        p->all = bb_health_reference_peers(p->values, n, p->h->expected[BB_HEALTH_PAIRS]);
