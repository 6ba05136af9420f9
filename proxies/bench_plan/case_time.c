/* case_time.c - computes the time of one operation with the cost model of the cluster profile (see case_time.h). */
#include "proxies/bench_plan/case_time.h"

#include "bootstrap/base/alloc.h"
#include "proxies/bench_plan/alltoallv_time.h"
#include "proxies/machine/exchanges.h"
#include "proxies/machine/fabric.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- collectives that are one NCCL call ---- */

/* Copies a name in capital letters, as in the output of bench. */
static void name_choice(const char *name, char text[BB_CHOICE_TEXT])
{
    snprintf(text, BB_CHOICE_TEXT, "%s", name);
    for (char *c = text; *c; c++)
        *c = (char)toupper((unsigned char)*c);
}

/* Returns how many ranks of the job are on this node; consecutive ranks fill the nodes. */
static int count_on_node(const struct bb_cluster *cl, const struct bb_case *c, int node)
{
    const int others = c->ranks - node * cl->gpus_per_node;

    return others < cl->gpus_per_node ? others : cl->gpus_per_node;
}

static void time_collective(const struct bb_cluster *cl, const struct bb_case *c, struct bb_case_time *time)
{
    const struct bb_collective call = {.kind = c->kind,
                                       .dtype = (enum bb_dtype_id)c->dtype,
                                       .count = c->count,
                                       .in_place = c->in_place,
                                       .ranks = c->ranks,
                                       .nodes = (c->ranks + cl->gpus_per_node - 1) / cl->gpus_per_node,
                                       .members_on_root_node =
                                           c->root < 0 ? 0 : count_on_node(cl, c, c->root / cl->gpus_per_node)};
    const struct bb_nccl_variant *variant = NULL;

    time->ns = bb_cluster_collective_ns(cl, &call, &variant);
    if (variant) {
        name_choice(bb_nccl_algorithms[variant->algorithm], time->algorithm);
        name_choice(variant->protocol, time->protocol);
    }
}

/* ---- sendrecv and hypercube: sends and receives ---- */

/* Returns the bytes over the links of a rank (struct bb_link_load) that sends `bytes` to rank `to` and receives
 * `bytes` from rank `from`. */
static struct bb_link_load pair_load(const struct bb_cluster *cl, int rank, int to, int from, double bytes)
{
    struct bb_link_load load = {0};

    bb_fabric_add_message(cl, &load, rank, to, bytes, true);
    bb_fabric_add_message(cl, &load, rank, from, bytes, false);
    return load;
}

/* Computes the time of sendrecv, in which every rank sends to the next rank. Only the ranks of the first two and the
 * last two nodes are computed, because the nodes in the middle behave like one of these. Only the last rank of a
 * node, leaf or pod sends to another node, leaf or pod, so no NIC or uplink is shared. */
static void time_ring(const struct bb_cluster *cl, const struct bb_case *c, struct bb_case_time *time)
{
    int n = c->ranks, ends = 2 * cl->gpus_per_node;
    double bytes = (double)bb_case_bytes(c);

    if (n == 1)
        time->ns = bb_cluster_self_message_ns(cl, bytes);
    for (int r = 0; n > 1 && r < n; r++) {
        struct bb_link_load out, in;
        double ns;
        int next;

        if (r == ends && n - ends > r)
            r = n - ends;
        next = (r + 1) % n;
        out = pair_load(cl, r, next, (r + n - 1) % n, bytes);
        in = pair_load(cl, next, (next + 1) % n, r, bytes);
        ns = fmax(bb_cluster_link_load_ns(cl, &out, 1), bb_cluster_link_load_ns(cl, &in, 1));
        time->ns = larger(time->ns, bb_fabric_message_ns(cl, r, next, ns));
    }
}

static bool is_power_of_two(int n)
{
    return (n & (n - 1)) == 0;
}

