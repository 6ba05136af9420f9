/*
 * task_graph.h - the program of a role as a graph of tasks, for abstract execution by the checks and the prediction.
 *
 * A task is a set of operations that start and end together: a compute operation, a collective, an alltoallv, or an
 * exchange (all sends and receives of one group call on one communicator). Tasks are in issue order. A task starts when
 * all of the following have ended: the previous tasks on its streams, the tasks for which its operations wait (events),
 * and the previous task on its communicator. The last condition follows NCCL, which runs the operations of a
 * communicator one after another in issue order, on any streams.
 */
#ifndef BB_PROXIES_SIMULATE_GRAPH_TASK_GRAPH_H
#define BB_PROXIES_SIMULATE_GRAPH_TASK_GRAPH_H

#include "bootstrap/base/key_index.h"
#include "proxies/step/layout.h"
#include "proxies/step/program.h"

enum bb_task_kind { BB_TASK_COMPUTE, BB_TASK_COLLECTIVE, BB_TASK_EXCHANGE, BB_TASK_ALLTOALLV };

struct bb_task {
    enum bb_task_kind kind;
    int comm;
    int first, n; /* exchange: the task's operations are graph.exchanged[first .. first + n); other kinds: first is
                     the task's only operation, n is 1 */
    int order;    /* collective, alltoallv: sequence number among the tasks of this kind on the communicator, from 0 */
    int issue;    /* index of the host launch (kernel launch, NCCL call or group call) that issues the task */
    int next, n_next; /* graph.next[next .. next + n_next): tasks that depend on this task */
    int n_before;     /* number of tasks on which this task depends */
};

/* A channel: one peer address in the program of a role, that is, a communicator, a peer kind (absolute index, or
 * offset relative to the calling rank's index) and a peer number. sends, recvs: indices of the operations with this
 * peer address, in issue order. */
struct bb_channel {
    int comm, peer;
    enum bb_peer_kind peer_kind;
    int *sends, *recvs;
    int n_sends, n_recvs;
};

struct bb_task_graph {
    const struct bb_program *program;
    struct bb_task *tasks;
    int n_tasks, n_issues;
    int *task_of;   /* [n_ops] task of each operation */
    int *exchanged; /* indices of the sends and receives of all exchanges; those of one exchange are consecutive */
    int *next;
    bool *issue_computes; /* [n_issues] true: the launch is a compute kernel; false: an NCCL call */
    int *collectives[BB_MAX_COMMS], n_collectives[BB_MAX_COMMS]; /* [n_collectives] tasks of the collectives on each
                                                                    communicator, in issue order */
    int *alltoallvs[BB_MAX_COMMS], n_alltoallvs[BB_MAX_COMMS];   /* [n_alltoallvs] tasks of the alltoallvs on each
                                                                    communicator, in issue order */
    /* one channel per peer address; for each peer of an alltoallv a channel is added without entries in sends and
     * recvs, because the messages of an alltoallv are not separate operations */
    struct bb_channel *channels;
    int n_channels;
    struct bb_key_index channel_index; /* finds a channel by communicator, peer_kind and peer number */
    int min_offset[BB_MAX_COMMS], max_offset[BB_MAX_COMMS]; /* range of the peer numbers that are relative to the
                                                               rank (BB_PEER_OFFSET); 1 and 0: no relative peers */
    int *channel_of; /* [n_ops] channel of each send and receive; BB_NONE for other operations */
    bool uses[BB_MAX_COMMS], rooted_by_offset;
};

/* bb_task_graph_init - builds the task graph s of program p. p must outlive s. Returns 0 or -BB_EFAIL. The caller
 * releases s with bb_task_graph_release, which also accepts a partly initialized s. */
int bb_task_graph_init(struct bb_task_graph *s, const struct bb_program *p) BB_MUST_CHECK;
void bb_task_graph_release(struct bb_task_graph *s);

/* bb_task_graph_channel - returns the channel with this communicator, peer kind and peer number, or BB_NONE. */
int bb_task_graph_channel(const struct bb_task_graph *s, int comm, enum bb_peer_kind kind, int peer);

#endif
