/*
 * match.h - abstract execution of a step on all ranks: one rank of each class (rank_classes.h: ranks that behave
 * identically) is executed, and operations of different ranks are matched. The checks use this module to find
 * mismatches and deadlocks, and the prediction to compute when each operation ends.
 *
 * A collective ends when all members of its communicator have reached it. The k-th send from rank a to rank b on a
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

/* One instance (layout.h) of a communicator that runs collectives, for example one tensor-parallel group of ranks.
 * bb_sim.members lists only one of its members per rank class. */
struct bb_sim_instance {
    int comm, size;        /* size: number of ranks of the communicator */
    int first, n;          /* the listed members: bb_sim.members[first .. first + n) */
    int base, collectives; /* base: index of the first collective of this instance in bb_sim_run.collectives;
                              collectives: number of collectives of this instance, maximum over the members */
    int nodes;             /* number of nodes on which the members are placed */
    struct bb_node_placement placement;
};

struct bb_member {
    int class_id, rank; /* rank: world rank of this member */
    struct bb_tier_members tier_members;
};

/* The peer's side of a message. rank: world rank of the peer; task: index in bb_sim_run.tasks of the peer's task
 * with the matching operation. Both are BB_NONE if no operation matches. */
struct bb_sim_side {
    int rank, task;
};

/* One member of a communicator instance (layout.h) that runs alltoallvs. For each rank class with alltoallvs,
 * bb_sim.peers lists all members of the instance that contains the lowest rank of the class. */
struct bb_alltoallv_peer {
    int class_id, rank; /* class and world rank of the member */
};

struct bb_sim {
    const struct bb_step *step;
    const struct bb_cluster *cluster; /* NULL: no times are computed */
    /* Copy of the caller's cluster. `cluster` points to this copy if slow GPUs, NICs or links are injected (slow.h);
     * fabric.slow_leaf of the copy is set if leaf uplinks are slow. */
    struct bb_cluster marked;
    struct bb_conditions conditions;
    struct bb_task_graph *graphs; /* [n_roles] task graph of each role (ranks of a role run the same program) */
    struct bb_rank_classes classes;
    const struct bb_task_graph **graph_of; /* [classes] task graph of the class's role */
    int *op_base, *task_base;  /* [classes + 1] number of the first operation (task) of each class; the operations
                                  (tasks) of all classes are numbered consecutively */
    struct bb_sim_side *sides; /* [op_base[class] + operation] the peer's side of each send and receive; unused for
                                  other operations */
    int *instance_of;          /* [classes][n_comms] index in `instances` of the class's instance of each communicator;
                                  BB_NONE: no collectives on this communicator */
    struct bb_sim_instance *instances;
    struct bb_member *members;
    int n_instances, n_members, n_collectives;
    int *first_peer_of; /* [classes][n_comms] index in `peers` of the first member of the class's instance of each
                           communicator; BB_NONE: no alltoallv on this communicator */
    struct bb_alltoallv_peer *peers;
    int n_peers;
};

/* The state, and finally the result, of one simulated execution of the step. */
struct bb_sim_run {
    bool serialised;
    struct bb_sim_task { /* 64 bytes, one cache line: a step of many ranks has millions of tasks, and each event
                            reads several tasks */
        int before;      /* number of tasks on which this task depends and that have not ended */
        int open; /* exchange: number of messages whose end time is not known yet; alltoallv: number of peers whose
                     messages have no known end time yet */
        int64_t begin_ns; /* time that a CUDA event recorded immediately before the task on its stream would show */
        int64_t arrival_ns, end_ns;
        /* communication: time until which the task waits for its participants, the latest begin_ns of all members'
         * tasks (collective) or of the peers' tasks (exchange, alltoallv; may be earlier than begin_ns) */
        int64_t met_ns;
        int64_t alone_end_ns; /* with contention: time at which the task would end without contention */
        union {
            int64_t host_ns; /* before the task starts: host time at which its launch begins */
            double load_ns;  /* exchange and alltoallv, after the start: time that the rank's links need for all
                                messages of the task */
        };
        int flow; /* exchange and alltoallv: index of the task's flow in the contention simulator (flows.h) */
        enum bb_limit limit : 8;
        bool arrived : 1, ended : 1;
    } * tasks; /* task t of class c has the index task_base[c] + t */
    struct bb_sim_collective {
        int n_arrived; /* number of listed members (one per class) that have reached the collective */
        int64_t latest_ns, latest_begin_ns; /* latest arrival_ns and latest begin_ns of the members that have reached
                                               the collective */
    } * collectives;    /* collective k of a communicator instance has the index bb_sim_instance.base + k */
    int64_t *issued_ns; /* [classes] host time at which a rank of the class has issued its whole program */
    struct bb_sim_busy {
        double link_ns, nic_ns, uplink_ns[BB_TIERS]; /* time for which the links, the NIC and the uplinks are busy,
                                                        in the direction with more traffic */
    } * busy;                                        /* [classes]; NULL without contention */
    int n_ended;
};

/*
 * bb_sim_init - prepares a step for execution.
 *   cluster     the machine, which determines times and nodes; NULL: no times, and all ranks on one node; owned by the
 *               caller
 *   conditions  injected slow GPUs, NICs and links, and jitter; NULL: none
 *   faults      out: collectives and messages that do not match (step_check.h). If bb_rank_classes_init reports a
 *               fault, m->classes.n is 0 and the step cannot be executed.
 *   Returns     0 or -BB_EFAIL
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
 *   serialised  true: each rank runs its tasks one after another, in issue order
 *   run         out: the caller releases it with bb_sim_run_release. The step is free of deadlock if all its tasks
 *               ended: run->n_ended == task_base[classes.n].
 *   Returns     0 or -BB_EFAIL
 */
int bb_simulate(const struct bb_sim *m, bool serialised, struct bb_sim_run *run) BB_MUST_CHECK;
void bb_sim_run_release(struct bb_sim_run *run);
/* bb_simulate_samples - executes the step `samples` times, each time with different jitter. step_ns: out, [samples].
 * The step must be free of deadlock. Returns 0 or -BB_EFAIL. */
int bb_simulate_samples(struct bb_sim *m, int samples, int64_t *step_ns) BB_MUST_CHECK;
int64_t bb_sim_step_ns(const struct bb_sim *m, const struct bb_sim_run *run); /* returns the step time of the slowest
                                                                                 rank */

static inline const struct bb_task_graph *bb_sim_task_graph(const struct bb_sim *m, int class_id)
{
    return m->graph_of[class_id];
}

/* bb_sim_alltoallv_task - returns the task of alltoallv number `order` of class_id on the communicator, or BB_NONE
 * if the class has fewer alltoallvs. */
static inline int bb_sim_alltoallv_task(const struct bb_sim *m, int class_id, int comm, int order)
{
    const struct bb_task_graph *graph = bb_sim_task_graph(m, class_id);

    return order < graph->n_alltoallvs[comm] ? m->task_base[class_id] + graph->alltoallvs[comm][order] : BB_NONE;
}

/* bb_sim_member_task - returns the task of collective number `order` for the i-th listed member of this communicator
 * instance. */
static inline int bb_sim_member_task(const struct bb_sim *m, const struct bb_sim_instance *inst, int i, int order)
{
    int class_id = m->members[inst->first + i].class_id;

    return m->task_base[class_id] + bb_sim_task_graph(m, class_id)->collectives[inst->comm][order];
}

#endif
