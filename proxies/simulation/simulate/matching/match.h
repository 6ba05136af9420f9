/*
 * match.h - matches the operations of different ranks of a step, for one rank of each class of equivalent ranks
 * (rank_classes.h). The checks report operations that do not match; engine/simulate.h executes the matched operations.
 *
 * A collective ends when all members of its communicator have called it. The k-th send from rank a to rank b on a
 * communicator matches the k-th receive of b from a on this communicator. An exchange (the sends and receives of one
 * group call) ends when all its messages have reached their peers, so its messages progress together. An alltoallv
 * behaves like an exchange: it matches the alltoallv with the same sequence number on each rank to which it sends or
 * from which it receives.
 */
#ifndef BB_PROXIES_SIMULATION_SIMULATE_MATCHING_MATCH_H
#define BB_PROXIES_SIMULATION_SIMULATE_MATCHING_MATCH_H

#include "proxies/simulation/machine/cluster.h"
#include "proxies/simulation/simulate/graph/faults.h"
#include "proxies/simulation/simulate/graph/rank_classes.h"
#include "proxies/simulation/simulate/matching/conditions.h"
#include "proxies/simulation/simulate/matching/group_placement.h"

#include <stdint.h>

/* One communicator that runs collectives, for example that of one of the tensor-parallel groups. bb_sim.members
 * lists only one of its members per class of equivalent ranks. */
struct bb_sim_instance {
    int comm, size;        /* comm: index in layout.comms; size: number of ranks of the communicator */
    int first, n;          /* listed members, one per class of ranks: bb_sim.members[first .. first + n) */
    int base, collectives; /* base: index in bb_sim_run.collectives of the communicator's first collective;
                              collectives: number of its collectives, maximum over the members */
    int nodes;             /* number of nodes on which the members are placed */
    struct bb_node_placement placement;
};

struct bb_member {
    int class_id, rank; /* rank: world rank of the member; class_id: its class of equivalent ranks */
    struct bb_tier_members tier_members;
};

/* The peer of a send or receive. rank: world rank of the peer; task: index in bb_sim_run.tasks of the peer's task
 * with the matching operation. Both are BB_NONE if no operation matches. */
struct bb_sim_side {
    int rank, task;
};

/* One member of a communicator that runs alltoallvs. For each class of equivalent ranks with alltoallvs,
 * bb_sim.peers lists all members of the communicator that contains the lowest rank of the class. */
struct bb_alltoallv_peer {
    int class_id, rank; /* rank: world rank of the member; class_id: its class of equivalent ranks */
};

struct bb_sim {
    const struct bb_step *step;
    const struct bb_cluster *cluster; /* NULL: no times are computed */
    /* Copy of the caller's cluster, to which `cluster` points if slow GPUs, NICs or links are injected (slow.h). In
     * the copy, fabric.slow_leaf is true if leaf uplinks are slow. */
    struct bb_cluster marked;
    struct bb_conditions conditions;
    struct bb_task_graph *graphs; /* [n_roles] task graph of each role's program */
    struct bb_rank_classes classes;
    const struct bb_task_graph **graph_of; /* [classes of ranks] task graph of the program that the class runs */
    int *op_base, *task_base;  /* [classes of ranks + 1] number of operations (op_base) or tasks (task_base) of all
                                  earlier classes, which is the number of the class's first operation or task */
    struct bb_sim_side *sides; /* [op_base[class] + operation] peer of each send and receive; unused for other
                                  operations */
    int *instance_of; /* [classes of ranks][n_comms] index in `instances` of the communicator to which the class's
                         lowest rank belongs; BB_NONE: the communicator runs no collectives */
    struct bb_sim_instance *instances; /* [n_instances] communicators that run collectives */
    struct bb_member *members;         /* [n_members] listed members of each of these communicators, consecutive */
    int n_instances, n_members, n_collectives;
    int *first_peer_of; /* [classes of ranks][n_comms] index in `peers` of the first member of the communicator to
                           which the class's lowest rank belongs; BB_NONE: the communicator runs no alltoallv */
    struct bb_alltoallv_peer *peers;
    int n_peers;
};

/*
 * bb_sim_init - prepares a step for execution.
 *   cluster     the machine, which determines times and nodes; NULL: no times, and all ranks on one node; owned by the
 *               caller
 *   conditions  injected slow GPUs, NICs and links, and jitter; NULL: none
 *   faults      out: collectives and messages that do not match (step_check.h). If bb_rank_classes_init reports a
 *               fault, m->classes.n is 0 and the step cannot be executed.
 *   Returns     0, or -BB_EUSAGE after printing an error line: too many operations in different classes of ranks
 *   Owner       the caller releases m with bb_sim_release
 */
int bb_sim_init(struct bb_sim *m, const struct bb_step *step, const struct bb_cluster *cluster,
                const struct bb_conditions *conditions, struct bb_faults *faults) BB_MUST_CHECK;
void bb_sim_release(struct bb_sim *m);

/* bb_sim_find_classes - finds the classes of equivalent ranks on this machine (class_refinement.c); called by
 * bb_sim_init. */
int bb_sim_find_classes(struct bb_sim *m, struct bb_faults *faults) BB_MUST_CHECK;

static inline const struct bb_task_graph *bb_sim_task_graph(const struct bb_sim *m, int class_id)
{
    return m->graph_of[class_id];
}

/* bb_sim_alltoallv_task - returns the index in bb_sim_run.tasks of the class's alltoallv with sequence number
 * `order` on the communicator; BB_NONE if the class has fewer alltoallvs. */
static inline int bb_sim_alltoallv_task(const struct bb_sim *m, int class_id, int comm, int order)
{
    const struct bb_task_graph *graph = bb_sim_task_graph(m, class_id);

    return order < graph->n_alltoallvs[comm] ? m->task_base[class_id] + graph->alltoallvs[comm][order] : BB_NONE;
}

/* bb_sim_member_task - returns the index in bb_sim_run.tasks of the collective with sequence number `order` on this
 * communicator, for listed member i (bb_sim.members). */
static inline int bb_sim_member_task(const struct bb_sim *m, const struct bb_sim_instance *inst, int i, int order)
{
    int class_id = m->members[inst->first + i].class_id;

    return m->task_base[class_id] + bb_sim_task_graph(m, class_id)->collectives[inst->comm][order];
}

#endif
