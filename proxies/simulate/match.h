/*
 * match.h - abstract execution of a step on all ranks: one rank of each class is executed, and operations of different
 * ranks are matched. Internal to the checks (does everything match? does the step end?) and to the prediction (when
 * does each operation end?).
 *
 * A collective ends when all members of its communicator have reached it. The k-th send from rank a to rank b on a
 * communicator matches the k-th receive of b from a there. An exchange (the sends and receives of one group call) ends
 * when all its messages have reached their peers, so its messages progress together. An alltoallv is also an exchange:
 * it matches the alltoallv of the same order on each rank to which it sends or from which it receives. Times follow
 * profiles/clusters/README.md. Without contention every time is a maximum of sums, so the order of execution does not
 * matter. With contention (contention_sim.h) tasks are executed in the order of time.
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

/* A communicator instance that runs collectives: its members, one of each class. */
struct bb_sim_instance {
    int comm, size;        /* size: ranks of the communicator */
    int first, n;          /* bb_sim.members[first .. first + n) */
    int base, collectives; /* base: first entry in bb_sim_run.collectives; collectives: maximum over the members */
    int nodes;             /* nodes on which the members are */
    struct bb_node_placement placement;
};

struct bb_member {
    int class_id, rank; /* rank: world rank of this member */
    struct bb_tier_members tier_members;
};

/* The matching operation of a message: world rank of the peer and task of its class; BB_NONE: no match. */
struct bb_sim_side {
    int rank, task;
};

/* A member of a communicator on which a class runs alltoallv. */
struct bb_alltoallv_peer {
    int class_id, rank; /* rank: world rank of the member, in the communicator of the class's lowest rank */
};

struct bb_sim {
    const struct bb_step *step;
    const struct bb_cluster *cluster; /* NULL: no times are computed */
    struct bb_cluster marked;         /* the copy that cluster points to when a leaf is slow (slow.h) */
    struct bb_conditions conditions;
    struct bb_task_graph *graphs; /* [n_roles] */
    struct bb_rank_classes classes;
    const struct bb_task_graph **graph_of; /* [classes] */
    int *op_base, *task_base;              /* [classes + 1] first operation and first task of each class */
    struct bb_sim_side *sides;             /* [all operations] */
    int *instance_of;                      /* [classes][n_comms] index of the instance; BB_NONE: no collectives there */
    struct bb_sim_instance *instances;
    struct bb_member *members;
    int n_instances, n_members, n_collectives;
    int *first_peer_of; /* [classes][n_comms] first of the communicator's members in `peers`; BB_NONE: no alltoallv
                           there */
    struct bb_alltoallv_peer *peers;
    int n_peers;
};

/* The state of each task and of each collective. */
struct bb_sim_run {
    bool serialised;
    struct bb_sim_task {  /* 64 bytes, a cache line: a step of many ranks has millions of tasks, and one event reads
                            several */
        int before;       /* dependencies that have not ended */
        int open;         /* messages, or peers of an alltoallv, that have no match yet */
        int64_t begin_ns; /* time that an event recorded in front of the task on its stream would have */
        int64_t arrival_ns, end_ns;
        int64_t met_ns;       /* communication: latest begin_ns of the peers */
        int64_t alone_end_ns; /* with contention: end of the task if it ran alone */
        union {
            int64_t host_ns; /* before the arrival: host time before the launch */
            double load_ns;  /* exchange, from its arrival: time that the rank's links need for all its messages */
        };
        int flow; /* exchange: its flow in contention_sim.h */
        enum bb_limit limit : 8;
        bool arrived : 1, ended : 1;
    } * tasks; /* [task_base[class] + task] */
    struct bb_sim_collective {
        int n_arrived;                      /* number of members that have reached the collective */
        int64_t latest_ns, latest_begin_ns; /* arrival and begin of the last of them */
    } * collectives;                        /* [n_collectives] */
    int64_t *issued_ns;                     /* [classes] host time when everything is issued */
    struct bb_sim_busy {
        double link_ns, nic_ns, uplink_ns[BB_TIERS]; /* time that the traffic needs on this resource, in its busier
                                                        direction */
    } * busy;                                        /* [classes] with contention; else NULL */
    int n_ended;
};

/*
 * bb_sim_init - prepares the step.
 *   cluster     its times and nodes are used; NULL: no times, one node; owned by the caller
 *   conditions  slow parts and jitter; NULL: none
 *   faults      out: operations that do not match (checks 1 and 2 of step_check.h). After faults of
 *               bb_rank_classes_init m->classes.n is 0 and the step cannot be executed.
 *   Returns     0 or -BB_EFAIL
 *   Owner       the caller releases m with bb_sim_release
 */
int bb_sim_init(struct bb_sim *m, const struct bb_step *step, const struct bb_cluster *cluster,
                const struct bb_conditions *conditions, struct bb_faults *faults) BB_MUST_CHECK;
void bb_sim_release(struct bb_sim *m);

/* class_refinement.c, for bb_sim_init: finds the rank classes on this machine. */
int bb_sim_find_classes(struct bb_sim *m, struct bb_faults *faults) BB_MUST_CHECK;

/*
 * bb_simulate - executes the step.
 *   serialised  each rank runs its tasks one after another, in issue order
 *   run         out: released by the caller with bb_sim_run_release. All tasks ended, and so there is no deadlock, if
 *               run->n_ended == task_base[classes.n].
 */
int bb_simulate(const struct bb_sim *m, bool serialised, struct bb_sim_run *run) BB_MUST_CHECK;
void bb_sim_run_release(struct bb_sim_run *run);
/* bb_simulate_samples - executes the step `samples` times with different jitter. step_ns: out, [samples]. The step
 * must be free of deadlock. */
int bb_simulate_samples(struct bb_sim *m, int samples, int64_t *step_ns) BB_MUST_CHECK;
int64_t bb_sim_step_ns(const struct bb_sim *m, const struct bb_sim_run *run); /* the step time of the slowest rank */

static inline const struct bb_task_graph *bb_sim_task_graph(const struct bb_sim *m, int class_id)
{
    return m->graph_of[class_id];
}

/* bb_sim_alltoallv_task - the task of class_id that is its alltoallv number `order` on the communicator; BB_NONE: it
 * has none. */
static inline int bb_sim_alltoallv_task(const struct bb_sim *m, int class_id, int comm, int order)
{
    const struct bb_task_graph *graph = bb_sim_task_graph(m, class_id);

    return order < graph->n_alltoallvs[comm] ? m->task_base[class_id] + graph->alltoallvs[comm][order] : BB_NONE;
}

/* bb_sim_member_task - the task of the i-th member of the instance that is its collective number `order` there. */
static inline int bb_sim_member_task(const struct bb_sim *m, const struct bb_sim_instance *inst, int i, int order)
{
    int class_id = m->members[inst->first + i].class_id;

    return m->task_base[class_id] + bb_sim_task_graph(m, class_id)->collectives[inst->comm][order];
}

#endif
