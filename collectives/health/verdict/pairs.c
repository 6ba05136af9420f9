/* pairs.c - the test of pairs, and what pairs get from uplinks and NVLink domains: see pairs.h. */
#include "collectives/health/verdict/pairs.h"

#include "collectives/p2p/pair_schedule.h"

#include <math.h>
#include <sys/param.h>

int bb_health_all_rounds(int n)
{
    return bb_pair_schedule_rounds(&(struct bb_pair_schedule){.ranks = n});
}

/* With at most this number of nodes, every pair is measured, unless few are wanted; then also if most nodes are
 * suspects: a good node may have had only bad partners. */
enum { EVERY_PAIR_NODES = 16 };

/* Returns the number of rounds of the circle method. */
static int count_turns(const struct bb_health *h)
{
    const int active = bb_health_active(h);
    int n = 1;

    while (1 << (n - 1) < active)
        n++;
    n = h->rounds > 0 ? h->rounds : h->every_pair && active <= EVERY_PAIR_NODES ? active : n;
    return MIN(n, bb_health_all_rounds(active));
}

int bb_health_rounds(const struct bb_health *h, enum bb_health_test test)
{
    if (test == BB_HEALTH_PAIRS)
        return bb_pairs_count_rounds(h, count_turns(h));
    return test == BB_HEALTH_BISECTION ? BB_HEALTH_CUTS : 1;
}

bool bb_pairs_is_inside(const struct bb_pairs *p, int a, int b)
{
    return p->has_domains && bb_health_is_same_domain(p->h, a, b);
}

/* Returns the share of its rate that a node gets from the uplinks of its leaf or pod. partner: as of bb_pairs_share */
static double share_of_group(const struct bb_pairs *p, const int *partner, int node, const struct bb_health_tier *tier)
{
    const int size = tier->nodes, group = node / size;
    const double latency = p->h->latency;
    int leaving = 0;

    for (int n = group * size; n < MIN((group + 1) * size, p->h->nodes) && partner; n++)
        leaving += partner[n] >= 0 && partner[n] / size != group && !bb_pairs_is_inside(p, n, partner[n]);
    return 1 / (latency + (1 - latency) * fmax(1, MAX(1, leaving) * tier->oversubscription / size));
}

double bb_pairs_share(const struct bb_pairs *p, const int *partner, int a, int b)
{
    const struct bb_health *h = p->h;
    double share = 1;

    for (int i = 0; i < BB_HEALTH_TIERS && !bb_pairs_is_inside(p, a, b); i++) {
        const struct bb_health_tier *tier = &h->tiers[i];

        if (tier->nodes > 0 && a / tier->nodes != b / tier->nodes)
            share = fmin(share, fmin(share_of_group(p, partner, a, tier), share_of_group(p, partner, b, tier)));
    }
    return share;
}

double bb_health_uplink_share(struct bb_health *h, const int *partner, int a, int b)
{
    return bb_pairs_share(&(struct bb_pairs){.h = h, .has_domains = bb_health_has_domains(h)}, partner, a, b);
}

/* Returns whether a node took part in the stage pairs: neither the inventory nor an earlier stage found it failed. */
static bool took_part(const struct bb_health *h, int node)
{
    for (size_t i = 0; i < h->n; i++) {
        const struct bb_health_finding *f = &h->findings[i];

        if (bb_health_is_of_node(f) && f->node == node && f->level == BB_HEALTH_FAIL && f->soak_s <= 0 &&
            (f->test < BB_HEALTH_PAIRS || (f->test == BB_HEALTH_TESTS && !f->lost)))
            return false;
    }
    return true;
}

int bb_health_leaf_nodes(const struct bb_health *h, int node)
{
    const int leaf = h->tiers[0].nodes, first = node / leaf * leaf;
    int n = 0;

    for (int other = first; other < MIN(first + leaf, h->nodes); other++)
        n += took_part(h, other);
    return n;
}

int bb_health_count_leaves(const struct bb_health *h)
{
    const int leaf = h->tiers[0].nodes;
    int n = 0;

    for (int first = 0; first < h->nodes && leaf > 0; first += leaf)
        n += bb_health_leaf_nodes(h, first) > 0;
    return n;
}

