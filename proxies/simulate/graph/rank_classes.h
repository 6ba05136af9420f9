/*
 * rank_classes.h - classes of ranks that behave identically. A step of 100,000 ranks is checked and predicted by
 * executing one rank per class.
 *
 * Two ranks are of the same class if they run the same program (have the same role), use links of the same kinds, and
 * if their peers and the members of all their collectives are, in turn, of the same classes. The classes are the
 * coarsest such partition, found by partition refinement (Paige and Tarjan, "Three partition refinement algorithms",
 * SIAM J. Comput. 16(6), 1987). Each rank has a color, and ranks of the same final color form a class: each round
 * replaces a rank's color by a hash of this color and the colors of the rank's peers, until the number of colors no
 * longer grows. At each point of the step, all ranks of a class are in the same state, so executing one of them
 * suffices. A step without such symmetry gets one class per rank. Colors are 64-bit hashes: the probability of any
 * collision is below 1 in 10,000 for 2^24 different ranks, and below 1 in 10^13 for a thousand.
 */
#ifndef BB_PROXIES_SIMULATE_GRAPH_RANK_CLASSES_H
#define BB_PROXIES_SIMULATE_GRAPH_RANK_CLASSES_H

#include "proxies/simulate/graph/faults.h"
#include "proxies/simulate/graph/task_graph.h"
#include "proxies/step/step.h"

#include <stdint.h>

struct bb_rank_classes {
    int n;
    int *of;    /* [ranks] index of each rank's class, 0 to n - 1 */
    int *rank;  /* [n] lowest rank of each class */
    int *ranks; /* [n] number of ranks in each class */
};

#define BB_RANK_RESOURCES 3

/* Properties that put ranks in different classes even if their programs and peers are equivalent. All fields zero:
 * no such properties. */
struct bb_rank_marks {
    const uint64_t *mark;     /* [ranks] any value per rank; ranks with different values are of different classes; NULL:
                                 not used */
    struct bb_rank_resource { /* the resources of one kind, for example all NICs; several ranks may share a resource */
        int *of; /* of: [ranks] index of the resource that the rank uses, 0 to n - 1; n: number of resources */
        int n;
    } resources[BB_RANK_RESOURCES];
    int n_resources;
    /* Returns a number for the kind of the link from one rank to another. Links with different numbers are of
     * different kinds. NULL: the only two kinds are links within a node and links between nodes. */
    int (*link_kind)(const void *arg, int from, int to);
    const void *arg;
    bool all_distinct; /* true: each rank gets a separate class */
};

/*
 * bb_rank_classes_init - finds the classes of equivalent ranks.
 *   graphs         [n_roles] task graphs of step->roles
 *   gpus_per_node  0: all links are of the same kind; > 0: links within a node (equal rank / gpus_per_node) and links
 *                  between nodes are of different kinds
 *   marks          further properties that distinguish ranks
 *   faults         out: ranks that use a communicator but are not members of its group, and peers that do not exist;
 *                  after such a fault c->n is 0
 *   Returns        0 or -BB_EFAIL
 *   Owner          the caller releases c with bb_rank_classes_release
 */
int bb_rank_classes_init(struct bb_rank_classes *c, const struct bb_step *step, const struct bb_task_graph *graphs,
                         int gpus_per_node, const struct bb_rank_marks *marks, struct bb_faults *faults) BB_MUST_CHECK;
void bb_rank_classes_release(struct bb_rank_classes *c);

/* bb_channel_rank - returns the world rank of the peer that `rank` addresses by a channel (task_graph.h). */
int bb_channel_rank(const struct bb_layout *l, const struct bb_channel *channel, int rank);

/*
 * Iterator over the channels by which rank `from` addresses rank `to`. A channel is one peer address in the program of
 * a role (task_graph.h); an absolute and a relative address may lead to the same rank. Returns each such channel of
 * `from`'s role once, in no particular order. Both ranks are members of the same instance of the communicator.
 *
 *     struct bb_channels_to m = bb_channels_to(l, graph, comm, from, to);
 *     for (int c; (c = bb_channels_to_next(&m)) != BB_NONE;)
 */
struct bb_channels_to {
    const struct bb_task_graph *graph;
    int comm, absolute; /* absolute: index of `to` in the communicator, which is its absolute peer address; BB_NONE
                           after this address has been looked up */
    long long offset;   /* next relative peer address to look up: (index of `to`) - (index of `from`) + a multiple of
                           `size`, the number of ranks of the communicator */
    int size;
};

struct bb_channels_to bb_channels_to(const struct bb_layout *l, const struct bb_task_graph *graph, int comm, int from,
                                     int to);
int bb_channels_to_next(struct bb_channels_to *m);

static inline bool bb_same_node(int gpus_per_node, int a, int b) /* gpus_per_node 0: all ranks are on one node */
{
    return gpus_per_node < 1 || a / gpus_per_node == b / gpus_per_node;
}

/* bb_group_nodes - returns the number of nodes on which the members of one instance of a group are placed (layout.h:
 * a group splits the ranks into instances of equal size). Members are in rank order, so members on the same node are
 * consecutive. */
int bb_group_nodes(const struct bb_layout *l, int group, int instance, int gpus_per_node);

/*
 * bb_comm_size - returns the number of ranks of a communicator.
 * bb_comm_instance - returns the instance of the communicator's group (layout.h) to which the rank belongs; BB_NONE if
 * the rank is not a member.
 * bb_comm_index - returns the rank's index in this instance, which is its rank in the communicator.
 */
int bb_comm_size(const struct bb_layout *l, int comm);
int bb_comm_instance(const struct bb_layout *l, int comm, int rank);
int bb_comm_index(const struct bb_layout *l, int comm, int rank);

#endif
