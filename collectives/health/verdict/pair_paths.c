/* pair_paths.c - slow paths, and NICs that are slow in some measurements: see pairs.h. */
#include "collectives/health/verdict/pairs.h"

#include <math.h>
#include <sys/param.h>

/* Returns whether a value of a pair is so low that neither the ends, nor the typical value of the rail, explain it: it
 * is lower than the best ones of both ends, or below a limit that these findings are not below. */
static bool is_path(const struct bb_pairs *p, int a, int b, int g, double value)
{
    const enum bb_health_level level = bb_pairs_finding(p, BB_HEALTH_A_PATH, a, g, value).level;
    enum bb_health_level explained = BB_HEALTH_OK;
    double best = NAN;

    for (int end = 0; end < 2 && level != BB_HEALTH_OK; end++) {
        const int node = end == 0 ? a : b;

        if (!bb_pairs_is_of_best(p, node, end == 0 ? b : a))
            continue;
        explained = MAX(explained, MAX(p->rail[g].common, bb_pairs_level(p, node, g)));
        best = fmin(best, p->best[node * p->h->gpus + g]);
    }
    return level > explained || (level != BB_HEALTH_OK && value < BB_HEALTH_UNSTEADY * best);
}

/* Returns the GPU whose connection between a pair of nodes is the slowest path; -1: none. n: out: number of such GPUs,
 * and of slow ones whose NICs are not tested. fast: out: number of GPUs with fast connections */
static int slowest_gpu(const struct bb_pairs *p, int a, int b, const double *values, int *n, int *fast)
{
    const int gpus = p->h->gpus;
    int slowest = -1;

    *n = *fast = 0;
    for (int g = 0; g < gpus; g++) {
        const double value = values[a * gpus + g];
        const bool is_slow = is_path(p, a, b, g, value);

        *fast += bb_health_judge_value(value, p->h->expected[BB_HEALTH_PAIRS], &p->all) == BB_HEALTH_OK;
        *n += is_slow || p->untested[a * gpus + g] || p->untested[b * gpus + g];
        if (!is_slow)
            continue;
        if (slowest < 0 || value < values[a * gpus + slowest])
            slowest = g;
    }
    return slowest;
}

static bool has_pair(const struct bb_slow_pair *pairs, int n, int a, int b)
{
    for (int i = 0; i < n; i++)
        if (pairs[i].a == a && pairs[i].b == b)
            return true;
    return false;
}

/* Returns the highest value of the pairs of a round that use the uplinks of the slow leaf, without that of node `but`: each pair
 * has the value of its slowest GPU. NaN: there is none. */
static double fastest_of_leaf(const struct bb_pairs *p, int round, int but)
{
    const int gpus = p->h->gpus, *partner = p->partner + (size_t)round * (size_t)p->h->nodes;
    double fastest = NAN;

    for (int a = 0; a < p->h->nodes; a++) {
        const double *values = p->values + (size_t)round * bb_health_count_values(p->h) + (size_t)(a * gpus);
        double lowest = NAN;

        if (partner[a] < a || a == but || partner[a] == but || !bb_pairs_leaves(&p->leaf, a, partner[a]))
            continue;
        for (int g = 0; g < gpus; g++)
            lowest = fmin(lowest, values[g]);
        fastest = fmax(fastest, lowest);
    }
    return fastest;
}

/* Returns what the uplinks of the slow leaf leave to a pair: what another pair has in the same round, or without one in any round;
 * infinity if the pair does not use them. */
static double left_by_leaf(const struct bb_pairs *p, int round, int node)
{
    double left = fastest_of_leaf(p, round, node);

    if (!bb_pairs_leaves(&p->leaf, node, p->partner[round * p->h->nodes + node]))
        return INFINITY;
    for (int k = 0; k < p->rounds && isnan(fastest_of_leaf(p, round, node)); k++)
        left = fmax(left, fastest_of_leaf(p, k, -1));
    return left;
}

