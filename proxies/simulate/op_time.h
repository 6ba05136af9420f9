/* op_time.h - times of the operations of a step program (proxies/step/program.h) on a machine. */
#ifndef BB_PROXIES_SIMULATE_OP_TIME_H
#define BB_PROXIES_SIMULATE_OP_TIME_H

#include "bootstrap/base/key_index.h"
#include "proxies/machine/cluster.h"
#include "proxies/step/program.h"

/* bb_op_kernels_ns - returns the total time of the operation's kernels, without launch overhead; 0 for
 * communication. */
int64_t bb_op_kernels_ns(const struct bb_cluster *c, const struct bb_op *op);

/*
 * The time of a compute operation. In a program with real kernels, each GEMM and each memory-bound kernel is launched
 * separately, and no kernel starts before its launch.
 *   gpu_ns    duration on the GPU if no kernel waits for its launch
 *   host_ns   shortest time from the begin of the first launch on the host to the end of the operation
 *   issue_ns  host time to issue the whole operation
 *   first_ns  host time to issue its first kernel
 */
struct bb_work_time {
    int64_t gpu_ns, host_ns, issue_ns, first_ns;
};
struct bb_work_time bb_op_work_time(const struct bb_cluster *c, const struct bb_op *op);
/* bb_work_end_ns - returns the end of an operation that can start on the GPU at start_ns and whose first launch
 * begins on the host at host_ns. */
static inline int64_t bb_work_end_ns(const struct bb_work_time *work, int64_t start_ns, int64_t host_ns)
{
    const int64_t gpu = start_ns + work->gpu_ns, host = host_ns + work->host_ns;

    return gpu > host ? gpu : host;
}

int64_t bb_op_slowed_ns(int64_t ns, double times); /* returns ns x times, rounded; times: slowdown factor of the
                                                      kernels of a GPU */

/* bb_op_collective - describes a collective operation of a step program as input of the cost model (cluster.h), for
 * a communicator with this number of ranks and nodes and this placement. Leaves members_on_root_node 0. */
struct bb_collective bb_op_collective(const struct bb_op *op, int ranks, int nodes,
                                      const struct bb_node_placement *placement);

/* A cache of operation times: a step has few distinct kernel lists and collective calls, and uses each many times.
 * BB_OP_TIMES(c) initializes an empty cache. */
#define BB_OP_TIMES(c)                                                                                                 \
    {                                                                                                                  \
        .cluster = (c), .kernel_lists = {.key_bytes = sizeof(void *) + sizeof(int64_t)}, .calls = {                    \
            .key_bytes = 6 * sizeof(int) + sizeof(size_t)                                                              \
        }                                                                                                              \
    }
struct bb_op_times {
    const struct bb_cluster *cluster;
    struct bb_key_index kernel_lists, calls;
    struct bb_work_time *of_work; /* [n_kernel_lists] time of each pair of a kernel list and its number of executions
                                     (bb_op.work_times) */
    struct bb_cost *of_call;      /* [n_calls] cost of each collective call */
    int n_kernel_lists, n_calls;  /* number of entries in of_work and of_call; equal to the number of keys in
                                     kernel_lists and calls, except after an out-of-memory error */
};
/*
 * bb_op_times_work - returns the time of a compute operation in *work.
 *   Returns  0 or -BB_EFAIL
 * bb_op_times_call - returns the cost of a collective call in *cost.
 *   comm_key  number of the communicator; calls with the same comm_key have the same ranks, nodes and placement
 *   Returns   an index that is unique for comm_key and call, or -BB_EFAIL
 */
int bb_op_times_work(struct bb_op_times *t, const struct bb_op *op, struct bb_work_time *work) BB_MUST_CHECK;
int bb_op_times_call(struct bb_op_times *t, int comm_key, const struct bb_collective *call,
                     struct bb_cost *cost) BB_MUST_CHECK;
void bb_op_times_release(struct bb_op_times *t);

#endif
