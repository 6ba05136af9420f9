/* sync_groups.c - divides the group of data-parallel replicas into the groups and communicators that data-parallel
 * synchronization needs (see sync.h). */
#include "proxies/workloads/sync/sync_state.h"

#include "bootstrap/base/alloc.h"

#include <string.h>

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
 * Divide a group of ranks into an inner and an outer group. Each `run` consecutive members form one instance of the
 * inner group. The members with the same index in these instances form one instance of the outer group.
 *   names    second words of the names of the new groups, such as "shard" and "replica" in "dp shard" and "dp replica"
 *   inner, outer   out: indices of the new groups in the layout
 */
static void split_group(struct bb_step *step, int group, int run, const char *const names[2], int *inner, int *outer)
{
    struct bb_layout *l = &step->layout;
    int size = l->groups[group].size, total = l->groups[group].instances * size, runs = size / run;
    const char *inner_name = bb_step_text(step, "%s %s", l->groups[group].name, names[0]);
    const char *outer_name = bb_step_text(step, "%s %s", l->groups[group].name, names[1]);
    int *consecutive, *strided;

    BB_NEW(consecutive, total);
    BB_NEW(strided, total);
    for (int i = 0; i < total; i++) {
        int index = i % size, place = index % run;

        consecutive[i] = bb_group_member(l, group, i / size, index);
        strided[(i / size * run + place) * runs + index / run] = consecutive[i];
    }
    *inner = bb_layout_add_irregular(l, inner_name, consecutive, total / run, run);
    *outer = bb_layout_add_irregular(l, outer_name, strided, total / runs, runs);
    free(consecutive);
    free(strided);
}

/* Return the number of consecutive members of the group on each node; 0 if this number differs between nodes. */
static int ranks_per_node(const struct bb_layout *l, int group, int gpus_per_node)
{
    int size = l->groups[group].size, run = 0, first = 0;

    for (int instance = 0; instance < l->groups[group].instances; instance++, first = 0)
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

/*
 * Print an error line: with --sync hsdp and without --shard-size, the group's ranks on one node would form a shard
 * group, which is not possible here. Returns -BB_EUSAGE.
 *   run  number of the group's ranks on each node; 0: the number differs between nodes
 */
static int shard_error(struct bb_step *step, int group, int gpus_per_node, int run)
{
    const struct bb_group *g = &step->layout.groups[group];
    int near = nearest_divisor(g->size, gpus_per_node, 2, g->size - 1);
    const char *why = run == 0 ? "are distributed unevenly over the nodes"
                               : "are each on a node of their own, so hsdp has nothing to shard";

    return bb_err(BB_EUSAGE, "%s: with %d GPU%s per node the %d ranks of %s %s; try: %s", step->proxy, gpus_per_node,
                  bb_plural(gpus_per_node), g->size, g->name, why,
                  near                                      ? bb_step_text(step, "--shard-size %d", near)
                  : strcmp(step->proxy, "transformer") == 0 ? "--dp-sync zero3"
                                                            : "--sync zero3");
}

/* Return the number of consecutive ranks in a shard group, or -BB_EUSAGE after printing an error line. Default: all
 * ranks of the group; hsdp: its ranks on one node, which is zero3 if the group has no others. */
static int resolve_shard(struct bb_step *step, const struct bb_dp_config *p, int group, int gpus_per_node)
{
    const struct bb_group *g = &step->layout.groups[group];
    int run = p->options.shard_size;

    if (run && g->size % run)
        return bb_err(BB_EUSAGE, "%s: --shard-size %d does not divide the %d ranks of %s; try: --shard-size %d",
                      step->proxy, run, g->size, g->name, nearest_divisor(g->size, run, 1, g->size));
    if (run || p->kind != BB_SYNC_HSDP)
        return run ? run : g->size;
    run = ranks_per_node(&step->layout, group, gpus_per_node);
    return run > 1 || g->size == 1 ? run : shard_error(step, group, gpus_per_node, run);
}

static int add_comm(struct bb_step *step, int group, const char *purpose)
{
    struct bb_layout *l = &step->layout;
    const char *name = purpose ? bb_step_text(step, "%s %s", l->groups[group].name, purpose) : l->groups[group].name;

    return bb_layout_add_comm(l, name, group);
}

/* Add the communicators for reductions of gradients and for all-gathers of parameters over a shard group, and for
 * reductions over the ranks with the same shard. zero3 and hsdp use one communicator for gradients and parameters,
 * unless --own-gather-comm is set. */
static int add_shards(struct bb_step *step, const struct bb_dp_config *p, int group, int gpus_per_node,
                      struct bb_sync_comms *comms)
{
    int run = resolve_shard(step, p, group, gpus_per_node), inner = group, outer = group;
    bool shared = bb_sync_gathers_parameters(p->kind) && !p->options.own_gather_comm;

    if (run < 0)
        return run;
    if (run < step->layout.groups[group].size)
        split_group(step, group, run, (const char *const[]){"shard", "replica"}, &inner, &outer);
    comms->n = run;
    if (run > 1) {
        comms->gradients = add_comm(step, inner, shared ? NULL : "gradients");
        comms->parameters = shared ? comms->gradients : add_comm(step, inner, "parameters");
    }
    if (outer != group) {
        comms->n_replicas = step->layout.groups[outer].size;
        comms->replicas = add_comm(step, outer, NULL);
    }
    return 0;
}

/* run: number of the group's ranks on each node; 0: the number differs between nodes */
static int hierarchy_error(struct bb_step *step, int group, int gpus_per_node, const struct bb_hierarchy_option *o,
                           int run)
{
    const struct bb_group *g = &step->layout.groups[group];
    const char *how = run == 0   ? "they are distributed unevenly"
                      : run == 1 ? "each is on a node of its own"
                                 : "all are on one node";

    return bb_err(BB_EUSAGE,
                  "%s: --%s needs several nodes, each with the same number (at least 2) of the %d ranks of %s; with %d "
                  "GPUs per node %s; try: %s",
                  step->proxy, o->name, g->size, g->name, gpus_per_node, how, o->instead);
}

int bb_sync_hierarchy_comms(struct bb_step *step, int group, int gpus_per_node,
                            const struct bb_hierarchy_option *option, struct bb_sync_comms *comms)
{
    int run = ranks_per_node(&step->layout, group, gpus_per_node), local, cross;

    if (!has_hierarchy(&step->layout, group, gpus_per_node))
        return hierarchy_error(step, group, gpus_per_node, option, run);
    split_group(step, group, run, (const char *const[]){"local", "cross"}, &local, &cross);
    *comms = no_comms;
    comms->n = step->layout.groups[group].size;
    comms->n_local = run;
    comms->n_cross = comms->n / run;
    comms->local = add_comm(step, local, NULL);
    comms->cross = add_comm(step, cross, NULL);
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
    if (p->options.hierarchical)
        return bb_sync_hierarchy_comms(step, group, node,
                                       &(struct bb_hierarchy_option){"hierarchical", "without --hierarchical"}, comms);
    if (bb_sync_is_sharded(p->kind))
        return add_shards(step, p, group, node, comms);
    comms->n = step->layout.groups[group].size;
    comms->gradients = add_comm(step, group, NULL);
    return 0;
}
