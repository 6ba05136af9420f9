/*
 * rank_classes.h - classes of ranks that behave identically, so that a step of 100,000 ranks is checked and predicted
 * by executing a few of them.
 *
 * Two ranks are of the same class when they have the same role, and their peers and the members of all their
 * collectives are, in turn, of the same classes, over links of the same kind. The classes are the coarsest such
 * partition, found by partition refinement (Paige and Tarjan, "Three partition refinement algorithms", SIAM J. Comput.
 * 16(6), 1987; here by colour refinement: each round hashes a rank's colour with those of its neighbours, until no
 * colour splits). At each point of the step, what holds for one rank of a class holds for all, so it suffices to
 * execute one rank per class. A step without such symmetry gets one class per rank. Colours are 64-bit hashes: the
 * probability of any collision is below 1 in 10,000 for 2^24 different ranks, and below 1 in 10^13 for a thousand.
 */
#ifndef BB_PROXIES_SIMULATE_GRAPH_RANK_CLASSES_H
#define BB_PROXIES_SIMULATE_GRAPH_RANK_CLASSES_H

#include "proxies/simulate/graph/faults.h"
#include "proxies/simulate/graph/task_graph.h"
#include "proxies/step/step.h"

#include <stdint.h>

struct bb_rank_classes {
    int n;
    int *of;    /* [ranks] class of each rank */
    int *rank;  /* [n] lowest rank of the class */
    int *ranks; /* [n] number of ranks in the class */
};

#define BB_RANK_RESOURCES 3

/* Further properties that separate classes. All zero: none. */
struct bb_rank_marks {
    const uint64_t *mark;     /* [ranks] ranks with different marks are in different classes; NULL: no marks */
    struct bb_rank_resource { /* a shared resource: its ranks affect each other */
        int *of;              /* [ranks] index of the resource that a rank uses; n: number of indices */
        int n;
    } resources[BB_RANK_RESOURCES];
    int n_resources;
    /* Returns the kind of the link between two ranks; NULL: only "same node or not" counts. */
    int (*link_kind)(const void *arg, int from, int to);
    const void *arg;
    bool all_distinct; /* each rank gets a separate class */
};

/*
 * bb_rank_classes_init - finds the classes.
 *   graphs         [n_roles] task graphs of step->roles
 *   gpus_per_node  > 0: links within a node (rank / gpus_per_node) and between nodes differ; 0: they do not
 *   marks          further properties
 *   faults         out: ranks that use a communicator without being in its group, and peers that do not exist; after
 *                  such faults c->n is 0
 *   Returns        0 or -BB_EFAIL; c is released by the caller
 */
int bb_rank_classes_init(struct bb_rank_classes *c, const struct bb_step *step, const struct bb_task_graph *graphs,
                         int gpus_per_node, const struct bb_rank_marks *marks, struct bb_faults *faults) BB_MUST_CHECK;
void bb_rank_classes_release(struct bb_rank_classes *c);

/* bb_channel_rank - the world rank to which a channel of its role leads from `rank`. */
int bb_channel_rank(const struct bb_layout *l, const struct bb_channel *channel, int rank);

/*
 * Iterates over the channels of a role that lead from rank `from` to rank `to`: each once, in no particular order. Both
 * ranks are members of the same instance of the communicator.
 *
 *     struct bb_channels_to m = bb_channels_to(l, graph, comm, from, to);
 *     for (int c; (c = bb_channels_to_next(&m)) != BB_NONE;)
 */
struct bb_channels_to {
    const struct bb_task_graph *graph;
    int comm, absolute; /* absolute: index of `to` in the communicator; BB_NONE: already returned */
    long long offset;   /* next offset to try; offsets that differ by a multiple of size lead to the same rank */
    int size;
};

struct bb_channels_to bb_channels_to(const struct bb_layout *l, const struct bb_task_graph *graph, int comm, int from,
                                     int to);
int bb_channels_to_next(struct bb_channels_to *m);

static inline bool bb_same_node(int gpus_per_node, int a, int b) /* gpus_per_node 0: all ranks are on one node */
{
    return gpus_per_node < 1 || a / gpus_per_node == b / gpus_per_node;
}

/* bb_group_nodes - number of nodes of an instance. Members are in the order of their ranks, so those of a node
 * follow one another. */
int bb_group_nodes(const struct bb_layout *l, int group, int instance, int gpus_per_node);

/* Size of a communicator; a rank's instance of its group, BB_NONE if the rank is no member; index of a rank in it. */
int bb_comm_size(const struct bb_layout *l, int comm);
int bb_comm_instance(const struct bb_layout *l, int comm, int rank);
int bb_comm_index(const struct bb_layout *l, int comm, int rank);

#endif