/* Returns the slowest pair of all rounds that is not yet in pairs[n]; its gpu is -1: there is none. */
static struct bb_slow_pair next_slow_pair(const struct bb_pairs *p, const struct bb_slow_pair *pairs, int n)
{
    struct bb_slow_pair slowest = {.gpu = -1};
    double lowest = INFINITY;

    for (int k = 0; k < p->kept; k++)
        for (int a = 0; a < p->h->nodes; a++) {
            const double *values = p->values + (size_t)k * bb_health_count_values(p->h);
            struct bb_slow_pair pair = {.a = a, .b = p->partner[k * p->h->nodes + a]};

            if (pair.b < a || has_pair(pairs, n, a, pair.b))
                continue;
            pair.left = left_by_leaf(p, k, a);
            pair.gpu = slowest_gpu(p, a, pair.b, values, &pair.gpus, &pair.fast);
            pair.values[0] = pair.gpu < 0 ? INFINITY : values[a * p->h->gpus + pair.gpu];
            if (pair.values[0] >= lowest || !(pair.values[0] < BB_HEALTH_EVEN * pair.left))
                continue;
            lowest = pair.values[0];
            slowest = pair;
        }
    return slowest;
}

/* Measures a slow pair again, alone. */
static int measure_slow_pair(struct bb_pairs *p, struct bb_slow_pair *pair)
{
    const double *best_a = &p->best[pair->a * p->h->gpus + pair->gpu],
                 *best_b = &p->best[pair->b * p->h->gpus + pair->gpu];
    double limit, middle;
    int rc = 0;

    for (int try = 1; try < BB_HEALTH_TRIES; try++) {
        TRY(bb_pairs_measure_alone(p, pair->a, pair->b, try + 1));
        pair->values[try] = p->retried[pair->a * p->h->gpus + pair->gpu];
    }
    limit = BB_HEALTH_UNSTEADY * fmin(bb_pairs_reference(p, pair->gpu), fmin(*best_a, *best_b));
    for (int try = 0; try < BB_HEALTH_TRIES && pair->values[0] < limit; try++)
        pair->slow += pair->values[try] < limit;
    pair->slow %= BB_HEALTH_TRIES;
    middle = bb_health_middle(pair->values, BB_HEALTH_TRIES);
    pair->is_path = middle < BB_HEALTH_EVEN * pair->left && is_path(p, pair->a, pair->b, pair->gpu, middle);
    p->is_shared |= !pair->is_path;
out:
    return rc;
}

/* Returns the number of slow pairs of a node. most: out: the highest `slow` of them, 0: none is slow only for
 * some time */
static int count_pairs(const struct bb_slow_pair *pairs, int n, int node, int *most)
{
    int count = 0;

    *most = 0;
    for (int i = 0; i < n; i++)
        if (pairs[i].a == node || pairs[i].b == node) {
            count++;
            *most = MAX(*most, pairs[i].slow);
        }
    return count;
}

/* Makes a finding about a pair one about its end that is slow with several partners, with one of them only for some
 * time, and whose partners are slow with no other node. */
static void find_unsteady_end(const struct bb_pairs *p, const struct bb_slow_pair *pairs, int n,
                              struct bb_health_finding *f)
{
    int most_a, most_b;
    const int a = count_pairs(pairs, n, f->node, &most_a), b = count_pairs(pairs, n, f->other, &most_b);
    const bool is_a = a > 1 && b == 1 && most_a > 0;

    if (!is_a && !(b > 1 && a == 1 && most_b > 0))
        return;
    f->part = BB_HEALTH_A_NIC;
    f->node = is_a ? f->node : f->other;
    f->other = -1;
    f->tries = p->rounds;
    f->slow = MAX(a, b);
    f->slow_alone = MAX(most_a, most_b) > 1;
}

