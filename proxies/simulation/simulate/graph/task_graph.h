/*
 * task_graph.h - the program of a role (ranks that run the same program) as a graph of tasks, for abstract execution by
 * the checks and the prediction.
 *
 * A task is a set of operations that start and end together: a compute operation, a collective, an alltoallv, or an
 * exchange (all sends and receives of one group call on one communicator). Tasks are in the order in which the host
 * issues them. A task starts when the following tasks have ended: the previous tasks on its streams, the tasks for
 * whose CUDA events it waits, and the previous task on its communicator. The last condition follows NCCL, which runs
 * the operations of a communicator one after another in issue order, on any streams.
 */
#ifndef BB_PROXIES_SIMULATION_SIMULATE_GRAPH_TASK_GRAPH_H
#define BB_PROXIES_SIMULATION_SIMULATE_GRAPH_TASK_GRAPH_H

#include "bootstrap/base/key_index.h"
#include "proxies/form/step/layout.h"
#include "proxies/form/step/program.h"

enum bb_task_kind { BB_TASK_COMPUTE, BB_TASK_COLLECTIVE, BB_TASK_EXCHANGE, BB_TASK_ALLTOALLV };

struct bb_task {
    enum bb_task_kind kind;
    int comm;
    int first, n;     /* exchange: the task's sends and receives are graph.exchanged[first .. first + n); other kinds of
                         task: first is the index of the task's only operation, and n is 1 */
    int order;        /* collective, alltoallv: sequence number among the program's collectives (or alltoallvs) on this
                         communicator, from 0 */
    int issue;        /* index of the host call (kernel launch, NCCL call or NCCL group call) that issues the task */
    int next, n_next; /* graph.next[next .. next + n_next): tasks that depend on this task */
    int n_before;     /* number of tasks on which this task depends */
};

/* One peer address in the program of a role: a communicator, a kind of address (absolute rank in the communicator,
 * or offset relative to the calling rank) and a number. sends, recvs: indices of the operations with this peer
 * address, in issue order. */
struct bb_channel {
    int comm, peer;
    enum bb_peer_kind peer_kind;
    int *sends, *recvs;
    int n_sends, n_recvs;
};

struct bb_task_graph {
    const struct bb_program *program;
    struct bb_task *tasks;
    int n_tasks, n_issues; /* n_issues: number of host calls (kernel launches, NCCL calls and NCCL group calls) */
    int *task_of;          /* [n_ops] task of each operation */
    int *exchanged; /* indices (program->ops) of the sends and receives of all exchanges; those of one exchange are
                       consecutive */
    int *next;      /* dependent tasks of each task, see bb_task.next */
    bool *issue_computes; /* [n_issues] true: the host call launches a compute kernel; false: it calls NCCL */
    int *collectives[BB_MAX_COMMS], n_collectives[BB_MAX_COMMS]; /* [n_collectives] indices of the tasks that are
                                                                    collectives on each communicator, in issue order */
    int *alltoallvs[BB_MAX_COMMS], n_alltoallvs[BB_MAX_COMMS];   /* [n_alltoallvs] indices of the tasks that are
                                                                    alltoallvs on each communicator, in issue order */
    /* [n_channels] one per distinct peer address. A peer of an alltoallv has an element with empty sends and recvs,
     * because the messages of an alltoallv are not separate operations. */
    struct bb_channel *channels;
    int n_channels;
    struct bb_key_index channel_index; /* finds the index in `channels` by communicator, peer_kind and peer number */
    /* smallest and largest relative peer number (BB_PEER_OFFSET) on each communicator; 1 and 0: the program has no
     * relative peers */
    int min_offset[BB_MAX_COMMS], max_offset[BB_MAX_COMMS];
    int *channel_of;         /* [n_ops] index in `channels` of the peer of each send and receive; BB_NONE for other
                                operations */
    bool uses[BB_MAX_COMMS]; /* true: the program has operations on the communicator */
    bool rooted_by_offset;   /* true: the program gives the root of a collective relative to the calling rank */
};

/* bb_task_graph_init - builds the task graph s of program p. p must outlive s. The caller releases s with
 * bb_task_graph_release, which also accepts a zeroed s. */
void bb_task_graph_init(struct bb_task_graph *s, const struct bb_program *p);
void bb_task_graph_release(struct bb_task_graph *s);

/* bb_task_graph_channel - returns the index in s->channels of the peer address with this communicator, kind and
 * number, or BB_NONE. */
int bb_task_graph_channel(const struct bb_task_graph *s, int comm, enum bb_peer_kind kind, int peer);

#endif
