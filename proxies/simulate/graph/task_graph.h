/*
 * task_graph.h - a role's program as a graph of tasks for abstract execution. Internal to the checks and the
 * prediction.
 *
 * A task starts and ends as a unit: a compute operation, a collective, all sends and receives of one group call on one
 * communicator (an exchange), or an alltoallv. Tasks are in issue order. A task starts when the previous tasks on its
 * streams, the tasks for which its operations wait (events), and the previous task on its communicator have ended: NCCL
 * runs the operations of a communicator one after another in issue order, on whatever streams they are.
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
    int first, n;     /* exchange: graph.exchanged[first .. first + n); else the operation, n = 1 */
    int order;        /* collective, alltoallv: number of earlier ones on its communicator */
    int issue;        /* index of the host launch that contains the task */
    int next, n_next; /* graph.next[next .. next + n_next): tasks that depend on this one */
    int n_before;     /* number of dependencies */
};

/* All peers that a role names in the same way (same communicator, kind and number); its operations in order. */
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
    int *task_of;   /* [n_ops]                                                         */
    int *exchanged; /* operations of the exchanges, exchange by exchange */
    int *next;
    bool *issue_computes; /* [n_issues] the launch is a compute kernel, not an NCCL call */
    int *collectives[BB_MAX_COMMS], n_collectives[BB_MAX_COMMS]; /* task numbers, in order */
    int *alltoallvs[BB_MAX_COMMS], n_alltoallvs[BB_MAX_COMMS];   /* task numbers, in order */
    struct bb_channel *channels; /* includes the peers of alltoallv, which have no operations here */
    int n_channels;
    struct bb_key_index channel_index;                      /* key: comm, kind, peer */
    int min_offset[BB_MAX_COMMS], max_offset[BB_MAX_COMMS]; /* range of the relative peers; 1 and 0: no relative peer */
    int *channel_of;                                        /* [n_ops] */
    bool uses[BB_MAX_COMMS], rooted_by_offset;
};

/* Owner: the caller releases s with bb_task_graph_release, which also accepts a partly initialised s. */
int bb_task_graph_init(struct bb_task_graph *s, const struct bb_program *p) BB_MUST_CHECK;
void bb_task_graph_release(struct bb_task_graph *s);

/* bb_task_graph_channel - the channel with exactly this communicator, kind and peer; BB_NONE: none. */
int bb_task_graph_channel(const struct bb_task_graph *s, int comm, enum bb_peer_kind kind, int peer);

#endif