/* Measures a slow path again, alone, in each direction. If one is fast, the finding is about the other direction. */
static int find_direction(struct bb_pairs *p, struct bb_health_finding *f)
{
    const int a = f->node, b = f->other, at = a * p->h->gpus + f->gpu;
    double forth, back;
    int rc;

    p->h->sender = a;
    TRY(bb_pairs_measure_alone(p, a, b, BB_HEALTH_TRIES + 1));
    forth = p->retried[at];
    p->h->sender = b;
    TRY(bb_pairs_measure_alone(p, a, b, BB_HEALTH_TRIES + 1));
    back = p->retried[at];
    f->one_way = forth < BB_HEALTH_UNSTEADY * back || back < BB_HEALTH_UNSTEADY * forth;
    if (f->one_way && back < forth) {
        f->node = b;
        f->other = a;
    }
out:
    p->h->sender = -1;
    return rc;
}

/* Returns whether a slow pair is near the typical one of a slow rail, whose finding then has the level of the pair. */
static bool raise_common(const struct bb_pairs *p, const struct bb_slow_pair *pair, const struct bb_health_finding *f)
{
    if (bb_pairs_is_inside(p, pair->a, pair->b) || p->rail[pair->gpu].common == BB_HEALTH_OK ||
        f->value < BB_HEALTH_UNSTEADY * p->rail[pair->gpu].peers.median)
        return false;
    for (size_t i = 0; i < p->h->n; i++) {
        struct bb_health_finding *common = &p->h->findings[i];

        if (common->test == BB_HEALTH_PAIRS &&
            (common->part == BB_HEALTH_ALL || (common->part == BB_HEALTH_A_RAIL && common->gpu == pair->gpu))) {
            common->value = fmin(common->value, f->value);
            common->level = MAX(common->level, f->level);
            return true;
        }
    }
    return false;
}

int bb_pairs_add_slow(struct bb_pairs *p, const struct bb_slow_pair *pairs, int n, bool once)
{
    int rc = 0;

    for (int i = 0; i < n; i++) {
        const struct bb_slow_pair *pair = &pairs[i];
        struct bb_health_finding f =
            bb_pairs_finding(p, BB_HEALTH_A_PATH, pair->a, pair->gpu,
                             pair->slow > 0 ? pair->values[0] : bb_health_middle(pair->values, BB_HEALTH_TRIES));

        bb_pairs_restore_values(p, bb_pairs_is_inside(p, pair->a, pair->b), &f);
        f.other = pair->b;
        f.tries = BB_HEALTH_TRIES;
        f.slow = pair->slow;
        f.slow_alone = pair->slow > 1;
        find_unsteady_end(p, pairs, n, &f);
        if (f.slow > 0)
            f.level = BB_HEALTH_WARN;
        if (f.level == BB_HEALTH_OK || !(pair->is_path || f.slow > 0) ||
            (f.slow == 1 || (f.slow > 1 && !f.slow_alone && p->most_slow)) != once ||
            (f.part != BB_HEALTH_A_PATH && bb_pairs_has_finding(p->h, BB_HEALTH_A_NIC, f.node, -1)) ||
            raise_common(p, pair, &f))
            continue;
        if (f.part == BB_HEALTH_A_PATH && f.slow == 0)
            TRY(find_direction(p, &f));
        if (f.part == BB_HEALTH_A_PATH && pair->gpus > 1 && pair->fast == 0)
            f.gpu = -1;
        if (f.part == BB_HEALTH_A_PATH && !bb_pairs_is_inside(p, pair->a, pair->b))
            bb_pairs_scale(&f, bb_pairs_share(p, NULL, pair->a, pair->b));
        bb_health_add(p->h, &f);
    }
out:
    return rc;
}

int bb_pairs_find_slow(struct bb_pairs *p, struct bb_slow_pair pairs[BB_HEALTH_ALONE_MAX], int *n)
{
    int rc = 0;

    for (*n = 0; *n < BB_HEALTH_ALONE_MAX; ++*n) {
        pairs[*n] = next_slow_pair(p, pairs, *n);
        if (pairs[*n].gpu < 0)
            break;
        TRY(measure_slow_pair(p, &pairs[*n]));
    }
out:
    return rc;
}
