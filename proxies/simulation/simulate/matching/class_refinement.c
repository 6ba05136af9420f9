/*
 * class_refinement.c - adds properties of the machine to the search for classes of equivalent ranks
 * (graph/rank_classes.h): injected slow GPUs, NICs and links; which ranks share a NIC; how many members of their groups do; and, in a fabric with
 * oversubscribed uplinks, which ranks are attached to the same leaf switch or pod. Ranks of one class then have
 * equivalent network paths: their messages cross the same switch levels, the members of their collectives are
 * distributed equally over leaves and pods, and the ranks that share their NIC, leaf or pod belong to the same classes.
 */
#include "proxies/simulation/simulate/matching/match.h"

#include "bootstrap/base/alloc.h"
#include "proxies/simulation/machine/shared_resources.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix_words(uint64_t mark, const void *words, size_t bytes)
{
    const unsigned char *at = words;

    mark ^= 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++) /* FNV-1a hash */
        mark = (mark ^ at[i]) * 0x100000001b3u;
    return mark;
}

/* Returns a number of its own for each node that is an end of a slow path; else -1. */
static double slow_path_end(const struct bb_cluster *c, int node)
{
    for (int i = 0; i < c->fabric.n_slow_paths; i++)
        if (c->fabric.slow_paths[i].from == node || c->fabric.slow_paths[i].to == node)
            return node;
    return -1;
}

static void mark_slow(const struct bb_sim *m, uint64_t *mark)
{
    for (int r = 0; r < m->step->layout.ranks; r++) {
        double words[] = {bb_slow_compute_factor(&m->conditions.slow, r, r / m->cluster->gpus_per_node),
                          (double)bb_slow_delay_ns(&m->conditions.slow, r),
                          bb_slow_nics_gbps(&m->conditions.slow, m->cluster, r),
                          bb_slow_leaf_factor(&m->conditions.slow, m->cluster, r),
                          slow_path_end(m->cluster, r / m->cluster->gpus_per_node)};

        mark[r] = mix_words(mark[r], words, sizeof(words));
    }
}

static bool has_collectives(const struct bb_sim *m, int comm)
{
    for (int r = 0; r < m->step->n_roles; r++)
        if (m->graphs[r].n_collectives[comm] + m->graphs[r].n_alltoallvs[comm] > 0)
            return true;
    return false;
}

static void mark_members(const struct bb_sim *m, int comm, int instance, struct bb_tier_members *tier_members,
                         uint64_t *mark)
{
    const struct bb_layout *l = &m->step->layout;
    const int group = l->comms[comm].group;
    struct bb_node_placement placement;
    bool variable_counts = false;

    for (int r = 0; r < m->step->n_roles; r++)
        variable_counts |= m->graphs[r].n_alltoallvs[comm] > 0;
    bb_group_find_placement(l, group, instance, m->cluster, &placement, tier_members);
    for (int i = 0; i < l->groups[group].size; i++) {
        uint64_t *of = &mark[bb_group_member(l, group, instance, i)];

        *of = mix_words(*of, &comm, sizeof(comm));
        if (variable_counts) /* an alltoallv sends a different number of bytes to each member, so its uplink traffic
                                depends on which members are on a leaf, not only on how many */
            *of = mix_words(*of, tier_members, (size_t)l->groups[group].size * sizeof(*tier_members));
        *of = mix_words(mix_words(*of, &placement, sizeof(placement)), &tier_members[i], sizeof(tier_members[i]));
    }
}

static void mark_collectives(const struct bb_sim *m, uint64_t *mark)
{
    const struct bb_layout *l = &m->step->layout;
    struct bb_tier_members *tier_members;

    BB_NEW(tier_members, l->ranks);
    for (int comm = 0; comm < l->n_comms; comm++) {
        const int instances = has_collectives(m, comm) ? l->groups[l->comms[comm].group].instances : 0;

        for (int i = 0; i < instances; i++)
            mark_members(m, comm, i, tier_members, mark);
    }
    free(tier_members);
}

static int link_kind(const void *arg, int from, int to)
{
    const struct bb_sim *m = arg;
    int kind = 2 * bb_same_node(m->cluster->gpus_per_node, from, to) + bb_fabric_changes_rail(m->cluster, from, to);

    for (int tier = 0; tier < BB_TIERS; tier++)
        kind = 2 * kind + (bb_fabric_is_oversubscribed(m->cluster, (enum bb_tier)tier) &&
                           bb_fabric_takes_uplinks(m->cluster, (enum bb_tier)tier, from, to));
    return kind;
}

static void list_resource(const struct bb_sim *m, enum bb_resource_kind what, struct bb_rank_resource *resources)
{
    BB_NEW(resources->of, m->step->layout.ranks);
    for (int r = 0; r < m->step->layout.ranks; r++) {
        resources->of[r] = bb_resource_index(m->cluster, what, r);
        resources->n = resources->of[r] >= resources->n ? resources->of[r] + 1 : resources->n;
    }
}

/* Maximum number of operations to simulate, summed over the classes of equivalent ranks (one rank per class). Limits
 * the memory, because without symmetry between ranks nearly every rank is a separate class. */
#define MAX_OPS 10e6

static int validate_classes(const struct bb_sim *m)
{
    double ops = 0;

    for (int c = 0; c < m->classes.n; c++)
        ops += (double)bb_step_program(m->step, m->classes.rank[c])->n_ops;
    if (ops <= MAX_OPS)
        return 0;
    return bb_err(
        BB_EUSAGE,
        "%s: in this fabric, %d classes of equivalent ranks (of %d ranks) have %.0f operations in total, at most %.0f "
        "are supported; try: leaf and pod sizes that divide the number of nodes of each rank group, or fewer --ranks",
        m->cluster->name, m->classes.n, m->step->layout.ranks, ops, MAX_OPS);
}

int bb_sim_find_classes(struct bb_sim *m, struct bb_faults *faults)
{
    const struct bb_cluster *c = m->cluster;
    const bool crosses = c && (bb_resource_can_limit(c, BB_RESOURCE_LEAF) || bb_resource_can_limit(c, BB_RESOURCE_POD));
    const bool shares =
        c && bb_cluster_gpus_share_nics(c); /* members of a group may have unequal parts of their NICs */
    struct bb_rank_marks marks = {.all_distinct = m->conditions.jitter > 0};
    uint64_t *mark = NULL;
    int rc = 0;

    if (c && (m->conditions.slow.n > 0 || crosses || shares))
        BB_NEW(mark, m->step->layout.ranks);
    if (c && m->conditions.slow.n > 0)
        mark_slow(m, mark);
    if (crosses || shares)
        mark_collectives(m, mark);
    for (enum bb_resource_kind what = 0; what < BB_RESOURCE_KINDS; what++)
        if (what != BB_RESOURCE_PATH && bb_resource_can_limit(c, what)) /* a path is listed with its NIC */
            list_resource(m, what, &marks.resources[marks.n_resources++]);
    marks.mark = mark;
    if (crosses || (c && c->fabric.rails)) {
        marks.link_kind = link_kind;
        marks.arg = m;
    }
    bb_rank_classes_init(&m->classes, m->step, m->graphs, c ? c->gpus_per_node : 0, &marks, faults);
    if (crosses && !marks.all_distinct)
        rc = validate_classes(m);
    free(mark);
    for (int i = 0; i < marks.n_resources; i++)
        free(marks.resources[i].of);
    return rc;
}
