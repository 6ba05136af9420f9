/*
 * match.h - all ranks of a step at once, executed abstractly: one rank of each class, with rendezvous between them.
 * Internal to the checks (does it match? does it end?) and the prediction (when does it end?).
 *
 * A collective ends when all members of its communicator have come to it. A send meets the receive that is the k-th
 * from that rank on that communicator as it is the k-th to it; an exchange ends when all its messages have met their
 * other side, so that what one group call holds progresses together. An alltoallv is such an exchange: it meets those of
 * its order on the communicator of all to whom it sends or from whom it receives. Time, where it is asked for, follows
 * profiles/clusters/README.md. On a machine that shares nothing every time is a maximum of sums, and the order of
 * execution does not matter; on one that shares (contention_sim.h) it is executed in the order of time.
 */
#ifndef BB_PROXIES_SIMULATE_MATCH_H
#define BB_PROXIES_SIMULATE_MATCH_H

#include "proxies/machine/cluster.h"
#include "proxies/simulate/conditions.h"
#include "proxies/simulate/graph/faults.h"
#include "proxies/simulate/graph/rank_classes.h"
#include "proxies/simulate/limits.h"
#include "proxies/simulate/group_placement.h"

#include <stdint.h>

/* The ranks of one communicator instance that run collectives together, one of each class. */
struct bb_sim_instance {
    int comm, size;        /* size: members of the communicator                  */
    int first, n;          /* bb_sim.members[first .. first + n)                */
    int base, collectives; /* states of its collectives; the most of any member */
    int nodes;             /* that the members are on                            */
    struct bb_node_placement placement;
};

struct bb_member {
    int class_id, rank; /* rank: the member itself, for messages */
    struct bb_tier_members tier_members;
};

/* The other side of a message: the peer's rank, and the task of its class; BB_NONE: nobody. */
struct bb_sim_side {
    int rank, task;
};

/* Another place of a communicator that a class has an alltoallv on. */
struct bb_alltoallv_peer {
    int class_id, rank; /* rank: the mate itself, of the class's lowest rank */
};

struct bb_sim {
    const struct bb_step *step;
    const struct bb_cluster *cluster; /* NULL: no times                                    */
    struct bb_cluster marked;         /* what it points to where a leaf is slow (slow.h) */
    struct bb_conditions conditions;
    struct bb_task_graph *graphs; /* [n_roles]      */
    struct bb_rank_classes classes;
    const struct bb_task_graph **graph_of; /* [classes] */
    int *op_base, *task_base;              /* [classes + 1] where the operations and tasks of a class begin */
    struct bb_sim_side *sides;             /* [all operations] */
    int *instance_of;                    /* [classes][n_comms], BB_NONE: none */
    struct bb_sim_instance *instances;
    struct bb_member *members;
    int n_instances, n_members, n_collectives;
    int *first_peer_of; /* [classes][n_comms] where the places begin, BB_NONE: it has no alltoallv there */
    struct bb_alltoallv_peer *peers;
    int n_peers;
};

/* What became of each task, and of each collective. */
struct bb_sim_run {
    bool serialised;
    struct bb_sim_task {  /* 64 bytes: a step of many ranks has millions, and an event looks at several */
        int before;       /* tasks that it still waits for               */
        int open;         /* messages of it, or places, that have not met */
        int64_t begin_ns; /* when an event in front of it on its stream would be reached */
        int64_t arrival_ns, end_ns;
        int64_t met_ns;       /* communication: begin_ns of the last of those that it meets  */
        int64_t alone_end_ns; /* on a machine that shares: when it would have ended by itself */
        union {
            int64_t host_ns; /* until it arrives: host time before its launch              */
            double load_ns;  /* exchange, then: that the rank's links need for all its messages */
        };
        int flow; /* exchange: of contention_sim.h */
        enum bb_limit limit : 8;
        bool arrived : 1, ended : 1;
    } * tasks; /* task_base[class] + task */
    struct bb_sim_collective {
        int n_arrived;                           /* members at the collective  */
        int64_t latest_ns, latest_begin_ns; /* arrival and begin of the last of them */
    } * collectives;                         /* [n_collectives]                      */
    int64_t *issued_ns;                     /* [classes] host time when all is issued */
    struct bb_sim_busy {
        double link_ns, nic_ns, uplink_ns[BB_TIERS]; /* that all which goes over them takes, by the busier direction */
    } * busy;                                        /* [classes] of a machine that shares, else NULL */
    int n_ended;
};

/*
 * bb_sim_init - prepares the step; what does not match (checks 1 and 2) goes to faults. cluster: whose times and
 * nodes count, NULL for neither. conditions: NULL for an even machine. With faults of place (see bb_rank_classes_init)
 * there is nothing to run: m->classes.n == 0.
 */
int bb_sim_init(struct bb_sim *m, const struct bb_step *step, const struct bb_cluster *cluster,
                const struct bb_conditions *conditions, struct bb_faults *faults) BB_MUST_CHECK;
void bb_sim_release(struct bb_sim *m);

/* class_refinement.c: of bb_sim_init; which ranks behave alike on this machine. */
int bb_sim_find_classes(struct bb_sim *m, struct bb_faults *faults) BB_MUST_CHECK;

/* bb_simulate - execute. serialised: the tasks of a rank one after another in issue order. All tasks ended:
 * run->n_ended == task_base[classes.n]. */
int bb_simulate(const struct bb_sim *m, bool serialised, struct bb_sim_run *run) BB_MUST_CHECK;
void bb_sim_run_release(struct bb_sim_run *run);
/* bb_simulate_samples - step_ns[samples]: how long the step lasts in each sample of the jitter. Every task of it ends. */
int bb_simulate_samples(struct bb_sim *m, int samples, int64_t *step_ns) BB_MUST_CHECK;
int64_t bb_sim_step_ns(const struct bb_sim *m, const struct bb_sim_run *run); /* of the slowest rank */

static inline const struct bb_task_graph *bb_sim_task_graph(const struct bb_sim *m, int class_id)
{
    return m->graph_of[class_id];
}

/* bb_sim_mate_task - the task that the alltoallv of that order is at another place; BB_NONE: it has none. */
static inline int bb_sim_alltoallv_task(const struct bb_sim *m, int class_id, int comm, int order)
{
    const struct bb_task_graph *graph = bb_sim_task_graph(m, class_id);

    return order < graph->n_alltoallvs[comm] ? m->task_base[class_id] + graph->alltoallvs[comm][order] : BB_NONE;
}

/* bb_sim_member_task - of the i-th member of a rendezvous, the task that is its collective of that order. */
static inline int bb_sim_member_task(const struct bb_sim *m, const struct bb_sim_instance *inst, int i, int order)
{
    int class_id = m->members[inst->first + i].class_id;

    return m->task_base[class_id] + bb_sim_task_graph(m, class_id)->collectives[inst->comm][order];
}

#endif
