/* pair_nics.c - slow rails and NICs: see pairs.h. */
#include "collectives/health/verdict/pairs.h"

#include "bootstrap/base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <sys/param.h>

/* Returns a finding about a NIC: of a slow rail, it is judged by the others. */
static struct bb_health_finding judge_nic(const struct bb_pairs *p, int node, int gpu)
{
    struct bb_health_finding f = bb_pairs_finding(p, BB_HEALTH_A_NIC, node, gpu, p->best[node * p->h->gpus + gpu]);

    if (p->rail[gpu].common != BB_HEALTH_OK)
        bb_health_judge_by_peers(&f, &p->rail[gpu].peers, p->rail[gpu].common);
    if (p->excused[node * p->h->gpus + gpu])
        f.level = BB_HEALTH_OK;
    return f;
}

enum bb_health_level bb_pairs_level(const struct bb_pairs *p, int node, int gpu)
{
    return judge_nic(p, node, gpu).level;
}

bool bb_pairs_is_suspect(const struct bb_pairs *p, int node)
{
    for (int g = 0; g < p->h->gpus; g++)
        if (bb_pairs_level(p, node, g) != BB_HEALTH_OK)
            return true;
    return false;
}

/* ---- rails ---- */

/* Returns whether the path of a pair explains the value of a GPU: at least half of the other GPUs are as slow on it,
 * although their NICs are fast with other nodes. values: of the measurement of the pair */
static bool is_of_path(const struct bb_pairs *p, int a, int b, int gpu, const double *values)
{
    const double expected = p->h->expected[BB_HEALTH_PAIRS];
    const int gpus = p->h->gpus;
    int n = 0;

    for (int g = 0; g < gpus; g++) {
        const double best = fmin(p->best[a * gpus + g], p->best[b * gpus + g]), value = values[a * gpus + g];

        n += g != gpu && bb_health_judge_value(best, expected, &p->all) == BB_HEALTH_OK &&
             value < BB_HEALTH_UNSTEADY * best && values[a * gpus + gpu] >= BB_HEALTH_UNSTEADY * value;
    }
    return n > 0 && 2 * n >= gpus - 1;
}

/* Returns whether slow paths and slow NICs explain a slow rail. Without the pairs that the path explains, and the NICs
 * that are slower than the rail, all pairs have a node in common, whose NIC is slow: the NICs of other nodes are
 * excused. */
static bool excuse_rail(struct bb_pairs *p, int gpu, const struct bb_pairs_rail *rail)
{
    const int nodes = p->h->nodes, gpus = p->h->gpus;
    const double limit = BB_HEALTH_UNSTEADY * rail->peers.median;
    int *count, pairs = 0;
    bool is_path = false, has_common;

    BB_NEW(count, nodes);
    for (int i = 0; i < p->rounds * nodes; i++) {
        const int a = i % nodes, b = p->partner[i];

        if (b < a || p->best[a * gpus + gpu] < limit || p->best[b * gpus + gpu] < limit)
            continue;
        if (is_of_path(p, a, b, gpu, p->values + (size_t)(i / nodes) * bb_health_count_values(p->h))) {
            is_path = true;
            continue;
        }
        pairs++;
        count[a]++;
        count[b]++;
    }
    has_common = pairs == 0;
    for (int a = 0; a < nodes; a++)
        has_common |= count[a] == pairs;
    for (int a = 0; a < nodes && is_path && has_common; a++)
        p->excused[a * gpus + gpu] = p->best[a * gpus + gpu] >= limit && (pairs == 0 || count[a] < pairs);
    free(count);
    return is_path && has_common;
}

/* Judges the typical value of the NICs with the same index, if more than three quarters of them are slow, which needs
 * at least three nodes: if more nodes are fast with each other, the rail is not slow, but the NICs of the others. */
static struct bb_pairs_rail judge_rail(struct bb_pairs *p, int gpu)
{
    const double expected = p->h->expected[BB_HEALTH_PAIRS];
    struct bb_pairs_rail rail = {.at_once = false};
    double *values;
    int slow = 0;

    BB_NEW(values, p->n);
    for (int i = 0; i < p->n; i++) {
        values[i] = p->best[p->node[i] * p->h->gpus + gpu];
        slow += bb_health_judge_value(values[i], expected, &p->all) != BB_HEALTH_OK;
    }
    rail.is_whole = slow == p->n;
    rail.peers = bb_health_reference_peers(values, (size_t)p->n, expected);
    rail.value = bb_health_common_value(values, (size_t)p->n, expected, &rail.peers);
    if (p->n > 2 && 4 * slow > 3 * p->n && !excuse_rail(p, gpu, &rail))
        rail.common = bb_health_judge_value(rail.value, expected, &p->all);
    free(values);
    return rail;
}

/* Returns the node, below its partner in `round`, of the pair that is the most typical one of slow rails. round: out */
static int find_typical(const struct bb_pairs *p, int *round)
{
    const int nodes = p->h->nodes, gpus = p->h->gpus;
    double nearest = INFINITY;
    int node = -1;

    for (int i = 0; i < p->rounds * nodes; i++) {
        double distance = NAN;

        for (int g = 0; g < gpus; g++)
            if (p->rail[g].common != BB_HEALTH_OK)
                distance = fmax(distance, fabs(p->values[i * gpus + g] / p->rail[g].peers.median - 1));
        if (p->partner[i] > i % nodes && bb_pairs_is_of_best(p, i % nodes, p->partner[i]) && distance < nearest) {
            nearest = distance;
            node = i % nodes;
            *round = i / nodes;
        }
    }
    return node;
}

