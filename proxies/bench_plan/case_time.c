/* case_time.c - see case_time.h. */
#include "proxies/bench_plan/case_time.h"

#include "bootstrap/base/grow.h"
#include "proxies/bench_plan/uneven_exchange.h"
#include "proxies/machine/fabric.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- one call of NCCL's ---- */

/* NCCL writes its names in capitals. */
static void name_choice(const char *name, char text[BB_CHOICE_TEXT])
{
    snprintf(text, BB_CHOICE_TEXT, "%s", name);
    for (char *c = text; *c; c++)
        *c = (char)toupper((unsigned char)*c);
}

static void time_collective(const struct bb_cluster *cl, const struct bb_case *c, struct bb_case_time *time)
{
    const struct bb_collective call = {.kind = c->kind,
                                       .dtype = (enum bb_dtype_id)c->dtype,
                                       .count = c->count,
                                       .in_place = c->in_place,
                                       .ranks = c->ranks,
                                       .nodes = (c->ranks + cl->gpus_per_node - 1) / cl->gpus_per_node};
    const struct bb_nccl_way *way = NULL;

    time->ns = bb_cluster_collective_ns(cl, &call, &way);
    if (way) {
        name_choice(bb_nccl_algorithms[way->algorithm], time->algorithm);
        name_choice(way->protocol, time->protocol);
    }
}

/* ---- exchanges ---- */

/* How many of a rank's node, and of those on its leaf and in its pod, send alike at once, itself among them. */
struct alike {
    int node, places[BB_TIERS];
};

/* A rank sends so many bytes to one and receives as many from another. */
static double pair_load(const struct bb_cluster *cl, int rank, int to, int from, double bytes,
                        const struct alike *alike)
{
    struct bb_load load = {0};

    bb_fabric_add_message(cl, &load, rank, to, bytes, true);
    bb_fabric_add_message(cl, &load, rank, from, bytes, false);
    for (int tier = 0; tier < BB_TIERS; tier++) {
        load.up[tier] *= alike->places[tier];
        load.down[tier] *= alike->places[tier];
    }
    return bb_cluster_load_ns(cl, &load, alike->node);
}

/* Every rank to the next. Ranks far from both ends are like those nodes before them; one of a node, of a leaf, of a pod
 * leaves it, as the last rank of all does. */
static void time_ring(const struct bb_cluster *cl, const struct bb_case *c, struct bb_case_time *time)
{
    static const struct alike alone = {1, {1, 1}};
    int n = c->ranks, ends = 2 * cl->gpus_per_node;
    double bytes = (double)bb_case_bytes(c);

    if (n == 1)
        time->ns = bb_cluster_self_ns(cl, bytes);
    for (int r = 0; n > 1 && r < n; r++) {
        double out, in;
        int next;

        if (r == ends && n - ends > r)
            r = n - ends;
        next = (r + 1) % n;
        out = pair_load(cl, r, next, (r + n - 1) % n, bytes, &alone);
        in = pair_load(cl, next, (next + 1) % n, r, bytes, &alone);
        time->ns = larger(time->ns, bb_fabric_message_ns(cl, r, next, fmax(out, in)));
    }
}

/* Rounds of pairs that wait for each other; out of place a rank's own slice is copied first. */
static int time_hypercube(const struct bb_cluster *cl, const struct bb_case *c, struct bb_case_time *time)
{
    double slice = (double)c->count * (double)bb_dtypes[c->dtype].bytes;
    int64_t *at, copy_ns = llround(cl->kernel_us * 1e3 + 2 * slice / cl->memory_gbps);
    struct alike alike = {.node = cl->gpus_per_node};
    int rc = BB_NEW(at, c->ranks);

    if (rc)
        return rc;
    for (int tier = 0; tier < BB_TIERS; tier++)
        alike.places[tier] = bb_fabric_ranks_at(cl, (enum bb_tier)tier, c->ranks);
    for (int r = 0; r < c->ranks && !c->in_place && slice > 0; r++)
        at[r] = copy_ns;
    for (int width = 1; width < c->ranks; width *= 2)
        for (int r = 0; r < c->ranks; r++) {
            int partner = r ^ width;
            double load = pair_load(cl, r, partner, partner, slice * width, &alike);

            if (r < partner)
                at[r] = at[partner] = larger(at[r], at[partner]) + bb_fabric_message_ns(cl, r, partner, load);
        }
    for (int r = 0; r < c->ranks; r++)
        time->ns = larger(time->ns, at[r]);
    free(at);
    return 0;
}

int bb_case_time(const struct bb_cluster *cl, const struct bb_case *c, struct bb_case_time *time)
{
    unsigned flags = bb_colls[c->kind].flags;

    *time = (struct bb_case_time){0};
    if (flags & BB_COLL_UNEVEN)
        return bb_uneven_exchange_ns(cl, c, &time->ns);
    if (flags & BB_COLL_ROUNDS)
        return time_hypercube(cl, c, time);
    if (bb_colls[c->kind].from == BB_FROM_PREVIOUS)
        time_ring(cl, c, time);
    else
        time_collective(cl, c, time);
    return 0;
}
