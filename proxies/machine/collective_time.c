/*
 * collective_time.c - how long a collective takes (the definition: profiles/clusters/README.md): by the simple law, or
 * by the quickest of the ways that NCCL has, as NCCL chooses by its own constants.
 */
#include "proxies/machine/cluster.h"

#include <math.h>

static int log2_up(int n)
{
    int steps = 0;

    while (1L << steps < n)
        steps++;
    return steps;
}

/* A reduction that all ranks end with is gathered and spread. */
static int count_rounds(const struct bb_coll *coll)
{
    return (coll->flags & BB_COLL_REDUCES) && !(coll->flags & (BB_COLL_ROOTED | BB_COLL_SLICED)) ? 2 : 1;
}

/* ---- the simple law ---- */

static double simple_ns(const struct bb_cluster *c, const struct bb_coll *coll, double bytes, int n, int nodes)
{
    const struct bb_link *link = nodes == 1 ? &c->intra : &c->inter;

    return count_rounds(coll) * log2_up(n) * link->latency_us * 1e3 + coll->bus_factor(n) * bytes / link->gbps;
}

/* ---- sends and receives, which NCCL makes of it ---- */

/* Each link takes its own part of the bytes, at the same time. */
static double pairs_ns(const struct bb_cluster *c, double bytes, int n, int nodes)
{
    double members = (double)n / nodes, local = (members - 1) / n * bytes, remote = (n - members) / n * bytes;
    const struct bb_link *link = nodes == 1 ? &c->intra : &c->inter;

    return link->latency_us * 1e3 + fmax(local / c->intra.gbps, remote / bb_cluster_nic_gbps(c));
}

/* ---- NCCL's ways ---- */

/* Steps one after another, within nodes and between them. */
struct steps {
    double intra, inter;
};

static struct steps steps_of(enum bb_nccl_algorithm algorithm, int rounds, int n, int nodes)
{
    double levels = log2_up(nodes);

    switch (algorithm) {
    case BB_NCCL_TREE: /* a chain within each node, a tree over the nodes */
        return (struct steps){rounds * ((double)n / nodes - 1), rounds * levels};
    case BB_NCCL_NVLS:
    case BB_NCCL_NVLS_TREE:
        return (struct steps){1, rounds * levels};
    case BB_NCCL_PAT:
        return (struct steps){0, rounds * levels};
    default:
        return (struct steps){(double)rounds * (n - nodes), (double)rounds * (nodes - 1)};
    }
}

/* Trees and switches reduce; PAT is for one GPU of each node. */
static bool can_do(enum bb_nccl_algorithm algorithm, const struct bb_coll *coll, int n, int nodes)
{
    bool whole = count_rounds(coll) == 2;

    return algorithm == BB_NCCL_RING        ? true
           : algorithm == BB_NCCL_PAT       ? (coll->flags & BB_COLL_SLICED) && nodes == n
           : algorithm == BB_NCCL_NVLS      ? whole && nodes == 1
           : algorithm == BB_NCCL_NVLS_TREE ? whole && nodes > 1 && nodes < n
                                            : whole;
}

static double way_ns(const struct bb_cluster *c, const struct bb_nccl_way *way, const struct bb_coll *coll,
                     double bytes, int n, int nodes)
{
    int rounds = count_rounds(coll);
    struct steps steps = steps_of(way->algorithm, rounds, n, nodes);
    double nics = bb_cluster_nic_gbps(c) * n / nodes * way->nic, within = coll->bus_factor(n) * bytes / way->gbps;
    bool by_node = way->algorithm != BB_NCCL_RING && way->algorithm != BB_NCCL_PAT;
    /* What goes through the NICs of the busiest node. Of a ring what goes round. Of two trees, each for half of the
     * data, a node sends up in both and down to two children in one of them; two nodes have one child. */
    double between = by_node ? (nodes == 2 ? 0.5 : 1) * rounds * bytes : coll->bus_factor(n) * bytes;

    within = n == nodes ? 0 : within;
    between = nodes == 1 ? 0 : between / nics;
    return (way->base_us + steps.intra * way->intra_us + steps.inter * way->inter_us) * 1e3 + fmax(within, between);
}

static double quickest_ns(const struct bb_cluster *c, const struct bb_coll *coll, double bytes, int n, int nodes,
                          const struct bb_nccl_way **way)
{
    double best = INFINITY;

    for (int i = 0; i < c->n_ways; i++) {
        double ns =
            can_do(c->ways[i].algorithm, coll, n, nodes) ? way_ns(c, &c->ways[i], coll, bytes, n, nodes) : INFINITY;

        if (ns < best) {
            best = ns;
            *way = &c->ways[i];
        }
    }
    return best;
}

static double payload_bytes(const struct bb_collective *call)
{
    return (double)bb_coll_payload_count(call->kind, call->count, call->ranks) * bb_dtypes[call->dtype].bytes;
}

int64_t bb_cluster_way_ns(const struct bb_cluster *c, const struct bb_collective *call, const struct bb_nccl_way *way)
{
    const struct bb_coll *coll = &bb_colls[call->kind];

    if (!(coll->flags & BB_COLL_ESTIMATED) || !can_do(way->algorithm, coll, call->ranks, call->nodes))
        return -1;
    return llround(way_ns(c, way, coll, payload_bytes(call), call->ranks, call->nodes));
}

int64_t bb_cluster_collective_ns(const struct bb_cluster *c, const struct bb_collective *call,
                                 const struct bb_nccl_way **way)
{
    double bytes = payload_bytes(call);
    const struct bb_coll *coll = &bb_colls[call->kind];
    const struct bb_nccl_way *chosen = NULL;
    double ns;

    if (call->ranks == 1)
        ns = call->in_place ? 0 : (double)bb_cluster_self_ns(c, bytes);
    else if (c->n_ways == 0)
        ns = simple_ns(c, coll, bytes, call->ranks, call->nodes);
    else if (coll->flags & BB_COLL_ESTIMATED)
        ns = quickest_ns(c, coll, bytes, call->ranks, call->nodes, &chosen);
    else
        ns = pairs_ns(c, bytes, call->ranks, call->nodes);
    if (way)
        *way = chosen;
    return llround(ns);
}