int bb_pairs_find_rails(struct bb_pairs *p)
{
    const int gpus = p->h->gpus;
    int rc = 0, slow = 0, round = 0, a;

    for (int g = 0; g < gpus; g++) {
        p->rail[g] = judge_rail(p, g);
        slow += p->rail[g].common != BB_HEALTH_OK;
    }
    a = slow > 0 ? find_typical(p, &round) : -1;
    if (a < 0)
        return 0;
    TRY(bb_pairs_measure_alone(p, a, p->partner[round * p->h->nodes + a], 2));
    for (int g = 0; g < gpus; g++) {
        p->rail[g].at_once =
            p->rail[g].common != BB_HEALTH_OK &&
            bb_health_judge_value(p->retried[a * gpus + g], p->h->expected[BB_HEALTH_PAIRS], &p->all) == BB_HEALTH_OK;
        p->is_shared |= p->rail[g].at_once;
    }
out:
    return rc;
}

void bb_pairs_add_rails(struct bb_pairs *p)
{
    const double expected = p->h->expected[BB_HEALTH_PAIRS];
    const size_t gpus = (size_t)p->h->gpus;
    struct bb_health_finding all = bb_pairs_finding(p, BB_HEALTH_ALL, -1, -1, NAN);
    double *values;
    struct bb_health_peers peers;

    BB_NEW(values, gpus);
    all.whole = true;
    for (size_t g = 0; g < gpus; g++) {
        values[g] = p->rail[g].common != BB_HEALTH_OK && !p->rail[g].at_once ? p->rail[g].value : NAN;
        all.whole &= p->rail[g].is_whole;
    }
    peers = bb_health_reference_peers(values, gpus, expected);
    if (peers.n == gpus) {
        all.value = bb_health_common_value(values, gpus, expected, &peers);
        all.level = bb_health_judge_value(all.value, expected, &p->all);
        bb_health_add(p->h, &all);
    }
    for (size_t g = 0; g < gpus; g++) {
        struct bb_health_finding rail = bb_pairs_finding(p, BB_HEALTH_A_RAIL, -1, (int)g, values[g]);

        rail.whole = p->rail[g].is_whole;
        if (peers.n == gpus)
            bb_health_judge_by_peers(&rail, &peers, all.level);
        if (rail.level != BB_HEALTH_OK)
            bb_health_add(p->h, &rail);
        if (isfinite(values[g]))
            p->rail[g].common = MAX(all.level, rail.level);
    }
    free(values);
}

/* ---- NICs ---- */

void bb_pairs_find_unmeasured(struct bb_pairs *p)
{
    for (int i = 0; i < p->n; i++)
        if (isnan(p->best[(size_t)p->node[i] * (size_t)p->h->gpus])) {
            struct bb_health_finding f = bb_pairs_finding(p, BB_HEALTH_A_NODE, p->node[i], -1, NAN);

            f.level = BB_HEALTH_UNKNOWN;
            bb_health_add(p->h, &f);
        }
}

/* Returns whether the path of two partners is slow, which the best values of their NICs with other nodes show. values:
 * of their measurement */
static bool is_slow_path(const struct bb_pairs *p, int a, int b, const double *values)
{
    const int gpus = p->h->gpus;

    for (int g = 0; g < gpus; g++)
        if (values[a * gpus + g] < BB_HEALTH_UNSTEADY * fmin(p->best[a * gpus + g], p->best[b * gpus + g]))
            return true;
    return false;
}

/* Returns whether the best value of a NIC shows its own rate: with a partner that is faster with other nodes, or has no
 * finding, over a path that is not slow. */
static bool is_tested(const struct bb_pairs *p, int node, int gpu)
{
    const double best = p->best[node * p->h->gpus + gpu];
    bool has_best = false;

    for (int k = 0; k < p->kept; k++) {
        const double *values = p->values + (size_t)k * bb_health_count_values(p->h);
        const int other = p->partner[k * p->h->nodes + node];

        if (other < 0 || !bb_pairs_is_of_best(p, node, other) ||
            !(values[node * p->h->gpus + gpu] >= BB_HEALTH_OUTLIER * best))
            continue;
        if ((bb_pairs_level(p, other, gpu) == BB_HEALTH_OK ||
             BB_HEALTH_UNSTEADY * p->best[other * p->h->gpus + gpu] > best) &&
            !is_slow_path(p, node, other, values))
            return true;
        has_best = true;
    }
    return !has_best;
}

void bb_pairs_find_nics(struct bb_pairs *p)
{
    struct bb_health_finding *found;
    size_t n = 0;

    BB_NEW(found, bb_health_count_values(p->h));
    for (int i = 0; i < p->n; i++)
        for (int g = 0; g < p->h->gpus; g++) {
            const int node = p->node[i];
            struct bb_health_finding f = judge_nic(p, node, g);

            if (f.level == BB_HEALTH_OK || (p->n == 2 && i > 0))
                continue;
            if (p->n == 2) {
                f.part = BB_HEALTH_A_PATH; /* either of the two nodes, or their connection */
                f.other = p->node[1];
            } else if (!is_tested(p, node, g)) {
                p->untested[node * p->h->gpus + g] = f.untested = true;
                f.level = BB_HEALTH_WARN;
            }
            bb_pairs_restore_values(p, p->has_domains && !p->by_nics[node], &f);
            found[n++] = f;
        }
    bb_health_add_of_gpus(p->h, found, n);
    free(found);
}
