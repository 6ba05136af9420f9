/*
 * rank_classes.h - which ranks behave alike, so that a step of 100,000 ranks is checked and predicted by a handful of
 * them.
 *
 * Two ranks are of one class when they have the same role and their peers and fellow members of every collective are,
 * in turn, of the same classes, over links of the same kind. They are found by partition refinement: start with the
 * role, then colour each rank by its own and its neighbours' colours until no colour splits any more. What is true of
 * one rank of a class at some point of the step is then true of all, so executing one of each class executes all. A
 * step without such symmetry gets one class per rank. Colours are 64-bit hashes; the chance that any two collide is
 * less than 1 in 10,000 with 2^24 different ranks, and 1 in 10^13 with a thousand.
 */
#ifndef BB_PROXIES_SIMULATE_GRAPH_RANK_CLASSES_H
#define BB_PROXIES_SIMULATE_GRAPH_RANK_CLASSES_H

#include "proxies/simulate/graph/faults.h"
#include "proxies/simulate/graph/task_graph.h"
#include "proxies/step/step.h"

#include <stdint.h>

struct bb_rank_classes {
    int n;
    int *of;    /* [ranks] the class of a rank       */
    int *rank;  /* [n] its lowest rank               */
    int *ranks; /* [n] how many it has               */
};

#define BB_RANK_RESOURCES 3

/* What else tells ranks apart. All zero: nothing. */
struct bb_rank_marks {
    const uint64_t *mark;   /* [ranks] ranks of different marks are of different classes; NULL: none has one */
    struct bb_rank_resource { /* ranks of one place share something, so each sees its mates                    */
        int *of;            /* [ranks] */
        int n;
    } resources[BB_RANK_RESOURCES];
    int n_resources;
    /* The kind of the link between two ranks; NULL: whether they are on one node. */
    int (*link_kind)(const void *arg, int from, int to);
    const void *arg;
    bool all_distinct; /* every rank is a class of its own */
};

/*
 * bb_rank_classes_init - graphs[n_roles] of step->roles. gpus_per_node > 0 tells links within a node from those between
 * nodes (node = rank / gpus_per_node), 0 does not. Ranks that use a communicator without being in its group, and peers
 * that are no member, go to faults; then there are no classes and the result is 0 with c->n == 0.
 */
int bb_rank_classes_init(struct bb_rank_classes *c, const struct bb_step *step, const struct bb_task_graph *graphs,
                         int gpus_per_node, const struct bb_rank_marks *marks, struct bb_faults *faults) BB_MUST_CHECK;
void bb_rank_classes_release(struct bb_rank_classes *c);

/* bb_channel_rank - the world rank that `rank` means by a channel of its role. */
int bb_channel_rank(const struct bb_layout *l, const struct bb_channel *channel, int rank);

/*
 * Which channels of a role mean one world rank, for the rank `from` of the role: in no order, each once. Both are
 * members of the same instance of the communicator.
 *
 *     struct bb_meaning m = bb_meaning(l, graph, comm, from, to);
 *     for (int c; (c = bb_meaning_next(&m)) != BB_NONE;)
 */
struct bb_channels_to {
    const struct bb_task_graph *graph;
    int comm, absolute; /* place of `to` in the communicator, BB_NONE: had              */
    long long offset;   /* next one to try; all that are apart by the size mean the same */
    int size;
};

struct bb_channels_to bb_channels_to(const struct bb_layout *l, const struct bb_task_graph *graph, int comm, int from, int to);
int bb_channels_to_next(struct bb_channels_to *m);

static inline bool bb_same_node(int gpus_per_node, int a, int b) /* 0: one node holds all */
{
    return gpus_per_node < 1 || a / gpus_per_node == b / gpus_per_node;
}

/* bb_group_nodes - how many nodes the members of an instance are on: runs of members that stand on one node, which is
 * every node once, as members stand in the order of their ranks. */
int bb_group_nodes(const struct bb_layout *l, int group, int instance, int gpus_per_node);

/* bb_comm_size, bb_comm_instance, bb_comm_index - of a communicator, by its group. */
int bb_comm_size(const struct bb_layout *l, int comm);
int bb_comm_instance(const struct bb_layout *l, int comm, int rank);
int bb_comm_index(const struct bb_layout *l, int comm, int rank);

#endif
