/*
 * match.h - abstract execution of a step on all ranks: one rank of each class of equivalent ranks (rank_classes.h) is
 * executed, and operations of different ranks are matched. The checks use this module to find mismatches and deadlocks,
 * and the prediction uses it to compute when each operation ends.
 *
 * A collective ends when all members of its communicator have called it. The k-th send from rank a to rank b on a
 * communicator matches the k-th receive of b from a on this communicator. An exchange (the sends and receives of one
 * group call) ends when all its messages have reached their peers, so its messages progress together. An alltoallv
 * behaves like an exchange: it matches the alltoallv with the same sequence number on each rank to which it sends or
 * from which it receives. Times follow the cost model of profiles/clusters/README.md. Without contention every time is
 * a maximum of sums, so tasks may be executed in any order that respects their dependencies. With contention
 * (contention_sim.h) tasks are executed in the order of their start times.
 */
#ifndef BB_PROXIES_SIMULATE_MATCH_H
#define BB_PROXIES_SIMULATE_MATCH_H

#include "proxies/machine/cluster.h"
#include "proxies/simulate/conditions.h"
#include "proxies/simulate/graph/faults.h"
#include "proxies/simulate/graph/rank_classes.h"
#include "proxies/simulate/group_placement.h"
#include "proxies/simulate/limits.h"

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
    int *op_base, *task_base;  /* [classes of ranks + 1] number of the first operation (op_base) or task (task_base)
                                  of each class; all classes are numbered consecutively */
    struct bb_sim_side *sides; /* [op_base[class] + operation] peer of each send and receive; unused for other
                                  operations */
    int *instance_of; /* [classes of ranks][n_comms] index in `instances` of the communicator to which the class's
                         lowest rank belongs; BB_NONE: the communicator runs no collectives */
    struct bb_sim_instance *instances;
    struct bb_member *members;
    int n_instances, n_members, n_collectives;
    int *first_peer_of; /* [classes of ranks][n_comms] index in `peers` of the first member of the communicator to
                           which the class's lowest rank belongs; BB_NONE: the communicator runs no alltoallv */
    struct bb_alltoallv_peer *peers;
    int n_peers;
};

/* The state, and finally the result, of one simulated execution of the step. */
struct bb_sim_run {
    bool serialised;
    struct bb_sim_task { /* size: 64 bytes, one cache line, because a step of many ranks has millions of tasks, and
                            each event reads several of them */
        int before;      /* number of dependencies (tasks that must end before this task starts) that have not ended */
        int open;        /* exchange: number of messages whose end time is not known yet; alltoallv: number of peers for
                            whose messages the end time is not known yet */
        int64_t begin_ns; /* time at which the stream reaches the task: the time of a CUDA event recorded immediately
                             before it */
        int64_t arrival_ns, end_ns;
        /* communication: time until which the task waits for other ranks. Collective: latest begin_ns of all
         * members' tasks. Exchange, alltoallv: latest begin_ns of the peers' tasks, which may be earlier than this
         * task's begin_ns */
        int64_t met_ns;
        int64_t alone_end_ns; /* with contention: time at which the task would have ended if no other operation had
                                 slowed it down */
        union {
            int64_t host_ns; /* until the task starts: host time at which its kernel launch or NCCL call begins */
            double load_ns;  /* exchange and alltoallv, after the start: ns that the rank's links need, without
                                contention, for all messages of the task */
        };
        int flow; /* exchange and alltoallv: index of the task's transfer (struct bb_flow) in the contention
                     simulator */
        enum bb_limit limit : 8;
        bool arrived : 1, ended : 1;
    } * tasks; /* task t of class c of equivalent ranks has the index task_base[c] + t */
    struct bb_sim_collective {
        int n_arrived; /* number of listed members (bb_sim.members, one per class of ranks) that have called the
                          collective */
        int64_t latest_ns, latest_begin_ns; /* latest arrival_ns and latest begin_ns among the members that have
                                               called the collective */
    } * collectives;                        /* collective k of a communicator has the index bb_sim_instance.base + k */
    int64_t *issued_ns; /* [classes of ranks] host time at which a rank of the class has issued its whole program */
    struct bb_sim_busy {
        double link_ns, nic_ns, uplink_ns[BB_TIERS]; /* ns for which traffic keeps the links, the NIC and the uplinks
                                                        busy, in the direction with more traffic */
    } * busy;                                        /* [classes of ranks]; NULL if contention is not simulated */
    int n_ended;
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

/*
 * bb_simulate - executes the step.
 *   serialised  true: each rank runs its tasks one after another in the order in which the host issues them
 *   run         out: the caller releases it with bb_sim_run_release. The step is free of deadlock if all its tasks
 *               ended: run->n_ended == task_base[classes.n].
 */
void bb_simulate(const struct bb_sim *m, bool serialised, struct bb_sim_run *run);
void bb_sim_run_release(struct bb_sim_run *run);
/* bb_simulate_samples - executes the step `samples` times, each time with different jitter. step_ns: out, [samples].
 * The step must be free of deadlock. */
void bb_simulate_samples(struct bb_sim *m, int samples, int64_t *step_ns);
int64_t bb_sim_step_ns(const struct bb_sim *m, const struct bb_sim_run *run); /* returns the step time of the slowest
                                                                                 rank, in ns */

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
