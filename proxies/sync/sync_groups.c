/* sync_groups.c - divides the group of data-parallel replicas into the groups and communicators that data-parallel
 * synchronization needs (see sync.h). */
#include "proxies/sync/sync_state.h"

#include "bootstrap/base/alloc.h"

#include <stdio.h>
#include <stdlib.h>

static const struct bb_sync_comms no_comms = {.gradients = BB_NONE,
                                              .parameters = BB_NONE,
                                              .replicas = BB_NONE,
                                              .local = BB_NONE,
                                              .cross = BB_NONE,
                                              .n = 1,
                                              .n_replicas = 1,
                                              .n_local = 1,
                                              .n_cross = 1};

/*
 * How a group of ranks is divided into an inner and an outer group. Each `run` consecutive members share one
 * communicator of the inner group. The members with the same index in these inner communicators share one communicator
 * of the outer group.
 */
struct group_split {
    struct bb_step *step;
    int group, run;
    const char *inner_name, *outer_name; /* second words of the names of the new groups, such as "shard" and
                                            "replica" in "dp shard" and "dp replica" */
    int inner, outer;                    /* indices of the new groups in the layout */
};

static const char *group_name(const struct group_split *k)
{
    return k->step->layout.groups[k->group].name;
}

/* Add the inner group (sets of `run` consecutive ranks) and the outer group (ranks with the same index in each of
 * these sets) to the layout. */
static void split_group(struct group_split *k)
{
    struct bb_layout *l = &k->step->layout;
    int size = l->groups[k->group].size, instances = bb_group_instances(l, k->group), runs = size / k->run;
    int *inner, *outer;
    const char *names[] = {bb_step_text(k->step, "%s %s", group_name(k), k->inner_name),
                           bb_step_text(k->step, "%s %s", group_name(k), k->outer_name)};

    BB_NEW(inner, instances * size);
    BB_NEW(outer, instances * size);
    for (int i = 0; i < instances * size; i++) {
        int index = i % size, place = index % k->run, rank = bb_group_member(l, k->group, i / size, index);

        inner[i] = rank;
        outer[(i / size * k->run + place) * runs + index / k->run] = rank;
    }
    k->inner = bb_layout_add_irregular(l, names[0], inner, instances * runs, k->run);
    k->outer = bb_layout_add_irregular(l, names[1], outer, instances * k->run, runs);
    free(inner);
    free(outer);
}

/* Return the number of consecutive members of the group on each node; 0 if this number differs between nodes. */
static int ranks_per_node(const struct bb_layout *l, int group, int gpus_per_node)
{
    int size = l->groups[group].size, run = 0, first = 0;

    for (int instance = 0; instance < bb_group_instances(l, group); instance++, first = 0)
        for (int i = 1; i <= size; i++) {
            int node = bb_group_member(l, group, instance, first) / gpus_per_node;

            if (i < size && bb_group_member(l, group, instance, i) / gpus_per_node == node)
                continue;
            if (run && i - first != run)
                return 0;
            run = i - first;
            first = i;
        }
    return run;
}

/* Return the divisor of n between `least` and `most` that is nearest to `wanted`; 0 if there is no divisor in this
 * range. */
static int nearest_divisor(int n, int wanted, int least, int most)
{
    int best = 0;

    for (int i = least; i <= most; i++)
        if (n % i == 0 && (best == 0 || abs(i - wanted) < abs(best - wanted)))
            best = i;
    return best;
}

/*
 * Return whether a hierarchical reduction is possible: the group is on several nodes, with the same number of ranks, at
 * least 2, on each node.
 */
static bool has_hierarchy(const struct bb_layout *l, int group, int gpus_per_node)
{
    int run = gpus_per_node > 0 ? ranks_per_node(l, group, gpus_per_node) : 0;

    return run > 1 && run < l->groups[group].size;
}

/* Return the number of GPUs per node, nearest to gpus_per_node, with which a hierarchical reduction over the group
 * is possible; 0 if there is no such number. */
static int nearest_node(const struct bb_layout *l, int group, int gpus_per_node)
{
    for (int far = 1; far <= l->ranks; far++) {
        if (has_hierarchy(l, group, gpus_per_node - far))
            return gpus_per_node - far;
        if (has_hierarchy(l, group, gpus_per_node + far))
            return gpus_per_node + far;
    }
    return 0;
}

/*
 * Print an error line: with --sync hsdp and without --shard-size, the group's ranks on one node would form a shard
 * group, which is not possible here. Returns -BB_EUSAGE.
 *   run  number of the group's ranks on each node; 0: the number differs between nodes
 */
static int shard_error(const struct group_split *k, int gpus_per_node, int run)
{
    int size = k->step->layout.groups[k->group].size, near = nearest_divisor(size, gpus_per_node, 2, size - 1);
    const char *why = run == 0   ? "are distributed unevenly over the nodes"
                      : run == 1 ? "are each on a node of their own, so hsdp has nothing to shard"
                                 : "are all on one node, where hsdp equals zero3";
    char words[32] = "zero3";

    if (near)
        snprintf(words, sizeof(words), "--shard-size %d", near);
    return bb_err(BB_EUSAGE, "%s: with %d GPUs per node the %d ranks of %s %s; try: %s", k->step->proxy, gpus_per_node,
                  size, group_name(k), why, words);
}

