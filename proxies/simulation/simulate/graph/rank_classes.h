/*
 * rank_classes.h - classes of ranks that behave identically. A step of 100,000 ranks is checked and predicted by
 * executing one rank per class.
 *
 * Two ranks are of the same class if they run the same program (have the same role) and use links of the same kinds,
 * and if their peers and the members of all their collectives are of the same classes, too. The classes are the
 * coarsest such partition of the ranks, found by color refinement (Paige and Tarjan, "Three partition refinement
 * algorithms", SIAM J. Comput. 16(6), 1987): each rank has a 64-bit hash, called its color; each iteration replaces the
 * color by a hash of this color and the colors of the rank's peers, until the number of different colors no longer
 * grows. Ranks with equal final colors form a class. At each point of the step, all ranks of a class are in the same
 * state, so executing one of them suffices. A step without such symmetry gets one class per rank. The probability that
 * two different ranks get the same color by a hash collision is below 1 in 10,000 for 2^24 different ranks, and below 1
 * in 10^13 for a thousand.
 */
#ifndef BB_PROXIES_SIMULATION_SIMULATE_GRAPH_RANK_CLASSES_H
#define BB_PROXIES_SIMULATION_SIMULATE_GRAPH_RANK_CLASSES_H

#include "proxies/form/step/step.h"
#include "proxies/simulation/simulate/graph/faults.h"
#include "proxies/simulation/simulate/graph/task_graph.h"

#include <stdint.h>

struct bb_rank_classes {
    int n;
    int *of;    /* [ranks] index of each rank's class, 0 to n - 1 */
    int *rank;  /* [n] lowest rank of each class */
    int *ranks; /* [n] number of ranks in each class */
};

#define BB_RANK_RESOURCES 3

/* Properties that put ranks in different classes even if their programs and peers are equivalent. A zeroed struct
 * means: there are none. */
struct bb_rank_marks {
    const uint64_t *mark;     /* [ranks] ranks with different values are put in different classes; NULL: not used */
    struct bb_rank_resource { /* resources of one kind, for example all NICs; several ranks may share one of them */
        int *of; /* of: [ranks] index (0 to n - 1) of the NIC, leaf or pod that the rank uses; n: number of these
                    resources */
        int n;
    } resources[BB_RANK_RESOURCES];
    int n_resources;
    /* Returns a number for the kind of link over which rank `from` sends to rank `to`: equal numbers mean the same
     * kind. NULL: there are two kinds, within a node and between nodes. */
    int (*link_kind)(const void *arg, int from, int to);
    const void *arg;
    bool all_distinct; /* true: each rank gets a separate class */
};

/*
 * bb_rank_classes_init - finds the classes of equivalent ranks.
 *   graphs         [n_roles] task graph of each role's program (step->roles)
 *   gpus_per_node  0: all links are of the same kind; > 0: links within a node (equal rank / gpus_per_node) and links
 *                  between nodes are of different kinds
 *   marks          additional properties that put ranks in different classes
 *   faults         out: an error for each rank that uses a communicator without being a member, and for each peer that
 *                  does not exist; after such an error c->n is 0
 *   Owner          the caller releases c with bb_rank_classes_release
 */
void bb_rank_classes_init(struct bb_rank_classes *c, const struct bb_step *step, const struct bb_task_graph *graphs,
                          int gpus_per_node, const struct bb_rank_marks *marks, struct bb_faults *faults);
void bb_rank_classes_release(struct bb_rank_classes *c);

/* bb_channel_rank - returns the world rank to which the peer address `channel` (struct bb_channel) leads when `rank`
 * uses it. */
int bb_channel_rank(const struct bb_layout *l, const struct bb_channel *channel, int rank);

/*
 * Iterator over the peer addresses by which rank `from` addresses rank `to` on a communicator of which both are
 * members. A program can contain two kinds of peer addresses (struct bb_channel), absolute and relative, and several of
 * them may lead to the same rank. Returns the index of each such peer address in the task graph of `from`'s role once,
 * in no particular order.
 *
 *     struct bb_channels_to m = bb_channels_to(l, graph, comm, from, to);
 *     for (int c; (c = bb_channels_to_next(&m)) != BB_NONE;)
 */
struct bb_channels_to {
    const struct bb_task_graph *graph;
    int comm, absolute; /* absolute: rank of `to` in the communicator, which is its absolute peer address; BB_NONE
                           after this address has been looked up */
    long long offset;   /* next relative peer address to look up: (rank of `to`) - (rank of `from`) + a multiple of
                           `size`, the number of ranks of the communicator */
    int size;
};

struct bb_channels_to bb_channels_to(const struct bb_layout *l, const struct bb_task_graph *graph, int comm, int from,
                                     int to);
int bb_channels_to_next(struct bb_channels_to *m);

static inline bool bb_same_node(int gpus_per_node, int a, int b) /* returns whether ranks a and b are on the same
                                                                    node; gpus_per_node 0: all ranks are on one node */
{
    return gpus_per_node < 1 || a / gpus_per_node == b / gpus_per_node;
}

/* bb_group_nodes - returns the number of nodes on which the members of one communicator are placed. group, instance:
 * which communicator (instance i of a group, for example the i-th tensor-parallel group; layout.h). Members are in
 * rank order, so members on one node are consecutive. */
int bb_group_nodes(const struct bb_layout *l, int group, int instance, int gpus_per_node);

/*
 * bb_comm_size - returns the number of ranks of a communicator.
 * bb_comm_instance - returns which of the communicators of this name (for example which tensor-parallel group,
 * layout.h) contains the rank; BB_NONE if the rank is not a member of any.
 * bb_comm_index - returns the rank's rank in this communicator.
 */
int bb_comm_size(const struct bb_layout *l, int comm);
int bb_comm_instance(const struct bb_layout *l, int comm, int rank);
int bb_comm_index(const struct bb_layout *l, int comm, int rank);

#endif