/* Computes done_ns of the exchanges of one hypercube step, which run concurrently on all ranks. If the numbers of
 * GPUs and NICs per node, nodes per leaf switch and nodes per pod are powers of two, either all or none of the ranks
 * that share a NIC, leaf uplink or pod uplink send over it in this step, so each of them gets an equal share of its
 * bandwidth. Otherwise bb_exchanges_run computes the shares. */
static void share_round(const struct bb_cluster *cl, struct bb_exchange *exchanges, int n)
{
    const int *nodes = cl->fabric.nodes;
    int ranks_at[BB_TIERS];

    if (!is_power_of_two(cl->gpus_per_node) || !is_power_of_two(bb_cluster_nics(cl)) ||
        !is_power_of_two(nodes[BB_LEAF]) || !is_power_of_two(nodes[BB_POD])) {
        bb_exchanges_run(cl, NULL, exchanges, n);
        return;
    }
    for (int tier = 0; tier < BB_TIERS; tier++)
        ranks_at[tier] = bb_fabric_max_ranks(cl, (enum bb_tier)tier, n);
    for (int r = 0; r < n; r++) {
        for (int tier = 0; tier < BB_TIERS; tier++) {
            exchanges[r].load.up[tier] *= ranks_at[tier];
            exchanges[r].load.down[tier] *= ranks_at[tier];
        }
        exchanges[r].done_ns = bb_cluster_link_load_ns(cl, &exchanges[r].load, cl->gpus_per_node);
    }
}

/* Advances the time of each rank r by one step of the hypercube algorithm, in which r and rank r ^ width send each
 * other `bytes`. at: [ranks] in: end of the previous step; out: end of this step. */
static void time_round(const struct bb_cluster *cl, const struct bb_case *c, int width, double bytes,
                       struct bb_exchange *exchanges, int64_t *at)
{
    for (int r = 0; r < c->ranks; r++)
        exchanges[r] = (struct bb_exchange){.rank = r, .load = pair_load(cl, r, r ^ width, r ^ width, bytes)};
    share_round(cl, exchanges, c->ranks);
    for (int r = 0; r < c->ranks; r++) {
        const int partner = r ^ width;
        const double done_ns = fmax(exchanges[r].done_ns, exchanges[partner].done_ns);

        if (r < partner)
            at[r] = at[partner] = larger(at[r], at[partner]) + bb_fabric_message_ns(cl, r, partner, done_ns);
    }
}

/* Computes the time of a hypercube. A rank and its partner begin a step of the algorithm when both have finished the
 * previous one. Out of place, each rank first copies its own slice of the data to its receive buffer. */
static void time_hypercube(const struct bb_cluster *cl, const struct bb_case *c, struct bb_case_time *time)
{
    double slice = (double)c->count * (double)bb_dtypes[c->dtype].bytes;
    int64_t *at, copy_ns = llround(cl->kernel_us * 1e3 + 2 * slice / cl->memory_gbps);
    struct bb_exchange *exchanges = NULL;

    BB_NEW(at, c->ranks);
    BB_NEW(exchanges, c->ranks);
    for (int r = 0; r < c->ranks && !c->in_place && slice > 0; r++)
        at[r] = copy_ns;
    for (int width = 1; width < c->ranks; width *= 2)
        time_round(cl, c, width, slice * width, exchanges, at);
    for (int r = 0; r < c->ranks; r++)
        time->ns = larger(time->ns, at[r]);
    free(exchanges);
    free(at);
}

void bb_case_time(const struct bb_cluster *cl, const struct bb_case *c, struct bb_case_time *time)
{
    unsigned flags = bb_colls[c->kind].flags;

    *time = (struct bb_case_time){0};
    if (flags & BB_COLL_VARIABLE_COUNTS)
        bb_alltoallv_time_ns(cl, c, &time->ns);
    else if (flags & BB_COLL_ROUNDS)
        time_hypercube(cl, c, time);
    else if (bb_colls[c->kind].from == BB_FROM_PREVIOUS)
        time_ring(cl, c, time);
    else
        time_collective(cl, c, time);
}
