/* pair_rounds.c - measures pairs of nodes: see pairs.h. */
#include "collectives/health/verdict/pairs.h"

#include "bootstrap/base/alloc.h"
#include "collectives/p2p/pair_schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

/* Divides the values of pairs of nodes by what uplinks leave to a pair alone, and updates the best value of each GPU: a
 * value below what uplinks leave is the NIC's own rate, or that of a slow leaf. NVLink does without the NIC: with a pair that NICs connect, only such pairs count. shares: [nodes * gpus] or NULL:
 * out */
static void take_values(struct bb_pairs *p, const int *partner, double *values, double *shares)
{
    const int gpus = p->h->gpus;

    for (int n = 0; n < p->h->nodes; n++) {
        const bool inside = partner[n] >= 0 && bb_pairs_is_inside(p, n, partner[n]);
        const double share = partner[n] < 0 ? NAN : bb_pairs_share(p, NULL, n, partner[n]);
        const bool by_nics = partner[n] >= 0 && !inside;

        for (int at = n * gpus; at < (n + 1) * gpus; at++) {
            double own;

            values[at] /= inside ? bb_pairs_nvlink_factor(p) : 1;
            own = values[at];
            if (!isnan(values[at])) /* fmin and fmax ignore NaN: an unmeasured value would become the expectation */
                values[at] = fmax(values[at], fmin(values[at] / share, p->h->expected[BB_HEALTH_PAIRS]));
            if (!(own < BB_HEALTH_OUTLIER * share * p->h->expected[BB_HEALTH_PAIRS]))
                own = values[at];
            if (shares)
                shares[at] = inside ? NAN : share;
            if (by_nics >= p->by_nics[n])
                p->best[at] = by_nics > p->by_nics[n] ? own : fmax(p->best[at], own);
        }
        p->by_nics[n] |= by_nics;
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

void bb_pairs_end(struct bb_pairs *p)
{
    free(p->node);
    free(p->order);
    free(p->partner);
    free(p->values);
    free(p->best);
    free(p->by_nics);
    free(p->untested);
    free(p->excused);
    free(p->again);
    free(p->load);
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
        round = round == p->turns - 1 ? 1 : 2 + at * between / (2 * (p->turns - 2));
    for (int n = 0; n < p->h->nodes; n++)
        partner[n] = -1;
    for (int i = 0; i < p->n; i++) {
        const int other = bb_pair_schedule_partner(&schedule, round, i);

        partner[p->order[i]] = other < 0 ? -1 : p->order[other];
    }
}

/* Begins a measurement without pairs. */
static void clear_pairs(struct bb_pairs *p, int *partner)
{
    memset(p->load, 0, BB_HEALTH_TIERS * (size_t)p->h->nodes * sizeof *p->load);
    for (int n = 0; n < p->h->nodes; n++)
        partner[n] = -1;
}

/* Adds a pair to the measurement, and returns true, unless uplinks would leave a pair less than alone. */
static bool add_pair(struct bb_pairs *p, int *partner, int a, int b)
{
    for (int add = 0; add < 2; add++)
        for (int i = 0; i < BB_HEALTH_TIERS && !bb_pairs_is_inside(p, a, b); i++) {
            const struct bb_health_tier *tier = &p->h->tiers[i];
            const int size = tier->nodes, most = (int)fmax(1, fmin(size, size / tier->oversubscription + 1e-6));
            int *load = p->load + i * p->h->nodes;

            if (size == 0 || a / size == b / size)
                continue;
            if (add == 0 && MAX(load[a / size], load[b / size]) >= most)
                return false;
            load[a / size] += add;
            load[b / size] += add;
        }
    partner[a] = b;
    partner[b] = a;
    return true;
}

/* Sets the partners of all measurements of the rounds. Returns their number. partner: [measurements][nodes], out; NULL:
 * they are only counted */
static int schedule(struct bb_pairs *p, int *partner)
{
    int n = 0, *now, *left = p->again;

    BB_NEW(now, p->h->nodes);
    for (int turn = 0; turn < p->turns; turn++) {
        bool more = true;

        for (choose_partners(p, turn, left); more; n++) {
            more = false;
            clear_pairs(p, now);
            for (int a = 0; a < p->h->nodes; a++) {
                const int b = left[a];

                if (b > a && add_pair(p, now, a, b))
                    left[a] = left[b] = -1;
                more = more || left[a] > a;
            }
            if (partner)
                memcpy(partner + (size_t)n * (size_t)p->h->nodes, now, (size_t)p->h->nodes * sizeof *now);
        }
    }
    free(now);
    return n;
}

/* Allocates what the schedule needs, and counts its measurements. */
static void start_schedule(struct bb_pairs *p, int turns)
{
    const struct bb_health *h = p->h;

    p->turns = turns;
    BB_NEW(p->node, h->nodes);
    for (int n = 0; n < h->nodes; n++)
        if (bb_health_is_active(h, n))
            p->node[p->n++] = n;
    p->has_domains = bb_health_has_domains(h);
    BB_NEW(p->order, p->n);
    order_nodes(p);
    BB_NEW(p->again, h->nodes);
    BB_NEW(p->load, BB_HEALTH_TIERS * (size_t)h->nodes);
    p->rounds = p->kept = schedule(p, NULL);
}

void bb_pairs_start(struct bb_pairs *p, int turns)
{
    const struct bb_health *h = p->h;
    const size_t size = bb_health_count_values(h);
    size_t most;

    start_schedule(p, turns);
    most = (size_t)p->rounds + BB_HEALTH_TRIES + BB_HEALTH_ALONE_MAX;
    BB_NEW(p->partner, most * (size_t)h->nodes);
    schedule(p, p->partner);
    BB_NEW(p->values, most * size);
    BB_NEW(p->best, size);
    BB_NEW(p->by_nics, h->nodes);
    BB_NEW(p->untested, size);
    BB_NEW(p->excused, size);
    BB_NEW(p->retried, size);
    BB_NEW(p->rail, h->gpus);
    for (size_t i = 0; i < size; i++)
        p->best[i] = NAN;
}

int bb_pairs_count_rounds(const struct bb_health *h, int turns)
{
    struct bb_health copy = *h;
    struct bb_pairs p = {.h = &copy};

    start_schedule(&p, turns);
    bb_pairs_end(&p);
    return p.rounds;
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

        values[i] = is_between ? measured[i] / bb_pairs_share(p, NULL, a, partner[a]) : NAN;
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
    for (int k = 0; k < p->rounds; k++)
        TRY(p->h->measure(p->h->arg, BB_HEALTH_PAIRS, p->partner + (size_t)k * (size_t)p->h->nodes,
                          measured + (size_t)k * size));
    p->between = median_between(p, measured);
    memcpy(p->values, measured, n * sizeof *measured);
    for (int k = 0; k < p->rounds; k++)
        take_values(p, p->partner + (size_t)k * (size_t)p->h->nodes, p->values + (size_t)k * size,
                    shares + (size_t)k * size);
    set_medians(p, measured, shares);
    for (size_t i = 0; i < n; i++) /* a slow network is slow for NICs only */
        measured[i] = isnan(shares[i]) ? NAN : p->values[i];
    p->all = bb_health_reference_peers(measured, n, p->h->expected[BB_HEALTH_PAIRS]);
    if (p->all.n == 0)
        p->all = bb_health_reference_peers(p->values, n, p->h->expected[BB_HEALTH_PAIRS]);
out:
    free(measured);
    free(shares);
    return rc;
}

/* Adds to the measurement a suspect and a node that is none and has no partner yet, a different one for each try; in
 * the first one, if possible, a node of the same leaf: its uplinks may be what is slow. */
static bool add_suspect(struct bb_pairs *p, int i, int try)
{
    const int leaf = try == 1 && p->h->tiers[0].nodes > 0 ? p->h->tiers[0].nodes : p->h->nodes;

    for (int k = 0; k < 2 * p->n; k++) {
        const int other = p->node[(i + k * (k + 1) / 2 + 7 * try) % p->n];

        if (p->again[other] < 0 && (k >= p->n || p->node[i] / leaf == other / leaf) && !bb_pairs_is_suspect(p, other) &&
            bb_pairs_is_of_best(p, p->node[i], other) && add_pair(p, p->again, p->node[i], other))
            return true;
    }
    return false;
}

int bb_pairs_retry_suspects(struct bb_pairs *p)
{
    int rc = 0;

    for (int try = 1; try < BB_HEALTH_TRIES && rc == 0; try++) {
        bool found = false;

        clear_pairs(p, p->again);
        for (int i = 0; i < p->n; i++)
            found |= bb_pairs_is_suspect(p, p->node[i]) && add_suspect(p, i, try);
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
        clear_pairs(p, p->again);
        if (!bb_pairs_is_suspect(p, p->node[i]) || !add_suspect(p, i, 0))
            continue;
        rc = measure_pairs(p, BB_HEALTH_TRIES + 1);
        keep_retried(p);
        p->is_shared |= !bb_pairs_is_suspect(p, p->node[i]);
    }
    return rc;
}
