/*
 * task_graph.h - a role's program prepared for abstract execution. Internal to the checks and the prediction.
 *
 * A task is what starts and ends as one: a compute kernel, a collective, all sends and receives that one call has on one
 * communicator, or an alltoallv, which stands for such a call. Tasks stand in issue order. A task starts when the tasks before it on its streams, the ones that
 * its operations wait for, and the one before it on its communicator have ended: NCCL runs the operations of a
 * communicator one after another, in issue order, whatever streams they are on.
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
    int order;        /* collective, alltoallv: how many of its communicator stand before it      */
    int issue;        /* the how-manieth launch of the host it belongs to                         */
    int next, n_next; /* graph.next[next .. next + n_next): the tasks that wait for this one    */
    int n_before;     /* how many tasks this one waits for                                        */
};

/* Everybody whom a role sends to or receives from by the same words: the operations in order. */
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
    int *exchanged; /* operations of the exchanges                                     */
    int *next;
    bool *issue_computes; /* [n_issues] a kernel launch, not an NCCL one               */
    int *collectives[BB_MAX_COMMS], n_collectives[BB_MAX_COMMS]; /* tasks              */
    int *alltoallvs[BB_MAX_COMMS], n_alltoallvs[BB_MAX_COMMS];   /* tasks              */
    struct bb_channel *channels; /* also of those whom an alltoallv meets, without operations */
    int n_channels;
    struct bb_key_index channel_index;                         /* of channels by comm, kind and peer */
    int min_offset[BB_MAX_COMMS], max_offset[BB_MAX_COMMS]; /* of the channels by offset; 1 and 0: none */
    int *channel_of;                                           /* [n_ops] */
    bool uses[BB_MAX_COMMS], rooted_by_offset;
};

/* release is fine on a half-made one. */
int bb_task_graph_init(struct bb_task_graph *s, const struct bb_program *p) BB_MUST_CHECK;
void bb_task_graph_release(struct bb_task_graph *s);

/* bb_task_graph_channel - the channel of exactly these words, BB_NONE. */
int bb_task_graph_channel(const struct bb_task_graph *s, int comm, enum bb_peer_kind kind, int peer);

#endif