void bb_pairs_set_shares(struct bb_health *h, enum bb_health_test test, const double *shares, size_t n)
{
    double *range = h->shares[test];

    range[0] = range[1] = NAN;
    for (size_t i = 0; i < n; i++) {
        range[0] = fmin(range[0], shares[i]);
        range[1] = fmax(range[1], shares[i]);
    }
}

double bb_pairs_nvlink_factor(const struct bb_pairs *p)
{
    const double expected = p->h->expected[BB_HEALTH_PAIRS];

    return p->h->inside / (isnan(expected) ? p->between : expected);
}

void bb_pairs_scale(struct bb_health_finding *f, double factor)
{
    f->value *= factor;
    f->expected *= factor;
    f->median *= factor;
}

void bb_pairs_restore_values(const struct bb_pairs *p, bool inside, struct bb_health_finding *f)
{
    bb_pairs_scale(f, inside ? bb_pairs_nvlink_factor(p) : 1);
}

bool bb_pairs_is_of_best(const struct bb_pairs *p, int node, int other)
{
    return bb_pairs_is_inside(p, node, other) != p->by_nics[node];
}

struct bb_health_finding bb_pairs_finding(const struct bb_pairs *p, enum bb_health_part part, int node, int gpu,
                                          double value)
{
    struct bb_health_finding f = bb_health_finding_of(p->h, BB_HEALTH_PAIRS, &p->all, value);

    f.part = part;
    f.node = node;
    f.gpu = gpu;
    f.tries = p->rounds;
    return f;
}

double bb_pairs_reference(const struct bb_pairs *p, int gpu)
{
    const double expected = p->h->expected[BB_HEALTH_PAIRS];

    if (p->rail[gpu].common != BB_HEALTH_OK && !p->rail[gpu].at_once)
        return p->rail[gpu].peers.median;
    return isnan(expected) ? p->all.median : expected;
}

bool bb_pairs_has_finding(const struct bb_health *h, enum bb_health_part part, int a, int b)
{
    for (size_t i = 0; i < h->n; i++) {
        const struct bb_health_finding *f = &h->findings[i];

        if (f->part == part && ((f->node == a && f->other == b) || (f->node == b && f->other == a)))
            return true;
    }
    return false;
}

int bb_health_test_pairs(struct bb_health *h)
{
    struct bb_pairs p = {.h = h, .leaf = {.first = -1, .last = -1}};
    struct bb_slow_pair slow[BB_HEALTH_ALONE_MAX];
    int rc = 0, suspects = 0, n;
    size_t before;

    bb_pairs_start(&p, count_turns(h));
    TRY(bb_pairs_measure_rounds(&p));
    h->all_paths = p.turns == bb_health_all_rounds(p.n);
    for (int i = 0; i < p.n; i++)
        suspects += bb_pairs_is_suspect(&p, p.node[i]);
    if (2 * suspects > p.n && p.turns < bb_health_all_rounds(p.n) && p.n <= EVERY_PAIR_NODES) {
        h->rounds = p.n;
        rc = bb_health_test_pairs(h);
        goto out;
    }
    TRY(bb_pairs_find_rails(&p));
    TRY(bb_pairs_retry_suspects(&p));
    TRY(bb_pairs_retry_alone(&p));
    bb_pairs_add_rails(&p);
    bb_pairs_find_nics(&p);
    bb_pairs_find_unmeasured(&p);
    bb_pairs_find_leaf(&p);
    TRY(bb_pairs_find_slow(&p, slow, &n));
    TRY(bb_pairs_add_slow(&p, slow, n, false));
    bb_pairs_add_leaf(&p);
    before = h->n;
    if (p.is_shared && p.leaf.first < 0)
        bb_pairs_find_fabric(&p);
    if (h->n == before && p.leaf.first < 0)
        rc = bb_pairs_add_slow(&p, slow, n, true);
out:
    bb_pairs_end(&p);
    return rc;
}