/* Set *run to the default number of consecutive ranks in a shard group. distributed: all ranks of the group of
 * replicas; hsdp: its ranks on one node, or an error if they cannot form a shard group. */
static int default_shard(const struct group_split *k, const struct bb_dp_config *p, int gpus_per_node, int *run)
{
    int size = k->step->layout.groups[k->group].size;

    *run = p->kind == BB_SYNC_DISTRIBUTED ? size : ranks_per_node(&k->step->layout, k->group, gpus_per_node);
    if (p->kind == BB_SYNC_DISTRIBUTED || (*run > 1 && *run < size))
        return 0;
    return shard_error(k, gpus_per_node, *run);
}

static int resolve_shard(const struct group_split *k, const struct bb_dp_config *p, int gpus_per_node, int *run)
{
    int size = k->step->layout.groups[k->group].size;

    *run = p->shard;
    if (!p->shard)
        return default_shard(k, p, gpus_per_node, run);
    if (size % *run)
        return bb_err(BB_EUSAGE, "%s: --shard-size %d does not divide the %d ranks of %s; try: --shard-size %d",
                      k->step->proxy, *run, size, group_name(k), nearest_divisor(size, *run, 1, size));
    return 0;
}

static int add_comm(struct bb_step *step, int group, const char *purpose)
{
    struct bb_layout *l = &step->layout;
    const char *name = purpose ? bb_step_text(step, "%s %s", l->groups[group].name, purpose) : l->groups[group].name;

    return bb_layout_add_comm(l, name, group);
}

/* Add the communicators for reductions of gradients and for all-gathers of parameters over `group`. zero3 and hsdp
 * use one communicator for both, unless --own-gather-comm is set. */
static void add_sharded(struct bb_step *step, const struct bb_dp_config *p, int group, struct bb_sync_comms *comms)
{
    bool shared = bb_sync_gathers_parameters(p->kind) && !p->own_gather_comm;

    comms->n = step->layout.groups[group].size;
    if (comms->n == 1)
        return;
    comms->gradients = add_comm(step, group, shared ? NULL : "gradients");
    comms->parameters = shared ? comms->gradients : add_comm(step, group, "parameters");
}

static int add_shards(struct bb_step *step, const struct bb_dp_config *p, int group, int gpus_per_node,
                      struct bb_sync_comms *comms)
{
    struct group_split k = {.step = step, .group = group, .inner_name = "shard", .outer_name = "replica"};
    int rc;

    TRY(resolve_shard(&k, p, gpus_per_node, &k.run));
    if (k.run == step->layout.groups[group].size) {
        add_sharded(step, p, group, comms);
        return 0;
    }
    split_group(&k);
    add_sharded(step, p, k.inner, comms);
    comms->n_replicas = step->layout.groups[k.outer].size;
    comms->replicas = add_comm(step, k.outer, NULL);
out:
    return rc;
}

static int hierarchy_error(const struct group_split *k, int gpus_per_node, const char *option, int run)
{
    const struct bb_layout *l = &k->step->layout;
    int near = nearest_node(l, k->group, gpus_per_node);
    const char *how = run == 0   ? "they are distributed unevenly"
                      : run == 1 ? "each is on a node of its own"
                                 : "all are on one node";
    char words[48] = "without this option";

    if (near)
        snprintf(words, sizeof(words), "--gpus-per-node %d", near);
    return bb_err(BB_EUSAGE,
                  "%s: --%s needs several nodes, each with the same number (at least 2) of the %d ranks of %s; with %d "
                  "GPUs per node %s; try: %s",
                  k->step->proxy, option, l->groups[k->group].size, group_name(k), gpus_per_node, how, words);
}

int bb_sync_hierarchy_comms(struct bb_step *step, int group, int gpus_per_node, const char *option,
                            struct bb_sync_comms *comms)
{
    struct group_split k = {.step = step, .group = group, .inner_name = "local", .outer_name = "cross"};
    int size = step->layout.groups[group].size;

    *comms = no_comms;
    k.run = ranks_per_node(&step->layout, group, gpus_per_node);
    if (!has_hierarchy(&step->layout, group, gpus_per_node))
        return hierarchy_error(&k, gpus_per_node, option, k.run);
    split_group(&k);
    comms->n = size;
    comms->n_local = k.run;
    comms->n_cross = size / k.run;
    comms->local = add_comm(step, k.inner, NULL);
    comms->cross = add_comm(step, k.outer, NULL);
    return 0;
}

int bb_sync_add_comms(struct bb_step *step, const struct bb_dp_config *p, int group, int gpus_per_node,
                      struct bb_sync_comms *comms)
{
    int node = gpus_per_node > 0 ? gpus_per_node : step->layout.ranks;

    *comms = no_comms;
    if (bb_sync_has_servers(p->kind)) {
        comms->n = step->layout.ranks;
        return bb_server_comms(step, p, group, comms);
    }
    if (group == BB_NONE || step->layout.groups[group].size < 2)
        return 0;
    if (p->hierarchical)
        return bb_sync_hierarchy_comms(step, group, node, "hierarchical", comms);
    if (p->kind == BB_SYNC_HSDP || p->kind == BB_SYNC_DISTRIBUTED)
        return add_shards(step, p, group, node, comms);
    if (bb_sync_is_sharded(p->kind)) {
        add_sharded(step, p, group, comms);
        return 0;
    }
    comms->n = step->layout.groups[group].size;
    comms->gradients = add_comm(step, group, NULL);
    return 0;
}
