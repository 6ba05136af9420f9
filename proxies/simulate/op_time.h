/* op_time.h - what operations of a step program ask of the machine. */
#ifndef BB_PROXIES_SIMULATE_OP_TIME_H
#define BB_PROXIES_SIMULATE_OP_TIME_H

#include "bootstrap/base/key_index.h"
#include "proxies/machine/cluster.h"
#include "proxies/step/program.h"

/* bb_op_kernels_ns - that its kernels take alone, launches not waited for; 0 of communication. */
int64_t bb_op_kernels_ns(const struct bb_cluster *c, const struct bb_op *op);

/* A compute operation lasts gpu_ns from when it may start on, and ends host_ns after the host begins its first launch at
 * the earliest; the host issues it in issue_ns, its first kernel in first_ns: of real work each product and pass is
 * launched by itself, and none starts before it is. */
struct bb_work_time {
    int64_t gpu_ns, host_ns, issue_ns, first_ns;
};
struct bb_work_time bb_op_work_time(const struct bb_cluster *c, const struct bb_op *op);
/* bb_work_end_ns - when it ends that may start at `start_ns` and whose first launch the host begins at host_ns. */
static inline int64_t bb_work_end_ns(const struct bb_work_time *work, int64_t start_ns, int64_t host_ns)
{
    const int64_t gpu = start_ns + work->gpu_ns, host = host_ns + work->host_ns;

    return gpu > host ? gpu : host;
}

int64_t bb_op_slowed_ns(int64_t ns, double times); /* that it takes on a GPU that takes so many times as long */

/* bb_op_collective - the collective that the operation is, on a communicator of so many ranks on so many nodes,
 * which lie so in the machine's fabric. */
struct bb_collective bb_op_collective(const struct bb_op *op, int ranks, int nodes, const struct bb_node_placement *placement);

/* A step has few works and few calls, each many times: their times, reckoned once. {.cluster = ...} is empty. */
#define BB_OP_TIMES(c)                                                                                                 \
    {                                                                                                                  \
        .cluster = (c), .kernel_lists = {.key_bytes = sizeof(void *) + sizeof(int64_t)}, .calls = {                           \
            .key_bytes = 6 * sizeof(int) + sizeof(size_t)                                                              \
        }                                                                                                              \
    }
struct bb_op_times {
    const struct bb_cluster *cluster;
    struct bb_key_index kernel_lists, calls;
    struct bb_work_time *of_work; /* [n_kernel_lists] */
    struct bb_cost *of_call;      /* [n_calls] */
    int n_kernel_lists, n_calls;         /* as many as the indices have, unless there was no memory */
};
/* bb_op_times_call - `where` stands for the call's ranks, nodes and spread. Returns the number of this call there. */
int bb_op_times_work(struct bb_op_times *t, const struct bb_op *op, struct bb_work_time *work) BB_MUST_CHECK;
int bb_op_times_call(struct bb_op_times *t, int where, const struct bb_collective *call,
                     struct bb_cost *cost) BB_MUST_CHECK;
void bb_op_times_release(struct bb_op_times *t);

#endif
